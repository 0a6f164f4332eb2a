/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strided copy: runs of bytes at equal distances, which go to equal distances. It is the one form in which bytes of a
 * slice, of a load's chunk, or on their way to a device are copied: whoever plans copies walks over what is wanted and
 * yields these (walk.h, region.h), and whoever carries them out takes these: the function below for host memory, a
 * device by its driver (device.h).
 */
#ifndef COFFER_IO_STRIDED_COPY_H
#define COFFER_IO_STRIDED_COPY_H

#include <stdint.h>

typedef struct coffer__strided_copy {
    uint64_t from;     /* of the first run, where the one who plans counts: in the file, or in the tensor */
    int64_t from_step; /* bytes to the next one; of either sign, or 0, where the planner says nothing else */
    uint64_t to;       /* of the first run: an address in host memory, or of a device */
    int64_t to_step;   /* at least `width` either way */
    uint64_t width;
    uint64_t runs; /* at least 1; with 1 the steps mean nothing */
} coffer__strided_copy;

/* Carries one out in host memory. `bytes` is the first run; the two stretches of memory do not overlap. */
void coffer__copy_strided(const coffer__strided_copy *copy, const uint8_t *bytes);

#endif
