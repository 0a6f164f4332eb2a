/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as Protocol Buffers have them, made elements of a dtype. A piece with this coding has varints one after another
 * (`tag` 0), or numbers that have a tag each: a varint, four bytes or eight, by the tag's lowest three bits.
 */
#ifndef COFFER_IMPORT_DECODE_NUMBERS_H
#define COFFER_IMPORT_DECODE_NUMBERS_H

#include "plan.h"

#define COFFER__NUMBER_MAX 11 /* bytes of a number with its tag */

/* Whether a piece can be of this coding: its tag is one of its dtype, and so many bytes can be so many numbers. */
bool coffer__numbers_fit(const coffer__import_plan_piece *piece);
/* Decodes the number that `bytes` begin with, of which `size` are there, to the bytes of an element; how many bytes it
   takes, or 0 when it is none, has another tag, or does not fit the dtype. Pure. */
size_t coffer__number_decode(const coffer__import_plan_piece *piece, const uint8_t *bytes, size_t size,
                             uint8_t element[8]);

#endif
