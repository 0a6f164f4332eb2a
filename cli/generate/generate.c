/* SPDX-License-Identifier: Apache-2.0 */
/* coffer_generate TEMPLATE OUT: copies the template, with the table of commands in the place of its markers. */
#include "generate.h"

#include "cli_formats.h"

#include <stdlib.h>
#include <string.h>

static const struct marker {
    const char *line;
    void (*put)(FILE *out);
} MARKERS[] = {
    { "@MAN_TITLE@\n", put_man_title },
    { "@MAN_OPTIONS@\n", put_man_options },
    { "@MAN_ENVIRONMENT@\n", put_man_environment },
    { "@MAN_COMMANDS@\n", put_man_commands },
    { "@BASH_TABLES@\n", put_bash_tables },
    { "@ZSH_COMMANDS@\n", put_zsh_commands },
    { "@ZSH_CASES@\n", put_zsh_cases },
    { "@FISH_TABLES@\n", put_fish_tables },
    { "@FISH_COMPLETIONS@\n", put_fish_completions },
};

static void put_line(FILE *out, const char *line)
{
    for (size_t i = 0; i < sizeof MARKERS / sizeof MARKERS[0]; i++) {
        if (strcmp(line, MARKERS[i].line) == 0) {
            MARKERS[i].put(out);
            return;
        }
    }
    fputs(line, out);
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

void put_in_quotes(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\'') {
            fputs("'\\''", out);
        } else {
            fputc(*at, out);
        }
    }
}

void put_values(FILE *out, const cli_option *option, const char *between)
{
    char room[CLI_VALUES_SIZE];
    for (const char *at = cli_option_values(option, room); *at != '\0'; at++) {
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

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: coffer_generate TEMPLATE OUT\n");
        return 2;
    }
    FILE *template = fopen(argv[1], "r");
    FILE *out = fopen(argv[2], "w");
    if (template == NULL || out == NULL) {
        fprintf(stderr, "coffer_generate: cannot open %s\n", argv[template == NULL ? 1 : 2]);
        return 1;
    }
    char line[1024];
    while (fgets(line, sizeof line, template) != NULL) {
        put_line(out, line);
    }
    fclose(template);
    if (ferror(out) != 0 || fclose(out) != 0) {
        fprintf(stderr, "coffer_generate: cannot write %s\n", argv[2]);
        return 1;
    }
    return 0;
}
