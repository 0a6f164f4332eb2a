/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs would run of an HDF5 file: see hdf5_scan.h.
 *
 * All objects are looked at, and all attributes of each. Numbers of more than a byte are passed over, since nobody takes them
 * for anything else.
 */
#include "hdf5_scan.h"

#include "alloc.h"
#include "error.h"
#include "hdf5.h"
#include "pickle_scan.h"
#include "scan_code.h"
#include "text.h"

#include <string.h>

#define HDF5_SCAN_MAX_TEXT ((uint64_t)64 << 20)

typedef struct hdf5_scan {
    const coffer__reader_file *file;
    coffer__hdf5 h;
} hdf5_scan;

static coffer_status hdf5_scan_put(const hdf5_scan *scan, coffer_weight weight, uint64_t at, const char *member,
                                   const char *sentence, const char *subject, size_t subject_len, coffer_error *err)
{
    return coffer__import_plan_put_finding(scan->file->plan, weight, scan->file->file, at, member, sentence, subject,
                                           subject_len, err);
}

/* A soft link is another name of what is in the file, and that is looked at under its own. */
static coffer_status hdf5_scan_link(void *ctx, const char *what, const char *name, size_t name_len, uint64_t at,
                                    coffer_error *err)
{
    return coffer__same_text(what, "a soft link")
               ? COFFER_OK
               : hdf5_scan_put(ctx, COFFER_WEIGHT_DANGER, at, "", "%q leads to another file, which a loader would open",
                               name, name_len, err);
}

/* Bytes that may be a pickle. */
static coffer_status hdf5_scan_bytes(const hdf5_scan *scan, const char *member, const uint8_t *bytes, uint64_t at,
                                     uint64_t size, coffer_error *err)
{
    const coffer__scan_range range = {
        .member = member, .bytes = bytes, .at = at, .size = size, .expected = 1, .unsure = true
    };
    return coffer__scan_pickles(scan->file, &range, NULL, err);
}

/* A text may be a pickle, and many words begin as one. PyTables unpickles what ends as one. */
static coffer_status hdf5_scan_text(const hdf5_scan *scan, const char *member, const uint8_t *text, uint64_t at,
                                    size_t len, coffer_error *err)
{
    const bool ends = len > 0 && (text[0] == 0x80 || text[len - 1] == '.');
    return ends ? hdf5_scan_bytes(scan, member, text, at, len, err) : COFFER_OK;
}

