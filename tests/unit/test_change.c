/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to bytes between a source and an output target: CRCs by each of the ways to compute them, bytes that are swapped,
 * signs that are changed, and rows that ask for all of it, cut wherever the output target's memory ends.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "change.h"
#include "coffer.h"
#include "crc32.h"
#include "output_target.h"
#include "sink.h"
#include "source.h"
#include "support_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static void fill(uint8_t *bytes, size_t size)
{
    uint64_t seed = 5;
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(seed >> 56);
    }
}

/* Bit by bit, as the polynomial is written. */
static uint32_t slow_crc(const uint8_t *bytes, size_t size)
{
    uint32_t value = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        value ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0);
        }
    }
    return ~value;
}

static void check_crc(bool alone)
{
    static coffer__crc32 crc32;
    uint8_t bytes[300];
    fill(bytes, sizeof bytes);
    coffer__crc32_open(&crc32, alone);
    assert_int_equal(coffer__crc32_update(&crc32, 0, "123456789", 9), 0xCBF43926u);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        const uint32_t first = coffer__crc32_update(&crc32, 0, bytes, size);
        assert_int_equal(first, slow_crc(bytes, size));
        assert_int_equal(coffer__crc32_update(&crc32, first, bytes + size, sizeof bytes - size),
                         slow_crc(bytes, sizeof bytes));
    }
    coffer__crc32_close(&crc32);
}

static void test_crc(void **state)
{
    (void)state;
    check_crc(true);
    check_crc(false);
}

static void test_zeros(void **state)
{
    (void)state;
    static coffer__crc32 crc32;
    static uint8_t bytes[70000];
    coffer__crc32_open(&crc32, true);
    fill(bytes, 100);
    const uint32_t before = coffer__crc32_update(&crc32, 0, bytes, 100);
    for (size_t size = 0; size < sizeof bytes - 100; size += 1 + size / 3) {
        assert_int_equal(coffer__crc32_zeros(&crc32, before, size),
                         coffer__crc32_update(&crc32, before, bytes + 100, size));
    }
    /* 100 GB of zeros, by another way round. */
    const uint64_t large = UINT64_C(100000000000);
    assert_int_equal(coffer__crc32_zeros(&crc32, before, large),
                     coffer__crc32_zeros(&crc32, coffer__crc32_zeros(&crc32, before, large / 3), large - large / 3));
    coffer__crc32_close(&crc32);
}

/* CRC-32C, by the instruction and by the tables: its check value, and one against the other for every length and place. */
static void test_castagnoli(void **state)
{
    (void)state;
    static coffer__crc32 fast;
    static coffer__crc32 plain;
    uint8_t bytes[300];
    fill(bytes, sizeof bytes);
    coffer__crc32c_open(&fast, false);
    coffer__crc32c_open(&plain, true);
    assert_int_equal(coffer__crc32_update(&fast, 0, "123456789", 9), 0xE3069283u);
    assert_int_equal(coffer__crc32_update(&plain, 0, "123456789", 9), 0xE3069283u);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        const size_t at = size < 8 ? 0 : size % 8;
        const uint32_t first = coffer__crc32_update(&fast, 0, bytes + at, size - at);
        assert_int_equal(first, coffer__crc32_update(&plain, 0, bytes + at, size - at));
        assert_int_equal(coffer__crc32_share(&fast, coffer__crc32_update(&fast, 0, bytes, size), sizeof bytes - size) ^
                             coffer__crc32_update(&fast, 0, bytes + size, sizeof bytes - size),
                         coffer__crc32_update(&plain, 0, bytes, sizeof bytes));
    }
    coffer__crc32_close(&fast);
    coffer__crc32_close(&plain);
}

