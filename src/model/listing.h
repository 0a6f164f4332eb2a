/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Hub says of a repository: which commit a revision is, and which files it has. It takes
 * one request. Nothing depends on the answer, as mirrors may not have it: without one, names are
 * guessed.
 */
#ifndef COFFER_MODEL_LISTING_H
#define COFFER_MODEL_LISTING_H

#include "coffer.h"
#include "web.h"

/* All zero when nothing is known. Paths are relative to the repository, with slashes, in the Hub's
   order. They are untrusted text, and are only compared with names of ours. */
typedef struct coffer__listing {
    bool known;
    char commit[COFFER__HUB_MAX_REVISION];
    char *names; /* each with its NUL */
    size_t size;
    size_t capacity;
} coffer__listing;

/* Asks for the revision that `name` has. `listing` is zero before, and stays zero unless the answer
   was understood; coffer__listing_free follows in any case. It is one question with its retries,
   under the client's watch. In offline mode nothing is asked. */
void coffer__listing_ask(coffer__listing *listing, coffer__web *web, const coffer__hub_name *name,
                         const coffer_allocator *allocator);
/* Whether the repository has a file in that folder: "", or a path that ends in a slash. */
bool coffer__listing_has(const coffer__listing *listing, const char *folder, size_t folder_len, const char *file);
void coffer__listing_free(coffer__listing *listing, const coffer_allocator *allocator);

#endif
