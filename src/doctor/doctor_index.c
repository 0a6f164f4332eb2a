/* SPDX-License-Identifier: Apache-2.0 */
/* An index that cannot be opened, taken apart: which files are missing, which are broken, and where it contradicts them. */
#include "checkup.h"
#include "doctor_beside.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A tensor, and the file that the index says it is in. */
typedef struct index_line {
    char *tensor;
    size_t tensor_len;
    char *file;
} index_line;

typedef struct index_lines {
    index_line *lines; /* by file, then by tensor */
    size_t count;
} index_lines;

static int compare_by_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_file(const void *a, const void *b)
{
    const index_line *x = a;
    const index_line *y = b;
    const int order = strcmp(x->file, y->file);
    return order != 0 ? order : compare_by_bytes(x->tensor, x->tensor_len, y->tensor, y->tensor_len);
}

static void free_lines(index_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        coffer__block_free(lines->lines[i].tensor);
        coffer__block_free(lines->lines[i].file);
    }
    coffer__block_free(lines->lines);
}

/* False without memory, and for an index whose weight_map is not one of strings. */
static bool read_lines(coffer__checkup *d, const coffer__document *document, index_lines *lines)
{
    const coffer__json_node *map = coffer__document_member(document, coffer__document_root(document), "weight_map");
    if (map == NULL || map->kind != '{') {
        return false;
    }
    lines->lines = coffer__doctor_array(d, document->count + 1, sizeof *lines->lines);
    for (const coffer__json_node *node = coffer__document_first(document, map); node != NULL && lines->lines != NULL;
         node = coffer__document_after(document, map, node)) {
        index_line *line = &lines->lines[lines->count];
        size_t file_len = 0;
        line->tensor = coffer__document_key(document, node, &line->tensor_len);
        line->file = coffer__document_string(document, node, &file_len);
        if (line->tensor == NULL || line->file == NULL || strlen(line->file) != file_len) {
            coffer__block_free(line->tensor);
            coffer__block_free(line->file);
            return false;
        }
        lines->count++;
    }
    if (lines->count > 0) {
        qsort(lines->lines, lines->count, sizeof *lines->lines, by_file);
    }
    return lines->lines != NULL;
}

/* ---- One file ---- */

static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strpbrk(name, "/\\:") == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool names_tensor(const index_line *lines, size_t count, const coffer_tensor *tensor)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order =
            compare_by_bytes(lines[middle].tensor, lines[middle].tensor_len, tensor->name, tensor->name_len);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* The tensors of a file against the lines that name it. */
static void compare_with_lines(const coffer__doctor_folder *folder, const index_line *lines, size_t count,
                               const coffer *model)
{
    coffer__checkup *d = folder->doctor;
    for (size_t i = 0; i < count; i++) {
        if (coffer_find(model, lines[i].tensor, lines[i].tensor_len) == NULL) {
            coffer__doctor_about(
                d,
                coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "not_in_shard", lines[i].file,
                                      "the index says that the file has this tensor, and it does not: they belong to "
                                      "different models, or to versions of one"),
                lines[i].tensor, lines[i].tensor_len);
        }
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (!names_tensor(lines, count, tensor)) {
            coffer__doctor_about(d,
                                 coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "unindexed", lines[0].file,
                                                       "the file has this tensor, and the index does not say so"),
                                 tensor->name, tensor->name_len);
        }
    }
}

static void tell_missing(const coffer__doctor_folder *folder, const char *name, size_t count)
{
    char shown[COFFER__DOCTOR_SHOWN];
    const bool listed = coffer__doctor_is_listed(folder->doctor, "shard_missing");
    const coffer__doctor_entry *other = listed ? coffer__doctor_entry_in_any_case(folder, name) : NULL;
    if (other != NULL) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "shard_missing", name,
                              "the index says that %" PRIu64
                              " tensor%s in this file, and there is only \"%s\", whose name differs by "
                              "the case of letters",
                              (uint64_t)count, count == 1 ? " is" : "s are",
                              coffer__doctor_shown(shown, other->name, strlen(other->name)));
        return;
    }
    coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "shard_missing", name,
                          "the file is missing, and the index says that %" PRIu64 " tensor%s in it; get the file again",
                          (uint64_t)count, count == 1 ? " is" : "s are");
}

static void check_part(coffer__doctor_folder *folder, const index_line *lines, size_t count)
{
    coffer_error err;
    coffer *model = NULL;
    const char *name = lines[0].file;
    const coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, name);
    if (!is_plain_name(name)) {
        return; /* the library says so of the index */
    }
    if (entry == NULL || entry->type == COFFER__DOCTOR_LOST) {
        tell_missing(folder, name, count);
        return;
    }
    char *path = coffer__doctor_path(folder, name);
    if (path == NULL || entry->type != COFFER__DOCTOR_FILE) {
        coffer__block_free(path);
        return;
    }
    char *below = coffer__doctor_name(folder, name);
    if (coffer__doctor_open(folder->doctor, &model, path, false, &err) == COFFER_OK) {
        compare_with_lines(folder, lines, count, model);
    } else if (below != NULL && err.code != COFFER_ERR_CANCELLED && err.code != COFFER_ERR_IS_LFS_POINTER) {
        const bool unread = coffer__doctor_is_unread(err.code);
        coffer__finding *finding =
            coffer__doctor_add_failure(folder->doctor, unread ? "unreadable" : "broken_file", below, &err);
        coffer__doctor_fix_broken(folder, finding, name, err.code);
    }
    coffer_close(model);
    coffer__block_free(below);
    coffer__block_free(path);
}

/* ---- The index ---- */

