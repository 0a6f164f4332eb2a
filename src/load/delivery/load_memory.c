/* SPDX-License-Identifier: Apache-2.0 */
#include "load_memory.h"

#include "alloc.h"
#include "device.h"
#include "dtype.h"
#include "error.h"
#include "os.h"

#include <stdatomic.h>

#define STORE_BLOCK 4096u                  /* modulo which addresses agree with offsets */
#define STORE_LARGE ((uint64_t)16 << 20)   /* stretches in which cells are huge pages */
#define STORE_GAP 4096u                    /* between items that share a stretch as in the file */
#define STORE_PACKED ((uint64_t)256 << 10) /* the largest item that is packed with others */
#define STORE_PACK ((uint64_t)1 << 20)     /* the stretch in which it is */

/* Which items share a stretch, and how large it becomes. On a device an item holds its stretch as long as it lives,
   so it is to be small beside it; but devices hand out memory by 2 MiB, so there is something to share. */
typedef struct store_limits {
    uint64_t small;
    uint64_t together;
    uint64_t alignment; /* of items that are packed */
} store_limits;

static const store_limits store_host = { UINT64_MAX, (uint64_t)256 << 20, 64 };
static const store_limits store_device = { (uint64_t)16 << 20, (uint64_t)64 << 20, 256 };

/* One item in a stretch. */
struct coffer_memory {
    coffer__stretch *stretch;
    uint64_t address;
    uint64_t size;
    bool apart; /* in a block of its own, not in that of its stretch */
};

/*
 * Nobody changes anything but the counts after it was made, so any thread may free an item of it at any time without a
 * lock. One block of libc's describes a stretch and the items that are made with it:
 *
 *     coffer__stretch | coffer_memory of each item | a count for each leaf
 *
 * A leaf is a huge page of a stretch whose pages several items share, and is given back with the last of them. Giving
 * back a part of a huge page would take it apart, which costs more than filling it.
 */
struct coffer__stretch {
    atomic_size_t users;
    coffer_device *device; /* NULL: host memory */
    uint64_t base;
    uint64_t size;
    void *heap; /* of a small stretch in host memory, libc's block in which it lies; NULL: it is whole pages */
    size_t heap_size;
    size_t block_size;   /* of all that describes it */
    atomic_uint *leaves; /* how many items reach into each leaf; NULL: they are not counted */
    coffer_memory items[];
};

