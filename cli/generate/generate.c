/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer_generate TEMPLATE OUT     copies the template, with the table of commands in the place of its markers
 * coffer_generate --pages FOLDER   writes coffer-COMMAND.1 for every command
 * coffer_generate --completion SHELL OUT
 */
#include "generate.h"

#include <string.h>

static const struct marker {
    const char *line;
    void (*put)(FILE *out);
} MARKERS[] = {
    { "@MAN_TITLE@\n", put_man_title },
    { "@MAN_OPTIONS@\n", put_man_options },
    { "@MAN_ENVIRONMENT@\n", put_man_environment },
    { "@MAN_COMMANDS@\n", put_man_commands },
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

/* Closes what was written; 1 when that failed, with a message. */
static int close_file(FILE *out, const char *path)
{
    const bool failed = out == NULL || ferror(out) != 0;
    if ((out != NULL && fclose(out) != 0) || failed) {
        fprintf(stderr, "coffer_generate: cannot write %s\n", path);
        return 1;
    }
    return 0;
}

static int fill_template(const char *path, const char *out_path)
{
    char line[1024];
    FILE *template = fopen(path, "r");
    if (template == NULL) {
        fprintf(stderr, "coffer_generate: cannot open %s\n", path);
        return 1;
    }
    FILE *out = fopen(out_path, "w");
    while (out != NULL && fgets(line, sizeof line, template) != NULL) {
        put_line(out, line);
    }
    fclose(template);
    return close_file(out, out_path);
}

static int write_pages(const char *folder)
{
    char path[4096];
    int code = 0;
    for (size_t i = 0; CLI_COMMANDS[i] != NULL && code == 0; i++) {
        snprintf(path, sizeof path, "%s/coffer-%s.1", folder, CLI_COMMANDS[i]->name);
        FILE *out = fopen(path, "w");
        if (out != NULL) {
            put_man_page(out, CLI_COMMANDS[i]);
        }
        code = close_file(out, path);
    }
    return code;
}

static int write_completion(const char *shell, const char *path)
{
    FILE *out = fopen(path, "w");
    const bool known = out == NULL || completion_write(out, shell);
    const int code = close_file(out, path);
    return known ? code : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--pages") == 0) {
        return write_pages(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "--completion") == 0) {
        return write_completion(argv[2], argv[3]);
    }
    if (argc == 3) {
        return fill_template(argv[1], argv[2]);
    }
    fprintf(stderr, "usage: coffer_generate TEMPLATE OUT | --pages FOLDER | --completion SHELL OUT\n");
    return 2;
}
