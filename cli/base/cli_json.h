/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a file that several commands write in one and the same form: as JSON and, of notes, as text. */
#ifndef COFFER_CLI_JSON_H
#define COFFER_CLI_JSON_H

#include "cli_output.h"
#include "coffer.h"

/* A note, the library's or a command's own. */
typedef struct cli_note {
    const char *kind; /* for programs: "unaligned" */
    const char *text;
    uint64_t count;
    uint64_t offset;     /* of the first, or COFFER_NO_OFFSET */
    const char *subject; /* what the first is about; "": the file */
} cli_note;

/* The member "metadata": an object of strings. Those of a table, or of what `pair_at` gives entry `i` of; it returns
   false after the last. */
typedef bool cli_pair_at(const void *of, size_t i, coffer_pair *pair);
void cli_json_pairs(cli_output *out, cli_pair_at *pair_at, const void *of);
void cli_json_metadata(cli_output *out, const coffer_table *table);
/* The member "notes": an array of {kind, text, count, offset} and, of a model of several files, the
   subject, without the kinds that were not seen; then the command's `own`. */
void cli_json_notes(cli_output *out, const coffer *model, const cli_note *own, size_t own_count);
/* The member "shape": an array of numbers. */
void cli_json_shape(cli_output *out, const uint64_t *shape, size_t rank);
/* The member `key`: a string, or null where there is no text. */
void cli_json_text_or_null(cli_output *out, const char *key, const char *text, size_t text_len);
/* The member "seconds": how long something took. */
void cli_json_seconds(cli_output *out, double seconds);
/* A note as text, "a tensor is not aligned for its dtype (1 time, at byte 550)"; false when it was not seen. */
bool cli_note_text(const coffer *model, coffer_note_kind kind, char *text, size_t size);
/* The same of any note. */
void cli_note_format(const cli_note *note, char *text, size_t size);
/* How many kinds of notes were seen. */
size_t cli_count_notes(const coffer *model);

#endif
