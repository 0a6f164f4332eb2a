/* SPDX-License-Identifier: Apache-2.0 */
/* How tensors lie in files of other programs, in words and for programs. */
#ifndef COFFER_CLI_STORED_H
#define COFFER_CLI_STORED_H

#include "cli_command.h"
#include "coffer.h"

#define CLI_STORED_SIZE 384

/* "Q4_K", "torch.float16, strided, tied to wte.weight", "F32, compressed"; NUL-terminated, escaped. */
void cli_stored_text(const coffer *model, const coffer_tensor *tensor, char text[CLI_STORED_SIZE]);
/* The member "stored", of a model that coffer_model_import knows. */
void cli_json_stored(cli_output *out, const coffer *model, const coffer_tensor *tensor);

/* How many tensors the import of a model leaves out; 0 of a file of tensors. */
size_t cli_stored_left_out(const coffer *model);
/* Says so on standard error, with the reason for the first of them. */
void cli_stored_remark(cli *app, const char *path, const coffer *model);

#endif
