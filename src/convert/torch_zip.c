/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints as torch.save writes them since 1.6, and TorchScript: archives in which everything is in one folder,
 *
 *   FOLDER/data.pkl     the object
 *   FOLDER/data/KEY     the storages, as they are in memory
 *   FOLDER/byteorder    "little" or "big", since 2.1; little before
 *   FOLDER/version      "3\n" and others
 *   FOLDER/constants.pkl, constants/KEY, code/…    TorchScript
 */
#include "alloc.h"
#include "error.h"
#include "pickle_rows.h"
#include "pickle_scan.h"
#include "readers.h"
#include "text.h"
#include "torch.h"
#include "zip.h"

#include <string.h>

/* Of members that are looked for; file systems allow folders of 255 bytes. */
#define TORCH_ZIP_MOST_NAME 1024
/* Of data.pkl when it has to be inflated. */
#define TORCH_ZIP_MOST_PICKLE ((uint64_t)64 << 20)

typedef struct torch_zip {
    const coffer__torch_file *file;
    coffer__zip zip;
    size_t folder_len; /* with the slash */
    coffer__stores stores;
    coffer__graph graph;
    uint8_t *pickle; /* inflated, when it was deflated */
    size_t pickle_size;
} torch_zip;

/* The part of a member's name that follows the folder and a prefix; NULL when it does not begin so. */
static const char *torch_zip_after(const torch_zip *t, const coffer__zip_member *member, const char *prefix,
                                   size_t *len)
{
    const size_t prefix_len = coffer__text_len(prefix);
    if (member->name_len < t->folder_len + prefix_len ||
        memcmp(member->name + t->folder_len, prefix, prefix_len) != 0) {
        return NULL;
    }
    *len = member->name_len - t->folder_len - prefix_len;
    return member->name + t->folder_len + prefix_len;
}

/* The member of that name in the folder, which has to be short; NULL. */
static coffer__zip_member *torch_zip_member(const torch_zip *t, const char *name)
{
    char path[TORCH_ZIP_MOST_NAME];
    const size_t name_len = coffer__text_len(name);
    if (t->folder_len + name_len > sizeof path) {
        return NULL;
    }
    memcpy(path, t->zip.members[0].name, t->folder_len);
    memcpy(path + t->folder_len, name, name_len);
    return coffer__zip_find(&t->zip, path, t->folder_len + name_len);
}

/* The folder is that of the first member; torch refuses an archive that has anything outside. */
static coffer_status torch_zip_find_folder(torch_zip *t, coffer_error *err)
{
    const coffer__zip_member *first = t->zip.members;
    if (t->zip.count == 0) {
        return coffer__fail(err, COFFER_ERR_ARCHIVE, "the archive is empty");
    }
    while (t->folder_len < first->name_len && first->name[t->folder_len] != '/') {
        t->folder_len++;
    }
    if (t->folder_len == first->name_len) {
        return coffer__fail_at(err, COFFER_ERR_ARCHIVE, first->at, "%q is in no folder: this is no archive of PyTorch",
                               first->name, first->name_len);
    }
    t->folder_len++;
    for (size_t i = 0; i < t->zip.count; i++) {
        const coffer__zip_member *member = &t->zip.members[i];
        if (member->name_len < t->folder_len || memcmp(member->name, first->name, t->folder_len) != 0) {
            return coffer__fail_at(err, COFFER_ERR_ARCHIVE, member->at,
                                   "%q is outside of the folder that the archive is made of", member->name,
                                   member->name_len);
        }
    }
    return COFFER_OK;
}

/* Reads a small member into a buffer; what is longer is cut. */
static coffer_status torch_zip_small(const torch_zip *t, const char *name, char *text, size_t size, size_t *len,
                                     coffer_error *err)
{
    coffer__zip_member *member = torch_zip_member(t, name);
    *len = 0;
    if (member == NULL) {
        return COFFER_OK;
    }
    *len = member->size < size ? (size_t)member->size : size;
    return coffer__zip_load(&t->zip, t->file->input, member, text, *len, err);
}

static coffer_status torch_zip_read_byteorder(torch_zip *t, coffer_error *err)
{
    char text[8];
    size_t len = 0;
    const coffer__zip_member *member = torch_zip_member(t, "byteorder");
    const coffer_status status = torch_zip_small(t, "byteorder", text, sizeof text, &len, err);
    if (status != COFFER_OK || member == NULL) {
        return status;
    }
    t->graph.big_endian = len == 3 && memcmp(text, "big", 3) == 0;
    if (!t->graph.big_endian && (len != 6 || memcmp(text, "little", 6) != 0)) {
        return coffer__fail_at(err, COFFER_ERR_ARCHIVE, member->at,
                               "the order of bytes is %q: neither \"little\" nor \"big\"", text, len);
    }
    return COFFER_OK;
}

