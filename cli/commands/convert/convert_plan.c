/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a conversion does, for people and for programs.
 *
 * Standard output has what was asked for: the plan of a dry run, or JSON. Standard error has
 * remarks: what was written, and whatever was not, so that nothing is lost silently. Names and
 * texts come from the file; all that goes to a terminal is escaped on its way, and JSON by its own
 * rules.
 */
#include "cli_columns.h"
#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"
#include "convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REMARKS 20 /* lines of one kind after a conversion; --dry-run and --json have all */

/* ---- Tensors ---- */

/* What is done to the elements on the way: "gathered, changed", "" when they are only copied. */
static void way_text(const coffer_import_tensor *tensor, char *text, size_t size)
{
    const struct {
        bool is;
        const char *word;
    } ways[] = { { tensor->decoded, "decoded" }, { tensor->gathered, "gathered" }, { tensor->changed, "changed" } };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (ways[i].is && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", ways[i].word);
        }
    }
}

/* What becomes of a tensor, as the last cell of its line. The struct is copied first: asking for
   the name of another tensor fills the same one again. */
static void put_fate(cli_columns *columns, coffer_import *import, const coffer_import_tensor *tensor)
{
    char text[64];
    char *line = NULL;
    const coffer_import_tensor copy = *tensor;
    if (copy.fate == COFFER_FATE_WRITTEN) {
        way_text(&copy, text, sizeof text);
        cli_columns_text(columns, text);
        return;
    }
    const bool alias = copy.fate == COFFER_FATE_ALIAS;
    const char *rest = alias ? coffer_import_at(import, copy.alias_of)->name : copy.reason;
    const size_t size = strlen(rest) + sizeof "the same as ";
    line = malloc(size);
    if (line != NULL) {
        snprintf(line, size, "%s%s", alias ? "the same as " : "skipped: ", rest);
    }
    cli_columns_text(columns, line != NULL ? line : rest);
    free(line);
}

