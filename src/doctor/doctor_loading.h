/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders of models that config.json describes refuse or convert: metadata without a format, and odd dtypes. */
#ifndef COFFER_DOCTOR_LOADING_H
#define COFFER_DOCTOR_LOADING_H

#include "checkup.h"

/* Whether transformers finds the metadata that it wants. */
void coffer__doctor_check_format(const coffer__doctor_folder *folder, const char *name, const char *path,
                                 const coffer *model);
/* Weights that are F64, or that are integers although nothing says that they are quantised. */
void coffer__doctor_check_odd_dtypes(const coffer__doctor_folder *folder, const char *name, const char *path,
                                     const coffer *model);

#endif
