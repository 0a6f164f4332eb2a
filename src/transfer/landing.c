/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are gone over once. What comes next is a piece of a long run, which the system copies; a batch, which is runs, or parts of
 * them, that fill the memory of the landing; or a box that is larger than that memory, part by part. Where the system could not copy
 * once, nothing is asked of it again.
 */
#include "landing.h"

#include "alloc.h"
#include "error.h"
#include "piece.h"
#include "trouble.h"

#include <errno.h>

/* Below it a read into memory costs less than a call that copies. */
#define LANDING_LONG_RUN ((uint64_t)64 << 10)
/* What the system copies between two calls of the progress callback. */
#define LANDING_PIECE ((uint64_t)8 << 20)
/* From files, which are read quickly, so much that it stays in the processor's cache … */
#define LANDING_MEMORY_OF_FILES ((uint64_t)1 << 20)
/* … and for turned boxes and from the caller's sources, which may be far away, enough for several threads. */
#define LANDING_MEMORY_OF_OTHERS ((uint64_t)16 << 20)
#define LANDING_BATCH_ROWS 4096
/* How parts of a turned box are cut: what is together in the result has to be worth a write. */
static const coffer__tile_limits landing_tiles = { (uint64_t)16 << 20, 8192 - 64, 8192, 4096 };

typedef struct landing_job {
    coffer__landing *landing;
    const coffer__row *rows;
    size_t count;
    const coffer__transfer_options *options;
    size_t next;   /* the row that is under way */
    uint64_t skip; /* what is done of it */
    uint64_t done; /* of all rows, in bytes */
    uint64_t total;
    bool by_hand;  /* the system does not copy */
    bool far;      /* one of the sources is far away */
    uint64_t most; /* bytes of memory that are used at once */
    size_t room;   /* the same, once it is known that they are needed */
    coffer__row *batch;
} landing_job;

static uint64_t landing_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void landing_on(landing_job *job, uint64_t size)
{
    job->skip += size;
    job->done += size;
    if (job->skip == job->rows[job->next].size) {
        job->skip = 0;
        job->next++;
    }
}

/* ---- by the system ----------------------------------------------------------------------------------------------- */

static bool landing_is_copied(const landing_job *job, const coffer__row *row)
{
    return !job->by_hand && row->box == NULL && row->map == NULL && row->size >= LANDING_LONG_RUN &&
           row->source->is.lends && job->landing->ops->copy != NULL;
}

static coffer_status landing_copy(landing_job *job, coffer_error *err)
{
    const coffer__row *row = &job->rows[job->next];
    const uint64_t piece = landing_min(row->size - job->skip, LANDING_PIECE);
    uint64_t base = 0;
    uint64_t done = 0;
    int fd = -1;
    const coffer_status status = row->source->ops->borrow(row->source, &fd, &base, err);
    if (status != COFFER_OK) {
        if (job->options->failed != NULL) {
            *job->options->failed = job->next;
        }
        return status;
    }
    const int os_error =
        job->landing->ops->copy(job->landing, row->at + job->skip, fd, base + row->offset + job->skip, piece, &done);
    row->source->ops->give_back(row->source);
    if (os_error != 0 && os_error != EOPNOTSUPP) {
        return coffer__trouble(err, "copy the file's data", NULL, os_error);
    }
    /* Some file systems end a copy early without a reason: reading tells whether the file really ends. */
    job->by_hand = done < piece;
    landing_on(job, done);
    return COFFER_OK;
}

/* ---- through memory ---------------------------------------------------------------------------------------------- */

coffer_status coffer__landing_memory(coffer__landing *landing, size_t size, uint8_t **memory, coffer_error *err)
{
    if (landing->memory_size < size) {
        coffer__landing_end(landing);
        landing->memory = coffer__alloc(landing->allocator, size);
        landing->memory_size = landing->memory == NULL ? 0 : size;
    }
    *memory = landing->memory;
    return *memory != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to copy the file's data");
}

void coffer__landing_end(coffer__landing *landing)
{
    coffer__free(landing->allocator, landing->memory, landing->memory_size);
    landing->memory = NULL;
    landing->memory_size = 0;
}

