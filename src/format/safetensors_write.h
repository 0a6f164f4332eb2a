/* SPDX-License-Identifier: Apache-2.0 */
/* How safetensors is written, for its row in the table of formats: format.h says what each function does. */
#ifndef COFFER_FORMAT_SAFETENSORS_WRITE_H
#define COFFER_FORMAT_SAFETENSORS_WRITE_H

#include "declared.h"
#include "format.h"

void coffer__safetensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order);
void coffer__safetensors_put_metadata(coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present);
void coffer__safetensors_splice(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count);
size_t coffer__safetensors_name_size(const uint8_t *header, size_t at);
void coffer__safetensors_put_name(coffer__header_text *text, const char *name, size_t name_len);

#endif
