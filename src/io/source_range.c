/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of another source, which may be a range itself: a file that is embedded in another one, a member of an
 * archive. It can do what the other one can, and each call becomes one of the other's, `first` bytes further on:
 *
 *     the other    0 ........ first ................ first + size ........ its size
 *     the range               0 .................... size
 *
 * first + size was at most the other's size when the range was made, so no sum of `first` and a place in the range
 * overflows. It is not compared again: of a file that has become shorter, the file itself tells. Which version of the
 * bytes it is, only a file says of its ranges: what a server states is of the whole.
 */
#include "source.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

typedef struct source_range {
    coffer__byte_source *of;
    uint64_t first;
    coffer_allocator allocator; /* the allocator that made `of` */
    bool owns;                  /* `of` is the range's own */
} source_range;

_Static_assert(sizeof(source_range) <= sizeof((coffer__byte_source *)0)->state, "a range fits in the source");

static const source_range *source_range_of(const coffer__byte_source *source)
{
    return (const void *)source->state.capacity;
}

/* Translates the offset of a failure from the other source's bytes to the range's own. One that lies before the
   range becomes 0. */
static void source_range_place(const source_range *range, coffer_error *err)
{
    if (err != NULL && err->offset != COFFER_NO_OFFSET) {
        err->offset = err->offset < range->first ? 0 : err->offset - range->first;
    }
}

static coffer_status source_range_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err)
{
    const source_range *range = source_range_of(source);
    const coffer_status status = range->of->ops->read_at(range->of, range->first + offset, buffer, size, watch, err);
    if (status != COFFER_OK) {
        source_range_place(range, err);
    }
    return status;
}

static void *source_range_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                              bool populate, coffer__os_map *map, coffer_error *err)
{
    const source_range *range = source_range_of(source);
    void *address = range->of->ops->map(range->of, range->first + offset, size, access, populate, map, err);
    if (address == NULL) {
        source_range_place(range, err);
    }
    return address;
}

/* The sum may be of numbers that a failed call has not set, so callers look at it only after COFFER_OK. */
static coffer_status source_range_borrow(const coffer__byte_source *source, int *fd, uint64_t *offset,
                                         coffer_error *err)
{
    const source_range *range = source_range_of(source);
    const coffer_status status = range->of->ops->borrow(range->of, fd, offset, err);
    *offset += range->first;
    return status;
}

static void source_range_give_back(const coffer__byte_source *source)
{
    const source_range *range = source_range_of(source);
    range->of->ops->give_back(range->of);
}

static coffer_status source_range_stream(const coffer__byte_source *source, uint64_t offset, uint64_t size,
                                         const coffer__taker *taker, const coffer__watch *watch, coffer_error *err)
{
    const source_range *range = source_range_of(source);
    const coffer_status status = range->of->ops->stream(range->of, range->first + offset, size, taker, watch, err);
    if (status != COFFER_OK) {
        source_range_place(range, err);
    }
    return status;
}

static void source_range_close(coffer__byte_source *source)
{
    const source_range range = *source_range_of(source);
    if (range.owns) {
        range.of->ops->close(range.of);
        coffer__free(&range.allocator, range.of, sizeof *range.of);
    }
}

static const coffer__os_info *source_range_seen(const coffer__byte_source *source)
{
    return coffer__source_seen(source_range_of(source)->of);
}

static bool source_range_is_still(coffer__byte_source *source)
{
    return coffer__source_is_still(source_range_of(source)->of);
}

/* Checks that the range lies within the other source, and replaces UINT64_MAX by what is left of it. Offset and
   size are never added, since those of a hostile archive may overflow. */
static coffer_status source_range_check(const coffer__byte_source *of, uint64_t offset, uint64_t *size,
                                        coffer_error *err)
{
    const bool begins = offset <= of->size;
    if (begins && *size == UINT64_MAX) {
        *size = of->size - offset;
    }
    if (begins && *size <= of->size - offset) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "%u bytes from %u on were requested from a source of %u bytes",
                        *size == UINT64_MAX ? 0 : *size, offset, of->size);
}

/* The range has the traits of what it is of, and so its abilities: a far archive has far members. */
coffer_status coffer__source_range(coffer__byte_source *range, coffer__byte_source *of, uint64_t offset, uint64_t size,
                                   coffer_error *err)
{
    static const coffer__source_ops ops = { .kind = "a range of a source",
                                            .read_at = source_range_read_at,
                                            .close = source_range_close,
                                            .map = source_range_map,
                                            .borrow = source_range_borrow,
                                            .give_back = source_range_give_back,
                                            .stream = source_range_stream,
                                            .seen = source_range_seen,
                                            .is_still = source_range_is_still };
    const coffer_status status = source_range_check(of, offset, &size, err);
    if (status == COFFER_OK) {
        const source_range made = { .of = of, .first = offset };
        coffer__source_init(range, &ops, size, of->is);
        memcpy(range->state.capacity, &made, sizeof made);
    }
    return status;
}

/* The source moves to the heap, and its place is taken by a range of it, which owns it, so that whoever holds the source
   notices nothing. A source may be copied, since nothing in it points into itself. */
coffer_status coffer__source_narrow(coffer__byte_source *source, uint64_t offset, uint64_t size,
                                    const coffer_allocator *allocator, coffer_error *err)
{
    const coffer_status status = source_range_check(source, offset, &size, err);
    if (status != COFFER_OK) {
        source->ops->close(source);
        return status;
    }
    if (size == source->size) {
        return COFFER_OK;
    }
    coffer__byte_source *of = coffer__alloc(allocator, sizeof *of);
    if (of == NULL) {
        source->ops->close(source);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a range of a source");
    }
    *of = *source;
    (void)coffer__source_range(source, of, offset, size, NULL); /* it was checked */
    source_range *range = (void *)source->state.capacity;
    range->allocator = *allocator;
    range->owns = true;
    return COFFER_OK;
}
