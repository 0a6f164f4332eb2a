/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as bytes and back: for a process that reads and one that writes, which trusts nothing of it. Numbers are
 * little-endian, and every field that applies is there, so nothing of how a compiler lays structs out matters:
 *
 *   8 bytes   "CofPlan3"
 *   16 bytes  the reader's name, and NULs
 *   keys      u32 file, u64 bytes
 *   texts     u64 size | the bytes
 *   files     u64 count | u32 name each
 *   pieces    u64 count | each: u32 file, u8 coding, u64 offset, u64 stored size, u64 size, u8 kind of CRC, u32 CRC; of
 *             blocks then u32 type, u8 dtype, u32 scales; of numbers u32 tag, u8 dtype; of chunks u32 filters, u32 unit
 *   storages  u64 count | each: u8 kind, u32 first, u32 count, u64 size, u32 name; of chunks then u32 rank, u32 first
 *             dimension, u64 item size; of parts u32 rank, u32 first extent, u64 item size
 *   parts     u64 count | each: u32 storage, u64 offset, u32 first extent of its box
 *   extents   u64 count | u64 each
 *   rows      u64 count | each: u32 name, u8 dtype, u32 rank, u32 first dimension, u32 storage, u64 offset,
 *             u64 item size, u8 swap, u8 sign, u8 fate, u32 alias of, u32 reason
 *   dimensions  u64 count | each: u64 size, u64 count, u64 stride
 *   pairs     u64 count | each: u32 key, u32 value
 *   findings  u64 count | each: u8 weight, u32 file, u64 offset, u32 member, u32 subject, u32 text
 */
#ifndef COFFER_IMPORT_PLAN_BYTES_H
#define COFFER_IMPORT_PLAN_BYTES_H

#include "plan.h"

#define COFFER__PLAN_READER_SIZE 16

/* Writes a plan to new memory of its allocator, `*size` bytes. `reader` is the reader's name, which is shorter than
   COFFER__PLAN_READER_SIZE. */
coffer_status coffer__import_plan_save(const coffer__import_plan *plan, const char *reader, uint8_t **bytes,
                                       size_t *size, coffer_error *err);
/* Fills a plan that was begun and is empty, and the reader's name, with a NUL. COFFER_ERR_PLAN for bytes that
   coffer__import_plan_save does not make; whether their numbers are right is left to coffer__import_plan_check. */
coffer_status coffer__import_plan_load(coffer__import_plan *plan, const uint8_t *bytes, size_t size,
                                       char reader[COFFER__PLAN_READER_SIZE], coffer_error *err);

#endif
