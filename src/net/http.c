/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "fnv.h"
#include "os.h"
#include "text.h"

#include <string.h>

/* How much libcurl reads at a time: the largest pieces that `take` gets. */
#define HTTP_BUFFER_SIZE (256L << 10)
/* Bytes of all lines of an exchange: interim answers, the head that counts, and a trailer after the
   body. A server must not be able to keep us reading lines for ever. */
#define HTTP_MAX_LINES ((uint64_t)256 << 10)
/* The least rate of a body, in bytes per second averaged over timeout_ms: a server that sends less
   is treated as one that sends nothing. */
#define HTTP_MIN_RATE ((uint64_t)128)

/* One exchange while it runs: what libcurl's callbacks get. It lives on the stack of the thread
   that asks, and libcurl calls back on that thread only. */
typedef struct http_exchange {
    const coffer__libcurl *curl;
    const coffer__http_request *request;
    coffer__http_reply *reply;
    uint64_t since;   /* in milliseconds: when enough had come for the last time */
    uint64_t counted; /* bytes of the body that had come then */
    uint64_t lines;   /* bytes of lines, which are not body */
    bool headed;      /* the head of the reply is complete */
    bool refused;     /* `take` wanted no more */
    char detail
        [COFFER__CURL_ERROR_SIZE]; /* libcurl's words for a failure, with names that the other side chose: not shown */
} http_exchange;

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* Keeps a field's value, or "" if it does not fit: half a value would be a wrong one. False tells
   that it did not fit. Most callers ignore that, since a field that is missing and one that is
   absurdly long mean the same to them. */
static bool http_keep(char *to, size_t size, const char *value, size_t value_len)
{
    if (value_len >= size) {
        to[0] = '\0';
        return false;
    }
    memcpy(to, value, value_len);
    to[value_len] = '\0';
    return true;
}

/* Keeps what tells one version of a file from another. One that is too long must still differ from
   others, so its length and FNV-1a are kept instead. Without quotes that is no strong ETag
   (coffer__http_is_strong), so it is compared, but never sent. The buffer must have space for two
   numbers of 20 digits and a blank. */
static void http_keep_validator(char *to, size_t size, const char *value, size_t value_len)
{
    if (http_keep(to, size, value, value_len)) {
        return;
    }
    size_t used = coffer__write_u64(to, value_len);
    to[used++] = ' ';
    used += coffer__write_u64(to + used, coffer__fnv(COFFER__FNV_START, value, value_len));
    to[used] = '\0';
}

/* Begins a reply with its status line, "HTTP/1.1 206 Partial Content": the three digits after the
   first blank. A status that cannot be read is 0, which no caller takes for success. Everything of
   an earlier head is forgotten, so that a field of an interim answer never counts for the final
   one. HTTP/2 and newer have no reason phrase, but libcurl writes their status lines in the same
   form. */
static void http_begin_reply(coffer__http_reply *reply, const char *line, size_t line_len)
{
    uint64_t status = 0;
    memset(reply, 0, sizeof *reply);
    reply->length = COFFER__HTTP_UNKNOWN;
    reply->retry_after = COFFER__HTTP_UNKNOWN;
    for (size_t at = 0; at + 4 <= line_len; at++) {
        if (line[at] == ' ') {
            reply->status = coffer__http_number(line + at + 1, 3, &status) ? (uint32_t)status : 0;
            return;
        }
    }
}

/* Reads one field. Unknown ones are ignored. A field that is repeated replaces the earlier one,
   except Content-Range: it says where bytes go, so two of them make the answer unusable. A length
   or a delay that is no number counts as not stated: a missing length is allowed, and what arrives
   is counted anyway. Retry-After as a date needs the clock of this machine. */
