/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking over the graph of a pickle by names: keys and indices joined by dots. Iterative, since the graph comes from
 * nobody that can be trusted; bounded in depth, in the length of names and, because a node may be an entry of many
 * others, in steps.
 *
 * A walk by names meets an entry once for each of its names, and enters no node that it is within. A walk of
 * everything, for what is left over, also goes into objects, calls and sets, and enters each node once.
 */
#ifndef COFFER_PICKLE_PICKLE_WALK_H
#define COFFER_PICKLE_PICKLE_WALK_H

#include "pickle_classify.h"

typedef struct coffer__graph_walk_frame {
    coffer__value value;
    size_t path_len; /* of the path to this node */
    bool named;      /* something on that path has a name */
    size_t bad_keys; /* before this node */
    coffer__entries entries;
    uint8_t part; /* of an object: which of its parts comes next */
    uint32_t link;
} coffer__graph_walk_frame;

typedef struct coffer__graph_walk {
    coffer__graph *graph;
    bool everything;
    uint8_t *marks; /* of each node: whether it is on the path or, with `everything`, was entered */
    coffer__graph_walk_frame *frames;
    size_t depth;
    size_t frame_capacity;
    char *path; /* of the last node that was found; no NUL */
    size_t path_len;
    size_t path_capacity;
    bool named;      /* what was found, or something that it is in, has a name */
    size_t bad_keys; /* keys on the path that are neither texts nor whole numbers */
    uint64_t steps;  /* that are left */
} coffer__graph_walk;

/* Begins at a node, whose own name is not in the paths. Free it in any case. */
coffer_status coffer__graph_walk_begin(coffer__graph_walk *walk, coffer__graph *graph, coffer__value start,
                                       bool everything, coffer_error *err);
void coffer__graph_walk_free(coffer__graph_walk *walk);
/* The next node that is neither mapping, sequence nor module; its path is in the walk. 0 at the end. */
coffer_status coffer__graph_walk_next(coffer__graph_walk *walk, coffer__value *found, coffer_error *err);
/* Adds a key to a path of `*len` bytes; false when the key is neither a text nor a whole number, or too long. */
bool coffer__graph_walk_key(const coffer__graph *graph, const coffer__graph_entry *entry, const char **text,
                            size_t *len, char digits[21]);

#endif
