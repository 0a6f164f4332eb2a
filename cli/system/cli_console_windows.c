/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: see cli_console.h for the contract. The console of Windows 10 takes the same sequences as a terminal and sends
 * them for keys and for the mouse. Its records are read one by one, because a change of its size comes between the keys.
 */
#include "cli_console.h"

#include "cli_host.h"
#include "cli_interrupt.h"
#include "cli_windows_text.h"

#define USUAL_COLUMNS 80
#define USUAL_ROWS 24
#define INTERRUPT_CHECK 100 /* milliseconds between looking for Ctrl-C */
#define INPUT_MAX 256

static const char enter_sequence[] = "\x1b[?1049h\x1b[?7l\x1b[?1000h\x1b[?1006h\x1b[?2004h";
static const char leave_sequence[] = "\x1b[?2026l\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

static struct {
    bool held;
    HANDLE input;
    HANDLE output;
    HANDLE woken; /* an event */
    DWORD input_before;
    DWORD output_before;
    UINT page_before;
    COORD size;
    char bytes[INPUT_MAX];
    size_t used;
} console;

static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd);
}

bool cli_console_possible(void)
{
    DWORD mode = 0;
    return cli_host_terminal(STDOUT_FILENO) && GetConsoleMode(handle_of(STDIN_FILENO), &mode);
}

static COORD size_now(void)
{
    CONSOLE_SCREEN_BUFFER_INFO about;
    COORD size = { USUAL_COLUMNS, USUAL_ROWS };
    if (GetConsoleScreenBufferInfo(console.output, &about)) {
        size.X = (SHORT)(about.srWindow.Right - about.srWindow.Left + 1);
        size.Y = (SHORT)(about.srWindow.Bottom - about.srWindow.Top + 1);
    }
    return size;
}

bool cli_console_open(void)
{
    console.input = handle_of(STDIN_FILENO);
    console.output = handle_of(STDOUT_FILENO);
    if (!GetConsoleMode(console.input, &console.input_before) ||
        !GetConsoleMode(console.output, &console.output_before)) {
        cli_windows_failed();
        return false;
    }
    console.woken = CreateEventW(NULL, FALSE, FALSE, NULL);
    console.page_before = GetConsoleCP();
    console.held = true;
    /* Ctrl-C stays a signal, which cli_interrupt.h watches for. */
    if (console.woken == NULL ||
        !SetConsoleMode(console.input, ENABLE_VIRTUAL_TERMINAL_INPUT | ENABLE_PROCESSED_INPUT | ENABLE_WINDOW_INPUT |
                                           ENABLE_EXTENDED_FLAGS) ||
        !SetConsoleMode(console.output, ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING)) {
        cli_windows_failed();
        cli_console_close();
        return false;
    }
    console.size = size_now();
    return cli_console_write(enter_sequence, sizeof enter_sequence - 1);
}

void cli_console_close(void)
{
    if (!console.held) {
        return;
    }
    cli_console_write(leave_sequence, sizeof leave_sequence - 1);
    SetConsoleMode(console.input, console.input_before);
    SetConsoleMode(console.output, console.output_before);
    if (console.woken != NULL) {
        CloseHandle(console.woken);
    }
    console.woken = NULL;
    console.held = false;
}

void cli_console_size(size_t *columns, size_t *rows)
{
    const COORD size = size_now();
    *columns = size.X > 0 ? (size_t)size.X : USUAL_COLUMNS;
    *rows = size.Y > 0 ? (size_t)size.Y : USUAL_ROWS;
}

/* Adds a character that was typed; halves of pairs come one after the other. */
static void add_unit(wchar_t unit)
{
    static wchar_t first;
    wchar_t units[2] = { unit, 0 };
    int count = 1;
    if (unit >= 0xD800 && unit < 0xDC00) {
        first = unit;
        return;
    }
    if (unit >= 0xDC00 && unit < 0xE000) {
        units[0] = first;
        units[1] = unit;
        count = 2;
    }
    console.used += (size_t)WideCharToMultiByte(CP_UTF8, 0, units, count, console.bytes + console.used,
                                                (int)(sizeof console.bytes - console.used), NULL, NULL);
}

/* Takes what the console has; whether its size changed. */
static bool take_records(void)
{
    INPUT_RECORD record;
    DWORD count = 0;
    bool resized = false;
    while (sizeof console.bytes - console.used >= 8 && GetNumberOfConsoleInputEvents(console.input, &count) &&
           count > 0 && ReadConsoleInputW(console.input, &record, 1, &count) && count == 1) {
        if (record.EventType == KEY_EVENT && record.Event.KeyEvent.bKeyDown &&
            record.Event.KeyEvent.uChar.UnicodeChar != 0) {
            add_unit(record.Event.KeyEvent.uChar.UnicodeChar);
        }
        resized |= record.EventType == WINDOW_BUFFER_SIZE_EVENT;
    }
    return resized;
}

static cli_console_event look_once(DWORD milliseconds)
{
    HANDLE handles[2] = { console.woken, console.input };
    const DWORD which = WaitForMultipleObjects(2, handles, FALSE, milliseconds);
    if (which == WAIT_OBJECT_0) {
        return CLI_CONSOLE_WOKEN;
    }
    if (which == WAIT_OBJECT_0 + 1 && take_records()) {
        return CLI_CONSOLE_RESIZED;
    }
    return console.used > 0 ? CLI_CONSOLE_INPUT : which == WAIT_FAILED ? CLI_CONSOLE_END : CLI_CONSOLE_TIMEOUT;
}

cli_console_event cli_console_wait(int milliseconds)
{
    cli_console_event event = CLI_CONSOLE_TIMEOUT;
    do {
        const bool last = milliseconds >= 0 && milliseconds <= INTERRUPT_CHECK;
        event = look_once(last ? (DWORD)milliseconds : INTERRUPT_CHECK);
        event = cli_interrupted() ? CLI_CONSOLE_END : event;
        if (last) {
            break;
        }
        milliseconds -= milliseconds > 0 ? INTERRUPT_CHECK : 0;
    } while (event == CLI_CONSOLE_TIMEOUT);
    return event;
}

size_t cli_console_read(char *bytes, size_t size)
{
    const size_t count = console.used < size ? console.used : size;
    memcpy(bytes, console.bytes, count);
    memmove(console.bytes, console.bytes + count, console.used - count);
    console.used -= count;
    return count;
}

bool cli_console_write(const char *bytes, size_t size)
{
    while (size > 0) {
        DWORD written = 0;
        const DWORD part = size < 32768 ? (DWORD)size : 32768;
        if (!WriteFile(console.output, bytes, part, &written, NULL) || written == 0) {
            cli_windows_failed();
            return false;
        }
        bytes += written;
        size -= written;
    }
    return true;
}

void cli_console_wake(void)
{
    SetEvent(console.woken);
}

void cli_console_suspend(void)
{
}

void cli_console_interrupt(void)
{
    GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0);
    while (!cli_interrupted()) {
        Sleep(1);
    }
}
