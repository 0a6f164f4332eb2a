/* SPDX-License-Identifier: Apache-2.0 */
/* The library's version as it was compiled. COFFER_VERSION_STRING in a program is that of the
   header it was compiled with; the two may differ. */
#include "coffer.h"

const char *coffer_version(void)
{
    return COFFER_VERSION_STRING;
}
