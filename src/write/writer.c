/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: a header, a sink, and an account of the bytes that came. A piece is entered in the
 * account before it is written, so two pieces that overlap never both reach the sink. No lock is
 * held while bytes are written. The first failure is final: nothing is published after it.
 *
 * Ownership: the header is the caller's and must live as long as the writer. The sink belongs to
 * the writer from the moment it is open until it is published or discarded, which happens exactly
 * once (`sink_open`).
 *
 * Threads: the mutex guards the account, the digests and the state. Every call that writes is
 * counted in `writing` while it runs, so finishing cannot overtake a write in progress. A call
 * takes the mutex twice: to be admitted, and to report how it ended.
 *
 * The life of a file without digests: sink opened, header written, pieces written, published. With
 * digests the header is written last, because it contains them; until then its place in the file is
 * empty. After a crash, a sink that hides its file until it is published shows none.
 */
#include "alloc.h"
#include "coffer.h"
#include "error.h"
#include "lazy_verify.h"
#include "model.h"
#include "options.h"
#include "os.h"
#include "output_target.h"
#include "parts.h"
#include "sink.h"
#include "sort.h"
#include "table.h"
#include "transfer.h"
#include "writer_check.h"
#include "writer_digests.h"
#include "writer_own.h"

#include <string.h>

/* Bytes in one call of a sink. size_t can hold it on every machine, and an offset is not limited
   by it. */
#define WRITER_LARGEST_WRITE ((size_t)1 << 30)
/* Small tensors from unstable sources are read and verified together, up to this many bytes, so that
   a remote source is not asked for each of them alone. It also bounds the memory of a batch,
   unless a single tensor is larger. */
#define WRITER_BATCH_SIZE ((size_t)64 << 20)

/* Where the sink of a new writer comes from. Exactly one of path, fd, memory and custom is set. */
typedef struct writer_target {
    const char *path; /* or one of the others */
    const int *fd;
    void *memory;
    size_t memory_size;
    const coffer_sink *custom;
    bool *taken; /* set once the sink is open, and the writer's to discard; may be NULL */
} writer_target;

/* ---- open and free ----------------------------------------------------------------------------------------------- */

/* Adds the path of the new file to an error, if the writer has one. */
coffer_status coffer__writer_fail(const coffer_writer *writer, coffer_status status, coffer_error *err)
{
    return writer->path == NULL ? status : coffer__fail_path(err, status, writer->path);
}

/* A writer that was not finished discards its sink: a file that is being written never appears
   under its name. It may be freed in any state, also half built by writer_new, but not while
   another thread is in a call. */
void coffer_writer_free(coffer_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (writer->sink_open) {
        writer->sink.ops->discard(&writer->sink);
    }
    if (writer->digests.algorithm != COFFER_NO_ALGORITHM) {
        coffer__writer_digests_free(&writer->digests);
    }
    coffer__spans_free(&writer->spans);
    coffer__os_mutex_close(&writer->mutex);
    const coffer_allocator allocator = writer->allocator;
    coffer__free(&allocator, writer->path, writer->path_size);
    coffer__free(&allocator, writer, sizeof *writer);
}

/* Returns NULL when there is no memory or no mutex. The result can be freed at any time. The path
   is copied, as the caller's string need not outlive the call that opens the writer. */
static coffer_writer *writer_new(const coffer_allocator *allocator, const char *path)
{
    coffer_writer *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL || coffer__os_mutex_init(&made->mutex) != 0) {
        coffer__free(allocator, made, sizeof *made);
        return NULL;
    }
    made->allocator = *allocator;
    coffer__spans_init(&made->spans, allocator);
    if (path == NULL) {
        return made;
    }
    made->path_size = strlen(path) + 1;
    made->path = coffer__alloc(allocator, made->path_size);
    if (made->path == NULL) {
        coffer_writer_free(made);
        return NULL;
    }
    memcpy(made->path, path, made->path_size);
    return made;
}

/* Opens the sink that the target asks for. `taken` is set whether opening works or not, so that
   the caller knows who must discard a custom sink. Nothing has been written when this fails, and
   what was at the path is unchanged. */
static coffer_status writer_open_sink_of(coffer_writer *writer, const writer_target *target,
                                         const coffer_writer_options *options, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const coffer_allocator *allocator = &writer->allocator;
    if (target->path != NULL) {
        status = coffer__sink_path(&writer->sink, allocator, target->path, options->sync, options->in_place, err);
        if (status == COFFER_OK && options->replaces != NULL) {
            /* It looks at the path when the file is published, and not now. */
            coffer__sink_path_only(&writer->sink, coffer__source_seen(&options->replaces->shards->source));
        }
    } else if (target->fd != NULL) {
        status = coffer__sink_fd(&writer->sink, allocator, *target->fd, options->sync, err);
    } else if (target->custom != NULL) {
        status = coffer__sink_custom(&writer->sink, allocator, target->custom, err);
    } else {
        status = coffer__sink_memory(&writer->sink, allocator, target->memory, target->memory_size, err);
    }
    writer->sink_open = status == COFFER_OK;
    writer->sink.progress = options->progress;
    writer->sink.progress_ctx = options->progress_ctx;
    if (target->taken != NULL) {
        *target->taken = writer->sink_open;
    }
    return status;
}

/* Writes any number of bytes, in pieces of at most WRITER_LARGEST_WRITE for each call of the sink.
   The range was entered in the account before, unless it is the header, so no other thread writes
   there. A failure can leave any part of it written; the caller then marks the writer as failed. */
static coffer_status writer_put(coffer_writer *writer, uint64_t at, const uint8_t *bytes, uint64_t size,
                                coffer_error *err)
{
    for (uint64_t done = 0; done < size;) {
        const uint64_t left = size - done;
        const size_t piece = left < WRITER_LARGEST_WRITE ? (size_t)left : WRITER_LARGEST_WRITE;
        const coffer_status status =
            writer->sink.ops->write_at(&writer->sink, at + done, bytes + (size_t)done, piece, err);
        if (status != COFFER_OK) {
            return status;
        }
        done += piece;
    }
    return COFFER_OK;
}

