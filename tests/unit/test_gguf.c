/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: nobody sees that a quantised weight became another number. Blocks of every type are decoded to what the
 * dequantisers of the package gguf make of the same bytes (of Q1_0 and Q2_0, which it lacks, to what ggml's formula
 * gives), numbers are rounded as NumPy and ml_dtypes round them, and reads of any place and size are parts of the whole.
 */
#include "support_cmocka.h"

#include "gguf_blocks.h"
#include "readers.h"
#include "source_blocks.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 3

/* Bytes that are the same on every machine. */
static void make_bytes(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = (uint32_t)((seed * UINT64_C(1103515245) + 12345) & 0x7FFFFFFF);
        bytes[i] = (uint8_t)(seed >> 16);
    }
}

static uint32_t word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint32_t fnv(const uint8_t *bytes, size_t size)
{
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x01000193u;
    }
    return hash;
}

/* Of three blocks: the first element, one of the second half of the first block, the last one, and FNV-1a of all. */
static const struct {
    uint32_t number;
    const char *name;
    uint32_t elements;
    uint32_t size;
    uint32_t seed;
    uint32_t bits[3];
    uint32_t hash;
} types[] = {
    { 2, "Q4_0", 32, 18, 88, { 0xc14eb800, 0xc0a56000, 0xc4c03000 }, 0x9aef10cc },
    { 3, "Q4_1", 32, 20, 46, { 0x3b897000, 0x3c205000, 0xc0f162cc }, 0x7ce896ef },
    { 6, "Q5_0", 32, 22, 135, { 0x3c726000, 0xbb726000, 0xba302000 }, 0x480853da },
    { 7, "Q5_1", 32, 24, 136, { 0xc316d380, 0xc303c880, 0x3b851000 }, 0x641b0b6c },
    { 8, "Q8_0", 32, 34, 51, { 0x42102000, 0xc2eeb500, 0x3fec0000 }, 0x48973261 },
    { 10, "Q2_K", 256, 84, 397, { 0xc3f8b718, 0xc2f76280, 0xc4f65eac }, 0xefd85b57 },
    { 11, "Q3_K", 256, 110, 54, { 0xbd2ab800, 0xbc556600, 0xbb46f400 }, 0xf9a75596 },
    { 12, "Q4_K", 256, 144, 98, { 0x464df76b, 0x3f4cc6c0, 0xc5603e29 }, 0x31dae4c7 },
    { 13, "Q5_K", 256, 176, 228, { 0xc18bca80, 0xc0eebb00, 0x3d103b00 }, 0xebc20cae },
    { 14, "Q6_K", 256, 210, 229, { 0x45853a40, 0xc43b7580, 0x3f300700 }, 0x8d4427a4 },
    { 16, "IQ2_XXS", 256, 66, 59, { 0xc4944800, 0x44ef8800, 0x3c5d4a00 }, 0x541c8ea6 },
    { 17, "IQ2_XS", 256, 74, 103, { 0xc4ad9c88, 0xc1192000, 0xc3e62800 }, 0x612a1f62 },
    { 18, "IQ3_XXS", 256, 98, 61, { 0xbe322000, 0xbe192000, 0xc26bfc80 }, 0xb834d890 },
    { 19, "IQ1_S", 256, 50, 62, { 0x3e20e000, 0x4178da80, 0x39c4c400 }, 0x13a4d1b9 },
    { 20, "IQ4_NL", 32, 18, 106, { 0xc0c95c00, 0xc155b000, 0xbbd41200 }, 0x0bcc09ec },
    { 21, "IQ3_S", 256, 110, 64, { 0xbb463700, 0x3a2f0c00, 0x3ca1e800 }, 0x71b1da1b },
    { 22, "IQ2_S", 256, 82, 65, { 0x3f107e00, 0xc033c770, 0xbc86c700 }, 0xb29b833b },
    { 23, "IQ4_XS", 256, 136, 109, { 0x3f96feb0, 0xbeb531a0, 0xbde9a900 }, 0x67f7cf44 },
    { 29, "IQ1_M", 256, 56, 115, { 0x429ea6c0, 0xc126aa00, 0x43105c40 }, 0x9eef0d74 },
    { 34, "TQ1_0", 256, 54, 77, { 0x80000000, 0x45344000, 0x46be2000 }, 0xa82b5eb6 },
    { 35, "TQ2_0", 256, 66, 121, { 0x43fce000, 0xc37ce000, 0xb944c000 }, 0xb49f11b6 },
    { 39, "MXFP4", 32, 17, 1716, { 0xa3c00000, 0xa3400000, 0x3f800000 }, 0x5dc02c7b },
    { 40, "NVFP4", 64, 36, 83, { 0x41840000, 0x41800000, 0x00000000 }, 0x90c1cd72 },
    { 41, "Q1_0", 128, 18, 84, { 0xbec22000, 0xbec22000, 0x40b00000 }, 0x42db29c5 },
    { 42, "Q2_0", 64, 18, 85, { 0xc3bb0000, 0xc3bb0000, 0xc56c0000 }, 0x0d6b6be7 },
};
#define TYPES (sizeof types / sizeof types[0])

