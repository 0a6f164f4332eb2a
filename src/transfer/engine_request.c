/* SPDX-License-Identifier: Apache-2.0 */
/* What engines do with requests alike: lists of them, and rounding to whole blocks. */
#include "engine_own.h"

void coffer__requests_push(coffer__requests *requests, coffer__request *request)
{
    request->next = NULL;
    if (requests->first == NULL) {
        requests->first = request;
    } else {
        requests->last->next = request;
    }
    requests->last = request;
}

coffer__request *coffer__requests_pop(coffer__requests *requests)
{
    coffer__request *request = requests->first;
    if (request != NULL) {
        requests->first = request->next;
        request->next = NULL;
    }
    return request;
}

/* ---- whole blocks ------------------------------------------------------------------------------------------------ */

/* Blocks are powers of two of at most COFFER__BLOCK_MOST. The range lies within the file, whose end is below 2^63, so
   that rounding cannot overflow the offset; the size may, where size_t is small. */
bool coffer__request_round(const coffer__request *request, coffer__rounded *rounded)
{
    const uint32_t block = request->inlet->block;
    const uint64_t offset = request->inlet->base + request->offset;
    const size_t before = (size_t)(offset % block);
    if ((uintptr_t)request->to % block != before || request->size > SIZE_MAX - 2 * (size_t)block) {
        return false;
    }
    const size_t size = before + request->size;
    *rounded = (coffer__rounded){ .offset = offset - before,
                                  .size = (size + block - 1) / block * block,
                                  .before = before,
                                  .to = request->to - before };
    return true;
}

bool coffer__request_add(coffer__request *request, const coffer__rounded *rounded, uint64_t size)
{
    request->got += size;
    request->read += size;
    const uint64_t own = request->got > rounded->before ? request->got - rounded->before : 0;
    request->done = own < request->size ? (size_t)own : request->size;
    return request->done == request->size;
}

void coffer__inlet_within(const coffer__inlet *inlet, const void *to, uint64_t *offset, uint64_t *size)
{
    const uint64_t place = inlet->base + *offset;
    const uint64_t skip = (inlet->block - place % inlet->block) % inlet->block;
    if ((uintptr_t)to % inlet->block != place % inlet->block || *size <= skip) {
        *size = 0;
        return;
    }
    *offset += skip;
    *size = (*size - skip) / inlet->block * inlet->block;
}

coffer_engine coffer__inlet_engine(const coffer__inlet *inlet)
{
    return inlet->engine->id;
}

const char *coffer__inlet_engine_name(const coffer__inlet *inlet)
{
    return inlet->engine->name;
}
