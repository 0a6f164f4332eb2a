/* SPDX-License-Identifier: Apache-2.0 */
/* Why: messages are what people see when something is wrong; they must be whole, safe on a terminal and never overflow.
   */
#include "support_cmocka.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

static void test_every_status_has_its_name(void **state)
{
    (void)state;
    static const coffer_status codes[] = {
        COFFER_OK,
        COFFER_NEED_MORE,
        COFFER_ERR_ARGUMENT,
        COFFER_ERR_MEMORY,
        COFFER_ERR_CANCELLED,
        COFFER_ERR_NOT_FOUND,
        COFFER_ERR_DIRECTORY,
        COFFER_ERR_NOT_REGULAR,
        COFFER_ERR_IO,
        COFFER_ERR_CHANGED,
        COFFER_ERR_UNSUPPORTED,
        COFFER_ERR_EMPTY,
        COFFER_ERR_TOO_SHORT,
        COFFER_ERR_HEADER_LENGTH,
        COFFER_ERR_HEADER_TOO_LARGE,
        COFFER_ERR_HEADER_TRUNCATED,
        COFFER_ERR_DATA_TRUNCATED,
        COFFER_ERR_TRAILING_BYTES,
        COFFER_ERR_JSON,
        COFFER_ERR_UTF8,
        COFFER_ERR_DEPTH,
        COFFER_ERR_TYPE,
        COFFER_ERR_NUMBER,
        COFFER_ERR_MISSING_FIELD,
        COFFER_ERR_HEADER_ENDS,
        COFFER_ERR_PADDING,
        COFFER_ERR_DUPLICATE_NAME,
        COFFER_ERR_DUPLICATE_KEY,
        COFFER_ERR_DTYPE,
        COFFER_ERR_OVERFLOW,
        COFFER_ERR_PARTIAL_BYTE,
        COFFER_ERR_RANGE,
        COFFER_ERR_SIZE,
        COFFER_ERR_HOLE,
        COFFER_ERR_OVERLAP,
        COFFER_ERR_IS_LFS_POINTER,
        COFFER_ERR_IS_HTML,
        COFFER_ERR_IS_JSON,
        COFFER_ERR_IS_ZIP,
        COFFER_ERR_IS_PICKLE,
        COFFER_ERR_IS_GGUF,
        COFFER_ERR_IS_HDF5,
        COFFER_ERR_IS_NUMPY,
        COFFER_ERR_IS_COMPRESSED,
        COFFER_ERR_IS_ZEROS,
        COFFER_ERR_IS_TEXT,
        COFFER_ERR_IS_TAR,
        COFFER_ERR_IS_ELF,
        COFFER_ERR_IS_OTHER,
        COFFER_ERR_IS_CONVERTIBLE,
        COFFER_ERR_NO_TENSOR,
        COFFER_ERR_NOT_MAPPED,
        COFFER_ERR_BUFFER_SIZE,
        COFFER_ERR_SLICE_SYNTAX,
        COFFER_ERR_INDEX,
        COFFER_ERR_STEP,
        COFFER_ERR_SLICE_BITS,
        COFFER_ERR_NAME,
        COFFER_ERR_MISSING_DATA,
        COFFER_ERR_WRITE_RANGE,
        COFFER_ERR_REPLACE,
        COFFER_ERR_UNDO,
        COFFER_ERR_NO_UNDO,
        COFFER_ERR_LOCKED,
        COFFER_ERR_LINKED,
        COFFER_ERR_NO_SLACK,
        COFFER_ERR_SHARD_NAME,
        COFFER_ERR_SHARD_LINK,
        COFFER_ERR_SHARD_MISSING,
        COFFER_ERR_NOT_IN_SHARD,
        COFFER_ERR_TWO_SHARDS,
        COFFER_ERR_INDEX_TOO_LARGE,
        COFFER_ERR_SHADOWED,
        COFFER_ERR_UNFINISHED,
        COFFER_ERR_URL,
        COFFER_ERR_NO_NETWORK,
        COFFER_ERR_CONNECT,
        COFFER_ERR_TIMEOUT,
        COFFER_ERR_CERTIFICATE,
        COFFER_ERR_HTTP,
        COFFER_ERR_ACCESS,
        COFFER_ERR_ANSWER,
        COFFER_ERR_REDIRECT,
        COFFER_ERR_OFFLINE,
        COFFER_ERR_NO_REPOSITORY,
        COFFER_ERR_NO_REVISION,
        COFFER_ERR_GATED,
        COFFER_ERR_NO_MODEL,
        COFFER_ERR_AMBIGUOUS,
        COFFER_ERR_NO_ALGORITHM,
        COFFER_ERR_NO_DIGESTS,
        COFFER_ERR_DIGESTS,
        COFFER_ERR_TENSOR_DIGEST,
        COFFER_ERR_METADATA_DIGEST,
        COFFER_ERR_CONTENT_DIGEST,
        COFFER_ERR_MANIFEST,
        COFFER_ERR_MANIFEST_NAME,
        COFFER_ERR_MANIFEST_ALGORITHM,
        COFFER_ERR_MANIFEST_ROOT,
        COFFER_ERR_KEY,
        COFFER_ERR_NOT_SIGNED,
        COFFER_ERR_SIGNATURE,
        COFFER_ERR_DAMAGED,
        COFFER_ERR_PICKLE,
        COFFER_ERR_CHECKSUM,
        COFFER_ERR_NO_EQUIVALENT,
        COFFER_ERR_ROOT,
        COFFER_ERR_VIEW,
        COFFER_ERR_PLAN,
        COFFER_ERR_UNKNOWN_INPUT,
        COFFER_ERR_NOT_EQUAL,
        COFFER_ERR_OPAQUE,
        COFFER_ERR_ARRAY,
        COFFER_ERR_NO_DEVICE,
        COFFER_ERR_DEVICE,
        COFFER_ERR_DEVICE_MEMORY,
        COFFER_ERR_DESTINATION,
        COFFER_ERR_BUDGET,
        COFFER_ERR_ENGINE,
        COFFER_ERR_TAKEN,
        COFFER_ERR_PEER,
        COFFER_ERR_PACKED,
        COFFER_ERR_PACK_HEAD,
        COFFER_ERR_PACK_TABLE,
        COFFER_ERR_PACK_CODE,
        COFFER_ERR_PACK_STREAM,
        COFFER_ERR_PACK_CHECKSUM,
        COFFER_ERR_PACK_FILE,
        COFFER_ERR_NOT_PACKED,
    };
    const size_t count = sizeof codes / sizeof codes[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = coffer_status_name(codes[i]);
        assert_string_not_equal(name, "UNKNOWN");
        assert_int_equal(strncmp(name, "COFFER", 6) == 0, 0);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(name, coffer_status_name(codes[k]));
        }
    }
    /* Every other number is unknown: no row of the table is missing from the list above. */
    size_t known = 0;
    for (int number = -10; number < 1000; number++) {
        known += strcmp(coffer_status_name((coffer_status)number), "UNKNOWN") != 0;
    }
    assert_int_equal(known, count);
    assert_string_equal(coffer_status_name(COFFER_ERR_DATA_TRUNCATED), "DATA_TRUNCATED");
}

