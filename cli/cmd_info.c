/* SPDX-License-Identifier: Apache-2.0 */
/* coffer info PATH...: what is in a file, on one screen; for several files, a line each. */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>
#include <string.h>

#define METADATA_MOST 20    /* entries on the screen */
#define VALUE_MOST 100      /* bytes of a value on the screen */
#define KEY_MOST 60         /* bytes of a key */
#define ALIGNMENT_MOST 4096 /* a larger alignment of the data is chance rather than intent */

/* A dtype's share of a file. */
typedef struct info_share {
    uint64_t tensors;
    uint64_t elements;
    uint64_t bytes;
    coffer_dtype dtype;
} info_share;

/* What is counted over a file. */
typedef struct info_sums {
    info_share shares[COFFER_DTYPE_COUNT + 1]; /* those of dtypes that are there, the largest first */
    size_t share_count;
    uint64_t elements;
} info_sums;

static int compare_shares(const void *left, const void *right)
{
    const info_share *a = left;
    const info_share *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    if (a->tensors != b->tensors) {
        return a->tensors > b->tensors ? -1 : 1;
    }
    return a->dtype < b->dtype ? -1 : a->dtype > b->dtype;
}

static void count_file(const coffer *model, info_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        info_share *share = &sums->shares[tensor->dtype];
        const uint64_t elements = coffer_tensor_elements(tensor);
        share->tensors++;
        share->elements += elements;
        share->bytes += tensor->size;
        sums->elements += elements;
    }
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        if (sums->shares[i].tensors > 0) {
            sums->shares[sums->share_count] = sums->shares[i];
            sums->shares[sums->share_count++].dtype = (coffer_dtype)i;
        }
    }
    qsort(sums->shares, sums->share_count, sizeof sums->shares[0], compare_shares);
}

/* The largest power of two, up to ALIGNMENT_MOST, that divides where the data begins. */
static uint64_t data_alignment(uint64_t data_offset)
{
    uint64_t alignment = 1;
    while (alignment < ALIGNMENT_MOST && data_offset % (alignment * 2) == 0) {
        alignment *= 2;
    }
    return alignment;
}

static size_t count_note_kinds(const coffer_table *table)
{
    size_t count = 0;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        count += coffer_table_note(table, (coffer_note_kind)kind).count > 0;
    }
    return count;
}

static void put_label(cli_output *out, const char *label)
{
    const size_t len = strlen(label);
    cli_put_text(out, "  ");
    cli_put_text(out, label);
    cli_put_repeat(out, ' ', len < 12 ? 12 - len : 1);
}

static void put_right(cli_output *out, uint64_t number, size_t width)
{
    char text[CLI_NUMBER_SIZE];
    const size_t len = cli_number_text(text, number, true);
    cli_put_repeat(out, ' ', len < width ? width - len : 0);
    cli_put(out, text, len);
}

static void show_dtypes(cli_output *out, const info_sums *sums)
{
    char text[CLI_NUMBER_SIZE];
    const size_t width = cli_number_text(text, sums->elements, true);
    for (size_t i = 0; i < sums->share_count; i++) {
        const info_share *share = &sums->shares[i];
        const char *name = coffer_dtype_name(share->dtype);
        put_label(out, i == 0 ? "dtypes" : "");
        cli_put_text(out, name);
        cli_put_repeat(out, ' ', strlen(name) < 12 ? 12 - strlen(name) : 1);
        put_right(out, share->tensors, 7);
        cli_put_text(out, share->tensors == 1 ? " tensor   " : " tensors  ");
        put_right(out, share->elements, width);
        cli_put_text(out, " parameters  ");
        cli_put_bytes(out, share->bytes);
        cli_put_char(out, '\n');
    }
}

