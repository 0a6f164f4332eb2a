/* SPDX-License-Identifier: Apache-2.0 */
/* Why: "this is a web page" is worth more than "the header is too large", but only while it is true. Each kind of file is
   recognised by its first bytes, by no fewer of them, and nothing else is taken for one. */
#include "support_cmocka.h"

#include "coffer.h"
#include "sniff.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The answer for bytes that end where their memory ends, so that a sanitizer sees a byte too many. */
static coffer_status sniffed(const char *bytes, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    coffer_error err;
    memset(&err, 0x5A, sizeof err);
    const coffer_status status = coffer__sniff(copy, size, &err);
    if (status != COFFER_OK) {
        assert_int_equal(err.code, status);
        assert_true(err.offset == 0);
        assert_true(strlen(err.message) > 20);
    }
    assert_int_equal(coffer__sniff(copy, size, NULL), status);
    free(copy);
    return status;
}

static const struct signature {
    coffer_status code;
    const char *bytes;
    size_t size;
} signatures[] = {
    { COFFER_ERR_IS_LFS_POINTER, "version https://git-lfs", 23 },
    { COFFER_ERR_IS_ZIP, "PK\x03\x04", 4 },
    { COFFER_ERR_IS_ZIP, "PK\x05\x06", 4 },
    { COFFER_ERR_IS_GGUF, "GGUF", 4 },
    { COFFER_ERR_IS_HDF5, "\x89HDF\r\n\x1a\n", 8 },
    { COFFER_ERR_IS_NUMPY, "\x93NUMPY", 6 },
    { COFFER_ERR_IS_COMPRESSED, "\x1f\x8b\x08", 3 },
    { COFFER_ERR_IS_COMPRESSED, "\x28\xb5\x2f\xfd", 4 },
    { COFFER_ERR_IS_COMPRESSED, "\xfd\x37zXZ\0", 6 },
    { COFFER_ERR_IS_COMPRESSED, "BZh", 3 },
    { COFFER_ERR_IS_COMPRESSED, "\x04\x22\x4d\x18", 4 },
    { COFFER_ERR_IS_COMPRESSED, "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff", 13 },
    { COFFER_ERR_IS_COMPRESSED, "7z\xbc\xaf\x27\x1c", 6 },
    { COFFER_ERR_IS_COMPRESSED, "Rar!\x1a\x07", 6 },
    { COFFER_ERR_IS_CONVERTIBLE, "ARROW1\0\0", 8 },
    { COFFER_ERR_IS_OTHER, "\x89PNG\r\n\x1a\n", 8 },
    { COFFER_ERR_IS_OTHER, "\xff\xd8\xff", 3 },
    { COFFER_ERR_IS_OTHER, "GIF8", 4 },
    { COFFER_ERR_IS_OTHER, "RIFF", 4 },
    { COFFER_ERR_IS_OTHER, "OggS", 4 },
    { COFFER_ERR_IS_OTHER, "%PDF-", 5 },
    { COFFER_ERR_IS_OTHER, "SQLite format 3", 16 },
    { COFFER_ERR_IS_OTHER, "MZ\x90", 4 },
    { COFFER_ERR_IS_OTHER, "\xcf\xfa\xed\xfe", 4 },
    { COFFER_ERR_IS_OTHER, "\0asm", 4 },
    { COFFER_ERR_IS_ELF,
      "\x7f"
      "ELF",
      4 },
    { COFFER_ERR_IS_PICKLE, "\x80\x02}", 3 },
    { COFFER_ERR_IS_PICKLE, "\x80\x05\x95", 3 },
};

/* What is left when nothing is recognised: plain ASCII of eight bytes and more is text. */
static coffer_status sniffed_as_text(const char *bytes, size_t size)
{
    bool plain = size >= 8;
    for (size_t i = 0; i < size && plain; i++) {
        plain = bytes[i] >= ' ' && bytes[i] < 0x7F;
    }
    return plain ? COFFER_ERR_IS_TEXT : COFFER_OK;
}

