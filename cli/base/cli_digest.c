/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of whole files: see cli_digest.h for the contract. */
#include "cli_digest.h"

#include "cli_interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_SIZE ((size_t)256 << 10) /* bytes that are hashed while they are still in the processor's cache */
#define BLOCK_ALIGNMENT 4096

static coffer_status digest_failed(coffer_error *err, coffer_status code, int error, const char *what)
{
    *err = (coffer_error){ .code = code, .os_error = error, .offset = COFFER_NO_OFFSET };
    if (error != 0) {
        snprintf(err->message, sizeof err->message, "%s: %s (errno %d)", what, strerror(error), error);
    } else {
        snprintf(err->message, sizeof err->message, "%s", what);
    }
    return code;
}

static int64_t nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int64_t cli_now(void)
{
    struct timespec now = { .tv_sec = 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(&now);
}

static cli_identity identity_of(const struct stat *about)
{
    if (!S_ISREG(about->st_mode)) {
        return (cli_identity){ .size = 0 };
    }
    return (cli_identity){ (uint64_t)about->st_dev, (uint64_t)about->st_ino, (uint64_t)about->st_size,
                           nanoseconds(&about->st_mtim), nanoseconds(&about->st_ctim) };
}

bool cli_identify(const char *path, cli_identity *identity)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return false;
    }
    *identity = identity_of(&about);
    return true;
}

bool cli_same_identity(const cli_identity *a, const cli_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified == b->modified &&
           a->changed == b->changed;
}

/* Reads to the end. */
static coffer_status digest_bytes(int fd, coffer_hasher *hasher, void *block, cli_progress *progress,
                                  cli_digest *digest, coffer_error *err)
{
    for (;;) {
        const ssize_t got = read(fd, block, BLOCK_SIZE);
        if (got < 0 && (errno != EINTR || cli_interrupted())) {
            return digest_failed(err, errno == EINTR ? COFFER_ERR_CANCELLED : COFFER_ERR_IO, errno,
                                 "cannot read the file");
        }
        if (got == 0) {
            return COFFER_OK;
        }
        const size_t size = got > 0 ? (size_t)got : 0;
        const coffer_status status = coffer_hasher_update(hasher, block, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        digest->size += size;
        if (progress != NULL && cli_progress_add(progress, size) != 0) {
            return digest_failed(err, COFFER_ERR_CANCELLED, 0, "cancelled");
        }
    }
}

static coffer_status digest_open(int fd, coffer_hasher *hasher, void *block, cli_progress *progress, cli_digest *digest,
                                 coffer_error *err)
{
    struct stat before;
    struct stat after;
    if (fstat(fd, &before) != 0) {
        return digest_failed(err, COFFER_ERR_IO, errno, "cannot stat the file");
    }
    if (S_ISDIR(before.st_mode)) {
        return digest_failed(err, COFFER_ERR_DIRECTORY, 0, "is a folder, not a file");
    }
    digest->identity = identity_of(&before);
    digest->begun = cli_now();
    const coffer_status status = digest_bytes(fd, hasher, block, progress, digest, err);
    if (status != COFFER_OK || !S_ISREG(before.st_mode)) {
        return status;
    }
    const cli_identity now = fstat(fd, &after) == 0 ? identity_of(&after) : (cli_identity){ .size = 0 };
    return cli_same_identity(&digest->identity, &now)
               ? COFFER_OK
               : digest_failed(err, COFFER_ERR_CHANGED, 0, "the file was written to while it was read; read it again");
}

coffer_status cli_digest_file(const char *path, coffer_algorithm algorithm, cli_progress *progress, cli_digest *digest,
                              coffer_error *err)
{
    const bool is_input = strcmp(path, "-") == 0;
    *digest = (cli_digest){ .size = 0 };
    const int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        const coffer_status code = errno == ENOENT  ? COFFER_ERR_NOT_FOUND
                                   : errno == EINTR ? COFFER_ERR_CANCELLED /* of a pipe that nobody writes to */
                                                    : COFFER_ERR_IO;
        return digest_failed(err, code, errno, "cannot open the file");
    }
    coffer_hasher *hasher = NULL;
    void *block = aligned_alloc(BLOCK_ALIGNMENT, BLOCK_SIZE);
    coffer_status status = block != NULL ? coffer_hasher_new(&hasher, algorithm, coffer_libc_allocator(), err)
                                         : digest_failed(err, COFFER_ERR_MEMORY, 0, "out of memory");
    if (status == COFFER_OK) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        status = digest_open(fd, hasher, block, progress, digest, err);
    }
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest->bytes, coffer_algorithm_digest_size(algorithm), err);
    }
    coffer_hasher_free(hasher);
    free(block);
    if (!is_input) {
        close(fd);
    }
    return status;
}

bool cli_same_digest(coffer_algorithm algorithm, const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, coffer_algorithm_digest_size(algorithm)) == 0;
}

void cli_digest_text(coffer_algorithm algorithm, const uint8_t *digest, char text[2 * COFFER_LARGEST_DIGEST_SIZE + 1])
{
    const size_t size = coffer_algorithm_digest_size(algorithm);
    for (size_t i = 0; i < size; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    text[2 * size] = '\0';
}
