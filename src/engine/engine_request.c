/* SPDX-License-Identifier: Apache-2.0 */
/* What engines do with requests alike: lists of them, and rounding to whole blocks. */
#include "engine_own.h"

/* A list by pointers in the requests themselves, so that nothing has to be allocated and nothing can fail. A request
   is in at most one list. */
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

/* `last` is left as it is when the list becomes empty: push looks at `first` before. */
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

/* Blocks are powers of two of at most COFFER__BLOCK_MAX. The range lies within the file, whose end is below 2^63, so
   that rounding cannot overflow the offset; the size may, where size_t is small. One division serves offset and
   address: the bytes before the range are as many in both, or the two do not agree and nothing can be done. */
bool coffer__request_round(const coffer__request *request, coffer__rounded *rounded)
{
    const uint32_t block = request->file_reader->block;
    const uint64_t offset = request->file_reader->base + request->offset;
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

/* Bytes of rounding count as read, since the disk has moved them, but not as done. What comes after the range is cut
   off, so that `done` never exceeds the size. */
bool coffer__request_add(coffer__request *request, const coffer__rounded *rounded, uint64_t size)
{
    request->got += size;
    request->read += size;
    const uint64_t own = request->got > rounded->before ? request->got - rounded->before : 0;
    request->done = own < request->size ? (size_t)own : request->size;
    return request->done == request->size;
}

/* The part is rounded inwards, where a request is rounded outwards: the memory around it belongs to other tensors. */
void coffer__file_reader_within(const coffer__file_reader *file_reader, const void *to, uint64_t *offset,
                                uint64_t *size)
{
    const uint64_t place = file_reader->base + *offset;
    const uint64_t skip = (file_reader->block - place % file_reader->block) % file_reader->block;
    if ((uintptr_t)to % file_reader->block != place % file_reader->block || *size <= skip) {
        *size = 0;
        return;
    }
    *offset += skip;
    *size = (*size - skip) / file_reader->block * file_reader->block;
}

coffer_engine coffer__file_reader_engine(const coffer__file_reader *file_reader)
{
    return file_reader->engine->id;
}
