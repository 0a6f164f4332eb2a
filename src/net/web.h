/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model has on the network: one client, with the settings that the environment makes, and the connections that wait
 * to be used again. A question follows redirects, and takes to each host only the credentials that are its own. Whether to
 * try again what failed is decided here, too, once for all.
 *
 * Any number of threads may ask; each has a line of its own while it does. Nothing is allocated but by coffer__web_new.
 */
#ifndef COFFER_NET_WEB_H
#define COFFER_NET_WEB_H

#include "coffer.h"
#include "http.h"
#include "hub.h"
#include "source.h"
#include "url.h"

typedef struct coffer__web coffer__web;

/* Reads the environment, and of the options, which are known to be right, what goes before it; then the URL, of any scheme, of
   what is to be opened. libcurl is opened by the first question. */
coffer_status coffer__web_new(coffer__web **web, const char *url, const coffer_open_options *options,
                              coffer_error *err);
/* Whether the model is opened to be fetched, as the options say. */
bool coffer__web_fetches(const coffer__web *web);
/* One more owner; each frees it once. */
coffer__web *coffer__web_share(coffer__web *web);
void coffer__web_free(coffer__web *web);

/* From now on every question and every pause that has no watch of its own asks this one; NULL: none. Only while nobody asks
   anything. Returns the one before. */
const coffer__watch *coffer__web_watch(coffer__web *web, const coffer__watch *watch);

/* Where something is, and whose credentials its requests may have. */
typedef struct coffer__web_address {
    coffer__url url;
    bool signs; /* an object store: requests are signed, where there is a key */
} coffer__web_address;

/* What a URL names. Its text is read once, when the client is made; every other location is made from that one. */
typedef struct coffer__location {
    coffer__web *web;                       /* who asks for it */
    coffer__web_address address;            /* where it is over there; of the Hub at the commit, where one is known */
    coffer__hub_name hub;                   /* as it was named; `name` is "" when it is none of the Hub's */
    char commit[COFFER__HUB_MOST_REVISION]; /* that the Hub's cache has for its revision, or "" */
    coffer__path local;                     /* the file in the Hub's cache; "" when it is not there */
    bool is_folder;                         /* no file, but all that is there: a repository, or what ends in a slash */
} coffer__location;

/* What the client was made for. Borrowed. */
const coffer__location *coffer__web_door(const coffer__web *web);
/* The revision of that, which is one of the Hub's, is this commit from now on. Only while nobody asks anything. */
coffer_status coffer__web_settle(coffer__web *web, const char *commit, coffer_error *err);
/* A file of the folder that this is, or that it is in. Of the Hub at `commit`, or for "" at the revision as it was named. */
coffer_status coffer__web_beside(coffer__web *web, const char *name, size_t name_len, const char *commit,
                                 coffer__location *file, coffer_error *err);

/* Where the Hub lists a repository; false when it may not be asked. */
bool coffer__web_listing(const coffer__web *web, const coffer__hub_name *name, coffer__web_address *address);

typedef struct coffer__web_question {
    const coffer__web_address *address;
    uint64_t first; /* byte; with `last` the range, or COFFER__HTTP_UNKNOWN for all bytes */
    uint64_t last;
    const char *if_range; /* may be NULL */
    bool head_only;       /* no body is wanted */
    /* As in coffer__http_request, but called only for an answer of 200 or 206. */
    bool (*take)(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size);
    void *ctx;
    const coffer__watch *watch; /* NULL: the client's */
} coffer__web_question;

typedef struct coffer__web_answer {
    coffer__http_end end;
    const char *words;
    coffer__http_reply reply;               /* the last one */
    coffer__web_address from;               /* where that came from, behind all redirects */
    char linked_etag[128];                  /* what the Hub said of the file on the way, or "" */
    char commit[COFFER__HUB_MOST_REVISION]; /* and of its repository */
} coffer__web_answer;

/* Asks once. COFFER_OK whatever the answer is; failures are those that no answer can be had from. */
coffer_status coffer__web_ask(coffer__web *web, const coffer__web_question *question, coffer__web_answer *answer,
                              coffer_error *err);

/* A file that was read whole. */
typedef struct coffer__web_whole {
    uint8_t *bytes; /* the caller's to free; NULL when there are none */
    size_t size;
    char commit[COFFER__HUB_MOST_REVISION]; /* of the Hub's repository, or "" */
    bool has_sha256;                        /* an object store states one, … */
    uint8_t sha256[32];                     /* … which is the caller's to compare */
} coffer__web_whole;

/* Reads all of a file of at most `most` bytes (COFFER_ERR_INDEX_TOO_LARGE). Fills *whole also when it fails: with nothing. */
coffer_status coffer__web_read(coffer__web *web, const coffer__web_address *address, uint64_t most,
                               const coffer_allocator *allocator, coffer__web_whole *whole, coffer_error *err);

/* What was tried in vain, all zero at first. */
typedef struct coffer__patience {
    uint32_t tries;
    bool met; /* the host was reached before, so that it is worth waiting for when it is gone */
} coffer__patience;

/* After an answer that is none to the question: waits and returns COFFER_OK when the question shall be asked again, else fails
   with what was wrong. */
coffer_status coffer__web_again(const coffer__web *web, coffer__patience *patience, const coffer__web_answer *answer,
                                const coffer__watch *watch, coffer_error *err);

#endif
