/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor, integers, checked arithmetic, scanning, hashing: every content of up to BYTES_MAX bytes, every number. */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "prove.h"
#include "scan.h"
#include "sort.h"
#include "table.h"

#define BYTES_MAX 18

static void prove_checked(void)
{
    uint64_t result = 0;
    coffer__add_u64(prove_u64(), prove_u64(), &result);
    coffer__mul_u64(prove_u64(), prove_u64(), &result);
    coffer__round_up_u64(prove_u64(), UINT64_C(1) << prove_size(0, 63), &result);
}

static void prove_numbers(void)
{
    uint8_t *bytes = prove_bytes(8);
    uint64_t value = 0;
    coffer__store_u64le(bytes, coffer__load_u64le(bytes));
    const size_t digits = coffer__leading_digits(bytes, &value);
    //@ assert digits <= 8;
}

static void prove_cursor(size_t size)
{
    const coffer__cursor in = { prove_bytes(size), size, prove_each(0, size) };
    const size_t left = coffer__left(&in);
    //@ assert left <= size;
    coffer__next_is(&in, "\"shape\":[", 9);
}

static void prove_scan(size_t size)
{
    const size_t plain = coffer__scan_plain(prove_bytes(size), size);
    //@ assert plain <= size;
}

static void prove_texts(size_t size)
{
    const char *a = (const char *)prove_bytes(size);
    const char *b = (const char *)prove_bytes(size);
    coffer__compare_names(a, size, b, size / 2);
    coffer__hash_name(a, size);
}

int main(void)
{
    prove_checked();
    prove_numbers();
    coffer__alloc(&prove_allocator, 0);
    //@ loop unroll BYTES_MAX;
    for (size_t size = 1; size <= BYTES_MAX; size++) {
        prove_cursor(size);
        prove_scan(size);
        prove_texts(size);
    }
    return 0;
}