static void http_read_line(coffer__http_reply *reply, const char *line, size_t line_len)
{
    const char *value = NULL;
    size_t len = 0;
    if (coffer__http_field(line, line_len, "content-range", &value, &len)) {
        reply->range_is_bad = reply->has_range || !coffer__http_content_range(value, len, &reply->range);
        reply->has_range = true;
    } else if (coffer__http_field(line, line_len, "content-length", &value, &len)) {
        if (!coffer__http_number(value, len, &reply->length)) {
            reply->length = COFFER__HTTP_UNKNOWN;
        }
    } else if (coffer__http_field(line, line_len, "content-encoding", &value, &len)) {
        reply->encoded = len != 0 && !(len == 8 && memcmp(value, "identity", 8) == 0);
    } else if (coffer__http_field(line, line_len, "etag", &value, &len)) {
        http_keep_validator(reply->etag, sizeof reply->etag, value, len);
    } else if (coffer__http_field(line, line_len, "last-modified", &value, &len)) {
        http_keep_validator(reply->modified, sizeof reply->modified, value, len);
    } else if (coffer__http_field(line, line_len, "location", &value, &len)) {
        (void)http_keep(reply->location, sizeof reply->location, value, len);
    } else if (coffer__http_field(line, line_len, "link", &value, &len)) {
        coffer__http_next(value, len, reply->next, sizeof reply->next);
    } else if (coffer__http_field(line, line_len, "x-linked-etag", &value, &len)) {
        (void)http_keep(reply->linked_etag, sizeof reply->linked_etag, value, len);
    } else if (coffer__http_field(line, line_len, "x-repo-commit", &value, &len)) {
        (void)http_keep(reply->commit, sizeof reply->commit, value, len);
    } else if (coffer__http_field(line, line_len, "x-amz-checksum-sha256", &value, &len)) {
        (void)http_keep(reply->checksum, sizeof reply->checksum, value, len);
    } else if (coffer__http_field(line, line_len, "x-error-code", &value, &len)) {
        (void)coffer__http_word(value, len, '\0', reply->reason, sizeof reply->reason);
    } else if (coffer__http_field(line, line_len, "retry-after", &value, &len)) {
        if (!coffer__http_retry_after(value, len, coffer__os_time(), &reply->retry_after)) {
            reply->retry_after = COFFER__HTTP_UNKNOWN;
        }
    }
}

/* Enough has come: timeout_ms begins again. Called only after a complete head and as the body
   grows, never for single lines: a server could otherwise keep an exchange alive with one header
   line now and then. */
static void http_move_deadline(http_exchange *exchange)
{
    exchange->since = coffer__os_milliseconds();
    exchange->counted = exchange->reply->body;
}

/*
 * Called by libcurl for each line of a head. A return value other than the length ends the transfer
 * with CURLE_WRITE_ERROR.
 *
 * There may be several heads: an interim answer (1xx) comes before the one that counts, so each
 * status line begins the reply again. After the head that counts, further lines are trailers. They
 * follow the body, which has been stored by then, and must not change what was read from the head.
 */
static size_t http_take_line(char *line, size_t size, size_t count, void *ctx)
{
    http_exchange *exchange = ctx;
    const size_t line_len = size * count;
    exchange->lines += line_len;
    if (exchange->lines > HTTP_MAX_LINES) {
        return 0;
    }
    /* Trailers: counted above, and otherwise ignored. */
    if (exchange->headed && exchange->reply->status >= 200) {
        return line_len;
    }
    if (line_len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        http_begin_reply(exchange->reply, line, line_len);
        exchange->headed = false;
        /* The blank line that ends a head. Only a final one moves the deadline. */
    } else if (line_len > 0 && (line[0] == '\r' || line[0] == '\n')) {
        exchange->headed = true;
        if (exchange->reply->status >= 200) {
            http_move_deadline(exchange);
        }
    } else {
        http_read_line(exchange->reply, line, line_len);
    }
    return line_len;
}

/* Called by libcurl for each piece of the body. During the call reply->body is the number of bytes
   before this piece, so 0 marks the first one. Returning 0 makes libcurl end the transfer with
   CURLE_WRITE_ERROR, and `refused` tells later that this was our wish and no failure. libcurl has
   compared the body with Content-Length, but not with what was asked for: `take` must bound what it
   stores. */
