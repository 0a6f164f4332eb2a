/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C, and its siblings SIGTERM and SIGHUP. The first one only raises a flag, so that the work
 * in progress ends cleanly and leaves nothing half-written: the progress callback (cli_progress.h)
 * cancels the library's work, loops over files and lines stop, and main then dies of the signal,
 * which a shell reports as 130, 143 or 129. The second one kills at once.
 */
#ifndef COFFER_CLI_INTERRUPT_H
#define COFFER_CLI_INTERRUPT_H

#include <stdbool.h>

/* Begins to watch for the signals that are not ignored. */
void cli_catch_interrupts(void);
/* Whether one has come. Any thread may ask. */
bool cli_interrupted(void);
/* Waits until standard input has something to read, or has ended; false after Ctrl-C. That may come
   just before a read, which it would not end, and it comes to the main thread, when this one may be
   another. */
bool cli_wait_for_input(void);
/* Ends the process by the signal that has come, if one has. Everything else must have been put away. */
void cli_die_of_interrupt(void);

#endif
