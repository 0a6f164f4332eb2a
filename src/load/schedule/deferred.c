/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

/* 8 GiB, if the chunks are whole cells: enough to find the end of a long stretch, and little to remember. */
#define DEFERRED_MAX 4096u

bool coffer__deferred_is_full(const coffer__deferred *deferred)
{
    return deferred->count == DEFERRED_MAX;
}

bool coffer__deferred_put(coffer__deferred *deferred, coffer__residency kind, coffer__chunk *chunk)
{
    if (coffer__deferred_is_full(deferred)) {
        return false;
    }
    chunk->link = NULL;
    *(deferred->first[kind] == NULL ? &deferred->first[kind] : &deferred->last[kind]->link) = chunk;
    deferred->last[kind] = chunk;
    deferred->count++;
    return true;
}

/* `last` is left as it is when the list becomes empty: put looks at `first` before. */
coffer__chunk *coffer__deferred_take(coffer__deferred *deferred, coffer__residency kind)
{
    coffer__chunk *chunk = deferred->first[kind];
    if (chunk != NULL) {
        deferred->first[kind] = chunk->link;
        deferred->count--;
    }
    return chunk;
}
