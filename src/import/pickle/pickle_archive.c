/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archives that torch writes (caffe2/serialize/inline_container.cc): see pickle_archive.h.
 *
 *   FOLDER/…    every member is in one folder, whose name is that of the file at the time of writing
 *
 * Members are found by what follows the folder, so renaming the file changes nothing.
 */
#include "pickle_archive.h"

#include "alloc.h"
#include "error.h"
#include "pickle_file.h"
#include "text.h"

#include <string.h>

/* Of members that are looked for; file systems allow folders of 255 bytes. */
#define ARCHIVE_MAX_NAME 1024

/* ---- members ------------------------------------------------------------------------------------------------------- */

/* archive_find_folder has seen to it that every name begins with the folder, so only what follows is compared. */
const char *coffer__pickle_archive_after(const coffer__pickle_archive *archive, const coffer__zip_member *member,
                                         const char *prefix, size_t *len)
{
    const size_t prefix_len = coffer__text_len(prefix);
    const size_t from = archive->folder_len + prefix_len;
    *len = 0;
    if (member->name_len <= from || memcmp(member->name + archive->folder_len, prefix, prefix_len) != 0) {
        return NULL;
    }
    *len = member->name_len - from;
    return member->name + from;
}

coffer__zip_member *coffer__pickle_archive_find(const coffer__pickle_archive *archive, const char *name)
{
    char path[ARCHIVE_MAX_NAME];
    /*
     * The names of members are made here, and not searched for by their ends: two members may end alike, in
     * folders within the folder.
     */
    const size_t name_len = coffer__text_len(name);
    /* A folder so long that no path fits has no member of any name; torch's own come from names of files. */
    if (name_len > sizeof path || archive->folder_len > sizeof path - name_len) {
        return NULL;
    }
    memcpy(path, archive->zip.members[0].name, archive->folder_len);
    memcpy(path + archive->folder_len, name, name_len);
    return coffer__zip_find(&archive->zip, path, archive->folder_len + name_len);
}

/* Of small members that say one thing, as the version. Without such a member, the text is empty. */
coffer_status coffer__pickle_archive_peek(const coffer__pickle_archive *archive, const char *name, char *text,
                                          size_t size, size_t *len, coffer_error *err)
{
    coffer__zip_member *member = coffer__pickle_archive_find(archive, name);
    *len = 0;
    if (member == NULL) {
        return COFFER_OK;
    }
    *len = member->size < size ? (size_t)member->size : size;
    return coffer__zip_load(&archive->zip, archive->file->input, member, text, *len, err);
}

/* `most` bounds the memory before anything is inflated: the directory's size is exact for whatever loads at
   all. */
coffer_status coffer__pickle_archive_load(const coffer__pickle_archive *archive, coffer__zip_member *member,
                                          uint64_t most, uint8_t **bytes, size_t *size, coffer_error *err)
{
    const coffer_allocator *allocator = archive->file->plan->allocator;
    *bytes = NULL;
    if (member->size > most) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, member->head, "%q has %z, too much to be read at once",
                               member->name, member->name_len, member->size);
    }
    /* No overflow where a size_t has 32 bits: `most` is below that. */
    *size = (size_t)member->size;
    *bytes = coffer__alloc_array(allocator, *size, 1, err);
    if (*bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__zip_load(&archive->zip, archive->file->input, member, *bytes, *size, err);
    if (status != COFFER_OK) {
        coffer__free_array(allocator, *bytes, *size, 1);
        *bytes = NULL;
    }
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

/* The folder is that of the first member. */
static coffer_status archive_find_folder(coffer__pickle_archive *archive, coffer_error *err)
{
    const coffer__zip_member *first = archive->zip.members;
    if (archive->zip.count == 0) {
        return coffer__fail(err, COFFER_ERR_DAMAGED, "the archive is empty");
    }
    /*
     * torch goes by the first record, too, so that a file that was renamed after it was saved opens under any
     * name.
     */
    while (archive->folder_len < first->name_len && first->name[archive->folder_len] != '/') {
        archive->folder_len++;
    }
    if (archive->folder_len == first->name_len) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, first->head,
                               "%q is in no folder: this is no archive of PyTorch", first->name, first->name_len);
    }
    archive->folder_len++;
    /* All in one folder, or it is not an archive that torch would open; two folders could hold two models. */
    for (size_t i = 0; i < archive->zip.count; i++) {
        const coffer__zip_member *member = &archive->zip.members[i];
        if (member->name_len < archive->folder_len || memcmp(member->name, first->name, archive->folder_len) != 0) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, member->head,
                                   "%q is outside of the folder that the archive is made of", member->name,
                                   member->name_len);
        }
    }
    return COFFER_OK;
}

