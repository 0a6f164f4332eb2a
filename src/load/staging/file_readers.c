/* SPDX-License-Identifier: Apache-2.0 */
#include "file_readers.h"

#include "alloc.h"
#include "cufile.h"
#include "errno_status.h"
#include "error.h"
#include "model.h"
#include "record.h"
#include "served.h"

#define FILE_READERS_OPEN 32                    /* that are kept open without being used */
#define FILE_READERS_LITTLE ((uint64_t)4 << 20) /* what has less is read by its source, whatever the system can do */

/* What is planned is set once, before the workers start; the rest is guarded by the mutex, but for the file reader
   itself, which is constant while it is open. */
typedef struct file_readers_entry {
    coffer__file_reader file_reader;
    coffer__cufile_file file; /* with the engine cuFile: the same file, as that knows it */
    bool open;
    size_t users;
    uint64_t planned; /* bytes that are wanted of the file */
    uint64_t views;   /* of them, those of items that can be parts of a map of it */
    uint64_t counted; /* of them, those of items that were looked at for probes */
    uint32_t probe_count;
    uint64_t probes[COFFER__FILE_READER_PROBES]; /* where in the file, spread over what is wanted */
} file_readers_entry;

struct coffer__file_readers {
    coffer_allocator allocator;
    coffer__file_readers_options options;
    const coffer *model;
    coffer__mutex mutex; /* guards what follows */
    coffer__engine_facts facts;
    bool has_facts;
    bool shared; /* coffer__file_readers_expect_others */
    size_t open;
    size_t count;
    file_readers_entry *entries; /* of each shard */
    bool has_cuda;               /* something goes to a CUDA device */
    coffer__cufile *cufile;      /* NULL: not asked for, or not started yet */
};

/* ---- what is wanted of each file --------------------------------------------------------------------------------- */

/* Puts a probe into an item at each 64th of what is wanted of its file, so that they are spread over the bytes that
   will be read. The bytes of an item count as they are in the result, while its copy ops reach over more of the file;
   so a probe that would lie beyond the reach is put at its beginning. */
static void file_readers_probe(file_readers_entry *entry, const coffer_plan *plan, const coffer__load_item *item)
{
    const coffer__file_span *reach = &plan->copy_ops[item->first_op].region.reach;
    const uint64_t step = entry->planned / COFFER__FILE_READER_PROBES + 1;
    while (entry->probe_count < COFFER__FILE_READER_PROBES && entry->probe_count * step < entry->counted + item->size) {
        const uint64_t inside = entry->probe_count * step - entry->counted;
        const uint64_t reached = reach->end - reach->begin;
        entry->probes[entry->probe_count++] = reach->begin + (inside < reached ? inside : 0);
    }
    entry->counted += item->size;
}

/* All of the plan is summed up first, since the distance of the probes follows from the sum. Of files that are read
   by their sources in any case nothing is probed. */
static void file_readers_plan(coffer__file_readers *file_readers, const coffer_plan *plan)
{
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer_device *device = plan->items[i].device;
        file_readers->has_cuda = file_readers->has_cuda || (device != NULL && device->kind == COFFER_DEVICE_CUDA);
        file_readers_entry *entry = &file_readers->entries[plan->items[i].shard];
        entry->planned += plan->items[i].size;
        entry->views += coffer__item_can_be_view(plan, (uint32_t)i) ? plan->items[i].size : 0;
    }
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer__load_item *item = &plan->items[i];
        if (item->op_count > 0 && file_readers->entries[item->shard].planned >= FILE_READERS_LITTLE) {
            file_readers_probe(&file_readers->entries[item->shard], plan, item);
        }
    }
}

/* No file is opened here. */
coffer_status coffer__file_readers_new(coffer__file_readers **file_readers, const coffer_plan *plan,
                                       const coffer__file_readers_options *options, coffer_error *err)
{
    const size_t count = plan->model->shard_count;
    coffer__file_readers *made = coffer__alloc_zeroed(options->allocator, sizeof *made);
    *file_readers = made;
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
        *file_readers = NULL;
        return os_error == 0 ? COFFER_ERR_MEMORY : coffer__errno_status(err, "make a mutex", NULL, os_error);
    }
    file_readers_plan(made, plan);
    return COFFER_OK;
}

/* cuFile knows the file by its descriptor, so it forgets that before it is closed and the number may be used again. */
static void file_readers_close(const coffer__file_readers *file_readers, file_readers_entry *entry)
{
    if (file_readers->cufile != NULL) {
        coffer__cufile_file_close(file_readers->cufile, &entry->file);
    }
    coffer__file_reader_close(&entry->file_reader);
}