/* torch opens versions 1 to 10. The number says nothing that is needed here, so another one is only noted. */
static coffer_status torch_zip_note_version(const torch_zip *t, coffer_error *err)
{
    char text[8];
    size_t len = 0;
    const coffer_status status = torch_zip_small(t, "version", text, sizeof text, &len, err);
    if (status != COFFER_OK) {
        return status;
    }
    len -= len > 0 && text[len - 1] == '\n' ? 1 : 0;
    if ((len == 1 && text[0] >= '1' && text[0] <= '9') || (len == 2 && text[0] == '1' && text[1] == '0')) {
        return COFFER_OK;
    }
    return coffer__plan_put_finding(t->file->plan, COFFER__WEIGHT_NOTE, t->file->file, UINT64_MAX, "version",
                                    "the version of the archive is %q: PyTorch would not open it", text, len, err);
}

/* All members of a folder become storages, whether a tensor views them or not: so none is lost silently. */
static coffer_status torch_zip_put_storages(torch_zip *t, const char *prefix, coffer_error *err)
{
    const bool keyed = coffer__same_text(prefix, "data/");
    for (size_t i = 0; i < t->zip.count; i++) {
        const coffer__zip_member *member = &t->zip.members[i];
        coffer__stored stored = { .size = member->size };
        stored.key = torch_zip_after(t, member, prefix, &stored.key_len);
        if (stored.key == NULL || stored.key_len == 0) {
            continue;
        }
        const coffer__plan_piece piece = { .file = t->file->file,
                                           .coding = member->coding,
                                           .offset = member->at,
                                           .stored_size = member->stored_size,
                                           .size = member->size,
                                           .has_crc = !t->zip.without_crcs,
                                           .crc = t->zip.without_crcs ? 0 : member->crc };
        coffer_status status =
            coffer__torch_put_storage(t->file, &piece, prefix, stored.key, stored.key_len, &stored.storage, err);
        if (status == COFFER_OK && keyed) {
            status = coffer__stores_add(&t->stores, &stored, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return keyed ? coffer__stores_seal(&t->stores, err) : COFFER_OK;
}

/* A deflated pickle, which torch does not write, but loads. */
static coffer_status torch_zip_inflate(torch_zip *t, coffer__zip_member *member, coffer_error *err)
{
    if (member->size > TORCH_ZIP_MOST_PICKLE) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, member->at, "%q is compressed, and too large for that: %z",
                               member->name, member->name_len, member->size);
    }
    t->pickle_size = (size_t)member->size;
    t->pickle = coffer__alloc_array(t->file->plan->allocator, t->pickle_size, 1, err);
    if (t->pickle == NULL) {
        return COFFER_ERR_MEMORY;
    }
    return coffer__zip_load(&t->zip, t->file->input, member, t->pickle, t->pickle_size, err);
}

static coffer_status torch_zip_read_pickle(torch_zip *t, coffer_error *err)
{
    coffer__zip_member *member = torch_zip_member(t, "data.pkl");
    uint64_t end = 0;
    coffer_status status = COFFER_OK;
    if (member == NULL) {
        return coffer__fail(err, COFFER_ERR_ARCHIVE, "the archive has no data.pkl: it is none of PyTorch's");
    }
    if (member->coding != COFFER__CODING_STORED) {
        status = torch_zip_inflate(t, member, err);
    }
    t->graph.member = member->name;
    t->graph.stores = &t->stores;
    if (status == COFFER_OK) {
        status = coffer__torch_load(&t->graph, t->file, t->pickle, member->at, member->size, &end, err);
    }
    if (status != COFFER_OK || end == member->size) {
        return status;
    }
    return coffer__plan_put_finding(t->file->plan, COFFER__WEIGHT_DANGER, t->file->file, member->at + end, member->name,
                                    "there are bytes after the end of the pickle in %q", member->name, member->name_len,
                                    err);
}

/* ---- scanning ------------------------------------------------------------------------------------------------------ */

static bool torch_zip_ends(const coffer__zip_member *member, const char *ending)
{
    const size_t len = coffer__text_len(ending);
    return member->name_len >= len && memcmp(member->name + member->name_len - len, ending, len) == 0;
}

/* Whether a member is the bytes of a storage: FOLDER/data/KEY. Nobody loads those as pickles, and there are too many of
   them to look at each. */
static bool torch_zip_is_storage(const coffer__zip_member *member)
{
    static const char folder[] = "/data/";
    const size_t len = sizeof folder - 1;
    for (size_t i = 0; i + len < member->name_len; i++) {
        if (memcmp(member->name + i, folder, len) == 0) {
            return !torch_zip_ends(member, ".pkl");
        }
    }
    return false;
}

/* Looks for pickles in a member: by its name, or by its first bytes. */
static coffer_status torch_zip_scan_member(torch_zip *t, coffer__zip_member *member, coffer_error *err)
{
    uint8_t head[2] = { 0 };
    const bool named =
        torch_zip_ends(member, ".pkl") || torch_zip_ends(member, ".debug_pkl") || torch_zip_ends(member, ".pickle");
    const bool large = member->size > TORCH_ZIP_MOST_PICKLE && member->coding != COFFER__CODING_STORED;
    coffer__scan_range range = { .member = member->name, .size = member->size, .expected = 1 };
    if (torch_zip_is_storage(member) || member->size < sizeof head) {
        return COFFER_OK;
    }
    coffer_status status = coffer__zip_load(&t->zip, t->file->input, member, head, sizeof head, err);
    if (status != COFFER_OK || (!named && !coffer__scan_is_pickle(head, sizeof head))) {
        return status;
    }
    range.at = member->at;
    if (member->coding == COFFER__CODING_STORED) {
        return coffer__scan_pickles(t->file, &range, NULL, err);
    }
    if (large) {
        return coffer__plan_put_finding(t->file->plan, COFFER__WEIGHT_DANGER, t->file->file, member->at, member->name,
                                        "%q is a compressed pickle that is too large to look at", member->name,
                                        member->name_len, err);
    }
    status = torch_zip_inflate(t, member, err);
    range.bytes = t->pickle;
    if (status == COFFER_OK) {
        status = coffer__scan_pickles(t->file, &range, NULL, err);
    }
    coffer__free_array(t->file->plan->allocator, t->pickle, t->pickle_size, 1);
    t->pickle = NULL;
    return status;
}

/* A member that cannot be read is a finding; the others are looked at all the same. */
static coffer_status torch_zip_scan(torch_zip *t, coffer_error *err)
{
    for (size_t i = 0; i < t->zip.count; i++) {
        coffer__zip_member *member = &t->zip.members[i];
        coffer_error trouble;
        coffer__error_clear(&trouble);
        coffer_status status = torch_zip_scan_member(t, member, &trouble);
        if (status == COFFER_ERR_ARCHIVE || status == COFFER_ERR_CHECKSUM || status == COFFER_ERR_RANGE) {
            status = coffer__plan_put_finding(t->file->plan, COFFER__WEIGHT_DANGER, t->file->file, member->head,
                                              member->name, "a member of the archive cannot be read: %p",
                                              trouble.message, coffer__text_len(trouble.message), &trouble);
        }
        if (status != COFFER_OK) {
            if (err != NULL) {
                *err = trouble;
            }
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static coffer_status torch_zip_read(torch_zip *t, coffer_error *err)
{
    const coffer__torch_file *file = t->file;
    t->stores.allocator = file->plan->allocator;
    coffer_status status = coffer__zip_read(&t->zip, file->input, file->file, 0, file->size, file->wants, file->plan,
                                            file->plan->allocator, err);
    if (status == COFFER_OK && file->wants->scan) {
        return torch_zip_scan(t, err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_find_folder(t, err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_read_byteorder(t, err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_note_version(t, err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_put_storages(t, "data/", err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_put_storages(t, "constants/", err);
    }
    if (status == COFFER_OK) {
        status = torch_zip_read_pickle(t, err);
    }
    return status == COFFER_OK ? coffer__graph_put_rows(&t->graph, err) : status;
}

coffer_status coffer__torch_read_zip(const coffer__torch_file *file, coffer_error *err)
{
    torch_zip t = { .file = file };
    const coffer_status status = torch_zip_read(&t, err);
    coffer__torch_unload(&t.graph);
    coffer__stores_free(&t.stores);
    coffer__free_array(file->plan->allocator, t.pickle, t.pickle_size, 1);
    coffer__zip_free(&t.zip);
    return status;
}

/* Whether bytes have a text in them. */
static bool torch_zip_has(const uint8_t *bytes, size_t size, const char *text)
{
    const size_t len = coffer__text_len(text);
    for (size_t i = 0; i + len <= size; i++) {
        if (bytes[i] == (uint8_t)text[0] && memcmp(bytes + i, text, len) == 0) {
            return true;
        }
    }
    return false;
}

/* An archive that names its pickle at its beginning, as torch's do, or in the end of its directory. TorchScript begins
   with the storages. */
static bool torch_zip_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                            const char *path, size_t path_len)
{
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "PK\3\4", 4) == 0 &&
           (torch_zip_has(head, head_size, "/data.pkl") ||
            torch_zip_has(head, head_size < 300 ? head_size : 300, "/data/") ||
            torch_zip_has(tail, tail_size, "/data.pkl"));
}

static coffer_status torch_zip_reader(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                                      coffer_error *err)
{
    const coffer__torch_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer_status status = coffer__torch_put_format(plan, err);
    return status == COFFER_OK ? coffer__torch_read_zip(&file, err) : status;
}

const coffer__reader coffer__reader_torch_zip = { "torch", "a PyTorch checkpoint", torch_zip_sniff, torch_zip_reader };
