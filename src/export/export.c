/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opened models written as files of other programs: which kinds there are, which names go in, and
 * where it goes.
 *
 * A call goes through three steps, of which only the last one touches the output:
 *
 *   names    export_plan picks the tensors, and the tied names that the metadata tell of
 *   layout   the kind lays the file out: all of its bytes but those of tensors, and its size
 *   writing  export_run.c writes it to a sink, which is published or discarded
 *
 * So whatever a format lacks (a dtype, a name, a number of dimensions) is found before a byte is
 * written, and the size of the file can be told without writing it.
 *
 * Names and metadata come from the model's files. What would be unsafe as a member of an archive is
 * refused by the kinds that write archives.
 */
#include "export.h"

#include "alloc.h"
#include "error.h"
#include "model.h"
#include "options.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* The one table of kinds. A kind's number is its row's, counted from 1, and part of the ABI. */
static const coffer__export_kind *const export_kinds[] = {
    &coffer__export_npz,
    &coffer__export_npy,
    &coffer__export_torch,
    &coffer__export_gguf,
};
#define EXPORT_KINDS (sizeof export_kinds / sizeof export_kinds[0])

/* NULL for a number that is no format's: it may come from another language. 0 becomes SIZE_MAX and
   is out of range, too. */
static const coffer__export_kind *export_kind(coffer_export_format format)
{
    const size_t row = (size_t)format - 1;
    return row < EXPORT_KINDS ? export_kinds[row] : NULL;
}

/* ---- names of formats -------------------------------------------------------------------------------------------- */

/* The functions on names take any number, so that callers can count through the formats until one
   has no name. */
const char *coffer_export_name(coffer_export_format format)
{
    const coffer__export_kind *kind = export_kind(format);
    return kind != NULL ? kind->name : "";
}

const char *coffer_export_ending(coffer_export_format format, size_t i)
{
    const coffer__export_kind *kind = export_kind(format);
    return kind != NULL && i < sizeof kind->endings / sizeof kind->endings[0] ? kind->endings[i] : NULL;
}

coffer_export_format coffer_export_from_name(const char *name, size_t name_len)
{
    for (size_t row = 0; row < EXPORT_KINDS; row++) {
        const char *own = export_kinds[row]->name;
        if (coffer__text_len(own) == name_len && memcmp(own, name, name_len) == 0) {
            return (coffer_export_format)(row + 1);
        }
    }
    return COFFER_EXPORT_NOTHING;
}

/* The first format that has the ending. No ending belongs to two of them. */
coffer_export_format coffer_export_from_path(const char *path)
{
    for (int format = 1; format <= (int)EXPORT_KINDS; format++) {
        const char *ending = NULL;
        for (size_t i = 0; (ending = coffer_export_ending((coffer_export_format)format, i)) != NULL; i++) {
            if (coffer__text_has_ending(path, ending)) {
                return (coffer_export_format)format;
            }
        }
    }
    return COFFER_EXPORT_NOTHING;
}

/* ---- names in the new file --------------------------------------------------------------------------------------- */

/* One call. */
typedef struct export_job {
    const coffer *model;
    const coffer__export_kind *kind;
    coffer_export_options options;
    coffer_read_options reading;
    coffer__export_entry *entries; /* `capacity` of them, `count` of which are used */
    size_t count;
    size_t capacity;
    uint32_t *by_name; /* the numbers of the model's tensors; NULL unless names may be tied */
    coffer__crc32 *crc32;
    coffer__layout layout;
} export_job;

/* How many names can be tied at most: as many as there are pairs of metadata in all files. */
static size_t export_pairs(const coffer *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        count += coffer_table_metadata_count(model->shards[i].table);
    }
    return count;
}

/* The number of the tensor of a name; SIZE_MAX: there is none. By the sorted numbers, as tensors
   are wanted by number here, and coffer_find gives the tensor itself. */
