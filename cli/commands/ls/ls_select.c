/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors coffer ls lists, and in which order. */
#include "ls.h"

#include "cli_names.h"
#include "cli_options.h"

#include <stdlib.h>

/* What qsort orders: it takes no context, so each item brings its key along. */
typedef struct ls_item {
    const coffer_tensor *tensor;
    uint32_t index;
} ls_item;

static int by_index(const ls_item *a, const ls_item *b)
{
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The largest first; those of one size in file order. */
static int compare_sizes(const void *left, const void *right)
{
    const ls_item *a = left;
    const ls_item *b = right;
    if (a->tensor->size != b->tensor->size) {
        return a->tensor->size > b->tensor->size ? -1 : 1;
    }
    return by_index(a, b);
}

static int compare_names(const void *left, const void *right)
{
    const ls_item *a = left;
    const ls_item *b = right;
    const int order = cli_compare_names(a->tensor->name, a->tensor->name_len, b->tensor->name, b->tensor->name_len);
    return order != 0 ? order : by_index(a, b);
}

static bool sort(ls_selection *selection, int (*compare)(const void *, const void *))
{
    ls_item *items = malloc((selection->total + 1) * sizeof *items);
    if (items == NULL) {
        return false;
    }
    for (size_t i = 0; i < selection->total; i++) {
        items[i] = (ls_item){ coffer_at(selection->model, selection->order[i]), selection->order[i] };
    }
    qsort(items, selection->total, sizeof *items, compare);
    for (size_t i = 0; i < selection->total; i++) {
        selection->order[i] = items[i].index;
    }
    free(items);
    return true;
}

bool ls_select(ls_selection *selection, const cli_arguments *arguments, const cli_filter *filter, size_t limit)
{
    const size_t count = coffer_count(selection->model);
    const int order = cli_which(arguments, CLI_OPTION_SORT); /* 0: name, 1: offset, 2: size */
    selection->order = malloc((count + 1) * sizeof *selection->order);
    if (selection->order == NULL) {
        return false;
    }
    selection->total = 0;
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(selection->model, i);
        if (cli_filter_takes(filter, tensor) && coffer_is_whole(selection->model, tensor)) {
            selection->order[selection->total++] = (uint32_t)i;
        }
    }
    selection->count = selection->total < limit ? selection->total : limit;
    if (order < 0 || order == 1) {
        return true;
    }
    return sort(selection, order == 2 ? compare_sizes : compare_names);
}