/* What packing needs to know when the file is complete. */
static void writer_keep_options(coffer_writer *writer, const coffer_writer_options *options)
{
    writer->packed = options->packed;
    writer->sync = options->sync;
    writer->replaces = options->replaces != NULL;
    if (writer->replaces) {
        writer->old = *coffer__source_seen(&options->replaces->shards->source);
    }
}

/* Opens the sink and writes the header there, unless it must wait for the digests in it. The size
   is announced before the first byte, so a disk that is too full is found now, unless the sink
   keeps holes and therefore waits. On failure the sink may be open; coffer_writer_free then
   discards it. */
static coffer_status writer_begin(coffer_writer *writer, const writer_target *target,
                                  const coffer_writer_options *options, const void *header_bytes, uint64_t header_size,
                                  coffer_error *err)
{
    coffer_status status = writer_open_sink_of(writer, target, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    writer_keep_options(writer, options);
    /* The header was validated when it was built, so its end and the data's add up. */
    const uint64_t file_size = coffer_table_data_offset(writer->table) + coffer_table_data_size(writer->table);
    /* Space is not reserved before the first data come: only then is it known whether they have
       holes, which reserved space would fill. */
    writer->sink.sparse = writer->sink.keeps_holes && coffer_table_data_size(writer->table) > 0;
    status = writer->sink.ops->reserve(&writer->sink, file_size, err);
    if (status == COFFER_OK && options->digests != COFFER_NO_ALGORITHM) {
        return coffer__writer_digests_init(&writer->digests, writer->header, options->digests, &writer->sink,
                                           &writer->allocator, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return writer_put(writer, 0, header_bytes, header_size, err);
}

/* Builds the header before the sink is opened, so an invalid header touches no file. Space for
   digests is made before that, because a built header cannot grow. The built bytes and the table
   belong to the header and stay valid as long as it does. */
static coffer_status writer_open_known(coffer_writer **writer, coffer_header *header, const writer_target *target,
                                       const coffer_writer_options *options, coffer_error *err)
{
    coffer_header_options header_options = COFFER_HEADER_OPTIONS_INIT;
    header_options.alignment = options->alignment;
    header_options.slack = options->slack;
    header_options.max_header_size = options->max_header_size;
    header_options.format = options->format;
    header_options.empty_metadata = options->empty_metadata;
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_table *table = NULL;
    coffer_status status = COFFER_OK;
    if (options->digests != COFFER_NO_ALGORITHM) {
        status = coffer__writer_digests_reserve(header, options->digests, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(header, &header_options, &bytes, &size, &table, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (options->packed && coffer_table_format(table) != COFFER_FORMAT_SAFETENSORS) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "only safetensors files can be packed");
    }
    coffer_writer *made = writer_new(&table->allocator, target->path);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a writer");
    }
    /* From here on freeing the writer undoes everything. */
    made->header = header;
    made->table = table;
    status = writer_begin(made, target, options, bytes, size, err);
    if (status != COFFER_OK) {
        coffer_writer_free(made);
        return status;
    }
    *writer = made;
    return COFFER_OK;
}

/* Refuses options that the target cannot keep. `replaces` promises that the path leads to the
   model's file until the new one gets its name. Only a sink that renames can keep that: one of a
   path that is not in place. The model must be one file whose source remembers what it opened, or
   there is nothing to compare the path with. */
static coffer_status writer_check_options(const coffer_writer_options *options, const writer_target *target,
                                          coffer_error *err)
{
    if ((unsigned)options->sync > COFFER_SYNC_NEVER) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `sync` has no such value");
    }
    if (options->packed && (target->path == NULL || options->in_place)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `packed` needs a path, and excludes in_place");
    }
    const coffer *replaces = options->replaces;
    if (replaces == NULL) {
        return COFFER_OK;
    }
    if (target->path == NULL || options->in_place) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `replaces` needs a path, and excludes in_place");
    }
    return replaces->shard_count == 1 && coffer__source_seen(&replaces->shards->source) != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `replaces` needs a model that is one file");
}

/* What all ways to open have in common. After a failure *writer is NULL, unless it is the header
   that is missing. The options are copied, since a caller that was compiled with an older header
   has a shorter struct. */
static coffer_status writer_open(coffer_writer **writer, coffer_header *header, const writer_target *target,
                                 const coffer_writer_options *options, coffer_error *err)
{
    if (writer != NULL) {
        *writer = NULL;
    }
    if (writer == NULL || header == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a writer needs a header and a place for its handle");
    }
    coffer_writer_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = writer_check_options(&known, target, err);
    }
    if (status == COFFER_OK) {
        status = writer_open_known(writer, header, target, &known, err);
    }
    return status == COFFER_OK || target->path == NULL ? status : coffer__fail_path(err, status, target->path);
}

/* Also sets *writer to NULL, as a failure to open does. */
static coffer_status writer_no_target(coffer_writer **writer, coffer_error *err)
{
    if (writer != NULL) {
        *writer = NULL;
    }
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a writer needs somewhere to write to, and got NULL");
}

coffer_status coffer_writer_open(coffer_writer **writer, coffer_header *header, const char *path,
                                 const coffer_writer_options *options, coffer_error *err)
{
    const writer_target target = { .path = path };
    return path == NULL ? writer_no_target(writer, err) : writer_open(writer, header, &target, options, err);
}

coffer_status coffer_writer_open_fd(coffer_writer **writer, coffer_header *header, int fd,
                                    const coffer_writer_options *options, coffer_error *err)
{
    const writer_target target = { .fd = &fd };
    return writer_open(writer, header, &target, options, err);
}

