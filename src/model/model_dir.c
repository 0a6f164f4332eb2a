/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of a model are: see model_dir.h for the rule about links, and model_dir_name.h for the one
 * about names. Both defend against an index from a stranger. Links are resolved to a real path
 * first, and that path is compared with the folders that are allowed and then opened, so the check
 * and the opening see the same path without links.
 */
#include "model_dir.h"
#include "source_http.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "text.h"

#include <errno.h>
#include <string.h>

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* The real path of a folder, with a slash at its end; 0 or an errno. With the slash, a prefix of a
   path is a folder that has it, and not one whose name begins alike. A path that does not fit is
   refused, never cut. */
static int model_dir_real_folder(const char *folder, coffer__path *real)
{
    const int os_error = coffer__os_real_path(folder, real->text, sizeof real->text);
    if (os_error != 0) {
        return os_error;
    }
    const size_t len = strlen(real->text);
    return real->text[len - 1] == '/' || coffer__path_append(real, "/", 1) ? 0 : ENAMETOOLONG;
}

/* If the name of the index is itself a link that leads elsewhere, the folder where it leads is
   allowed, too: a folder of links to the files of another folder can be read like that folder. This
   is how people combine files of their own with links to a model's. */
static void model_dir_other_of_link(coffer__model_dir *place, const char *path)
{
    coffer__path real;
    if (coffer__os_real_path(path, real.text, sizeof real.text) == 0) {
        real.text[coffer__path_name_at(real.text)] = '\0';
        if (strcmp(real.text, place->real.text) != 0) {
            place->other = real;
        }
    }
}

/* For a folder …/snapshots/REVISION/, or one below it, links may lead into …/blobs/. The last
   "/snapshots/" in the path is the cache's own. A folder that does not exist is not allowed. The
   folder of blobs is resolved itself, so a link in its place is judged by where it leads. It is
   asked only when the index is no link to another folder: there is space for one folder. */
static void model_dir_other_of_hub(coffer__model_dir *place)
{
    static const char snapshots[] = "/snapshots/";
    const char *text = place->real.text;
    const char *found = NULL;
    for (const char *next = strstr(text, snapshots); next != NULL; next = strstr(next + 1, snapshots)) {
        found = next;
    }
    coffer__path blobs = { { 0 } };
    if (found != NULL && found[sizeof snapshots - 1] != '\0' &&
        coffer__path_append(&blobs, text, (size_t)(found - text)) && coffer__path_append(&blobs, "/blobs", 6) &&
        model_dir_real_folder(blobs.text, &place->other) != 0) {
        place->other.text[0] = '\0';
    }
}

/* Keeps what stands before the name in a URL. The query is dropped, as it belongs to that
   one file. */
static coffer_status model_dir_beside_url(coffer__model_dir *place, const char *url, coffer_error *err)
{
    /* Up to the last slash of the path; a slash in the query does not count. */
    size_t len = 0;
    for (size_t at = 0; url[at] != '\0' && url[at] != '?'; at++) {
        len = url[at] == '/' ? at + 1 : len;
    }
    return coffer__path_append(&place->given, url, len)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
}

/* The place of a folder is its real path, taken once: replacing a link in the path later does not
   change which files are opened. `given` is kept as the user wrote it, because messages should show
   paths that the user knows. */
coffer_status coffer__model_dir_beside(coffer__model_dir *place, const char *path, coffer_error *err)
{
    coffer__path folder;
    if (place->web != NULL) {
        return model_dir_beside_url(place, path, err);
    }
    if (!coffer__path_directory(&folder, path)) {
        return coffer__errno_status(err, "find the model's folder", path, ENAMETOOLONG);
    }
    /* Links in the folder's path are resolved here, once. */
    const int os_error = model_dir_real_folder(folder.text, &place->real);
    if (os_error != 0) {
        return coffer__errno_status(err, "find the model's folder", path, os_error);
    }
    (void)coffer__path_append(&place->given, path, coffer__path_name_at(path));
    model_dir_other_of_link(place, path);
    if (place->other.text[0] == '\0') {
        model_dir_other_of_hub(place);
    }
    return COFFER_OK;
}

