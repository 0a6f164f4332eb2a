/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loader would have done with a pickle: which names it would have imported, what it would have called, with which
 * arguments. All of it becomes findings; nothing is put into the plan besides.
 *
 *   NOTE     a class that keeps data
 *   OPAQUE   a name that is not known
 *   DANGER   what runs code, opens files or reaches what does; a pickle that is damaged, since a loader runs what stands
 *            before the damage; a pickle after the end of another, or within bytes
 */
#ifndef COFFER_PICKLE_PICKLE_SCAN_H
#define COFFER_PICKLE_PICKLE_SCAN_H

#include "pickle_file.h"

/* A range of a file that holds pickles. */
typedef struct coffer__scan_range {
    const char *member;   /* of the archive that it is, or ""; what is within bytes belongs to the same */
    const uint8_t *bytes; /* NULL: they are in the file; else those of a member that had to be inflated */
    uint64_t at;          /* in the file */
    uint64_t size;
    uint32_t expected; /* pickles that belong here, one after another; 0: as many as there are */
    bool more;         /* what follows them belongs here, too, and is no pickle */
    bool unsure; /* it may be no pickle at all, as any file may: nothing is said where loaders would stop at what is no
                          opcode, or at a value that is missing, before they import anything */
    bool script; /* of TorchScript, whose loader takes classes of __torch__ out of the archive and imports none */
} coffer__scan_range;

/* Finds pickles, also in the bytes within others, and puts the findings. Fails only where the file cannot be read or there
   is no memory; a pickle that is damaged is a finding. *end (may be NULL) is the byte after the last expected pickle, counted
   from the beginning of the range. */
coffer_status coffer__scan_pickles(const coffer__reader_file *file, const coffer__scan_range *range, uint64_t *end,
                                   coffer_error *err);
/* Whether bytes begin with PROTO, a protocol that loaders take, 0 to 5, and another opcode. */
bool coffer__scan_is_pickle(const uint8_t *bytes, size_t size);

#endif
