/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the completion for bash: three functions that answer with what is possible. */
#include "completion.h"

#include <string.h>

static void put_option_words(FILE *out, const cli_command *command)
{
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        fprintf(out, "%s--%s", i > 0 ? " " : "", option->name);
        if (option->letter != 0) {
            fprintf(out, " -%c", option->letter);
        }
    }
}

/* _coffer_options COMMAND: its options. */
static void put_options(FILE *out, const cli_command *command, const char *name)
{
    fprintf(out, "    %s) echo '", name);
    put_option_words(out, command);
    fputs("' ;;\n", out);
}

/* _coffer_value COMMAND OPTION: what its value is, nothing when it takes none. */
static void put_value(FILE *out, const cli_command *command, const char *name)
{
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        if (option->argument == NULL) {
            continue;
        }
        fprintf(out, "    %s:--%s", name, option->name);
        if (option->letter != 0) {
            fprintf(out, " | %s:-%c", name, option->letter);
        }
        fputs(") echo ", out);
        if (option->values != NULL) {
            fputs("'words ", out);
            put_values(out, option, " ");
            fputs("' ;;\n", out);
        } else {
            fprintf(out, "%s ;;\n", kind_name(kind_of_value(option)));
        }
    }
}

/* _coffer_operand COMMAND NUMBER: what argument number NUMBER is. */
static void put_operand(FILE *out, const cli_command *command, const char *name)
{
    operand operands[MAX_OPERANDS];
    const size_t count = read_operands(command, operands);
    for (size_t i = 0; i < count; i++) {
        if (operands[i].repeats) {
            fprintf(out, "    %s:*) echo %s ;;\n", name, kind_name(operands[i].kind));
        } else {
            fprintf(out, "    %s:%zu) echo %s ;;\n", name, i, kind_name(operands[i].kind));
        }
    }
}

static void put_function(FILE *out, const char *name, const char *subject,
                         void (*put)(FILE *, const cli_command *, const char *))
{
    fprintf(out, "%s() {\n    case %s in\n", name, subject);
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        put(out, CLI_COMMANDS[i], CLI_COMMANDS[i]->name);
        if (CLI_COMMANDS[i]->alias != NULL) {
            put(out, CLI_COMMANDS[i], CLI_COMMANDS[i]->alias);
        }
    }
    fputs("    esac\n}\n\n", out);
}

void put_bash_tables(FILE *out)
{
    fputs("_coffer_commands='", out);
    put_command_names(out);
    fputs("'\n_coffer_top_options='", out);
    put_option_words(out, &cli_top);
    fputs("'\n_coffer_dtypes='", out);
    put_dtype_names(out);
    fputs("'\n\n", out);
    put_function(out, "_coffer_options", "$1", put_options);
    put_function(out, "_coffer_value", "$1:$2", put_value);
    put_function(out, "_coffer_operand", "$1:$2", put_operand);
}
