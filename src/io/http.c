/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "os.h"
#include "text.h"

#include <string.h>

#if COFFER__HAVE_CURL

/* What libcurl reads at a time. */
#define HTTP_BUFFER_SIZE (256L << 10)

typedef struct http_exchange {
    const coffer__libcurl *curl;
    const coffer__http_request *request;
    coffer__http_reply *reply;
    uint64_t last_sign; /* when something came, or anything was tried, in milliseconds */
    bool refused;
} http_exchange;

/* ---- what comes ------------------------------------------------------------------------------------------------------ */

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

static void http_read_line(coffer__http_reply *reply, const char *line, size_t line_len)
{
    const char *value = NULL;
    size_t len = 0;
    if (coffer__http_field(line, line_len, "content-range", &value, &len)) {
        /* Two of them that both count cannot be meant. */
        reply->range_is_bad = reply->has_range || !coffer__http_content_range(value, len, &reply->range);
        reply->has_range = true;
    } else if (coffer__http_field(line, line_len, "content-length", &value, &len)) {
        if (!coffer__http_number(value, len, &reply->length)) {
            reply->length = COFFER__HTTP_UNKNOWN;
        }
    } else if (coffer__http_field(line, line_len, "content-encoding", &value, &len)) {
        reply->encoded = len != 0 && !(len == 8 && memcmp(value, "identity", 8) == 0);
    } else if (coffer__http_field(line, line_len, "etag", &value, &len)) {
        reply->etag_is_cut = !http_keep(reply->etag, sizeof reply->etag, value, len);
    } else if (coffer__http_field(line, line_len, "last-modified", &value, &len)) {
        (void)http_keep(reply->modified, sizeof reply->modified, value, len);
    } else if (coffer__http_field(line, line_len, "location", &value, &len)) {
        (void)http_keep(reply->location, sizeof reply->location, value, len);
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

/* A line of the answer's head. Each answer begins anew: one that says "continue" may come before the one that counts. */
static size_t http_take_line(char *line, size_t size, size_t count, void *ctx)
{
    http_exchange *exchange = ctx;
    const size_t line_len = size * count;
    exchange->last_sign = coffer__os_milliseconds();
    if (line_len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        http_begin_reply(exchange->reply, line, line_len);
    } else {
        http_read_line(exchange->reply, line, line_len);
    }
    return line_len;
}

static size_t http_take_body(char *bytes, size_t size, size_t count, void *ctx)
{
    http_exchange *exchange = ctx;
    const coffer__http_request *request = exchange->request;
    const size_t all = size * count;
    exchange->last_sign = coffer__os_milliseconds();
    exchange->refused = !request->take(request->ctx, exchange->reply, (const uint8_t *)bytes, all);
    exchange->reply->body += all;
    return exchange->refused ? 0 : all;
}

/* ---- what is asked --------------------------------------------------------------------------------------------------- */

/* The lines that are our own; NULL without memory. */
static struct curl_slist *http_lines(const coffer__libcurl *curl, const coffer__http_request *request)
{
    char if_range[300] = "If-Range: ";
    struct curl_slist *list = curl->slist_append(NULL, "Accept-Encoding: identity");
    bool fine = list != NULL;
    if (fine && request->if_range != NULL) {
        const size_t used = coffer__text_len(if_range);
        fine = http_keep(if_range + used, sizeof if_range - used, request->if_range,
                         coffer__text_len(request->if_range)) &&
               curl->slist_append(list, if_range) != NULL;
    }
    for (size_t i = 0; fine && request->headers != NULL && request->headers[i] != NULL; i++) {
        fine = curl->slist_append(list, request->headers[i]) != NULL;
    }
    if (!fine) {
        curl->slist_free_all(list);
        return NULL;
    }
    return list;
}

/* False when this libcurl does not know an option that matters. */
static bool http_set(const coffer__libcurl *curl, CURL *easy, http_exchange *exchange, struct curl_slist *lines)
{
    const coffer__http_request *request = exchange->request;
    bool set = true;
    curl->easy_reset(easy);
    set = set && curl->easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, HTTP_BUFFER_SIZE) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->timeout_ms) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_USERAGENT, "coffer/" COFFER_VERSION_STRING) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_RANGE, request->range) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_HTTPHEADER, lines) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_take_line) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_HEADERDATA, exchange) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_take_body) == CURLE_OK;
    set = set && curl->easy_setopt(easy, CURLOPT_WRITEDATA, exchange) == CURLE_OK;
    if (request->authorities != NULL && request->authorities->store != NULL) {
        set = set && coffer__authorities_set(request->authorities, curl, easy);
    } else if (request->certificates != NULL) {
        set = set && curl->easy_setopt(easy, CURLOPT_CAINFO, request->certificates) == CURLE_OK;
        set = set && curl->easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
    }
    if (request->sigv4 != NULL) {
        /* As it is signed, it is sent. */
        set = set && curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK;
        set = set && curl->easy_setopt(easy, CURLOPT_AWS_SIGV4, request->sigv4) == CURLE_OK;
        set = set && curl->easy_setopt(easy, CURLOPT_USERPWD, request->user) == CURLE_OK;
    } else if (request->bearer != NULL) {
        set = set && curl->easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER) == CURLE_OK;
        set = set && curl->easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, request->bearer) == CURLE_OK;
    } else {
        set = set && curl->easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL) == CURLE_OK;
    }
    return set;
}

