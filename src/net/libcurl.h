/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, opened at run time: a program that opens no URL neither needs it nor pays for it. This
 * declares what is used of its ABI, which has been the same since libcurl.so.4 and only grows:
 * numbers, structures and functions, under names of our own. So every build can open URLs, whether
 * libcurl's headers were there or not. tests/abi/libcurl_abi.c compares all of this with the
 * headers.
 *
 * Pointers to handles are `void *`, as they are in libcurl. Results are unsigned or int as the
 * compiler takes libcurl's enums.
 */
#ifndef COFFER_NET_LIBCURL_H
#define COFFER_NET_LIBCURL_H

#include "coffer.h"
#include "os.h"

struct curl_slist;
struct curl_waitfd;

/* CURLcode: how a transfer ended. */
enum {
    /* Only those that http.c tells apart. */
    COFFER__CURLE_OK = 0,
    COFFER__CURLE_COULDNT_RESOLVE_PROXY = 5,
    COFFER__CURLE_COULDNT_RESOLVE_HOST = 6,
    COFFER__CURLE_COULDNT_CONNECT = 7,
    COFFER__CURLE_HTTP2 = 16,
    COFFER__CURLE_PARTIAL_FILE = 18,
    COFFER__CURLE_WRITE_ERROR = 23,
    COFFER__CURLE_OPERATION_TIMEDOUT = 28,
    COFFER__CURLE_SSL_CONNECT_ERROR = 35,
    COFFER__CURLE_ABORTED_BY_CALLBACK = 42,
    COFFER__CURLE_BAD_FUNCTION_ARGUMENT = 43,
    COFFER__CURLE_GOT_NOTHING = 52,
    COFFER__CURLE_SEND_ERROR = 55,
    COFFER__CURLE_RECV_ERROR = 56,
    COFFER__CURLE_SSL_CERTPROBLEM = 58,
    COFFER__CURLE_PEER_FAILED_VERIFICATION = 60,
    COFFER__CURLE_SSL_CACERT_BADFILE = 77,
    COFFER__CURLE_SSL_ISSUER_ERROR = 83,
    COFFER__CURLE_HTTP2_STREAM = 92
};

/* CURLoption. The ten thousands digit says what the argument is: 0 a long, 1 a pointer, 2 a
   function. easy_setopt is variadic, so an argument of another type would be undefined
   behaviour. */
enum {
    COFFER__CURLOPT_NOBODY = 44,
    COFFER__CURLOPT_NETRC = 51,
    COFFER__CURLOPT_FOLLOWLOCATION = 52,
    COFFER__CURLOPT_BUFFERSIZE = 98,
    COFFER__CURLOPT_NOSIGNAL = 99,
    COFFER__CURLOPT_HTTPAUTH = 107,
    COFFER__CURLOPT_CONNECTTIMEOUT_MS = 156,
    COFFER__CURLOPT_HTTP_CONTENT_DECODING = 158,
    COFFER__CURLOPT_PATH_AS_IS = 234,
    COFFER__CURLOPT_SUPPRESS_CONNECT_HEADERS = 265,
    COFFER__CURLOPT_WRITEDATA = 10001,
    COFFER__CURLOPT_URL = 10002,
    COFFER__CURLOPT_USERPWD = 10005,
    COFFER__CURLOPT_RANGE = 10007,
    COFFER__CURLOPT_ERRORBUFFER = 10010,
    COFFER__CURLOPT_USERAGENT = 10018,
    COFFER__CURLOPT_HTTPHEADER = 10023,
    COFFER__CURLOPT_HEADERDATA = 10029,
    COFFER__CURLOPT_CAINFO = 10065,
    COFFER__CURLOPT_CAPATH = 10097,
    COFFER__CURLOPT_ACCEPT_ENCODING = 10102,
    COFFER__CURLOPT_SSL_CTX_DATA = 10109,
    COFFER__CURLOPT_XOAUTH2_BEARER = 10220,
    COFFER__CURLOPT_AWS_SIGV4 = 10305,
    COFFER__CURLOPT_PROTOCOLS_STR = 10318,
    COFFER__CURLOPT_WRITEFUNCTION = 20011,
    COFFER__CURLOPT_HEADERFUNCTION = 20079,
    COFFER__CURLOPT_SSL_CTX_FUNCTION = 20108
};

/* Values that options take, sizes, and CURLINFO. */
enum {
    COFFER__CURL_NETRC_OPTIONAL = 1,
    COFFER__CURLAUTH_BEARER = 1 << 6,
    COFFER__CURL_GLOBAL_DEFAULT = 3,
    COFFER__CURL_ERROR_SIZE = 256, /* of the memory for CURLOPT_ERRORBUFFER */
    COFFER__CURLVERSION_FIRST = 0,
    COFFER__CURLMSG_DONE = 1,
    COFFER__CURLM_OK = 0,
    COFFER__CURLINFO_CAINFO = 0x10003D,
    COFFER__CURLINFO_CAPATH = 0x10003E,
    COFFER__CURLINFO_SSL_VERIFYRESULT = 0x20000D /* a long: of OpenSSL, X509_V_* */
};

/* The first fields of curl_version_info_data, those of CURLVERSION_FIRST. Later versions of the
   struct append fields, so reading these is valid for every libcurl. */
typedef struct coffer__curl_version {
    unsigned age;
    const char *version;
    unsigned version_num;
    const char *host;
    int features;
    const char *ssl_version; /* "OpenSSL/3.0.20"; NULL without TLS */
} coffer__curl_version;

/* CURLMsg. `whatever` comes first in libcurl's union as well. It has the size of a pointer, and so
   has the union. */
typedef struct coffer__curl_message {
    unsigned kind;
    void *easy;
    union {
        void *whatever;
        unsigned result;
    } data;
} coffer__curl_message;

/* The functions that are used, by the names of libcurl without `curl_`. Constant once
   coffer__libcurl_open has filled it; libcurl's handles are what must not be shared between
   threads. */
typedef struct coffer__libcurl {
    coffer__os_library library;
    unsigned (*global_init)(long flags);
    const coffer__curl_version *(*version_info)(unsigned age);
    void *(*easy_init)(void);
    unsigned (*easy_setopt)(void *easy, unsigned option, ...);
    unsigned (*easy_getinfo)(void *easy, unsigned info, ...);
    const char *(*easy_strerror)(unsigned code);
    void (*easy_cleanup)(void *easy);
    void *(*multi_init)(void);
    int (*multi_add_handle)(void *multi, void *easy);
    int (*multi_perform)(void *multi, int *running);
    int (*multi_poll)(void *multi, struct curl_waitfd *extra, unsigned count, int timeout_ms, int *ready);
    coffer__curl_message *(*multi_info_read)(void *multi, int *left);
    int (*multi_remove_handle)(void *multi, void *easy);
    int (*multi_cleanup)(void *multi);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
} coffer__libcurl;

/* Fills the table, or fails with COFFER_ERR_NO_NETWORK. The library stays in the process: it may
   have threads of its own. */
coffer_status coffer__libcurl_open(coffer__libcurl *curl, coffer_error *err);

#endif
