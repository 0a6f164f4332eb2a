/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tensors: what was packed comes back, to the bit, for every dtype, every pattern of two bytes and the sizes at which
 * streams and chunks end; any stream alone is the same part of the whole; every bit that flips is noticed; and what is
 * damaged on purpose has the code that docs/packed.md says.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "packed.h"
#include "support_packed.h"
#include "xxh3_64.h"

#include <stdlib.h>
#include <string.h>

/* Numbers that look random and are the same everywhere. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* About as skewed as exponents are: small numbers are frequent. */
static uint8_t skewed(uint32_t *state)
{
    const uint32_t a = next_random(state);
    return (uint8_t)(120 + (a & 1) + (a >> 1 & 1) + (a >> 2 & 1) * (a >> 3 & 1) * (a >> 4 & 7));
}

/* Elements of a dtype, of which the top byte is skewed, and the others are random. */
static uint8_t *make_elements(coffer_dtype dtype, size_t size)
{
    const size_t element = coffer__packed_layout_of(dtype).element_size;
    uint32_t state = (uint32_t)size;
    uint8_t *elements = calloc(1, size + 1);
    assert_non_null(elements);
    for (size_t i = 0; i < size; i++) {
        elements[i] = i % element == element - 1 ? skewed(&state) : (uint8_t)next_random(&state);
    }
    return elements;
}

static void assert_comes_back(coffer_dtype dtype, const uint8_t *elements, size_t size)
{
    size_t packed_size = 0;
    uint8_t *packed = support_pack(dtype, elements, size, &packed_size);
    uint8_t *back = calloc(1, size + 1);
    coffer_error err;
    assert_int_equal(packed_size % COFFER__PACKED_ALIGNMENT, 0);
    assert_int_equal(support_unpack(dtype, packed, packed_size, back, size, &err), COFFER_OK);
    assert_memory_equal(back, elements, size);
    free(back);
    free(packed);
}

static void test_sizes(void **state)
{
    (void)state;
    const size_t counts[] = { 0, 1, 2047, 2048, 2049, 8191, 8193, 65535, 65536, 65537, 5 * 65536 + 77 };
    const coffer_dtype dtypes[] = { COFFER_BF16, COFFER_F32, COFFER_F8_E4M3, COFFER_I8,
                                    COFFER_I64,  COFFER_F64, COFFER_C64,     COFFER_F4 };
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const size_t size = counts[i] * coffer__packed_layout_of(dtypes[d]).element_size;
            uint8_t *elements = make_elements(dtypes[d], size);
            assert_comes_back(dtypes[d], elements, size);
            free(elements);
        }
    }
}

static void test_every_pattern(void **state)
{
    (void)state;
    const size_t size = 65536 * 2;
    uint8_t *elements = calloc(1, size);
    assert_non_null(elements);
    for (size_t i = 0; i < 65536; i++) {
        elements[2 * i] = (uint8_t)i;
        elements[2 * i + 1] = (uint8_t)(i >> 8);
    }
    assert_comes_back(COFFER_BF16, elements, size);
    assert_comes_back(COFFER_F16, elements, size);
    /* As exponents come: each as often as its number says, so that planes are coded. */
    for (size_t i = 0; i < 65536; i++) {
        elements[2 * i + 1] = (uint8_t)(i >> 8 & i >> 9 & i >> 3);
    }
    assert_comes_back(COFFER_BF16, elements, size);
    free(elements);
}

static void test_equal_elements(void **state)
{
    (void)state;
    const size_t size = 70000 * 2;
    uint8_t *elements = calloc(1, size);
    assert_non_null(elements);
    size_t packed_size = 0;
    uint8_t *packed = support_pack(COFFER_BF16, elements, size, &packed_size);
    assert_int_equal(packed_size, 192); /* a head, two records and two chunks of 16 bytes, and zeros */
    free(packed);
    assert_comes_back(COFFER_BF16, elements, size);
    free(elements);
}

