/* SPDX-License-Identifier: Apache-2.0 */
/* What a rewrite changes, told: see cli_changes.h for the contract. */
#include "cli_changes.h"

#include "cli_fold.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 3       /* of tensors that change, in a message */
#define SHOWN_NAME_MAX 80 /* bytes of each */

typedef enum change { STAYS, DROPPED, CAST, RENAMED, MOVED, COMPUTED } change;

static change change_of(const cli_changes *changes, const coffer_rewrite_change *tensor)
{
    const coffer_tensor *from = tensor->from;
    const coffer_tensor *to = tensor->to;
    if (to == NULL) {
        return changes->choosing ? STAYS : DROPPED;
    }
    if (tensor->computed && changes->computed != NULL) {
        return COMPUTED;
    }
    if (to->dtype != from->dtype) {
        return CAST;
    }
    if (to->name_len != from->name_len || memcmp(to->name, from->name, from->name_len) != 0) {
        return RENAMED;
    }
    return changes->aligning && from->offset % coffer_dtype_alignment(from->dtype) != 0 ? MOVED : STAYS;
}

/* What becomes of tensor `i`, which changes, after its name. Of folded ones the new name is the pattern `to`. */
static void put_what(cli_output *out, const cli_changes *changes, size_t i, const char *to, size_t to_len)
{
    const coffer_rewrite_change *tensor = coffer_rewrite_at(changes->rewrite, i);
    const change made = change_of(changes, tensor);
    if (tensor->to == NULL) {
        cli_put_text(out, ": dropped");
    } else if (made == CAST) {
        cli_put_text(out, ": from ");
        cli_put_text(out, coffer_dtype_name(tensor->from->dtype));
        cli_put_text(out, " to ");
        cli_put_text(out, coffer_dtype_name(tensor->to->dtype));
    } else if (made == COMPUTED) {
        cli_put_text(out, ": ");
        changes->computed->put(changes->computed->ctx, out, changes->rewrite, i);
    } else if (made == RENAMED) {
        cli_put_text(out, ": renamed to ");
        cli_put_escaped(out, to, to_len, 0);
    } else {
        cli_put_text(out, ": from byte ");
        cli_put_number(out, tensor->from->offset);
        cli_put_text(out, " to byte ");
        cli_put_number(out, tensor->to->offset);
    }
    cli_put_char(out, '\n');
}

static void put_change(cli_output *out, const cli_changes *changes, size_t i)
{
    const coffer_rewrite_change *tensor = coffer_rewrite_at(changes->rewrite, i);
    const coffer_tensor *to = tensor->to;
    cli_put_escaped(out, tensor->from->name, tensor->from->name_len, 0);
    put_what(out, changes, i, to != NULL ? to->name : "", to != NULL ? to->name_len : 0);
}

void cli_changes_put(cli_output *out, const cli_changes *changes, size_t most)
{
    const coffer_rewrite_change *tensor = NULL;
    size_t shown = 0;
    for (size_t i = 0; shown < most && (tensor = coffer_rewrite_at(changes->rewrite, i)) != NULL; i++) {
        if (change_of(changes, tensor) != STAYS) {
            put_change(out, changes, i);
            shown++;
        }
    }
}

/* ---- Folded ---- */

/* What changes, by the place among the tensors that are folded. */
typedef struct folding {
    const cli_changes *changes;
    size_t *changed;               /* the rewrite's numbers */
    const coffer_tensor **tensors; /* as they were */
    size_t count;
    char *patterns[2]; /* of two new names, with space for the longest */
} folding;

static bool find_changed(folding *all)
{
    const coffer_rewrite_change *tensor = NULL;
    size_t longest = 0;
    size_t total = 0;
    while (coffer_rewrite_at(all->changes->rewrite, total) != NULL) {
        total++;
    }
    all->changed = malloc((total + 1) * sizeof *all->changed);
    all->tensors = malloc((total + 1) * sizeof(void *));
    for (size_t i = 0; all->changed != NULL && all->tensors != NULL && i < total; i++) {
        tensor = coffer_rewrite_at(all->changes->rewrite, i);
        if (change_of(all->changes, tensor) != STAYS) {
            all->changed[all->count] = i;
            all->tensors[all->count++] = tensor->from;
            longest = tensor->to != NULL && tensor->to->name_len > longest ? tensor->to->name_len : longest;
        }
    }
    all->patterns[0] = malloc(longest + 1);
    all->patterns[1] = malloc(longest + 1);
    return all->changed != NULL && all->tensors != NULL && all->patterns[0] != NULL && all->patterns[1] != NULL;
}