static void test_message_is_formatted(void **state)
{
    (void)state;
    coffer_error err;
    memset(&err, 0xA5, sizeof err);
    const coffer_status code =
        coffer__fail_at(&err, COFFER_ERR_JSON, 77, "%s %u %d %d %x %x %q %p 100%% so", "text", UINT64_MAX, INT64_MIN,
                        (int64_t)5, (uint64_t)0, (uint64_t)0xBEEF, "a\nb", (size_t)3, "dir/\x1b[31m");
    assert_int_equal(code, COFFER_ERR_JSON);
    assert_int_equal(err.code, COFFER_ERR_JSON);
    assert_int_equal(err.offset, 77);
    assert_string_equal(err.message, "text 18446744073709551615 -9223372036854775808 5 0x0 0xbeef \"a\\x0ab\" "
                                     "\"dir/\\x1b[31m\" 100% so");
    assert_int_equal(err.os_error, 0);
    assert_int_equal(err.expected, 0);
    assert_string_equal(err.path, "");
    assert_string_equal(err.tensor, "");
}

static void test_numbers_at_their_ends(void **state)
{
    (void)state;
    coffer_error err;
    coffer__fail(&err, COFFER_ERR_IO, "%d %d %d %d", (int64_t)-1, (int64_t)0, (int64_t)1, INT64_MAX);
    assert_string_equal(err.message, "-1 0 1 9223372036854775807");
    coffer__fail(&err, COFFER_ERR_IO, "%x %x %x", UINT64_MAX, (uint64_t)15, (uint64_t)16);
    assert_string_equal(err.message, "0xffffffffffffffff 0xf 0x10");
}

