/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an array that is assembled of parts, as a source. */
#ifndef COFFER_IMPORT_SOURCE_PARTS_H
#define COFFER_IMPORT_SOURCE_PARTS_H

#include "input.h"
#include "plan.h"

/* Opens storage `number` of a plan that was checked, and of whose files the input is. Both are borrowed; closing it does
   nothing. Any number of threads may read it. */
void coffer__source_parts(coffer__byte_source *source, const coffer__import_plan *plan, const coffer_input *input,
                          uint32_t number);

#endif