static const store_limits *store_limits_of(const coffer__store *store)
{
    return store->device == NULL ? &store_host : &store_device;
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

/* The device is held open as long as the stretch lives, because the caller may close its own handle while it still
   has tensors. */
static coffer_status stretch_take_device(coffer__stretch *stretch, coffer_device *device, coffer_error *err)
{
    const coffer_status status = coffer_device_allocate(device, stretch->size, &stretch->base, err);
    if (status == COFFER_OK) {
        coffer__device_hold(device);
        stretch->device = device;
    }
    return status;
}

/* A small stretch comes from libc, which has the memory of the one before ready: fresh pages would cost more than
   reading into them. The block is a little larger, so that the base can be moved up to where addresses agree with
   offsets in the file. */
static coffer_status stretch_take_heap(coffer__stretch *stretch, coffer_error *err)
{
    stretch->heap_size = (size_t)stretch->size + STORE_BLOCK;
    stretch->heap = coffer__alloc(coffer_libc_allocator(), stretch->heap_size);
    if (stretch->heap == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", stretch->size);
    }
    stretch->base = ((uintptr_t)stretch->heap + STORE_BLOCK - 1) / STORE_BLOCK * STORE_BLOCK;
    return COFFER_OK;
}

/* Sizes come from files, so rounding up is checked, also that the number fits where addresses have 32 bits. The rest of
   a large stretch is a huge page as well: 512 small ones take longer to bring into being than to fill. */
static coffer_status stretch_take_pages(coffer__stretch *stretch, coffer_error *err)
{
    if (stretch->size < COFFER__OS_HUGE_PAGE) {
        return stretch_take_heap(stretch, err);
    }
    const size_t page = stretch->size >= STORE_LARGE ? COFFER__OS_HUGE_PAGE : coffer__os_page_size();
    void *pages = NULL;
    if (stretch->size <= SIZE_MAX - page - COFFER__OS_HUGE_PAGE) {
        stretch->size = (stretch->size + page - 1) / page * page;
        pages = coffer__os_pages_new((size_t)stretch->size);
    }
    if (pages == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", stretch->size);
    }
    stretch->base = (uint64_t)(uintptr_t)pages;
    return COFFER_OK;
}

/* The block that describes a stretch with `count` items, all zero; NULL: no memory. Items that share pages lie in at
   most `together` bytes, so neither product overflows. */
static coffer__stretch *stretch_describe(const coffer_device *device, uint64_t size, size_t count)
{
    const size_t items = sizeof(coffer__stretch) + count * sizeof(coffer_memory);
    const bool counted = device == NULL && count > 1 && size >= COFFER__OS_HUGE_PAGE;
    const size_t leaves = counted ? (size_t)((size - 1) / COFFER__OS_HUGE_PAGE) + 1 : 0;
    const size_t block_size = items + leaves * sizeof(atomic_uint);
    coffer__stretch *made = coffer__alloc_zeroed(coffer_libc_allocator(), block_size);
    if (made != NULL) {
        made->block_size = block_size;
        made->leaves = counted ? (atomic_uint *)(void *)&made->items[count] : NULL;
    }
    return made;
}

/* A stretch with one user, who made it, and space for `count` items. The blocks that describe memory are libc's: they
   may be freed by any thread, after everything else of the load. */
static coffer_status stretch_new(coffer__stretch **stretch, coffer_device *device, uint64_t size, size_t count,
                                 coffer_error *err)
{
    coffer__stretch *made = stretch_describe(device, size, count);
    *stretch = NULL;
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", size);
    }
    atomic_init(&made->users, 1);
    made->size = size;
    const coffer_status status =
        device == NULL ? stretch_take_pages(made, err) : stretch_take_device(made, device, err);
    if (status != COFFER_OK) {
        coffer__free(coffer_libc_allocator(), made, made->block_size);
        return status;
    }
    *stretch = made;
    return COFFER_OK;
}

/* A device that cannot be entered any more has lost its memory with everything else. A piece of the heap lies
   within its block, so the block is what is freed. The handle of the device is closed after the memory is given
   back, which needs it open. */
static void stretch_release(const coffer__stretch *stretch)
{
    if (stretch->heap != NULL) {
        coffer__free(coffer_libc_allocator(), stretch->heap, stretch->heap_size);
        return;
    }
    if (stretch->device == NULL) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
        coffer__os_pages_free((void *)(uintptr_t)stretch->base, (size_t)stretch->size);
        return;
    }
    coffer_device_release(stretch->device, stretch->base, stretch->size);
    coffer_device_close(stretch->device);
}

/* The last user frees the stretch, on whatever thread that is. The order of acquire and release makes all that
   other users have written happen before the memory is given back. */
static void stretch_leave(coffer__stretch *stretch)
{
    if (stretch != NULL && atomic_fetch_sub_explicit(&stretch->users, 1, memory_order_acq_rel) == 1) {
        stretch_release(stretch);
        coffer__free(coffer_libc_allocator(), stretch, stretch->block_size);
    }
}

/* The leaves that an item reaches into, from *first to before *end; none where they are not counted. */
static void memory_leaves(const coffer_memory *memory, size_t *first, size_t *end)
{
    const uint64_t begin = memory->address - memory->stretch->base;
    const bool counted = memory->stretch->leaves != NULL && memory->size > 0;
    *first = (size_t)(begin / COFFER__OS_HUGE_PAGE);
    *end = counted ? (size_t)((begin + memory->size - 1) / COFFER__OS_HUGE_PAGE) + 1 : *first;
}

/* An item becomes one of the users of a stretch. The caller has the stretch itself, so no count can reach 0 meanwhile,
   and adding needs no order. */