static void test_ratios(void **state)
{
    (void)state;
    const struct {
        coffer_dtype dtype;
        size_t per_mille;
    } cases[] = { { COFFER_BF16, 730 }, { COFFER_F32, 870 }, { COFFER_I8, 400 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t size = (size_t)1 << 20;
        uint8_t *elements = make_elements(cases[i].dtype, size);
        size_t packed_size = 0;
        free(support_pack(cases[i].dtype, elements, size, &packed_size));
        assert_true(packed_size < size / 1000 * cases[i].per_mille);
        free(elements);
    }
}

/* A tensor whose parts differ has codes of their own for them, and chunks that are stored as they are. */
static void test_several_tables(void **state)
{
    (void)state;
    const size_t count = 20 * 65536;
    uint8_t *elements = make_elements(COFFER_BF16, 2 * count);
    uint32_t seed = 1;
    for (size_t i = 8 * 65536; i < 12 * 65536; i++) {
        elements[2 * i + 1] = (uint8_t)next_random(&seed);
    }
    for (size_t i = 12 * 65536; i < 16 * 65536; i++) {
        elements[2 * i + 1] = (uint8_t)(7 + (next_random(&seed) & 3));
    }
    size_t packed_size = 0;
    uint8_t *packed = support_pack(COFFER_BF16, elements, 2 * count, &packed_size);
    assert_in_range(packed[13], 2, 20);
    free(packed);
    assert_comes_back(COFFER_BF16, elements, 2 * count);
    free(elements);
}

static void test_streams_alone(void **state)
{
    (void)state;
    const coffer_dtype dtypes[] = { COFFER_BF16, COFFER_F8_E4M3, COFFER_F32 };
    for (size_t d = 0; d < 3; d++) {
        const size_t element = coffer__packed_layout_of(dtypes[d]).element_size;
        const size_t size = (65536 + 11 * 2048 + 5) * element;
        uint8_t *elements = make_elements(dtypes[d], size);
        size_t packed_size = 0;
        uint8_t *packed = support_pack(dtypes[d], elements, size, &packed_size);
        coffer__packed_head head;
        assert_int_equal(coffer__packed_read_head(packed, dtypes[d], size, 0, packed_size, &head, NULL), COFFER_OK);
        coffer__unpacker *unpacker = calloc(1, sizeof *unpacker);
        const uint8_t *index = packed + COFFER__PACKED_HEAD_SIZE;
        coffer__unpacker_init(unpacker, &head, index);
        const uint8_t *chunk =
            index + coffer__packed_index_size(&head) + coffer__packed_read_record(&head, index, 0).size;
        uint8_t *part = malloc(65536 * element);
        for (size_t first = 0; first < 12; first++) {
            for (size_t streams = 1; first + streams <= 12; streams++) {
                const size_t from = (65536 + first * 2048) * element;
                const size_t left = size - from;
                const size_t wanted = streams * 2048 * element < left ? streams * 2048 * element : left;
                assert_int_equal(coffer__unpack_streams(unpacker, 1, chunk, first, streams, false, part, NULL),
                                 COFFER_OK);
                assert_memory_equal(part, elements + from, wanted);
            }
        }
        free(part);
        free(unpacker);
        free(packed);
        free(elements);
    }
}

static void test_every_flipped_bit(void **state)
{
    (void)state;
    const coffer_dtype dtypes[] = { COFFER_BF16, COFFER_I8, COFFER_F32 };
    for (size_t d = 0; d < 3; d++) {
        const size_t size = 600 * coffer__packed_layout_of(dtypes[d]).element_size;
        uint8_t *elements = make_elements(dtypes[d], size);
        uint8_t *back = calloc(1, size);
        size_t packed_size = 0;
        uint8_t *packed = support_pack(dtypes[d], elements, size, &packed_size);
        for (size_t bit = 0; bit < 8 * packed_size; bit++) {
            coffer_error err;
            packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
            const coffer_status status = support_unpack(dtypes[d], packed, packed_size, back, size, &err);
            assert_in_range(status, COFFER_ERR_PACK_HEAD, COFFER_ERR_PACK_CHECKSUM);
            assert_int_equal(err.code, status);
            packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(support_unpack(dtypes[d], packed, packed_size, back, size, NULL), COFFER_OK);
        free(packed);
        free(back);
        free(elements);
    }
}

/* Of a damaged copy, whose index has a checksum that fits, what is found, and at which byte. */
static void assert_damage(const uint8_t *packed, size_t size, size_t at, uint8_t value, coffer_status status,
                          uint64_t offset)
{
    const size_t tensor_size = 600 * 2;
    uint8_t *damaged = malloc(size);
    uint8_t *back = malloc(tensor_size);
    coffer_error err;
    memcpy(damaged, packed, size);
    damaged[at] = value;
    const size_t index = (size_t)damaged[13] * COFFER__PACKED_TABLE_SIZE + COFFER__PACKED_RECORD_SIZE;
    if (COFFER__PACKED_HEAD_SIZE + index <= size) {
        const uint64_t sum = coffer__packed_head_checksum(damaged, damaged + COFFER__PACKED_HEAD_SIZE, index);
        for (size_t i = 0; i < 8; i++) {
            damaged[COFFER__PACKED_CHECKSUM_AT + i] = (uint8_t)(sum >> (8 * i));
        }
    }
    const coffer_status found = support_unpack(COFFER_BF16, damaged, size, back, tensor_size, &err);
    if (found != status || err.offset != offset) {
        fail_msg("byte %u: %u at %u", (unsigned)at, (unsigned)found, (unsigned)err.offset);
    }

    free(back);
    free(damaged);
}

/* 600 elements of BF16: head 0, table 64, record 192, chunk 208: 600 raw bytes, 64 of lengths at 808, stream at 872. */
static void test_damage(void **state)
{
    (void)state;
    uint8_t *elements = make_elements(COFFER_BF16, 1200);
    size_t size = 0;
    uint8_t *packed = support_pack(COFFER_BF16, elements, 1200, &size);
    const size_t length = packed[872 - 64] | (size_t)packed[872 - 63] << 8;
    assert_damage(packed, size, 0, 'X', COFFER_ERR_PACK_HEAD, 0);
    assert_damage(packed, size, 8, 2, COFFER_ERR_PACK_HEAD, 8);
    assert_damage(packed, size, 9, 1, COFFER_ERR_PACK_HEAD, 9);
    assert_damage(packed, size, 10, 4, COFFER_ERR_PACK_HEAD, 10);
    assert_damage(packed, size, 11, 3, COFFER_ERR_PACK_HEAD, 11);
    assert_damage(packed, size, 12, 2, COFFER_ERR_PACK_HEAD, 12);
    assert_damage(packed, size, 13, 200, COFFER_ERR_PACK_HEAD, 32);
    assert_damage(packed, size, 16, 2, COFFER_ERR_PACK_HEAD, 16);
    assert_damage(packed, size, 24, 1, COFFER_ERR_PACK_HEAD, 24);
    assert_damage(packed, size, 33, 0xFF, COFFER_ERR_PACK_HEAD, 32);
    assert_damage(packed, size, 64, 0x11, COFFER_ERR_PACK_CODE, 64);    /* over-full */
    assert_damage(packed, size, 64, 0x0F, COFFER_ERR_PACK_CODE, 64);    /* 15 bits */
    assert_damage(packed, size, 64 + 120, 0, COFFER_ERR_PACK_CODE, 64); /* incomplete */
    assert_damage(packed, size, 192, 1, COFFER_ERR_PACK_TABLE, 64);     /* the chunk's length */
    assert_damage(packed, size, 194, 1, COFFER_ERR_PACK_TABLE, 194);    /* a table that is not there */
    assert_damage(packed, size, 195, 1, COFFER_ERR_PACK_TABLE, 194);    /* one that nothing needs */
    assert_damage(packed, size, 196, 0x23, COFFER_ERR_PACK_TABLE, 196); /* a mode of residuals */
    assert_damage(packed, size, 197, 0x01, COFFER_ERR_PACK_TABLE, 196); /* a plane that is not there */
    assert_damage(packed, size, 200, (uint8_t)(packed[200] ^ 1), COFFER_ERR_PACK_CHECKSUM, 208);
    assert_damage(packed, size, 208, (uint8_t)(packed[208] ^ 1), COFFER_ERR_PACK_CHECKSUM, 208);
    assert_damage(packed, size, 808, (uint8_t)(packed[808] + 1), COFFER_ERR_PACK_STREAM, 208);
    assert_damage(packed, size, 808, (uint8_t)(packed[808] - 1), COFFER_ERR_PACK_STREAM, 208);
    assert_damage(packed, size, 809, 0xFF, COFFER_ERR_PACK_STREAM, 208);
    assert_damage(packed, size, 810, 1, COFFER_ERR_PACK_STREAM, 208); /* a stream without symbols */
    assert_damage(packed, size, 872 + length, 1, COFFER_ERR_PACK_STREAM, 208);
    assert_damage(packed, size, size - 1, 1, COFFER_ERR_PACK_STREAM, size - 1);
    free(packed);
    free(elements);
}

/* Of skewed counts the lengths are limited, and the code is complete; the cost is that of the best code. */
static void test_code_lengths(void **state)
{
    (void)state;
    uint64_t counts[COFFER__CODE_SYMBOLS] = { 0 };
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    assert_false(coffer__code_lengths(counts, lengths));
    counts[7] = 5;
    assert_false(coffer__code_lengths(counts, lengths));
    counts[9] = 1;
    assert_true(coffer__code_lengths(counts, lengths));
    assert_int_equal(lengths[7] + lengths[9], 2);
    /* Powers of two would be as long as there are symbols. */
    for (size_t i = 0; i < 40; i++) {
        counts[i] = UINT64_C(1) << i;
    }
    assert_true(coffer__code_lengths(counts, lengths));
    assert_true(coffer__code_is_complete(lengths));
    for (size_t i = 0; i < COFFER__CODE_SYMBOLS; i++) {
        counts[i] = 3;
    }
    assert_true(coffer__code_lengths(counts, lengths));
    assert_int_equal(coffer__code_cost(counts, lengths), 256 * 3 * 8);
    /* The best code of 1, 1, 2, 4 has 3, 3, 2 and 1 bits. */
    memset(counts, 0, sizeof counts);
    counts[0] = 1;
    counts[1] = 1;
    counts[2] = 2;
    counts[3] = 4;
    assert_true(coffer__code_lengths(counts, lengths));
    assert_int_equal(coffer__code_cost(counts, lengths), 14);
}

/* Streams of every length, alone and by fours, as far as the last symbol; cut or prolonged, they are damaged. */
static void test_code_streams(void **state)
{
    (void)state;
    uint64_t counts[COFFER__CODE_SYMBOLS];
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    uint8_t symbols[4][600];
    uint8_t bytes[4000];
    uint8_t out[4][600 + COFFER__CODE_SLACK];
    uint32_t seed = 9;
    for (size_t i = 0; i < COFFER__CODE_SYMBOLS; i++) {
        counts[i] = i < 100 ? 1000 - 9 * i : i == 200 ? 100000 : 0;
    }
    assert_true(coffer__code_lengths(counts, lengths));
    coffer__code_writer *writer = malloc(sizeof *writer);
    coffer__code_reader *reader = malloc(sizeof *reader);
    coffer__code_writer_init(writer, lengths);
    coffer__code_reader_init(reader, lengths);
    for (size_t count = 1; count < 600; count++) {
        coffer__code_stream streams[4];
        size_t at = 0;
        for (size_t i = 0; i < 4; i++) {
            for (size_t k = 0; k < count; k++) {
                const uint32_t random = next_random(&seed);
                symbols[i][k] = random % 3 != 0 ? 200 : (uint8_t)(random / 3 % 100);
            }
            const size_t size = coffer__code_write(writer, symbols[i], count, bytes + at);
            streams[i] = (coffer__code_stream){ .at = at, .end = at + size, .out = out[i], .count = count };
            at += size;
        }
        memset(bytes + at, 0xFF, COFFER__CODE_SLACK);
        const size_t together = 1 + count % 4;
        assert_int_equal(coffer__code_read(reader, bytes, streams, together), together);
        for (size_t i = 0; i < together; i++) {
            assert_memory_equal(out[i], symbols[i], count);
        }
        streams[0].end++;
        assert_int_equal(coffer__code_read(reader, bytes, streams, 1), 0);
    }
    free(reader);
    free(writer);
}

/* By xxHash's own code. */
static void test_checksum(void **state)
{
    (void)state;
    const struct {
        size_t size;
        uint64_t hash;
    } known[] = {
        { 0, UINT64_C(0x2d06800538d394c2) },    { 1, UINT64_C(0xc44bdff4074eecdb) },
        { 2, UINT64_C(0xd6645fc3051a9457) },    { 3, UINT64_C(0x5f4299fc161c9cbb) },
        { 4, UINT64_C(0x516604b0333c4899) },    { 7, UINT64_C(0xf19bb079ffc06c1b) },
        { 8, UINT64_C(0x267fc0036c7ebd1d) },    { 9, UINT64_C(0x3976d35cca2dd1f3) },
        { 15, UINT64_C(0x9544c090fac48122) },   { 16, UINT64_C(0x58d559b95902172d) },
        { 17, UINT64_C(0x1f07858bdf14b7a7) },   { 32, UINT64_C(0xaf8890abb848fc7a) },
        { 33, UINT64_C(0xdaa63c6b927cffa6) },   { 64, UINT64_C(0x539ead50594d11af) },
        { 65, UINT64_C(0xf481de7e554c92e8) },   { 96, UINT64_C(0xa049d7ce8902eae5) },
        { 97, UINT64_C(0xc06e5757b5c7b1e2) },   { 128, UINT64_C(0xa87b3deb08e9fce1) },
        { 129, UINT64_C(0xa4a93ea0eee1c3a9) },  { 143, UINT64_C(0x0964a9282a9dda20) },
        { 144, UINT64_C(0x426aab523df06986) },  { 200, UINT64_C(0xcbff50a6cfa7b82a) },
        { 240, UINT64_C(0x1ca07ef73860196f) },  { 241, UINT64_C(0x2973e915d9720f24) },
        { 511, UINT64_C(0xf65ba37d297df2f7) },  { 1024, UINT64_C(0xca344ff1bea89bf7) },
        { 1025, UINT64_C(0x44f8354f85ac3852) }, { 1088, UINT64_C(0x731a92ebff7ab112) },
        { 2048, UINT64_C(0xd69aa2d52ea25582) }, { 4095, UINT64_C(0x3a8ea6645d12ccfb) },
        { 4096, UINT64_C(0x85eab42a2ebc5ca0) },
    };
    uint8_t bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * i >> 3 ^ i);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(coffer__xxh3_64(bytes, known[i].size), known[i].hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_every_pattern),
        cmocka_unit_test(test_equal_elements),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_several_tables),
        cmocka_unit_test(test_streams_alone),
        cmocka_unit_test(test_every_flipped_bit),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_code_lengths),
        cmocka_unit_test(test_code_streams),
        cmocka_unit_test(test_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
