/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives (zip), read by their central directory: the strict subset that checkpoints are made of.
 *
 *   members ... | central directory | [zip64 end record | its locator] | end record | [comment]
 *
 * Refused: another end record beside the last, members that overlap or reach into the directory, local names that
 * differ from the directory's, names that come twice (also but for case), absolute names, "..", NUL, backslash,
 * encryption, other methods than stored and deflated, several disks, sizes that contradict each other. An archive
 * may begin at any byte of a file, and end before it does.
 *
 * Programs differ in what they make of an archive that contradicts itself, and some scanners are deceived by
 * just that. So whatever two of them could read in two ways is refused here.
 */
#ifndef COFFER_ARCHIVE_ZIP_H
#define COFFER_ARCHIVE_ZIP_H

#include "plan.h"
#include "reader.h"
#include "zip_window.h"

typedef struct coffer__zip_member {
    const char *name; /* NUL-terminated; borrowed from the archive */
    size_t name_len;
    uint64_t head;        /* of its local head in the file */
    uint64_t at;          /* of its data in the file, when `located` */
    uint64_t stored_size; /* bytes there */
    uint64_t size;        /* bytes when inflated */
    uint32_t crc;
    coffer__coding coding; /* COFFER__CODING_STORED or _DEFLATED */
    uint16_t flags;        /* of the directory, as its method; the local head has to have the same */
    uint16_t method;
    bool located; /* its local head has been read, and agrees with the directory */
} coffer__zip_member;

typedef struct coffer__zip {
    coffer__zip_member *members; /* in the order of the directory */
    size_t count;
    uint32_t *by_name; /* the members' numbers in order of their names */
    bool without_crcs; /* all are 0 */
    uint32_t file;
    uint64_t start;     /* of the archive in the file */
    uint64_t directory; /* of the central directory in the file */
    uint64_t end;       /* the byte after the archive */
    const coffer_allocator *allocator;
    coffer__zip_window *window;
    char *names;
    size_t names_size;
} coffer__zip;

/*
 * Reads the directory of the archive in bytes [start, start + size) of a file, and the members' local heads. With `plan`
 * (else NULL) what is odd becomes findings. With wants->scan (then there is a plan) what would be refused becomes
 * findings, too, as far as one can go on, and only some heads are read, so that little is fetched: locate the
 * members that are to be read. COFFER_ERR_DAMAGED with the byte. On failure there is nothing to free.
 */
coffer_status coffer__zip_read(coffer__zip *zip, const coffer__input_files *input, uint32_t file, uint64_t start,
                               uint64_t size, const coffer__wants *wants, coffer__import_plan *plan,
                               const coffer_allocator *allocator, coffer_error *err);
/* The same for an archive that a directory of others has the place and the size of: with nothing after it, and so many of
   them that only the last bytes of each are looked at for its end. */
coffer_status coffer__zip_read_embedded(coffer__zip *zip, const coffer__input_files *input, uint32_t file,
                                        uint64_t start, uint64_t size, const coffer__wants *wants,
                                        coffer__import_plan *plan, const coffer_allocator *allocator,
                                        coffer_error *err);
void coffer__zip_free(coffer__zip *zip);
/* The member of that exact name; NULL. Of several, which only scans meet, the last, as loaders take it. */
coffer__zip_member *coffer__zip_find(const coffer__zip *zip, const char *name, size_t name_len);
/* Reads the local head of a member that has no place yet. COFFER_ERR_DAMAGED when it contradicts the directory; a scan may
   go on then if the member is `located` all the same. */
coffer_status coffer__zip_locate(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                                 coffer_error *err);
/* Where the beginnings of many members will be loaded, one member after another: reads those from `member` on that lie
   near each other at once. */
coffer_status coffer__zip_load_ahead(const coffer__zip *zip, const coffer__input_files *input,
                                     const coffer__zip_member *member, coffer_error *err);
/* The first `size` bytes of a member's data, at most all of them, inflated if need be; a scan may ask for a member that
   has no place. When that is all of it, its CRC has to be right: COFFER_ERR_CHECKSUM. */
coffer_status coffer__zip_load(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                               void *bytes, size_t size, coffer_error *err);
/* Whether a member may have that name: it stays below the folder where somebody unpacks it, and reads the same
   everywhere. */
bool coffer__zip_is_plain_name(const char *name, size_t name_len);
/* Reads all of a stored member, which somebody will read where it lies, for its CRC alone: COFFER_ERR_CHECKSUM. */
coffer_status coffer__zip_check(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                                coffer_error *err);

#endif
