/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 in its one canonical form (RFC 4648, section 4): padded, without line breaks, and with
 * zeros in the bits that belong to no byte. One text for each sequence of bytes: a signed text
 * cannot be changed without changing what it stands for.
 */
#ifndef COFFER_CORE_BASE64_H
#define COFFER_CORE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many characters `size` bytes become: four for every three bytes begun. */
size_t coffer__base64_len(size_t size);
/* Writes them, without a NUL; `text` has space for coffer__base64_len(size) characters. */
void coffer__base64_write(char *text, const uint8_t *bytes, size_t size);
/* Reads them back into memory of at least text_len / 4 * 3 bytes; *size is how many there are.
   False for text that coffer__base64_write cannot have made; then *bytes may have been written to.
   */
bool coffer__base64_read(uint8_t *bytes, size_t *size, const char *text, size_t text_len);

#endif
