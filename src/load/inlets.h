/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inlets of a load: for each file of the model, which engine reads it. An inlet is opened when the first chunk of
 * its file is read, or before to see whether that works, and those of files that nobody reads just now are closed when
 * there are many. Any number of threads may use them at once.
 */
#ifndef COFFER_LOAD_INLETS_H
#define COFFER_LOAD_INLETS_H

#include "ahead.h"
#include "engine.h"
#include "feed.h"
#include "load_plan.h"

#define COFFER__INLET_PROBES 64u

typedef struct coffer__inlets_options {
    const coffer_allocator *allocator; /* any number of threads may use it at once */
    coffer_engine engine;
    bool uncached;
    bool group;                      /* several processes load together, as far as they can */
    const struct coffer__kept *kept; /* what a keeper has of the model, until the inlets are freed; NULL: nothing */
} coffer__inlets_options;

coffer_status coffer__inlets_new(coffer__inlets **inlets, const coffer_plan *plan,
                                 const coffer__inlets_options *options, coffer_error *err);
/* Other processes read the same bytes by themselves, and should find them in the page cache: inlets are opened so from now
   on. */
void coffer__inlets_share(coffer__inlets *inlets);
/* When nobody uses one. NULL is allowed. */
void coffer__inlets_free(coffer__inlets *inlets);
/* The inlet of a file, until coffer__inlets_leave. COFFER_ERR_ENGINE, with the file's path. */
coffer_status coffer__inlets_use(coffer__inlets *inlets, size_t shard, const coffer__inlet **inlet, coffer_error *err);
void coffer__inlets_leave(coffer__inlets *inlets, size_t shard);
/* Whether a keeper has the file: it is read from there. */
bool coffer__inlets_kept(const coffer__inlets *inlets, size_t shard);
/* Where the bytes of a chunk are; COFFER__ANYWHERE where its file is not partly in the page cache, or not open. */
coffer__whereabouts coffer__inlets_whereabouts(coffer__inlets *inlets, const coffer__chunk *chunk);
/* Whether a file is read to memory of a device by cuFile, and doing that: bytes of a file, of which the inlet is in
   use. */
bool coffer__inlets_reach(const coffer__inlets *inlets, size_t shard, const coffer_device *device);
coffer_status coffer__inlets_read_to(coffer__inlets *inlets, size_t shard, coffer_device *device,
                                     coffer__file_span bytes, uint64_t address, coffer_error *err);
/* Opens the inlets of all files of which something is wanted, to see whether the engine that was asked for serves; with
   COFFER_ENGINE_AUTO one of them. *threads becomes how many workers they want. */
coffer_status coffer__inlets_try(coffer__inlets *inlets, uint32_t *threads, coffer_error *err);

#endif
