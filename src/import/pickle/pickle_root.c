/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which part of a pickle is the model: see pickle_rows.h. A checkpoint has its weights beside the state of an
 * optimiser, a second copy of the weights, the state of generators of random numbers; or it is the weights.
 */
#include "alloc.h"
#include "error.h"
#include "pickle_beside.h"
#include "pickle_rows.h"
#include "pickle_views.h"
#include "pickle_walk.h"
#include "text.h"

#include <string.h>

/* Dicts within dicts in which the model is looked for. */
#define ROOT_MAX_LEVELS 16
/* Children that a message lists. */
#define ROOT_MAX_LISTED 6

/* As training programs call the weights within a checkpoint. What is called otherwise is found if it is alone. */
static const char *const root_names[] = { "state_dict", "model_state_dict", "model", "module",    "net",  "network",
                                          "params",     "params_ema",       "ema",   "generator", "netG", "weights" };

/* A child that has tensors. */
typedef struct root_child {
    coffer__value value;
    uint64_t bytes;
    bool usual;    /* has one of the usual names */
    char name[96]; /* escaped */
} root_child;

/* What one level has: children with tensors, of which the first few are kept, those with usual names before others. */
typedef struct root_scan {
    root_child children[ROOT_MAX_LISTED];
    size_t kept;
    size_t count;        /* of all */
    size_t usual_count;  /* of those with usual names */
    size_t numbered;     /* of those that have a number for a name */
    size_t dotted;       /* of those that have a path for a name */
    size_t direct;       /* tensors that are values of this level */
    coffer__value usual; /* one of them */
} root_scan;

