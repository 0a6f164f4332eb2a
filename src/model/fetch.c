/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching: the files of an opened model, or some of its tensors as files of their own, come into a folder, and with a model that
 * was named as a whole what lies beside it (fetch_beside.h). What a file is going to be is a head, which is in memory, and moves,
 * which say where the rest comes from: of a whole file there is no head and one move, of a file of some tensors the head is its
 * new header, and an index is nothing but head. All come in pieces (part.h), several ranges of them at once, and get their names
 * when every one of them is complete, the index last.
 */
#include "alloc.h"
#include "error.h"
#include "fetch_beside.h"
#include "header.h"
#include "json.h"
#include "model.h"
#include "move.h"
#include "options.h"
#include "part.h"
#include "text.h"
#include "transfer.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

#define FETCH_BATCH_PIECES 4 /* that are in memory at a time: 32 MiB */

typedef struct fetch_file {
    const coffer__shard *shard;   /* NULL: it has no tensors */
    const coffer__source *source; /* NULL: the index */
    const char *path;             /* the source's, for failures */
    coffer__path target;
    uint64_t size;
    const uint8_t *head; /* borrowed: from the header, or the index's text */
    uint64_t head_size;
    coffer_header *header; /* of a file of some tensors */
    coffer__move *moves;   /* in order of their places, without gaps between them */
    size_t move_count;
    size_t move_room;
    coffer__part part;
} fetch_file;

typedef struct fetch_job {
    const coffer *model;
    const coffer_allocator *allocator;
    const coffer_fetch_options *options;
    const bool *wanted; /* for each tensor of the model; NULL: all */
    const char *folder;
    coffer__beside *beside; /* NULL: nothing is wanted that has no tensors */
    fetch_file *files;
    size_t file_count;
    size_t file_room;
    char *index; /* its text */
    size_t index_size;
    uint64_t done;
    uint64_t total;
    uint8_t *buffer;
    size_t buffer_size;
} fetch_job;

static coffer_status fetch_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* FOLDER/NAME, the name being the last component of a path, or of a URL without its query. */
static coffer_status fetch_target(const fetch_job *job, const char *path, coffer__path *target, coffer_error *err)
{
    const bool is_url = coffer__url_is(path);
    size_t len = 0;
    while (path[len] != '\0' && !(is_url && path[len] == '?')) {
        len++;
    }
    size_t from = len;
    while (from > 0 && path[from - 1] != '/') {
        from--;
    }
    const coffer_status status = coffer__place_check_name(path + from, len - from, 0, NULL);
    if (status != COFFER_OK) {
        return coffer__fail(err, COFFER_ERR_SHARD_NAME, "%q is no name for a file", path + from, len - from);
    }
    const size_t folder_len = strlen(job->folder);
    const bool slash = folder_len > 0 && job->folder[folder_len - 1] != '/';
    if (!coffer__path_copy(target, job->folder) ||
        (slash && !coffer__text_append(target->text, sizeof target->text, "/", 1)) ||
        !coffer__text_append(target->text, sizeof target->text, path + from, len - from)) {
        return coffer__fail(err, COFFER_ERR_IO, "the file's path would be too long");
    }
    if (!job->options->force && coffer__os_exists(target->text)) {
        coffer__fail(err, COFFER_ERR_IO,
                     "a file of that name is there already: -f (`force` in the options) replaces it");
        coffer__fail_path(err, COFFER_ERR_IO, target->text);
        return coffer__fail_errno(err, COFFER_ERR_IO, EEXIST);
    }
    return COFFER_OK;
}

/* ---- a file of some tensors -------------------------------------------------------------------------------------- */

static size_t fetch_index_of(const fetch_job *job, size_t shard, size_t k)
{
    size_t before = 0;
    for (size_t i = 0; i < shard; i++) {
        before += coffer_table_count(job->model->shards[i].table);
    }
    return before + k;
}

