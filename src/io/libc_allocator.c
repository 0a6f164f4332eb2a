/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of core that take an allocator. Core does their work, but needs an allocator that is
 * not NULL, since it does not know libc's. A program without a libc calls core's own functions.
 */
#include "libc_allocator.h"

#include "declared.h"
#include "parse.h"

coffer_status coffer_parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                           const coffer_allocator *allocator, const coffer_parse_options *options, coffer_error *err)
{
    return coffer__parse_header(table, need, bytes, size, coffer__allocator_or_libc(allocator), options, err);
}

coffer_status coffer_header_new(coffer_header **header, const coffer_allocator *allocator, coffer_error *err)
{
    return coffer__header_create(header, coffer__allocator_or_libc(allocator), err);
}
