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

static int compare_names(const void *left, const void *right)
{
    const cli_leaf *a = left;
    const cli_leaf *b = right;
    return cli_compare_names(a->tensor->name, a->tensor->name_len, b->tensor->name, b->tensor->name_len);
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

/* Tensors of a fold lie in natural order in most files already. */
static void order_leaves(cli_leaf *leaves, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (compare_names(&leaves[i - 1], &leaves[i]) > 0) {
            qsort(leaves, count, sizeof *leaves, compare_names);
            return;
        }
    }
}

/* Mostly they are in order all the same. */
static void order_folds(cli_folds *tree)
{
    for (size_t i = 1; i < tree->fold_count; i++) {
        if (compare_folds(&tree->folds[i - 1], &tree->folds[i]) > 0) {
            qsort(tree->folds, tree->fold_count, sizeof *tree->folds, compare_folds);
            return;
        }
    }
}

static void fold_leaves(cli_folds *tree)
{
    bool moved = false; /* a fold may lie where its pattern would, and is called by a name */
    for (size_t first = 0; first < tree->leaf_count;) {
        cli_leaf *leaf = &tree->leaves[first];
        size_t count = 1;
        while (first + count < tree->leaf_count && same_pattern(leaf, leaf + count) &&
               compare_kinds(leaf->tensor, leaf[count].tensor) == 0) {
            count++;
        }
        order_leaves(leaf, count);
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
        moved = moved || (alone && leaf->number_count > 0);
        first += count;
    }
    if (moved) {
        order_folds(tree);
    }
}

void cli_folds_free(cli_folds *tree)
{
    free(tree->leaves);
    free(tree->folds);
    free(tree->texts);
}

/* ---- Gathering ---- */

/*
 * Models have far fewer patterns than tensors, so those that agree are gathered by a hash first, and only one of each is
 * sorted. The hash may miss some: names that were made to meet in one place of the table must not cost more than a few
 * steps each. What it misses is another group, which sorting makes a neighbour, and folding unites.
 */
#define STEPS_MAX 16

/* Tensors of one pattern, dtype and shape, or some of them. */
typedef struct leaf_group {
    cli_leaf first;
    size_t count;
    size_t next; /* where its next leaf goes */
} leaf_group;

typedef struct gathering {
    leaf_group *groups;
    size_t group_count;
    size_t capacity;
    uint32_t *group_of; /* of each item */
    uint32_t *table;    /* numbers of groups, from 1 */
    size_t mask;
} gathering;

