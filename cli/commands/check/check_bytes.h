/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bytes of a file show that its header does not say: holes in the file, which read as
 * zeros and are what a download into reserved space leaves when it is interrupted; and tensors of
 * zeros, which are worth a look for the same reason.
 */
#ifndef COFFER_CHECK_BYTES_H
#define COFFER_CHECK_BYTES_H

#include "cli_json.h"
#include "coffer.h"

#define CHECK_BYTES_NOTES 2

typedef struct check_bytes {
    cli_note notes[CHECK_BYTES_NOTES]; /* what they are about belongs to the model */
    size_t count;                      /* of notes */
} check_bytes;

/* Asks the file system where the files have holes. Where it cannot tell, or a file is no local one, there are none. */
void check_holes(const coffer *model, check_bytes *found);
/* Reads each tensor up to its first byte that is not zero. */
coffer_status check_zeros(const coffer *model, check_bytes *found, coffer_error *err);
/* Decodes all of each packed file, and compares the SHA-256 of its original. */
coffer_status check_packed(const coffer *model, coffer_error *err);

#endif