coffer_status coffer_writer_open_memory(coffer_writer **writer, coffer_header *header, void *memory, size_t size,
                                        const coffer_writer_options *options, coffer_error *err)
{
    const writer_target target = { .memory = memory, .memory_size = size };
    return memory == NULL ? writer_no_target(writer, err) : writer_open(writer, header, &target, options, err);
}

/* The caller was promised that exactly one of the sink's functions finish and discard is called.
   If opening fails before the writer has taken the sink, no writer exists to do that, so it is
   done here. Afterwards coffer_writer_free does it. */
coffer_status coffer_writer_open_sink(coffer_writer **writer, coffer_header *header, const coffer_sink *sink,
                                      const coffer_writer_options *options, coffer_error *err)
{
    bool taken = false;
    const writer_target target = { .custom = sink, .taken = &taken };
    if (sink == NULL) {
        return writer_no_target(writer, err);
    }
    const coffer_status status =
        sink->write_at == NULL ? writer_no_target(writer, err) : writer_open(writer, header, &target, options, err);
    if (status != COFFER_OK && !taken && sink->discard != NULL) {
        sink->discard(sink->ctx);
    }
    return status;
}

/* ---- write ------------------------------------------------------------------------------------------------------- */

/* Says which bytes of which tensor were refused, and why (`what`). Always returns
   COFFER_ERR_WRITE_RANGE. */
static coffer_status writer_range_error(const coffer_tensor *tensor, const char *what, uint64_t offset, uint64_t size,
                                        coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_WRITE_RANGE, "%u bytes from byte %u of tensor %q %s", size, offset, tensor->name,
                 (size_t)tensor->name_len, what);
    return coffer__fail_tensor(err, COFFER_ERR_WRITE_RANGE, tensor->name, tensor->name_len);
}

/* Fails when the writer takes nothing more. With the mutex held: the answer holds until the mutex
   is released. A write that was admitted before another one failed still completes, but nothing is
   published. */
coffer_status coffer__writer_usable(const coffer_writer *writer, coffer_error *err)
{
    return writer->finished || writer->failed
               ? coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer has %s and can only be freed",
                              writer->failed ? "failed before" : "finished")
               : COFFER_OK;
}

coffer_status coffer__writer_no_tensor(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "no tensor of that number was declared");
}

/* Enters bytes of a tensor in the account, as a range of the file; ranges that overlap are
   refused. With the mutex held, so of two threads that write the same byte one is refused before
   it has written anything. An empty range is not entered: the account has no empty ranges, and an
   empty tensor needs no write. The bounds are compared without adding, since offset and size are
   the caller's and their sum may exceed 64 bits. */
coffer_status coffer__writer_enter(coffer_writer *writer, const coffer_tensor *tensor, uint64_t offset, uint64_t size,
                                   coffer_error *err)
{
    if (offset > tensor->size || size > tensor->size - offset) {
        writer_range_error(tensor, "do not lie inside it", offset, size, err);
        return coffer__fail_sizes(err, COFFER_ERR_WRITE_RANGE, tensor->size,
                                  offset > UINT64_MAX - size ? UINT64_MAX : offset + size);
    }
    if (size == 0) {
        return COFFER_OK;
    }
    /* The header was validated when it was built, so the end of a tensor cannot overflow. */
    const uint64_t at = tensor->offset + offset;
    const coffer_status status = coffer__spans_add(&writer->spans, at, at + size);
    if (status == COFFER_ERR_WRITE_RANGE) {
        return writer_range_error(tensor, "were written already, or some of them", offset, size, err);
    }
    if (status != COFFER_OK) {
        return coffer__fail(err, status, "no memory to track what was written");
    }
    return COFFER_OK;
}

/* Checks a piece before it is written, and enters it. With the mutex held. A piece larger than the
   address space can only be a mistake, but only the 64-bit size says so, and the hasher and the
   sink take a size_t. */
static coffer_status writer_admit(coffer_writer *writer, const coffer_tensor *tensor, uint64_t offset,
                                  const void *bytes, uint64_t size, coffer_error *err)
{
    coffer_status status = coffer__writer_usable(writer, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (tensor == NULL) {
        return coffer__writer_no_tensor(err);
    }
    if (bytes == NULL && size > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the bytes to write are NULL");
    }
    status = coffer__writer_enter(writer, tensor, offset, size, err);
    if (status == COFFER_OK && size > SIZE_MAX) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "this program cannot hold %z in memory: write pieces", size);
    }
    return status;
}

/* Reserves the space for all tensors before the first bytes of one are written, for a sink that
   has waited for that. With the mutex held, so it happens once. `sparse` is cleared first: the
   sink must not make more holes in space that is being reserved, and other threads may be copying
   to it. */
coffer_status coffer__writer_set_aside(coffer_writer *writer, coffer_error *err)
{
    if (!writer->sink.sparse) {
        return COFFER_OK;
    }
    writer->sink.sparse = false;
    return writer->sink.ops->reserve(
        &writer->sink, coffer_table_data_offset(writer->table) + coffer_table_data_size(writer->table), err);
}

/* Counts a write that was admitted. One that was refused makes the writer fail, since the caller
   cannot know which bytes are missing. With the mutex held, in the same critical section as the
   admission: otherwise finishing could come between the two and publish a file that is still being
   written. */
void coffer__writer_began(coffer_writer *writer, coffer_status admitted)
{
    writer->failed = writer->failed || admitted != COFFER_OK;
    writer->writing += admitted == COFFER_OK;
}

/* Ends a write. Its failure is the writer's, also if other threads are still writing. Takes the
   mutex. The caller must not touch the sink afterwards, because another thread may finish the
   writer as soon as `writing` is 0. */
void coffer__writer_ended(coffer_writer *writer, coffer_status status)
{
    coffer__os_mutex_lock(&writer->mutex);
    writer->failed = writer->failed || status != COFFER_OK;
    writer->writing--;
    coffer__os_mutex_unlock(&writer->mutex);
}

/* Hashes a piece that was claimed, without the mutex: the claim makes the hasher this thread's
   own. If the update fails the claim is not released. That does no harm, as the writer has failed
   then and the hasher is freed with it. */
