/* SPDX-License-Identifier: Apache-2.0 */
/* What is typed at a terminal: see cli_keys.h for the contract. */
#include "cli_keys.h"

#include "cli_text.h"

#include <string.h>

#define ESCAPE 0x1B
#define NUMBER_MAX 100000

static bool plain_key(cli_event *event, cli_key key)
{
    *event = (cli_event){ .key = key };
    return true;
}

/* ---- Characters ---- */

static size_t text_size(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

static bool take_control(const cli_keys *keys, unsigned char byte, cli_event *event)
{
    if (keys->pasting) {
        return false;
    }
    switch (byte) {
    case '\r':
    case '\n':
        return plain_key(event, CLI_KEY_ENTER);
    case '\t':
        return plain_key(event, CLI_KEY_TAB);
    case 0x08:
    case 0x7F:
        return plain_key(event, CLI_KEY_BACKSPACE);
    default:
        *event = (cli_event){ .key = CLI_KEY_CONTROL, .code = (uint32_t)byte + 0x60 };
        return byte >= 1 && byte <= 26;
    }
}

static bool end_text(cli_keys *keys, cli_event *event)
{
    uint32_t code = 0;
    const size_t size = cli_read_character(keys->text, keys->text_len, &code);
    keys->state = CLI_KEYS_PLAIN;
    *event = (cli_event){ .key = CLI_KEY_CHARACTER, .code = code, .pasted = keys->pasting };
    return size == keys->text_len && !cli_is_unsafe(code);
}

static bool take_plain(cli_keys *keys, unsigned char byte, cli_event *event)
{
    if (byte == ESCAPE) {
        keys->state = CLI_KEYS_ESCAPE;
        return false;
    }
    if (byte < 0x20 || byte == 0x7F) {
        return take_control(keys, byte, event);
    }
    const size_t size = text_size(byte);
    if (size == 0) {
        return false;
    }
    keys->text[0] = (char)byte;
    keys->text_len = 1;
    keys->left = size - 1;
    keys->state = CLI_KEYS_TEXT;
    return keys->left == 0 && end_text(keys, event);
}

/* A character that is cut short by one that begins is given up. */
static bool take_text(cli_keys *keys, unsigned char byte, cli_event *event)
{
    if ((byte & 0xC0) != 0x80) {
        keys->state = CLI_KEYS_PLAIN;
        return take_plain(keys, byte, event);
    }
    keys->text[keys->text_len++] = (char)byte;
    keys->left--;
    return keys->left == 0 && end_text(keys, event);
}

/* ---- Sequences ---- */

static bool take_escape(cli_keys *keys, unsigned char byte, cli_event *event)
{
    keys->state = CLI_KEYS_PLAIN;
    switch (byte) {
    case '[':
        *keys = (cli_keys){ .state = CLI_KEYS_SEQUENCE, .pasting = keys->pasting };
        return false;
    case 'O':
        keys->state = CLI_KEYS_ALONE;
        return false;
    case ']':
    case 'P':
    case '_':
    case '^':
    case 'X':
        keys->state = CLI_KEYS_STRING;
        return false;
    case ESCAPE:
        keys->state = CLI_KEYS_ESCAPE;
        return !keys->pasting && plain_key(event, CLI_KEY_ESCAPE);
    default: /* a key with Alt, of which there is none */
        return false;
    }
}

static bool key_of_letter(unsigned char letter, cli_event *event)
{
    static const struct {
        unsigned char letter;
        cli_key key;
    } letters[] = {
        { 'A', CLI_KEY_UP },   { 'B', CLI_KEY_DOWN }, { 'C', CLI_KEY_RIGHT },    { 'D', CLI_KEY_LEFT },
        { 'H', CLI_KEY_HOME }, { 'F', CLI_KEY_END },  { 'Z', CLI_KEY_BACK_TAB }, { 'M', CLI_KEY_ENTER },
    };
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].letter == letter) {
            return plain_key(event, letters[i].key);
        }
    }
    return false;
}

static bool key_of_number(uint32_t number, cli_event *event)
{
    switch (number) {
    case 1:
    case 7:
        return plain_key(event, CLI_KEY_HOME);
    case 3:
        return plain_key(event, CLI_KEY_DELETE);
    case 4:
    case 8:
        return plain_key(event, CLI_KEY_END);
    case 5:
        return plain_key(event, CLI_KEY_PAGE_UP);
    case 6:
        return plain_key(event, CLI_KEY_PAGE_DOWN);
    default:
        return false;
    }
}

