/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output target that is a sink: bytes are assembled in memory and written from there, or copied by the
 * system. write_at has stored the bytes when it returns, so the memory can be reused at once and place
 * has nothing to wait for.
 */
#include "output_target.h"

static coffer_status output_target_sink_landed(coffer__output_target *output_target, uint64_t at, const uint8_t *bytes,
                                               size_t size, coffer_error *err)
{
    return output_target->sink->ops->write_at(output_target->sink, at, bytes, size, err);
}

static int output_target_sink_copy(coffer__output_target *output_target, uint64_t at, int from, uint64_t from_offset,
                                   uint64_t size, uint64_t *done)
{
    return output_target->sink->ops->copy_at(output_target->sink, at, from, from_offset, size, done);
}

/* There are two tables because coffer__land decides by `copy` being NULL, without knowing of sinks. */
coffer__output_target coffer__output_target_sink(coffer__byte_sink *sink, const coffer_allocator *allocator)
{
    static const coffer__output_target_ops copying = { coffer__output_target_memory, output_target_sink_landed,
                                                       output_target_sink_copy };
    static const coffer__output_target_ops writing = { coffer__output_target_memory, output_target_sink_landed, NULL };
    return (coffer__output_target){
        .ops = sink->ops->copy_at != NULL ? &copying : &writing,
        .in_order = sink->in_order,
        /* A file takes writes from any thread. The caller's functions are promised its own threads, and they cannot
           copy. */
        .shared = !sink->in_order && sink->ops->copy_at != NULL,
        .allocator = allocator,
        .sink = sink,
    };
}

coffer_status coffer__land_in_sink(coffer__byte_sink *sink, const coffer__transfer_op *ops, size_t count,
                                   const coffer__transfer_options *options, coffer_error *err)
{
    coffer__output_target output_target = coffer__output_target_sink(sink, options->allocator);
    const coffer_status status = coffer__land(&output_target, ops, count, options, err);
    coffer__output_target_free(&output_target);
    return status;
}