static coffer_status fetch_declare(fetch_job *job, fetch_file *file, size_t shard, coffer_error *err)
{
    const coffer_table *table = file->shard->table;
    coffer_status status = coffer_header_new(&file->header, job->allocator, err);
    coffer_pair pair;
    for (size_t i = 0; status == COFFER_OK && coffer_table_metadata_at(table, i, &pair); i++) {
        status = coffer_header_set_metadata(file->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
    }
    const size_t first = fetch_index_of(job, shard, 0);
    for (size_t k = 0; status == COFFER_OK && k < coffer_table_count(table); k++) {
        const coffer_tensor *tensor = coffer_table_at(table, k);
        if (job->wanted[first + k]) {
            status = coffer_header_add(file->header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape,
                                       tensor->rank, err);
        }
    }
    return status;
}

/* A move that goes on where the one before it ended, there and here, becomes a part of it. */
static void fetch_add_move(fetch_file *file, uint64_t from, uint64_t to, uint64_t size)
{
    coffer__move *next = file->moves + file->move_count;
    if (file->move_count > 0 && next[-1].from + next[-1].size == from && next[-1].to + next[-1].size == to) {
        next[-1].size += size;
    } else if (size > 0) {
        *next = (coffer__move){ file->source, from, to, size };
        file->move_count++;
    }
}

static coffer_status fetch_allocate_moves(const fetch_job *job, fetch_file *file, size_t count, coffer_error *err)
{
    file->move_room = count + 1;
    file->moves = coffer__alloc(job->allocator, file->move_room * sizeof *file->moves);
    return file->moves != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
}

static coffer_status fetch_plan_some(fetch_job *job, fetch_file *file, size_t shard, coffer_error *err)
{
    const coffer_table *built = NULL;
    const void *head = NULL;
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    const coffer_table *table = file->shard->table;
    const bool bintensors = coffer_table_format(table) != COFFER_FORMAT_SAFETENSORS;
    options.format = bintensors ? COFFER_FORMAT_BINTENSORS : COFFER_FORMAT_SAFETENSORS;
    coffer_status status = fetch_declare(job, file, shard, err);
    if (status == COFFER_OK) {
        status = coffer_header_build(file->header, &options, &head, &file->head_size, &built, err);
    }
    if (status == COFFER_OK) {
        status = fetch_allocate_moves(job, file, coffer_table_count(built), err);
    }
    for (size_t k = 0; status == COFFER_OK && k < coffer_table_count(built); k++) {
        const coffer_tensor *to = coffer_table_at(built, k);
        const coffer_tensor *from = coffer_table_find(table, to->name, to->name_len);
        fetch_add_move(file, from->offset, to->offset, to->size);
    }
    file->head = head;
    file->size = status == COFFER_OK ? file->head_size + coffer_table_data_size(built) : 0;
    return status;
}

static bool fetch_wants(const fetch_job *job, size_t shard)
{
    const size_t first = fetch_index_of(job, shard, 0);
    bool wants = job->wanted == NULL;
    for (size_t k = 0; !wants && k < coffer_table_count(job->model->shards[shard].table); k++) {
        wants = job->wanted[first + k];
    }
    return wants;
}

/* The file as it is, with one move. */
static coffer_status fetch_plan_all(fetch_job *job, fetch_file *file, coffer_error *err)
{
    const coffer_status status = fetch_allocate_moves(job, file, 1, err);
    if (status == COFFER_OK) {
        file->size = file->source->size;
        fetch_add_move(file, 0, 0, file->size);
    }
    return status;
}

static coffer_status fetch_plan_file(fetch_job *job, size_t shard, coffer_error *err)
{
    fetch_file *file = &job->files[job->file_count++];
    file->shard = &job->model->shards[shard];
    file->source = &file->shard->source;
    file->path = file->shard->path;
    const coffer_status status = fetch_target(job, file->path, &file->target, err);
    if (status != COFFER_OK) {
        return status;
    }
    return job->wanted != NULL ? fetch_plan_some(job, file, shard, err) : fetch_plan_all(job, file, err);
}

/* ---- beside the tensors ------------------------------------------------------------------------------------------ */

static coffer_status fetch_plan_beside(fetch_job *job, coffer_error *err)
{
    const coffer__beside_file *beside = NULL;
    coffer_status status = coffer__beside_open(&job->beside, job->model, job->options, err);
    for (size_t i = 0; status == COFFER_OK && (beside = coffer__beside_at(job->beside, i)) != NULL; i++) {
        if (!beside->there) {
            continue;
        }
        fetch_file *file = &job->files[job->file_count++];
        file->source = &beside->source;
        file->path = beside->name;
        status = fetch_target(job, beside->name, &file->target, err);
        status = status == COFFER_OK ? fetch_plan_all(job, file, err) : status;
    }
    return status;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* Text that is measured first (`out` NULL), and then written. */
static size_t fetch_put(char *out, size_t at, const char *text, size_t text_len)
{
    if (out != NULL) {
        memcpy(out + at, text, text_len);
    }
    return at + text_len;
}

static const char *fetch_name(const fetch_file *file)
{
    return file->target.text + coffer__path_name_at(file->target.text);
}

static size_t fetch_put_weights(const fetch_job *job, char *out, size_t at)
{
    bool first = true;
    for (size_t f = 0; f < job->file_count && job->files[f].shard != NULL; f++) {
        const fetch_file *file = &job->files[f];
        const size_t shard = (size_t)(file->shard - job->model->shards);
        const size_t before = fetch_index_of(job, shard, 0);
        const char *name = fetch_name(file);
        for (size_t k = 0; k < coffer_table_count(file->shard->table); k++) {
            const coffer_tensor *tensor = coffer_table_at(file->shard->table, k);
            if (job->wanted != NULL && !job->wanted[before + k]) {
                continue;
            }
            at = fetch_put(out, at, first ? "\n    " : ",\n    ", first ? 5 : 6);
            at += coffer__json_write_string(out == NULL ? NULL : out + at, tensor->name, tensor->name_len);
            at = fetch_put(out, at, ": ", 2);
            at += coffer__json_write_string(out == NULL ? NULL : out + at, name, strlen(name));
            first = false;
        }
    }
    return at;
}

/* What the model's index has as metadata, with the size that its tensors have now. */
static size_t fetch_put_metadata(const coffer__several *several, uint64_t total, char *out, size_t at)
{
    char digits[20];
    const size_t digits_len = coffer__write_u64(digits, total);
    const char *text = several->metadata;
    const size_t len = several->metadata_len;
    if (several->total_size_len > 0) {
        const size_t behind = several->total_size_from + several->total_size_len;
        at = fetch_put(out, at, text, several->total_size_from);
        at = fetch_put(out, at, digits, digits_len);
        return fetch_put(out, at, text + behind, len - behind);
    }
    size_t rest = 1; /* behind the brace, and what space follows it */
    while (rest < len && (text[rest] == ' ' || text[rest] == '\n' || text[rest] == '\t' || text[rest] == '\r')) {
        rest++;
    }
    at = fetch_put(out, at, "{\"total_size\": ", 15);
    at = fetch_put(out, at, digits, digits_len);
    if (rest >= len || text[rest] == '}') {
        return fetch_put(out, at, "}", 1);
    }
    at = fetch_put(out, at, ", ", 2);
    return fetch_put(out, at, text + rest, len - rest);
}

static size_t fetch_put_index(const fetch_job *job, char *out)
{
    static const char begin[] = "{\n  \"metadata\": ";
    static const char middle[] = ",\n  \"weight_map\": {";
    static const char end[] = "\n  }\n}\n";
    uint64_t total = 0;
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        total += job->wanted == NULL || job->wanted[i] ? coffer_at(job->model, i)->size : 0;
    }
    size_t at = fetch_put(out, 0, begin, sizeof begin - 1);
    at = fetch_put_metadata(job->model->several, total, out, at);
    at = fetch_put(out, at, middle, sizeof middle - 1);
    at = fetch_put_weights(job, out, at);
    return fetch_put(out, at, end, sizeof end - 1);
}

/* PREFIX.safetensors.index.json of PREFIX-00001-of-00002.safetensors; of other names model.safetensors.index.json. */
static coffer_status fetch_index_target(const fetch_job *job, coffer__path *target, coffer_error *err)
{
    static const char suffix[] = ".safetensors.index.json";
    const char *first = fetch_name(&job->files[0]);
    const char *of = strstr(first, "-of-");
    size_t len = of == NULL ? 0 : (size_t)(of - first);
    while (len > 0 && first[len - 1] >= '0' && first[len - 1] <= '9') {
        len--;
    }
    coffer__path name = { "" };
    if (len > 1 && first[len - 1] == '-') {
        (void)coffer__text_append(name.text, sizeof name.text, first, len - 1);
    } else {
        (void)coffer__text_append(name.text, sizeof name.text, "model", 5);
    }
    (void)coffer__text_append(name.text, sizeof name.text, suffix, sizeof suffix - 1);
    return fetch_target(job, name.text, target, err);
}

static coffer_status fetch_plan_index(fetch_job *job, coffer_error *err)
{
    job->index_size = fetch_put_index(job, NULL);
    job->index = coffer__alloc(job->allocator, job->index_size);
    if (job->index == NULL) {
        return fetch_no_memory(err);
    }
    (void)fetch_put_index(job, job->index);
    fetch_file *file = &job->files[job->file_count];
    const coffer_status status = fetch_index_target(job, &file->target, err);
    file->head = (const uint8_t *)job->index;
    file->head_size = file->size = job->index_size;
    job->file_count++;
    return status;
}

static coffer_status fetch_plan(fetch_job *job, coffer_error *err)
{
    job->file_room = job->model->shard_count + COFFER__BESIDE_MOST + 1;
    job->files = coffer__alloc_zeroed(job->allocator, job->file_room * sizeof *job->files);
    if (job->files == NULL) {
        return fetch_no_memory(err);
    }
    for (size_t i = 0; i < job->file_room; i++) {
        job->files[i].part.fd = -1;
    }
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < job->model->shard_count; i++) {
        status = fetch_wants(job, i) ? fetch_plan_file(job, i, err) : COFFER_OK;
    }
    if (status == COFFER_OK && job->file_count > 0 && job->model->named_whole) {
        status = fetch_plan_beside(job, err);
    }
    if (status == COFFER_OK && job->file_count > 0 && job->model->several != NULL) {
        status = fetch_plan_index(job, err);
    }
    return status;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* A number that two plans of the same file do not share by chance: FNV-1a of the head. Of a whole file it is that of nothing. */
static uint64_t fetch_plan_number(const fetch_file *file)
{
    uint64_t number = UINT64_C(0xCBF29CE484222325);
    for (uint64_t i = 0; i < file->head_size; i++) {
        number = (number ^ file->head[i]) * UINT64_C(0x100000001B3);
    }
    return number;
}

/* How many rows the bytes from `begin` to `end` of the file take; stored in `rows` where that is not NULL. */
static size_t fetch_rows(const fetch_file *file, uint64_t begin, uint64_t end, uint8_t *to, coffer__row *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < file->move_count; i++) {
        const coffer__move *move = &file->moves[i];
        const uint64_t low = move->to > begin ? move->to : begin;
        const uint64_t high = move->to + move->size < end ? move->to + move->size : end;
        if (low < high && rows != NULL) {
            uint8_t *place = to + (size_t)(low - begin);
            rows[count] = (coffer__row){
                .source = move->source, .offset = move->from + (low - move->to), .size = high - low, .to = place
            };
        }
        count += low < high;
    }
    return count;
}

