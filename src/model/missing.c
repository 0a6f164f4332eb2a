/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model, listed without opening them, and those that are not there: see missing.h and coffer.h. */
#include "missing.h"

#include "error.h"
#include "index.h"
#include "libc_allocator.h"
#include "model.h"
#include "os.h"
#include "place.h"
#include "trouble.h"
#include "url.h"

#include <errno.h>
#include <string.h>

/* ---- what is missing --------------------------------------------------------------------------------------------- */

void coffer__missing_look(coffer__missing *missing, const char *beside, coffer__name name)
{
    coffer__path path;
    coffer__path plain = { "" };
    if (coffer__path_append(&plain, name.text, name.len) && coffer__path_sibling(&path, beside, plain.text) &&
        coffer__os_exists(path.text)) {
        return;
    }
    if (missing->count < COFFER__MISSING_NAMED) {
        (void)coffer__text_append(missing->names[missing->count], sizeof missing->names[0], name.text, name.len);
    }
    missing->count++;
}

coffer_status coffer__missing_fail(const coffer__missing *missing, size_t total, const char *why, coffer_error *err)
{
    /* Of one file the failure has the path; a format may leave out what comes last. */
    static const char *const formats[] = {
        "%u of the model's %u files do not exist: %s",
        "%u of the model's %u files do not exist: %s: %q",
        "%u of the model's %u files do not exist: %s: %q and %q",
        "%u of the model's %u files do not exist: %s: %q, %q and %q",
        "%u of the model's %u files do not exist: %s: %q, %q, %q and %u more",
    };
    const size_t last = sizeof formats / sizeof formats[0] - 1;
    const char *first = missing->names[0];
    const char *second = missing->names[1];
    const char *third = missing->names[2];
    coffer__fail(err, COFFER_ERR_SHARD_MISSING, formats[missing->count < last ? missing->count : last],
                 (uint64_t)missing->count, (uint64_t)total, why, first, strlen(first), second, strlen(second), third,
                 strlen(third), (uint64_t)(missing->count - COFFER__MISSING_NAMED));
    return coffer__fail_sizes(err, COFFER_ERR_SHARD_MISSING, total, total - missing->count);
}

void coffer__shard_name_make(coffer__path *name, const char *first, const coffer__shard_name *parts, uint32_t number)
{
    (void)coffer__path_copy(name, first);
    for (size_t i = parts->prefix_len + parts->digits; i > parts->prefix_len; i--, number /= 10) {
        name->text[i - 1] = (char)('0' + number % 10);
    }
}

/* ---- the files of a model ---------------------------------------------------------------------------------------- */

typedef struct missing_listing {
    const coffer_allocator *allocator;
    coffer_file_visitor visit;
    void *ctx;
} missing_listing;

static coffer_status missing_show(const missing_listing *listing, const char *path, coffer_error *err)
{
    if (listing->visit(listing->ctx, path, coffer__os_exists(path)) == 0) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_CANCELLED, "the listing was ended by the caller");
}

/* The file of that name in the folder of the path `beside`. */
static coffer_status missing_show_beside(const missing_listing *listing, const char *beside, const char *name,
                                         coffer_error *err)
{
    coffer__path path;
    return coffer__path_sibling(&path, beside, name) ? missing_show(listing, path.text, err)
                                                     : coffer__trouble(err, "name the file", beside, ENAMETOOLONG);
}

/* `path` is that of any file of the set. */
static coffer_status missing_list_set(const missing_listing *listing, const char *path, const coffer__shard_name *parts,
                                      coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const char *name = path + coffer__path_name_at(path);
    for (uint32_t number = 1; number <= parts->total && status == COFFER_OK; number++) {
        coffer__path file;
        coffer__shard_name_make(&file, name, parts, number);
        status = missing_show_beside(listing, path, file.text, err);
    }
    return status;
}

static coffer_status missing_list_file(const missing_listing *listing, const char *path, coffer_error *err)
{
    coffer__shard_name parts;
    const char *name = path + coffer__path_name_at(path);
    return coffer__shard_name_read(&parts, name, strlen(name)) ? missing_list_set(listing, path, &parts, err)
                                                               : missing_show(listing, path, err);
}

static coffer_status missing_list_index(const missing_listing *listing, const char *path, coffer_error *err)
{
    coffer__whole text;
    coffer__index index;
    coffer_status status = coffer__place_read(path, NULL, COFFER__INDEX_MOST_BYTES, listing->allocator, &text, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    status = coffer__index_read(&index, text.bytes, text.size, listing->allocator, err);
    status = status == COFFER_OK ? status : coffer__fail_path(err, status, path);
    for (size_t i = 0; status == COFFER_OK && i < index.shard_count; i++) {
        coffer__path name = { "" };
        const coffer__name file = index.shards[i].file;
        status = coffer__path_append(&name, file.text, file.len)
                     ? missing_show_beside(listing, path, name.text, err)
                     : coffer__trouble(err, "name the file", path, ENAMETOOLONG);
    }
    coffer__index_free(&index);
    coffer__place_forget(&text, listing->allocator);
    return status;
}

/* What coffer_open would open, complete or not. */
static coffer_status missing_list_folder(const missing_listing *listing, const char *path, coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, listing->allocator, err);
    const bool incomplete = status == COFFER_ERR_SHARD_MISSING && found.set_count > 0;
    if (status == COFFER_OK || incomplete) {
        status = found.is_index ? missing_list_index(listing, found.path.text, err)
                                : missing_list_file(listing, found.path.text, err);
    }
    coffer__found_free(&found, listing->allocator);
    return status;
}

coffer_status coffer_list_files(const char *path, const coffer_allocator *allocator, coffer_file_visitor visit,
                                void *ctx, coffer_error *err)
{
    coffer__os_info info;
    const missing_listing listing = { coffer__allocator_or_libc(allocator), visit, ctx };
    if (path == NULL || visit == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the path of a model and a visitor for its files are wanted");
    }
    if (coffer__url_is(path)) {
        coffer__fail(err, COFFER_ERR_UNSUPPORTED, "only files that lie here can be listed");
        return coffer__fail_path(err, COFFER_ERR_UNSUPPORTED, path);
    }
    if (coffer__is_index_path(path)) {
        return missing_list_index(&listing, path, err);
    }
    const bool is_folder = coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY;
    return is_folder ? missing_list_folder(&listing, path, err) : missing_list_file(&listing, path, err);
}
