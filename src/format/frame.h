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
 * Headers are padded with spaces.
 */
#ifndef COFFER_FORMAT_FRAME_H
#define COFFER_FORMAT_FRAME_H

#include "intake.h"

#define COFFER__FRAME_SIZE 8u /* the header's length, u64le */

/* Judges the frame, and turns the intake to the header behind it. COFFER_NEED_MORE: call it again. */
coffer_status coffer__frame_open(coffer__intake *in, const coffer_parse_options *options, coffer_error *err);
/* A format's `seal`. */
void coffer__frame_seal(uint8_t *head, size_t used, size_t size);

#endif
