/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what is read of URLs and of servers' answers: the input is a text, which lies at the edge of what may be touched, and
 * is taken for each of them. A URL that was understood consists of plain characters, is understood again as the same one, and
 * leads nowhere but by http and https when it came from a redirect.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "http_text.h"
#include "hub.h"
#include "url.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_range(const char *text, size_t size)
{
    coffer__content_range range;
    if (coffer__http_content_range(text, size, &range)) {
        expect(!range.satisfied || range.first <= range.last, "a range begins before it ends");
        expect(!range.satisfied || range.last < range.size, "a range lies inside");
        expect(range.satisfied || range.size != COFFER__HTTP_UNKNOWN, "what is not satisfied says the size");
    }
}

static void check_field(const char *text, size_t size)
{
    const char *value = NULL;
    size_t len = 0;
    uint64_t number = 0;
    if (coffer__http_field(text, size, "etag", &value, &len)) {
        expect(value >= text && len <= size - (size_t)(value - text), "a value lies in its line");
    }
    (void)coffer__http_number(text, size, &number);
    (void)coffer__http_retry_after(text, size, 1700000000, &number);
    char word[16];
    if (coffer__http_error_code(text, size, word, sizeof word)) {
        expect(strlen(word) > 0 && strspn(word, LETTERS) == strlen(word), "a reason has letters and nothing else");
    }
}

static void check_url(const coffer__url *url)
{
    const size_t length = strlen(url->text);
    for (size_t i = 0; i < length; i++) {
        expect(url->text[i] > 0x20 && url->text[i] < 0x7F, "a URL is plain");
    }
    expect(url->host_len > 0 && url->host + url->host_len <= url->path, "the host comes before the path");
    expect(url->path_len > 0 && url->path + url->path_len <= length && url->text[url->path] == '/', "there is a path");
    static coffer__url again;
    expect(coffer__url_read(&again, url->text, NULL) == COFFER_OK, "a URL is read again");
    expect(strcmp(again.text, url->text) == 0 && coffer__url_same_origin(&again, url), "as the same one");
}

static void check_urls(const char *text)
{
    static coffer__url url;
    static coffer__url base;
    coffer_error err;
    const coffer_status status = coffer__url_read(&url, text, &err);
    expect(status == COFFER_OK || status == COFFER_ERR_URL, "a text is a URL or none");
    if (status == COFFER_OK) {
        expect(coffer__url_is(text), "a URL looks like one");
        check_url(&url);
    }
    expect(coffer__url_read(&base, "https://host.example:8443/a/b?c", NULL) == COFFER_OK, "the base is a URL");
    if (coffer__url_follow(&url, &base, text, &err) == COFFER_OK) {
        check_url(&url);
        expect(url.scheme == COFFER__SCHEME_HTTPS, "https stays https");
    }
}

/* A name of the Hub never has a component that leads out of a folder, and is read again as the same one. */
static void check_hub(const char *text)
{
    static coffer__hub_name name;
    static coffer__hub_name again;
    static coffer__path written;
    if (strncmp(text, "hf://", 5) != 0 || coffer__hub_read(&name, text, NULL) != COFFER_OK) {
        return;
    }
    const char *const parts[] = { name.owner, name.name, name.revision, name.file };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char framed[1100];
        (void)snprintf(framed, sizeof framed, "/%s/", parts[i]);
        expect(strstr(framed, "/../") == NULL && strstr(framed, "/./") == NULL, "no part leads elsewhere");
    }
    expect(coffer__hub_write(&name, "main", &written), "a name can be written");
    expect(coffer__hub_read(&again, written.text, NULL) == COFFER_OK, "and read again");
    expect(strcmp(again.kind, name.kind) == 0 && strcmp(again.owner, name.owner) == 0 &&
               strcmp(again.name, name.name) == 0 && strcmp(again.file, name.file) == 0,
           "as the same one");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size >= GUARDED_LARGEST) {
        return 0;
    }
    const char *text = (const char *)guarded_copy(bytes, size);
    check_range(text, size);
    check_field(text, size);
    /* With a NUL behind it, as the last byte that may be touched. */
    static char ended[GUARDED_LARGEST];
    memcpy(ended, bytes, size);
    ended[size] = '\0';
    const char *whole = (const char *)guarded_copy((const uint8_t *)ended, size + 1);
    check_urls(whole);
    check_hub(whole);
    uint8_t digest[32];
    (void)coffer__http_sha256_hex(whole, digest);
    (void)coffer__http_sha256_base64(whole, digest);
    return 0;
}
