/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets share that take their input for a description: bytes handed out one after the other, and a claim that is
   checked in every build. */
#ifndef COFFER_FUZZ_INPUT_H
#define COFFER_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline void expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

typedef struct fuzz_input {
    const uint8_t *bytes;
    size_t size;
    size_t at;
} fuzz_input;

/* The next byte; 0 when there is none any more. */
static inline uint8_t next_byte(fuzz_input *in)
{
    return in->at < in->size ? in->bytes[in->at++] : 0;
}

#endif
