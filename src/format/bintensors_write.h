/* SPDX-License-Identifier: Apache-2.0 */
/* How bintensors is written, for its row in the table of formats: format.h says what each function does. */
#ifndef COFFER_FORMAT_BINTENSORS_WRITE_H
#define COFFER_FORMAT_BINTENSORS_WRITE_H

#include "declared.h"
#include "format.h"

/* Also checks whether the format's other readers, which refuse to allocate more than `limit` bytes,
   would read the header. */
coffer_status coffer__bintensors_check(const coffer_header *header, const coffer__header_order *order, uint64_t limit,
                                       coffer_error *err);
void coffer__bintensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order);
void coffer__bintensors_put_metadata(coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present);
void coffer__bintensors_splice(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count);

/* A text with its length before it. */
void coffer__bintensors_put_string(coffer__header_text *text, const char *string, size_t length);

#endif
