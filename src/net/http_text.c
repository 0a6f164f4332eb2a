/* SPDX-License-Identifier: Apache-2.0 */
#include "http_text.h"

#include "base64.h"
#include "checked.h"
#include "hex.h"
#include "text.h"

#include <string.h>

/* Carriage return and line feed count, since libcurl passes lines with their ends. */
static bool http_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* `name` is in lower case. The value loses the white space around it, the end of the line
   included. */
bool coffer__http_field(const char *text, size_t text_len, const char *name, const char **value, size_t *value_len)
{
    size_t at = 0;
    for (; name[at] != '\0'; at++) {
        if (at >= text_len || coffer__text_lower(text[at]) != name[at]) {
            return false;
        }
    }
    if (at >= text_len || text[at] != ':') {
        return false;
    }
    at++;
    while (at < text_len && http_is_space(text[at])) {
        at++;
    }
    while (text_len > at && http_is_space(text[text_len - 1])) {
        text_len--;
    }
    *value = text + at;
    *value_len = text_len - at;
    return true;
}

/* Reads the digits at *at; false if there are none, or if the number is above 2^64-1. *at moves
   past the digits that were read. A number that overflows is refused rather than wrapped or capped,
   as these numbers say where bytes go. */
static bool http_digits(const char *text, size_t text_len, size_t *at, uint64_t *value)
{
    const size_t from = *at;
    uint64_t sum = 0;
    for (; *at < text_len && text[*at] >= '0' && text[*at] <= '9'; (*at)++) {
        if (!coffer__mul_u64(sum, 10, &sum) || !coffer__add_u64(sum, (uint64_t)(text[*at] - '0'), &sum)) {
            return false;
        }
    }
    *value = sum;
    return *at > from;
}

bool coffer__http_number(const char *text, size_t text_len, uint64_t *value)
{
    size_t at = 0;
    return http_digits(text, text_len, &at, value) && at == text_len;
}

/* Passes over one character; false, and nothing passed, if it is another one. */
static bool http_take(const char *text, size_t text_len, size_t *at, char c)
{
    if (*at >= text_len || text[*at] != c) {
        return false;
    }
    (*at)++;
    return true;
}

/* A size of 2^64-1 is refused, since that number means "unknown" here. So is a range that reaches
   beyond the size. The unit is compared in any case; nothing but `bytes` is understood. Whatever
   follows the size makes the field invalid, so a server cannot hide a second range there. */
bool coffer__http_content_range(const char *text, size_t text_len, coffer__content_range *range)
{
    static const char unit[] = "bytes ";
    size_t at = 0;
    for (; unit[at] != '\0'; at++) {
        if (at >= text_len || coffer__text_lower(text[at]) != unit[at]) {
            return false;
        }
    }
    memset(range, 0, sizeof *range);
    range->satisfied = !http_take(text, text_len, &at, '*');
    if (range->satisfied && !(http_digits(text, text_len, &at, &range->first) && http_take(text, text_len, &at, '-') &&
                              http_digits(text, text_len, &at, &range->last) && range->first <= range->last)) {
        return false;
    }
    if (!http_take(text, text_len, &at, '/')) {
        return false;
    }
    if (range->satisfied && http_take(text, text_len, &at, '*')) {
        range->size = COFFER__HTTP_UNKNOWN;
        return at == text_len;
    }
    return http_digits(text, text_len, &at, &range->size) && at == text_len && range->size != COFFER__HTTP_UNKNOWN &&
           (!range->satisfied || range->last < range->size);
}

/* ---- Retry-After ------------------------------------------------------------------------------------------------- */

/* The largest number of seconds that differs from "unknown". */
#define HTTP_LONGEST_WAIT (COFFER__HTTP_UNKNOWN - 1)

/* Days from 1970 to a date of the Gregorian calendar. Years are counted from March, so that the
   leap day is the last day of a year: then (153 m + 2) / 5 is the number of days before month m.
   719468 is 1970-01-01 in that count. Years are at least 1970 here, so nothing is negative. */
static uint64_t http_days(uint64_t year, uint64_t month, uint64_t day)
{
    const uint64_t shifted = month > 2 ? year : year - 1;
    const uint64_t from_march = month > 2 ? month - 3 : month + 9;
    return 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * from_march + 2) / 5 + day - 1 - 719468;
}

/* A number of exactly `count` digits at `at`. The caller has checked that the text is long
   enough. */
static bool http_field_of_date(const char *text, size_t at, size_t count, uint64_t most, uint64_t *value)
{
    return coffer__http_number(text + at, count, value) && *value <= most;
}

/* `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970: the only form that servers may write.
   `frame` has the fixed characters, and blanks where the others are. The day's name is not
   compared. 60 is a leap second. RFC 9110 obliges receivers to read two obsolete forms, too; no
   server that is met in practice sends them, and one that did would only lose its wish to be waited
   for. That a month has fewer than 31 days is not checked, since the result is only a delay. */
