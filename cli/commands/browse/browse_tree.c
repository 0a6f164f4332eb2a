/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of names: see browse_tree.h for the contract. */
#include "browse_tree.h"

#include "browse_match.h"
#include "cli_names.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* levels; names with more parts than that end in one label */

/* ---- Nodes ---- */

static uint32_t add_node(browse_tree *tree, const browse_node *node)
{
    if (tree->node_count == tree->node_capacity) {
        const size_t capacity = tree->node_capacity * 2 + 64;
        browse_node *nodes = realloc(tree->nodes, capacity * sizeof *nodes);
        if (nodes == NULL) {
            return BROWSE_NONE;
        }
        tree->nodes = nodes;
        tree->node_capacity = capacity;
    }
    tree->nodes[tree->node_count] = *node;
    return (uint32_t)tree->node_count++;
}

static void sum_up(browse_tree *tree, browse_node *node)
{
    node->first_item = BROWSE_NONE;
    for (size_t f = node->first_fold; f < (size_t)node->first_fold + node->fold_count; f++) {
        const cli_fold *fold = &tree->folds.folds[f];
        const coffer_tensor *tensor = tree->folds.leaves[fold->first].tensor;
        node->tensors += fold->count;
        node->bytes += tensor->size * fold->count;
        node->elements += coffer_tensor_elements(tensor) * fold->count;
        for (size_t i = fold->first; i < fold->first + fold->count; i++) {
            const uint32_t item = tree->items[tree->folds.leaves[i].item];
            node->first_item = item < node->first_item ? item : node->first_item;
            node->differing += browse_difference_at(tree->data, item) != BROWSE_ALIKE;
        }
    }
}

/* Folds that agree up to `start`, below a node. */
typedef struct tree_range {
    uint32_t parent;
    uint32_t first;
    uint32_t count;
    uint32_t depth;
    size_t start;
} tree_range;

/* Makes the node of the folds from `first` on that belong together; *range becomes what is below it. Returns their number,
   0 without memory. */
static uint32_t make_node(browse_tree *tree, const tree_range *from, uint32_t first, uint32_t *last, tree_range *range)
{
    const cli_fold *folds = &tree->folds.folds[first];
    const size_t left = from->count - (first - from->first);
    const size_t same = from->depth < DEPTH_MAX ? cli_folds_alike(folds, left, from->start) : 1;
    const size_t end = same == 1 ? folds->name_len + 1 : cli_folds_common_end(folds, same, from->start);
    browse_node node = { .parent = from->parent, .child = BROWSE_NONE, .next = BROWSE_NONE, .depth = from->depth };
    node.first_fold = first;
    node.fold_count = (uint32_t)same;
    node.label = folds->name + from->start;
    node.label_len = (uint32_t)(end - from->start - 1);
    sum_up(tree, &node);
    const uint32_t number = add_node(tree, &node);
    if (number == BROWSE_NONE) {
        return 0;
    }
    if (*last != BROWSE_NONE) {
        tree->nodes[*last].next = number;
    } else if (from->parent != BROWSE_NONE) {
        tree->nodes[from->parent].child = number;
    }
    *last = number;
    *range = (tree_range){ number, first, (uint32_t)same, from->depth + 1, end };
    return (uint32_t)same;
}

/* Each range on the stack is of folds that no other has, so there are at most as many as folds. */
static bool make_nodes(browse_tree *tree)
{
    tree_range *stack = malloc((tree->folds.fold_count + 1) * sizeof *stack);
    size_t height = 0;
    bool made = stack != NULL;
    if (made) {
        stack[height++] = (tree_range){ BROWSE_NONE, 0, (uint32_t)tree->folds.fold_count, 0, 0 };
    }
    while (made && height > 0) {
        const tree_range range = stack[--height];
        uint32_t last = BROWSE_NONE;
        for (uint32_t i = 0; made && i < range.count;) {
            tree_range below;
            const uint32_t same = make_node(tree, &range, range.first + i, &last, &below);
            made = same > 0;
            i += same;
            if (same > 1) {
                stack[height++] = below;
            }
        }
    }
    free(stack);
    return made;
}

/* ---- Which tensors ---- */

/* Bytes that cannot be read may differ. */
static bool is_differing(const browse_tree *tree, uint32_t item)
{
    const browse_same same = tree->work != NULL ? browse_work_same(tree->work, item) : BROWSE_NOT_COMPARED;
    return browse_difference_at(tree->data, item) != BROWSE_ALIKE || same == BROWSE_DIFFERS ||
           same == BROWSE_UNREADABLE;
}

