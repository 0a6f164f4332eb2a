/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of NumPy. An array is a header and its elements:
 *
 *    0  93 4e 55 4d 50 59 ("\x93NUMPY"), version 1 0
 *    8  u16 bytes of what follows
 *   10  a dict of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *       spaces and a newline, up to a multiple of 64
 *
 * A .npy file is one array; a .npz file an archive of them, called like the tensors with .npy after it.
 */
#include "export.h"

#include "dtype.h"
#include "error.h"
#include "npy_header.h"
#include "text.h"
#include "zip.h"
#include "zip_write.h"

#include <string.h>

#define NPY_WRITE_ALIGNMENT 64u
#define NPY_WRITE_START 10u /* bytes before the dict */
#define NPY_WRITE_RANK 64u  /* dimensions that NumPy has at most */

/* What NumPy calls a dtype, "<f4"; false when it has no name for it. NumPy has no bfloat16: it is two bytes without a
   type, as NumPy itself and others write it. */
static bool npy_write_type(coffer_dtype dtype, char type[4])
{
    static const char letters[] = {
        [COFFER_KIND_BOOL] = 'b',  [COFFER_KIND_UNSIGNED] = 'u', [COFFER_KIND_SIGNED] = 'i',
        [COFFER_KIND_FLOAT] = 'f', [COFFER_KIND_COMPLEX] = 'c',
    };
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    const bool whole = info->bits >= 8 && info->kind < sizeof letters;
    type[0] = info->bits == 8 && info->kind != COFFER_KIND_FLOAT ? '|' : '<';
    type[1] = whole ? letters[info->kind] : '?';
    type[2] = (char)('0' + info->bits / 8);
    type[3] = '\0';
    if (dtype == COFFER_BF16) {
        type[1] = 'V';
    }
    /* One byte of float is a name for one of many dtypes only. */
    return whole && coffer__element_facts_of(coffer__numpy_element(type + 1, 2))->dtype == dtype;
}

/* The shape as a tuple of Python: (), (2,), (2, 3). `last` takes the place of the last dimension. */
static void npy_write_shape(coffer__writing *out, const coffer_tensor *tensor, uint64_t last)
{
    char digits[20];
    coffer__write_text(out, "(");
    for (size_t i = 0; i < tensor->rank; i++) {
        const uint64_t size = i + 1 == tensor->rank ? last : tensor->shape[i];
        coffer__write_text(out, i > 0 ? ", " : "");
        coffer__write(out, digits, coffer__write_u64(digits, size));
    }
    coffer__write_text(out, tensor->rank == 1 ? ",)" : ")");
}

/* The newline ends the header where the elements begin, at a multiple of 64, so that they can be
   mapped. */
static void npy_write_header(coffer__writing *out, const char *type, const coffer_tensor *tensor, uint64_t last)
{
    const size_t start = out->used;
    coffer__write(out, "\x93NUMPY\1\0\0\0", NPY_WRITE_START);
    coffer__write_text(out, "{'descr': '");
    coffer__write_text(out, type);
    coffer__write_text(out, "', 'fortran_order': False, 'shape': ");
    npy_write_shape(out, tensor, last);
    coffer__write_text(out, ", }");
    const size_t spaces = (NPY_WRITE_ALIGNMENT - (out->used - start + 1) % NPY_WRITE_ALIGNMENT) % NPY_WRITE_ALIGNMENT;
    char *padding = coffer__write_space(out, spaces + 1);
    /* 64 dimensions of 20 digits are below 2 KiB, so two bytes hold the size, and version 1.0 does. */
    if (padding != NULL) {
        const size_t size = out->used - start - NPY_WRITE_START;
        memset(padding, ' ', spaces);
        padding[spaces] = '\n';
        out->text[start + 8] = (char)(uint8_t)size;
        out->text[start + 9] = (char)(uint8_t)(size >> 8);
    }
}

/* The header of a tensor's array. What NumPy has no type for becomes bytes, if that is wanted. */
static coffer_status npy_write_array(coffer__writing *out, const coffer_tensor *tensor, coffer_dtype bytes_as,
                                     coffer_error *err)
{
    char type[4];
    if (tensor->rank > NPY_WRITE_RANK) {
        coffer__fail(err, COFFER_ERR_NO_EQUIVALENT, "tensor %q has %u dimensions, and NumPy has at most %u",
                     tensor->name, (size_t)tensor->name_len, (uint64_t)tensor->rank, (uint64_t)NPY_WRITE_RANK);
        return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, tensor->name, tensor->name_len);
    }
    uint64_t last = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 0;
    if (!npy_write_type(tensor->dtype, type) &&
        (bytes_as == COFFER_UNKNOWN_DTYPE || !coffer__export_row_bytes(tensor, &last) ||
         !npy_write_type(bytes_as, type))) {
        return coffer__export_lacks(tensor, "NumPy", err);
    }
    npy_write_header(out, type, tensor, last);
    return COFFER_OK;
}

