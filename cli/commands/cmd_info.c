/* SPDX-License-Identifier: Apache-2.0 */
/* coffer info PATH...: what is in a file, on one screen; for several files, a line each. */
#include "block.h"
#include "cli_columns.h"
#include "cli_files.h"
#include "cli_fit.h"
#include "cli_import.h"
#include "cli_inputs.h"
#include "cli_json.h"
#include "cli_memory.h"
#include "cli_models.h"
#include "cli_options.h"
#include "cli_partial.h"
#include "cli_pipeline.h"
#include "cli_pretty.h"
#include "cli_quantised.h"
#include "cli_report.h"
#include "cli_stored.h"
#include "cli_sums.h"
#include "cli_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_WIDTH 12
#define INDENT 2
#define METADATA_MAX 20    /* entries on the screen */
#define VALUE_MAX 100      /* bytes of a value on the screen */
#define JSON_LINES_MAX 24  /* lines of a value that is JSON */
#define KEY_MAX 60         /* bytes of a key */
#define FINDINGS_MAX 5     /* of those that weigh most, on the screen */
#define ALIGNMENT_MAX 4096 /* a larger alignment of the data is chance rather than intent */

/* The largest power of two, up to ALIGNMENT_MAX, that divides where the data begins. */
static uint64_t data_alignment(uint64_t data_offset)
{
    uint64_t alignment = 1;
    while (alignment < ALIGNMENT_MAX && data_offset % (alignment * 2) == 0) {
        alignment *= 2;
    }
    return alignment;
}

/* What is found of a file, beside what its tables say. */
typedef struct found {
    cli_sums sums;
    coffer_parameters parameters;
    cli_quantised quantised;
    cli_memory memory;
    bool has_memory;               /* there is an estimate of the memory */
    const cli_fit *fit;            /* of what the model shall fit into; NULL: nobody asked */
    char why[CLI_MEMORY_WHY_SIZE]; /* why there is no estimate; "" when there is no config.json */
} found;

static uint64_t sum_of(const uint64_t counts[32])
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        sum += counts[i];
    }
    return sum;
}

/* ---- The screen ---- */

static void put_label(cli_output *out, const char *label)
{
    const size_t len = strlen(label);
    cli_put_repeat(out, ' ', INDENT);
    if (len > 0) {
        cli_put_styled(out, CLI_DIM, label);
    }
    cli_put_repeat(out, ' ', len < LABEL_WIDTH ? LABEL_WIDTH - len : 1);
}

/* A label and what it says, folded to the terminal. */
static void show_text(cli_output *out, const char *label, const char *text)
{
    put_label(out, label);
    cli_put_folded(out, text, strlen(text), INDENT + LABEL_WIDTH, INDENT + LABEL_WIDTH);
    cli_put_char(out, '\n');
}

static void show_number(cli_output *out, const char *label, uint64_t number)
{
    char text[CLI_NUMBER_SIZE];
    cli_number_text(text, number, true);
    show_text(out, label, text);
}

/* What all files of a model have together. */
typedef struct file_sizes {
    uint64_t files;
    uint64_t headers; /* their lengths */
    uint64_t slack;
    uint64_t data;
} file_sizes;

static file_sizes sizes_of(const coffer *model)
{
    file_sizes sizes = { 0 };
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const coffer_table *table = coffer_shard_table(model, i);
        const bool foreign = coffer_model_import(model) != NULL;
        sizes.files += foreign ? coffer_shard_stored_size(model, i) : coffer_shard_size(model, i);
        sizes.headers += foreign ? 0 : coffer_table_data_offset(table) - 8;
        sizes.slack += coffer_table_slack(table);
        sizes.data += coffer_table_data_size(table);
    }
    return sizes;
}

/* What packed files take, where some are. */
static void show_stored(cli_output *out, const coffer *model)
{
    uint64_t stored = 0;
    uint64_t whole = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        stored += coffer_shard_stored_size(model, i);
        whole += coffer_shard_size(model, i);
    }
    if (cli_is_packed(model) && whole > 0) {
        char text[256];
        char exact[CLI_NUMBER_SIZE];
        char other[CLI_NUMBER_SIZE];
        cli_number_text(exact, stored, true);
        cli_bytes_text(other, stored);
        snprintf(text, sizeof text, "%s bytes (%s), %.1f %% of the original, which is shown", exact, other,
                 100.0 * (double)stored / (double)whole);
        show_text(out, "packed", text);
    }
}

