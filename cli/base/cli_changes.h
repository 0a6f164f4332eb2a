/* SPDX-License-Identifier: Apache-2.0 */
/* What a rewrite changes, told to a person in a sentence or line by line, and to a program. Tensors that stay are not
   told of. */
#ifndef COFFER_CLI_CHANGES_H
#define COFFER_CLI_CHANGES_H

#include "cli_output.h"
#include "coffer.h"

/* Numbers that a command has computed: its words for them, and what it says of the model's tensor `i`. */
typedef struct cli_computed {
    const char *kind; /* for programs: "merge" */
    const char *word; /* "12 of 160 tensors merged" */
    void (*put)(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i);
    void (*json)(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i); /* members */
    bool (*same)(const void *ctx, const coffer_rewrite *rewrite, size_t i,
                 size_t other); /* `put` says the same of both */
    const void *ctx;
} cli_computed;

typedef struct cli_changes {
    const coffer_rewrite *rewrite;
    const cli_computed *computed; /* NULL: no numbers are computed, but by casts */
    bool aligning;                /* a tensor that does not stand where its dtype wants it counts as a change */
    bool done;                    /* the rewrite has run */
    bool choosing;                /* what is left out is no change: nobody loses it */
} cli_changes;

/* One in a line, `most` of them at most: "a.weight: from F32 to BF16". */
void cli_changes_put(cli_output *out, const cli_changes *changes, size_t most);
/* The same with layers folded: "layers.#.up × 32: from F32 to BF16". As cli_changes_put where there is no memory
   for that. */
void cli_changes_put_folded(cli_output *out, const cli_changes *changes, size_t most);
/* The member "changes" of an object. */
void cli_changes_json(cli_output *out, const cli_changes *changes);
/* "12 of 160 tensors dropped: a.weight, b.weight, c.weight and 9 more"; nothing where no tensor changes. */
void cli_changes_text(const cli_changes *changes, char *text, size_t size);

#endif