static size_t http_take_body(char *bytes, size_t size, size_t count, void *ctx)
{
    http_exchange *exchange = ctx;
    const coffer__http_request *request = exchange->request;
    const size_t all = size * count;
    exchange->refused = !request->take(request->ctx, exchange->reply, (const uint8_t *)bytes, all);
    exchange->reply->body += all;
    return exchange->refused ? 0 : all;
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

/* Appends a copy of the line; false if there is no memory. Then the list is as it was and still to
   be freed. */
static bool http_add_line(const coffer__libcurl *curl, struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl->slist_append(*list, line);
    *list = longer != NULL ? longer : *list;
    return longer != NULL;
}

/* Our own lines of the request's head, which libcurl includes in a signature; false if there is no
   memory, or a validator is too long. None of these lines can contain a line break: validators were
   checked by coffer__http_is_strong, and those of S3 by s3.c. */
static bool http_lines(const coffer__libcurl *curl, const coffer__http_request *request, struct curl_slist **list)
{
    char if_range[300] = "If-Range: ";
    bool fine = true;
    if (request->if_range != NULL) {
        const size_t used = coffer__text_len(if_range);
        fine = http_keep(if_range + used, sizeof if_range - used, request->if_range,
                         coffer__text_len(request->if_range)) &&
               http_add_line(curl, list, if_range);
    }
    for (size_t i = 0; fine && request->headers != NULL && request->headers[i] != NULL; i++) {
        fine = http_add_line(curl, list, request->headers[i]);
    }
    return fine;
}

/* Whether the path of a URL has "/./" or "/../" in it, which libcurl would remove before it sends
   the request. The query is not looked at, because libcurl leaves it as it is. */
static bool http_has_dots(const char *url)
{
    bool dots = false;
    for (size_t at = 0; url[at] != '\0' && url[at] != '?' && !dots; at++) {
        const size_t count = url[at] != '/' || url[at + 1] != '.' ? 0 : url[at + 2] != '.' ? 1 : 2;
        const char next = count == 0 ? 'x' : url[at + 1 + count];
        dots = next == '/' || next == '?' || next == '\0';
    }
    return dots;
}

/* What is signed must be what is sent. Keys of object stores may contain dots as components, which
   libcurl would remove; with PATH_AS_IS it does not. From 8.16 on libcurl refuses to sign such a
   path, and http_words says so. PATH_AS_IS is set only where it is needed, so that ordinary paths
   are signed by every version of libcurl. */
static bool http_set_signature(const coffer__libcurl *curl, void *easy, const coffer__http_request *request)
{
    bool set = curl->easy_setopt(easy, COFFER__CURLOPT_AWS_SIGV4, request->sigv4) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_USERPWD, request->user) == COFFER__CURLE_OK;
    if (http_has_dots(request->url)) {
        set = set && curl->easy_setopt(easy, COFFER__CURLOPT_PATH_AS_IS, 1L) == COFFER__CURLE_OK;
    }
    return set;
}

/* Exactly one kind of credentials goes with a request. ~/.netrc is for hosts for which there is
   nothing better, and libcurl looks the host up there by itself. A signature and a token in one
   request would be sent in the same header line, Authorization. */
static bool http_set_credentials(const coffer__libcurl *curl, void *easy, const coffer__http_request *request)
{
    if (request->sigv4 != NULL) {
        return http_set_signature(curl, easy, request);
    }
    if (request->bearer != NULL) {
        return curl->easy_setopt(easy, COFFER__CURLOPT_HTTPAUTH, (long)COFFER__CURLAUTH_BEARER) == COFFER__CURLE_OK &&
               curl->easy_setopt(easy, COFFER__CURLOPT_XOAUTH2_BEARER, request->bearer) == COFFER__CURLE_OK;
    }
    return curl->easy_setopt(easy, COFFER__CURLOPT_NETRC, (long)COFFER__CURL_NETRC_OPTIONAL) == COFFER__CURLE_OK;
}

/* With a file of certificates the folder must be unset: libcurl would trust what is in either.
   Without either, libcurl's own defaults are used, and nothing is set. Verification itself is never
   switched off: there is no option for that here. */
