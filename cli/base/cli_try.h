/* SPDX-License-Identifier: Apache-2.0 */
/* What a dry run does to know whether the new files have their space, and may be so large: it writes the last byte of each,
   with which the file gets all of it. Free the writer afterwards: it leaves nothing. */
#ifndef COFFER_CLI_TRY_H
#define COFFER_CLI_TRY_H

#include "coffer.h"

/* The header is the writer's. */
coffer_status cli_try_file(coffer_writer *writer, const coffer_header *header, coffer_error *err);
coffer_status cli_try_files(coffer_model_writer *writer, coffer_header *header, coffer_error *err);

#endif