static void test_signatures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const struct signature *known = &signatures[i];
        char bytes[40] = { 0 };
        memcpy(bytes, known->bytes, known->size);
        assert_int_equal(sniffed(bytes, known->size), known->code);
        assert_int_equal(sniffed(bytes, sizeof bytes), known->code);
        for (size_t size = 0; size < known->size; size++) {
            assert_int_equal(sniffed(bytes, size), sniffed_as_text(bytes, size));
        }
    }
}

/* Two bytes are a weak sign: they have to be zlib's, and the eight no length of a header. */
static void test_zlib(void **state)
{
    (void)state;
    static const char *const good[] = { "\x78\x01*****1", "\x78\x5e*****1", "\x78\x9c*****1", "\x78\xda*****1" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(sniffed(good[i], 8), COFFER_ERR_IS_COMPRESSED);
        assert_int_not_equal(sniffed(good[i], 7), COFFER_ERR_IS_COMPRESSED);
    }
    assert_int_not_equal(sniffed("\x78\x9d*****1", 8), COFFER_ERR_IS_COMPRESSED);
    assert_int_not_equal(sniffed("\x78\x20*****1", 8), COFFER_ERR_IS_COMPRESSED); /* with a dictionary */
    assert_int_equal(sniffed("\x78\x9c\1\0\0\0\0\0", 8), COFFER_OK);
}

/* Formats without a signature: enough of their beginnings to tell them from lengths of headers. */
static void test_convertible(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } good[] = {
        { "\xff\xff\xff\xff\x08\0\0\0\4\0\0\0", 12 },
        { "\x08\x07\x12\7pytorch", 11 },
        { "\x08\x0a\x12\7pyt", 7 },
        { "\x08\x0a\x3a\x10\x0a", 5 },
        { "\x08\x03\x42\x04\x0a", 5 },
        { "\x81\xa6params\x82", 9 },
        { "\x81\xa6p r", 5 },
        { "\xde\0\x10\xa1w\xc7", 6 },
        { "\x81\xd9\x20"
          "12345678901234567890123456789012\xc7",
          36 },
        { "\xdf\0\0\0\x10\xa1w\xde", 8 },
        { "\0\0\6\x08\1\x1a\2\x08\1", 9 },
    };
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        { "\xff\xff\xff\xff\x09\0\0\0\4\0\0\0", 12 },
        { "\xff\xff\xff\xff\x08\0\0\0\x08\0\0\0", 12 },
        { "\xff\xff\xff\xff\x08\0\0\0\4\0\0", 11 },
        { "\x08\x02\x12\7pytorch", 11 },
        { "\x08\x07\x12\7py\1orch", 11 },
        { "\x08\x07\x12\0", 4 },
        { "\x08\x07\x13\7pytorch", 11 },
        { "\x80\xa6params\x82", 9 },
        { "\x81\xa0\x82", 3 },
        { "\x81\xa6par\nms\x82", 9 },
        { "\x81\xa6params\xc0", 9 },
        { "\x81", 1 },
        { "\x81\xa6", 2 },
        { "\xde\0\x10", 3 },
        { "\0\0\6\x08\1\x1a\2", 7 },
        { "\0\1\6\x08\1\x1a\2\x08", 8 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(sniffed(good[i].bytes, good[i].size), COFFER_ERR_IS_CONVERTIBLE);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(sniffed(bad[i].bytes, bad[i].size), COFFER_ERR_IS_CONVERTIBLE);
    }
}

/* One bit of a signature changed, and it is none. */
static void test_nearly_signatures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const struct signature *known = &signatures[i];
        if (known->code == COFFER_ERR_IS_PICKLE) {
            continue;
        }
        for (size_t at = 0; at < known->size; at++) {
            char bytes[32];
            memcpy(bytes, known->bytes, known->size);
            bytes[at] = (char)(bytes[at] ^ 0x40);
            /* A pointer of Git LFS is text all the same. */
            assert_int_equal(sniffed(bytes, known->size), sniffed_as_text(bytes, known->size));
        }
    }
}

