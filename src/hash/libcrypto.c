/* SPDX-License-Identifier: Apache-2.0 */
/* The names under which libcrypto is looked for, newest first; what is used of it is the same in
   all of them. */
#include "libcrypto.h"

#include "error.h"

/*
 * Whether libcrypto has what all of its functions rely on. It allocates that when the first of them
 * is called; if there was no memory for it, later calls do not fail but crash. Only versions from 3
 * on have it, and the function that tells; a libcrypto without that function is taken to be ready.
 */
static bool libcrypto_is_ready(const coffer__os_library *library)
{
    void *(*default_context)(void) = NULL;
    return !coffer__os_library_find(library, "OSSL_LIB_CTX_get0_global_default", &default_context) ||
           default_context() != NULL;
}

/* Newest first. A system's loader knows its own spelling only. */
static const char *const libcrypto_names[] = { "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.3.dylib",
                                               "libcrypto-3-x64.dll" };

static bool libcrypto_load(coffer__os_library *library)
{
    bool found = false;
    for (size_t i = 0; i < sizeof libcrypto_names / sizeof libcrypto_names[0] && !found; i++) {
        found = coffer__os_library_open(library, libcrypto_names[i]);
    }
    return found;
}

coffer_status coffer__libcrypto_open(coffer__os_library *library, const char *what, coffer_error *err)
{
    if (!libcrypto_load(library)) {
        return coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "%s needs OpenSSL's libcrypto, and %s", what,
                            coffer__os_choose("neither libcrypto.so.3 nor libcrypto.so.1.1 can be loaded here: install "
                                              "OpenSSL (on Debian the package libssl3)",
                                              "libcrypto-3-x64.dll cannot be loaded here: put it next to the program"));
    }
    if (libcrypto_is_ready(library)) {
        return COFFER_OK;
    }
    coffer__os_library_close(library);
    return coffer__fail(err, COFFER_ERR_MEMORY, "%s needs OpenSSL's libcrypto, which had no memory to start", what);
}