/* "[50257, 768]" */
static void shape_text(const coffer_import_tensor *tensor, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (size_t i = 0; i < tensor->rank && used < size; i++) {
        char number[CLI_NUMBER_SIZE];
        cli_number_text(number, tensor->shape[i], false);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", number);
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

/* Called twice: once to measure the columns, and once to write them. */
static void put_tensors(cli_columns *columns, coffer_import *import)
{
    const coffer_import_tensor *tensor = NULL;
    for (size_t i = 0; (tensor = coffer_import_at(import, i)) != NULL; i++) {
        char shape[1536]; /* 64 dimensions of 20 digits */
        char size[CLI_NUMBER_SIZE] = "";
        const char *dtype = coffer_dtype_name(tensor->dtype);
        const bool known = tensor->dtype != COFFER_UNKNOWN_DTYPE;
        shape_text(tensor, shape, sizeof shape);
        if (known) {
            cli_bytes_text(size, tensor->size);
        }
        cli_columns_cell(columns, tensor->name, tensor->name_len);
        cli_columns_text(columns, known ? dtype : "");
        cli_columns_text(columns, shape);
        cli_columns_text(columns, size);
        put_fate(columns, import, tensor);
    }
}

/* ---- The account ---- */

/* "548 MB of tensors in the file: 400 MB written, 100 MB aliases, 40 MB unreferenced, 8 B skipped" */
static void account_text(const coffer_import_summary *summary, char *text, size_t size)
{
    const struct {
        uint64_t bytes;
        const char *what;
    } parts[] = { { summary->written, "written" },
                  { summary->aliased, "of aliases" },
                  { summary->unreferenced, "unreferenced" },
                  { summary->skipped, "skipped" } };
    char bytes[CLI_NUMBER_SIZE];
    cli_bytes_text(bytes, summary->total);
    size_t used = (size_t)snprintf(text, size, "%s of data", bytes);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && used < size; i++) {
        if (i == 0 || parts[i].bytes > 0) {
            cli_bytes_text(bytes, parts[i].bytes);
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", i == 0 ? ": " : ", ", bytes, parts[i].what);
        }
    }
}

/* "160 tensors, 548 MB", after "3 files, " where there are several */
static void sum_text(const conversion *run, char *text, size_t size)
{
    const coffer_import_summary *summary = coffer_import_summarize(run->opened.import);
    char files[2 * CLI_NUMBER_SIZE] = "";
    char count[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    if (run->file_count > 1) {
        snprintf(files, sizeof files, "%zu files, ", run->file_count);
    }
    cli_number_text(count, summary->written_count, true);
    cli_bytes_text(bytes, summary->output);
    snprintf(text, size, "%s%s tensor%s, %s", files, count, summary->written_count == 1 ? "" : "s", bytes);
}

/* The plan for people: a line for each tensor, then findings, then what nobody views, then the account. Tensors are
   listed twice, as columns can only be as wide as what was seen. */
void convert_show_plan(const conversion *run)
{
    cli_output *out = &run->app->out;
    coffer_import *import = run->opened.import;
    const coffer_import_finding *finding = NULL;
    char account[8 * CLI_NUMBER_SIZE];
    cli_columns columns = { .out = out, .count = 5, .right = { [3] = true }, .measuring = true };
    put_tensors(&columns, import);
    cli_columns_fit(&columns);
    put_tensors(&columns, import);
    for (size_t i = 0; (finding = coffer_import_finding_at(import, i)) != NULL; i++) {
        cli_import_put_finding(out, finding);
        cli_put_char(out, '\n');
    }
    uint64_t size = 0;
    const char *name = NULL;
    for (size_t i = 0; (name = coffer_import_unreferenced_at(import, i, &size)) != NULL; i++) {
        cli_put_text(out, "unreferenced: ");
        cli_put_escaped(out, name, strlen(name), 0);
        cli_put_text(out, ", ");
        cli_put_bytes(out, size);
        cli_put_char(out, '\n');
    }
    account_text(coffer_import_summarize(import), account, sizeof account);
    cli_put_text(out, account);
    cli_put_char(out, '\n');
    sum_text(run, account, sizeof account);
    cli_remark_path(run->app, run->given != NULL ? run->given : run->label, "would be written: %s", account);
}

/* ---- Afterwards ---- */

/* After so many lines nobody reads on, and a terminal has no space for thousands. */
static void remark_rest(const conversion *run, size_t count, const char *what)
{
    if (count > MAX_REMARKS) {
        cli_remark_path(run->app, run->label, "%zu more %s: --dry-run lists all", count - MAX_REMARKS, what);
    }
}

/* One line for each tensor that the new file lacks; names and reasons come from the file, so both are escaped. */
static void remark_skipped(const conversion *run)
{
    coffer_import *import = run->opened.import;
    const coffer_import_tensor *tensor = NULL;
    size_t count = 0;
    for (size_t i = 0; (tensor = coffer_import_at(import, i)) != NULL; i++) {
        if (tensor->fate != COFFER_FATE_SKIPPED || count++ >= MAX_REMARKS) {
            continue;
        }
        char name[160];
        char reason[256];
        coffer_escape(tensor->name, tensor->name_len, name, sizeof name);
        coffer_escape(tensor->reason, strlen(tensor->reason), reason, sizeof reason);
        cli_remark_path(run->app, run->label, "skipped %s: %s", name, reason);
    }
    remark_rest(run, count, "are skipped");
}

/* Findings in the order in which the reader met them, which is that of the file. */
static void remark_findings(const conversion *run)
{
    coffer_import *import = run->opened.import;
    const coffer_import_finding *finding = NULL;
    size_t count = 0;
    for (size_t i = 0; (finding = coffer_import_finding_at(import, i)) != NULL; i++) {
        if (count++ < MAX_REMARKS) {
            cli_import_remark(run->app, run->label, finding);
        }
    }
    remark_rest(run, count, "findings");
}

/* What was lost comes before what was done, so that the last line says how it ended. The account is only worth a line
   when bytes of the file are in no tensor. */
void convert_show_done(const conversion *run)
{
    const coffer_import_summary *summary = coffer_import_summarize(run->opened.import);
    char sum[4 * CLI_NUMBER_SIZE];
    char account[8 * CLI_NUMBER_SIZE];
    char took[CLI_NUMBER_SIZE];
    remark_findings(run);
    remark_skipped(run);
    if (summary->aliased + summary->unreferenced + summary->skipped > 0) {
        account_text(summary, account, sizeof account);
        cli_remark_path(run->app, run->label, "%s", account);
    }
    sum_text(run, sum, sizeof sum);
    cli_duration_text(took, cli_seconds() - run->started);
    cli_remark_path(run->app, run->given, "written%s: %s (%s)", run->verified ? " and verified" : "", sum, took);
}

/* ---- JSON ---- */

/* The tensor is copied, since the one that it is the same as is asked for before it is written. */
static void json_tensor(cli_output *out, coffer_import *import, size_t i)
{
    static const char *const fates[] = { "written", "alias", "skipped" };
    const coffer_import_tensor tensor = *coffer_import_at(import, i);
    const char *dtype = tensor.dtype != COFFER_UNKNOWN_DTYPE ? coffer_dtype_name(tensor.dtype) : "";
    const coffer_import_tensor *same =
        tensor.fate == COFFER_FATE_ALIAS ? coffer_import_at(import, tensor.alias_of) : NULL;
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, tensor.name, tensor.name_len);
    cli_json_text_or_null(out, "dtype", dtype, strlen(dtype));
    cli_json_shape(out, tensor.shape, tensor.rank);
    cli_json_put_number(out, "size", tensor.size);
    cli_json_put_string(out, "fate", fates[tensor.fate]);
    cli_json_text_or_null(out, "alias_of", same != NULL ? same->name : "", same != NULL ? same->name_len : 0);
    cli_json_text_or_null(out, "reason", tensor.reason, strlen(tensor.reason));
    cli_json_text_or_null(out, "storage", tensor.storage, tensor.storage_len);
    cli_json_put_bool(out, "gathered", tensor.gathered);
    cli_json_put_bool(out, "changed", tensor.changed);
    cli_json_put_bool(out, "decoded", tensor.decoded);
    cli_json_close(out, '}');
}

/* The same numbers as in the line of text, always all of them, so that programs can add them up. */
static void json_account(cli_output *out, const coffer_import_summary *summary)
{
    const struct {
        const char *key;
        uint64_t bytes;
    } members[] = { { "total", summary->total },
                    { "written", summary->written },
                    { "aliased", summary->aliased },
                    { "skipped", summary->skipped },
                    { "unreferenced", summary->unreferenced } };
    cli_json_key(out, "account");
    cli_json_open(out, '{', false);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        cli_json_put_number(out, members[i].key, members[i].bytes);
    }
    cli_json_close(out, '}');
}

