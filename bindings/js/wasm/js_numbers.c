/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of tensors, which come in chunks: one walk over one or two of them at a time. */
#include "js_numbers.h"
#include "js.h"

js_numbers js_found;

static coffer_distribution distribution;

JS_EXPORT(coffer_js_numbers) js_numbers *coffer_js_numbers(void)
{
    return &js_found;
}

/* Begins a walk over elements of a dtype: statistics, and how they are distributed. */
JS_EXPORT(coffer_js_numbers_new) coffer_status coffer_js_numbers_new(unsigned dtype)
{
    const size_t slots = coffer_distribution_slots((coffer_dtype)dtype);
    js_found = (js_numbers){ .range_count = 0 };
    distribution =
        (coffer_distribution){ .dtype = (coffer_dtype)dtype, .counts = js_capacity(slots, sizeof(uint64_t)) };
    return distribution.counts == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
}

JS_EXPORT(coffer_js_numbers_add) coffer_status coffer_js_numbers_add(const void *data, size_t count)
{
    const coffer_status status = coffer_distribution_add(&distribution, data, count);
    const bool counted = coffer_dtype_bits(distribution.dtype) <= 16; /* then the counts tell all else */
    return status != COFFER_OK || counted
               ? status
               : coffer_statistics_add(&js_found.statistics, distribution.dtype, data, count);
}

static size_t count_ranges(void)
{
    coffer_range range;
    size_t position = 0;
    size_t count = 0;
    while (coffer_distribution_next(&distribution, &position, &range)) {
        count++;
    }
    return count;
}

/* What was found, in js_found. */
JS_EXPORT(coffer_js_numbers_finish) coffer_status coffer_js_numbers_finish(void)
{
    const size_t count = count_ranges();
    double *columns = js_capacity(3 * count, sizeof *columns);
    coffer_range range;
    size_t position = 0;
    if (columns == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; coffer_distribution_next(&distribution, &position, &range); i++) {
        columns[i] = range.low;
        columns[count + i] = range.high;
        columns[2 * count + i] = (double)range.count;
    }
    if (coffer_dtype_bits(distribution.dtype) <= 16) {
        (void)coffer_distribution_statistics(&distribution, &js_found.statistics);
    }
    js_found.deviation = coffer_statistics_deviation(&js_found.statistics);
    js_found.range_count = (uint32_t)count;
    js_found.ranges = (uint32_t)(size_t)columns;
    return COFFER_OK;
}

/* Adds how far two chunks of one dtype are apart, to js_found; a walk begins with coffer_js_compare_new. */
JS_EXPORT(coffer_js_compare_new) void coffer_js_compare_new(void)
{
    js_found = (js_numbers){ .range_count = 0 };
}

JS_EXPORT(coffer_js_compare_add)
coffer_status coffer_js_compare_add(unsigned dtype, const void *a, const void *b, size_t count)
{
    return coffer_comparison_add(&js_found.comparison, (coffer_dtype)dtype, a, (coffer_dtype)dtype, b, count);
}
