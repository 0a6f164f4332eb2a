/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model at a URL: one file, an index, or a whole repository or folder, whose files are looked for
 * by the names that loaders give them; of a pipeline of several models, the one that a folder on the disk stands for
 * (discover.h). The URL's text is read once, by the client that the model
 * owns; what is opened are locations that the client makes of it. The text goes along for those who
 * read what is shown.
 */
#include "opening.h"

#include "error.h"
#include "shard_name.h"
#include "sharded.h"
#include "source_http.h"
#include "web.h"

#include <string.h>

/* Opens one file at a URL, which is its name. If the file came whole with the first answer, its
   digest is checked now. The digest is compared before anything is parsed. For a file that did not
   come whole, coffer_fetch and verifying have to do that. */
static coffer_status open_at_url(coffer **model, const coffer__location *at, const char *url,
                                 const coffer_open_options *options, coffer_error *err)
{
    coffer__byte_source source;
    coffer_status status = coffer__source_location(&source, at, options->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__model_dir_verify(&source, options->allocator, err);
    if (status != COFFER_OK) {
        source.ops->close(&source);
        return status;
    }
    coffer *made = NULL;
    status = coffer__open_shard_source(&made, &source, NULL, options, err);
    return coffer__open_hand_out(model, made, url, status, err);
}

/* Opens what is at the location of one file or of an index. Failures carry the URL. A query after
   the name is not a part of it (coffer_is_index). */
static coffer_status open_one_url(coffer **model, const coffer__location *at, const char *url,
                                  const coffer_open_options *options, coffer_error *err)
{
    if (coffer_is_index(url)) {
        return coffer__sharded_open(model, url, at, options, err);
    }
    const coffer_status status = open_at_url(model, at, url, options, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, url);
}

/* ---- a repository or a folder ------------------------------------------------------------------------------------ */

/* What is tried after the usual names: PEFT's adapters. On a disk they are the only file of their folder, which a server
   does not say. */
static const char *const open_more_names[] = { "adapter_model" COFFER__FILE_SUFFIX };
#define OPEN_NAMES (COFFER__USUAL_NAMES + sizeof open_more_names / sizeof open_more_names[0])

static const char *open_name(size_t i)
{
    return i < COFFER__USUAL_NAMES ? coffer__usual_names[i] : open_more_names[i - COFFER__USUAL_NAMES];
}

/* One of the names that loaders give to models, tried in the folder or repository that was opened.
   The two are made together, and are of the same file. */
typedef struct open_try {
    coffer__path url; /* as users see it */
    coffer__location at;
} open_try;

/* The names are constants that fit any folder, so only a long URL can fail. */
static coffer_status open_begin_try(open_try *attempt, coffer__web *web, const char *url, const char *name,
                                    coffer_error *err)
{
    const size_t len = strlen(url);
    const bool fits =
        coffer__path_copy(&attempt->url, url) &&
        (url[len - 1] == '/' || coffer__text_append(attempt->url.text, sizeof attempt->url.text, "/", 1)) &&
        coffer__text_append(attempt->url.text, sizeof attempt->url.text, name, strlen(name));
    return fits ? coffer__web_beside(web, name, strlen(name), "", &attempt->at, err)
                : coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
}

static coffer_status open_no_model(const char *url, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NOT_FOUND,
                 "there is no model.safetensors, no index of it, neither by the names that diffusers uses, and no "
                 "adapter_model.safetensors: add the name of the file to the URL");
    return coffer__fail_path(err, COFFER_ERR_NOT_FOUND, url);
}

/* Opens the first of the usual names that the server has. Without a listing they are guessed. A
   store answers 403 for an object that does not exist if the user may not list its bucket: then the
   next name is tried, and if none is found, the first refusal is the error. With a listing no
   request is spent on a name that is not there. Any other failure ends the search: a server that is
   down must not look like one without a model. `first` exists because `err` is overwritten by each
   attempt. */
