/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal that a program has to itself: its keys come one by one, and it draws on a screen of its own, which the one
 * that was there before comes back from. cli_console_posix.c and cli_console_windows.c answer, and the build chooses.
 *
 * However the process ends, the terminal is as it was: by cli_console_close, by a signal, by a crash as far as that can
 * be noticed. There is one console; its functions are for one thread, but for cli_console_wake.
 */
#ifndef COFFER_CLI_CONSOLE_H
#define COFFER_CLI_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

/* What cli_console_wait has waited for. */
typedef enum cli_console_event {
    CLI_CONSOLE_TIMEOUT = 0,
    CLI_CONSOLE_INPUT,
    CLI_CONSOLE_WOKEN,   /* by cli_console_wake */
    CLI_CONSOLE_RESIZED, /* the terminal has another size, or the process was stopped: all is to be drawn anew */
    CLI_CONSOLE_STOP,    /* somebody asks to be left: cli_console_suspend */
    CLI_CONSOLE_END      /* a signal that ends the process has come, or the input has ended */
} cli_console_event;

/* Whether standard input and output are a terminal that can be had like that. */
bool cli_console_possible(void);
/* Takes the terminal; false when that fails, errno set. */
bool cli_console_open(void);
/* Gives it back. Does nothing when it is not open. */
void cli_console_close(void);

/* The size of the terminal; 80 * 24 where the system does not know. */
void cli_console_size(size_t *columns, size_t *rows);
/* Waits up to `milliseconds`, for ever when that is negative. */
cli_console_event cli_console_wait(int milliseconds);
/* Reads what is there, after CLI_CONSOLE_INPUT; 0 at the end of the input. */
size_t cli_console_read(char *bytes, size_t size);
/* Writes all bytes; false when that fails. */
bool cli_console_write(const char *bytes, size_t size);

/* Makes cli_console_wait return, now or when it is called next. Any thread. */
void cli_console_wake(void);
/* Stops the process as Ctrl-Z does elsewhere, the terminal given back until it goes on. Does nothing where there is no
   such thing. */
void cli_console_suspend(void);
/* Ends the process as Ctrl-C does elsewhere, once cli_finish is reached. */
void cli_console_interrupt(void);

#endif