bool coffer__model_dir_join(const coffer__model_dir *place, coffer__name name, coffer__path *path)
{
    *path = place->given;
    return coffer__path_append(path, name.text, name.len);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Whether a real path is in a folder or below it. An empty folder stands for none. The folder ends
   in a slash, so /a/bc is not below /a/b/. */
static bool model_dir_is_below(const char *path, const coffer__path *folder)
{
    const size_t len = strlen(folder->text);
    return len > 0 && strncmp(path, folder->text, len) == 0;
}

/* Two reasons, two remedies: a link that leads nowhere is what an interrupted or cleaned cache
   leaves. */
static coffer_status model_dir_missing(bool is_link, int os_error, coffer_error *err)
{
    coffer__fail(
        err, COFFER_ERR_SHARD_MISSING, "%s",
        is_link
            ? "this file of the model is a symbolic link to one that does not exist: a download that was "
              "interrupted or cleaned up? Fetch it again"
            : "this file of the model does not exist: the download is incomplete, or the index is of another model");
    return coffer__fail_errno(err, COFFER_ERR_SHARD_MISSING, os_error);
}

/* Replaces a link by what it leads to, if it may be followed there. After this the path has no
   links, and the pool opens it as such. */
static coffer_status model_dir_follow(const coffer__model_dir *place, coffer__path *path, coffer_error *err)
{
    coffer__path target;
    const int os_error = coffer__os_real_path(path->text, target.text, sizeof target.text);
    if (os_error == ENOENT || os_error == ENOTDIR) {
        return model_dir_missing(true, os_error, err);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "follow the symbolic link", NULL, os_error);
    }
    /* Both paths are real ones, without links, "." and "..", so a common beginning is enough. */
    if (!model_dir_is_below(target.text, &place->real) && !model_dir_is_below(target.text, &place->other)) {
        return coffer__fail(err, COFFER_ERR_SHARD_LINK,
                            "this file of the model is a symbolic link out of the model's folder, to %p: links are "
                            "followed only into the folder of the index",
                            target.text);
    }
    *path = target;
    return COFFER_OK;
}

/* A file's real path, absolute and without a link. Only links are resolved, so an ordinary file
   costs one system call before it is opened. A path below the folder may have links on its way, so
   it is always resolved. */
static coffer_status model_dir_find(const coffer__model_dir *place, coffer__name name, coffer__path *path,
                                    coffer_error *err)
{
    coffer__os_info info;
    *path = place->real;
    if (!coffer__path_append(path, name.text, name.len)) {
        return coffer__errno_status(err, "open the file", NULL, ENAMETOOLONG);
    }
    /* The link itself is looked at, if it is one. */
    const int os_error = coffer__os_inspect(path->text, false, &info);
    if (os_error == ENOENT || os_error == ENOTDIR) {
        return model_dir_missing(false, os_error, err);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "look at the file", NULL, os_error);
    }
    const bool plain = memchr(name.text, '/', name.len) == NULL;
    return info.kind == COFFER__OS_LINK || !plain ? model_dir_follow(place, path, err) : COFFER_OK;
}

/* Compares bytes with the SHA-256 that is stated of them. If SHA-256 is not available here, nothing
   is compared, as if the server stated no digest. */
static coffer_status model_dir_compare(const void *bytes, size_t size, const uint8_t stated[32],
                                       const coffer_allocator *allocator, coffer_error *err)
{
    uint8_t digest[32] = { 0 };
    coffer_hasher *hasher = NULL;
    if (coffer_hasher_new(&hasher, COFFER_SHA256, allocator, NULL) != COFFER_OK) {
        return COFFER_OK;
    }
    coffer_status status = size == 0 ? COFFER_OK : coffer_hasher_update(hasher, bytes, size, err);
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest, sizeof digest, err);
    }
    coffer_hasher_free(hasher);
    if (status == COFFER_OK && memcmp(digest, stated, sizeof digest) != 0) {
        return coffer__fail(err, COFFER_ERR_ANSWER,
                            "the received bytes do not match the SHA-256 that the server states; try again");
    }
    return status;
}

coffer_status coffer__model_dir_verify(const coffer__byte_source *source, const coffer_allocator *allocator,
                                       coffer_error *err)
{
    uint8_t stated[32];
    const void *bytes = coffer__source_kept(source);
    return bytes != NULL && coffer__source_stated_sha256(source, stated)
               ? model_dir_compare(bytes, (size_t)source->size, stated, allocator, err)
               : COFFER_OK;
}

/* Closes a source that is not what its server states. */
static coffer_status model_dir_verified(coffer__byte_source *source, const coffer_allocator *allocator,
                                        coffer_error *err)
{
    const coffer_status status = coffer__model_dir_verify(source, allocator, err);
    if (status != COFFER_OK) {
        source->ops->close(source);
    }
    return status;
}

/* Opens a file at a URL. A file in the Hub's cache is opened there; its links are the cache's own
   and are followed freely. A file that the server does not have is a missing file of the model,
   with the words for that. */