/* Long ones go by three stretches at a time: lengths around the first few of these. */
static void test_castagnoli_of_much(void **state)
{
    (void)state;
    static coffer__crc32 fast;
    static coffer__crc32 plain;
    static uint8_t bytes[100000];
    fill(bytes, sizeof bytes);
    coffer__crc32c_open(&fast, false);
    coffer__crc32c_open(&plain, true);
    for (size_t size = 0; size <= sizeof bytes - 5; size += size % 8192 < 8180 && size % 8192 > 20 ? 977 : 1) {
        assert_int_equal(coffer__crc32_update(&fast, 0x12345678, bytes + size % 5, size),
                         coffer__crc32_update(&plain, 0x12345678, bytes + size % 5, size));
    }
    coffer__crc32_close(&fast);
    coffer__crc32_close(&plain);
}

/* Shares of pieces, in any order, are the CRC of the whole. */
static void test_shares(void **state)
{
    (void)state;
    static coffer__crc32 crc32;
    static uint8_t bytes[5000];
    coffer__crc32_open(&crc32, true);
    fill(bytes, sizeof bytes);
    for (size_t piece = 1; piece < sizeof bytes; piece += 1 + piece) {
        uint32_t value = 0;
        size_t end = sizeof bytes;
        while (end > 0) {
            const size_t size = end < piece ? end : piece;
            const uint32_t crc = coffer__crc32_update(&crc32, 0, bytes + end - size, size);
            value ^= coffer__crc32_share(&crc32, crc, sizeof bytes - end);
            end -= size;
        }
        assert_int_equal(value, coffer__crc32_update(&crc32, 0, bytes, sizeof bytes));
    }
    coffer__crc32_close(&crc32);
}

/* Long runs come down by several threads: each byte once, changed, and with the CRC of what was read. One of them is
   continued after its beginning, as after a hole. */
static void test_long_runs(void **state)
{
    (void)state;
    static coffer__crc32 crc32;
    const size_t sizes[] = { 3 * MIB + 6, MIB, 5 * MIB + 2 };
    const size_t begin = 2;
    size_t at = 0;
    coffer__checksum sums[3];
    coffer__transfer_op rows[3];
    coffer__byte_source source;
    coffer__byte_sink sink;
    char to[512];
    uint8_t *bytes = malloc(10 * MIB);
    uint8_t *got = malloc(10 * MIB);
    assert_true(bytes != NULL && got != NULL);
    work_dir_make();
    coffer__crc32_open(&crc32, false);
    fill(bytes, 10 * MIB);
    coffer__source_memory(&source, bytes, 10 * MIB);
    (void)snprintf(to, sizeof to, "%s", work_path("long"));
    for (size_t i = 0; i < 3; i++) {
        sums[i] = (coffer__checksum){ .crc32 = &crc32 };
        rows[i] = (coffer__transfer_op){ .source = &source,
                                         .offset = at + begin,
                                         .size = sizes[i],
                                         .at = at,
                                         .change = { .swap = 2 },
                                         .checksum = &sums[i] };
        at += sizes[i];
    }
    for (uint32_t threads = 1; threads <= 3; threads++) {
        const coffer__transfer_options options = { .allocator = coffer_libc_allocator(), .threads = threads };
        assert_int_equal(coffer__sink_path(&sink, coffer_libc_allocator(), to, COFFER_SYNC_NEVER, false, NULL),
                         COFFER_OK);
        assert_int_equal(sink.ops->reserve(&sink, at, NULL), COFFER_OK);
        for (size_t i = 0; i < 3; i++) {
            sums[i].value = 0;
        }
        assert_int_equal(coffer__land_in_sink(&sink, rows, 3, &options, NULL), COFFER_OK);
        assert_int_equal(sink.ops->read_at(&sink, 0, got, at, NULL), COFFER_OK);
        sink.ops->discard(&sink);
        for (size_t i = 0; i < at; i++) {
            assert_int_equal(got[i], bytes[begin + (i ^ 1)]);
        }
        for (size_t i = 0, from = begin; i < 3; from += sizes[i], i++) {
            assert_int_equal(sums[i].value, coffer__crc32_update(&crc32, 0, bytes + from, sizes[i]));
        }
    }
    source.ops->close(&source);
    coffer__crc32_close(&crc32);
    work_dir_remove();
    free(bytes);
    free(got);
}

