/* SPDX-License-Identifier: Apache-2.0 */
/* What was found out about numbers. The layout is repeated in src/numbers.ts. */
#ifndef COFFER_JS_NUMBERS_H
#define COFFER_JS_NUMBERS_H

#include "coffer.h"

typedef struct js_numbers {
    coffer_statistics statistics;
    double deviation;
    uint32_t range_count;
    uint32_t ranges; /* f64: the low ends of all ranges, then the high ends, then the counts */
    coffer_comparison comparison;
} js_numbers;

_Static_assert(offsetof(js_numbers, deviation) == 104, "the layout is JavaScript's, too");
_Static_assert(offsetof(js_numbers, comparison) == 120, "the layout is JavaScript's, too");

extern js_numbers js_found;

#endif