static const coffer_tensor **choose_tensors(browse_tree *tree, const char *filter, size_t filter_len, size_t *count)
{
    const browse_data *data = tree->data;
    const coffer_tensor **tensors = malloc((data->count + 1) * sizeof(const coffer_tensor *));
    tree->items = malloc((data->count + 1) * sizeof *tree->items);
    *count = 0;
    for (size_t i = 0; i < data->count && tensors != NULL && tree->items != NULL; i++) {
        const coffer_tensor *tensor = browse_tensor_at(data, i);
        if (tree->only_differing && !is_differing(tree, (uint32_t)i)) {
            continue;
        }
        if (browse_lets_through(filter, filter_len, tensor->name, tensor->name_len)) {
            tree->items[*count] = (uint32_t)i;
            tensors[(*count)++] = tensor;
        }
    }
    return tensors;
}

/* Opens branches, those nearest to the top first, while all rows fit. */
static void open_some(browse_tree *tree, size_t most)
{
    size_t rows = 0;
    for (size_t i = 0; i < tree->node_count; i++) {
        rows += tree->nodes[i].parent == BROWSE_NONE;
    }
    bool opened = true; /* a branch of the level above */
    for (uint32_t depth = 0; depth < DEPTH_MAX && opened; depth++) {
        opened = false;
        for (size_t i = 0; i < tree->node_count; i++) {
            browse_node *node = &tree->nodes[i];
            if (node->depth != depth || node->child == BROWSE_NONE ||
                (node->parent != BROWSE_NONE && !tree->nodes[node->parent].open)) {
                continue;
            }
            size_t children = 0;
            for (uint32_t child = node->child; child != BROWSE_NONE; child = tree->nodes[child].next) {
                children++;
            }
            if (rows + children <= most) {
                node->open = opened = true;
                rows += children;
            }
        }
    }
}

void browse_tree_free(browse_tree *tree)
{
    cli_folds_free(&tree->folds);
    free(tree->items);
    free(tree->nodes);
    free(tree->rows);
    memset(tree, 0, sizeof *tree);
}

bool browse_tree_make(browse_tree *tree, const char *filter, size_t filter_len, size_t most)
{
    browse_tree made = { .data = tree->data, .work = tree->work, .sort = tree->sort, .flat = tree->flat };
    size_t count = 0;
    made.only_differing = tree->only_differing;
    const coffer_tensor **tensors = choose_tensors(&made, filter, filter_len, &count);
    bool fine = tensors != NULL && made.items != NULL && cli_folds_make(&made.folds, tensors, count);
    if (!fine) {
        made.folds = (cli_folds){ .leaves = NULL };
    }
    free(tensors);
    fine = fine && make_nodes(&made);
    if (fine) {
        open_some(&made, most);
        fine = browse_tree_refresh(&made);
    }
    if (!fine) {
        browse_tree_free(&made);
        return false;
    }
    browse_tree_free(tree);
    *tree = made;
    return true;
}

void browse_tree_open_all(browse_tree *tree, bool open)
{
    for (size_t i = 0; i < tree->node_count; i++) {
        tree->nodes[i].open = open && tree->nodes[i].child != BROWSE_NONE;
    }
}

/* ---- Rows ---- */

/* What a row is sorted by. */
typedef struct sort_key {
    uint64_t number;
    const char *name;
    uint32_t name_len;
    uint32_t index; /* of the node or leaf */
} sort_key;

typedef struct key_list {
    sort_key *keys;
    size_t count;
    size_t capacity;
} key_list;

static int compare_keys(const void *left, const void *right)
{
    const sort_key *a = left;
    const sort_key *b = right;
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    const int order = cli_compare_names(a->name, a->name_len, b->name, b->name_len);
    return order != 0 ? order : a->index < b->index ? -1 : a->index > b->index;
}

static bool add_key(key_list *list, const sort_key *key)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity * 2 + 64;
        sort_key *keys = realloc(list->keys, capacity * sizeof *keys);
        if (keys == NULL) {
            return false;
        }
        list->keys = keys;
        list->capacity = capacity;
    }
    list->keys[list->count++] = *key;
    return true;
}

static uint64_t key_number(browse_sort sort, const coffer_tensor *tensor, uint64_t item, uint64_t bytes,
                           uint64_t elements)
{
    switch (sort) {
    case BROWSE_SORT_FILE:
        return item;
    case BROWSE_SORT_SIZE:
        return ~bytes;
    case BROWSE_SORT_DTYPE:
        return (uint64_t)tensor->dtype;
    case BROWSE_SORT_ELEMENTS:
        return ~elements;
    default:
        return 0;
    }
}

