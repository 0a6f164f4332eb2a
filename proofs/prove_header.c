/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header's builder: what it writes, whatever it is asked to write, that it reads what it wrote, in both formats, and what
 * it refuses.
 */
#include "declared.h"
#include "prove.h"

/* What is longer than any header; nobody looks at it. */
#define PROVE_TOO_LONG ((size_t)COFFER_LARGEST_MAX_HEADER_SIZE + 1)

/* ---- any dimension, memory that may run out ---- */

static void prove_build(coffer_dtype dtype, uint64_t dimension, const char *name, size_t name_len)
{
    coffer_error err;
    coffer_header *header = NULL;
    if (coffer__header_create(&header, &prove_allocator, &err) != COFFER_OK) {
        return;
    }
    const uint64_t shape[2] = { dimension, 2 };
    coffer_status status = coffer_header_add(header, "a", 1, COFFER_F32, shape + 1, 1, &err);
    if (status == COFFER_OK) {
        status = coffer_header_add(header, name, name_len, dtype, shape, 2, &err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, "k\n", 2, "", 0, &err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, name, name_len, "v", 1, &err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, "k\n", 2, "w", 1, &err);
    }
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_table *table = NULL;
    if (status == COFFER_OK && coffer_header_build(header, NULL, &bytes, &size, &table, &err) == COFFER_OK) {
        coffer_header_at(header, 1);
        coffer_header_build(header, NULL, &bytes, &size, &table, &err);
        coffer_header_add(header, "late", 4, COFFER_U8, NULL, 0, &err);
    }
    coffer_header_free(header);
}

static void prove_dimensions(void)
{
    coffer_error err;
    coffer_header *header = NULL;
    if (coffer__header_create(&header, &prove_allocator, &err) != COFFER_OK) {
        return;
    }
    const uint64_t shape[3] = { prove_u64(), prove_u64(), prove_u64() };
    coffer_header_add(header, "n", 1, (coffer_dtype)prove_each(22, 23), shape, 3, &err);
    coffer_header_free(header);
}

/* ---- everything that can be asked for ---- */

static coffer_header *prove_new(void)
{
    coffer_error err;
    coffer_header *header = NULL;
    if (coffer__header_create(&header, &prove_certain_allocator, &err) != COFFER_OK) {
        exit(1);
    }
    return header;
}

/* Tensors and pairs enough that both formats spell everything that they can: all widths of a number, several pairs. */
static coffer_header *prove_declared(coffer_dtype dtype)
{
    static const uint64_t shape[] = { 300, 70000, 2, 1, UINT64_C(1) << 33 };
    coffer_error err;
    coffer_header *header = prove_new();
    coffer_header_add(header, "b", 1, COFFER_F32, shape, 2, &err);
    coffer_header_add(header, "a", 1, dtype, shape + 2, 2, &err);
    coffer_header_add(header, "", 0, dtype, NULL, 0, &err);
    coffer_header_add(header, "c", 1, COFFER_F64, shape + 1, 2, &err);
    coffer_header_add(header, "d", 1, COFFER_I16, shape + 4, 1, &err);
    coffer_header_set_metadata(header, "l", 1, "v", 1, &err);
    coffer_header_set_metadata(header, "k", 1, "", 0, &err);
    coffer_header_set_metadata(header, "k", 1, "w", 1, &err);
    coffer_header_set_metadata(header, NULL, 0, NULL, 0, &err);
    coffer__header_set_format(header, &err);
    return header;
}

/* Builds and frees it, with `options`. */
static void prove_options(coffer_header *header, const coffer_header_options *options)
{
    coffer_error err;
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_table *table = NULL;
    coffer_header_at(header, 0);
    coffer_header_build(header, options, &bytes, &size, &table, &err);
    //@ loop unroll 8;
    for (size_t i = 0; i <= coffer_header_count(header); i++) {
        coffer_header_at(header, i);
    }
    coffer_header_build(header, options, NULL, NULL, NULL, &err);
    coffer_header_free(header);
}

