/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, in the man macros that both groff and mandoc know. */
#include "generate.h"

#include <ctype.h>
#include <string.h>

/* A character beyond ASCII by its number, since roff's own input is bytes. Returns how many bytes it has. */
static size_t put_beyond_ascii(FILE *out, const char *text, size_t len)
{
    const unsigned char lead = (unsigned char)text[0];
    const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    unsigned number = lead & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size && i < len; i++) {
        number = number << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    fprintf(out, "\\[u%04X]", number);
    return size;
}

/* Text as roff takes it: a backslash is a command there, and so is a dot or an apostrophe that begins a line. */
static void put_text(FILE *out, const char *text, size_t len)
{
    if (len > 0 && (text[0] == '.' || text[0] == '\'')) {
        fputs("\\&", out);
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\') {
            fputs("\\e", out);
        } else if (text[i] == '-') {
            fputs("\\-", out);
        } else if (text[i] == '\'') {
            fputs("\\(aq", out);
        } else if (text[i] == '`') {
            fputs("\\(ga", out);
        } else if (text[i] == '^') {
            fputs("\\(ha", out);
        } else if (text[i] == '~') {
            fputs("\\(ti", out);
        } else if ((unsigned char)text[i] >= 0x80) {
            i += put_beyond_ascii(out, text + i, len - i) - 1;
        } else {
            fputc(text[i], out);
        }
    }
}

static void put_string(FILE *out, const char *text)
{
    put_text(out, text, strlen(text));
}

/* Lines as the help has them: an empty one ends a paragraph, and one that is indented is kept as it stands. */
static void put_paragraphs(FILE *out, const char *text)
{
    bool kept = false;
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n");
        const bool keep = text[0] == ' ';
        if (keep != kept) {
            fputs(keep ? ".nf\n" : ".fi\n", out);
            kept = keep;
        }
        if (len == 0) {
            fputs(text[1] != '\0' ? ".PP" : "", out);
        }
        put_text(out, text, len);
        fputs(len > 0 || text[1] != '\0' ? "\n" : "", out);
        text += len + (text[len] == '\n');
    }
    fputs(kept ? ".fi\n" : "", out);
}

static void put_option(FILE *out, const cli_option *option)
{
    fputs(".TP\n", out);
    if (option->letter != 0) {
        fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    }
    fputs("\\fB\\-\\-", out);
    put_string(out, option->name);
    fputs("\\fR", out);
    if (option->argument != NULL) {
        fputs(" \\fI", out);
        put_string(out, option->argument);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_string(out, option->summary);
    if (option->values != NULL) {
        fputs(" (", out);
        put_values(out, option, ", ");
        fputc(')', out);
    }
    fputc('\n', out);
}

/* `begins`: they are what a section begins with, which needs no paragraph. */
static void put_examples(FILE *out, const cli_example *examples, bool begins)
{
    for (const cli_example *example = examples; example->line != NULL; example++) {
        fputs(begins && example == examples ? "" : ".PP\n", out);
        put_string(out, example->what);
        fputs("\n.PP\n.RS 4\n.nf\n", out);
        put_string(out, example->line);
        fputs("\n.fi\n.RE\n", out);
    }
}

/* The command as it is typed. */
static void put_usage(FILE *out, const cli_command *command)
{
    fprintf(out, "\\fBcoffer %s\\fR [\\fIOPTIONS\\fR] \\fI", command->name);
    put_string(out, command->usage);
    fputs("\\fR\n", out);
}

static void put_alias(FILE *out, const cli_command *command)
{
    if (command->alias != NULL) {
        fprintf(out, ".PP\n\\fBcoffer %s\\fR is the same.\n", command->alias);
    }
}

static void put_command(FILE *out, const cli_command *command)
{
    fprintf(out, ".SS \"coffer %s\"\n", command->name);
    put_usage(out, command);
    fputs(".PP\n", out);
    fputc(toupper((unsigned char)command->summary[0]), out);
    put_string(out, command->summary + 1);
    fputs(".\n", out);
    put_alias(out, command);
    fputs(".PP\n", out);
    put_paragraphs(out, command->about);
    for (const cli_option *option = command->options; option->id != CLI_OPTION_END; option++) {
        put_option(out, option);
    }
    put_examples(out, command->examples, false);
}

void put_man_title(FILE *out)
{
    /* Without a date: the same table makes the same page on every day. */
    fprintf(out, ".TH COFFER 1 \"\" \"coffer %s\" \"User Commands\"\n", coffer_version());
}

void put_man_options(FILE *out)
{
    for (size_t i = 0; cli_option_at(&cli_top, i) != NULL; i++) {
        put_option(out, cli_option_at(&cli_top, i));
    }
    fputs(".PP\nEvery command has these:\n", out);
    for (const cli_option *option = CLI_COMMON_OPTIONS; option->id != CLI_OPTION_END; option++) {
        put_option(out, option);
    }
}

static void put_capitals(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        fputc(toupper((unsigned char)*at), out);
    }
}

void put_man_environment(FILE *out)
{
    for (const cli_variable *variable = CLI_ENVIRONMENT; variable->name != NULL; variable++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", variable->name);
        put_string(out, variable->what);
        fputs(".\n", out);
    }
}

void put_man_commands(FILE *out)
{
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        const char *task = cli_task_of_first(CLI_COMMANDS[i]);
        if (task != NULL) {
            fputs(".SH ", out);
            put_capitals(out, task);
            fputc('\n', out);
        }
        put_command(out, CLI_COMMANDS[i]);
    }
}

void put_man_page(FILE *out, const cli_command *command)
{
    fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n.TH COFFER-", out);
    put_capitals(out, command->name);
    fprintf(out, " 1 \"\" \"coffer %s\" \"User Commands\"\n", coffer_version());
    fprintf(out, ".SH NAME\ncoffer\\-%s \\- ", command->name);
    put_string(out, command->summary);
    fputs("\n.SH SYNOPSIS\n", out);
    put_usage(out, command);
    fputs(".SH DESCRIPTION\n", out);
    put_paragraphs(out, command->about);
    put_alias(out, command);
    fputs(".SH OPTIONS\n", out);
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        put_option(out, option);
    }
    fputs(".SH EXAMPLES\n", out);
    put_examples(out, command->examples, true);
    fputs(".SH SEE ALSO\n\\fBcoffer\\fR(1), which has the exit codes and the environment.\n", out);
}