/* The same for several files, which have no one place for anything. */
static void show_sums(cli_output *out, const coffer *model)
{
    const file_sizes sizes = sizes_of(model);
    char text[256];
    char exact[CLI_NUMBER_SIZE];
    char other[CLI_NUMBER_SIZE];
    size_t len = 0;
    const char *index = coffer_index_metadata(model, &len);
    cli_number_text(exact, coffer_shard_count(model), true);
    cli_bytes_text(other, sizes.files);
    snprintf(text, sizeof text, "%s, %s in all", exact, other);
    show_text(out, "files", text);
    cli_bytes_text(exact, sizes.headers);
    snprintf(text, sizeof text, "%s in all", exact);
    show_text(out, "headers", text);
    if (len > 0) {
        put_label(out, "index");
        cli_put_json(out, index, len, INDENT + LABEL_WIDTH, JSON_LINES_MAX);
        cli_put_char(out, '\n');
    }
}

/* The files of another program, which have no header to speak of. */
static void show_foreign_sizes(cli_output *out, const coffer *model, const coffer_import_summary *summary)
{
    char text[256];
    char exact[CLI_NUMBER_SIZE];
    char other[CLI_NUMBER_SIZE];
    const uint64_t size = coffer_shard_stored_size(model, 0);
    cli_number_text(exact, size, true);
    cli_bytes_text(other, size);
    if (summary->file_count > 1) {
        snprintf(text, sizeof text, "%u, %s in all", (unsigned)summary->file_count, other);
    } else {
        snprintf(text, sizeof text, size >= 1000 ? "%s bytes (%s)" : "%s bytes", exact, other);
    }
    show_text(out, summary->file_count > 1 ? "files" : "file", text);
}

/* What a loader of the format would run or import, and how many objects of other programs were left out. */
static void show_findings(cli_output *out, const coffer *model)
{
    coffer_import *imported = coffer_model_import(model);
    const coffer_import_finding *finding = NULL;
    size_t shown = 0;
    for (size_t i = 0; (finding = coffer_import_finding_at(imported, i)) != NULL; i++) {
        if (finding->weight != COFFER_WEIGHT_DANGER || shown >= FINDINGS_MAX) {
            continue;
        }
        put_label(out, shown == 0 ? "loading it" : "");
        cli_import_put_finding(out, finding);
        cli_put_char(out, '\n');
        shown++;
    }
    if (shown > 0) {
        show_text(out, "", "nothing of it was run here; coffer scan says more");
    }
}

/* Where the bytes are: the file, its header and its data. */
static void show_sizes(cli_output *out, const coffer *model)
{
    const coffer_import_summary *summary = coffer_import_summarize(coffer_model_import(model));
    if (summary != NULL) {
        show_foreign_sizes(out, model, summary);
        return;
    }
    show_stored(out, model);
    if (coffer_shard_count(model) > 1) {
        show_sums(out, model);
        return;
    }
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t file_size = coffer_shard_size(model, 0);
    const uint64_t data_offset = coffer_table_data_offset(table);
    char text[256];
    char exact[CLI_NUMBER_SIZE];
    char other[CLI_NUMBER_SIZE];
    cli_number_text(exact, file_size, true);
    cli_bytes_text(other, file_size);
    snprintf(text, sizeof text, file_size >= 1000 ? "%s bytes (%s)" : "%s bytes", exact, other);
    show_text(out, "file", text);
    cli_number_text(exact, data_offset - 8, true);
    cli_number_text(other, coffer_table_slack(table), true);
    snprintf(text, sizeof text, "%s bytes, %s of them slack for edits of the metadata", exact, other);
    show_text(out, "header", text);
    cli_number_text(exact, data_offset, true);
    cli_number_text(other, data_alignment(data_offset), true);
    snprintf(text, sizeof text, "from byte %s, aligned to %s byte%s", exact, other,
             data_alignment(data_offset) == 1 ? "" : "s");
    show_text(out, "data", text);
}

