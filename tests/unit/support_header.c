/* SPDX-License-Identifier: Apache-2.0 */
#include "support_header.h"

#include "support_cmocka.h"

#include <string.h>

coffer_header *new_header(void)
{
    coffer_header *header = NULL;
    assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
    return header;
}

void add_tensor(coffer_header *header, const char *name, coffer_dtype dtype, size_t rank, uint64_t first,
                uint64_t second)
{
    const uint64_t shape[] = { first, second };
    assert_int_equal(coffer_header_add(header, name, strlen(name), dtype, shape, rank, NULL), COFFER_OK);
}

void set_metadata(coffer_header *header, const char *key, const char *value)
{
    assert_int_equal(coffer_header_set_metadata(header, key, strlen(key), value, strlen(value), NULL), COFFER_OK);
}
