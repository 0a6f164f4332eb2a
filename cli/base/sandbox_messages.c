/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes through a socket, whole: see sandbox_messages.h.
 *
 * Both ends use these functions, and the confined one may only read, write and allocate. A call
 * that was interrupted goes on, unless the user wants to end; a socket whose other end is gone
 * gives false. Nothing has a time limit: each end waits for the other, and notices when it is gone.
 */
#include "sandbox_messages.h"

#include "cli_interrupt.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* By write, and not by send, which the confined process does not have; so whoever starts it ignores SIGPIPE. */
static bool send_all(int socket, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = write(socket, bytes, size);
        if (sent < 0 && (errno != EINTR || cli_interrupted())) {
            return false;
        }
        bytes += sent > 0 ? (size_t)sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

bool sandbox_send(int socket, const void *bytes, size_t size)
{
    return size == 0 || send_all(socket, bytes, size);
}

bool sandbox_receive(int socket, void *bytes, size_t size)
{
    unsigned char *next = bytes;
    while (size > 0) {
        const ssize_t got = read(socket, next, size);
        if (got == 0 || (got < 0 && (errno != EINTR || cli_interrupted()))) {
            return false;
        }
        next += got > 0 ? (size_t)got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* One bit for each option that is true or false, as the struct of options may grow. */
static uint32_t wanted_flags(const coffer_import_options *options)
{
    return (options->skip_unsupported ? SANDBOX_WANTS_SKIP_UNSUPPORTED : 0u) |
           (options->strict ? SANDBOX_WANTS_STRICT : 0u) | (options->complex128 ? SANDBOX_WANTS_COMPLEX128 : 0u) |
           (options->allow_expand ? SANDBOX_WANTS_EXPAND : 0u) | (options->scan ? SANDBOX_WANTS_SCAN : 0u) |
           (options->raw_blocks ? SANDBOX_WANTS_RAW : 0u) | (options->packed ? SANDBOX_WANTS_PACKED : 0u) |
           (options->constants ? SANDBOX_WANTS_CONSTANTS : 0u);
}

/* Bytes of all patterns, each with its NUL. */
static uint64_t patterns_size(const coffer_import_options *options)
{
    uint64_t size = 0;
    for (size_t i = 0; i < options->select_count; i++) {
        size += strlen(options->select[i]) + 1;
    }
    return size;
}

static bool send_patterns(int socket, const coffer_import_options *options)
{
    for (size_t i = 0; i < options->select_count; i++) {
        if (!sandbox_send(socket, options->select[i], strlen(options->select[i]) + 1)) {
            return false;
        }
    }
    return true;
}

/* An argument of a command line is far shorter than 4 GiB, so 32 bits hold its size. */
bool sandbox_send_wants(int socket, uint64_t size, const char *path, const coffer_import_options *options)
{
    const char *root = options->root != NULL ? options->root : "";
    const char *prefix = options->strip_prefix != NULL ? options->strip_prefix : "";
    const sandbox_wants wants = { .size = size,
                                  .max_metadata = options->max_metadata,
                                  .ties = (int32_t)options->ties,
                                  .scalars = (int32_t)options->scalars,
                                  .bytes_as = (int32_t)options->bytes_as,
                                  .blocks_as = (int32_t)options->blocks_as,
                                  .flags = wanted_flags(options),
                                  .path_size = (uint32_t)strlen(path) + 1,
                                  .root_size = (uint32_t)strlen(root) + 1,
                                  .prefix_size = (uint32_t)strlen(prefix) + 1,
                                  .pattern_count = (uint32_t)options->select_count };
    const sandbox_message message = {
        .kind = SANDBOX_WANTS,
        .size = sizeof wants + (uint64_t)wants.path_size + wants.root_size + wants.prefix_size + patterns_size(options),
    };
    return sandbox_send(socket, &message, sizeof message) && sandbox_send(socket, &wants, sizeof wants) &&
           sandbox_send(socket, path, wants.path_size) && sandbox_send(socket, root, wants.root_size) &&
           sandbox_send(socket, prefix, wants.prefix_size) && send_patterns(socket, options);
}
