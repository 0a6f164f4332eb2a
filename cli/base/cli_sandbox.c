/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading in a process that can do no harm, this process's end: see cli_sandbox.h for the messages.
 *
 *   start    a socket pair, fork, and the command executed again with one end of it as descriptor 0
 *   serve    answer what the child asks for, within bounds, until it is done, has failed or is gone
 *   end      close the socket, kill the child unless it went by itself, and wait for it
 *
 * The child reads a file that may be made to take it over. So this end trusts nothing that arrives:
 *
 * Sizes are compared with bounds before anything is allocated or received. Files and ranges are
 * looked up by the library, which refuses what is not there; names of files beside the input are
 * only those that it lets through.
 *
 * The import is bytes, which coffer_import_load checks as if a stranger had sent them. The message
 * of a failure is stripped of what a terminal would obey. Anything else ends the child, and is
 * reported as the work of the file.
 *
 * The child gets bytes of the input, which the user named, and of files beside it, and nothing
 * else: no other descriptors, and of the environment only what the loader needs. What it could
 * still do is waste its own time and memory, which cli_confine bounds.
 */
#include "cli_sandbox.h"

#include "cli_confine.h"
#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"
#include "sandbox_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SANDBOX_CANNOT_START 127                 /* the exit code of a child that could not be executed */
#define SANDBOX_MAX_READ ((uint64_t)1 << 30)     /* bytes that a file may make the child ask for */
#define SANDBOX_MAX_ANSWER ((uint64_t)512 << 20) /* bytes of an import, as many as the child may have */
#define SANDBOX_MAX_NAME 4096

extern char **environ;

/* A child at work. */
typedef struct sandbox {
    coffer_input *input;
    pid_t child;
    int socket;
    uint64_t read;         /* bytes that it was given */
    unsigned char *buffer; /* SANDBOX_PIECE bytes */
} sandbox;

/* By the system that this was built for. What its kernel lacks, the child does without:
   cli_confine.h says what remains. */
bool cli_sandbox_possible(void)
{
    return CLI_CONFINE_POSSIBLE;
}

/* Fills an error, as the library's own functions are not public. */
static coffer_status sandbox_fail(coffer_error *err, coffer_status code, int os_error, const char *message)
{
    *err = (coffer_error){ .code = code, .os_error = os_error, .offset = COFFER_NO_OFFSET };
    snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

/* ---- Starting ---- */

/* What the loader of programs may need. Nothing else of the environment, where tokens are, is the child's business. */
static bool sandbox_environment(char **kept, size_t capacity)
{
    size_t count = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "LD_", 3) == 0) {
            if (count + 1 == capacity) {
                return false;
            }
            kept[count++] = *variable;
        }
    }
    kept[count] = NULL;
    return true;
}

/* Between fork and execve only what a signal handler might do is allowed, since other threads may hold locks. */
static _Noreturn void sandbox_become_child(int socket, char **environment)
{
    static char name[] = "coffer";
    static char word[] = CLI_SANDBOX_WORD;
    char *const words[] = { name, word, NULL };
    if (dup2(socket, STDIN_FILENO) == STDIN_FILENO) {
        (void)execve("/proc/self/exe", words, environment);
    }
    _exit(SANDBOX_CANNOT_START);
}

/* The environment is picked before the fork, as the child may not allocate. Both ends are closed
   when a program is executed; dup2 makes the one copy that stays open. */
static coffer_status sandbox_start(sandbox *run, coffer_error *err)
{
    int ends[2];
    char *environment[16];
    if (!sandbox_environment(environment, sizeof environment / sizeof environment[0])) {
        return sandbox_fail(err, COFFER_ERR_UNSUPPORTED, 0,
                            "the environment has too many variables of the loader (LD_)");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return sandbox_fail(err, COFFER_ERR_IO, errno, "cannot make a socket for the process that reads the file");
    }
    run->child = fork();
    if (run->child == 0) {
        sandbox_become_child(ends[1], environment);
    }
    /* Of fork, before close can change it. */
    const int error = errno;
    (void)close(ends[1]);
    run->socket = ends[0];
    return run->child > 0 ? COFFER_OK
                          : sandbox_fail(err, COFFER_ERR_IO, error, "cannot start the process that reads the file");
}

/* ---- Answering ---- */

/* A message and what it announces. False: the child is gone. */
static bool sandbox_answer(const sandbox *run, uint32_t kind, uint32_t file, const void *bytes, uint64_t size,
                           uint64_t reported)
{
    const sandbox_message message = { .kind = kind, .file = file, .offset = reported, .size = size };
    return sandbox_send(run->socket, &message, sizeof message) && sandbox_send(run->socket, bytes, (size_t)size);
}

