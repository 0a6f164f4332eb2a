/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of what is fetched. A model that comes whole has the one that its publisher wrote, byte for byte, as signatures and
 * digests are of that; a selection, and files that had none, get one that is made here.
 */
#include "alloc.h"
#include "error.h"
#include "fetch.h"
#include "json.h"
#include "text.h"

#include <string.h>

/* Text that is measured first (`out` NULL), and then written. */
static size_t fetch_put(char *out, size_t at, const char *text, size_t text_len)
{
    if (out != NULL) {
        memcpy(out + at, text, text_len);
    }
    return at + text_len;
}

static const char *fetch_name(const coffer__fetch_file *file)
{
    return file->target.text + coffer__path_name_at(file->target.text);
}

static size_t fetch_put_weights(const coffer__fetch *job, char *out, size_t at)
{
    bool first = true;
    for (size_t f = 0; f < job->file_count && job->files[f].shard != NULL; f++) {
        const coffer__fetch_file *file = &job->files[f];
        const char *name = fetch_name(file);
        for (size_t k = 0; k < coffer_table_count(file->shard->table); k++) {
            const coffer_tensor *tensor = coffer_table_at(file->shard->table, k);
            if (job->wanted != NULL && !job->wanted[file->first + k]) {
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

/* The metadata's text between two places. Digests of the whole model are none of a part of it, so there null takes their place. */
static size_t fetch_put_text(const coffer__fetch *job, size_t from, size_t to, char *out, size_t at)
{
    const coffer__several *several = job->model->several;
    const bool is_part = job->wanted != NULL || job->model->shard_count < several->file_count;
    const size_t end = fetch_put(out, at, several->metadata + from, to - from);
    for (size_t i = 0; out != NULL && i < COFFER__INDEX_RECORDS; i++) {
        const coffer__index_span *span = &several->records[i];
        if (is_part && span->len >= 4 && span->from >= from && span->from < to) {
            char *blank = out + at + (span->from - from);
            memset(blank, ' ', span->len);
            memcpy(blank, "null", 4);
        }
    }
    return end;
}

/* What the model's index has as metadata, with the size that its tensors have now. */
static size_t fetch_put_metadata(const coffer__fetch *job, uint64_t total, char *out, size_t at)
{
    const coffer__several *several = job->model->several;
    char digits[20];
    const size_t digits_len = coffer__write_u64(digits, total);
    const char *text = several->metadata;
    const size_t len = several->metadata_len;
    if (several->total_size_len > 0) {
        const size_t behind = several->total_size_from + several->total_size_len;
        at = fetch_put_text(job, 0, several->total_size_from, out, at);
        at = fetch_put(out, at, digits, digits_len);
        return fetch_put_text(job, behind, len, out, at);
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
    return fetch_put_text(job, rest, len, out, at);
}

static size_t fetch_put_index(const coffer__fetch *job, char *out)
{
    static const char begin[] = "{\n  \"metadata\": ";
    static const char middle[] = ",\n  \"weight_map\": {";
    static const char end[] = "\n  }\n}\n";
    uint64_t total = 0;
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        total += job->wanted == NULL || job->wanted[i] ? coffer_at(job->model, i)->size : 0;
    }
    size_t at = fetch_put(out, 0, begin, sizeof begin - 1);
    at = fetch_put_metadata(job, total, out, at);
    at = fetch_put(out, at, middle, sizeof middle - 1);
    at = fetch_put_weights(job, out, at);
    return fetch_put(out, at, end, sizeof end - 1);
}

/* PREFIX.safetensors.index.json of PREFIX-00001-of-00002.safetensors; of other names model.safetensors.index.json. */
static void fetch_index_name(const coffer__fetch *job, coffer__path *name)
{
    static const char suffix[] = ".safetensors.index.json";
    const char *first = fetch_name(&job->files[0]);
    const char *of = strstr(first, "-of-");
    size_t len = of == NULL ? 0 : (size_t)(of - first);
    while (len > 0 && first[len - 1] >= '0' && first[len - 1] <= '9') {
        len--;
    }
    const bool has_prefix = len > 1 && first[len - 1] == '-';
    (void)coffer__path_copy(name, "");
    (void)coffer__path_append(name, has_prefix ? first : "model", has_prefix ? len - 1 : 5);
    (void)coffer__path_append(name, suffix, sizeof suffix - 1);
}

coffer_status coffer__fetch_make_index(coffer__fetch *job, coffer__path *name, coffer_error *err)
{
    const coffer__several *several = job->model->several;
    if (job->wanted == NULL && several->index.bytes != NULL) {
        job->index = (const char *)several->index.bytes;
        job->index_size = several->index.size;
        return coffer__path_copy(name, several->index_path)
                   ? COFFER_OK
                   : coffer__fail(err, COFFER_ERR_IO, "the index's path is too long");
    }
    job->index_size = fetch_put_index(job, NULL);
    job->index_made = coffer__alloc(job->allocator, job->index_size);
    if (job->index_made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
    }
    (void)fetch_put_index(job, job->index_made);
    job->index = job->index_made;
    fetch_index_name(job, name);
    return COFFER_OK;
}