static bool http_date(const char *text, size_t text_len, uint64_t *seconds)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const char frame[] = "   ,    " /* the day's name and number */
                                "    "     /* the month */
                                "       :  :   GMT";
    uint64_t day = 0;
    uint64_t year = 0;
    uint64_t hour = 0;
    uint64_t minute = 0;
    uint64_t second = 0;
    _Static_assert(sizeof frame == 30, "as long as the date");
    if (text_len != sizeof frame - 1) {
        return false;
    }
    for (size_t i = 0; i < text_len; i++) {
        if (frame[i] != ' ' && frame[i] != text[i]) {
            return false;
        }
    }
    uint64_t month = 1;
    while (month <= 12 && memcmp(months + 3 * (month - 1), text + 8, 3) != 0) {
        month++;
    }
    if (month > 12 || !http_field_of_date(text, 5, 2, 31, &day) || !http_field_of_date(text, 12, 4, 9999, &year) ||
        !http_field_of_date(text, 17, 2, 23, &hour) || !http_field_of_date(text, 20, 2, 59, &minute) ||
        !http_field_of_date(text, 23, 2, 60, &second) || year < 1970 || day == 0) {
        return false;
    }
    *seconds = ((http_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    return true;
}

/* Whether a text is digits, however many. */
static bool http_is_digits(const char *text, size_t text_len)
{
    size_t at = 0;
    while (at < text_len && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at == text_len && at > 0;
}

/* A number that is too large for 64 bits is still a request to wait, and a long one. A
   date is compared with the clock of this machine, so a wrong clock makes a wrong delay;
   web.c bounds it. */
bool coffer__http_retry_after(const char *text, size_t text_len, uint64_t now, uint64_t *seconds)
{
    uint64_t date = 0;
    if (http_is_digits(text, text_len)) {
        const bool fits = coffer__http_number(text, text_len, seconds);
        *seconds = fits && *seconds < HTTP_LONGEST_WAIT ? *seconds : HTTP_LONGEST_WAIT;
        return true;
    }
    if (!http_date(text, text_len, &date)) {
        return false;
    }
    *seconds = date > now ? date - now : 0;
    return true;
}

/* Letters only, as the word is shown in messages and comes from a server. Nothing is copied unless
   all of the word fits: half a reason could be another one. */
bool coffer__http_word(const char *text, size_t text_len, char end, char *word, size_t word_size)
{
    size_t len = 0;
    while (len < text_len && coffer__text_lower(text[len]) >= 'a' && coffer__text_lower(text[len]) <= 'z') {
        len++;
    }
    const bool ends = len < text_len ? text[len] == end : end == '\0';
    if (len == 0 || len >= word_size || !ends) {
        return false;
    }
    memcpy(word, text, len);
    word[len] = '\0';
    return true;
}

/* No XML parser: the first <Code> is the error's, and a word that does not end in a tag is not one.
   The search is linear in what came with the first piece of the body. The word itself has letters
   only, so no markup, escape or control character of the server gets into a message. */
bool coffer__http_error_code(const char *text, size_t text_len, char *word, size_t word_size)
{
    static const char tag[] = "<Code>";
    const size_t tag_len = sizeof tag - 1;
    for (size_t at = 0; at < text_len && text_len - at > tag_len; at++) {
        if (memcmp(text + at, tag, tag_len) == 0) {
            return coffer__http_word(text + at + tag_len, text_len - at - tag_len, '<', word, word_size);
        }
    }
    return false;
}

/* Bytes above 0x7F are allowed, as RFC 9110 has them in validators. */
bool coffer__http_is_strong(const char *etag)
{
    const size_t len = coffer__text_len(etag);
    bool plain = true;
    for (size_t i = 0; i < len; i++) {
        plain = plain && (unsigned char)etag[i] >= ' ' && etag[i] != 0x7F;
    }
    return plain && len >= 2 && etag[0] == '"' && etag[len - 1] == '"';
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* The Hub quotes its digests like ETags. A file that it keeps in git has a SHA-1 here, which is
   shorter, and is refused by its length. */
bool coffer__http_sha256_hex(const char *text, uint8_t digest[32])
{
    const size_t len = coffer__text_len(text);
    const size_t quote = len == 66 && text[0] == '"' && text[65] == '"';
    return len == 64 + 2 * quote && coffer__hex_read(digest, 32, text + quote, 64);
}

/* 32 bytes are 44 characters. Text with less padding has more bytes, which need space before they are
   refused. */
bool coffer__http_sha256_base64(const char *text, uint8_t digest[32])
{
    uint8_t bytes[33];
    size_t size = 0;
    if (coffer__text_len(text) != 44 || !coffer__base64_read(bytes, &size, text, 44) || size != 32) {
        return false;
    }
    memcpy(digest, bytes, 32);
    return true;
}

/* A field may have several links, each with parameters, of which commas within quotes or brackets are a part. */
static size_t http_link_end(const char *text, size_t text_len, size_t at)
{
    char within = '\0';
    for (; at < text_len && (within != '\0' || text[at] != ','); at++) {
        if (within != '\0') {
            within = text[at] == within ? '\0' : within;
        } else if (text[at] == '<' || text[at] == '"') {
            within = text[at] == '<' ? '>' : '"';
        }
    }
    return at;
}

/* Whether the parameters of a link say that it is the next one. */
static bool http_is_next(const char *text, size_t text_len)
{
    static const char *const words[] = { "rel=\"next\"", "rel=next" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t len = coffer__text_len(words[i]);
        for (size_t at = 0; at + len <= text_len; at++) {
            if (memcmp(text + at, words[i], len) == 0) {
                return true;
            }
        }
    }
    return false;
}

void coffer__http_next(const char *text, size_t text_len, char *url, size_t url_size)
{
    url[0] = '\0';
    for (size_t at = 0; at < text_len;) {
        const size_t end = http_link_end(text, text_len, at);
        const char *begin = memchr(text + at, '<', end - at);
        const char *close = begin != NULL ? memchr(begin, '>', (size_t)(text + end - begin)) : NULL;
        const size_t len = close != NULL ? (size_t)(close - begin) - 1 : 0;
        if (len > 0 && len < url_size && http_is_next(close, (size_t)(text + end - close))) {
            memcpy(url, begin + 1, len);
            url[len] = '\0';
            return;
        }
        at = end + 1;
    }
}
