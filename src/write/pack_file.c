/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing a file. Each tensor of 64 KiB or more is gone over by several threads, three times: its bytes are counted, which
 * gives the plan; its chunks are encoded to learn their sizes, as the header stands before them; then they are encoded again,
 * decoded, compared and written. What is kept of a tensor in between is its plan and its index.
 */
#include "pack_file.h"
#include "alloc.h"
#include "error.h"
#include "hex.h"
#include "libc_allocator.h"
#include "model.h"
#include "options.h"
#include "pack.h"
#include "packed_file.h"
#include "text.h"
#include "thread_pool.h"
#include "writer_own.h"

#include <string.h>

#define PACK_FILE_MIN_SIZE 65536u
/* A tensor is packed if it becomes at most 97 % of what it was. */
#define PACK_FILE_MIN_GAIN(size) ((size) - (size) / 100 * 3)
#define PACK_FILE_THREADS 64u

/* What a worker needs. The chunk that was encoded is decoded into the packer's planes, which nobody needs then. */
typedef struct file_area {
    coffer__packer packer;
    coffer__unpacker unpacker;
    uint8_t elements[(size_t)COFFER__PACKED_CHUNK * COFFER__PLANES_MAX];
    uint8_t encoded[COFFER__PACK_CHUNK_MAX(COFFER__PLANES_MAX)];
} file_area;

/* A tensor that is packed. */
typedef struct file_packed {
    const coffer_tensor *tensor;
    coffer__pack_plan *plan; /* without the tables that it does not have */
    size_t plan_size;
    uint8_t *index; /* head, tables and records */
    size_t index_size;
    uint64_t used;
    uint64_t size; /* of the packed tensor; 0: it stays plain */
} file_packed;

typedef struct file_job file_job;
typedef coffer_status (*file_step)(file_job *job, file_area *area, uint64_t item, coffer_error *err);

struct file_job {
    const coffer *model;
    const coffer__shard *shard;
    coffer_pack_options options;
    const coffer__os_info *only; /* the file that the new one may replace; NULL: any */
    file_packed *tensors;        /* of the shard's table */
    size_t count;
    coffer_writer *writer;
    file_area **areas; /* of the workers */
    size_t threads;
    coffer__pack_counts *segments; /* COFFER__PACK_SEGMENTS, and one for their sums */
    coffer__pack_plan *plan;       /* of the tensor in work */
    file_packed *packed;           /* the tensor in work, … */
    size_t number;                 /* … its number in the header, … */
    const uint64_t *starts;        /* … and where its chunks go */
    uint64_t done;                 /* bytes of all tensors, three times each */
    uint64_t total;
    coffer__thread_pool thread_pool;
    file_step step;
    uint64_t next; /* item of the step; under the thread pool's lock */
    uint64_t items;
};

typedef struct file_worker {
    coffer__thread_pool_worker base;
    file_job *job;
    file_area *area;
} file_worker;

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static size_t file_element_size(const file_job *job)
{
    return coffer__packed_layout_of(job->packed->tensor->dtype).element_size;
}

/* Reads a chunk's elements; *count is their number. */
static coffer_status file_read_chunk(const file_job *job, uint64_t chunk, uint8_t *elements, size_t *count,
                                     coffer_error *err)
{
    const coffer_tensor *tensor = job->packed->tensor;
    const size_t element = file_element_size(job);
    const uint64_t at = chunk * COFFER__PACKED_CHUNK * element;
    const uint64_t left = tensor->size - at;
    const size_t size = left < COFFER__PACKED_CHUNK * element ? (size_t)left : COFFER__PACKED_CHUNK * element;
    *count = size / element;
    return coffer__source_read(&job->shard->source, tensor->offset + at, elements, size, err);
}

