/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that the caller gives: whether an item fits into its own, and whether two of them share a byte. The answers
 * are exact, also for places that lie between each other, such as the columns of one matrix.
 */
#ifndef COFFER_LOAD_PLACES_H
#define COFFER_LOAD_PLACES_H

#include "load_plan.h"

/* Checks a place for an item whose shape and size are known: COFFER_ERR_PLACE when it is too small, or when its strides
   are none that an item can have. */
coffer_status coffer__model_dir_fits(const coffer__load_item *item, const coffer_place *place, coffer_error *err);
/* COFFER_ERR_PLACE when two of the plan's places share a byte; the error names one of the tensors. */
coffer_status coffer__places_apart(const coffer_plan *plan, const coffer_allocator *allocator, coffer_error *err);

#endif
