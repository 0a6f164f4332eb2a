/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs as models. This room knows what it asks for; room `import`, which stands above it, answers
 * (import_model.c). A build without that room has to answer, too: by `why_not`.
 */
#ifndef COFFER_MODEL_FOREIGN_H
#define COFFER_MODEL_FOREIGN_H

#include "coffer.h"

/* Opens a path or URL that is no model of files of tensors, as `why_not` and *err say: if no reader knows it, or the options
   do not have its format, both stay as they are. */
coffer_status coffer__foreign_open(coffer **model, const char *path, const coffer_open_options *options,
                                   coffer_status why_not, coffer_error *err);

#endif
