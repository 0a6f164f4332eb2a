/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a header: format/parse.h, for a caller that waits for bytes in its own way. */
#include "js.h"
#include "js_columns.h"
#include "parse.h"

static coffer__reading reading;

/* What a reading looks for and accepts. */
enum { FLAG_ALL_NOTES = 1, FLAG_UNKNOWN_DTYPES = 2, FLAG_HIDDEN_BYTES = 4 };

/* Begins with the first `size` bytes of the file, which coffer_js_alloc made space for. A size of the file, or of the
   largest header, that is 0 is not known. */
JS_EXPORT(coffer_js_read)
coffer_status coffer_js_read(const uint8_t *bytes, size_t size, uint64_t file_size, uint64_t max_header_size,
                             unsigned flags, unsigned format)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file_size;
    options.max_header_size = max_header_size;
    options.all_notes = (flags & FLAG_ALL_NOTES) != 0;
    options.unknown_dtypes = (flags & FLAG_UNKNOWN_DTYPES) != 0;
    options.hidden_bytes = (flags & FLAG_HIDDEN_BYTES) != 0;
    options.format = (coffer_format)format;
    return coffer__reading_begin(&reading, bytes, size, &js_arena, &options, &js_state.error);
}

/* COFFER_NEED_MORE and a wish, or how the reading ended: with COFFER_OK the answer has the table. */
JS_EXPORT(coffer_js_go_on) coffer_status coffer_js_go_on(void)
{
    coffer_table *table = NULL;
    coffer__wish wish = { 0, NULL, 0 };
    coffer_status status = coffer__reading_go_on(&reading, &wish, &table, &js_state.error);
    if (status == COFFER_NEED_MORE) {
        js_state.wish_offset = wish.offset;
        js_state.wish_to = (uint32_t)(size_t)wish.to;
        js_state.wish_size = (uint32_t)wish.size;
        return status;
    }
    coffer__reading_free(&reading);
    return status == COFFER_OK ? js_columns(table) : status;
}
