/* SPDX-License-Identifier: Apache-2.0 */
/* Why: URLs come from users, and those of redirects from servers: what is sent where depends on how they are read. Each is read
   in one way or refused. */
#include "support_cmocka.h"

#include "coffer.h"
#include "hub.h"
#include "url.h"

#include <stdio.h>
#include <string.h>

static void reads(const char *text, const char *as, coffer__scheme scheme, const char *host, uint32_t port,
                  const char *path)
{
    coffer__url url;
    coffer_error err;
    const coffer_status status = coffer__url_read(&url, text, &err);
    if (status != COFFER_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    assert_string_equal(url.text, as);
    assert_int_equal(url.scheme, scheme);
    assert_int_equal(url.port, port);
    assert_int_equal(url.host_len, strlen(host));
    assert_memory_equal(url.text + url.host, host, url.host_len);
    assert_int_equal(url.path_len, strlen(path));
    assert_memory_equal(url.text + url.path, path, url.path_len);
}

static void urls_are_read(void **state)
{
    (void)state;
    reads("http://a/b", "http://a/b", COFFER__SCHEME_HTTP, "a", 80, "/b");
    reads("HTTPS://Example.COM", "https://example.com/", COFFER__SCHEME_HTTPS, "example.com", 443, "/");
    reads("http://a?x=1", "http://a/?x=1", COFFER__SCHEME_HTTP, "a", 80, "/");
    reads("http://a:8080/b?x#part", "http://a:8080/b?x", COFFER__SCHEME_HTTP, "a", 8080, "/b");
    reads("http://[::1]:80/b", "http://[::1]:80/b", COFFER__SCHEME_HTTP, "[::1]", 80, "/b");
    reads("https://a/b c\"d", "https://a/b%20c%22d", COFFER__SCHEME_HTTPS, "a", 443, "/b%20c%22d");
    reads("https://a/\xC3\xA4%20", "https://a/%C3%A4%20", COFFER__SCHEME_HTTPS, "a", 443, "/%C3%A4%20");
    reads("https://a/b@c:d", "https://a/b@c:d", COFFER__SCHEME_HTTPS, "a", 443, "/b@c:d");
    reads("hf://Owner/name@main/f", "hf://Owner/name@main/f", COFFER__SCHEME_HF, "Owner", 0, "/name@main/f");
    reads("s3://bucket.x/a/b", "s3://bucket.x/a/b", COFFER__SCHEME_S3, "bucket.x", 0, "/a/b");
}

static void refuses(const char *text, const char *words)
{
    coffer__url url;
    coffer_error err;
    assert_int_equal(coffer__url_read(&url, text, &err), COFFER_ERR_URL);
    assert_int_equal(err.code, COFFER_ERR_URL);
    if (strstr(err.message, words) == NULL) {
        fail_msg("%s: %s", text, err.message);
    }
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    refuses("ftp://a/b", "scheme \"ftp\" is not supported");
    refuses("://a", "is not supported");
    refuses("http:/a", "is not supported");
    refuses("http://", "no valid host");
    refuses("http:///b", "no valid host");
    refuses("http://a b/c", "no valid host");
    refuses("http://a\\b/c", "no valid host");
    refuses("http://[::1/b", "no valid host");
    refuses("http://u:secret@a/b", "do not belong in a URL");
    refuses("http://u@a/b", "do not belong in a URL");
    refuses("http://a:0/", "port");
    refuses("http://a:65536/", "port");
    refuses("http://a:80x/", "port");
    refuses("http://a:/", "port");
    refuses("s3://a:80/b", "port");
    refuses("http://a/b\n", "control character");
    refuses("http://a/\x7F", "control character");
    coffer_error err;
    coffer__url url;
    assert_int_equal(coffer__url_read(&url, "http://a/b\tc", &err), COFFER_ERR_URL);
    assert_int_equal(err.offset, 10);
}

static void a_password_is_not_repeated(void **state)
{
    (void)state;
    coffer__url url;
    coffer_error err;
    assert_int_equal(coffer__url_read(&url, "http://u:secret@a/b", &err), COFFER_ERR_URL);
    assert_null(strstr(err.message, "secret"));
}

static void the_capacity_is_used_up_and_not_more(void **state)
{
    (void)state;
    static char text[COFFER__URL_SIZE + 8];
    static coffer__url url;
    memset(text, 'a', sizeof text);
    memcpy(text, "http://a/", 9);
    text[COFFER__URL_SIZE - 1] = '\0';
    assert_int_equal(coffer__url_read(&url, text, NULL), COFFER_OK);
    assert_string_equal(url.text, text);
    text[COFFER__URL_SIZE - 1] = 'a';
    text[COFFER__URL_SIZE] = '\0';
    coffer_error err;
    assert_int_equal(coffer__url_read(&url, text, &err), COFFER_ERR_URL);
    assert_non_null(strstr(err.message, "longer than"));
}

static void follows(const char *from, const char *location, const char *to)
{
    coffer__url base;
    coffer__url url;
    coffer_error err;
    assert_int_equal(coffer__url_read(&base, from, &err), COFFER_OK);
    if (coffer__url_follow(&url, &base, location, &err) != COFFER_OK) {
        fail_msg("%s, %s: %s", from, location, err.message);
    }
    assert_string_equal(url.text, to);
}

static void redirects_are_followed(void **state)
{
    (void)state;
    follows("http://a/b/c?q", "http://x/y", "http://x/y");
    follows("http://a/b/c?q", "https://x/y?z=/", "https://x/y?z=/");
    follows("https://a:8/b/c?q", "//x/y", "https://x/y");
    follows("http://a:8/b/c?q", "/y", "http://a:8/y");
    follows("http://a:8/b/c/d?q=/", "y", "http://a:8/b/c/y");
    follows("http://a/b/c?q", "?r", "http://a/b/c?r");
    follows("http://a/b/c?q", "", "http://a/b/");
}

static void redirects_that_lead_astray_are_not(void **state)
{
    (void)state;
    coffer__url base;
    coffer__url url;
    coffer_error err;
    assert_int_equal(coffer__url_read(&base, "https://a/b", NULL), COFFER_OK);
    assert_int_equal(coffer__url_follow(&url, &base, "http://a/b", &err), COFFER_ERR_REDIRECT);
    assert_int_equal(err.code, COFFER_ERR_REDIRECT);
    assert_int_equal(coffer__url_follow(&url, &base, "s3://a/b", &err), COFFER_ERR_REDIRECT);
    assert_int_equal(coffer__url_follow(&url, &base, "file:///etc/passwd", &err), COFFER_ERR_REDIRECT);
    assert_int_equal(coffer__url_follow(&url, &base, "//u:p@x/", &err), COFFER_ERR_REDIRECT);
    static char location[COFFER__URL_SIZE];
    memset(location, 'a', sizeof location - 1);
    assert_int_equal(coffer__url_follow(&url, &base, location, &err), COFFER_ERR_REDIRECT);
}

static bool same(const char *a, const char *b)
{
    coffer__url one;
    coffer__url other;
    assert_int_equal(coffer__url_read(&one, a, NULL), COFFER_OK);
    assert_int_equal(coffer__url_read(&other, b, NULL), COFFER_OK);
    assert_int_equal(coffer__url_same_origin(&one, &other), coffer__url_same_origin(&other, &one));
    return coffer__url_same_origin(&one, &other);
}

static void an_origin_is_scheme_host_and_port(void **state)
{
    (void)state;
    assert_true(same("http://a/b", "http://A:80/c?d"));
    assert_true(same("https://a:443/", "https://a"));
    assert_false(same("http://a/", "https://a/"));
    assert_false(same("http://a/", "http://a:81/"));
    assert_false(same("http://a.b/", "http://a.bc/"));
    assert_false(same("http://a.b/", "http://b.b/"));
}

static void only_a_scheme_makes_a_url(void **state)
{
    (void)state;
    assert_true(coffer__url_is("http://a"));
    assert_true(coffer__url_is("x-y.z+1://"));
    assert_false(coffer__url_is("model.safetensors"));
    assert_false(coffer__url_is("/http://a"));
    assert_false(coffer__url_is("1a://b"));
    assert_false(coffer__url_is("c:/a"));
    assert_false(coffer__url_is(""));
    assert_false(coffer__url_is("a:"));
}

static void appending_escapes_all_but_what_is_kept(void **state)
{
    (void)state;
    char out[COFFER__URL_SIZE] = "x";
    assert_int_equal(coffer__url_append(out, 1, "a/b %", 5, "/"), 10);
    assert_string_equal(out, "xa/b%20%25");
    assert_int_equal(coffer__url_append(out, 0, "a/b", 3, ""), 5);
    assert_string_equal(out, "a%2Fb");
    assert_int_equal(coffer__url_append(out, sizeof out - 3, "%", 1, ""), 0);
    assert_int_equal(coffer__url_append(out, sizeof out - 4, "%", 1, ""), sizeof out - 1);
}

/* ---- files beside others --------------------------------------------------------------------------------------------- */

static void check_beside(const char *text, const char *name, const char *wanted)
{
    coffer__url url;
    coffer__url again;
    assert_int_equal(coffer__url_read(&url, text, NULL), COFFER_OK);
    assert_true(coffer__url_beside(&url, name, strlen(name)));
    assert_string_equal(url.text, wanted);
    /* It is what reading its text would have made. */
    assert_int_equal(coffer__url_read(&again, wanted, NULL), COFFER_OK);
    assert_memory_equal(&url.scheme, &again.scheme, sizeof url - offsetof(coffer__url, scheme));
}

static void files_beside_a_url(void **state)
{
    (void)state;
    check_beside("https://h/a/b.safetensors", "c", "https://h/a/c");
    check_beside("https://h/a/b?token=x/y", "c", "https://h/a/c");
    check_beside("https://h/a/", "model.safetensors.index.json", "https://h/a/model.safetensors.index.json");
    check_beside("https://h", "c", "https://h/c");
    check_beside("https://h:8443/b", "a b?#%/c", "https://h:8443/a%20b%3F%23%25/c");
    coffer__url url;
    char longest[COFFER__URL_SIZE];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(coffer__url_read(&url, "https://h/b", NULL), COFFER_OK);
    assert_false(coffer__url_beside(&url, longest, sizeof longest - strlen("https://h/")));
    assert_int_equal(coffer__url_read(&url, "https://h/b", NULL), COFFER_OK);
    assert_true(coffer__url_beside(&url, longest, sizeof longest - strlen("https://h/") - 1));
}

static void check_hub(const char *text, bool is_folder, const char *folder, const char *file)
{
    coffer__hub_name name;
    char found[COFFER__HUB_MAX_FILE + 1];
    assert_int_equal(coffer__hub_read(&name, text, NULL), COFFER_OK);
    coffer__hub_folder(&name, is_folder, found);
    assert_string_equal(found, folder);
    assert_true(coffer__hub_beside(&name, is_folder, "c.json", 6));
    assert_string_equal(name.file, file);
}

static void files_beside_a_name_of_the_hub(void **state)
{
    (void)state;
    check_hub("hf://o/n", true, "", "c.json");
    check_hub("hf://o/n/b", false, "", "c.json");
    check_hub("hf://o/n@main/a/", true, "a/", "a/c.json");
    check_hub("hf://o/n@main/a/d/b", false, "a/d/", "a/d/c.json");
    coffer__hub_name name;
    char longest[COFFER__HUB_MAX_FILE];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(coffer__hub_read(&name, "hf://o/n/a/b", NULL), COFFER_OK);
    assert_false(coffer__hub_beside(&name, false, longest, sizeof longest - 2));
    assert_int_equal(coffer__hub_read(&name, "hf://o/n/a/b", NULL), COFFER_OK);
    assert_true(coffer__hub_beside(&name, false, longest, sizeof longest - 3));
    assert_false(coffer__hub_beside(&name, false, "..", 2));
    assert_false(coffer__hub_beside(&name, false, "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(a_password_is_not_repeated),
        cmocka_unit_test(the_capacity_is_used_up_and_not_more),
        cmocka_unit_test(redirects_are_followed),
        cmocka_unit_test(redirects_that_lead_astray_are_not),
        cmocka_unit_test(an_origin_is_scheme_host_and_port),
        cmocka_unit_test(only_a_scheme_makes_a_url),
        cmocka_unit_test(appending_escapes_all_but_what_is_kept),
        cmocka_unit_test(files_beside_a_url),
        cmocka_unit_test(files_beside_a_name_of_the_hub),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