static void test_every_type(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        uint8_t blocks[BLOCKS * 256];
        uint8_t made[BLOCKS * COFFER__GGUF_BLOCK_MAX * 4];
        const coffer__gguf_type *type = coffer__gguf_type_of(types[t].number);
        assert_non_null(type);
        assert_string_equal(type->name, types[t].name);
        assert_int_equal(type->elements, types[t].elements);
        assert_int_equal(type->size, types[t].size);
        const size_t elements = BLOCKS * (size_t)type->elements;
        make_bytes(blocks, BLOCKS * (size_t)type->size, types[t].seed);
        coffer__gguf_decode(type, blocks, BLOCKS, 1, COFFER_F32, made);
        const uint32_t found[3] = { word(made), word(made + 4 * (size_t)(type->elements / 2 + 1)),
                                    word(made + 4 * (elements - 1)) };
        if (memcmp(found, types[t].bits, sizeof found) != 0 || fnv(made, 4 * elements) != types[t].hash) {
            fail_msg("%s: %08x %08x %08x, %08x in all", type->name, (unsigned)found[0], (unsigned)found[1],
                     (unsigned)found[2], (unsigned)fnv(made, 4 * elements));
        }
    }
}

/* The table has these types and the plain ones, and no number that was removed or that only programs use. */
static void test_numbers(void **state)
{
    (void)state;
    size_t blocks = 0;
    size_t plain = 0;
    for (uint32_t number = 0; number < 300; number++) {
        const coffer__gguf_type *type = coffer__gguf_type_of(number);
        blocks += type != NULL && type->decode != NULL;
        plain += type != NULL && type->dtype != COFFER_UNKNOWN_DTYPE;
        assert_true(type == NULL || (type->number == number && number < COFFER__GGUF_TYPES));
    }
    assert_int_equal(blocks, TYPES);
    assert_int_equal(plain, 8);
    static const uint32_t none[] = { 4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 43, UINT32_MAX };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(coffer__gguf_type_of(none[i]));
    }
}

/* ---- rounding ---- */

static void decode_bits(const uint8_t *block, float *values)
{
    const uint32_t bits = word(block);
    memcpy(values, &bits, sizeof bits);
}

/* A type whose blocks are F32, so that any number can be rounded. */
static const coffer__gguf_type any_number = { "any", decode_bits, 0, 1, 4, COFFER_UNKNOWN_DTYPE };

static unsigned rounded(uint32_t bits, coffer_dtype dtype)
{
    uint8_t made[4] = { 0 };
    const uint8_t block[4] = { (uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24) };
    coffer__gguf_decode(&any_number, block, 1, 1, dtype, made);
    return made[0] | (unsigned)made[1] << 8;
}

/* Ties go to even, below the normal numbers of F16 too, and what is too large becomes infinity. */
static void test_rounding(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        unsigned f16;
        unsigned bf16;
    } rows[] = {
        { 0x00000000, 0x0000, 0x0000 }, { 0x80000000, 0x8000, 0x8000 }, { 0x3f800000, 0x3c00, 0x3f80 },
        { 0xbf800000, 0xbc00, 0xbf80 }, { 0x3f801000, 0x3c00, 0x3f80 }, { 0x3f803000, 0x3c02, 0x3f80 },
        { 0x3f801001, 0x3c01, 0x3f80 }, { 0x3f800fff, 0x3c00, 0x3f80 }, { 0x3f808000, 0x3c04, 0x3f80 },
        { 0x3f818000, 0x3c0c, 0x3f82 }, { 0x3f808001, 0x3c04, 0x3f81 }, { 0x3f807fff, 0x3c04, 0x3f80 },
        { 0x33000000, 0x0000, 0x3300 }, { 0x33000001, 0x0001, 0x3300 }, { 0x33800000, 0x0001, 0x3380 },
        { 0x33c00000, 0x0002, 0x33c0 }, { 0x387fc000, 0x03ff, 0x3880 }, { 0x387fe000, 0x0400, 0x3880 },
        { 0x387fdfff, 0x03ff, 0x3880 }, { 0x38800000, 0x0400, 0x3880 }, { 0xb8000800, 0x8200, 0xb800 },
        { 0x477fe000, 0x7bff, 0x4780 }, { 0x477fefff, 0x7bff, 0x4780 }, { 0x477ff000, 0x7c00, 0x4780 },
        { 0xc77ff000, 0xfc00, 0xc780 }, { 0x7f7fffff, 0x7c00, 0x7f80 }, { 0x7f7f7fff, 0x7c00, 0x7f7f },
        { 0x7f800000, 0x7c00, 0x7f80 }, { 0xff800000, 0xfc00, 0xff80 }, { 0x00000001, 0x0000, 0x0000 },
        { 0x80008000, 0x8000, 0x8000 }, { 0x00018000, 0x0000, 0x0002 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rounded(rows[i].bits, COFFER_F16) != rows[i].f16 || rounded(rows[i].bits, COFFER_BF16) != rows[i].bf16) {
            fail_msg("%08x: %04x %04x", (unsigned)rows[i].bits, rounded(rows[i].bits, COFFER_F16),
                     rounded(rows[i].bits, COFFER_BF16));
        }
    }
}

