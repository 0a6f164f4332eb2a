/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a folder → the model in it: see folder_names.h. Nothing here looks at the folder. */
#include "folder_names.h"

#include "alloc.h"
#include "error.h"
#include "missing.h"
#include "shard_name.h"
#include "sort.h"

#include <string.h>

#define FOLDER_NAMES_INDEX COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX
/* How many names of interest one folder may have. */
#define FOLDER_NAMES_MAX 200000u
#define FOLDER_NAMES_MAX_BYTES ((size_t)64 << 20)

static bool folder_names_is(coffer__name name, const char *wanted)
{
    return name.len == strlen(wanted) && memcmp(name.text, wanted, name.len) == 0;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Adds a name to the text. False without memory, or when there are too many names. Names move when
   the text grows, so nothing points into it yet. Both bounds are against a folder that somebody has
   filled; they are far above any model. */
static bool folder_names_add(coffer__folder_names *list, coffer__name name)
{
    if (name.len + 1 > list->capacity - list->used) {
        const size_t capacity = 2 * list->capacity + 4096;
        char *text = capacity > FOLDER_NAMES_MAX_BYTES
                         ? NULL
                         : coffer__realloc(list->allocator, list->text, list->capacity, capacity);
        if (text == NULL) {
            return false;
        }
        list->text = text;
        list->capacity = capacity;
    }
    memcpy(list->text + list->used, name.text, name.len + 1);
    list->used += name.len + 1;
    return ++list->count <= FOLDER_NAMES_MAX;
}

/* Whether a name is one that a save leaves between the old model and the new one. The
   index's own new name (COFFER__PENDING_SAVE_NEW) does not count: at that stage no file of the
   old model has changed. */
bool coffer__folder_names_is_left(coffer__name name)
{
    return coffer__name_ends(name, FOLDER_NAMES_INDEX COFFER__PENDING_SAVE_READY) ||
           coffer__name_ends(name, FOLDER_NAMES_INDEX COFFER__PENDING_SAVE_OLD);
}

/* Called for each name in the folder; false ends the listing. Most names in a folder are not of
   interest and are dropped at once. A trace of a save is only remembered as having been seen;
   whether it counts needs a look at the file, which listing does not allow for. */
bool coffer__folder_names_see(void *ctx, const char *text)
{
    coffer__folder_names *list = ctx;
    const coffer__name name = { text, strlen(text) };
    if (name.len == 0 || text[0] == '.') {
        return true;
    }
    list->is_pipeline = list->is_pipeline || folder_names_is(name, "model_index.json");
    list->interrupted = list->interrupted || coffer__folder_names_is_left(name);
    /* Only files of models and their indices are kept. */
    list->failed = (coffer__name_ends(name, COFFER__FILE_SUFFIX) || coffer__name_ends(name, FOLDER_NAMES_INDEX)) &&
                   !folder_names_add(list, name);
    return !list->failed;
}

/* Byte order, so that the result does not depend on the locale or on the file system. */
static bool folder_names_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__name *names = ctx;
    return coffer__compare_names(names[a].text, names[a].len, names[b].text, names[b].len) < 0;
}

/* Sorts the names into the list. `names` has them in the order of the text, and `order` has space
   for as many numbers. The order of a listing is the file system's and differs from one machine to
   another; messages and choices must not. */
static void folder_names_sort_by(coffer__folder_names *list, coffer__name *names, uint32_t *order)
{
    for (size_t i = 0, at = 0; i < list->count; i++) {
        names[i] = (coffer__name){ list->text + at, strlen(list->text + at) };
        at += names[i].len + 1;
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, list->count, folder_names_name_before, names);
    for (size_t i = 0; i < list->count; i++) {
        list->names[i] = names[order[i]];
    }
}

/* Makes the sorted list of the names. What is temporary is released here in any case; list->names
   belongs to the list, also after a failure. */
coffer_status coffer__folder_names_sort(coffer__folder_names *list, coffer_error *err)
{
    const coffer_allocator *allocator = list->allocator;
    const size_t count = list->count;
    list->names = coffer__alloc_array(allocator, count, sizeof *list->names, err);
    coffer__name *names = coffer__alloc_array(allocator, count, sizeof *names, err);
    uint32_t *order = coffer__alloc_array(allocator, count, sizeof *order, err);
    const bool made = list->names != NULL && names != NULL && order != NULL;
    if (made) {
        folder_names_sort_by(list, names, order);
    }
    coffer__free_array(allocator, order, count, sizeof *order);
    coffer__free_array(allocator, names, count, sizeof *names);
    return made ? COFFER_OK : COFFER_ERR_MEMORY;
}

void coffer__folder_names_free(coffer__folder_names *list)
{
    coffer__free_array(list->allocator, list->names, list->count, sizeof *list->names);
    coffer__free(list->allocator, list->text, list->capacity);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool folder_names_find(const coffer__folder_names *list, const char *wanted, size_t *at)
{
    for (*at = 0; *at < list->count; ++*at) {
        if (folder_names_is(list->names[*at], wanted)) {
            return true;
        }
    }
    return false;
}

/* The first of the names that every loader looks for. These names decide even if other files are
   there, as they do for the loaders. */
static bool folder_names_find_usual(const coffer__folder_names *list, size_t *at)
{
    for (size_t i = 0; i < COFFER__USUAL_NAMES; i++) {
        if (folder_names_find(list, coffer__usual_names[i], at)) {
            return true;
        }
    }
    return false;
}

/* It names two of them, the first ones in byte order, so the message is the same on every
   machine. */
static coffer_status folder_names_ambiguous(coffer__name first, coffer__name second, const char *what,
                                            coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_AMBIGUOUS,
                        "this folder has more than one model, and it is unclear which is meant: %s %q and %q, for "
                        "example; name the file or the index",
                        what, first.text, first.len, second.text, second.len);
}

