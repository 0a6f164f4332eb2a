/* SPDX-License-Identifier: Apache-2.0 */
/* The names under which libcrypto is looked for, newest first; what is used of it is the same in all of them. */
#include "libcrypto.h"

#include "error.h"

coffer_status coffer__libcrypto_open(coffer__os_library *library, const char *what, coffer_error *err)
{
    if (coffer__os_library_open(library, "libcrypto.so.3") || coffer__os_library_open(library, "libcrypto.so.1.1")) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_NO_ALGORITHM,
                        "%s needs OpenSSL's libcrypto, and neither libcrypto.so.3 nor libcrypto.so.1.1 can be loaded "
                        "here: install OpenSSL (on Debian the package libssl3)",
                        what);
}
