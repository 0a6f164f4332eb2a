/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of cli_sandbox.h, as both ends send and receive them. */
#ifndef COFFER_CLI_SANDBOX_MESSAGES_H
#define COFFER_CLI_SANDBOX_MESSAGES_H

#include "coffer.h"

/* How the command is executed as a child: nobody types this. */
#define CLI_SANDBOX_WORD "confined-reader"
#define SANDBOX_PIECE ((size_t)1 << 20) /* bytes of one READ at most */

typedef enum sandbox_kind {
    SANDBOX_WANTS = 1,  /* `size` bytes follow: a sandbox_wants and its texts */
    SANDBOX_READ = 2,   /* `size` bytes of `file` from `offset` on, please */
    SANDBOX_BESIDE = 3, /* the file of a name, whose `size` bytes follow */
    SANDBOX_DONE = 4,   /* `size` bytes follow; of BESIDE none, but `file` and, in `offset`, its size */
    SANDBOX_FAILED = 5  /* a coffer_error follows */
} sandbox_kind;

typedef struct sandbox_message {
    uint32_t kind;
    uint32_t file;
    uint64_t offset;
    uint64_t size;
} sandbox_message;

/* The options of an import, without what is this process's own. Texts follow in this order, each with its NUL; one that
   was NULL is empty, which means the same. */
typedef struct sandbox_wants {
    uint64_t size; /* of the input */
    uint64_t max_metadata;
    int32_t ties;
    int32_t scalars;
    int32_t bytes_as;
    uint32_t flags;
    uint32_t path_size; /* NUL included, as of the others */
    uint32_t root_size;
    uint32_t prefix_size;
    int32_t blocks_as;
    uint32_t pattern_count; /* texts after the prefix */
} sandbox_wants;

enum {
    SANDBOX_WANTS_SKIP_UNSUPPORTED = 1,
    SANDBOX_WANTS_STRICT = 2,
    SANDBOX_WANTS_COMPLEX128 = 4,
    SANDBOX_WANTS_EXPAND = 8,
    SANDBOX_WANTS_SCAN = 16,
    SANDBOX_WANTS_RAW = 32,
    SANDBOX_WANTS_PACKED = 64,
    SANDBOX_WANTS_CONSTANTS = 128
};

/* Sends all bytes; false when the other end is gone, or after Ctrl-C. */
bool sandbox_send(int socket, const void *bytes, size_t size);
/* Receives exactly so many bytes; false as above. */
bool sandbox_receive(int socket, void *bytes, size_t size);
bool sandbox_send_wants(int socket, uint64_t size, const char *path, const coffer_import_options *options);

#endif
