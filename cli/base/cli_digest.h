/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of whole files, whatever is in them; and which file it was, so that it can be told
   whether it is still the same. */
#ifndef COFFER_CLI_DIGEST_H
#define COFFER_CLI_DIGEST_H

#include "cli_progress.h"
#include "coffer.h"

/* What changes when a file does, short of a clock that is set back by somebody who may. */
typedef struct cli_identity {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified; /* nanoseconds since 1970 */
    int64_t changed;  /* the same, of its content, its name or its mode */
} cli_identity;

typedef struct cli_digest {
    uint8_t bytes[COFFER_LARGEST_DIGEST_SIZE];
    uint64_t size;         /* of the file */
    cli_identity identity; /* zero of what is no regular file */
    int64_t begun;         /* when reading began, as the identity's times */
} cli_digest;

/* Which file lies under a path, links followed; false when there is none. */
bool cli_identify(const char *path, cli_identity *identity);
bool cli_same_identity(const cli_identity *a, const cli_identity *b);
/* The clock, as an identity's times. */
int64_t cli_now(void);
/* Reads a file, or standard input (`-`), from beginning to end on the thread that calls.
   COFFER_ERR_CHANGED when it was written to in the meantime. The progress may be NULL. */
coffer_status cli_digest_file(const char *path, coffer_algorithm algorithm, cli_progress *progress, cli_digest *digest,
                              coffer_error *err);
/* Whether two digests of an algorithm are the same. */
bool cli_same_digest(coffer_algorithm algorithm, const uint8_t *a, const uint8_t *b);
/* Writes a digest as hexadecimal digits, with a NUL. */
void cli_digest_text(coffer_algorithm algorithm, const uint8_t *digest, char text[2 * COFFER_LARGEST_DIGEST_SIZE + 1]);

#endif
