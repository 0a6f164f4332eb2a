/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of long work: see cli_progress.h for the contract. */
#include "cli_progress.h"

#include "cli_interrupt.h"
#include "cli_terminal.h"
#include "cli_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_AFTER 0.3 /* seconds of work before there is a line: most commands are done by then */
#define EVERY 0.1
#define LINE_SIZE 256
#define BAR_MAX 30
#define RATE_OVER 3.0       /* seconds that the rate is of, more or less */
#define LONGEST_LEFT 359999 /* seconds: 99 hours and more are no forecast */

static void begin(cli_progress *progress, cli *app, const char *label, uint64_t total, bool bytes)
{
    memset(progress, 0, sizeof *progress);
    progress->app = app;
    progress->label = label;
    progress->bytes = bytes;
    progress->total = total;
    progress->next = cli_seconds() + FIRST_AFTER;
    pthread_mutex_init(&progress->lock, NULL);
    app->progress = progress;
}

void cli_progress_begin(cli_progress *progress, cli *app, const char *label, uint64_t total)
{
    begin(progress, app, label, total, true);
}

void cli_progress_begin_count(cli_progress *progress, cli *app, const char *label, uint64_t total)
{
    begin(progress, app, label, total, false);
}

static void amount_text(const cli_progress *progress, char text[CLI_NUMBER_SIZE], uint64_t amount)
{
    if (progress->bytes) {
        cli_bytes_text(text, amount);
    } else {
        cli_number_text(text, amount, true);
    }
}

/* A bar of so many columns, with what is done filled. */
static size_t put_bar(char *line, double share, size_t width)
{
    const size_t filled = (size_t)(share * (double)width);
    line[0] = '[';
    memset(line + 1, '.', width);
    memset(line + 1, '#', filled < width ? filled : width);
    memcpy(line + 1 + width, "] ", 2);
    return width + 3;
}

/* Follows the rate. What was done before the first sign, by an earlier command perhaps, is ignored. */
static void follow_rate(cli_progress *progress, double now)
{
    const double passed = now - progress->measured;
    if (!progress->began) {
        progress->began = true;
        progress->measured = now;
        progress->measured_done = progress->done;
        return;
    }
    if (passed < EVERY) {
        return;
    }
    const double rate = (double)(progress->done - progress->measured_done) / passed;
    progress->rate =
        progress->rate <= 0 ? rate : progress->rate + (rate - progress->rate) * passed / (passed + RATE_OVER);
    progress->measured = now;
    progress->measured_done = progress->done;
}

/* ", 35 MB/s, 1:05 left"; "" while nothing can be said of it. */
static void rate_text(const cli_progress *progress, char *text, size_t size)
{
    char rate[CLI_NUMBER_SIZE];
    text[0] = '\0';
    if (!progress->bytes || progress->rate < 1) {
        return;
    }
    cli_bytes_text(rate, (uint64_t)progress->rate);
    const size_t used = (size_t)snprintf(text, size, "  %s/s", rate);
    const double left =
        progress->total < progress->done ? 0 : (double)(progress->total - progress->done) / progress->rate;
    if (progress->total == 0 || left >= LONGEST_LEFT) {
        return;
    }
    const unsigned seconds = (unsigned)(left + 0.5);
    if (seconds >= 3600) {
        snprintf(text + used, size - used, "  %u:%02u:%02u left", seconds / 3600, seconds / 60 % 60, seconds % 60);
    } else {
        snprintf(text + used, size - used, "  %u:%02u left", seconds / 60, seconds % 60);
    }
}

/* "reading [####......] 42%  1.2 GB of 3.0 GB  350 MB/s  0:05 left": as much of it as the terminal has space for. */
static void draw(cli_progress *progress)
{
    char done[CLI_NUMBER_SIZE];
    char total[CLI_NUMBER_SIZE];
    char amounts[3 * CLI_NUMBER_SIZE];
    char line[LINE_SIZE];
    char rate[2 * CLI_NUMBER_SIZE];
    const size_t width = cli_terminal_width(STDERR_FILENO);
    const double share = progress->total == 0 ? 0 : (double)progress->done / (double)progress->total;
    amount_text(progress, done, progress->done);
    amount_text(progress, total, progress->total);
    if (progress->total == 0) {
        snprintf(amounts, sizeof amounts, "%s", done);
    } else {
        snprintf(amounts, sizeof amounts, "%3.0f%%  %s of %s", share * 100, done, total);
    }
    size_t used = (size_t)snprintf(line, sizeof line / 2, "%s ", progress->label);
    size_t rest = used + strlen(amounts) + 4;
    rate_text(progress, rate, sizeof rate);
    if (rest + strlen(rate) < width) {
        rest += strlen(rate);
    } else {
        rate[0] = '\0';
    }
    if (progress->total != 0 && width > rest + 10) {
        used += put_bar(line + used, share, width - rest < BAR_MAX ? width - rest : BAR_MAX);
    }
    snprintf(line + used, sizeof line - used, "%s%s", amounts, rate);
    fprintf(stderr, "\r\x1b[K%.*s", (int)(width > 0 ? width - 1 : 0), line);
    fflush(stderr);
    progress->shown = true;
}

int cli_progress_add(cli_progress *progress, uint64_t amount)
{
    pthread_mutex_lock(&progress->lock);
    progress->done += amount;
    if (progress->app->shows_progress && !cli_interrupted()) {
        const double now = cli_seconds();
        follow_rate(progress, now);
        if (now >= progress->next) {
            draw(progress);
            progress->next = now + EVERY;
        }
    }
    pthread_mutex_unlock(&progress->lock);
    return cli_interrupted();
}

int cli_progress_unseen(void *nothing, uint64_t done, uint64_t total)
{
    (void)nothing;
    (void)done;
    (void)total;
    return cli_interrupted();
}

int cli_progress_call(void *part, uint64_t done, uint64_t total)
{
    cli_progress_part *share = part;
    if (share->whole->total == 0) {
        share->whole->total = total; /* a single call, whose total only the library knows */
    }
    const uint64_t amount = done - share->done;
    share->done = done;
    return cli_progress_add(share->whole, amount);
}

void cli_progress_hide(cli_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->shown) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
        progress->shown = false;
    }
    pthread_mutex_unlock(&progress->lock);
}

void cli_progress_finish(cli_progress *progress)
{
    cli_progress_hide(progress);
    progress->app->progress = NULL;
    pthread_mutex_destroy(&progress->lock);
}
