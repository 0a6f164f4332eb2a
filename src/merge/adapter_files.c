/* SPDX-License-Identifier: Apache-2.0 */
/* Writing an adapter's matrices, and publishing them with their configuration: see adapter_files.h for the contract. */
#include "adapter_files.h"

#include "alloc.h"
#include "declared.h"
#include "errno_status.h"
#include "error.h"
#include "floats.h"
#include "lora.h"
#include "options.h"
#include "os.h"
#include "pending_save.h"

#include <errno.h>
#include <string.h>

#define ADAPTER_ENCODE_ELEMENTS ((size_t)1 << 18) /* that are written at a time */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

coffer_status coffer__adapter_begin(coffer__adapter_files *files, const coffer_allocator *allocator, coffer_dtype dtype,
                                    coffer_error *err)
{
    memset(files, 0, sizeof *files);
    files->allocator = allocator;
    files->dtype = dtype;
    files->buffer = coffer__alloc_array(allocator, ADAPTER_ENCODE_ELEMENTS, sizeof(float), err);
    if (files->buffer == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer_header_new(&files->header, allocator, err);
    return status == COFFER_OK ? coffer__header_set_format(files->header, err) : status;
}

static bool adapter_make_paths(coffer__adapter_files *files, const char *folder, coffer__path *model)
{
    return coffer__path_copy(model, folder) && coffer__path_append(model, "/", 1) &&
           coffer__path_sibling(&files->config_path, model->text, COFFER__LORA_CONFIG_NAME) &&
           coffer__path_beside(&files->old_path, files->config_path.text, "", COFFER__PENDING_SAVE_OLD) &&
           coffer__path_append(model, COFFER__LORA_FILE_NAME, sizeof COFFER__LORA_FILE_NAME - 1);
}

static coffer_status adapter_open_config(coffer__adapter_files *files, const coffer__writing *text, coffer_sync sync,
                                         coffer_error *err)
{
    coffer_status status =
        text->failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the configuration of an adapter")
                     : coffer__sink_path(&files->config, files->allocator, files->config_path.text, sync, false, err);
    files->config_open = status == COFFER_OK;
    if (status == COFFER_OK) {
        status = files->config.ops->reserve(&files->config, text->used, err);
    }
    return status == COFFER_OK ? files->config.ops->write_at(&files->config, 0, text->text, text->used, err) : status;
}

coffer_status coffer__adapter_open(coffer__adapter_files *files, const char *path, const coffer__writing *config,
                                   const coffer_writer_options *writing, coffer_error *err)
{
    coffer__path model;
    coffer_writer_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, writing, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (known.in_place || known.replaces != NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the files of an adapter cannot have the options in_place and replaces");
    }
    files->has_config = config != NULL;
    if (!(files->has_config ? adapter_make_paths(files, path, &model) : coffer__path_copy(&model, path))) {
        return coffer__errno_status(err, "write an adapter", path, ENAMETOOLONG);
    }
    status = coffer_writer_open(&files->writer, files->header, model.text, writing, err);
    return status == COFFER_OK && config != NULL ? adapter_open_config(files, config, known.sync, err) : status;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static coffer_status adapter_overflowed(const coffer__adapter_files *files, const char *name, size_t name_len,
                                        coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NUMBER, "the matrices of %q have numbers beyond the range of %s: write F32", name,
                 name_len, coffer_dtype_name(files->dtype));
    return coffer__fail_tensor(err, COFFER_ERR_NUMBER, name, name_len);
}

coffer_status coffer__adapter_write(coffer__adapter_files *files, const float *values, size_t count, const char *name,
                                    size_t name_len, coffer_error *err)
{
    const size_t size = coffer_dtype_bits(files->dtype) / 8;
    coffer__floats_losses losses = { 0, 0 };
    coffer_status status = COFFER_OK;
    for (size_t first = 0; first < count && status == COFFER_OK; first += ADAPTER_ENCODE_ELEMENTS) {
        const size_t left = count - first;
        const size_t now = left < ADAPTER_ENCODE_ELEMENTS ? left : ADAPTER_ENCODE_ELEMENTS;
        for (size_t done = 0; done < now; done += COFFER__FLOATS_MAX) {
            const size_t few = now - done < COFFER__FLOATS_MAX ? now - done : COFFER__FLOATS_MAX;
            coffer__floats_encode(files->dtype, values + first + done, few, files->buffer + done * size, &losses);
        }
        status = losses.overflowed > 0
                     ? adapter_overflowed(files, name, name_len, err)
                     : coffer_writer_write(files->writer, files->number, first * size, files->buffer, now * size, err);
    }
    files->number++;
    return status;
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */

coffer_status coffer__adapter_publish(coffer__adapter_files *files, coffer_error *err)
{
    const char *config = files->config_path.text;
    const char *old = files->old_path.text;
    if (!files->has_config) {
        return coffer_writer_finish(files->writer, err);
    }
    const int moved = coffer__os_rename(config, old);
    if (moved != 0 && moved != ENOENT) {
        return coffer__errno_status(err, "move the old configuration aside", config, moved);
    }
    coffer_status status = coffer_writer_finish(files->writer, err);
    if (status != COFFER_OK) {
        if (moved == 0) {
            (void)coffer__os_rename(old, config);
        }
        return status;
    }
    files->config_open = false;
    status = files->config.ops->publish(&files->config, err);
    if (status == COFFER_OK && moved == 0) {
        (void)coffer__os_unlink(old);
    }
    return status;
}

void coffer__adapter_close(coffer__adapter_files *files)
{
    if (files->config_open) {
        files->config.ops->discard(&files->config);
    }
    coffer_writer_free(files->writer);
    coffer_header_free(files->header);
    if (files->buffer != NULL) {
        coffer__free_array(files->allocator, files->buffer, ADAPTER_ENCODE_ELEMENTS, sizeof(float));
    }
}
