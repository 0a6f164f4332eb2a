/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX: see cli_console.h for the contract.
 *
 * Signals write a letter into a pipe, which is waited for together with the input, so that none is missed between looking
 * and waiting. Those that ask the process to end are then passed on to whoever watched for them before
 * (cli_interrupt.h).
 */
#include "cli_console.h"

#include "cli_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define USUAL_COLUMNS 80
#define USUAL_ROWS 24

/* Another screen, no wrapping, the mouse's buttons by SGR, brackets around pasted text; and back. */
static const char enter_sequence[] = "\x1b[?1049h\x1b[?7l\x1b[?1000h\x1b[?1006h\x1b[?2004h";
static const char leave_sequence[] = "\x1b[?2026l\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

enum { LETTER_WAKE = 'w', LETTER_SIZE = 's', LETTER_STOP = 'z', LETTER_END = 'e' };

static const int ENDING[] = { SIGINT, SIGTERM, SIGHUP };
static const int CRASHING[] = { SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* One terminal, and handlers have no other way to know of it. What they read is set before they are. */
static struct {
    volatile sig_atomic_t held; /* the terminal is in our hands */
    volatile sig_atomic_t ending;
    struct termios before;
    int pipe[2];
    struct sigaction old_ending[COUNT_OF(ENDING)];
    struct sigaction old_crashing[COUNT_OF(CRASHING)];
    struct sigaction old_size, old_stop, old_continue;
} console = { .pipe = { -1, -1 } };

/* ---- What handlers may do ---- */

static bool write_whole(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, size);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };
            (void)poll(&output, 1, 100);
        } else if (written < 0 && errno != EINTR) {
            return false;
        }
        bytes += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static void send_letter(char letter)
{
    const int saved = errno;
    /* A full pipe wakes as well as one letter more. */
    (void)!write(console.pipe[1], &letter, 1);
    errno = saved;
}

static void give_back(void)
{
    if (console.held) {
        console.held = 0;
        write_whole(leave_sequence, sizeof leave_sequence - 1);
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &console.before);
    }
}

static bool take_terminal(void)
{
    struct termios raw = console.before;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cflag = (raw.c_cflag & ~(tcflag_t)CSIZE) | CS8;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
        return false;
    }
    console.held = 1;
    return write_whole(enter_sequence, sizeof enter_sequence - 1);
}

static void catch_size(int number)
{
    (void)number;
    send_letter(LETTER_SIZE);
}

static void catch_stop(int number)
{
    (void)number;
    send_letter(LETTER_STOP);
}

/* After a stop that nobody could notice, SIGSTOP, the terminal may be in any state. */
static void catch_continue(int number)
{
    (void)number;
    send_letter(LETTER_SIZE);
}

