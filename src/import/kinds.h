/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are recognised and not read: what they are, and what would convert them. */
#ifndef COFFER_IMPORT_KINDS_H
#define COFFER_IMPORT_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A sentence about a file, from its first bytes, its last ones and its path; NULL: it is none of these. Static. */
const char *coffer__kind_of(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                            const char *path, size_t path_len);

/* Whether a head is that of a safetensors file: the size of a header, and JSON. Sizes read as PROTO ("\x80\4"), as a script
   ("#!"), or as JSON themselves. */
bool coffer__kind_is_tensors(const uint8_t *head, size_t head_size);

#endif