static void free_folding(folding *all)
{
    free(all->patterns[0]);
    free(all->patterns[1]);
    free(all->tensors);
    free(all->changed);
}

/* The new name with # for its numbers, in patterns[i]. */
static size_t new_pattern(const folding *all, size_t i, const coffer_rewrite_change *tensor)
{
    return tensor->to == NULL ? 0 : cli_name_pattern(tensor->to->name, tensor->to->name_len, all->patterns[i]);
}

static const coffer_rewrite_change *folded_change(const folding *all, size_t i)
{
    return coffer_rewrite_at(all->changes->rewrite, all->changed[i]);
}

/* Whether a change of the same kind is told in the same words of two tensors. What moves has numbers of its own. */
static bool reported_compatible(const folding *all, change made, size_t i, size_t other)
{
    const cli_computed *computed = all->changes->computed;
    return made == COMPUTED ? computed->same(computed->ctx, all->changes->rewrite, all->changed[i], all->changed[other])
                            : made != MOVED;
}

/* How many tensors of a fold, from the first of `fold` on, one line is true of: the same change, to the same dtype and the
   same pattern of names, which is left in patterns[0]. */
static size_t uniform_count(const folding *all, const cli_folds *tree, const cli_fold *fold, size_t *pattern_len)
{
    const size_t item = tree->leaves[fold->first].item;
    const coffer_rewrite_change *first = folded_change(all, item);
    const change made = change_of(all->changes, first);
    size_t count = 1;
    *pattern_len = new_pattern(all, 0, first);
    for (; count < fold->count; count++) {
        const size_t other = tree->leaves[fold->first + count].item;
        const coffer_rewrite_change *next = folded_change(all, other);
        const size_t len = new_pattern(all, 1, next);
        if (change_of(all->changes, next) != made || len != *pattern_len ||
            memcmp(all->patterns[0], all->patterns[1], len) != 0 ||
            (next->to != NULL && next->to->dtype != first->to->dtype) || !reported_compatible(all, made, item, other)) {
            break;
        }
    }
    return count;
}

/* A line for each run of tensors with which the same happens. Returns how many it took. */
static size_t put_fold(cli_output *out, const folding *all, const cli_folds *tree, const cli_fold *fold)
{
    char tail[CLI_FOLD_TAIL_SIZE];
    cli_fold run = *fold;
    size_t lines = 0;
    for (size_t done = 0; done < fold->count; done += run.count) {
        size_t pattern_len = 0;
        run.first = fold->first + done;
        run.count = fold->count - done;
        run.count = uniform_count(all, tree, &run, &pattern_len);
        run.whole = fold->whole && run.count == fold->count;
        lines++;
        if (run.count == 1) {
            put_change(out, all->changes, all->changed[tree->leaves[run.first].item]);
            continue;
        }
        cli_fold_tail(tree, &run, tail);
        cli_put_escaped(out, run.name, run.name_len, 0);
        cli_put_text(out, tail);
        put_what(out, all->changes, all->changed[tree->leaves[run.first].item], all->patterns[0], pattern_len);
    }
    return lines;
}

void cli_changes_put_folded(cli_output *out, const cli_changes *changes, size_t most)
{
    cli_folds tree;
    folding all = { .changes = changes };
    size_t lines = 0;
    if (!find_changed(&all) || !cli_folds_make(&tree, all.tensors, all.count)) {
        free_folding(&all);
        cli_changes_put(out, changes, most);
        return;
    }
    for (size_t i = 0; i < tree.fold_count && lines < most && out->error == 0; i++) {
        lines += put_fold(out, &all, &tree, &tree.folds[i]);
    }
    cli_folds_free(&tree);
    free_folding(&all);
}

/* What a cast lost is known once it has run. */
static void json_cast(cli_output *out, const cli_changes *changes, const coffer_rewrite_change *tensor)
{
    cli_json_key(out, "from");
    cli_json_string(out, coffer_dtype_name(tensor->from->dtype));
    cli_json_key(out, "to");
    cli_json_string(out, coffer_dtype_name(tensor->to->dtype));
    if (changes->done) {
        cli_json_key(out, "overflowed");
        cli_json_number(out, tensor->overflowed);
        cli_json_key(out, "vanished");
        cli_json_number(out, tensor->vanished);
    }
}