static bool http_set_trust(const coffer__libcurl *curl, void *easy, const coffer__http_request *request, bool shared)
{
    if (shared) {
        return coffer__authorities_set(request->authorities, curl, easy);
    }
    return request->certificates == NULL ||
           (curl->easy_setopt(easy, COFFER__CURLOPT_CAINFO, request->certificates) == COFFER__CURLE_OK &&
            curl->easy_setopt(easy, COFFER__CURLOPT_CAPATH, NULL) == COFFER__CURLE_OK);
}

/*
 * Sets all options; false if this libcurl does not know one of them, since each matters:
 *
 *   PROTOCOLS_STR        nothing but HTTP, also for a proxy or a redirect
 *   FOLLOWLOCATION 0     web.c follows redirects, and decides which credentials go where
 *   NOSIGNAL             timeouts must not use SIGALRM, which belongs to the program
 *   SUPPRESS_CONNECT_…   a proxy's answer to CONNECT is not the server's
 *   ACCEPT_ENCODING      as an option and not one of our lines, so that it is not signed: a proxy may change it
 *   HTTP_CONTENT_…  0    nothing is ever decompressed: ranges count stored bytes
 *
 * The strings are copied by libcurl. The list of lines, the exchange and the buffer for errors are
 * not, and must live until the easy handle is freed.
 */
static bool http_set(http_exchange *exchange, void *easy, struct curl_slist *lines, bool shared)
{
    const coffer__libcurl *curl = exchange->curl;
    const coffer__http_request *request = exchange->request;
    bool set = true;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_URL, request->url) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_PROTOCOLS_STR, "http,https") == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_FOLLOWLOCATION, 0L) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_NOSIGNAL, 1L) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_BUFFERSIZE, HTTP_BUFFER_SIZE) == COFFER__CURLE_OK;
    set = set &&
          curl->easy_setopt(easy, COFFER__CURLOPT_CONNECTTIMEOUT_MS, (long)request->timeout_ms) == COFFER__CURLE_OK;
    set =
        set && curl->easy_setopt(easy, COFFER__CURLOPT_USERAGENT, "coffer/" COFFER_VERSION_STRING) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_ACCEPT_ENCODING, "identity") == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_HTTP_CONTENT_DECODING, 0L) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_NOBODY, (long)request->head_only) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_RANGE, request->range) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_HTTPHEADER, lines) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_HEADERFUNCTION, http_take_line) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_HEADERDATA, exchange) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_WRITEFUNCTION, http_take_body) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_WRITEDATA, exchange) == COFFER__CURLE_OK;
    set = set && curl->easy_setopt(easy, COFFER__CURLOPT_ERRORBUFFER, exchange->detail) == COFFER__CURLE_OK;
    return set && http_set_trust(curl, easy, request, shared) && http_set_credentials(curl, easy, request);
}

/* ---- TLS --------------------------------------------------------------------------------------------------------- */

/* Whether libcurl's message contains one of the words, in any case. The list ends with NULL. Bit 5
   makes ASCII letters lower case. It also merges a few signs, which does not matter for finding
   words. The search cannot run past the end of `detail`: its NUL differs from every letter of a
   word. */
static bool http_says(const char *detail, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        for (size_t at = 0; detail[at] != '\0'; at++) {
            size_t same = 0;
            while (words[i][same] != '\0' && (detail[at + same] | 0x20) == (words[i][same] | 0x20)) {
                same++;
            }
            if (words[i][same] == '\0') {
                return true;
            }
        }
    }
    return false;
}

/* Whether a failed handshake was only a broken connection, which is worth another try. It was not
   if the message names a reason that will be the same next time: the other side's alert, or what
   OpenSSL refused. libcurl reports SSL_CONNECT_ERROR for both: for a peer that closed the
   connection in the middle, as overloaded servers and proxies do, and for one that refused our
   version or cipher. Trying the second again would only make the user wait. */
static bool http_handshake_broke(const http_exchange *exchange)
{
    static const char *const lasting[] = { "alert",       "version", "protocol", "cipher", "http request",
                                           "certificate", "packet",  "record",   NULL };
    return !http_says(exchange->detail, lasting);
}

/* What a user can act on, whatever the TLS library: each of the three tables below leads to one of
   these. */
