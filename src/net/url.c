/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include "error.h"
#include "text.h"

#include <string.h>

static const struct url_scheme_row {
    const char *name;
    coffer__scheme scheme;
    uint32_t port;
    /* The schemes that are known, with the port that is meant when none is written; 0 where a port
   makes no sense. */
} url_schemes[] = {
    { "http", COFFER__SCHEME_HTTP, 80 },
    { "https", COFFER__SCHEME_HTTPS, 443 },
    { "s3", COFFER__SCHEME_S3, 0 },
    { "hf", COFFER__SCHEME_HF, 0 },
};

static bool url_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool url_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The NUL is in no set. */
static bool url_has(const char *characters, char c)
{
    for (; *characters != '\0'; characters++) {
        if (*characters == c) {
            return true;
        }
    }
    return false;
}

/* Length of `scheme` in `scheme://`; 0 if the text does not begin like that. By RFC 3986 a scheme
   begins with a letter. A path like C:/models has one slash only, and is no URL. */
static size_t url_scheme_len(const char *text)
{
    size_t len = 0;
    if (!url_is_letter(text[0])) {
        return 0;
    }
    while (url_is_letter(text[len]) || url_is_digit(text[len]) || url_has("+-.", text[len])) {
        len++;
    }
    return text[len] == ':' && text[len + 1] == '/' && text[len + 2] == '/' ? len : 0;
}

bool coffer__url_is(const char *text)
{
    return url_scheme_len(text) > 0;
}

/* Compares in any case. A length of 0 finds nothing, as no scheme has an empty name. */
static const struct url_scheme_row *url_find_scheme(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof url_schemes / sizeof url_schemes[0]; i++) {
        const char *name = url_schemes[i].name;
        size_t same = 0;
        while (same < len && name[same] != '\0' && name[same] == coffer__text_lower(text[same])) {
            same++;
        }
        if (same == len && name[same] == '\0') {
            return &url_schemes[i];
        }
    }
    return NULL;
}

/* Each character is checked for space before it is written, with a byte left for the NUL. On failure
   the text has no NUL where it was cut, so it must not be used. */
size_t coffer__url_append(char *out, size_t used, const char *text, size_t text_len, const char *keep)
{
    for (size_t i = 0; i < text_len; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool plain =
            url_is_letter(text[i]) || url_is_digit(text[i]) || url_has("-._~", text[i]) || url_has(keep, text[i]);
        if ((plain ? 1u : 3u) >= COFFER__URL_SIZE - used) {
            return 0;
        }
        if (plain) {
            out[used++] = text[i];
        } else {
            out[used++] = '%';
            out[used++] = "0123456789ABCDEF"[c >> 4];
            out[used++] = "0123456789ABCDEF"[c & 15u];
        }
    }
    out[used] = '\0';
    return used;
}

static coffer_status url_too_long(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_URL, "the URL is longer than %u characters", (uint64_t)COFFER__URL_SIZE - 1);
}

/* Whether a name or password stands before the host: an @ before the path, query or fragment
   begins. An @ after the first slash is a part of the path. */
static bool url_has_user(const char *text)
{
    size_t at = 0;
    while (text[at] != '\0' && !url_has("/?#@", text[at])) {
        at++;
    }
    return text[at] == '@';
}

/* Copies the host. Lower case makes origins comparable; a bucket or owner is no host name and keeps
   its case. A host is at most 255 characters, so the parts before the path always fit. Characters
   that have no place in a host are refused instead of escaped: different programs read such URLs
   differently, which is how requests end up at the wrong host. An address in brackets must be
   closed. 255 is the longest name that DNS has, and bounds what is written before the path, so the
   fixed buffer always has space for scheme, host and port. */
