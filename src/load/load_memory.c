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

/* Nobody changes anything but `users` after it was made, so any thread may free an item of it at any time without a
   lock. */
struct coffer__stretch {
    atomic_size_t users;
    coffer_device *device; /* NULL: host memory */
    uint64_t base;
    uint64_t size;
    void *heap; /* of a small stretch in host memory, libc's block in which it lies; NULL: it is whole pages */
    size_t heap_size;
};

/* One item in a stretch. */
struct coffer_memory {
    coffer__stretch *stretch;
    uint64_t address;
    uint64_t size;
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

/* Sizes come from files, so rounding up is checked, also that the number fits where addresses have 32 bits. */
static coffer_status stretch_take_pages(coffer__stretch *stretch, coffer_error *err)
{
    if (stretch->size < COFFER__OS_HUGE_PAGE) {
        return stretch_take_heap(stretch, err);
    }
    const size_t page = coffer__os_page_size();
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

/* A stretch with one user, who made it. The blocks that describe memory are libc's: they may be freed by any thread,
   after everything else of the load. */
static coffer_status stretch_new(coffer__stretch **stretch, coffer_device *device, uint64_t size, coffer_error *err)
{
    coffer__stretch *made = coffer__alloc_zeroed(coffer_libc_allocator(), sizeof *made);
    *stretch = NULL;
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", size);
    }
    atomic_init(&made->users, 1);
    made->size = size;
    const coffer_status status =
        device == NULL ? stretch_take_pages(made, err) : stretch_take_device(made, device, err);
    if (status != COFFER_OK) {
        coffer__free(coffer_libc_allocator(), made, sizeof *made);
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
        coffer__free(coffer_libc_allocator(), stretch, sizeof *stretch);
    }
}

/* An item in a stretch, which becomes one of its users. The caller has the stretch itself, so the count cannot
   reach 0 meanwhile, and adding needs no order. */
static coffer_status stretch_use(coffer__stretch *stretch, uint64_t address, uint64_t size, coffer__spot *spot,
                                 coffer_error *err)
{
    coffer_memory *memory = coffer__alloc(coffer_libc_allocator(), sizeof *memory);
    if (memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", size);
    }
    *memory = (coffer_memory){ stretch, address, size };
    atomic_fetch_add_explicit(&stretch->users, 1, memory_order_relaxed);
    *spot = (coffer__spot){ address, memory };
    return COFFER_OK;
}

/* Gives back the pages that are the item's alone, unless the stretch is about to go as a whole. Pages at the ends
   may have bytes of the neighbours, so only those that lie wholly in the item go. That the count is only looked at
   does no harm: if the others leave at the same moment, the pages go twice. */
static void memory_discard(const coffer_memory *memory)
{
    const uint64_t page = coffer__os_page_size();
    const uint64_t begin = (memory->address + page - 1) / page * page;
    const uint64_t end = (memory->address + memory->size) / page * page;
    if (memory->stretch->device == NULL && memory->stretch->heap == NULL && begin < end &&
        atomic_load_explicit(&memory->stretch->users, memory_order_relaxed) > 1) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
        coffer__os_pages_discard((void *)(uintptr_t)begin, (size_t)(end - begin));
    }
}

/* The pages go before the stretch is left, because after that it may be gone. The caller may do this on any thread,
   also long after the load was freed. */
void coffer_memory_free(coffer_memory *memory)
{
    if (memory != NULL) {
        memory_discard(memory);
        stretch_leave(memory->stretch);
        coffer__free(coffer_libc_allocator(), memory, sizeof *memory);
    }
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static const coffer__file_span *store_reach(const coffer_plan *plan, uint32_t item)
{
    return &plan->rows[plan->items[item].first_row].nest.reach;
}

/* Whether an item is contiguous bytes of the file, as they are. */
static bool store_is_plain(const coffer_plan *plan, uint32_t item)
{
    const coffer__load_item *of = &plan->items[item];
    return of->row_count == 1 && plan->rows[of->first_row].nest.rank == 0;
}

/* What the address of an item must be a multiple of, or where it lies as in the file, its distance from the others.
   An unknown dtype promises nothing about its elements, so any address does. */
static uint64_t store_alignment(const coffer__store *store, const coffer_plan *plan, uint32_t item)
{
    const uint8_t of_dtype = coffer__dtype(plan->items[item].tensor->dtype)->alignment;
    return store->device != NULL ? store_device.alignment : of_dtype == 0 ? 1 : of_dtype;
}

/* Each item is compared with the first, whose address decides where all of them lie: their distance in memory is
   that in the file, so an item whose alignment that would break ends the row. Overlapping items end it as well, as
   they need memory of their own. */
size_t coffer__store_together(const coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                              uint64_t most)
{
    const store_limits *limits = store_limits_of(store);
    const uint64_t room = most < limits->together ? most : limits->together;
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
        if (reach->begin < end || reach->begin - end > STORE_GAP || reach->end - first->begin > room ||
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
   items alone keep the stretch, and if none could be made it goes at once. A failure frees those items that were
   made. */
static coffer_status store_stretch_of(const coffer__store *store, const coffer_plan *plan, const uint32_t *items,
                                      size_t count, coffer__spot *spots, coffer_error *err)
{
    coffer__stretch *stretch = NULL;
    const uint64_t first = store_reach(plan, items[0])->begin;
    const uint64_t last = store_reach(plan, items[count - 1])->end;
    const uint64_t size = count == 1 ? plan->items[items[0]].size : last - first;
    const uint64_t lead = store_lead(store, plan, items[0], size);
    coffer_status status = stretch_new(&stretch, store->device, lead + size, err);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        const uint64_t distance = i == 0 ? 0 : store_reach(plan, items[i])->begin - first;
        status = stretch_use(stretch, stretch->base + lead + distance, plan->items[items[i]].size, &spots[i], err);
        for (size_t k = i; status != COFFER_OK && k > 0; k--) {
            coffer_memory_free(spots[k - 1].memory);
        }
    }
    stretch_leave(stretch);
    return status;
}

/* A place for one small item beside others. The room that is left in the last stretch is given up when the item
   does not fit. An item without bytes takes one, so that its address is its own. */
static coffer_status store_pack(coffer__store *store, uint64_t size, coffer__spot *spot, coffer_error *err)
{
    const uint64_t alignment = store_limits_of(store)->alignment;
    coffer_status status = COFFER_OK;
    if (store->open == NULL || size > STORE_PACK - store->used) {
        coffer__store_end(store);
        status = stretch_new(&store->open, store->device, STORE_PACK, err);
    }
    if (status == COFFER_OK) {
        status = stretch_use(store->open, store->open->base + store->used, size, spot, err);
    }
    const uint64_t end = store->used + (size == 0 ? 1 : size);
    store->used = (end + alignment - 1) / alignment * alignment;
    return status;
}

/* A single small item has no neighbours to lie beside as in the file, and a stretch for it alone would waste a page
   or, on a device, 2 MiB. */
coffer_status coffer__store_row(coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                                coffer__spot *spots, coffer_error *err)
{
    const uint64_t size = plan->items[items[0]].size;
    if (count == 1 && size <= STORE_PACKED) {
        return store_pack(store, size, spots, err);
    }
    return store_stretch_of(store, plan, items, count, spots, err);
}

/* The items that were packed there keep the stretch alive. */
void coffer__store_end(coffer__store *store)
{
    stretch_leave(store->open);
    store->open = NULL;
    store->used = 0;
}