/* ---- the exchange ---------------------------------------------------------------------------------------------------- */

static coffer__http_end http_end_of(CURLcode code, const http_exchange *exchange)
{
    switch (code) {
    case CURLE_OK:
        return COFFER__HTTP_DONE;
    case CURLE_WRITE_ERROR:
        return exchange->refused ? COFFER__HTTP_REFUSED : COFFER__HTTP_FAILED;
    case CURLE_OPERATION_TIMEDOUT:
        return COFFER__HTTP_SILENT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return COFFER__HTTP_NO_HOST;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return COFFER__HTTP_NO_TRUST;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return COFFER__HTTP_BROKEN;
    default:
        return COFFER__HTTP_FAILED;
    }
}

/* Runs what was added to `multi` until it ends, the other side says nothing for too long, or the watch stops it. */
static coffer__http_end http_run(http_exchange *exchange, CURLM *multi, const char **words)
{
    const coffer__libcurl *curl = exchange->curl;
    const coffer__http_request *request = exchange->request;
    int running = 1;
    *words = "nothing came in time";
    while (curl->multi_perform(multi, &running) == CURLM_OK && running != 0) {
        const uint64_t now = coffer__os_milliseconds();
        if (request->watch != NULL && request->watch->stop(request->watch->ctx)) {
            return COFFER__HTTP_STOPPED;
        }
        if (now - exchange->last_sign > request->timeout_ms) {
            return COFFER__HTTP_SILENT;
        }
        const uint64_t left = request->timeout_ms - (now - exchange->last_sign) + 1;
        if (curl->multi_poll(multi, NULL, 0, left < COFFER__WATCH_MS ? (int)left : COFFER__WATCH_MS, NULL) !=
            CURLM_OK) {
            break;
        }
    }
    int left = 0;
    const CURLMsg *message = curl->multi_info_read(multi, &left);
    if (message == NULL || message->msg != CURLMSG_DONE) {
        *words = "libcurl gave up without a reason";
        return COFFER__HTTP_FAILED;
    }
    *words = curl->easy_strerror(message->data.result);
    return http_end_of(message->data.result, exchange);
}

coffer__http_end coffer__http_exchange(const coffer__libcurl *curl, const coffer__http_line *line,
                                       const coffer__http_request *request, coffer__http_reply *reply,
                                       const char **words)
{
    http_exchange exchange = { .curl = curl, .request = request, .reply = reply };
    coffer__http_end end = COFFER__HTTP_FAILED;
    http_begin_reply(reply, "", 0);
    exchange.last_sign = coffer__os_milliseconds();
    *words = "out of memory";
    struct curl_slist *lines = http_lines(curl, request);
    if (lines == NULL) {
        return end;
    }
    *words = "this libcurl is too old: 7.85 or newer is wanted";
    if (http_set(curl, line->easy, &exchange, lines) && curl->multi_add_handle(line->multi, line->easy) == CURLM_OK) {
        end = http_run(&exchange, line->multi, words);
        (void)curl->multi_remove_handle(line->multi, line->easy);
    }
    curl->easy_reset(line->easy);
    curl->slist_free_all(lines);
    return end;
}

bool coffer__http_line_open(const coffer__libcurl *curl, coffer__http_line *line)
{
    line->easy = curl->easy_init();
    line->multi = line->easy == NULL ? NULL : curl->multi_init();
    if (line->easy != NULL && line->multi == NULL) {
        curl->easy_cleanup(line->easy);
    }
    return line->multi != NULL;
}

void coffer__http_line_close(const coffer__libcurl *curl, coffer__http_line *line)
{
    curl->easy_cleanup(line->easy);
    (void)curl->multi_cleanup(line->multi);
}

#else

bool coffer__http_line_open(const coffer__libcurl *curl, coffer__http_line *line)
{
    (void)curl;
    (void)line;
    return false;
}

void coffer__http_line_close(const coffer__libcurl *curl, coffer__http_line *line)
{
    (void)curl;
    (void)line;
}

coffer__http_end coffer__http_exchange(const coffer__libcurl *curl, const coffer__http_line *line,
                                       const coffer__http_request *request, coffer__http_reply *reply,
                                       const char **words)
{
    (void)curl;
    (void)line;
    (void)request;
    reply->status = 0;
    *words = "no libcurl";
    return COFFER__HTTP_FAILED;
}

#endif
