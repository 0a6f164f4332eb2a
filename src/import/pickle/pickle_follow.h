/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far loaders get in a stream that is taken for a pickle. The machine (pickle.h) refuses what no program writes; a
 * loader does not, and whoever misleads a scanner writes just that. So this counts values and marks instead of building
 * them, and goes on wherever a loader may: CPython's C unpickler, its twin in Python, and what joblib and torch derive
 * from them. Only three things end a stream: a byte that is no opcode, a value or an argument with which every loader
 * fails, and its end.
 *
 * A run takes time for each byte that is not skipped and memory for each open mark, and both are bounded. Pure.
 */
#ifndef COFFER_PICKLE_PICKLE_FOLLOW_H
#define COFFER_PICKLE_PICKLE_FOLLOW_H

#include "pickle.h"

#define COFFER__FOLLOWED_NAME ((size_t)512) /* a module, a name, or both */

typedef enum coffer__followed_to {
    COFFER__FOLLOWED_TO_END,    /* every loader stops, and has imported nothing */
    COFFER__FOLLOWED_TO_IMPORT, /* a loader would import a name, or call what it got without one */
    COFFER__FOLLOWED_TO_LIMIT   /* a loader may go on past what was followed */
} coffer__followed_to;

typedef struct coffer__followed {
    coffer__followed_to outcome;
    uint64_t offset; /* of the import, or of where following ended */
    bool ran_out;    /* END: of the stream, which would have had to be longer */
    bool cut;        /* IMPORT: the stream ends within its names, which only Python's twin takes as they are */
    bool complete;   /* a pickle came to its end on the way, so that it may be loaded */
    char name[COFFER__FOLLOWED_NAME]; /* IMPORT: "module.name", cut; "" where values on the stack say it */
} coffer__followed;

/* Follows the stream to its first import at byte `from` or later; those before it are passed over, as if they had given
   something. What comes after the end of a pickle is followed as the next one, as programs load several. Fails only where the
   stream cannot be read or there is no memory. */
coffer_status coffer__pickle_follow(coffer__followed *followed, const coffer__pickle_bytes *bytes, uint64_t from,
                                    const coffer_allocator *allocator, coffer_error *err);

#endif
