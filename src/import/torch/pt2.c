/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.export.save writes (.pt2): an archive in one folder, in which weights are raw bytes, and JSON says what they
 * are. No pickle is needed.
 *
 *   FOLDER/archive_format                        "pt2"
 *   FOLDER/byteorder                             "little" or "big"
 *   FOLDER/data/weights/MODEL_weights_config.json
 *       {"config": {NAME: {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes":
 *       [{"as_int": 2}, …], "strides": […], "storage_offset": {"as_int": 0}, "layout": 7, …}, …}, …}}
 *   FOLDER/data/weights/weight_0                 a storage
 *   FOLDER/data/constants/…                      the same for tensors that are part of the program: skipped
 */
#include "alloc.h"
#include "error.h"
#include "json.h"
#include "pickle_archive.h"
#include "pickle_rows.h"
#include "pickle_views.h"
#include "readers.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* Of a file that says what weights are. */
#define PT2_MAX_JSON ((uint64_t)64 << 20)
/* torch's number for tensors that are simply there. */
#define PT2_LAYOUT_STRIDED 7

typedef struct pt2_file {
    const coffer__reader_file *file;
    coffer__pickle_archive archive;
    coffer__stores stores; /* of one folder of members, by their names in it */
    uint32_t skipped;      /* why rows are skipped; 0: they are written */

    /* The JSON that is being read. Strings are unescaped into `strings`, which is as large as the text: so there is always
       space for what is left. */
    coffer__json json;
    coffer__scratch scratch;
    char *strings;
    size_t used;
    uint64_t at; /* of the text in the file */

    /* The tensor that is being read. */
    const char *path;
    size_t path_len;
    bool pickled;
    bool described;
    uint64_t dtype;
    uint64_t layout;
    size_t stride_count;
    coffer__extents extents;
    uint64_t *numbers; /* where the list that is being read goes */
    size_t *number_count;
    size_t offset_count;
} pt2_file;

/* Reads the value of one member of an object; the key is unescaped, and the text is right after its colon. */
typedef coffer_status (*pt2_member)(pt2_file *t, const char *key, size_t key_len);