static coffer_status file_count_step(file_job *job, file_area *area, uint64_t segment, coffer_error *err)
{
    const uint64_t elements = job->packed->tensor->size / file_element_size(job);
    const uint64_t each = coffer__pack_segment_chunks(elements);
    const uint64_t chunks = coffer__packed_chunk_count(elements);
    const uint64_t end = chunks - segment * each < each ? chunks : (segment + 1) * each;
    memset(&job->segments[segment], 0, sizeof job->segments[segment]);
    for (uint64_t chunk = segment * each; chunk < end; chunk++) {
        size_t count = 0;
        const coffer_status status = file_read_chunk(job, chunk, area->elements, &count, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__pack_count(&area->packer, job->packed->tensor->dtype, area->elements, count, &job->segments[segment]);
    }
    return COFFER_OK;
}

static uint8_t *file_record(const file_job *job, uint64_t chunk)
{
    const uint64_t chunks = coffer__packed_chunk_count(job->plan->elements);
    return job->packed->index + job->packed->index_size - (size_t)(chunks - chunk) * COFFER__PACKED_RECORD_SIZE;
}

static coffer_status file_measure_step(file_job *job, file_area *area, uint64_t chunk, coffer_error *err)
{
    size_t count = 0;
    const coffer_status status = file_read_chunk(job, chunk, area->elements, &count, err);
    if (status == COFFER_OK) {
        coffer__pack_chunk(&area->packer, job->plan, chunk, area->elements, area->encoded, file_record(job, chunk));
    }
    return status;
}

static coffer_status file_write_step(file_job *job, file_area *area, uint64_t chunk, coffer_error *err)
{
    size_t count = 0;
    uint8_t record[COFFER__PACKED_RECORD_SIZE];
    const file_packed *packed = job->packed;
    coffer_status status = file_read_chunk(job, chunk, area->elements, &count, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t size = coffer__pack_chunk(&area->packer, job->plan, chunk, area->elements, area->encoded, record);
    if (memcmp(record, file_record(job, chunk), sizeof record) != 0) {
        return coffer__fail(err, COFFER_ERR_CHANGED, "the file changed while it was packed: try again");
    }
    coffer__packed_head head;
    status = coffer__packed_read_head(packed->index, packed->tensor->dtype, packed->tensor->size, 0, packed->size,
                                      &head, err);
    if (status == COFFER_OK) {
        coffer__unpacker_init(&area->unpacker, &head, packed->index + COFFER__PACKED_HEAD_SIZE);
        status = coffer__unpack_chunk(&area->unpacker, chunk, area->encoded, area->packer.planes[0], err);
    }
    if (status != COFFER_OK || memcmp(area->elements, area->packer.planes[0], count * head.layout.element_size) != 0) {
        return coffer__fail(err, COFFER_ERR_NOT_EQUAL, "a chunk does not come back as it was packed: test the memory");
    }
    return coffer_writer_write(job->writer, job->number, job->starts[chunk], area->encoded, size, err);
}

/* ---- several threads ----------------------------------------------------------------------------------------------- */

static bool file_take(file_job *job, uint64_t *item)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const bool taken = job->next < job->items;
    *item = taken ? job->next++ : 0;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

static void file_work(void *arg)
{
    file_worker *worker = arg;
    file_job *job = worker->job;
    const uint64_t share = job->packed->tensor->size / job->items;
    uint64_t item = 0;
    while (!coffer__thread_pool_stop(&worker->base, 0) && file_take(job, &item)) {
        coffer_error error;
        const coffer_status status = job->step(job, worker->area, item, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&job->thread_pool, item, status, &error, COFFER__THREAD_POOL_NO_ROW);
            return;
        }
        (void)coffer__thread_pool_advance(&worker->base, share);
    }
}

/* Runs a step over all its items, for the tensor in work. */
static coffer_status file_run(file_job *job, file_step step, uint64_t items, coffer_error *err)
{
    file_worker workers[PACK_FILE_THREADS];
    const size_t count = items < job->threads ? (size_t)items : job->threads;
    for (size_t i = 0; i < count; i++) {
        workers[i] = (file_worker){ .job = job, .area = job->areas[i] };
    }
    job->step = step;
    job->items = items;
    job->next = 0;
    job->thread_pool = (coffer__thread_pool){ .work = file_work,
                                              .progress = job->options.progress,
                                              .progress_ctx = job->options.progress_ctx,
                                              .total = job->total,
                                              .done = job->done,
                                              .err = err };
    const coffer_status status = coffer__thread_pool_run(&job->thread_pool, workers, count, sizeof workers[0]);
    job->done += items > 0 ? job->packed->tensor->size / items * items : 0;
    return status == COFFER_OK
               ? status
               : coffer__fail_tensor(err, status, job->packed->tensor->name, job->packed->tensor->name_len);
}

/* ---- a tensor ------------------------------------------------------------------------------------------------------ */

/* Keeps the plan and makes space for the index. */
static coffer_status file_keep_plan(file_job *job, coffer_error *err)
{
    file_packed *packed = job->packed;
    packed->plan_size = offsetof(coffer__pack_plan, lengths) + (size_t)job->plan->tables * COFFER__CODE_SYMBOLS;
    const uint64_t index_size = coffer__pack_index_size(job->plan);
    packed->plan = coffer__alloc(&job->model->allocator, packed->plan_size);
    packed->index_size = index_size > SIZE_MAX / 2 ? 0 : (size_t)index_size;
    packed->index = coffer__alloc_zeroed(&job->model->allocator, packed->index_size);
    if (packed->plan == NULL || packed->index == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to pack a tensor");
    }
    memcpy(packed->plan, job->plan, packed->plan_size);
    return COFFER_OK;
}

static void file_free_plans(const file_job *job, file_packed *packed)
{
    coffer__free(&job->model->allocator, packed->plan, packed->plan_size);
    coffer__free(&job->model->allocator, packed->index, packed->index_size);
    packed->plan = NULL;
    packed->index = NULL;
}

static uint64_t file_sum_of_records(const file_job *job)
{
    uint64_t used = job->packed->index_size;
    for (uint64_t chunk = 0; chunk < coffer__packed_chunk_count(job->plan->elements); chunk++) {
        const uint8_t *record = file_record(job, chunk);
        used += (record[0] | (uint64_t)record[1] << 8) * COFFER__PACKED_CHUNK_ALIGNMENT;
    }
    return used;
}

/* Decides whether a tensor is packed, and how large it becomes. */
static coffer_status file_plan_tensor(file_job *job, coffer_error *err)
{
    file_packed *packed = job->packed;
    const coffer_tensor *tensor = packed->tensor;
    if (tensor->size < PACK_FILE_MIN_SIZE || tensor->dtype == COFFER_UNKNOWN_DTYPE) {
        return COFFER_OK;
    }
    const uint64_t elements = tensor->size / file_element_size(job);
    coffer_status status = file_run(job, file_count_step, coffer__pack_segment_count(elements), err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__pack_decide(tensor->dtype, elements, job->segments, &job->segments[COFFER__PACK_SEGMENTS], job->plan);
    if (job->plan->estimate > PACK_FILE_MIN_GAIN(tensor->size)) {
        return COFFER_OK;
    }
    status = file_keep_plan(job, err);
    if (status == COFFER_OK) {
        status = file_run(job, file_measure_step, coffer__packed_chunk_count(elements), err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    packed->used = file_sum_of_records(job);
    packed->size = coffer__pack_whole_size(packed->used);
    coffer__pack_finish(job->plan, packed->used, packed->index);
    if (packed->size > PACK_FILE_MIN_GAIN(tensor->size)) {
        packed->size = 0;
        file_free_plans(job, packed);
    }
    return COFFER_OK;
}

/* Writes what is not a chunk: the index, and the zeros at the end. */
static coffer_status file_write_around(const file_job *job, coffer_error *err)
{
    static const uint8_t zeros[COFFER__PACKED_END_ZEROS + COFFER__PACKED_ALIGNMENT] = { 0 };
    const file_packed *packed = job->packed;
    const coffer_status status =
        coffer_writer_write(job->writer, job->number, 0, packed->index, packed->index_size, err);
    return status == COFFER_OK
               ? coffer_writer_write(job->writer, job->number, packed->used, zeros, packed->size - packed->used, err)
               : status;
}

static coffer_status file_write_tensor(file_job *job, coffer_error *err)
{
    const file_packed *packed = job->packed;
    memcpy(job->plan, packed->plan, packed->plan_size);
    const size_t chunks = (size_t)coffer__packed_chunk_count(job->plan->elements);
    uint64_t *starts = coffer__alloc_array(&job->model->allocator, chunks + 1, sizeof *starts, err);
    if (starts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    starts[0] = packed->index_size;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const uint8_t *record = file_record(job, chunk);
        starts[chunk + 1] = starts[chunk] + (record[0] | (uint64_t)record[1] << 8) * COFFER__PACKED_CHUNK_ALIGNMENT;
    }
    job->starts = starts;
    coffer_status status = file_write_around(job, err);
    if (status == COFFER_OK) {
        status = file_run(job, file_write_step, chunks, err);
    }
    coffer__free_array(&job->model->allocator, starts, chunks + 1, sizeof *starts);
    return status;
}

/* ---- the file ------------------------------------------------------------------------------------------------------ */

/* "1:LENGTH:SHA256"; what is not `digested` has zeros there, so that the header is as long as it will be. */
static coffer_status file_set_key(const file_job *job, coffer_header *header, bool digested, coffer_error *err)
{
    char text[2 + 20 + 1 + 64];
    uint8_t digest[32] = { 0 };
    coffer_digest_options hashing = COFFER_DIGEST_OPTIONS_INIT;
    hashing.progress = job->options.progress;
    hashing.progress_ctx = job->options.progress_ctx;
    const size_t shard = (size_t)(job->shard - job->model->shards);
    const coffer_status status = digested ? coffer__shard_sha256(job->model, shard, &hashing, digest, err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    memcpy(text, "1:", 2);
    size_t len = 2 + coffer__write_u64(text + 2, job->shard->source.size);
    text[len++] = ':';
    coffer__hex_write(text + len, digest, sizeof digest);
    return coffer_header_set_metadata(header, COFFER__PACKED_KEY, sizeof COFFER__PACKED_KEY - 1, text, len + 64, err);
}

static coffer_status file_set_header(const file_job *job, coffer_header *header, coffer_error *err)
{
    const uint64_t size = coffer_table_data_offset(job->shard->table);
    char *bytes = size > SIZE_MAX ? NULL : coffer__alloc(&job->model->allocator, (size_t)size);
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the header of the original");
    }
    coffer_status status = coffer__source_read(&job->shard->source, 0, bytes, (size_t)size, err);
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, COFFER__PACKED_HEADER_KEY, sizeof COFFER__PACKED_HEADER_KEY - 1,
                                            bytes + 8, (size_t)size - 8, err);
    }
    coffer__free(&job->model->allocator, bytes, (size_t)size);
    return status;
}

/* Declares every tensor, in the order of the table, and the metadata. */
static coffer_status file_declare(const file_job *job, coffer_header *header, coffer_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        const file_packed *packed = &job->tensors[i];
        const coffer_tensor *tensor = packed->tensor;
        const bool plain = packed->size == 0;
        const coffer_status status =
            coffer_header_add(header, tensor->name, tensor->name_len, plain ? tensor->dtype : COFFER_U8,
                              plain ? tensor->shape : &packed->size, plain ? tensor->rank : 1, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return file_set_header(job, header, err);
}

static coffer_status file_write_plain(const file_job *job, coffer_error *err)
{
    coffer_copy *copies = coffer__alloc_array(&job->model->allocator, job->count, sizeof *copies, err);
    if (copies == NULL) {
        return COFFER_ERR_MEMORY;
    }
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (job->tensors[i].size == 0) {
            copies[count++] = (coffer_copy){ .to = i, .model = job->model, .tensor = job->tensors[i].tensor };
        }
    }
    const coffer_status status = coffer_writer_copy(job->writer, copies, count, NULL, err);
    coffer__free_array(&job->model->allocator, copies, job->count, sizeof *copies);
    return status;
}

static coffer_status file_write(file_job *job, coffer_error *err)
{
    coffer_status status = file_write_plain(job, err);
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        job->packed = &job->tensors[i];
        job->number = i;
        if (job->packed->size > 0) {
            status = file_write_tensor(job, err);
        }
    }
    if (status == COFFER_OK) {
        status = coffer__writer_complete(job->writer, err);
    }
    return status == COFFER_OK ? coffer__writer_publish(job->writer, err) : status;
}

/* The header, and with a path the file. */
static coffer_status file_make(file_job *job, coffer_header *header, const char *path, coffer_pack_result *result,
                               coffer_error *err)
{
    coffer_writer_options writing = COFFER_WRITER_OPTIONS_INIT;
    writing.alignment = COFFER__PACKED_ALIGNMENT;
    writing.sync = job->options.sync;
    coffer_header_options building = COFFER_HEADER_OPTIONS_INIT;
    building.alignment = COFFER__PACKED_ALIGNMENT;
    const coffer_table *table = NULL;
    coffer_status status = file_declare(job, header, err);
    if (status == COFFER_OK) {
        status = file_set_key(job, header, path != NULL, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(header, &building, NULL, NULL, &table, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    result->packed_size = coffer_table_data_offset(table) + coffer_table_data_size(table);
    if (path == NULL) {
        return COFFER_OK;
    }
    status = coffer_writer_open(&job->writer, header, path, &writing, err);
    if (status == COFFER_OK && job->only != NULL) {
        coffer__sink_path_only(&job->writer->sink, job->only);
    }
    return status == COFFER_OK ? file_write(job, err) : status;
}

static coffer_status file_pack(file_job *job, const char *path, coffer_pack_result *result, coffer_error *err)
{
    coffer_header *header = NULL;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        job->packed = &job->tensors[i];
        job->packed->tensor = coffer_table_at(job->shard->table, i);
        status = file_plan_tensor(job, err);
        result->packed_count += job->packed->size > 0;
    }
    if (status == COFFER_OK) {
        status = coffer_header_new(&header, &job->model->allocator, err);
    }
    if (status == COFFER_OK) {
        status = file_make(job, header, path, result, err);
    }
    coffer_writer_free(job->writer);
    coffer_header_free(header);
    return status;
}

/* ---- its memory ---------------------------------------------------------------------------------------------------- */

static void file_close(file_job *job)
{
    const coffer_allocator *allocator = &job->model->allocator;
    for (size_t i = 0; job->tensors != NULL && i < job->count; i++) {
        file_free_plans(job, &job->tensors[i]);
    }
    for (size_t i = 0; job->areas != NULL && i < job->threads; i++) {
        coffer__free(allocator, job->areas[i], sizeof *job->areas[i]);
    }
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    coffer__free_array(allocator, job->areas, job->threads, sizeof *job->areas);
    coffer__free_array(allocator, job->tensors, job->count, sizeof *job->tensors);
    coffer__free_array(allocator, job->segments, COFFER__PACK_SEGMENTS + 1, sizeof *job->segments);
    coffer__free(allocator, job->plan, sizeof *job->plan);
}

static coffer_status file_begin(file_job *job, coffer_error *err)
{
    const coffer_allocator *allocator = &job->model->allocator;
    const unsigned processors = job->options.threads > 0 ? job->options.threads : coffer__os_processors();
    job->threads = processors == 0 ? 1 : processors < PACK_FILE_THREADS ? processors : PACK_FILE_THREADS;
    job->count = coffer_table_count(job->shard->table);
    job->tensors = coffer__alloc_array(allocator, job->count, sizeof *job->tensors, err);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    job->areas = coffer__alloc_array(allocator, job->threads, sizeof *job->areas, err);
    job->segments = coffer__alloc_array(allocator, COFFER__PACK_SEGMENTS + 1, sizeof *job->segments, err);
    job->plan = coffer__alloc(allocator, sizeof *job->plan);
    bool all = job->tensors != NULL && job->areas != NULL && job->segments != NULL && job->plan != NULL;
    for (size_t i = 0; all && i < job->threads; i++) {
        job->areas[i] = coffer__alloc(allocator, sizeof *job->areas[i]);
        all = job->areas[i] != NULL;
    }
    for (size_t i = 0; all && i < job->count; i++) {
        job->total += 3 * coffer_table_at(job->shard->table, i)->size;
    }
    return all ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to pack a file");
}

static coffer_status file_check(const coffer *model, size_t shard, coffer_error *err)
{
    if (coffer_shard_is_packed(model, shard)) {
        return coffer__fail(err, COFFER_ERR_PACKED, "the file is packed already");
    }
    if (coffer_table_format(model->shards[shard].table) != COFFER_FORMAT_SAFETENSORS) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "only safetensors files can be packed: convert the file first");
    }
    return COFFER_OK;
}

coffer_status coffer__pack_file(const coffer *model, size_t shard, const char *path, const coffer_pack_options *options,
                                const coffer__os_info *only, coffer_pack_result *result, coffer_error *err)
{
    file_job job = { .model = model, .shard = &model->shards[shard], .options = *options, .only = only };
    coffer_pack_result own = { .original_size = job.shard->source.size };
    coffer_status status = file_check(model, shard, err);
    if (status == COFFER_OK) {
        status = file_begin(&job, err);
    }
    if (status == COFFER_OK) {
        own.tensor_count = job.count;
        status = file_pack(&job, path, &own, err);
    }
    file_close(&job);
    if (status == COFFER_OK && result != NULL) {
        *result = own;
    }
    return status;
}

coffer_status coffer_pack_shard(const coffer *model, size_t shard, const char *path, const coffer_pack_options *options,
                                coffer_pack_result *result, coffer_error *err)
{
    coffer_pack_options known;
    if (model == NULL || shard >= model->shard_count) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model is NULL, or has no such file");
    }
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = coffer__shard_refuse_foreign(&model->shards[shard], err);
    }
    if (status == COFFER_OK) {
        status = coffer__pack_file(model, shard, path, &known, NULL, result, err);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, coffer_shard_path(model, shard));
}
