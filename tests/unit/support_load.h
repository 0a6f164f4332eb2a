/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random models and random plans for tests of loads: models of several files with tensors of all widths, items that are
 * whole tensors, slices and shares, in places with and without strides; and what a naive reader makes of each.
 */
#ifndef COFFER_TESTS_SUPPORT_LOAD_H
#define COFFER_TESTS_SUPPORT_LOAD_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers that follow from a seed. */
typedef struct dice {
    uint64_t state;
} dice;
uint64_t dice_roll(dice *of);                  /* of 64 bits */
uint64_t dice_below(dice *of, uint64_t limit); /* 0 to limit - 1 */

/* Saves a model of `tensors` tensors, of at most about `largest` bytes each, as "model.safetensors" or as several
   files of at most `limit` bytes, with digests or without, and opens it. */
coffer *random_model(dice *of, size_t tensors, uint64_t largest, uint64_t limit, coffer_algorithm digests,
                     const coffer_open_options *options);

/* An algorithm that is there; none where no library for one is. */
coffer_algorithm some_algorithm(void);

/* What an item of a random plan is to be. */
typedef struct wish {
    const coffer_tensor *tensor;
    uint64_t size;         /* of the result */
    uint8_t *dense;        /* the result, row-major */
    coffer_device *device; /* NULL: host memory */
    uint8_t *place;        /* where it is to go; NULL: the load's own memory */
    uint64_t on_device;    /* the same on a device; 0: the load's own memory */
    uint64_t capacity;     /* bytes of the place, which are filled with 0xAA around the result */
    int64_t *strides;      /* NULL: dense */
    uint64_t *shape;
    size_t rank;
    uint64_t item_size;
} wish;

/* Adds a random item to the plan, for host memory or a device. */
wish random_wish(dice *of, coffer_plan *plan, const coffer *model);
wish random_wish_on(dice *of, coffer_plan *plan, const coffer *model, coffer_device *device);
/* Whether what was loaded is what was wished for, and nothing beside it was touched. */
void wish_assert_fulfilled(const wish *of, uint64_t address);
void wish_free(wish *of);

#endif
