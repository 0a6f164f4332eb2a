/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of NumPy's archives (.npz).
 *
 *   NAME.npy    an array, as in a file of its own (npy_header.c); stored by savez, deflated by savez_compressed
 *
 * The names of arrays are those of members without the ending. NumPy finds a member by its name with and without it, and
 * gives the bytes of any other member as they are; MLX and JAX write the same archives. What is no array is left out
 * here, and told, so that no bytes of the file are lost silently.
 *
 * The arrays lie one after another, each after two heads: that of the member and its own. They are looked at in the
 * order of the directory, so that heads that lie near each other are read at once (zip_window.h).
 */
#include "bytes.h"
#include "error.h"
#include "numpy.h"
#include "readers.h"
#include "scan_contents.h"
#include "text.h"
#include "zip.h"

#include <string.h>

/* An archive whose first member is an array, or that is called so. */
static bool npz_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    (void)tail;
    (void)tail_size;
    if (head_size < 22 || (memcmp(head, "PK\3\4", 4) != 0 && memcmp(head, "PK\5\6", 4) != 0)) {
        return false;
    }
    /*
     * The first member tells more than the ending of the path: files come from caches that rename them. An
     * archive that begins with its end has no members, and only its path says what it is.
     */
    const size_t name_len = head_size > 30 && head[2] == 3 ? coffer__load_u16le(head + 26) : 0;
    return (name_len > 0 && name_len <= head_size - 30 &&
            coffer__text_ends((const char *)head + 30, name_len, ".npy")) ||
           coffer__text_ends(path, path_len, ".npz");
}

/* A member that is no array is nothing that NumPy would give either, but for its bytes. */
static coffer_status npz_put_other(const coffer__reader_file *file, const coffer__zip_member *member, coffer_error *err)
{
    uint32_t name = 0;
    uint32_t storage = 0;
    const coffer__import_plan_piece piece = {
        .coding = member->coding, .offset = member->at, .stored_size = member->stored_size, .size = member->size
    };
    coffer_status status = coffer__import_plan_put_finding(
        file->plan, COFFER_WEIGHT_NOTE, 0, member->head, member->name,
        "the archive's member %q is no array, and is left out", member->name, member->name_len, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_text(file->plan, member->name, member->name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_piece(file->plan, &piece, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__import_plan_put_storage(file->plan, 1, name, &storage, err);
}

static coffer_status npz_put_members(const coffer__reader_file *file, const coffer__zip *zip, coffer_error *err)
{
    for (size_t i = 0; i < zip->count; i++) {
        coffer__zip_member *member = &zip->members[i];
        coffer_status status = coffer__zip_load_ahead(zip, file->input, member, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__text_ends(member->name, member->name_len, ".npy")
                     ? coffer__numpy_put_member(file, zip, member, err)
                     : npz_put_other(file, member, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static coffer_status npz_read_file(const coffer__input_files *input, const coffer__wants *wants,
                                   coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    coffer__zip zip;
    if (wants->scan) {
        return coffer__scan_zip(&file, err);
    }
    coffer_status status = coffer__zip_read(&zip, input, 0, 0, input->size, wants, plan, plan->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    /*
     * NumPy always writes them. Without one, damage to an array would go unnoticed, and the user should know
     * that.
     */
    if (zip.without_crcs) {
        status = coffer__import_plan_put_finding(plan, COFFER_WEIGHT_NOTE, 0, zip.directory, "",
                                                 "the archive records no CRC of any member", "", 0, err);
    }
    if (status == COFFER_OK) {
        status = npz_put_members(&file, &zip, err);
    }
    coffer__zip_free(&zip);
    return status;
}

const coffer__reader coffer__reader_npz = { "npz", "an archive of NumPy arrays", npz_sniff, npz_read_file };
