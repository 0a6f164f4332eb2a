/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint of PyTorch, as torch.save writes one and torch.load(weights_only=True) reads it: an archive of
 *
 *   archive/data.pkl     a pickle of protocol 2: a dict from names to tensors, whose storages are named by numbers
 *   archive/byteorder    "little"
 *   archive/version      "3" and a newline
 *   archive/data/0 …     the storages, one for each tensor
 *
 * A tensor in the pickle is torch._utils._rebuild_tensor_v2(storage, offset, size, stride,
 * requires_grad, hooks), where hooks is an empty OrderedDict. The storage is a persistent id:
 * ('storage', torch.FloatStorage, '0', 'cpu', elements). Dtypes that are younger than such classes
 * have an UntypedStorage of bytes, and _rebuild_tensor_v3, whose last argument is the dtype.
 *
 * Tied names get the same storage, so that they share memory again where they are loaded.
 */
#include "export.h"

#include "dtype.h"
#include "error.h"
#include "pickle_names.h"
#include "text.h"
#include "zip_write.h"

#include <string.h>

#define TORCH_WRITE_FOLDER "archive/"

/* What is written once and then fetched by its number: texts and globals. The dtypes' follow. */
enum {
    TORCH_MEMO_STORAGE,
    TORCH_MEMO_CPU,
    TORCH_MEMO_HOOKS,
    TORCH_MEMO_V2,
    TORCH_MEMO_V3,
    TORCH_MEMO_BYTES,
    TORCH_MEMO_DTYPES
};
#define TORCH_MEMO_COUNT ((size_t)TORCH_MEMO_DTYPES + COFFER_DTYPE_COUNT + 1)

/* The pickle that is being written, and which of the shared values it has had. */
typedef struct torch_pickle {
    coffer__writing out;
    bool known[TORCH_MEMO_COUNT];
} torch_pickle;

/* ---- the opcodes that are needed --------------------------------------------------------------------------------- */

static void torch_write_op(torch_pickle *pickle, char op)
{
    coffer__write(&pickle->out, &op, 1);
}

/* In the shortest form, as Python writes it; LONG1 is signed, so a ninth byte keeps large ones positive. */
static void torch_write_int(torch_pickle *pickle, uint64_t value)
{
    if (value <= UINT8_MAX) {
        torch_write_op(pickle, 'K');
        coffer__write_le(&pickle->out, value, 1);
    } else if (value <= UINT16_MAX) {
        torch_write_op(pickle, 'M');
        coffer__write_le(&pickle->out, value, 2);
    } else if (value <= INT32_MAX) {
        torch_write_op(pickle, 'J');
        coffer__write_le(&pickle->out, value, 4);
    } else {
        torch_write_op(pickle, '\x8a');
        torch_write_op(pickle, 8);
        coffer__write_le(&pickle->out, value, 8);
    }
}

/* BINUNICODE: a length of four bytes, and UTF-8. Names of tensors are UTF-8 by the format, and
   shorter than a header, which has at most 100 MB. */
static void torch_write_text(torch_pickle *pickle, const char *text, size_t text_len)
{
    torch_write_op(pickle, 'X');
    coffer__write_le(&pickle->out, text_len, 4);
    coffer__write(&pickle->out, text, text_len);
}

/* Fetches what was written before; false when it has to be written now, and torch_remember after it. */
static bool torch_recall(torch_pickle *pickle, size_t memo)
{
    if (pickle->known[memo]) {
        torch_write_op(pickle, 'h');
        coffer__write_le(&pickle->out, memo, 1);
    }
    return pickle->known[memo];
}

/* BINPUT takes a number of one byte, of which there are enough: the enumeration has six and the
   dtypes. */
static void torch_remember(torch_pickle *pickle, size_t memo)
{
    pickle->known[memo] = true;
    torch_write_op(pickle, 'q');
    coffer__write_le(&pickle->out, memo, 1);
}

/* GLOBAL: module and name, each ended by a newline. All of them are constants of this file or of a
   table, and on the list that torch.load(weights_only=True) allows. */
static void torch_write_global(torch_pickle *pickle, size_t memo, const char *module, const char *name)
{
    if (!torch_recall(pickle, memo)) {
        torch_write_op(pickle, 'c');
        coffer__write_text(&pickle->out, module);
        torch_write_op(pickle, '\n');
        coffer__write_text(&pickle->out, name);
        torch_write_op(pickle, '\n');
        torch_remember(pickle, memo);
    }
}

/* A text that is written once. */
static void torch_write_word(torch_pickle *pickle, size_t memo, const char *word)
{
    if (!torch_recall(pickle, memo)) {
        torch_write_text(pickle, word, coffer__text_len(word));
        torch_remember(pickle, memo);
    }
}