/* A value that is JSON is shown as such, any other as a line; both are cut, and say so. */
static void put_value(cli_output *out, const coffer_pair *pair, size_t used)
{
    char shown[8 * VALUE_MAX + 64];
    char cut[96];
    const size_t indent = INDENT + LABEL_WIDTH + 2;
    if (cli_is_json(pair->value, pair->value_len)) {
        const size_t lines = cli_put_json(out, pair->value, pair->value_len, indent, JSON_LINES_MAX);
        if (lines > 0) {
            cli_put_char(out, '\n');
            cli_put_repeat(out, ' ', indent);
            snprintf(cut, sizeof cut, "... (cut: %zu more lines; coffer meta shows all)", lines);
            cli_put_folded(out, cut, strlen(cut), indent, indent);
        }
        return;
    }
    const size_t len = cli_cut_at_character(pair->value, pair->value_len, VALUE_MAX);
    const size_t shown_len = coffer_escape(pair->value, len, shown, sizeof shown);
    if (len < pair->value_len) {
        char number[CLI_NUMBER_SIZE];
        cli_number_text(number, pair->value_len, true);
        snprintf(shown + shown_len, sizeof shown - shown_len, "... (cut: %s bytes; coffer meta shows all)", number);
    }
    cli_put_folded(out, shown, strlen(shown), used, indent);
}

static void show_metadata(cli_output *out, const coffer_table *table)
{
    const size_t count = coffer_table_metadata_count(table);
    char text[128];
    char number[CLI_NUMBER_SIZE];
    coffer_pair pair;
    if (count == 0) {
        show_text(out, "metadata", "none");
    }
    for (size_t i = 0; i < count && i < METADATA_MAX && coffer_table_metadata_at(table, i, &pair); i++) {
        const size_t key_len = cli_cut_at_character(pair.key, pair.key_len, KEY_MAX);
        put_label(out, i == 0 ? "metadata" : "");
        cli_put_style(out, CLI_CYAN);
        cli_put_escaped(out, pair.key, pair.key_len, KEY_MAX);
        cli_put_style(out, CLI_PLAIN);
        cli_put_text(out, " = ");
        put_value(out, &pair, INDENT + LABEL_WIDTH + cli_escaped_width(pair.key, key_len) + 3);
        cli_put_char(out, '\n');
    }
    if (count > METADATA_MAX) {
        cli_number_text(number, count - METADATA_MAX, true);
        snprintf(text, sizeof text, "... and %s more; coffer meta shows all", number);
        show_text(out, "", text);
    }
}

static void show_notes(cli_output *out, const coffer *model)
{
    bool first = true;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        char text[256];
        if (cli_note_text(model, (coffer_note_kind)kind, text, sizeof text)) {
            show_text(out, first ? "notes" : "", text);
            first = false;
        }
    }
    if (first) {
        show_text(out, "notes", "none");
    }
}

/* "1,100,048,384 (1.1 B)", or "1,100,048,384 (1.1 B; REMARK)". */
static void show_count(cli_output *out, const char *label, uint64_t count, const char *remark)
{
    char exact[CLI_NUMBER_SIZE];
    char short_form[CLI_NUMBER_SIZE] = "";
    char text[2 * CLI_NUMBER_SIZE + sizeof((coffer_parameters *)0)->assumed + 8];
    cli_number_text(exact, count, true);
    if (count >= 1000) {
        cli_count_text(short_form, count);
    }
    const char *gap = short_form[0] != '\0' && remark[0] != '\0' ? "; " : "";
    const bool bare = short_form[0] == '\0' && remark[0] == '\0';
    snprintf(text, sizeof text, bare ? "%s" : "%s (%s%s%s)", exact, short_form, gap, remark);
    show_text(out, label, text);
}

/* The weights before they were packed, and what was assumed of that. */
static void show_trained(cli_output *out, const coffer_parameters *parameters)
{
    if (parameters->assumed[0] != '\0') {
        show_count(out, "trained", sum_of(parameters->trained), parameters->assumed);
    }
}

/* Each layout of its quantised layers in a line, or why they are not understood. */
static void show_quantised(cli_output *out, const cli_quantised *quantised)
{
    char text[sizeof quantised->why + 16];
    for (size_t i = 0; i < quantised->count; i++) {
        cli_quantised_text(quantised, i, text, sizeof text);
        show_text(out, i == 0 ? "quantised" : "", text);
    }
    if (quantised->why[0] != '\0') {
        snprintf(text, sizeof text, "not decoded: %s", quantised->why);
        show_text(out, "quantised", text);
    }
}

/* What the weights would take with `bits` each. */
static size_t add_size(char *text, size_t size, size_t used, const char *name, uint64_t weights, unsigned bits)
{
    char bytes[CLI_NUMBER_SIZE];
    cli_bytes_text(bytes, weights / 8 * bits + weights % 8 * bits / 8);
    return used + (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "", name, bytes);
}

