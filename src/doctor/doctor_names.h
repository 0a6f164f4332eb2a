/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors that loaders do not find, although the tensors are there, and tensors that are not like those of the same
   name in other layers. */
#ifndef COFFER_DOCTOR_NAMES_H
#define COFFER_DOCTOR_NAMES_H

#include "checkup.h"
#include "doctor_family.h"

/* What DDP, FSDP and torch.compile put into names; whether there is any. `described`: by a config.json. */
bool coffer__doctor_check_wrapping(const coffer__doctor_folder *folder, const char *name, const char *path,
                                   const coffer *model, bool described);
/* Names that a model of the family has in another way: without its prefix, or in another case. `prefix` is that of the
   names, `head` the output embeddings, or NULL. */
void coffer__doctor_check_spelling(const coffer__doctor_folder *folder, const char *name, const char *path,
                                   const coffer *model, const coffer__doctor_family *family, const char *prefix,
                                   const coffer_tensor *head);
/* Tensors that differ from those of the same name in other layers: by the case of the name, and with `dtypes` by their
   dtype. */
void coffer__doctor_check_alike(const coffer__doctor_folder *folder, const char *name, const coffer *model,
                                bool dtypes);
/* Weights that are named as those of a family, and no config.json beside them. */
void coffer__doctor_check_described(const coffer__doctor_folder *folder, const char *name, const coffer *model);

#endif