/* The first one ends the work in order, the second one the process at once. */
static void catch_ending(int number)
{
    if (console.ending) {
        give_back();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    console.ending = 1;
    for (size_t i = 0; i < COUNT_OF(ENDING); i++) {
        if (ENDING[i] == number && console.old_ending[i].sa_handler != SIG_DFL) {
            console.old_ending[i].sa_handler(number);
        }
    }
    send_letter(LETTER_END);
}

static void catch_crash(int number)
{
    give_back();
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- Signals ---- */

/* Keeps those that are ignored, or that somebody else than cli_interrupt has taken, where `only_default` is set. */
static void set_handler(int number, void (*handler)(int), struct sigaction *old, bool only_default)
{
    struct sigaction action;
    if (sigaction(number, NULL, old) != 0 || (old->sa_flags & SA_SIGINFO) != 0 || old->sa_handler == SIG_IGN ||
        (only_default && old->sa_handler != SIG_DFL)) {
        memset(old, 0, sizeof *old);
        old->sa_handler = SIG_ERR; /* not ours */
        return;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(number, &action, NULL);
}

static void unset_handler(int number, const struct sigaction *old)
{
    if (old->sa_handler != SIG_ERR) {
        sigaction(number, old, NULL);
    }
}

static void set_handlers(void)
{
    for (size_t i = 0; i < COUNT_OF(ENDING); i++) {
        set_handler(ENDING[i], catch_ending, &console.old_ending[i], false);
    }
    for (size_t i = 0; i < COUNT_OF(CRASHING); i++) {
        set_handler(CRASHING[i], catch_crash, &console.old_crashing[i], true);
    }
    set_handler(SIGWINCH, catch_size, &console.old_size, true);
    set_handler(SIGTSTP, catch_stop, &console.old_stop, true);
    set_handler(SIGCONT, catch_continue, &console.old_continue, true);
}

static void unset_handlers(void)
{
    unset_handler(SIGCONT, &console.old_continue);
    unset_handler(SIGTSTP, &console.old_stop);
    unset_handler(SIGWINCH, &console.old_size);
    for (size_t i = 0; i < COUNT_OF(CRASHING); i++) {
        unset_handler(CRASHING[i], &console.old_crashing[i]);
    }
    for (size_t i = 0; i < COUNT_OF(ENDING); i++) {
        unset_handler(ENDING[i], &console.old_ending[i]);
    }
}

/* ---- The console ---- */

bool cli_console_possible(void)
{
    return cli_host_terminal(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

static bool open_pipe_to_self(void)
{
    if (pipe(console.pipe) != 0) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        (void)fcntl(console.pipe[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(console.pipe[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

bool cli_console_open(void)
{
    console.ending = 0;
    if (tcgetattr(STDIN_FILENO, &console.before) != 0 || !open_pipe_to_self()) {
        return false;
    }
    set_handlers();
    if (take_terminal()) {
        return true;
    }
    const int saved = errno;
    cli_console_close();
    errno = saved;
    return false;
}

void cli_console_close(void)
{
    if (console.pipe[0] < 0) {
        return;
    }
    give_back();
    unset_handlers();
    close(console.pipe[0]);
    close(console.pipe[1]);
    console.pipe[0] = console.pipe[1] = -1;
}

void cli_console_size(size_t *columns, size_t *rows)
{
    struct winsize size;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns = known ? size.ws_col : USUAL_COLUMNS;
    *rows = known ? size.ws_row : USUAL_ROWS;
}

/* What the letters in the pipe say; the weightiest of them counts. */
static cli_console_event read_letters(void)
{
    char letters[64];
    cli_console_event event = CLI_CONSOLE_TIMEOUT;
    ssize_t got = 0;
    while ((got = read(console.pipe[0], letters, sizeof letters)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            const cli_console_event said = letters[i] == LETTER_END    ? CLI_CONSOLE_END
                                           : letters[i] == LETTER_STOP ? CLI_CONSOLE_STOP
                                           : letters[i] == LETTER_SIZE ? CLI_CONSOLE_RESIZED
                                                                       : CLI_CONSOLE_WOKEN;
            event = said > event ? said : event;
        }
    }
    if (event == CLI_CONSOLE_RESIZED && console.held) {
        (void)take_terminal(); /* a stop and the shell after it may have changed it */
    }
    return event;
}

cli_console_event cli_console_wait(int milliseconds)
{
    struct pollfd from[2] = { { .fd = console.pipe[0], .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
    if (console.ending) {
        return CLI_CONSOLE_END;
    }
    const int ready = poll(from, 2, milliseconds);
    if (ready < 0) {
        return errno == EINTR ? CLI_CONSOLE_WOKEN : CLI_CONSOLE_END;
    }
    if ((from[0].revents & POLLIN) != 0) {
        return read_letters();
    }
    return ready == 0 ? CLI_CONSOLE_TIMEOUT : CLI_CONSOLE_INPUT;
}

size_t cli_console_read(char *bytes, size_t size)
{
    ssize_t got = 0;
    do {
        got = read(STDIN_FILENO, bytes, size);
    } while (got < 0 && errno == EINTR && !console.ending);
    return got > 0 ? (size_t)got : 0;
}

bool cli_console_write(const char *bytes, size_t size)
{
    return write_whole(bytes, size);
}

void cli_console_wake(void)
{
    send_letter(LETTER_WAKE);
}

void cli_console_suspend(void)
{
    give_back();
    unset_handler(SIGTSTP, &console.old_stop);
    kill(0, SIGTSTP); /* the job, as the terminal does */
    set_handler(SIGTSTP, catch_stop, &console.old_stop, true);
    (void)take_terminal();
    send_letter(LETTER_SIZE);
}

void cli_console_interrupt(void)
{
    raise(SIGINT);
}
