/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the files of a model without opening them, whether they exist or not. */
#include "discover.h"
#include "errno_status.h"
#include "error.h"
#include "index.h"
#include "libc_allocator.h"
#include "model_dir.h"
#include "os.h"
#include "shard_name.h"
#include "url.h"

#include <errno.h>
#include <string.h>

/* The visitor is the caller's. It is called on the calling thread, for each file in order, and may
   end the listing. */
typedef struct files_listing {
    const coffer_allocator *allocator;
    coffer_file_visitor visit;
    void *ctx;
} files_listing;

/* Links are followed to see whether the file exists: one that leads nowhere counts as missing. */
static coffer_status list_show(const files_listing *listing, const char *path, coffer_error *err)
{
    if (listing->visit(listing->ctx, path, coffer__os_exists(path)) == 0) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_CANCELLED, "the caller ended the listing");
}

/* Shows the file of that name in the folder of the path `beside`. The path is spelt as the caller
   spelt the folder. */
static coffer_status list_show_beside(const files_listing *listing, const char *beside, const char *name,
                                      coffer_error *err)
{
    coffer__path path;
    return coffer__path_sibling(&path, beside, name) ? list_show(listing, path.text, err)
                                                     : coffer__errno_status(err, "name the file", beside, ENAMETOOLONG);
}

/* Shows all files of a set; `path` is that of any one of them. The total comes from a name and may
   be large, so the names are made one at a time and not kept. */
static coffer_status list_set(const files_listing *listing, const char *path, const coffer__shard_name *parts,
                              coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const char *name = path + coffer__path_name_at(path);
    for (uint32_t number = 1; number <= parts->total && status == COFFER_OK; number++) {
        coffer__path file;
        coffer__shard_name_make(&file, name, parts, number);
        status = list_show_beside(listing, path, file.text, err);
    }
    return status;
}

/* Only the name decides. A lone file that is named as one of a set is listed with the others, which
   is how a missing one is seen. */
static coffer_status list_file(const files_listing *listing, const char *path, coffer_error *err)
{
    coffer__shard_name parts;
    const char *name = path + coffer__path_name_at(path);
    return coffer__shard_name_read(&parts, name, strlen(name)) ? list_set(listing, path, &parts, err)
                                                               : list_show(listing, path, err);
}

/* The index is read and checked as for opening, so no name leads out of its folder. The names are
   those of the index, in byte order, and all of them: nothing is selected here. Links are not
   judged, since no file is opened. */
static coffer_status list_index(const files_listing *listing, const char *path, coffer_error *err)
{
    coffer__whole text;
    coffer__model_index index;
    coffer_status status = coffer__model_dir_read(path, NULL, COFFER__INDEX_MAX_BYTES, listing->allocator, &text, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    status = coffer__index_read(&index, text.bytes, text.size, coffer__model_dir_check_shard, listing->allocator, err);
    if (status != COFFER_OK) {
        coffer__fail_path(err, status, path);
    }
    for (size_t i = 0; status == COFFER_OK && i < index.shard_count; i++) {
        coffer__path name = { "" };
        const coffer__name file = index.shards[i].file;
        status = coffer__path_append(&name, file.text, file.len)
                     ? list_show_beside(listing, path, name.text, err)
                     : coffer__errno_status(err, "name the file", path, ENAMETOOLONG);
    }
    coffer__index_free(&index);
    coffer__whole_free(&text, listing->allocator);
    return status;
}

/* Lists what coffer_open would open, complete or not. Discovery keeps the set that it found even if
   files of it are missing, and those that are missing are listed as such. */
static coffer_status list_folder(const files_listing *listing, const char *path, coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, listing->allocator, err);
    const bool incomplete = status == COFFER_ERR_SHARD_MISSING && found.set_count > 0;
    if (status == COFFER_OK || incomplete) {
        status = found.is_index ? list_index(listing, found.path.text, err) : list_file(listing, found.path.text, err);
    }
    coffer__found_free(&found, listing->allocator);
    return status;
}

/* A path that is neither an index nor a folder is a file, whether it exists or not; if it is named
   as one of a set, the whole set is listed. */
coffer_status coffer_list_files(const char *path, const coffer_allocator *allocator, coffer_file_visitor visit,
                                void *ctx, coffer_error *err)
{
    coffer__os_info info;
    const files_listing listing = { coffer__allocator_or_libc(allocator), visit, ctx };
    if (path == NULL || visit == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "listing needs the path of a model and a visitor for its files");
    }
    if (coffer__url_is(path)) {
        coffer__fail(err, COFFER_ERR_UNSUPPORTED, "only local files can be listed");
        return coffer__fail_path(err, COFFER_ERR_UNSUPPORTED, path);
    }
    if (coffer_is_index(path)) {
        return list_index(&listing, path, err);
    }
    const bool is_folder = coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY;
    return is_folder ? list_folder(&listing, path, err) : list_file(&listing, path, err);
}
