/* SPDX-License-Identifier: Apache-2.0 */
#include "inlets.h"

#include "alloc.h"
#include "cufile.h"
#include "error.h"
#include "kept.h"
#include "model.h"
#include "trouble.h"

#define INLETS_OPEN 32                    /* that are kept open without being used */
#define INLETS_LITTLE ((uint64_t)4 << 20) /* what has less is read by its source, whatever the system can do */

/* What is planned is set once, before the workers start; the rest is guarded by the mutex, but for the inlet
   itself, which is constant while it is open. */
typedef struct inlets_entry {
    coffer__inlet inlet;
    coffer__cufile_file file; /* with the engine cuFile: the same file, as that knows it */
    bool open;
    size_t users;
    uint64_t planned; /* bytes that are wanted of the file */
    uint64_t counted; /* of them, those of items that were looked at for probes */
    uint32_t probe_count;
    uint64_t probes[COFFER__INLET_PROBES]; /* where in the file, spread over what is wanted */
} inlets_entry;

struct coffer__inlets {
    coffer_allocator allocator;
    coffer__inlets_options options;
    const coffer *model;
    coffer__mutex mutex; /* guards what follows */
    coffer__engine_facts facts;
    bool has_facts;
    bool shared; /* coffer__inlets_share */
    size_t open;
    size_t count;
    inlets_entry *entries;  /* of each shard */
    bool has_cuda;          /* something goes to a CUDA device */
    coffer__cufile *cufile; /* NULL: not asked for, or not started yet */
};

/* ---- what is wanted of each file --------------------------------------------------------------------------------- */

/* Puts a probe into an item at each 64th of what is wanted of its file, so that they are spread over the bytes that
   will be read. The bytes of an item count as they are in the result, while its rows reach over more of the file;
   so a probe that would lie beyond the reach is put at its beginning. */
static void inlets_probe(inlets_entry *entry, const coffer_plan *plan, const coffer__load_item *item)
{
    const coffer__file_span *reach = &plan->rows[item->first_row].nest.reach;
    const uint64_t step = entry->planned / COFFER__INLET_PROBES + 1;
    while (entry->probe_count < COFFER__INLET_PROBES && entry->probe_count * step < entry->counted + item->size) {
        const uint64_t inside = entry->probe_count * step - entry->counted;
        const uint64_t reached = reach->end - reach->begin;
        entry->probes[entry->probe_count++] = reach->begin + (inside < reached ? inside : 0);
    }
    entry->counted += item->size;
}

/* All of the plan is summed up first, since the distance of the probes follows from the sum. Of files that are read
   by their sources in any case nothing is probed. */
static void inlets_plan(coffer__inlets *inlets, const coffer_plan *plan)
{
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer_device *device = plan->items[i].device;
        inlets->has_cuda = inlets->has_cuda || (device != NULL && device->kind == COFFER_DEVICE_CUDA);
        inlets->entries[plan->items[i].shard].planned += plan->items[i].size;
    }
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer__load_item *item = &plan->items[i];
        if (item->row_count > 0 && inlets->entries[item->shard].planned >= INLETS_LITTLE) {
            inlets_probe(&inlets->entries[item->shard], plan, item);
        }
    }
}

/* No file is opened here. */
coffer_status coffer__inlets_new(coffer__inlets **inlets, const coffer_plan *plan,
                                 const coffer__inlets_options *options, coffer_error *err)
{
    const size_t count = plan->model->shard_count;
    coffer__inlets *made = coffer__alloc_zeroed(options->allocator, sizeof *made);
    *inlets = made;
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a load");
    }
    made->allocator = *options->allocator;
    made->options = *options;
    made->model = plan->model;
    made->count = count;
    made->entries = coffer__alloc_array(&made->allocator, count, sizeof *made->entries, err);
    const int os_error = made->entries == NULL ? 0 : coffer__os_mutex_init(&made->mutex);
    if (made->entries == NULL || os_error != 0) {
        coffer__free_array(&made->allocator, made->entries, count, sizeof *made->entries);
        coffer__free(options->allocator, made, sizeof *made);
        *inlets = NULL;
        return os_error == 0 ? COFFER_ERR_MEMORY : coffer__trouble(err, "make a mutex", NULL, os_error);
    }
    inlets_plan(made, plan);
    return COFFER_OK;
}

