/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying a file or folder by a manifest beside it. */
#include "cli_folder.h"
#include "cli_inputs.h"
#include "cli_manifest.h"
#include "cli_parallel.h"
#include "cli_report.h"
#include "cli_text.h"
#include "verify.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_TRIED 16 /* files that are looked for where none is in its place */

/* One of the manifest's files. */
typedef struct manifest_file {
    const coffer_manifest_entry *entry;
    char *path;
    bool missing;
    bool known; /* by the state */
    cli_digest digest;
    coffer_status status;
    coffer_error *err; /* only where it cannot be read: there may be very many files, and most errors are long */
} manifest_file;

typedef struct manifest_run {
    verify_run *run;
    coffer_manifest *manifest;
    const char *path;
    manifest_file *files; /* in byte order of their names */
    size_t count;
} manifest_run;

/* ---- Reading the manifest ---- */

static coffer_manifest *read_manifest(verify_run *run)
{
    cli_input text;
    cli_input key = { .size = 0 };
    coffer_error err;
    coffer_manifest *manifest = NULL;
    if (!cli_input_read(run->app, run->manifest, CLI_MANIFEST_MAX, &text, &run->code)) {
        return NULL;
    }
    if (run->key == NULL || cli_input_read(run->app, run->key, CLI_KEY_MAX, &key, &run->code)) {
        const coffer_status status =
            coffer_manifest_parse(&manifest, text.bytes, text.size, key.bytes, key.size, NULL, &err);
        if (status != COFFER_OK) {
            run->code = cli_fail(run->app, status == COFFER_ERR_KEY ? run->key : run->manifest, &err);
        }
    }
    cli_input_free(&key);
    cli_input_free(&text);
    return manifest;
}

static int by_entry_name(const void *a, const void *b)
{
    return strcmp(((const manifest_file *)a)->entry->name, ((const manifest_file *)b)->entry->name);
}