/* A text of a length of its own, with the NULs that may be within it. */
static coffer_status hdf5_scan_fixed(hdf5_scan *scan, const char *member, uint64_t at, uint64_t size, coffer_error *err)
{
    const coffer_allocator *allocator = scan->h.allocator;
    if (size > HDF5_SCAN_MAX_TEXT) {
        return hdf5_scan_put(scan, COFFER_WEIGHT_OPAQUE, at, member, "a text is too large, and was not looked at", "",
                             0, err);
    }
    uint8_t *text = coffer__alloc_array(allocator, (size_t)size, 1, err);
    coffer_status status = text == NULL ? COFFER_ERR_MEMORY : coffer__hdf5_read(&scan->h, at, text, (size_t)size, err);
    size_t len = status == COFFER_OK ? (size_t)size : 0;
    while (len > 0 && text[len - 1] == 0) {
        len--;
    }
    status = status == COFFER_OK ? hdf5_scan_text(scan, member, text, at, len, err) : status;
    coffer__free_array(allocator, text, (size_t)size, 1);
    return status;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* Each text may be a configuration. */
static coffer_status hdf5_scan_texts(hdf5_scan *scan, const coffer__hdf5_attribute *attribute, coffer_error *err)
{
    coffer__hdf5_texts texts = { .found = false };
    coffer_status status = coffer__hdf5_attribute_texts(&scan->h, attribute, &texts, err);
    for (size_t i = 0; i < texts.count && status == COFFER_OK; i++) {
        size_t len = 0;
        const uint8_t *text = (const uint8_t *)coffer__hdf5_text(&texts, i, &len);
        status = coffer__scan_text(scan->file, attribute->name, attribute->at, "", 0, text, len, err);
        if (status == COFFER_OK) {
            status = hdf5_scan_text(scan, attribute->name, text, attribute->at, len, err);
        }
    }
    coffer__hdf5_texts_free(&scan->h, &texts);
    return status;
}

/* Whether elements are such that bytes of anything can be kept in them. */
static bool hdf5_scan_is_bytes(const coffer__hdf5_type *type)
{
    return (type->class_ == COFFER__HDF5_NUMBER && type->dtype != COFFER_BOOL && type->size == 1) ||
           (type->class_ == COFFER__HDF5_OTHER && coffer__same_text(type->what, "opaque bytes"));
}

static coffer_status hdf5_scan_attribute(void *ctx, const coffer__hdf5_attribute *attribute, coffer_error *err)
{
    hdf5_scan *scan = ctx;
    const bool fixed = attribute->type.class_ == COFFER__HDF5_TEXT;
    if (attribute->type.any_bytes) {
        return hdf5_scan_put(
            scan, COFFER_WEIGHT_OPAQUE, attribute->at, attribute->name,
            "the attribute %q has lists of bytes, which were not looked at: some programs unpickle such",
            attribute->name, coffer__text_len(attribute->name), err);
    }
    if (hdf5_scan_is_bytes(&attribute->type)) {
        return hdf5_scan_bytes(scan, attribute->name, NULL, attribute->at, attribute->size, err);
    }
    const coffer_status status =
        fixed || attribute->type.class_ == COFFER__HDF5_TEXT_ANY ? hdf5_scan_texts(scan, attribute, err) : COFFER_OK;
    return status == COFFER_OK && fixed ? hdf5_scan_fixed(scan, attribute->name, attribute->at, attribute->size, err)
                                        : status;
}

/* ---- datasets ---------------------------------------------------------------------------------------------------- */

/* Bytes that lie one after another. */
static coffer_status hdf5_scan_plain(hdf5_scan *scan, const coffer__hdf5_node *node, const coffer__hdf5_object *object,
                                     coffer_error *err)
{
    if (object->at > scan->h.size || object->bytes > scan->h.size - object->at) {
        return coffer__hdf5_fail(&scan->h, node->address, "a dataset reaches beyond its end", err);
    }
    if (object->bytes == 0) {
        return COFFER_OK;
    }
    return object->type.class_ == COFFER__HDF5_TEXT ? hdf5_scan_fixed(scan, "", object->at, object->bytes, err)
                                                    : hdf5_scan_bytes(scan, "", NULL, object->at, object->bytes, err);
}

/* Texts in lists of any length are in heaps of their own, and no program is known that unpickles those. */
static coffer_status hdf5_scan_dataset(hdf5_scan *scan, const coffer__hdf5_node *node,
                                       const coffer__hdf5_object *object, coffer_error *err)
{
    const char *path = coffer__hdf5_path(&scan->h, node);
    /* A datatype that was given a name has no data. */
    if (!object->has_layout || !object->has_type || !object->has_space) {
        return object->has_layout
                   ? coffer__hdf5_fail(&scan->h, node->address, "a dataset has no dataspace or datatype", err)
                   : COFFER_OK;
    }
    const bool bytes = hdf5_scan_is_bytes(&object->type) || object->type.class_ == COFFER__HDF5_TEXT;
    if (object->elsewhere) {
        return hdf5_scan_put(scan, COFFER_WEIGHT_DANGER, node->address, "",
                             "the data of %q are in another file, which a loader would read", path, node->path_len,
                             err);
    }
    if (object->type.any_bytes || (bytes && object->layout == COFFER__HDF5_CHUNKED)) {
        return hdf5_scan_put(scan, COFFER_WEIGHT_OPAQUE, node->address, "",
                             "%q has lists or chunks of bytes, which were not looked at: some programs unpickle such",
                             path, node->path_len, err);
    }
    return bytes && object->at != COFFER__HDF5_NOWHERE ? hdf5_scan_plain(scan, node, object, err) : COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status hdf5_scan_objects(hdf5_scan *scan, coffer_error *err)
{
    coffer__hdf5_object object = { .at = 0 };
    coffer_status status = coffer__hdf5_walk(&scan->h, err);
    for (size_t i = 0; i < scan->h.count && status == COFFER_OK; i++) {
        const coffer__hdf5_node node = scan->h.nodes[i];
        status = coffer__hdf5_attributes(&scan->h, node.address, hdf5_scan_attribute, scan, err);
        if (status == COFFER_OK && !node.is_group) {
            status = coffer__hdf5_object_read(&scan->h, node.address, &object, err);
            status = status == COFFER_OK ? hdf5_scan_dataset(scan, &node, &object, err) : status;
        }
    }
    return status;
}

/* What is not read of HDF5 may have anything in it. */
static coffer_status hdf5_scan_put_rest(const hdf5_scan *scan, const coffer_error *trouble, coffer_error *err)
{
    char message[sizeof trouble->message];
    memcpy(message, trouble->message, sizeof message);
    return hdf5_scan_put(scan, COFFER_WEIGHT_OPAQUE, trouble->offset, "", "the rest was not looked at: %p", message,
                         coffer__text_len(message), err);
}

coffer_status coffer__hdf5_scan(const coffer__reader_file *file, coffer_error *err)
{
    const size_t first = file->plan->findings.count;
    hdf5_scan scan = { .file = file };
    coffer_error trouble;
    coffer__error_clear(&trouble);
    coffer_status status =
        coffer__hdf5_open(&scan.h, file->input, file->file, file->size, 0, file->size, file->plan->allocator, &trouble);
    scan.h.on_link = hdf5_scan_link;
    scan.h.on_link_ctx = &scan;
    if (status == COFFER_OK) {
        status = hdf5_scan_objects(&scan, &trouble);
    }
    coffer__hdf5_free(&scan.h);
    if (status == COFFER_ERR_UNSUPPORTED) {
        return hdf5_scan_put_rest(&scan, &trouble, err);
    }
    if (status != COFFER_OK) {
        if (err != NULL) {
            *err = trouble;
        }
        return status;
    }
    return file->plan->findings.count == first
               ? hdf5_scan_put(&scan, COFFER_WEIGHT_NOTE, UINT64_MAX, "",
                               "all attributes were looked at: none has a configuration of Keras", "", 0, err)
               : COFFER_OK;
}
