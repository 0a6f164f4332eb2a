/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests in files that the command writes. A file that records digests is verified while it is
 * copied, and the new one records new ones by the same algorithm, so that damage is neither passed
 * on nor made to look right; --digest asks for them where there are none. The strings in which they
 * are recorded are never copied.
 */
#ifndef COFFER_CLI_RECORDED_H
#define COFFER_CLI_RECORDED_H

#include "cli_command.h"
#include "coffer.h"

#define CLI_OPTION_ROW_DIGEST                                                                                          \
    {                                                                                                                  \
        CLI_OPTION_DIGEST, 0, "digest", "NAME", "record digests of the tensors: sha256 or xxh3", "sha256|xxh3"         \
    }

/* The files' model, opened to be copied: what records digests is verified. As cli_open. */
coffer *cli_recorded_open(cli *app, const char *path, int *code);
/* The same without a report. */
coffer_status cli_recorded_try(coffer **model, const char *path, coffer_error *err);
/* What the new file records: by --digest, or what the model's files do (NULL: there is none); COFFER_NO_ALGORITHM:
   nothing. */
coffer_algorithm cli_recorded_wanted(const cli_arguments *arguments, const coffer *model);
/* Whether a string of the metadata is one of those that are not copied. */
bool cli_recorded_is_key(const coffer_pair *pair);

#endif