static void show_metadata(cli_output *out, const coffer_table *table)
{
    const size_t count = coffer_table_metadata_count(table);
    coffer_pair pair;
    if (count == 0) {
        put_label(out, "metadata");
        cli_put_text(out, "none\n");
    }
    for (size_t i = 0; i < count && i < METADATA_MOST && coffer_table_metadata_at(table, i, &pair); i++) {
        put_label(out, i == 0 ? "metadata" : "");
        cli_put_escaped(out, pair.key, pair.key_len, KEY_MOST);
        cli_put_text(out, " = ");
        if (cli_put_escaped(out, pair.value, pair.value_len, VALUE_MOST)) {
            cli_put_text(out, " (cut: ");
            cli_put_grouped(out, pair.value_len);
            cli_put_text(out, " bytes; coffer meta shows all)");
        }
        cli_put_char(out, '\n');
    }
    if (count > METADATA_MOST) {
        put_label(out, "");
        cli_put_text(out, "... and ");
        cli_put_grouped(out, count - METADATA_MOST);
        cli_put_text(out, " more; coffer meta shows all\n");
    }
}

static void show_notes(cli_output *out, const coffer_table *table)
{
    bool first = true;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
        if (note.count == 0) {
            continue;
        }
        put_label(out, first ? "notes" : "");
        cli_put_text(out, coffer_note_text((coffer_note_kind)kind));
        cli_put_text(out, " (");
        cli_put_grouped(out, note.count);
        cli_put_text(out, note.count == 1 ? " time, at byte " : " times, first at byte ");
        cli_put_number(out, note.offset);
        cli_put_text(out, ")\n");
        first = false;
    }
    if (first) {
        put_label(out, "notes");
        cli_put_text(out, "none\n");
    }
}

static void show_number(cli_output *out, const char *label, uint64_t number)
{
    put_label(out, label);
    cli_put_grouped(out, number);
    cli_put_char(out, '\n');
}

static void show_screen(cli_output *out, const char *path, const coffer *model, const info_sums *sums)
{
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t file_size = coffer_shard_size(model, 0);
    const uint64_t data_offset = coffer_table_data_offset(table);
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_char(out, '\n');
    put_label(out, "format");
    cli_put_text(out, "safetensors\n");
    put_label(out, "file");
    cli_put_grouped(out, file_size);
    cli_put_text(out, " bytes");
    if (file_size >= 1000) {
        cli_put_text(out, " (");
        cli_put_bytes(out, file_size);
        cli_put_char(out, ')');
    }
    cli_put_char(out, '\n');
    put_label(out, "header");
    cli_put_grouped(out, data_offset - 8);
    cli_put_text(out, " bytes, ");
    cli_put_grouped(out, coffer_table_slack(table));
    cli_put_text(out, " of them slack for edits of the metadata\n");
    put_label(out, "data");
    cli_put_text(out, "from byte ");
    cli_put_grouped(out, data_offset);
    cli_put_text(out, ", aligned to ");
    cli_put_grouped(out, data_alignment(data_offset));
    cli_put_text(out, data_alignment(data_offset) == 1 ? " byte\n" : " bytes\n");
    show_number(out, "tensors", coffer_count(model));
    show_number(out, "parameters", sums->elements);
    show_dtypes(out, sums);
    show_metadata(out, table);
    show_notes(out, table);
}

static void show_line(cli_output *out, const char *path, const coffer *model, const info_sums *sums)
{
    const size_t notes = count_note_kinds(coffer_shard_table(model, 0));
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_text(out, ": ");
    cli_put_grouped(out, coffer_count(model));
    cli_put_text(out, coffer_count(model) == 1 ? " tensor, " : " tensors, ");
    cli_put_grouped(out, sums->elements);
    cli_put_text(out, sums->elements == 1 ? " parameter, " : " parameters, ");
    cli_put_bytes(out, coffer_shard_size(model, 0));
    for (size_t i = 0; i < sums->share_count; i++) {
        cli_put_text(out, i == 0 ? ", " : " ");
        cli_put_text(out, coffer_dtype_name(sums->shares[i].dtype));
    }
    if (notes > 0) {
        cli_put_text(out, ", ");
        cli_put_grouped(out, notes);
        cli_put_text(out, notes == 1 ? " note" : " notes");
    }
    cli_put_char(out, '\n');
}

