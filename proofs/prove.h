/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every driver of `make prove` uses: unknown values, memory of an exact size, an allocator that may refuse.
 * Only Frama-C reads this; README.md beside it says what is proved by it, and what is assumed.
 */
#ifndef COFFER_PROOFS_PROVE_H
#define COFFER_PROOFS_PROVE_H

#include "coffer.h"

#include "__fc_builtin.h"
#include <stdlib.h>
#include <string.h>

/*
 * A driver's inputs are analysed in parts, each by a run of its own: what one input leaves behind in memory would make all that
 * come after it dearer. tools/assurance/prove.sh says which part this is.
 */
#ifndef PROVE_PART
#define PROVE_PART 0
#define PROVE_PARTS 1
#endif

static inline bool prove_is_mine(size_t input)
{
    return input % PROVE_PARTS == PROVE_PART;
}

/* Any value from `low` to `high`. */
static inline size_t prove_size(size_t low, size_t high)
{
    return (size_t)Frama_C_unsigned_long_interval(low, high);
}

/* The same, every value a case of its own. */
static inline size_t prove_each(size_t low, size_t high)
{
    return (size_t)Frama_C_interval_split((int)low, (int)high);
}

static inline uint64_t prove_u64(void)
{
    return Frama_C_unsigned_long_interval(0, UINT64_MAX);
}

static inline int64_t prove_i64(void)
{
    return Frama_C_long_interval(INT64_MIN, INT64_MAX);
}

static inline bool prove_bool(void)
{
    return Frama_C_interval(0, 1) != 0;
}

/*
 * `size` bytes with nothing behind them, each of any value, and of any other value each time it is looked at: what is
 * shown for these holds all the more for bytes that stand still. (The analyser knows a "weak" block by all values that it
 * may have, and forgets what a comparison said about one; so two paths that differ only in that become one again.)
 */
static inline uint8_t *prove_bytes(size_t size)
{
    //@ eva_allocate fresh_weak;
    uint8_t *bytes = calloc(size, 1);
    if (bytes == NULL) {
        exit(1);
    }
    //@ loop unroll 64;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = Frama_C_unsigned_char_interval(0, 255);
    }
    return bytes;
}

/*
 * Any byte, in cases: within each, the readers' comparisons come out alike, so that looking a second time cannot give what
 * the first look excluded.
 */
static inline uint8_t prove_byte(void)
{
    static const unsigned char first[] = {
        0,  9,  10, 11, 13, 14,  32,  33,  34,  35,  44,  45,  48,  49,  58,
        59, 91, 92, 93, 94, 123, 124, 125, 126, 127, 128, 194, 224, 245,
    };
    const size_t count = sizeof first;
    const size_t i = prove_each(0, count - 1);
    return Frama_C_unsigned_char_interval(first[i], i + 1 < count ? (unsigned char)(first[i + 1] - 1) : 255);
}

/* `size` bytes with nothing behind them, each of any value, which stand still. Dear: for few bytes only. */
static inline uint8_t *prove_still_bytes(size_t size)
{
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < size; i++) {
        bytes[i] = prove_byte();
    }
    return bytes;
}

/* The same for a text in which every question mark stands for any byte at all, behind `before` zeros. */
static inline uint8_t *prove_template(const char *text, size_t size, size_t before)
{
    uint8_t *bytes = malloc(before + size);
    if (bytes == NULL) {
        exit(1);
    }
    memset(bytes, 0, before);
    for (size_t i = 0; i < size; i++) {
        bytes[before + i] = text[i] == '?' ? prove_byte() : (uint8_t)text[i];
    }
    return bytes;
}

/* An allocator whose blocks have exactly the size that was asked for, and that refuses whenever it likes. */
static void *prove_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void prove_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

static void *prove_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    unsigned char *moved = prove_alloc(ctx, new_size);
    if (moved != NULL) {
        memcpy(moved, block, old_size < new_size ? old_size : new_size);
        prove_free(ctx, block, old_size);
    }
    return moved;
}

static const coffer_allocator prove_allocator = { prove_alloc, prove_realloc, prove_free, NULL };

/* ---- memory that is always there: fewer paths, for what other drivers show where memory runs out ---- */

static void *prove_certain_alloc(void *ctx, size_t size)
{
    void *block = prove_alloc(ctx, size);
    if (block == NULL) {
        exit(1);
    }
    return block;
}

static void *prove_certain_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    unsigned char *moved = prove_certain_alloc(ctx, new_size);
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    prove_free(ctx, block, old_size);
    return moved;
}

static const coffer_allocator prove_certain_allocator = { prove_certain_alloc, prove_certain_realloc, prove_free,
                                                          NULL };

/* ---- memory that runs out at one request, which is chosen ---- */

/* So many requests are granted before the one that is not. */
static size_t prove_granted;

static void *prove_failing_alloc(void *ctx, size_t size)
{
    return prove_granted-- == 0 ? NULL : prove_certain_alloc(ctx, size);
}

static void *prove_failing_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    return prove_granted-- == 0 ? NULL : prove_certain_realloc(ctx, block, old_size, new_size);
}

static const coffer_allocator prove_failing_allocator = { prove_failing_alloc, prove_failing_realloc, prove_free,
                                                          NULL };

/* ---- headers that are long because something comes again and again ---- */

typedef struct prove_piece {
    const char *bytes;
    size_t size;
} prove_piece;

#define PROVE_PIECE(text)                                                                                              \
    {                                                                                                                  \
        text, sizeof(text) - 1                                                                                         \
    }

typedef struct prove_repetition {
    prove_piece head;
    prove_piece item;
    size_t count;
    prove_piece tail;
} prove_repetition;

static inline uint8_t *prove_put(uint8_t *at, prove_piece piece)
{
    memcpy(at, piece.bytes, piece.size);
    return at + piece.size;
}

/* The file's bytes, the header's length in front; *size is how many they are. */
static inline uint8_t *prove_repeat(const prove_repetition *what, size_t *size)
{
    *size = 8 + what->head.size + what->count * what->item.size + what->tail.size;
    uint8_t *bytes = prove_certain_alloc(NULL, *size);
    memset(bytes, 0, 8);
    bytes[0] = (uint8_t)(*size - 8);
    bytes[1] = (uint8_t)((*size - 8) >> 8);
    uint8_t *at = prove_put(bytes + 8, what->head);
    //@ loop unroll 400;
    for (size_t i = 0; i < what->count; i++) {
        at = prove_put(at, what->item);
    }
    prove_put(at, what->tail);
    return bytes;
}

#endif
