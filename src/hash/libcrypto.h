/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL's libcrypto, opened when it is first needed: it takes no part in building the library or in
 * starting a program, and only what needs it fails where it is not installed. Its types are opaque here,
 * so its headers are not needed either: functions are found by name and called through pointers of the
 * documented types.
 */
#ifndef COFFER_HASH_LIBCRYPTO_H
#define COFFER_HASH_LIBCRYPTO_H

#include "coffer.h"
#include "os.h"

/* Opens it. COFFER_ERR_NO_ALGORITHM says that `what` needs it and which files were looked for;
   COFFER_ERR_MEMORY that it could not start. Close it with coffer__os_library_close. */
coffer_status coffer__libcrypto_open(coffer__os_library *library, const char *what, coffer_error *err);

#endif