static coffer_status writer_hash(coffer_writer *writer, size_t i, coffer_hasher *hasher, const void *bytes,
                                 uint64_t size, coffer_error *err)
{
    coffer_status status = coffer_hasher_update(hasher, bytes, (size_t)size, err);
    coffer__os_mutex_lock(&writer->mutex);
    if (status == COFFER_OK) {
        status = coffer__writer_digests_release(&writer->digests, i, size, err);
    }
    coffer__os_mutex_unlock(&writer->mutex);
    return status;
}

/* Everything that depends on other threads happens under the mutex at once: whether the writer is
   usable, the account, reserving, and the claim of the hasher. Hashing and writing run without it,
   so pieces of any number of threads go to the device at the same time. An empty piece is
   admitted, so that its place is checked, but claims no hasher and reserves nothing. */
coffer_status coffer_writer_write(coffer_writer *writer, size_t i, uint64_t offset, const void *bytes, uint64_t size,
                                  coffer_error *err)
{
    if (writer == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer is NULL");
    }
    const coffer_tensor *tensor = coffer_header_at(writer->header, i);
    coffer_hasher *hasher = NULL;
    coffer__os_mutex_lock(&writer->mutex);
    coffer_status status = writer_admit(writer, tensor, offset, bytes, size, err);
    if (status == COFFER_OK && size > 0) {
        status = coffer__writer_set_aside(writer, err);
    }
    if (status == COFFER_OK && size > 0 && writer->digests.algorithm != COFFER_NO_ALGORITHM) {
        /* Only after the piece was entered: of overlapping pieces one alone gets here. */
        status = coffer__writer_digests_claim(&writer->digests, &writer->sink, i, offset, &hasher, err);
    }
    /* Still in the critical section of the checks, so finishing cannot come between. */
    coffer__writer_began(writer, status);
    coffer__os_mutex_unlock(&writer->mutex);
    if (status != COFFER_OK) {
        return coffer__writer_fail(writer, status, err);
    }
    /* Without the mutex from here on; the bytes are entered as this call's own. */
    if (hasher != NULL) {
        status = writer_hash(writer, i, hasher, bytes, size, err);
    }
    if (status == COFFER_OK) {
        status = writer_put(writer, tensor->offset + offset, bytes, size, err);
    }
    coffer__writer_ended(writer, status);
    if (status != COFFER_OK) {
        coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
        return coffer__writer_fail(writer, status, err);
    }
    return COFFER_OK;
}

/* ---- copy -------------------------------------------------------------------------------------------------------- */

/* Copies of tensors that are planned together. `order` sorts them by place in the new file, those
   that go through memory last; copies that are neighbours in both files become one move, so a
   whole shard can be one call of the system. The first `steady` of `order` are the copies that
   `moves` consists of; the rest are copied in batches. */
typedef struct writer_copies {
    const coffer_writer *writer;
    const coffer_copy *all;
    size_t count;
    /* Both arrays have `count` entries and are allocated once for a call. */
    uint32_t *order;            /* by place in the new file */
    coffer__transfer_op *moves; /* `count` of them, or fewer */
    size_t move_count;
    size_t steady; /* copies in `order` before those that go through memory */
} writer_copies;

static const coffer_tensor *writer_copy_target(const writer_copies *copies, uint32_t i)
{
    return coffer_header_at(copies->writer->header, copies->all[i].to);
}

/* Whether a tensor has to go through memory. An unstable source may answer differently the second
   time, so the bytes that were verified must be the ones that are written. Of a model that was
   opened without verifying, no tensor is unstable, whatever its source is. */
static bool writer_copy_is_unstable(const writer_copies *copies, uint32_t i)
{
    const coffer_copy *copy = &copies->all[i];
    return coffer__lazy_verify_is_unstable(coffer__model_shard(copy->model, copy->tensor));
}

/* By place in the new file, those that go through memory last. Empty tensors may share a place;
   the sort then keeps the order in which they were given. */
static bool writer_copy_before(const void *ctx, uint32_t a, uint32_t b)
{
    const bool unstable = writer_copy_is_unstable(ctx, a);
    return unstable == writer_copy_is_unstable(ctx, b)
               ? writer_copy_target(ctx, a)->offset < writer_copy_target(ctx, b)->offset
               : !unstable;
}

/* Checks what can be checked of one copy before anything is entered in the account: both tensors
   exist, the source file is long enough for the one to copy, and the sizes are equal. dtype and
   shape are not compared, so the bytes of a tensor may be declared as something else of the same
   size. */
static coffer_status writer_check_copy(const coffer_copy *copy, const coffer_tensor *target, coffer_error *err)
{
    const coffer__shard *shard = copy->model == NULL ? NULL : coffer__model_shard(copy->model, copy->tensor);
    if (target == NULL) {
        return coffer__writer_no_tensor(err);
    }
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    if (copy->tensor->size == target->size) {
        return coffer__shard_check_whole(shard, copy->tensor, err);
    }
    coffer__fail(err, COFFER_ERR_WRITE_RANGE, "tensor %q was declared with %u bytes, and the one to copy has %u",
                 target->name, (size_t)target->name_len, target->size, copy->tensor->size);
    coffer__fail_sizes(err, COFFER_ERR_WRITE_RANGE, target->size, copy->tensor->size);
    return coffer__fail_tensor(err, COFFER_ERR_WRITE_RANGE, target->name, target->name_len);
}

/* Adds a move, or extends the last one if both the source and the place in the new file continue.
   There are never more moves than copies, so the array has space. The sums do not overflow, since
   both tensors lie inside files that were validated. */
