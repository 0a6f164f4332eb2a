/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SHA-256 that the Hub stated of a file, which its tools keep: huggingface_hub writes the commit, the digest (of files in
 * Git LFS; of others a digest of Git's) and a time as three lines of .cache/huggingface/download/NAME.metadata, and in its
 * cache a file is a link to blobs/DIGEST.
 */
#include "cli_digest.h"
#include "cli_interrupt.h"
#include "cli_parallel.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHA256_DIGITS 64
#define HUB_DOWNLOADS ".cache/huggingface/download"
#define METADATA_MAX ((size_t)4096)

/* A file whose digest is known, and what became of it. */
typedef struct hub_file {
    const char *name;
    char *path;
    char wanted[SHA256_DIGITS + 1];
    cli_digest digest;
    coffer_status status;
    coffer_error err;
} hub_file;

typedef struct hub_run {
    const doctor_folder *folder;
    hub_file *files;
    size_t count;
    cli_progress progress;
} hub_run;

static bool is_sha256(const char *text, size_t len)
{
    return len == SHA256_DIGITS && strspn(text, "0123456789abcdef") >= SHA256_DIGITS;
}

/* From the second line of the metadata; false when there is none. */
static bool read_metadata(const doctor_folder *folder, const char *name, char wanted[SHA256_DIGITS + 1])
{
    char path[600];
    cli_input text;
    doctor_entry file = { .type = DOCTOR_FILE };
    doctor_folder quiet = { .doctor = folder->doctor, .path = folder->path, .name = folder->name, .reported = true };
    snprintf(path, sizeof path, HUB_DOWNLOADS "/%.400s.metadata", name);
    file.name = path;
    quiet.entries = &file;
    quiet.count = 1;
    if (!doctor_read(&quiet, path, METADATA_MAX, &text)) {
        return false;
    }
    const char *line = strchr(text.bytes, '\n');
    const size_t len = line != NULL ? strcspn(line + 1, "\r\n") : 0;
    const bool known = line != NULL && is_sha256(line + 1, len);
    if (known) {
        snprintf(wanted, SHA256_DIGITS + 1, "%s", line + 1);
    }
    free(text.bytes);
    return known;
}

/* From the name of the blob that a link leads to. */
static bool read_blob(const char *path, char wanted[SHA256_DIGITS + 1])
{
    char *target = realpath(path, NULL);
    const char *slash = target != NULL ? strrchr(target, '/') : NULL;
    const bool known = slash != NULL && slash - target > 6 && strncmp(slash - 6, "/blobs", 6) == 0 &&
                       is_sha256(slash + 1, strlen(slash + 1));
    if (known) {
        snprintf(wanted, SHA256_DIGITS + 1, "%s", slash + 1);
    }
    free(target);
    return known;
}

static void hash_file(void *ctx, size_t job)
{
    hub_run *run = ctx;
    hub_file *file = &run->files[job];
    file->status = cli_digest_file(file->path, COFFER_SHA256, &run->progress, &file->digest, &file->err);
}

static void judge_file(void *ctx, size_t job)
{
    char has[2 * COFFER_LARGEST_DIGEST_SIZE + 1];
    hub_run *run = ctx;
    const hub_file *file = &run->files[job];
    if (file->status == COFFER_ERR_CANCELLED) {
        return;
    }
    if (file->status != COFFER_OK) {
        char *below = doctor_name(run->folder, file->name);
        if (below != NULL) {
            (void)doctor_add_failure(run->folder->doctor, "unreadable", below, &file->err);
        }
        free(below);
        return;
    }
    cli_digest_text(COFFER_SHA256, file->digest.bytes, has);
    if (strcmp(has, file->wanted) != 0) {
        doctor_add_in(
            run->folder, DOCTOR_ERROR, "hub_digest", file->name,
            "the file is not the one that the Hub has: its SHA-256 begins %.12s, and that of the Hub %.12s; get "
            "the file again",
            has, file->wanted);
    }
}

static void check_digests(hub_run *run, uint64_t size)
{
    const cli_jobs jobs = { hash_file, judge_file, run };
    if (run->count == 0) {
        return;
    }
    if (!run->folder->doctor->data) {
        doctor_add_in(run->folder, DOCTOR_NOTE, "hub_recorded", "",
                      "the Hub's SHA-256 of %zu file%s is recorded, and was not verified: --data does that", run->count,
                      run->count == 1 ? "" : "s");
        return;
    }
    cli_progress_begin(&run->progress, run->folder->doctor->app, "hashing", size);
    cli_parallel(&jobs, run->count, cli_processors());
    cli_progress_finish(&run->progress);
}

/* Downloads that the Hub's tools have not ended. */
static void check_incomplete(const doctor_folder *folder)
{
    struct dirent **entries = NULL;
    char *path = doctor_path(folder, HUB_DOWNLOADS);
    const int count = path != NULL ? scandir(path, &entries, NULL, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        char name[600];
        snprintf(name, sizeof name, HUB_DOWNLOADS "/%.400s", entries[i]->d_name);
        if (cli_ends_in(name, ".incomplete")) {
            doctor_add_in(folder, DOCTOR_WARNING, "leftover", name,
                          "a download was interrupted; the same download resumes it, or the file is no longer needed");
        }
        free(entries[i]);
    }
    free(entries);
    free(path);
}

void doctor_check_hub(const doctor_folder *folder)
{
    uint64_t size = 0;
    hub_run run = { .folder = folder };
    run.files = calloc(folder->count + 1, sizeof *run.files);
    folder->doctor->failed = folder->doctor->failed || run.files == NULL;
    for (size_t i = 0; i < folder->count && run.files != NULL; i++) {
        const doctor_entry *entry = &folder->entries[i];
        hub_file *file = &run.files[run.count];
        if (entry->type != DOCTOR_FILE || (folder->only != NULL && strcmp(folder->only, entry->name) != 0)) {
            continue;
        }
        file->name = entry->name;
        file->path = doctor_path(folder, entry->name);
        if (file->path != NULL && ((entry->link && read_blob(file->path, file->wanted)) ||
                                   read_metadata(folder, entry->name, file->wanted))) {
            size += entry->size;
            run.count++;
        } else {
            free(file->path);
            file->path = NULL;
        }
    }
    if (folder->only == NULL) {
        check_incomplete(folder);
    }
    check_digests(&run, size);
    for (size_t i = 0; i < run.count; i++) {
        free(run.files[i].path);
    }
    free(run.files);
}
