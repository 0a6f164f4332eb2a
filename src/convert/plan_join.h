/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two plans as one: the items of the second follow those of the first, with the numbers by which they refer to each
 * other moved. Both were checked. Files of the second get the numbers from `file` on, which is one past those of the
 * first.
 */
#ifndef COFFER_CONVERT_PLAN_JOIN_H
#define COFFER_CONVERT_PLAN_JOIN_H

#include "plan.h"

/* Puts all of `more` into the plan, which stays as it was on failure. The plan's budget grows by what `more` takes.
   COFFER_ERR_DUPLICATE_KEY for metadata of one key and two values. Names of rows are not compared. */
coffer_status coffer__plan_join(coffer__plan *plan, const coffer__plan *more, uint32_t file, coffer_error *err);
/* Numbers of two rows of the same name, of which one is before row `split` and the other is not: *first and *second.
   Rows that are skipped do not count. *first is UINT32_MAX when there are none. */
coffer_status coffer__plan_find_same(const coffer__plan *plan, size_t split, uint32_t *first, uint32_t *second,
                                     coffer_error *err);
/* As it was before a coffer__plan_join: `before` is a copy of it from then. */
void coffer__plan_unjoin(coffer__plan *plan, const coffer__plan *before);

#endif