static bool list_leaf(const browse_tree *tree, key_list *list, size_t leaf)
{
    const cli_leaf *about = &tree->folds.leaves[leaf];
    const coffer_tensor *tensor = about->tensor;
    const sort_key key = {
        .number =
            key_number(tree->sort, tensor, tree->items[about->item], tensor->size, coffer_tensor_elements(tensor)),
        .name = tensor->name,
        .name_len = tensor->name_len,
        .index = (uint32_t)leaf,
    };
    return add_key(list, &key);
}

static bool list_node(const browse_tree *tree, key_list *list, uint32_t number)
{
    const browse_node *node = &tree->nodes[number];
    const coffer_tensor *tensor = tree->folds.leaves[tree->folds.folds[node->first_fold].first].tensor;
    const sort_key key = {
        .number = key_number(tree->sort, tensor, node->first_item, node->bytes, node->elements),
        .name = node->label,
        .name_len = node->label_len,
        .index = number,
    };
    return add_key(list, &key);
}

/* The keys of what is directly below a node, in order. */
static bool list_below(const browse_tree *tree, key_list *list, uint32_t number)
{
    bool fine = true;
    list->count = 0;
    if (number != BROWSE_NONE && tree->nodes[number].child == BROWSE_NONE) {
        const cli_fold *fold = &tree->folds.folds[tree->nodes[number].first_fold];
        for (size_t i = fold->first; fine && i < fold->first + fold->count; i++) {
            fine = list_leaf(tree, list, i);
        }
    } else {
        uint32_t child = number == BROWSE_NONE ? (tree->node_count > 0 ? 0 : BROWSE_NONE) : tree->nodes[number].child;
        for (; fine && child != BROWSE_NONE; child = tree->nodes[child].next) {
            fine = list_node(tree, list, child);
        }
    }
    if (fine && list->count > 1) {
        qsort(list->keys, list->count, sizeof *list->keys, compare_keys);
    }
    return fine;
}

typedef struct row_list {
    browse_row *rows;
    size_t count;
    size_t capacity;
} row_list;

static bool add_row(row_list *list, browse_row row)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity * 2 + 64;
        browse_row *rows = realloc(list->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            return false;
        }
        list->rows = rows;
        list->capacity = capacity;
    }
    list->rows[list->count++] = row;
    return true;
}

bool browse_node_opens(const browse_tree *tree, uint32_t node)
{
    const browse_node *about = &tree->nodes[node];
    return about->child != BROWSE_NONE || tree->folds.folds[about->first_fold].count > 1;
}

/* Pushes the nodes of a list so that the first comes off first. */
static bool push_nodes(row_list *stack, const key_list *list)
{
    bool fine = true;
    for (size_t i = list->count; fine && i > 0; i--) {
        fine = add_row(stack, (browse_row){ list->keys[i - 1].index, BROWSE_NONE });
    }
    return fine;
}

/* All rows in order; with `all` as if everything were open. */
static bool list_tree(const browse_tree *tree, bool all, row_list *out)
{
    key_list list = { .keys = NULL };
    row_list stack = { .rows = NULL };
    bool fine = list_below(tree, &list, BROWSE_NONE) && push_nodes(&stack, &list);
    while (fine && stack.count > 0) {
        const browse_row row = stack.rows[--stack.count];
        const browse_node *node = &tree->nodes[row.node];
        fine = add_row(out, row);
        if (!fine || !(node->open || all) || !browse_node_opens(tree, row.node)) {
            continue;
        }
        fine = list_below(tree, &list, row.node);
        if (node->child != BROWSE_NONE) {
            fine = fine && push_nodes(&stack, &list);
            continue;
        }
        for (size_t i = 0; fine && i < list.count; i++) {
            fine = add_row(out, (browse_row){ row.node, list.keys[i].index });
        }
    }
    free(list.keys);
    free(stack.rows);
    return fine;
}

static bool list_flat(const browse_tree *tree, row_list *out)
{
    key_list list = { .keys = NULL };
    bool fine = true;
    for (size_t i = 0; fine && i < tree->folds.leaf_count; i++) {
        fine = list_leaf(tree, &list, i);
    }
    if (fine && list.count > 1) {
        qsort(list.keys, list.count, sizeof *list.keys, compare_keys);
    }
    for (size_t i = 0; fine && i < list.count; i++) {
        fine = add_row(out, (browse_row){ BROWSE_NONE, list.keys[i].index });
    }
    free(list.keys);
    return fine;
}

