/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the formats share, and what sets them apart: a file begins with a frame, the length of its header (u64le), and how that
 * header spells tensors is the format's own. A reader goes over a header as it comes in and makes a table of it, with data_offset
 * and data_size set; what the file's size has to be is for its caller to check.
 */
#ifndef COFFER_CORE_FORMAT_H
#define COFFER_CORE_FORMAT_H

#include "coffer.h"
#include "intake.h"

#define COFFER__FRAME_SIZE 8u /* the header's length, u64le */

/* coffer_parse with an allocator that is not NULL. */
coffer_status coffer__parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                            const coffer_allocator *allocator, const coffer_parse_options *options, coffer_error *err);
/* The same of a file whose first `size` bytes are here; the others come from the supply, if there is one, and then *need is
   not asked for. */
coffer_status coffer__parse_supplied(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                     const coffer__supply *supply, const coffer_allocator *allocator,
                                     const coffer_parse_options *options, coffer_error *err);

coffer_status coffer__safetensors_read(coffer_table **table, coffer__intake *header,
                                       const coffer_parse_options *options, coffer_error *err);

/* The same of bintensors, in the layout that options->format names. */
coffer_status coffer__bintensors_read(coffer_table **table, coffer__intake *header, const coffer_parse_options *options,
                                      coffer_error *err);

#endif