/* "2.2 GB: weights 2.2 GB, KV cache 46.1 MB at 2,048 tokens", and below it how that comes about. */
static void show_memory(cli_output *out, const coffer *model, const found *all)
{
    const cli_memory *memory = &all->memory;
    char text[320];
    char bytes[3][CLI_NUMBER_SIZE];
    char tokens[CLI_NUMBER_SIZE];
    size_t used = 0;
    if (!all->has_memory) {
        if (all->why[0] != '\0') {
            snprintf(text, sizeof text, "no estimate: config.json %s", all->why);
            show_text(out, "memory", text);
        }
        return;
    }
    const uint64_t weights = sizes_of(model).data;
    cli_bytes_text(bytes[0], weights > UINT64_MAX - memory->cache ? UINT64_MAX : weights + memory->cache);
    cli_bytes_text(bytes[1], weights);
    cli_bytes_text(bytes[2], memory->cache);
    cli_number_text(tokens, memory->context, true);
    snprintf(text, sizeof text, "about %s: weights %s, KV cache %s at %s token%s", bytes[0], bytes[1], bytes[2], tokens,
             memory->context == 1 ? "" : "s");
    show_text(out, "memory", text);
    const uint64_t count = sum_of(all->parameters.trained);
    used = add_size(text, sizeof text, used, "weights as F32", count, 32);
    used = add_size(text, sizeof text, used, "BF16", count, 16);
    used = add_size(text, sizeof text, used, "8 bits", count, 8);
    add_size(text, sizeof text, used, "4 bits", count, 4);
    show_text(out, "", text);
}

static cli_fitting fitting_of(const coffer *model, const found *all)
{
    return cli_fit_judge(all->fit, sizes_of(model).data, all->has_memory ? &all->memory : NULL);
}

/* "yes: about 16.2 GB of the 25.8 GB of RTX 4090, with an estimated overhead of 1.3 GB", and which context fits. */
static void show_fit(cli_output *out, const coffer *model, const found *all)
{
    char text[320];
    char bytes[3][CLI_NUMBER_SIZE];
    char tokens[CLI_NUMBER_SIZE];
    if (all->fit == NULL) {
        return;
    }
    const cli_fitting fitting = fitting_of(model, all);
    cli_bytes_text(bytes[0], fitting.total);
    cli_bytes_text(bytes[1], all->fit->size);
    cli_bytes_text(bytes[2], fitting.overhead);
    snprintf(text, sizeof text, "%s: about %s of %s%s%s, with an overhead of %s, which is an estimate%s",
             fitting.fits ? "yes" : "no", bytes[0], bytes[1], all->fit->name != NULL ? " of " : "",
             all->fit->name != NULL ? all->fit->name : "", bytes[2],
             all->has_memory ? "" : "; no cache of keys and values is counted");
    show_text(out, "fits", text);
    if (all->has_memory && (!fitting.fits || fitting.most_context > all->memory.context)) {
        cli_number_text(tokens, fitting.most_context, true);
        snprintf(text, sizeof text, fitting.most_context > 0 ? "up to %s token%s of context fit" : "no context fits",
                 tokens, fitting.most_context == 1 ? "" : "s");
        show_text(out, "", text);
    }
}

