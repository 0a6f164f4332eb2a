/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations that the caller gives: whether an item fits into its own, and whether two of them share a byte. The
 * answers are exact, also for destinations that lie between each other, such as the columns of one matrix.
 */
#ifndef COFFER_LOAD_DESTINATIONS_H
#define COFFER_LOAD_DESTINATIONS_H

#include "load_plan.h"

/* Checks a destination for an item whose shape and size are known: COFFER_ERR_DESTINATION when it is too small, or when
   its strides are none that an item can have. */
coffer_status coffer__destination_fits(const coffer__load_item *item, const coffer_destination *destination,
                                       coffer_error *err);
/* COFFER_ERR_DESTINATION when two of the plan's destinations share a byte; the error names one of the tensors. */
coffer_status coffer__destinations_apart(const coffer_plan *plan, const coffer_allocator *allocator, coffer_error *err);

#endif
