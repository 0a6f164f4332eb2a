/* SPDX-License-Identifier: Apache-2.0 */
/* Building a header: coffer/header.h. */
#include "declared.h"
#include "js.h"
#include "js_columns.h"

static coffer_header *header;

JS_EXPORT(coffer_js_header_new) coffer_status coffer_js_header_new(void)
{
    return coffer__header_create(&header, &js_arena, &js_state.error);
}

JS_EXPORT(coffer_js_header_add)
coffer_status coffer_js_header_add(const char *name, size_t name_len, unsigned dtype, const uint64_t *shape,
                                   size_t rank)
{
    return coffer_header_add(header, name, name_len, (coffer_dtype)dtype, shape, rank, &js_state.error);
}

JS_EXPORT(coffer_js_header_set)
coffer_status coffer_js_header_set(const char *key, size_t key_len, const char *value, size_t value_len)
{
    return coffer_header_set_metadata(header, key, key_len, value, value_len, &js_state.error);
}

/* The answer has the header's bytes, and its table: the order in which the tensors' bytes follow. */
JS_EXPORT(coffer_js_header_build)
coffer_status coffer_js_header_build(uint64_t alignment, uint64_t slack, unsigned format, unsigned empty_metadata)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    const coffer_table *table = NULL;
    const void *bytes = NULL;
    uint64_t size = 0;
    options.alignment = alignment;
    options.slack = slack;
    options.format = (coffer_format)format;
    options.empty_metadata = empty_metadata != 0;
    const coffer_status status = coffer_header_build(header, &options, &bytes, &size, &table, &js_state.error);
    if (status != COFFER_OK) {
        return status;
    }
    js_state.bytes = (uint32_t)(size_t)bytes;
    js_state.bytes_size = (uint32_t)size;
    return js_columns(table);
}