static bool sandbox_answer_failure(const sandbox *run, const coffer_error *why)
{
    return sandbox_answer(run, SANDBOX_FAILED, 0, why, sizeof *why, 0);
}

/* Answers a READ. Returns false when the child is gone, or asks for what it never would. The bound
   on all bytes together is against files that make a reader go round: the number of bytes counts,
   whether they are the same ones or not. */
static bool sandbox_answer_read(sandbox *run, const sandbox_message *asked)
{
    coffer_error why;
    if (asked->size > SANDBOX_PIECE) {
        return false;
    }
    run->read += asked->size;
    coffer_status status = COFFER_OK;
    if (run->read > SANDBOX_MAX_READ) {
        status = sandbox_fail(&why, COFFER_ERR_MEMORY, 0,
                              "more than 1 GiB of this file would have to be read before its tensors are known, which "
                              "is too much for a file that nobody trusts; --no-sandbox allows it");
    } else {
        status = coffer_input_read(run->input, asked->file, asked->offset, run->buffer, (size_t)asked->size, &why);
    }
    return status == COFFER_OK ? sandbox_answer(run, SANDBOX_DONE, 0, run->buffer, asked->size, 0)
                               : sandbox_answer_failure(run, &why);
}

/* Answers a BESIDE. The name is not NUL-terminated and may be anything: coffer_input_beside refuses
   what leads out of the input's folder. */
static bool sandbox_answer_beside(sandbox *run, const sandbox_message *asked)
{
    coffer_error why;
    uint32_t file = 0;
    uint64_t size = 0;
    char name[SANDBOX_MAX_NAME];
    if (asked->size > sizeof name || !sandbox_receive(run->socket, name, (size_t)asked->size)) {
        return false;
    }
    return coffer_input_beside(run->input, name, (size_t)asked->size, &file, &size, &why) == COFFER_OK
               ? sandbox_answer(run, SANDBOX_DONE, file, NULL, 0, size)
               : sandbox_answer_failure(run, &why);
}

/* ---- Ending ---- */

/* Text of the child's for people: one that was taken over could write to the terminal with it. */
static void sandbox_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    const size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        uint32_t character = 0;
        const size_t step = cli_read_character(text + at, len - at, &character);
        if (step == 0 || cli_is_unsafe(character)) {
            memset(text + at, '?', step > 0 ? step : 1);
        }
        at += step > 0 ? step : 1;
    }
}

/* The failure of an answer that the program never sends. */
static coffer_status sandbox_nonsense(coffer_error *err)
{
    return sandbox_fail(err, COFFER_ERR_PLAN, 0,
                        "the process that read the file gave an answer that it never gives: the file may have taken it "
                        "over; do not use the file");
}

/* Why the child says that it failed. The struct comes as it lies in its memory: the code must be
   one of the library's, and the texts get a NUL at their end before anything looks at them. The
   other members are numbers that are only shown. */
static coffer_status sandbox_take_failure(const sandbox *run, const sandbox_message *message, coffer_error *err)
{
    if (message->size != sizeof *err || !sandbox_receive(run->socket, err, sizeof *err)) {
        return sandbox_nonsense(err);
    }
    if ((int)err->code < COFFER_ERR_ARGUMENT || strcmp(coffer_status_name(err->code), "UNKNOWN") == 0) {
        return sandbox_nonsense(err);
    }
    sandbox_clean(err->message, sizeof err->message);
    sandbox_clean(err->path, sizeof err->path);
    sandbox_clean(err->tensor, sizeof err->tensor);
    return err->code;
}

/* The import as bytes, for the caller to load. The child may have as much memory as
   SANDBOX_MAX_ANSWER, so no honest answer is longer. */
static coffer_status sandbox_take_import(const sandbox *run, const sandbox_message *message, unsigned char **bytes,
                                         size_t *size, coffer_error *err)
{
    if (message->size == 0 || message->size > SANDBOX_MAX_ANSWER) {
        return sandbox_nonsense(err);
    }
    *size = (size_t)message->size;
    *bytes = malloc(*size);
    if (*bytes == NULL) {
        return cli_no_memory(err);
    }
    if (sandbox_receive(run->socket, *bytes, *size)) {
        return COFFER_OK;
    }
    free(*bytes);
    *bytes = NULL;
    return sandbox_nonsense(err);
}