/* The name as a whole; a key that only begins so is another one. */
static bool root_is_usual(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof root_names / sizeof *root_names; i++) {
        if (coffer__text_len(root_names[i]) == len && memcmp(root_names[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool root_is_number(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
    }
    return len > 0;
}

/* Whether a text has a word in it. */
static bool root_has_word(const char *name, const char *word)
{
    const size_t len = coffer__text_len(name);
    const size_t word_len = coffer__text_len(word);
    for (size_t i = 0; i + word_len <= len; i++) {
        if (memcmp(name + i, word, word_len) == 0) {
            return true;
        }
    }
    return false;
}

/* What trainings keep beside the model, and nobody means by it. */
static bool root_is_training(const char *name)
{
    static const char *const words[] = { "optim", "sched", "scaler", "rng", "random", "loss", "history" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (root_has_word(name, words[i])) {
            return true;
        }
    }
    return false;
}

/* Bytes of the tensor that was found; 0 for those that have none of their own. */
static coffer_status root_weigh(const coffer__graph_walk *walk, coffer__value found, uint64_t *bytes, coffer_error *err)
{
    coffer__view view;
    const coffer_status status = coffer__view_of(walk->graph, found, &view, err);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, walk->path, walk->path_len);
    }
    *bytes = view.row.storage == COFFER__PLAN_NO_STORAGE ? 0 : view.row.item_size;
    /* May wrap for a view that repeats its bytes; the number is only shown to people, who compare the children
       by it. */
    for (size_t i = 0; i < view.row.rank; i++) {
        *bytes *= view.dimensions[i].count;
    }
    return COFFER_OK;
}

/* Counts a tensor for the child that it is in, which is the last one that was counted or a new one: the walk goes
   through one child after another. */
static void root_count(root_scan *scan, const coffer__graph_walk *walk, uint64_t bytes, coffer__value *last,
                       size_t *last_kept)
{
    const coffer__value child = walk->frames[1].value;
    const size_t len = walk->frames[1].path_len; /* of the child's name, with which the path begins */
    /* A new child. Those beyond the list are counted, but neither named nor weighed. */
    if (child != *last || scan->count == 0) {
        const bool usual = root_is_usual(walk->path, len);
        *last = child;
        *last_kept = scan->kept < ROOT_MAX_LISTED ? scan->kept : ROOT_MAX_LISTED;
        scan->count++;
        scan->usual_count += usual ? 1 : 0;
        scan->numbered += root_is_number(walk->path, len) ? 1 : 0;
        scan->dotted += memchr(walk->path, '.', len) != NULL ? 1 : 0;
        scan->usual = usual ? child : scan->usual;
        if (scan->kept < ROOT_MAX_LISTED) {
            root_child *kept = &scan->children[scan->kept++];
            *kept = (root_child){ .value = child, .usual = usual };
            coffer__escape_cut(walk->path, len, kept->name, sizeof kept->name);
        }
    }
    if (*last_kept < ROOT_MAX_LISTED) {
        scan->children[*last_kept].bytes += bytes;
    }
}

/* One walk over all that is below `start`, in which every tensor is counted for the child of `start` that it
   is in. */
static coffer_status root_look(coffer__graph *graph, coffer__value start, root_scan *scan, coffer_error *err)
{
    coffer__graph_walk walk;
    coffer__value last = 0;
    coffer__value found = 0;
    size_t last_kept = 0;
    memset(scan, 0, sizeof *scan);
    coffer_status status = coffer__graph_walk_begin(&walk, graph, start, false, err);
    while (status == COFFER_OK) {
        status = coffer__graph_walk_next(&walk, &found, err);
        if (status != COFFER_OK || found == 0) {
            break;
        }
        uint64_t bytes = 0;
        const coffer__pickle_class role = coffer__graph_classify(graph, found);
        if (role != COFFER__CLASS_TENSOR && role != COFFER__CLASS_LACKING) {
            continue;
        }
        /* Every tensor is looked at as a view already here, so an error in any part of the file that could be
           the model is told before a choice is made. */
        status = root_weigh(&walk, found, &bytes, err);
        if (walk.depth == 1) {
            scan->direct++;
        } else {
            root_count(scan, &walk, bytes, &last, &last_kept);
        }
    }
    coffer__graph_walk_free(&walk);
    return status;
}

/* Adds to a text in a buffer what fits. */
static void root_add(char *text, size_t size, const char *more)
{
    const size_t len = coffer__text_len(text);
    const size_t more_len = coffer__text_len(more);
    if (more_len < size - len) {
        memcpy(text + len, more, more_len + 1);
    }
}

static coffer_status root_fail_sharded(const root_scan *scan, const char *path, coffer_error *err)
{
    char list[300] = "";
    const bool usual = scan->usual_count > 1;
    size_t listed = 0;
    for (size_t i = 0; i < scan->kept; i++) {
        char digits[21];
        if (usual && !scan->children[i].usual) {
            continue;
        }
        root_add(list, sizeof list, listed++ > 0 ? ", " : "");
        root_add(list, sizeof list, path);
        root_add(list, sizeof list, path[0] != '\0' ? "." : "");
        root_add(list, sizeof list, scan->children[i].name);
        root_add(list, sizeof list, " (");
        digits[coffer__write_u64(digits, scan->children[i].bytes)] = '\0';
        root_add(list, sizeof list, digits);
        root_add(list, sizeof list, " bytes)");
    }
    /* With several usual names, only those are offered: what is beside them has never been the model. */
    const uint64_t count = usual ? scan->usual_count : scan->count;
    if (count > listed) {
        root_add(list, sizeof list, ", …");
    }
    return coffer__fail(err, COFFER_ERR_ROOT, "%u parts of the file could be the model; say which: %s", count, list);
}

/* Other parts of a level that may be a model as well, as a second copy of the weights is. */
static coffer_status root_note_others(const coffer__graph *graph, const root_scan *scan, coffer__value child,
                                      const char *path, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < scan->kept && status == COFFER_OK; i++) {
        char name[300] = "";
        if (scan->children[i].value == child || root_is_training(scan->children[i].name)) {
            continue;
        }
        root_add(name, sizeof name, path);
        root_add(name, sizeof name, path[0] != '\0' ? "." : "");
        root_add(name, sizeof name, scan->children[i].name);
        status = coffer__import_plan_put_finding(graph->plan, COFFER_WEIGHT_NOTE, graph->file,
                                                 coffer__graph_place(graph, scan->children[i].value), graph->member,
                                                 "the tensors in %q are not taken: --root takes another part", name,
                                                 coffer__text_len(name), err);
    }
    return status;
}

/* Goes from a level to the child that was decided on. */
static coffer_status root_descend(coffer__graph *graph, const root_scan *scan, coffer__value child,
                                  coffer__value *start, char *path, size_t path_size, coffer_error *err)
{
    coffer_status status = root_note_others(graph, scan, child, path, err);
    if (status == COFFER_OK) {
        status = coffer__beside_level(graph, *start, child, path, err);
    }
    for (size_t i = 0; i < scan->kept; i++) {
        if (scan->children[i].value == child) {
            root_add(path, path_size, path[0] != '\0' ? "." : "");
            root_add(path, path_size, scan->children[i].name);
            break;
        }
    }
    *start = child;
    return status;
}

/* The states of an optimiser, by the numbers of its parameters; or modules by their paths, each with its tensors: no part
   of them is the model, and all together are. */
static bool root_is_whole(coffer__graph *graph, coffer__value start, const root_scan *scan)
{
    return coffer__graph_classify(graph, start) == COFFER__CLASS_MAPPING && scan->usual_count == 0 &&
           (scan->dotted > 0 || scan->numbered == scan->count);
}

static bool root_is_container(coffer__pickle_class role)
{
    return role == COFFER__CLASS_MAPPING || role == COFFER__CLASS_SEQUENCE || role == COFFER__CLASS_MODULE;
}

/* The rule of pickle_rows.h, level by level. Each level is a walk over all that is below it, and the number of
   levels is bounded, so the whole costs a few walks. */
