/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder that are no models: what programs left behind, pickles, JSON, pages and pointers in the place of
   files, links. Which files belong to a model, and what belongs beside one, is for others. */
#include "checkup.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 128

/* ---- Leftovers ---- */

/* What an interrupted program leaves: by the end of the name, whose it is, and what fixes it. What is in such a file may be
   nowhere else, so that none is removed. */
typedef enum leftover_cure { CURE_NONE, CURE_RECOVER, CURE_UNDO_SAVE, CURE_CHECK } leftover_cure;

typedef struct leftover {
    const char *ending;
    const char *what;
    leftover_cure cure;
} leftover;

static const leftover LEFTOVERS[] = {
    { ".coffer-undo", "an edit of the file was interrupted, and it cannot be opened until that is undone",
      CURE_RECOVER },
    { ".coffer-undo.new",
      "an edit was interrupted before it began; the file itself is as it was, and the next edit removes this one",
      CURE_NONE },
    { ".index.json.coffer-new",
      "a save was interrupted; the older model is still the one that counts, and coffer meta --recover removes what "
      "there is "
      "of the new one",
      CURE_UNDO_SAVE },
    { ".index.json.coffer-ready",
      "a save was interrupted after it was decided on: coffer meta --recover finishes it, and the files of the older "
      "model go",
      CURE_NONE },
    { ".index.json.coffer-old",
      "a save was interrupted while it tidied up: coffer meta --recover removes the files of the older model",
      CURE_NONE },
    { ".index.json.coffer-force",
      "a save was interrupted that was to replace a model of one file: coffer meta --recover finishes or undoes it",
      CURE_NONE },
    { ".coffer-new", "a file of a save that was interrupted", CURE_NONE },
    { ".coffer-head", "a header of a save that was interrupted", CURE_NONE },
    { ".coffer-old", "a file that an interrupted save moved aside", CURE_NONE },
    { ".coffer-fetched",
      "a download was interrupted while its files got their names; the same coffer fetch finishes it", CURE_NONE },
    { ".coffer-part", "a download was interrupted; the same coffer fetch resumes it, or the file is no longer needed",
      CURE_NONE },
    { ".incomplete", "a download was interrupted; the same download resumes it, or the file is no longer needed",
      CURE_NONE },
    { ".crdownload", "a download of a browser was interrupted; it can be resumed, or is no longer needed", CURE_NONE },
    { ".part", "a download was interrupted; it can be resumed, or is no longer needed", CURE_NONE },
    { ".partial", "a download was interrupted; it can be resumed, or is no longer needed", CURE_NONE },
    { ".aria2", "a download of aria2 was interrupted: the file next to it is not complete", CURE_NONE },
    { ".tmp", "a temporary file, which loaders pass over; whether its content is elsewhere too is not known",
      CURE_NONE },
};

/* .NAME.coffer-1a2b3c4d, the temporary file of a writer. */
static bool is_temporary(const char *name)
{
    const char *mark = strstr(name, ".coffer-");
    return name[0] == '.' && mark != NULL && strlen(mark) == strlen(".coffer-1a2b3c4d") &&
           strspn(mark + strlen(".coffer-"), "0123456789abcdef") == 8;
}

/* The model that a save was to: NAME.safetensors of NAME.safetensors.index.json.coffer-new; the file that an edit was of.
   To be freed. */
static char *recovered_name(coffer__checkup *d, const char *name)
{
    const char *end = strstr(name, ".index.json.coffer-");
    end = end != NULL ? end : strstr(name, ".coffer-undo");
    return end != NULL ? coffer__doctor_copy_part(d, name, (size_t)(end - name)) : NULL;
}

/* Whether a save left files of the new model, which undoing it removes. */
static bool has_saved_files(const coffer__doctor_folder *folder)
{
    bool has = false;
    for (size_t i = 0; i < folder->count && !has; i++) {
        const char *name = folder->entries[i].name;
        has = (coffer__text_has_ending(name, ".coffer-new") &&
               !coffer__text_has_ending(name, ".index.json.coffer-new")) ||
              coffer__text_has_ending(name, ".coffer-head");
    }
    return has;
}

