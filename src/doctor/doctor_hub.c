/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SHA-256 that the Hub stated of a file, which its tools keep: huggingface_hub writes the commit, the digest (of files in
 * Git LFS; of others a digest of Git's) and a time as three lines of .cache/huggingface/download/NAME.metadata, and in its
 * cache a file is a link to blobs/DIGEST.
 */
#include "checkup.h"
#include "os.h"
#include "paths.h"
#include "source.h"
#include "text.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_DIGITS 64
#define HUB_DOWNLOADS ".cache/huggingface/download"
#define METADATA_MAX ((size_t)4096)

#define HASH_THREADS_MAX 16
#define HASH_BLOCK ((size_t)1 << 20)

/* A file whose digest is known, and what became of it. */
typedef struct hub_file {
    const char *name;
    char *path;
    char wanted[SHA256_DIGITS + 1];
    uint8_t digest[SHA256_DIGITS / 2];
    coffer_status status;
    coffer_error err;
} hub_file;

/* What the workers share: `next` under the pool's mutex. */
typedef struct hub_run {
    const coffer__doctor_folder *folder;
    hub_file *files;
    size_t count;
    size_t next;
} hub_run;

typedef struct hub_worker {
    coffer__thread_pool_worker base;
    hub_run *run;
    coffer_hasher *hasher;
    uint8_t *block;
} hub_worker;

static bool is_sha256(const char *text, size_t len)
{
    return len == SHA256_DIGITS && strspn(text, "0123456789abcdef") >= SHA256_DIGITS;
}

/* From the second line of the metadata; false when there is none. */
static bool read_hub_metadata(const coffer__doctor_folder *folder, const char *name, char wanted[SHA256_DIGITS + 1])
{
    char path[600];
    coffer__doctor_text text;
    coffer__doctor_entry file = { .type = COFFER__DOCTOR_FILE };
    coffer__doctor_folder quiet = {
        .doctor = folder->doctor, .path = folder->path, .name = folder->name, .reported = true
    };
    snprintf(path, sizeof path, HUB_DOWNLOADS "/%.400s.metadata", name);
    file.name = path;
    quiet.entries = &file;
    quiet.count = 1;
    if (!coffer__doctor_read(&quiet, path, METADATA_MAX, &text)) {
        return false;
    }
    const char *line = strchr(text.bytes, '\n');
    const size_t len = line != NULL ? strcspn(line + 1, "\r\n") : 0;
    const bool known = line != NULL && is_sha256(line + 1, len);
    if (known) {
        snprintf(wanted, SHA256_DIGITS + 1, "%s", line + 1);
    }
    coffer__block_free(text.bytes);
    return known;
}

/* From the name of the blob that a link leads to. */
static bool read_blob(const char *path, char wanted[SHA256_DIGITS + 1])
{
    char target[COFFER__PATH_SIZE];
    const char *slash = coffer__os_real_path(path, target, sizeof target) == 0 ? strrchr(target, '/') : NULL;
    const bool known = slash != NULL && slash - target > 6 && strncmp(slash - 6, "/blobs", 6) == 0 &&
                       is_sha256(slash + 1, strlen(slash + 1));
    if (known) {
        snprintf(wanted, SHA256_DIGITS + 1, "%s", slash + 1);
    }
    return known;
}

static coffer_status hash_source(hub_worker *worker, const coffer__byte_source *source, hub_file *file)
{
    coffer_status status = COFFER_OK;
    for (uint64_t at = 0; at < source->size && status == COFFER_OK; at += HASH_BLOCK) {
        const uint64_t left = source->size - at;
        const size_t size = left < HASH_BLOCK ? (size_t)left : HASH_BLOCK;
        status = coffer__source_read(source, at, worker->block, size, &file->err);
        status = status == COFFER_OK ? coffer_hasher_update(worker->hasher, worker->block, size, &file->err) : status;
        if (status == COFFER_OK && coffer__thread_pool_advance(&worker->base, size)) {
            return COFFER_ERR_CANCELLED;
        }
    }
    return status == COFFER_OK ? coffer_hasher_finish(worker->hasher, file->digest, sizeof file->digest, &file->err)
                               : status;
}

static void hash_file(hub_worker *worker, hub_file *file)
{
    coffer__byte_source source;
    file->status = coffer__source_path(&source, file->path, &file->err);
    if (file->status == COFFER_OK) {
        file->status = hash_source(worker, &source, file);
        source.ops->close(&source);
    }
}

static void hash_files(void *ctx)
{
    hub_worker *worker = ctx;
    hub_run *run = worker->run;
    coffer__mutex *mutex = &worker->base.thread_pool->mutex;
    while (!coffer__thread_pool_stop(&worker->base, 0)) {
        coffer__os_mutex_lock(mutex);
        hub_file *file = run->next < run->count ? &run->files[run->next++] : NULL;
        coffer__os_mutex_unlock(mutex);
        if (file == NULL) {
            return;
        }
        hash_file(worker, file);
    }
}

static void judge_file(const hub_run *run, const hub_file *file)
{
    char has[SHA256_DIGITS + 1];
    if (file->status != COFFER_OK) {
        char *below = coffer__doctor_name(run->folder, file->name);
        if (below != NULL) {
            (void)coffer__doctor_add_failure(run->folder->doctor, "unreadable", below, &file->err);
        }
        coffer__block_free(below);
        return;
    }
    for (size_t i = 0; i < sizeof file->digest; i++) {
        snprintf(has + 2 * i, 3, "%02x", file->digest[i]);
    }
    if (strcmp(has, file->wanted) != 0) {
        coffer__doctor_add_in(
            run->folder, COFFER_SEVERITY_ERROR, "hub_digest", file->name,
            "the file is not the one that the Hub has: its SHA-256 begins %.12s, and that of the Hub %.12s; get "
            "the file again",
            has, file->wanted);
    }
}

/* Opens what each worker needs; false with the first failure. */
static coffer_status open_workers(hub_worker *workers, hub_run *run, size_t count, coffer_error *err)
{
    coffer__checkup *d = run->folder->doctor;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        workers[i].run = run;
        workers[i].block = coffer__doctor_new(d, HASH_BLOCK);
        status = workers[i].block != NULL ? coffer_hasher_new(&workers[i].hasher, COFFER_SHA256, &d->allocator, err)
                                          : COFFER_ERR_MEMORY;
    }
    return status;
}

