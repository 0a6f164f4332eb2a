/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a folder of several models, a pipeline for one: FOLDER:PART, where PART is a folder or a file below FOLDER, the
 * file also without its .safetensors. Of the Hub, hf://owner/name:PART. A path that exists is never taken apart.
 */
#ifndef COFFER_CLI_PART_H
#define COFFER_CLI_PART_H

#include "coffer.h"

typedef struct cli_part {
    char *path; /* where it is; NULL: the path names no part */
} cli_part;

/* Finds what a path names. COFFER_ERR_NO_MODEL when its folder has no such part. Any thread. */
coffer_status cli_part_find(cli_part *part, const char *path, coffer_error *err);
void cli_part_free(cli_part *part);

#endif