/* cuFile knows the file by its descriptor, so it forgets that before it is closed and the number may be used again. */
static void inlets_close(const coffer__inlets *inlets, inlets_entry *entry)
{
    if (inlets->cufile != NULL) {
        coffer__cufile_forget(inlets->cufile, &entry->file);
    }
    coffer__inlet_close(&entry->inlet);
}

/* cuFile goes after all files that it knows. */
void coffer__inlets_free(coffer__inlets *inlets)
{
    if (inlets == NULL) {
        return;
    }
    for (size_t i = 0; i < inlets->count; i++) {
        if (inlets->entries[i].open) {
            inlets_close(inlets, &inlets->entries[i]);
        }
    }
    coffer__cufile_close(inlets->cufile);
    coffer__os_mutex_deinit(&inlets->mutex);
    const coffer_allocator allocator = inlets->allocator;
    coffer__free_array(&allocator, inlets->entries, inlets->count, sizeof *inlets->entries);
    coffer__free(&allocator, inlets, sizeof *inlets);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Under the mutex. An inlet with a user has a chunk that is read through it; the chunks of other files do not
   matter. */
static void inlets_close_idle(coffer__inlets *inlets)
{
    for (size_t i = 0; i < inlets->count; i++) {
        inlets_entry *entry = &inlets->entries[i];
        if (entry->open && entry->users == 0) {
            inlets_close(inlets, entry);
            entry->open = false;
            inlets->open--;
        }
    }
}

/* A model of thousands of files should not take all descriptors. All that are idle are closed at once, so this is
   done once in a while and not for each file. Where all are in use there are more for a time: their number is
   bounded by that of the chunks in progress. */
static void inlets_make_room(coffer__inlets *inlets)
{
    if (inlets->open >= INLETS_OPEN) {
        inlets_close_idle(inlets);
    }
}

/* Those that are open were opened with the other intention, so the idle ones are closed, and opened again when they
   are needed. Workers enter the group before they read, so none is in use then. */
void coffer__inlets_share(coffer__inlets *inlets)
{
    coffer__os_mutex_lock(&inlets->mutex);
    inlets->shared = true;
    inlets_close_idle(inlets);
    coffer__os_mutex_unlock(&inlets->mutex);
}

bool coffer__inlets_kept(const coffer__inlets *inlets, size_t shard)
{
    return inlets->options.kept != NULL && inlets->options.kept->files[shard].found;
}

/* Under the mutex, which is held while the file is opened and looked at: two workers that come to the same file at
   once must not open it twice. What the system can do is found out once, and not at all for loads of a few bytes,
   which would spend more time on that than on reading. Of a keeper's memory there is no path. */
static coffer_status inlets_open(coffer__inlets *inlets, size_t shard, coffer_error *err)
{
    inlets_entry *entry = &inlets->entries[shard];
    const coffer__shard *of = &inlets->model->shards[shard];
    const bool kept = coffer__inlets_kept(inlets, shard);
    const coffer__source *source = kept ? &inlets->options.kept->files[shard].source : &of->source;
    const coffer__engine_wish wish = { .engine = inlets->options.engine,
                                       .uncached = inlets->options.uncached,
                                       .shared = inlets->shared,
                                       .path = kept ? NULL : of->path,
                                       .planned = entry->planned,
                                       .probes = entry->probes,
                                       .probe_count = entry->probe_count };
    const bool little = entry->planned < INLETS_LITTLE && inlets->options.engine == COFFER_ENGINE_AUTO;
    inlets_make_room(inlets);
    if (!inlets->has_facts && !little) {
        coffer__engine_facts_get(&inlets->facts);
        inlets->has_facts = true;
    }
    coffer_status status = coffer__inlet_open(&entry->inlet, source, &wish, &inlets->facts, err);
    if (status == COFFER_OK && inlets->cufile != NULL && !kept) {
        const int fd = entry->inlet.direct;
        status = coffer__cufile_add(inlets->cufile, fd, coffer__os_storage_of(fd), &entry->file, err);
        if (status != COFFER_OK) {
            coffer__inlet_close(&entry->inlet);
        }
    }
    if (status != COFFER_OK) {
        return of->path == NULL ? status : coffer__fail_path(err, status, of->path);
    }
    entry->open = true;
    inlets->open++;
    return COFFER_OK;
}

/* The entry does not move, and stays open as long as it has a user, so the caller may use the inlet without the
   mutex. */
coffer_status coffer__inlets_use(coffer__inlets *inlets, size_t shard, const coffer__inlet **inlet, coffer_error *err)
{
    inlets_entry *entry = &inlets->entries[shard];
    coffer__os_mutex_lock(&inlets->mutex);
    const coffer_status status = entry->open ? COFFER_OK : inlets_open(inlets, shard, err);
    if (status == COFFER_OK) {
        entry->users++;
        *inlet = &entry->inlet;
    }
    coffer__os_mutex_unlock(&inlets->mutex);
    return status;
}

/* It stays open: the next chunk is mostly of the same file. */
void coffer__inlets_leave(coffer__inlets *inlets, size_t shard)
{
    coffer__os_mutex_lock(&inlets->mutex);
    inlets->entries[shard].users--;
    coffer__os_mutex_unlock(&inlets->mutex);
}

/* A chunk some of which is away is away: only the disk can complete it. */
coffer__whereabouts coffer__inlets_whereabouts(coffer__inlets *inlets, const coffer__chunk *chunk)
{
    const inlets_entry *entry = &inlets->entries[chunk->shard];
    coffer__os_mutex_lock(&inlets->mutex);
    coffer__whereabouts where = entry->open && entry->inlet.granule != 0 ? COFFER__AT_HAND : COFFER__ANYWHERE;
    for (size_t i = 0; i < chunk->span_count && where == COFFER__AT_HAND; i++) {
        const coffer__file_span *span = &chunk->spans[i];
        where = coffer__inlet_holds(&entry->inlet, span->begin, span->end - span->begin) ? where : COFFER__AWAY;
    }
    coffer__os_mutex_unlock(&inlets->mutex);
    return where;
}

/* Without the mutex: cuFile is started before the workers, and not after. A keeper's memory is no file that it knows. */
bool coffer__inlets_reach(const coffer__inlets *inlets, size_t shard, const coffer_device *device)
{
    return inlets->cufile != NULL && device->kind == COFFER_DEVICE_CUDA && !coffer__inlets_kept(inlets, shard);
}

/* Nothing here is locked, since the caller uses the inlet. Offsets are those of the source, which may begin within
   the file. */
coffer_status coffer__inlets_read_to(coffer__inlets *inlets, size_t shard, coffer_device *device,
                                     coffer__file_span bytes, uint64_t address, coffer_error *err)
{
    const inlets_entry *entry = &inlets->entries[shard];
    const char *path = inlets->model->shards[shard].path;
    const coffer_status status = coffer__cufile_read(
        inlets->cufile, device, &entry->file, entry->inlet.base + bytes.begin, address, bytes.end - bytes.begin, err);
    return status == COFFER_OK || path == NULL ? status : coffer__fail_path(err, status, path);
}

/* cuFile is started before the first inlet is opened, where it was asked for. It is the one engine that is never
   chosen without being asked for, and the only one that can be impossible for a plan. */
static coffer_status inlets_start_cufile(coffer__inlets *inlets, coffer_error *err)
{
    if (inlets->options.engine != COFFER_ENGINE_CUFILE || inlets->cufile != NULL) {
        return COFFER_OK;
    }
    if (inlets->options.group || !inlets->has_cuda) {
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"cufile\" was asked for, but cuFile %s: use the engine \"auto\"",
                            inlets->options.group ? "cannot read to a window that several processes share"
                                                  : "reads to CUDA devices, and nothing of the plan goes to one");
    }
    return coffer__cufile_open(&inlets->cufile, &inlets->allocator, err);
}

/* An engine that was asked for by name has to serve for every file, so every file is opened, and refused now and
   not in the middle of the load. AUTO finds something for each file, so the first is enough to tell how many
   threads are wanted. */
coffer_status coffer__inlets_try(coffer__inlets *inlets, uint32_t *threads, coffer_error *err)
{
    *threads = 0;
    const coffer_status started = inlets_start_cufile(inlets, err);
    if (started != COFFER_OK) {
        return started;
    }
    for (size_t i = 0; i < inlets->count; i++) {
        const coffer__inlet *inlet = NULL;
        if (inlets->entries[i].planned == 0) {
            continue;
        }
        const coffer_status status = coffer__inlets_use(inlets, i, &inlet, err);
        if (status != COFFER_OK) {
            return status;
        }
        *threads = inlet->threads > *threads ? inlet->threads : *threads;
        coffer__inlets_leave(inlets, i);
        if (inlets->options.engine == COFFER_ENGINE_AUTO) {
            break;
        }
    }
    return COFFER_OK;
}