static void writer_plan_move(writer_copies *copies, uint32_t i)
{
    const coffer_copy *copy = &copies->all[i];
    const coffer__transfer_op move = {
        .source = &coffer__model_shard(copy->model, copy->tensor)->source,
        .offset = copy->tensor->offset,
        .at = writer_copy_target(copies, i)->offset,
        .size = copy->tensor->size,
    };
    coffer__transfer_op *last = copies->move_count == 0 ? NULL : &copies->moves[copies->move_count - 1];
    if (last != NULL && last->source == move.source && last->offset + last->size == move.offset &&
        last->at + last->size == move.at) {
        last->size += move.size;
    } else {
        copies->moves[copies->move_count++] = move;
    }
}

/* Allocates the plan. The order counts in 32 bits, so more copies than that are refused; their
   array alone would need 96 GiB. After a failure writer_free_copies releases what there is. */
static coffer_status writer_new_copies(writer_copies *copies, coffer_error *err)
{
    const coffer_allocator *allocator = &copies->writer->allocator;
    if (copies->count > UINT32_MAX) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the copying of %u tensors",
                            (uint64_t)copies->count);
    }
    copies->order = coffer__alloc_array(allocator, copies->count, sizeof *copies->order, err);
    if (copies->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    copies->moves = coffer__alloc_array(allocator, copies->count, sizeof *copies->moves, err);
    return copies->moves == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
}

static void writer_free_copies(writer_copies *copies)
{
    const coffer_allocator *allocator = &copies->writer->allocator;
    coffer__free_array(allocator, copies->moves, copies->count, sizeof *copies->moves);
    coffer__free_array(allocator, copies->order, copies->count, sizeof *copies->order);
}

/* Checks every copy, orders them and makes moves of those that are steady. Needs no lock: it reads
   only the header and the models, which do not change. Nothing was entered or written when it
   fails. */
static coffer_status writer_plan_copies(writer_copies *copies, coffer_error *err)
{
    for (size_t i = 0; i < copies->count; i++) {
        const coffer_status status = writer_check_copy(&copies->all[i], writer_copy_target(copies, (uint32_t)i), err);
        if (status != COFFER_OK) {
            return status;
        }
        copies->order[i] = (uint32_t)i;
    }
    /* The comparison gets a copy of the struct, as the sort changes `order`. */
    const writer_copies given = *copies;
    coffer__sort(copies->order, copies->count, writer_copy_before, &given);
    while (copies->steady < copies->count && !writer_copy_is_unstable(copies, copies->order[copies->steady])) {
        writer_plan_move(copies, copies->order[copies->steady++]);
    }
    return COFFER_OK;
}

/* Whether one of the sources has holes. They stay holes in the new file if space is not reserved.
   The moves are in the order of the new file, so the moves from one source mostly follow each
   other. So the system is asked about each source about once, and the list of sources seen need
   not be kept. */
static bool writer_copies_holes(const writer_copies *copies)
{
    const coffer__byte_source *seen = NULL;
    for (size_t i = 0; i < copies->move_count; i++) {
        if (copies->moves[i].source != seen && coffer__source_has_holes(copies->moves[i].source)) {
            return true;
        }
        seen = copies->moves[i].source;
    }
    return false;
}

/* Enters every copy in the account. Space is reserved now unless the sources have holes to keep.
   With the mutex held. If one copy is refused, those before it stay in the account without being
   written. That does no harm: coffer__writer_began then marks the writer as failed, and it is never
   published. */
static coffer_status writer_admit_copies(coffer_writer *writer, const writer_copies *copies, coffer_error *err)
{
    coffer_status status = coffer__writer_usable(writer, err);
    if (status == COFFER_OK && writer->sink.sparse && !writer_copies_holes(copies)) {
        status = coffer__writer_set_aside(writer, err);
    }
    for (size_t i = 0; i < copies->count && status == COFFER_OK; i++) {
        const coffer_tensor *target = writer_copy_target(copies, copies->order[i]);
        status = coffer__writer_enter(writer, target, 0, target->size, err);
    }
    return status;
}

/* A move could not be read. A move may cover many tensors, so this names the one at the offset
   that the error states, or else the first one of the move, and its file. It searches all copies:
   a failure is rare, and an index of places would be kept for nothing else. */
static coffer_status writer_cannot_read(const writer_copies *copies, const coffer__transfer_op *move,
                                        coffer_status status, coffer_error *err)
{
    const uint64_t at = err == NULL || err->offset < move->offset || err->offset - move->offset >= move->size
                            ? move->offset
                            : err->offset;
    for (size_t i = 0; i < copies->count; i++) {
        const coffer_copy *copy = &copies->all[i];
        const coffer__shard *shard = coffer__model_shard(copy->model, copy->tensor);
        if (&shard->source == move->source && copy->tensor->offset <= at &&
            at - copy->tensor->offset < copy->tensor->size) {
            return coffer__model_fail(err, status, shard, copy->tensor);
        }
    }
    return status;
}

/* With digests, half of the work is hashing and half is copying. The progress of each is reported
   as half of the whole, so the caller sees one count that rises from 0 to the total once. */
typedef struct writer_half {
    const coffer_read_options *options;
    bool second;
} writer_half;

/* `total` is the same for both halves; the two parts of it add up, also if it is odd. */
static int writer_tell_half(void *ctx, uint64_t done, uint64_t total)
{
    const writer_half *half = ctx;
    const uint64_t so_far = half->second ? total - total / 2 + done / 2 : done / 2;
    return half->options->progress(half->options->progress_ctx, so_far, total);
}

/*
 * Computes the digests of what is to be moved, from its source, because the system copies the bytes
 * without showing them to this program. Reading back from the sink would do as well, but not every
 * sink can be read back.
 *
 * The digests serve twice. If the source records digests by the same algorithm, each tensor is
 * compared with its record, which makes it verified; then they become the digests of the new file.
 * So the tensors are read once less.
 *
 * No lock is held while hashing. The writer's digests are set under the mutex, and only after
 * everything has succeeded: a digest that was set is never computed again.
 */
