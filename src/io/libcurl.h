/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, opened at run time: a program that opens no URL neither needs it nor pays for it. The one place that includes its
 * header, and the table of those of its functions that are used. Without the header (or with COFFER_NO_CURL) the library is
 * compiled all the same, and coffer__libcurl_open says so.
 */
#ifndef COFFER_IO_LIBCURL_H
#define COFFER_IO_LIBCURL_H

#include "coffer.h"

#ifndef COFFER_NO_CURL
#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#endif
#endif

/* 7.85.0, the first that takes the names of protocols. */
#if defined(LIBCURL_VERSION_NUM) && LIBCURL_VERSION_NUM >= 0x075500
#define COFFER__HAVE_CURL 1

typedef struct coffer__libcurl {
    CURLcode (*global_init)(long flags);
    curl_version_info_data *(*version_info)(CURLversion age);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
    void (*easy_reset)(CURL *easy);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *easy);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_perform)(CURLM *multi, int *running);
    CURLMcode (*multi_poll)(CURLM *multi, struct curl_waitfd *extra, unsigned count, int timeout_ms, int *ready);
    CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
    CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_cleanup)(CURLM *multi);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
} coffer__libcurl;

#else
#define COFFER__HAVE_CURL 0

typedef struct coffer__libcurl {
    int none;
} coffer__libcurl;

#endif

/* Fills the table, or fails with COFFER_ERR_NO_NETWORK. The library stays in the process: it may have threads of its own. */
coffer_status coffer__libcurl_open(coffer__libcurl *curl, coffer_error *err);

#endif
