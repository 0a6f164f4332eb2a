/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that reads files through the page cache. The file reader has a descriptor of its own, without read-ahead: what
 * comes next is planned, and pages that nobody asked for would cost the disk's time. File systems in user space answer
 * one request of a descriptor at a time, so there each reader opens its own.
 */
#include "engine_own.h"

void coffer__range_reader_forget_own(coffer__range_reader *reader)
{
    if (reader->own >= 0) {
        (void)coffer__os_close(reader->own);
    }
    reader->own = -1;
}

/* The descriptor is opened again when the reader goes on to another file. As long as it is open no other file can get
   the same numbers. Where opening fails, the shared one serves. A lack of descriptors may pass, so that after a
   failure it is tried again with the next request. */
static int buffered_descriptor(coffer__range_reader *reader, const coffer__file_reader *file_reader)
{
    if (!file_reader->unshared) {
        return file_reader->buffered;
    }
    if (reader->own < 0 || reader->device != file_reader->device || reader->inode != file_reader->inode) {
        coffer__range_reader_forget_own(reader);
        if (coffer__os_open_again(file_reader->buffered, &reader->own) != 0) {
            reader->own = -1;
        }
        reader->device = file_reader->device;
        reader->inode = file_reader->inode;
    }
    return reader->own >= 0 ? reader->own : file_reader->buffered;
}

/* What can be had without waiting comes first, since that is how it is known to have been in the page cache. Errors
   are not looked at: what is missing at the end is read by coffer__source_read, which meets the same error and has
   the words for it. */
static void buffered_read(coffer__range_reader *reader, coffer__request *request)
{
    const coffer__file_reader *file_reader = request->file_reader;
    const int fd = buffered_descriptor(reader, file_reader);
    const uint64_t offset = file_reader->base + request->offset;
    size_t present = 0;
    size_t rest = 0;
    if (file_reader->mixed) {
        (void)coffer__os_read_present(fd, offset, request->to, request->size, &present);
    }
    if (present < request->size && file_reader->leave) {
        (void)coffer__os_read_uncached(fd, offset + present, request->to + present, request->size - present, &rest);
    } else if (present < request->size) {
        (void)coffer__os_read_at(fd, offset + present, request->to + present, request->size - present, &rest);
    }
    request->done = present + rest;
    request->cached = file_reader->resident ? request->done : present;
    request->read = request->done;
}

const coffer__read_engine coffer__engine_buffered = { .id = COFFER_ENGINE_BUFFERED,
                                                      .name = "buffered",
                                                      .read = buffered_read };
