/* SPDX-License-Identifier: Apache-2.0 */
/* What takes time: see browse_work.h for the contract. */
#include "browse_work.h"

#include "cli_pieces.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>
#include <string.h>

#define CHANGED_EVERY 0.1 /* seconds between two calls of `changed` while a job goes on */
#define PART_MAX (UINT64_C(1) << 20)
#define LANE_STACK ((size_t)1 << 20)

/* One thread and its job. */
typedef struct work_lane {
    browse_work *work;
    void (*run)(browse_work *work);
    pthread_t thread;
    bool started;
    bool wanted;        /* there is a job that nobody has begun */
    bool busy;          /* one is in progress */
    atomic_bool cancel; /* it is to end */
    double reported;    /* when `changed` was called last */
} work_lane;

struct browse_work {
    const browse_data *data;
    void (*changed)(void);
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t more;
    bool ending;
    work_lane reading;
    work_lane looking;
    work_lane comparing;
    uint32_t item; /* that is to be read */
    browse_found now;
    browse_slice slice;
    browse_found cache[BROWSE_CACHE];
    size_t cached; /* how many were put there */
    uint32_t *items;
    size_t item_count;
    browse_progress progress;
    _Atomic unsigned char *same; /* of each item, a browse_same; NULL with one model */
};

/* ---- Lanes ---- */

