/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines of diffusers, in a folder or at a URL: what their model_index.json says that they consist of. */
#ifndef COFFER_CLI_PIPELINE_H
#define COFFER_CLI_PIPELINE_H

#include "coffer.h"

#define CLI_PIPELINE_INDEX "model_index.json"
#define CLI_PIPELINE_PARTS 64

typedef struct cli_pipeline {
    char *url;           /* of its folder, with a slash at its end */
    coffer_input *input; /* its model_index.json, with what lies below the same folder */
    char *index;         /* the text of that, with a NUL after it */
    size_t index_size;
    char *parts[CLI_PIPELINE_PARTS]; /* their folders' names, which are plain */
    size_t count;
} cli_pipeline;

/* Reads what is at a URL of a folder, or its path. COFFER_ERR_NO_MODEL where the file is not that of a pipeline. Free it in any case. */
coffer_status cli_pipeline_open(cli_pipeline *pipeline, const char *url, coffer_error *err);
/* Reads a file of the folder, of at most `most` bytes; a NUL follows them. To be freed. */
coffer_status cli_pipeline_read(const cli_pipeline *pipeline, const char *name, size_t most, char **bytes, size_t *size,
                                coffer_error *err);
void cli_pipeline_free(cli_pipeline *pipeline);

#endif
