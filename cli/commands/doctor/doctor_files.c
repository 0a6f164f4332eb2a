/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder that are no models: what programs left behind, pickles, JSON, pages and pointers in the place of
   files, links. Which files belong to a model, and what belongs beside one, is for others. */
#include "cli_text.h"
#include "doctor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
static char *recovered_name(const char *name)
{
    const char *end = strstr(name, ".index.json.coffer-");
    end = end != NULL ? end : strstr(name, ".coffer-undo");
    return end != NULL ? strndup(name, (size_t)(end - name)) : NULL;
}

/* Whether a save left files of the new model, which undoing it removes. */
static bool has_saved_files(const doctor_folder *folder)
{
    bool has = false;
    for (size_t i = 0; i < folder->count && !has; i++) {
        const char *name = folder->entries[i].name;
        has = (cli_ends_in(name, ".coffer-new") && !cli_ends_in(name, ".index.json.coffer-new")) ||
              cli_ends_in(name, ".coffer-head");
    }
    return has;
}

static void add_leftover(const doctor_folder *folder, const doctor_entry *entry, const leftover *left)
{
    doctor *d = folder->doctor;
    const bool blocks = cli_ends_in(entry->name, ".coffer-undo") || cli_ends_in(entry->name, ".coffer-ready");
    doctor_finding *finding =
        doctor_add_in(folder, blocks ? DOCTOR_ERROR : DOCTOR_WARNING, "leftover", entry->name, "%s", left->what);
    if (left->cure == CURE_NONE || (left->cure == CURE_UNDO_SAVE && has_saved_files(folder))) {
        return;
    }
    char *saved = left->cure != CURE_CHECK ? recovered_name(entry->name) : NULL;
    char *path = doctor_path(folder, saved != NULL ? saved : entry->name);
    if (path != NULL && left->cure != CURE_CHECK) {
        doctor_fix(d, finding, DOCTOR_WORDS("coffer", "meta", "--recover", path));
    } else if (path != NULL) {
        doctor_look(d, finding, DOCTOR_WORDS("coffer", "check", path));
    }
    free(path);
    free(saved);
}

static bool check_leftover(const doctor_folder *folder, const doctor_entry *entry)
{
    static const leftover temporary = {
        "", "a file that a writer was making when it was killed; it may be complete, and the only copy", CURE_CHECK
    };
    if (is_temporary(entry->name)) {
        add_leftover(folder, entry, &temporary);
        return true;
    }
    for (size_t i = 0; i < sizeof LEFTOVERS / sizeof LEFTOVERS[0]; i++) {
        if (cli_ends_in(entry->name, LEFTOVERS[i].ending)) {
            add_leftover(folder, entry, &LEFTOVERS[i]);
            return true;
        }
    }
    return false;
}

/* ---- First bytes ---- */

/* The first bytes of a file, fewer where it has fewer; 0 for what cannot be read. */
static size_t first_bytes(const doctor_folder *folder, const char *name, char bytes[FIRST_BYTES])
{
    struct stat about;
    char *path = doctor_path(folder, name);
    const int fd = path != NULL ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    ssize_t got = 0;
    free(path);
    if (fd >= 0) {
        got = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? read(fd, bytes, FIRST_BYTES) : 0;
        close(fd);
    }
    return got > 0 ? (size_t)got : 0;
}

static bool begins(const char *bytes, size_t size, const char *text)
{
    const size_t len = strlen(text);
    return size >= len && memcmp(bytes, text, len) == 0;
}

static bool check_pointer(const doctor_folder *folder, const doctor_entry *entry, const char *bytes, size_t size)
{
    if (!begins(bytes, size, "version https://git-lfs.github.com/spec/")) {
        return false;
    }
    doctor_finding *finding =
        doctor_add_in(folder, DOCTOR_ERROR, "lfs_pointer", entry->name,
                      "the file is a pointer of Git LFS, not what it points to, which was never downloaded");
    char include[300];
    snprintf(include, sizeof include, "--include=%s", entry->name);
    char *path = doctor_path(folder, "");
    if (path != NULL && strpbrk(entry->name, "*?[],\\") == NULL) {
        doctor_fix(folder->doctor, finding,
                   DOCTOR_WORDS("git", "-C", path[0] != '\0' ? path : ".", "lfs", "pull", include));
    }
    free(path);
    return true;
}

