/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pickle_beside.h. Tensors that are not written have rows of their own, and objects that are not known have findings;
 * what is left is listed by its keys, so that nothing of a file is left out without a word.
 */
#include "pickle_beside.h"

#include "error.h"
#include "pickle_walk.h"
#include "text.h"

#include <string.h>

/* Containers of one level in which a tensor is looked for: each search may pass over all of the graph. */
#define BESIDE_MAX_SEARCHES 64

void coffer__beside_add(coffer__graph *graph, const char *name, size_t name_len)
{
    const size_t capacity = sizeof graph->beside - graph->beside_len;
    const size_t comma = graph->beside_len > 0 ? 2 : 0;
    graph->beside_count++;
    if (graph->beside_more > 0 || name_len + comma > capacity) {
        graph->beside_more++;
        return;
    }
    memcpy(graph->beside + graph->beside_len, ", ", comma);
    memcpy(graph->beside + graph->beside_len + comma, name, name_len);
    graph->beside_len += comma + name_len;
}

/* Whether anything below a container is told elsewhere: a tensor, or an object. */
static coffer_status beside_is_reported(coffer__graph *graph, coffer__value container, bool *reported,
                                        coffer_error *err)
{
    coffer__graph_walk walk;
    coffer__value found = 0;
    *reported = false;
    coffer_status status = coffer__graph_walk_begin(&walk, graph, container, true, err);
    while (status == COFFER_OK && !*reported) {
        status = coffer__graph_walk_next(&walk, &found, err);
        const coffer__pickle_class role = coffer__graph_classify(graph, found);
        if (found == 0) {
            break;
        }
        *reported = role == COFFER__CLASS_TENSOR || role == COFFER__CLASS_LACKING || role == COFFER__CLASS_STORAGE ||
                    role == COFFER__CLASS_OPAQUE;
    }
    coffer__graph_walk_free(&walk);
    return status;
}

/* Whether an entry is nothing but numbers, texts and the like. */
static coffer_status beside_is_plain(coffer__graph *graph, coffer__value value, size_t *searches, bool *plain,
                                     coffer_error *err)
{
    const coffer__pickle_class role = coffer__graph_classify(graph, value);
    *plain = role == COFFER__CLASS_NUMBER || role == COFFER__CLASS_OTHER;
    if (role != COFFER__CLASS_MAPPING && role != COFFER__CLASS_SEQUENCE) {
        return COFFER_OK;
    }
    if (*searches == BESIDE_MAX_SEARCHES) {
        return COFFER_OK;
    }
    ++*searches;
    bool reported = false;
    const coffer_status status = beside_is_reported(graph, value, &reported, err);
    *plain = !reported;
    return status;
}

coffer_status coffer__beside_level(coffer__graph *graph, coffer__value container, coffer__value taken, const char *path,
                                   coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    coffer_status status = COFFER_OK;
    size_t searches = 0;
    coffer__entries_begin(&entries, graph, container);
    while (status == COFFER_OK && coffer__entries_next(&entries, graph, &entry)) {
        char digits[21];
        char name[128];
        const char *key = NULL;
        size_t key_len = 0;
        bool plain = false;
        if (entry.value == taken || !coffer__graph_walk_key(graph, &entry, &key, &key_len, digits)) {
            continue;
        }
        status = beside_is_plain(graph, entry.value, &searches, &plain, err);
        const size_t path_len = coffer__text_len(path);
        const size_t dot = path_len > 0 ? 1 : 0;
        if (!plain || path_len + dot + key_len > sizeof name) {
            continue;
        }
        memcpy(name, path, path_len);
        memcpy(name + path_len, ".", dot);
        memcpy(name + path_len + dot, key, key_len);
        coffer__beside_add(graph, name, path_len + dot + key_len);
    }
    return status;
}

coffer_status coffer__beside_note(coffer__graph *graph, coffer_error *err)
{
    if (graph->beside_count == 0) {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(graph->plan, COFFER_WEIGHT_NOTE, graph->file, UINT64_MAX, graph->member,
                                           graph->beside_more > 0 ? "left out (not tensors): %q, and more"
                                                                  : "left out (not tensors): %q",
                                           graph->beside, graph->beside_len, err);
}
