/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a folder, and its small files. Nothing waits: pipes are seen, and never opened. */
#include "checkup.h"

#include "os.h"
#include "paths.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names ---- */

/* As it is shown: without the "./" of what lies below the folder `.`. In a command a name must not look like an option. */
char *coffer__doctor_path(const coffer__doctor_folder *folder, const char *name)
{
    coffer__checkup *d = folder->doctor;
    char *path = coffer__doctor_join(d, folder->path, name);
    if (path == NULL) {
        return NULL;
    }
    const bool here = strncmp(path, "./", 2) == 0 && path[2] != '\0';
    char *shown = path[0] == '-' ? coffer__doctor_join(d, ".", path) : coffer__doctor_copy(d, here ? path + 2 : path);
    coffer__block_free(path);
    return shown;
}

char *coffer__doctor_model_path(const coffer__doctor_folder *folder)
{
    char *path = coffer__doctor_path(folder, "");
    if (path == NULL || path[0] != '\0') {
        return path;
    }
    coffer__block_free(path);
    return coffer__doctor_copy(folder->doctor, ".");
}

void coffer__doctor_look_at_data(const coffer__doctor_folder *folder, coffer__finding *finding)
{
    coffer__checkup *d = folder->doctor;
    const coffer__doctor_folder named = { .doctor = d, .path = d->path };
    char *path = d->data ? NULL : coffer__doctor_path(&named, "");
    if (path != NULL) {
        coffer__doctor_look(d, finding, COFFER__DOCTOR_WORDS("coffer", "doctor", path, "--data"));
    }
    coffer__block_free(path);
}

/* ---- Listing ---- */

/* Whether a link's target, all links resolved, lies in what was named, or in the blobs that the Hub's cache keeps beside
   its snapshots. */
static bool stays_inside(const char *path, const char *root)
{
    char target[COFFER__PATH_SIZE];
    char real[COFFER__PATH_SIZE];
    if (coffer__os_real_path(path, target, sizeof target) != 0 || coffer__os_real_path(root, real, sizeof real) != 0) {
        return false;
    }
    const size_t len = strlen(real);
    const char *snapshots = strstr(real, "/snapshots/");
    const size_t stem = snapshots != NULL ? (size_t)(snapshots - real) : 0;
    const bool inside = strncmp(target, real, len) == 0 && (target[len] == '/' || real[len - 1] == '/');
    return inside || (snapshots != NULL && strncmp(target, real, stem) == 0 &&
                      strncmp(target + stem, "/blobs/", strlen("/blobs/")) == 0);
}

static void look_at_entry(const coffer__doctor_folder *folder, coffer__doctor_entry *entry, const char *root)
{
    coffer__os_info info;
    char *path = coffer__doctor_join(folder->doctor, folder->path, entry->name);
    entry->type = COFFER__DOCTOR_OTHER;
    if (path == NULL || coffer__os_inspect(path, false, &info) != 0) {
        coffer__block_free(path);
        return;
    }
    entry->link = info.kind == COFFER__OS_LINK;
    const bool there = !entry->link || coffer__os_inspect(path, true, &info) == 0;
    const bool regular = there && info.kind == COFFER__OS_REGULAR;
    entry->outside = entry->link && there && !stays_inside(path, root);
    entry->type = !there                                              ? COFFER__DOCTOR_LOST
                  : regular                                           ? COFFER__DOCTOR_FILE
                  : !entry->link && info.kind == COFFER__OS_DIRECTORY ? COFFER__DOCTOR_DIR
                                                                      : COFFER__DOCTOR_OTHER;
    entry->size = regular ? info.size : 0;
    coffer__block_free(path);
}

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const coffer__doctor_entry *)a)->name, ((const coffer__doctor_entry *)b)->name);
}

/* A folder while it is listed. */
typedef struct folder_listing {
    coffer__doctor_folder *folder;
    size_t capacity;
} folder_listing;

static bool take_entry(void *ctx, const char *name)
{
    folder_listing *listing = ctx;
    coffer__doctor_folder *folder = listing->folder;
    coffer__checkup *d = folder->doctor;
    coffer__doctor_entry *entries =
        coffer__doctor_grow(d, folder->entries, folder->count, &listing->capacity, sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    folder->entries = entries;
    entries[folder->count] = (coffer__doctor_entry){ .name = coffer__doctor_copy(d, name) };
    folder->count += entries[folder->count].name != NULL;
    return !d->failed && !coffer__doctor_stopped(d);
}

bool coffer__doctor_list(coffer__doctor_folder *folder, const char *root)
{
    coffer__checkup *d = folder->doctor;
    folder_listing listing = { folder, 0 };
    const int error = coffer__os_list(folder->path, take_entry, &listing);
    coffer__doctor_count(d, COFFER_DOCTOR_FOLDERS, error == 0, 1);
    if (error != 0) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "unreadable", "", "cannot list the folder: %s",
                              coffer__os_words(error));
        d->unreadable = true;
        return false;
    }
    if (folder->count > 0) {
        qsort(folder->entries, folder->count, sizeof *folder->entries, by_entry);
    }
    for (size_t i = 0; i < folder->count; i++) {
        look_at_entry(folder, &folder->entries[i], root);
    }
    return !d->failed;
}

void coffer__doctor_unlist(coffer__doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        coffer__block_free(folder->entries[i].name);
    }
    coffer__block_free(folder->entries);
    coffer__block_free(folder->type);
    folder->entries = NULL;
    folder->count = 0;
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const coffer__doctor_entry *)entry)->name);
}

coffer__doctor_entry *coffer__doctor_entry_of(const coffer__doctor_folder *folder, const char *name)
{
    return folder->count == 0 ? NULL
                              : bsearch(name, folder->entries, folder->count, sizeof *folder->entries, compare_name);
}