static void add_leftover(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry, const leftover *left)
{
    coffer__checkup *d = folder->doctor;
    const bool blocks =
        coffer__text_has_ending(entry->name, ".coffer-undo") || coffer__text_has_ending(entry->name, ".coffer-ready");
    coffer__finding *finding = coffer__doctor_add_in(folder, blocks ? COFFER_SEVERITY_ERROR : COFFER_SEVERITY_WARNING,
                                                     "leftover", entry->name, "%s", left->what);
    if (left->cure == CURE_NONE || (left->cure == CURE_UNDO_SAVE && has_saved_files(folder))) {
        return;
    }
    char *saved = left->cure != CURE_CHECK ? recovered_name(d, entry->name) : NULL;
    char *path = coffer__doctor_path(folder, saved != NULL ? saved : entry->name);
    if (path != NULL && left->cure != CURE_CHECK) {
        coffer__doctor_fix(d, finding, COFFER__DOCTOR_WORDS("coffer", "meta", "--recover", path));
    } else if (path != NULL) {
        coffer__doctor_look(d, finding, COFFER__DOCTOR_WORDS("coffer", "check", path));
    }
    coffer__block_free(path);
    coffer__block_free(saved);
}

static bool check_leftover(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    static const leftover temporary = {
        "", "a file that a writer was making when it was killed; it may be complete, and the only copy", CURE_CHECK
    };
    if (is_temporary(entry->name)) {
        add_leftover(folder, entry, &temporary);
        return true;
    }
    for (size_t i = 0; i < sizeof LEFTOVERS / sizeof LEFTOVERS[0]; i++) {
        if (coffer__text_has_ending(entry->name, LEFTOVERS[i].ending)) {
            add_leftover(folder, entry, &LEFTOVERS[i]);
            return true;
        }
    }
    return false;
}

/* ---- First bytes ---- */

/* The first bytes of a file, fewer where it has fewer; 0 for what cannot be read. */
static size_t first_bytes(const coffer__doctor_folder *folder, const char *name, char bytes[FIRST_BYTES])
{
    char *path = coffer__doctor_path(folder, name);
    const size_t got = path != NULL ? coffer__doctor_first_bytes(path, bytes, FIRST_BYTES) : 0;
    coffer__block_free(path);
    return got;
}

static bool begins(const char *bytes, size_t size, const char *text)
{
    const size_t len = strlen(text);
    return size >= len && memcmp(bytes, text, len) == 0;
}

static bool check_pointer(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry, const char *bytes,
                          size_t size)
{
    if (!begins(bytes, size, "version https://git-lfs.github.com/spec/")) {
        return false;
    }
    coffer__finding *finding =
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "lfs_pointer", entry->name,
                              "the file is a pointer of Git LFS, not what it points to, which was never downloaded");
    char include[300];
    snprintf(include, sizeof include, "--include=%s", entry->name);
    char *path = coffer__doctor_path(folder, "");
    if (path != NULL && strpbrk(entry->name, "*?[],\\") == NULL) {
        coffer__doctor_fix(folder->doctor, finding,
                           COFFER__DOCTOR_WORDS("git", "-C", path[0] != '\0' ? path : ".", "lfs", "pull", include));
    }
    coffer__block_free(path);
    return true;
}

static bool check_page(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry, const char *bytes,
                       size_t size)
{
    size_t at = begins(bytes, size, "\xEF\xBB\xBF") ? 3 : 0;
    while (at < size && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0') {
        at++;
    }
    const char *rest = bytes + at;
    const size_t left = size - at;
    const bool page = begins(rest, left, "<!DOCTYPE") || begins(rest, left, "<!doctype") ||
                      begins(rest, left, "<html") || begins(rest, left, "<HTML") || begins(rest, left, "<?xml");
    if (page) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "web_page", entry->name,
                              "the file is a web page or XML: the download got something else; get the file again");
    }
    return page;
}

/* ---- Pickles ---- */

static bool may_be_pickle(const char *name)
{
    static const char *const endings[] = { ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle" };
    bool may = false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        may = may || coffer__text_has_ending(name, endings[i]);
    }
    return may;
}

/* Names under which transformers and others save all weights of a model. */
static bool is_weights(const char *name)
{
    return strncmp(name, "pytorch_model", strlen("pytorch_model")) == 0 || strcmp(name, "adapter_model.bin") == 0 ||
           strncmp(name, "diffusion_pytorch_model", strlen("diffusion_pytorch_model")) == 0 ||
           strncmp(name, "consolidated.", strlen("consolidated.")) == 0;
}

