/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pickle_beside.h. Tensors that are not written have rows of their own, and objects that are not known have findings;
 * what is left is listed by its keys, so that nothing of a file is left out without a word.
 */
#include "pickle_beside.h"

#include "error.h"
#include "pickle_walk.h"
#include "real_text.h"
#include "text.h"
#include "writing.h"

#include <string.h>

/* Containers of one level in which a tensor is looked for: each search may pass over all of the graph. */
#define BESIDE_MAX_SEARCHES 64
#define BESIDE_MAX_TOLD 128   /* bytes of a name that is listed */
#define BESIDE_MAX_NAME 512   /* bytes of a key of the metadata */
#define BESIDE_MAX_TEXT 65536 /* bytes of a value */
#define BESIDE_MAX_PUT 1000   /* pairs: each is compared with those before it */

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

/* ---- metadata ------------------------------------------------------------------------------------------------------ */

/* Whether a pair of that key is or may be put by somebody else: then another one would make the metadata invalid. */
static bool beside_is_key(const coffer__import_plan *plan, const char *name, size_t name_len)
{
    bool found = coffer__text_is(name, name_len, "format");
    for (size_t i = 0; i < plan->pairs.count && !found; i++) {
        size_t len = 0;
        const char *key = coffer__import_plan_text(plan, coffer__import_plan_pairs(plan)[i].key, &len);
        found = len == name_len && memcmp(key, name, len) == 0;
    }
    return found;
}

/* None, truths, numbers and texts. Larger integers were not kept, nor were long texts. */
static void beside_write(const coffer__graph *graph, coffer__value value, coffer__writing *out)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    char digits[21] = "";
    size_t len = 0;
    const char *text = NULL;
    switch ((coffer__value_kind)node->kind) {
    case COFFER__VALUE_BOOL:
        coffer__write_text(out, node->as.integer != 0 ? "true" : "false");
        break;
    case COFFER__VALUE_INT:
        /* The least integer has no positive twin, so the magnitude is unsigned. */
        coffer__write_text(out, node->as.integer < 0 ? "-" : "");
        len = coffer__write_u64(digits,
                                node->as.integer < 0 ? 0 - (uint64_t)node->as.integer : (uint64_t)node->as.integer);
        digits[len] = '\0';
        coffer__write_text(out, digits);
        break;
    case COFFER__VALUE_FLOAT:
        coffer__write_real(out, node->as.real, false);
        break;
    case COFFER__VALUE_TEXT:
        text = coffer__pickle_bytes_of(graph->pickle, value, &len);
        if (text != NULL && len <= BESIDE_MAX_TEXT && coffer__utf8_valid_len(text, len) == len &&
            memchr(text, '\0', len) == NULL) {
            coffer__write_text(out, text);
        }
        break;
    default:
        break;
    }
}

/* Only whole numbers and truths, which have one spelling, go among the metadata of what is converted. */
static bool beside_is_wanted(const coffer__graph *graph, coffer__value value)
{
    const uint8_t kind = coffer__pickle_node(graph->pickle, value)->kind;
    return graph->wants->scalars == COFFER_SCALARS_ALL ? kind <= COFFER__VALUE_TEXT
                                                       : graph->wants->scalars == COFFER_SCALARS_METADATA &&
                                                             (kind == COFFER__VALUE_BOOL || kind == COFFER__VALUE_INT);
}

coffer_status coffer__beside_put(coffer__graph *graph, coffer__value value, const char *name, size_t name_len,
                                 bool *put, coffer_error *err)
{
    coffer__writing out = { .allocator = graph->plan->allocator };
    const bool all = graph->wants->scalars == COFFER_SCALARS_ALL;
    coffer_status status = COFFER_OK;
    *put = false;
    if (!beside_is_wanted(graph, value) ||
        (all && (graph->beside_put == BESIDE_MAX_PUT || coffer__utf8_valid_len(name, name_len) != name_len ||
                 beside_is_key(graph->plan, name, name_len)))) {
        return COFFER_OK;
    }
    beside_write(graph, value, &out);
    if (out.failed) {
        status = coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the metadata");
    } else if (out.used > 0) {
        graph->beside_put++;
        *put = true;
        status = coffer__import_plan_put_pair(graph->plan, name, name_len, out.text, out.used, err);
    }
    coffer__writing_free(&out);
    return status;
}

/* ---- what is left out ---------------------------------------------------------------------------------------------- */

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

/* Puts an entry that has no tensors, or all that is in it, as far as there is space. `name` has `name_len` bytes, and space for
   BESIDE_MAX_NAME. */
static coffer_status beside_put_all(coffer__graph *graph, coffer__value value, char *name, size_t name_len, bool *put,
                                    coffer_error *err)
{
    const coffer__pickle_class role = coffer__graph_classify(graph, value);
    if (graph->wants->scalars != COFFER_SCALARS_ALL ||
        (role != COFFER__CLASS_MAPPING && role != COFFER__CLASS_SEQUENCE)) {
        return graph->wants->scalars == COFFER_SCALARS_ALL ? coffer__beside_put(graph, value, name, name_len, put, err)
                                                           : COFFER_OK;
    }
    coffer__graph_walk walk;
    coffer__value found = 0;
    coffer_status status = coffer__graph_walk_begin(&walk, graph, value, false, err);
    while (status == COFFER_OK && graph->beside_put < BESIDE_MAX_PUT) {
        bool done = false;
        status = coffer__graph_walk_next(&walk, &found, err);
        if (status != COFFER_OK || found == 0) {
            break;
        }
        if (walk.bad_keys > 0 || walk.path_len == 0 || walk.path_len >= BESIDE_MAX_NAME - name_len) {
            continue;
        }
        name[name_len] = '.';
        memcpy(name + name_len + 1, walk.path, walk.path_len);
        status = coffer__beside_put(graph, found, name, name_len + 1 + walk.path_len, &done, err);
        *put = *put || done;
    }
    coffer__graph_walk_free(&walk);
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
        char name[BESIDE_MAX_NAME];
        const char *key = NULL;
        size_t key_len = 0;
        bool plain = false;
        if (entry.value == taken || !coffer__graph_walk_key(graph, &entry, &key, &key_len, digits)) {
            continue;
        }
        status = beside_is_plain(graph, entry.value, &searches, &plain, err);
        const size_t path_len = coffer__text_len(path);
        const size_t dot = path_len > 0 ? 1 : 0;
        if (status != COFFER_OK || !plain || path_len + dot + key_len > BESIDE_MAX_TOLD) {
            continue;
        }
        bool put = false;
        memcpy(name, path, path_len);
        memcpy(name + path_len, ".", dot);
        memcpy(name + path_len + dot, key, key_len);
        status = beside_put_all(graph, entry.value, name, path_len + dot + key_len, &put, err);
        if (!put) {
            coffer__beside_add(graph, name, path_len + dot + key_len);
        }
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