static void json_change(cli_output *out, const cli_changes *changes, size_t i)
{
    static const char *const kinds[] = { "", "drop", "cast", "rename", "align" };
    const coffer_rewrite_change *tensor = coffer_rewrite_at(changes->rewrite, i);
    const change made = change_of(changes, tensor);
    if (made == STAYS) {
        return;
    }
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, tensor->from->name, tensor->from->name_len);
    cli_json_key(out, "change");
    cli_json_string(out, made == COMPUTED ? changes->computed->kind : kinds[made]);
    if (made == COMPUTED) {
        changes->computed->json(changes->computed->ctx, out, changes->rewrite, i);
        json_cast(out, changes, tensor);
    } else if (made == RENAMED) {
        cli_json_key(out, "to");
        cli_json_string_n(out, tensor->to->name, tensor->to->name_len);
    } else if (made == MOVED) {
        cli_json_key(out, "from");
        cli_json_number(out, tensor->from->offset);
        cli_json_key(out, "to");
        cli_json_number(out, tensor->to->offset);
    } else if (made == CAST) {
        json_cast(out, changes, tensor);
    }
    cli_json_close(out, '}');
}

void cli_changes_json(cli_output *out, const cli_changes *changes)
{
    cli_json_key(out, "changes");
    cli_json_open(out, '[', true);
    for (size_t i = 0; coffer_rewrite_at(changes->rewrite, i) != NULL; i++) {
        json_change(out, changes, i);
    }
    cli_json_close(out, ']');
}

/* "a.weight", or of what is renamed "a.weight to b.weight". Returns the length that it needs. */
static size_t name_change(const cli_changes *changes, const coffer_rewrite_change *tensor, char *text, size_t size)
{
    char from[SHOWN_NAME_MAX * 4 + 1];
    char to[SHOWN_NAME_MAX * 4 + 1] = "";
    const change made = change_of(changes, tensor);
    const size_t len = cli_cut_at_character(tensor->from->name, tensor->from->name_len, SHOWN_NAME_MAX);
    coffer_escape(tensor->from->name, len, from, sizeof from);
    if (made == RENAMED) {
        coffer_escape(tensor->to->name, cli_cut_at_character(tensor->to->name, tensor->to->name_len, SHOWN_NAME_MAX),
                      to, sizeof to);
    }
    return (size_t)snprintf(text, size, "%s%s%s%s%s", from, len < tensor->from->name_len ? "..." : "",
                            made == CAST || made == RENAMED ? " to " : "", to,
                            made == CAST ? coffer_dtype_name(tensor->to->dtype) : "");
}

void cli_changes_text(const cli_changes *changes, char *text, size_t size)
{
    static const char *const kinds[] = { "", "dropped", "cast", "renamed", "moved" };
    char names[NAMES_MAX * (8 * SHOWN_NAME_MAX + 16)] = "";
    char numbers[2][CLI_NUMBER_SIZE];
    size_t used = 0;
    size_t count = 0;
    size_t all = 0;
    size_t dropped = 0;
    change made = STAYS;
    const coffer_rewrite_change *tensor = NULL;
    for (; (tensor = coffer_rewrite_at(changes->rewrite, all)) != NULL; all++) {
        const change now = change_of(changes, tensor);
        /* Where numbers are computed, what is dropped has gone into them. */
        dropped += now == DROPPED && changes->computed != NULL;
        if (now == STAYS || (now == DROPPED && changes->computed != NULL)) {
            continue;
        }
        made = now;
        if (count++ < NAMES_MAX) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s", count > 1 ? ", " : "");
            used += name_change(changes, tensor, names + used, sizeof names - used);
        }
    }
    text[0] = '\0';
    if (count == 0) {
        return;
    }
    cli_number_text(numbers[0], count, true);
    cli_number_text(numbers[1], all, true);
    used =
        (size_t)snprintf(text, size, "%s of %s tensor%s %s: %s", numbers[0], numbers[1], all == 1 ? "" : "s",
                         made == COMPUTED && changes->computed != NULL ? changes->computed->word : kinds[made], names);
    if (count > NAMES_MAX) {
        cli_number_text(numbers[0], count - NAMES_MAX, true);
        used += (size_t)snprintf(text + used, size - used, " and %s more", numbers[0]);
    }
    if (dropped > 0) {
        cli_number_text(numbers[0], dropped, true);
        snprintf(text + used, size - used, "; left out with them: %s", numbers[0]);
    }
}
