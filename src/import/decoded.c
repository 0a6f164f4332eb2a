/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window over a storage that is decoded in order:
 *
 *   storage   | decoded and gone | decoded and here | not decoded yet
 *             0                  begin              end
 *   window    byte `i` of the storage is at `i % DECODED_WINDOW`
 */
#include "decoded.h"

#include "alloc.h"
#include "error.h"
#include "pages.h"

#include <string.h>

#define DECODED_ENTRIES 4u
#define DECODED_WINDOW ((size_t)16 << 20)
#define DECODED_STEP ((size_t)1 << 20) /* bytes that are decoded at once; the window is a multiple */

struct coffer__decoded_entry {
    coffer__decoded_entry *next;
    coffer__decoded *of;
    uint32_t number; /* of the storage */
    uint32_t users;
    coffer__storage_source storage;
    coffer__byte_source window; /* where the storage is a stream */
    uint8_t *bytes;             /* of the window */
    uint64_t begin;
    uint64_t end;
};

bool coffer__decoded_in_order(const coffer__import_plan *plan, uint32_t storage)
{
    const coffer__import_plan_storage *which = coffer__import_plan_storages(plan) + storage;
    return which->kind == COFFER__STORAGE_JOINED && which->size > COFFER__STORAGE_IN_MEMORY &&
           !coffer__import_plan_is_plain(plan, which) && !coffer__storage_is_random(plan, storage);
}

bool coffer__decoded_open(coffer__decoded *decoded, const coffer__import_plan *plan, const coffer_input *input,
                          const coffer_allocator *allocator)
{
    *decoded = (coffer__decoded){ .decoding = { .plan = plan, .input = input, .allocator = allocator } };
    if (coffer__os_mutex_init(&decoded->lock) != 0) {
        return false;
    }
    coffer__crcs_open(&decoded->crcs);
    decoded->decoding.crcs = &decoded->crcs;
    return true;
}

static void decoded_free(coffer__decoded_entry *entry)
{
    const coffer_allocator *allocator = entry->of->decoding.allocator;
    coffer__storage_close(&entry->storage);
    coffer__free_pages(allocator, entry->bytes, DECODED_WINDOW);
    coffer__free(allocator, entry, sizeof *entry);
}

void coffer__decoded_close(coffer__decoded *decoded)
{
    while (decoded->entries != NULL) {
        coffer__decoded_entry *entry = decoded->entries;
        decoded->entries = entry->next;
        decoded_free(entry);
    }
    coffer__inflaters_close(&decoded->decoding.inflaters);
    coffer__crcs_close(&decoded->crcs);
    coffer__os_mutex_close(&decoded->lock);
}

/* ---- the window -------------------------------------------------------------------------------------------------- */

/* The stream begins again; what was decoded is forgotten. After a failure there is no stream, until the next read. */
static coffer_status decoded_restart(coffer__decoded_entry *entry, coffer_error *err)
{
    coffer__storage_close(&entry->storage);
    const coffer_status status = coffer__storage_open(&entry->storage, &entry->of->decoding, entry->number, true, err);
    entry->begin = status == COFFER_OK ? 0 : UINT64_MAX;
    entry->end = 0;
    return status;
}

/* Decodes the next step. A decoder that has failed cannot go on, so that the next read begins anew. */
static coffer_status decoded_step(coffer__decoded_entry *entry, coffer_error *err)
{
    const uint64_t left = entry->window.size - entry->end;
    const size_t size = left < DECODED_STEP ? (size_t)left : DECODED_STEP;
    uint8_t *to = entry->bytes + (size_t)(entry->end % DECODED_WINDOW);
    const coffer_status status = coffer__source_read(&entry->storage.source, entry->end, to, size, err);
    if (status != COFFER_OK) {
        entry->begin = UINT64_MAX;
        return status;
    }
    entry->end += size;
    if (entry->end - entry->begin > DECODED_WINDOW) {
        entry->begin = entry->end - DECODED_WINDOW;
    }
    return COFFER_OK;
}

/* Copies what the window has of a range that begins in it; how many bytes. */
static size_t decoded_copy(const coffer__decoded_entry *entry, uint64_t offset, uint8_t *to, size_t size)
{
    const size_t at = (size_t)(offset % DECODED_WINDOW);
    const size_t straight = DECODED_WINDOW - at;
    const uint64_t here = entry->end - offset;
    size_t now = size < straight ? size : straight;
    now = here < now ? (size_t)here : now;
    memcpy(to, entry->bytes + at, now);
    return now;
}