/* Also one whose payload is in the lower half alone, which must not become infinity. */
static void test_nans_stay_nans(void **state)
{
    (void)state;
    static const uint32_t nans[] = { 0x7f800001, 0x7f80ffff, 0x7fc00000, 0xff800001, 0xffffffff, 0x7fffffff };
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        const unsigned f16 = rounded(nans[i], COFFER_F16);
        const unsigned bf16 = rounded(nans[i], COFFER_BF16);
        assert_true((f16 & 0x7fff) > 0x7c00 && (bf16 & 0x7fff) > 0x7f80);
        assert_int_equal(f16 >> 15, nans[i] >> 31);
        assert_int_equal(bf16 >> 15, nans[i] >> 31);
    }
}

/* The product is rounded once, in F32: 0.1 of 6 is not the sum of six times 0.1. */
static void test_scales(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        float scale;
        uint32_t product;
    } rows[] = {
        { 0x40c00000, 0.1f, 0x3f19999a }, { 0xbf800000, 0.1f, 0xbdcccccd }, { 0x40c00000, 0, 0 },
        { 0x80000000, 3, 0x80000000 },    { 0x00000001, 0.5f, 0 },          { 0x7f000000, 4, 0x7f800000 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t made[4];
        uint8_t block[4];
        for (size_t k = 0; k < 4; k++) {
            block[k] = (uint8_t)(rows[i].bits >> (8 * k));
        }
        coffer__gguf_decode(&any_number, block, 1, rows[i].scale, COFFER_F32, made);
        assert_int_equal(word(made), rows[i].product);
    }
}

/* ---- reads ---- */

