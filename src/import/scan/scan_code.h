/* SPDX-License-Identifier: Apache-2.0 */
/* Code that is no pickle: programs, sources, and what text names or holds. */
#ifndef COFFER_SCAN_SCAN_CODE_H
#define COFFER_SCAN_SCAN_CODE_H

#include "reader.h"

/* Bytes of a beginning that tell what is told here. */
#define COFFER__SCAN_HEAD ((size_t)512)

/* A finding about a file or a member that is a program or a source, by its first bytes and its name; the sentence takes the
   name as %q. NULL: it is none. Static. */
const char *coffer__scan_code_of(const uint8_t *head, size_t size, const char *name, size_t name_len,
                                 coffer_weight *weight);
/* How a file is compressed, by its first bytes: "gzip"; NULL: not in a way that is known. Static. */
const char *coffer__scan_packing_of(const uint8_t *head, size_t size);
/* Whether a file or a member is text that may name code, or hold some: an object of JSON by its bytes, YAML by its name. */
bool coffer__scan_is_telling(const uint8_t *head, size_t size, const char *name, size_t name_len);
/*
 * What loaders would run of such text, which lies at `at`: findings.
 *
 * JSON   pickles that are written as text (":serialized:"), as stable-baselines3 keeps them; what a configuration of Keras
 *        names; code that "auto_map" names
 * YAML   objects of Python that tags name; what "_target_" or "target" names, as hydra and NeMo call it, but for classes of
 *        a few packages
 */
coffer_status coffer__scan_text(const coffer__reader_file *file, const char *member, uint64_t at, const char *name,
                                size_t name_len, const uint8_t *text, size_t size, coffer_error *err);

#endif