static void check_parts(coffer__doctor_folder *folder, const index_lines *lines)
{
    size_t first = 0;
    for (size_t i = 1; i <= lines->count && !coffer__doctor_stopped(folder->doctor); i++) {
        if (i == lines->count || strcmp(lines->lines[i].file, lines->lines[first].file) != 0) {
            check_part(folder, &lines->lines[first], i - first);
            first = i;
        }
    }
}

/* Whether the index can be written anew, of files that are there and whole. Where it is not certain which files are meant, the
   library says between which. An index that others read and the library does not may name files that it does not know of. Of
   very many the first are looked at, since the folder is listed for each. */
static void check_stale(coffer__doctor_folder *folder, const char *name, bool others_read_it)
{
    coffer_error err;
    coffer_fixed_index fixed = COFFER_FIXED_INDEX_INIT;
    coffer__finding *finding = NULL;
    char *path = folder->remade++ < COFFER__DOCTOR_SAME_MAX ? coffer__doctor_path(folder, name) : NULL;
    const coffer_status status =
        path != NULL ? coffer__doctor_would_fix_index(folder->doctor, path, &fixed, &err) : COFFER_ERR_MEMORY;
    if (status == COFFER_OK && fixed.damaged && others_read_it) {
        coffer__block_free(path);
        return;
    }
    if (status == COFFER_OK && fixed.missing_count > 0) {
        finding = coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "index_stale", name,
                                        "the index names %" PRIu64
                                        " tensors that no file has: files are of another model, or the index is; "
                                        "written anew it names the %" PRIu64 " tensors that are there",
                                        (uint64_t)fixed.missing_count, (uint64_t)fixed.tensor_count);
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "index", path, "--dry-run"));
    } else if (status == COFFER_OK) {
        finding = coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "index_stale", name,
                                        "the index does not fit the files, and %" PRIu64
                                        " files that are whole make a model: it can be "
                                        "written anew from their headers",
                                        (uint64_t)fixed.file_count);
        coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "index", path));
    } else if (status == COFFER_ERR_AMBIGUOUS) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "index_stale", name, "%s", err.message);
    }
    coffer__block_free(path);
}

void coffer__doctor_check_index(coffer__doctor_folder *folder, const char *name, const coffer_error *err)
{
    coffer__doctor_text text;
    coffer__document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    coffer__checkup *d = folder->doctor;
    const uint64_t before = d->totals[COFFER_SEVERITY_ERROR];
    coffer__doctor_count(d, COFFER_DOCTOR_MODELS, false, 1);
    const bool there = coffer__doctor_read(folder, name, COFFER__DOCTOR_INDEX_MAX, &text);
    const bool read = there && coffer__document_read(&document, &folder->doctor->allocator, text.bytes, text.size) &&
                      read_lines(folder->doctor, &document, &lines);
    if (read) {
        check_parts(folder, &lines);
    }
    free_lines(&lines);
    coffer__document_free(&document);
    coffer__block_free(text.bytes);
    if (d->totals[COFFER_SEVERITY_ERROR] == before) {
        char *below = coffer__doctor_name(folder, name);
        if (below != NULL) {
            (void)coffer__doctor_add_failure(d, "index", below, err);
        }
        coffer__block_free(below);
    }
    if (!d->failed && !coffer__doctor_stopped(d)) {
        check_stale(folder, name, read);
    }
}

/* NAME.safetensors.index.VARIANT.json, as transformers and diffusers name the index of a variant. */
static bool is_variant(const coffer__doctor_entry *entry)
{
    return entry->type == COFFER__DOCTOR_FILE && strstr(entry->name, ".index.") != NULL &&
           coffer__text_has_ending(entry->name, ".json") && !coffer__text_has_ending(entry->name, ".index.json");
}

static void note_names(const coffer__doctor_folder *folder, const char *name)
{
    coffer__doctor_text text;
    coffer__document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    if (!coffer__doctor_read(folder, name, COFFER__DOCTOR_INDEX_MAX, &text)) {
        return;
    }
    if (coffer__document_read(&document, &folder->doctor->allocator, text.bytes, text.size) &&
        read_lines(folder->doctor, &document, &lines)) {
        for (size_t i = 0; i < lines.count; i++) {
            coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, lines.lines[i].file);
            if (entry != NULL) {
                entry->named = true;
            }
        }
    }
    free_lines(&lines);
    coffer__document_free(&document);
    coffer__block_free(text.bytes);
}

void coffer__doctor_check_variants(coffer__doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        if (is_variant(&folder->entries[i])) {
            note_names(folder, folder->entries[i].name);
        }
    }
}

void coffer__doctor_check_foreign_index(const coffer__doctor_folder *folder, const char *name)
{
    coffer__doctor_text text;
    coffer__document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    if (!coffer__doctor_read(folder, name, COFFER__DOCTOR_INDEX_MAX, &text)) {
        return;
    }
    if (coffer__document_read(&document, &folder->doctor->allocator, text.bytes, text.size) &&
        read_lines(folder->doctor, &document, &lines)) {
        for (size_t i = 0; i < lines.count; i++) {
            const bool first = i == 0 || strcmp(lines.lines[i - 1].file, lines.lines[i].file) != 0;
            if (first && is_plain_name(lines.lines[i].file) && !coffer__doctor_has(folder, lines.lines[i].file)) {
                coffer__doctor_add_in(
                    folder, COFFER_SEVERITY_ERROR, "shard_missing", lines.lines[i].file,
                    "the file is missing, and an index says that tensors are in it; get the file again");
            }
        }
    }
    free_lines(&lines);
    coffer__document_free(&document);
    coffer__block_free(text.bytes);
}
