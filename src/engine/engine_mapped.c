/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that reads by mapping: the results of a load are parts of a private map of the file, and a request makes
 * its pages resident. Nothing is copied, and pages are shared with the page cache until somebody writes to them.
 *
 * Of a file that is warm, what is in the page cache is left as it is: the fault of whoever touches it first enters many
 * pages at once and costs less than entering each of them here. Else every page is entered, also those that the system has
 * read ahead: it goes on reading ahead only when they are touched.
 */
#include "engine_own.h"

/* Of a small load the file was not opened again, and the source's own descriptor answers. */
static bool mapped_is_cached(const coffer__file_reader *file_reader, const coffer__request *request)
{
    const coffer__byte_source *source = file_reader->source;
    uint64_t base = file_reader->base;
    int fd = file_reader->buffered;
    if (fd >= 0) {
        return coffer__os_map_is_cached(fd, base + request->offset, request->to, request->size);
    }
    if (source->ops->borrow(source, &fd, &base, NULL) != COFFER_OK) {
        return false;
    }
    const bool cached = coffer__os_map_is_cached(fd, base + request->offset, request->to, request->size);
    source->ops->give_back(source);
    return cached;
}

/* What cannot be made resident, as the file ends before it or cannot be read, is left to coffer__source_read: it has the
   words for the failure, and where it succeeds the pages become copies of the process. Requests to other memory are for
   results that cannot be views. */
static void mapped_read(coffer__range_reader *reader, coffer__request *request)
{
    const coffer__file_reader *file_reader = request->file_reader;
    if (!request->in_map && file_reader->buffered >= 0) {
        coffer__engine_buffered.read(reader, request);
    }
    if (!request->in_map) {
        return;
    }
    const bool cached = file_reader->warm && mapped_is_cached(file_reader, request);
    if (!cached && coffer__os_map_populate(request->to, request->size) != 0) {
        return;
    }
    request->done = request->size;
    request->read = request->size;
    request->cached = cached ? request->size : 0;
}

const coffer__read_engine coffer__engine_mapped = { .id = COFFER_ENGINE_MAPPED, .name = "mapped", .read = mapped_read };
