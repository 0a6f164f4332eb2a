/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers. A request waits in a list until the thread has time for it, unless its engine is asynchronous and takes it at
 * once:
 *
 *     submit ──► waiting ──► read by this thread ──────────┐
 *        └─────► with the system ──► ready ────────────────┴──► what is missing by coffer__source_read ──► reaped
 *
 * What the system has finished comes first, then what waits for this thread, so that the system always has something to do
 * while this thread is busy.
 */
#include "engine_own.h"

#include "alloc.h"
#include "error.h"

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

/* ---- readers ----------------------------------------------------------------------------------------------------- */

coffer_engine coffer__inlet_engine(const coffer__inlet *inlet)
{
    return inlet->engine->id;
}

const char *coffer__inlet_engine_name(const coffer__inlet *inlet)
{
    return inlet->engine->name;
}

coffer_status coffer__reader_new(coffer__reader **reader, const coffer__reader_options *options, coffer_error *err)
{
    *reader = coffer__alloc_zeroed(options->allocator, sizeof **reader);
    if (*reader == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of files");
    }
    (*reader)->allocator = *options->allocator;
    (*reader)->options = *options;
    (*reader)->own = -1;
    return COFFER_OK;
}

void coffer__reader_free(coffer__reader *reader)
{
    if (reader == NULL) {
        return;
    }
    coffer__ring_end(reader);
    coffer__reader_forget_own(reader);
    const coffer_allocator allocator = reader->allocator;
    coffer__free(&allocator, reader, sizeof *reader);
}

/* An asynchronous engine that has as much as it can take leaves the request waiting; it is tried again when one of the
   others has come back. */
void coffer__reader_submit(coffer__reader *reader, coffer__request *request)
{
    const coffer__engine *engine = request->inlet->engine;
    request->read = 0;
    request->cached = 0;
    request->direct = 0;
    request->got = 0;
    request->done = 0;
    request->tries = 0;
    reader->under_way++;
    if (engine->start == NULL || !engine->start(reader, request)) {
        coffer__requests_push(&reader->waiting, request);
    }
}

bool coffer__reader_wants(const coffer__reader *reader, const coffer__inlet *inlet)
{
    if (reader->under_way == 0) {
        return true;
    }
    const uint32_t depth = reader->tune.depth != 0 ? reader->tune.depth : inlet->depth;
    return inlet->engine->start != NULL && !reader->ring.refused && reader->under_way < depth &&
           reader->under_way < reader->options.depth;
}

/* The next request whose bytes are there, as far as its engine could bring them. */
static coffer__request *engine_next(coffer__reader *reader, bool wait)
{
    coffer__ring_collect(reader, wait && reader->waiting.first == NULL && reader->ready.first == NULL);
    coffer__request *request = coffer__requests_pop(&reader->ready);
    if (request != NULL || !wait) {
        return request;
    }
    request = coffer__requests_pop(&reader->waiting);
    if (request != NULL && request->inlet->engine->read != NULL) {
        request->inlet->engine->read(reader, request);
    }
    return request;
}

/* Reads what the engine did not bring. */
static coffer_status engine_finish(const coffer__reader *reader, coffer__request *request, coffer_error *err)
{
    const size_t missing = request->size - request->done;
    if (missing == 0) {
        return COFFER_OK;
    }
    request->read += missing;
    return coffer__source_read_watched(request->inlet->source, request->offset + request->done,
                                       request->to + request->done, missing, reader->options.watch, err);
}

coffer_status coffer__reader_reap(coffer__reader *reader, bool wait, coffer__request **done, coffer_error *err)
{
    coffer__request *request = engine_next(reader, wait);
    *done = request;
    if (request == NULL) {
        return COFFER_OK;
    }
    reader->under_way--;
    return engine_finish(reader, request, err);
}
