/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model has on the network: one client, with the settings of the environment, and with
 * connections that wait to be used again. A question follows redirects, and sends to each host only
 * the credentials that belong to it. Whether a failure is worth another try is decided here as
 * well, in one place.
 *
 *     http.h   one exchange over one connection      url.h   text of URLs
 *     web.h    a question: redirects, credentials    hub.h, s3.h   what hf:// and s3:// mean
 *
 * Any number of threads may ask at the same time; each has a line of its own while it does. Only
 * coffer__web_new and coffer__web_read allocate with the caller's allocator.
 */
#ifndef COFFER_NET_WEB_H
#define COFFER_NET_WEB_H

#include "coffer.h"
#include "http.h"
#include "hub.h"
#include "source.h"
#include "url.h"

/* Opaque. It is freed by its last owner, which may be a source that outlives the model's own use of
   it. */
typedef struct coffer__web coffer__web;

/* Reads the environment, the options, which take precedence and are known to be valid, and the URL,
   of any scheme, that is to be opened. Does no I/O on the network; the first question opens
   libcurl. */
coffer_status coffer__web_new(coffer__web **web, const char *url, const coffer_open_options *options,
                              coffer_error *err);
/* Whether the model is opened in order to be downloaded as a whole. Then servers without ranges are
   accepted, since each file is read once and from its beginning. */
bool coffer__web_fetches(const coffer__web *web);
/* Adds an owner, and returns the client. Each owner frees it once; the last one frees it for good. */
coffer__web *coffer__web_share(coffer__web *web);
void coffer__web_free(coffer__web *web);

/* From now on every question and every pause without a watch of its own asks this one; NULL: none.
   Only while no question is in progress. Returns the previous watch. */
const coffer__watch *coffer__web_watch(coffer__web *web, const coffer__watch *watch);

/* Where something is, and whose credentials its requests may have. */
typedef struct coffer__web_address {
    coffer__url url;
    bool signs; /* an object store: requests are signed, where there is a key */
} coffer__web_address;

/* What a URL names. Its text is read once, when the client is made; every other location is made
   from that one. */
typedef struct coffer__location {
    coffer__web *web;                      /* who asks for it */
    coffer__web_address address;           /* on the server; of the Hub at the commit, where one is known */
    coffer__hub_name hub;                  /* as it was named; `name` is "" when it is none of the Hub's */
    char commit[COFFER__HUB_MAX_REVISION]; /* that the Hub's cache has for its revision, or "" */
    coffer__path local;                    /* the file in the Hub's cache; "" when it is not there */
    bool is_folder;                        /* not one file: a repository, or a URL that ends in a slash */
} coffer__location;

/* What the client was made for. Borrowed from the client. */
const coffer__location *coffer__web_origin(const coffer__web *web);
/* Pins the revision of a Hub's repository to a commit. Only while no question is in progress. Files
   that were located before keep their address; so it is called before any file is opened. */
coffer_status coffer__web_settle(coffer__web *web, const char *commit, coffer_error *err);
/* The location of another file, in the folder that the client's URL is or that its file is in. On
   the Hub at `commit`, or, for "", at the revision as it was named. */
coffer_status coffer__web_beside(coffer__web *web, const char *name, size_t name_len, const char *commit,
                                 coffer__location *file, coffer_error *err);

/* The address where the Hub lists a repository; false in offline mode, or if there is no such
   address. */
bool coffer__web_listing(const coffer__web *web, const coffer__hub_name *name, coffer__web_address *address);

/* The address where the Hub lists the files of a folder of it, and those below, page by page; likewise. */
bool coffer__web_tree(const coffer__web *web, const coffer__hub_name *name, coffer__web_address *address);
/* The address of the page after one; false where it is not on the Hub. */
bool coffer__web_page(const coffer__web *web, const char *url, coffer__web_address *address);

/* Borrowed during coffer__web_ask, with all that it points to. */
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

/* The reply is what the last hop said. `words` are static, and say what happened unless `end` is
   DONE. */
typedef struct coffer__web_answer {
    coffer__http_end end;
    const char *words;
    coffer__http_reply reply;              /* the last one */
    coffer__web_address from;              /* where that came from, after all redirects */
    char linked_etag[128];                 /* what the Hub said of the file on the way, or "" */
    char commit[COFFER__HUB_MAX_REVISION]; /* and of its repository */
} coffer__web_answer;

/* Asks once, following redirects. COFFER_OK whatever the answer is, so look at answer->end and the
   status; a failure means that there was no answer that could be judged. It may be called by any
   number of threads. COFFER_ERR_OFFLINE, COFFER_ERR_NO_NETWORK, COFFER_ERR_REDIRECT,
   COFFER_ERR_MEMORY. */
coffer_status coffer__web_ask(coffer__web *web, const coffer__web_question *question, coffer__web_answer *answer,
                              coffer_error *err);

/* A file that was read whole. */
typedef struct coffer__web_whole {
    uint8_t *bytes; /* the caller's to free; NULL when there are none */
    size_t size;
    char commit[COFFER__HUB_MAX_REVISION]; /* of the Hub's repository, or "" */
    char next[COFFER__URL_SIZE];           /* of the page after this one, or "" */
    bool has_sha256;                       /* an object store states one */
    uint8_t sha256[32];                    /* the SHA-256 that the store states, which the caller compares */
} coffer__web_whole;

/* Reads a whole file of at most `most` bytes; COFFER_ERR_INDEX_TOO_LARGE if it has more. *whole is
   empty after a failure. */
coffer_status coffer__web_read(coffer__web *web, const coffer__web_address *address, uint64_t most,
                               const coffer_allocator *allocator, coffer__web_whole *whole, coffer_error *err);

/* How often one question was repeated; all zero at first. */
typedef struct coffer__patience {
    uint32_t tries;
    bool met; /* the host was reached before: if it cannot be reached now, that is worth another try */
} coffer__patience;

/* To be called after an answer that does not answer the question. If another try is worth it, waits
   as long as is polite and returns COFFER_OK: ask again. Otherwise fails with what was wrong. The
   caller keeps one coffer__patience for one question and may set `tries` back to 0 when there was
   progress. COFFER_ERR_CANCELLED if the watch stops the pause. */
coffer_status coffer__web_again(const coffer__web *web, coffer__patience *patience, const coffer__web_answer *answer,
                                const coffer__watch *watch, coffer_error *err);

#endif
