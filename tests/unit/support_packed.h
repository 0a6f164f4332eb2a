/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are packed and unpacked in memory. */
#ifndef COFFER_TESTS_SUPPORT_PACKED_H
#define COFFER_TESTS_SUPPORT_PACKED_H

#include "coffer.h"

#include <stdint.h>

/* The packed tensor, to be freed; *size its bytes. */
uint8_t *support_pack(coffer_dtype dtype, const uint8_t *elements, size_t tensor_size, size_t *size);
/* Unpacks and verifies everything: head, index, chunks, zeros. `elements` has tensor_size bytes. */
coffer_status support_unpack(coffer_dtype dtype, const uint8_t *packed, size_t size, uint8_t *elements,
                             size_t tensor_size, coffer_error *err);

#endif
