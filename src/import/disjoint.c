/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the pieces of a plan share bytes: in the order of their places, each is compared with the one before it. */
#include "disjoint.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"

static bool disjoint_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan_piece *pieces = ctx;
    return pieces[a].file != pieces[b].file ? pieces[a].file < pieces[b].file : pieces[a].offset < pieces[b].offset;
}

/* Pieces without bytes have no place. The first of several in one file that overlap is compared with the next one, since
   that begins within it. */
static coffer_status disjoint_compare(const coffer__import_plan *plan, uint32_t *order, const char *noun,
                                      coffer_error *err)
{
    const coffer__import_plan_piece *pieces = coffer__import_plan_pieces(plan);
    size_t count = 0;
    for (size_t i = 0; i < plan->pieces.count; i++) {
        order[count] = (uint32_t)i;
        count += pieces[i].stored_size > 0;
    }
    coffer__sort(order, count, disjoint_before, pieces);
    for (size_t i = 1; i < count; i++) {
        const coffer__import_plan_piece *before = &pieces[order[i - 1]];
        const coffer__import_plan_piece *piece = &pieces[order[i]];
        if (before->file == piece->file && piece->offset - before->offset < before->stored_size) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, piece->offset, "%s is damaged: two tensors share byte %u",
                                   noun, piece->offset);
        }
    }
    return COFFER_OK;
}

coffer_status coffer__import_plan_check_disjoint(const coffer__import_plan *plan, const char *noun, coffer_error *err)
{
    const size_t capacity = plan->pieces.count + 1;
    uint32_t *order = coffer__alloc_array(plan->allocator, capacity, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = disjoint_compare(plan, order, noun, err);
    coffer__free_array(plan->allocator, order, capacity, sizeof *order);
    return status;
}
