/* SPDX-License-Identifier: Apache-2.0 */
/* In place of cli_sandbox.c, its child and cli_confine.c where the system cannot confine a process like that: no file is
   read in another one. */
#include "cli_sandbox.h"

#include <stdio.h>

bool cli_sandbox_possible(void)
{
    return false;
}

bool cli_sandbox_is_child(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return false;
}

int cli_sandbox_child(void)
{
    return 1;
}

/* Nobody calls it: cli_sandbox_possible says no. */
coffer_status cli_sandbox_read(coffer_input *input, const char *path, const coffer_import_options *options,
                               unsigned char **bytes, size_t *size, coffer_error *err)
{
    (void)input;
    (void)path;
    (void)options;
    *bytes = NULL;
    *size = 0;
    *err = (coffer_error){ .code = COFFER_ERR_UNSUPPORTED, .offset = COFFER_NO_OFFSET };
    (void)snprintf(err->message, sizeof err->message, "this system cannot confine the process that reads the file");
    return err->code;
}