/* The pieces of one batch, each with its place in the buffer. */
typedef struct fetch_batch {
    uint64_t pieces[FETCH_BATCH_PIECES];
    size_t count;
    uint64_t size;
} fetch_batch;

static void fetch_choose(const fetch_file *file, uint64_t *next, fetch_batch *batch)
{
    *batch = (fetch_batch){ .count = 0 };
    for (; *next < file->part.piece_count && batch->count < FETCH_BATCH_PIECES; (*next)++) {
        if (file->part.done[*next] != 1) {
            batch->pieces[batch->count++] = *next;
            batch->size += coffer__part_piece_size(&file->part, *next);
        }
    }
}

static int fetch_progress(void *ctx, uint64_t done, uint64_t total)
{
    const fetch_job *job = ctx;
    (void)total;
    return job->options->progress(job->options->progress_ctx, job->done + done, job->total);
}

static coffer_status fetch_transfer(fetch_job *job, const fetch_file *file, const coffer__row *rows, size_t count,
                                    coffer_error *err)
{
    const coffer__transfer_options transfer = {
        .allocator = job->allocator,
        .progress = job->options->progress == NULL ? NULL : fetch_progress,
        .progress_ctx = job,
        .threads = job->options->threads,
    };
    const coffer_status status = coffer__transfer(rows, count, &transfer, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, file->path);
}

