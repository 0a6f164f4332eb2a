/* SPDX-License-Identifier: Apache-2.0 */
/* The second scales of NVFP4, which GGUF keeps in tensors of their own. */
#ifndef COFFER_GGUF_GGUF_SCALES_H
#define COFFER_GGUF_GGUF_SCALES_H

#include "reader.h"

/* Gives the factors NAME.scale to the rows NAME.weight that are made of NVFP4's blocks; the rows of the factors are
   skipped then. Reads the factors, whose places are those of the plan's pieces and were checked. COFFER_ERR_UNSUPPORTED
   for factors that are neither one number nor one for each slice of the outermost of three or four dimensions. */
coffer_status coffer__gguf_multiply_scales(const coffer__input_files *input, coffer__import_plan *plan,
                                           coffer_error *err);

#endif
