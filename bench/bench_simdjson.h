/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simdjson On-Demand as a yardstick, behind a C face: it takes name, dtype, shape and data_offsets of every tensor out of a
 * header, and checks nothing but the JSON that it meets on the way. No duplicates, no sizes, no coverage, no index.
 */
#ifndef COFFER_BENCH_SIMDJSON_H
#define COFFER_BENCH_SIMDJSON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_simdjson bench_simdjson;

/* Bytes that must be readable after the text. */
size_t bench_simdjson_padding(void);
/* A parser that keeps its memory from one call to the next, as its manual advises. */
bench_simdjson *bench_simdjson_new(void);
void bench_simdjson_free(bench_simdjson *parser);
/* Number of tensors in the header of `size` bytes at `text`; 0 when it failed. */
size_t bench_simdjson_extract(bench_simdjson *parser, const char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