static coffer_status landing_place(landing_job *job, uint8_t **memory, coffer_error *err)
{
    if (job->batch == NULL) {
        job->batch = coffer__alloc(job->options->allocator, LANDING_BATCH_ROWS * sizeof *job->batch);
        job->room = (size_t)landing_min(job->total - job->done, job->most);
        if (job->batch == NULL) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to copy the file's data");
        }
    }
    return job->landing->ops->place(job->landing, job->room, memory, err);
}

/* While a batch comes from far away the user is asked whether it is still wanted. */
static int landing_watch(void *ctx, uint64_t done, uint64_t size)
{
    const landing_job *job = ctx;
    return done == size ? 0 : job->options->progress(job->options->progress_ctx, job->done + done, job->total);
}

/* Brings what is planned in the batch. */
static coffer_status landing_bring(landing_job *job, size_t row_count, coffer_error *err)
{
    size_t failed = row_count;
    coffer__transfer_options reading = *job->options;
    reading.progress = job->far && job->options->progress != NULL ? landing_watch : NULL;
    reading.progress_ctx = job;
    reading.failed = &failed;
    const coffer_status status = coffer__transfer(job->batch, row_count, &reading, err);
    if (status != COFFER_OK && failed < row_count && job->options->failed != NULL) {
        *job->options->failed = job->next + failed;
    }
    return status;
}

/* Plans runs that follow each other on the landing, as many as there is room for; returns their bytes. A box comes whole. */
static uint64_t landing_plan_batch(const landing_job *job, uint8_t *memory, size_t *row_count)
{
    uint64_t size = 0;
    uint64_t skip = job->skip;
    *row_count = 0;
    for (size_t i = job->next; i < job->count && *row_count < LANDING_BATCH_ROWS; i++, skip = 0) {
        const coffer__row *row = &job->rows[i];
        const bool follows = i == job->next || row->at == row[-1].at + row[-1].size;
        const uint64_t room = job->room - size;
        if (!follows || room == 0 || (i > job->next && landing_is_copied(job, row)) ||
            (row->box != NULL && row->size > room)) {
            break;
        }
        const uint64_t take = landing_min(row->size - skip, room);
        coffer__row *planned = &job->batch[(*row_count)++];
        *planned = *row;
        planned->offset += skip;
        planned->size = take;
        planned->to = memory + (size_t)size;
        size += take;
    }
    return size;
}

static coffer_status landing_batch(landing_job *job, uint8_t *memory, coffer_error *err)
{
    size_t row_count = 0;
    const uint64_t size = landing_plan_batch(job, memory, &row_count);
    const uint64_t at = job->rows[job->next].at + job->skip;
    const coffer_status status = landing_bring(job, row_count, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < row_count; i++) {
        landing_on(job, job->batch[i].size);
    }
    return job->landing->ops->landed(job->landing, at, memory, (size_t)size, err);
}

/* ---- boxes that are larger than the memory ----------------------------------------------------------------------- */

/* How a box comes in parts, each of which there is room for. */
static void landing_cut(const landing_job *job, const coffer__row *row, coffer__tiling *tiling)
{
    const coffer__tile_limits *limits = job->options->tiles != NULL ? job->options->tiles : &landing_tiles;
    coffer__tile_limits fitting = *limits;
    fitting.memory = landing_min(fitting.memory, job->room);
    if (!job->landing->in_order && coffer__box_is_turned(row->box, limits->gap)) {
        coffer__tiling_plan(tiling, row->box, &fitting);
    } else {
        coffer__tiling_bands(tiling, row->box, job->room);
    }
}

