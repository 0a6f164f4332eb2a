/* SPDX-License-Identifier: Apache-2.0 */
/* What an array that is assembled of parts should be, for comparing: see source_parts.c for the code that writes it. */
#ifndef COFFER_IMPORT_VERIFY_PARTS_H
#define COFFER_IMPORT_VERIFY_PARTS_H

#include "input.h"
#include "plan.h"

/* An array, with the files that its parts are in. */
typedef struct coffer__verify_array {
    const coffer__import_plan *plan;
    const coffer_input *input;
    uint32_t storage;
} coffer__verify_array;

/* Puts bytes [at, at + size) of the array together in `expected`. `memory` has space for as many, and is used on the way. */
coffer_status coffer__verify_assemble(const coffer__verify_array *array, uint64_t at, size_t size, uint8_t *memory,
                                      uint8_t *expected, const coffer__watch *watch, coffer_error *err);

#endif
