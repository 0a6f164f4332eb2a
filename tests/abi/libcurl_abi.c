/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles when src/net/libcurl.h says of libcurl's ABI what libcurl's own headers say; test_network_libcurl.py has it compiled. */
#define CURL_DISABLE_TYPECHECK
#include "libcurl.h"

#include <curl/curl.h>

#include <stddef.h>

#define SAME_NUMBER(name) _Static_assert((long long)COFFER__##name == (long long)(name), #name)
#define SAME_TYPE(a, b) _Static_assert(__builtin_types_compatible_p(a, b), #a " is not " #b)
#define SAME_FUNCTION(name) SAME_TYPE(__typeof__(((coffer__libcurl *)0)->name), __typeof__(&curl_##name))
#define SAME_PLACE(ours, field, theirs, other)                                                                         \
    SAME_TYPE(__typeof__(((ours *)0)->field), __typeof__(((theirs *)0)->other));                                       \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, other), #other)

SAME_NUMBER(CURLE_OK);
SAME_NUMBER(CURLE_COULDNT_RESOLVE_PROXY);
SAME_NUMBER(CURLE_COULDNT_RESOLVE_HOST);
SAME_NUMBER(CURLE_COULDNT_CONNECT);
SAME_NUMBER(CURLE_HTTP2);
SAME_NUMBER(CURLE_PARTIAL_FILE);
SAME_NUMBER(CURLE_WRITE_ERROR);
SAME_NUMBER(CURLE_OPERATION_TIMEDOUT);
SAME_NUMBER(CURLE_SSL_CONNECT_ERROR);
SAME_NUMBER(CURLE_ABORTED_BY_CALLBACK);
SAME_NUMBER(CURLE_BAD_FUNCTION_ARGUMENT);
SAME_NUMBER(CURLE_GOT_NOTHING);
SAME_NUMBER(CURLE_SEND_ERROR);
SAME_NUMBER(CURLE_RECV_ERROR);
SAME_NUMBER(CURLE_SSL_CERTPROBLEM);
SAME_NUMBER(CURLE_PEER_FAILED_VERIFICATION);
SAME_NUMBER(CURLE_SSL_CACERT_BADFILE);
SAME_NUMBER(CURLE_SSL_ISSUER_ERROR);
SAME_NUMBER(CURLE_HTTP2_STREAM);
SAME_NUMBER(CURLOPT_NOBODY);
SAME_NUMBER(CURLOPT_NETRC);
SAME_NUMBER(CURLOPT_FOLLOWLOCATION);
SAME_NUMBER(CURLOPT_BUFFERSIZE);
SAME_NUMBER(CURLOPT_NOSIGNAL);
SAME_NUMBER(CURLOPT_HTTPAUTH);
SAME_NUMBER(CURLOPT_CONNECTTIMEOUT_MS);
SAME_NUMBER(CURLOPT_HTTP_CONTENT_DECODING);
SAME_NUMBER(CURLOPT_PATH_AS_IS);
SAME_NUMBER(CURLOPT_SUPPRESS_CONNECT_HEADERS);
SAME_NUMBER(CURLOPT_WRITEDATA);
SAME_NUMBER(CURLOPT_URL);
SAME_NUMBER(CURLOPT_USERPWD);
SAME_NUMBER(CURLOPT_RANGE);
SAME_NUMBER(CURLOPT_ERRORBUFFER);
SAME_NUMBER(CURLOPT_USERAGENT);
SAME_NUMBER(CURLOPT_HTTPHEADER);
SAME_NUMBER(CURLOPT_HEADERDATA);
SAME_NUMBER(CURLOPT_CAINFO);
SAME_NUMBER(CURLOPT_CAPATH);
SAME_NUMBER(CURLOPT_ACCEPT_ENCODING);
SAME_NUMBER(CURLOPT_SSL_CTX_DATA);
SAME_NUMBER(CURLOPT_XOAUTH2_BEARER);
SAME_NUMBER(CURLOPT_AWS_SIGV4);
SAME_NUMBER(CURLOPT_PROTOCOLS_STR);
SAME_NUMBER(CURLOPT_WRITEFUNCTION);
SAME_NUMBER(CURLOPT_HEADERFUNCTION);
SAME_NUMBER(CURLOPT_SSL_CTX_FUNCTION);
SAME_NUMBER(CURL_NETRC_OPTIONAL);
SAME_NUMBER(CURLAUTH_BEARER);
SAME_NUMBER(CURL_GLOBAL_DEFAULT);
SAME_NUMBER(CURL_ERROR_SIZE);
SAME_NUMBER(CURLVERSION_FIRST);
SAME_NUMBER(CURLMSG_DONE);
SAME_NUMBER(CURLM_OK);
SAME_NUMBER(CURLINFO_CAINFO);
SAME_NUMBER(CURLINFO_CAPATH);
SAME_NUMBER(CURLINFO_SSL_VERIFYRESULT);

SAME_PLACE(coffer__curl_version, age, curl_version_info_data, age);
SAME_PLACE(coffer__curl_version, version, curl_version_info_data, version);
SAME_PLACE(coffer__curl_version, version_num, curl_version_info_data, version_num);
SAME_PLACE(coffer__curl_version, host, curl_version_info_data, host);
SAME_PLACE(coffer__curl_version, features, curl_version_info_data, features);
SAME_PLACE(coffer__curl_version, ssl_version, curl_version_info_data, ssl_version);
SAME_PLACE(coffer__curl_message, kind, CURLMsg, msg);
SAME_PLACE(coffer__curl_message, easy, CURLMsg, easy_handle);
SAME_PLACE(coffer__curl_message, data.whatever, CURLMsg, data.whatever);
SAME_PLACE(coffer__curl_message, data.result, CURLMsg, data.result);

SAME_FUNCTION(global_init);
SAME_FUNCTION(easy_init);
SAME_FUNCTION(easy_setopt);
SAME_FUNCTION(easy_getinfo);
SAME_FUNCTION(easy_strerror);
SAME_FUNCTION(easy_cleanup);
SAME_FUNCTION(multi_init);
SAME_FUNCTION(multi_add_handle);
SAME_FUNCTION(multi_perform);
SAME_FUNCTION(multi_poll);
SAME_FUNCTION(multi_remove_handle);
SAME_FUNCTION(multi_cleanup);
SAME_FUNCTION(slist_append);
SAME_FUNCTION(slist_free_all);
/* These return structures, of which ours have other names and the same fields. */
SAME_TYPE(__typeof__(&curl_version_info), curl_version_info_data *(*)(unsigned));
SAME_TYPE(__typeof__(((coffer__libcurl *)0)->version_info), const coffer__curl_version *(*)(unsigned));
SAME_TYPE(__typeof__(&curl_multi_info_read), CURLMsg *(*)(void *, int *));
SAME_TYPE(__typeof__(((coffer__libcurl *)0)->multi_info_read), coffer__curl_message *(*)(void *, int *));

/* What libcurl calls is called with these types. */
SAME_TYPE(curl_write_callback, size_t (*)(char *, size_t, size_t, void *));
SAME_TYPE(curl_ssl_ctx_callback, unsigned (*)(void *, void *, void *));
