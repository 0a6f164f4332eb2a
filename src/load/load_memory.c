/* SPDX-License-Identifier: Apache-2.0 */
#include "load_memory.h"

#include "alloc.h"
#include "device.h"
#include "dtype.h"
#include "error.h"
#include "os.h"

#include <stdatomic.h>

#define STORE_BLOCK 4096u                  /* modulo which addresses agree with offsets */
#define STORE_GAP 4096u                    /* between items that share a stretch as in the file */
#define STORE_PACKED ((uint64_t)256 << 10) /* the largest item that is packed with others */
#define STORE_PACK ((uint64_t)1 << 20)     /* the stretch in which it is */

/* What is small, and how much of it shares a stretch, so that one small tensor that stays in use does not hold much. A
   device hands out memory by 2 MiB, so there more shares one. */
typedef struct store_limits {
    uint64_t small;
    uint64_t together;
    uint64_t alignment; /* of items that are packed */
} store_limits;

static const store_limits store_host = { (uint64_t)2 << 20, (uint64_t)8 << 20, 64 };
static const store_limits store_device = { (uint64_t)16 << 20, (uint64_t)64 << 20, 256 };

struct coffer_memory {
    atomic_size_t users;
    coffer_device *device; /* NULL: pages of the host */
    uint64_t base;
    uint64_t size;
};

