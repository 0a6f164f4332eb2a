/* SPDX-License-Identifier: Apache-2.0 */
/* Names with their layers folded: see cli_fold.h for the contract. */
#include "cli_fold.h"

#include "cli_names.h"
#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pattern, and how many numbers it stands for. */
static size_t write_pattern(const char *name, size_t name_len, char *text, uint32_t *number_count)
{
    size_t len = 0;
    *number_count = 0;
    for (size_t at = 0; at < name_len;) {
        const size_t digits = cli_number_at(name, name_len, at);
        text[len++] = digits > 0 ? '#' : name[at];
        *number_count += digits > 0;
        at += digits > 0 ? digits : 1;
    }
    return len;
}

size_t cli_name_pattern(const char *name, size_t name_len, char *text)
{
    uint32_t number_count = 0;
    return write_pattern(name, name_len, text, &number_count);
}

static void make_pattern(cli_leaf *leaf, char *text)
{
    leaf->pattern = text;
    leaf->pattern_len = (uint32_t)write_pattern(leaf->tensor->name, leaf->tensor->name_len, text, &leaf->number_count);
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
    const cli_leaf *a = left;
    const cli_leaf *b = right;
    int order = cli_compare_names(a->pattern, a->pattern_len, b->pattern, b->pattern_len);
    order = order != 0 ? order : compare_kinds(a->tensor, b->tensor);
    return order != 0 ? order
                      : cli_compare_names(a->tensor->name, a->tensor->name_len, b->tensor->name, b->tensor->name_len);
}

static bool same_pattern(const cli_leaf *a, const cli_leaf *b)
{
    return a->pattern_len == b->pattern_len && memcmp(a->pattern, b->pattern, a->pattern_len) == 0;
}

static int compare_folds(const void *left, const void *right)
{
    const cli_fold *a = left;
    const cli_fold *b = right;
    const int order = cli_compare_names(a->name, a->name_len, b->name, b->name_len);
    return order != 0 ? order : a->first < b->first ? -1 : a->first > b->first;
}

static void fold_leaves(cli_folds *tree)
{
    for (size_t first = 0; first < tree->leaf_count;) {
        const cli_leaf *leaf = &tree->leaves[first];
        size_t count = 1;
        while (first + count < tree->leaf_count && same_pattern(leaf, leaf + count) &&
               compare_kinds(leaf->tensor, leaf[count].tensor) == 0) {
            count++;
        }
        const bool before = first > 0 && same_pattern(leaf, leaf - 1);
        const bool behind = first + count < tree->leaf_count && same_pattern(leaf, leaf + count);
        const bool alone = count == 1 && !before && !behind;
        tree->folds[tree->fold_count++] = (cli_fold){
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

void cli_folds_free(cli_folds *tree)
{
    free(tree->leaves);
    free(tree->folds);
    free(tree->texts);
}

bool cli_folds_make(cli_folds *tree, const coffer_tensor *const *tensors, size_t count)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size += tensors[i]->name_len;
    }
    *tree = (cli_folds){ .leaf_count = count };
    tree->leaves = malloc((count + 1) * sizeof *tree->leaves);
    tree->folds = malloc((count + 1) * sizeof *tree->folds);
    tree->texts = malloc(size);
    if (tree->leaves == NULL || tree->folds == NULL || tree->texts == NULL) {
        cli_folds_free(tree);
        return false;
    }
    char *text = tree->texts;
    for (size_t i = 0; i < count; i++) {
        tree->leaves[i].tensor = tensors[i];
        tree->leaves[i].item = i;
        make_pattern(&tree->leaves[i], text);
        text += tree->leaves[i].pattern_len;
    }
    qsort(tree->leaves, tree->leaf_count, sizeof *tree->leaves, compare_leaves);
    fold_leaves(tree);
    return true;
}

/* ---- The numbers of a fold ---- */

#define CLI_FOLD_NUMBERS_SIZE 64

/* The one number in a name, or none when it is too large to count with. */
static bool only_number(const coffer_tensor *tensor, uint64_t *number)
{
    for (size_t at = 0; at < tensor->name_len; at++) {
        const size_t digits = cli_number_at(tensor->name, tensor->name_len, at);
        if (digits > 0) {
            *number = 0;
            for (size_t i = at; i < at + digits; i++) {
                *number = *number * 10 + (uint64_t)(tensor->name[i] - '0');
            }
            return digits <= 18;
        }
    }
    return false;
}

/* "0-6, 8-11": which numbers a fold stands for, when others of its pattern differ. Empty when there
   is nothing to say. */
static void numbers_text(const cli_folds *tree, const cli_fold *fold, char text[CLI_FOLD_NUMBERS_SIZE])
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
        if (used + (size_t)len + 6 > CLI_FOLD_NUMBERS_SIZE) {
            memcpy(text + used, ", ...", 6);
            return;
        }
        memcpy(text + used, part, (size_t)len + 1);
        used += (size_t)len;
    }
}

void cli_fold_tail(const cli_folds *tree, const cli_fold *fold, char text[CLI_FOLD_TAIL_SIZE])
{
    char numbers[CLI_FOLD_NUMBERS_SIZE];
    numbers_text(tree, fold, numbers);
    text[0] = '\0';
    if (numbers[0] != '\0') {
        snprintf(text, CLI_FOLD_TAIL_SIZE, " \u00d7 %zu (%s)", fold->count, numbers);
    } else if (fold->count > 1) {
        snprintf(text, CLI_FOLD_TAIL_SIZE, " \u00d7 %zu", fold->count);
    }
}
