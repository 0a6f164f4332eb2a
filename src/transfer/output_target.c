/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the ops, in order. The next step is one of these:
 *
 *   a chunk of a long run     which the system copies, from descriptor to descriptor
 *   a batch                   runs, or parts of them, that follow each other on the output target and together
 *                             fill its memory; one transfer reads them all, in parallel
 *   a box larger than that    part by part, each read by a transfer and landed in stretches
 *   memory
 *   a hole                    of a op with a checksum: zeros that nobody has to read or write
 *   long runs                 that the system cannot copy: a thread pool reads and lands them (long_copies.h)
 *
 * What came into memory is checked and changed there (change.h) before it lands.
 *
 * The steps themselves are sequential: reading is parallel within a step, writing only for long runs. When the
 * system could not copy once, the rest is read and written, without asking again: the answer depends on
 * the two file systems, and on whether tensors lie on whole blocks, which those of one file mostly have in common.
 */
#include "output_target.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "long_copies.h"
#include "pages.h"
#include "transfer_chunk.h"

#include <errno.h>

/* Below this size, reading into memory along with other runs costs less than a call that copies. */
#define OUTPUT_TARGET_LONG_RUN ((uint64_t)64 << 10)
/* What the system copies between two calls of the progress callback. */
#define OUTPUT_TARGET_CHUNK ((uint64_t)8 << 20)
/* For files, which are read quickly: little enough that the bytes are still in the processor's
   cache when they are written. */
#define OUTPUT_TARGET_MEMORY_OF_FILES ((uint64_t)1 << 20)
/* For boxes, and for sources that may be far: enough that several threads read at the same time. */
#define OUTPUT_TARGET_MEMORY_OF_OTHERS ((uint64_t)16 << 20)
/* Copy ops of one batch, at most: they take some hundred KiB, whatever the number of tensors. */
#define OUTPUT_TARGET_BATCH_OPS 4096
/* How a transposed box is cut into parts. A write costs several times as much as a read that the system has in memory,
   so what is contiguous in the result is made long, and lines of the source are a page. */
static const coffer__tile_limits output_target_tiles = { (uint64_t)16 << 20, 4096 - 64, (uint64_t)64 << 10, 4096 };

/* The cursor is (next, skip): op `next` is in progress, and `skip` bytes of it are done. For a box
   that lands in tiles, `skip` counts the bytes of the tiles that are done, wherever they landed.
   After each step `skip` is less than the op's size. */
typedef struct output_target_job {
    coffer__output_target *output_target;
    const coffer__transfer_op *ops;
    size_t count;
    const coffer__transfer_options *options;
    size_t next;
    uint64_t skip;
    uint64_t done; /* bytes of all ops that have landed */
    uint64_t total;
    bool by_hand;               /* the system could not copy */
    bool far;                   /* one of the sources is far */
    uint64_t most;              /* bytes of memory that may be used at once */
    size_t capacity;            /* bytes that are used; set together with `batch` */
    coffer__transfer_op *batch; /* output_target_batch_ops() of them; NULL until something has to be read */
    coffer__transfer_kept kept; /* by the transfers of the steps */
} output_target_job;

/* Copy ops that are brought together: those of a small save are few, and take little memory. */
static size_t output_target_batch_ops(const output_target_job *job)
{
    return job->count < OUTPUT_TARGET_BATCH_OPS ? job->count : OUTPUT_TARGET_BATCH_OPS;
}

static uint64_t output_target_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Moves the cursor on by `size` bytes, which do not reach beyond the current op. */
static void output_target_on(output_target_job *job, uint64_t size)
{
    job->skip += size;
    job->done += size;
    if (job->skip == job->ops[job->next].size) {
        job->skip = 0;
        job->next++;
    }
}

/* ---- by the system ----------------------------------------------------------------------------------------------- */

/* Whether the op is a long run of a file, between which and the output target the system can copy. A op with a map is
   written from the map instead. */
