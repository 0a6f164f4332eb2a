/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file's first bytes → table, for the formats whose files have the same frame:
 *
 *   offset 0      8                     8 + N                     end of the file
 *          +------+---------------------+-------------------------+
 *          | N    | header: N bytes     | data: the tensors'      |
 *          | u64le|                     | bytes, without gaps     |
 *          +------+---------------------+-------------------------+
 *
 * The frame is judged here, before and after the header is read; the header belongs to its format's reader.
 */
#include "bytes.h"
#include "error.h"
#include "format.h"
#include "options.h"
#include "sniff.h"
#include "table.h"

/* ---- the frame ---- */

static coffer_status fail_too_large(uint64_t header_size, uint64_t limit, coffer_error *err)
{
    const coffer_status code = coffer__fail_at(
        err, COFFER_ERR_HEADER_TOO_LARGE, 0,
        "the header says it has %u bytes, more than the limit of %u: this is not a safetensors file, or "
        "the limit must be raised",
        header_size, limit);
    return coffer__fail_sizes(err, code, limit, header_size);
}

/* A file of 1 to 7 bytes, of which `size` are known. */
static coffer_status fail_too_short(const uint8_t *bytes, size_t size, uint64_t file_size, coffer_error *err)
{
    const coffer_status foreign = size > 0 ? coffer__sniff(bytes, size, err) : COFFER_OK;
    if (foreign != COFFER_OK) {
        return foreign;
    }
    const coffer_status code = coffer__fail_at(
        err, COFFER_ERR_TOO_SHORT, 0,
        "the file has %u of the 8 bytes that say how long its header is; get the file again", file_size);
    return coffer__fail_sizes(err, code, COFFER__FRAME_SIZE, file_size);
}

/* Judges the header's length. Whatever it is that has no possible one may be another kind of file. */
static coffer_status check_frame(const uint8_t *bytes, size_t size, const coffer_parse_options *options,
                                 coffer_error *err)
{
    const uint64_t header_size = coffer__load_u64le(bytes);
    const uint64_t limit = options->max_header_size;
    const uint64_t file_size = options->file_size;
    const bool past_end = file_size != 0 && header_size > file_size - COFFER__FRAME_SIZE;
    if (header_size != 0 && header_size <= limit && !past_end) {
        return COFFER_OK;
    }
    const bool plausible = header_size <= limit && size > COFFER__FRAME_SIZE && bytes[COFFER__FRAME_SIZE] == '{';
    const coffer_status foreign = plausible ? COFFER_OK : coffer__sniff(bytes, size, err);
    if (foreign != COFFER_OK) {
        return foreign;
    }
    if (header_size == 0) {
        return coffer__fail_at(
            err, COFFER_ERR_HEADER_LENGTH, 0,
            "the header's length is 0: this is not a safetensors file, or its first bytes were lost");
    }
    if (header_size > limit) {
        return fail_too_large(header_size, limit, err);
    }
    const coffer_status code =
        coffer__fail_at(err, COFFER_ERR_HEADER_TRUNCATED, 0,
                        "the file stops within its header: it has %u of at least %u bytes; get the file again",
                        file_size, COFFER__FRAME_SIZE + header_size);
    return coffer__fail_sizes(err, code, COFFER__FRAME_SIZE + header_size, file_size);
}

/* Reads and checks the options; zero fields become their defaults. */
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
    if ((unsigned)options->format > COFFER_FORMAT_BINTENSORS_ALPHA) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `format` has no such value");
    }
    return COFFER_OK;
}

/* ---- the header and the file's end ---- */

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
        code = coffer__fail_at(err, COFFER_ERR_TRAILING_BYTES, expected,
                               "the data ends at byte %u, but the file at byte %u (%u too many); get the file again",
                               expected, file_size, file_size - expected);
    }
    return coffer__fail_sizes(err, code, expected, file_size);
}

const char *coffer_format_name(coffer_format format)
{
    static const char *const names[] = { "", "safetensors", "bintensors", "bintensors, layout A" };
    return (unsigned)format < sizeof names / sizeof names[0] ? names[format] : "";
}

/* What the content says where nobody else does: bintensors begins with whether it has metadata, 0 or 1, and JSON never does. */
static coffer_format format_of(const uint8_t *header, const coffer_parse_options *options)
{
    if (options->format != COFFER_FORMAT_ANY) {
        return options->format;
    }
    return header[0] <= 1 ? COFFER_FORMAT_BINTENSORS : COFFER_FORMAT_SAFETENSORS;
}

/* Reads the header behind the frame, and sees that the file ends where its data do. */
static coffer_status parse_header(coffer_table **table, coffer__intake *header, const coffer_parse_options *options,
                                  coffer_error *err)
{
    coffer_table *made = NULL;
    const coffer_format format = format_of(header->bytes, options);
    coffer_status status = COFFER_OK;
    if (format == COFFER_FORMAT_SAFETENSORS) {
        status = coffer__safetensors_read(&made, header, options, err);
    } else {
        status = coffer__bintensors_read(&made, header, options, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    made->format = format;
    status = check_file_size(made->data_offset, made->data_size, options->file_size, err);
    if (status == COFFER_OK && options->all_notes) {
        status = coffer__table_note_case(made, COFFER__FRAME_SIZE, err);
    }
    if (status != COFFER_OK) {
        coffer_table_free(made);
        return status;
    }
    *table = made;
    return COFFER_OK;
}

static coffer_status need_more(uint64_t *need, uint64_t size)
{
    if (need != NULL) {
        *need = size;
    }
    return COFFER_NEED_MORE;
}

coffer_status coffer__parse_supplied(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                     const coffer__supply *supply, const coffer_allocator *allocator,
                                     const coffer_parse_options *options, coffer_error *err)
{
    if (table == NULL || (bytes == NULL && size > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "parsing needs a place for the table, and the bytes");
    }
    *table = NULL;
    coffer_parse_options chosen;
    coffer_status status = parse_options(options, &chosen, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (chosen.file_size != 0 && chosen.file_size < COFFER__FRAME_SIZE) {
        return fail_too_short(bytes, size, chosen.file_size, err);
    }
    if (size < COFFER__FRAME_SIZE) {
        return need_more(need, COFFER__FRAME_SIZE);
    }
    status = check_frame(bytes, size, &chosen, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t end = COFFER__FRAME_SIZE + coffer__load_u64le(bytes);
    if (end > size && supply == NULL) {
        return need_more(need, end);
    }
    coffer__intake header = { .supply = supply, .allocator = allocator };
    header.bytes = (const uint8_t *)bytes + COFFER__FRAME_SIZE;
    header.size = (end < size ? (size_t)end : size) - COFFER__FRAME_SIZE;
    header.origin = COFFER__FRAME_SIZE;
    header.end = end;
    status = parse_header(table, &header, &chosen, err);
    coffer__intake_free(&header);
    if (status == COFFER_OK && need != NULL) {
        *need = end;
    }
    return status;
}

coffer_status coffer__parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                            const coffer_allocator *allocator, const coffer_parse_options *options, coffer_error *err)
{
    return coffer__parse_supplied(table, need, bytes, size, NULL, allocator, options, err);
}
