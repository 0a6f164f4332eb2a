/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two plans as one: the items of the second follow those of the first, with the numbers by which they refer to each
 * other moved. Both were checked. Files of the second get the numbers from `file` on, which is one past those of the
 * first.
 */
#ifndef COFFER_IMPORT_PLAN_JOIN_H
#define COFFER_IMPORT_PLAN_JOIN_H

#include "plan.h"

/* Puts all of `more` into the plan, which stays as it was on failure. The plan's budget grows by what `more` takes.
   COFFER_ERR_DUPLICATE_KEY for metadata of one key and two values, except that two COFFER__PLAN_RECORD become one. Names of rows are not compared. */
coffer_status coffer__import_plan_join(coffer__import_plan *plan, const coffer__import_plan *more, uint32_t file,
                                       coffer_error *err);
/* Numbers of two rows of the same name, of which one is before row `split` and the other is not: *first and *second.
   Rows that are skipped do not count. *first is UINT32_MAX when there are none. */
coffer_status coffer__import_plan_find_same(const coffer__import_plan *plan, size_t split, uint32_t *first,
                                            uint32_t *second, coffer_error *err);
/* A plan as it is now, to which coffer__import_plan_unjoin takes it back after it was joined. */
typedef struct coffer__import_plan_mark {
    coffer__import_plan plan; /* its counts are what matters */
    size_t record;            /* the number of the pair that is replaced when plans are joined; SIZE_MAX: none */
    uint32_t value;           /* the value of that pair */
} coffer__import_plan_mark;

void coffer__import_plan_mark_now(const coffer__import_plan *plan, coffer__import_plan_mark *mark);
void coffer__import_plan_unjoin(coffer__import_plan *plan, const coffer__import_plan_mark *mark);

#endif