static bool list_rows(const browse_tree *tree, bool all, row_list *out)
{
    const bool fine = tree->flat ? list_flat(tree, out) : list_tree(tree, all, out);
    if (!fine) {
        free(out->rows);
        *out = (row_list){ .rows = NULL };
    }
    return fine;
}

bool browse_tree_refresh(browse_tree *tree)
{
    row_list list = { .rows = NULL };
    if (!list_rows(tree, false, &list)) {
        return false;
    }
    free(tree->rows);
    tree->rows = list.rows;
    tree->row_count = list.count;
    tree->row_capacity = list.capacity;
    return true;
}

const cli_fold *browse_row_fold(const browse_tree *tree, const browse_row *row)
{
    const browse_node *node = row->node != BROWSE_NONE ? &tree->nodes[row->node] : NULL;
    return node == NULL || row->leaf != BROWSE_NONE || node->child != BROWSE_NONE
               ? NULL
               : &tree->folds.folds[node->first_fold];
}

uint32_t browse_row_item(const browse_tree *tree, const browse_row *row)
{
    if (row->leaf != BROWSE_NONE) {
        return tree->items[tree->folds.leaves[row->leaf].item];
    }
    const cli_fold *fold = browse_row_fold(tree, row);
    return fold == NULL || fold->count > 1 ? BROWSE_NONE : tree->items[tree->folds.leaves[fold->first].item];
}

/* ---- Finding ---- */

/* A branch is found by its own part of the name, so that not all that is below it is found with it. */
static bool row_has(const browse_tree *tree, const browse_row *row, const char *words, size_t words_len)
{
    const cli_fold *fold = browse_row_fold(tree, row);
    if (row->leaf != BROWSE_NONE) {
        const coffer_tensor *tensor = tree->folds.leaves[row->leaf].tensor;
        const bool found = browse_finds(tensor->name, tensor->name_len, words, words_len, NULL);
        if (!found || row->node == BROWSE_NONE) {
            return found;
        }
        /* Where the fold says it already, it is found itself. */
        const cli_fold *own = &tree->folds.folds[tree->nodes[row->node].first_fold];
        return !browse_finds(own->name, own->name_len, words, words_len, NULL);
    }
    if (fold != NULL) {
        return browse_finds(fold->name, fold->name_len, words, words_len, NULL);
    }
    const browse_node *node = &tree->nodes[row->node];
    return browse_finds(node->label, node->label_len, words, words_len, NULL);
}

static bool same_row(const browse_row *a, const browse_row *b)
{
    return a->node == b->node && a->leaf == b->leaf;
}

static size_t place_of(const browse_row *rows, size_t count, const browse_row *row)
{
    size_t place = 0;
    while (place < count && !same_row(&rows[place], row)) {
        place++;
    }
    return place;
}

/* Opens all that hides a row. */
static bool reveal(browse_tree *tree, const browse_row *row)
{
    uint32_t node = row->node;
    if (node != BROWSE_NONE && row->leaf == BROWSE_NONE) {
        node = tree->nodes[node].parent;
    }
    for (; node != BROWSE_NONE; node = tree->nodes[node].parent) {
        tree->nodes[node].open = true;
    }
    return browse_tree_refresh(tree);
}

size_t browse_tree_find(browse_tree *tree, size_t from, bool back, bool here, const char *words, size_t words_len)
{
    row_list all = { .rows = NULL };
    size_t found = SIZE_MAX;
    if (tree->row_count == 0 || !list_rows(tree, true, &all)) {
        return SIZE_MAX;
    }
    if (all.count == 0) {
        return SIZE_MAX;
    }
    const size_t start = place_of(all.rows, all.count, &tree->rows[from < tree->row_count ? from : 0]) % all.count;
    for (size_t step = 0; step < all.count && found == SIZE_MAX; step++) {
        const size_t ahead = here ? step : step + 1;
        const size_t place = back ? (start + 2 * all.count - ahead) % all.count : (start + ahead) % all.count;
        found = row_has(tree, &all.rows[place], words, words_len) ? place : SIZE_MAX;
    }
    if (found != SIZE_MAX) {
        const browse_row row = all.rows[found];
        found = reveal(tree, &row) ? place_of(tree->rows, tree->row_count, &row) : SIZE_MAX;
    }
    free(all.rows);
    return found;
}
