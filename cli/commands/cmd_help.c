/* SPDX-License-Identifier: Apache-2.0 */
/* coffer help [COMMAND]: the help, made from the table of commands. */
#include "cli_help.h"
#include "cli_quote.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <string.h>

#define TEXT_WIDTH 100 /* what the texts in the tables are broken for */
#define OPTION_WIDTH 26
#define COMMAND_WIDTH 16 /* the longest name with space around it */
#define NARROW 60        /* below this, what an option does stands on a line of its own */

/* Lines as they are or, on a terminal that is narrower, whole paragraphs folded. */
static void show_text(cli_output *out, const char *text)
{
    if (out->width == 0 || out->width >= TEXT_WIDTH) {
        cli_put_text(out, text);
        return;
    }
    size_t column = 0;
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n");
        if (len == 0) {
            cli_put_text(out, column > 0 ? "\n\n" : "\n");
            column = 0;
        } else {
            column = column > 0 ? cli_put_folded(out, " ", 1, column, 0) : 0;
            column = cli_put_folded(out, text, len, column, 0);
        }
        text += len + (text[len] == '\n');
    }
    if (column > 0) {
        cli_put_char(out, '\n');
    }
}

/* A word at the left, and what it means, folded beside it or below. */
static void show_entry(cli_output *out, const char *head, size_t width, const char *text)
{
    const size_t used = strlen(head);
    const bool below = out->width > 0 && out->width < NARROW && width > COMMAND_WIDTH;
    const size_t indent = below ? 8 : width;
    cli_put_text(out, head);
    if (below) {
        cli_put_char(out, '\n');
    }
    const size_t column = below ? 0 : used;
    cli_put_repeat(out, ' ', column < indent ? indent - column : 2);
    cli_put_folded(out, text, strlen(text), column < indent ? indent : column + 2, indent);
    cli_put_char(out, '\n');
}

static void show_options(cli_output *out, const cli_command *command)
{
    const cli_option *option = NULL;
    cli_put_text(out, "\nOptions:\n");
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        char head[64];
        const char letter[] = { '-', option->letter, ',', ' ', '\0' };
        snprintf(head, sizeof head, "  %s--%s%s%s", option->letter != 0 ? letter : "    ", option->name,
                 option->argument != NULL ? " " : "", option->argument != NULL ? option->argument : "");
        show_entry(out, head, OPTION_WIDTH, option->summary);
    }
}

static void show_environment(cli_output *out)
{
    cli_put_text(out, "\nEnvironment:\n");
    for (const cli_variable *variable = CLI_ENVIRONMENT; variable->name != NULL; variable++) {
        char head[64];
        snprintf(head, sizeof head, "  %s", variable->name);
        show_entry(out, head, OPTION_WIDTH, variable->what);
    }
}

static void show_examples(cli_output *out, const cli_example *examples)
{
    cli_put_text(out, "\nExamples:\n");
    for (const cli_example *example = examples; example->line != NULL; example++) {
        cli_put_text(out, "  # ");
        cli_put_text(out, example->what);
        cli_put_text(out, "\n  ");
        cli_put_text(out, example->line);
        cli_put_char(out, '\n');
    }
}

void cli_show_overview(cli_output *out)
{
    show_text(out, "coffer - inspect, check and edit safetensors files\n");
    cli_put_text(out, "\nUsage: coffer COMMAND [OPTIONS] ...\n");
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        char head[32];
        const char *task = cli_task_of_first(CLI_COMMANDS[i]);
        if (task != NULL) {
            cli_put_char(out, '\n');
            cli_put_text(out, task);
            cli_put_text(out, ":\n");
        }
        snprintf(head, sizeof head, "  %s", CLI_COMMANDS[i]->name);
        show_entry(out, head, COMMAND_WIDTH, CLI_COMMANDS[i]->summary);
    }
    show_options(out, &cli_top);
    show_environment(out);
    cli_put_char(out, '\n');
    show_text(out, "Exit code: 0 success, 1 a file does not conform (or has no such tensor, key or index), 2 wrong\n"
                   "usage, 3 something could not be read or written, 130 Ctrl-C.\n");
    cli_put_text(out, "\nStart with:  coffer info model.safetensors\n"
                      "More about a command:  coffer help COMMAND\n");
}

static void show_usage(cli_output *out, const char *head, const char *name, const char *usage)
{
    cli_put_text(out, head);
    cli_put_text(out, name);
    cli_put_text(out, " [OPTIONS] ");
    cli_put_text(out, usage);
    cli_put_char(out, '\n');
}

void cli_show_help(cli_output *out, const cli_command *command)
{
    char head[160];
    snprintf(head, sizeof head, "coffer %s - %s\n", command->name, command->summary);
    show_text(out, head);
    show_usage(out, "\nUsage: coffer ", command->name, command->usage);
    if (command->alias != NULL) {
        show_usage(out, "       coffer ", command->alias, command->usage);
    }
    cli_put_char(out, '\n');
    show_text(out, command->about);
    show_options(out, command);
    show_examples(out, command->examples);
}

int cli_unknown_command(cli *app, const char *word)
{
    const size_t word_len = strlen(word);
    const cli_command *nearest = NULL;
    size_t best = cli_distance_limit(word_len) + 1;
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        const char *name = CLI_COMMANDS[i]->name;
        const size_t distance = cli_distance(word, word_len, name, strlen(name), best);
        if (distance < best) {
            best = distance;
            nearest = CLI_COMMANDS[i];
        }
    }
    char shown[256];
    char quoted[256];
    coffer_escape(word, word_len, shown, sizeof shown);
    if (strpbrk(word, "./") != NULL) {
        const bool fits = cli_quote_path(word, quoted, sizeof quoted) < sizeof quoted;
        return cli_usage_error(app, "\"%s\" is not a command; to inspect a file: coffer info %s", shown,
                               fits ? quoted : "FILE");
    }
    if (nearest == NULL) {
        return cli_usage_error(app, "unknown command \"%s\"", shown);
    }
    return cli_usage_error(app, "unknown command \"%s\"; did you mean \"%s\"?", shown, nearest->name);
}

static int run_help(cli *app, const cli_arguments *arguments)
{
    if (arguments->name_count == 0) {
        cli_show_overview(&app->out);
        return CLI_EXIT_OK;
    }
    const cli_command *command = cli_find_command(arguments->names[0]);
    if (command == NULL) {
        return cli_unknown_command(app, arguments->names[0]);
    }
    cli_show_help(&app->out, command);
    return CLI_EXIT_OK;
}

static const cli_option HELP_OPTIONS[] = {
    CLI_OPTION_ROW_END,
};

static const cli_example HELP_EXAMPLES[] = {
    { "coffer help", "all commands" },
    { "coffer help get", "one command in detail" },
    { NULL, NULL },
};

const cli_command cli_help = {
    .name = "help",
    .run = run_help,
    .summary = "show how to use a command",
    .usage = "[COMMAND]",
    .about = "Lists all commands, or describes one of them, as `coffer COMMAND --help` does.\n",
    .options = HELP_OPTIONS,
    .examples = HELP_EXAMPLES,
    .least_names = 0,
    .most_names = 1,
};
