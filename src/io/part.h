/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that comes in pieces, in any order, and survives the death of the process that makes it: NAME.coffer-part, until it is
 * complete. Behind the file's own bytes it has a record of what it is going to be and of which pieces are there:
 *
 *   the file's bytes | "coffer-part 1\n" and NULs, 16 | what it is of, 256 | its size, u64 | its plan, u64 | a byte for each piece
 *
 * The next process that wants the same goes on with what is there; another wish begins anew. A process is in a part alone. A
 * power cut may lose pieces that are recorded: what a server states of a file's digest is compared in the end.
 */
#ifndef COFFER_IO_PART_H
#define COFFER_IO_PART_H

#include "coffer.h"
#include "paths.h"

#define COFFER__PART_PIECE ((uint64_t)8 << 20)
#define COFFER__PART_VALIDATOR 256

typedef struct coffer__part {
    coffer__path target;
    coffer__path name;
    int fd; /* -1: not open */
    uint64_t size;
    uint64_t piece_count;
    uint8_t *done; /* for each piece: 1 when it is there */
} coffer__part;

/* Opens or makes the part of `target`. `validator` says which version of the source it is of, "" that this is not known: then
   nothing is gone on with. `plan` is a number that other contents would not have. coffer__part_close follows in any case. */
coffer_status coffer__part_open(coffer__part *part, const coffer__path *target, uint64_t size, const char *validator,
                                uint64_t plan, const coffer_allocator *allocator, coffer_error *err);
/* Bytes of a piece: all have COFFER__PART_PIECE but the last. */
uint64_t coffer__part_piece_size(const coffer__part *part, uint64_t piece);
/* Stores a piece and records that it is there. */
coffer_status coffer__part_write(coffer__part *part, uint64_t piece, const void *bytes, coffer_error *err);
/* Takes the record off and sees to it that the bytes are on the device; then all that is left is the name. */
coffer_status coffer__part_finish(coffer__part *part, coffer_error *err);
/* Gives the file its name, in the place of what lies there. */
coffer_status coffer__part_publish(coffer__part *part, coffer_error *err);
/* Removes what is there. */
void coffer__part_remove(coffer__part *part);
/* Lets go; what is there stays for the next process. */
void coffer__part_close(coffer__part *part, const coffer_allocator *allocator);

#endif
