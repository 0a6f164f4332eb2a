/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that comes in pieces, in any order, and survives the death of the process that makes it: NAME.coffer-part, until it is
 * complete. Behind the file's own bytes it has a record of what it is going to be and of which pieces are there:
 *
 *   the file's bytes | "coffer-part 2\n" and NULs, 16 | its size, u64 | its plan, u64 | the length of what it is of, u64
 *                    | what it is of | a byte for each piece
 *
 * The next process that wants the same resumes with what is there; any other starts again. A process is in a part alone. A
 * power cut may lose pieces that are recorded: what a server states of a file's digest is compared in the end.
 *
 * What lies under the name counts only when it is a regular file of the user's own that has no other name: anything else, which
 * somebody may have put there, is not written to, but removed.
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
    uint64_t device;
    uint64_t inode;
} coffer__part;

/* The name that the file has until it is complete; false when it is too long. */
bool coffer__part_name(coffer__path *name, const coffer__path *target);
/* Opens or makes the part of `target`. `origin` says which version of what it is of, "" that this is not known: then nothing is
   resumed. `plan` is a number that other contents would not have. coffer__part_close follows in any case. */
coffer_status coffer__part_open(coffer__part *part, const coffer__path *target, uint64_t size, const char *origin,
                                uint64_t plan, const coffer_allocator *allocator, coffer_error *err);
/* Opens a part that is known to be complete, by which file it is; false when that does not lie there. coffer__part_close follows in
   any case. */
bool coffer__part_adopt(coffer__part *part, const coffer__path *target, uint64_t size, uint64_t device, uint64_t inode);
/* Bytes of a piece: all have COFFER__PART_PIECE but the last. */
uint64_t coffer__part_piece_size(const coffer__part *part, uint64_t piece);
/* Stores bytes at `at`, from any thread. */
coffer_status coffer__part_write(const coffer__part *part, uint64_t at, const void *bytes, size_t size,
                                 coffer_error *err);
/* Records that all of a piece is there. `done` is the caller's to keep. */
coffer_status coffer__part_mark(coffer__part *part, uint64_t piece, coffer_error *err);
/* Takes the record off, and with `durable` sees to it that the bytes are on the device; then all that is left is the name. */
coffer_status coffer__part_finish(coffer__part *part, bool durable, coffer_error *err);
/* Removes what is there. */
void coffer__part_remove(coffer__part *part);
/* Lets go; what is there stays for the next process. */
void coffer__part_close(coffer__part *part, const coffer_allocator *allocator);

#endif
