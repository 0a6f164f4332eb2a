/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a file as JSON: see cli_json.h. */
#include "cli_json.h"

#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Names of the kinds of notes in JSON: stable, unlike the texts. */
static const char *const NOTE_NAMES[COFFER_NOTE_COUNT] = {
    [COFFER_NOTE_LEADING_SPACE] = "leading_space",
    [COFFER_NOTE_UNKNOWN_KEY] = "unknown_key",
    [COFFER_NOTE_NULL_METADATA] = "null_metadata",
    [COFFER_NOTE_CONTROL_NAME] = "control_name",
    [COFFER_NOTE_EMPTY_NAME] = "empty_name",
    [COFFER_NOTE_UNALIGNED] = "unaligned",
    [COFFER_NOTE_PADDING] = "padding",
    [COFFER_NOTE_CASE] = "case",
    [COFFER_NOTE_UNKNOWN_DTYPE] = "unknown_dtype",
    [COFFER_NOTE_LONG_NUMBER] = "long_number",
    [COFFER_NOTE_UNINDEXED] = "unindexed",
    [COFFER_NOTE_TOTAL_SIZE] = "total_size",
    [COFFER_NOTE_EXTRA_SHARD] = "extra_shard",
    [COFFER_NOTE_SHARD_COUNT] = "shard_count",
    [COFFER_NOTE_NO_INDEX] = "no_index",
    [COFFER_NOTE_SUPERSEDED] = "superseded",
};

void cli_json_pairs(cli_output *out, cli_pair_at *pair_at, const void *of)
{
    coffer_pair pair;
    cli_json_key(out, "metadata");
    cli_json_open(out, '{', true);
    for (size_t i = 0; pair_at(of, i, &pair); i++) {
        cli_json_key_n(out, pair.key, pair.key_len);
        cli_json_string_n(out, pair.value, pair.value_len);
    }
    cli_json_close(out, '}');
}

static bool pair_of_table(const void *table, size_t i, coffer_pair *pair)
{
    return coffer_table_metadata_at(table, i, pair);
}

void cli_json_metadata(cli_output *out, const coffer_table *table)
{
    cli_json_pairs(out, pair_of_table, table);
}

/* A note, with what it is about where that says more than the file's own name; false when it was not seen. */
static bool find_note(const coffer *model, coffer_note_kind kind, cli_note *note)
{
    const char *subject = NULL;
    const coffer_note seen = coffer_model_note(model, kind, &subject);
    const bool own_name = kind < COFFER_NOTE_UNINDEXED && coffer_shard_count(model) == 1;
    *note = (cli_note){ NOTE_NAMES[kind], coffer_note_text(kind), seen.count, seen.offset, own_name ? "" : subject };
    return note->count > 0;
}

static void put_note(cli_output *out, const cli_note *note)
{
    cli_json_open(out, '{', false);
    cli_json_put_string(out, "kind", note->kind);
    cli_json_put_string(out, "text", note->text);
    cli_json_put_number(out, "count", note->count);
    cli_json_key(out, "offset");
    if (note->offset != COFFER_NO_OFFSET) {
        cli_json_number(out, note->offset);
    } else {
        cli_json_null(out);
    }
    if (note->subject[0] != '\0') {
        cli_json_put_string(out, "subject", note->subject);
    }
    cli_json_close(out, '}');
}

void cli_json_notes(cli_output *out, const coffer *model, const cli_note *own, size_t own_count)
{
    cli_json_key(out, "notes");
    cli_json_open(out, '[', true);
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        cli_note note;
        if (find_note(model, (coffer_note_kind)kind, &note)) {
            put_note(out, &note);
        }
    }
    for (size_t i = 0; i < own_count; i++) {
        put_note(out, &own[i]);
    }
    cli_json_close(out, ']');
}

void cli_json_shape(cli_output *out, const uint64_t *shape, size_t rank)
{
    cli_json_key(out, "shape");
    cli_json_open(out, '[', false);
    for (size_t i = 0; i < rank; i++) {
        cli_json_number(out, shape[i]);
    }
    cli_json_close(out, ']');
}

void cli_json_text_or_null(cli_output *out, const char *key, const char *text, size_t text_len)
{
    cli_json_key(out, key);
    if (text_len > 0) {
        cli_json_string_n(out, text, text_len);
    } else {
        cli_json_null(out);
    }
}

void cli_json_seconds(cli_output *out, double seconds)
{
    char text[CLI_NUMBER_SIZE];
    snprintf(text, sizeof text, "%.6f", seconds);
    cli_json_key(out, "seconds");
    cli_json_raw(out, text);
}

bool cli_note_text(const coffer *model, coffer_note_kind kind, char *text, size_t size)
{
    cli_note note;
    const bool seen = find_note(model, kind, &note);
    cli_note_format(&note, text, size);
    return seen;
}

void cli_note_format(const cli_note *note, char *text, size_t size)
{
    char count[CLI_NUMBER_SIZE];
    char byte[CLI_NUMBER_SIZE + 16] = "";
    char shown[256] = "";
    cli_number_text(count, note->count, true);
    if (note->offset != COFFER_NO_OFFSET) {
        snprintf(byte, sizeof byte, " at byte %" PRIu64, note->offset);
    }
    if (note->subject[0] != '\0') {
        coffer_escape(note->subject, strlen(note->subject), shown, sizeof shown);
    }
    snprintf(text, size, "%s (%s %s%s%s%s)", note->text, count,
             byte[0] == '\0' && shown[0] == '\0' ? (note->count == 1 ? "time" : "times")
             : note->count == 1                  ? "time,"
                                                 : "times, first",
             byte,
             shown[0] == '\0'  ? ""
             : byte[0] == '\0' ? " "
                               : " in ",
             shown);
}

size_t cli_count_notes(const coffer *model)
{
    size_t kinds = 0;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        kinds += coffer_model_note(model, (coffer_note_kind)kind, NULL).count > 0;
    }
    return kinds;
}