static size_t export_find(const export_job *job, const char *name, size_t name_len)
{
    size_t low = 0;
    size_t high = coffer_count(job->model);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer_tensor *tensor = coffer_at(job->model, job->by_name[middle]);
        const int order = coffer__compare_names(tensor->name, tensor->name_len, name, name_len);
        if (order == 0) {
            return job->by_name[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return SIZE_MAX;
}

/* Whether a file before this one has the key, too: then it was looked at there. Files of one model
   usually have the same metadata each. */
static bool export_has_key(const coffer *model, size_t shard, const coffer_pair *pair)
{
    size_t len = 0;
    for (size_t i = 0; i < shard; i++) {
        if (coffer_table_metadata_get(model->shards[i].table, pair->key, pair->key_len, &len) != NULL) {
            return true;
        }
    }
    return false;
}

/*
 * A name that the metadata say is the same as a tensor: `metadata[name] = name of the tensor`, as converters write it
 * for tensors that share memory. What has the name of a tensor, and the key that every converter writes, are no ties.
 */
static void export_add_tied(export_job *job, size_t shard, const coffer_pair *pair)
{
    /* "format" has a value like "pt", which could be the name of a tensor. */
    const bool is_format = pair->key_len == 6 && memcmp(pair->key, "format", 6) == 0;
    if (is_format || export_find(job, pair->key, pair->key_len) != SIZE_MAX ||
        export_has_key(job->model, shard, pair)) {
        return;
    }
    const size_t kept = export_find(job, pair->value, pair->value_len);
    if (kept != SIZE_MAX) {
        job->entries[job->count++] = (coffer__export_entry){
            .name = pair->key, .name_len = pair->key_len, .tensor = job->entries[kept].tensor, .kept = kept
        };
    }
}

/* Shard by shard, in the order of each file's metadata, so that the same model always makes the
   same file. */
static void export_add_all_tied(export_job *job)
{
    coffer_pair pair;
    coffer_sort_by_name(job->model, job->by_name);
    for (size_t shard = 0; shard < job->model->shard_count; shard++) {
        const coffer_table *table = job->model->shards[shard].table;
        for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
            export_add_tied(job, shard, &pair);
        }
    }
}

/* All tensors, then what is tied to them. There is space for every pair, though most models have one
   or two that are ties. */
static coffer_status export_add_tensors(export_job *job, coffer_error *err)
{
    const size_t count = coffer_count(job->model);
    const size_t pairs = job->options.without_tied ? 0 : export_pairs(job->model);
    job->capacity = count + pairs;
    job->entries = coffer__alloc_array(&job->model->allocator, job->capacity, sizeof *job->entries, err);
    if (job->entries == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(job->model, i);
        job->entries[job->count++] =
            (coffer__export_entry){ .name = tensor->name, .name_len = tensor->name_len, .tensor = tensor, .kept = i };
    }
    if (pairs == 0) {
        return COFFER_OK;
    }
    job->by_name = coffer__alloc_array(&job->model->allocator, count, sizeof *job->by_name, err);
    if (job->by_name == NULL) {
        return COFFER_ERR_MEMORY;
    }
    export_add_all_tied(job);
    return COFFER_OK;
}

/* The one tensor of a kind that holds no more: the one that is named, or the only one. */
static coffer_status export_add_one(export_job *job, coffer_error *err)
{
    const size_t count = coffer_count(job->model);
    const coffer_tensor *tensor = coffer_at(job->model, 0);
    if (job->options.tensor != NULL) {
        tensor = coffer_find(job->model, job->options.tensor, job->options.tensor_len);
    } else if (count != 1) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "a .%s file holds one tensor, and the model has %u: say which one, or write a .npz file",
                            job->kind->name, (uint64_t)count);
    }
    if (tensor == NULL) {
        return coffer__fail(err, COFFER_ERR_NO_TENSOR, "there is no tensor %q", job->options.tensor,
                            job->options.tensor_len);
    }
    job->entries = coffer__alloc_array(&job->model->allocator, 1, sizeof *job->entries, err);
    if (job->entries == NULL) {
        return COFFER_ERR_MEMORY;
    }
    job->capacity = 1;
    job->entries[job->count++] =
        (coffer__export_entry){ .name = tensor->name, .name_len = tensor->name_len, .tensor = tensor };
    return COFFER_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* A tensor whose bytes are not all there fails here, and not halfway through the output. */