static void test_pickles(void **state)
{
    (void)state;
    assert_int_equal(sniffed("\x80\x03}q", 4), COFFER_ERR_IS_PICKLE);
    assert_int_equal(sniffed("\x80\x04\x95", 3), COFFER_ERR_IS_PICKLE);
    assert_int_equal(sniffed("\x80\x01}", 3), COFFER_OK);
    assert_int_equal(sniffed("\x80\x06}", 3), COFFER_OK);
    assert_int_equal(sniffed("\x81\x02}", 3), COFFER_OK);
    /* A header of 640 bytes, whose length begins like a pickle. */
    assert_int_equal(sniffed("\x80\x02\0\0\0\0\0\0", 8), COFFER_OK);
}

static void test_zeros(void **state)
{
    (void)state;
    char bytes[600] = { 0 };
    assert_int_equal(sniffed(bytes, 63), COFFER_OK);
    assert_int_equal(sniffed(bytes, 64), COFFER_ERR_IS_ZEROS);
    assert_int_equal(sniffed(bytes, 600), COFFER_ERR_IS_ZEROS);
    bytes[512] = 1;
    assert_int_equal(sniffed(bytes, 600), COFFER_ERR_IS_ZEROS);
    bytes[511] = 1;
    assert_int_equal(sniffed(bytes, 600), COFFER_OK);
    assert_int_equal(sniffed(bytes, 511), COFFER_ERR_IS_ZEROS);
    bytes[0] = 1;
    assert_int_equal(sniffed(bytes, 100), COFFER_OK);
}

/* The mark is not at the beginning; before it is the first file's name, and its rights. */
static void test_tar(void **state)
{
    (void)state;
    char bytes[512] = "model/config.json";
    memcpy(bytes + 257, "ustar", 5);
    assert_int_equal(sniffed(bytes, sizeof bytes), COFFER_ERR_IS_TAR);
    assert_int_equal(sniffed(bytes, 262), COFFER_ERR_IS_TAR);
    assert_int_equal(sniffed(bytes, 261), COFFER_OK);
    bytes[261] = 'R';
    assert_int_equal(sniffed(bytes, sizeof bytes), COFFER_OK);
}

static void test_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        coffer_status status;
    } cases[] = {
        { "<", COFFER_ERR_IS_HTML },
        { "<!DOCTYPE html>", COFFER_ERR_IS_HTML },
        { "\xEF\xBB\xBF<a>", COFFER_ERR_IS_HTML },
        { "\xEF\xBB\xBF \t\r\n\v\f<a>", COFFER_ERR_IS_HTML },
        { "{", COFFER_ERR_IS_JSON },
        { "[1]", COFFER_ERR_IS_JSON },
        { " \n{}", COFFER_ERR_IS_JSON },
        { "hello", COFFER_OK },
        { "7 bytes", COFFER_OK },
        { "8 bytes.", COFFER_ERR_IS_TEXT },
        { "Entry not found", COFFER_ERR_IS_TEXT },
        { "\r\n\tNot found\r\n", COFFER_ERR_IS_TEXT },
        { "\xEF\xBB\xBFNot found", COFFER_ERR_IS_TEXT },
        { "Nicht gefunden: \xC3\xA4", COFFER_ERR_IS_TEXT },
        { "Nicht gefunden: \xE4", COFFER_OK },
        { "Not found\x01", COFFER_OK },
        { "Not found\x1B[0m", COFFER_OK },
        { "Not found\x7F", COFFER_OK },
        { "Not found\x0E", COFFER_OK },
        { "\xEF\xBB\xBF", COFFER_OK },
        { "\xEF\xBB<", COFFER_OK },
        { "\xEF\xBB<<", COFFER_OK },
        { "\xEF\xBB", COFFER_OK },
        { "        ", COFFER_OK },
        { "", COFFER_OK },
        { "<\x01", COFFER_OK },
        { "<\x08", COFFER_OK },
        { "<\x0E", COFFER_OK },
        { "<\x1F", COFFER_OK },
        { "<      \x02", COFFER_OK },
        /* What comes behind the eighth byte does not count: a header's length has eight. */
        { "<       \x02", COFFER_ERR_IS_HTML },
        { "        \x0E<", COFFER_OK },
        { "        \x08<", COFFER_OK },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const coffer_status status = sniffed(cases[i].bytes, strlen(cases[i].bytes));
        if (status != cases[i].status) {
            fail_msg("case %zu: %s", i, coffer_status_name(status));
        }
    }
    char cut[600];
    memset(cut, 'x', sizeof cut);
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_ERR_IS_TEXT);
    memcpy(cut + 510, "\xE2\x82\xAC", 3); /* a character that the 512 bytes that are looked at do not have whole */
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_ERR_IS_TEXT);
    assert_int_equal(sniffed(cut, 511), COFFER_OK); /* the file ends within it */
    cut[511] = 'x';                                 /* what follows does not continue it */
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_OK);
    cut[510] = 'x';
    cut[511] = 'x';
    cut[512] = '\0'; /* beyond what is looked at */
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_ERR_IS_TEXT);
    cut[511] = '\0';
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_OK);
    memset(cut, ' ', sizeof cut);
    assert_int_equal(sniffed(cut, sizeof cut), COFFER_OK);
    /* The length of a header of 60 bytes: '<', and zeros. */
    assert_int_equal(sniffed("<\0\0\0\0\0\0\0{}", 10), COFFER_OK);
}