/* At the place in the text where reading stopped. */
static coffer_status pt2_malformed(pt2_file *t, const char *what)
{
    return coffer__fail_at(t->json.err, COFFER_ERR_DAMAGED, t->json.origin + t->json.in.position,
                           "the description of the weights is not as PyTorch writes it: %s", what);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------ */

/* Passes over a value. At most four containers are open around it: the text, config, a weight, its tensor_meta. */
static coffer_status pt2_pass(pt2_file *t)
{
    return coffer__json_skip(&t->json, 4, &t->scratch);
}

/* Into `strings`, after all others: a text never becomes longer when it is unescaped, so the space is enough. */
static coffer_status pt2_string(pt2_file *t, const char **text, size_t *len)
{
    bool has_control = false;
    *text = t->strings + t->used;
    const coffer_status status = coffer__json_string(&t->json, t->strings + t->used, len, &has_control);
    t->used += status == COFFER_OK ? *len : 0;
    return status;
}

/* Opens an object or a list; *more: it is not empty. */
static coffer_status pt2_open(pt2_file *t, char open, uint8_t close, const char *what, bool *more)
{
    const coffer_status status = coffer__json_expect(&t->json, open, what);
    if (status != COFFER_OK) {
        return status;
    }
    *more = coffer__json_peek(&t->json) != close;
    t->json.in.position += *more ? 0 : 1;
    return COFFER_OK;
}

/* One member of an object: its key, and its value, which `member` reads. Keys stay valid meanwhile, since nothing is
   taken off `strings` before the text ends. */
static coffer_status pt2_read_member(pt2_file *t, pt2_member member)
{
    const char *key = NULL;
    size_t len = 0;
    coffer_status status = pt2_string(t, &key, &len);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__json_expect(&t->json, ':', "a colon should follow the key");
    return status == COFFER_OK ? member(t, key, len) : status;
}

/* Reads an object, whose members another function reads. What was unescaped meanwhile is kept until the outermost is read. */
static coffer_status pt2_object(pt2_file *t, pt2_member member)
{
    bool more = false;
    coffer_status status = pt2_open(t, '{', '}', "an object should be here", &more);
    while (status == COFFER_OK && more) {
        status = pt2_read_member(t, member);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(&t->json, '}', &more);
    }
    return status;
}

/* {"as_int": 2}: anything else is a size that only running the program gives. */
static coffer_status pt2_integer_member(pt2_file *t, const char *key, size_t key_len)
{
    if (!coffer__text_is(key, key_len, "as_int") || *t->number_count == COFFER__PLAN_MAX_RANK) {
        return pt2_malformed(t, "a size is no number, or there are too many");
    }
    /* The count rises even if the number is none: the whole text is refused then. */
    return coffer__json_u64(&t->json, &t->numbers[(*t->number_count)++]);
}

/* A list of {"as_int": …}, of at most as many as a tensor may have dimensions. */
static coffer_status pt2_integers(pt2_file *t, uint64_t *numbers, size_t *count)
{
    bool more = false;
    t->numbers = numbers;
    t->number_count = count;
    *count = 0;
    coffer_status status = pt2_open(t, '[', ']', "a list should be here", &more);
    while (status == COFFER_OK && more) {
        status = pt2_object(t, pt2_integer_member);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(&t->json, ']', &more);
    }
    return status;
}

/* What describes the tensor. Of a key that comes twice the last one counts, as in Python's json. */
static coffer_status pt2_meta_member(pt2_file *t, const char *key, size_t key_len)
{
    if (coffer__text_is(key, key_len, "dtype")) {
        return coffer__json_u64(&t->json, &t->dtype);
    }
    if (coffer__text_is(key, key_len, "layout")) {
        return coffer__json_u64(&t->json, &t->layout);
    }
    if (coffer__text_is(key, key_len, "sizes")) {
        return pt2_integers(t, t->extents.sizes, &t->extents.rank);
    }
    if (coffer__text_is(key, key_len, "strides")) {
        return pt2_integers(t, t->extents.strides, &t->stride_count);
    }
    if (coffer__text_is(key, key_len, "storage_offset")) {
        t->numbers = &t->extents.offset;
        t->offset_count = 0;
        t->number_count = &t->offset_count;
        return pt2_object(t, pt2_integer_member);
    }
    return pt2_pass(t);
}

/* A weight without tensor_meta, or in a pickle, is an object; that is decided when all of it has been read. */
static coffer_status pt2_weight_member(pt2_file *t, const char *key, size_t key_len)
{
    if (coffer__text_is(key, key_len, "path_name")) {
        return pt2_string(t, &t->path, &t->path_len);
    }
    if (coffer__text_is(key, key_len, "use_pickle")) {
        /*
         * Anything but false is taken for a pickle: a weight that is left out is told, one that is misread is
         * not.
         */
        t->pickled = coffer__json_peek(&t->json) != 'f';
        return pt2_pass(t);
    }
    if (coffer__text_is(key, key_len, "tensor_meta") && coffer__json_peek(&t->json) == '{') {
        t->described = true;
        return pt2_object(t, pt2_meta_member);
    }
    return pt2_pass(t);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

/* torch's numbers of dtypes in exported programs (torch/_export/serde/schema.py, ScalarType), which are not
   those of its C++ code. */
static coffer__element pt2_element(uint64_t dtype)
{
    static const coffer__element elements[] = {
        [1] = COFFER__ELEMENT_U8,          [2] = COFFER__ELEMENT_I8,           [3] = COFFER__ELEMENT_I16,
        [4] = COFFER__ELEMENT_I32,         [5] = COFFER__ELEMENT_I64,          [6] = COFFER__ELEMENT_F16,
        [7] = COFFER__ELEMENT_F32,         [8] = COFFER__ELEMENT_F64,          [9] = COFFER__ELEMENT_C32,
        [10] = COFFER__ELEMENT_C64,        [11] = COFFER__ELEMENT_C128,        [12] = COFFER__ELEMENT_BOOL,
        [13] = COFFER__ELEMENT_BF16,       [28] = COFFER__ELEMENT_U16,         [29] = COFFER__ELEMENT_F8_E4M3FN,
        [30] = COFFER__ELEMENT_F8_E5M2,    [31] = COFFER__ELEMENT_F8_E4M3FNUZ, [32] = COFFER__ELEMENT_F8_E5M2FNUZ,
        [33] = COFFER__ELEMENT_F8_E8M0FNU, [34] = COFFER__ELEMENT_U32,         [35] = COFFER__ELEMENT_U64,
    };
    return dtype < sizeof elements / sizeof *elements ? elements[dtype] : COFFER__ELEMENT_NONE;
}

/* The view that was described; `lack` when it is one that safetensors cannot express. */
static coffer_status pt2_view(pt2_file *t, coffer__view *view)
{
    /* coffer__view_fill takes a graph for what the user wants, and for the place that its messages name. There
       is no pickle here, and value 0 is at the beginning of the text. */
    const coffer__graph nowhere = { .wants = t->file->wants, .at = t->json.origin };
    const coffer__stored *stored = t->path != NULL ? coffer__stores_find(&t->stores, t->path, t->path_len) : NULL;
    memset(view, 0, sizeof *view);
    view->row.storage = COFFER__PLAN_NO_STORAGE;
    /* Objects and pickled weights are named, and not read: their bytes are a pickle of their own. */
    if (t->pickled || !t->described) {
        view->lack = "a pickle, or an object";
        return COFFER_OK;
    }
    view->element = pt2_element(t->dtype);
    /* Sparse layouts, and dtypes that torch has got since the list above was written. */
    if (t->layout != PT2_LAYOUT_STRIDED || view->element == COFFER__ELEMENT_NONE) {
        view->lack = "of another layout or type than dense ones";
        return COFFER_OK;
    }
    /* Everything is known now, so a contradiction is one of the file and no lack. */
    if (stored == NULL || t->stride_count != t->extents.rank) {
        return pt2_malformed(t, "a tensor has no bytes, or not as many strides as sizes");
    }
    /* As for checkpoints: elements are in the order of the machine that wrote the program. */
    const size_t unit = coffer__element_facts_of(view->element)->unit;
    view->row.storage = stored->storage;
    view->row.swap = (uint8_t)(t->archive.big_endian && unit > 1 ? unit : 0);
    return coffer__view_fill(&nowhere, 0, view, &t->extents, stored->size, t->json.err);
}

/* The row is put as soon as its member ends, so only one tensor is ever held. */
static coffer_status pt2_put_row(pt2_file *t, const char *name, size_t name_len)
{
    coffer__view view;
    const coffer__graph nowhere = { .wants = t->file->wants, .plan = t->file->plan };
    const coffer_status status = pt2_view(t, &view);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(t->json.err, status, name, name_len);
    }
    return t->skipped != 0
               ? coffer__graph_put_view(&nowhere, &view, name, name_len, COFFER_FATE_SKIPPED, t->skipped, t->json.err)
               : coffer__graph_put_model_view(&nowhere, &view, name, name_len, t->json.err);
}

/* Begins with nothing known, so that no tensor takes over what another one said. */
static coffer_status pt2_config_member(pt2_file *t, const char *key, size_t key_len)
{
    t->path = NULL;
    t->pickled = false;
    t->described = false;
    t->layout = 0;
    t->dtype = 0;
    t->stride_count = 0;
    t->extents = (coffer__extents){ 0 };
    const coffer_status status = pt2_object(t, pt2_weight_member);
    return status == COFFER_OK ? pt2_put_row(t, key, key_len) : status;
}

static coffer_status pt2_top_member(pt2_file *t, const char *key, size_t key_len)
{
    return coffer__text_is(key, key_len, "config") ? pt2_object(t, pt2_config_member) : pt2_pass(t);
}

/* ---- members ---------------------------------------------------------------------------------------------------------- */

static coffer_status pt2_read_config(pt2_file *t, coffer__zip_member *member, coffer_error *err)
{
    const coffer_allocator *allocator = t->file->plan->allocator;
    uint8_t *text = NULL;
    size_t size = 0;
    coffer_status status = coffer__pickle_archive_load(&t->archive, member, PT2_MAX_JSON, &text, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* As large as the text, which all strings of it together cannot exceed. */
    t->strings = coffer__alloc_array(allocator, size, 1, err);
    status = COFFER_ERR_MEMORY;
    if (t->strings != NULL) {
        t->used = 0;
        t->json = (coffer__json){ .in = { .base = text, .length = size },
                                  .origin = member->at,
                                  .err = err,
                                  .noun = "the description of weights" };
        t->scratch = (coffer__scratch){ .allocator = allocator };
        status = pt2_object(t, pt2_top_member);
        coffer__scratch_free(&t->scratch);
    }
    coffer__free_array(allocator, text, size, 1);
    coffer__free_array(allocator, t->strings, size, 1);
    return status;
}

/* One folder of weights or constants: its storages, then the rows that its descriptions make of them. */
static coffer_status pt2_read_folder(pt2_file *t, const char *prefix, const char *ending, coffer_error *err)
{
    t->stores = (coffer__stores){ .allocator = t->file->plan->allocator };
    coffer_status status = coffer__pickle_archive_put_storages(&t->archive, prefix, &t->stores, err);
    for (size_t i = 0; i < t->archive.zip.count && status == COFFER_OK; i++) {
        size_t len = 0;
        coffer__zip_member *member = &t->archive.zip.members[i];
        if (coffer__pickle_archive_after(&t->archive, member, prefix, &len) != NULL &&
            coffer__text_ends(member->name, member->name_len, ending)) {
            status = pt2_read_config(t, member, err);
        }
    }
    coffer__stores_free(&t->stores);
    return status;
}

/* The first member that AOTInductor has made; NULL. */
static const coffer__zip_member *pt2_find_compiled(const coffer__zip *zip)
{
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[i];
        if (coffer__reader_has((const uint8_t *)member->name, member->name_len, COFFER__PICKLE_ARCHIVE_COMPILED)) {
            return member;
        }
    }
    return NULL;
}

/* What AOTInductor compiles has its weights in the library, all of them or some: those beside it are not the model. */
static coffer_status pt2_tell_compiled(const pt2_file *t, coffer_error *err)
{
    const coffer__zip_member *member = pt2_find_compiled(&t->archive.zip);
    if (member == NULL) {
        return COFFER_OK;
    }
    if (t->file->plan->rows.count > 0) {
        return coffer__import_plan_put_finding(
            t->file->plan, COFFER_WEIGHT_DANGER, t->file->file, member->head, member->name,
            "the file also has a program that AOTInductor compiled, which is left out", "", 0, err);
    }
    return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, member->head,
                           "this is a program that AOTInductor compiled, and its weights are in the compiled code, all "
                           "or some of them: convert the checkpoint, or the program of torch.export, that it was made "
                           "of");
}