bool coffer__doctor_owns(const coffer__doctor_folder *folder, const coffer *model)
{
    bool owns = folder->input == NULL;
    for (size_t i = 0; i < coffer_shard_count(model) && owns; i++) {
        const char *path = coffer_shard_path(model, i);
        const coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, coffer__doctor_last_name(path));
        owns = entry != NULL && entry->type == COFFER__DOCTOR_FILE && !entry->link;
    }
    return owns;
}

bool coffer__doctor_has(const coffer__doctor_folder *folder, const char *name)
{
    coffer_error err;
    uint32_t file = 0;
    if (folder->input != NULL) {
        return coffer_input_beside(folder->input, name, strlen(name), &file, NULL, &err) == COFFER_OK;
    }
    const coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, name);
    return entry != NULL && entry->type == COFFER__DOCTOR_FILE;
}

/* ---- Reading ---- */

/* Reads on to the file's end, which may be elsewhere than its size says. Returns an errno: EFBIG when it is too large. */
static int read_to_end(coffer__checkup *d, int fd, size_t size, size_t most, coffer__doctor_text *text)
{
    for (size_t capacity = size + 1;; capacity = 2 * capacity) {
        char *bytes = coffer__block_resize(&d->allocator, text->bytes, capacity + 1);
        size_t done = 0;
        if (bytes == NULL) {
            return ENOMEM;
        }
        text->bytes = bytes;
        const int error = coffer__os_read_at(fd, text->size, bytes + text->size, capacity - text->size, &done);
        text->size += done;
        bytes[text->size] = '\0';
        if (error != 0 || text->size > most || text->size < capacity) {
            return error != 0 ? error : text->size > most ? EFBIG : 0;
        }
    }
}

/* Reads a regular file. Returns an errno: EINVAL when it is none, EFBIG when it is too large. */
static int read_regular(coffer__checkup *d, const char *path, size_t most, coffer__doctor_text *text)
{
    int fd = -1;
    coffer__os_info info;
    int error = coffer__os_open(path, COFFER__OS_READ, true, &fd);
    if (error != 0) {
        return error;
    }
    error = coffer__os_inspect_fd(fd, &info);
    error = error != 0 ? error : info.kind != COFFER__OS_REGULAR ? EINVAL : info.size > most ? EFBIG : 0;
    error = error != 0 ? error : read_to_end(d, fd, (size_t)info.size, most, text);
    if (error != 0) {
        coffer__block_free(text->bytes);
        *text = (coffer__doctor_text){ .size = 0 };
    }
    (void)coffer__os_close(fd);
    return error;
}

static bool read_local(const coffer__doctor_folder *folder, const char *name, size_t most, coffer__doctor_text *text)
{
    coffer__checkup *d = folder->doctor;
    char *path = coffer__doctor_join(d, folder->path, name);
    const int error = path != NULL ? read_regular(d, path, most, text) : ENOMEM;
    coffer__block_free(path);
    if (error == 0 || folder->reported) {
        return error == 0;
    }
    if (error == EFBIG) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "too_large", name,
                              "the file has more than %" PRIu64
                              " bytes, too many for this kind of file; it was not read",
                              (uint64_t)most);
    } else {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "unreadable", name, "cannot read the file: %s",
                              coffer__os_words(error));
        d->unreadable = true;
    }
    return false;
}

static bool read_beside(const coffer__doctor_folder *folder, const char *name, size_t most, coffer__doctor_text *text)
{
    coffer_error err;
    uint32_t file = 0;
    uint64_t size = 0;
    if (coffer_input_beside(folder->input, name, strlen(name), &file, &size, &err) != COFFER_OK) {
        return false;
    }
    if (size > most) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "too_large", name,
                              "the file has more than %" PRIu64 " bytes; it was not read", (uint64_t)most);
        return false;
    }
    text->bytes = coffer__doctor_new(folder->doctor, (size_t)size + 1);
    if (text->bytes == NULL) {
        return false;
    }
    text->size = (size_t)size;
    const coffer_status status = coffer_input_read(folder->input, file, 0, text->bytes, text->size, &err);
    if (status != COFFER_OK) {
        coffer__block_free(text->bytes);
        *text = (coffer__doctor_text){ .size = 0 };
        coffer__doctor_add_failure(folder->doctor, "unreadable", name, &err);
        return false;
    }
    text->bytes[text->size] = '\0';
    return true;
}

bool coffer__doctor_read(const coffer__doctor_folder *folder, const char *name, size_t most, coffer__doctor_text *text)
{
    *text = (coffer__doctor_text){ .size = 0 };
    if (folder->input != NULL) {
        return read_beside(folder, name, most, text);
    }
    return coffer__doctor_has(folder, name) && read_local(folder, name, most, text);
}

void coffer__doctor_add_broken_json(const coffer__doctor_folder *folder, const char *name, const char *what, size_t at)
{
    coffer__finding *finding =
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "json", name, "the file is not valid JSON: %s", what);
    if (finding != NULL) {
        finding->offset = at;
    }
}

bool coffer__doctor_read_json(const coffer__doctor_folder *folder, const char *name, coffer__doctor_text *text,
                              coffer__document *document)
{
    *document = (coffer__document){ .text = NULL };
    if (!coffer__doctor_read(folder, name, COFFER__CONFIG_MAX, text)) {
        return false;
    }
    if (coffer__document_read(document, &folder->doctor->allocator, text->bytes, text->size)) {
        return true;
    }
    if (document->what != NULL && !folder->reported) {
        coffer__doctor_add_broken_json(folder, name, document->what, document->at);
    }
    coffer__block_free(text->bytes);
    *text = (coffer__doctor_text){ .size = 0 };
    return false;
}
