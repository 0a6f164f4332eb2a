/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ways into a writer share: its state, and the account that every write is entered in. writer.c has the
 * contract; writer_carry.c, writer_finish.c and pack_file.c use it, too.
 *
 * A write of any kind is three steps: under the mutex it is checked, entered and counted (coffer__writer_began);
 * without the mutex its bytes are written; at last coffer__writer_ended takes the mutex again.
 */
#ifndef COFFER_WRITE_WRITER_OWN_H
#define COFFER_WRITE_WRITER_OWN_H

#include "coffer.h"
#include "os.h"
#include "sink.h"
#include "spans.h"
#include "writer_digests.h"

struct coffer_writer {
    coffer_allocator allocator;
    coffer_header *header;
    const coffer_table *table; /* the header's */
    coffer__byte_sink sink;
    bool sink_open; /* neither published nor discarded */
    char *path;     /* as it was named; NULL when there is none */
    size_t path_size;
    bool packed;   /* the file is packed when it is complete; what follows is for that */
    bool replaces; /* only `old` may be replaced */
    coffer__os_info old;
    coffer_sync sync;
    coffer__mutex mutex; /* guards everything below */
    coffer__writer_digests digests;
    coffer__spans spans; /* of the file, what was written or is being written; the header is not in it */
    size_t writing;      /* writes in progress */
    bool finished;
    bool failed;
};

/* With the mutex held: fails when the writer takes nothing more. */
coffer_status coffer__writer_usable(const coffer_writer *writer, coffer_error *err);
/* With the mutex held: enters bytes of a tensor in the account, or refuses them with COFFER_ERR_WRITE_RANGE. */
coffer_status coffer__writer_enter(coffer_writer *writer, const coffer_tensor *tensor, uint64_t offset, uint64_t size,
                                   coffer_error *err);
/* With the mutex held: reserves the space for all tensors, if that has waited. */
coffer_status coffer__writer_set_aside(coffer_writer *writer, coffer_error *err);
/* With the mutex held: counts a write that was admitted, or makes the writer fail for one that was refused. */
void coffer__writer_began(coffer_writer *writer, coffer_status admitted);
/* Ends a write that was counted; takes the mutex. The sink must not be touched afterwards. */
void coffer__writer_ended(coffer_writer *writer, coffer_status status);
/* Adds the path of the new file to an error, if the writer has one. */
coffer_status coffer__writer_fail(const coffer_writer *writer, coffer_status status, coffer_error *err);
/* What comes before publishing: nothing is missing, nothing more is taken, and digests are in the header. */
coffer_status coffer__writer_complete(coffer_writer *writer, coffer_error *err);
/* Gives the complete file its name. */
coffer_status coffer__writer_publish(coffer_writer *writer, coffer_error *err);
/* Opens the complete file as a model, of a writer that can be checked. Its header is as large as the writer was told that it
   may be. */
coffer_status coffer__writer_open_written(const coffer_writer *writer, coffer **written, coffer_error *err);
/* The failure of a number that no tensor has. */
coffer_status coffer__writer_no_tensor(coffer_error *err);

#endif
