/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs as text. What a user or a server wrote is not trusted: it becomes a URL of printable ASCII
 * in a buffer of fixed size, or is refused. Pure: no I/O, no memory but the caller's.
 *
 *     scheme://host[:port]/path[?query]
 *
 * Names and passwords before the host are refused: whatever shows or logs a URL would show them
 * too. A fragment is dropped.
 */
#ifndef COFFER_NET_URL_H
#define COFFER_NET_URL_H

#include "coffer.h"

/* Signed addresses of object stores are long: one to two thousand characters. */
#define COFFER__URL_SIZE 8192

typedef enum coffer__scheme {
    COFFER__SCHEME_OTHER = 0,
    COFFER__SCHEME_HTTP,
    COFFER__SCHEME_HTTPS,
    COFFER__SCHEME_S3, /* s3://bucket/key: the host is the bucket */
    COFFER__SCHEME_HF  /* see hub.h: the host is what stands before the first slash */
} coffer__scheme;

/* A URL, and where its parts are in it. The parts lie in `text` one after the other, which
   has a NUL and only printable ASCII. A struct of this type is complete or all zero, and
   may be copied. */
typedef struct coffer__url {
    char text[COFFER__URL_SIZE];
    coffer__scheme scheme;
    size_t host; /* in lower case, with the brackets of an address; the bucket or owner as it is */
    size_t host_len;
    size_t path; /* with its slash; at the end of the text or at a `?` when there is none */
    size_t path_len;
    uint32_t port; /* as written, or the scheme's */
} coffer__url;

/* Whether a text is meant as a URL: it begins with `scheme://`, whatever the scheme. */
bool coffer__url_is(const char *text);
/* Reads a URL of a known scheme. Blanks and characters beyond ASCII become %XX; what cannot be part
   of a URL is refused. COFFER_ERR_URL, and then *url must not be used. */
coffer_status coffer__url_read(coffer__url *url, const char *text, coffer_error *err);
/* The same for a setting that other URLs begin with: http or https, without a query, and stored
   without a slash at the end. `name` is that of the setting, for the message. */
coffer_status coffer__url_read_base(coffer__url *url, const char *name, const char *text, coffer_error *err);
/* Reads the location of a redirect from `base`, which may be relative. Only http and https are
   followed, and never https to http. COFFER_ERR_REDIRECT otherwise, and for whatever is no URL.
   `url` and `base` must not be the same struct, as `base` is read after `url` has been written. */
coffer_status coffer__url_follow(coffer__url *url, const coffer__url *base, const char *location, coffer_error *err);
/* Changes a URL to that of another file beside it, or, if it ends in a slash, in it. Everything in
   the name that has a meaning in URLs becomes %XX, except for slashes, which lead to folders below. The query is dropped, since it belonged to the
   other file. False if there is no space. */
bool coffer__url_beside(coffer__url *url, const char *name, size_t name_len);
/* Whether two URLs have the same scheme, host and port: what credentials belong to. */
bool coffer__url_same_origin(const coffer__url *a, const coffer__url *b);
/* Appends `text` to the `used` characters of a URL that are there, everything but letters, digits,
   "-._~" and what `keep` has as %XX; returns the new length, or 0 when there is no space. */
size_t coffer__url_append(char *out, size_t used, const char *text, size_t text_len, const char *keep);

#endif
