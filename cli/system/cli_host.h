/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command asks of the system it runs on, apart from POSIX: cli_host_posix.c and cli_host_windows.c answer, and the
 * build chooses. Not for several threads at once unless it says so.
 */
#ifndef COFFER_CLI_HOST_H
#define COFFER_CLI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of all functions below main: the command with its arguments in UTF-8. Returns the exit code. */
int cli_main(int argc, char **argv);

/* Once, before anything is opened or written: standard descriptors that are closed are held, so that no file gets their
   numbers, and what would end the process without a word becomes an error. */
void cli_host_begin(void);

/* The signs that separate the parts of a path, as strpbrk wants them. The first one is used where a path is made. */
extern const char cli_host_separators[];

/* Whether the descriptor is a terminal that understands control sequences. */
bool cli_host_terminal(int fd);

/* Columns of the terminal behind the descriptor, or 0 where the system does not know. */
size_t cli_host_width(int fd);

/* The processors' time that all threads have used so far, and the system for them, in seconds. */
double cli_host_processor_seconds(void);

/* The most memory that the process has had at a time, in KiB. */
uint64_t cli_host_peak_kib(void);

#endif