static bool output_target_could_copy(const output_target_job *job, const coffer__transfer_op *op)
{
    return !job->by_hand && op->box == NULL && op->map == NULL && op->size >= OUTPUT_TARGET_LONG_RUN &&
           op->source->is.lends && job->output_target->ops->copy != NULL;
}

/* Whether the system may copy the op: nobody has to see its bytes. */
static bool output_target_is_copied(const output_target_job *job, const coffer__transfer_op *op)
{
    return output_target_could_copy(job, op) && op->checksum == NULL && coffer__change_unit(&op->change) == 1;
}

/*
 * Lets the system copy the next chunk of a long run, at most `most` bytes. The descriptor is borrowed for this chunk
 * only, since a pool may need it for other files. A failure to borrow is one of reading and sets
 * `failed`. A failure to copy may be the fault of either side; what is known is that it was no
 * EOPNOTSUPP.
 *
 * A short copy is not an error: some file systems end a copy early without a reason. The rest is
 * then read, and reading tells whether the file really ends there.
 */
static coffer_status output_target_copy(output_target_job *job, uint64_t most, coffer_error *err)
{
    const coffer__transfer_op *op = &job->ops[job->next];
    const uint64_t chunk = output_target_min(output_target_min(op->size - job->skip, OUTPUT_TARGET_CHUNK), most);
    uint64_t base = 0;
    uint64_t done = 0;
    int fd = -1;
    const coffer_status status = op->source->ops->borrow(op->source, &fd, &base, err);
    if (status != COFFER_OK) {
        if (job->options->failed != NULL) {
            *job->options->failed = job->next;
        }
        return status;
    }
    const int os_error = job->output_target->ops->copy(job->output_target, op->at + job->skip, fd,
                                                       base + op->offset + job->skip, chunk, &done);
    op->source->ops->give_back(op->source);
    if (os_error != 0 && os_error != EOPNOTSUPP) {
        return coffer__errno_status(err, "copy the file's data", NULL, os_error);
    }
    job->by_hand = done < chunk;
    output_target_on(job, done);
    return COFFER_OK;
}

/*
 * Whether a op with a checksum continues with a hole that is worth a step, and how long it is. Holes stay holes only on
 * a sink that is sparse; elsewhere zeros are written, and reading them costs nothing more.
 */
