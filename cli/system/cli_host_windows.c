/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: see cli_host.h and cli_windows.h for the contracts. */
#include "cli_host.h"

#include "cli_windows_text.h"

#include <psapi.h>

const char cli_host_separators[] = "/\\";

static UINT page_before; /* of the console, which outlives the command */

static void give_page_back(void)
{
    SetConsoleOutputCP(page_before);
}

static void ignore_wrong_descriptor(const wchar_t *expression, const wchar_t *function, const wchar_t *file,
                                    unsigned line, uintptr_t reserved)
{
    (void)expression, (void)function, (void)file, (void)line, (void)reserved;
}

/* Bytes are written as they are, and the console is told that they are UTF-8. A descriptor that somebody closed is an
   error, and not the end of the process. */
void cli_host_begin(void)
{
    _set_invalid_parameter_handler(ignore_wrong_descriptor);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (_get_osfhandle(fd) < 0) {
            (void)_wopen(L"NUL", fd == STDIN_FILENO ? _O_WRONLY : _O_RDONLY);
        } else {
            (void)_setmode(fd, _O_BINARY);
        }
    }
    page_before = GetConsoleOutputCP();
    if (page_before != 0 && page_before != CP_UTF8 && SetConsoleOutputCP(CP_UTF8)) {
        atexit(give_page_back);
    }
}

/* A device is no terminal for that: NUL is one too. */
int cli_windows_isatty(int fd)
{
    DWORD mode = 0;
    return GetConsoleMode((HANDLE)_get_osfhandle(fd), &mode);
}

/* Consoles before Windows 10 show control sequences as they are, and cannot be asked for anything else. */
bool cli_host_terminal(int fd)
{
    const HANDLE console = (HANDLE)_get_osfhandle(fd);
    const char *terminal = getenv("TERM");
    DWORD mode = 0;
    return (terminal == NULL || strcmp(terminal, "dumb") != 0) && GetConsoleMode(console, &mode) &&
           SetConsoleMode(console, mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

size_t cli_host_width(int fd)
{
    CONSOLE_SCREEN_BUFFER_INFO about;
    return GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fd), &about)
               ? (size_t)(about.srWindow.Right - about.srWindow.Left + 1)
               : 0;
}

static double seconds_of(FILETIME time)
{
    return 1e-7 * (double)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
}

double cli_host_processor_seconds(void)
{
    FILETIME begun;
    FILETIME ended;
    FILETIME kernel;
    FILETIME user;
    return GetProcessTimes(GetCurrentProcess(), &begun, &ended, &kernel, &user) ? seconds_of(kernel) + seconds_of(user)
                                                                                : 0;
}

uint64_t cli_host_peak_kib(void)
{
    PROCESS_MEMORY_COUNTERS memory = { .cb = sizeof memory };
    return K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory) ? memory.PeakWorkingSetSize / 1024 : 0;
}

long cli_windows_processors(void)
{
    return (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}

char *cli_windows_strndup(const char *text, size_t most)
{
    const size_t len = strnlen(text, most);
    char *copy = malloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}
