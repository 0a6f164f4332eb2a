/* SPDX-License-Identifier: Apache-2.0 */
/* The library's version, as it was when it was compiled. */
#include "coffer.h"

const char *coffer_version(void)
{
    return COFFER_VERSION_STRING;
}
