/* SPDX-License-Identifier: Apache-2.0 */
/* Declaring what a test writes, where declaring is not what is tested: a refusal fails the test. */
#ifndef COFFER_TESTS_SUPPORT_HEADER_H
#define COFFER_TESTS_SUPPORT_HEADER_H

#include "coffer.h"

/* To be freed by coffer_header_free. */
coffer_header *new_header(void);
/* Of rank 0 to 2: `first` and `second` beyond the rank do not count. */
void add_tensor(coffer_header *header, const char *name, coffer_dtype dtype, size_t rank, uint64_t first,
                uint64_t second);
void set_metadata(coffer_header *header, const char *key, const char *value);

#endif
