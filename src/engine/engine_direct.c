/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that reads files past the page cache: no copy by the processor, and nothing that others use is displaced.
 * Of a file that is partly in the cache, a request that is all there is taken from there, any other
 * comes from the disk: what is cached comes in stretches far longer than a request.
 */
#include "engine_own.h"

/*
 * What was in the page cache when the file reader was opened counts, not what is there now. Reading cached bytes can meet the mark
 * at which the system reads ahead, whatever it was advised; what that brings, if it were taken from the cache, would meet
 * the next mark, and so on to the file's end, at the rate of reading through the page cache.
 */
bool coffer__file_reader_holds(const coffer__file_reader *file_reader, uint64_t offset, uint64_t size)
{
    const uint64_t begin = file_reader->base + offset;
    for (uint64_t i = begin / file_reader->granule; i <= (begin + size - 1) / file_reader->granule; i++) {
        if (i >= COFFER__FILE_READER_HELD || (file_reader->held[i / 64] >> i % 64 & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* What is read is the request without the rounding at its end, so that bytes of the cache do not reach beyond it. If
   it comes short, only whole blocks of it count, since the rest has to begin at one. */
bool coffer__request_take_cached(coffer__request *request, const coffer__rounded *rounded)
{
    const coffer__file_reader *file_reader = request->file_reader;
    const size_t size = rounded->before + request->size;
    size_t got = 0;
    if (!file_reader->mixed || !coffer__file_reader_holds(file_reader, request->offset, request->size)) {
        return false;
    }
    (void)coffer__os_read_at(file_reader->buffered, rounded->offset, rounded->to, size, &got);
    got -= got < size ? got % file_reader->block : 0;
    request->cached = got;
    return coffer__request_add(request, rounded, got);
}

/* What is left after a failure, or after the file's end, is read by others; see engine.h. The cache is tried once,
   before the first bytes: a request that has some already came back from the ring, and goes on where that stopped. */
void coffer__engine_read_direct(coffer__range_reader *reader, coffer__request *request)
{
    coffer__rounded rounded;
    size_t got = 0;
    (void)reader;
    if (!coffer__request_round(request, &rounded) ||
        (request->got == 0 && coffer__request_take_cached(request, &rounded))) {
        return;
    }
    const size_t at = (size_t)request->got;
    const size_t enough = rounded.before + request->size - at;
    (void)coffer__os_read_enough(request->file_reader->direct, rounded.offset + at, rounded.to + at, rounded.size - at,
                                 enough, &got);
    request->direct += got;
    (void)coffer__request_add(request, &rounded, got);
}

const coffer__read_engine coffer__engine_direct = { .id = COFFER_ENGINE_DIRECT,
                                                    .name = "direct",
                                                    .read = coffer__engine_read_direct };
