/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is typed at a terminal: bytes come in one by one, in whatever portions the line brings them, and each completes at
 * most one event. Nothing here reads or waits, so that any bytes can be tried.
 *
 * Keys come as VT100 and xterm send them; the mouse as SGR 1006; pasted text in brackets (2004), its control characters
 * left out. An unknown sequence is swallowed whole. What cannot be told from its bytes alone is whether an escape
 * character is the key or begins a sequence: when no byte has come for CLI_KEYS_PATIENCE, cli_keys_idle decides.
 */
#ifndef COFFER_CLI_KEYS_H
#define COFFER_CLI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_KEYS_PATIENCE 60 /* milliseconds after an escape character */
#define CLI_KEYS_NUMBERS 3   /* of a sequence; further ones are not used */

typedef enum cli_key {
    CLI_KEY_CHARACTER = 0, /* `code` is the character, which shows */
    CLI_KEY_CONTROL,       /* `code` is the lower-case letter that was typed with Ctrl */
    CLI_KEY_UP,
    CLI_KEY_DOWN,
    CLI_KEY_LEFT,
    CLI_KEY_RIGHT,
    CLI_KEY_HOME,
    CLI_KEY_END,
    CLI_KEY_PAGE_UP,
    CLI_KEY_PAGE_DOWN,
    CLI_KEY_DELETE,
    CLI_KEY_BACKSPACE,
    CLI_KEY_ENTER,
    CLI_KEY_TAB,
    CLI_KEY_BACK_TAB,
    CLI_KEY_ESCAPE,
    CLI_KEY_PRESS, /* the left button, at column x and row y, both from 0 */
    CLI_KEY_WHEEL_UP,
    CLI_KEY_WHEEL_DOWN
} cli_key;

typedef struct cli_event {
    cli_key key;
    uint32_t code;
    size_t x;
    size_t y;
    bool pasted; /* a character that was pasted, and must not act as a key */
} cli_event;

typedef enum cli_keys_state {
    CLI_KEYS_PLAIN = 0,
    CLI_KEYS_TEXT,   /* within a character of UTF-8 */
    CLI_KEYS_ESCAPE, /* after an escape character */
    CLI_KEYS_LATE,   /* after one that counted as the key: a bracket still makes a sequence of it */
    CLI_KEYS_ALONE,  /* within ESC O */
    CLI_KEYS_SEQUENCE,
    CLI_KEYS_STRING, /* an answer of the terminal that nobody asked for */
    CLI_KEYS_BUTTONS /* the three bytes of the old way to report the mouse */
} cli_keys_state;

/* Begin with a struct of zeros. */
typedef struct cli_keys {
    cli_keys_state state;
    bool pasting;
    bool private_mark; /* the sequence began with < */
    bool odd;          /* the sequence has what is not understood, and means nothing */
    char text[4];
    size_t text_len;
    size_t left; /* bytes of the character, or of buttons, that have not come */
    size_t number_count;
    uint32_t numbers[CLI_KEYS_NUMBERS];
} cli_keys;

/* Takes a byte; true when it completes an event. */
bool cli_keys_take(cli_keys *keys, unsigned char byte, cli_event *event);
/* Whether the meaning of what has come depends on whether more comes soon. */
bool cli_keys_waiting(const cli_keys *keys);
/* Nothing more has come in time; true when that completes an event. */
bool cli_keys_idle(cli_keys *keys, cli_event *event);

#endif