/* Of a file that is cut short, what there is of it. */
static void show_whole(cli_output *out, const coffer *model)
{
    const cli_whole whole = cli_whole_of(model);
    char tensors[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    char text[2 * CLI_NUMBER_SIZE + 16];
    if (whole.cut > 0) {
        cli_number_text(tensors, whole.tensors, true);
        cli_bytes_text(bytes, whole.bytes);
        snprintf(text, sizeof text, "%s tensor%s, %s", tensors, whole.tensors == 1 ? "" : "s", bytes);
        show_text(out, "whole", text);
    }
}

/* What the file is, in words: "a GGUF model". */
static const char *format_of(const coffer *model)
{
    const coffer_import_summary *summary = coffer_import_summarize(coffer_model_import(model));
    return summary != NULL ? summary->noun : coffer_format_name(coffer_table_format(coffer_shard_table(model, 0)));
}

/* The same for programs: "gguf". */
static const char *format_id_of(const coffer *model)
{
    const coffer_import_summary *summary = coffer_import_summarize(coffer_model_import(model));
    return summary != NULL ? summary->reader : coffer_format_name(coffer_table_format(coffer_shard_table(model, 0)));
}

/* How many tensors of a file of another program are not among those that are shown. */
static void show_left_out(cli_output *out, const coffer *model)
{
    if (cli_stored_left_out(model) > 0) {
        show_number(out, "left out", cli_stored_left_out(model));
    }
}

static void show_screen(cli_output *out, const char *path, const coffer *model, const found *all)
{
    const cli_sums *sums = &all->sums;
    const coffer_table *table = coffer_shard_table(model, 0);
    cli_put_style(out, CLI_BOLD);
    cli_put_cut(out, path, strlen(path), out->width);
    cli_put_style(out, CLI_PLAIN);
    cli_put_char(out, '\n');
    show_text(out, "format", format_of(model));
    show_sizes(out, model);
    show_number(out, "tensors", sums->tensors);
    show_left_out(out, model);
    show_whole(out, model);
    show_count(out, "parameters", sums->elements, "");
    show_trained(out, &all->parameters);
    show_quantised(out, &all->quantised);
    show_memory(out, model, all);
    show_fit(out, model, all);
    cli_sums_show(out, sums, "dtypes", INDENT + LABEL_WIDTH);
    show_metadata(out, table);
    show_findings(out, model);
    show_notes(out, model);
}

/* ---- A line, and for programs ---- */

static void show_line(cli_output *out, const char *path, const coffer *model, const cli_sums *sums)
{
    const size_t notes = cli_count_notes(model);
    char count[CLI_NUMBER_SIZE];
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_text(out, ": ");
    cli_put_grouped(out, sums->tensors);
    cli_put_text(out, sums->tensors == 1 ? " tensor, " : " tensors, ");
    cli_count_text(count, sums->elements);
    cli_put_text(out, count);
    cli_put_text(out, sums->elements == 1 ? " parameter, " : " parameters, ");
    cli_put_bytes(out, sizes_of(model).files);
    if (coffer_shard_count(model) > 1) {
        cli_put_text(out, " in ");
        cli_put_grouped(out, coffer_shard_count(model));
        cli_put_text(out, " files");
    }
    for (size_t i = 0; i < sums->share_count; i++) {
        cli_put_text(out, i == 0 ? ", " : " ");
        cli_put_text(out, coffer_dtype_name(sums->shares[i].dtype));
    }
    if (notes > 0) {
        cli_put_text(out, ", ");
        cli_put_style(out, CLI_YELLOW);
        cli_put_grouped(out, notes);
        cli_put_text(out, notes == 1 ? " note" : " notes");
        cli_put_style(out, CLI_PLAIN);
    }
    cli_put_char(out, '\n');
}

static void json_number(cli_output *out, const char *key, uint64_t number)
{
    cli_json_key(out, key);
    cli_json_number(out, number);
}

/* Bytes of a file as it is stored, where it is packed. */
static void json_packed(cli_output *out, const coffer *model, size_t shard)
{
    if (coffer_shard_is_packed(model, shard)) {
        json_number(out, "packed_size", coffer_shard_stored_size(model, shard));
    }
}

/* The files of a model, and what its index says of itself. */
static void json_files(cli_output *out, const coffer *model)
{
    size_t len = 0;
    const char *index = coffer_index_metadata(model, &len);
    cli_json_key(out, "files");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const coffer_table *table = coffer_shard_table(model, i);
        cli_json_open(out, '{', false);
        cli_json_key(out, "path");
        cli_json_string(out, coffer_shard_path(model, i));
        json_number(out, "file_size", coffer_shard_size(model, i));
        json_packed(out, model, i);
        json_number(out, "header_size", coffer_table_data_offset(table) - 8);
        json_number(out, "tensors", coffer_table_count(table));
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_key(out, "index_metadata");
    if (len > 0) {
        cli_json_string_n(out, index, len);
    } else {
        cli_json_null(out);
    }
}

static void json_counts(cli_output *out, const char *key, const uint64_t counts[32])
{
    cli_json_key(out, key);
    cli_json_open(out, '{', false);
    for (size_t i = 1; i <= COFFER_DTYPE_COUNT; i++) {
        if (counts[i] > 0) {
            json_number(out, coffer_dtype_name((coffer_dtype)i), counts[i]);
        }
    }
    cli_json_close(out, '}');
}

/* The member "trained": the weights as they were before quantisation. */
static void json_trained(cli_output *out, const coffer_parameters *parameters)
{
    cli_json_key(out, "trained");
    cli_json_open(out, '{', true);
    json_number(out, "parameters", sum_of(parameters->trained));
    json_counts(out, "dtypes", parameters->trained);
    json_number(out, "compatible", sum_of(parameters->compatible));
    json_counts(out, "compatible_dtypes", parameters->compatible);
    cli_json_key(out, "assumed");
    cli_json_string(out, parameters->assumed);
    cli_json_close(out, '}');
}

/* The member "whole", of a file that is cut short. */
static void json_whole(cli_output *out, const coffer *model)
{
    const cli_whole whole = cli_whole_of(model);
    if (whole.cut > 0) {
        cli_json_key(out, "whole");
        cli_json_open(out, '{', false);
        json_number(out, "tensors", whole.tensors);
        json_number(out, "bytes", whole.bytes);
        cli_json_close(out, '}');
    }
}

/* The member "memory"; null: there is no estimate. */
static void json_memory(cli_output *out, const coffer *model, const found *all)
{
    const cli_memory *memory = &all->memory;
    cli_json_key(out, "memory");
    if (!all->has_memory) {
        cli_json_null(out);
        return;
    }
    cli_json_open(out, '{', false);
    json_number(out, "weights", sizes_of(model).data);
    json_number(out, "kv_cache", memory->cache);
    json_number(out, "context", memory->context);
    json_number(out, "context_most", memory->most_context);
    json_number(out, "layers", memory->layers);
    json_number(out, "sliding_layers", memory->sliding);
    json_number(out, "window", memory->window);
    json_number(out, "numbers", memory->numbers);
    json_number(out, "number_size", memory->number_size);
    cli_json_close(out, '}');
}

/* The member "fit", where --fit is given. */
static void json_fit(cli_output *out, const coffer *model, const found *all)
{
    if (all->fit == NULL) {
        return;
    }
    const cli_fitting fitting = fitting_of(model, all);
    cli_json_key(out, "fit");
    cli_json_open(out, '{', false);
    cli_json_text_or_null(out, "device", all->fit->name, all->fit->name != NULL ? strlen(all->fit->name) : 0);
    json_number(out, "size", all->fit->size);
    json_number(out, "overhead", fitting.overhead);
    json_number(out, "total", fitting.total);
    cli_json_put_bool(out, "fits", fitting.fits);
    json_number(out, "context_fits", fitting.most_context);
    cli_json_close(out, '}');
}

static void show_json(cli_output *out, const char *path, const coffer *model, const found *all)
{
    const cli_sums *sums = &all->sums;
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t data_offset = coffer_table_data_offset(table);
    const file_sizes sizes = sizes_of(model);
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "format");
    cli_json_string(out, format_id_of(model));
    json_number(out, "file_size", sizes.files);
    if (coffer_shard_count(model) == 1) {
        json_packed(out, model, 0);
    }
    json_number(out, "header_size", sizes.headers);
    json_number(out, "slack", sizes.slack);
    const bool foreign = coffer_model_import(model) != NULL;
    if (coffer_shard_count(model) == 1 && !foreign) {
        json_number(out, "data_offset", data_offset);
    }
    json_number(out, "data_size", sizes.data);
    if (foreign) {
        json_number(out, "left_out", cli_stored_left_out(model));
        cli_json_import_findings(out, coffer_model_import(model));
    } else if (coffer_shard_count(model) == 1) {
        json_number(out, "alignment", data_alignment(data_offset));
    } else {
        json_files(out, model);
    }
    json_number(out, "tensors", sums->tensors);
    json_whole(out, model);
    json_number(out, "parameters", sums->elements);
    cli_json_dtypes(out, sums);
    json_trained(out, &all->parameters);
    cli_quantised_json(out, &all->quantised);
    json_memory(out, model, all);
    json_fit(out, model, all);
    cli_json_metadata(out, table);
    cli_json_notes(out, model, NULL, 0);
    cli_json_close(out, '}');
}

