/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer fetch consists of: a model into its folder (fetch_download.c), and a pipeline of them (fetch_pipeline.c). */
#ifndef COFFER_CLI_FETCH_DOWNLOAD_H
#define COFFER_CLI_FETCH_DOWNLOAD_H

#include "cli_command.h"
#include "coffer.h"

/* Opens what is at a URL to be fetched. */
coffer_status fetch_open(coffer **model, const char *url, coffer_error *err);
/* Fetches a model that was opened so, or the tensors of it that were asked for, into a folder that may have to be made.
   Returns the exit code. */
int fetch_download(cli *app, const coffer *model, const cli_arguments *arguments, const char *url, const char *folder);
/* Fetches all parts of a pipeline, each into a folder of its name. Returns the exit code. */
int fetch_pipeline(cli *app, const cli_arguments *arguments, const char *url, const char *folder);

#endif
