/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C: see cli_interrupt.h for the contract. */
#include "cli_interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define INTERRUPT_CHECK 100 /* milliseconds between looking for Ctrl-C */

/* The signal's number, or 0. Atomic, because the handler runs on one thread and others look. */
static atomic_int caught;

static void catch_signal(int number)
{
    caught = number;
}

void cli_catch_interrupts(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        /* The user who started the program may have wanted it to live on: nohup, or a shell's background. */
        if (sigaction(numbers[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) {
            continue;
        }
        memset(&action, 0, sizeof action);
        action.sa_handler = catch_signal;
        /* No SA_RESTART: a read or a write that waits for somebody shall end. */
        action.sa_flags = (int)SA_RESETHAND;
        sigaction(numbers[i], &action, NULL);
    }
}

bool cli_interrupted(void)
{
    return caught != 0;
}

bool cli_wait_for_input(void)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    while (!cli_interrupted()) {
        if (poll(&input, 1, INTERRUPT_CHECK) != 0) {
            return !cli_interrupted();
        }
    }
    return false;
}

void cli_die_of_interrupt(void)
{
    if (caught != 0) {
        signal(caught, SIG_DFL);
        raise(caught);
    }
}
