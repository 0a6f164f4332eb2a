/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

/* 8 GiB, if the chunks are whole cells: enough to find the end of a long stretch, and little to remember. */
#define AHEAD_MAX 4096u

bool coffer__ahead_is_full(const coffer__ahead *ahead)
{
    return ahead->count == AHEAD_MAX;
}

bool coffer__ahead_put(coffer__ahead *ahead, coffer__residency kind, coffer__chunk *chunk)
{
    if (coffer__ahead_is_full(ahead)) {
        return false;
    }
    chunk->link = NULL;
    *(ahead->first[kind] == NULL ? &ahead->first[kind] : &ahead->last[kind]->link) = chunk;
    ahead->last[kind] = chunk;
    ahead->count++;
    return true;
}

/* `last` is left as it is when the list becomes empty: put looks at `first` before. */
coffer__chunk *coffer__ahead_take(coffer__ahead *ahead, coffer__residency kind)
{
    coffer__chunk *chunk = ahead->first[kind];
    if (chunk != NULL) {
        ahead->first[kind] = chunk->link;
        ahead->count--;
    }
    return chunk;
}
