/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tensor of which several files, or several records of one, have a part each: parts are added in any order, and then
 * the row is put. Whether they have each element once is for coffer__import_plan_check to find.
 */
#ifndef COFFER_TORCH_ASSEMBLY_H
#define COFFER_TORCH_ASSEMBLY_H

#include "pickle_views.h"

/* Between coffer__assembly_begin and coffer__assembly_end no other parts may be put into the plan. */
typedef struct coffer__assembly {
    coffer__import_plan *plan;
    const coffer__wants *wants;
    const char *name; /* of the tensor, not NUL-terminated */
    size_t name_len;
    uint32_t text; /* the same in the plan */
    size_t rank;
    const uint64_t *sizes; /* of the whole tensor, `rank` of them, as torch counts elements */
    uint32_t part_count;
    bool whole;                           /* a part was all of it */
    coffer__view view;                    /* the view of the part that was all of it; else of the first part */
    uint8_t order[COFFER__PLAN_MAX_RANK]; /* dimensions of the parts as they are stored, the slowest first */
} coffer__assembly;

/* Name and sizes are borrowed. COFFER_ERR_MEMORY. */
coffer_status coffer__assembly_begin(coffer__assembly *assembly, coffer__import_plan *plan, const coffer__wants *wants,
                                     const char *name, size_t name_len, size_t rank, const uint64_t *sizes,
                                     coffer_error *err);
/*
 * Adds the part that begins at `starts`; its sizes are the view's. Parts without elements are left out. COFFER_ERR_VIEW
 * when it does not lie within the tensor; COFFER_ERR_NO_EQUIVALENT for what safetensors lacks; COFFER_ERR_UNSUPPORTED for
 * parts whose bytes are in another order than those before, have gaps, or are compressed.
 */
coffer_status coffer__assembly_add(coffer__assembly *assembly, const uint64_t *starts, const coffer__view *view,
                                   coffer_error *err);
/* Puts the row of a tensor that is written. `element` is for one without parts, which has to be empty: COFFER_ERR_VIEW. */
coffer_status coffer__assembly_end(coffer__assembly *assembly, coffer__element element, coffer_error *err);
/* Puts the row of a tensor that is not written, and of which nothing was read. */
coffer_status coffer__assembly_skip(coffer__import_plan *plan, const char *name, size_t name_len,
                                    coffer__element element, uint32_t reason, coffer_error *err);

#endif
