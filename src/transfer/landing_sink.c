/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The landing that is a sink: bytes are assembled in memory and written from there, or copied by the
 * system. write_at has stored the bytes when it returns, so the memory can be reused at once and place
 * has nothing to wait for.
 */
#include "landing.h"

static coffer_status landing_sink_landed(coffer__landing *landing, uint64_t at, const uint8_t *bytes, size_t size,
                                         coffer_error *err)
{
    return landing->sink->ops->write_at(landing->sink, at, bytes, size, err);
}

static int landing_sink_copy(coffer__landing *landing, uint64_t at, int from, uint64_t from_offset, uint64_t size,
                             uint64_t *done)
{
    return landing->sink->ops->copy_at(landing->sink, at, from, from_offset, size, done);
}

/* There are two tables because coffer__land decides by `copy` being NULL, without knowing of sinks. */
coffer__landing coffer__landing_sink(coffer__sink *sink, const coffer_allocator *allocator)
{
    static const coffer__landing_ops copying = { coffer__landing_memory, landing_sink_landed, landing_sink_copy };
    static const coffer__landing_ops writing = { coffer__landing_memory, landing_sink_landed, NULL };
    return (coffer__landing){
        .ops = sink->ops->copy_at != NULL ? &copying : &writing,
        .in_order = sink->in_order,
        /* A file takes writes from any thread. The caller's functions are promised its own threads, and they cannot
           copy. */
        .shared = !sink->in_order && sink->ops->copy_at != NULL,
        .allocator = allocator,
        .sink = sink,
    };
}

coffer_status coffer__land_in_sink(coffer__sink *sink, const coffer__row *rows, size_t count,
                                   const coffer__transfer_options *options, coffer_error *err)
{
    coffer__landing landing = coffer__landing_sink(sink, options->allocator);
    const coffer_status status = coffer__land(&landing, rows, count, options, err);
    coffer__landing_end(&landing);
    return status;
}