static void check_pickle(const coffer__doctor_folder *folder, coffer__doctor_entry *entry, const char *bytes,
                         size_t size)
{
    entry->pickle =
        begins(bytes, size, "PK\x03\x04") || (size > 1 && bytes[0] == '\x80' && bytes[1] > 0 && bytes[1] <= 5);
    if (!entry->pickle) {
        return;
    }
    coffer__finding *finding =
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "pickle", entry->name,
                              "the file is a pickle, which can run anything when it is loaded; coffer "
                              "convert makes safetensors of weights");
    char *path = coffer__doctor_path(folder, entry->name);
    if (path != NULL) {
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "scan", path));
    }
    coffer__block_free(path);
}

/* ---- JSON ---- */

static void check_json(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    coffer__doctor_text text;
    bool loose = false;
    const char *what = NULL;
    size_t at = 0;
    const bool small = strcmp(entry->name, "config.json") == 0 || strcmp(entry->name, "adapter_config.json") == 0 ||
                       strcmp(entry->name, "model_index.json") == 0;
    if (!coffer__doctor_read(folder, entry->name, small ? COFFER__CONFIG_MAX : COFFER__DOCTOR_JSON_MAX, &text)) {
        return;
    }
    if (!coffer__document_check(text.bytes, text.size, &loose, &what, &at)) {
        coffer__doctor_add_broken_json(folder, entry->name, what, at);
    } else if (loose) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_NOTE, "loose_json", entry->name,
                              "the file has NaN or Infinity, which Python reads and other programs refuse");
    }
    coffer__block_free(text.bytes);
}

/* ---- All of them ---- */

/* A path beside the file that nothing has; to be freed. NULL without one. */
static char *free_name(const coffer__doctor_folder *folder, const char *name)
{
    char copy[300];
    for (int i = 0; i < 100; i++) {
        if (snprintf(copy, sizeof copy, "%s.copy%d", name, i) >= (int)sizeof copy) {
            return NULL;
        }
        if (coffer__doctor_entry_of(folder, copy) == NULL) {
            return coffer__doctor_path(folder, copy);
        }
    }
    return NULL;
}

static void check_link(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    char *path = coffer__doctor_path(folder, entry->name);
    if (entry->type == COFFER__DOCTOR_LOST) {
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_WARNING, "lost_link", entry->name,
            "the link leads nowhere: what it led to is gone, or is on a disk that is not there now");
        if (path != NULL) {
            coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("ls", "-l", path));
        }
    } else if (entry->outside && entry->type == COFFER__DOCTOR_FILE) {
        coffer__finding *finding =
            coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "link_outside", entry->name,
                                  "the link leads out of the folder: a copy of the folder lacks the file");
        char *copy = free_name(folder, entry->name);
        if (path != NULL && copy != NULL) {
            coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("cp", path, copy));
            coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("mv", copy, path));
        }
        coffer__block_free(copy);
    }
    coffer__block_free(path);
}

static void check_file(coffer__doctor_folder *folder, coffer__doctor_entry *entry)
{
    char bytes[FIRST_BYTES];
    coffer__doctor_count(folder->doctor, COFFER_DOCTOR_FILES, true, 1);
    if (check_leftover(folder, entry)) {
        return;
    }
    const size_t size = first_bytes(folder, entry->name, bytes);
    const bool tensors = coffer_format_from_path(entry->name) != COFFER_FORMAT_ANY;
    if (check_pointer(folder, entry, bytes, size)) {
        entry->covered = true; /* what it is was told: nobody opens it */
        return;
    }
    const bool text = coffer__text_has_ending(entry->name, ".json") || coffer__text_has_ending(entry->name, ".txt") ||
                      coffer__text_has_ending(entry->name, ".model") || may_be_pickle(entry->name);
    if (!tensors && text && check_page(folder, entry, bytes, size)) {
        return;
    }
    if (coffer__text_has_ending(entry->name, ".json") &&
        !coffer__text_has_ending(entry->name, ".safetensors.index.json")) {
        check_json(folder, entry);
        if (coffer__text_has_ending(entry->name, ".bin.index.json")) {
            coffer__doctor_check_foreign_index(folder, entry->name);
        }
    } else if (may_be_pickle(entry->name)) {
        check_pickle(folder, entry, bytes, size);
    }
}

