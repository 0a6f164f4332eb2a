/* SPDX-License-Identifier: Apache-2.0 */
/* The specifications that zsh's _arguments reads, one for each option and argument, in a case for each command. */
#include "completion.h"

#include <string.h>

/* What zsh's specifications give a meaning to, inside single quotes. */
static void put_message(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (strchr("[]:\\", *at) != NULL) {
            fputc('\\', out);
        }
        fputs(*at == '\'' ? "'\\''" : (const char[]){ *at, '\0' }, out);
    }
}

/* ":MESSAGE:ACTION", of an argument or an option's value. */
static void put_action(FILE *out, const char *word, word_kind kind, const cli_option *option)
{
    fputc(':', out);
    put_message(out, word);
    if (option != NULL && option->values != NULL) {
        fputs(":(", out);
        put_values(out, option, " ");
        fputc(')', out);
    } else if (kind == WORD_FILE) {
        fputs(":_files", out);
    } else if (kind == WORD_ANY) {
        fputs(": ", out);
    } else {
        fprintf(out, ":->%s", kind_name(kind));
    }
}

static void put_option(FILE *out, const cli_option *option)
{
    const bool takes_value = option->argument != NULL;
    fputs("                '", out);
    if (option->letter != 0 && !takes_value) {
        fprintf(out, "(-%c --%s)'{-%c,--%s}'", option->letter, option->name, option->letter, option->name);
    } else if (option->letter != 0) {
        fprintf(out, "*'{-%c+,--%s=}'", option->letter, option->name);
    } else {
        fprintf(out, "%s--%s%s", takes_value ? "*" : "", option->name, takes_value ? "=" : "");
    }
    fputc('[', out);
    put_message(out, option->summary);
    fputc(']', out);
    if (takes_value) {
        put_action(out, option->argument, kind_of_value(option), option);
    }
    fputs("' \\\n", out);
}

static void put_case(FILE *out, const cli_command *command)
{
    const char *alias = command->alias != NULL ? command->alias : "";
    fprintf(out, "        %s%s%s)\n            _arguments -C -s -S \\\n", command->name, alias[0] != '\0' ? "|" : "",
            alias);
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        put_option(out, option);
    }
    operand operands[MAX_OPERANDS];
    const size_t count = read_operands(command, operands);
    for (size_t i = 0; i < count; i++) {
        fputs("                '", out);
        fprintf(out, operands[i].repeats ? "*" : "%zu", i + 1);
        put_action(out, operands[i].word, operands[i].kind, NULL);
        fputs("' \\\n", out);
    }
    fputs("                && ret=0\n            ;;\n", out);
}

void put_zsh_commands(FILE *out)
{
    fputs("local -a commands=(\n", out);
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        fprintf(out, "    '%s:", CLI_COMMANDS[i]->name);
        put_message(out, CLI_COMMANDS[i]->summary);
        fputs("'\n", out);
    }
    fputs(")\nlocal -a dtypes=(", out);
    put_dtype_names(out);
    fputs(")\nlocal -a top=(\n", out);
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(&cli_top, i)) != NULL; i++) {
        fputs("    '(- : *)'", out);
        if (option->letter != 0) {
            fprintf(out, "{-%c,--%s}", option->letter, option->name);
        } else {
            fprintf(out, "--%s", option->name);
        }
        fputs("'[", out);
        put_message(out, option->summary);
        fputs("]'\n", out);
    }
    fputs(")\n", out);
}

void put_zsh_cases(FILE *out)
{
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        put_case(out, CLI_COMMANDS[i]);
    }
}