/* ---- a tensor ---------------------------------------------------------------------------------------------------- */

/* How torch knows a tensor. */
typedef struct torch_tensor {
    const coffer_tensor *tensor;
    coffer_dtype dtype;        /* of which it is written */
    const char *storage_class; /* NULL: an UntypedStorage */
    const char *dtype_name;    /* the dtype of an UntypedStorage's tensor */
    uint64_t last;             /* the last dimension */
} torch_tensor;

/* What torch has for a dtype, by the tables that reading uses, so that what is written can be read
   again; COFFER__ELEMENT_NONE when it has nothing. */
static coffer__element torch_element(coffer_dtype dtype)
{
    for (int element = COFFER__ELEMENT_NONE + 1; element <= COFFER__ELEMENT_Q32; element++) {
        if (coffer__element_facts_of((coffer__element)element)->dtype == dtype) {
            return (coffer__element)element;
        }
    }
    return COFFER__ELEMENT_NONE;
}

/* Two elements of four bits are one of torch's, so the last dimension is half as long. */
static coffer_status torch_describe(torch_tensor *described, const coffer_tensor *tensor, coffer_dtype bytes_as,
                                    coffer_error *err)
{
    *described = (torch_tensor){ .tensor = tensor, .dtype = tensor->dtype };
    coffer__element element = torch_element(tensor->dtype);
    if (element == COFFER__ELEMENT_NONE && bytes_as != COFFER_UNKNOWN_DTYPE) {
        described->dtype = bytes_as;
        element = torch_element(bytes_as);
    }
    described->dtype_name = coffer__element_facts_of(element)->name;
    described->storage_class = coffer__known_storage(element);
    if (element == COFFER__ELEMENT_NONE || !coffer__export_row_bytes(tensor, &described->last)) {
        return coffer__export_lacks(tensor, "torch", err);
    }
    /* Only a tensor without elements can have such a dimension; torch counts with 64 bits and a
       sign. */
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] > INT64_MAX) {
            return coffer__export_lacks(tensor, "torch", err);
        }
    }
    return COFFER_OK;
}

/* The dimension as it is written: the last one may count bytes, or pairs. */
static uint64_t torch_dimension(const torch_tensor *described, size_t i)
{
    return i + 1 == described->tensor->rank ? described->last : described->tensor->shape[i];
}

/* A mark, and TUPLE, which takes everything since the mark: one way for tuples of any length. */
static void torch_begin_tuple(torch_pickle *pickle)
{
    torch_write_op(pickle, '(');
}

static void torch_end_tuple(torch_pickle *pickle)
{
    torch_write_op(pickle, 't');
}

static void torch_write_sizes(torch_pickle *pickle, const torch_tensor *described)
{
    torch_begin_tuple(pickle);
    for (size_t i = 0; i < described->tensor->rank; i++) {
        torch_write_int(pickle, torch_dimension(described, i));
    }
    torch_end_tuple(pickle);
}

/*
 * A stride is the product of the dimensions after it, where those of size 0 count as 1, as torch has it. Only in a
 * tensor without elements can the product be too large; then strides mean nothing.
 */
static void torch_write_strides(torch_pickle *pickle, const torch_tensor *described)
{
    const size_t rank = described->tensor->rank;
    torch_begin_tuple(pickle);
    for (size_t i = 0; i < rank; i++) {
        uint64_t stride = 1;
        for (size_t k = i + 1; k < rank; k++) {
            const uint64_t size = torch_dimension(described, k);
            if (!coffer__mul_u64(stride, size > 0 ? size : 1, &stride) || stride > INT64_MAX) {
                stride = 1;
                break;
            }
        }
        torch_write_int(pickle, stride);
    }
    torch_end_tuple(pickle);
}

/* The persistent id, which torch.load resolves to the bytes of archive/data/NUMBER. `number` is
   that of the tensor that the storage belongs to. A typed storage counts elements, an untyped one
   bytes. */
static void torch_write_storage(torch_pickle *pickle, const torch_tensor *described, size_t number)
{
    char digits[20];
    const uint64_t size = described->tensor->size;
    const bool typed = described->storage_class != NULL;
    torch_begin_tuple(pickle);
    torch_write_word(pickle, TORCH_MEMO_STORAGE, "storage");
    if (typed) {
        torch_write_global(pickle, TORCH_MEMO_DTYPES + (size_t)described->dtype, "torch", described->storage_class);
    } else {
        torch_write_global(pickle, TORCH_MEMO_BYTES, "torch.storage", "UntypedStorage");
    }
    torch_write_text(pickle, digits, coffer__write_u64(digits, number));
    torch_write_word(pickle, TORCH_MEMO_CPU, "cpu");
    torch_write_int(pickle, typed ? size / (coffer__dtype_info_of(described->dtype)->bits / 8) : size);
    torch_end_tuple(pickle);
    torch_write_op(pickle, 'Q');
}

