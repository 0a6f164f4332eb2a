/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several hosts that load one model together. The plans of all hosts are joined to one, which goes through the schedule
 * of a load: so each of its chunks is a chunk that some hosts want, and no byte is in two of them. One host reads a
 * chunk, and sends each host the strided copies that its copy ops take of it, one after the other. Sender and receiver
 * walk over the same copy ops, so messages say nothing of what is in them.
 *
 *   exchange_plan.c      the schedule: chunks, and who reads them when
 *   exchange_read.c      the chunks that a host reads in a round
 *   exchange_parcel.c    the bytes of chunks in messages, and from there to their destinations
 *   exchange_peers.c     what hosts say to each other: whether they do the same, and whether they have failed
 *   exchange.c           carrying it out, round by round
 */
#ifndef COFFER_LOAD_EXCHANGE_H
#define COFFER_LOAD_EXCHANGE_H

#include "load_plan.h"

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

/* What a copy op takes of a chunk. */
typedef struct coffer__exchange_part {
    uint32_t op;   /* of the joined plan */
    uint32_t host; /* whose it is */
    coffer__file_span within;
} coffer__exchange_part;

/* What is wanted of one cell of a file. Its parts are those from first_part on, its spans likewise. */
typedef struct coffer__host_chunk {
    uint32_t shard;
    uint32_t host; /* that reads it */
    uint64_t round;
    uint64_t at;            /* where the first byte of `hull` lies in the host's reading */
    coffer__file_span hull; /* from the first byte that is read to the last */
    size_t first_span;
    size_t span_count;
    size_t first_part;
    size_t part_count;
} coffer__host_chunk;

/* Where what one host wants begins in the joined plan. */
typedef struct coffer__exchange_host {
    const coffer_plan *plan; /* the caller's */
    uint32_t first_item;
    uint32_t first_op;
} coffer__exchange_host;

struct coffer_exchange {
    coffer_allocator allocator;
    coffer__exchange_host *hosts; /* `world`, and the end */
    uint32_t world;
    coffer_plan joined; /* items and copy ops of all plans, host after host; the regions' loops are theirs */
    coffer__exchange_part *parts;
    size_t part_count;
    size_t part_capacity;
    coffer__file_span *spans;
    size_t span_count;
    size_t span_capacity;
    coffer__host_chunk *chunks; /* in the order of the files */
    size_t chunk_count;
    size_t chunk_capacity;
    uint32_t *order;  /* the chunks by round, host and file */
    size_t *readings; /* where in the order the chunks of a round and host begin, rounds * world, and the end */
    uint64_t rounds;
    uint64_t reading_size; /* bytes of the largest reading */
    uint64_t number;       /* of all that hosts have to agree on */
};

/* The chunks that a host reads in a round: `count` of them, as numbers in exchange->chunks. */
const uint32_t *coffer__exchange_reads(const coffer_exchange *exchange, uint64_t round, uint32_t host, size_t *count);

/* How many bytes a part is. */
uint64_t coffer__exchange_part_size(const coffer_exchange *exchange, const coffer__exchange_part *part);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Memory for the chunks that a host reads in one round, and a load that brings them there. */
typedef struct coffer__round_read {
    const coffer_exchange *exchange;
    coffer_plan plan; /* each span is an item with a destination */
    coffer_load *load;
    uint8_t *bytes;       /* reading_size of them; pages */
    coffer_status status; /* of starting it */
    coffer_error err;
} coffer__round_read;

/* Ends with coffer__round_read_close, in any case. */
coffer_status coffer__round_read_begin(coffer__round_read *reading, const coffer_exchange *exchange, uint32_t host,
                                       coffer_error *err);
void coffer__round_read_close(coffer__round_read *reading);
/* Begins to read what `host` reads in a round. What goes wrong is told by coffer__round_read_wait. */
void coffer__round_read_start(coffer__round_read *reading, uint64_t round, uint32_t host, coffer_staging *staging);
/* Waits for it. */
coffer_status coffer__round_read_wait(coffer__round_read *reading, coffer_error *err);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

#define COFFER__EXCHANGE_SAID 448 /* bytes at the beginning of each message, in which its sender says how it is */

/* Packs what `host` has in its reading for `to`, to an address in host memory. */
void coffer__parcel_pack(const coffer__round_read *reading, uint64_t round, uint32_t host, uint32_t to,
                         uint64_t address);
/* Brings what `from` has sent to `host` to its destinations: items of the host's plan are at the addresses of `loaded`.
   */
void coffer__parcel_unpack(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t host,
                           const uint8_t *message, const coffer_loaded *loaded);
/* The same for what the host has read itself. */
void coffer__parcel_own(const coffer__round_read *reading, uint64_t round, uint32_t host, const coffer_loaded *loaded);

/* Messages to and from all hosts. */
typedef struct coffer__mail {
    const coffer_allocator *allocator;
    const coffer_transport *transport;
    uint64_t *sizes;   /* what is sent to each host, where that lies, and the same of what is received */
    uint64_t capacity; /* bytes of each buffer */
    uint8_t *send;
    uint8_t *receive;
    coffer_parcels parcels;
    uint64_t number; /* of the exchange */
    uint64_t call;   /* how many calls of the transport were before */
} coffer__mail;

/* Mail with space for messages in which hosts only say how they are. Ends with coffer__mail_free, in any case. */
coffer_status coffer__mail_begin(coffer__mail *mail, const coffer_transport *transport, uint64_t number,
                                 const coffer_allocator *allocator, coffer_error *err);
/* Makes space for those of all rounds. */
coffer_status coffer__mail_reserve(coffer__mail *mail, const coffer_exchange *exchange, coffer_error *err);
void coffer__mail_free(coffer__mail *mail);
/* Sets where the next messages lie: those of a round, or, with exchange NULL, those that only say how hosts are. */
void coffer__mail_address(coffer__mail *mail, const coffer_exchange *exchange, uint64_t round);
/* Sends and receives, with `status` and *err as how this host is. Fails when any host has failed: with the own failure,
   *err as it was, when there is one, else with COFFER_ERR_PEER. */
coffer_status coffer__mail_carry(coffer__mail *mail, coffer_status status, coffer_error *err);

#endif