static void prove_formats(coffer_format format)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.format = format;
    prove_options(prove_declared(COFFER_U8), &options);
    prove_options(prove_declared(COFFER_F8_E8M0), &options);
    prove_options(prove_new(), &options);
    options.empty_metadata = true;
    prove_options(prove_new(), &options);
    options.slack = 20;
    options.alignment = 64;
    prove_options(prove_declared(COFFER_BF16), &options);
    options.max_header_size = 50;
    prove_options(prove_declared(COFFER_BF16), &options);
    options.slack = UINT64_MAX;
    options.max_header_size = 0;
    prove_options(prove_declared(COFFER_BF16), &options);
    options.slack = options.alignment = UINT64_C(1) << 63;
    prove_options(prove_declared(COFFER_BF16), &options);
}

/* Options that no header can be built with. */
static void prove_wrong_options(void)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.alignment = 4;
    prove_options(prove_declared(COFFER_U8), &options);
    options.alignment = 24;
    prove_options(prove_declared(COFFER_U8), &options);
    options.alignment = 0;
    options.format = COFFER_FORMAT_BINTENSORS_ALPHA;
    prove_options(prove_declared(COFFER_U8), &options);
    options.format = (coffer_format)99;
    prove_options(prove_declared(COFFER_U8), &options);
    options.struct_size = 0;
    prove_options(prove_declared(COFFER_U8), &options);
    prove_options(prove_declared(COFFER_U8), NULL);
}

/* Declarations that are refused, one by one. */
static void prove_refused(void)
{
    static const uint64_t large[] = { UINT64_MAX / 8, 0, UINT64_MAX };
    coffer_error err;
    coffer_header *header = prove_new();
    coffer__header_create(NULL, &prove_certain_allocator, &err);
    coffer_header_add(NULL, "a", 1, COFFER_U8, large, 1, &err);
    coffer_header_add(header, NULL, 1, COFFER_U8, large, 1, &err);
    coffer_header_add(header, "a", 1, COFFER_U8, NULL, 1, &err);
    coffer_header_add(header, NULL, 0, COFFER_F4, NULL, 0, &err);
    coffer_header_add(header, "\xFF", 1, COFFER_U8, large, 1, &err);
    coffer_header_add(header, "__metadata__", 12, COFFER_U8, large, 1, &err);
    coffer_header_add(header, "a", 1, COFFER_U8, large, (size_t)UINT32_MAX + 1, &err);
    coffer_header_add(header, "a", 1, (coffer_dtype)-1, large, 1, &err);
    coffer_header_add(header, "a", 1, COFFER_F4, NULL, 0, &err);
    coffer_header_add(header, "a", 1, COFFER_F32, large + 2, 1, &err);
    coffer_header_set_metadata(NULL, "a", 1, "b", 1, &err);
    coffer_header_set_metadata(header, NULL, 1, "b", 1, &err);
    coffer_header_set_metadata(header, "a", 1, NULL, 1, &err);
    coffer_header_set_metadata(header, "\xFF", 1, "b", 1, &err);
    coffer_header_set_metadata(header, "a", 1, "\xFF", 1, &err);
    coffer_header_set_metadata(header, "a", 1, "a", PROVE_TOO_LONG, &err);
    coffer_header_build(NULL, NULL, NULL, NULL, NULL, &err);
    coffer_header_free(NULL);
    /* Each of these can be, but not all of them together. */
    for (int i = 0; i < 9; i++) {
        coffer_header_add(header, "a", 1, COFFER_U8, large, 1, &err);
    }
    prove_options(header, NULL);
}

int main(void)
{
    static const struct {
        coffer_dtype dtype;
        uint64_t dimension;
        const char *name;
        size_t name_len;
    } built[] = {
        { COFFER_F4, 1, "b", 1 }, { COFFER_F4, UINT64_MAX, "b", 1 },    { COFFER_U8, UINT64_MAX / 16, "b", 1 },
        { COFFER_U8, 1, "a", 1 }, { COFFER_U8, 1, "__metadata__", 12 },
    };
    if (prove_is_mine(0)) {
        //@ loop unroll 5;
        for (size_t i = 0; i < sizeof built / sizeof built[0]; i++) {
            prove_build(built[i].dtype, built[i].dimension, built[i].name, built[i].name_len);
        }
        prove_dimensions();
    }
    if (prove_is_mine(1)) {
        prove_wrong_options();
        prove_refused();
    }
    if (prove_is_mine(2)) {
        prove_formats(COFFER_FORMAT_ANY);
    }
    if (prove_is_mine(3)) {
        prove_formats(COFFER_FORMAT_BINTENSORS);
    }
    return 0;
}
