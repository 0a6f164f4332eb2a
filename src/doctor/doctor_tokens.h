/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of tokens: what stands beside a model must not know more of them than the embeddings have rows. */
#ifndef COFFER_DOCTOR_TOKENS_H
#define COFFER_DOCTOR_TOKENS_H

#include "checkup.h"

/* The tokens that begin, end and fill texts, as config.json and generation_config.json have them, and the vocabulary of the
   tokenizer, against the rows of the embeddings. `scope` is the object of the configuration that has the sizes. */
void coffer__doctor_check_tokens(const coffer__doctor_folder *folder, const coffer__document *config,
                                 const coffer__json_node *root, const coffer__json_node *scope, uint64_t rows);

#endif
