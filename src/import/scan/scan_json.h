/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders would run of JSON: see coffer__scan_text. */
#ifndef COFFER_SCAN_SCAN_JSON_H
#define COFFER_SCAN_SCAN_JSON_H

#include "reader.h"

/* Whether bytes begin as an object of JSON, in any encoding that Python's json finds out by itself. */
bool coffer__scan_is_json(const uint8_t *head, size_t size);
/* Puts the findings of a text that begins so. */
coffer_status coffer__scan_json(const coffer__reader_file *file, const char *member, uint64_t at, const uint8_t *text,
                                size_t size, coffer_error *err);

#endif