static const store_limits *store_limits_of(const coffer__store *store)
{
    return store->device == NULL ? &store_host : &store_device;
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

static coffer_status memory_take_device(coffer_memory *memory, coffer_device *device, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->allocate(device, memory->size, &memory->base, err);
    device->ops->leave(device, &visit);
    if (status == COFFER_OK) {
        coffer__device_hold(device);
        memory->device = device;
    }
    return status;
}

static coffer_status memory_take_pages(coffer_memory *memory, coffer_error *err)
{
    const size_t page = coffer__os_page_size();
    void *pages = NULL;
    if (memory->size <= SIZE_MAX - page - COFFER__OS_HUGE_PAGE) {
        memory->size = (memory->size + page - 1) / page * page;
        pages = coffer__os_pages_new((size_t)memory->size);
    }
    if (pages == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", memory->size);
    }
    memory->base = (uint64_t)(uintptr_t)pages;
    return COFFER_OK;
}

/* The block that describes it is libc's: it may be freed by any thread, after everything else of the load. */
static coffer_memory *memory_new(coffer_device *device, uint64_t size, size_t users, coffer_error *err)
{
    coffer_memory *memory = coffer__alloc_zeroed(coffer_libc_allocator(), sizeof *memory);
    if (memory == NULL) {
        (void)coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of tensors", size);
        return NULL;
    }
    atomic_init(&memory->users, users);
    memory->size = size;
    const coffer_status status =
        device == NULL ? memory_take_pages(memory, err) : memory_take_device(memory, device, err);
    if (status != COFFER_OK) {
        coffer__free(coffer_libc_allocator(), memory, sizeof *memory);
        return NULL;
    }
    return memory;
}

/* A device that cannot be entered any more has lost its memory with everything else. */
static void memory_release(coffer_memory *memory)
{
    coffer__device_visit visit;
    coffer_device *device = memory->device;
    if (device == NULL) {
        coffer__os_pages_free((void *)(uintptr_t)memory->base, (size_t)memory->size);
        return;
    }
    if (device->ops->enter(device, &visit, NULL) == COFFER_OK) {
        device->ops->release(device, memory->base, memory->size);
        device->ops->leave(device, &visit);
    }
    coffer_device_close(device);
}

void coffer_memory_free(coffer_memory *memory)
{
    if (memory != NULL && atomic_fetch_sub_explicit(&memory->users, 1, memory_order_acq_rel) == 1) {
        memory_release(memory);
        coffer__free(coffer_libc_allocator(), memory, sizeof *memory);
    }
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static const coffer__span *store_reach(const coffer_plan *plan, uint32_t item)
{
    return &plan->rows[plan->items[item].first_row].nest.reach;
}

/* Whether an item is contiguous bytes of the file, as they are. */
static bool store_is_plain(const coffer_plan *plan, uint32_t item)
{
    const coffer__load_item *of = &plan->items[item];
    return of->row_count == 1 && plan->rows[of->first_row].nest.rank == 0;
}

/* What the address of an item must be a multiple of, or where it lies as in the file, its distance from the others. */
static uint64_t store_alignment(const coffer__store *store, const coffer_plan *plan, uint32_t item)
{
    const uint8_t of_dtype = coffer__dtype(plan->items[item].tensor->dtype)->alignment;
    return store->device != NULL ? store_device.alignment : of_dtype == 0 ? 1 : of_dtype;
}

size_t coffer__store_together(const coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                              uint64_t most)
{
    const store_limits *limits = store_limits_of(store);
    const uint64_t room = most < limits->together ? most : limits->together;
    const coffer__span *first = store_reach(plan, items[0]);
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
        const coffer__span *reach = store_reach(plan, items[together]);
        const uint64_t distance = reach->begin - first->begin;
        if (reach->begin < end || reach->begin - end > STORE_GAP || reach->end - first->begin > room ||
            distance % store_alignment(store, plan, items[together]) != 0) {
            break;
        }
        end = reach->end;
    }
    return together;
}

/* Where in its stretch a plain item begins: at the offset's remainder, unless the address would then not be aligned. */
static uint64_t store_lead(const coffer__store *store, const coffer_plan *plan, uint32_t item)
{
    const uint64_t begin = store_reach(plan, item)->begin;
    const bool aligned = begin % store_alignment(store, plan, item) == 0;
    return store->device == NULL && store_is_plain(plan, item) && aligned ? begin % STORE_BLOCK : 0;
}

/* A stretch for items that lie in it as in the file. */
static coffer_status store_stretch(const coffer__store *store, const coffer_plan *plan, const uint32_t *items,
                                   size_t count, coffer__spot *spots, coffer_error *err)
{
    const coffer__span *first = store_reach(plan, items[0]);
    const uint64_t lead = store_lead(store, plan, items[0]);
    const uint64_t size =
        count == 1 ? plan->items[items[0]].size : store_reach(plan, items[count - 1])->end - first->begin;
    coffer_memory *memory = memory_new(store->device, lead + size, count, err);
    if (memory == NULL) {
        return store->device == NULL ? COFFER_ERR_MEMORY : err != NULL ? err->code : COFFER_ERR_DEVICE_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t distance = i == 0 ? 0 : store_reach(plan, items[i])->begin - first->begin;
        spots[i] = (coffer__spot){ memory->base + lead + distance, memory };
    }
    return COFFER_OK;
}

/* A place for one small item beside others. */
static coffer_status store_pack(coffer__store *store, uint64_t size, coffer__spot *spot, coffer_error *err)
{
    const uint64_t alignment = store_limits_of(store)->alignment;
    if (store->open == NULL || size > store->open->size - store->used) {
        coffer__store_end(store);
        store->open = memory_new(store->device, STORE_PACK, 1, err);
        store->used = 0;
    }
    if (store->open == NULL) {
        return store->device == NULL ? COFFER_ERR_MEMORY : err != NULL ? err->code : COFFER_ERR_DEVICE_MEMORY;
    }
    *spot = (coffer__spot){ store->open->base + store->used, store->open };
    atomic_fetch_add_explicit(&store->open->users, 1, memory_order_relaxed);
    const uint64_t end = store->used + (size == 0 ? 1 : size);
    store->used = (end + alignment - 1) / alignment * alignment;
    return COFFER_OK;
}

coffer_status coffer__store_row(coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                                coffer__spot *spots, coffer_error *err)
{
    const uint64_t size = plan->items[items[0]].size;
    if (count == 1 && size <= STORE_PACKED) {
        return store_pack(store, size, spots, err);
    }
    return store_stretch(store, plan, items, count, spots, err);
}

void coffer__store_end(coffer__store *store)
{
    coffer_memory_free(store->open);
    store->open = NULL;
    store->used = 0;
}