static coffer_status open_guess(coffer **model, open_try *attempt, coffer__web *web, const char *url,
                                const coffer__listing *listing, const coffer_open_options *options, coffer_error *err)
{
    coffer_error first;
    coffer_status refusal = COFFER_OK;
    coffer__error_clear(&first);
    for (size_t i = 0; i < OPEN_NAMES; i++) {
        coffer_status status = open_begin_try(attempt, web, url, open_name(i), err);
        if (status != COFFER_OK) {
            return status;
        }
        if (listing->known && !coffer__listing_has(listing, "", 0, attempt->at.hub.file)) {
            continue;
        }
        status = open_one_url(model, &attempt->at, attempt->url.text, options, err);
        /* The store may refuse because the name does not exist. */
        const bool refused = attempt->at.address.signs && status == COFFER_ERR_ACCESS;
        if (status != COFFER_ERR_NOT_FOUND && !refused) {
            return status;
        }
        if (refused && refusal == COFFER_OK) {
            refusal = status;
            first = err != NULL ? *err : first;
        }
    }
    if (refusal == COFFER_OK) {
        return open_no_model(url, err);
    }
    if (err != NULL) {
        *err = first;
    }
    return refusal;
}

/* A model in the Hub's cache is preferred to what the server has: opening it needs no
   answer, and works offline. Names are looked for in the loaders' order, in the cache
   first and then on the server, so a cached model of diffusers wins over one of
   transformers that is only on the server. */
static coffer_status open_remote_folder(coffer **model, coffer__web *web, const char *url,
                                        const coffer__listing *listing, const coffer_open_options *options,
                                        coffer_error *err)
{
    open_try attempt;
    for (size_t i = 0; i < OPEN_NAMES; i++) {
        if (open_begin_try(&attempt, web, url, open_name(i), NULL) == COFFER_OK && attempt.at.local.text[0] != '\0') {
            return open_one_url(model, &attempt.at, attempt.url.text, options, err);
        }
    }
    return open_guess(model, &attempt, web, url, listing, options, err);
}

/* For a model that will be fetched from the Hub: asks once which commit the revision is and which
   files it has, and uses that commit from then on. So all files are of one commit, even if the
   branch moves during a long download. *url then points into *at. If the Hub does not answer,
   nothing changes. It does nothing for a single file on the server, which is of one version anyway,
   and nothing without `to_fetch`: a model that is only read is guarded by its validators. A mirror
   without this part of the Hub's interface costs one request. */
static coffer_status open_settle(const char **url, coffer__path *at, coffer__web *web, coffer__listing *listing,
                                 const coffer_open_options *options, coffer_error *err)
{
    const coffer__location *origin = coffer__web_origin(web);
    const bool sharded = origin->is_folder || coffer_is_index(*url) || origin->local.text[0] != '\0';
    if (origin->hub.name[0] == '\0' || !options->to_fetch || !sharded) {
        return COFFER_OK;
    }
    coffer__listing_ask(listing, web, &origin->hub, options->allocator);
    if (!listing->known || !coffer__hub_write(&origin->hub, listing->commit, at)) {
        return COFFER_OK;
    }
    /* A slash at the end says that it is a folder. */
    const size_t len = strlen(at->text);
    at->text[origin->is_folder ? len : len - 1] = '\0';
    *url = at->text;
    return coffer__web_settle(web, listing->commit, err);
}

/* Opens with the client. The listing goes to the model on success and is released on failure. The
   path `at` lives here because `url` may point into it; the model copies what it keeps. */
static coffer_status open_with_web(coffer **model, coffer__web *web, const char *url,
                                   const coffer_open_options *options, coffer_error *err)
{
    coffer__path at;
    coffer__listing listing = { .known = false };
    const coffer__location *origin = coffer__web_origin(web);
    coffer_status status = open_settle(&url, &at, web, &listing, options, err);
    if (status == COFFER_OK) {
        status = origin->is_folder ? open_remote_folder(model, web, url, &listing, options, err)
                                   : open_one_url(model, origin, url, options, err);
    }
    if (status != COFFER_OK) {
        coffer__listing_free(&listing, options->allocator);
        return status;
    }
    (*model)->listing = listing;
    (*model)->named_whole = (*model)->named_whole || origin->is_folder;
    return COFFER_OK;
}

