/* SPDX-License-Identifier: Apache-2.0 */
/* Formats in which tensors have places of their own: two that share bytes are damage, or a trap. */
#ifndef COFFER_IMPORT_DISJOINT_H
#define COFFER_IMPORT_DISJOINT_H

#include "plan.h"

/* COFFER_ERR_DAMAGED with the byte when two pieces of the plan share one. `noun` begins the message: "the HDF5 file". */
coffer_status coffer__import_plan_check_disjoint(const coffer__import_plan *plan, const char *noun, coffer_error *err);

#endif