static void *run_lane(void *ctx)
{
    work_lane *lane = ctx;
    browse_work *work = lane->work;
    pthread_mutex_lock(&work->lock);
    while (!work->ending) {
        if (!lane->wanted) {
            pthread_cond_wait(&work->more, &work->lock);
            continue;
        }
        lane->wanted = false;
        lane->busy = true;
        atomic_store(&lane->cancel, false);
        pthread_mutex_unlock(&work->lock);
        lane->run(work);
        work->changed();
        pthread_mutex_lock(&work->lock);
        lane->busy = false;
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

/* musl gives threads 128 KiB, which a block of numbers alone would half fill. */
static bool start_thread(work_lane *lane)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    const bool started = pthread_attr_setstacksize(&attributes, LANE_STACK) == 0 &&
                         pthread_create(&lane->thread, &attributes, run_lane, lane) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* With the lock held. Without a thread there is no result, which is all that can be done about it. */
static void start_job(work_lane *lane)
{
    lane->wanted = true;
    atomic_store(&lane->cancel, true);
    if (!lane->started) {
        lane->started = start_thread(lane);
    }
    pthread_cond_broadcast(&lane->work->more);
}

static void end_lane(work_lane *lane)
{
    atomic_store(&lane->cancel, true);
    if (lane->started) {
        pthread_join(lane->thread, NULL);
    }
}

/* On the lane's thread. */
static void tell_change(work_lane *lane)
{
    const double now = cli_seconds();
    if (now - lane->reported >= CHANGED_EVERY) {
        lane->reported = now;
        lane->work->changed();
    }
}

static int stop_when_cancelled(void *ctx, uint64_t done, uint64_t total)
{
    const work_lane *lane = ctx;
    (void)done, (void)total;
    return atomic_load(&lane->cancel);
}

static coffer_read_options options_of(work_lane *lane)
{
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = 1;
    options.progress = stop_when_cancelled;
    options.progress_ctx = lane;
    return options;
}

static coffer_status read_bytes(work_lane *lane, size_t side, const coffer_tensor *tensor, uint64_t offset, void *bytes,
                                uint64_t size, coffer_error *err)
{
    const coffer_read_options options = options_of(lane);
    return coffer_read_part(lane->work->data->models[side], tensor, offset, bytes, size, &options, err);
}

/* ---- Reading numbers ---- */

/* The tensor of an item, and which of the models has it. */
static const coffer_tensor *tensor_of(const browse_work *work, uint32_t item, size_t *side)
{
    const browse_item pair = browse_item_at(work->data, item);
    *side = pair.a == NULL;
    return pair.a != NULL ? pair.a : pair.b;
}

/* With the lock held. */
static void set_trouble(char trouble[256], const coffer_error *err)
{
    coffer_escape(err->message, strlen(err->message), trouble, 256);
}

/* Adds a piece to what is known: its numbers, or, when `ends` are given, where they lie between them. */
static void look_at_piece(browse_work *work, const coffer_tensor *tensor, const void *bytes, size_t count,
                          const coffer_statistics *ends)
{
    coffer_statistics numbers = { .count = 0 };
    stats_histogram histogram = { .low = ends != NULL ? ends->min : 0, .high = ends != NULL ? ends->max : 0 };
    if (ends == NULL) {
        (void)coffer_statistics_add(&numbers, tensor->dtype, bytes, count);
    } else {
        stats_count(&histogram, tensor->dtype, bytes, count);
    }
    pthread_mutex_lock(&work->lock);
    coffer_statistics_merge(&work->now.numbers, &numbers);
    work->now.histogram.low = histogram.low;
    work->now.histogram.high = histogram.high;
    stats_add_bins(&work->now.histogram, &histogram);
    work->now.done += cli_elements_size(tensor->dtype, count);
    pthread_mutex_unlock(&work->lock);
}

static coffer_status walk_tensor(browse_work *work, const coffer_tensor *tensor, size_t side,
                                 const coffer_statistics *ends, coffer_error *err)
{
    const uint64_t elements = coffer_tensor_elements(tensor);
    const uint64_t most =
        cli_elements_size(tensor->dtype, elements < CLI_PIECE_ELEMENTS ? elements : CLI_PIECE_ELEMENTS);
    coffer_status status = COFFER_OK;
    void *bytes = malloc((size_t)most + 1);
    if (bytes == NULL) {
        return cli_no_memory(err);
    }
    for (uint64_t at = 0; at < elements && status == COFFER_OK; at += CLI_PIECE_ELEMENTS) {
        const uint64_t left = elements - at;
        const size_t count = (size_t)(left < CLI_PIECE_ELEMENTS ? left : CLI_PIECE_ELEMENTS);
        status = read_bytes(&work->reading, side, tensor, cli_elements_size(tensor->dtype, at), bytes,
                            cli_elements_size(tensor->dtype, count), err);
        if (status == COFFER_OK) {
            look_at_piece(work, tensor, bytes, count, ends);
            tell_change(&work->reading);
        }
    }
    free(bytes);
    return status;
}

static void set_stage(browse_work *work, browse_stage stage)
{
    pthread_mutex_lock(&work->lock);
    work->now.stage = stage;
    work->now.done = 0;
    if (stage == BROWSE_STAGE_DONE) {
        work->cache[work->cached++ % BROWSE_CACHE] = work->now;
    }
    pthread_mutex_unlock(&work->lock);
}

static void run_reading(browse_work *work)
{
    coffer_error err;
    size_t side = 0;
    pthread_mutex_lock(&work->lock);
    const uint32_t item = work->item;
    memset(&work->now, 0, sizeof work->now);
    work->now.item = item;
    work->now.stage = item == BROWSE_NONE ? BROWSE_STAGE_NOTHING : BROWSE_STAGE_READING;
    pthread_mutex_unlock(&work->lock);
    if (item == BROWSE_NONE) {
        return;
    }
    const coffer_tensor *tensor = tensor_of(work, item, &side);
    coffer_status status = COFFER_OK;
    if (tensor->dtype != COFFER_UNKNOWN_DTYPE) {
        status = walk_tensor(work, tensor, side, NULL, &err);
    }
    if (status == COFFER_OK && work->now.numbers.finite > 0) {
        const coffer_statistics ends = work->now.numbers; /* nobody else writes them */
        set_stage(work, BROWSE_STAGE_COUNTING);
        status = walk_tensor(work, tensor, side, &ends, &err);
    }
    if (atomic_load(&work->reading.cancel)) {
        return;
    }
    if (status == COFFER_OK) {
        set_stage(work, BROWSE_STAGE_DONE);
        return;
    }
    pthread_mutex_lock(&work->lock);
    work->now.stage = BROWSE_STAGE_FAILED;
    set_trouble(work->now.trouble, &err);
    pthread_mutex_unlock(&work->lock);
}

static const browse_found *cached_of(const browse_work *work, uint32_t item)
{
    const size_t count = work->cached < BROWSE_CACHE ? work->cached : BROWSE_CACHE;
    for (size_t i = 0; i < count; i++) {
        if (work->cache[i].item == item) {
            return &work->cache[i];
        }
    }
    return NULL;
}

void browse_work_read(browse_work *work, uint32_t item)
{
    pthread_mutex_lock(&work->lock);
    const bool known = item != BROWSE_NONE && cached_of(work, item) != NULL;
    const bool current = work->item == item && (work->reading.wanted || work->reading.busy ||
                                                work->now.stage == BROWSE_STAGE_FAILED || item == BROWSE_NONE);
    if (!current) {
        work->item = known ? BROWSE_NONE : item;
        start_job(&work->reading);
    }
    pthread_mutex_unlock(&work->lock);
}

void browse_work_look(browse_work *work, uint32_t item, browse_found *found)
{
    pthread_mutex_lock(&work->lock);
    const browse_found *known = item == BROWSE_NONE ? NULL : cached_of(work, item);
    const bool current = work->now.item == item && work->now.stage != BROWSE_STAGE_NOTHING;
    if (known != NULL || current) {
        *found = known != NULL ? *known : work->now;
    } else {
        memset(found, 0, sizeof *found);
        found->item = item;
    }
    pthread_mutex_unlock(&work->lock);
}

/* ---- Reading a part ---- */

static coffer_index index_range(uint64_t start, uint64_t count)
{
    return (coffer_index){ .kind = COFFER_INDEX_RANGE,
                           .has_start = true,
                           .has_stop = true,
                           .start = (int64_t)start,
                           .stop = (int64_t)(start + count),
                           .step = 1 };
}

/* Rows of a matrix, which lie apart. */
static coffer_status read_rows(browse_work *work, const browse_part *part, void *bytes, coffer_error *err)
{
    size_t side = 0;
    const coffer_tensor *tensor = tensor_of(work, part->item, &side);
    const coffer_read_options options = options_of(&work->looking);
    const uint64_t size = (uint64_t)part->rows * part->columns * coffer_dtype_bits(tensor->dtype) / 8;
    coffer_index *indices = calloc(tensor->rank, sizeof *indices);
    if (indices == NULL) {
        return cli_no_memory(err);
    }
    uint64_t rest = part->matrix;
    for (uint32_t i = tensor->rank - 2; i > 0; i--) {
        indices[i - 1] = (coffer_index){ .kind = COFFER_INDEX_AT, .start = (int64_t)(rest % tensor->shape[i - 1]) };
        rest /= tensor->shape[i - 1];
    }
    indices[tensor->rank - 2] = index_range(part->row, part->rows);
    indices[tensor->rank - 1] = index_range(part->column, part->columns);
    const coffer_status status =
        coffer_read_slice(work->data->models[side], tensor, indices, tensor->rank, bytes, size, &options, err);
    free(indices);
    return status;
}

/* Elements one after the other, and those that share bytes with them. */
static coffer_status read_line(browse_work *work, const browse_part *part, void *bytes, coffer_error *err)
{
    size_t side = 0;
    const coffer_tensor *tensor = tensor_of(work, part->item, &side);
    const uint64_t first = part->row / 8 * 8;
    const uint64_t end = (part->row + (uint64_t)part->rows * part->columns + 7) / 8 * 8;
    const uint64_t elements = coffer_tensor_elements(tensor);
    return read_bytes(&work->looking, side, tensor, cli_elements_size(tensor->dtype, first), bytes,
                      cli_elements_size(tensor->dtype, (end < elements ? end : elements) - first), err);
}

static void run_looking(browse_work *work)
{
    unsigned char bytes[BROWSE_PART_BYTES] = { 0 };
    coffer_error err;
    size_t side = 0;
    pthread_mutex_lock(&work->lock);
    const browse_part part = work->slice.part;
    pthread_mutex_unlock(&work->lock);
    if (part.item == BROWSE_NONE) {
        return;
    }
    const bool rows = browse_part_has_rows(tensor_of(work, part.item, &side));
    const coffer_status status = rows ? read_rows(work, &part, bytes, &err) : read_line(work, &part, bytes, &err);
    pthread_mutex_lock(&work->lock);
    if (!atomic_load(&work->looking.cancel)) {
        memcpy(work->slice.bytes, bytes, sizeof bytes);
        work->slice.stage = status == COFFER_OK ? BROWSE_STAGE_DONE : BROWSE_STAGE_FAILED;
        if (status != COFFER_OK) {
            set_trouble(work->slice.trouble, &err);
        }
    }
    pthread_mutex_unlock(&work->lock);
}

void browse_work_read_part(browse_work *work, const browse_part *part)
{
    pthread_mutex_lock(&work->lock);
    if (!browse_part_same(&work->slice.part, part)) {
        work->slice.part = *part;
        work->slice.stage = part->item == BROWSE_NONE ? BROWSE_STAGE_NOTHING : BROWSE_STAGE_READING;
        start_job(&work->looking);
    }
    pthread_mutex_unlock(&work->lock);
}

void browse_work_look_at_part(browse_work *work, const browse_part *part, browse_slice *slice)
{
    pthread_mutex_lock(&work->lock);
    const bool lasts = slice->part.item == part->item && slice->stage == BROWSE_STAGE_DONE;
    if (!browse_part_same(&work->slice.part, part)) {
        slice->part = *part;
        slice->stage = BROWSE_STAGE_NOTHING;
    } else if (work->slice.stage != BROWSE_STAGE_READING || !lasts) {
        *slice = work->slice;
    }
    pthread_mutex_unlock(&work->lock);
}

/* ---- Comparing bytes ---- */

/* Whether the bytes of a pair are the same; false also when they cannot be read: then *status says so. */
static bool compare_pair(browse_work *work, const browse_item *pair, unsigned char *bytes, coffer_status *status)
{
    unsigned char *others = bytes + PART_MAX;
    coffer_error err;
    for (uint64_t at = 0; at < pair->a->size; at += PART_MAX) {
        const uint64_t left = pair->a->size - at;
        const uint64_t size = left < PART_MAX ? left : PART_MAX;
        *status = read_bytes(&work->comparing, 0, pair->a, at, bytes, size, &err);
        if (*status == COFFER_OK) {
            *status = read_bytes(&work->comparing, 1, pair->b, at, others, size, &err);
        }
        if (*status != COFFER_OK || memcmp(bytes, others, (size_t)size) != 0) {
            return false;
        }
        pthread_mutex_lock(&work->lock);
        work->progress.done += size;
        pthread_mutex_unlock(&work->lock);
        tell_change(&work->comparing);
    }
    return true;
}

/* What was skipped because a difference was found earlier counts as done. */
static void note_pair(browse_work *work, uint32_t item, uint64_t done_before, browse_same same)
{
    const browse_item pair = browse_item_at(work->data, item);
    atomic_store(&work->same[item], (unsigned char)same);
    pthread_mutex_lock(&work->lock);
    work->progress.done = done_before + pair.a->size;
    work->progress.differing += same == BROWSE_DIFFERS;
    work->progress.unreadable += same == BROWSE_UNREADABLE;
    pthread_mutex_unlock(&work->lock);
}

static void compare_items(browse_work *work, const uint32_t *items, size_t count)
{
    unsigned char *bytes = malloc(2 * (size_t)PART_MAX);
    uint64_t done = 0;
    for (size_t i = 0; i < count && bytes != NULL && !atomic_load(&work->comparing.cancel); i++) {
        const browse_item pair = browse_item_at(work->data, items[i]);
        coffer_status status = COFFER_OK;
        const bool same = compare_pair(work, &pair, bytes, &status);
        if (atomic_load(&work->comparing.cancel)) {
            break;
        }
        note_pair(work, items[i], done, same ? BROWSE_SAME : status == COFFER_OK ? BROWSE_DIFFERS : BROWSE_UNREADABLE);
        done += pair.a->size;
        tell_change(&work->comparing);
    }
    free(bytes);
}

static uint64_t bytes_of_items(const browse_work *work, const uint32_t *items, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += browse_item_at(work->data, items[i]).a->size;
    }
    return bytes;
}

static void run_comparing(browse_work *work)
{
    pthread_mutex_lock(&work->lock);
    uint32_t *items = work->items;
    const size_t count = work->item_count;
    work->items = NULL;
    work->progress = (browse_progress){ .running = items != NULL };
    work->progress.total = items != NULL ? bytes_of_items(work, items, count) : 0;
    pthread_mutex_unlock(&work->lock);
    if (items != NULL) {
        compare_items(work, items, count);
    }
    free(items);
    pthread_mutex_lock(&work->lock);
    work->progress.running = false;
    pthread_mutex_unlock(&work->lock);
}

/* Only tensors that both models have, of one dtype and shape, can have the same bytes. */
static size_t keep_alike(const browse_work *work, uint32_t *items, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (browse_difference_at(work->data, items[i]) == BROWSE_ALIKE) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

void browse_work_compare(browse_work *work, uint32_t *items, size_t count)
{
    if (work->same == NULL) {
        free(items);
        return;
    }
    const size_t kept = items != NULL ? keep_alike(work, items, count) : 0;
    pthread_mutex_lock(&work->lock);
    free(work->items);
    work->items = items;
    work->item_count = kept;
    start_job(&work->comparing);
    pthread_mutex_unlock(&work->lock);
}

browse_progress browse_work_compared(browse_work *work)
{
    pthread_mutex_lock(&work->lock);
    browse_progress progress = work->progress;
    progress.running = progress.running || (work->comparing.wanted && work->items != NULL);
    pthread_mutex_unlock(&work->lock);
    return progress;
}

browse_same browse_work_same(const browse_work *work, uint32_t item)
{
    return work->same == NULL ? BROWSE_NOT_COMPARED : (browse_same)atomic_load(&work->same[item]);
}

/* ---- All of it ---- */

browse_work *browse_work_new(const browse_data *data, void (*changed)(void))
{
    browse_work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        return NULL;
    }
    work->data = data;
    work->changed = changed;
    work->item = work->slice.part.item = BROWSE_NONE;
    work->reading.work = work->looking.work = work->comparing.work = work;
    work->reading.run = run_reading;
    work->looking.run = run_looking;
    work->comparing.run = run_comparing;
    if (data->pairs != NULL) {
        work->same = calloc(data->count + 1, sizeof *work->same);
        if (work->same == NULL) {
            free(work);
            return NULL;
        }
    }
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->more, NULL);
    return work;
}

void browse_work_free(browse_work *work)
{
    if (work == NULL) {
        return;
    }
    pthread_mutex_lock(&work->lock);
    work->ending = true;
    atomic_store(&work->reading.cancel, true);
    atomic_store(&work->looking.cancel, true);
    atomic_store(&work->comparing.cancel, true);
    pthread_cond_broadcast(&work->more);
    pthread_mutex_unlock(&work->lock);
    end_lane(&work->reading);
    end_lane(&work->looking);
    end_lane(&work->comparing);
    pthread_cond_destroy(&work->more);
    pthread_mutex_destroy(&work->lock);
    free(work->items);
    free((void *)work->same);
    free(work);
}
