/* SPDX-License-Identifier: Apache-2.0 */
/* The archives that torch writes: everything lies in one folder, and the bytes of storages are members of it. */
#ifndef COFFER_CONVERT_TORCH_ARCHIVE_H
#define COFFER_CONVERT_TORCH_ARCHIVE_H

#include "torch.h"
#include "zip.h"

/* Where programs have what AOTInductor has compiled of them, in their folder. */
#define COFFER__TORCH_COMPILED "/data/aotinductor/"

typedef struct coffer__torch_archive {
    const coffer__torch_file *file;
    coffer__zip zip;
    size_t folder_len; /* of the names' beginnings, with the slash */
    bool big_endian;   /* elements of storages */
} coffer__torch_archive;

/* Opens the archive, finds its folder, and reads the order of bytes. COFFER_ERR_ARCHIVE for members outside of the folder,
   which torch refuses, too. Free it in any case. */
coffer_status coffer__torch_archive_open(coffer__torch_archive *archive, const coffer__torch_file *file,
                                         coffer_error *err);
void coffer__torch_archive_free(coffer__torch_archive *archive);
/* What follows the folder and a prefix in a member's name; NULL when it does not begin so, or nothing follows. */
const char *coffer__torch_archive_after(const coffer__torch_archive *archive, const coffer__zip_member *member,
                                        const char *prefix, size_t *len);
/* The member of a short name in the folder; NULL. */
coffer__zip_member *coffer__torch_archive_find(const coffer__torch_archive *archive, const char *name);
/* Reads the beginning of a member; of one that is not there nothing. */
coffer_status coffer__torch_archive_peek(const coffer__torch_archive *archive, const char *name, char *text,
                                         size_t size, size_t *len, coffer_error *err);
/* Reads a whole member of at most `most` bytes; free it with coffer__free_array. */
coffer_status coffer__torch_archive_load(const coffer__torch_archive *archive, coffer__zip_member *member,
                                         uint64_t most, uint8_t **bytes, size_t *size, coffer_error *err);
/* Puts a storage for each member after a prefix, whether a tensor views it or not: so none is lost silently. With `stores`
   (else NULL) they are added there, by what follows the prefix. JSON is none. */
coffer_status coffer__torch_archive_put_storages(const coffer__torch_archive *archive, const char *prefix,
                                                 coffer__stores *stores, coffer_error *err);

/* Whether bytes have a text in them. */
bool coffer__torch_has(const uint8_t *bytes, size_t size, const char *text);
/* A member that is an array of NumPy's, whatever it is called: puts its row; or for a scan findings, as one of objects is a
   pickle. */
coffer_status coffer__numpy_put_member(const coffer__torch_file *file, const coffer__zip *zip,
                                       coffer__zip_member *member, coffer_error *err);

#endif
