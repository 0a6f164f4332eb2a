/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module's memory: what libc and the compiler's own library would do, and an arena.
 *
 *   static data | stack | arena → … space … | end of the memory, which grows by pages of 64 KiB
 *
 * An instance does one job at a time and forgets all of it at once (js_arena_reset), so the arena only goes up. What was
 * allocated last can be resized and freed in place, which is how a table grows; anything else that is freed is found
 * again when the job ends. A block that doubles leaves at most as much behind as it has itself.
 */
#include "js.h"

#include <string.h>

#define ARENA_ALIGNMENT 16u
#define PAGE_SIZE ((size_t)64 << 10)

/* The linker's: where the arena begins. */
extern uint8_t __heap_base;

static size_t arena_used; /* an address; 0 before the first job */

/* ---- what libc would do ---- */

#undef memcpy
#undef memmove
#undef memset
#undef memcmp

/* The builtins are single instructions (bulk memory), not calls of these functions. */
void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    return __builtin_memcpy(to, from, size);
}

void *memmove(void *to, const void *from, size_t size)
{
    return __builtin_memmove(to, from, size);
}

void *memset(void *to, int byte, size_t size)
{
    return __builtin_memset(to, byte, size);
}

int memcmp(const void *a, const void *b, size_t size)
{
    const uint8_t *first = a;
    const uint8_t *second = b;
    for (size_t i = 0; i < size; i++) {
        if (first[i] != second[i]) {
            return first[i] < second[i] ? -1 : 1;
        }
    }
    return 0;
}

/* ---- what the compiler's library would do ---- */

__extension__ typedef unsigned __int128 wide;

/* The product of two numbers of 64 bits, in halves: what a multiplication that looks for overflow wants. */
static wide multiply_u64(uint64_t a, uint64_t b)
{
    const uint64_t a_low = a & UINT32_MAX, a_high = a >> 32;
    const uint64_t b_low = b & UINT32_MAX, b_high = b >> 32;
    const uint64_t low = a_low * b_low;
    const uint64_t middle = a_high * b_low + (low >> 32);
    const uint64_t other = a_low * b_high + (middle & UINT32_MAX);
    const uint64_t high = a_high * b_high + (middle >> 32) + (other >> 32);
    return (wide)high << 64 | (other << 32 | (low & UINT32_MAX));
}

/* Called by code that the compiler makes of __builtin_mul_overflow. */
wide __multi3(wide a, wide b);
wide __multi3(wide a, wide b)
{
    const uint64_t crossed = (uint64_t)a * (uint64_t)(b >> 64) + (uint64_t)(a >> 64) * (uint64_t)b;
    return multiply_u64((uint64_t)a, (uint64_t)b) + ((wide)crossed << 64);
}

/* ---- the arena ---- */

static size_t arena_begin(void)
{
    return ((size_t)&__heap_base + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
}

/* Takes the memory up to `end`, which is rounded up; false when there is no more. */
static bool arena_take(uint64_t end)
{
    const uint64_t rounded = (end + ARENA_ALIGNMENT - 1) & ~(uint64_t)(ARENA_ALIGNMENT - 1);
    const uint64_t here = (uint64_t)__builtin_wasm_memory_size(0) * PAGE_SIZE;
    if (rounded > UINT32_MAX - PAGE_SIZE) {
        return false;
    }
    if (rounded > here) {
        const size_t pages = (size_t)((rounded - here + PAGE_SIZE - 1) / PAGE_SIZE);
        if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) {
            return false;
        }
    }
    arena_used = (size_t)rounded;
    return true;
}

static bool arena_is_last(const void *block, size_t size)
{
    return (((size_t)block + size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1)) == arena_used;
}

static void *arena_alloc(void *ctx, size_t size)
{
    (void)ctx;
    const size_t at = arena_used;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the memory is no object, only addresses from 0 on */
    return arena_take((uint64_t)at + size) ? (void *)at : NULL;
}

static void *arena_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    if (arena_is_last(block, old_size)) {
        return arena_take((uint64_t)(size_t)block + new_size) ? block : NULL;
    }
    void *moved = arena_alloc(ctx, new_size);
    if (moved != NULL) {
        memcpy(moved, block, old_size < new_size ? old_size : new_size);
    }
    return moved;
}

static void arena_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    if (arena_is_last(block, size)) {
        arena_used = (size_t)block;
    }
}

const coffer_allocator js_arena = { arena_alloc, arena_realloc, arena_free, NULL };

void js_arena_reset(void)
{
    arena_used = arena_begin();
}