static coffer_status root_auto(coffer__graph *graph, coffer__value *start, char *path, size_t path_size,
                               coffer_error *err)
{
    /* Down one level as long as there is one thing only, as in {"state": {"model": {…}}}. */
    for (size_t level = 0; level < ROOT_MAX_LEVELS; level++) {
        root_scan scan;
        coffer_status status = root_look(graph, *start, &scan, err);
        if (status != COFFER_OK) {
            return status;
        }
        /* A module is one thing, whatever its parts are called. */
        const bool module = coffer__graph_classify(graph, *start) == COFFER__CLASS_MODULE ||
                            coffer__graph_is_script(graph, coffer__graph_callable(graph, *start));
        if (module && scan.direct + scan.count > 0) {
            return COFFER_OK;
        }
        /*
         * One child is called as models are, beside others that are not: the checkpoint of a training, with its
         * optimizer.
         */
        if (scan.usual_count == 1) {
            return root_descend(graph, &scan, scan.usual, start, path, path_size, err);
        }
        /* Tensors lie directly here, and nothing beside them is called like a model: this is the dict of
           weights. */
        if (scan.usual_count == 0 && scan.direct > 0) {
            return COFFER_OK;
        }
        if (scan.count > 1 && root_is_whole(graph, *start, &scan)) {
            return COFFER_OK;
        }
        if (scan.usual_count > 1 || scan.count > 1) {
            return root_fail_sharded(&scan, path, err);
        }
        if (scan.count == 0) {
            return coffer__fail(err, COFFER_ERR_ROOT, "there are no tensors in the file that have names");
        }
        status = root_descend(graph, &scan, scan.children[0].value, start, path, path_size, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* The child whose key the path begins with, followed by a dot or nothing; of several the longest, since keys may have
   dots themselves. */
static coffer__value root_step(coffer__graph *graph, coffer__value from, const char **path)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    coffer__value child = 0;
    size_t longest = 0;
    const size_t left = coffer__text_len(*path);
    coffer__entries_begin(&entries, graph, from);
    /* All children are looked at: "a" and "a.b" may both be keys, and the longer one is what somebody means
       who wrote both parts. */
    while (coffer__entries_next(&entries, graph, &entry)) {
        char digits[21];
        const char *key = NULL;
        size_t len = 0;
        if (coffer__graph_walk_key(graph, &entry, &key, &len, digits) && len <= left &&
            (child == 0 || len >= longest) && memcmp(*path, key, len) == 0 &&
            ((*path)[len] == '.' || (*path)[len] == '\0')) {
            child = entry.value;
            longest = len;
        }
    }
    *path += longest;
    *path += **path == '.' ? 1 : 0;
    return child;
}

/* Goes down the path by one key after another. Each step takes at least its key off the path, or ends the
   search; an empty key takes its dot. */
static coffer_status root_by_path(coffer__graph *graph, coffer__value *start, char *path, size_t path_size,
                                  coffer_error *err)
{
    const char *wanted = graph->wants->root;
    const char *rest = wanted;
    while (*rest != '\0') {
        *start = root_step(graph, *start, &rest);
        if (*start == 0 || !root_is_container(coffer__graph_classify(graph, *start))) {
            return coffer__fail(err, COFFER_ERR_ROOT, "the file has no dict, list or module at %q", wanted,
                                coffer__text_len(wanted));
        }
    }
    coffer__escape_cut(wanted, coffer__text_len(wanted), path, path_size);
    return COFFER_OK;
}

/* A top that is a tensor, or holds nothing by name, is decided before the wish of the user is asked. */
coffer_status coffer__graph_find_root(coffer__graph *graph, coffer__value *start, char *path, size_t path_size,
                                      coffer_error *err)
{
    const char *wanted = graph->wants->root;
    path[0] = '\0';
    *start = coffer__graph_top(graph);
    const coffer__pickle_class role = coffer__graph_classify(graph, *start);
    if (role == COFFER__CLASS_TENSOR || role == COFFER__CLASS_LACKING) {
        return COFFER_OK;
    }
    const coffer__value class = coffer__graph_callable(graph, *start);
    if (role == COFFER__CLASS_OPAQUE && class != 0 &&
        coffer__pickle_node(graph->pickle, class)->kind == COFFER__VALUE_GLOBAL) {
        const char *name = coffer__pickle_name(graph->pickle, class);
        return coffer__fail_at(err, COFFER_ERR_OPAQUE, coffer__graph_place(graph, *start),
                               "the file is an object of the class %q, which is not known: save a dict of its tensors",
                               name, coffer__text_len(name));
    }
    if (!root_is_container(role)) {
        return coffer__fail(err, COFFER_ERR_ROOT, "the file holds no dict, list, module or tensor, but something else");
    }
    if (coffer__same_text(wanted, "all")) {
        return COFFER_OK;
    }
    return coffer__same_text(wanted, "auto") ? root_auto(graph, start, path, path_size, err)
                                             : root_by_path(graph, start, path, path_size, err);
}
