/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the files of a repository of the Hub, which answers with pages of
 *
 *   [{"type": "file", "path": "a/b.bin", "size": 5, …}, {"type": "directory", "path": "a", …}, …]
 *
 * and says in a Link field where the next one is. Names are untrusted: what cannot be one of a file is given as it is, and
 * leads to no request.
 */
#include "alloc.h"
#include "error.h"
#include "json.h"
#include "opening.h"
#include "text.h"
#include "url.h"
#include "web.h"

#include <string.h>

#define REPOSITORY_MAX_PAGE ((uint64_t)64 << 20) /* bytes */
#define REPOSITORY_MAX_PAGES 100000u             /* the Hub has a thousand files on each */

typedef struct repository_listing {
    const coffer_allocator *allocator;
    const char *url;
    coffer__web *web;
    coffer__hub_name root;
    coffer_file_visitor visit;
    void *ctx;
    coffer__json json;
    coffer__scratch scratch;
    char *path; /* of the entry that is read; as long as the page */
    size_t path_len;
    char *text; /* likewise, any other string */
    size_t len;
    bool is_file;
} repository_listing;

/* ---- what a page says ---------------------------------------------------------------------------------------------- */

static coffer_status repository_visit(const repository_listing *listing, const char *path, bool exists,
                                      coffer_error *err)
{
    return listing->visit(listing->ctx, path, exists) == 0
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_CANCELLED, "the caller ended the listing");
}

/* The URL of a file, in the spelling of the one that was given. False for a name that cannot be part of a URL, leads out of
   the repository, or is not in the folder that was asked for. */
static bool repository_url(const repository_listing *listing, coffer__path *url)
{
    coffer__hub_name file = listing->root;
    const size_t folder = coffer__text_len(listing->root.file);
    const size_t len = coffer__text_len(listing->url);
    file.file[0] = '\0';
    url->text[0] = '\0';
    if (!coffer__hub_beside(&file, true, listing->path, listing->path_len) || listing->path_len <= folder ||
        memcmp(listing->path, listing->root.file, folder) != 0 || (folder > 0 && listing->path[folder] != '/')) {
        return false;
    }
    const size_t skipped = folder > 0 ? folder + 1 : 0;
    return coffer__text_append(url->text, sizeof url->text, listing->url, len) &&
           (listing->url[len - 1] == '/' || coffer__text_append(url->text, sizeof url->text, "/", 1)) &&
           coffer__text_append(url->text, sizeof url->text, listing->path + skipped, listing->path_len - skipped);
}

static coffer_status repository_show(const repository_listing *listing, coffer_error *err)
{
    coffer__path url;
    const bool good = repository_url(listing, &url);
    listing->path[listing->path_len] = '\0';
    return repository_visit(listing, good ? url.text : listing->path, good, err);
}

static coffer_status repository_string(repository_listing *listing, char *text, size_t *len)
{
    bool has_control = false;
    return coffer__json_string(&listing->json, text, len, &has_control);
}

static coffer_status repository_member(repository_listing *listing)
{
    coffer_status status = repository_string(listing, listing->text, &listing->len);
    if (status == COFFER_OK) {
        status = coffer__json_expect(&listing->json, ':', "a colon should be here");
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__text_is(listing->text, listing->len, "path")) {
        return repository_string(listing, listing->path, &listing->path_len);
    }
    if (!coffer__text_is(listing->text, listing->len, "type")) {
        return coffer__json_skip(&listing->json, 2, &listing->scratch);
    }
    status = repository_string(listing, listing->text, &listing->len);
    listing->is_file = status == COFFER_OK && !coffer__text_is(listing->text, listing->len, "directory");
    return status;
}

static coffer_status repository_entry(repository_listing *listing, coffer_error *err)
{
    coffer_status status = coffer__json_expect(&listing->json, '{', "an object should be here");
    bool more = true;
    listing->path_len = 0;
    listing->is_file = true;
    while (status == COFFER_OK && more) {
        status = repository_member(listing);
        if (status == COFFER_OK) {
            status = coffer__json_next(&listing->json, '}', &more);
        }
    }
    if (status == COFFER_OK && listing->path_len == 0) {
        status = coffer__json_error(&listing->json, "an entry should have a path");
    }
    return status == COFFER_OK && listing->is_file ? repository_show(listing, err) : status;
}