static coffer_status decoded_read(coffer__decoded_entry *entry, uint64_t offset, uint8_t *to, size_t size,
                                  coffer_error *err)
{
    coffer_status status = offset < entry->begin ? decoded_restart(entry, err) : COFFER_OK;
    while (size > 0 && status == COFFER_OK) {
        if (offset < entry->end) {
            const size_t now = decoded_copy(entry, offset, to, size);
            offset += now;
            to += now;
            size -= now;
        } else {
            status = decoded_step(entry, err);
        }
    }
    return status;
}

static coffer__decoded_entry *decoded_of(const coffer__byte_source *source)
{
    return source->state.kept;
}

static coffer_status decoded_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                     const coffer__watch *watch, coffer_error *err)
{
    coffer__decoded_entry *entry = decoded_of(source);
    (void)watch;
    coffer__os_mutex_lock(&entry->of->lock);
    const coffer_status status = decoded_read(entry, offset, buffer, size, err);
    coffer__os_mutex_unlock(&entry->of->lock);
    return status;
}

/* The entry is the one that closes. */
static void decoded_close(coffer__byte_source *source)
{
    (void)source;
}

static coffer_status decoded_make_window(coffer__decoded_entry *entry, coffer_error *err)
{
    static const coffer__source_ops ops = { .kind = "bytes that are decoded in order",
                                            .read_at = decoded_read_at,
                                            .close = decoded_close };
    entry->bytes = coffer__alloc_pages(entry->of->decoding.allocator, DECODED_WINDOW);
    if (entry->bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode with");
    }
    const coffer__source_traits traits = { .foreign = true, .in_order = true };
    coffer__source_init(&entry->window, &ops, entry->storage.source.size, traits);
    entry->window.state.kept = entry;
    return COFFER_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Frees those that were not used for the longest time, until one more may be there. What is in use stays. */
static void decoded_make_space(coffer__decoded *decoded)
{
    size_t count = 0;
    for (coffer__decoded_entry **link = &decoded->entries; *link != NULL;) {
        coffer__decoded_entry *entry = *link;
        if (++count < DECODED_ENTRIES || entry->users > 0) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        decoded_free(entry);
    }
}

static coffer_status decoded_make(coffer__decoded *decoded, uint32_t number, coffer__decoded_entry **made,
                                  coffer_error *err)
{
    decoded_make_space(decoded);
    coffer__decoded_entry *entry = coffer__alloc_zeroed(decoded->decoding.allocator, sizeof *entry);
    if (entry == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode with");
    }
    entry->of = decoded;
    entry->number = number;
    coffer_status status = coffer__storage_open(&entry->storage, &decoded->decoding, number, true, err);
    if (status == COFFER_OK && entry->storage.in_order) {
        status = decoded_make_window(entry, err);
    }
    if (status != COFFER_OK) {
        decoded_free(entry);
        return status;
    }
    entry->next = decoded->entries;
    decoded->entries = entry;
    *made = entry;
    return COFFER_OK;
}

/* Finds an entry and makes it the first. */
static coffer__decoded_entry *decoded_find(coffer__decoded *decoded, uint32_t number)
{
    for (coffer__decoded_entry **link = &decoded->entries; *link != NULL; link = &(*link)->next) {
        coffer__decoded_entry *entry = *link;
        if (entry->number == number) {
            *link = entry->next;
            entry->next = decoded->entries;
            decoded->entries = entry;
            return entry;
        }
    }
    return NULL;
}

coffer_status coffer__decoded_acquire(coffer__decoded *decoded, uint32_t storage, coffer__decoded_entry **entry,
                                      coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__os_mutex_lock(&decoded->lock);
    *entry = decoded_find(decoded, storage);
    if (*entry == NULL) {
        status = decoded_make(decoded, storage, entry, err);
    }
    if (status == COFFER_OK) {
        (*entry)->users++;
    }
    coffer__os_mutex_unlock(&decoded->lock);
    return status;
}

const coffer__byte_source *coffer__decoded_source(const coffer__decoded_entry *entry)
{
    return entry->storage.in_order ? &entry->window : &entry->storage.source;
}

void coffer__decoded_release(coffer__decoded *decoded, coffer__decoded_entry *entry)
{
    coffer__os_mutex_lock(&decoded->lock);
    entry->users--;
    coffer__os_mutex_unlock(&decoded->lock);
}
