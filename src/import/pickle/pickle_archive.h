/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of a pickle and its storages, as torch writes them: everything lies in one folder, and each storage is a member. */
#ifndef COFFER_PICKLE_PICKLE_ARCHIVE_H
#define COFFER_PICKLE_PICKLE_ARCHIVE_H

#include "pickle_views.h"
#include "zip.h"

/* Where programs have what AOTInductor has compiled of them, in their folder. */
#define COFFER__PICKLE_ARCHIVE_COMPILED "/data/aotinductor/"

typedef struct coffer__pickle_archive {
    const coffer__reader_file *file;
    coffer__zip zip;
    size_t folder_len; /* of the names' beginnings, with the slash */
    bool big_endian;   /* elements of storages */
} coffer__pickle_archive;

/* Opens the archive, finds its folder, and reads the order of bytes. COFFER_ERR_DAMAGED for members outside of the folder,
   which torch refuses, too. Free it in any case. */
coffer_status coffer__pickle_archive_open(coffer__pickle_archive *archive, const coffer__reader_file *file,
                                          coffer_error *err);
void coffer__pickle_archive_free(coffer__pickle_archive *archive);
/* What follows the folder and a prefix in a member's name; NULL when it does not begin so, or nothing follows. */
const char *coffer__pickle_archive_after(const coffer__pickle_archive *archive, const coffer__zip_member *member,
                                         const char *prefix, size_t *len);
/* The member of a short name in the folder; NULL. */
coffer__zip_member *coffer__pickle_archive_find(const coffer__pickle_archive *archive, const char *name);
/* Reads the beginning of a member; of one that is not there nothing. */
coffer_status coffer__pickle_archive_peek(const coffer__pickle_archive *archive, const char *name, char *text,
                                          size_t size, size_t *len, coffer_error *err);
/* Reads a whole member of at most `most` bytes; free it with coffer__free_array. */
coffer_status coffer__pickle_archive_load(const coffer__pickle_archive *archive, coffer__zip_member *member,
                                          uint64_t most, uint8_t **bytes, size_t *size, coffer_error *err);
/* Puts a storage for each member after a prefix, whether a tensor views it or not: so none is lost silently. With `stores`
   (else NULL) they are added there, by what follows the prefix. JSON is none. */
coffer_status coffer__pickle_archive_put_storages(const coffer__pickle_archive *archive, const char *prefix,
                                                  coffer__stores *stores, coffer_error *err);

#endif