/* What the visitor ended is in *err; what is no list becomes one error, whatever is wrong with it. */
static coffer_status repository_read(repository_listing *listing, coffer_error *err)
{
    bool more = true;
    coffer_status status = coffer__json_expect(&listing->json, '[', "a list should be here");
    if (status == COFFER_OK && coffer__json_peek(&listing->json) == ']') {
        return COFFER_OK;
    }
    while (status == COFFER_OK && more) {
        status = repository_entry(listing, err);
        if (status == COFFER_OK) {
            status = coffer__json_next(&listing->json, ']', &more);
        }
    }
    return status == COFFER_OK || status == COFFER_ERR_CANCELLED || status == COFFER_ERR_MEMORY
               ? status
               : coffer__fail(err, COFFER_ERR_ANSWER, "the Hub's list of the repository's files is not understood");
}

/* ---- pages --------------------------------------------------------------------------------------------------------- */

/* One page; *next is where the one after it is, "" after the last. */
static coffer_status repository_page(repository_listing *listing, const coffer__web_address *address,
                                     coffer__web_whole *whole, coffer_error *err)
{
    coffer_error trouble;
    coffer_status status = coffer__web_read(listing->web, address, REPOSITORY_MAX_PAGE, listing->allocator, whole, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t size = whole->size + 1;
    listing->json =
        (coffer__json){ .in = { .base = whole->bytes, .length = whole->size }, .err = &trouble, .noun = "the list" };
    listing->path = coffer__alloc_array(listing->allocator, size, 1, err);
    listing->text = coffer__alloc_array(listing->allocator, size, 1, err);
    status = listing->path != NULL && listing->text != NULL ? repository_read(listing, err) : COFFER_ERR_MEMORY;
    coffer__free_array(listing->allocator, listing->path, size, 1);
    coffer__free_array(listing->allocator, listing->text, size, 1);
    coffer__free(listing->allocator, whole->bytes, whole->size);
    return status;
}

static coffer_status repository_pages(repository_listing *listing, coffer_error *err)
{
    coffer__web_address address;
    coffer__web_whole whole = { .size = 0 };
    if (!coffer__web_tree(listing->web, &listing->root, &address)) {
        return coffer__fail(err, COFFER_ERR_OFFLINE, "the files of a repository cannot be listed in offline mode");
    }
    for (uint32_t i = 0; i < REPOSITORY_MAX_PAGES; i++) {
        const coffer_status status = repository_page(listing, &address, &whole, err);
        if (status != COFFER_OK || whole.next[0] == '\0') {
            return status;
        }
        if (!coffer__web_page(listing->web, whole.next, &address)) {
            return coffer__fail(err, COFFER_ERR_ANSWER, "the Hub's list of files goes on at another host");
        }
    }
    return coffer__fail(err, COFFER_ERR_ANSWER, "the Hub's list of files has more than %u pages",
                        (uint64_t)REPOSITORY_MAX_PAGES);
}

coffer_status coffer_list_repository(const char *url, const coffer_open_options *options, coffer_file_visitor visit,
                                     void *ctx, coffer_error *err)
{
    coffer_open_options known;
    coffer__web *web = NULL;
    if (url == NULL || visit == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_list_repository needs a URL and a visitor");
    }
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status == COFFER_OK && coffer__url_is(url)) {
        status = coffer__web_new(&web, url, &known, err);
    }
    if (status == COFFER_OK &&
        (web == NULL || !coffer__web_origin(web)->is_folder || coffer__web_origin(web)->hub.name[0] == '\0')) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "this is no repository of the Hub, nor a folder of one");
    }
    if (status == COFFER_OK) {
        repository_listing listing = { .allocator = known.allocator,
                                       .url = url,
                                       .web = web,
                                       .root = coffer__web_origin(web)->hub,
                                       .visit = visit,
                                       .ctx = ctx,
                                       .scratch = { .allocator = known.allocator } };
        status = repository_pages(&listing, err);
        coffer__scratch_free(&listing.scratch);
    }
    if (web != NULL) {
        coffer__web_free(web);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, url);
}