/* cuFile goes after all files that it knows. */
void coffer__file_readers_free(coffer__file_readers *file_readers)
{
    if (file_readers == NULL) {
        return;
    }
    for (size_t i = 0; i < file_readers->count; i++) {
        if (file_readers->entries[i].open) {
            file_readers_close(file_readers, &file_readers->entries[i]);
        }
    }
    coffer__cufile_close(file_readers->cufile);
    coffer__os_mutex_close(&file_readers->mutex);
    const coffer_allocator allocator = file_readers->allocator;
    coffer__free_array(&allocator, file_readers->entries, file_readers->count, sizeof *file_readers->entries);
    coffer__free(&allocator, file_readers, sizeof *file_readers);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Under the mutex. A file reader with a user has a chunk that is read through it; the chunks of other files do not
   matter. */
static void file_readers_close_idle(coffer__file_readers *file_readers)
{
    for (size_t i = 0; i < file_readers->count; i++) {
        file_readers_entry *entry = &file_readers->entries[i];
        if (entry->open && entry->users == 0) {
            file_readers_close(file_readers, entry);
            entry->open = false;
            file_readers->open--;
        }
    }
}

/* A model of thousands of files should not take all descriptors. All that are idle are closed at once, so this is
   done once in a while and not for each file. Where all are in use there are more for a time: their number is
   bounded by that of the chunks in progress. */
static void file_readers_reserve(coffer__file_readers *file_readers)
{
    if (file_readers->open >= FILE_READERS_OPEN) {
        file_readers_close_idle(file_readers);
    }
}

/* Those that are open were opened with the other intention, so the idle ones are closed, and opened again when they
   are needed. Workers enter the group before they read, so none is in use then. */
void coffer__file_readers_expect_others(coffer__file_readers *file_readers)
{
    coffer__os_mutex_lock(&file_readers->mutex);
    file_readers->shared = true;
    file_readers_close_idle(file_readers);
    coffer__os_mutex_unlock(&file_readers->mutex);
}

bool coffer__file_readers_is_served(const coffer__file_readers *file_readers, size_t shard)
{
    return file_readers->options.served != NULL && file_readers->options.served->files[shard].found;
}

/* Whether results may be parts of a map. Bytes that are hashed are not: what was verified must not change with the file, and
   a file that becomes shorter while it is hashed would end the process. */
static bool file_readers_may_map(const coffer__file_readers *file_readers, const coffer__shard *of)
{
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    const bool records = coffer__table_algorithm(of->table, &algorithm, NULL) != COFFER_ERR_NO_DIGESTS;
    return of->access != COFFER_READ && of->trusted == NULL && (file_readers->options.unverified || !records);
}

/* Under the mutex, which is held while the file is opened and looked at: two workers that come to the same file at
   once must not open it twice. What the system can do is found out once, and not at all for loads of a few bytes,
   which would spend more time on that than on reading. Of a model cache server's memory there is no path. */
static coffer_status file_readers_open(coffer__file_readers *file_readers, size_t shard, coffer_error *err)
{
    file_readers_entry *entry = &file_readers->entries[shard];
    const coffer__shard *of = &file_readers->model->shards[shard];
    const bool served = coffer__file_readers_is_served(file_readers, shard);
    const coffer__byte_source *source = served ? &file_readers->options.served->files[shard].source : &of->source;
    const coffer__engine_wish wish = { .engine = file_readers->options.engine,
                                       .uncached = file_readers->options.uncached,
                                       .shared = file_readers->shared || file_readers->options.group,
                                       .views = !served && entry->views > entry->planned / 2 &&
                                                file_readers_may_map(file_readers, of),
                                       .path = served ? NULL : of->path,
                                       .planned = entry->planned,
                                       .probes = entry->probes,
                                       .probe_count = entry->probe_count };
    const bool little = entry->planned < FILE_READERS_LITTLE && file_readers->options.engine == COFFER_ENGINE_AUTO;
    if (wish.engine == COFFER_ENGINE_MAPPED && of->access == COFFER_READ) {
        return coffer__fail(
            err, COFFER_ERR_ENGINE,
            "the engine \"mapped\" was asked for, but the model was opened to be read and never mapped: "
            "use the engine \"auto\"");
    }
    file_readers_reserve(file_readers);
    if (!file_readers->has_facts && !little) {
        coffer__engine_facts_get(&file_readers->facts);
        file_readers->has_facts = true;
    }
    coffer_status status = coffer__file_reader_open(&entry->file_reader, source, &wish, &file_readers->facts, err);
    if (status == COFFER_OK && file_readers->cufile != NULL && !served) {
        const int fd = entry->file_reader.direct;
        status = coffer__cufile_add(file_readers->cufile, fd, coffer__os_storage_of(fd), &entry->file, err);
        if (status != COFFER_OK) {
            coffer__file_reader_close(&entry->file_reader);
        }
    }
    if (status != COFFER_OK) {
        return of->path == NULL ? status : coffer__fail_path(err, status, of->path);
    }
    entry->open = true;
    file_readers->open++;
    return COFFER_OK;
}

/* The entry does not move, and stays open as long as it has a user, so the caller may use the file reader without the
   mutex. */
coffer_status coffer__file_readers_use(coffer__file_readers *file_readers, size_t shard,
                                       const coffer__file_reader **file_reader, coffer_error *err)
{
    file_readers_entry *entry = &file_readers->entries[shard];
    coffer__os_mutex_lock(&file_readers->mutex);
    const coffer_status status = entry->open ? COFFER_OK : file_readers_open(file_readers, shard, err);
    if (status == COFFER_OK) {
        entry->users++;
        *file_reader = &entry->file_reader;
    }
    coffer__os_mutex_unlock(&file_readers->mutex);
    return status;
}

coffer_status coffer__file_readers_map(coffer__file_readers *file_readers, size_t shard,
                                       const coffer__byte_source **source, coffer_error *err)
{
    const coffer__file_reader *file_reader = NULL;
    const coffer_status status = coffer__file_readers_use(file_readers, shard, &file_reader, err);
    *source = NULL;
    if (status == COFFER_OK) {
        const bool mapped = coffer__file_reader_engine(file_reader) == COFFER_ENGINE_MAPPED;
        *source = mapped && file_readers_may_map(file_readers, &file_readers->model->shards[shard])
                      ? file_reader->source
                      : NULL;
        coffer__file_readers_leave(file_readers, shard);
    }
    return status;
}

/* It stays open: the next chunk is mostly of the same file. */
void coffer__file_readers_leave(coffer__file_readers *file_readers, size_t shard)
{
    coffer__os_mutex_lock(&file_readers->mutex);
    file_readers->entries[shard].users--;
    coffer__os_mutex_unlock(&file_readers->mutex);
}

/* A chunk some of which is on the disk counts as on the disk: nothing else can complete it. */
coffer__residency coffer__file_readers_residency(coffer__file_readers *file_readers, const coffer__chunk *chunk)
{
    const file_readers_entry *entry = &file_readers->entries[chunk->shard];
    coffer__os_mutex_lock(&file_readers->mutex);
    coffer__residency where =
        entry->open && entry->file_reader.granule != 0 ? COFFER__CACHED : COFFER__RESIDENCY_UNKNOWN;
    for (size_t i = 0; i < chunk->span_count && where == COFFER__CACHED; i++) {
        const coffer__file_span *span = &chunk->spans[i];
        where = coffer__file_reader_holds(&entry->file_reader, span->begin, span->end - span->begin) ? where
                                                                                                     : COFFER__ON_DISK;
    }
    coffer__os_mutex_unlock(&file_readers->mutex);
    return where;
}

/* Without the mutex: cuFile is started before the workers, and not after. A model cache server's memory is no file that
   it knows. */
bool coffer__file_readers_reach(const coffer__file_readers *file_readers, size_t shard, const coffer_device *device)
{
    return file_readers->cufile != NULL && device->kind == COFFER_DEVICE_CUDA &&
           !coffer__file_readers_is_served(file_readers, shard);
}

/* Nothing here is locked, since the caller uses the file reader. Offsets are those of the source, which may begin
   within the file. */
coffer_status coffer__file_readers_read_to(coffer__file_readers *file_readers, size_t shard, coffer_device *device,
                                           coffer__file_span bytes, uint64_t address, coffer_error *err)
{
    const file_readers_entry *entry = &file_readers->entries[shard];
    const char *path = file_readers->model->shards[shard].path;
    const coffer_status status =
        coffer__cufile_read(file_readers->cufile, device, &entry->file, entry->file_reader.base + bytes.begin, address,
                            bytes.end - bytes.begin, err);
    return status == COFFER_OK || path == NULL ? status : coffer__fail_path(err, status, path);
}

/* cuFile is started before the first file reader is opened, where it was asked for. It is the one engine that is never
   chosen without being asked for, and the only one that can be impossible for a plan. */
static coffer_status file_readers_start_cufile(coffer__file_readers *file_readers, coffer_error *err)
{
    if (file_readers->options.engine != COFFER_ENGINE_CUFILE || file_readers->cufile != NULL) {
        return COFFER_OK;
    }
    if (file_readers->options.group || !file_readers->has_cuda) {
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"cufile\" was asked for, but cuFile %s: use the engine \"auto\"",
                            file_readers->options.group ? "cannot read to a staging buffer that several processes share"
                                                        : "reads to CUDA devices, and nothing of the plan goes to one");
    }
    return coffer__cufile_open(&file_readers->cufile, &file_readers->allocator, err);
}

/* An engine that was asked for by name has to serve for every file, so every file is opened, and refused now and
   not in the middle of the load. AUTO finds something for each file, so the first is enough to tell how many
   threads are wanted. */
coffer_status coffer__file_readers_try(coffer__file_readers *file_readers, uint32_t *threads, coffer_error *err)
{
    *threads = 0;
    const coffer_status started = file_readers_start_cufile(file_readers, err);
    if (started != COFFER_OK) {
        return started;
    }
    for (size_t i = 0; i < file_readers->count; i++) {
        const coffer__file_reader *file_reader = NULL;
        if (file_readers->entries[i].planned == 0) {
            continue;
        }
        const coffer_status status = coffer__file_readers_use(file_readers, i, &file_reader, err);
        if (status != COFFER_OK) {
            return status;
        }
        *threads = file_reader->threads > *threads ? file_reader->threads : *threads;
        coffer__file_readers_leave(file_readers, i);
        if (file_readers->options.engine == COFFER_ENGINE_AUTO) {
            break;
        }
    }
    return COFFER_OK;
}