/* The call that makes the tensor, with its arguments. Each tensor begins at its storage's first
   byte. */
static void torch_write_tensor(torch_pickle *pickle, const torch_tensor *described, size_t number)
{
    const bool typed = described->storage_class != NULL;
    torch_write_global(pickle, typed ? TORCH_MEMO_V2 : TORCH_MEMO_V3, "torch._utils",
                       typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    torch_begin_tuple(pickle);
    torch_write_storage(pickle, described, number);
    torch_write_int(pickle, 0);
    torch_write_sizes(pickle, described);
    torch_write_strides(pickle, described);
    torch_write_op(pickle, '\x89'); /* False: no gradient is wanted */
    torch_write_global(pickle, TORCH_MEMO_HOOKS, "collections", "OrderedDict");
    coffer__write(&pickle->out, ")R", 2);
    if (!typed) {
        torch_write_global(pickle, TORCH_MEMO_DTYPES + (size_t)described->dtype, "torch", described->dtype_name);
    }
    torch_end_tuple(pickle);
    torch_write_op(pickle, 'R');
}

/* ---- the archive ------------------------------------------------------------------------------------------------- */

/* One dict, filled by a single SETITEMS: the mark comes before the first name. Nothing is written
   to the file yet, so a dtype that torch lacks costs nothing. */
static coffer_status torch_write_dict(const coffer__export_content *content, torch_pickle *pickle, coffer_error *err)
{
    coffer__write(&pickle->out, "\x80\2}(", 4);
    for (size_t i = 0; i < content->count; i++) {
        const coffer__export_entry *entry = &content->entries[i];
        torch_tensor described;
        const coffer_status status = torch_describe(&described, entry->tensor, content->bytes_as, err);
        if (status != COFFER_OK) {
            return status;
        }
        torch_write_text(pickle, entry->name, entry->name_len);
        torch_write_tensor(pickle, &described, entry->kept);
    }
    coffer__write(&pickle->out, "u.", 2);
    return pickle->out.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the pickle of a checkpoint")
                              : COFFER_OK;
}

/* A member that is text only. */
static coffer_status torch_write_text_member(coffer__zip_writing *zip, const char *name, const char *text,
                                             size_t text_len, coffer_error *err)
{
    return coffer__zip_write_member(zip, name, coffer__text_len(name), text, text_len, NULL, err);
}

/* The storages, each called as its number. */
static coffer_status torch_write_storages(const coffer__export_content *content, coffer__zip_writing *zip,
                                          coffer_error *err)
{
    static const char folder[] = TORCH_WRITE_FOLDER "data/";
    char name[sizeof folder + 20];
    memcpy(name, folder, sizeof folder);
    for (size_t i = 0; i < content->count; i++) {
        /* A tied name has the storage of the tensor that it is the same as. */
        if (content->entries[i].kept != i) {
            continue;
        }
        const size_t name_len = sizeof folder - 1 + coffer__write_u64(name + sizeof folder - 1, i);
        const coffer_status status =
            coffer__zip_write_member(zip, name, name_len, NULL, 0, content->entries[i].tensor, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return coffer__zip_write_end(zip, err);
}

/* The pickle is the first member, as in files that torch writes, and is copied into the layout's
   text; so it is freed at the end in any case. */
static coffer_status torch_write(const coffer__export_content *content, coffer__layout *layout, coffer_error *err)
{
    const coffer_allocator *allocator = layout->text.allocator;
    coffer__zip_writing zip = { .layout = layout, .directory = { .allocator = allocator }, .crc32 = content->crc32 };
    torch_pickle pickle = { .out = { .allocator = allocator } };
    coffer_status status = torch_write_dict(content, &pickle, err);
    if (status == COFFER_OK) {
        status = torch_write_text_member(&zip, TORCH_WRITE_FOLDER "data.pkl", pickle.out.text, pickle.out.used, err);
    }
    if (status == COFFER_OK) {
        status = torch_write_text_member(&zip, TORCH_WRITE_FOLDER "byteorder", "little", 6, err);
    }
    if (status == COFFER_OK) {
        status = torch_write_text_member(&zip, TORCH_WRITE_FOLDER "version", "3\n", 2, err);
    }
    if (status == COFFER_OK) {
        status = torch_write_storages(content, &zip, err);
    }
    coffer__writing_free(&pickle.out);
    coffer__zip_writing_free(&zip);
    return status;
}

const coffer__export_kind coffer__export_torch = {
    .name = "pt",
    .endings = { ".pt", ".pth", ".ckpt" },
    .has_crcs = true,
    .lay_out = torch_write,
};