static const char http_expired[] = "its certificate has expired";
static const char http_early[] = "its certificate is not valid yet, by the clock of this machine";
static const char http_other_name[] = "its certificate is for another name";
static const char http_unknown_issuer[] =
    "the issuer of its certificate is not trusted here; SSL_CERT_FILE names the certificates to trust";

/* What OpenSSL's X509_V_ERR_* mean; NULL for the rare ones. The numbers are part of its stable
   interface. They are given here by value, because OpenSSL's headers are not needed to build. */
static const char *http_distrust_by_number(long result)
{
    switch (result) {
    case 2:  /* UNABLE_TO_GET_ISSUER_CERT */
    case 18: /* DEPTH_ZERO_SELF_SIGNED_CERT */
    case 19: /* SELF_SIGNED_CERT_IN_CHAIN */
    case 20: /* UNABLE_TO_GET_ISSUER_CERT_LOCALLY */
    case 21: /* UNABLE_TO_VERIFY_LEAF_SIGNATURE */
        return http_unknown_issuer;
    case 9: /* CERT_NOT_YET_VALID */
        return http_early;
    case 10: /* CERT_HAS_EXPIRED */
        return http_expired;
    case 62: /* HOSTNAME_MISMATCH */
    case 64: /* IP_ADDRESS_MISMATCH */
        return http_other_name;
    default:
        return NULL;
    }
}

/* What the bits of GnuTLS's gnutls_certificate_status_t mean; NULL for the rare ones. Several may
   be set; the first that is found here is what the user should repair first. The values are those
   of gnutls/gnutls.h, which are part of its ABI. */
static const char *http_distrust_by_bits(long result)
{
    if ((result & 1024) != 0) { /* EXPIRED */
        return http_expired;
    }
    if ((result & 512) != 0) { /* NOT_ACTIVATED */
        return http_early;
    }
    return (result & 64) != 0 ? http_unknown_issuer : NULL; /* SIGNER_NOT_FOUND */
}

/* For TLS libraries that give neither numbers nor bits: what their messages have in common. The
   order matters, since a message about a name may also mention trust. */
static const char *http_distrust_by_words(const char *detail)
{
    static const struct {
        const char *const words[5];
        const char *means;
    } rows[] = {
        { { "match", NULL }, http_other_name },
        { { "expired", NULL }, http_expired },
        { { "not yet valid", "not activated", "not yet activated", NULL }, http_early },
        { { "issuer", "self-signed", "unknown ca", "trusted", NULL }, http_unknown_issuer },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (http_says(detail, rows[i].words)) {
            return rows[i].means;
        }
    }
    return NULL;
}

/* Why a certificate was not accepted, in words of ours that say what to do. OpenSSL's reasons are
   numbers, GnuTLS's are bits, and those of other libraries are only in the message. The host name
   is checked by libcurl itself, which leaves the result at 0 and a message. libcurl's message
   itself is not shown: it may contain names that the other side chose. */