static coffer_status writer_hash_copies(coffer_writer *writer, const writer_copies *copies,
                                        const coffer__transfer_options *options, coffer_error *err)
{
    /* One digest and one row for each steady copy, in the order of the copies. */
    uint8_t(*data)[COFFER_LARGEST_DIGEST_SIZE] =
        coffer__alloc_array(&writer->allocator, copies->steady, sizeof *data, err);
    coffer__transfer_op *rows = coffer__alloc_array(&writer->allocator, copies->steady, sizeof *rows, err);
    size_t failed = copies->steady;
    coffer__transfer_options hashing = *options;
    /* A failure is about a row of the hashing, not about a move. */
    hashing.failed = &failed;
    coffer_status status = data == NULL || rows == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
    for (size_t i = 0; i < copies->steady && status == COFFER_OK; i++) {
        const coffer_copy *copy = &copies->all[copies->order[i]];
        rows[i] = coffer__shard_digest_row(coffer__model_shard(copy->model, copy->tensor), copy->tensor,
                                           writer->digests.algorithm, data[i]);
    }
    if (status == COFFER_OK) {
        status = coffer__transfer(rows, copies->steady, &hashing, err);
    }
    /* The transfer knows rows only; the tensor and its file are named here. */
    if (status != COFFER_OK && failed < copies->steady) {
        const coffer_copy *copy = &copies->all[copies->order[failed]];
        coffer__model_fail(err, status, coffer__model_shard(copy->model, copy->tensor), copy->tensor);
    }
    for (size_t i = 0; i < copies->steady && status == COFFER_OK; i++) {
        const coffer_copy *copy = &copies->all[copies->order[i]];
        const coffer__shard *shard = coffer__model_shard(copy->model, copy->tensor);
        /* With another algorithm the tensor stays due, and writer_copy_steady verifies it by its own. */
        if (shard->recorded.algorithm == writer->digests.algorithm && coffer__lazy_verify_is_due(shard, copy->tensor)) {
            status = coffer__lazy_verify_judge(copy->model, copy->tensor, data[i], err);
        }
    }
    coffer__os_mutex_lock(&writer->mutex);
    for (size_t i = 0; i < copies->steady && status == COFFER_OK; i++) {
        coffer__writer_digests_set(&writer->digests, copies->all[copies->order[i]].to, data[i]);
    }
    coffer__os_mutex_unlock(&writer->mutex);
    coffer__free_array(&writer->allocator, rows, copies->steady, sizeof *rows);
    coffer__free_array(&writer->allocator, data, copies->steady, sizeof *data);
    return status;
}

/* Copies what is not unstable straight to the sink, without the mutex. Tensors of a model that was
   opened to verify are verified before the first byte is copied; those that writer_hash_copies has
   judged are not due any more. A steady source is taken to give the same bytes when it is read
   for the copy. */
static coffer_status writer_copy_steady(coffer_writer *writer, const writer_copies *copies,
                                        const coffer_read_options *options, coffer_error *err)
{
    size_t failed = copies->move_count;
    coffer__transfer_options moving = coffer__model_transfer(&writer->allocator, options, &failed);
    writer_half half = { .options = options };
    coffer_status status = COFFER_OK;
    if (writer->digests.algorithm != COFFER_NO_ALGORITHM) {
        /* Each tensor is read twice, once to hash it and once to copy it. */
        moving.progress = options->progress == NULL ? NULL : writer_tell_half;
        moving.progress_ctx = &half;
        status = writer_hash_copies(writer, copies, &moving, err);
        /* What is told from here on is the copying. */
        half.second = true;
    }
    for (size_t i = 0; i < copies->steady && status == COFFER_OK; i++) {
        const coffer_copy *copy = &copies->all[copies->order[i]];
        status = coffer__lazy_verify_tensor(copy->model, copy->tensor, options, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* All bytes that are moved were verified, where that was asked for. */
    status = coffer__land_in_sink(&writer->sink, copies->moves, copies->move_count, &moving, err);
    /* `failed` is set only if reading failed. A failure of writing is about the new file. */
    if (failed < copies->move_count) {
        return writer_cannot_read(copies, &copies->moves[failed], status, err);
    }
    return status == COFFER_OK ? status : coffer__writer_fail(writer, status, err);
}

/* ---- copies through memory --------------------------------------------------------------------------------------- */

/* Tensors of one model that are read, verified and written together: one large one, or several
   small ones side by side in memory. */
typedef struct writer_batch {
    const writer_copies *copies;
    /* `size` is the sum of the tensors in bytes; `bytes` has one byte more, and the arrays have one entry
       for each tensor. */
    size_t first; /* in the order of the copies */
    size_t count;
    size_t size;
    uint8_t *bytes;
    coffer_read_target *targets;
    coffer__transfer_op *rows;
    uint8_t (*data)[COFFER_LARGEST_DIGEST_SIZE];
} writer_batch;

static const coffer_copy *writer_batch_copy(const writer_batch *batch, size_t i)
{
    return &batch->copies->all[batch->copies->order[batch->first + i]];
}

/* Takes the next copies of the same model, as many as fit in WRITER_BATCH_SIZE. The first always
   fits, whatever its size, or a large tensor could never be copied. The caller has compared its
   size with SIZE_MAX; others are added only while the sum stays within WRITER_BATCH_SIZE. */
static void writer_fill_batch(writer_batch *batch)
{
    const coffer_copy *first = writer_batch_copy(batch, 0);
    batch->count = 1;
    batch->size = (size_t)first->tensor->size;
    /* A batch ends at another model, since coffer__lazy_verify_read reads from one. */
    while (batch->first + batch->count < batch->copies->count) {
        const coffer_copy *next = writer_batch_copy(batch, batch->count);
        if (next->model != first->model || batch->size > WRITER_BATCH_SIZE ||
            next->tensor->size > WRITER_BATCH_SIZE - batch->size) {
            break;
        }
        batch->size += (size_t)next->tensor->size;
        batch->count++;
    }
}

/* Allocates what a batch needs. A tensor that no block can hold leaves all pointers NULL and fails
   in the same way as one for which there is no memory. One byte more is allocated than is needed,
   because coffer__alloc gives NULL for none and tensors may be empty. After a failure
   writer_free_batch still releases what there is. */
static coffer_status writer_new_batch(writer_batch *batch, coffer_error *err)
{
    const coffer_allocator *allocator = &batch->copies->writer->allocator;
    const uint64_t size = writer_batch_copy(batch, 0)->tensor->size;
    if (size < SIZE_MAX) {
        writer_fill_batch(batch);
        batch->bytes = coffer__alloc(allocator, batch->size + 1);
        batch->targets = coffer__alloc_array(allocator, batch->count, sizeof *batch->targets, err);
        batch->rows = coffer__alloc_array(allocator, batch->count, sizeof *batch->rows, err);
        batch->data = coffer__alloc_array(allocator, batch->count, sizeof *batch->data, err);
    }
    return batch->bytes != NULL && batch->targets != NULL && batch->rows != NULL && batch->data != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY,
                              "no memory for the %u bytes of a tensor: remote tensors are verified in memory", size);
}

/* Releases what there is, by the count and size that writer_fill_batch has set. */
static void writer_free_batch(const writer_batch *batch)
{
    const coffer_allocator *allocator = &batch->copies->writer->allocator;
    coffer__free_array(allocator, batch->data, batch->count, sizeof *batch->data);
    coffer__free_array(allocator, batch->rows, batch->count, sizeof *batch->rows);
    coffer__free_array(allocator, batch->targets, batch->count, sizeof *batch->targets);
    coffer__free(allocator, batch->bytes, batch->size + 1);
}

/* Lays the tensors of the batch side by side. The rows hash the same memory that the targets fill,
   so they are used only after the targets were read. Digests go to data[i]. */
static void writer_plan_batch(const writer_batch *batch, coffer_algorithm algorithm)
{
    size_t at = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const coffer_tensor *tensor = writer_batch_copy(batch, i)->tensor;
        batch->targets[i] = (coffer_read_target){ tensor, batch->bytes + at, tensor->size };
        batch->rows[i] = (coffer__transfer_op){
            .map = batch->bytes + at, .size = tensor->size, .algorithm = algorithm, .digest = batch->data[i]
        };
        at += (size_t)tensor->size;
    }
}

