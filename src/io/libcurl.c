/* SPDX-License-Identifier: Apache-2.0 */
#include "libcurl.h"

#include "error.h"
#include "os.h"

#include <stddef.h>

#if COFFER__HAVE_CURL

static const struct libcurl_row {
    const char *name;
    size_t place;
} libcurl_rows[] = {
    { "curl_global_init", offsetof(coffer__libcurl, global_init) },
    { "curl_version_info", offsetof(coffer__libcurl, version_info) },
    { "curl_easy_init", offsetof(coffer__libcurl, easy_init) },
    { "curl_easy_setopt", offsetof(coffer__libcurl, easy_setopt) },
    { "curl_easy_getinfo", offsetof(coffer__libcurl, easy_getinfo) },
    { "curl_easy_reset", offsetof(coffer__libcurl, easy_reset) },
    { "curl_easy_strerror", offsetof(coffer__libcurl, easy_strerror) },
    { "curl_easy_cleanup", offsetof(coffer__libcurl, easy_cleanup) },
    { "curl_multi_init", offsetof(coffer__libcurl, multi_init) },
    { "curl_multi_add_handle", offsetof(coffer__libcurl, multi_add_handle) },
    { "curl_multi_perform", offsetof(coffer__libcurl, multi_perform) },
    { "curl_multi_poll", offsetof(coffer__libcurl, multi_poll) },
    { "curl_multi_info_read", offsetof(coffer__libcurl, multi_info_read) },
    { "curl_multi_remove_handle", offsetof(coffer__libcurl, multi_remove_handle) },
    { "curl_multi_cleanup", offsetof(coffer__libcurl, multi_cleanup) },
    { "curl_slist_append", offsetof(coffer__libcurl, slist_append) },
    { "curl_slist_free_all", offsetof(coffer__libcurl, slist_free_all) },
};

/* In all of these libcurl has one interface; they differ in who does TLS. */
static const char *const libcurl_names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib" };

coffer_status coffer__libcurl_open(coffer__libcurl *curl, coffer_error *err)
{
    coffer__os_library library = { NULL };
    bool found = false;
    for (size_t i = 0; i < sizeof libcurl_names / sizeof libcurl_names[0] && !found; i++) {
        found = coffer__os_library_open(&library, libcurl_names[i]);
    }
    if (!found) {
        return coffer__fail(err, COFFER_ERR_NO_NETWORK,
                            "a URL is opened by libcurl, and neither libcurl.so.4 nor libcurl-gnutls.so.4 is installed "
                            "here (Debian: apt install libcurl4)");
    }
    for (size_t i = 0; i < sizeof libcurl_rows / sizeof libcurl_rows[0]; i++) {
        if (!coffer__os_library_find(&library, libcurl_rows[i].name, (char *)curl + libcurl_rows[i].place)) {
            return coffer__fail(err, COFFER_ERR_NO_NETWORK,
                                "the libcurl of this system has no %s: 7.85 or newer is wanted", libcurl_rows[i].name);
        }
    }
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return coffer__fail(err, COFFER_ERR_NO_NETWORK, "libcurl could not be initialised");
    }
    return COFFER_OK;
}

#else

coffer_status coffer__libcurl_open(coffer__libcurl *curl, coffer_error *err)
{
    (void)curl;
    return coffer__fail(
        err, COFFER_ERR_NO_NETWORK,
        "this copy of libcoffer was built without libcurl, which opens URLs: build it where the headers of "
        "libcurl 7.85 or newer are (Debian: libcurl4-openssl-dev), or download the file first");
}

#endif