/* Factors as a plan keeps them: 1, 1.5, 2, … */
static uint32_t put_scales(coffer__import_plan *plan, size_t count)
{
    uint8_t bytes[4 * 16];
    uint32_t number = 0;
    coffer_error err;
    assert_true(4 * count <= sizeof bytes);
    assert_int_equal(coffer__import_plan_begin(plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        const float scale = 1 + 0.5f * (float)i;
        uint32_t bits = 0;
        memcpy(&bits, &scale, sizeof bits);
        for (size_t k = 0; k < 4; k++) {
            bytes[4 * i + k] = (uint8_t)(bits >> (8 * k));
        }
    }
    assert_int_equal(coffer__import_plan_put_text(plan, (const char *)bytes, 4 * count, &number, &err), COFFER_OK);
    return number;
}

/* More blocks than are decoded at once, after 7 bytes of something else; with so many factors of equally many blocks. */
static void read_anywhere(const coffer__gguf_type *type, coffer_dtype dtype, size_t scales)
{
    const size_t least = ((size_t)32 << 10) / type->size * 2 + 5;
    const size_t count = scales == 0 ? least : (least / scales + 1) * scales;
    const size_t item = dtype == COFFER_F32 ? 4 : 2;
    coffer__import_plan plan;
    const coffer__import_plan_piece piece = {
        .coding = COFFER__CODING_BLOCKS,
        .offset = 7,
        .stored_size = count * type->size,
        .size = count * type->elements * item,
        .as.blocks = { .type = type->number, .dtype = dtype, .scales = put_scales(&plan, scales) }
    };
    uint8_t *file = malloc(7 + count * type->size);
    uint8_t *whole = malloc((size_t)piece.size);
    uint8_t *part = malloc((size_t)piece.size);
    assert_true(file != NULL && whole != NULL && part != NULL);
    make_bytes(file, 7 + count * type->size, type->number);
    const size_t parts = scales == 0 ? 1 : scales;
    for (size_t i = 0; i < parts; i++) {
        const size_t blocks = count / parts;
        coffer__gguf_decode(type, file + 7 + i * blocks * type->size, blocks, 1 + 0.5f * (float)i, dtype,
                            whole + i * blocks * type->elements * item);
    }
    coffer__byte_source memory;
    coffer__byte_source blocks;
    coffer_error err;
    coffer__source_memory(&memory, file, 7 + count * type->size);
    coffer__source_blocks(&blocks, &memory, &plan, &piece);
    assert_int_equal(blocks.size, piece.size);
    uint32_t seed = 1;
    for (int i = 0; i < 60; i++) {
        uint8_t random[8];
        make_bytes(random, sizeof random, ++seed * 7919);
        const size_t at = (size_t)(word(random) % piece.size);
        const size_t most = (size_t)piece.size - at;
        const size_t size = i % 2 == 0 ? word(random + 4) % (most + 1) : word(random + 4) % (most < 300 ? most : 300);
        memset(part, 0xa5, size + (size < most));
        assert_int_equal(coffer__source_read(&blocks, at, part, size, &err), COFFER_OK);
        assert_memory_equal(part, whole + at, size);
        assert_true(size == most || part[size] == 0xa5);
    }
    assert_int_equal(coffer__source_read(&blocks, 0, part, (size_t)piece.size, &err), COFFER_OK);
    assert_memory_equal(part, whole, (size_t)piece.size);
    coffer__import_plan_free(&plan);
    blocks.ops->close(&blocks);
    memory.ops->close(&memory);
    free(part);
    free(whole);
    free(file);
}

static void test_reads_are_parts_of_the_whole(void **state)
{
    (void)state;
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_F16, COFFER_BF16 };
    for (size_t t = 0; t < TYPES; t += 3) {
        for (size_t d = 0; d < 3; d++) {
            read_anywhere(coffer__gguf_type_of(types[t].number), dtypes[d], 0);
        }
    }
    for (size_t scales = 1; scales <= 16; scales += 5) {
        read_anywhere(coffer__gguf_type_of(COFFER__GGUF_NVFP4), dtypes[scales % 3], scales);
    }
}

/* ---- sizes ---- */

/* A file of 2^62 bytes: one tensor of IQ1_S, then zeros. */
static const uint8_t huge_head[] = {
    'G', 'G', 'U', 'F', 3, 0, 0, 0, 1,   0, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, /* one tensor, no keys */
    1,   0,   0,   0,   0, 0, 0, 0, 'w', 2, 0, 0, 0,                                     /* its name, two dimensions */
    0,   1,   0,   0,   0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0x80, 0,                         /* 256, 2^55 */
    19,  0,   0,   0,   0, 0, 0, 0, 0,   0, 0, 0                                         /* IQ1_S, at 0 */
};

static coffer_status huge_read(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)file;
    (void)err;
    for (size_t i = 0; i < size; i++) {
        const uint64_t at = offset + i;
        ((uint8_t *)bytes)[i] = at < sizeof huge_head ? huge_head[at] : 0;
    }
    return COFFER_OK;
}

/* 2^63 elements fit in the file as blocks, and as numbers in nothing. */
static void test_sizes_of_numbers_do_not_wrap(void **state)
{
    (void)state;
    const coffer__input_files input = { .read = huge_read, .size = UINT64_C(1) << 62, .path = "" };
    static const coffer_dtype dtypes[] = { COFFER_UNKNOWN_DTYPE, COFFER_F32, COFFER_BF16 };
    for (size_t i = 0; i < 3; i++) {
        coffer__wants wants = { .root = "auto", .strip_prefix = "", .raw_blocks = i == 0, .blocks_as = dtypes[i] };
        coffer__import_plan plan;
        coffer_error err;
        assert_int_equal(coffer__import_plan_begin(&plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err),
                         COFFER_OK);
        const coffer_status status = coffer__reader_gguf.read(&input, &wants, &plan, &err);
        assert_int_equal(status, i == 0 ? COFFER_OK : COFFER_ERR_DAMAGED);
        assert_true(i == 0 || strstr(err.message, "more than 2^64-1 bytes") != NULL);
        coffer__import_plan_free(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_nans_stay_nans),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_reads_are_parts_of_the_whole),
        cmocka_unit_test(test_sizes_of_numbers_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
