/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's arrays: files of one (.npy), and members of archives. npz.c reads whole archives.
 *
 * The bytes of an array are a storage: of a stored one from after the header on, so that they can be moved; of one that
 * is deflated with the header, since it has to be inflated from its beginning.
 *
 * Elements are not read here, only headers. That shape and type make as many bytes as there are is checked for each
 * array before its row is put, so whoever writes the rows needs no check of its own.
 */
#include "numpy.h"
#include "alloc.h"
#include "checked.h"
#include "crc32.h"
#include "dtype.h"
#include "error.h"
#include "npy_header.h"
#include "paths.h"
#include "pickle_scan.h"
#include "readers.h"
#include "text.h"
#include "zip.h"

#include <string.h>

#define NUMPY_USUAL_HEADER 256                 /* bytes: most are 128 */
#define NUMPY_MAX_OBJECTS ((uint64_t)64 << 20) /* bytes of an array of objects that are inflated for a scan */

/* What is being read. */
typedef struct numpy_reading {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    uint32_t file;      /* the number of the file */
    uint64_t file_size; /* bytes of the file */
    coffer_error *err;
} numpy_reading;

/* An array, and the bytes of the file or member that it is. */
typedef struct numpy_array {
    const char *name;
    size_t name_len;
    const coffer__zip *zip;     /* NULL: the array is a file of its own */
    coffer__zip_member *member; /* of the archive */
    uint64_t size;              /* header and elements */
    coffer__npy npy;
    uint8_t head[COFFER__NPY_MAX];
} numpy_array;

/* ---- headers ------------------------------------------------------------------------------------------------------- */

/* Places within a header are counted from its first byte, which in an archive is that of the member's data.
   For a deflated member that is only near. */
static coffer_status numpy_fail(const numpy_reading *in, const numpy_array *array, coffer_status status, uint64_t at,
                                const char *what)
{
    const uint64_t begin = array->member != NULL ? array->member->at : 0;
    coffer__fail_at(in->err, status, begin + at, "the array %q cannot be converted: %s", array->name, array->name_len,
                    what);
    return coffer__fail_tensor(in->err, status, array->name, array->name_len);
}

/* The beginning of the array, from the file or from its member. `size` is at most COFFER__NPY_MAX, the space
   in `head`, because coffer__npy_read asks for no more. */
static coffer_status numpy_load(const numpy_reading *in, numpy_array *array, size_t size)
{
    return array->member != NULL
               ? coffer__zip_load(array->zip, in->input, array->member, array->head, size, in->err)
               : coffer__input_files_read(in->input, 0, in->input->size, 0, array->head, size, in->err);
}

/* Reads as much of a header as they usually have, and all of it when it has more. */
static coffer_status numpy_read_header(const numpy_reading *in, numpy_array *array)
{
    /* 256 bytes are enough for nearly all headers, so most arrays cost one read. */
    size_t size = array->size < NUMPY_USUAL_HEADER ? (size_t)array->size : NUMPY_USUAL_HEADER;
    coffer_status status = numpy_load(in, array, size);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__npy_read(&array->npy, array->head, size);
    /* When the header says that it is longer than the array is, reading on makes no sense: it is cut. */
    if (status == COFFER_NEED_MORE && array->npy.size <= array->size) {
        size = array->npy.size;
        status = numpy_load(in, array, size);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__npy_read(&array->npy, array->head, size);
    }
    /* Still: the file ends before its header does. */
    if (status == COFFER_NEED_MORE) {
        return numpy_fail(in, array, COFFER_ERR_ARRAY, array->size, "it ends within its header; get the file again");
    }
    return status == COFFER_OK ? COFFER_OK
                               : numpy_fail(in, array, COFFER_ERR_ARRAY, array->npy.fault_at, array->npy.fault);
}

/* ---- storages ------------------------------------------------------------------------------------------------------ */

/*
 * The CRC of the elements alone, from that of the member. A CRC is linear but for a constant: that of two texts
 * together is that of the first and so many zeros, that of so many zeros alone, and that of the second, exclusively
 * ored.
 */
static uint32_t numpy_crc(const numpy_array *array)
{
    coffer__crc32 crc32;
    const uint64_t size = array->size - array->npy.size;
    coffer__crc32_open(&crc32, true);
    const uint32_t head = coffer__crc32_update(&crc32, 0, array->head, array->npy.size);
    const uint32_t shift = coffer__crc32_zeros(&crc32, head, size) ^ coffer__crc32_zeros(&crc32, 0, size);
    coffer__crc32_close(&crc32);
    return array->member->crc ^ shift;
}