/* ---- .npy -------------------------------------------------------------------------------------------------------- */

/* The layout has one leaf. Without memory its text has failed, which coffer__layout_end_leaf
   reports. */
static coffer_status npy_write(const coffer__export_content *content, coffer__layout *layout, coffer_error *err)
{
    const coffer_tensor *tensor = content->entries[0].tensor;
    const coffer_status status = npy_write_array(&layout->text, tensor, content->bytes_as, err);
    return status == COFFER_OK ? coffer__layout_end_leaf(layout, tensor, err) : status;
}

const coffer__export_kind coffer__export_npy = {
    .name = "npy",
    .endings = { ".npy" },
    .one = true,
    .lay_out = npy_write,
};

/* ---- .npz -------------------------------------------------------------------------------------------------------- */

/* NumPy gives an array both by its member's name and by that without the ending: so of the tensors "w" and "w.npy" it
   would give the first for both names. */
static coffer_status npz_write_check_clash(const coffer__export_content *content, const coffer__export_entry *entry,
                                           coffer_error *err)
{
    const bool ends = entry->name_len >= 4 && memcmp(entry->name + entry->name_len - 4, ".npy", 4) == 0;
    if (!ends || coffer_find(content->model, entry->name, entry->name_len - 4) == NULL) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_NAME,
                 "NumPy would take tensor %q for the one of that name without .npy, which there is, too", entry->name,
                 entry->name_len);
    return coffer__fail_tensor(err, COFFER_ERR_NAME, entry->name, entry->name_len);
}

/* The name of a tensor's member, one that unpacks below a folder. A tensor can be called anything,
   "../../x" for one; a program that unpacks such an archive would write there. */
static coffer_status npz_write_name(coffer__writing *name, const coffer__export_entry *entry, coffer_error *err)
{
    name->used = 0;
    coffer__write(name, entry->name, entry->name_len);
    coffer__write_text(name, ".npy");
    if (name->failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of an array");
    }
    if (coffer__zip_is_plain_name(name->text, name->used)) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_NAME,
                 "tensor %q cannot be a member of an archive: its name has a backslash, a NUL or \"..\", or begins "
                 "with a slash",
                 entry->name, entry->name_len);
    return coffer__fail_tensor(err, COFFER_ERR_NAME, entry->name, entry->name_len);
}

/* One array of the archive. `name` and `header` are used again for each member, so they grow a few
   times in all. */
static coffer_status npz_write_member(const coffer__export_content *content, const coffer__export_entry *entry,
                                      coffer__zip_writing *zip, coffer__writing *name, coffer__writing *header,
                                      coffer_error *err)
{
    header->used = 0;
    coffer_status status = npz_write_check_clash(content, entry, err);
    if (status == COFFER_OK) {
        status = npz_write_name(name, entry, err);
    }
    if (status == COFFER_OK) {
        status = npy_write_array(header, entry->tensor, content->bytes_as, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (header->failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the header of an array");
    }
    return coffer__zip_write_member(zip, name->text, name->used, header->text, header->used, entry->tensor, err);
}

/* An archive cannot say that two members have the same bytes, so tied tensors are written in full. */
static coffer_status npz_write(const coffer__export_content *content, coffer__layout *layout, coffer_error *err)
{
    const coffer_allocator *allocator = layout->text.allocator;
    coffer__zip_writing zip = { .layout = layout, .directory = { .allocator = allocator }, .crc32 = content->crc32 };
    coffer__writing name = { .allocator = allocator };
    coffer__writing header = { .allocator = allocator };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < content->count && status == COFFER_OK; i++) {
        status = npz_write_member(content, &content->entries[i], &zip, &name, &header, err);
    }
    if (status == COFFER_OK) {
        status = coffer__zip_write_end(&zip, err);
    }
    coffer__writing_free(&header);
    coffer__writing_free(&name);
    coffer__zip_writing_free(&zip);
    return status;
}

const coffer__export_kind coffer__export_npz = {
    .name = "npz",
    .endings = { ".npz" },
    .has_crcs = true,
    .lay_out = npz_write,
};