/* The names of the signals that are likely; NULL of any other. */
static const char *sandbox_signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = { { SIGSYS, "SIGSYS" },   { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" },   { SIGABRT, "SIGABRT" },
                  { SIGILL, "SIGILL" },   { SIGFPE, "SIGFPE" },   { SIGXCPU, "SIGXCPU" }, { SIGKILL, "SIGKILL" },
                  { SIGTERM, "SIGTERM" }, { SIGPIPE, "SIGPIPE" } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    return NULL;
}

/* A signal is the sign that the confinement worked (SIGSYS, SIGXCPU), or of a mistake in a reader.
   Both are worth a report. */
static coffer_status sandbox_killed(int number, coffer_error *err)
{
    char text[sizeof err->message];
    const char *name = sandbox_signal_name(number);
    const char *why = number == SIGSYS    ? "it tried what reading never does"
                      : number == SIGXCPU ? "reading took too long"
                                          : "it crashed, or was killed";
    snprintf(text, sizeof text,
             "the process that read this file was ended by signal %d%s%s%s: %s; do not use the file, and please report "
             "it",
             number, name != NULL ? " (" : "", name != NULL ? name : "", name != NULL ? ")" : "", why);
    return sandbox_fail(err, COFFER_ERR_IO, 0, text);
}

/* The child has gone without an answer; why is told by how it ended. After Ctrl-C the terminal has
   sent the signal to both, so that comes first. */
static coffer_status sandbox_gone(int ended, coffer_error *err)
{
    if (cli_interrupted()) {
        return sandbox_fail(err, COFFER_ERR_CANCELLED, 0, "cancelled");
    }
    if (WIFSIGNALED(ended)) {
        return sandbox_killed(WTERMSIG(ended), err);
    }
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == SANDBOX_CANNOT_START) {
        return sandbox_fail(err, COFFER_ERR_UNSUPPORTED, 0,
                            "the process that reads files cannot be started (/proc/self/exe): --no-sandbox reads this "
                            "one without it");
    }
    return sandbox_nonsense(err);
}

/* Answers until the child is done, has failed, or is gone (`*gone`). This takes as long as the
   child does, which has a limit of processor time only; waiting for the child costs nothing, and
   Ctrl-C ends it. */
static coffer_status sandbox_serve(sandbox *run, unsigned char **bytes, size_t *size, bool *gone, coffer_error *err)
{
    sandbox_message message;
    while (sandbox_receive(run->socket, &message, sizeof message)) {
        bool answered = false;
        switch (message.kind) {
        case SANDBOX_READ:
            answered = sandbox_answer_read(run, &message);
            break;
        case SANDBOX_BESIDE:
            answered = sandbox_answer_beside(run, &message);
            break;
        case SANDBOX_DONE:
            return sandbox_take_import(run, &message, bytes, size, err);
        case SANDBOX_FAILED:
            return sandbox_take_failure(run, &message, err);
        default:
            return sandbox_nonsense(err);
        }
        if (!answered) {
            break;
        }
    }
    *gone = true;
    return COFFER_OK;
}

/* ---- The whole ---- */

/* The child is waited for in any case, or it would stay as a zombie; one that has said all it had
   to say is of no use any more. Closing the socket first lets one that still writes end by itself. */
static int sandbox_end(const sandbox *run, bool gone)
{
    int ended = 0;
    (void)close(run->socket);
    if (!gone || cli_interrupted()) {
        (void)kill(run->child, SIGKILL);
    }
    while (waitpid(run->child, &ended, 0) < 0 && errno == EINTR) {}
    return ended;
}

/* Writing to a child that is gone shall fail, and not end this process: SIGPIPE is ignored meanwhile. */
static coffer_status sandbox_run(sandbox *run, const char *path, const coffer_import_options *options,
                                 unsigned char **bytes, size_t *size, coffer_error *err)
{
    coffer_status status = sandbox_start(run, err);
    if (status != COFFER_OK) {
        return status;
    }
    struct sigaction before;
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &ignore, &before);
    bool gone = !sandbox_send_wants(run->socket, coffer_input_size(run->input, 0), path, options);
    if (!gone) {
        status = sandbox_serve(run, bytes, size, &gone, err);
    }
    (void)sigaction(SIGPIPE, &before, NULL);
    const int ended = sandbox_end(run, gone);
    return gone ? sandbox_gone(ended, err) : status;
}

/* One buffer for all answers, so that reading a file asks for no memory. */
coffer_status cli_sandbox_read(coffer_input *input, const char *path, const coffer_import_options *options,
                               unsigned char **bytes, size_t *size, coffer_error *err)
{
    sandbox run = { .input = input, .child = -1, .socket = -1, .buffer = malloc(SANDBOX_PIECE) };
    *bytes = NULL;
    if (run.buffer == NULL) {
        return cli_no_memory(err);
    }
    const coffer_status status = sandbox_run(&run, path, options, bytes, size, err);
    free(run.buffer);
    return status;
}
