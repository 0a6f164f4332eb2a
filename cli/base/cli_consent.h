/* SPDX-License-Identifier: Apache-2.0 */
/* Asking before something is done that cannot be taken back. Only people are asked: standard input
   and standard error both have to be terminals. */
#ifndef COFFER_CLI_CONSENT_H
#define COFFER_CLI_CONSENT_H

#include "cli_command.h"

/* Whether there is somebody to ask. */
bool cli_can_ask(void);
/* Asks a question that is answered by y or n, on standard error. Everything but a yes is a no: an
   empty line, the input's end, and Ctrl-C, of which the process then dies. */
bool cli_ask(cli *app, const char *question);

#endif
