/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that arrives in pieces, in any order, and survives the death of the process that makes it:
 * NAME.coffer-part, until it is complete. After the file's own bytes it has a record of what it will be and
 * which pieces are there. Integers are little-endian:
 *
 *   offset      size
 *   0           S       the file's bytes
 *   S           16      "coffer-part 2\n" and NULs
 *   S+16        8       S, the size of the file
 *   S+24        8       the plan: a number that other contents would not have
 *   S+32        8       N, the length of the origin
 *   S+40        N       the origin: which version of which file it is
 *   S+40+N      P       a byte for each piece of 1 MiB: 1 when all of it is there
 *
 * A later process that wants the same file resumes with what is there; any other process starts again. Only
 * one process works on a part, which holds its lock. A power cut may lose pieces that are recorded, because
 * nothing is synced until the end: the digest that a server states is compared with the complete file.
 *
 * What lies under the name counts only if it is a regular file of this user's that has no other name.
 * Anything else may have been planted; it is not written to, but removed.
 */
#ifndef COFFER_IO_PART_H
#define COFFER_IO_PART_H

#include "coffer.h"
#include "os.h"
#include "paths.h"

#define COFFER__PART_PIECE ((uint64_t)1 << 20)

typedef struct coffer__part {
    coffer__path target;
    coffer__path name;
    int fd; /* -1: not open */
    uint64_t size;
    uint64_t piece_count;
    uint8_t *done;     /* for each piece: 1 when it is there */
    uint64_t marks_at; /* where that is in the file */
    uint64_t device;   /* with inode: which file is open, to compare with what the name leads to */
    uint64_t inode;
} coffer__part;

/* The name that the file has until it is complete; false when it is too long. */
bool coffer__part_name(coffer__path *name, const coffer__path *target);
/* Opens or creates the part of `target`. `origin` names the version of what is fetched; "" if that
   is not known, and then nothing is resumed. COFFER_ERR_LOCKED when another process works on it.
   coffer__part_close follows in any case. */
coffer_status coffer__part_open(coffer__part *part, const coffer__path *target, uint64_t size, const char *origin,
                                uint64_t plan, const coffer_allocator *allocator, coffer_error *err);
/* Opens a part that the caller knows to be complete, by device and inode; false when another file,
   or none, lies there. coffer__part_close follows in any case. */
bool coffer__part_adopt(coffer__part *part, const coffer__path *target, uint64_t size, uint64_t device, uint64_t inode);
/* Bytes of a piece: COFFER__PART_PIECE, but less for the last one. */
uint64_t coffer__part_piece_size(const coffer__part *part, uint64_t piece);
/* Stores bytes at `at`, from any thread. */
coffer_status coffer__part_write(const coffer__part *part, uint64_t at, const void *bytes, size_t size,
                                 coffer_error *err);
/* Records in the file that all of a piece is there. The caller sets `done`, under its own lock. */
coffer_status coffer__part_mark(coffer__part *part, uint64_t piece, coffer_error *err);
/* Cuts off the record, and makes the bytes durable if asked to. Then only the final name is
   missing. */
coffer_status coffer__part_finish(coffer__part *part, bool durable, coffer_error *err);
/* Deletes the part by its name. */
void coffer__part_remove(coffer__part *part);
/* Closes and unlocks; what is there stays for the next process. */
void coffer__part_close(coffer__part *part, const coffer_allocator *allocator);

#endif
