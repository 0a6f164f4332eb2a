/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes → bytes: runs of sources go to places of a sink, in the order of the sink's bytes, so that a pipe is served too. A
 * long run is copied by the system where it can be, and its bytes never come into the process. What is short, and what the
 * system cannot copy, is read by the transfer into one buffer, as many runs at a time as follow each other in the sink, and
 * written from there at once: tens of thousands of small tensors are few writes. Memory: at most 16 MiB, and that only when
 * something has to be read.
 */
#ifndef COFFER_TRANSFER_MOVE_H
#define COFFER_TRANSFER_MOVE_H

#include "coffer.h"
#include "sink.h"
#include "source.h"
#include "transfer.h"

typedef struct coffer__move {
    const coffer__source *source;
    uint64_t from; /* in the source */
    uint64_t to;   /* in the sink */
    uint64_t size;
} coffer__move;

/* Carries out `count` moves, whose places in the sink ascend and do not overlap. The options are those of a transfer; `failed`
   is set when it was the reading that failed. After a failure the sink can only be discarded. */
coffer_status coffer__move_all(coffer__sink *sink, const coffer__move *moves, size_t count,
                               const coffer__transfer_options *options, coffer_error *err);

#endif
