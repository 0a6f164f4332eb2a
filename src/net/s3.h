/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object stores with the S3 interface: what `s3://bucket/key` means, and what a request needs to be
 * signed. libcurl computes the signature itself (SigV4). Settings come from the variables that
 * Amazon's own tools read, and from nowhere else: no files, no metadata service. Without a key,
 * requests are not signed, which is enough for public buckets.
 */
#ifndef COFFER_NET_S3_H
#define COFFER_NET_S3_H

#include "coffer.h"
#include "url.h"

/* Constant once it was read. `user` and `token_line` are secrets: they go to libcurl, and into no
   message. */
typedef struct coffer__s3 {
    coffer__url endpoint; /* of another store, without a slash at its end; "" for Amazon's */
    char region[64];
    char user[512];        /* "KEY:SECRET"; "" for none */
    char signature[96];    /* how libcurl is told to sign */
    char token_line[4096]; /* the header of a session's token; "" for none */
} coffer__s3;

/* Reads the environment. COFFER_ERR_ARGUMENT names the variable that is invalid, and never shows a
   secret. Failing here fails the opening of any URL, also of one that is not in a store. */
coffer_status coffer__s3_settings(coffer__s3 *s3, coffer_error *err);
/* The URL of an object, or, without a key, of the bucket. The key is taken literally: nothing in it
   is an escape. `text` begins with s3://. COFFER_ERR_URL if there is no bucket, no slash after it,
   or no space. */
coffer_status coffer__s3_url(const coffer__s3 *s3, const char *text, coffer__url *url, coffer_error *err);

/* The additional lines of a request's head, signed or not: ended by NULL, borrowed from `s3`. */
#define COFFER__S3_LINES 4
void coffer__s3_lines(const coffer__s3 *s3, bool is_signed, const char *lines[COFFER__S3_LINES]);

#endif
