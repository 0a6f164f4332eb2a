/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a file as JSON: see cli_json.h. */
#include "cli_json.h"

#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>

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
};

void cli_json_metadata(cli_output *out, const coffer_table *table)
{
    coffer_pair pair;
    cli_json_key(out, "metadata");
    cli_json_open(out, '{', true);
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        cli_json_key_n(out, pair.key, pair.key_len);
        cli_json_string_n(out, pair.value, pair.value_len);
    }
    cli_json_close(out, '}');
}

void cli_json_notes(cli_output *out, const coffer_table *table)
{
    cli_json_key(out, "notes");
    cli_json_open(out, '[', true);
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
        if (note.count == 0) {
            continue;
        }
        cli_json_open(out, '{', false);
        cli_json_key(out, "kind");
        cli_json_string(out, NOTE_NAMES[kind]);
        cli_json_key(out, "text");
        cli_json_string(out, coffer_note_text((coffer_note_kind)kind));
        cli_json_key(out, "count");
        cli_json_number(out, note.count);
        cli_json_key(out, "offset");
        cli_json_number(out, note.offset);
        cli_json_close(out, '}');
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

bool cli_note_text(const coffer_table *table, coffer_note_kind kind, char *text, size_t size)
{
    const coffer_note note = coffer_table_note(table, kind);
    char count[CLI_NUMBER_SIZE];
    cli_number_text(count, note.count, true);
    snprintf(text, size, "%s (%s %s at byte %" PRIu64 ")", coffer_note_text(kind), count,
             note.count == 1 ? "time," : "times, first", note.offset);
    return note.count > 0;
}

size_t cli_count_notes(const coffer_table *table)
{
    size_t kinds = 0;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        kinds += coffer_table_note(table, (coffer_note_kind)kind).count > 0;
    }
    return kinds;
}
