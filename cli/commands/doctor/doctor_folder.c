/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a folder, and its small files. Nothing waits: pipes are seen, and never opened. */
#include "cli_files.h"
#include "cli_folder.h"
#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Names ---- */

static char *joined(const char *folder, const char *name)
{
    const size_t len = strlen(folder);
    const bool slash = len > 0 && !cli_is_slash(folder[len - 1]) && name[0] != '\0';
    const size_t size = len + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s%s%s", folder, slash ? "/" : "", name);
    }
    return path;
}

/* In a command a name must not look like an option. */
char *doctor_path(const doctor_folder *folder, const char *name)
{
    char *path = joined(folder->path, name);
    char *shown = path == NULL ? NULL : path[0] == '-' ? joined(".", path) : strdup(cli_shown_path(path));
    free(path);
    folder->doctor->failed = folder->doctor->failed || shown == NULL;
    return shown;
}

char *doctor_model_path(const doctor_folder *folder)
{
    char *path = doctor_path(folder, "");
    if (path == NULL || path[0] != '\0') {
        return path;
    }
    free(path);
    return joined(".", "");
}

void doctor_look_at_data(const doctor_folder *folder, doctor_finding *finding)
{
    doctor *d = folder->doctor;
    const doctor_folder named = { .doctor = d, .path = d->path };
    char *path = d->data ? NULL : doctor_path(&named, "");
    if (path != NULL) {
        doctor_look(d, finding, DOCTOR_WORDS("coffer", "doctor", path, "--data"));
    }
    free(path);
}

char *doctor_name(const doctor_folder *folder, const char *name)
{
    char *below = joined(folder->name, name);
    folder->doctor->failed = folder->doctor->failed || below == NULL;
    return below;
}

/* ---- Listing ---- */

/* Whether a link's target, all links resolved, lies in what was named, or in the blobs that the Hub's cache keeps beside
   its snapshots. */
static bool stays_inside(const char *path, const char *root)
{
    char *target = realpath(path, NULL);
    char *real = realpath(root, NULL);
    bool inside = false;
    if (target != NULL && real != NULL) {
        const size_t len = strlen(real);
        const char *snapshots = strstr(real, "/snapshots/");
        const size_t stem = snapshots != NULL ? (size_t)(snapshots - real) : 0;
        inside = strncmp(target, real, len) == 0 && (target[len] == '/' || real[len - 1] == '/');
        inside = inside || (snapshots != NULL && strncmp(target, real, stem) == 0 &&
                            strncmp(target + stem, "/blobs/", strlen("/blobs/")) == 0);
    }
    free(target);
    free(real);
    return inside;
}

static void look_at_entry(const doctor_folder *folder, doctor_entry *entry, const char *root)
{
    struct stat about;
    char *path = joined(folder->path, entry->name);
    entry->type = DOCTOR_OTHER;
    if (path == NULL || lstat(path, &about) != 0) {
        folder->doctor->failed = folder->doctor->failed || path == NULL;
        free(path);
        return;
    }
    entry->link = S_ISLNK(about.st_mode);
    if (entry->link) {
        const bool there = stat(path, &about) == 0;
        entry->outside = there && !stays_inside(path, root);
        entry->type = !there ? DOCTOR_LOST : S_ISREG(about.st_mode) ? DOCTOR_FILE : DOCTOR_OTHER;
    } else {
        entry->type = S_ISREG(about.st_mode) ? DOCTOR_FILE : S_ISDIR(about.st_mode) ? DOCTOR_DIR : DOCTOR_OTHER;
    }
    entry->size = S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
    free(path);
}

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const doctor_entry *)a)->name, ((const doctor_entry *)b)->name);
}

bool doctor_list(doctor_folder *folder, const char *root)
{
    doctor *d = folder->doctor;
    struct dirent **entries = NULL;
    const int count = scandir(folder->path, &entries, NULL, alphasort);
    if (count < 0) {
        doctor_add_in(folder, DOCTOR_ERROR, "unreadable", "", "cannot list the folder: %s", strerror(errno));
        d->unreadable = true;
        return false;
    }
    folder->entries = calloc((size_t)count + 1, sizeof *folder->entries);
    folder->count = 0;
    d->failed = d->failed || folder->entries == NULL;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (folder->entries != NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !cli_interrupted()) {
            doctor_entry *entry = &folder->entries[folder->count];
            entry->name = strdup(name);
            d->failed = d->failed || entry->name == NULL;
            folder->count += entry->name != NULL;
        }
        free(entries[i]);
    }
    free(entries);
    for (size_t i = 0; i < folder->count; i++) {
        look_at_entry(folder, &folder->entries[i], root);
    }
    if (folder->count > 0) {
        qsort(folder->entries, folder->count, sizeof *folder->entries, by_entry);
    }
    return !d->failed;
}

