/* SPDX-License-Identifier: Apache-2.0 */
#include "web.h"

#include "alloc.h"
#include "error.h"
#include "os.h"
#include "s3.h"
#include "text.h"

#include <stdatomic.h>
#include <string.h>

/* Connections that wait to be used again, hops of one question, and the defaults of
   docs/network.md. Times are in milliseconds unless stated otherwise. */
#define WEB_MAX_IDLE 64
#define WEB_MAX_REDIRECTS 10
#define WEB_MAX_REFUSAL ((uint64_t)64 << 10) /* bytes of a refusal that are read to keep its connection */
#define WEB_TIMEOUT_MS 30000
#define WEB_LONGEST_TIMEOUT_MS 86400000u
#define WEB_RETRIES 5
#define WEB_PAUSE_MS 500
#define WEB_LONGEST_PAUSE_MS 8000
#define WEB_LONGEST_RETRY_AFTER 60 /* seconds that a server may ask to wait */

/* The client. All fields before `lock` are set by coffer__web_new and constant afterwards, except
   `owners`, and `door` and `watch`, which change only while no question is in progress. */
struct coffer__web {
    coffer_allocator allocator;
    coffer__hub hub;
    coffer__s3 s3;
    uint64_t timeout_ms;
    uint64_t pause_ms;
    uint64_t retries;
    char certificates[1024]; /* "": the system's */
    bool fetches;
    coffer__location origin; /* what it was made for */
    atomic_uint owners;
    const coffer__watch *watch; /* while a model is opened; else NULL */
    coffer__mutex lock;         /* guards what follows */
    bool opened;                /* libcurl is; its table is constant from then on, and read without the lock */
    coffer__libcurl curl;
    bool proving; /* the authorities were read, if possible; constant from then on, too */
    coffer__authorities authorities;
    size_t idle_count;
    coffer__http_line idle[WEB_MAX_IDLE];
};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* A number of seconds, "30" or "0.25", in milliseconds; false for anything else, and for more than
   a day. At most five digits before the point, so nothing overflows. The second loop always runs
   three times: it reads up to three decimals and puts zeros for those that are missing. A number of
   more digits leaves some unread, and is refused by that. */
static bool web_seconds(const char *text, uint64_t *milliseconds)
{
    uint64_t value = 0;
    size_t at = 0;
    size_t digits = 0;
    for (; text[at] >= '0' && text[at] <= '9' && at < 5; at++) {
        value = value * 10 + (uint64_t)(text[at] - '0');
    }
    const bool point = at > 0 && text[at] == '.';
    for (at += point; digits < 3; digits++) {
        const bool digit = point && text[at] >= '0' && text[at] <= '9';
        value = value * 10 + (digit ? (uint64_t)(text[at] - '0') : 0);
        at += digit;
    }
    *milliseconds = value;
    return at > 0 && text[at] == '\0' && value <= WEB_LONGEST_TIMEOUT_MS;
}

/* One number of the environment. A value that cannot be understood is an error and not ignored: the
   user meant something by it. strlen is safe: the text is the environment's. 0 retries and a pause
   of 0 are allowed; tests use both. */
static coffer_status web_setting(const char *name, bool seconds, uint64_t usual, uint64_t *value, coffer_error *err)
{
    const char *text = coffer__os_variable(name);
    *value = usual;
    if (text == NULL) {
        return COFFER_OK;
    }
    const size_t len = strlen(text);
    if (seconds ? web_seconds(text, value) : coffer__http_number(text, len, value) && *value <= 1000) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "the environment variable %s is %q, which is not a number %s", name,
                        text, len, seconds ? "of seconds" : "up to 1000");
}

/* The file with the authorities to trust, where the environment names one, by the names that curl
   and OpenSSL use. A path that is cut would name another file, and a wrong one would only show as a
   failure of TLS much later. Whether the file can be read is found out by the first question. */