static void test_sizes_have_their_unit(void **state)
{
    (void)state;
    static const struct {
        uint64_t size;
        const char *text;
    } cases[] = {
        { 0, "0 bytes" },
        { 1, "1 byte" },
        { 9999, "9999 bytes" },
        { 10000, "10.0 kB (10000 bytes)" },
        { 999949, "999.9 kB (999949 bytes)" },
        { 999950, "1.0 MB (999950 bytes)" },
        { 8388608, "8.4 MB (8388608 bytes)" },
        { 1000000, "1.0 MB (1000000 bytes)" },
        { 2290119864, "2.3 GB (2290119864 bytes)" },
        { UINT64_MAX, "18.4 EB (18446744073709551615 bytes)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_error err;
        coffer__fail(&err, COFFER_ERR_IO, "%z", cases[i].size);
        assert_string_equal(err.message, cases[i].text);
    }
}

static void test_without_an_error_only_the_code_comes_back(void **state)
{
    (void)state;
    assert_int_equal(coffer__fail(NULL, COFFER_ERR_IO, "%s", "nothing"), COFFER_ERR_IO);
    assert_int_equal(coffer__fail_at(NULL, COFFER_ERR_IO, 1, "x"), COFFER_ERR_IO);
    assert_int_equal(coffer__fail_path(NULL, COFFER_ERR_IO, "x"), COFFER_ERR_IO);
    assert_int_equal(coffer__fail_tensor(NULL, COFFER_ERR_IO, "x", 1), COFFER_ERR_IO);
    assert_int_equal(coffer__fail_sizes(NULL, COFFER_ERR_IO, 1, 2), COFFER_ERR_IO);
    assert_int_equal(coffer__fail_errno(NULL, COFFER_ERR_IO, 2), COFFER_ERR_IO);
    coffer__error_clear(NULL);
}

/* `text` is `kept` bytes of a long name's beginning, `gap`, and as many of its end. */
static void expect_cut(const char *text, size_t kept, const char *gap)
{
    assert_int_equal(strlen(text), 2 * kept + strlen(gap));
    assert_memory_equal(text, "headnnn", 7);
    assert_int_equal(text[kept - 1], 'n');
    assert_memory_equal(text + kept, gap, strlen(gap));
    assert_int_equal(text[kept + strlen(gap)], 'n');
    assert_string_equal(text + strlen(text) - 7, "nnntail");
}

static void test_long_parts_are_cut(void **state)
{
    (void)state;
    static const char ellipsis[] = "\xE2\x80\xA6";
    char name[2000];
    memset(name, 'n', sizeof name);
    memcpy(name, "head", 4);
    memcpy(name + sizeof name - 5, "tail", 5);
    coffer_error err;
    coffer__fail(&err, COFFER_ERR_NAME, "%q", name, sizeof name - 1);
    assert_int_equal(err.message[0], '"');
    assert_string_equal(err.message + strlen(err.message) - 1, "\"");
    err.message[strlen(err.message) - 1] = '\0';
    expect_cut(err.message + 1, 46, ellipsis);
    coffer__fail(&err, COFFER_ERR_NAME, "%p", name);
    err.message[strlen(err.message) - 1] = '\0';
    expect_cut(err.message + 1, 158, ellipsis);
    coffer__fail_tensor(&err, COFFER_ERR_NAME, name, sizeof name - 1);
    expect_cut(err.tensor, (sizeof err.tensor - 4) / 2, ellipsis);
    memset(err.path, 'x', sizeof err.path);
    coffer__fail_path(&err, COFFER_ERR_NAME, name);
    expect_cut(err.path, (sizeof err.path - 4) / 2, "...");
    /* The longest that fits is whole. */
    coffer__fail_path(&err, COFFER_ERR_NAME, name + sizeof name - sizeof err.path);
    assert_string_equal(err.path, name + sizeof name - sizeof err.path);
    coffer__fail_path(&err, COFFER_ERR_NAME, name + sizeof name - sizeof err.path - 1);
    assert_int_equal(strlen(err.path), 2 * ((sizeof err.path - 4) / 2) + 3);
}

/* A path is copied whole with its end and nothing behind it, be it as long as its place; what stood there is gone. */
static void test_paths_of_every_length(void **state)
{
    (void)state;
    coffer_error err;
    for (size_t length = 0; length < sizeof err.path + 20; length++) {
        /* As large as it must be, so that a byte too many read is seen. */
        char *path = malloc(length + 1);
        assert_non_null(path);
        memset(path, 'p', length);
        path[length] = '\0';
        memset(&err, 0x5A, sizeof err);
        assert_int_equal(coffer__fail_path(&err, COFFER_ERR_IO, path), COFFER_ERR_IO);
        if (length < sizeof err.path) {
            assert_memory_equal(err.path, path, length + 1);
        } else {
            assert_int_equal(strspn(err.path, "p"), (sizeof err.path - 4) / 2);
            assert_string_equal(strchr(err.path, '.') + 3, path + length - (sizeof err.path - 4) / 2);
        }
        const char *behind = err.path + strlen(err.path) + 1;
        const char *end = (const char *)&err + sizeof err;
        for (const char *at = behind; at < end; at++) {
            assert_int_equal(*at, 0x5A);
        }
        free(path);
    }
}

/* A name is whole in a message up to 95 bytes, a path up to 319. */
static void test_what_is_not_cut(void **state)
{
    (void)state;
    char text[400];
    coffer_error err;
    memset(text, 't', sizeof text);
    for (size_t size = 94; size <= 97; size++) {
        coffer__fail(&err, COFFER_ERR_NAME, "%q", text, size);
        assert_int_equal(strspn(err.message + 1, "t"), size < 96 ? size : 46);
    }
    for (size_t size = 318; size <= 321; size++) {
        text[size] = '\0';
        coffer__fail(&err, COFFER_ERR_NAME, "%p", text);
        assert_int_equal(strspn(err.message + 1, "t"), size < 320 ? size : 158);
        text[size] = 't';
    }
}

static void test_a_long_message_fills_its_capacity(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 't', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    coffer_error err;
    for (size_t size = sizeof err.message - 3; size < sizeof err.message + 3; size++) {
        coffer__fail(&err, COFFER_ERR_NAME, "%s%u%s", text + sizeof text - 1 - size, (uint64_t)7, "u");
        const size_t kept = size + 2 < sizeof err.message ? size + 2 : sizeof err.message - 1;
        assert_int_equal(strlen(err.message), kept);
        assert_int_equal(strspn(err.message, "t"), size < kept ? size : kept);
    }
}

static void test_cutting_never_splits_a_character(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 4; pad++) {
        char text[600];
        size_t used = 0;
        memset(text, 'a', pad);
        for (used = pad; used + 3 < sizeof text; used += 3) {
            memcpy(text + used, "\xE2\x82\xAC", 3);
        }
        text[used] = '\0';
        coffer_error err;
        coffer__fail(&err, COFFER_ERR_NAME, "%s", text);
        assert_int_equal((strlen(err.message) - pad) % 3, 0);
        assert_true(strlen(err.message) > 370);
    }
}

static void test_sizes_and_errno_are_kept(void **state)
{
    (void)state;
    coffer_error err;
    coffer_status code = coffer__fail(&err, COFFER_ERR_IO, "x");
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    code = coffer__fail_errno(&err, code, 28);
    code = coffer__fail_sizes(&err, code, 10, 20);
    assert_int_equal(code, COFFER_ERR_IO);
    assert_int_equal(err.os_error, 28);
    assert_int_equal(err.expected, 10);
    assert_int_equal(err.actual, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_name),
        cmocka_unit_test(test_message_is_formatted),
        cmocka_unit_test(test_numbers_at_their_ends),
        cmocka_unit_test(test_sizes_have_their_unit),
        cmocka_unit_test(test_without_an_error_only_the_code_comes_back),
        cmocka_unit_test(test_long_parts_are_cut),
        cmocka_unit_test(test_paths_of_every_length),
        cmocka_unit_test(test_what_is_not_cut),
        cmocka_unit_test(test_a_long_message_fills_its_capacity),
        cmocka_unit_test(test_cutting_never_splits_a_character),
        cmocka_unit_test(test_sizes_and_errno_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