void doctor_unlist(doctor_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        free(folder->entries[i].name);
    }
    free(folder->entries);
    free(folder->type);
    folder->entries = NULL;
    folder->count = 0;
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const doctor_entry *)entry)->name);
}

doctor_entry *doctor_entry_of(const doctor_folder *folder, const char *name)
{
    return folder->count == 0 ? NULL
                              : bsearch(name, folder->entries, folder->count, sizeof *folder->entries, compare_name);
}

bool doctor_owns(const doctor_folder *folder, const coffer *model)
{
    bool owns = folder->input == NULL;
    for (size_t i = 0; i < coffer_shard_count(model) && owns; i++) {
        const char *path = coffer_shard_path(model, i);
        const char *slash = cli_last_slash(path);
        const doctor_entry *entry = doctor_entry_of(folder, slash != NULL ? slash + 1 : path);
        owns = entry != NULL && entry->type == DOCTOR_FILE && !entry->link;
    }
    return owns;
}

bool doctor_has(const doctor_folder *folder, const char *name)
{
    coffer_error err;
    uint32_t file = 0;
    if (folder->input != NULL) {
        return coffer_input_beside(folder->input, name, strlen(name), &file, NULL, &err) == COFFER_OK;
    }
    const doctor_entry *entry = doctor_entry_of(folder, name);
    return entry != NULL && entry->type == DOCTOR_FILE;
}

/* ---- Reading ---- */

static bool read_local(const doctor_folder *folder, const char *name, size_t most, cli_input *text)
{
    char *path = joined(folder->path, name);
    const int error = path != NULL ? cli_input_read_regular(path, most, text) : ENOMEM;
    free(path);
    if (error == 0 || folder->reported) {
        return error == 0;
    }
    if (error == EFBIG) {
        doctor_add_in(folder, DOCTOR_ERROR, "too_large", name,
                      "the file has more than %zu bytes, too many for this kind of file; it was not read", most);
    } else {
        doctor_add_in(folder, DOCTOR_ERROR, "unreadable", name, "cannot read the file: %s", strerror(error));
        folder->doctor->unreadable = true;
    }
    return false;
}

static bool read_beside(const doctor_folder *folder, const char *name, size_t most, cli_input *text)
{
    coffer_error err;
    uint32_t file = 0;
    uint64_t size = 0;
    if (coffer_input_beside(folder->input, name, strlen(name), &file, &size, &err) != COFFER_OK) {
        return false;
    }
    if (size > most) {
        doctor_add_in(folder, DOCTOR_ERROR, "too_large", name, "the file has more than %zu bytes; it was not read",
                      most);
        return false;
    }
    text->bytes = malloc((size_t)size + 1);
    if (text->bytes == NULL) {
        folder->doctor->failed = true;
        return false;
    }
    text->size = (size_t)size;
    const coffer_status status = coffer_input_read(folder->input, file, 0, text->bytes, text->size, &err);
    if (status != COFFER_OK) {
        free(text->bytes);
        *text = (cli_input){ .size = 0 };
        doctor_add_failure(folder->doctor, "unreadable", name, &err);
        return false;
    }
    text->bytes[text->size] = '\0';
    return true;
}

bool doctor_read(const doctor_folder *folder, const char *name, size_t most, cli_input *text)
{
    *text = (cli_input){ .size = 0 };
    if (folder->input != NULL) {
        return read_beside(folder, name, most, text);
    }
    return doctor_has(folder, name) && read_local(folder, name, most, text);
}

void doctor_add_broken_json(const doctor_folder *folder, const char *name, const char *what, size_t at)
{
    doctor_finding *finding = doctor_add_in(folder, DOCTOR_ERROR, "json", name, "the file is not valid JSON: %s", what);
    if (finding != NULL) {
        finding->offset = at;
    }
}

bool doctor_read_json(const doctor_folder *folder, const char *name, cli_input *text, cli_document *document)
{
    *document = (cli_document){ .text = NULL };
    if (!doctor_read(folder, name, CLI_CONFIG_MAX, text)) {
        return false;
    }
    if (cli_document_read(document, text->bytes, text->size)) {
        return true;
    }
    if (document->what == NULL) {
        folder->doctor->failed = true;
    } else if (!folder->reported) {
        doctor_add_broken_json(folder, name, document->what, document->at);
    }
    free(text->bytes);
    *text = (cli_input){ .size = 0 };
    return false;
}
