/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives (tar), one member after another. Nothing is extracted; a reader asks for the places of the few members that
 * it knows. What describes the member after it, as other programs write it for long names and large files, is applied
 * here: size and name are those that a loader would see.
 *
 *   a head, 512 bytes (ustar, POSIX.1-1988; its checksum has to fit)
 *       0  name, 100 bytes, ended by a NUL      156  type: '0' or NUL is a plain file
 *     124  size, 12 octal digits, or 0x80 and   257  "ustar"
 *          the number in base 256, as GNU has   148  checksum, 8: the sum of all bytes of the head, its own taken
 *          it from 8 GiB on                          as spaces
 *   its bytes, padded to 512; the archive ends with blocks of zeros
 *
 *   'x'   (pax, POSIX.1-2001) records "LENGTH key=value\n", LENGTH counting all of it: of the next member. `size`, from
 *         8 GiB on, and `path` count here, others do not
 *   'g'   the same of all members: of no checkpoint, so one that has a size or a path is refused
 *   'L'   (GNU) the name of the next member
 */
#ifndef COFFER_ARCHIVE_TAR_H
#define COFFER_ARCHIVE_TAR_H

#include "reader.h"

#define COFFER__TAR_BLOCK 512
#define COFFER__TAR_NAME 128

typedef struct coffer__tar_member {
    char name[COFFER__TAR_NAME]; /* NUL-terminated; a longer one is cut, and then no name that anybody asks for */
    uint64_t at;                 /* of its bytes in the file */
    uint64_t size;
    bool plain;  /* a plain file, and not a link, a folder or a device */
    bool folder; /* a folder */
} coffer__tar_member;

/* The place in an archive. Begins as zeros but for these. */
typedef struct coffer__tar {
    const coffer__input_files *input;
    const coffer_allocator *allocator;
    uint32_t file;
    uint64_t size; /* of the file */
    uint64_t at;   /* of the next head */
    bool ended;    /* a block of zeros was met, with which archives end; a file that was cut has none */
} coffer__tar;

/* Whether 512 bytes are a head, by their checksum. */
bool coffer__tar_is_head(const uint8_t *head);
/* The name that a head itself has. */
void coffer__tar_name_of(const uint8_t *head, char name[COFFER__TAR_NAME]);
/* The next member; *more is false at the end. COFFER_ERR_DAMAGED for what is none, or reaches past the end of the file. */
coffer_status coffer__tar_next(coffer__tar *tar, coffer__tar_member *member, bool *more, coffer_error *err);
/* Whether a member is called so; some programs write "./" before names. */
bool coffer__tar_is_named(const char *member, const char *name);

#endif
