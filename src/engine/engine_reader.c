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

/* Nothing of the system is opened here. The ring belongs to the thread that uses it and is opened with its first
   request, and most readers of small models need none. */
coffer_status coffer__range_reader_new(coffer__range_reader **reader, const coffer__range_reader_options *options,
                                       coffer_error *err)
{
    *reader = coffer__alloc_zeroed(options->allocator, sizeof **reader);
    if (*reader == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of files");
    }
    (*reader)->allocator = *options->allocator;
    (*reader)->options = *options;
    (*reader)->own = -1;
    coffer__pace_begin(&(*reader)->pace[false], false);
    coffer__pace_begin(&(*reader)->pace[true], true);
    return COFFER_OK;
}

/* The system may still be writing into memory that the caller frees next, so the ring is waited for first. */
void coffer__range_reader_free(coffer__range_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    coffer__ring_close(reader);
    coffer__range_reader_forget_own(reader);
    const coffer_allocator allocator = reader->allocator;
    coffer__free(&allocator, reader, sizeof *reader);
}

/* What an asynchronous engine refuses, as it has no place for it or its address does not fit, this thread reads itself
   when it is reaped. Whoever asks coffer__range_reader_wants first has no request refused for want of a place. All that a read counts is cleared here, since requests are used again and again. */
void coffer__range_reader_submit(coffer__range_reader *reader, coffer__request *request)
{
    const coffer__read_engine *engine = request->file_reader->engine;
    request->read = 0;
    request->cached = 0;
    request->direct = 0;
    request->got = 0;
    request->done = 0;
    request->tries = 0;
    reader->moment = reader->under_way == 0 ? coffer__os_nanoseconds() : reader->moment;
    reader->under_way++;
    if (engine->start == NULL || !engine->start(reader, request)) {
        coffer__requests_push(&reader->waiting, request);
    }
}

/* A request in the list of those that wait would gain nothing by company, as this thread reads one after the
   other. */
bool coffer__range_reader_wants(const coffer__range_reader *reader, const coffer__file_reader *file_reader)
{
    if (reader->under_way == 0) {
        return true;
    }
    const uint32_t depth = reader->tune.depth != 0 ? reader->tune.depth : file_reader->depth;
    return file_reader->engine->start != NULL && !reader->ring.refused && reader->under_way < depth &&
           reader->under_way < reader->options.depth;
}

/* ---- gaps -------------------------------------------------------------------------------------------------------- */

/* Sources that are read from one end to the other skip nothing for free, wherever they are. */
bool coffer__source_is_dear(const coffer__byte_source *source)
{
    return source->is.far || source->is.sequential;
}

uint64_t coffer__range_reader_gap(const coffer__range_reader *reader, const coffer__file_reader *file_reader)
{
    return coffer__pace_gap(&reader->pace[coffer__source_is_dear(file_reader->source)]);
}

/* Where several are in progress at once, a request has cost the time since the one before came: the sum of these is the
   time that passed. */
static void engine_count(coffer__range_reader *reader, const coffer__request *request)
{
    const uint64_t now = coffer__os_nanoseconds();
    coffer__pace_note(&reader->pace[coffer__source_is_dear(request->file_reader->source)], request->size,
                      now - reader->moment);
    reader->moment = now;
}

/* ---- reaping ----------------------------------------------------------------------------------------------------- */

/* The next request whose bytes are there, as far as its engine could bring them. The system is waited for only when
   nothing else can be done, that is when both lists are empty. Without `wait` nothing is read here, since the caller
   asked only for what is finished. */
static coffer__request *engine_next(coffer__range_reader *reader, bool wait)
{
    coffer__ring_collect(reader, wait && reader->waiting.first == NULL && reader->ready.first == NULL);
    coffer__request *request = coffer__requests_pop(&reader->ready);
    if (request != NULL || !wait) {
        return request;
    }
    request = coffer__requests_pop(&reader->waiting);
    if (request != NULL && request->file_reader->engine->read != NULL) {
        request->file_reader->engine->read(reader, request);
    }
    return request;
}

/* Reads what the engine did not bring. This is the one place that fails: the errors of engines are dropped, and
   appear here again with the source's words, or not at all if they have passed. */
static coffer_status engine_finish(const coffer__range_reader *reader, coffer__request *request, coffer_error *err)
{
    const size_t missing = request->size - request->done;
    if (missing == 0) {
        return COFFER_OK;
    }
    request->read += missing;
    return coffer__source_read_watched(request->file_reader->source, request->offset + request->done,
                                       request->to + request->done, missing, reader->options.watch, err);
}

coffer_status coffer__range_reader_reap(coffer__range_reader *reader, bool wait, coffer__request **done,
                                        coffer_error *err)
{
    coffer__request *request = engine_next(reader, wait);
    *done = request;
    if (request == NULL) {
        return COFFER_OK;
    }
    reader->under_way--;
    const coffer_status status = engine_finish(reader, request, err);
    engine_count(reader, request);
    return status;
}
