/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a distributed checkpoint whose parts are tensors of safetensors. */
#ifndef COFFER_TORCH_DCP_SAFETENSORS_H
#define COFFER_TORCH_DCP_SAFETENSORS_H

#include "pickle_views.h"

/* Reads the header of such a file; *table is NULL for any other file, and else to be freed. Fails as coffer_parse does. */
coffer_status coffer__dcp_open_safetensors(coffer_table **table, const coffer__reader_file *file, coffer_error *err);
/* The view of a tensor of such a file, which is of that element and of at most COFFER__PLAN_MAX_RANK dimensions. Its storage
   is put, and is called `name`, a text. */
coffer_status coffer__dcp_view_safetensors(const coffer__reader_file *file, const coffer_tensor *tensor,
                                           coffer__element element, uint32_t name, coffer__view *view,
                                           coffer_error *err);

#endif
