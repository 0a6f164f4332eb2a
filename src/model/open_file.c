/* SPDX-License-Identifier: Apache-2.0 */
/* A model of one file, or of any other one source. */
#include "opening.h"

/* From coffer__model_of_source on, the model owns the source and coffer_close closes it. Failures
   have no path: the caller knows it, or there is none. */
coffer_status coffer__open_shard_source(coffer **model, coffer__byte_source *source, const char *path,
                                        const coffer_open_options *options, coffer_error *err)
{
    coffer *made = coffer__model_of_source(source, options, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__shard_read_header(made->shards, path, &made->allocator, options, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* `made` may be NULL if `status` is a failure. *model is set only on success. */
coffer_status coffer__open_hand_out(coffer **model, coffer *made, const char *path, coffer_status status,
                                    coffer_error *err)
{
    if (status == COFFER_OK) {
        status = coffer__shard_set_path(made->shards, path, &made->allocator, err);
    }
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* The file is checked again after its header was read, by its path: it may have been in the middle
   of an edit. An undo file that appeared means that an edit began in the meantime, and its message
   says more than whatever the parser made of a file in the middle of one. */
coffer_status coffer__open_file(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    coffer__byte_source source;
    coffer_status status = coffer__source_path(&source, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer *made = NULL;
    status = coffer__open_shard_source(&made, &source, path, options, err);
    /* This is checked whether the header was understood or not: what was read may have been the
       middle of an edit. */
    const coffer_status again = coffer__source_path_again(&source, path, err);
    return coffer__open_hand_out(model, made, path, again == COFFER_OK ? status : again, err);
}