/* Fills the buffer with the pieces of a batch. */
static coffer_status fetch_fill(fetch_job *job, const fetch_file *file, const fetch_batch *batch, coffer_error *err)
{
    size_t count = 0;
    for (size_t pass = 0; pass < 2; pass++) {
        coffer__row *rows = NULL;
        const size_t room = count + 1;
        if (pass == 1 && (rows = coffer__alloc(job->allocator, room * sizeof *rows)) == NULL) {
            return fetch_no_memory(err);
        }
        uint8_t *to = job->buffer;
        count = 0;
        for (size_t i = 0; i < batch->count; i++) {
            const uint64_t begin = batch->pieces[i] * COFFER__PART_PIECE;
            const uint64_t size = coffer__part_piece_size(&file->part, batch->pieces[i]);
            if (pass == 1 && begin < file->head_size) {
                const uint64_t left = file->head_size - begin;
                memcpy(to, file->head + (size_t)begin, (size_t)(left < size ? left : size));
            }
            count += fetch_rows(file, begin, begin + size, to, rows == NULL ? NULL : rows + count);
            to += (size_t)size;
        }
        if (pass == 1) {
            const coffer_status status = count == 0 ? COFFER_OK : fetch_transfer(job, file, rows, count, err);
            coffer__free(job->allocator, rows, room * sizeof *rows);
            return status;
        }
    }
    return COFFER_OK;
}

