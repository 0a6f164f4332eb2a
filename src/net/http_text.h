/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP servers say in the lines of their headers, read strictly: RFC 9110. Pure: no I/O, no memory. */
#ifndef COFFER_NET_HTTP_TEXT_H
#define COFFER_NET_HTTP_TEXT_H

#include "coffer.h"

#define COFFER__HTTP_UNKNOWN UINT64_MAX

/* Content-Range: `bytes FIRST-LAST/SIZE`, or `bytes *` + `/SIZE` when the range that was asked for lies outside. */
typedef struct coffer__content_range {
    bool satisfied;
    uint64_t first; /* of a satisfied one … */
    uint64_t last;
    uint64_t size; /* COFFER__HTTP_UNKNOWN for `*` */
} coffer__content_range;

/* Whether the line `text` is `name: value`, in any case; then the value without space around it. */
bool coffer__http_field(const char *text, size_t text_len, const char *name, const char **value, size_t *value_len);
/* Digits and nothing else. */
bool coffer__http_number(const char *text, size_t text_len, uint64_t *value);
/* False for whatever is not exactly one of the two forms, with FIRST <= LAST < SIZE. */
bool coffer__http_content_range(const char *text, size_t text_len, coffer__content_range *range);
/* Seconds that a Retry-After wants: a number, or a date in GMT, reckoned from `now` (seconds since 1970); false for
   anything else. A date that is past is 0; a number that is too large is the largest but COFFER__HTTP_UNKNOWN. */
bool coffer__http_retry_after(const char *text, size_t text_len, uint64_t now, uint64_t *seconds);
/* The SHA-256 that a quoted text of 64 hexadecimal digits, or 44 characters of base64, stand for; false for any other
   text. */
bool coffer__http_sha256_hex(const char *text, uint8_t digest[32]);
bool coffer__http_sha256_base64(const char *text, uint8_t digest[32]);
/* The name of a refusal's reason, "AccessDenied": letters and nothing else, up to `end`, copied to `word`; false for no
   such text, and for one that does not fit. */
bool coffer__http_word(const char *text, size_t text_len, char end, char *word, size_t word_size);
/* The same as an object store sends it, in <Code>…</Code>. */
bool coffer__http_error_code(const char *text, size_t text_len, char *word, size_t word_size);
/* Whether a validator may be used for If-Range: a quoted text without `W/` before it, and without
   what would end a line where it is sent. */
bool coffer__http_is_strong(const char *etag);

#endif
