/* SPDX-License-Identifier: Apache-2.0 */
/* What the library notes of a model, as findings. */
#include "checkup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum note_cure { NOTE_NONE, NOTE_ALIGN, NOTE_INDEX, NOTE_DROP } note_cure;

/* How a note weighs here, and what fixes it. A file beside the shards is told of by itself (doctor_models.c). */
static const struct {
    const char *kind;
    coffer_severity weight;
    note_cure cure;
    bool passed_over;
} NOTES[COFFER_NOTE_COUNT] = {
    [COFFER_NOTE_LEADING_SPACE] = { "leading_space", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_UNKNOWN_KEY] = { "unknown_key", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_NULL_METADATA] = { "null_metadata", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_CONTROL_NAME] = { "control_name", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_EMPTY_NAME] = { "empty_name", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_UNALIGNED] = { "unaligned", COFFER_SEVERITY_NOTE, NOTE_ALIGN, false },
    [COFFER_NOTE_PADDING] = { "padding", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_CASE] = { "case", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_UNKNOWN_DTYPE] = { "unknown_dtype", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_LONG_NUMBER] = { "long_number", COFFER_SEVERITY_NOTE, NOTE_NONE, false },
    [COFFER_NOTE_UNINDEXED] = { "unindexed", COFFER_SEVERITY_WARNING, NOTE_INDEX, false },
    [COFFER_NOTE_TOTAL_SIZE] = { "total_size", COFFER_SEVERITY_NOTE, NOTE_INDEX, false },
    [COFFER_NOTE_EXTRA_SHARD] = { "extra_shard", COFFER_SEVERITY_NOTE, NOTE_NONE, true },
    [COFFER_NOTE_SHARD_COUNT] = { "shard_count", COFFER_SEVERITY_WARNING, NOTE_INDEX, false },
    [COFFER_NOTE_NO_INDEX] = { "no_index", COFFER_SEVERITY_WARNING, NOTE_INDEX, false },
    [COFFER_NOTE_SUPERSEDED] = { "superseded", COFFER_SEVERITY_WARNING, NOTE_DROP, false },
};

/* Where the index would be another one, and name more files than it does if that is what is wrong. */
static void fix_by_index(const coffer__doctor_folder *folder, coffer__finding *finding, const char *path,
                         size_t more_than)
{
    coffer_error err;
    coffer_fixed_index fixed = COFFER_FIXED_INDEX_INIT;
    if (finding != NULL && folder->input == NULL &&
        coffer__doctor_would_fix_index(folder->doctor, path, &fixed, &err) == COFFER_OK &&
        fixed.way != COFFER_EDITED_NOTHING && fixed.file_count > more_than) {
        coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "index", path));
    }
}

void coffer__doctor_check_notes(const coffer__doctor_folder *folder, const char *name, const char *path,
                                const coffer *model)
{
    coffer__checkup *d = folder->doctor;
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        const char *subject = "";
        const coffer_note seen = coffer_model_note(model, (coffer_note_kind)kind, &subject);
        if (seen.count == 0 || NOTES[kind].passed_over) {
            continue;
        }
        char times[40] = "";
        if (seen.count > 1) {
            snprintf(times, sizeof times, " (%" PRIu64 " times)", seen.count);
        }
        coffer__finding *finding = coffer__doctor_add_in(folder, NOTES[kind].weight, NOTES[kind].kind, name, "%s%s",
                                                         coffer_note_text((coffer_note_kind)kind), times);
        if (finding != NULL) {
            finding->offset = seen.offset;
        }
        if (subject[0] != '\0' && kind == COFFER_NOTE_UNINDEXED) {
            coffer__doctor_about(d, finding, subject, strlen(subject));
        }
        if (NOTES[kind].cure == NOTE_ALIGN && coffer__doctor_owns(folder, model)) {
            coffer__doctor_fix(d, finding, COFFER__DOCTOR_WORDS("coffer", "align", path, "--in-place"));
        } else if (NOTES[kind].cure == NOTE_DROP && coffer__doctor_owns(folder, model)) {
            /* The index says which copy counts, and the library has found it there. */
            coffer__doctor_fix(d, finding, COFFER__DOCTOR_WORDS("coffer", "drop", path, "--superseded", "--in-place"));
        } else if (NOTES[kind].cure == NOTE_INDEX) {
            fix_by_index(folder, finding, path[0] != '\0' ? path : ".",
                         kind == COFFER_NOTE_SHARD_COUNT ? coffer_shard_count(model) : 0);
        }
    }
}
