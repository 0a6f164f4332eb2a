/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes time, on threads of its own, so that keys never wait: reading all numbers of one tensor, reading the part of
 * it that is seen, and comparing the bytes of many. Each has one job at a time; another one, or none, cancels it, also in
 * the middle of a read.
 *
 * Results are looked at as far as they have come; `changed` is called, on those threads, when there is more to see.
 */
#ifndef COFFER_BROWSE_WORK_H
#define COFFER_BROWSE_WORK_H

#include "browse_data.h"
#include "browse_part.h"
#include "stats_histogram.h"

#include <pthread.h>
#include <stdatomic.h>

#define BROWSE_CACHE 16 /* results that are kept */

typedef enum browse_stage {
    BROWSE_STAGE_NOTHING = 0, /* nobody has asked */
    BROWSE_STAGE_READING,     /* the numbers */
    BROWSE_STAGE_COUNTING,    /* the histogram: the numbers are all there */
    BROWSE_STAGE_DONE,
    BROWSE_STAGE_FAILED /* `trouble` says why */
} browse_stage;

/* What is known about a tensor. */
typedef struct browse_found {
    uint32_t item;
    browse_stage stage;
    uint64_t done; /* bytes of this stage */
    coffer_statistics numbers;
    stats_histogram histogram;
    char trouble[256];
} browse_found;

/* The elements of a part of a tensor. */
typedef struct browse_slice {
    browse_part part;
    browse_stage stage;                     /* no numbers are counted */
    unsigned char bytes[BROWSE_PART_BYTES]; /* as the file has them; see browse_part_index */
    char trouble[256];
} browse_slice;

typedef enum browse_same { BROWSE_NOT_COMPARED = 0, BROWSE_SAME, BROWSE_DIFFERS, BROWSE_UNREADABLE } browse_same;

/* How far a comparison has come. */
typedef struct browse_progress {
    bool running;
    uint64_t done; /* bytes of one model */
    uint64_t total;
    uint64_t differing; /* tensors */
    uint64_t unreadable;
} browse_progress;

typedef struct browse_work browse_work;

/* Starts the threads when they are needed. NULL without memory. */
browse_work *browse_work_new(const browse_data *data, void (*changed)(void));
/* Cancels what is in progress and waits until it has ended. NULL is ignored. */
void browse_work_free(browse_work *work);

/* Reads the numbers of a tensor, unless it is being read or has been; BROWSE_NONE: reads nothing any more. */
void browse_work_read(browse_work *work, uint32_t item);
/* What is known about it. */
void browse_work_look(browse_work *work, uint32_t item, browse_found *found);

/* Reads a part of a tensor, unless it is being read or has been last; with the item BROWSE_NONE as above. */
void browse_work_read_part(browse_work *work, const browse_part *part);
/* What is known of it. While it is read, what *slice has of another part of that tensor stays there: nothing flickers. */
void browse_work_look_at_part(browse_work *work, const browse_part *part, browse_slice *slice);

/* Compares the bytes of tensors that are alike in both models; `items` is taken, and freed. NULL: stops comparing. */
void browse_work_compare(browse_work *work, uint32_t *items, size_t count);
browse_progress browse_work_compared(browse_work *work);
/* Whether the bytes of a tensor are the same in both models. */
browse_same browse_work_same(const browse_work *work, uint32_t item);

#endif