/* Files before 2.1 have none, and are little-endian. */
static coffer_status archive_read_byteorder(coffer__pickle_archive *archive, coffer_error *err)
{
    char text[8];
    size_t len = 0;
    const coffer__zip_member *member = coffer__pickle_archive_find(archive, "byteorder");
    const coffer_status status = coffer__pickle_archive_peek(archive, "byteorder", text, sizeof text, &len, err);
    if (status != COFFER_OK || member == NULL) {
        return status;
    }
    /*
     * Any other word means another order, or none that is known. To guess would be to write wrong numbers for
     * all tensors of the file.
     */
    archive->big_endian = len == 3 && memcmp(text, "big", 3) == 0;
    if (!archive->big_endian && (len != 6 || memcmp(text, "little", 6) != 0)) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, member->at,
                               "the order of bytes is %q: neither \"little\" nor \"big\"", text, len);
    }
    return COFFER_OK;
}

/* The order of bytes is read here because storages are put before anything else that could tell. */
coffer_status coffer__pickle_archive_open(coffer__pickle_archive *archive, const coffer__reader_file *file,
                                          coffer_error *err)
{
    archive->file = file;
    coffer_status status = file->embedded
                               ? coffer__zip_read_embedded(&archive->zip, file->input, file->file, file->at, file->part,
                                                           file->wants, file->plan, file->plan->allocator, err)
                               : coffer__zip_read(&archive->zip, file->input, file->file, 0, file->size, file->wants,
                                                  file->plan, file->plan->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = archive_find_folder(archive, err);
    if (status != COFFER_OK) {
        return status;
    }
    return archive_read_byteorder(archive, err);
}

void coffer__pickle_archive_free(coffer__pickle_archive *archive)
{
    coffer__zip_free(&archive->zip);
}

/* ---- storages ------------------------------------------------------------------------------------------------------ */

coffer_status coffer__pickle_archive_put_storages(const coffer__pickle_archive *archive, const char *prefix,
                                                  coffer__stores *stores, coffer_error *err)
{
    const coffer__zip *zip = &archive->zip;
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[i];
        coffer__stored stored = { .size = member->size };
        stored.key = coffer__pickle_archive_after(archive, member, prefix, &stored.key_len);
        /* JSON beside the storages describes them (.pt2), and is no storage itself. */
        if (stored.key == NULL || coffer__text_ends(stored.key, stored.key_len, ".json")) {
            continue;
        }
        /*
         * The member's place is exact, as its local head was read. Whoever moves the bytes inflates them and
         * compares the CRC; here they are numbers only, so a checkpoint of any size takes as long as its
         * directory.
         */
        const coffer__import_plan_piece piece = { .file = archive->file->file,
                                                  .coding = member->coding,
                                                  .offset = member->at,
                                                  .stored_size = member->stored_size,
                                                  .size = member->size,
                                                  .crc_kind = zip->without_crcs ? COFFER__CRC_NONE : COFFER__CRC_32,
                                                  .crc = zip->without_crcs ? 0 : member->crc };
        coffer_status status = coffer__pickle_file_put_storage(archive->file, &piece, prefix, stored.key,
                                                               stored.key_len, &stored.storage, err);
        if (status == COFFER_OK && stores != NULL) {
            status = coffer__stores_add(stores, &stored, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return stores != NULL ? coffer__stores_seal(stores, err) : COFFER_OK;
}
