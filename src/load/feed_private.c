/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of one process: slots of the window, filled from the sources. Bytes that go to host memory as they are, and are
 * many enough, are read right to their place; the rest of a chunk into its slot.
 */
#include "alloc.h"
#include "error.h"
#include "feed.h"
#include "model.h"
#include "window.h"

#define PRIVATE_PLACE ((uint64_t)16 << 10) /* bytes that are worth a read of their own */

typedef struct private_feed {
    coffer__feed base;
    const coffer__feeds *feeds;
    coffer__watch watch;
    uint8_t *slot;
    bool taken;           /* the slot holds a chunk that is not released */
    coffer__chunk *chunk; /* submitted, and not given back */
} private_feed;

static bool private_has_room(const coffer__feed *feed)
{
    return !((const private_feed *)feed)->taken;
}

static coffer_status private_submit(coffer__feed *feed, coffer__chunk *chunk, coffer_error *err)
{
    private_feed *own = (private_feed *)feed;
    (void)err;
    if (own->taken) {
        return COFFER_NEED_MORE;
    }
    own->taken = true;
    own->chunk = chunk;
    chunk->bytes = own->slot;
    chunk->requests = 0;
    chunk->read = 0;
    chunk->cached = 0;
    chunk->direct = 0;
    return COFFER_OK;
}

static coffer_status private_read(const private_feed *own, coffer__chunk *chunk, coffer__span span, uint8_t *to,
                                  coffer_error *err)
{
    const coffer__source *source = &own->feeds->model->shards[chunk->shard].source;
    const uint64_t size = span.end - span.begin;
    if (size == 0) {
        return COFFER_OK;
    }
    chunk->requests++;
    chunk->read += size;
    return coffer__source_read_watched(source, span.begin, to, (size_t)size, &own->watch, err);
}

/* Where byte `offset` of the file goes in the slot. */
static uint8_t *private_slot(const private_feed *own, const coffer__chunk *chunk, uint64_t offset)
{
    return own->slot + (size_t)(offset - chunk->cell.begin);
}

/* Whether a part may be read to its place: all of it is in the span, and no other wants its bytes. */
static bool private_is_apart(const coffer__chunk *chunk, size_t i, uint64_t from)
{
    const coffer__part *part = &chunk->parts[i];
    return part->to != NULL && part->within.begin >= from && part->within.end - part->within.begin >= PRIVATE_PLACE &&
           (i + 1 == chunk->part_count || chunk->parts[i + 1].within.begin >= part->within.end);
}

/* Reads a span: parts that are worth it to their place, and what lies between them to the slot. *next is the first part
   that was not looked at. `from` is where what is not read yet begins, and no part before it reaches beyond it. */
static coffer_status private_span(const private_feed *own, coffer__chunk *chunk, coffer__span span, size_t *next,
                                  coffer_error *err)
{
    uint64_t from = span.begin;
    uint64_t reached = span.begin;
    coffer_status status = COFFER_OK;
    for (; *next < chunk->part_count && chunk->parts[*next].within.begin < span.end; (*next)++) {
        coffer__part *part = &chunk->parts[*next];
        if (private_is_apart(chunk, *next, reached)) {
            const coffer__span before = { from, part->within.begin };
            status = private_read(own, chunk, before, private_slot(own, chunk, from), err);
            if (status == COFFER_OK) {
                status = private_read(own, chunk, part->within, part->to, err);
            }
            if (status != COFFER_OK) {
                return status;
            }
            part->there = part->within;
            from = part->within.end;
        }
        reached = part->within.end > reached ? part->within.end : reached;
    }
    return private_read(own, chunk, (coffer__span){ from, span.end }, private_slot(own, chunk, from), err);
}

static coffer_status private_next(coffer__feed *feed, bool wait, coffer__chunk **chunk, coffer_error *err)
{
    private_feed *own = (private_feed *)feed;
    size_t next = 0;
    (void)wait;
    *chunk = own->chunk;
    own->chunk = NULL;
    if (*chunk == NULL) {
        return COFFER_OK;
    }
    for (size_t i = 0; i < (*chunk)->span_count; i++) {
        const coffer_status status = private_span(own, *chunk, (*chunk)->spans[i], &next, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static void private_release(coffer__feed *feed, coffer__chunk *chunk)
{
    (void)chunk;
    ((private_feed *)feed)->taken = false;
}

static void private_close(coffer__feed *feed)
{
    private_feed *own = (private_feed *)feed;
    coffer__free(own->feeds->allocator, own, sizeof *own);
}

static const coffer__feed_ops private_ops = { .name = "private",
                                              .has_room = private_has_room,
                                              .submit = private_submit,
                                              .next = private_next,
                                              .release = private_release,
                                              .close = private_close };

coffer_status coffer__feed_private(coffer__feed **feed, const coffer__feeds *feeds, size_t worker,
                                   const coffer__watch *watch, coffer_error *err)
{
    private_feed *own = coffer__alloc_zeroed(feeds->allocator, sizeof *own);
    if (own == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for reading");
    }
    own->base.ops = &private_ops;
    own->feeds = feeds;
    own->watch = *watch;
    own->slot = feeds->window->slots + worker * (size_t)COFFER__CELL;
    *feed = &own->base;
    return COFFER_OK;
}
