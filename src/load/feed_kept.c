/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of a model of which a keeper has files: their bytes are in memory already. What goes to host memory as it is
 * comes by the system's own copy, which needs no map of pages; for everything else the map is the slot. Files that no
 * keeper has come from the feed below.
 */
#include "alloc.h"
#include "error.h"
#include "feed.h"
#include "kept.h"

/* Chunks of one feed that are accepted before they are asked for. */
#define KEPT_AHEAD 2
/* Bytes that are worth a system call. */
#define KEPT_COPY ((uint64_t)16 << 10)

typedef struct kept_feed {
    coffer__feed feed;
    const coffer_allocator *allocator;
    const coffer__kept *kept;
    coffer__feed *rest;
    coffer__chunk *ready;
    size_t count;
} kept_feed;

static const coffer__kept_file *kept_file_of(const kept_feed *feed, const coffer__chunk *chunk)
{
    return &feed->kept->files[chunk->shard];
}

/* Only a few are accepted, because the workers of a load share the schedule: chunks that wait here would be missing
   elsewhere. That `rest` has room is asked for the chunk that may be of another file. */
static bool kept_has_room(const coffer__feed *base)
{
    const kept_feed *feed = (const kept_feed *)base;
    return feed->count < KEPT_AHEAD && feed->rest->ops->has_room(feed->rest);
}

/* Nothing is copied here, so the chunks are spread over the workers before any of them begins to copy. */
static coffer_status kept_submit(coffer__feed *base, coffer__chunk *chunk, coffer_error *err)
{
    kept_feed *feed = (kept_feed *)base;
    if (kept_file_of(feed, chunk)->bytes == NULL) {
        return feed->rest->ops->submit(feed->rest, chunk, err);
    }
    coffer__chunk **end = &feed->ready;
    while (*end != NULL) {
        end = &(*end)->link;
    }
    *end = chunk;
    chunk->link = NULL;
    feed->count++;
    return COFFER_OK;
}

/* A copy that fails is no failure: the bytes are in the map. */
static void kept_copy(const coffer__kept_file *file, coffer__chunk_part *part)
{
    const uint64_t size = part->within.end - part->within.begin;
    size_t done = 0;
    if (part->to != NULL && part->device == NULL && size >= KEPT_COPY &&
        coffer__os_read_at(file->fd, part->within.begin, part->to, (size_t)size, &done) == 0 && done == size) {
        part->there = part->within;
    }
}

/* It counts as read from the page cache, which is where such memory is. */
static void kept_bring(const coffer__kept_file *file, coffer__chunk *chunk)
{
    chunk->bytes = file->bytes + (size_t)chunk->cell.begin;
    chunk->mapped = true;
    chunk->requests = 0;
    chunk->read = 0;
    chunk->direct = 0;
    chunk->engines = 0;
    for (size_t i = 0; i < chunk->span_count; i++) {
        chunk->read += chunk->spans[i].end - chunk->spans[i].begin;
    }
    chunk->cached = chunk->read;
    for (size_t i = 0; i < chunk->part_count; i++) {
        kept_copy(file, &chunk->parts[i]);
    }
}

/* Chunks that are ready come first: they need no waiting, and what `rest` reads goes on by itself meanwhile. */
static coffer_status kept_next(coffer__feed *base, bool wait, coffer__chunk **chunk, coffer_error *err)
{
    kept_feed *feed = (kept_feed *)base;
    *chunk = feed->ready;
    if (*chunk == NULL) {
        return feed->rest->ops->next(feed->rest, wait, chunk, err);
    }
    feed->ready = (*chunk)->link;
    feed->count--;
    kept_bring(kept_file_of(feed, *chunk), *chunk);
    return COFFER_OK;
}

/* A chunk of a kept file has no slot to give back. */
static void kept_release_chunk(coffer__feed *base, coffer__chunk *chunk)
{
    kept_feed *feed = (kept_feed *)base;
    if (kept_file_of(feed, chunk)->bytes == NULL) {
        feed->rest->ops->release(feed->rest, chunk);
    }
}

/* Nothing is in progress here: copies are done by the thread that asks for a chunk. */
static void kept_close(coffer__feed *base)
{
    kept_feed *feed = (kept_feed *)base;
    feed->rest->ops->close(feed->rest);
    coffer__free(feed->allocator, feed, sizeof *feed);
}

static const coffer__feed_ops KEPT_OPS = { .name = "kept",
                                           .has_room = kept_has_room,
                                           .submit = kept_submit,
                                           .next = kept_next,
                                           .release = kept_release_chunk,
                                           .close = kept_close };

coffer_status coffer__feed_kept(coffer__feed **feed, const coffer__feeds *feeds, coffer__feed *rest, coffer_error *err)
{
    kept_feed *made = coffer__alloc_zeroed(feeds->allocator, sizeof *made);
    if (made == NULL) {
        rest->ops->close(rest);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a feed");
    }
    *made = (kept_feed){ .feed = { &KEPT_OPS }, .allocator = feeds->allocator, .kept = feeds->kept, .rest = rest };
    *feed = &made->feed;
    return COFFER_OK;
}
