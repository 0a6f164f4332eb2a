/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives (zip), read by their central directory: the strict subset that checkpoints are made of.
 *
 *   members ... | central directory | [zip64 end record | its locator] | end record | [comment]
 *
 * Refused: two end records that both fit, members that overlap or reach into the directory, local names that
 * differ from the directory's, names that come twice (also but for case), absolute names, "..", NUL, backslash,
 * encryption, other methods than stored and deflated, several disks, sizes that contradict each other. An archive
 * may begin at any byte of a file, and end before it does.
 */
#ifndef COFFER_CONVERT_ZIP_H
#define COFFER_CONVERT_ZIP_H

#include "plan.h"
#include "reader.h"

typedef struct coffer__zip_member {
    const char *name; /* NUL-terminated; borrowed from the archive */
    size_t name_len;
    uint64_t at;          /* of its data in the file */
    uint64_t stored_size; /* bytes there */
    uint64_t size;        /* bytes when inflated */
    uint32_t crc;
    coffer__coding coding; /* COFFER__CODING_STORED or _DEFLATED */
} coffer__zip_member;

typedef struct coffer__zip {
    coffer__zip_member *members; /* in the order of the directory */
    size_t count;
    bool without_crcs; /* all are 0 */
    uint64_t end;      /* the byte after the archive */
    const coffer_allocator *allocator;
    char *names;
    size_t names_size;
} coffer__zip;

/* Reads the directory of the archive in bytes [start, start + size) of a file, and every local head. With `plan` (else
   NULL) what is odd becomes findings; with wants->scan also what would be refused, as far as one can go on.
   COFFER_ERR_ARCHIVE with the byte. */
coffer_status coffer__zip_read(coffer__zip *zip, const coffer__input *input, uint32_t file, uint64_t start,
                               uint64_t size, const coffer__wants *wants, coffer__plan *plan,
                               const coffer_allocator *allocator, coffer_error *err);
void coffer__zip_free(coffer__zip *zip);
/* The member of that exact name; NULL. */
const coffer__zip_member *coffer__zip_find(const coffer__zip *zip, const char *name, size_t name_len);

#endif
