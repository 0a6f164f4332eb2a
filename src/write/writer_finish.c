/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a writer: the complete file is looked at, if somebody asked for that, packed, if it is to be, and published. */
#include "error.h"
#include "pack_file.h"
#include "writer_check.h"
#include "writer_own.h"

/* A failure of what is looked at may be about another file, which it names then. */
static coffer_status writer_finish_show(const coffer_writer *writer, const coffer__writer_check *check,
                                        coffer_error *err)
{
    coffer *written = NULL;
    coffer_status status = coffer__writer_open_written(writer, &written, err);
    if (status == COFFER_OK) {
        status = check->look(check->ctx, written, err);
        coffer_close(written);
    }
    return status == COFFER_OK || err == NULL || err->path[0] != '\0' ? status
                                                                      : coffer__writer_fail(writer, status, err);
}

/* Publishes the complete file packed, in the place of the plain one, which coffer_writer_free discards. */
static coffer_status writer_finish_pack(const coffer_writer *writer, coffer_error *err)
{
    coffer *written = NULL;
    coffer_pack_options options = COFFER_PACK_OPTIONS_INIT;
    options.sync = writer->sync;
    options.progress = writer->sink.progress;
    options.progress_ctx = writer->sink.progress_ctx;
    coffer_status status = coffer__writer_open_written(writer, &written, err);
    if (status == COFFER_OK) {
        status =
            coffer__pack_file(written, 0, writer->path, &options, writer->replaces ? &writer->old : NULL, NULL, err);
        coffer_close(written);
    }
    return status == COFFER_OK ? status : coffer__writer_fail(writer, status, err);
}

/* A failure at any point leaves the writer unusable, and unless publishing itself had begun, coffer_writer_free discards the
   file. */
coffer_status coffer__writer_finish_checked(coffer_writer *writer, const coffer__writer_check *check, coffer_error *err)
{
    coffer_status status = coffer__writer_complete(writer, err);
    if (status == COFFER_OK && check != NULL) {
        status = writer_finish_show(writer, check, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return writer->packed ? writer_finish_pack(writer, err) : coffer__writer_publish(writer, err);
}

coffer_status coffer_writer_finish(coffer_writer *writer, coffer_error *err)
{
    return writer == NULL ? coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer is NULL")
                          : coffer__writer_finish_checked(writer, NULL, err);
}
