/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model at a URL: one file, an index, or a whole repository or folder, whose files are looked for by the names that loaders give
 * them. The model owns what asks its servers.
 */
#include "opening.h"

#include "error.h"
#include "several.h"
#include "shard_name.h"
#include "source_http.h"
#include "web.h"

#include <string.h>

/* One file at a URL. */
static coffer_status open_at_url(coffer **model, coffer__web *web, const char *url, const coffer_open_options *options,
                                 coffer_error *err)
{
    coffer__source source;
    coffer_status status = coffer__source_url(&source, web, url, options->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__place_verify(&source, options->allocator, err);
    if (status != COFFER_OK) {
        source.ops->close(&source);
        return status;
    }
    coffer *made = NULL;
    status = coffer__open_source(&made, &source, NULL, options, err);
    return coffer__open_hand_out(model, made, url, status, err);
}

/* What is at the URL of one file or of an index. Failures carry the URL. */
static coffer_status open_one_url(coffer **model, coffer__web *web, const char *url, const coffer_open_options *options,
                                  coffer_error *err)
{
    if (coffer_is_index(url)) {
        return coffer__several_open(model, url, web, options, err);
    }
    const coffer_status status = open_at_url(model, web, url, options, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, url);
}

/* The URL of a file in what a URL names as a whole. */
static bool open_usual_url(const char *url, size_t i, coffer__path *out)
{
    const size_t len = strlen(url);
    return coffer__path_copy(out, url) &&
           (url[len - 1] == '/' || coffer__text_append(out->text, sizeof out->text, "/", 1)) &&
           coffer__text_append(out->text, sizeof out->text, coffer__usual_names[i], strlen(coffer__usual_names[i]));
}

/* Whether the listing has the file that a URL of its repository names. */
static bool open_is_listed(const coffer__listing *listing, const char *url)
{
    coffer__hub_name name;
    return coffer__hub_read(&name, url, NULL) == COFFER_OK && coffer__listing_has(listing, "", 0, name.file);
}

/* A repository of the Hub or a folder: the first of the usual names that the Hub's cache has, else that the server has. Without a
   listing they are guessed. A store says 403 of an object that is not there to whoever may not list its bucket: then the next name
   is tried, and in the end the first refusal tells. */
static coffer_status open_remote_folder(coffer **model, coffer__web *web, const char *url,
                                        const coffer__listing *listing, const coffer_open_options *options,
                                        coffer_error *err)
{
    coffer__path name;
    coffer_error first;
    coffer_status refusal = COFFER_OK;
    const bool is_store = (url[0] | 0x20) == 's' && url[1] == '3';
    coffer__error_clear(&first);
    for (size_t i = 0; i < COFFER__USUAL_NAMES; i++) {
        if (open_usual_url(url, i, &name) && coffer__web_is_cached(web, name.text)) {
            return open_one_url(model, web, name.text, options, err);
        }
    }
    for (size_t i = 0; i < COFFER__USUAL_NAMES; i++) {
        if (!open_usual_url(url, i, &name)) {
            return coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
        }
        if (listing->known && !open_is_listed(listing, name.text)) {
            continue;
        }
        const coffer_status status = open_one_url(model, web, name.text, options, err);
        const bool refused = is_store && status == COFFER_ERR_ACCESS;
        if (status != COFFER_ERR_NOT_FOUND && !refused) {
            return status;
        }
        if (refused && refusal == COFFER_OK) {
            refusal = status;
            first = err != NULL ? *err : first;
        }
    }
    if (refusal != COFFER_OK) {
        if (err != NULL) {
            *err = first;
        }
        return refusal;
    }
    coffer__fail(
        err, COFFER_ERR_NOT_FOUND,
        "there is neither model.safetensors nor its index, nor what diffusers calls them: name the file after it");
    return coffer__fail_path(err, COFFER_ERR_NOT_FOUND, url);
}

/* Of what is to be fetched from the Hub: asks which commit the revision is now and what it has, once, and names the commit from then
   on. *url is then the text in *at. Where the Hub does not say, all stays as it is. */
static void open_settle(const char **url, bool folder, coffer__path *at, coffer__web *web, coffer__listing *listing,
                        const coffer_open_options *options)
{
    coffer__hub_name name;
    const bool hub = strncmp(*url, "hf://", 5) == 0;
    const bool wanted =
        hub && options->to_fetch && (folder || coffer_is_index(*url) || coffer__web_is_cached(web, *url));
    if (!wanted || coffer__hub_read(&name, *url, NULL) != COFFER_OK) {
        return;
    }
    coffer__listing_ask(listing, web, &name, options->allocator);
    if (!listing->known || !coffer__hub_write(&name, listing->commit, at)) {
        return;
    }
    /* A slash at the end says that it is a folder. */
    const size_t len = strlen(at->text);
    at->text[folder ? len : len - 1] = '\0';
    *url = at->text;
}

static coffer_status open_with_web(coffer **model, coffer__web *web, const char *url,
                                   const coffer_open_options *options, coffer_error *err)
{
    bool folder = false;
    coffer__path at;
    coffer__listing listing = { .known = false };
    coffer_status status = coffer__web_is_folder(web, url, &folder, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, url);
    }
    open_settle(&url, folder, &at, web, &listing, options);
    status = folder ? open_remote_folder(model, web, url, &listing, options, err)
                    : open_one_url(model, web, url, options, err);
    if (status != COFFER_OK) {
        coffer__listing_free(&listing, options->allocator);
        return status;
    }
    (*model)->listing = listing;
    (*model)->named_whole = (*model)->named_whole || folder;
    return COFFER_OK;
}

/* Whether the user wants no more, while the first answers are waited for. */
static bool open_stop(void *ctx)
{
    const coffer_open_options *options = ctx;
    return options->progress(options->progress_ctx, 0, 1) != 0;
}

coffer_status coffer__open_url(coffer **model, const char *url, coffer_open_options *options, coffer_error *err)
{
    coffer__web *web = NULL;
    const coffer__watch watch = { open_stop, options };
    coffer_status status = coffer__web_new(&web, options, err);
    if (status == COFFER_OK && options->progress != NULL) {
        (void)coffer__web_watch(web, &watch);
    }
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, url);
    }
    status = open_with_web(model, web, url, options, err);
    if (status != COFFER_OK) {
        coffer__web_free(web);
        return status;
    }
    (void)coffer__web_watch(web, NULL);
    (*model)->web = web;
    return COFFER_OK;
}