static void json_sums(cli_output *out, const info_sums *sums)
{
    cli_json_key(out, "parameters");
    cli_json_number(out, sums->elements);
    cli_json_key(out, "dtypes");
    cli_json_open(out, '{', true);
    for (size_t i = 0; i < sums->share_count; i++) {
        const info_share *share = &sums->shares[i];
        cli_json_key(out, coffer_dtype_name(share->dtype));
        cli_json_open(out, '{', false);
        cli_json_key(out, "tensors");
        cli_json_number(out, share->tensors);
        cli_json_key(out, "parameters");
        cli_json_number(out, share->elements);
        cli_json_key(out, "bytes");
        cli_json_number(out, share->bytes);
        cli_json_close(out, '}');
    }
    cli_json_close(out, '}');
}

static void show_json(cli_output *out, const char *path, const coffer *model, const info_sums *sums)
{
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t data_offset = coffer_table_data_offset(table);
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "format");
    cli_json_string(out, "safetensors");
    cli_json_key(out, "file_size");
    cli_json_number(out, coffer_shard_size(model, 0));
    cli_json_key(out, "header_size");
    cli_json_number(out, data_offset - 8);
    cli_json_key(out, "slack");
    cli_json_number(out, coffer_table_slack(table));
    cli_json_key(out, "data_offset");
    cli_json_number(out, data_offset);
    cli_json_key(out, "data_size");
    cli_json_number(out, coffer_table_data_size(table));
    cli_json_key(out, "alignment");
    cli_json_number(out, data_alignment(data_offset));
    cli_json_key(out, "tensors");
    cli_json_number(out, coffer_count(model));
    json_sums(out, sums);
    cli_json_metadata(out, table);
    cli_json_notes(out, table);
    cli_json_close(out, '}');
}

static coffer_status count(void *ctx, cli_file *file)
{
    (void)ctx;
    file->result = malloc(sizeof(info_sums));
    if (file->result == NULL) {
        return cli_no_memory(&file->err);
    }
    count_file(file->model, file->result);
    return COFFER_OK;
}

/* `ctx` is whether there is a screen for the file, or a line. */
static int show_info(cli *app, void *ctx, const cli_file *file)
{
    const bool *screen = ctx;
    if (file->status != COFFER_OK) {
        return cli_fail(app, file->path, &file->err);
    }
    if (app->json) {
        show_json(&app->out, file->path, file->model, file->result);
    } else if (*screen) {
        show_screen(&app->out, file->path, file->model, file->result);
    } else {
        show_line(&app->out, file->path, file->model, file->result);
    }
    return CLI_EXIT_OK;
}

static int run_info(cli *app, const cli_arguments *arguments)
{
    bool screen = arguments->name_count == 1;
    const cli_file_work work = { true, "reading", count, show_info, &screen };
    return cli_each_file(app, &work, arguments->names, arguments->name_count);
}

static const cli_option INFO_OPTIONS[] = {
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example INFO_EXAMPLES[] = {
    { "coffer info model.safetensors", "what is in a file" },
    { "coffer info *.safetensors", "a line for each of many" },
    { "coffer info --json model.safetensors", "the same for a program" },
    { NULL, NULL },
};

const cli_command cli_info = {
    .name = "info",
    .run = run_info,
    .summary = "show what is in a file: tensors, parameters, dtypes, metadata",
    .usage = "PATH...",
    .about = "Shows one screen about a file, or a line for each of several. Only the header is read, whatever\n"
             "the file's size. Slack is the room in the header in which `coffer meta` edits in place.\n"
             "\n"
             "JSON: path, format, file_size, header_size, slack, data_offset, data_size, alignment, tensors,\n"
             "parameters, dtypes {NAME: {tensors, parameters, bytes}}, metadata, notes [{kind, text, count,\n"
             "offset}]. A file that fails has path and error {code, name, message, tensor, offset, expected,\n"
             "actual}, where null means that it does not apply.\n",
    .options = INFO_OPTIONS,
    .examples = INFO_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