static uint64_t hash_leaf(const cli_leaf *leaf)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ (uint64_t)leaf->tensor->dtype;
    for (size_t i = 0; i < leaf->pattern_len; i++) {
        hash = (hash ^ (unsigned char)leaf->pattern[i]) * UINT64_C(0x100000001B3);
    }
    for (uint32_t i = 0; i < leaf->tensor->rank; i++) {
        hash = (hash ^ leaf->tensor->shape[i]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return hash ^ hash >> 32;
}

static bool grow_groups(gathering *all)
{
    const size_t capacity = all->capacity * 2 + 64;
    leaf_group *groups = realloc(all->groups, capacity * sizeof *groups);
    if (groups != NULL) {
        all->groups = groups;
        all->capacity = capacity;
    }
    return groups != NULL;
}

/* The group that a leaf belongs to, a new one where there is none; SIZE_MAX without memory. */
static size_t find_group(gathering *all, const cli_leaf *leaf)
{
    size_t place = (size_t)hash_leaf(leaf) & all->mask;
    for (size_t step = 0; step < STEPS_MAX && all->table[place] != 0; step++) {
        leaf_group *group = &all->groups[all->table[place] - 1];
        if (same_pattern(&group->first, leaf) && compare_kinds(group->first.tensor, leaf->tensor) == 0) {
            return all->table[place] - 1;
        }
        place = (place + 1) & all->mask;
    }
    if (all->group_count == all->capacity && !grow_groups(all)) {
        return SIZE_MAX;
    }
    const size_t number = all->group_count++;
    all->groups[number] = (leaf_group){ .first = *leaf };
    if (all->table[place] == 0) {
        all->table[place] = (uint32_t)number + 1;
    }
    return number;
}

static bool gather(gathering *all, cli_folds *tree, const coffer_tensor *const *tensors)
{
    char *text = tree->texts;
    for (size_t i = 0; i < tree->leaf_count; i++) {
        cli_leaf leaf = { .tensor = tensors[i], .item = i };
        make_pattern(&leaf, text);
        const size_t known = all->group_count;
        const size_t group = find_group(all, &leaf);
        if (group == SIZE_MAX || all->groups == NULL) {
            return false;
        }
        all->group_of[i] = (uint32_t)group;
        all->groups[group].count++;
        text += group == known ? leaf.pattern_len : 0; /* one text for all of a group */
    }
    return true;
}

/* What groups are sorted by: sorting moves little, and looks at the groups themselves only where keys are the same. */
typedef struct group_key {
    uint64_t key;
    leaf_group *group;
} group_key;

static int compare_groups(const void *left, const void *right)
{
    const group_key *a = left;
    const group_key *b = right;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    const cli_leaf *first = &a->group->first;
    const cli_leaf *second = &b->group->first;
    int order = cli_compare_names(first->pattern, first->pattern_len, second->pattern, second->pattern_len);
    order = order != 0 ? order : compare_kinds(first->tensor, second->tensor);
    return order != 0 ? order : a->group < b->group ? -1 : a->group > b->group;
}

/* How far all patterns agree, but not into a number: what keys need not tell. */
static size_t common_beginning(const gathering *all)
{
    const cli_leaf *first = &all->groups[0].first;
    size_t end = first->pattern_len;
    for (size_t i = 1; i < all->group_count; i++) {
        const cli_leaf *leaf = &all->groups[i].first;
        size_t same = 0;
        while (same < end && same < leaf->pattern_len && leaf->pattern[same] == first->pattern[same]) {
            same++;
        }
        end = same;
    }
    while (end > 0 && first->pattern[end - 1] >= '0' && first->pattern[end - 1] <= '9') {
        end--;
    }
    return end;
}

/* Says where the leaves of each group begin; false without memory. */
static bool place_groups(gathering *all)
{
    size_t next = 0;
    group_key *keys = malloc(all->group_count * sizeof *keys);
    if (keys == NULL) {
        return false;
    }
    const size_t start = common_beginning(all);
    for (size_t i = 0; i < all->group_count; i++) {
        const cli_leaf *leaf = &all->groups[i].first;
        keys[i] = (group_key){ cli_name_key(leaf->pattern + start, leaf->pattern_len - start), &all->groups[i] };
    }
    qsort(keys, all->group_count, sizeof *keys, compare_groups);
    for (size_t i = 0; i < all->group_count; i++) {
        keys[i].group->next = next;
        next += keys[i].group->count;
    }
    free(keys);
    return true;
}

/* Lays the leaves out, group by group. */
static bool lay_out(gathering *all, cli_folds *tree, const coffer_tensor *const *tensors)
{
    if (all->group_count > 0 && !place_groups(all)) {
        return false;
    }
    for (size_t i = 0; i < tree->leaf_count; i++) {
        leaf_group *group = &all->groups[all->group_of[i]];
        cli_leaf *leaf = &tree->leaves[group->next++];
        *leaf = group->first;
        leaf->tensor = tensors[i];
        leaf->item = i;
    }
    return true;
}

static bool make_leaves(cli_folds *tree, const coffer_tensor *const *tensors)
{
    gathering all = { .mask = 63 };
    while (all.mask / 2 < tree->leaf_count) {
        all.mask = all.mask * 2 + 1;
    }
    all.group_of = calloc(tree->leaf_count + 1, sizeof *all.group_of);
    all.table = calloc(all.mask + 1, sizeof *all.table);
    const bool made =
        all.group_of != NULL && all.table != NULL && gather(&all, tree, tensors) && lay_out(&all, tree, tensors);
    free(all.groups);
    free(all.group_of);
    free(all.table);
    return made;
}

bool cli_folds_make(cli_folds *tree, const coffer_tensor *const *tensors, size_t count)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size += tensors[i]->name_len;
    }
    *tree = (cli_folds){ .leaf_count = count };
    tree->leaves = calloc(count + 1, sizeof *tree->leaves);
    tree->folds = calloc(count + 1, sizeof *tree->folds);
    tree->texts = malloc(size);
    if (tree->leaves == NULL || tree->folds == NULL || tree->texts == NULL || !make_leaves(tree, tensors)) {
        cli_folds_free(tree);
        return false;
    }
    fold_leaves(tree);
    return true;
}

/* ---- The tree ---- */

size_t cli_folds_common_end(const cli_fold *folds, size_t count, size_t start)
{
    size_t end = start;
    for (;;) {
        const size_t part = cli_part_end(folds[0].name, folds[0].name_len, end);
        if (part == folds[0].name_len) {
            return end;
        }
        for (size_t i = 1; i < count; i++) {
            if (folds[i].name_len <= part || memcmp(folds[i].name + end, folds[0].name + end, part + 1 - end) != 0) {
                return end;
            }
        }
        end = part + 1;
    }
}

size_t cli_folds_alike(const cli_fold *folds, size_t count, size_t start)
{
    const size_t part = cli_part_end(folds[0].name, folds[0].name_len, start);
    size_t same = 1;
    while (part < folds[0].name_len && same < count && folds[same].name_len > part &&
           memcmp(folds[same].name + start, folds[0].name + start, part + 1 - start) == 0) {
        same++;
    }
    return same;
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