static coffer_status model_dir_open_url(const coffer__model_dir *place, coffer__name name,
                                        const coffer_allocator *allocator, coffer__pool *pool, coffer__pooled *file,
                                        coffer__byte_source *source, coffer_error *err)
{
    coffer__location at;
    coffer__path real;
    coffer_status status = coffer__web_beside(place->web, name.text, name.len, place->commit, &at, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Not in the cache: from the server. */
    if (at.local.text[0] == '\0') {
        status = coffer__source_web(source, place->web, &at.address, place->watch, allocator, err);
        return status == COFFER_ERR_NOT_FOUND ? model_dir_missing(false, 0, err)
               : status == COFFER_OK          ? model_dir_verified(source, allocator, err)
                                              : status;
    }
    /* In the cache: its links lead to blobs, which the pool opens by their real path. */
    const int os_error = coffer__os_real_path(at.local.text, real.text, sizeof real.text);
    return os_error != 0 ? coffer__errno_status(err, "follow the link of the Hub's cache", NULL, os_error)
                         : coffer__source_pooled(source, pool, file, real.text, err);
}

coffer_status coffer__model_dir_open(const coffer__model_dir *place, coffer__name name,
                                     const coffer_allocator *allocator, coffer__pool *pool, coffer__pooled *file,
                                     coffer__byte_source *source, coffer_error *err)
{
    coffer__path path;
    if (place->web != NULL) {
        return model_dir_open_url(place, name, allocator, pool, file, source, err);
    }
    const coffer_status status = model_dir_find(place, name, &path, err);
    return status == COFFER_OK ? coffer__source_pooled(source, pool, file, path.text, err) : status;
}

/* Reads a source whole into new memory. On failure coffer__whole_free releases it. The limit is
   compared before anything is allocated. */
static coffer_status model_dir_read_from(const coffer__byte_source *source, uint64_t most,
                                         const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err)
{
    if (source->size > most) {
        coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the file has %z, and at most %z are read", source->size, most);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX_TOO_LARGE, most, source->size);
    }
    whole->size = (size_t)source->size;
    whole->bytes = coffer__alloc(allocator, whole->size);
    if (whole->bytes == NULL && whole->size > 0) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of the file", source->size);
    }
    return coffer__source_read(source, 0, whole->bytes, whole->size, err);
}

/* `seen` is what the file was when it was opened; sharded.c compares it later. */
static coffer_status model_dir_read_file(const char *path, uint64_t most, const coffer_allocator *allocator,
                                         coffer__whole *whole, coffer_error *err)
{
    coffer__byte_source source;
    coffer_status status = coffer__source_path(&source, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    whole->seen = *coffer__source_seen(&source);
    status = model_dir_read_from(&source, most, allocator, whole, err);
    source.ops->close(&source);
    return status;
}

/* Reads what is at a location with the client. `whole` takes over the bytes even if the digest does
   not match, so that the caller releases them. */
static coffer_status model_dir_read_web(const coffer__location *at, uint64_t most, const coffer_allocator *allocator,
                                        coffer__whole *whole, coffer_error *err)
{
    coffer__web_whole read;
    const coffer_status status = coffer__web_read(at->web, &at->address, most, allocator, &read, err);
    whole->bytes = read.bytes;
    whole->size = read.size;
    memcpy(whole->commit, read.commit, sizeof whole->commit);
    return status == COFFER_OK && read.has_sha256
               ? model_dir_compare(read.bytes, read.size, read.sha256, allocator, err)
               : status;
}

/* A file of the cache is of the commit that the cache has for the revision. */
static coffer_status model_dir_read_location(const coffer__location *at, uint64_t most,
                                             const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err)
{
    if (at->local.text[0] == '\0') {
        return model_dir_read_web(at, most, allocator, whole, err);
    }
    memcpy(whole->commit, at->commit, sizeof whole->commit);
    return model_dir_read_file(at->local.text, most, allocator, whole, err);
}

/* On failure *whole is empty and owns nothing. */
coffer_status coffer__model_dir_read(const char *path, const coffer__location *at, uint64_t most,
                                     const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err)
{
    memset(whole, 0, sizeof *whole);
    const coffer_status status = at != NULL ? model_dir_read_location(at, most, allocator, whole, err)
                                            : model_dir_read_file(path, most, allocator, whole, err);
    if (status != COFFER_OK) {
        coffer__whole_free(whole, allocator);
    }
    return status;
}

/* The file is no shard, and it is opened by its path as shown. For a URL, the client makes its
   location at the commit of the other files. */
coffer_status coffer__model_dir_read_beside(const coffer__model_dir *place, coffer__name name, uint64_t most,
                                            const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err)
{
    coffer__path path;
    coffer__location at;
    memset(whole, 0, sizeof *whole);
    if (place->web != NULL) {
        const coffer_status status = coffer__web_beside(place->web, name.text, name.len, place->commit, &at, err);
        return status == COFFER_OK ? coffer__model_dir_read(NULL, &at, most, allocator, whole, err) : status;
    }
    if (!coffer__model_dir_join(place, name, &path)) {
        return coffer__errno_status(err, "read the file", NULL, ENAMETOOLONG);
    }
    return coffer__model_dir_read(path.text, NULL, most, allocator, whole, err);
}

void coffer__whole_free(coffer__whole *whole, const coffer_allocator *allocator)
{
    coffer__free(allocator, whole->bytes, whole->size);
    memset(whole, 0, sizeof *whole);
}