/* The file of that name, or the first one after it. */
static size_t find_file(const manifest_run *m, const char *name)
{
    size_t low = 0;
    for (size_t high = m->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(m->files[middle].entry->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has_file(const manifest_run *m, const char *name)
{
    const size_t at = find_file(m, name);
    return at < m->count && strcmp(m->files[at].entry->name, name) == 0;
}

/* Whether the manifest names something below a folder. */
static bool has_below(const manifest_run *m, const char *name)
{
    const size_t len = strlen(name);
    char *prefix = malloc(len + 2);
    if (prefix == NULL) {
        return true; /* then it is looked at */
    }
    snprintf(prefix, len + 2, "%s/", name);
    const size_t at = find_file(m, prefix);
    const bool found = at < m->count && strncmp(m->files[at].entry->name, prefix, len + 1) == 0;
    free(prefix);
    return found;
}

/* ---- Which files ---- */

/* What the manifest ignores, unless it names the file itself or something below the folder: then it is
   looked at in spite of that. */
static bool is_passed_over(const void *ctx, const char *name)
{
    const manifest_run *m = ctx;
    return coffer_manifest_ignores(m->manifest, name) && !has_file(m, name) && !has_below(m, name);
}

/* Statements are about the folder as a whole: what is in it is listed, and held against what they name. */
static bool match_folder(manifest_run *m)
{
    cli_folder folder;
    verify_run *run = m->run;
    const bool follows = run->follows_links || coffer_manifest_follows_links(m->manifest);
    const cli_folder_rule rule = { .follows_links = follows, .leaves_out = is_passed_over, .ctx = m };
    if (!cli_manifest_pass_over(m->manifest, m->path, run->manifest)) {
        run->code = cli_fail_memory(run->app, m->path);
        return false;
    }
    run->code = cli_worse(run->code, cli_folder_list(run->app, m->path, &rule, &folder));
    for (size_t i = 0; i < m->count; i++) {
        m->files[i].missing = true;
    }
    for (size_t i = 0; i < folder.count; i++) {
        const size_t at = find_file(m, folder.files[i].name);
        if (at < m->count && strcmp(m->files[at].entry->name, folder.files[i].name) == 0) {
            m->files[at].missing = false;
        } else if (!run->ignores_extra) {
            verify_show_problem(run, folder.files[i].path, NULL, "extra", "is not in the manifest");
        }
    }
    cli_folder_free(&folder);
    return true;
}

static const char *last_part(const char *path)
{
    const char *slash = cli_last_slash(path);
    return slash != NULL ? slash + 1 : path;
}

/* Which entry is about the one file: that of its whole path, else the only one that is "." or ends
   in its name. NULL when there is none, or several. */
static const coffer_manifest_entry *entry_of_file(const manifest_run *m)
{
    const coffer_manifest_entry *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < coffer_manifest_count(m->manifest); i++) {
        const coffer_manifest_entry *entry = coffer_manifest_at(m->manifest, i);
        if (strcmp(entry->name, m->path) == 0) {
            return entry;
        }
        if (strcmp(entry->name, ".") == 0 || strcmp(last_part(entry->name), last_part(m->path)) == 0) {
            found = entry;
            count++;
        }
    }
    return count == 1 ? found : NULL;
}

static bool take_entry(manifest_run *m, const coffer_manifest_entry *entry, const char *folder)
{
    manifest_file *file = &m->files[m->count++];
    const size_t len = strlen(m->path);
    const size_t size = len + strlen(entry->name) + 2;
    file->entry = entry;
    file->path = malloc(size);
    if (file->path == NULL) {
        m->run->code = cli_fail_memory(m->run->app, m->path);
        return false;
    }
    if (folder == NULL) {
        snprintf(file->path, size, "%s", m->path);
    } else {
        snprintf(file->path, size, "%s%s%s", folder, len > 0 && cli_is_slash(folder[len - 1]) ? "" : "/", entry->name);
    }
    return true;
}

static bool take_file(manifest_run *m)
{
    const coffer_manifest_entry *entry = entry_of_file(m);
    if (entry == NULL) {
        verify_show_problem(m->run, m->path, NULL, "extra",
                            "is not in the manifest, or has several entries of that name");
        return false;
    }
    return take_entry(m, entry, NULL);
}

/* Lines, as sha256sum has them, do not claim to name all files of the folder; the other formats do. */
static bool take_folder(manifest_run *m)
{
    const bool is_lines = coffer_manifest_format_of(m->manifest) == COFFER_MANIFEST_LINES;
    for (size_t i = 0; i < coffer_manifest_count(m->manifest); i++) {
        const coffer_manifest_entry *entry = coffer_manifest_at(m->manifest, i);
        if (strcmp(entry->name, ".") == 0) {
            verify_show_problem(m->run, m->path, NULL, "folder", "is a folder, but the manifest is about one file");
            return false;
        }
        if (!take_entry(m, entry, m->path)) {
            return false;
        }
    }
    qsort(m->files, m->count, sizeof *m->files, by_entry_name);
    return is_lines || match_folder(m);
}

/* ---- Their digests ---- */

/* Runs on any thread. A file that was verified before, and has not changed since, is not read again. The
   error is allocated, since few files have one and it is large. */
static void check_one(void *ctx, size_t i)
{
    const manifest_run *m = ctx;
    manifest_file *file = &m->files[i];
    cli_identity now;
    char what[CLI_STATE_WHAT_SIZE];
    if (file->missing) {
        return;
    }
    cli_state_what(file->entry->algorithm, file->entry->digest, what);
    if (cli_identify(file->path, &now) && cli_state_has(m->run->state, what, &now)) {
        file->known = true;
        cli_progress_add(&m->run->progress, now.size);
        return;
    }
    coffer_error err;
    file->status = cli_digest_file(file->path, file->entry->algorithm, &m->run->progress, &file->digest, &err);
    file->missing = file->status == COFFER_ERR_NOT_FOUND;
    if (file->status != COFFER_OK && !file->missing) {
        file->err = malloc(sizeof *file->err);
        if (file->err != NULL) {
            *file->err = err;
        }
    }
}

/* Runs in order, on the calling thread: the counts and the state need no lock. Only what matched is
   added to the state. */
static void show_one(void *ctx, size_t i)
{
    const manifest_run *m = ctx;
    const manifest_file *file = &m->files[i];
    verify_run *run = m->run;
    const coffer_manifest_entry *entry = file->entry;
    if (file->missing) {
        verify_show_problem(run, file->path, NULL, "missing", "is missing");
    } else if (file->known) {
        run->unread++;
        verify_show_sound(run, file->path, "verified before");
    } else if (file->status != COFFER_OK) {
        coffer_error none;
        (void)cli_no_memory(&none);
        verify_show_trouble(run, file->path, file->err != NULL ? file->err : &none);
    } else {
        run->bytes += file->digest.size;
        if (cli_same_digest(entry->algorithm, entry->digest, file->digest.bytes)) {
            char what[CLI_STATE_WHAT_SIZE];
            cli_state_what(entry->algorithm, entry->digest, what);
            cli_state_add(run->state, what, &file->digest.identity, file->digest.begun);
            verify_show_sound(run, file->path, coffer_algorithm_name(entry->algorithm));
        } else {
            verify_show_problem(run, file->path, NULL, "changed",
                                entry->algorithm == COFFER_SHA256
                                    ? "was changed: it does not match the manifest"
                                    : "was changed: it does not match the manifest, if its 32 digits are XXH128, as "
                                      "xxhsum writes it, and not MD5");
        }
    }
}

/* The sizes are only for the line of progress: a file that is missing counts nothing. */
static void check_all(manifest_run *m)
{
    uint64_t total = 0;
    const cli_jobs jobs = { check_one, show_one, m };
    for (size_t i = 0; i < m->count; i++) {
        cli_identity identity = { .size = 0 };
        (void)cli_identify(m->files[i].path, &identity);
        total += identity.size;
    }
    cli_progress_begin(&m->run->progress, m->run->app, "verifying", total);
    cli_parallel(&jobs, m->count, cli_processors());
    cli_progress_finish(&m->run->progress);
}

/* ---- A manifest that is of another folder ---- */

static bool is_in(const char *folder, const char *sub, const char *name)
{
    cli_identity found;
    const size_t size = strlen(folder) + strlen(sub) + strlen(name) + 3;
    char *path = malloc(size);
    if (path == NULL) {
        return false;
    }
    snprintf(path, size, "%s/%s%s%s", folder, sub, sub[0] != '\0' ? "/" : "", name);
    const bool is_there = cli_identify(path, &found);
    free(path);
    return is_there;
}

/* Whether one of the first files is there without so many bytes of its name, in a folder of the one
   that is verified. */
static bool has_some(const manifest_run *m, const char *sub, size_t prefix_len)
{
    bool found = false;
    for (size_t i = 0; i < m->count && i < MANIFEST_TRIED && !found; i++) {
        found = is_in(m->path, sub, m->files[i].entry->name + prefix_len);
    }
    return found;
}

/* How many bytes of all names lead to the folder that is verified, so that the files are there
   without them; 0: they do not. */
static size_t prefix_of_names(const manifest_run *m)
{
    const char *first = m->files[0].entry->name;
    for (const char *slash = strchr(first, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const size_t len = (size_t)(slash - first) + 1;
        bool all = true;
        for (size_t i = 0; i < m->count && all; i++) {
            all = strncmp(m->files[i].entry->name, first, len) == 0;
        }
        if (all && has_some(m, "", len)) {
            return len;
        }
    }
    return 0;
}

/* The folder in the one that is verified that has files of the manifest, the first of them by name;
   to be freed, and NULL where there is none. */
static char *folder_of_names(const manifest_run *m)
{
    char *found = NULL;
    const struct dirent *item = NULL;
    DIR *folder = opendir(m->path);
    /* cppcheck-suppress readdirCalled */
    while (folder != NULL && (item = readdir(folder)) != NULL) {
        const bool is_dots = strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0;
        const bool is_earlier = found == NULL || strcmp(item->d_name, found) < 0;
        if (!is_dots && is_earlier && has_some(m, item->d_name, 0)) {
            free(found);
            found = strdup(item->d_name);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return found;
}

/* Where nothing is found, the names may be those of the folder above, or of one in it. */
static void explain_missing(const manifest_run *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (!m->files[i].missing) {
            return;
        }
    }
    if (m->count == 0 || !cli_is_folder(m->path)) {
        return;
    }
    char shown[400];
    const size_t len = prefix_of_names(m);
    char *folder = len == 0 ? folder_of_names(m) : NULL;
    if (len > 0) {
        coffer_escape(m->files[0].entry->name, len, shown, sizeof shown);
        cli_remark_path(m->run->app, m->run->manifest,
                        "its names begin with \"%s\", but the files here do not: verify the folder that "
                        "holds \"%s\"",
                        shown, shown);
    } else if (folder != NULL) {
        coffer_escape(folder, strlen(folder), shown, sizeof shown);
        cli_remark_path(m->run->app, m->run->manifest,
                        "its files are in \"%s/\" here, but its names do not begin with that: verify that folder",
                        shown);
    }
    free(folder);
}

void verify_by_manifest(verify_run *run, const char *path)
{
    manifest_run m = { .run = run, .path = path, .manifest = read_manifest(run) };
    if (m.manifest == NULL) {
        return;
    }
    m.files = calloc(coffer_manifest_count(m.manifest) + 1, sizeof *m.files);
    if (m.files == NULL) {
        run->code = cli_fail_memory(run->app, path);
    } else if (cli_is_folder(path) ? take_folder(&m) : take_file(&m)) {
        check_all(&m);
        explain_missing(&m);
    }
    if (coffer_manifest_format_of(m.manifest) == COFFER_MANIFEST_BUNDLE && run->key == NULL) {
        cli_remark_path(run->app, run->manifest, "its signature was not checked: that needs --key PUBLIC_KEY");
    }
    for (size_t i = 0; m.files != NULL && i < m.count; i++) {
        free(m.files[i].path);
        free(m.files[i].err);
    }
    free(m.files);
    coffer_manifest_free(m.manifest);
}
