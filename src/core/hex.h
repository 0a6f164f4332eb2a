/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal digits, two for each. */
#ifndef COFFER_CORE_HEX_H
#define COFFER_CORE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes 2 * size lower-case digits, without a NUL. */
void coffer__hex_write(char *text, const uint8_t *bytes, size_t size);
/* Reads exactly 2 * size digits of either case; false for anything else. */
bool coffer__hex_read(uint8_t *bytes, size_t size, const char *hex, size_t hex_len);

#endif