static void stretch_use(coffer__stretch *stretch, const coffer_memory *how, coffer_memory *memory,
                        coffer__allocation *allocation)
{
    size_t first = 0;
    size_t end = 0;
    *memory = *how;
    memory->stretch = stretch;
    memory_leaves(memory, &first, &end);
    for (size_t i = first; i < end; i++) {
        atomic_fetch_add_explicit(&stretch->leaves[i], 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&stretch->users, 1, memory_order_relaxed);
    *allocation = (coffer__allocation){ memory->address, memory };
}

/* Gives leaves back to the system, from `first` to before `end`. The last leaf ends where the stretch does. */
static void stretch_discard(const coffer__stretch *stretch, size_t first, size_t end)
{
    const uint64_t from = (uint64_t)first * COFFER__OS_HUGE_PAGE;
    const uint64_t to = (uint64_t)end * COFFER__OS_HUGE_PAGE;
    if (end > first) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
        coffer__os_pages_discard((void *)(uintptr_t)(stretch->base + from),
                                 (size_t)((to < stretch->size ? to : stretch->size) - from));
    }
}

/* Counts down the leaves of an item, and gives those back in which no item is left; leaves that follow each other go
   together, by one call. Nothing is given back when the stretch is about to go as a whole. That its users are only
   looked at does no harm: if the others leave at the same moment, the pages go twice. The order of acquire and release
   makes all that other users have written happen before. */
static void memory_discard(const coffer_memory *memory)
{
    coffer__stretch *stretch = memory->stretch;
    size_t first = 0;
    size_t end = 0;
    memory_leaves(memory, &first, &end);
    if (atomic_load_explicit(&stretch->users, memory_order_relaxed) == 1) {
        return;
    }
    for (size_t i = first; i < end; i++) {
        if (atomic_fetch_sub_explicit(&stretch->leaves[i], 1, memory_order_acq_rel) != 1) {
            stretch_discard(stretch, first, i);
            first = i + 1;
        }
    }
    stretch_discard(stretch, first, end);
}

/* The pages go before the stretch is left, because after that it may be gone, and an item that lies in its block with
   it. The caller may do this on any thread, also long after the load was freed. */