static void hash_and_judge(hub_run *run, uint64_t size)
{
    coffer_error err;
    hub_worker workers[HASH_THREADS_MAX] = { { .run = NULL } };
    coffer__checkup *d = run->folder->doctor;
    const size_t processors = coffer__os_processors();
    const size_t most = processors < HASH_THREADS_MAX ? processors : HASH_THREADS_MAX;
    const size_t count = run->count < most ? run->count : most;
    coffer__thread_pool pool = { .work = hash_files,
                                 .progress = d->options.progress,
                                 .progress_ctx = d->options.progress_ctx,
                                 .total = size,
                                 .err = &err };
    coffer_status status = open_workers(workers, run, count, &err);
    if (status == COFFER_OK) {
        coffer__doctor_begin_step(d, "hashing", size);
        status = coffer__thread_pool_run(&pool, workers, count, sizeof workers[0]);
        d->cancelled = d->cancelled || status == COFFER_ERR_CANCELLED;
    } else if (!d->failed) {
        (void)coffer__doctor_add_failure(d, "unreadable", "", &err);
    }
    for (size_t i = 0; i < run->count && status == COFFER_OK; i++) {
        judge_file(run, &run->files[i]);
    }
    for (size_t i = 0; i < count; i++) {
        coffer_hasher_free(workers[i].hasher);
        coffer__block_free(workers[i].block);
    }
}

static void check_digests(hub_run *run, uint64_t size)
{
    if (run->count == 0) {
        return;
    }
    coffer__doctor_count(run->folder->doctor, COFFER_DOCTOR_HUB_DIGESTS, run->folder->doctor->data, run->count);
    if (!run->folder->doctor->data) {
        coffer__doctor_add_in(run->folder, COFFER_SEVERITY_NOTE, "hub_recorded", "",
                              "the Hub's SHA-256 of %" PRIu64
                              " file%s is recorded, and was not verified: --data does that",
                              (uint64_t)run->count, run->count == 1 ? "" : "s");
        return;
    }
    hash_and_judge(run, size);
}

/* Downloads that the Hub's tools have not ended. */
static void check_incomplete(const coffer__doctor_folder *folder)
{
    coffer__doctor_folder downloads = { .doctor = folder->doctor, .name = HUB_DOWNLOADS };
    char *path = coffer__doctor_path(folder, HUB_DOWNLOADS);
    if (path == NULL || !coffer__doctor_is_folder(path)) {
        coffer__block_free(path);
        return;
    }
    downloads.path = path;
    const bool listed = coffer__doctor_list(&downloads, path);
    for (size_t i = 0; i < downloads.count && listed; i++) {
        char name[600];
        snprintf(name, sizeof name, HUB_DOWNLOADS "/%.400s", downloads.entries[i].name);
        if (coffer__text_has_ending(name, ".incomplete")) {
            coffer__doctor_add_in(
                folder, COFFER_SEVERITY_WARNING, "leftover", name,
                "a download was interrupted; the same download resumes it, or the file is no longer needed");
        }
    }
    coffer__doctor_unlist(&downloads);
    coffer__block_free(path);
}

void coffer__doctor_check_hub(const coffer__doctor_folder *folder)
{
    uint64_t size = 0;
    hub_run run = { .folder = folder };
    run.files = coffer__doctor_array(folder->doctor, folder->count + 1, sizeof *run.files);
    for (size_t i = 0; i < folder->count && run.files != NULL; i++) {
        const coffer__doctor_entry *entry = &folder->entries[i];
        hub_file *file = &run.files[run.count];
        if (entry->type != COFFER__DOCTOR_FILE || (folder->only != NULL && strcmp(folder->only, entry->name) != 0)) {
            continue;
        }
        file->name = entry->name;
        file->path = coffer__doctor_path(folder, entry->name);
        if (file->path != NULL && ((entry->link && read_blob(file->path, file->wanted)) ||
                                   read_hub_metadata(folder, entry->name, file->wanted))) {
            size += entry->size;
            run.count++;
        } else {
            coffer__block_free(file->path);
            file->path = NULL;
        }
    }
    if (folder->only == NULL) {
        check_incomplete(folder);
    }
    check_digests(&run, size);
    for (size_t i = 0; i < run.count; i++) {
        coffer__block_free(run.files[i].path);
    }
    coffer__block_free(run.files);
}
