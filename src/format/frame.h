/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame that safetensors and bintensors share:
 *
 *   offset 0      8                     8 + N                     end of the file
 *          +------+---------------------+-------------------------+
 *          | N    | header: N bytes     | data: the tensors'      |
 *          | u64le|                     | bytes, without gaps     |
 *          +------+---------------------+-------------------------+
 *
 * N does not include itself. Headers are padded with spaces, which is part of N, so that the data begin
 * at a multiple of the alignment; both formats accept spaces at the header's end.
 */
#ifndef COFFER_FORMAT_FRAME_H
#define COFFER_FORMAT_FRAME_H

#include "intake.h"

#define COFFER__FRAME_SIZE 8u /* the header's length, u64le */

/*
 * Judges the frame, and turns the intake to the header after it: in->end is then where the data
 * begin. COFFER_NEED_MORE: call it again when the bytes are there. Without a known file size only
 * the limit bounds the header.
 */
coffer_status coffer__frame_open(coffer__intake *in, const coffer_parse_options *options, coffer_error *err);
/* The `seal` of both formats (format.h). */
void coffer__frame_seal(uint8_t *head, size_t used, size_t size);

#endif
