/* SPDX-License-Identifier: Apache-2.0 */
/* Templates, and what the tables for all shells share: see completion.h for the contract. */
#include "completion.h"

#include "cli_formats.h"

#include <string.h>

static const struct marker {
    const char *line;
    void (*put)(FILE *out);
} MARKERS[] = {
    { "@BASH_TABLES@", put_bash_tables },
    { "@ZSH_COMMANDS@", put_zsh_commands },
    { "@ZSH_CASES@", put_zsh_cases },
    { "@FISH_TABLES@", put_fish_tables },
    { "@FISH_COMPLETIONS@", put_fish_completions },
};

static void put_line(FILE *out, const char *line, size_t len)
{
    for (size_t i = 0; i < sizeof MARKERS / sizeof MARKERS[0]; i++) {
        if (strlen(MARKERS[i].line) == len && memcmp(line, MARKERS[i].line, len) == 0) {
            MARKERS[i].put(out);
            return;
        }
    }
    fwrite(line, 1, len, out);
    fputc('\n', out);
}

bool completion_write(FILE *out, const char *shell)
{
    const char *text = strcmp(shell, "bash") == 0   ? cli_template_bash
                       : strcmp(shell, "zsh") == 0  ? cli_template_zsh
                       : strcmp(shell, "fish") == 0 ? cli_template_fish
                                                    : NULL;
    while (text != NULL && *text != '\0') {
        const size_t len = strcspn(text, "\n");
        put_line(out, text, len);
        text += len + (text[len] == '\n');
    }
    return text != NULL;
}

void put_escaped(FILE *out, const char *text, const char *special)
{
    for (const char *at = text; at != NULL && *at != '\0'; at++) {
        if (strchr(special, *at) != NULL) {
            fputc('\\', out);
        }
        fputc(*at, out);
    }
}

void put_values(FILE *out, const cli_option *option, const char *between)
{
    char capacity[CLI_VALUES_SIZE];
    for (const char *at = cli_option_values(option, capacity); *at != '\0'; at++) {
        if (*at == '|') {
            fputs(between, out);
        } else {
            fputc(*at, out);
        }
    }
}

void put_command_names(FILE *out)
{
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", CLI_COMMANDS[i]->name);
    }
}

void put_dtype_names(FILE *out)
{
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        fprintf(out, "%s%s", dtype > 1 ? " " : "", coffer_dtype_name((coffer_dtype)dtype));
    }
}