static void show_tsv(cli_output *out, const char *path, const coffer *model, const cli_sums *sums)
{
    const coffer_table *table = coffer_shard_table(model, 0);
    const file_sizes sizes = sizes_of(model);
    cli_tsv_text(out, path);
    cli_tsv_text(out, format_id_of(model));
    cli_tsv_number(out, sizes.files);
    cli_tsv_number(out, sizes.headers);
    cli_tsv_number(out, sizes.slack);
    cli_tsv_number(out, sizes.data);
    cli_tsv_number(out, sums->tensors);
    cli_tsv_number(out, sums->elements);
    cli_tsv_raw(out, "");
    for (size_t i = 0; i < sums->share_count; i++) {
        cli_put_text(out, i == 0 ? "" : ",");
        cli_put_text(out, coffer_dtype_name(sums->shares[i].dtype));
    }
    cli_tsv_number(out, coffer_table_metadata_count(table));
    cli_tsv_number(out, cli_count_notes(model));
    cli_tsv_finish(out);
}

/* ---- The command ---- */

/* What every file is asked for. */
typedef struct asked {
    bool screen; /* there is a screen for the file, or a line */
    bool memory; /* an estimate is shown */
    uint64_t context;
    const cli_fit *fit; /* NULL: nobody asked */
} asked;

