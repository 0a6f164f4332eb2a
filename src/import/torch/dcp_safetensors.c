/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a distributed checkpoint that torch has written with SerializationFormat.SAFETENSORS: what one process has is one
 * file of that format, with a tensor for each part, under the name of the whole. The place that the metadata have for a part
 * is that of the file.
 */
#include "dcp_safetensors.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "parse.h"

#include <string.h>

#define DCP_FIRST_BYTES 16

/* Its own archives begin with "PK", which would be a header of 19 thousand bytes at least that begins with no brace. */
static bool dcp_is_header(const uint8_t head[DCP_FIRST_BYTES])
{
    return memcmp(head, "PK\3\4", 4) != 0 && head[8] == '{';
}

static coffer_status dcp_parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                               const coffer__reader_file *file, coffer_error *err)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file->size;
    options.format = COFFER_FORMAT_SAFETENSORS;
    return coffer__parse_header(table, need, bytes, size, file->plan->allocator, &options, err);
}

coffer_status coffer__dcp_open_safetensors(coffer_table **table, const coffer__reader_file *file, coffer_error *err)
{
    uint8_t head[DCP_FIRST_BYTES];
    uint64_t need = 0;
    *table = NULL;
    if (file->size < sizeof head) {
        return COFFER_OK;
    }
    coffer_status status = coffer__input_files_read(file->input, file->file, file->size, 0, head, sizeof head, err);
    if (status != COFFER_OK || !dcp_is_header(head)) {
        return status;
    }
    status = dcp_parse(table, &need, head, sizeof head, file, err);
    if (status != COFFER_NEED_MORE) {
        return status;
    }
    /* What it needs was compared with the file and with the largest header that is read. */
    const size_t size = (size_t)need;
    uint8_t *bytes = coffer__alloc_array(file->plan->allocator, size, 1, err);
    if (bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    status = coffer__input_files_read(file->input, file->file, file->size, 0, bytes, size, err);
    if (status == COFFER_OK) {
        status = dcp_parse(table, &need, bytes, size, file, err);
    }
    coffer__free_array(file->plan->allocator, bytes, size, 1);
    return status;
}

coffer_status coffer__dcp_view_safetensors(const coffer__reader_file *file, const coffer_tensor *tensor,
                                           coffer__element element, uint32_t name, coffer__view *view,
                                           coffer_error *err)
{
    const coffer__import_plan_piece piece = {
        .file = file->file, .offset = tensor->offset, .stored_size = tensor->size, .size = tensor->size
    };
    *view = (coffer__view){ .element = element };
    view->row.dtype = tensor->dtype;
    view->row.rank = tensor->rank;
    view->row.item_size = coffer__element_facts_of(element)->size;
    /* The header's sizes multiply to the bytes there are, so no stride is too large where there are any. */
    uint64_t stride = tensor->size > 0 ? view->row.item_size : 0;
    for (size_t i = tensor->rank; i-- > 0;) {
        view->dimensions[i] = (coffer__import_plan_dimension){ tensor->shape[i], tensor->shape[i], (int64_t)stride };
        stride *= tensor->shape[i];
    }
    const coffer_status status = piece.size > 0 ? coffer__import_plan_put_piece(file->plan, &piece, err) : COFFER_OK;
    return status == COFFER_OK
               ? coffer__import_plan_put_storage(file->plan, piece.size > 0 ? 1 : 0, name, &view->row.storage, err)
               : status;
}