static coffer_status export_check(const export_job *job, coffer_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        const coffer_tensor *tensor = job->entries[i].tensor;
        const coffer_status status = coffer__shard_check_whole(coffer__model_shard(job->model, tensor), tensor, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Only for kinds that have CRCs. The tables are 16 KiB, which is why they are not on the
   stack. */
static coffer_status export_open_crc32(export_job *job, coffer_error *err)
{
    if (!job->kind->has_crcs) {
        return COFFER_OK;
    }
    job->crc32 = coffer__alloc_array(&job->model->allocator, 1, sizeof *job->crc32, err);
    if (job->crc32 == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer__crc32_open(job->crc32, false);
    return COFFER_OK;
}

/* A tensor that is named is the only one also of a kind that could hold more. */
static coffer_status export_plan(export_job *job, coffer_error *err)
{
    coffer_status status =
        job->kind->one || job->options.tensor != NULL ? export_add_one(job, err) : export_add_tensors(job, err);
    if (status == COFFER_OK) {
        status = export_check(job, err);
    }
    if (status == COFFER_OK) {
        status = export_open_crc32(job, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__export_content content = { .model = job->model,
                                             .entries = job->entries,
                                             .count = job->count,
                                             .bytes_as = job->options.bytes_as,
                                             .crc32 = job->crc32,
                                             .arch = job->options.arch,
                                             .sidecar = job->options.sidecar };
    return job->kind->lay_out(&content, &job->layout, err);
}

/* Whatever there is: members that were not made yet are NULL. */
static void export_free(export_job *job)
{
    const coffer_allocator *allocator = &job->model->allocator;
    coffer__layout_free(&job->layout);
    if (job->crc32 != NULL) {
        coffer__crc32_close(job->crc32);
    }
    coffer__free_array(allocator, job->crc32, 1, sizeof *job->crc32);
    coffer__free_array(allocator, job->by_name, coffer_count(job->model), sizeof *job->by_name);
    coffer__free_array(allocator, job->entries, job->capacity, sizeof *job->entries);
}

/* ---- where it goes ----------------------------------------------------------------------------------------------- */

/* Exactly one of the four. */
typedef struct export_target {
    const char *path;
    const int *fd;
    const coffer_sink *custom;
    uint64_t *size; /* nothing is written, and this becomes the bytes of the file */
} export_target;

/* Nothing new comes while bytes are made durable: all of them are written. */
static int export_wait(void *ctx, uint64_t done, uint64_t total)
{
    const export_job *job = ctx;
    (void)done;
    (void)total;
    return job->reading.progress(job->reading.progress_ctx, job->layout.data, job->layout.data);
}

/* A sink of the caller's is custom, or a descriptor that stays theirs; a path gets a sink that
   writes beside it and renames. The progress of making bytes durable is told as the total, as
   nothing else is left. */
static coffer_status export_open_sink(export_job *job, const export_target *target, coffer__byte_sink *sink,
                                      coffer_error *err)
{
    const coffer_allocator *allocator = &job->model->allocator;
    const coffer_export_options *options = &job->options;
    coffer_status status = COFFER_OK;
    if (target->path != NULL) {
        status = coffer__sink_path(sink, allocator, target->path, options->sync, options->in_place, err);
    } else if (target->fd != NULL) {
        status = coffer__sink_fd(sink, allocator, *target->fd, options->sync, err);
    } else {
        status = coffer__sink_custom(sink, allocator, target->custom, err);
    }
    if (status == COFFER_OK) {
        sink->progress = job->reading.progress != NULL ? export_wait : NULL;
        sink->progress_ctx = job;
    }
    return status;
}

/* A failure that is about no file of the model is one of the new file. What the model's functions
   report has a path already. */
static coffer_status export_failed(const export_target *target, coffer_status status, coffer_error *err)
{
    return target->path != NULL && err != NULL && err->path[0] == '\0' ? coffer__fail_path(err, status, target->path)
                                                                       : status;
}

/* publish and discard release the sink, and one of them is called. `*taken` tells the caller that
   the sink was opened, and so that its `discard` is not theirs to call any more. */
static coffer_status export_write(export_job *job, const export_target *target, bool *taken, coffer_error *err)
{
    coffer__byte_sink sink;
    coffer_status status = export_open_sink(job, target, &sink, err);
    if (status != COFFER_OK) {
        return export_failed(target, status, err);
    }
    *taken = true;
    status = coffer__export_run(job->model, &job->layout, job->crc32, &sink, &job->reading, err);
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
    } else {
        status = sink.ops->publish(&sink, err);
    }
    return status == COFFER_OK ? status : export_failed(target, status, err);
}

/* Replacing a file that is read would leave nothing to read, at once or from the next time on. */
static coffer_status export_check_path(const coffer *model, const char *path, coffer_error *err)
{
    coffer__os_info info;
    if (coffer__os_inspect(path, true, &info) != 0) {
        return COFFER_OK;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        if (coffer__source_is_file(&model->shards[i].source, &info)) {
            coffer__fail(err, COFFER_ERR_ARGUMENT, "the output would replace a file that is converted");
            return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
        }
    }
    return COFFER_OK;
}

/* Options come from callers of any language, so enumerations may have any value. */
static coffer_status export_check_options(const export_job *job, coffer_error *err)
{
    const coffer_dtype bytes_as = job->options.bytes_as;
    if (job->kind == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no such format to export to");
    }
    if (job->options.sidecar != NULL && job->kind != &coffer__export_gguf) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a sidecar has keys for GGUF, and other formats have none");
    }
    if (bytes_as != COFFER_UNKNOWN_DTYPE && bytes_as != COFFER_U8 && bytes_as != COFFER_I8) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "what a format has no type for is written as U8 or as I8");
    }
    return COFFER_OK;
}

/* All four public functions end here. Nothing of the target is touched before the layout is
   complete. */
static coffer_status export_to(const coffer *model, coffer_export_format format, const export_target *target,
                               const coffer_export_options *options, const coffer_read_options *reading, bool *taken,
                               coffer_error *err)
{
    export_job job = { .model = model, .kind = export_kind(format) };
    coffer_status status = coffer__options_copy(&job.options, sizeof job.options, options, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&job.reading, sizeof job.reading, reading, err);
    }
    if (status == COFFER_OK) {
        status = export_check_options(&job, err);
    }
    if (status == COFFER_OK && target->path != NULL) {
        status = export_check_path(model, target->path, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    job.reading.struct_size = sizeof job.reading;
    coffer__layout_init(&job.layout, &model->allocator);
    status = export_plan(&job, err);
    if (status == COFFER_OK && target->size != NULL) {
        *target->size = coffer__layout_size(&job.layout);
    } else if (status == COFFER_OK) {
        status = export_write(&job, target, taken, err);
    }
    export_free(&job);
    return status;
}

/* To a path: written beside it and renamed, unless the options say in place. */
coffer_status coffer_export(const coffer *model, coffer_export_format format, const char *path,
                            const coffer_export_options *options, const coffer_read_options *reading, coffer_error *err)
{
    if (model == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model or the path is NULL");
    }
    bool taken = false;
    return export_to(model, format, &(export_target){ .path = path }, options, reading, &taken, err);
}

/* The size is exact: what is written is what was laid out, byte for byte. */
coffer_status coffer_export_size(const coffer *model, coffer_export_format format, const coffer_export_options *options,
                                 uint64_t *size, coffer_error *err)
{
    if (model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model is NULL");
    }
    bool taken = false;
    uint64_t planned = 0;
    const coffer_status status =
        export_to(model, format, &(export_target){ .size = &planned }, options, NULL, &taken, err);
    if (status == COFFER_OK && size != NULL) {
        *size = planned;
    }
    return status;
}

coffer_status coffer_export_fd(const coffer *model, coffer_export_format format, int fd,
                               const coffer_export_options *options, const coffer_read_options *reading,
                               coffer_error *err)
{
    if (model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model is NULL");
    }
    bool taken = false;
    return export_to(model, format, &(export_target){ .fd = &fd }, options, reading, &taken, err);
}

/* A sink that was never opened is discarded here: exactly one of its finish and discard is called in any case. */
coffer_status coffer_export_sink(const coffer *model, coffer_export_format format, const coffer_sink *sink,
                                 const coffer_export_options *options, const coffer_read_options *reading,
                                 coffer_error *err)
{
    if (model == NULL || sink == NULL || sink->write_at == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model, the sink or its write_at is NULL");
    }
    bool taken = false;
    const coffer_status status =
        export_to(model, format, &(export_target){ .custom = sink }, options, reading, &taken, err);
    if (!taken && sink->discard != NULL) {
        sink->discard(sink->ctx);
    }
    return status;
}
