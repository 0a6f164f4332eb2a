/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a long piece of work has come: one line on standard error, drawn over and over, and only
 * on a terminal, without --no-progress and --quiet, and when the work lasts long enough for anybody
 * to wonder. It goes before anything else is written. Whether or not there is a line, this is how
 * Ctrl-C reaches the library: the callback's non-zero answer.
 *
 *     cli_progress progress;
 *     cli_progress_begin(&progress, app, "reading", total_bytes);   one for the whole command
 *     cli_progress_part part = { &progress, 0 };                    one for each call of the library, on any thread
 *     options.progress = cli_progress_call;
 *     options.progress_ctx = &part;
 *     ...
 *     cli_progress_finish(&progress);
 */
#ifndef COFFER_CLI_PROGRESS_H
#define COFFER_CLI_PROGRESS_H

#include "cli_command.h"

#include <pthread.h>

typedef struct cli_progress {
    cli *app;
    const char *label; /* "reading" */
    bool bytes;        /* what is counted: bytes, else things */
    bool shown;        /* the line is on the terminal now */
    uint64_t done;
    uint64_t total;
    double next;            /* when to draw again */
    bool began;             /* something was shown */
    double measured;        /* when the rate was last looked at */
    uint64_t measured_done; /* what was done when the rate was last looked at */
    double rate;            /* a second; 0: not known */
    pthread_mutex_t lock;   /* holds what is above from `shown` on, and the terminal */
} cli_progress;

/* A share of the whole that reports by itself. Begin with { &progress, 0 }. */
typedef struct cli_progress_part {
    cli_progress *whole;
    uint64_t done;
} cli_progress_part;

/* Counts bytes; `total` may be 0 when only the library knows it, for work that is a single call.
   One progress may be in progress at a time. */
void cli_progress_begin(cli_progress *progress, cli *app, const char *label, uint64_t total);
/* Counts things instead: files. */
void cli_progress_begin_count(cli_progress *progress, cli *app, const char *label, uint64_t total);
/* So much more is done. Any thread. Returns non-zero when the work is to stop: Ctrl-C. */
int cli_progress_add(cli_progress *progress, uint64_t amount);
/* The same as a coffer_progress, of a cli_progress_part. */
int cli_progress_call(void *part, uint64_t done, uint64_t total);
/* The same, of nothing: for what shows no progress, and ends after Ctrl-C. */
int cli_progress_unseen(void *nothing, uint64_t done, uint64_t total);
/* Takes the line away, until the next step draws it again. Any thread. */
void cli_progress_hide(cli_progress *progress);
/* Takes the line away for good. */
void cli_progress_finish(cli_progress *progress);

#endif
