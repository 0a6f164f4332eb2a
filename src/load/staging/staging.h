/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A staging buffer: the memory through which bytes pass, in slots of a cell each, and what is kept from load to load.
 * One load has it at a time. The memory comes when the first load needs it, and stays until the staging buffer is
 * freed.
 */
#ifndef COFFER_LOAD_STAGING_H
#define COFFER_LOAD_STAGING_H

#include "chunk.h"
#include "coffer.h"
#include "os.h"
#include "pins.h"
#include "source.h"

struct coffer_staging {
    coffer_allocator allocator;
    coffer_staging_options options; /* `allocator` and `group` as they are here */
    char *group;                    /* copied; NULL: none */
    size_t group_size;
    uint32_t patience_ms;      /* how long others of the group may keep a load waiting */
    coffer__mutex mutex;       /* guards `load`, `users` and `slots` */
    coffer__condition changed; /* no load has it any more */
    const void *load;          /* the one that has it, and with it all that follows; NULL: none */
    size_t users;              /* workers of that load */
    uint8_t *slots;            /* memory of slot_count cells, aligned to one; NULL: none yet */
    size_t slot_count;
    int32_t node;      /* of the host's memory that the slots should be next to; -1: any */
    coffer__pins pins; /* devices that the slots are registered with */
};

/* Where slots that are made from now on should be: next to a device. NULL, and one of which that is not known: nothing
   changes. */
void coffer__staging_near(coffer_staging *staging, const coffer_device *device);
/* How many slots the staging buffer may have; at least 1. */
size_t coffer__staging_most(const coffer_staging *staging);
/* Enters the staging buffer for one worker of a load, after waiting until no other load has it, and makes sure that it
   has slots for `wanted` chunks, at most coffer__staging_most. COFFER_ERR_CANCELLED when the watch stops the wait.
   coffer__staging_leave follows where it succeeds. */
coffer_status coffer__staging_enter(coffer_staging *staging, const void *load, size_t wanted,
                                    const coffer__watch *watch, coffer_error *err);
void coffer__staging_leave(coffer_staging *staging);
/* The memory of the slots, for a worker that has entered: it is made when it is asked for first. */
coffer_status coffer__staging_slots(coffer_staging *staging, uint8_t **slots, coffer_error *err);
/* Enters the staging buffer for the load itself, so that its workers need not wait; false when another load has it.
   coffer__staging_leave follows where it succeeds. */
bool coffer__staging_claim(coffer_staging *staging, const void *load);
/* Registers the slots with a device, once for as long as they stay, so that it copies from them by itself. */
coffer_status coffer__staging_pin(coffer_staging *staging, coffer_device *device, coffer_error *err);

#endif
