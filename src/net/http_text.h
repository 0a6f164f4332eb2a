/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP servers say in the fields of an answer's head, read strictly by RFC 9110. Pure: no I/O,
 * no memory. All of it is untrusted: texts have a length and need not be terminated, and numbers
 * are checked for overflow.
 */
#ifndef COFFER_NET_HTTP_TEXT_H
#define COFFER_NET_HTTP_TEXT_H

#include "coffer.h"

#define COFFER__HTTP_UNKNOWN UINT64_MAX

/* Content-Range: `bytes FIRST-LAST/SIZE`, or `bytes *` + `/SIZE` if the range that was asked for
   lies outside. */
typedef struct coffer__content_range {
    bool satisfied;
    uint64_t first; /* of a satisfied one */
    uint64_t last;
    uint64_t size; /* COFFER__HTTP_UNKNOWN for `*` */
} coffer__content_range;

/* Whether the line `text` is `name: value`, in any case; then the value without space around it.
   `name` is in lower case. *value points into `text`. A line without a colon right after the name
   is not that field: RFC 9112 forbids space there, because proxies have read it differently. */
bool coffer__http_field(const char *text, size_t text_len, const char *name, const char **value, size_t *value_len);
/* Reads a number: digits and nothing else, below 2^64. No sign, no space and no fraction. *value is
   unspecified after false. */
bool coffer__http_number(const char *text, size_t text_len, uint64_t *value);
/* False for whatever is not exactly one of the two forms, with FIRST <= LAST < SIZE. */
bool coffer__http_content_range(const char *text, size_t text_len, coffer__content_range *range);
/* The seconds that a Retry-After asks for: a number, or a date in GMT, from which `now` (seconds
   since 1970) is subtracted; false for anything else. A date in the past is 0; a number that is too
   large becomes the largest below COFFER__HTTP_UNKNOWN. */
bool coffer__http_retry_after(const char *text, size_t text_len, uint64_t now, uint64_t *seconds);
/* The SHA-256 written as 64 hexadecimal digits, quoted or not, or as 44 characters of base64; false
   for any other text. */
bool coffer__http_sha256_hex(const char *text, uint8_t digest[32]);
bool coffer__http_sha256_base64(const char *text, uint8_t digest[32]);
/* The name of a refusal's reason, "AccessDenied": letters and nothing else, up to `end`, copied to
   `word`; false for no such text, and for one that does not fit. */
bool coffer__http_word(const char *text, size_t text_len, char end, char *word, size_t word_size);
/* The same as an object store sends it, in <Code>…</Code>. */
bool coffer__http_error_code(const char *text, size_t text_len, char *word, size_t word_size);
/* The URL that a Link field says comes next, `<URL>; rel="next"`; "" where it says none, or one that does not fit. */
void coffer__http_next(const char *text, size_t text_len, char *url, size_t url_size);
/* Whether a validator may be sent in If-Range: a quoted text without `W/` before it, and without
   control characters, which could end a line of the request. A weak one says that two versions mean
   the same and not that their bytes are equal, so RFC 9110 does not allow it for ranges. */
bool coffer__http_is_strong(const char *etag);

#endif