/* The estimate by the config.json beside the model, whose text is kept. */
static void estimate(found *all, const asked *what, const coffer *model, cli_input *text)
{
    coffer__document config;
    const int error = cli_input_read_beside(model, "config.json", COFFER__CONFIG_MAX, text);
    if (error != 0) {
        snprintf(all->why, sizeof all->why, "%s",
                 error == ENOENT  ? ""
                 : error == EFBIG ? "has more than 8 MiB"
                                  : "cannot be read");
        return;
    }
    if (coffer__document_read(&config, coffer_libc_allocator(), text->bytes, text->size)) {
        all->has_memory = cli_memory_estimate(&all->memory, &config, what->context, all->why);
    } else if (config.what != NULL) {
        snprintf(all->why, sizeof all->why, "is not JSON, at byte %zu: %s", config.at, config.what);
    }
    coffer__document_free(&config);
}

/* A configuration that cannot be read is none: it is only asked what it says of the tensors. */
static coffer_status count(void *ctx, cli_file *file)
{
    const asked *what = ctx;
    cli_input text = { .size = 0 };
    found *all = calloc(1, sizeof *all);
    file->result = all;
    if (all == NULL) {
        return cli_no_memory(&file->err);
    }
    all->sums = (cli_sums){ .tensors = 0 };
    all->fit = what->fit;
    cli_sums_of(file->model, &all->sums);
    if (what->memory) {
        estimate(all, what, file->model, &text);
    }
    const coffer_status status =
        coffer_count_parameters(file->model, text.bytes, text.size, &all->parameters, &file->err);
    cli_quantised_find(&all->quantised, file->model, text.bytes, text.size);
    cli_input_free(&text);
    return status;
}

static int show_info(cli *app, void *ctx, const cli_file *file)
{
    const asked *what = ctx;
    const found *all = file->result;
    if (file->status != COFFER_OK) {
        return cli_import_fail(app, file->path, &file->err);
    }
    if (app->json) {
        show_json(&app->out, file->path, file->model, all);
    } else if (app->tsv) {
        show_tsv(&app->out, file->path, file->model, &all->sums);
    } else if (what->screen) {
        show_screen(&app->out, file->path, file->model, all);
    } else {
        show_line(&app->out, file->path, file->model, &all->sums);
    }
    return cli_report_whole(app, file->path, file->model);
}

/* What a member of model_index.json says as [library, class]; NULL: nothing, or no memory. */
static char *class_of(const coffer__document *document, const char *part)
{
    size_t len = 0;
    const coffer__json_node *member = coffer__document_member(document, coffer__document_root(document), part);
    const coffer__json_node *library = coffer__document_first(document, member);
    const coffer__json_node *name = library != NULL ? coffer__document_after(document, member, library) : NULL;
    return name != NULL && name->kind == '"' ? coffer__document_string(document, name, &len) : NULL;
}

/* "StableDiffusionPipeline of unet (UNet2DConditionModel), vae (AutoencoderKL), scheduler (DDIMScheduler)". */
static void show_parts(cli_output *out, const char *path, const cli_pipeline *pipeline,
                       const coffer__document *document)
{
    size_t len = 0;
    const coffer__json_node *kind = coffer__document_member(document, coffer__document_root(document), "_class_name");
    char *name = kind != NULL && kind->kind == '"' ? coffer__document_string(document, kind, &len) : NULL;
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_text(out, ": ");
    cli_put_escaped(out, name != NULL ? name : "a pipeline", strlen(name != NULL ? name : "a pipeline"), KEY_MAX);
    for (size_t i = 0; i < pipeline->count; i++) {
        char *class = class_of(document, pipeline->parts[i]);
        cli_put_text(out, i == 0 ? " of " : ", ");
        cli_put_text(out, pipeline->parts[i]);
        if (class != NULL) {
            cli_put_text(out, " (");
            cli_put_escaped(out, class, strlen(class), KEY_MAX);
            cli_put_char(out, ')');
        }
        coffer__block_free(class);
    }
    cli_put_char(out, '\n');
    coffer__block_free(name);
}