static bool check_page(const doctor_folder *folder, const doctor_entry *entry, const char *bytes, size_t size)
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
        doctor_add_in(folder, DOCTOR_ERROR, "web_page", entry->name,
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
        may = may || cli_ends_in(name, endings[i]);
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

static void check_pickle(const doctor_folder *folder, doctor_entry *entry, const char *bytes, size_t size)
{
    entry->pickle =
        begins(bytes, size, "PK\x03\x04") || (size > 1 && bytes[0] == '\x80' && bytes[1] > 0 && bytes[1] <= 5);
    if (!entry->pickle) {
        return;
    }
    doctor_finding *finding = doctor_add_in(folder, DOCTOR_WARNING, "pickle", entry->name,
                                            "the file is a pickle, which can run anything when it is loaded; coffer "
                                            "convert makes safetensors of weights");
    char *path = doctor_path(folder, entry->name);
    if (path != NULL) {
        doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "scan", path));
    }
    free(path);
}

/* ---- JSON ---- */

static void check_json(const doctor_folder *folder, const doctor_entry *entry)
{
    cli_input text;
    bool loose = false;
    const char *what = NULL;
    size_t at = 0;
    const bool small = strcmp(entry->name, "config.json") == 0 || strcmp(entry->name, "adapter_config.json") == 0 ||
                       strcmp(entry->name, "model_index.json") == 0;
    if (!doctor_read(folder, entry->name, small ? CLI_CONFIG_MAX : DOCTOR_JSON_MAX, &text)) {
        return;
    }
    if (!cli_document_check(text.bytes, text.size, &loose, &what, &at)) {
        doctor_add_broken_json(folder, entry->name, what, at);
    } else if (loose) {
        doctor_add_in(folder, DOCTOR_NOTE, "loose_json", entry->name,
                      "the file has NaN or Infinity, which Python reads and other programs refuse");
    }
    free(text.bytes);
}

/* ---- All of them ---- */

/* A path beside the file that nothing has; to be freed. NULL without one. */
static char *free_name(const doctor_folder *folder, const char *name)
{
    char copy[300];
    for (int i = 0; i < 100; i++) {
        if (snprintf(copy, sizeof copy, "%s.copy%d", name, i) >= (int)sizeof copy) {
            return NULL;
        }
        if (doctor_entry_of(folder, copy) == NULL) {
            return doctor_path(folder, copy);
        }
    }
    return NULL;
}

static void check_link(const doctor_folder *folder, const doctor_entry *entry)
{
    char *path = doctor_path(folder, entry->name);
    if (entry->type == DOCTOR_LOST) {
        doctor_finding *finding =
            doctor_add_in(folder, DOCTOR_WARNING, "lost_link", entry->name,
                          "the link leads nowhere: what it led to is gone, or is on a disk that is not there now");
        if (path != NULL) {
            doctor_look(folder->doctor, finding, DOCTOR_WORDS("ls", "-l", path));
        }
    } else if (entry->outside && entry->type == DOCTOR_FILE) {
        doctor_finding *finding =
            doctor_add_in(folder, DOCTOR_WARNING, "link_outside", entry->name,
                          "the link leads out of the folder: a copy of the folder lacks the file");
        char *copy = free_name(folder, entry->name);
        if (path != NULL && copy != NULL) {
            doctor_fix(folder->doctor, finding, DOCTOR_WORDS("cp", path, copy));
            doctor_fix(folder->doctor, finding, DOCTOR_WORDS("mv", copy, path));
        }
        free(copy);
    }
    free(path);
}