void coffer_memory_free(coffer_memory *memory)
{
    if (memory != NULL) {
        coffer__stretch *stretch = memory->stretch;
        memory_discard(memory);
        if (memory->apart) {
            coffer__free(coffer_libc_allocator(), memory, sizeof *memory);
        }
        stretch_leave(stretch);
    }
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static const coffer__file_span *store_reach(const coffer_plan *plan, uint32_t item)
{
    return &plan->copy_ops[plan->items[item].first_op].region.reach;
}

/* Whether an item is contiguous bytes of the file, as they are. */
static bool store_is_plain(const coffer_plan *plan, uint32_t item)
{
    const coffer__load_item *of = &plan->items[item];
    return of->op_count == 1 && plan->copy_ops[of->first_op].region.rank == 0;
}

/* What the address of an item must be a multiple of, or where it lies as in the file, its distance from the others.
   An unknown dtype promises nothing about its elements, so any address does. */
static uint64_t store_alignment(const coffer__store *store, const coffer_plan *plan, uint32_t item)
{
    const uint8_t of_dtype = coffer__dtype_info_of(plan->items[item].tensor->dtype)->alignment;
    return store->device != NULL ? store_device.alignment : of_dtype == 0 ? 1 : of_dtype;
}

/* Each item is compared with the first, whose address decides where all of them lie: their distance in memory is
   that in the file, so an item whose alignment that would break ends the row. Overlapping items end it as well, as
   they need memory of their own. */
size_t coffer__store_together(const coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                              uint64_t most)
{
    const store_limits *limits = store_limits_of(store);
    const uint64_t capacity = most < limits->together ? most : limits->together;
    const coffer__file_span *first = store_reach(plan, items[0]);
    uint64_t end = first->end;
    size_t together = 1;
    if (!store_is_plain(plan, items[0]) || plan->items[items[0]].size > limits->small) {
        return 1;
    }
    for (; together < count; together++) {
        const coffer__load_item *item = &plan->items[items[together]];
        if (item->shard != plan->items[items[0]].shard || !store_is_plain(plan, items[together]) ||
            item->size > limits->small) {
            break;
        }
        const coffer__file_span *reach = store_reach(plan, items[together]);
        const uint64_t distance = reach->begin - first->begin;
        if (reach->begin < end || reach->begin - end > STORE_GAP || reach->end - first->begin > capacity ||
            distance % store_alignment(store, plan, items[together]) != 0) {
            break;
        }
        end = reach->end;
    }
    return together;
}

/* Where in its stretch a plain item begins: at the offset's remainder, unless the address would then not be
   aligned. Devices are not read to past the page cache in this way, so nothing is gained there by agreeing with the
   file. */
static uint64_t store_lead(const coffer__store *store, const coffer_plan *plan, uint32_t item, uint64_t size)
{
    const uint64_t begin = store_reach(plan, item)->begin;
    const bool aligned = begin % store_alignment(store, plan, item) == 0;
    if (store->device != NULL || !store_is_plain(plan, item) || !aligned) {
        return 0;
    }
    return begin % (size >= STORE_LARGE ? COFFER__CELL : STORE_BLOCK);
}

/* A stretch for items that lie in it as in the file. The maker's own count is given up at the end: after that the
   items alone keep the stretch. Each item is in the stretch's own block, so nothing can fail once there is one. */
static coffer_status store_stretch_of(const coffer__store *store, const coffer_plan *plan, const uint32_t *items,
                                      size_t count, coffer__allocation *allocations, coffer_error *err)
{
    coffer__stretch *stretch = NULL;
    const uint64_t first = store_reach(plan, items[0])->begin;
    const uint64_t last = store_reach(plan, items[count - 1])->end;
    const uint64_t size = count == 1 ? plan->items[items[0]].size : last - first;
    const uint64_t lead = store_lead(store, plan, items[0], size);
    const coffer_status status = stretch_new(&stretch, store->device, lead + size, count, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t distance = i == 0 ? 0 : store_reach(plan, items[i])->begin - first;
        const coffer_memory how = { .address = stretch->base + lead + distance, .size = plan->items[items[i]].size };
        stretch_use(stretch, &how, &stretch->items[i], &allocations[i]);
    }
    stretch_leave(stretch);
    return COFFER_OK;
}

/* An allocation for one small item next to others. The space that is left in the last stretch is given up when the item
   does not fit. An item without bytes takes one, so that its address is its own. How many items there will be is not
   known when the stretch is made, so each has a block of its own. */
static coffer_status store_pack(coffer__store *store, uint64_t size, coffer__allocation *allocation, coffer_error *err)
{
    const uint64_t alignment = store_limits_of(store)->alignment;
    coffer_status status = COFFER_OK;
    if (store->open == NULL || size > STORE_PACK - store->used) {
        coffer__store_end(store);
        status = stretch_new(&store->open, store->device, STORE_PACK, 0, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer_memory *memory = coffer__alloc(coffer_libc_allocator(), sizeof *memory);
    if (memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", size);
    }
    const coffer_memory how = { .address = store->open->base + store->used, .size = size, .apart = true };
    stretch_use(store->open, &how, memory, allocation);
    const uint64_t end = store->used + (size == 0 ? 1 : size);
    store->used = (end + alignment - 1) / alignment * alignment;
    return COFFER_OK;
}

/* A single small item has no neighbours to lie beside as in the file, and a stretch for it alone would waste a page
   or, on a device, 2 MiB. */
coffer_status coffer__store_row(coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                                coffer__allocation *allocations, coffer_error *err)
{
    const uint64_t size = plan->items[items[0]].size;
    if (count == 1 && size <= STORE_PACKED) {
        return store_pack(store, size, allocations, err);
    }
    return store_stretch_of(store, plan, items, count, allocations, err);
}

/* The items that were packed there keep the stretch alive. */
void coffer__store_end(coffer__store *store)
{
    stretch_leave(store->open);
    store->open = NULL;
    store->used = 0;
}
