/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as bytes: raw, as a .npy file, as a file of tensors; block by block, converted on the way when asked to. */
#include "get.h"

#include "cli_interrupt.h"
#include "cli_progress.h"
#include "cli_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Blocks ---- */

/* Where bytes go. */
typedef struct byte_sink {
    cli_output *out;       /* or */
    coffer_writer *writer; /* to its only tensor */
    uint64_t written;
} byte_sink;

static coffer_status put_bytes(byte_sink *sink, const void *bytes, uint64_t size, coffer_error *err)
{
    const uint64_t offset = sink->written;
    sink->written += size;
    if (sink->writer != NULL) {
        return coffer_writer_write(sink->writer, 0, offset, bytes, size, err);
    }
    cli_put(sink->out, bytes, (size_t)size);
    return COFFER_OK; /* whether it could be written is asked in the end */
}

/* So many elements of the block in memory, in the answer's dtype. */
static coffer_status put_elements(const get_request *request, byte_sink *sink, const void *data, uint64_t at,
                                  size_t count, coffer_error *err)
{
    const coffer_dtype dtype = request->tensor->dtype;
    const uint64_t size = (count * coffer_dtype_bits(request->as) + 7) / 8;
    if (request->as == dtype) {
        return put_bytes(sink, (const char *)data + at * coffer_dtype_bits(dtype) / 8, size, err);
    }
    double *values = malloc(count * sizeof *values);
    char *bytes = malloc((size_t)size);
    coffer_status status = values == NULL || bytes == NULL ? cli_no_memory(err) : COFFER_OK;
    if (status == COFFER_OK) {
        coffer_decode(dtype, data, at, count, values);
        coffer_encode(request->as, values, count, bytes);
        status = put_bytes(sink, bytes, size, err);
    }
    free(values);
    free(bytes);
    return status;
}

static coffer_status cancelled(coffer_error *err)
{
    *err = (coffer_error){ .code = COFFER_ERR_CANCELLED, .offset = COFFER_NO_OFFSET, .message = "cancelled" };
    return COFFER_ERR_CANCELLED;
}

static coffer_status put_all(const get_request *request, cli_view *view, byte_sink *sink, coffer_error *err)
{
    cli_progress progress;
    coffer_status status = COFFER_OK;
    cli_progress_begin(&progress, request->app, "writing", view->elements * coffer_dtype_bits(request->as) / 8);
    for (uint64_t i = 0; i < view->elements && status == COFFER_OK;) {
        const void *data = NULL;
        uint64_t at = 0;
        status = cli_view_need(view, i, &data, &at, err);
        if (status != COFFER_OK || (sink->out != NULL && sink->out->error != 0)) {
            break;
        }
        const uint64_t count = view->block_count - at;
        const uint64_t before = sink->written;
        status = put_elements(request, sink, data, at, (size_t)count, err);
        if (cli_progress_add(&progress, sink->written - before) != 0 && status == COFFER_OK) {
            status = cancelled(err);
        }
        i += count;
    }
    cli_progress_finish(&progress);
    return status;
}

/* ---- .npy ---- */

#define NPY_MAGIC "\x93NUMPY\x01\x00" /* version 1.0 */
#define NPY_FRAME 10                  /* bytes of the magic and of the header's length */
#define NPY_ALIGNMENT 64
#define NPY_HEADER_MAX 65535

bool get_has_npy(coffer_dtype dtype)
{
    return coffer_dtype_kind(dtype) != COFFER_KIND_FLOAT || dtype == COFFER_F16 || dtype == COFFER_F32 ||
           dtype == COFFER_F64;
}

/* "<f4": order, kind, bytes. */
static void npy_descr(coffer_dtype dtype, char text[8])
{
    static const char kinds[] = {
        [COFFER_KIND_BOOL] = 'b',  [COFFER_KIND_UNSIGNED] = 'u', [COFFER_KIND_SIGNED] = 'i',
        [COFFER_KIND_FLOAT] = 'f', [COFFER_KIND_COMPLEX] = 'c',
    };
    const unsigned bytes = coffer_dtype_bits(dtype) / 8;
    snprintf(text, 8, "%c%c%u", bytes == 1 ? '|' : '<', kinds[coffer_dtype_kind(dtype)], bytes % 100);
}

/* A Python literal, padded so that the data begins at a multiple of NPY_ALIGNMENT. */
static coffer_status put_npy_header(const get_request *request, const cli_view *view, cli_output *out,
                                    coffer_error *err)
{
    char descr[8];
    char *text = malloc(NPY_HEADER_MAX + 64);
    if (text == NULL) {
        return cli_no_memory(err);
    }
    npy_descr(request->as, descr);
    size_t len = (size_t)sprintf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (size_t i = 0; i < view->rank && len < NPY_HEADER_MAX; i++) {
        len += (size_t)sprintf(text + len,
                               view->rank == 1 ? "%" PRIu64 ","
                               : i == 0        ? "%" PRIu64
                                               : ", %" PRIu64,
                               view->axes[i].count);
    }
    const size_t padding = NPY_ALIGNMENT - (NPY_FRAME + len + 5) % NPY_ALIGNMENT;
    if (len + 5 + padding > NPY_HEADER_MAX) {
        free(text);
        *err = (coffer_error){ .code = COFFER_ERR_UNSUPPORTED, .offset = COFFER_NO_OFFSET };
        snprintf(err->message, sizeof err->message,
                 "%zu dimensions do not fit into the header of a .npy file; --format raw has no header", view->rank);
        return COFFER_ERR_UNSUPPORTED;
    }
    const size_t size = len + 5 + padding;
    const char frame[] = { (char)(size & 0xFF), (char)(size >> 8) };
    cli_put(out, NPY_MAGIC, NPY_FRAME - sizeof frame);
    cli_put(out, frame, sizeof frame);
    cli_put(out, text, len);
    cli_put_text(out, "), }");
    cli_put_repeat(out, ' ', padding);
    cli_put_char(out, '\n');
    free(text);
    return COFFER_OK;
}

coffer_status get_write_binary(const get_request *request, cli_view *view, cli_output *out, coffer_error *err)
{
    byte_sink sink = { .out = out };
    if (request->format == GET_NPY) {
        const coffer_status status = put_npy_header(request, view, out, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return put_all(request, view, &sink, err);
}

/* ---- Files of tensors ---- */

static coffer_status make_header(const get_request *request, const cli_view *view, coffer_header **header,
                                 coffer_error *err)
{
    uint64_t *shape = malloc((view->rank + 1) * sizeof *shape);
    if (shape == NULL) {
        return cli_no_memory(err);
    }
    for (size_t i = 0; i < view->rank; i++) {
        shape[i] = view->axes[i].count;
    }
    coffer_status status = coffer_header_new(header, coffer_libc_allocator(), err);
    if (status == COFFER_OK) {
        status = coffer_header_add(*header, request->tensor->name, request->tensor->name_len, request->as, shape,
                                   view->rank, err);
    }
    free(shape);
    return status;
}

coffer_status get_write_file(const get_request *request, cli_view *view, coffer_error *err)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.format = request->tensors;
    coffer_status status = make_header(request, view, &header, err);
    if (status == COFFER_OK) {
        status = request->output != NULL ? coffer_writer_open(&writer, header, request->output, &options, err)
                                         : coffer_writer_open_fd(&writer, header, STDOUT_FILENO, &options, err);
    }
    if (status == COFFER_OK) {
        byte_sink sink = { .writer = writer };
        status = put_all(request, view, &sink, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}
