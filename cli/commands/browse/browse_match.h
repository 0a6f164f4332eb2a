/* SPDX-License-Identifier: Apache-2.0 */
/* What a search or a filter finds: a part of the text, whatever its case, unless the words have a capital letter. */
#ifndef COFFER_BROWSE_MATCH_H
#define COFFER_BROWSE_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the text has the words; `at` (when not NULL) becomes where. No words are found in no text. */
bool browse_finds(const char *text, size_t text_len, const char *words, size_t words_len, size_t *at);
/* Whether a filter lets a name through: a pattern (see coffer_match) when it has `*`, `?` or `[`, else as above. An empty
   filter lets everything through. `filter` ends in a NUL. */
bool browse_lets_through(const char *filter, size_t filter_len, const char *name, size_t name_len);

#endif
