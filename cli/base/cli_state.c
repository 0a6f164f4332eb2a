/* SPDX-License-Identifier: Apache-2.0 */
/* What was verified: see cli_state.h for the contract. */
#include "cli_state.h"

#include "cli_report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_TITLE "coffer verify state 1\n"
#define STATE_MAX ((off_t)1 << 30) /* bytes */
#define STATE_LINE_SIZE 256
#define FINE_GRAIN INT64_C(20000000)     /* nanoseconds that a file's time may lag behind the clock */
#define COARSE_GRAIN INT64_C(2000000000) /* where times are whole seconds, or every second one */

struct cli_state {
    const char *path;
    int fd;
    int error; /* of the first line that could not be written */
    char *text;
    const char **lines; /* in byte order; each ends in a NUL */
    size_t count;
};

static void line_text(char line[STATE_LINE_SIZE], const char *what, const cli_identity *identity)
{
    snprintf(line, STATE_LINE_SIZE, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, what,
             identity->device, identity->inode, identity->size, identity->modified, identity->changed);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The sum of the last numbers of the lines of a file, or the only one; 0 where there is no such file. */
static unsigned long long last_numbers(const char *path, const char *form)
{
    unsigned long long sum = 0;
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, form, &number) == 1) {
        sum += number;
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

/* Whether this user's number is nobody else's: a user namespace that does not have a number for every user shows one in the
   place of all the others. */
static bool is_one_user(void)
{
    return geteuid() == 0 || geteuid() != last_numbers("/proc/sys/kernel/overflowuid", "%llu") ||
           last_numbers("/proc/self/uid_map", "%*u %*u %llu") >= UINT32_MAX;
}

/* Why a file that is there must not be used; NULL when it may be. One that was `made` here is this user's. */
static const char *why_not(const struct stat *about, bool made)
{
    return !S_ISREG(about->st_mode)     ? "is no file"
           : about->st_uid != geteuid() ? "it belongs to another user, who could have a changed file skipped"
           : !made && !is_one_user() ? "whose it is cannot be told in a user namespace that has no number for this user"
           : (about->st_mode & 0022) != 0 ? "it can be written by others, who could have a changed file skipped"
           : about->st_size > STATE_MAX   ? "it is too large for a state of coffer verify"
                                          : NULL;
}

/* Splits the text at its line ends. A last line that has none was cut off, and does not count. */
static bool split_lines(cli_state *state, size_t size)
{
    size_t capacity = 0;
    for (size_t i = 0; i < size; i++) {
        capacity += state->text[i] == '\n';
    }
    state->lines = calloc(capacity + 1, sizeof *state->lines);
    if (state->lines == NULL) {
        return false;
    }
    char *line = state->text;
    for (char *end = memchr(line, '\n', size); end != NULL;
         end = memchr(line, '\n', size - (size_t)(line - state->text))) {
        *end = '\0';
        state->lines[state->count++] = line;
        line = end + 1;
    }
    qsort(state->lines, state->count, sizeof *state->lines, compare_lines);
    return true;
}

/* Begins a new one; why it cannot be, or NULL. A title that was cut off would be no state for ever. */
static const char *write_title(const cli_state *state)
{
    const size_t title_len = strlen(STATE_TITLE);
    if (write(state->fd, STATE_TITLE, title_len) == (ssize_t)title_len) {
        return NULL;
    }
    const int error = errno;
    unlink(state->path);
    return strerror(error);
}

/* Reads the whole file; why it cannot be used, or NULL. */
static const char *read_state(cli_state *state, size_t size)
{
    const size_t title_len = strlen(STATE_TITLE);
    state->text = malloc(size + 1);
    if (state->text == NULL) {
        return "out of memory";
    }
    size_t done = 0;
    for (ssize_t got = 1; done < size && got > 0; done += got > 0 ? (size_t)got : 0) {
        got = pread(state->fd, state->text + done, size - done, (off_t)done);
    }
    if (done < size) {
        return "it cannot be read";
    }
    if (size == 0) {
        return write_title(state);
    }
    if (size < title_len || memcmp(state->text, STATE_TITLE, title_len) != 0) {
        return "it is not a state of coffer verify";
    }
    /* What a crash cut off in the middle of a line must not run into the next one. */
    if (state->text[size - 1] != '\n' && write(state->fd, "\n", 1) != 1) {
        return strerror(errno);
    }
    return split_lines(state, size) ? NULL : "out of memory";
}

static void free_state(cli_state *state)
{
    if (state->fd >= 0) {
        close(state->fd);
    }
    free(state->lines);
    free(state->text);
    free(state);
}

cli_state *cli_state_open(cli *app, const char *path, int *code)
{
    struct stat about;
    cli_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        *code = cli_fail_memory(app, path);
        return NULL;
    }
    state->path = path;
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    state->fd = open(path, flags | O_EXCL, 0600);
    const bool made = state->fd >= 0;
    state->fd = made || errno != EEXIST ? state->fd : open(path, flags, 0600);
    const char *trouble = state->fd < 0 || fstat(state->fd, &about) != 0 ? strerror(errno) : why_not(&about, made);
    trouble = trouble == NULL ? read_state(state, (size_t)about.st_size) : trouble;
    if (trouble == NULL) {
        return state;
    }
    cli_say_path(app, path, "the state cannot be used: %s; name another one, or verify without it", trouble);
    free_state(state);
    *code = CLI_EXIT_UNREADABLE;
    return NULL;
}

bool cli_state_has(const cli_state *state, const char *what, const cli_identity *identity)
{
    char line[STATE_LINE_SIZE];
    const char *wanted = line;
    if (state == NULL || state->count == 0) {
        return false;
    }
    line_text(line, what, identity);
    return bsearch(&wanted, state->lines, state->count, sizeof *state->lines, compare_lines) != NULL;
}

/* Whether a file's times were old enough when reading began that any later change moves them. */
static bool is_settled(const cli_identity *identity, int64_t begun)
{
    const int64_t last = identity->changed > identity->modified ? identity->changed : identity->modified;
    const bool coarse = identity->changed % 1000000000 == 0;
    return last < begun - (coarse ? COARSE_GRAIN : FINE_GRAIN);
}

void cli_state_add(cli_state *state, const char *what, const cli_identity *identity, int64_t begun)
{
    char line[STATE_LINE_SIZE];
    if (state == NULL || !is_settled(identity, begun)) {
        return;
    }
    line_text(line, what, identity);
    const size_t len = strlen(line);
    line[len] = '\n';
    if (write(state->fd, line, len + 1) != (ssize_t)(len + 1) && state->error == 0) {
        state->error = errno;
    }
}

int cli_state_close(cli *app, cli_state *state, int code)
{
    if (state == NULL) {
        return code;
    }
    if (state->error != 0) {
        cli_say_path(app, state->path, "the state could not be written: %s", strerror(state->error));
        code = cli_worse(code, CLI_EXIT_UNREADABLE);
    }
    free_state(state);
    return code;
}

void cli_state_what(coffer_algorithm algorithm, const uint8_t *digest, char what[CLI_STATE_WHAT_SIZE])
{
    char hex[2 * COFFER_LARGEST_DIGEST_SIZE + 1];
    cli_digest_text(algorithm, digest, hex);
    snprintf(what, CLI_STATE_WHAT_SIZE, "%s:%s", coffer_algorithm_name(algorithm), hex);
}
