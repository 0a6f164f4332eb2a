/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer: the command line. It finds the command, has its options parsed and runs it; all that a command does is in
 * its own cmd_NAME.c, and everything about files comes from the library by coffer.h alone.
 */
#include "cli_command.h"
#include "cli_help.h"
#include "cli_host.h"
#include "cli_interrupt.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_sandbox.h"
#include "cli_terminal.h"
#include "coffer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int wrong_number_of_names(cli *app, const cli_command *command, const cli_arguments *arguments)
{
    if (arguments->name_count < command->least_names) {
        return cli_usage_error(app, "too few arguments; usage: coffer %s %s", command->name, command->usage);
    }
    char shown[256];
    const char *extra = arguments->names[command->most_names];
    coffer_escape(extra, strlen(extra), shown, sizeof shown);
    return cli_usage_error(app, "unexpected argument \"%s\"; usage: coffer %s %s", shown, command->name,
                           command->usage);
}

/* Before bytes go to a terminal, the progress goes. */
static void reserve(void *ctx)
{
    const cli *app = ctx;
    if (app->progress != NULL) {
        cli_progress_hide(app->progress);
    }
}

/* Colours as they are asked for, which counts more than the environment. */
static void set_colours(cli *app, const cli_arguments *arguments)
{
    const int when = cli_which(arguments, CLI_OPTION_COLOR);
    if (when > 0) {
        app->out.colour = when == 1;
        app->error_colour = when == 1;
    }
}

/* What the options of every command ask for. */
static void set_manners(cli *app, const cli_arguments *arguments)
{
    app->json = cli_given(arguments, CLI_OPTION_JSON);
    app->tsv = cli_given(arguments, CLI_OPTION_TSV);
    app->quiet = cli_given(arguments, CLI_OPTION_QUIET);
    app->shows_progress =
        !app->quiet && !cli_given(arguments, CLI_OPTION_NO_PROGRESS) && cli_terminal_capable(STDERR_FILENO);
    set_colours(app, arguments);
    app->out.before = reserve;
    app->out.before_ctx = app;
}

static int run_command(cli *app, const cli_command *command, size_t count, char **words)
{
    cli_arguments arguments;
    app->command = command;
    int code = cli_parse_arguments(app, command, count, words, &arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    set_manners(app, &arguments);
    if (cli_given(&arguments, CLI_OPTION_HELP)) {
        cli_show_help(&app->out, command);
    } else if (app->json && app->tsv) {
        code = cli_usage_error(app, "--json and --tsv exclude each other");
    } else if (arguments.name_count < command->least_names || arguments.name_count > command->most_names) {
        code = wrong_number_of_names(app, command, &arguments);
    } else {
        code = command->run(app, &arguments);
    }
    cli_free_arguments(&arguments);
    return code;
}

/* Options before a command: --version and --help, and everything else is a mistake that the parser explains. */
static int run_top(cli *app, size_t count, char **words)
{
    cli_arguments arguments;
    const int code = cli_parse_arguments(app, &cli_top, count, words, &arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli_given(&arguments, CLI_OPTION_VERSION)) {
        cli_put_text(&app->out, "coffer ");
        cli_put_text(&app->out, coffer_version());
        cli_put_char(&app->out, '\n');
    } else {
        cli_show_overview(&app->out);
    }
    cli_free_arguments(&arguments);
    return CLI_EXIT_OK;
}

static int run(cli *app, size_t count, char **words)
{
    if (count == 0) {
        /* Nobody asked for the overview, so it is not data: it goes where messages go. */
        cli_output_init(&app->out, STDERR_FILENO);
        cli_show_overview(&app->out);
        return CLI_EXIT_USAGE;
    }
    if (words[0][0] == '-' && words[0][1] != '\0') {
        return run_top(app, 1, words);
    }
    const cli_command *command = cli_find_command(words[0]);
    const char *implied = cli_implied_option(words[0]);
    if (command == NULL) {
        return cli_unknown_command(app, words[0]);
    }
    if (implied == NULL) {
        return run_command(app, command, count - 1, words + 1);
    }
    char option[16];
    snprintf(option, sizeof option, "%s", implied);
    words[0] = option;
    return run_command(app, command, count, words);
}

int cli_main(int argc, char **argv)
{
    if (cli_sandbox_is_child(argc, argv)) {
        return cli_sandbox_child();
    }
    static cli app; /* static for its buffer's sake: it is larger than a stack frame should be */
    cli_host_begin();
    cli_catch_interrupts();
    cli_output_init(&app.out, STDOUT_FILENO);
    app.error_colour = cli_terminal_colour(STDERR_FILENO);
    app.error_ascii = cli_terminal_width(STDERR_FILENO) > 0 && !cli_terminal_utf8();
    const int code = run(&app, argc > 1 ? (size_t)argc - 1 : 0, argv + (argc > 0));
    return cli_finish(&app, code);
}
