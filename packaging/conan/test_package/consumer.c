/* SPDX-License-Identifier: Apache-2.0 */
/* Fails when the header and the library that was linked are not of one version. */
#include <coffer.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    printf("coffer %s\n", coffer_version());
    return strcmp(coffer_version(), COFFER_VERSION_STRING) != 0;
}
