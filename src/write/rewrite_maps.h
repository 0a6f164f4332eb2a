/* SPDX-License-Identifier: Apache-2.0 */
/* Known maps between the names of two programs: one table, and what a map makes of a name. Pure. */
#ifndef COFFER_WRITE_REWRITE_MAPS_H
#define COFFER_WRITE_REWRITE_MAPS_H

#include "names.h"
#include "writing.h"

typedef struct coffer__rewrite_map coffer__rewrite_map;

/* The map of that name; NULL: there is none. */
const coffer__rewrite_map *coffer__rewrite_map_find(const char *name);

/* What becomes of a name. */
typedef enum coffer__rewrite_mapped {
    COFFER__MAPPED_NOT = 0,    /* it is none of the map's, and stays */
    COFFER__MAPPED = 1,        /* `out` has the new one, which may be the same */
    COFFER__MAPPED_UNCLEAR = 2 /* it is one of those that the map is for, but what it stands for is not certain */
} coffer__rewrite_mapped;

/* Writes the new name to `out`, which has to be empty. That there was no memory is for the caller to ask `out`. */
coffer__rewrite_mapped coffer__rewrite_map_name(const coffer__rewrite_map *map, coffer__name name,
                                                coffer__writing *out);

#endif
