/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are stored as chunks of one size: where the rows of a chunk belong in the array. Pure. */
#ifndef COFFER_IMPORT_GRID_H
#define COFFER_IMPORT_GRID_H

#include "plan.h"

#define COFFER__GRID_MAX_CHUNK ((uint64_t)8 << 20) /* bytes of a chunk */

/* Takes bytes for a place in the array. */
typedef coffer_status coffer__grid_put(void *ctx, uint64_t at, const uint8_t *bytes, size_t size, coffer_error *err);
/* Hands over the rows of chunk `number` of a storage with a grid, as far as they follow each other in the array. */
coffer_status coffer__grid_spread(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                  uint32_t number, const uint8_t *bytes, coffer__grid_put *put, void *ctx,
                                  coffer_error *err);

#endif
