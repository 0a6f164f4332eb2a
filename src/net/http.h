/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request, one answer, over one connection that stays open for the next. No policy: redirects and failures are told
 * to the caller, and whatever status came is an answer. The answer's fields are read before its body is handed on,
 * piece by piece and as it comes, so that bytes are stored where they belong at once. Its head counts when the blank
 * line came that ends it.
 *
 * An exchange has one deadline: the whole head must come within `timeout_ms`, and after it enough of the body in each
 * `timeout_ms`; lines that go on for ever, or a byte now and then, are no reason to wait.
 *
 * A line belongs to one thread at a time. Proxies, and what goes around them, are libcurl's business and environment.
 */
#ifndef COFFER_NET_HTTP_H
#define COFFER_NET_HTTP_H

#include "authorities.h"
#include "coffer.h"
#include "http_text.h"
#include "libcurl.h"
#include "source.h"
#include "url.h"

/* What keeps the connection. Each request has a handle of its own: a libcurl like 7.88 (Debian 12) keeps, in one that
   is used again, a pointer to a field of the last answer that it has freed, and writes there when the next answer
   begins with a blank. */
typedef struct coffer__http_line {
    void *multi;
} coffer__http_line;

typedef struct coffer__http_reply {
    uint32_t status;
    bool encoded;      /* Content-Encoding says anything but identity */
    bool has_range;    /* there is a Content-Range, … */
    bool range_is_bad; /* … which could not be understood */
    coffer__content_range range;
    uint64_t length;       /* Content-Length, or COFFER__HTTP_UNKNOWN */
    uint64_t retry_after;  /* in seconds, or COFFER__HTTP_UNKNOWN */
    uint64_t body;         /* bytes of the body that came */
    char etag[256];        /* "" when there is none, as below; of a longer one a digest, which is not strong */
    char modified[64];     /* the same */
    char linked_etag[128]; /* X-Linked-Etag: of the file that a redirect of the Hub leads to */
    char commit[64];       /* X-Repo-Commit: of the Hub */
    char checksum[64];     /* x-amz-checksum-sha256: in base64 */
    char reason[64];       /* of a refusal, in letters, as the server calls it: the Hub's X-Error-Code */
    char location[COFFER__URL_SIZE];
} coffer__http_reply;

typedef struct coffer__http_request {
    const char *url;
    const char *range;                /* "0-65535"; NULL: everything */
    const char *if_range;             /* a strong validator, or NULL */
    const char *bearer;               /* a token for this host, or NULL */
    const char *sigv4;                /* "aws:amz:REGION:s3", or NULL */
    const char *user;                 /* "KEY:SECRET" for it */
    const char *const *headers;       /* more lines, ended by NULL; or NULL */
    const char *certificates;         /* the file with those to trust, or NULL: the system's … */
    coffer__authorities *authorities; /* … unless they were read; or NULL */
    bool head_only;                   /* no body is wanted: HEAD */
    uint64_t timeout_ms;
    /* Takes a piece of the body; false: no more of it is wanted, which ends the connection. */
    bool (*take)(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size);
    void *ctx;
    const coffer__watch *watch; /* may be NULL */
} coffer__http_request;

/* How an exchange ended. */
typedef enum coffer__http_end {
    COFFER__HTTP_DONE = 0, /* the answer came whole */
    COFFER__HTTP_REFUSED,  /* `take` wanted no more of it */
    COFFER__HTTP_BROKEN,   /* the connection did, after it was made: worth another try */
    COFFER__HTTP_SILENT,   /* nothing came for timeout_ms, or too little */
    COFFER__HTTP_NO_HOST,  /* it could not be reached */
    COFFER__HTTP_NO_TRUST, /* it could not show who it is */
    COFFER__HTTP_STOPPED,  /* the watch did */
    COFFER__HTTP_FAILED    /* anything else */
} coffer__http_end;

/* False without memory. */
bool coffer__http_line_open(const coffer__libcurl *curl, coffer__http_line *line);
void coffer__http_line_close(const coffer__libcurl *curl, coffer__http_line *line);
/* Fills *reply as far as the answer came; *words say what happened when it did not end as DONE; static. */
coffer__http_end coffer__http_exchange(const coffer__libcurl *curl, const coffer__http_line *line,
                                       const coffer__http_request *request, coffer__http_reply *reply,
                                       const char **words);

#endif
