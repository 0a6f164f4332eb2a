/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file's first bytes → table, whatever its format: which one it is, its reader, and what holds for
 * files of all formats. All of it is one reading, which continues from wish to wish; coffer_parse is a
 * reading of a single step.
 */
#include "parse.h"

#include "alloc.h"
#include "error.h"
#include "formats.h"
#include "options.h"
#include "table.h"

/* Reads and checks the options; zero fields become their defaults. The largest limit keeps every
   position in a header within 32 bits, which is what tables have for it. */
static coffer_status parse_options(const coffer_parse_options *given, coffer_parse_options *options, coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (options->max_header_size == 0) {
        options->max_header_size = COFFER_DEFAULT_MAX_HEADER_SIZE;
    }
    if (options->max_header_size > COFFER_LARGEST_MAX_HEADER_SIZE) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "max_header_size is above %u",
                            (uint64_t)COFFER_LARGEST_MAX_HEADER_SIZE);
    }
    if (coffer__format_at(options->format) == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `format` has no such value");
    }
    return COFFER_OK;
}

/* ---- the file's end ---- */

/*
 * Whether the file ends where its data do. Both ways are errors: fewer bytes are a download that
 * broke off, more are bytes that no tensor owns. 0 is a size that is not known. The sum cannot
 * overflow: readers check every range against 2^64-1 with the data's offset added.
 */
static coffer_status check_file_size(uint64_t data_offset, uint64_t data_size, uint64_t file_size, coffer_error *err)
{
    const uint64_t expected = data_offset + data_size;
    if (file_size == 0 || file_size == expected) {
        return COFFER_OK;
    }
    coffer_status code = COFFER_OK;
    if (file_size < expected) {
        code = coffer__fail_at(err, COFFER_ERR_DATA_TRUNCATED, file_size,
                               "the file stops early: it lacks %z of %z; get the file again", expected - file_size,
                               expected);
    } else {
        code =
            coffer__fail_at(err, COFFER_ERR_TRAILING_BYTES, expected,
                            "all tensors are there, up to byte %u, and after it %z that belong to none: cut them off "
                            "(coffer meta --fix), or get the file again",
                            expected, file_size - expected);
    }
    return coffer__fail_sizes(err, code, expected, file_size);
}

/* ---- a reading ---- */

/* An empty file has no bytes to point to; "" keeps every later pointer valid. */
coffer_status coffer__reading_begin(coffer__reading *reading, const void *bytes, size_t size,
                                    const coffer_allocator *allocator, const coffer_parse_options *options,
                                    coffer_error *err)
{
    memset(reading, 0, sizeof *reading);
    reading->in.bytes = bytes != NULL ? bytes : (const uint8_t *)"";
    reading->in.size = size;
    reading->in.allocator = allocator;
    return parse_options(options, &reading->options, err);
}

/* Between begin and the first step: the intake has not moved anything yet. */
void coffer__reading_slide(coffer__reading *reading, uint8_t *window, size_t window_size)
{
    reading->in.window = window;
    reading->in.window_size = window_size;
}

/* `format` is NULL when no step was taken. A reader may be dropped at any stage, also after its
   table was made. */
void coffer__reading_free(coffer__reading *reading)
{
    if (reading->format != NULL) {
        reading->format->free(&reading->reader);
    }
    coffer__intake_free(&reading->in);
}

/* What the options say, else what the file's first bytes tell. */
static void reading_choose(coffer__reading *reading)
{
    const coffer_format asked = reading->options.format;
    reading->number = asked != COFFER_FORMAT_ANY ? asked : coffer__format_sniff(reading->in.bytes, reading->in.size);
    reading->format = coffer__format_at(reading->number);
}

/* Checks that the file ends where its data do, and looks for what is costly to find. Comes last:
   docs/format.md has the order of faults. */
static coffer_status reading_judge(const coffer__reading *reading, coffer_table *table, coffer_error *err)
{
    const coffer_status status = check_file_size(table->data_offset, table->data_size, reading->options.file_size, err);
    if (status != COFFER_OK || !reading->options.all_notes) {
        return status;
    }
    return coffer__table_note_case(table, reading->format->header_at, err);
}

/*
 * The bytes of the last wish are taken to be there: only the caller can know. The format is chosen
 * in the first step and stays. A table that fails the last checks is freed, so a failure never
 * leaves one.
 */
coffer_status coffer__reading_go_on(coffer__reading *reading, coffer__wish *wish, coffer_table **table,
                                    coffer_error *err)
{
    coffer__intake *in = &reading->in;
    coffer_table *made = NULL;
    coffer__intake_given(in);
    if (reading->format == NULL) {
        reading_choose(reading);
    }
    coffer_status status = reading->format->read(&reading->reader, in, &reading->options, &made, err);
    if (status == COFFER_NEED_MORE) {
        *wish = (coffer__wish){ in->origin + in->size, in->to, in->wanted };
    }
    if (status != COFFER_OK) {
        return status;
    }
    made->format = reading->number;
    status = reading_judge(reading, made, err);
    if (status != COFFER_OK) {
        coffer_table_free(made);
        return status;
    }
    *table = made;
    return COFFER_OK;
}

/*
 * One step: a second one could bring nothing new. *need tells a caller that gets COFFER_NEED_MORE
 * how many of the file's first bytes to come back with, and one that succeeds where the header
 * ends.
 */
coffer_status coffer__parse_header(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                   const coffer_allocator *allocator, const coffer_parse_options *options,
                                   coffer_error *err)
{
    if (table == NULL || (bytes == NULL && size > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "parsing needs a place for the table, and the bytes");
    }
    *table = NULL;
    coffer__reading reading;
    coffer__wish wish = { 0, NULL, 0 };
    coffer_status status = coffer__reading_begin(&reading, bytes, size, allocator, options, err);
    reading.in.at_once = true;
    if (status == COFFER_OK) {
        status = coffer__reading_go_on(&reading, &wish, table, err);
    }
    coffer__reading_free(&reading);
    if (need != NULL && status == COFFER_NEED_MORE) {
        *need = wish.offset + wish.size;
    } else if (need != NULL && status == COFFER_OK) {
        *need = (*table)->data_offset;
    }
    return status;
}
