/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was verified, kept in a file, so that verifying terabytes can go on where it was stopped. A
 * line says that a file was read and found right, and which file it was: its device, inode, size
 * and times of modification and change. Whatever differs now, the file is read again; so it is when
 * something else is expected of it, since that is in the line too.
 *
 *     coffer verify state 1
 *     WHAT DEVICE INODE SIZE MODIFIED CHANGED      WHAT: sha256:HEX, xxh3-128:HEX, or `digests`, those inside the file
 *
 * It saves time; it proves nothing. Who can write it can have a file passed over, so it is used
 * only when it belongs to the user and nobody else may write it. And bits that a disk loses change
 * no time: to find them, verify without a state.
 */
#ifndef COFFER_CLI_STATE_H
#define COFFER_CLI_STATE_H

#include "cli_command.h"
#include "cli_digest.h"

#define CLI_STATE_DIGESTS "digests"
#define CLI_STATE_WHAT_SIZE 80

typedef struct cli_state cli_state;

/* Opens the file or makes it. NULL, reported, with the exit code in *code, when it cannot be used. */
cli_state *cli_state_open(cli *app, const char *path, int *code);
/* Whether it says so of a file. NULL says so of none. Any thread. */
bool cli_state_has(const cli_state *state, const char *what, const cli_identity *identity);
/* Adds that a file was found right that was read from `begun` on, at once, so that it is there
   after any interruption. Not of a file that had just been written then: its times could stand
   still while it changes. NULL: nothing. */
void cli_state_add(cli_state *state, const char *what, const cli_identity *identity, int64_t begun);
/* Returns `code`, or another when something could not be written, which it reports. */
int cli_state_close(cli *app, cli_state *state, int code);

/* WHAT of a digest. */
void cli_state_what(coffer_algorithm algorithm, const uint8_t *digest, char what[CLI_STATE_WHAT_SIZE]);

#endif
