/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a raw deflate stream (RFC 1951), as a browser's DecompressionStream("deflate-raw") reads it. Headers are text that
 * repeats itself, and become about a twelfth. The command has a writer of its own, since it makes reports where no library
 * that compresses can be opened.
 */
#ifndef COFFER_REPORT_DEFLATE_H
#define COFFER_REPORT_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False without memory. *stream is to be freed. Memory besides: 1 MiB. */
bool report_deflate(const uint8_t *bytes, size_t size, uint8_t **stream, size_t *stream_size);

#endif
