/* SPDX-License-Identifier: Apache-2.0 */
/* The header's builder: what it writes, whatever it is asked to write, and that it reads what it wrote. */
#include "prove.h"

static void prove_build(coffer_dtype dtype, uint64_t dimension, const char *name, size_t name_len)
{
    coffer_error err;
    coffer_header *header = NULL;
    if (coffer_header_new(&header, &prove_allocator, &err) != COFFER_OK) {
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
    if (coffer_header_new(&header, &prove_allocator, &err) != COFFER_OK) {
        return;
    }
    const uint64_t shape[3] = { prove_u64(), prove_u64(), prove_u64() };
    coffer_header_add(header, "n", 1, (coffer_dtype)prove_each(22, 23), shape, 3, &err);
    coffer_header_free(header);
}

int main(void)
{
    prove_build(COFFER_F4, 1, "b", 1);
    prove_build(COFFER_F4, UINT64_MAX, "b", 1);
    prove_build(COFFER_U8, UINT64_MAX / 16, "b", 1);
    prove_build(COFFER_U8, 1, "a", 1);
    prove_build(COFFER_U8, 1, "__metadata__", 12);
    prove_dimensions();
    return 0;
}