static void check_change(coffer__change change, size_t unit, const char *before, const char *after, size_t size)
{
    uint8_t bytes[16];
    memcpy(bytes, before, size);
    assert_int_equal(coffer__change_unit(&change), unit);
    coffer__change_bytes(&change, bytes, size);
    assert_memory_equal(bytes, after, size);
}

static void test_changes(void **state)
{
    (void)state;
    check_change((coffer__change){ .swap = 0 }, 1, "abcd", "abcd", 4);
    check_change((coffer__change){ .swap = 2 }, 2, "abcd", "badc", 4);
    check_change((coffer__change){ .swap = 4 }, 4, "abcdefgh", "dcbahgfe", 8);
    check_change((coffer__change){ .swap = 8 }, 8, "abcdefgh", "hgfedcba", 8);
    check_change((coffer__change){ .width = 2, .flip = COFFER__FLIP_FLOATS }, 2, "\0\x80\1\2", "\0\0\1\x82", 4);
    check_change((coffer__change){ .width = 4, .flip = COFFER__FLIP_IMAGINARY }, 8, "abcdefgh", "abcdefg\xe8", 8);
    check_change((coffer__change){ .swap = 4, .width = 4, .flip = COFFER__FLIP_IMAGINARY }, 8, "abcdefgh",
                 "dcbahgf\xe5", 8);
    check_change((coffer__change){ .width = 1, .flip = COFFER__FLIP_INTEGERS }, 1, "\0\1\x80\xff", "\0\xff\x80\1", 4);
    check_change((coffer__change){ .width = 4, .flip = COFFER__FLIP_INTEGERS }, 4, "\0\0\0\0\0\1\0\0",
                 "\0\0\0\0\0\xff\xff\xff", 8);
}

/* Rows of 3 MB and more with all of it, against the same done to a copy at once. One of them is turned, and too large
   for the memory of one step. */
static void test_rows(void **state)
{
    (void)state;
    enum { SIZE = 3000008, ROWS = 2100, COLUMNS = 1050 };
    static coffer__crc32 crc32;
    const size_t turned = (size_t)ROWS * COLUMNS * 8;
    uint8_t *bytes = malloc(SIZE + turned);
    uint8_t *file = malloc(SIZE + SIZE + 5 + turned);
    assert_true(bytes != NULL && file != NULL);
    fill(bytes, SIZE + turned);
    coffer__crc32_open(&crc32, false);
    coffer__checksum sums[2] = { { &crc32, 0 }, { &crc32, 0 } };
    coffer__byte_source source;
    coffer__byte_sink sink;
    coffer__box box;
    const uint64_t sizes[] = { ROWS, COLUMNS };
    const int64_t strides[] = { 8, ROWS * 8 };
    const coffer__strided view = { .item_size = 8, .rank = 2, .sizes = sizes, .strides = strides };
    coffer__source_memory(&source, bytes, SIZE + turned);
    assert_int_equal(coffer__box_from_strides(&box, &view, turned, NULL), COFFER_OK);
    assert_int_equal(coffer__sink_memory(&sink, coffer_libc_allocator(), file, SIZE + SIZE - 3 + turned, NULL),
                     COFFER_OK);
    const coffer__transfer_op rows[] = {
        { .source = &source, .offset = 3, .size = 5, .at = 0, .checksum = &sums[0] },
        { .source = &source,
          .size = SIZE,
          .at = 5,
          .checksum = &sums[1],
          .change = { .swap = 4, .width = 4, .flip = COFFER__FLIP_IMAGINARY } },
        { .source = &source, .offset = 8, .size = SIZE - 8, .at = 5 + SIZE, .change = { .swap = 8 } },
        { .source = &source,
          .offset = SIZE,
          .box = &box,
          .size = turned,
          .at = 5 + SIZE + SIZE - 8,
          .change = { .swap = 2 } },
    };
    const coffer__transfer_options options = { .allocator = coffer_libc_allocator() };
    assert_int_equal(sink.ops->reserve(&sink, SIZE + SIZE - 3 + turned, NULL), COFFER_OK);
    assert_int_equal(coffer__land_in_sink(&sink, rows, 4, &options, NULL), COFFER_OK);
    assert_int_equal(sums[0].value, slow_crc(bytes + 3, 5));
    assert_int_equal(sums[1].value, slow_crc(bytes, SIZE));
    assert_memory_equal(file, bytes + 3, 5);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        uint8_t item[8];
        memcpy(item, bytes + SIZE + (i % COLUMNS) * ROWS * 8 + i / COLUMNS * 8, 8);
        coffer__change_bytes(&rows[3].change, item, 8);
        if (memcmp(file + rows[3].at + i * 8, item, 8) != 0) {
            fail_msg("element %zu of the turned row differs", i);
        }
    }
    coffer__change_bytes(&rows[2].change, bytes + 8, SIZE - 8);
    assert_memory_equal(file + rows[2].at, bytes + 8, SIZE - 8);
    coffer__change_bytes(&rows[2].change, bytes + 8, SIZE - 8);
    coffer__change_bytes(&rows[1].change, bytes, SIZE);
    assert_memory_equal(file + rows[1].at, bytes, SIZE);
    sink.ops->discard(&sink);
    coffer__crc32_close(&crc32);
    free(file);
    free(bytes);
}