/* ---- formats without a signature ----------------------------------------------------------------------------------- */

/* Bytes that are just enough, and that are one off, for each rule by which a format without a signature is known. */
static const struct without_signature {
    coffer_status code;
    const char *bytes;
    size_t size;
} without_signatures[] = {
    /* zlib: the window, a sum of 31, no dictionary, and what is no length of a header */
    { COFFER_ERR_IS_COMPRESSED, "\x78\x9c\x01\x02\x03\x04\x05\x06", 8 },
    { COFFER_ERR_IS_COMPRESSED, "\x78\x01\0\0\x01\0\0\0", 8 },
    { COFFER_ERR_IS_COMPRESSED, "\x78\x01\0\0\0\0\0\x01", 8 },
    { COFFER_ERR_IS_COMPRESSED, "\x78\xda\xff\xff\xff\xff\xff\xff", 8 },
    { COFFER_OK, "\x78\x9c\x01\x02\x03\x04\x05", 7 },
    { COFFER_OK, "\x78\x9d\x01\x02\x03\x04\x05\x06", 8 },
    { COFFER_OK, "\x78\xbb\x01\x02\x03\x04\x05\x06", 8 },
    { COFFER_OK, "\x78\xf9\x01\x02\x03\x04\x05\x06", 8 },
    { COFFER_OK, "\x78\x9c\x01\x02\0\0\0\0\xff", 9 },
    { COFFER_OK, "\x58\x85\x01\x02\x03\x04\x05\x06", 8 },
    /* Arrow: ones, a size by eights, and a root within it */
    { COFFER_ERR_IS_CONVERTIBLE, "\xff\xff\xff\xff\x08\0\0\0\x04\0\0\0", 12 },
    { COFFER_ERR_IS_CONVERTIBLE, "\xff\xff\xff\xff\xf8\xff\xff\x7f\x10\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\x08\0\0\0\x04\0\0", 11 },
    { COFFER_OK, "\xfe\xff\xff\xff\x08\0\0\0\x04\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\x0c\0\0\0\x04\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\0\0\0\x80\x04\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\x08\0\0\0\0\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\x08\0\0\0\x06\0\0\0", 12 },
    { COFFER_OK, "\xff\xff\xff\xff\x08\0\0\0\x08\0\0\0", 12 },
    /* ONNX: a version from 3 to 31, and what may come second */
    { COFFER_ERR_IS_CONVERTIBLE, "\x08\x03\x3a\0\0", 5 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x08\x1f\x42\0\0", 5 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x08\x07\x12\x01~", 5 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x08\x07\x12\x01 \xff", 6 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x08\x07\x12\x7fname", 8 },
    { COFFER_OK, "\x08\x03\x3a\0", 4 },
    { COFFER_OK, "\x09\x03\x3a\0\0", 5 },
    { COFFER_OK, "\x08\x02\x3a\0\0", 5 },
    { COFFER_OK, "\x08\x20\x3a\0\0", 5 },
    { COFFER_OK, "\x08\x07\x3b\0\0", 5 },
    { COFFER_OK, "\x08\x07\x12\x01\x7f", 5 },
    { COFFER_OK, "\x08\x07\x12\x01\x1f", 5 },
    { COFFER_OK, "\x08\x07\x12\0a", 5 },
    /* flax: a map, a short text as its key, and another map or an extension */
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k\x80", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x8f\xa1k\x8f", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k", 3 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xbfk", 3 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k\xde", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k\xdf", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k\xc7", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xa1k\xc9", 4 },
    { COFFER_ERR_IS_CONVERTIBLE, "\xde\0\x11\xa1k\x80", 6 },
    { COFFER_ERR_IS_CONVERTIBLE, "\xdf\0\0\0\x11\xa1k\x80", 8 },
    { COFFER_ERR_IS_CONVERTIBLE, "\x81\xd9\x01k\x80", 5 },
    { COFFER_OK, "\x81", 1 },
    { COFFER_OK, "\x81\xa1", 2 },
    { COFFER_OK, "\x80\xa1k\x80", 4 },
    { COFFER_OK, "\x90\xa1k\x80", 4 },
    { COFFER_OK, "\x81\x9fk\x80", 4 },
    { COFFER_OK, "\x81\xa0\x80\x80", 4 },
    { COFFER_OK, "\x81\xc0k\x80", 4 },
    { COFFER_OK, "\x81\xa1k\x7f", 4 },
    { COFFER_OK, "\x81\xa1k\x90", 4 },
    { COFFER_OK, "\x81\xa1k\xc6", 4 },
    { COFFER_OK, "\x81\xa1k\xca", 4 },
    { COFFER_OK, "\x81\xa1k\0", 4 },
    { COFFER_OK, "\x81\xa1\x1f\x80", 4 },
    /* TensorFlow's table */
    { COFFER_ERR_IS_CONVERTIBLE, "\0\0\x07\x08\x01\x1a\x02\x08", 8 },
    { COFFER_OK, "\0\0\x07\x08\x01\x1a\x02", 7 },
    { COFFER_OK, "\x01\0\x07\x08\x01\x1a\x02\x08", 8 },
    { COFFER_OK, "\0\x01\x07\x08\x01\x1a\x02\x08", 8 },
    { COFFER_OK, "\0\0\x07\x09\x01\x1a\x02\x08", 8 },
    { COFFER_OK, "\0\0\x07\x08\x01\x1b\x02\x08", 8 },
    { COFFER_OK, "\0\0\x07\x08\x01\x1a\x03\x08", 8 },
    { COFFER_OK, "\0\0\x07\x08\x01\x1a\x02\x09", 8 },
};

static void test_formats_without_a_signature(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof without_signatures / sizeof without_signatures[0]; i++) {
        const struct without_signature *row = &without_signatures[i];
        if (sniffed(row->bytes, row->size) != row->code) {
            fail_msg("row %zu gives %d", i, (int)sniffed(row->bytes, row->size));
        }
    }
}

/* What the message advises, which differs for what is compressed. */
static void test_what_is_advised(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(coffer__sniff("BZh", 3, &err), COFFER_ERR_IS_COMPRESSED);
    assert_non_null(strstr(err.message, "unpack it first"));
    assert_int_equal(coffer__sniff("%PDF-", 5, &err), COFFER_ERR_IS_OTHER);
    assert_non_null(strstr(err.message, "name another one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_zlib),
        cmocka_unit_test(test_convertible),
        cmocka_unit_test(test_nearly_signatures),
        cmocka_unit_test(test_pickles),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_tar),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_formats_without_a_signature),
        cmocka_unit_test(test_what_is_advised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
