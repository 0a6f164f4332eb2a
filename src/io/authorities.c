/* SPDX-License-Identifier: Apache-2.0 */
#include "authorities.h"

#include "os.h"

#include <string.h>

#if COFFER__HAVE_CURL

/* A chain may end in any certificate that is trusted, as libcurl has it: OpenSSL's X509_V_FLAG_PARTIAL_CHAIN. */
#define AUTHORITIES_PARTIAL_CHAIN 0x80000ul

/* What is used of OpenSSL. Its functions are found in libssl, and in libcrypto which that depends on. Both stay in the process, as
   libcurl has them anyway. */
typedef struct authorities_openssl {
    void *(*store_new)(void);
    int (*load)(void *store, const char *file, const char *folder);
    int (*set_flags)(void *store, unsigned long flags);
} authorities_openssl;

static bool authorities_find(coffer__authorities *authorities, authorities_openssl *openssl)
{
    coffer__os_library library = { NULL };
    return coffer__os_library_open(&library, "libssl.so.3") &&
           coffer__os_library_find(&library, "X509_STORE_new", &openssl->store_new) &&
           coffer__os_library_find(&library, "X509_STORE_load_locations", &openssl->load) &&
           coffer__os_library_find(&library, "X509_STORE_set_flags", &openssl->set_flags) &&
           coffer__os_library_find(&library, "X509_STORE_free", &authorities->release) &&
           coffer__os_library_find(&library, "SSL_CTX_set1_cert_store", &authorities->use);
}

/* Called by libcurl for each connection before it is made. */
static CURLcode authorities_give(CURL *easy, void *context, void *ctx)
{
    const coffer__authorities *authorities = ctx;
    (void)easy;
    authorities->use(context, authorities->store);
    return CURLE_OK;
}

/* Where this libcurl looks by itself. */
static void authorities_usual(const coffer__libcurl *curl, void *easy, const char **file, const char **folder)
{
    if (curl->easy_getinfo(easy, CURLINFO_CAINFO, file) != CURLE_OK) {
        *file = NULL;
    }
    if (curl->easy_getinfo(easy, CURLINFO_CAPATH, folder) != CURLE_OK) {
        *folder = NULL;
    }
}

void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file)
{
    authorities_openssl openssl;
    const char *folder = NULL;
    const curl_version_info_data *version = curl->version_info(CURLVERSION_NOW);
    if (version->ssl_version == NULL || strncmp(version->ssl_version, "OpenSSL/3.", 10) != 0 ||
        !authorities_find(authorities, &openssl)) {
        return;
    }
    CURL *easy = curl->easy_init();
    void *store = easy == NULL ? NULL : openssl.store_new();
    if (store != NULL && file == NULL) {
        authorities_usual(curl, easy, &file, &folder);
    }
    const bool read = store != NULL && (file != NULL || folder != NULL) && openssl.load(store, file, folder) == 1 &&
                      openssl.set_flags(store, AUTHORITIES_PARTIAL_CHAIN) == 1;
    if (read) {
        authorities->store = store;
    } else if (store != NULL) {
        authorities->release(store);
    }
    if (easy != NULL) {
        curl->easy_cleanup(easy);
    }
}

void coffer__authorities_close(coffer__authorities *authorities)
{
    if (authorities->store != NULL) {
        authorities->release(authorities->store);
        authorities->store = NULL;
    }
}

bool coffer__authorities_set(const coffer__authorities *authorities, const coffer__libcurl *curl, void *easy)
{
    return curl->easy_setopt(easy, CURLOPT_CAINFO, NULL) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, authorities_give) == CURLE_OK &&
           curl->easy_setopt(easy, CURLOPT_SSL_CTX_DATA, authorities) == CURLE_OK;
}

#else

void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file)
{
    (void)authorities;
    (void)curl;
    (void)file;
}

void coffer__authorities_close(coffer__authorities *authorities)
{
    (void)authorities;
}

bool coffer__authorities_set(const coffer__authorities *authorities, const coffer__libcurl *curl, void *easy)
{
    (void)authorities;
    (void)curl;
    (void)easy;
    return false;
}

#endif