/* Puts the storage; *offset is that of the elements in it. */
static coffer_status numpy_put_storage(const numpy_reading *in, const numpy_array *array, uint32_t *storage,
                                       uint64_t *offset)
{
    const coffer__zip_member *member = array->member;
    /* Of a deflated member the storage begins with the header, and the rows' offset steps over it. */
    const bool inflated = member != NULL && member->coding == COFFER__CODING_DEFLATED;
    const uint64_t skipped = inflated ? 0 : array->npy.size;
    coffer__import_plan_piece piece = {
        .coding = inflated ? COFFER__CODING_DEFLATED : COFFER__CODING_STORED,
        .offset = (member != NULL ? member->at : 0) + skipped,
        .size = array->size - skipped,
    };
    /*
     * Of a stored member the header is not part of the piece, so its bytes have a CRC of their own (numpy_crc),
     * and the system can copy them straight into the new file.
     */
    piece.stored_size = member != NULL && inflated ? member->stored_size : piece.size;
    if (member != NULL && !array->zip->without_crcs) {
        piece.crc_kind = COFFER__CRC_32;
        piece.crc = inflated ? member->crc : numpy_crc(array);
    }
    *offset = array->npy.size - skipped;
    uint32_t name = 0;
    coffer_status status = coffer__import_plan_put_text(in->plan, array->name, array->name_len, &name, in->err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_piece(in->plan, &piece, in->err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__import_plan_put_storage(in->plan, 1, name, storage, in->err);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* Bytes of the elements. False: the shape's product is beyond 2^64. */
static bool numpy_size(const coffer__npy *npy, uint64_t *size)
{
    *size = coffer__element_facts_of(npy->element)->size;
    /* An empty array may have sizes whose product is beyond 2^64, so it is recognised before anything is
       multiplied. */
    for (size_t i = 0; i < npy->rank; i++) {
        if (npy->shape[i] == 0) {
            *size = 0;
            return true;
        }
    }
    for (size_t i = 0; i < npy->rank; i++) {
        if (!coffer__mul_u64(*size, npy->shape[i], size)) {
            return false;
        }
    }
    return true;
}

/* Strides of elements one after another, the last dimension the fastest or the first. None overflows: the product of the
   shape does not, or it is of an empty array, whose strides mean nothing. */
static void numpy_set_dimensions(const coffer__npy *npy, uint64_t size, coffer__import_plan_dimension *dimensions)
{
    uint64_t stride = coffer__element_facts_of(npy->element)->size;
    for (size_t i = 0; i < npy->rank; i++) {
        const size_t place = npy->fortran ? i : npy->rank - 1 - i;
        const uint64_t count = npy->shape[place];
        const bool stepped = size > 0 && count > 1;
        dimensions[place] =
            (coffer__import_plan_dimension){ .size = count, .count = count, .stride = stepped ? (int64_t)stride : 0 };
        stride = stepped ? stride * count : stride;
    }
}

/* Sets dtype and item size, and why there is none. Complex numbers of 16 bytes may be asked for as pairs. */
static const char *numpy_set_dtype(const numpy_reading *in, coffer__npy *npy, coffer__import_plan_row *row,
                                   coffer__import_plan_dimension *dimensions)
{
    const coffer__element_facts *facts = coffer__element_facts_of(npy->element);
    /*
     * A complex number of 16 bytes is two doubles one after the other, so a last dimension of 2 is all that it
     * takes; no byte moves.
     */
    const bool as_pairs = npy->element == COFFER__ELEMENT_C128 && in->wants->complex128_as_f64;
    row->dtype = npy->void_byte ? in->wants->bytes_as : facts->dtype;
    row->item_size = facts->size;
    row->swap = npy->swapped && facts->unit > 1 ? facts->unit : 0;
    /* One byte without a type may be any dtype of 8 bits; only the user can know which. */
    if (npy->void_byte) {
        return row->dtype != COFFER_UNKNOWN_DTYPE && coffer__dtype_info_of(row->dtype)->bits == 8
                   ? NULL
                   : "its elements are bytes without a type, which --bytes-as can name";
    }
    if (as_pairs && row->rank < COFFER__PLAN_MAX_RANK) {
        dimensions[row->rank++] = (coffer__import_plan_dimension){ .size = 2, .count = 2, .stride = 8 };
        row->dtype = COFFER_F64;
        row->item_size = 8;
    }
    return row->dtype == COFFER_UNKNOWN_DTYPE ? "it is of complex128, which safetensors does not have" : NULL;
}

/* An array that cannot be expressed: an error, or a row of bytes that is skipped. */
static coffer_status numpy_skip(const numpy_reading *in, const numpy_array *array, coffer__import_plan_row *row,
                                uint64_t offset, const char *why)
{
    if (!in->wants->skip_unsupported) {
        return numpy_fail(in, array, COFFER_ERR_NO_EQUIVALENT, 0, why);
    }
    /* A row of all its bytes, so that the report accounts for them though nobody knows what they are. */
    const uint64_t size = array->size - array->npy.size;
    const coffer__import_plan_dimension all = { .size = size, .count = size, .stride = size > 1 };
    const coffer_status status =
        coffer__import_plan_put_text(in->plan, why, coffer__text_len(why), &row->reason, in->err);
    row->fate = COFFER_FATE_SKIPPED;
    row->dtype = COFFER_UNKNOWN_DTYPE;
    row->rank = 1;
    row->item_size = 1;
    row->swap = 0;
    row->offset = offset;
    return status == COFFER_OK ? coffer__import_plan_put_row(in->plan, row, &all, in->err) : status;
}

/* A finding about one array, at its member, or at the file's first byte. */
static coffer_status numpy_put_finding(const numpy_reading *in, const numpy_array *array, coffer_weight weight,
                                       const char *sentence)
{
    const coffer__zip_member *member = array->member;
    return coffer__import_plan_put_finding(in->plan, weight, in->file, member != NULL ? member->head : 0,
                                           member != NULL ? member->name : "", sentence, array->name, array->name_len,
                                           in->err);
}

/* Storage and name come first, since also an array that is skipped has them. */
static coffer_status numpy_put_row(const numpy_reading *in, numpy_array *array)
{
    coffer__npy *npy = &array->npy;
    coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
    coffer__import_plan_row row = { .rank = (uint32_t)npy->rank };
    uint64_t size = 0;
    uint64_t offset = 0;
    coffer_status status = numpy_put_storage(in, array, &row.storage, &offset);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(in->plan, array->name, array->name_len, &row.name, in->err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    row.offset = offset;
    if (npy->lack != NULL) {
        return numpy_skip(in, array, &row, offset, npy->lack);
    }
    /* Exactly as many: NumPy would ignore bytes after the array, and bytes that nobody reads can hide
       anything. */
    if (!numpy_size(npy, &size) || size != array->size - npy->size) {
        status = numpy_fail(in, array, COFFER_ERR_ARRAY, npy->size,
                            size < array->size - npy->size
                                ? "its shape and type make another number of bytes than there are"
                                : "its shape and type make another number of bytes than there are; get the file again");
        return coffer__fail_sizes(in->err, status, size, array->size - npy->size);
    }
    numpy_set_dimensions(npy, size, dimensions);
    const char *why = numpy_set_dtype(in, npy, &row, dimensions);
    if (why != NULL) {
        return numpy_skip(in, array, &row, offset, why);
    }
    status = npy->void_bfloat16
                 ? numpy_put_finding(in, array, COFFER_WEIGHT_NOTE,
                                     "the array %q has elements of two bytes without a type: that is how bfloat16 is "
                                     "written, and is taken for it")
                 : COFFER_OK;
    return status == COFFER_OK ? coffer__import_plan_put_row(in->plan, &row, dimensions, in->err) : status;
}

/* Whether a failure is about what the file says, and not about reading it. */
static bool numpy_is_fault(coffer_status status)
{
    return status == COFFER_ERR_ARRAY || status == COFFER_ERR_DAMAGED || status == COFFER_ERR_CHECKSUM;
}

/* Looks at the pickle that the elements of an array of objects are. What is deflated is inflated for that, up to a bound. */
static coffer_status numpy_scan_objects(const numpy_reading *in, const numpy_array *array)
{
    const coffer__reader_file file = {
        .input = in->input, .wants = in->wants, .plan = in->plan, .file = in->file, .size = in->file_size
    };
    coffer__zip_member *member = array->member;
    coffer__scan_range range = { .member = member != NULL ? member->name : "", .expected = 1 };
    /* The pickle begins where the elements would. Within an inflated member the place is only near, as for all
       that is packed. */
    range.at = (member != NULL ? member->at : 0) + array->npy.size;
    range.size = array->size - array->npy.size;
    if (member == NULL || member->coding == COFFER__CODING_STORED) {
        return coffer__scan_pickles(&file, &range, NULL, in->err);
    }
    if (array->size > NUMPY_MAX_OBJECTS) {
        return numpy_put_finding(in, array, COFFER_WEIGHT_DANGER,
                                 "the array %q is a compressed pickle that is too large to look at");
    }
    uint8_t *bytes = coffer__alloc_array(in->plan->allocator, (size_t)array->size, 1, in->err);
    if (bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer__zip_load(array->zip, in->input, member, bytes, (size_t)array->size, in->err);
    if (status == COFFER_OK) {
        range.bytes = bytes + array->npy.size;
        status = coffer__scan_pickles(&file, &range, NULL, in->err);
    }
    coffer__free_array(in->plan->allocator, bytes, (size_t)array->size, 1);
    return status;
}

/* One of objects is a pickle, which NumPy loads when it is told to; and so it does with what follows an array in its file,
   when a program loads from that again. */
static coffer_status numpy_scan_elements(const numpy_reading *in, const numpy_array *array)
{
    uint64_t size = 0;
    if (array->npy.objects) {
        const coffer_status status =
            numpy_put_finding(in, array, COFFER_WEIGHT_NOTE, "the array %q is of objects: it is a pickle");
        return status == COFFER_OK ? numpy_scan_objects(in, array) : status;
    }
    const bool more = array->npy.lack == NULL && numpy_size(&array->npy, &size) && size < array->size - array->npy.size;
    return more ? numpy_put_finding(in, array, COFFER_WEIGHT_DANGER,
                                    "bytes follow the array %q, which a loader that goes on may take for a pickle")
                : COFFER_OK;
}

/* A scan puts no rows, and goes on after an array that is damaged. */
static coffer_status numpy_put_array(const numpy_reading *in, numpy_array *array)
{
    coffer_status status = numpy_read_header(in, array);
    if (!in->wants->scan) {
        return status == COFFER_OK ? numpy_put_row(in, array) : status;
    }
    status = status == COFFER_OK ? numpy_scan_elements(in, array) : status;
    return numpy_is_fault(status)
               ? numpy_put_finding(in, array, COFFER_WEIGHT_DANGER, "the array %q is damaged, or none")
               : status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The file's name without folders and ending is the tensor's. */
static void numpy_name(const coffer__input_files *input, numpy_array *array)
{
    size_t end = input->path_len;
    const size_t begin = coffer__path_name_at(input->path);
    if (end - begin > 4 && memcmp(input->path + end - 4, ".npy", 4) == 0) {
        end -= 4;
    }
    const bool good = end > begin && coffer__utf8_valid_len(input->path + begin, end - begin) == end - begin;
    array->name = good ? input->path + begin : "array";
    array->name_len = good ? end - begin : 5;
}

coffer_status coffer__numpy_put_file(const coffer__reader_file *file, uint64_t *objects, coffer_error *err)
{
    const numpy_reading in = {
        .input = file->input, .wants = file->wants, .plan = file->plan, .file_size = file->size, .err = err
    };
    numpy_array array = { .size = file->size };
    *objects = 0;
    numpy_name(file->input, &array);
    const coffer_status status = file->wants->scan ? COFFER_OK : numpy_read_header(&in, &array);
    if (status == COFFER_OK && !file->wants->scan && array.npy.objects) {
        *objects = array.npy.size;
        return COFFER_OK;
    }
    return status == COFFER_OK ? numpy_put_array(&in, &array) : status;
}

/* ---- members of archives ------------------------------------------------------------------------------------------- */

coffer_status coffer__numpy_put_member(const coffer__reader_file *file, const coffer__zip *zip,
                                       coffer__zip_member *member, coffer_error *err)
{
    const numpy_reading in = { .input = file->input,
                               .wants = file->wants,
                               .plan = file->plan,
                               .file = file->file,
                               .file_size = file->size,
                               .err = err };
    numpy_array array = { .size = 0 };
    /*
     * An array in an archive that has another ending, or none, is one to NumPy all the same: it goes by the
     * first bytes.
     */
    const bool has_ending = coffer__text_ends(member->name, member->name_len, ".npy");
    array.name = member->name;
    array.name_len = member->name_len - (has_ending ? 4 : 0);
    array.zip = zip;
    array.member = member;
    array.size = member->size;
    return numpy_put_array(&in, &array);
}