/* Computes the digests that the writer records, from memory. The file that the tensors came from
   may record others, by another algorithm, so those of verifying cannot be taken. Hashing runs
   without the mutex, setting with it. It reports no progress, as reading the same bytes has
   reported it. */
static coffer_status writer_hash_batch(coffer_writer *writer, const writer_batch *batch, coffer_error *err)
{
    const coffer__transfer_options options = { .allocator = &writer->allocator };
    const coffer_status status = coffer__transfer(batch->rows, batch->count, &options, err);
    coffer__os_mutex_lock(&writer->mutex);
    for (size_t i = 0; i < batch->count && status == COFFER_OK; i++) {
        coffer__writer_digests_set(&writer->digests, writer_batch_copy(batch, i)->to, batch->data[i]);
    }
    coffer__os_mutex_unlock(&writer->mutex);
    return status;
}

/* Reads and verifies the batch, hashes it if the writer records digests, and writes it from the
   same memory, so what is written is what was verified. Errors of reading name the source, those
   of writing the new file. */
static coffer_status writer_copy_batch(coffer_writer *writer, const writer_batch *batch,
                                       const coffer_read_options *options, coffer_error *err)
{
    const coffer_algorithm algorithm = writer->digests.algorithm;
    writer_plan_batch(batch, algorithm);
    coffer_status status =
        coffer__lazy_verify_read(writer_batch_copy(batch, 0)->model, batch->targets, batch->count, options, err);
    if (status == COFFER_OK && algorithm != COFFER_NO_ALGORITHM) {
        status = writer_hash_batch(writer, batch, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < batch->count && status == COFFER_OK; i++) {
        const coffer_read_target *target = &batch->targets[i];
        /* Neighbours in memory need not be neighbours in the file. */
        const uint64_t to = coffer_header_at(writer->header, writer_batch_copy(batch, i)->to)->offset;
        status = writer_put(writer, to, target->buffer, target->buffer_size, err);
    }
    return status == COFFER_OK ? status : coffer__writer_fail(writer, status, err);
}

/* Carries out admitted copies: first the steady ones as moves, then the unstable ones batch by
   batch. One batch exists at a time, so memory does not grow with the number of copies. It ends
   the write that coffer__writer_began counted, whatever happens, or the writer could never be finished. */
static coffer_status writer_run_copies(coffer_writer *writer, const writer_copies *copies,
                                       const coffer_read_options *options, coffer_error *err)
{
    coffer__parts parts = { .before = 0 };
    coffer_read_options telling = *options;
    coffer__parts_begin(&parts, &telling.progress, &telling.progress_ctx);
    for (size_t i = 0; i < copies->count; i++) {
        parts.total += copies->all[i].tensor->size;
    }
    coffer_status status = COFFER_OK;
    if (copies->steady > 0 || copies->count == 0) {
        status = writer_copy_steady(writer, copies, &telling, err);
    }
    /* What was moved counts as done before the first batch. */
    for (size_t i = 0; i < copies->steady; i++) {
        parts.before += copies->all[copies->order[i]].tensor->size;
    }
    /* The unstable ones. After a failure the batch may be empty and `i` stay, but then the loop ends
       by the status. */
    for (size_t i = copies->steady; i < copies->count && status == COFFER_OK;) {
        writer_batch batch = { .copies = copies, .first = i };
        status = writer_new_batch(&batch, err);
        if (status == COFFER_OK) {
            status = writer_copy_batch(writer, &batch, &telling, err);
        }
        writer_free_batch(&batch);
        parts.before += batch.size;
        i += batch.count;
    }
    coffer__writer_ended(writer, status);
    return status;
}

/* Planning runs without the mutex, since it may sort many thousands of copies; admission and the
   count are one critical section. A failure of planning counts as a write that was not admitted:
   the writer is unusable afterwards, as after any failure. */
coffer_status coffer_writer_copy(coffer_writer *writer, const coffer_copy *copies, size_t count,
                                 const coffer_read_options *options, coffer_error *err)
{
    if (writer == NULL || (copies == NULL && count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer or the tensors to copy are NULL");
    }
    coffer_read_options known;
    writer_copies planned = { .writer = writer, .all = copies, .count = count };
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = writer_new_copies(&planned, err);
    }
    if (status == COFFER_OK) {
        status = writer_plan_copies(&planned, err);
    }
    coffer__os_mutex_lock(&writer->mutex);
    if (status == COFFER_OK) {
        status = writer_admit_copies(writer, &planned, err);
    }
    coffer__writer_began(writer, status);
    coffer__os_mutex_unlock(&writer->mutex);
    if (status != COFFER_OK) {
        (void)coffer__writer_fail(writer, status, err);
        goto done;
    }
    status = writer_run_copies(writer, &planned, &known, err);
done:
    writer_free_copies(&planned);
    return status;
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* Names the tensor that the first missing byte of the file, at `gap`, belongs to. The table lists
   tensors by offset, and one of them ends after the gap, so the loop ends. Called only after
   writer_ready found a gap before the end of the data, so there is a tensor that is not empty.
   With the mutex held, as it reads the account. */
static coffer_status writer_missing(const coffer_writer *writer, uint64_t gap, coffer_error *err)
{
    const coffer_tensor *tensor = coffer_table_at(writer->table, 0);
    for (size_t i = 1; tensor->offset + tensor->size <= gap; i++) {
        tensor = coffer_table_at(writer->table, i);
    }
    /* How much of that tensor there is, for the message. */
    const uint64_t covered = coffer__spans_covered(&writer->spans, tensor->offset, tensor->offset + tensor->size);
    coffer__fail_at(err, COFFER_ERR_MISSING_DATA, gap, "tensor %q has %u of its %u bytes; nothing was published",
                    tensor->name, (size_t)tensor->name_len, covered, tensor->size);
    coffer__fail_sizes(err, COFFER_ERR_MISSING_DATA, tensor->size, covered);
    return coffer__fail_tensor(err, COFFER_ERR_MISSING_DATA, tensor->name, tensor->name_len);
}

/* Checks that the file is complete. Tensors follow each other without gaps, so the account must be
   one range from the first byte of the data to the last; there is no list of tensors to keep. With
   the mutex held: afterwards the caller sets `finished` before it lets the mutex go, so the answer
   stays true. */
static coffer_status writer_ready(const coffer_writer *writer, coffer_error *err)
{
    const coffer_status status = coffer__writer_usable(writer, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (writer->writing > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer cannot finish while a write is in progress");
    }
    const uint64_t begin = coffer_table_data_offset(writer->table);
    /* The first byte that is missing; the end of the data if none is. */
    const uint64_t gap = coffer__spans_gap(&writer->spans, begin);
    return gap == begin + coffer_table_data_size(writer->table) ? COFFER_OK : writer_missing(writer, gap, err);
}

/* Writes the header, which waited for the digests. It was built with space for them, so it has the
   same size as before and the data stay where they are. Needs no lock: `finished` keeps all other
   calls away. The digests go into a copy, because the built bytes belong to the header, which the
   caller may still read. */
static coffer_status writer_put_digests(coffer_writer *writer, coffer_error *err)
{
    const void *built = NULL;
    uint64_t size = 0;
    /* The header is built already, so this hands it out and changes nothing. */
    coffer_status status = coffer_header_build(writer->header, NULL, &built, &size, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t *bytes = coffer__alloc(&writer->allocator, (size_t)size);
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a header of %z", size);
    }
    status =
        coffer__writer_digests_finish(&writer->digests, &writer->sink, writer->table, built, bytes, (size_t)size, err);
    if (status == COFFER_OK) {
        status = writer_put(writer, 0, bytes, size, err);
    }
    coffer__free(&writer->allocator, bytes, (size_t)size);
    return status;
}

bool coffer__writer_can_be_checked(const coffer_writer *writer)
{
    return writer->sink.ops->lend != NULL;
}

coffer_status coffer__writer_open_written(const coffer_writer *writer, coffer **written, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    const uint64_t begin = coffer_table_data_offset(writer->table);
    options.allocator = &writer->allocator;
    options.access = COFFER_READ;
    options.max_header_size = begin;
    return coffer_open_fd(written, writer->sink.ops->lend(&writer->sink), 0,
                          begin + coffer_table_data_size(writer->table), &options, err);
}

/* `finished` is set under the mutex before anything is published, so a write that comes late is
   refused and cannot change a file that is becoming visible. Everything after that runs without
   the mutex, since making a file durable may take long. */
coffer_status coffer__writer_complete(coffer_writer *writer, coffer_error *err)
{
    coffer__os_mutex_lock(&writer->mutex);
    coffer_status status = writer_ready(writer, err);
    /* Either the writer is finished now, or it has failed for good. */
    writer->finished = writer->finished || status == COFFER_OK;
    writer->failed = writer->failed || status != COFFER_OK;
    coffer__os_mutex_unlock(&writer->mutex);
    if (status == COFFER_OK && writer->digests.algorithm != COFFER_NO_ALGORITHM) {
        status = writer_put_digests(writer, err);
    }
    return status == COFFER_OK ? status : coffer__writer_fail(writer, status, err);
}

coffer_status coffer__writer_publish(coffer_writer *writer, coffer_error *err)
{
    /* publish releases the sink even if it fails, so it must not be discarded afterwards. */
    writer->sink_open = false;
    const coffer_status status = writer->sink.ops->publish(&writer->sink, err);
    return status == COFFER_OK ? status : coffer__writer_fail(writer, status, err);
}