/* Lands a part of a box, stretch by stretch: what follows each other in the part and in the whole box, too. */
static coffer_status landing_put(const landing_job *job, const coffer__row *row, const coffer__tile *tile,
                                 const uint8_t *bytes, coffer_error *err)
{
    const uint64_t stretch = coffer__tile_stretch(tile, row->box);
    for (uint64_t done = 0; done < tile->size; done += stretch) {
        const uint64_t at = row->at + coffer__tile_place(tile, done / tile->run_size);
        const coffer_status status =
            job->landing->ops->landed(job->landing, at, bytes + (size_t)done, (size_t)stretch, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* The next part of a box. What `skip` counts are the bytes of those before it, wherever they landed. */
static coffer_status landing_part(landing_job *job, uint8_t *memory, const coffer__tile *tile, coffer_error *err)
{
    const coffer__row *row = &job->rows[job->next];
    coffer__box box;
    coffer__tile_box(tile, &box);
    job->batch[0] = *row;
    job->batch[0].box = &box;
    job->batch[0].size = tile->size;
    job->batch[0].to = memory;
    const coffer_status status = landing_bring(job, 1, err);
    return status == COFFER_OK ? landing_put(job, row, tile, memory, err) : status;
}

static coffer_status landing_progress(const landing_job *job, coffer_error *err)
{
    const coffer__transfer_options *options = job->options;
    const bool cancelled =
        options->progress != NULL && options->progress(options->progress_ctx, job->done, job->total) != 0;
    return cancelled ? coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback") : COFFER_OK;
}

static coffer_status landing_box(landing_job *job, uint8_t *memory, coffer_error *err)
{
    coffer__tiling tiling;
    const coffer__row *row = &job->rows[job->next];
    landing_cut(job, row, &tiling);
    for (uint64_t k = 0; k < tiling.count; k++) {
        coffer__tile tile;
        coffer__tile_at(&tiling, k, &tile);
        coffer_status status = k == 0 ? COFFER_OK : job->landing->ops->place(job->landing, job->room, &memory, err);
        if (status == COFFER_OK) {
            status = landing_part(job, memory, &tile, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        landing_on(job, tile.size);
        if (k + 1 < tiling.count) {
            status = landing_progress(job, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* A part of a run of a box that is larger than the memory by itself. */
static coffer_status landing_run_part(landing_job *job, uint8_t *memory, coffer_error *err)
{
    const coffer__row *row = &job->rows[job->next];
    const uint64_t run_size = row->box->run_size;
    const uint64_t inside = job->skip % run_size;
    const uint64_t at = row->at + job->skip;
    const uint64_t size = landing_min(run_size - inside, job->room);
    job->batch[0] = *row;
    job->batch[0].box = NULL;
    job->batch[0].offset += coffer__box_run(row->box, job->skip / run_size) + inside;
    job->batch[0].size = size;
    job->batch[0].to = memory;
    const coffer_status status = landing_bring(job, 1, err);
    if (status != COFFER_OK) {
        return status;
    }
    landing_on(job, size);
    return job->landing->ops->landed(job->landing, at, memory, (size_t)size, err);
}

static coffer_status landing_by_hand(landing_job *job, coffer_error *err)
{
    uint8_t *memory = NULL;
    const coffer__row *row = &job->rows[job->next];
    const coffer_status status = landing_place(job, &memory, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (row->box == NULL || row->size <= job->room) {
        return landing_batch(job, memory, err);
    }
    return row->box->run_size > job->room ? landing_run_part(job, memory, err) : landing_box(job, memory, err);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status landing_run(landing_job *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    uint64_t told = 0;
    while (job->next < job->count && status == COFFER_OK) {
        const coffer__row *row = &job->rows[job->next];
        if (row->size == 0) {
            job->next++;
            continue;
        }
        status = landing_is_copied(job, row) ? landing_copy(job, err) : landing_by_hand(job, err);
        /* The last word is spoken at the end. */
        if (status == COFFER_OK && job->done > told && job->done < job->total) {
            told = job->done;
            status = landing_progress(job, err);
        }
    }
    return status == COFFER_OK ? landing_progress(job, err) : status;
}

coffer_status coffer__land(coffer__landing *landing, const coffer__row *rows, size_t count,
                           const coffer__transfer_options *options, coffer_error *err)
{
    landing_job job = { .landing = landing, .rows = rows, .count = count, .options = options };
    job.most = LANDING_MEMORY_OF_FILES;
    for (size_t i = 0; i < count; i++) {
        const bool file = rows[i].map != NULL || rows[i].source->is.lends;
        job.total += rows[i].size; /* places on one landing: their sum is no more than its size */
        job.far = job.far || coffer__row_is_far(&rows[i]);
        if (!file || rows[i].box != NULL) {
            job.most = LANDING_MEMORY_OF_OTHERS;
        }
    }
    job.most = landing->most > 0 ? landing_min(job.most, landing->most) : job.most;
    const coffer_status status = landing_run(&job, err);
    coffer__free(options->allocator, job.batch, LANDING_BATCH_ROWS * sizeof *job.batch);
    return status;
}