/* A file with a hole of 64 MiB, and a checksum of all of it: the hole stays one. Where a file system has none, the copy
   may be as large as the file. */
static void test_hole(void **state)
{
    (void)state;
    static coffer__crc32 crc32;
    static uint8_t solid[100000];
    const uint64_t size = 64 * MIB + sizeof solid;
    work_dir_make();
    fill(solid, sizeof solid);
    const int fd = open(work_path("hollow"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(pwrite(fd, solid, sizeof solid, (off_t)(64 * MIB)), sizeof solid);
    assert_int_equal(close(fd), 0);
    coffer__crc32_open(&crc32, false);
    coffer__checksum sum = { &crc32, 0 };
    coffer__byte_source source;
    coffer__byte_sink sink;
    char to[512];
    (void)snprintf(to, sizeof to, "%s", work_path("copy"));
    assert_int_equal(coffer__source_path(&source, work_path("hollow"), NULL), COFFER_OK);
    assert_int_equal(coffer__sink_path(&sink, coffer_libc_allocator(), to, COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    sink.sparse = coffer__source_has_holes(&source);
    assert_int_equal(sink.ops->reserve(&sink, size, NULL), COFFER_OK);
    const coffer__transfer_op row = { .source = &source, .size = size, .checksum = &sum };
    const coffer__transfer_options options = { .allocator = coffer_libc_allocator() };
    assert_int_equal(coffer__land_in_sink(&sink, &row, 1, &options, NULL), COFFER_OK);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_int_equal(sum.value,
                     coffer__crc32_update(&crc32, coffer__crc32_zeros(&crc32, 0, 64 * MIB), solid, sizeof solid));
    struct stat before;
    struct stat after;
    assert_int_equal(stat(work_path("hollow"), &before), 0);
    assert_int_equal(stat(to, &after), 0);
    assert_int_equal(after.st_size, size);
    assert_true(after.st_blocks <= before.st_blocks + 8192);
    source.ops->close(&source);
    coffer__crc32_close(&crc32);
    work_dir_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_castagnoli), cmocka_unit_test(test_castagnoli_of_much),
        cmocka_unit_test(test_shares),     cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_changes),    cmocka_unit_test(test_rows),
        cmocka_unit_test(test_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