/* Names the first few missing files, by the numbers that should come in order, and says how many
   are missing. It walks the numbers and the sorted set side by side, and stops when enough are
   named: the total comes from a name and may be 999,999. What is missing is total minus what is
   there, which counts without walking. */
static void folder_names_fail_missing(const coffer__folder_names *list, const coffer__shard_name *set,
                                      coffer_error *err)
{
    coffer__missing missing = { .count = 0 };
    size_t have = 0;
    for (uint32_t number = 1; missing.count < COFFER__MISSING_NAMED && number <= set->total; number++) {
        coffer__shard_name parts = { .number = 0 };
        if (have < list->count) {
            (void)coffer__shard_name_read(&parts, list->names[have].text, list->names[have].len);
        }
        /* This one is there. */
        if (parts.number == number) {
            have++;
            continue;
        }
        coffer__path name;
        coffer__shard_name_make(&name, list->names[0].text, set, number);
        (void)coffer__text_append(missing.names[missing.count++], sizeof missing.names[0], name.text,
                                  strlen(name.text));
    }
    missing.count = set->total - list->count;
    coffer__missing_fail(&missing, set->total, "the download is incomplete", err);
}

/* Checks that a set, which is all of the list, is complete. The numbers are in order, so the first
   gap is the first missing file. Names of a set differ in their numbers only, which are from 1 to
   the total, and a folder has each name once. So as many names as the total are all of them. */
static coffer_status folder_names_check_set(const coffer__folder_names *list, coffer__choice *choice, coffer_error *err)
{
    const coffer__name first = list->names[0];
    coffer__shard_name parts = { .total = 0 };
    size_t have = 0;
    (void)coffer__shard_name_read(&parts, first.text, first.len);
    if (list->count == parts.total) {
        return COFFER_OK;
    }
    const uint32_t total = parts.total;
    /* The first number that is not where it should be is the first that is missing. */
    while (have < list->count && coffer__shard_name_read(&parts, list->names[have].text, list->names[have].len) &&
           parts.number == have + 1) {
        have++;
    }
    coffer__shard_name_make(&choice->missing, first.text, &parts, (uint32_t)have + 1);
    if (total - list->count == 1) {
        coffer__fail(err, COFFER_ERR_SHARD_MISSING,
                     "this file of the model does not exist: %u of %u files that are named like it exist; the download "
                     "is incomplete",
                     (uint64_t)list->count, (uint64_t)total);
    } else {
        folder_names_fail_missing(list, &parts, err);
    }
    return coffer__fail_sizes(err, COFFER_ERR_SHARD_MISSING, total, list->count);
}

/* Chooses the only file or the only set. Traces of a save are looked for before several files count
   as a set. Files of two sets are not chosen from. A single file that is not named as one of a set
   is a model by itself. The names are sorted, so if all are of the set of the first one, they are
   that set in order. */
static coffer_status folder_names_choose_files(const coffer__folder_names *list, coffer__choice *choice,
                                               coffer_error *err)
{
    coffer__shard_name parts;
    const bool is_set = coffer__shard_name_read(&parts, list->names[0].text, list->names[0].len);
    choice->is_doubtful = is_set || list->count > 1;
    for (size_t i = 1; i < list->count; i++) {
        if (!coffer__shard_name_same_set(list->names[0], list->names[i])) {
            return folder_names_ambiguous(list->names[0], list->names[i], "there are", err);
        }
    }
    choice->set_count = is_set ? list->count : 0;
    return is_set ? folder_names_check_set(list, choice, err) : COFFER_OK;
}

/* By the rules of discover.h, in their order. An index wins over any files, whatever they are
   called: it says itself which are the model's; two are not chosen from. A folder without any file
   of interest may be one in the middle of a save, which is a better answer than that it has no
   model. */
coffer_status coffer__folder_names_choose(const coffer__folder_names *list, coffer__choice *choice, coffer_error *err)
{
    memset(choice, 0, sizeof *choice);
    if (folder_names_find_usual(list, &choice->first)) {
        choice->is_index = coffer__name_ends(list->names[choice->first], FOLDER_NAMES_INDEX);
        return COFFER_OK;
    }
    choice->first = 0;
    if (list->count == 0) {
        choice->is_doubtful = true;
        return coffer__fail(err, COFFER_ERR_NO_MODEL,
                            "this folder has no model: there is no .safetensors file in it, and no index of several");
    }
    for (size_t i = 0; i < list->count; i++) {
        if (!coffer__name_ends(list->names[i], FOLDER_NAMES_INDEX)) {
            continue;
        }
        if (choice->is_index) {
            return folder_names_ambiguous(list->names[choice->first], list->names[i], "the indices", err);
        }
        choice->is_index = true;
        choice->first = i;
    }
    return choice->is_index ? COFFER_OK : folder_names_choose_files(list, choice, err);
}
