/* SPDX-License-Identifier: Apache-2.0 */
/* An index that cannot be opened, taken apart: which files are missing, which are broken, and where it contradicts them. */
#include "cli_files.h"
#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"
#include "doctor_beside.h"

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

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_file(const void *a, const void *b)
{
    const index_line *x = a;
    const index_line *y = b;
    const int order = strcmp(x->file, y->file);
    return order != 0 ? order : compare_bytes(x->tensor, x->tensor_len, y->tensor, y->tensor_len);
}

static void free_lines(index_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->lines[i].tensor);
        free(lines->lines[i].file);
    }
    free(lines->lines);
}

/* False without memory, and for an index whose weight_map is not one of strings. */
static bool read_lines(const cli_document *document, index_lines *lines)
{
    const cli_node *map = cli_document_member(document, cli_document_root(document), "weight_map");
    if (map == NULL || map->kind != '{') {
        return false;
    }
    lines->lines = calloc(document->count + 1, sizeof *lines->lines);
    for (const cli_node *node = cli_document_first(document, map); node != NULL && lines->lines != NULL;
         node = cli_document_after(document, map, node)) {
        index_line *line = &lines->lines[lines->count];
        size_t file_len = 0;
        line->tensor = cli_document_key(document, node, &line->tensor_len);
        line->file = cli_document_string(document, node, &file_len);
        if (line->tensor == NULL || line->file == NULL || strlen(line->file) != file_len) {
            free(line->tensor);
            free(line->file);
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
        const int order = compare_bytes(lines[middle].tensor, lines[middle].tensor_len, tensor->name, tensor->name_len);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* The tensors of a file against the lines that name it. */
static void compare_file(const doctor_folder *folder, const index_line *lines, size_t count, const coffer *model)
{
    doctor *d = folder->doctor;
    for (size_t i = 0; i < count; i++) {
        if (coffer_find(model, lines[i].tensor, lines[i].tensor_len) == NULL) {
            doctor_about(d,
                         doctor_add_in(folder, DOCTOR_ERROR, "not_in_shard", lines[i].file,
                                       "the index says that the file has this tensor, and it does not: they belong to "
                                       "different models, or to versions of one"),
                         lines[i].tensor, lines[i].tensor_len);
        }
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (!names_tensor(lines, count, tensor)) {
            doctor_about(d,
                         doctor_add_in(folder, DOCTOR_WARNING, "unindexed", lines[0].file,
                                       "the file has this tensor, and the index does not say so"),
                         tensor->name, tensor->name_len);
        }
    }
}

static void tell_missing(const doctor_folder *folder, const char *name, size_t count)
{
    char shown[DOCTOR_SHOWN];
    const bool listed = doctor_is_listed(folder->doctor, "shard_missing");
    const doctor_entry *other = listed ? doctor_entry_in_any_case(folder, name) : NULL;
    if (other != NULL) {
        doctor_add_in(folder, DOCTOR_ERROR, "shard_missing", name,
                      "the index says that %zu tensor%s in this file, and there is only \"%s\", whose name differs by "
                      "the case of letters",
                      count, count == 1 ? " is" : "s are", doctor_shown(shown, other->name, strlen(other->name)));
        return;
    }
    doctor_add_in(folder, DOCTOR_ERROR, "shard_missing", name,
                  "the file is missing, and the index says that %zu tensor%s in it; get the file again", count,
                  count == 1 ? " is" : "s are");
}

static void check_part(doctor_folder *folder, const index_line *lines, size_t count)
{
    coffer_error err;
    coffer *model = NULL;
    const char *name = lines[0].file;
    const doctor_entry *entry = doctor_entry_of(folder, name);
    if (!is_plain_name(name)) {
        return; /* the library says so of the index */
    }
    if (entry == NULL || entry->type == DOCTOR_LOST) {
        tell_missing(folder, name, count);
        return;
    }
    char *path = doctor_path(folder, name);
    if (path == NULL || entry->type != DOCTOR_FILE) {
        free(path);
        return;
    }
    char *below = doctor_name(folder, name);
    if (cli_open_quietly(&model, path, false, &err) == COFFER_OK) {
        compare_file(folder, lines, count, model);
    } else if (below != NULL && err.code != COFFER_ERR_CANCELLED && err.code != COFFER_ERR_IS_LFS_POINTER) {
        const bool unread = cli_exit_code(err.code) == CLI_EXIT_UNREADABLE;
        doctor_finding *finding =
            doctor_add_failure(folder->doctor, unread ? "unreadable" : "broken_file", below, &err);
        doctor_fix_broken(folder, finding, name, err.code);
    }
    coffer_close(model);
    free(below);
    free(path);
}

/* ---- The index ---- */

static void check_parts(doctor_folder *folder, const index_lines *lines)
{
    size_t first = 0;
    for (size_t i = 1; i <= lines->count && !cli_interrupted(); i++) {
        if (i == lines->count || strcmp(lines->lines[i].file, lines->lines[first].file) != 0) {
            check_part(folder, &lines->lines[first], i - first);
            first = i;
        }
    }
}

/* Whether the index can be written anew, of files that are there and whole. Where it is not certain which files are meant, the
   library says between which. An index that others read and the library does not may name files that it does not know of. Of
   very many the first are looked at, since the folder is listed for each. */
static void check_stale(doctor_folder *folder, const char *name, bool others_read_it)
{
    coffer_error err;
    coffer_fixed_index fixed = COFFER_FIXED_INDEX_INIT;
    doctor_finding *finding = NULL;
    char *path = folder->remade++ < DOCTOR_SAME_MAX ? doctor_path(folder, name) : NULL;
    const coffer_status status = path != NULL ? coffer_fix_index(path, NULL, true, &fixed, &err) : COFFER_ERR_MEMORY;
    if (status == COFFER_OK && fixed.damaged && others_read_it) {
        free(path);
        return;
    }
    if (status == COFFER_OK && fixed.missing_count > 0) {
        finding =
            doctor_add_in(folder, DOCTOR_ERROR, "index_stale", name,
                          "the index names %zu tensors that no file has: files are of another model, or the index is; "
                          "written anew it names the %zu tensors that are there",
                          fixed.missing_count, fixed.tensor_count);
        doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "index", path, "--dry-run"));
    } else if (status == COFFER_OK) {
        finding =
            doctor_add_in(folder, DOCTOR_ERROR, "index_stale", name,
                          "the index does not fit the files, and %zu files that are whole make a model: it can be "
                          "written anew from their headers",
                          fixed.file_count);
        doctor_fix(folder->doctor, finding, DOCTOR_WORDS("coffer", "index", path));
    } else if (status == COFFER_ERR_AMBIGUOUS) {
        doctor_add_in(folder, DOCTOR_ERROR, "index_stale", name, "%s", err.message);
    }
    free(path);
}

void doctor_check_index(doctor_folder *folder, const char *name, const coffer_error *err)
{
    cli_input text;
    cli_document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    doctor *d = folder->doctor;
    const uint64_t before = d->totals[DOCTOR_ERROR];
    const bool there = doctor_read(folder, name, DOCTOR_INDEX_MAX, &text);
    const bool read = there && cli_document_read(&document, text.bytes, text.size) && read_lines(&document, &lines);
    if (read) {
        check_parts(folder, &lines);
    }
    free_lines(&lines);
    cli_document_free(&document);
    free(text.bytes);
    if (d->totals[DOCTOR_ERROR] == before) {
        char *below = doctor_name(folder, name);
        if (below != NULL) {
            (void)doctor_add_failure(d, "index", below, err);
        }
        free(below);
    }
    if (!d->failed && !cli_interrupted()) {
        check_stale(folder, name, read);
    }
}

/* NAME.safetensors.index.VARIANT.json, as transformers and diffusers name the index of a variant. */
static bool is_variant(const doctor_entry *entry)
{
    return entry->type == DOCTOR_FILE && strstr(entry->name, ".index.") != NULL && cli_ends_in(entry->name, ".json") &&
           !cli_ends_in(entry->name, ".index.json");
}

static void note_names(const doctor_folder *folder, const char *name)
{
    cli_input text;
    cli_document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    if (!doctor_read(folder, name, DOCTOR_INDEX_MAX, &text)) {
        return;
    }
    if (cli_document_read(&document, text.bytes, text.size) && read_lines(&document, &lines)) {
        for (size_t i = 0; i < lines.count; i++) {
            doctor_entry *entry = doctor_entry_of(folder, lines.lines[i].file);
            if (entry != NULL) {
                entry->named = true;
            }
        }
    }
    free_lines(&lines);
    cli_document_free(&document);
    free(text.bytes);
}

void doctor_check_variants(doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        if (is_variant(&folder->entries[i])) {
            note_names(folder, folder->entries[i].name);
        }
    }
}

void doctor_check_foreign_index(const doctor_folder *folder, const char *name)
{
    cli_input text;
    cli_document document = { .text = NULL };
    index_lines lines = { NULL, 0 };
    if (!doctor_read(folder, name, DOCTOR_INDEX_MAX, &text)) {
        return;
    }
    if (cli_document_read(&document, text.bytes, text.size) && read_lines(&document, &lines)) {
        for (size_t i = 0; i < lines.count; i++) {
            const bool first = i == 0 || strcmp(lines.lines[i - 1].file, lines.lines[i].file) != 0;
            if (first && is_plain_name(lines.lines[i].file) && !doctor_has(folder, lines.lines[i].file)) {
                doctor_add_in(folder, DOCTOR_ERROR, "shard_missing", lines.lines[i].file,
                              "the file is missing, and an index says that tensors are in it; get the file again");
            }
        }
    }
    free_lines(&lines);
    cli_document_free(&document);
    free(text.bytes);
}