static void check_file(doctor_folder *folder, doctor_entry *entry)
{
    char bytes[FIRST_BYTES];
    folder->doctor->files++;
    if (check_leftover(folder, entry)) {
        return;
    }
    const size_t size = first_bytes(folder, entry->name, bytes);
    const bool tensors = coffer_format_from_path(entry->name) != COFFER_FORMAT_ANY;
    if (check_pointer(folder, entry, bytes, size)) {
        entry->covered = true; /* what it is was told: nobody opens it */
        return;
    }
    const bool text = cli_ends_in(entry->name, ".json") || cli_ends_in(entry->name, ".txt") ||
                      cli_ends_in(entry->name, ".model") || may_be_pickle(entry->name);
    if (!tensors && text && check_page(folder, entry, bytes, size)) {
        return;
    }
    if (cli_ends_in(entry->name, ".json") && !cli_ends_in(entry->name, ".safetensors.index.json")) {
        check_json(folder, entry);
        if (cli_ends_in(entry->name, ".bin.index.json")) {
            doctor_check_foreign_index(folder, entry->name);
        }
    } else if (may_be_pickle(entry->name)) {
        check_pickle(folder, entry, bytes, size);
    }
}

/* Of a file that was named alone: itself, what is called after it, and what tells of it. */
static bool concerns(const doctor_folder *folder, const char *name)
{
    const char *rest = name[0] == '.' ? name + 1 : name;
    return folder->only == NULL || strncmp(rest, folder->only, strlen(folder->only)) == 0;
}

void doctor_check_files(doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count && !folder->doctor->failed; i++) {
        doctor_entry *entry = &folder->entries[i];
        if (!concerns(folder, entry->name)) {
            continue;
        }
        if (entry->link) {
            check_link(folder, entry);
        }
        if (entry->type == DOCTOR_FILE) {
            check_file(folder, entry);
        } else if (entry->type == DOCTOR_OTHER && !entry->link) {
            doctor_add_in(folder, DOCTOR_WARNING, "not_a_file", entry->name,
                          "this is a pipe, a socket or a device; it was not opened");
        }
    }
    folder->reported = folder->only == NULL;
}

/* ---- Twice ---- */

/* Whether the file is all that has its tensors in the form that it is in: one of several that an index names is needed with
   the others. */
static bool stands_alone(const doctor_folder *folder, const char *name)
{
    char index[300];
    const bool fits = snprintf(index, sizeof index, "%s.index.json", name) < (int)sizeof index;
    return fits && strstr(name, "-of-") == NULL && !doctor_has(folder, index);
}

static void tell_copy(const doctor_folder *folder, const doctor_entry *entry, const char *path, uint64_t size)
{
    char bytes[CLI_NUMBER_SIZE];
    char own[CLI_NUMBER_SIZE];
    doctor *d = folder->doctor;
    char *model = doctor_model_path(folder);
    const doctor_same same =
        model != NULL && entry->pickle ? doctor_compare_foreign(d, path, model) : DOCTOR_NOT_COMPARED;
    cli_bytes_text(bytes, entry->size);
    cli_bytes_text(own, size);
    free(model);
    if (same == DOCTOR_DIFFERENT) {
        doctor_add_in(folder, DOCTOR_WARNING, "weights_differ", entry->name,
                      "the file does not have the tensors that the folder has as safetensors: programs load the one or "
                      "the other, and which is right is not known");
        return;
    }
    doctor_finding *finding = doctor_add_in(
        folder, DOCTOR_NOTE, "weights_twice", entry->name,
        same == DOCTOR_SAME ? "the folder has the same tensors as safetensors (%s); without this file it is %s smaller"
                            : "the folder has weights as safetensors (%s), and in this file too (%s); whether they are "
                              "the same was not compared",
        own, bytes);
    if (same == DOCTOR_SAME && stands_alone(folder, entry->name)) {
        doctor_fix(d, finding, DOCTOR_WORDS("rm", path));
    } else if (same == DOCTOR_NOT_COMPARED && entry->pickle) {
        doctor_look_at_data(folder, finding);
    }
}

void doctor_check_copies(doctor_folder *folder, bool has_model, uint64_t size)
{
    static const char *const others[] = { "tf_model.h5", "flax_model.msgpack", "rust_model.ot" };
    for (size_t i = 0; i < folder->count && has_model && folder->only == NULL; i++) {
        const doctor_entry *entry = &folder->entries[i];
        bool other = entry->pickle && is_weights(entry->name);
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
            other = other || strcmp(entry->name, others[k]) == 0;
        }
        char *path = other && entry->type == DOCTOR_FILE ? doctor_path(folder, entry->name) : NULL;
        if (path != NULL) {
            tell_copy(folder, entry, path, size);
        }
        free(path);
    }
}
