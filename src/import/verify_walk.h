/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that a tensor should have, by code that the carrier does not share: elements of a view are found by their
 * indices, and changed one by one. So a few things are here a second time on purpose, and must not be merged with what
 * the transfer does: the swapping of bytes, the change of signs, and the walk over a view. Pure.
 */
#ifndef COFFER_IMPORT_VERIFY_WALK_H
#define COFFER_IMPORT_VERIFY_WALK_H

#include "plan.h"

/* Bytes of a view's result before any change: `size` from byte `offset` on, both whole items, from its storage. */
void coffer__verify_gather(const coffer__import_plan_row *row, const coffer__import_plan_dimension *dimensions,
                           const uint8_t *storage, uint64_t offset, uint8_t *bytes, uint64_t size);
/* Swaps bytes and changes signs of whole items, as the row says. */
void coffer__verify_change(const coffer__import_plan_row *row, uint8_t *bytes, uint64_t size);

#endif
