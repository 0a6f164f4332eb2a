/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that reads files past the page cache: no copy by the processor, and nothing that others use is displaced.
 * Of a file that is partly in the cache, the beginning of each request is taken from there as far as it goes, and the
 * rest comes from the disk: what is cached arrives in stretches far longer than a request.
 */
#include "engine_own.h"

/* Direct reading continues at a block only, so that the last cached block counts only if it is whole. */
bool coffer__request_take_cached(coffer__request *request, const coffer__rounded *rounded)
{
    size_t got = 0;
    if (!request->inlet->mixed ||
        coffer__os_read_cached(request->inlet->buffered, rounded->offset, rounded->to, rounded->size, &got) != 0) {
        return false;
    }
    if (got < rounded->before + request->size) {
        got -= got % request->inlet->block;
    }
    request->cached = got;
    return coffer__request_add(request, rounded, got);
}

/* What is left after a failure, or after the file's end, is read by others; see engine.h. */
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
    (void)coffer__os_read_enough(request->inlet->direct, rounded.offset + at, rounded.to + at, rounded.size - at,
                                 enough, &got);
    request->direct += got;
    (void)coffer__request_add(request, &rounded, got);
}

const coffer__engine coffer__engine_direct = { .id = COFFER_ENGINE_DIRECT,
                                               .name = "direct",
                                               .read = coffer__engine_read_direct };