/* ---- the client -------------------------------------------------------------------------------------------------- */

/* Whether the user wants to cancel, while the first answers are awaited. Nothing is known of the
   total yet, so it is reported as 0 of 1. */
static bool open_stop(void *ctx)
{
    const coffer_open_options *options = ctx;
    return options->progress(options->progress_ctx, 0, 1) != 0;
}

/* Whether the folder that was opened has the file by which diffusers knows a pipeline. */
static bool open_is_pipeline(coffer__web *web, const char *url, const coffer_open_options *options)
{
    open_try attempt;
    coffer__byte_source source;
    if (!coffer__web_origin(web)->is_folder ||
        open_begin_try(&attempt, web, url, "model_index.json", NULL) != COFFER_OK ||
        coffer__source_location(&source, &attempt.at, options->allocator, NULL) != COFFER_OK) {
        return false;
    }
    source.ops->close(&source);
    return true;
}

/* Opens what the URL says, and nothing else. *pipeline: there is no model, but a pipeline of several. The client belongs
   to this function until the model is complete; then to the model. The watch lives on this stack, so the client must
   forget it before the function returns. On failure the sources that were opened have given up their shares, so freeing
   the client here frees it for good. */
static coffer_status open_url_itself(coffer **model, const char *url, coffer_open_options *options, bool *pipeline,
                                     coffer_error *err)
{
    coffer__web *web = NULL;
    const coffer__watch watch = { open_stop, options };
    coffer_status status = coffer__web_new(&web, url, options, err);
    if (status == COFFER_OK && options->progress != NULL) {
        (void)coffer__web_watch(web, &watch);
    }
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, url);
    }
    status = open_with_web(model, web, url, options, err);
    if (status != COFFER_OK) {
        *pipeline = status == COFFER_ERR_NOT_FOUND && open_is_pipeline(web, url, options);
        coffer__web_free(web);
        return status;
    }
    /* The watch ends with this function. */
    (void)coffer__web_watch(web, NULL);
    (*model)->web = web;
    return COFFER_OK;
}

/* A pipeline is one of several models, of which a folder of it has the main one. To fetch it is refused: it would come
   without the other models, and its files without their folders. */
static coffer_status open_pipeline(coffer **model, const char *url, coffer_open_options *options, coffer_error *err)
{
    static const char *const parts[] = { "transformer/", "unet/" };
    coffer__path part;
    bool nested = false;
    coffer_status status = COFFER_ERR_NOT_FOUND;
    const size_t len = strlen(url);
    if (options->to_fetch) {
        coffer__fail(err, COFFER_ERR_NO_MODEL,
                     "this is a pipeline of several models: fetch each of them, into a folder of its name, by the URL "
                     "with that folder and a slash at its end, as in .../transformer/ or .../unet/");
        return coffer__fail_path(err, COFFER_ERR_NO_MODEL, url);
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == COFFER_ERR_NOT_FOUND; i++) {
        const bool fits = coffer__path_copy(&part, url) &&
                          (url[len - 1] == '/' || coffer__text_append(part.text, sizeof part.text, "/", 1)) &&
                          coffer__text_append(part.text, sizeof part.text, parts[i], strlen(parts[i]));
        status = fits ? open_url_itself(model, part.text, options, &nested, err)
                      : coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
    }
    return status;
}

coffer_status coffer__open_url(coffer **model, const char *url, coffer_open_options *options, coffer_error *err)
{
    bool pipeline = false;
    const coffer_status status = open_url_itself(model, url, options, &pipeline, err);
    return pipeline ? open_pipeline(model, url, options, err) : status;
}
