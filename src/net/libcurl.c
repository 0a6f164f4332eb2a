/* SPDX-License-Identifier: Apache-2.0 */
#include "libcurl.h"

#include "error.h"

#include <stddef.h>

/* 7.85.0, the first version with CURLOPT_PROTOCOLS_STR. */
#define LIBCURL_MIN 0x075500u

/* Which function goes where in the table. coffer__os_library_find stores each by its place in the
   struct. */
static const struct libcurl_row {
    const char *name;
    size_t place;
} libcurl_rows[] = {
    { "curl_global_init", offsetof(coffer__libcurl, global_init) },
    { "curl_version_info", offsetof(coffer__libcurl, version_info) },
    { "curl_easy_init", offsetof(coffer__libcurl, easy_init) },
    { "curl_easy_setopt", offsetof(coffer__libcurl, easy_setopt) },
    { "curl_easy_getinfo", offsetof(coffer__libcurl, easy_getinfo) },
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

/* All of these have the same interface; they differ in the TLS library. The first one is what most
   systems have. */
static const char *const libcurl_names[] = { "libcurl.so.4",    "libcurl-gnutls.so.4", "libcurl.4.dylib",
                                             "libcurl-x64.dll", "libcurl-4.dll",       "libcurl.dll" };

/* Functions are looked up before the version is asked for, which is one of them. The table counts
   as filled only after COFFER_OK. The caller holds a lock, since curl_global_init is not safe in
   threads before 7.84, and calls this once for each client; libcurl counts its initialisations, and
   they are never undone. The messages name packages, because a missing libcurl is what users meet
   in slim containers. */
coffer_status coffer__libcurl_open(coffer__libcurl *curl, coffer_error *err)
{
    bool found = false;
    for (size_t i = 0; i < sizeof libcurl_names / sizeof libcurl_names[0] && !found; i++) {
        found = coffer__os_library_open(&curl->library, libcurl_names[i]);
    }
    if (!found && !coffer__os_can_load()) {
        return coffer__fail(err, COFFER_ERR_NO_NETWORK,
                            "URLs are opened with libcurl, and this copy of libcoffer was built to load no libraries "
                            "(COFFER_DLOPEN=OFF): download the file first");
    }
    if (!found) {
        return coffer__fail(
            err, COFFER_ERR_NO_NETWORK, "URLs are opened with libcurl, and %s",
            coffer__os_choose("libcurl.so.4 cannot be loaded here: install the package libcurl4 (Debian, "
                              "Ubuntu: apt install libcurl4) or libcurl (Fedora, Arch, Alpine)",
                              "libcurl-x64.dll cannot be loaded here: put it next to the program"));
    }
    /* All functions are required. A libcurl that lacks one is older than what its version says
       later, so the message names what it lacks. */
    for (size_t i = 0; i < sizeof libcurl_rows / sizeof libcurl_rows[0]; i++) {
        if (!coffer__os_library_find(&curl->library, libcurl_rows[i].name, (char *)curl + libcurl_rows[i].place)) {
            return coffer__fail(err, COFFER_ERR_NO_NETWORK,
                                "the libcurl of this system has no %s: 7.85 or newer is needed", libcurl_rows[i].name);
        }
    }
    const coffer__curl_version *version = curl->version_info(COFFER__CURLVERSION_FIRST);
    if (version->version_num < LIBCURL_MIN) {
        return coffer__fail(err, COFFER_ERR_NO_NETWORK,
                            "the libcurl of this system is version %s: 7.85 or newer is needed to open URLs",
                            version->version);
    }
    if (curl->global_init(COFFER__CURL_GLOBAL_DEFAULT) != COFFER__CURLE_OK) {
        return coffer__fail(err, COFFER_ERR_NO_NETWORK, "libcurl could not be initialised");
    }
    return COFFER_OK;
}
