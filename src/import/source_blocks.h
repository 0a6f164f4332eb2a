/* SPDX-License-Identifier: Apache-2.0 */
/* A source of numbers that a file has in blocks: each read decodes the blocks that it touches. */
#ifndef COFFER_IMPORT_SOURCE_BLOCKS_H
#define COFFER_IMPORT_SOURCE_BLOCKS_H

#include "plan.h"
#include "source.h"

/* The source of a piece that is coded in blocks, of a plan that was checked; `of` is that of its file, and stays open and
   where it is, and so does the plan. Any number of threads may read it. */
void coffer__source_blocks(coffer__byte_source *source, const coffer__byte_source *of, const coffer__import_plan *plan,
                           const coffer__import_plan_piece *piece);

#endif