/* Weights become rows that are written, constants rows that are skipped. Ties are looked for among both, of
   which only written rows can be tied. */
static coffer_status pt2_read_all(pt2_file *t, coffer_error *err)
{
    static const char constant[] = "a constant of the program, not a part of the model";
    const size_t first_row = t->file->plan->rows.count;
    coffer_status status = coffer__pickle_archive_open(&t->archive, t->file, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = pt2_read_folder(t, "data/weights/", "_weights_config.json", err);
    if (status == COFFER_OK) {
        status = pt2_tell_compiled(t, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_text(t->file->plan, constant, sizeof constant - 1, &t->skipped, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = pt2_read_folder(t, "data/constants/", "_constants_config.json", err);
    if (status != COFFER_OK || t->file->wants->ties == COFFER_TIES_KEEP) {
        return status;
    }
    return coffer__import_plan_tie(t->file->plan, first_row, err);
}

/* ---- the reader ------------------------------------------------------------------------------------------------------- */

/* The member archive_format is what tells it from other archives of torch. */
static bool pt2_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "PK\3\4", 4) == 0 &&
           (coffer__reader_has(head, head_size, "/archive_format") ||
            coffer__reader_has(tail, tail_size, "/archive_format"));
}

static coffer_status pt2_reader(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                                coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    pt2_file t = { .file = &file };
    /* As for any archive of torch: what matters to a scan is which pickles are in it. */
    if (wants->scan) {
        return coffer__torch_read_zip(&file, err);
    }
    coffer_status status = coffer__pickle_file_put_format(plan, err);
    if (status == COFFER_OK) {
        status = pt2_read_all(&t, err);
    }
    coffer__pickle_archive_free(&t.archive);
    return status;
}

const coffer__reader coffer__reader_pt2 = { "pt2", "a program of torch.export", pt2_sniff, pt2_reader };
