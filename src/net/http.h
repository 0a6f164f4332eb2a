/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request, one answer, over one connection that stays open for the next request. There is no
 * policy here: redirects and failures are reported to the caller, and an answer of any status is an
 * answer. The fields of the answer's head are read before its body, which is handed on piece by
 * piece as it arrives, so that bytes are stored where they belong at once. The head is complete
 * when the blank line came that ends it.
 *
 * An exchange has one deadline, which moves: the whole head must come within `timeout_ms`, and
 * after it enough of the body in each `timeout_ms`. A head without end, or a byte now and then,
 * does not extend it.
 *
 * A line belongs to one thread at a time. Proxies, and exceptions from them, are libcurl's
 * business; it reads its own environment variables.
 */
#ifndef COFFER_NET_HTTP_H
#define COFFER_NET_HTTP_H

#include "authorities.h"
#include "coffer.h"
#include "http_text.h"
#include "libcurl.h"
#include "source.h"
#include "url.h"

/* What keeps the connection open: a multi handle, which owns the connections of its easy handles.
   Each request gets an easy handle of its own, because some libcurls (7.88 of Debian 12) have a bug
   with one that is used again: it keeps a pointer into the freed head of the last answer, and
   writes there if the next answer begins with a blank. */
typedef struct coffer__http_line {
    void *multi;
} coffer__http_line;

typedef struct coffer__http_reply {
    uint32_t status;
    bool encoded;      /* Content-Encoding says anything but identity */
    bool has_range;    /* there is a Content-Range */
    bool range_is_bad; /* the Content-Range could not be understood */
    coffer__content_range range;
    uint64_t length;       /* Content-Length, or COFFER__HTTP_UNKNOWN */
    uint64_t retry_after;  /* in seconds, or COFFER__HTTP_UNKNOWN */
    uint64_t body;         /* bytes of the body that came */
    char etag[256];        /* "" when there is none, as below; of a longer one a digest, which is not strong */
    char modified[64];     /* Last-Modified, likewise */
    char linked_etag[128]; /* X-Linked-Etag: of the file that a redirect of the Hub leads to */
    char commit[64];       /* X-Repo-Commit: of the Hub */
    char checksum[64];     /* x-amz-checksum-sha256: in base64 */
    char reason[64];       /* of a refusal, in letters, as the server calls it: the Hub's X-Error-Code */
    char location[COFFER__URL_SIZE];
    char next[COFFER__URL_SIZE]; /* Link: of the page after this one; "" */
} coffer__http_reply;

typedef struct coffer__http_request {
    const char *url;
    const char *range;                /* "0-65535"; NULL: everything */
    const char *if_range;             /* a strong validator, or NULL */
    const char *bearer;               /* a token for this host, or NULL */
    const char *sigv4;                /* "aws:amz:REGION:s3", or NULL */
    const char *user;                 /* "KEY:SECRET" for it */
    const char *const *headers;       /* more lines, ended by NULL; or NULL */
    const char *certificates;         /* the file with those to trust, or NULL: the system's */
    coffer__authorities *authorities; /* the certificates to trust, where they were read; or NULL */
    bool head_only;                   /* no body is wanted: HEAD */
    uint64_t timeout_ms;
    /* Takes a piece of the body; false: no more of it is wanted, which ends the connection. The
       pieces come in order, each at most 256 KiB, on the thread that runs the exchange. The head in
       *reply is complete by then, and reply->body counts the bytes before this piece. */
    bool (*take)(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size);
    void *ctx;
    const coffer__watch *watch; /* may be NULL */
} coffer__http_request;

/* How an exchange ended. */
typedef enum coffer__http_end {
    COFFER__HTTP_DONE = 0, /* the answer came whole */
    COFFER__HTTP_REFUSED,  /* `take` wanted no more of it */
    COFFER__HTTP_BROKEN,   /* the connection broke after it was made: worth another try */
    COFFER__HTTP_SILENT,   /* nothing came for timeout_ms, or too little */
    COFFER__HTTP_NO_HOST,  /* the host could not be reached */
    COFFER__HTTP_NO_TRUST, /* the host could not prove who it is */
    COFFER__HTTP_STOPPED,  /* the watch stopped it */
    COFFER__HTTP_FAILED    /* anything else */
} coffer__http_end;

/* Opens a line; false if there is no memory. Nothing is connected yet. A line may be used for any
   hosts in turn: libcurl keeps the connections, and finds the one that fits. */
bool coffer__http_line_open(const coffer__libcurl *curl, coffer__http_line *line);
void coffer__http_line_close(const coffer__libcurl *curl, coffer__http_line *line);
/* Runs one exchange. *reply is filled as far as the answer came. If it did not end as DONE, *words
   say what happened; they are static. *reply is valid after every end, with status 0 where not even
   a status line came. The line may be used for the next exchange whatever the end was. */
coffer__http_end coffer__http_exchange(const coffer__libcurl *curl, const coffer__http_line *line,
                                       const coffer__http_request *request, coffer__http_reply *reply,
                                       const char **words);

#endif