/* Which buttons: bit 6 is the wheel, bit 5 a motion, bits 2 to 4 are keys held down; the end 'm' is a release. */
static bool mouse_event(const cli_keys *keys, unsigned char end, cli_event *event)
{
    const uint32_t buttons = keys->numbers[0] & ~0x1Cu;
    if (keys->number_count != 3 || end != 'M' || keys->numbers[1] == 0 || keys->numbers[2] == 0) {
        return false;
    }
    *event = (cli_event){ .key = CLI_KEY_PRESS, .x = keys->numbers[1] - 1, .y = keys->numbers[2] - 1 };
    if (buttons == 64 || buttons == 65) {
        event->key = buttons == 64 ? CLI_KEY_WHEEL_UP : CLI_KEY_WHEEL_DOWN;
        return true;
    }
    return buttons == 0;
}

static bool end_sequence(cli_keys *keys, unsigned char end, cli_event *event)
{
    keys->state = CLI_KEYS_PLAIN;
    if (keys->private_mark || keys->odd) {
        return keys->private_mark && !keys->odd && !keys->pasting && mouse_event(keys, end, event);
    }
    if (end == 'M' && keys->number_count == 0) {
        keys->state = CLI_KEYS_BUTTONS;
        keys->left = 3;
        return false;
    }
    if (end == '~' && (keys->numbers[0] == 200 || keys->numbers[0] == 201)) {
        keys->pasting = keys->numbers[0] == 200;
        return false;
    }
    if (keys->pasting) {
        return false;
    }
    return end == '~' ? key_of_number(keys->numbers[0], event) : end != 'M' && key_of_letter(end, event);
}

static void take_digit(cli_keys *keys, unsigned char byte)
{
    if (keys->number_count == 0) {
        keys->number_count = 1;
    }
    if (keys->number_count <= CLI_KEYS_NUMBERS && keys->numbers[keys->number_count - 1] < NUMBER_MAX) {
        uint32_t *number = &keys->numbers[keys->number_count - 1];
        *number = *number * 10 + (uint32_t)(byte - '0');
    }
}

static bool take_sequence(cli_keys *keys, unsigned char byte, cli_event *event)
{
    if (byte >= 0x40 && byte <= 0x7E) {
        return end_sequence(keys, byte, event);
    }
    if (byte < 0x20 || byte > 0x7E) { /* it was none */
        keys->state = byte == ESCAPE ? CLI_KEYS_ESCAPE : CLI_KEYS_PLAIN;
        return false;
    }
    if (byte >= '0' && byte <= '9') {
        take_digit(keys, byte);
    } else if (byte == ';') {
        /* Further numbers are counted up to one too many. */
        keys->number_count += keys->number_count == 0 ? 2 : keys->number_count <= CLI_KEYS_NUMBERS;
    } else if (byte == '<' && keys->number_count == 0 && !keys->odd) {
        keys->private_mark = true;
    } else {
        keys->odd = true;
    }
    return false;
}

static bool take_string(cli_keys *keys, unsigned char byte)
{
    if (byte == 0x07 || byte == ESCAPE) {
        keys->state = byte == ESCAPE ? CLI_KEYS_ESCAPE : CLI_KEYS_PLAIN;
    }
    return false;
}

bool cli_keys_take(cli_keys *keys, unsigned char byte, cli_event *event)
{
    switch (keys->state) {
    case CLI_KEYS_TEXT:
        return take_text(keys, byte, event);
    case CLI_KEYS_ESCAPE:
        return take_escape(keys, byte, event);
    case CLI_KEYS_LATE:
        keys->state = CLI_KEYS_PLAIN;
        return byte == '[' || byte == 'O' ? take_escape(keys, byte, event) : take_plain(keys, byte, event);
    case CLI_KEYS_ALONE:
        keys->state = CLI_KEYS_PLAIN;
        return !keys->pasting && key_of_letter(byte, event);
    case CLI_KEYS_SEQUENCE:
        return take_sequence(keys, byte, event);
    case CLI_KEYS_STRING:
        return take_string(keys, byte);
    case CLI_KEYS_BUTTONS:
        keys->left--;
        keys->state = keys->left == 0 ? CLI_KEYS_PLAIN : CLI_KEYS_BUTTONS;
        return false;
    default:
        return take_plain(keys, byte, event);
    }
}

bool cli_keys_waiting(const cli_keys *keys)
{
    return keys->state == CLI_KEYS_ESCAPE || keys->state == CLI_KEYS_ALONE || keys->state == CLI_KEYS_STRING;
}

bool cli_keys_idle(cli_keys *keys, cli_event *event)
{
    const bool escape = keys->state == CLI_KEYS_ESCAPE && !keys->pasting;
    if (cli_keys_waiting(keys)) {
        keys->state = escape ? CLI_KEYS_LATE : CLI_KEYS_PLAIN;
    }
    return escape && plain_key(event, CLI_KEY_ESCAPE);
}
