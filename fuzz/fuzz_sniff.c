/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what looks at the first bytes of a file that may be anything: coffer__sniff, and coffer_parse with file sizes that
 * are lies. The input is the file's first bytes, and lies at the edge of what may be touched; so does each prefix that is
 * tried. What comes out must be a code that can come, with an error that says the same and can be shown on a terminal.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "sniff.h"

#define ENOUGH 512 /* bytes, to say what a file is */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool is_foreign(coffer_status status)
{
    return status >= COFFER_ERR_IS_LFS_POINTER && status <= COFFER_ERR_IS_CONVERTIBLE;
}

static void expect_error(const coffer_error *err, coffer_status status)
{
    expect(err->code == status, "the error has the code that was returned");
    const size_t length = strnlen(err->message, sizeof err->message);
    expect(length > 0 && length < sizeof err->message, "there is a message, and it ends");
    char again[4 * sizeof err->message];
    /* Escaping leaves what is safe to show as it is, but for backslashes, which the message's own escapes have. */
    const size_t escaped = coffer_escape(err->message, length, again, sizeof again);
    size_t backslashes = 0;
    for (size_t i = 0; i < length; i++) {
        backslashes += err->message[i] == '\\';
    }
    expect(escaped == length + backslashes, "the message can be shown");
}

static coffer_status sniff_prefix(const uint8_t *bytes, size_t size)
{
    coffer_error err;
    const uint8_t *edge = guarded_copy(bytes, size);
    const coffer_status status = coffer__sniff(edge, size, &err);
    expect(coffer__sniff(edge, size, NULL) == status, "the answer does not depend on the error");
    expect(status == COFFER_OK || is_foreign(status), "the answer is a kind of file, or none");
    if (status != COFFER_OK) {
        expect_error(&err, status);
        expect(err.offset == 0, "it is the file's beginning that tells");
    }
    return status;
}

static void parse_with(const uint8_t *edge, size_t size, uint64_t file_size)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file_size;
    coffer_table *table = NULL;
    uint64_t need = 0;
    coffer_error err;
    const coffer_status status = coffer_parse(&table, &need, edge, size, coffer_libc_allocator(), &options, &err);
    expect((status == COFFER_OK) == (table != NULL), "there is a table when all is well, and only then");
    if (status == COFFER_NEED_MORE) {
        expect(need > size, "what is needed is more than what was given");
        expect(need == 8 || file_size == 0 || need <= file_size, "no more is needed than the file has");
        return;
    }
    if (status != COFFER_OK) {
        expect_error(&err, status);
        expect(!is_foreign(status) || err.offset == 0, "what is something else is so from its beginning");
        return;
    }
    const uint64_t end = coffer_table_data_offset(table) + coffer_table_data_size(table);
    expect(need == coffer_table_data_offset(table) && need <= size, "the header was among what was given");
    expect(file_size == 0 || file_size == end, "the file ends where its data end");
    coffer_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    const coffer_status whole = sniff_prefix(bytes, size);
    if (size > ENOUGH) {
        const coffer_status first = sniff_prefix(bytes, ENOUGH);
        expect(first == COFFER_OK || first == whole, "what the first bytes tell stays true");
    }
    /* The last byte chooses where else the input might end, and which lie is told. */
    const size_t last = size == 0 ? 0 : bytes[size - 1];
    if (size > 0) {
        sniff_prefix(bytes, last % size);
    }
    uint64_t reported = 0;
    for (size_t i = 0; i < 8 && i < size; i++) {
        reported |= (uint64_t)bytes[size - 1 - i] << (8 * i);
    }
    const uint64_t lies[] = { 1, 7, 8, 9, size / 2, size + 1, reported, UINT64_MAX };
    const uint8_t *edge = guarded_copy(bytes, size);
    parse_with(edge, size, 0);
    parse_with(edge, size, size);
    parse_with(edge, size, lies[last % (sizeof lies / sizeof lies[0])]);
    return 0;
}