static coffer_status url_read_host(coffer__url *url, const char *text, size_t *at, coffer_error *err)
{
    const bool address = text[*at] == '[';
    const bool hub =
        url->scheme == COFFER__SCHEME_HF; /* a repository without an owner may be followed by its revision */
    const bool name = url->scheme == COFFER__SCHEME_S3 || hub;
    const char *others = address ? "[:.%" : hub ? "-._@%+" : "-._";
    const size_t from = *at;
    if (!hub && url_has_user(text + from)) {
        return coffer__fail(
            err, COFFER_ERR_URL,
            "names and passwords do not belong in a URL, which is shown and logged: put them into ~/.netrc");
    }
    while (url_is_letter(text[*at]) || url_is_digit(text[*at]) || url_has(others, text[*at])) {
        (*at)++;
    }
    if (address && text[*at] == ']') {
        (*at)++;
    }
    const char next = text[*at];
    if (*at == from || *at - from > 255 || (address && text[*at - 1] != ']') ||
        !(next == '\0' || url_has(":/?#", next))) {
        const size_t rest = coffer__text_len(text + from);
        return coffer__fail(err, COFFER_ERR_URL, "the URL has no valid host at %q", text + from, rest);
    }
    url->host_len = *at - from;
    for (size_t i = 0; i < url->host_len; i++) {
        url->text[url->host + i] = name ? text[from + i] : coffer__text_lower(text[from + i]);
    }
    url->text[url->host + url->host_len] = '\0';
    return COFFER_OK;
}

/* The port is kept as it was written, even if it is the scheme's default: users should recognise
   their URL, and origins are compared by number. Six digits are enough to see that it is too large.
   Schemes without a port (s3, hf) may not state one. An empty port ("host:") is refused, though RFC
   3986 allows it. */
static coffer_status url_read_port(coffer__url *url, const char *text, size_t *at, coffer_error *err)
{
    if (text[*at] != ':') {
        return COFFER_OK;
    }
    uint32_t port = 0;
    size_t digits = 0;
    for (; url_is_digit(text[*at + 1 + digits]) && digits < 6; digits++) {
        port = port * 10 + (uint32_t)(text[*at + 1 + digits] - '0');
    }
    const char next = text[*at + 1 + digits];
    if (url->port == 0 || port == 0 || port > 65535 || !(next == '\0' || url_has("/?#", next))) {
        return coffer__fail(err, COFFER_ERR_URL, "the URL's port is not a number from 1 to 65535");
    }
    memcpy(url->text + url->host + url->host_len, text + *at, 1 + digits);
    url->port = port;
    url->path += 1 + digits;
    *at += 1 + digits;
    return COFFER_OK;
}

/* Copies path and query. What may not occur in them becomes %XX; what is written so already is
   kept. A control character is refused: it could end a line of the request. A URL always gets a
   path, of a slash at least. Backslashes, quotes and other characters that have no place in a URL
   become %XX too, so what libcurl and the server read is what was checked. A % that begins no
   escape is kept, as escaping it again would change what signed addresses say. */
static coffer_status url_read_rest(coffer__url *url, const char *text, size_t at, coffer_error *err)
{
    const size_t rest = coffer__text_len(text + at);
    /* The end is at the fragment, which is not sent. */
    size_t end = 0;
    while (end < rest && text[at + end] != '#') {
        const unsigned char c = (unsigned char)text[at + end];
        if (c < 0x20 || c == 0x7F) {
            return coffer__fail_at(err, COFFER_ERR_URL, at + end, "the URL has a control character (%x)", (uint64_t)c);
        }
        end++;
    }
    size_t used = url->path;
    if (end == 0 || text[at] == '?') {
        used = coffer__url_append(url->text, used, "/", 1, "/");
    }
    used = used == 0 ? 0 : coffer__url_append(url->text, used, text + at, end, "%/?:@!$&'()*+,;=[]");
    if (used == 0) {
        return url_too_long(err);
    }
    url->path_len = 0;
    while (url->text[url->path + url->path_len] != '\0' && url->text[url->path + url->path_len] != '?') {
        url->path_len++;
    }
    return COFFER_OK;
}

/* The text is built up in order, and each part is added where the one before ended. The scheme is
   stored in lower case. The three steps share `at`, the place in `text`, and set the offsets of the
   parts as they go. */
coffer_status coffer__url_read(coffer__url *url, const char *text, coffer_error *err)
{
    const size_t scheme_len = url_scheme_len(text);
    const struct url_scheme_row *row = url_find_scheme(text, scheme_len);
    memset(url, 0, sizeof *url);
    if (row == NULL) {
        return coffer__fail(err, COFFER_ERR_URL, "the scheme %q is not supported: use http, https, s3 or hf", text,
                            scheme_len);
    }
    url->scheme = row->scheme;
    url->port = row->port;
    url->host = scheme_len + 3;
    memcpy(url->text, row->name, scheme_len);
    memcpy(url->text + scheme_len, "://", 3);
    size_t at = url->host;
    coffer_status status = url_read_host(url, text, &at, err);
    url->path = url->host + url->host_len;
    if (status == COFFER_OK) {
        status = url_read_port(url, text, &at, err);
    }
    return status == COFFER_OK ? url_read_rest(url, text, at, err) : status;
}

