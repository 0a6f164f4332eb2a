/* SPDX-License-Identifier: Apache-2.0 */
/* A `complete` for each command, option and argument, as fish wants them, and the options whose
   value is a word of its own. */
#include "completion.h"

/* Text in single quotes. */
static void put_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    put_escaped(out, text, "'\\");
    fputc('\'', out);
}

/* What is offered for a kind of word: the arguments of `complete`. */
static void put_offer(FILE *out, word_kind kind)
{
    switch (kind) {
    case WORD_FILE:
        fputs(" -F", out);
        break;
    case WORD_TENSOR:
        fputs(" -f -a '(__coffer_tensors)'", out);
        break;
    case WORD_KEY:
        fputs(" -f -a '(__coffer_keys)'", out);
        break;
    case WORD_COMMAND:
        fputs(" -f -a '$__coffer_commands'", out);
        break;
    case WORD_DTYPE:
        fputs(" -f -a '$__coffer_dtypes'", out);
        break;
    case WORD_ANY:
    default:
        fputs(" -f", out);
        break;
    }
}

static void put_option(FILE *out, const char *condition, const cli_option *option)
{
    fprintf(out, "complete -c coffer -n '%s' -l %s", condition, option->name);
    if (option->letter != 0) {
        fprintf(out, " -s %c", option->letter);
    }
    fputs(" -d ", out);
    put_quoted(out, option->summary);
    if (option->values != NULL) {
        fputs(" -x -a '", out);
        put_values(out, option, " ");
        fputc('\'', out);
    } else if (option->argument != NULL) {
        fputs(" -r", out);
        put_offer(out, kind_of_value(option));
    }
    fputc('\n', out);
}

/* Argument number `i` of a command; of no name, nothing. */
static void put_argument(FILE *out, const char *name, size_t i, const operand *argument)
{
    if (name != NULL) {
        fprintf(out, "complete -c coffer -n '__coffer_at %s %zu%s'", name, i, argument->repeats ? " more" : "");
        put_offer(out, argument->kind);
        fputc('\n', out);
    }
}

static void put_command(FILE *out, const cli_command *command)
{
    char condition[64];
    fprintf(out, "complete -c coffer -n __coffer_wants_command -a %s -d ", command->name);
    put_quoted(out, command->summary);
    fputc('\n', out);
    snprintf(condition, sizeof condition, "__coffer_is %s%s%s", command->name, command->alias != NULL ? " " : "",
             command->alias != NULL ? command->alias : "");
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        put_option(out, condition, option);
    }
    operand operands[MAX_OPERANDS];
    const size_t count = read_operands(command, operands);
    for (size_t i = 0; i < count; i++) {
        put_argument(out, command->name, i, &operands[i]);
        put_argument(out, command->alias, i, &operands[i]);
    }
}

/* The words that a value follows; of no name, nothing. */
static void put_with_value(FILE *out, const char *name, const cli_option *option)
{
    if (name == NULL) {
        return;
    }
    fprintf(out, " %s:--%s", name, option->name);
    if (option->letter != 0) {
        fprintf(out, " %s:-%c", name, option->letter);
    }
}

void put_fish_tables(FILE *out)
{
    fputs("set -g __coffer_commands ", out);
    put_command_names(out);
    fputs("\nset -g __coffer_dtypes ", out);
    put_dtype_names(out);
    fputs("\nset -g __coffer_with_value", out);
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        const cli_option *option;
        for (size_t k = 0; (option = cli_option_at(CLI_COMMANDS[i], k)) != NULL; k++) {
            if (option->argument != NULL) {
                put_with_value(out, CLI_COMMANDS[i]->name, option);
                put_with_value(out, CLI_COMMANDS[i]->alias, option);
            }
        }
    }
    fputc('\n', out);
}

void put_fish_completions(FILE *out)
{
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(&cli_top, i)) != NULL; i++) {
        put_option(out, "__coffer_wants_command", option);
    }
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        put_command(out, CLI_COMMANDS[i]);
    }
}
