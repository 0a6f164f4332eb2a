/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C on Windows: see cli_interrupt.h for the contract. */
#include "cli_interrupt.h"

#include "cli_windows_text.h"

#include <stdatomic.h>

#define INTERRUPT_CHECK 100 /* milliseconds between looking for Ctrl-C */

static atomic_bool caught;

/* Runs in a thread of its own. Whoever closes the console, logs off or shuts down ends the process when this returns, or a
   few seconds later: those are for the work to end in. */
static BOOL WINAPI catch_event(DWORD event)
{
    const bool again = atomic_exchange(&caught, true);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) {
        Sleep(INFINITE);
    }
    return !again;
}

/* Where Ctrl-C is ignored, as in a new process group, it does not come here. */
void cli_catch_interrupts(void)
{
    SetConsoleCtrlHandler(catch_event, TRUE);
}

bool cli_interrupted(void)
{
    return atomic_load(&caught);
}

/* Whether a read would return at once. A pipe that cannot be looked into is broken, and a read says so. */
static bool has_input(HANDLE input)
{
    DWORD waiting = 0;
    if (GetFileType(input) == FILE_TYPE_PIPE) {
        const bool ready = !PeekNamedPipe(input, NULL, 0, NULL, &waiting, NULL) || waiting > 0;
        if (!ready) {
            Sleep(INTERRUPT_CHECK / 10);
        }
        return ready;
    }
    return GetFileType(input) != FILE_TYPE_CHAR || WaitForSingleObject(input, INTERRUPT_CHECK) != WAIT_TIMEOUT;
}

bool cli_wait_for_input(void)
{
    const HANDLE input = (HANDLE)_get_osfhandle(STDIN_FILENO);
    while (!cli_interrupted()) {
        if (has_input(input)) {
            return !cli_interrupted();
        }
    }
    return false;
}

/* The exit code that a process has which Ctrl-C has ended. */
void cli_die_of_interrupt(void)
{
    if (cli_interrupted()) {
        exit((int)STATUS_CONTROL_C_EXIT);
    }
}