/* The reason of a failure is not passed on; the message about the variable shows the whole value.
   Slashes at its end are removed, so that paths can be appended with exactly one. */
coffer_status coffer__url_read_base(coffer__url *url, const char *name, const char *text, coffer_error *err)
{
    const coffer_status status = coffer__url_read(url, text, NULL);
    if (status != COFFER_OK || (url->scheme != COFFER__SCHEME_HTTP && url->scheme != COFFER__SCHEME_HTTPS) ||
        url->text[url->path + url->path_len] != '\0') {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the environment variable %s is %q, which is not the URL of a host", name, text,
                            coffer__text_len(text));
    }
    while (url->path_len > 0 && url->text[url->path + url->path_len - 1] == '/') {
        url->path_len--;
    }
    url->text[url->path + url->path_len] = '\0';
    return COFFER_OK;
}

/* The name replaces everything after the last slash of the path; the query goes with it. Only
   slashes keep their meaning: whoever gives the name has checked that it does not lead up. */
bool coffer__url_beside(coffer__url *url, const char *name, size_t name_len)
{
    size_t used = url->path + url->path_len;
    while (used > url->path && url->text[used - 1] != '/') {
        used--;
    }
    /* A host alone has no path, not even a slash. */
    if (used == url->path) {
        used = coffer__url_append(url->text, used, "/", 1, "/");
    }
    used = used == 0 ? 0 : coffer__url_append(url->text, used, name, name_len, "/");
    url->path_len = used == 0 ? 0 : used - url->path;
    return used != 0;
}

/* ---- redirects --------------------------------------------------------------------------------------------------- */

/* How many characters of `base` a relative location keeps, by the forms of RFC 3986: //host, /path,
   ?query, and a name beside the last one. "../" is not resolved here. It is joined as it is, and
   libcurl removes it. */
static size_t url_kept(const coffer__url *base, const char *location)
{
    if (location[0] == '/' && location[1] == '/') {
        return base->host - 2; /* the scheme and its colon */
    }
    if (location[0] == '/') {
        return base->path;
    }
    if (location[0] == '?') {
        return base->path + base->path_len;
    }
    size_t end = base->path + base->path_len;
    while (end > base->path && base->text[end - 1] != '/') {
        end--;
    }
    return end;
}

/*
 * A location is joined to its base as text and then read like any URL. So there is one way for text
 * to become a URL, and what a server writes is refused for the same reasons as what a user writes.
 * Only then is the scheme compared: following from https to http would give away what TLS protects.
 *
 * The message shows the location escaped (%q), since the server chose it.
 */
coffer_status coffer__url_follow(coffer__url *url, const coffer__url *base, const char *location, coffer_error *err)
{
    char whole[COFFER__URL_SIZE];
    const size_t kept = coffer__url_is(location) ? 0 : url_kept(base, location);
    const size_t location_len = coffer__text_len(location);
    if (location_len >= sizeof whole - kept) {
        return coffer__fail(err, COFFER_ERR_REDIRECT, "the server redirects to a URL of more than %u characters",
                            (uint64_t)sizeof whole - 1);
    }
    memcpy(whole, base->text, kept);
    memcpy(whole + kept, location, location_len + 1);
    /* What the server wrote is not the user's mistake. */
    if (coffer__url_read(url, whole, NULL) != COFFER_OK) {
        return coffer__fail(err, COFFER_ERR_REDIRECT, "the server redirects to %q, which is not a URL that is followed",
                            location, location_len);
    }
    const bool downgraded = base->scheme == COFFER__SCHEME_HTTPS && url->scheme != COFFER__SCHEME_HTTPS;
    if (downgraded || (url->scheme != COFFER__SCHEME_HTTP && url->scheme != COFFER__SCHEME_HTTPS)) {
        return coffer__fail(err, COFFER_ERR_REDIRECT, "the server redirects from %s to %q, which is not followed",
                            downgraded ? "https" : "http", location, location_len);
    }
    return COFFER_OK;
}

/* Hosts are compared as text in lower case. Two names of one machine are two origins, as for
   browsers. */
bool coffer__url_same_origin(const coffer__url *a, const coffer__url *b)
{
    return a->scheme == b->scheme && a->port == b->port && a->host_len == b->host_len &&
           memcmp(a->text + a->host, b->text + b->host, a->host_len) == 0;
}