static const char *http_distrust(const coffer__libcurl *curl, void *easy, const http_exchange *exchange, unsigned code)
{
    long result = 0;
    if (code == COFFER__CURLE_SSL_CACERT_BADFILE) {
        return "the file with the certificates to trust cannot be read; SSL_CERT_FILE or CURL_CA_BUNDLE may name it";
    }
    if (curl->easy_getinfo(easy, COFFER__CURLINFO_SSL_VERIFYRESULT, &result) != COFFER__CURLE_OK) {
        result = 0;
    }
    const char *tls = curl->version_info(COFFER__CURLVERSION_FIRST)->ssl_version;
    const bool is_gnutls = tls != NULL && strncmp(tls, "GnuTLS/", 7) == 0;
    const char *found = is_gnutls ? http_distrust_by_bits(result) : http_distrust_by_number(result);
    found = found != NULL ? found : http_distrust_by_words(exchange->detail);
    return found != NULL ? found : curl->easy_strerror(code);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

/* What libcurl's result means for the decision about another try. libcurl calls an answer
   complete that ends within its head; here it is broken. A host that cannot be resolved or reached
   is told from a connection that broke: the first is probably misspelt, the second was there a
   moment ago. Failures of HTTP/2 framing count as broken, since a new connection repairs them. */
static coffer__http_end http_end_of(unsigned code, const http_exchange *exchange)
{
    switch (code) {
    case COFFER__CURLE_OK:
        return exchange->headed && exchange->reply->status >= 200 ? COFFER__HTTP_DONE : COFFER__HTTP_BROKEN;
    case COFFER__CURLE_WRITE_ERROR:
        return exchange->refused ? COFFER__HTTP_REFUSED : COFFER__HTTP_FAILED;
    case COFFER__CURLE_OPERATION_TIMEDOUT:
        return COFFER__HTTP_SILENT;
    case COFFER__CURLE_COULDNT_RESOLVE_HOST:
    case COFFER__CURLE_COULDNT_RESOLVE_PROXY:
    case COFFER__CURLE_COULDNT_CONNECT:
        return COFFER__HTTP_NO_HOST;
    case COFFER__CURLE_SSL_CONNECT_ERROR:
        return http_handshake_broke(exchange) ? COFFER__HTTP_BROKEN : COFFER__HTTP_NO_TRUST;
    case COFFER__CURLE_PEER_FAILED_VERIFICATION:
    case COFFER__CURLE_SSL_ISSUER_ERROR:
    case COFFER__CURLE_SSL_CACERT_BADFILE:
    case COFFER__CURLE_SSL_CERTPROBLEM:
        return COFFER__HTTP_NO_TRUST;
    case COFFER__CURLE_PARTIAL_FILE:
    case COFFER__CURLE_GOT_NOTHING:
    case COFFER__CURLE_SEND_ERROR:
    case COFFER__CURLE_RECV_ERROR:
    case COFFER__CURLE_HTTP2:
    case COFFER__CURLE_HTTP2_STREAM:
        return COFFER__HTTP_BROKEN;
    default:
        return COFFER__HTTP_FAILED;
    }
}

/* Static words for a result. BAD_FUNCTION_ARGUMENT before any line came is the refusal to sign a
   path with dots: everything else that we pass is always the same. */
static const char *http_words(const coffer__libcurl *curl, void *easy, const http_exchange *exchange, unsigned code)
{
    if (code == COFFER__CURLE_OK) {
        return "the answer ended within its head";
    }
    if (code == COFFER__CURLE_OPERATION_TIMEDOUT) {
        return "sent nothing";
    }
    if (code == COFFER__CURLE_WRITE_ERROR && exchange->lines > HTTP_MAX_LINES) {
        return "the answer's head is longer than 256 KiB";
    }
    if (code == COFFER__CURLE_BAD_FUNCTION_ARGUMENT) {
        return exchange->lines > 0 ? "the answer's head cannot be understood"
                                   : "libcurl 8.16 and newer does not sign a path with /./ or /../ in it";
    }
    return http_end_of(code, exchange) == COFFER__HTTP_NO_TRUST ? http_distrust(curl, easy, exchange, code)
                                                                : curl->easy_strerror(code);
}

/* How many milliseconds are left to wait; 0 when the deadline has passed. The deadline moves when,
   since the last move, timeout_ms times the least rate has come. Until the head is complete `body`
   is 0 and nothing moves it. By the clock that never goes back. The result is at least 1 while
   there is time, so that a poll never spins, and the + 1 in `least` keeps a tiny timeout from
   accepting an empty body as progress. */
static uint64_t http_left(http_exchange *exchange)
{
    const uint64_t timeout_ms = exchange->request->timeout_ms;
    const uint64_t least = timeout_ms * HTTP_MIN_RATE / 1000 + 1;
    if (exchange->reply->body - exchange->counted >= least) {
        http_move_deadline(exchange);
    }
    const uint64_t waited = coffer__os_milliseconds() - exchange->since;
    return waited > timeout_ms ? 0 : timeout_ms - waited + 1;
}

/* Runs the transfer until it ends, too little comes for too long, or the watch stops it. Waits are
   at most COFFER__WATCH_MS, so that the watch is asked that often. A transfer that is given up is
   not ended here: removing the handle from the multi closes its connection. */
static coffer__http_end http_run(http_exchange *exchange, void *multi, void *easy, const char **words)
{
    const coffer__libcurl *curl = exchange->curl;
    const coffer__http_request *request = exchange->request;
    int running = 1;
    while (curl->multi_perform(multi, &running) == COFFER__CURLM_OK && running != 0) {
        /* The watch comes before the deadline: a user who cancels is told so, even if the time is
           up as well. */
        const uint64_t left = http_left(exchange);
        if (request->watch != NULL && request->watch->stop(request->watch->ctx)) {
            return COFFER__HTTP_STOPPED;
        }
        if (left == 0) {
            *words = exchange->lines == 0 ? "sent nothing" : "sent too little";
            return COFFER__HTTP_SILENT;
        }
        /* Sleeps until something arrives, but never longer than the watch may wait. */
        if (curl->multi_poll(multi, NULL, 0, left < COFFER__WATCH_MS ? (int)left : COFFER__WATCH_MS, NULL) !=
            COFFER__CURLM_OK) {
            break;
        }
    }
    /* The transfer has ended, or the multi handle failed. Its message has the result, and there is
       exactly one transfer in this multi handle. */
    int left = 0;
    const coffer__curl_message *message = curl->multi_info_read(multi, &left);
    if (message == NULL || message->kind != COFFER__CURLMSG_DONE) {
        *words = "libcurl failed without a reason";
        return COFFER__HTTP_FAILED;
    }
    *words = http_words(curl, easy, exchange, message->data.result);
    return http_end_of(message->data.result, exchange);
}

/* One exchange with an easy handle of its own, which is freed in any case. With `shared` it
   verifies servers by the authorities that were read once for all. The list of lines must live
   until the handle is gone. On every path the handle leaves the multi handle before it is freed,
   and the lines are freed after both. libcurl keeps the connection with the multi handle, where the
   next exchange finds it. */
static coffer__http_end http_try(const coffer__libcurl *curl, const coffer__http_line *line,
                                 const coffer__http_request *request, bool shared, coffer__http_reply *reply,
                                 const char **words)
{
    http_exchange exchange = { .curl = curl, .request = request, .reply = reply };
    struct curl_slist *lines = NULL;
    coffer__http_end end = COFFER__HTTP_FAILED;
    http_begin_reply(reply, "", 0);
    exchange.since = coffer__os_milliseconds();
    void *easy = curl->easy_init();
    /* Words for the step that may fail next. */
    *words = "out of memory";
    if (easy != NULL && http_lines(curl, request, &lines)) {
        *words = "this libcurl lacks what is needed: 7.85 or newer, with TLS";
        if (http_set(&exchange, easy, lines, shared) && curl->multi_add_handle(line->multi, easy) == COFFER__CURLM_OK) {
            end = http_run(&exchange, line->multi, easy, words);
            (void)curl->multi_remove_handle(line->multi, easy);
        }
    }
    if (easy != NULL) {
        curl->easy_cleanup(easy);
    }
    curl->slist_free_all(lines);
    return end;
}

/* The shared authorities may turn out to belong to another copy of OpenSSL. Then the connection is
   aborted before anything was sent, they are unusable from then on, and the request is repeated
   with libcurl's own. It is repeated once at most: without the store there is nothing to abort.
   Nothing of the first try reached the caller, as it ended before the request was sent. */
coffer__http_end coffer__http_exchange(const coffer__libcurl *curl, const coffer__http_line *line,
                                       const coffer__http_request *request, coffer__http_reply *reply,
                                       const char **words)
{
    const bool shared = coffer__authorities_usable(request->authorities);
    const coffer__http_end end = http_try(curl, line, request, shared, reply, words);
    return shared && end == COFFER__HTTP_FAILED && !coffer__authorities_usable(request->authorities)
               ? http_try(curl, line, request, false, reply, words)
               : end;
}

/* Connects nothing yet: the first exchange does. */
bool coffer__http_line_open(const coffer__libcurl *curl, coffer__http_line *line)
{
    line->multi = curl->multi_init();
    return line->multi != NULL;
}

/* Closes the connections that the line has kept. No exchange may be in progress on it. */
void coffer__http_line_close(const coffer__libcurl *curl, coffer__http_line *line)
{
    (void)curl->multi_cleanup(line->multi);
}
