/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of averages (coffer/merge.h):
 *
 *   average        the plan: models that agree, weights for each tensor, and the numbers
 *   average_scan   what needs a look at all bytes before the first one is written: tensors that have to be equal, and
 *                  angles between tensors
 *   average_angle  coefficients on a sphere
 *
 * Every way of averaging comes to coefficients, one for each model, by which a tensor's elements are multiplied.
 */
#ifndef COFFER_MERGE_AVERAGE_H
#define COFFER_MERGE_AVERAGE_H

#include "coffer.h"
#include "compatible.h"

typedef struct coffer__average {
    coffer_allocator allocator;
    const coffer **models;
    size_t model_count;
    size_t tensor_count;           /* of each model */
    const coffer_tensor **tensors; /* of model m, the one like tensor i of the first: m * tensor_count + i */
    double *coefficients;          /* of tensor i: i * model_count and on; with slerp, t until the scan is done */
    bool slerp;
} coffer__average;

static inline const coffer_tensor *coffer__average_tensor(const coffer__average *average, size_t model, size_t tensor)
{
    return average->tensors[model * average->tensor_count + tensor];
}

/* Whether the numbers are averaged; else the bytes have to be the same. */
static inline bool coffer__average_computes(const coffer__average *average, size_t tensor)
{
    return coffer__compatible_numbers(coffer__average_tensor(average, 0, tensor));
}

/* Compares what has to be equal, and with slerp finds the coefficients. */
coffer_status coffer__average_scan(coffer__average *average, const coffer_read_options *options, coffer_error *err);

/* Sums over two tensors: a·b, a·a and b·b. */
typedef struct coffer__average_sums {
    double both;
    double first;
    double second;
} coffer__average_sums;

/* The two coefficients at `t` between two vectors, by the formula of coffer/merge.h. */
void coffer__average_angle(const coffer__average_sums *sums, double t, double coefficients[2]);

#endif
