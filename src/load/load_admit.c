/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the items of a load, and the budgets that bound it. */
#include "error.h"
#include "loading.h"

#define ADMIT_MAX 256 /* items that get memory at once */

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

/* There are few devices, so they are searched one by one. Host memory, whose device is NULL, is a space like the
   others, and the table has space for it beside the devices. The number fits into the byte of an item's state. */
static coffer_status admit_space(coffer_load *load, coffer_device *device, uint8_t *space, coffer_error *err)
{
    for (size_t i = 0; i < load->space_count; i++) {
        if (load->spaces[i].store.device == device) {
            *space = (uint8_t)i;
            return COFFER_OK;
        }
    }
    if (load->space_count == COFFER__SPACES) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "a load goes to at most %u devices",
                            (uint64_t)COFFER__SPACES - 1);
    }
    const uint64_t budget = device == NULL ? load->options.host_budget : load->options.device_budget;
    *space = (uint8_t)load->space_count;
    load->spaces[load->space_count++] =
        (coffer__load_space){ .store = { .device = device }, .budget = budget == 0 ? UINT64_MAX : budget };
    return COFFER_OK;
}

/* How many cells an item reaches over that the one before it did not end in. *last is that cell, of shard *shard.
   Small tensors share cells, so the sum over items would be far above the number of chunks; it serves to decide how
   many workers there are, and need not be exact. */
static uint64_t admit_cells(const coffer_plan *plan, const coffer__load_item *item, uint64_t *last, uint32_t *shard)
{
    *last = item->shard == *shard ? *last : UINT64_MAX;
    *shard = item->shard;
    uint64_t cells = 0;
    for (uint32_t i = 0; i < item->op_count; i++) {
        const coffer__file_span *reach = &plan->copy_ops[item->first_op + i].region.reach;
        const uint64_t first = reach->begin / COFFER__CELL;
        const uint64_t end = (reach->end - 1) / COFFER__CELL;
        cells += end - first + (first == *last ? 0 : 1);
        *last = end;
    }
    return cells;
}

/* An item that is larger than its budget could never be admitted, and would make the load wait for ever; so it is
   refused before anything is read. Addresses of given destinations are known from here on; that others are 0 is what
   says that they were not admitted. */
coffer_status coffer__load_spaces(coffer_load *load, coffer_error *err)
{
    const coffer_plan *plan = load->plan;
    uint64_t last = UINT64_MAX;
    uint32_t shard = 0;
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer__load_item *item = &plan->items[i];
        coffer__load_state *state = &load->states[i];
        const coffer_status status = admit_space(load, item->device, &state->space, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t budget = load->spaces[state->space].budget;
        if (!item->given && item->size > budget) {
            coffer__fail(err, COFFER_ERR_BUDGET, "the item has %z, and the budget of its memory is %z", item->size,
                         budget);
            coffer__fail_sizes(err, COFFER_ERR_BUDGET, item->size, budget);
            return coffer__fail_tensor(err, COFFER_ERR_BUDGET, item->tensor->name, item->tensor->name_len);
        }
        load->cells += admit_cells(plan, item, &last, &shard);
        state->left = item->size;
        state->next = COFFER__NO_ITEM;
        state->allocation.address = item->given ? item->address : 0;
    }
    return COFFER_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The items that follow in the order of reading and need memory of the same space, as far as the budget goes. Only
   the item which the usual sweep is at may bring others along: one that is taken out of its turn has neighbours in
   the file that may be far from being read. */
static size_t admit_row(const coffer_load *load, uint32_t item, uint32_t op[ADMIT_MAX])
{
    const coffer__schedule *schedule = &load->schedule;
    const coffer__load_space *space = &load->spaces[load->states[item].space];
    uint64_t capacity = space->budget - space->used - load->plan->items[item].size;
    size_t count = 1;
    op[0] = item;
    if (schedule->next >= schedule->count || schedule->order[schedule->next] != item) {
        return count;
    }
    for (size_t i = schedule->next + 1; i < schedule->count && count < ADMIT_MAX; i++) {
        const uint32_t other = schedule->order[i];
        const coffer__load_item *of = &load->plan->items[other];
        if (of->given || load->states[other].allocation.address != 0 ||
            load->states[other].space != load->states[item].space || of->size > capacity) {
            break;
        }
        capacity -= of->size;
        op[count++] = other;
    }
    return count;
}

/* Small items that follow each other get their memory together, before they are asked for. They count against the
   budget from then on, though nothing of them was read. They are the very next to be read, so it would be theirs
   anyway, and no item that is wanted earlier is kept waiting for long. An item with an address has passed here
   already. Called by the schedule, so under the lock. */
coffer_status coffer__load_admit(void *ctx, uint32_t item, coffer_error *err)
{
    coffer_load *load = ctx;
    coffer__load_space *space = &load->spaces[load->states[item].space];
    uint32_t op[ADMIT_MAX] = { item };
    coffer__allocation allocations[ADMIT_MAX];
    if (load->states[item].allocation.address != 0) {
        return COFFER_OK;
    }
    if (load->plan->items[item].size > space->budget - space->used) {
        return COFFER_NEED_MORE;
    }
    size_t count = admit_row(load, item, op);
    count = coffer__store_together(&space->store, load->plan, op, count, space->budget - space->used);
    const coffer_status status = coffer__store_row(&space->store, load->plan, op, count, allocations, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        load->states[op[i]].allocation = allocations[i];
        space->used += load->plan->items[op[i]].size;
    }
    return COFFER_OK;
}