/* As cli_json_pairs asks for them. */
static bool pair_of_import(const void *import, size_t i, coffer_pair *pair)
{
    return coffer_import_metadata_at(import, i, pair);
}

/* Storages that no tensor views: bytes that somebody may have hidden there, or that a slice has left over. */
static void json_unreferenced(cli_output *out, coffer_import *import)
{
    uint64_t size = 0;
    const char *name = NULL;
    cli_json_key(out, "unreferenced");
    cli_json_open(out, '[', true);
    for (size_t i = 0; (name = coffer_import_unreferenced_at(import, i, &size)) != NULL; i++) {
        cli_json_open(out, '{', false);
        cli_json_put_string(out, "storage", name);
        cli_json_put_number(out, "size", size);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}

static void json_paths(cli_output *out, const conversion *run)
{
    cli_json_key(out, "paths");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < run->path_count; i++) {
        cli_json_string(out, run->paths[i]);
    }
    cli_json_close(out, ']');
}

/* One object, in the same form for a dry run and for what was written; `done` tells which. */
void convert_show_json(const conversion *run, const char *done)
{
    cli_output *out = &run->app->out;
    coffer_import *import = run->opened.import;
    const coffer_import_summary *summary = coffer_import_summarize(import);
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", run->path);
    if (run->path_count > 1) {
        json_paths(out, run);
    }
    cli_json_text_or_null(out, "output", run->given, run->given != NULL ? strlen(run->given) : 0);
    cli_json_put_string(out, "done", done);
    cli_json_put_string(out, "from", summary->reader);
    cli_json_put_bool(out, "verified", run->verified);
    cli_json_put_number(out, "tensors", summary->written_count);
    cli_json_put_number(out, "size", summary->output);
    cli_json_key(out, "plan");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < summary->tensor_count; i++) {
        json_tensor(out, import, i);
    }
    cli_json_close(out, ']');
    cli_json_pairs(out, pair_of_import, import);
    cli_json_import_findings(out, import);
    json_unreferenced(out, import);
    json_account(out, summary);
    cli_json_seconds(out, cli_seconds() - run->started);
    cli_json_close(out, '}');
}