/* Of a file that was named alone: itself, what is called after it, and what tells of it. */
static bool concerns(const coffer__doctor_folder *folder, const char *name)
{
    const char *rest = name[0] == '.' ? name + 1 : name;
    return folder->only == NULL || strncmp(rest, folder->only, strlen(folder->only)) == 0;
}

void coffer__doctor_check_files(coffer__doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count && !folder->doctor->failed; i++) {
        coffer__doctor_entry *entry = &folder->entries[i];
        if (!concerns(folder, entry->name)) {
            continue;
        }
        if (entry->link) {
            check_link(folder, entry);
        }
        if (entry->type == COFFER__DOCTOR_FILE) {
            check_file(folder, entry);
        } else if (entry->type == COFFER__DOCTOR_OTHER && !entry->link) {
            coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "not_a_file", entry->name,
                                  "this is a pipe, a socket or a device; it was not opened");
            coffer__doctor_count(folder->doctor, COFFER_DOCTOR_FILES, false, 1);
        }
    }
    folder->reported = folder->only == NULL;
}

/* ---- Twice ---- */

/* Whether the file is all that has its tensors in the form that it is in: one of several that an index names is needed with
   the others. */
static bool stands_alone(const coffer__doctor_folder *folder, const char *name)
{
    char index[300];
    const bool fits = snprintf(index, sizeof index, "%s.index.json", name) < (int)sizeof index;
    return fits && strstr(name, "-of-") == NULL && !coffer__doctor_has(folder, index);
}

static void tell_copy(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry, const char *path,
                      uint64_t size)
{
    char bytes[COFFER__DOCTOR_NUMBER];
    char own[COFFER__DOCTOR_NUMBER];
    coffer__checkup *d = folder->doctor;
    char *model = coffer__doctor_model_path(folder);
    const coffer__doctor_same same =
        model != NULL && entry->pickle ? coffer__doctor_compare_foreign(d, path, model) : COFFER__DOCTOR_NOT_COMPARED;
    coffer__doctor_count(d, COFFER_DOCTOR_COPIES, same != COFFER__DOCTOR_NOT_COMPARED, 1);
    coffer__doctor_put_bytes(bytes, entry->size);
    coffer__doctor_put_bytes(own, size);
    coffer__block_free(model);
    if (same == COFFER__DOCTOR_DIFFERENT) {
        coffer__doctor_add_in(
            folder, COFFER_SEVERITY_WARNING, "weights_differ", entry->name,
            "the file does not have the tensors that the folder has as safetensors: programs load the one or "
            "the other, and which is right is not known");
        return;
    }
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_NOTE, "weights_twice", entry->name,
        same == COFFER__DOCTOR_SAME
            ? "the folder has the same tensors as safetensors (%s); without this file it is %s smaller"
            : "the folder has weights as safetensors (%s), and in this file too (%s); whether they are "
              "the same was not compared",
        own, bytes);
    if (same == COFFER__DOCTOR_SAME) {
        coffer__doctor_by_data(finding);
    }
    if (same == COFFER__DOCTOR_SAME && stands_alone(folder, entry->name)) {
        coffer__doctor_fix(d, finding, COFFER__DOCTOR_WORDS("rm", path));
    } else if (same == COFFER__DOCTOR_NOT_COMPARED && entry->pickle) {
        coffer__doctor_look_at_data(folder, finding);
    }
}

void coffer__doctor_check_copies(coffer__doctor_folder *folder, bool has_model, uint64_t size)
{
    static const char *const others[] = { "tf_model.h5", "flax_model.msgpack", "rust_model.ot" };
    for (size_t i = 0; i < folder->count && has_model && folder->only == NULL; i++) {
        const coffer__doctor_entry *entry = &folder->entries[i];
        bool other = entry->pickle && is_weights(entry->name);
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
            other = other || strcmp(entry->name, others[k]) == 0;
        }
        char *path = other && entry->type == COFFER__DOCTOR_FILE ? coffer__doctor_path(folder, entry->name) : NULL;
        if (path != NULL) {
            tell_copy(folder, entry, path, size);
        }
        coffer__block_free(path);
    }
}
