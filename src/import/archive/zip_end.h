/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an archive (zip): where its directory is. */
#ifndef COFFER_ARCHIVE_ZIP_END_H
#define COFFER_ARCHIVE_ZIP_END_H

#include "coffer.h"

/* Of the last bytes of an archive so many are enough: the records of the end, and the longest comment. */
#define COFFER__ZIP_TAIL ((size_t)22 + 65535 + 20 + 56)

/* All places are counted from the archive's first byte. */
typedef struct coffer__zip_end {
    uint64_t directory;
    uint64_t directory_size;
    uint64_t count;   /* members */
    uint64_t end;     /* the byte after the archive */
    uint64_t another; /* another end record that fits as well; UINT64_MAX: there is none */
} coffer__zip_end;

/* Finds the end record in the last bytes of an archive, of which the first is byte `tail_at`. `origin` is the
   archive's place in its file, for messages. COFFER_ERR_DAMAGED. Pure. */
coffer_status coffer__zip_find_end(const uint8_t *tail, size_t tail_size, uint64_t tail_at, uint64_t origin,
                                   coffer__zip_end *end, coffer_error *err);

#endif