static coffer_status web_certificates(coffer__web *web, coffer_error *err)
{
    const char *file = coffer__os_variable("CURL_CA_BUNDLE");
    file = file != NULL ? file : coffer__os_variable("SSL_CERT_FILE");
    const size_t len = file != NULL ? strlen(file) : 0;
    if (len >= sizeof web->certificates) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the path in CURL_CA_BUNDLE or SSL_CERT_FILE is too long");
    }
    memcpy(web->certificates, file != NULL ? file : "", len + 1);
    return COFFER_OK;
}

/* What the environment says; docs/network.md has the variables. Read once, when the client is made,
   so that a program that changes its environment later does not change a model in the middle of its
   use. The order decides which of several mistakes is reported, and nothing else. Settings of the
   Hub and of S3 are checked whatever the URL is, since redirects and other files of a model are not
   known yet. */
static coffer_status web_settings(coffer__web *web, const coffer_open_options *options, coffer_error *err)
{
    const struct {
        const char *name;
        bool seconds;
        uint64_t usual;
        uint64_t *value;
    } numbers[] = { { "COFFER_NET_TIMEOUT", true, WEB_TIMEOUT_MS, &web->timeout_ms },
                    { "COFFER_NET_PAUSE", true, WEB_PAUSE_MS, &web->pause_ms },
                    { "COFFER_NET_RETRIES", false, WEB_RETRIES, &web->retries } };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        status = web_setting(numbers[i].name, numbers[i].seconds, numbers[i].usual, numbers[i].value, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    status = web_certificates(web, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__hub_settings(&web->hub, options->token, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__s3_settings(&web->s3, err);
}

/* What the caller says takes precedence over the environment. 0 is the default, here as everywhere.
   A timeout of more than a day is cut to one and not refused, as milliseconds beyond 32 bits would
   not fit libcurl's `long` everywhere. */
static void web_options(coffer__web *web, const coffer_open_options *options)
{
    web->fetches = options->to_fetch;
    if (options->timeout_ms != 0) {
        web->timeout_ms = options->timeout_ms < WEB_LONGEST_TIMEOUT_MS ? options->timeout_ms : WEB_LONGEST_TIMEOUT_MS;
    }
}

/* ---- where things are -------------------------------------------------------------------------------------------- */

/* Where a file of the Hub is, in the cache and on the server. If the cache has a commit for the
   revision, that commit is asked for on the server, too. Otherwise a file that the cache lacks
   could come from a newer version than those that it has. Called again whenever the file or the
   revision changes, so commit and local path never belong to another name. */
static coffer_status web_place_on_hub(const coffer__web *web, coffer__location *file, coffer_error *err)
{
    file->commit[0] = '\0';
    file->local.text[0] = '\0';
    if (file->hub.file[0] != '\0' && coffer__hub_cached(&web->hub, &file->hub, file->commit, &file->local)) {
        return COFFER_OK;
    }
    file->local.text[0] = '\0';
    const char *revision = file->commit[0] != '\0' ? file->commit : file->hub.revision;
    return coffer__hub_url(&web->hub, &file->hub, revision, &file->address.url, err);
}

/* Reads the URL as the user wrote it: the only place where that happens. The address of s3:// and
   hf:// is made from the text and is an http or https URL; requests to the bucket are signed,
   requests to the Hub get its token. A slash at the end means a folder for every scheme. Without a
   file's name, hf:// means one as well. */
static coffer_status web_read_url(coffer__web *web, const char *text, coffer_error *err)
{
    coffer__location *origin = &web->origin;
    origin->web = web;
    origin->is_folder = text[coffer__text_len(text) - 1] == '/';
    coffer_status status = coffer__url_read(&origin->address.url, text, err);
    if (status != COFFER_OK) {
        return status;
    }
    switch (origin->address.url.scheme) {
    case COFFER__SCHEME_S3:
        origin->address.signs = true;
        return coffer__s3_url(&web->s3, text, &origin->address.url, err);
    case COFFER__SCHEME_HF:
        status = coffer__hub_read(&origin->hub, text, err);
        origin->is_folder = origin->is_folder || origin->hub.file[0] == '\0';
        return status == COFFER_OK ? web_place_on_hub(web, origin, err) : status;
    default:
        return COFFER_OK;
    }
}

const coffer__location *coffer__web_origin(const coffer__web *web)
{
    return &web->origin;
}

/* A commit never changes. From here on all files come from the same version, however often the
   branch moves. Nothing else reads the door at this time (web.h), so no lock is taken. */
coffer_status coffer__web_settle(coffer__web *web, const char *commit, coffer_error *err)
{
    char *revision = web->origin.hub.revision;
    revision[0] = '\0';
    (void)coffer__text_append(revision, sizeof web->origin.hub.revision, commit, coffer__text_len(commit));
    return web_place_on_hub(web, &web->origin, err);
}

/* No URL is parsed for it: the last name of the URL's path is replaced. On the Hub the file's name
   is replaced in the repository's, so that the file is looked for in the cache as well. Called by
   the threads that open the files of a model. They only read the door, which is constant while they
   run. */
coffer_status coffer__web_beside(coffer__web *web, const char *name, size_t name_len, const char *commit,
                                 coffer__location *file, coffer_error *err)
{
    *file = web->origin;
    file->is_folder = false;
    if (file->hub.name[0] == '\0') {
        return coffer__url_beside(&file->address.url, name, name_len)
                   ? COFFER_OK
                   : coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a file of a model");
    }
    if (commit[0] != '\0') {
        file->hub.revision[0] = '\0';
        (void)coffer__text_append(file->hub.revision, sizeof file->hub.revision, commit, coffer__text_len(commit));
    }
    return coffer__hub_beside(&file->hub, web->origin.is_folder, name, name_len)
               ? web_place_on_hub(web, file, err)
               : coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a file of a model");
}

/* A token is enough for the listing; it is never signed. Offline mode forbids any request to the
   Hub. */
bool coffer__web_listing(const coffer__web *web, const coffer__hub_name *name, coffer__web_address *address)
{
    address->signs = false;
    return !web->hub.offline && coffer__hub_listing_url(&web->hub, name, &address->url, NULL) == COFFER_OK;
}

bool coffer__web_tree(const coffer__web *web, const coffer__hub_name *name, coffer__web_address *address)
{
    address->signs = false;
    return !web->hub.offline && coffer__hub_tree_url(&web->hub, name, &address->url, NULL) == COFFER_OK;
}

bool coffer__web_page(const coffer__web *web, const char *url, coffer__web_address *address)
{
    address->signs = false;
    return coffer__url_read(&address->url, url, NULL) == COFFER_OK && coffer__hub_is_host(&web->hub, &address->url);
}

/* ---- the client -------------------------------------------------------------------------------------------------- */

/* The struct is large (URLs and paths have fixed sizes), and is the only block that a client needs.
   A half-made client is freed like a whole one: a NULL store and no idle lines cost nothing. */
coffer_status coffer__web_new(coffer__web **web, const char *url, const coffer_open_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = options->allocator;
    *web = NULL;
    coffer__web *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL || coffer__os_mutex_init(&made->lock) != 0) {
        coffer__free(allocator, made, sizeof *made);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to read from the network");
    }
    made->allocator = *allocator;
    atomic_init(&made->owners, 1);
    coffer_status status = web_settings(made, options, err);
    if (status == COFFER_OK) {
        web_options(made, options);
        status = web_read_url(made, url, err);
    }
    if (status != COFFER_OK) {
        coffer__web_free(made);
        return status;
    }
    *web = made;
    return COFFER_OK;
}

bool coffer__web_fetches(const coffer__web *web)
{
    return web->fetches;
}

/* Sources share the client, and each may be closed by another thread. The count is atomic; no lock
   is needed, as the caller is an owner itself. */
coffer__web *coffer__web_share(coffer__web *web)
{
    atomic_fetch_add(&web->owners, 1);
    return web;
}

/* The last owner is the only one left, so nothing is locked. libcurl and OpenSSL stay in the
   process (libcurl.h). */
void coffer__web_free(coffer__web *web)
{
    if (web == NULL || atomic_fetch_sub(&web->owners, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < web->idle_count; i++) {
        coffer__http_line_close(&web->curl, &web->idle[i]);
    }
    coffer__authorities_close(&web->authorities);
    coffer__os_mutex_close(&web->lock);
    const coffer_allocator allocator = web->allocator;
    coffer__free(&allocator, web, sizeof *web);
}

/* Not under the lock: no question is in progress (web.h). The watch must live until it is
   replaced. */
const coffer__watch *coffer__web_watch(coffer__web *web, const coffer__watch *watch)
{
    const coffer__watch *before = web->watch;
    web->watch = watch;
    return before;
}

/* Takes the line that was used last, since its connection is the most likely to be still open, or
   makes a new one. libcurl is opened by the first question, under the lock: global_init is not safe
   in threads in older versions. A failure to open it is not remembered, so the next question tries
   again. Making a line happens outside the lock. */
static coffer_status web_take_line(coffer__web *web, coffer__http_line *line, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__os_mutex_lock(&web->lock);
    if (!web->opened) {
        status = coffer__libcurl_open(&web->curl, err);
        web->opened = status == COFFER_OK;
    }
    const bool idle = web->idle_count > 0;
    if (idle) {
        *line = web->idle[--web->idle_count];
    }
    coffer__os_mutex_unlock(&web->lock);
    if (status != COFFER_OK || idle || coffer__http_line_open(&web->curl, line)) {
        return status;
    }
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a connection");
}

/* The certificates of authorities, read by the first question to an https address. Reading takes
   tens of milliseconds; threads that come in that time wait for the lock, since each would
   otherwise read them, too. A store that could not be read is not tried again: `proving` says that
   it was tried, and the request uses libcurl's own. */
static coffer__authorities *web_authorities(coffer__web *web, const coffer__web_address *address)
{
    if (address->url.scheme != COFFER__SCHEME_HTTPS) {
        return NULL;
    }
    coffer__os_mutex_lock(&web->lock);
    if (!web->proving) {
        coffer__authorities_open(&web->authorities, &web->curl,
                                 web->certificates[0] != '\0' ? web->certificates : NULL);
        web->proving = true;
    }
    coffer__os_mutex_unlock(&web->lock);
    return &web->authorities;
}

/* Keeps a line for the next question. Each holds a connection that the server may close at any
   time; a few dozen are worth keeping, more are not. A line that is not kept is closed outside the
   lock, because closing a TLS connection may write to it. */
static void web_give_line(coffer__web *web, coffer__http_line *line)
{
    coffer__os_mutex_lock(&web->lock);
    const bool kept = web->idle_count < WEB_MAX_IDLE;
    if (kept) {
        web->idle[web->idle_count++] = *line;
    }
    coffer__os_mutex_unlock(&web->lock);
    if (!kept) {
        coffer__http_line_close(&web->curl, line);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* A question while its answer arrives. The reason belongs to one hop, so each hop begins with a
   fresh one. */
typedef struct web_asking {
    const coffer__web_question *question;
    char reason[64]; /* that a refusal's body states, or "" */
} web_asking;

/* Only the body of an answer with 200 or 206 goes to the one who asked. A refusal's reason is read
   from the first piece of its body. The rest of a refusal or redirect is read and dropped, up to a
   limit: only a connection whose answer was read to its end can be used again. After a refusal that
   is too long, false ends the connection, and the answer still counts: its head is complete
   (http.h). The bytes are untrusted; coffer__http_error_code takes letters from them and nothing
   else. */
static bool web_take(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size)
{
    web_asking *asking = ctx;
    if (reply->status == 200 || reply->status == 206) {
        return asking->question->take(asking->question->ctx, reply, bytes, size);
    }
    if (reply->body == 0) {
        (void)coffer__http_error_code((const char *)bytes, size, asking->reason, sizeof asking->reason);
    }
    return size <= WEB_MAX_REFUSAL && reply->body <= WEB_MAX_REFUSAL - size;
}

/* The other statuses of 3xx lead nowhere: they offer a choice (300), or say that nothing changed
   (304). */
static bool web_is_redirect(uint32_t status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* "FIRST-LAST", which takes at most 41 characters; NULL for everything. Both numbers were computed
   here and have at most 20 digits. */
static const char *web_range_text(const coffer__web_question *question, char text[48])
{
    if (question->first == COFFER__HTTP_UNKNOWN) {
        return NULL;
    }
    size_t used = coffer__write_u64(text, question->first);
    text[used++] = '-';
    used += coffer__write_u64(text + used, question->last);
    text[used] = '\0';
    return text;
}

/* Decides which credentials a request to this address may have. Called for each hop, so that
   nothing of one address is left for the next. The token goes to the Hub alone, the signature to
   the store alone, and ~/.netrc is libcurl's business for all others (http.c). No request has two
   kinds. `lines` is the caller's array, which must live as long as the request. */
static void web_authorise(const coffer__web *web, const coffer__web_address *address, const char **lines,
                          coffer__http_request *request)
{
    const bool signs = address->signs && web->s3.user[0] != '\0';
    const bool hub = web->hub.token[0] != '\0' && coffer__hub_is_host(&web->hub, &address->url);
    lines[0] = NULL;
    if (address->signs) {
        coffer__s3_lines(&web->s3, signs, lines);
    }
    request->url = address->url.text;
    request->headers = lines;
    request->sigv4 = signs ? web->s3.signature : NULL;
    request->user = signs ? web->s3.user : NULL;
    request->bearer = hub ? web->hub.token : NULL;
}

/* Where a redirect leads. Requests keep being signed only at the same origin: a signature for
   another host would be useless there, and would tell it the key's name. An object store redirects
   without a location when the bucket is in another region. coffer__url_follow has refused
   everything but http and https by then, and any step from https to http. */
static coffer_status web_redirect(const coffer__web_answer *answer, coffer__web_address *next, coffer_error *err)
{
    if (answer->reply.location[0] == '\0') {
        return coffer__fail(err, COFFER_ERR_REDIRECT, "the server redirects (%u) without saying where to%s",
                            (uint64_t)answer->reply.status,
                            answer->from.signs ? ": the bucket is in another region than AWS_REGION states" : "");
    }
    const coffer_status status = coffer__url_follow(&next->url, &answer->from.url, answer->reply.location, err);
    next->signs = answer->from.signs && coffer__url_same_origin(&next->url, &answer->from.url);
    return status;
}

/* Keeps what only the first of several answers says: the Hub states digest and commit, the store
   that it redirects to states neither. The first value stays. Both texts are kept only if they fit,
   and a commit is checked again where it becomes part of a path or URL. */
static void web_remember(coffer__web_answer *answer)
{
    const coffer__http_reply *reply = &answer->reply;
    if (answer->linked_etag[0] == '\0') {
        (void)coffer__text_append(answer->linked_etag, sizeof answer->linked_etag, reply->linked_etag,
                                  coffer__text_len(reply->linked_etag));
    }
    if (answer->commit[0] == '\0') {
        (void)coffer__text_append(answer->commit, sizeof answer->commit, reply->commit,
                                  coffer__text_len(reply->commit));
    }
}

/*
 * Asks one address after the other, until an answer is no redirect. libcurl could follow redirects,
 * but would then decide itself which credentials go along. Here each request gets those of the
 * address that it goes to, and nothing that belongs to one host is ever sent to the host that it
 * redirects to.
 *
 * A refusal's reason may be in its head (the Hub) or in its body (object stores); the head has
 * precedence.
 *
 * Counting hops bounds the time, whatever the servers do. Each hop has the whole timeout, and asks
 * the same range.
 */
static coffer_status web_follow(coffer__web *web, const coffer__http_line *line, const coffer__web_question *question,
                                coffer__web_answer *answer, coffer_error *err)
{
    char range[48];
    const char *lines[COFFER__S3_LINES];
    coffer__web_address next = *question->address;
    coffer__http_request request = {
        .range = web_range_text(question, range),
        .if_range = question->if_range,
        .head_only = question->head_only,
        .certificates = web->certificates[0] != '\0' ? web->certificates : NULL,
        .timeout_ms = web->timeout_ms,
        .take = web_take,
        .watch = question->watch != NULL ? question->watch : web->watch,
    };
    answer->linked_etag[0] = '\0';
    answer->commit[0] = '\0';
    for (unsigned hops = 0; hops <= WEB_MAX_REDIRECTS; hops++) {
        web_asking asking = { .question = question };
        request.ctx = &asking;
        answer->from = next;
        web_authorise(web, &answer->from, lines, &request);
        request.authorities = web_authorities(web, &answer->from);
        answer->end = coffer__http_exchange(&web->curl, line, &request, &answer->reply, &answer->words);
        web_remember(answer);
        if (answer->reply.reason[0] == '\0') {
            memcpy(answer->reply.reason, asking.reason, sizeof asking.reason);
        }
        /* REFUSED is also a redirect whose body was too long to be worth reading: its head is
           complete. */
        const bool heard = answer->end == COFFER__HTTP_DONE || answer->end == COFFER__HTTP_REFUSED;
        if (!heard || !web_is_redirect(answer->reply.status)) {
            return COFFER_OK;
        }
        const coffer_status status = web_redirect(answer, &next, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return coffer__fail(err, COFFER_ERR_REDIRECT, "the server redirects more than %u times, perhaps in a circle",
                        (uint64_t)WEB_MAX_REDIRECTS);
}

/* The line is given back whatever happened: libcurl closes a connection that broke or was given up,
   and the line then makes a new one. Offline mode is checked here, in the one place that every
   request passes. The error's http_status is that of the last answer, also where the failure is
   about a redirect. */
coffer_status coffer__web_ask(coffer__web *web, const coffer__web_question *question, coffer__web_answer *answer,
                              coffer_error *err)
{
    coffer__http_line line;
    if (web->hub.offline && coffer__hub_is_host(&web->hub, &question->address->url)) {
        return coffer__fail(err, COFFER_ERR_OFFLINE,
                            "the file is not in the Hub's cache, and HF_HUB_OFFLINE forbids requests to the Hub");
    }
    coffer_status status = web_take_line(web, &line, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = web_follow(web, &line, question, answer, err);
    web_give_line(web, &line);
    if (status != COFFER_OK && err != NULL) {
        err->http_status = (int32_t)answer->reply.status;
    }
    return status;
}

/* ---- trying again ------------------------------------------------------------------------------------------------ */

/* Whether the failure may pass: timeouts, too many requests, failures of the server (but 501, since
   what it cannot do it will not learn), broken connections, and 200 or 206, which got here because
   the body ended too early. A host that cannot be reached is probably misspelt, unless it was
   reached before. NO_TRUST, STOPPED and FAILED never pass by themselves. */
static bool web_is_passing(const coffer__web_answer *answer, const coffer__patience *patience)
{
    const uint32_t status = answer->reply.status;
    switch (answer->end) {
    case COFFER__HTTP_DONE:
    case COFFER__HTTP_REFUSED:
        return status == 200 || status == 206 || status == 408 || status == 429 || (status >= 500 && status != 501);
    case COFFER__HTTP_BROKEN:
    case COFFER__HTTP_SILENT:
        return true;
    case COFFER__HTTP_NO_HOST:
        return patience->met;
    default:
        return false;
    }
}

/* The Hub gives a reason in a header of its own (X-Error-Code), which says more than 401 or 404.
   COFFER_OK for any other reason, and for none. The words are those of huggingface.co. Mirrors may
   send none. */
static coffer_status web_hub_code(const coffer__http_reply *reply)
{
    static const struct {
        const char *word;
        coffer_status code;
    } rows[] = {
        { "RepoNotFound", COFFER_ERR_NO_REPOSITORY },
        { "RevisionNotFound", COFFER_ERR_NO_REVISION },
        { "GatedRepo", COFFER_ERR_GATED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(reply->reason, rows[i].word) == 0) {
            return rows[i].code;
        }
    }
    return COFFER_OK;
}

/* What the user can do about a refusal of the Hub. It answers the same for a repository that is
   missing and for one that the token may not see. */
static coffer_status web_fail_hub(coffer_status code, const char *host, size_t host_len, coffer_error *err)
{
    switch (code) {
    case COFFER_ERR_NO_REPOSITORY:
        return coffer__fail(
            err, code, "%q has no such repository, or this token may not read it, or a token is needed; set HF_TOKEN",
            host, host_len);
    case COFFER_ERR_NO_REVISION:
        return coffer__fail(err, code, "the repository has no such branch, tag or commit");
    default:
        return coffer__fail(err, COFFER_ERR_GATED,
                            "the owner of this repository has to grant access: request it on its page at %q, and set "
                            "HF_TOKEN to your token",
                            host, host_len);
    }
}

/* Turns a status into a failure. Stores answer 403 also for a file that does not exist, to those
   who may not list the bucket, and the message says so. Of what the server wrote, only `reason` is
   shown, which has letters only. */
static coffer_status web_fail_status(const coffer__web_answer *answer, coffer_error *err)
{
    const uint64_t status = answer->reply.status;
    const coffer_status code = web_hub_code(&answer->reply);
    if (code != COFFER_OK) {
        return web_fail_hub(code, answer->from.url.text + answer->from.url.host, answer->from.url.host_len, err);
    }
    const char *reason = answer->reply.reason;
    const char *before = reason[0] != '\0' ? " " : "";
    /* Object stores answer 400 when a session has expired, or the signature is for another region. */
    switch (status == 400 && answer->from.signs ? 403 : status) {
    case 200:
    case 206:
        return coffer__fail(err, COFFER_ERR_CONNECT, "%q keeps ending its answers early",
                            answer->from.url.text + answer->from.url.host, answer->from.url.host_len);
    case 401:
    case 403:
        return coffer__fail(err, COFFER_ERR_ACCESS,
                            "%q denies access (%u%s%s): credentials are missing, wrong or expired, or the file does "
                            "not exist; docs/network.md says which are sent where",
                            answer->from.url.text + answer->from.url.host, answer->from.url.host_len, status, before,
                            reason);
    case 404:
    case 410:
        return coffer__fail(err, COFFER_ERR_NOT_FOUND, "%q has no such file (%u%s%s)",
                            answer->from.url.text + answer->from.url.host, answer->from.url.host_len, status, before,
                            reason);
    default:
        return coffer__fail(err, COFFER_ERR_HTTP, "%q answers with status %u%s%s%s",
                            answer->from.url.text + answer->from.url.host, answer->from.url.host_len, status, before,
                            reason,
                            status == 429   ? ": too many requests; try again later"
                            : status >= 500 ? ": the server has failed; try again later"
                                            : "");
    }
}

/* Turns the end of an exchange into a failure. The host in the message is the one that answered,
   after redirects, and only the host: the rest of the URL may contain a signature. Called once
   patience has ended, so the words describe the last try. */
static coffer_status web_fail(const coffer__web *web, const coffer__web_answer *answer, coffer_error *err)
{
    const char *host = answer->from.url.text + answer->from.url.host;
    const size_t host_len = answer->from.url.host_len;
    switch (answer->end) {
    case COFFER__HTTP_STOPPED:
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    case COFFER__HTTP_SILENT:
        return coffer__fail(err, COFFER_ERR_TIMEOUT,
                            "%q %s for %u ms; COFFER_NET_TIMEOUT=SECONDS sets how long to wait", host, host_len,
                            answer->words, web->timeout_ms);
    case COFFER__HTTP_NO_HOST:
        return coffer__fail(err, COFFER_ERR_CONNECT, "%q cannot be reached: %s", host, host_len, answer->words);
    case COFFER__HTTP_NO_TRUST:
        return coffer__fail(err, COFFER_ERR_CERTIFICATE, "TLS could not verify %q: %s", host, host_len, answer->words);
    case COFFER__HTTP_BROKEN:
        return coffer__fail(err, COFFER_ERR_CONNECT, "the connection to %q broke: %s", host, host_len, answer->words);
    case COFFER__HTTP_DONE:
    case COFFER__HTTP_REFUSED:
        return web_fail_status(answer, err);
    default:
        return coffer__fail(err, COFFER_ERR_CONNECT, "the request to %q failed: %s", host, host_len, answer->words);
    }
}

/* Sleeps, and asks the watch every COFFER__WATCH_MS; false when it wants to stop. */
static bool web_wait(uint64_t milliseconds, const coffer__watch *watch)
{
    while (milliseconds > 0) {
        const uint64_t now = milliseconds < COFFER__WATCH_MS ? milliseconds : COFFER__WATCH_MS;
        if (watch != NULL && watch->stop(watch->ctx)) {
            return false;
        }
        coffer__os_sleep(now);
        milliseconds -= now;
    }
    return true;
}

/* The pause doubles each time, up to a limit, and is then varied by half in either
   direction, so that many clients that failed together do not come back together. The
   result lies between half the pause and one and a half of it. The number need not be a
   good one: it only spreads clients. */
static uint64_t web_pause(const coffer__web *web, uint32_t tries)
{
    uint64_t pause = web->pause_ms;
    for (; tries > 0 && pause < WEB_LONGEST_PAUSE_MS; tries--) {
        pause *= 2;
    }
    pause = pause < WEB_LONGEST_PAUSE_MS ? pause : WEB_LONGEST_PAUSE_MS;
    return pause / 2 + pause * (coffer__os_unlikely_number() % 1024) / 1024;
}

/* Retry-After is obeyed, but not beyond a minute: a user who waits longer than that wants to know
   why. It counts only in a complete answer. The pause is counted from the moment of the answer. No
   lock is held while it sleeps, and no line either: other threads go on. */
coffer_status coffer__web_again(const coffer__web *web, coffer__patience *patience, const coffer__web_answer *answer,
                                const coffer__watch *watch, coffer_error *err)
{
    const uint64_t after = answer->reply.retry_after;
    const bool asked_to_wait = answer->end == COFFER__HTTP_DONE && after != COFFER__HTTP_UNKNOWN;
    const bool passing = web_is_passing(answer, patience);
    const bool too_long = asked_to_wait && after > WEB_LONGEST_RETRY_AFTER;
    if (!passing || patience->tries >= web->retries || too_long) {
        const coffer_status status = web_fail(web, answer, err);
        if (err != NULL) {
            err->http_status = (int32_t)answer->reply.status;
        }
        return status;
    }
    const uint64_t pause = asked_to_wait ? after * 1000 : web_pause(web, patience->tries);
    if (!web_wait(pause, watch != NULL ? watch : web->watch)) {
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    patience->tries++;
    return COFFER_OK;
}
