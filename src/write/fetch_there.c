/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what would be fetched lies in the folder already. That is shown for every file: by the SHA-256 that the server
 * states of it, or by its bytes, where these are few or near. What cannot be shown counts as not there, and a file of
 * that name is then in the way as any other.
 */
#include "alloc.h"
#include "fetch.h"
#include "transfer.h"

#include <string.h>

#define THERE_PIECE ((size_t)1 << 18)
#define THERE_MAX_FAR ((uint64_t)8 << 20) /* bytes of a file that are read from a server only to compare them */

/* Whether a file has these bytes at a place. `capacity` has THERE_PIECE bytes. */
static bool there_has(int fd, uint64_t at, const uint8_t *bytes, uint64_t size, uint8_t *capacity)
{
    uint64_t done = 0;
    bool same = true;
    while (same && done < size) {
        size_t got = 0;
        const size_t step = size - done < THERE_PIECE ? (size_t)(size - done) : THERE_PIECE;
        same = coffer__os_read_at(fd, at + done, capacity, step, &got) == 0 && got == step &&
               memcmp(capacity, bytes + done, step) == 0;
        done += step;
    }
    return same;
}

/* Compares a file with its plan: the head, and what comes from the source. `capacity` has twice THERE_PIECE bytes. */
static bool there_same_bytes(const coffer__fetch_file *file, int fd, uint8_t *capacity)
{
    bool same = there_has(fd, 0, file->head, file->head_size, capacity);
    for (size_t i = 0; same && i < file->move_count; i++) {
        const coffer__fetch_move *move = &file->moves[i];
        for (uint64_t done = 0; same && done < move->size; done += THERE_PIECE) {
            const uint64_t left = move->size - done;
            const size_t step = left < THERE_PIECE ? (size_t)left : THERE_PIECE;
            same =
                coffer__source_read(file->source, move->from + done, capacity + THERE_PIECE, step, NULL) == COFFER_OK &&
                there_has(fd, move->to + done, capacity + THERE_PIECE, step, capacity);
        }
    }
    return same;
}

static bool there_same_digest(coffer__download *job, coffer__fetch_file *file, int fd)
{
    coffer__byte_source source;
    const coffer__transfer_options options = { .allocator = job->allocator };
    bool same = coffer__source_fd(&source, fd, NULL) == COFFER_OK;
    if (same) {
        const coffer__transfer_op row = {
            .source = &source, .size = file->size, .algorithm = COFFER_SHA256, .digest = file->found
        };
        same = coffer__transfer(&row, 1, &options, NULL) == COFFER_OK &&
               memcmp(file->found, file->stated, sizeof file->found) == 0;
        source.ops->close(&source);
    }
    return same;
}

static bool there_is_same(coffer__download *job, coffer__fetch_file *file, int fd)
{
    uint8_t *capacity = NULL;
    const bool is_whole = file->head_size == 0;
    const bool near_or_small = !file->source->is.far || file->size <= THERE_MAX_FAR;
    if (is_whole && file->source->is.far && coffer__source_stated_sha256(file->source, file->stated)) {
        return there_same_digest(job, file, fd);
    }
    capacity = near_or_small ? coffer__alloc(job->allocator, 2 * THERE_PIECE) : NULL;
    const bool same = capacity != NULL && there_same_bytes(file, fd, capacity);
    coffer__free(job->allocator, capacity, 2 * THERE_PIECE);
    return same;
}

/* A file of another size is not looked at, nor is a link. */
static bool there_is_file(coffer__download *job, coffer__fetch_file *file)
{
    coffer__os_info info;
    int fd = -1;
    const bool fits = coffer__os_inspect(file->target.text, false, &info) == 0 && info.kind == COFFER__OS_REGULAR &&
                      info.size == file->size && coffer__os_open(file->target.text, COFFER__OS_READ, false, &fd) == 0;
    const bool same = fits && there_is_same(job, file, fd);
    if (fd >= 0) {
        (void)coffer__os_close(fd);
    }
    return same;
}

static bool there_is_index(const coffer__download *job)
{
    coffer__whole text;
    if (job->index == NULL) {
        return true;
    }
    if (coffer__model_dir_read(job->index_target.text, NULL, COFFER__INDEX_MAX_BYTES, job->allocator, &text, NULL) !=
        COFFER_OK) {
        return false;
    }
    const bool same = text.size == job->index_size && memcmp(text.bytes, job->index, text.size) == 0;
    coffer__whole_free(&text, job->allocator);
    return same;
}

/* The sizes of all are compared before any byte is read. */
bool coffer__fetch_is_there(coffer__download *job)
{
    coffer__os_info info;
    bool all = there_is_index(job);
    for (size_t i = 0; all && i < job->file_count; i++) {
        all = coffer__os_inspect(job->files[i].target.text, false, &info) == 0 && info.size == job->files[i].size;
    }
    for (size_t i = 0; all && i < job->file_count; i++) {
        all = there_is_file(job, &job->files[i]);
    }
    return all;
}
