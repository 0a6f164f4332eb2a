/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cells of a group's (group.h) the files of a model have: file after file, each a number of cells of its own.
 */
#ifndef COFFER_LOAD_CHUNK_SOURCE_SHARED_H
#define COFFER_LOAD_CHUNK_SOURCE_SHARED_H

#include "chunk_source.h"
#include "coffer.h"

/* How many cells all files of a model have; 0: too many. `first` becomes the number of each file's first cell, and their
   count at the end; it may be NULL. */
size_t coffer__shared_cells(const coffer *model, uint32_t *first);
/* The number of a chunk's cell, and which of its blocks (group_table.h) the chunk wants. */
uint32_t coffer__shared_cell(const coffer__chunk *chunk, const uint32_t *first);
uint32_t coffer__shared_blocks(const coffer__chunk *chunk);

#endif