static coffer_status fetch_file_pieces(fetch_job *job, fetch_file *file, coffer_error *err)
{
    fetch_batch batch;
    coffer_status status = COFFER_OK;
    for (uint64_t next = 0; status == COFFER_OK && next < file->part.piece_count;) {
        fetch_choose(file, &next, &batch);
        status = batch.count == 0 ? COFFER_OK : fetch_fill(job, file, &batch, err);
        const uint8_t *from = job->buffer;
        for (size_t i = 0; status == COFFER_OK && i < batch.count; i++) {
            status = coffer__part_write(&file->part, batch.pieces[i], from, err);
            from += (size_t)coffer__part_piece_size(&file->part, batch.pieces[i]);
        }
        job->done += batch.size;
    }
    return status;
}

static coffer_status fetch_open_parts(fetch_job *job, coffer_error *err)
{
    for (size_t i = 0; i < job->file_count; i++) {
        fetch_file *file = &job->files[i];
        const char *validator = file->source == NULL ? "" : coffer__source_validator(file->source);
        const coffer_status status = coffer__part_open(&file->part, &file->target, file->size, validator,
                                                       fetch_plan_number(file), job->allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
        job->total += file->size;
        for (uint64_t piece = 0; piece < file->part.piece_count; piece++) {
            job->done += file->part.done[piece] == 1 ? coffer__part_piece_size(&file->part, piece) : 0;
        }
    }
    return COFFER_OK;
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static coffer_status fetch_hash(fetch_job *job, const fetch_file *file, coffer_hasher *hasher, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t at = 0; status == COFFER_OK && at < file->size;) {
        const uint64_t left = file->size - at;
        const size_t size = left < job->buffer_size ? (size_t)left : job->buffer_size;
        size_t got = 0;
        const int os_error = coffer__os_read_at(file->part.fd, at, job->buffer, size, &got);
        if (os_error != 0 || got != size) {
            return coffer__trouble(err, "read what was fetched", file->part.name.text, os_error);
        }
        status = coffer_hasher_update(hasher, job->buffer, size, err);
        at += size;
    }
    return status;
}

/* Compares a whole file with the SHA-256 that the server states, if it states one and it can be computed here. */
static coffer_status fetch_verify(fetch_job *job, fetch_file *file, coffer_error *err)
{
    uint8_t stated[32];
    uint8_t digest[32] = { 0 };
    coffer_hasher *hasher = NULL;
    const bool is_whole = file->source != NULL && file->head_size == 0;
    if (!is_whole || !coffer__source_stated_sha256(file->source, stated) ||
        coffer_hasher_new(&hasher, COFFER_SHA256, job->allocator, NULL) != COFFER_OK) {
        return COFFER_OK;
    }
    coffer_status status = fetch_hash(job, file, hasher, err);
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest, sizeof digest, err);
    }
    coffer_hasher_free(hasher);
    if (status != COFFER_OK || memcmp(stated, digest, sizeof digest) == 0) {
        return status;
    }
    coffer__part_remove(&file->part);
    coffer__fail(err, COFFER_ERR_ANSWER,
                 "what came is not what the server states: the SHA-256 of the whole is another one; it was removed, so "
                 "try again");
    return coffer__fail_path(err, COFFER_ERR_ANSWER, file->path);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status fetch_publish(fetch_job *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        status = fetch_verify(job, &job->files[i], err);
    }
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        status = coffer__part_finish(&job->files[i].part, err);
    }
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        status = coffer__part_publish(&job->files[i].part, err);
    }
    return status;
}

