/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 in its one canonical form (RFC 4648, section 4): padded, without line breaks, and with no bits behind the last byte. */
#ifndef COFFER_HASH_BASE64_H
#define COFFER_HASH_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters that `size` bytes become. */
size_t coffer__base64_len(size_t size);
/* Writes them, without a NUL. */
void coffer__base64_write(char *text, const uint8_t *bytes, size_t size);
/* Reads them back into memory of at least text_len / 4 * 3 bytes; false for text that coffer__base64_write cannot have made. */
bool coffer__base64_read(uint8_t *bytes, size_t *size, const char *text, size_t text_len);

#endif
