/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives (zip) that are laid out to be written: stored members, whose data begin at multiples of 64, with true sizes
 * and CRCs in both heads. zip.c and zip_end.c have the layout of the records.
 *
 * ZIP64 records come where a number needs them and nowhere else, so most archives can be read by programs that know
 * nothing of them. Times, attributes and padding are constant: the same members make the same bytes.
 */
#ifndef COFFER_EXPORT_ZIP_WRITE_H
#define COFFER_EXPORT_ZIP_WRITE_H

#include "crc32.h"
#include "layout.h"

/* Data of members begin at multiples of it. */
#define COFFER__ZIP_ALIGNMENT 64u

/* Begins as zeros but for the layout, the allocator of the directory, and the CRC's code. */
typedef struct coffer__zip_writing {
    coffer__layout *layout;
    coffer__writing directory;
    const coffer__crc32 *crc32;
    uint64_t count; /* of members */
} coffer__zip_writing;

/* A member: its text and then, if it is not NULL, the bytes of a tensor. COFFER_ERR_NAME when the name is longer than
   an archive can have it. Without memory it fails now or when the archive is ended. */
coffer_status coffer__zip_write_member(coffer__zip_writing *zip, const char *name, size_t name_len, const char *text,
                                       size_t text_len, const coffer_tensor *tensor, coffer_error *err);
/* The directory, and the end. coffer__zip_writing_free follows, whether this is reached or not. */
coffer_status coffer__zip_write_end(coffer__zip_writing *zip, coffer_error *err);
void coffer__zip_writing_free(coffer__zip_writing *zip);

#endif
