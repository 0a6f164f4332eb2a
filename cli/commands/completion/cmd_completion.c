/* SPDX-License-Identifier: Apache-2.0 */
/* coffer completion SHELL: the script by which a shell completes command lines. */
#include "cli_report.h"
#include "completion.h"

#include <errno.h>
#include <string.h>

static int run_completion(cli *app, const cli_arguments *arguments)
{
    char shown[64];
    const char *shell = arguments->names[0];
    cli_output_flush(&app->out);
    if (!completion_write(stdout, shell)) {
        coffer_escape(shell, strlen(shell), shown, sizeof shown);
        return cli_usage_error(app, "there are completions for bash, zsh and fish, not for \"%s\"", shown);
    }
    /* This is not what the output's own buffer has written, but fails like it. */
    if (fflush(stdout) != 0 && app->out.error == 0) {
        app->out.error = errno;
    }
    return CLI_EXIT_OK;
}

static const cli_option COMPLETION_OPTIONS[] = {
    CLI_OPTION_ROW_END,
};

static const cli_example COMPLETION_EXAMPLES[] = {
    { "source <(coffer completion bash)", "complete in this shell" },
    { "coffer completion zsh > ~/.zfunc/_coffer", "in every shell, if fpath has that folder" },
    { "coffer completion fish > ~/.config/fish/completions/coffer.fish", "in every shell" },
    { NULL, NULL },
};

const cli_command cli_completion = {
    .name = "completion",
    .run = run_completion,
    .summary = "print the script by which a shell completes command lines",
    .usage = "SHELL",
    .about = "SHELL is bash, zsh or fish. The scripts complete commands, options and their values, files, and what\n"
             "is in the file on the line: names of tensors and keys of metadata. Packages install them.\n",
    .options = COMPLETION_OPTIONS,
    .examples = COMPLETION_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
