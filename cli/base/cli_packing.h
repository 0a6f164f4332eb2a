/* SPDX-License-Identifier: Apache-2.0 */
/* What pack and unpack share: each file of a model becomes one, of the same name where there are several. */
#ifndef COFFER_CLI_PACKING_H
#define COFFER_CLI_PACKING_H

#include "cli_command.h"

/* Packs or unpacks the model that the arguments name, and says what came of it. Returns the exit code. */
int cli_packing(cli *app, const cli_arguments *arguments, bool unpack);

#endif
