/* SPDX-License-Identifier: Apache-2.0 */
/* Asking: see cli_consent.h for the contract. */
#include "cli_consent.h"

#include "cli_interrupt.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ANSWER_SIZE 8 /* of which "yes" is the longest that means something */

bool cli_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* Reads a line and keeps what fits of it. One byte at a time: what follows the line is for the next reader. */
static void read_line(char answer[ANSWER_SIZE])
{
    char c = '\0';
    size_t len = 0;
    while (cli_wait_for_input() && read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {
        if (len + 1 < ANSWER_SIZE) {
            answer[len++] = c;
        }
    }
    answer[len] = '\0';
}

bool cli_ask(cli *app, const char *question)
{
    char answer[ANSWER_SIZE];
    cli_output_flush(&app->out);
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    read_line(answer);
    return !cli_interrupted() && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);
}