static coffer_status fetch_run(fetch_job *job, coffer_error *err)
{
    coffer_status status = fetch_plan(job, err);
    if (status == COFFER_OK && job->file_count == 0) {
        return coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor is to be fetched");
    }
    status = status == COFFER_OK ? fetch_open_parts(job, err) : status;
    if (status != COFFER_OK) {
        return status;
    }
    job->buffer_size = (size_t)(FETCH_BATCH_PIECES * COFFER__PART_PIECE);
    job->buffer_size = job->total < job->buffer_size ? (size_t)job->total + 1 : job->buffer_size;
    job->buffer = coffer__alloc(job->allocator, job->buffer_size);
    if (job->buffer == NULL) {
        return fetch_no_memory(err);
    }
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        status = fetch_file_pieces(job, &job->files[i], err);
    }
    return status == COFFER_OK ? fetch_publish(job, err) : status;
}

static void fetch_free(fetch_job *job)
{
    for (size_t i = 0; job->files != NULL && i < job->file_count; i++) {
        fetch_file *file = &job->files[i];
        coffer__part_close(&file->part, job->allocator);
        coffer_header_free(file->header);
        coffer__free(job->allocator, file->moves, file->move_room * sizeof *file->moves);
    }
    coffer__free(job->allocator, job->files, job->file_room * sizeof *job->files);
    coffer__beside_close(job->beside);
    coffer__free(job->allocator, job->index, job->index_size);
    coffer__free(job->allocator, job->buffer, job->buffer_size);
}

coffer_status coffer_fetch(const coffer *model, const bool *wanted, const char *folder,
                           const coffer_fetch_options *options, coffer_error *err)
{
    coffer_fetch_options known;
    if (model == NULL || folder == NULL || model->shards[0].path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "what is fetched is a model that was opened by path or URL, into a folder");
    }
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    fetch_job job = {
        .model = model, .allocator = &model->allocator, .options = &known, .wanted = wanted, .folder = folder
    };
    status = fetch_run(&job, err);
    fetch_free(&job);
    return status;
}
