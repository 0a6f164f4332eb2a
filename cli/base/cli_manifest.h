/* SPDX-License-Identifier: Apache-2.0 */
/* What hash and verify both know of manifests and keys. */
#ifndef COFFER_CLI_MANIFEST_H
#define COFFER_CLI_MANIFEST_H

#include "coffer.h"

#define CLI_KEY_MAX ((size_t)1 << 20)        /* bytes of a file with a key */
#define CLI_MANIFEST_MAX ((size_t)100000000) /* bytes of a manifest */

/* Makes a manifest silent about what is no part of the model in a folder: what belongs to git, as
   model signing has it, and the manifest itself (`own`, a path, or NULL) where it is there. False
   without memory. */
bool cli_manifest_pass_over(coffer_manifest *manifest, const char *folder, const char *own);

#endif
