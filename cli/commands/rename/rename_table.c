/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of names: lines OLD<TAB>NEW. Names are as `coffer ls --tsv` writes them, so that such a list can be made into a
 * table: \\ is a backslash, \x09 and \u{202e} are characters that would not be seen. Lines that begin with # and empty ones
 * are passed over; a name that begins with # is written \x23.
 */
#include "cli_report.h"
#include "cli_text.h"
#include "rename.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_MAX ((size_t)256 << 20) /* bytes */
#define REPORTED_MAX 10               /* lines that are told of */

static int bad_line(cli *app, const rename_table *table, size_t line, const char *why)
{
    cli_say_path(app, table->path, "line %zu: %s", line, why);
    return CLI_EXIT_NOT_CONFORMING;
}

/* ---- Escapes ---- */

/* The number that follows in hexadecimal digits, `most` of them; returns how many there are. */
static size_t hex_number(const char *text, size_t most, uint32_t *number)
{
    size_t len = 0;
    *number = 0;
    for (; len < most && text[len] != '\0' && strchr("0123456789abcdefABCDEF", text[len]) != NULL; len++) {
        const char c = text[len];
        *number = *number << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return len;
}

static size_t put_character(char *out, uint32_t code)
{
    static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    const size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6) {
        out[i] = (char)(0x80 | (code & 0x3F));
    }
    out[0] = (char)(lead[size] | code);
    return size;
}

/* What follows a backslash; returns its length, 0 for what is no escape. NUL is none: names from a table have none. */
static size_t read_escape(const char *text, char *out, size_t *out_len)
{
    uint32_t code = 0;
    if (text[0] == '\\') {
        out[(*out_len)++] = '\\';
        return 1;
    }
    if (text[0] == 'x' && hex_number(text + 1, 2, &code) == 2 && code != 0) {
        out[(*out_len)++] = (char)code;
        return 3;
    }
    const size_t digits = text[0] == 'u' && text[1] == '{' ? hex_number(text + 2, 6, &code) : 0;
    if (digits == 0 || text[2 + digits] != '}' || code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        return 0;
    }
    *out_len += put_character(out + *out_len, code);
    return digits + 3;
}

/* Undoes escapes where the text stands: what they stand for is never longer. */
static bool unescape_field(char *text)
{
    size_t len = 0;
    for (size_t at = 0; text[at] != '\0';) {
        if (text[at] != '\\') {
            text[len++] = text[at++];
            continue;
        }
        const size_t size = read_escape(text + at + 1, text, &len);
        if (size == 0) {
            return false;
        }
        at += size + 1;
    }
    text[len] = '\0';
    return true;
}

/* ---- Lines ---- */

/* A line, which ends with a NUL. `line_len` tells whether it has one within. */
static int read_line(cli *app, rename_table *table, char *line, size_t line_len, size_t number)
{
    line_len -= line_len > 0 && line[line_len - 1] == '\r';
    line[line_len] = '\0';
    if (line_len == 0 || line[0] == '#') {
        return CLI_EXIT_OK;
    }
    if (strlen(line) != line_len) {
        return bad_line(app, table, number, "has a NUL in it");
    }
    char *tab = strchr(line, '\t');
    if (tab == NULL || strchr(tab + 1, '\t') != NULL) {
        return bad_line(app, table, number, "needs two names with a tab between them: OLD<TAB>NEW");
    }
    *tab = '\0';
    if (line[0] == '\0' || tab[1] == '\0') {
        return bad_line(app, table, number, "a name is missing");
    }
    if (!unescape_field(line) || !unescape_field(tab + 1)) {
        return bad_line(app, table, number,
                        "has a backslash that begins none of \\\\, \\x1b and \\u{202e}; a backslash itself is \\\\");
    }
    table->rows[table->count++] = (rename_row){ line, tab + 1, number };
    return CLI_EXIT_OK;
}

static int read_lines(cli *app, rename_table *table)
{
    char *next = table->input.bytes;
    char *end = next + table->input.size;
    int code = CLI_EXIT_OK;
    for (size_t number = 1; next < end && code == CLI_EXIT_OK; number++) {
        char *stop = memchr(next, '\n', (size_t)(end - next));
        stop = stop != NULL ? stop : end;
        code = read_line(app, table, next, (size_t)(stop - next), number);
        next = stop + 1;
    }
    return code;
}

static int compare_rows(const void *left, const void *right)
{
    const rename_row *a = left;
    const rename_row *b = right;
    const int order = strcmp(a->old, b->old);
    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

static int compare_lines(const void *left, const void *right)
{
    const rename_row *a = left;
    const rename_row *b = right;
    return (a->line > b->line) - (a->line < b->line);
}

/* Two lines for one name contradict each other, or one of them is a mistake. */
static int check_twice(cli *app, rename_table *table)
{
    char shown[256];
    int code = CLI_EXIT_OK;
    qsort(table->rows, table->count, sizeof *table->rows, compare_rows);
    for (size_t i = 1; i < table->count && code == CLI_EXIT_OK; i++) {
        const rename_row *row = &table->rows[i];
        if (strcmp(row[-1].old, row->old) == 0) {
            coffer_escape(row->old, cli_cut_at_character(row->old, strlen(row->old), 60), shown, sizeof shown);
            cli_say_path(app, table->path, "line %zu: \"%s\" is renamed in line %zu already", row->line, shown,
                         row[-1].line);
            code = CLI_EXIT_NOT_CONFORMING;
        }
    }
    qsort(table->rows, table->count, sizeof *table->rows, compare_lines);
    return code;
}

int rename_table_read(cli *app, const char *path, rename_table *table)
{
    int code = CLI_EXIT_OK;
    size_t lines = 1;
    *table = (rename_table){ .path = path };
    if (!cli_input_read(app, path, TABLE_MAX, &table->input, &code)) {
        return code;
    }
    for (size_t i = 0; i < table->input.size; i++) {
        lines += table->input.bytes[i] == '\n';
    }
    table->rows = malloc(lines * sizeof *table->rows);
    if (table->rows == NULL) {
        return cli_fail_memory(app, path);
    }
    code = read_lines(app, table);
    if (code == CLI_EXIT_OK && table->count == 0) {
        cli_say_path(app, path, "has no names: each line is OLD<TAB>NEW");
        return CLI_EXIT_NOT_CONFORMING;
    }
    return code == CLI_EXIT_OK ? check_twice(app, table) : code;
}

void rename_table_free(rename_table *table)
{
    free(table->rows);
    cli_input_free(&table->input);
    *table = (rename_table){ .count = 0 };
}

int rename_table_match(cli *app, const rename_table *table, const coffer *model, bool ignored)
{
    char shown[256];
    size_t missing = 0;
    for (size_t i = 0; i < table->count; i++) {
        const char *old = table->rows[i].old;
        if (coffer_find(model, old, strlen(old)) != NULL) {
            continue;
        }
        if (missing++ < REPORTED_MAX && !ignored) {
            coffer_escape(old, cli_cut_at_character(old, strlen(old), 60), shown, sizeof shown);
            cli_say_path(app, table->path, "line %zu: no tensor is named \"%s\"", table->rows[i].line, shown);
        }
    }
    if (missing == 0) {
        return CLI_EXIT_OK;
    }
    if (ignored) {
        cli_remark_path(app, table->path, "%zu of its %zu names are of no tensor", missing, table->count);
        return CLI_EXIT_OK;
    }
    cli_say_path(app, table->path, "%zu of its %zu names are of no tensor; --ignore-unmatched passes over them",
                 missing, table->count);
    return CLI_EXIT_NOT_CONFORMING;
}
