/* SPDX-License-Identifier: Apache-2.0 */
#include "authorities.h"

#include <string.h>

/* OpenSSL's X509_V_FLAG_PARTIAL_CHAIN: a chain may end in any trusted certificate, not only in one
   that signed itself. libcurl sets it, too. */
#define AUTHORITIES_PARTIAL_CHAIN 0x80000ul
/* A "folder" without certificates. If neither a file nor a folder is set, some libcurls load
   OpenSSL's defaults. */
#define AUTHORITIES_NOWHERE "/dev/null"
/* How many pointers at the beginning of an SSL_CTX are looked at. The structure is several times as
   large in every OpenSSL and in everything derived from it, so reading them is safe. */
#define AUTHORITIES_WORDS 8

/* What is used of OpenSSL. The library is never closed: libcurl keeps it in the process anyway. */
typedef struct authorities_openssl {
    coffer__os_library library;
    const void *(*method)(void);
    void *(*store_new)(void);
    int (*load)(void *store, const char *file, const char *folder);
    int (*set_flags)(void *store, unsigned long flags);
    int (*use)(void *context, void *store);
    void (*release)(void *store);
} authorities_openssl;

/* Finds a function in OpenSSL. False also if the program brings another one of the same name:
   OpenSSL's own internal calls might then lead there, and two versions would work on one structure.
   `function` is the address of a function pointer of any type. It is filled by memcpy, because ISO
   C has no conversion between all of these types. */
static bool authorities_find(const authorities_openssl *openssl, const char *name, void *function)
{
    coffer__os_library program = { NULL };
    void (*found)(void) = NULL;
    void (*other)(void) = NULL;
    if (!coffer__os_library_find(&openssl->library, name, &found) || !coffer__os_library_open(&program, NULL)) {
        return false;
    }
    const bool alone = !coffer__os_library_find(&program, name, &other) || other == found;
    coffer__os_library_close(&program);
    memcpy(function, &found, sizeof found);
    return alone;
}

/* Finds the libssl that this libcurl depends on, and in it, and in the libcrypto that it depends
   on, all functions that are used. Looking up a symbol in libcurl's handle also searches the
   libraries that libcurl depends on, so the address that is found is in the copy that libcurl
   itself calls. A libcurl with another TLS library, or with one that is linked in and hidden, has
   no such symbol: then there is no store. */
static bool authorities_find_all(const coffer__libcurl *curl, authorities_openssl *openssl)
{
    void (*method)(void) = NULL;
    return coffer__os_library_find(&curl->library, "TLS_client_method", &method) &&
           coffer__os_library_holding(&openssl->library, method) &&
           authorities_find(openssl, "TLS_client_method", &openssl->method) &&
           authorities_find(openssl, "SSL_CTX_set1_cert_store", &openssl->use) &&
           authorities_find(openssl, "X509_STORE_new", &openssl->store_new) &&
           authorities_find(openssl, "X509_STORE_load_locations", &openssl->load) &&
           authorities_find(openssl, "X509_STORE_set_flags", &openssl->set_flags) &&
           authorities_find(openssl, "X509_STORE_free", &openssl->release);
}

/* Whether libcurl's SSL_CTX was made by the OpenSSL that we found. Near its beginning it contains
   the address of its method, a constant inside that library, so no other copy of OpenSSL can have
   the same. Only the first AUTHORITIES_WORDS pointers are read, as the rest of the structure
   differs between versions. A match that is missed costs the shared store, and nothing else. */
static bool authorities_fit(const coffer__authorities *authorities, const void *context)
{
    const void *words[AUTHORITIES_WORDS];
    bool fit = false;
    memcpy(words, context, sizeof words);
    for (size_t i = 0; i < AUTHORITIES_WORDS; i++) {
        fit = fit || words[i] == authorities->method;
    }
    return fit;
}