/* Of a folder that is a pipeline, what it consists of. Any other has no head: its models follow. */
static void show_pipeline(cli *app, const char *path)
{
    coffer_error err;
    cli_pipeline pipeline;
    coffer__document document;
    if (cli_pipeline_open(&pipeline, path, &err) == COFFER_OK) {
        if (coffer__document_read(&document, coffer_libc_allocator(), pipeline.index, pipeline.index_size)) {
            show_parts(&app->out, path, &pipeline, &document);
        }
        coffer__document_free(&document);
    }
    cli_pipeline_free(&pipeline);
}

static int unknown_device(cli *app)
{
    char names[512];
    size_t used = 0;
    for (size_t i = 0; cli_fit_device(i) != NULL && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", cli_fit_device(i));
    }
    return cli_usage_error(app, "--fit needs a size, 24GB or 80GiB, or one of %s", names);
}

static int run_info(cli *app, const cli_arguments *arguments)
{
    cli_models models;
    cli_fit fit;
    size_t context = 0;
    const char *tokens = cli_value(arguments, CLI_OPTION_CONTEXT);
    const char *device = cli_value(arguments, CLI_OPTION_FIT);
    if (device != NULL && !cli_fit_read(&fit, device)) {
        return unknown_device(app);
    }
    if (tokens != NULL && (!cli_read_count(tokens, &context) || context == 0)) {
        return cli_usage_error(app, "--context needs a number of tokens");
    }
    if (!cli_models_find(app, arguments->names, arguments->name_count, &models)) {
        cli_models_free(&models);
        return models.code;
    }
    const bool screen = models.count == 1;
    asked what = { .screen = screen,
                   .memory = app->json || (screen && !app->tsv),
                   .context = context,
                   .fit = device != NULL ? &fit : NULL };
    const cli_file_work work = { .all_notes = true,
                                 .partial = cli_given(arguments, CLI_OPTION_PARTIAL),
                                 .any_format = true,
                                 .missing = models.missing,
                                 .label = "reading",
                                 .look = count,
                                 .show = show_info,
                                 .ctx = &what };
    if (app->tsv) {
        cli_put_text(&app->out, "path\tformat\tfile_size\theader_size\tslack\tdata_size\ttensors\tparameters\tdtypes\t"
                                "metadata\tnotes\n");
    }
    if (!app->json && !app->tsv && models.count > 1 && arguments->name_count == 1) {
        show_pipeline(app, arguments->names[0]);
    }
    const int code = cli_each_file(app, &work, (const char *const *)models.paths, models.count);
    const int listed = models.code;
    cli_models_free(&models);
    return cli_worse(code, listed);
}

static const cli_option INFO_OPTIONS[] = {
    { CLI_OPTION_FIT, 0, "fit", "DEVICE", "whether it fits into a GPU, by its name or a size: H100, 24GB", NULL },
    { CLI_OPTION_CONTEXT, 0, "context", "TOKENS", "estimate the memory for so many tokens", NULL },
    CLI_OPTION_ROW_PARTIAL,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example INFO_EXAMPLES[] = {
    { "coffer info model.safetensors", "what is in a file" },
    { "coffer info *.safetensors", "a line for each of several files" },
    { "coffer info --fit 24GB --context 8192 model/", "does it fit into a GPU?" },
    { "coffer info --json model.safetensors", "the same for a program" },
    { NULL, NULL },
};

const cli_command cli_info = {
    .name = "info",
    .alias = "show",
    .run = run_info,
    .summary = "show what is in a file: tensors, parameters, dtypes, metadata",
    .usage = "PATH...",
    .about = "Shows one screen about a file, or a line for each of several; - is standard input. For a folder\n"
             "every model below it is shown. Only the header is read, regardless of the file's size. Slack is the\n"
             "room in the header for edits in place by `coffer meta`. Metadata values that are JSON are shown as\n"
             "JSON. If a config.json next to the model says that it is quantised, the number of parameters that\n"
             "were trained is shown too, and what was assumed. Of a language model the memory that generating\n"
             "takes is estimated by it: the weights, and 2 * layers * kv_heads * head_dim * context * bytes for\n"
             "the cache of keys and values, at the longest context or that of --context. With --fit it says\n"
             "whether these and an overhead, which is an estimate, fit into a GPU (docs/cli.md has the formula).\n",
    .options = INFO_OPTIONS,
    .examples = INFO_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