static coffer_status output_target_find_hole(const output_target_job *job, uint64_t *size, coffer_error *err)
{
    const coffer__transfer_op *op = &job->ops[job->next];
    uint64_t base = 0;
    int fd = -1;
    *size = 0;
    if (op->checksum == NULL || coffer__change_unit(&op->change) > 1 || job->output_target->sink == NULL ||
        !job->output_target->sink->sparse || !output_target_could_copy(job, op)) {
        return COFFER_OK;
    }
    const coffer_status status = op->source->ops->borrow(op->source, &fd, &base, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t at = base + op->offset + job->skip;
    const uint64_t hole = output_target_min(coffer__os_next_data(fd, at) - at, op->size - job->skip);
    op->source->ops->give_back(op->source);
    *size = hole >= OUTPUT_TARGET_CHUNK ? hole : 0;
    return COFFER_OK;
}

/* Leaves a hole out, by the system's copy, which finds it again. The checksum learns of as many zeros. */
static coffer_status output_target_hole(output_target_job *job, uint64_t size, coffer_error *err)
{
    const coffer__transfer_op *op = &job->ops[job->next];
    const uint64_t before = job->done;
    const uint64_t end = job->done + size;
    coffer_status status = COFFER_OK;
    while (job->done < end && !job->by_hand && status == COFFER_OK) {
        status = output_target_copy(job, end - job->done, err);
    }
    op->checksum->value = coffer__crc32_zeros(op->checksum->crc32, op->checksum->value, job->done - before);
    return status;
}

/* ---- through memory ---------------------------------------------------------------------------------------------- */

/* The old memory is freed before the larger one is allocated, since its contents have landed: the
   two never exist at the same time. */
coffer_status coffer__output_target_memory(coffer__output_target *output_target, size_t size, uint8_t **memory,
                                           coffer_error *err)
{
    if (output_target->memory_size < size) {
        coffer__output_target_free(output_target);
        output_target->memory = coffer__alloc_pages(output_target->allocator, size);
        output_target->memory_size = output_target->memory == NULL ? 0 : size;
    }
    *memory = output_target->memory;
    return *memory != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to copy the file's data");
}

void coffer__output_target_free(coffer__output_target *output_target)
{
    coffer__free_pages(output_target->allocator, output_target->memory, output_target->memory_size);
    output_target->memory = NULL;
    output_target->memory_size = 0;
}

/* Gets memory for the next step. The ops of a batch are allocated the first time, so that a save
   that the system copies in full allocates nothing. `capacity` is fixed then: no more than what is left
   to do. */
static coffer_status output_target_place(output_target_job *job, uint8_t **memory, coffer_error *err)
{
    if (job->batch == NULL) {
        job->batch =
            coffer__alloc_array(job->options->allocator, output_target_batch_ops(job), sizeof *job->batch, err);
        job->capacity = (size_t)output_target_min(job->total - job->done, job->most);
        if (job->batch == NULL) {
            return COFFER_ERR_MEMORY;
        }
    }
    return job->output_target->ops->place(job->output_target, job->capacity, memory, err);
}

/* The progress callback of the transfers within a step: tells the user's callback how much has
   landed plus what this transfer has read. The end of a transfer is not told, because output_target_run
   tells it after the bytes have landed; otherwise the user would see the same number twice. */
static int output_target_watch(void *ctx, uint64_t done, uint64_t size)
{
    const output_target_job *job = ctx;
    return done == size ? 0 : job->options->progress(job->options->progress_ctx, job->done + done, job->total);
}

/* Reads the ops in `batch` into their places in memory. Near sources are quick, so the user is
   asked between steps only; while a batch of a far source is read, the user is asked during it,
   too. The number of a failed op is one of the batch, which begins with op `next`. */
static coffer_status output_target_bring(output_target_job *job, size_t op_count, coffer_error *err)
{
    size_t failed = op_count;
    coffer__transfer_options reading = *job->options;
    reading.progress = job->far && job->options->progress != NULL ? output_target_watch : NULL;
    reading.progress_ctx = job;
    reading.failed = &failed;
    reading.kept = &job->kept;
    const coffer_status status = coffer__transfer(job->batch, op_count, &reading, err);
    if (status != COFFER_OK && failed < op_count && job->options->failed != NULL) {
        *job->options->failed = job->next + failed;
    }
    return status;
}

/* How much of a op is taken into memory when there is space for `capacity` bytes: all, or a number of whole units. */
static uint64_t output_target_take(const coffer__transfer_op *op, uint64_t left, uint64_t capacity)
{
    const uint64_t unit = coffer__change_unit(&op->change);
    return left <= capacity ? left : capacity - capacity % unit;
}

/* The stage after reading: checks and changes `size` bytes of a op that came into memory. */
static void output_target_refine(const coffer__transfer_op *op, uint8_t *bytes, uint64_t size)
{
    if (op->checksum != NULL) {
        coffer__checksum *checksum = op->checksum;
        checksum->value = coffer__crc32_update(checksum->crc32, checksum->value, bytes, (size_t)size);
    }
    if (coffer__change_unit(&op->change) > 1) {
        coffer__change_bytes(&op->change, bytes, (size_t)size);
    }
}

/* Plans a batch that begins at the cursor, and returns its bytes. A op is added while it follows
   the one before on the output target and there is space. It ends before a op that the system can copy,
   and before a box that does not fit: boxes are planned whole. A contiguous op may be cut; then
   its first part ends the batch, and the next batch begins with the rest. The batch has at least
   one byte, since output_target_by_hand sends boxes that never fit elsewhere. */
static uint64_t output_target_plan_batch(const output_target_job *job, uint8_t *memory, size_t *op_count)
{
    uint64_t size = 0;
    uint64_t skip = job->skip;
    *op_count = 0;
    for (size_t i = job->next; i < job->count && *op_count < output_target_batch_ops(job); i++, skip = 0) {
        const coffer__transfer_op *op = &job->ops[i];
        const bool follows = i == job->next || op->at == op[-1].at + op[-1].size;
        const uint64_t capacity = job->capacity - size;
        if (!follows || capacity == 0 || (i > job->next && output_target_is_copied(job, op)) ||
            (op->box != NULL && op->size > capacity)) {
            break;
        }
        const uint64_t take = output_target_take(op, op->size - skip, capacity);
        if (take == 0) {
            break;
        }
        coffer__transfer_op *planned = &job->batch[(*op_count)++];
        *planned = *op;
        planned->offset += skip;
        planned->size = take;
        planned->to = memory + (size_t)size;
        size += take;
    }
    return size;
}

/* Reads a batch and lands it with one call. `at` is computed first, because the cursor moves. */
static coffer_status output_target_batch(output_target_job *job, uint8_t *memory, coffer_error *err)
{
    size_t op_count = 0;
    const uint64_t size = output_target_plan_batch(job, memory, &op_count);
    const uint64_t at = job->ops[job->next].at + job->skip;
    const coffer_status status = output_target_bring(job, op_count, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < op_count; i++) {
        output_target_refine(&job->batch[i], job->batch[i].to, job->batch[i].size);
        output_target_on(job, job->batch[i].size);
    }
    return job->output_target->ops->landed(job->output_target, at, memory, (size_t)size, err);
}

/* ---- boxes that are larger than the memory ----------------------------------------------------------------------- */

/* Cuts a box into parts of at most `capacity` bytes. Tiles make both the reads and the writes long, but
   land here and there; where the output target takes its places in order, or the box is not transposed,
   the parts are bands that ascend. A run of the box fits in the space. */
static void output_target_cut(const output_target_job *job, const coffer__transfer_op *op, coffer__tiling *tiling)
{
    const coffer__tile_limits *limits = job->options->tiles != NULL ? job->options->tiles : &output_target_tiles;
    coffer__tile_limits fitting = *limits;
    fitting.memory = output_target_min(fitting.memory, job->capacity);
    if (!job->output_target->in_order && coffer__box_is_turned(op->box, limits->gap)) {
        coffer__tiling_plan(tiling, op->box, &fitting);
    } else {
        coffer__tiling_bands(tiling, op->box, job->capacity);
    }
}

/* Lands a part of a box. The part is dense in memory; in the whole box's result only stretches of
   it are contiguous, and each of them is one write. */
static coffer_status output_target_put(const output_target_job *job, const coffer__transfer_op *op,
                                       const coffer__tile *tile, const uint8_t *bytes, coffer_error *err)
{
    const uint64_t stretch = coffer__tile_stretch(tile, op->box);
    for (uint64_t done = 0; done < tile->size; done += stretch) {
        const uint64_t at = op->at + coffer__tile_place(tile, done / tile->run_size);
        const coffer_status status =
            job->output_target->ops->landed(job->output_target, at, bytes + (size_t)done, (size_t)stretch, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Reads and lands one part of a box. The part is a op of its own with a smaller box, so the
   transfer needs to know nothing of parts. The box lives on this stack frame until the transfer has
   returned. */
static coffer_status output_target_part(output_target_job *job, uint8_t *memory, const coffer__tile *tile,
                                        coffer_error *err)
{
    const coffer__transfer_op *op = &job->ops[job->next];
    coffer__box box;
    coffer__tile_box(tile, &box);
    job->batch[0] = *op;
    job->batch[0].box = &box;
    job->batch[0].size = tile->size;
    job->batch[0].to = memory;
    const coffer_status status = output_target_bring(job, 1, err);
    if (status != COFFER_OK) {
        return status;
    }
    output_target_refine(op, memory, tile->size);
    return output_target_put(job, op, tile, memory, err);
}

/* Tells the user how much has landed, and asks whether to continue. */
static coffer_status output_target_progress(const output_target_job *job, coffer_error *err)
{
    const coffer__transfer_options *options = job->options;
    const bool cancelled =
        options->progress != NULL && options->progress(options->progress_ctx, job->done, job->total) != 0;
    return cancelled ? coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback") : COFFER_OK;
}

/* Lands a box that is larger than the memory, part by part. `memory` is for the first part; each
   later part asks for it again, because an output target may still be busy with the part before. Progress
   is told between parts, and after the last one by output_target_run. */
static coffer_status output_target_box(output_target_job *job, uint8_t *memory, coffer_error *err)
{
    coffer__tiling tiling;
    const coffer__transfer_op *op = &job->ops[job->next];
    output_target_cut(job, op, &tiling);
    for (uint64_t k = 0; k < tiling.count; k++) {
        coffer__tile tile;
        coffer__tile_at(&tiling, k, &tile);
        coffer_status status =
            k == 0 ? COFFER_OK : job->output_target->ops->place(job->output_target, job->capacity, &memory, err);
        if (status == COFFER_OK) {
            status = output_target_part(job, memory, &tile, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        output_target_on(job, tile.size);
        if (k + 1 < tiling.count) {
            status = output_target_progress(job, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Lands a part of a single run of a box, when the run alone is larger than the memory. Runs are in
   the order of the result, so `skip` divides into the number of the run and the place inside it. */
static coffer_status output_target_run_part(output_target_job *job, uint8_t *memory, coffer_error *err)
{
    const coffer__transfer_op *op = &job->ops[job->next];
    const uint64_t run_size = op->box->run_size;
    const uint64_t inside = job->skip % run_size;
    const uint64_t at = op->at + job->skip;
    const uint64_t size = output_target_take(op, run_size - inside, job->capacity);
    job->batch[0] = *op;
    job->batch[0].box = NULL;
    job->batch[0].offset += coffer__box_run(op->box, job->skip / run_size) + inside;
    job->batch[0].size = size;
    job->batch[0].to = memory;
    const coffer_status status = output_target_bring(job, 1, err);
    if (status != COFFER_OK) {
        return status;
    }
    output_target_refine(op, memory, size);
    output_target_on(job, size);
    return job->output_target->ops->landed(job->output_target, at, memory, (size_t)size, err);
}

/* The step when the system does not copy. A box that fits joins a batch; the size of its runs
   decides how one that does not is divided. */
static coffer_status output_target_by_hand(output_target_job *job, coffer_error *err)
{
    uint8_t *memory = NULL;
    const coffer__transfer_op *op = &job->ops[job->next];
    const coffer_status status = output_target_place(job, &memory, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (op->box == NULL || op->size <= job->capacity) {
        return output_target_batch(job, memory, err);
    }
    return op->box->run_size > job->capacity ? output_target_run_part(job, memory, err)
                                             : output_target_box(job, memory, err);
}

/* ---- long runs --------------------------------------------------------------------------------------------------- */

/* Whether a op can go with other long runs: bytes of a near source, one after another. Where holes are kept, each has
   to be looked for. */
static bool output_target_is_long(const output_target_job *job, const coffer__transfer_op *op)
{
    const bool sparse = job->output_target->sink != NULL && job->output_target->sink->sparse;
    return job->output_target->shared && !sparse && op->box == NULL && op->map == NULL &&
           !coffer__transfer_op_is_far(op) && op->size >= COFFER__LONG_COPY && !output_target_is_copied(job, op);
}

/* The long runs from the cursor on, as far as they follow each other in the list; none if there is no use in starting
   threads for them. */
static coffer__long_copies output_target_long_ops(const output_target_job *job)
{
    coffer__long_copies which = { .ops = job->ops + job->next, .skip = job->skip };
    for (size_t i = job->next; i < job->count && output_target_is_long(job, &job->ops[i]); i++) {
        which.size += job->ops[i].size;
        which.count++;
    }
    which.size -= which.count > 0 ? which.skip : 0;
    return which;
}

static coffer_status output_target_take_long(void *ctx, uint64_t at, const uint8_t *bytes, size_t size,
                                             coffer_error *err)
{
    coffer__output_target *output_target = ctx;
    return output_target->ops->landed(output_target, at, bytes, size, err);
}

/* Carries them out. They are told of as part of the whole, whose end is told by output_target_run. */
static coffer_status output_target_together(output_target_job *job, coffer__long_copies *which, size_t workers,
                                            coffer_error *err)
{
    size_t failed = which->count;
    coffer_status status =
        job->output_target->ops->place(job->output_target, workers * COFFER__LONG_CHUNK, &which->memory, err);
    if (status != COFFER_OK) {
        return status;
    }
    which->land = output_target_take_long;
    which->ctx = job->output_target;
    coffer__transfer_options options = *job->options;
    options.progress = job->options->progress != NULL ? output_target_watch : NULL;
    options.progress_ctx = job;
    options.failed = &failed;
    status = coffer__long_copies_run(which, workers, &options, err);
    if (status != COFFER_OK) {
        if (failed < which->count && job->options->failed != NULL) {
            *job->options->failed = job->next + failed;
        }
        return status;
    }
    job->done += which->size;
    job->next += which->count;
    job->skip = 0;
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* One step from the cursor on, of a op with bytes. */
static coffer_status output_target_step(output_target_job *job, coffer_error *err)
{
    uint64_t hole = 0;
    if (output_target_is_copied(job, &job->ops[job->next])) {
        return output_target_copy(job, OUTPUT_TARGET_CHUNK, err);
    }
    const coffer_status status = output_target_find_hole(job, &hole, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (hole > 0) {
        return output_target_hole(job, hole, err);
    }
    coffer__long_copies together = output_target_long_ops(job);
    const size_t workers = coffer__long_copies_workers(&together, job->options->threads);
    return workers > 1 ? output_target_together(job, &together, workers, err) : output_target_by_hand(job, err);
}

/* The loop over steps. The user is told after each step that landed something, but not twice the
   same number, and that all is done exactly once, at the end. */
static coffer_status output_target_run(output_target_job *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    uint64_t reported = 0;
    while (job->next < job->count && status == COFFER_OK) {
        const coffer__transfer_op *op = &job->ops[job->next];
        if (op->size == 0) {
            job->next++;
            continue;
        }
        status = output_target_step(job, err);
        if (status == COFFER_OK && job->done > reported && job->done < job->total) {
            reported = job->done;
            status = output_target_progress(job, err);
        }
    }
    return status == COFFER_OK ? output_target_progress(job, err) : status;
}

/* Memory is chosen for all ops together: the small amount only if every op is contiguous bytes of
   a file or a map. The ops' sizes are not added with checks, as their places are disjoint on one
   output target, whose size is a number of 64 bits. */
coffer_status coffer__land(coffer__output_target *output_target, const coffer__transfer_op *ops, size_t count,
                           const coffer__transfer_options *options, coffer_error *err)
{
    output_target_job job = { .output_target = output_target, .ops = ops, .count = count, .options = options };
    job.most = OUTPUT_TARGET_MEMORY_OF_FILES;
    for (size_t i = 0; i < count; i++) {
        const bool file = ops[i].map != NULL || ops[i].source->is.lends;
        job.total += ops[i].size;
        job.far = job.far || coffer__transfer_op_is_far(&ops[i]);
        if (!file || ops[i].box != NULL) {
            job.most = OUTPUT_TARGET_MEMORY_OF_OTHERS;
        }
    }
    job.most = output_target->most > 0 ? output_target_min(job.most, output_target->most) : job.most;
    const coffer_status status = output_target_run(&job, err);
    coffer__transfer_free(&job.kept, options->allocator);
    coffer__free_array(options->allocator, job.batch, output_target_batch_ops(&job), sizeof *job.batch);
    return status;
}