/* Called by libcurl for each connection, before the handshake. set1 adds a reference of the
   connection's own. It runs on the thread that performs the transfer, and on several at the same
   time. The store is not written to after it was loaded, and OpenSSL counts its references
   atomically, so no lock is taken here. A context of another OpenSSL is not touched: handing it our
   store would mix the structures of two versions. */
static unsigned authorities_give(void *easy, void *context, void *ctx)
{
    coffer__authorities *authorities = ctx;
    (void)easy;
    if (!authorities_fit(authorities, context)) {
        atomic_store(&authorities->foreign, true);
        return COFFER__CURLE_ABORTED_BY_CALLBACK;
    }
    (void)authorities->use(context, authorities->store);
    return COFFER__CURLE_OK;
}

/* Where this libcurl looks by default. A libcurl that does not tell has NULL for both, and then
   there is no store. The two texts belong to libcurl and live until the handle is freed. */
static void authorities_usual(const coffer__libcurl *curl, void *easy, const char **file, const char **folder)
{
    if (curl->easy_getinfo(easy, COFFER__CURLINFO_CAINFO, file) != COFFER__CURLE_OK) {
        *file = NULL;
    }
    if (curl->easy_getinfo(easy, COFFER__CURLINFO_CAPATH, folder) != COFFER__CURLE_OK) {
        *folder = NULL;
    }
}

/* Only OpenSSL 3: its interface is known and stable. Every failure here only costs time later, so
   none is reported. */
void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file)
{
    /* The version is checked first: OpenSSL 1.1, LibreSSL, GnuTLS and others name themselves
       differently. */
    authorities_openssl openssl = { .library = { NULL } };
    const char *folder = NULL;
    const coffer__curl_version *version = curl->version_info(COFFER__CURLVERSION_FIRST);
    if (version->ssl_version == NULL || strncmp(version->ssl_version, "OpenSSL/3.", 10) != 0 ||
        !authorities_find_all(curl, &openssl)) {
        return;
    }
    /* The easy handle only serves to ask libcurl for its default paths. */
    void *easy = curl->easy_init();
    void *store = easy == NULL ? NULL : openssl.store_new();
    if (store != NULL && file == NULL) {
        authorities_usual(curl, easy, &file, &folder);
    }
    /* A store into which only some of the certificates could be read is worse than none: it would
       refuse servers that libcurl accepts. So anything but success releases it. */
    const bool read = store != NULL && (file != NULL || folder != NULL) && openssl.load(store, file, folder) == 1 &&
                      openssl.set_flags(store, AUTHORITIES_PARTIAL_CHAIN) == 1;
    if (read) {
        authorities->store = store;
        authorities->method = openssl.method();
        authorities->use = openssl.use;
        authorities->release = openssl.release;
    } else if (store != NULL) {
        openssl.release(store);
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

bool coffer__authorities_usable(const coffer__authorities *authorities)
{
    return authorities != NULL && authorities->store != NULL && !atomic_load(&authorities->foreign);
}

/* libcurl is told to load no certificates of its own; the callback then adds the store. CAINFO NULL
   and CAPATH at a place without certificates leave libcurl with no authorities at all. If the
   callback did not run, the handshake would fail instead of passing unverified. */
bool coffer__authorities_set(coffer__authorities *authorities, const coffer__libcurl *curl, void *easy)
{
    return curl->easy_setopt(easy, COFFER__CURLOPT_CAINFO, NULL) == COFFER__CURLE_OK &&
           curl->easy_setopt(easy, COFFER__CURLOPT_CAPATH, AUTHORITIES_NOWHERE) == COFFER__CURLE_OK &&
           curl->easy_setopt(easy, COFFER__CURLOPT_SSL_CTX_FUNCTION, authorities_give) == COFFER__CURLE_OK &&
           curl->easy_setopt(easy, COFFER__CURLOPT_SSL_CTX_DATA, authorities) == COFFER__CURLE_OK;
}
