/* SPDX-License-Identifier: Apache-2.0 */
/* What hash and verify both know of manifests: see cli_manifest.h for the contract. */
#include "cli_manifest.h"

#include "cli_folder.h"

#include <stdlib.h>

static const char *const NOT_THE_MODEL[] = { ".git", ".gitattributes", ".github", ".gitignore" };

bool cli_manifest_pass_over(coffer_manifest *manifest, const char *folder, const char *own)
{
    bool fine = true;
    for (size_t i = 0; i < sizeof NOT_THE_MODEL / sizeof NOT_THE_MODEL[0]; i++) {
        fine = fine && coffer_manifest_ignore(manifest, NOT_THE_MODEL[i], NULL) == COFFER_OK;
    }
    char *name = own != NULL ? cli_name_below(folder, own) : NULL;
    fine = fine && (name == NULL || coffer_manifest_ignore(manifest, name, NULL) == COFFER_OK);
    free(name);
    return fine;
}
