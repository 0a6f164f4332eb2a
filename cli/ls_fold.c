/* SPDX-License-Identifier: Apache-2.0 */
/* Names with their layers folded: see ls_fold.h for the contract. */
#include "ls_fold.h"

#include "cli_names.h"
#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the pattern of a name, which is never longer than the name. */
static void make_pattern(ls_leaf *leaf, char *text)
{
    const coffer_tensor *tensor = leaf->tensor;
    size_t len = 0;
    size_t start = 0;
    leaf->pattern = text;
    leaf->number_count = 0;
    while (start <= tensor->name_len) {
        const size_t end = cli_part_end(tensor->name, tensor->name_len, start);
        if (cli_part_is_number(tensor->name, start, end)) {
            text[len++] = '#';
            leaf->number_count++;
        } else {
            memcpy(text + len, tensor->name + start, end - start);
            len += end - start;
        }
        if (end < tensor->name_len) {
            text[len++] = tensor->name[end];
        }
        start = end + 1;
    }
    leaf->pattern_len = (uint32_t)len;
}

static int compare_kinds(const coffer_tensor *a, const coffer_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return a->dtype != b->dtype ? (a->dtype < b->dtype ? -1 : 1) : (a->rank < b->rank ? -1 : 1);
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] != b->shape[i]) {
            return a->shape[i] < b->shape[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_leaves(const void *left, const void *right)
{
    const ls_leaf *a = left;
    const ls_leaf *b = right;
    int order = cli_compare_names(a->pattern, a->pattern_len, b->pattern, b->pattern_len);
    order = order != 0 ? order : compare_kinds(a->tensor, b->tensor);
    return order != 0 ? order
                      : cli_compare_names(a->tensor->name, a->tensor->name_len, b->tensor->name, b->tensor->name_len);
}

static bool same_pattern(const ls_leaf *a, const ls_leaf *b)
{
    return a->pattern_len == b->pattern_len && memcmp(a->pattern, b->pattern, a->pattern_len) == 0;
}

static int compare_folds(const void *left, const void *right)
{
    const ls_fold *a = left;
    const ls_fold *b = right;
    const int order = cli_compare_names(a->name, a->name_len, b->name, b->name_len);
    return order != 0 ? order : a->first < b->first ? -1 : a->first > b->first;
}

static void fold_leaves(ls_tree *tree)
{
    for (size_t first = 0; first < tree->leaf_count;) {
        const ls_leaf *leaf = &tree->leaves[first];
        size_t count = 1;
        while (first + count < tree->leaf_count && same_pattern(leaf, leaf + count) &&
               compare_kinds(leaf->tensor, leaf[count].tensor) == 0) {
            count++;
        }
        const bool before = first > 0 && same_pattern(leaf, leaf - 1);
        const bool behind = first + count < tree->leaf_count && same_pattern(leaf, leaf + count);
        const bool alone = count == 1 && !before && !behind;
        tree->folds[tree->fold_count++] = (ls_fold){
            .name = alone ? leaf->tensor->name : leaf->pattern,
            .name_len = alone ? leaf->tensor->name_len : leaf->pattern_len,
            .first = first,
            .count = count,
            .whole = !before && !behind,
        };
        first += count;
    }
    qsort(tree->folds, tree->fold_count, sizeof *tree->folds, compare_folds);
}

void ls_free_tree(ls_tree *tree)
{
    free(tree->leaves);
    free(tree->folds);
    free(tree->texts);
}

bool ls_make_tree(ls_tree *tree, const ls_selection *selection)
{
    size_t size = 1;
    for (size_t i = 0; i < selection->count; i++) {
        size += coffer_at(selection->model, selection->order[i])->name_len;
    }
    *tree = (ls_tree){ .leaf_count = selection->count };
    tree->leaves = malloc((selection->count + 1) * sizeof *tree->leaves);
    tree->folds = malloc((selection->count + 1) * sizeof *tree->folds);
    tree->texts = malloc(size);
    if (tree->leaves == NULL || tree->folds == NULL || tree->texts == NULL) {
        ls_free_tree(tree);
        return false;
    }
    char *text = tree->texts;
    for (size_t i = 0; i < selection->count; i++) {
        tree->leaves[i].tensor = coffer_at(selection->model, selection->order[i]);
        make_pattern(&tree->leaves[i], text);
        text += tree->leaves[i].pattern_len;
    }
    qsort(tree->leaves, tree->leaf_count, sizeof *tree->leaves, compare_leaves);
    fold_leaves(tree);
    return true;
}

/* ---- The numbers of a fold ---- */

/* The one number in a name, or none when it is too large to count with. */
static bool only_number(const coffer_tensor *tensor, uint64_t *number)
{
    size_t start = 0;
    while (start <= tensor->name_len) {
        const size_t end = cli_part_end(tensor->name, tensor->name_len, start);
        if (cli_part_is_number(tensor->name, start, end)) {
            *number = 0;
            for (size_t i = start; i < end; i++) {
                *number = *number * 10 + (uint64_t)(tensor->name[i] - '0');
            }
            return end - start <= 18;
        }
        start = end + 1;
    }
    return false;
}

void ls_fold_numbers(const ls_tree *tree, const ls_fold *fold, char text[LS_NUMBERS_SIZE])
{
    size_t used = 0;
    uint64_t first = 0;
    uint64_t next = 0;
    text[0] = '\0';
    if (fold->whole || tree->leaves[fold->first].number_count != 1) {
        return;
    }
    for (size_t i = 0; i < fold->count;) {
        if (!only_number(tree->leaves[fold->first + i].tensor, &first)) {
            text[0] = '\0';
            return;
        }
        uint64_t last = first;
        for (i++; i < fold->count && only_number(tree->leaves[fold->first + i].tensor, &next) && next == last + 1;
             i++) {
            last = next;
        }
        char part[2 * CLI_NUMBER_SIZE];
        const char *comma = used == 0 ? "" : ", ";
        const int len = last == first ? snprintf(part, sizeof part, "%s%" PRIu64, comma, first)
                                      : snprintf(part, sizeof part, "%s%" PRIu64 "-%" PRIu64, comma, first, last);
        if (used + (size_t)len + 6 > LS_NUMBERS_SIZE) {
            memcpy(text + used, ", ...", 6);
            return;
        }
        memcpy(text + used, part, (size_t)len + 1);
        used += (size_t)len;
    }
}
