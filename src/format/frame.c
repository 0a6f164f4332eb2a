/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of eight bytes: whether the header's length is one that the file can have and, if not,
 * what the file is instead. Anything may be opened by mistake, so a bad length is first taken for a
 * sign of another kind of file, and only then for a damaged one.
 */
#include "frame.h"

#include "bytes.h"
#include "error.h"
#include "sniff.h"

/* The sizes go along as numbers, so that a program can offer to raise the limit. */
static coffer_status fail_too_large(uint64_t header_size, uint64_t limit, coffer_error *err)
{
    const coffer_status code = coffer__fail_at(
        err, COFFER_ERR_HEADER_TOO_LARGE, 0,
        "the header says it has %u bytes, more than the limit of %u: this is not a safetensors file, or "
        "the limit must be raised",
        header_size, limit);
    return coffer__fail_sizes(err, code, limit, header_size);
}

/* A file of 1 to 7 bytes, of which `size` are known. Even those may show what it is: a zip archive,
   or text. */
static coffer_status fail_too_short(const uint8_t *bytes, size_t size, uint64_t file_size, coffer_error *err)
{
    const coffer_status foreign = size > 0 ? coffer__sniff(bytes, size, err) : COFFER_OK;
    if (foreign != COFFER_OK) {
        return foreign;
    }
    const coffer_status code = coffer__fail_at(
        err, COFFER_ERR_TOO_SHORT, 0,
        "the file has %u of the 8 bytes that give the length of its header; get the file again", file_size);
    return coffer__fail_sizes(err, code, COFFER__FRAME_SIZE, file_size);
}

/*
 * Judges the header's length. A length of 0, above the limit or beyond the file is impossible; such
 * a file may be of another kind. But a length within the limit, before a brace, looks like a file
 * that was cut off or has lost its first bytes: then it is not sniffed, since the answer is to get
 * the file again.
 */
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

/*
 * The order of checks is that of the verdicts in docs/format.md. With `at_once` the whole header
 * has to be here before the intake turns to it, since there is no second call that could bring the
 * rest.
 */
coffer_status coffer__frame_open(coffer__intake *in, const coffer_parse_options *options, coffer_error *err)
{
    if (options->file_size != 0 && options->file_size < COFFER__FRAME_SIZE) {
        return fail_too_short(in->bytes, in->size, options->file_size, err);
    }
    if (in->size < COFFER__FRAME_SIZE) {
        in->end = COFFER__FRAME_SIZE;
        return coffer__intake_rest(in, 0, err);
    }
    const coffer_status status = check_frame(in->bytes, in->size, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t end = COFFER__FRAME_SIZE + coffer__load_u64le(in->bytes);
    if (in->at_once && end > in->size) {
        in->end = end;
        return coffer__intake_rest(in, 0, err);
    }
    in->bytes += COFFER__FRAME_SIZE;
    in->size = (end < in->size ? (size_t)end : in->size) - COFFER__FRAME_SIZE;
    in->origin = COFFER__FRAME_SIZE;
    in->end = end;
    return COFFER_OK;
}

/* The padding is spaces, which end a header of JSON and of bintensors alike. */
void coffer__frame_seal(uint8_t *head, size_t used, size_t size)
{
    coffer__store_u64le(head, size - COFFER__FRAME_SIZE);
    memset(head + used, ' ', size - used);
}
