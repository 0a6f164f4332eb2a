/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of Keras' files:
 *
 *   .h5, .weights.h5   HDF5: keras.c
 *   .keras             an archive (zip) with config.json, which only a scan reads, and model.weights.h5, stored: HDF5 again
 *   .weights.json      {"metadata": …, "weight_map": {"/layers/dense/vars": ["m_00000.weights.h5", …], …}}: HDF5 beside it
 */
#include "alloc.h"
#include "error.h"
#include "hdf5_scan.h"
#include "json.h"
#include "keras.h"
#include "readers.h"
#include "scan_contents.h"
#include "text.h"
#include "zip.h"

#include <string.h>

#define KERAS_MAX_JSON ((uint64_t)64 << 20)
#define KERAS_MAX_FILES 4096u

static const char keras_member[] = "model.weights.h5";

/* ---- .keras ------------------------------------------------------------------------------------------------------ */

/* By the name of the member, which the directory at the end has. */
static bool keras_archive_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                                const char *path, size_t path_len)
{
    const size_t len = sizeof keras_member - 1;
    (void)path;
    (void)path_len;
    if (head_size < 4 || memcmp(head, "PK\3\4", 4) != 0) {
        return false;
    }
    /* The member's name is after its 46 bytes in the directory, and not the end of a longer one: bytes 28 and 29 have its
       length. */
    for (size_t i = 46; i + len <= tail_size; i++) {
        if (memcmp(tail + i, keras_member, len) == 0 && memcmp(tail + i - 46, "PK\1\2", 4) == 0 &&
            coffer__load_u16le(tail + i - 18) == len) {
            return true;
        }
    }
    return false;
}

/* The member is read where it lies, so it has to be stored, as Keras does it: HDF5 jumps to and fro. */
static coffer_status keras_read_member(coffer__keras *keras, const coffer__zip *zip, coffer_error *err)
{
    coffer__zip_member *member = coffer__zip_find(zip, keras_member, sizeof keras_member - 1);
    if (member == NULL) {
        return coffer__fail(err, COFFER_ERR_DAMAGED, "the Keras archive has no weights: no member %q", keras_member,
                            sizeof keras_member - 1);
    }
    if (member->coding != COFFER__CODING_STORED) {
        return coffer__fail_at(
            err, COFFER_ERR_UNSUPPORTED, member->head,
            "the weights in the Keras archive are compressed, which Keras does not do: unpack it, and "
            "convert %q",
            keras_member, sizeof keras_member - 1);
    }
    const coffer_status status = coffer__zip_locate(zip, keras->input, member, err);
    return status == COFFER_OK ? coffer__keras_read(keras, 0, keras->input->size, member->at, member->stored_size, err)
                               : status;
}

static coffer_status keras_archive_reader(const coffer__input_files *input, const coffer__wants *wants,
                                          coffer__import_plan *plan, coffer_error *err)
{
    coffer__zip zip;
    coffer__keras keras;
    if (wants->scan) {
        const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
        return coffer__scan_zip(&file, err);
    }
    coffer_status status = coffer__keras_begin(&keras, input, wants, plan, err);
    if (status == COFFER_OK) {
        status = coffer__zip_read(&zip, input, 0, 0, input->size, wants, plan, plan->allocator, err);
        if (status == COFFER_OK) {
            status = keras_read_member(&keras, &zip, err);
            coffer__zip_free(&zip);
        }
    }
    if (status == COFFER_OK) {
        status = coffer__keras_finish(&keras, err);
    }
    coffer__keras_free(&keras);
    return status;
}

const coffer__reader coffer__reader_keras = { "keras", "a Keras model", keras_archive_sniff, keras_archive_reader };

/* ---- .weights.json ----------------------------------------------------------------------------------------------- */

/* The text, and the files that it names, each once, in the order in which they come. */
typedef struct keras_index {
    coffer__keras keras;
    uint8_t *text;
    size_t text_size;
    coffer__json json;
    coffer__scratch scratch;
    char *strings; /* what was unescaped, as long as the text */
    size_t used;
    bool has_map;
    const char *names[KERAS_MAX_FILES];
    size_t lens[KERAS_MAX_FILES];
    size_t count;
} keras_index;

/* Opens an object or a list; *more: there is something in it. */
static coffer_status keras_open(keras_index *index, char open, uint8_t close, const char *what, bool *more)
{
    const coffer_status status = coffer__json_expect(&index->json, open, what);
    if (status != COFFER_OK) {
        return status;
    }
    *more = coffer__json_peek(&index->json) != close;
    index->json.in.position += *more ? 0 : 1;
    return COFFER_OK;
}

static coffer_status keras_string(keras_index *index, const char **text, size_t *len)
{
    bool has_control = false;
    *text = index->strings + index->used;
    const coffer_status status = coffer__json_string(&index->json, index->strings + index->used, len, &has_control);
    index->used += status == COFFER_OK ? *len : 0;
    return status;
}

/* A file is named again for each group that has something in it. */
static coffer_status keras_put_name(keras_index *index, const char *name, size_t len)
{
    for (size_t i = index->count; i > 0; i--) {
        if (index->lens[i - 1] == len && memcmp(index->names[i - 1], name, len) == 0) {
            return COFFER_OK;
        }
    }
    if (index->count == KERAS_MAX_FILES) {
        return coffer__json_error(&index->json, "there are more files than 4,096");
    }
    index->names[index->count] = name;
    index->lens[index->count++] = len;
    return COFFER_OK;
}

/* The files of a group: a list, or one by itself. */
static coffer_status keras_read_names(keras_index *index)
{
    const char *name = NULL;
    size_t len = 0;
    bool more = true;
    const bool is_list = coffer__json_peek(&index->json) == '[';
    coffer_status status = is_list ? keras_open(index, '[', ']', "a list should be here", &more) : COFFER_OK;
    while (status == COFFER_OK && more) {
        status = keras_string(index, &name, &len);
        if (status != COFFER_OK) {
            return status;
        }
        status = keras_put_name(index, name, len);
        if (status != COFFER_OK || !is_list) {
            return status;
        }
        status = coffer__json_next(&index->json, ']', &more);
    }
    return status;
}

/* Reads the value of one member of an object; the text is right after its colon. */
typedef coffer_status (*keras_value)(keras_index *index, const char *key, size_t len);

static coffer_status keras_read_object(keras_index *index, keras_value value)
{
    const char *key = NULL;
    size_t len = 0;
    bool more = false;
    coffer_status status = keras_open(index, '{', '}', "an object should be here", &more);
    while (status == COFFER_OK && more) {
        status = keras_string(index, &key, &len);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_expect(&index->json, ':', "a colon should follow the key");
        if (status != COFFER_OK) {
            return status;
        }
        status = value(index, key, len);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(&index->json, '}', &more);
    }
    return status;
}

/* The key is the path of a group, which the files say themselves. */
static coffer_status keras_read_group(keras_index *index, const char *key, size_t len)
{
    (void)key;
    (void)len;
    return keras_read_names(index);
}

static coffer_status keras_read_member_of_index(keras_index *index, const char *key, size_t len)
{
    if (!coffer__text_is(key, len, "weight_map")) {
        return coffer__json_skip(&index->json, 1, &index->scratch);
    }
    if (index->has_map) {
        return coffer__json_error(&index->json, "there is a second weight_map");
    }
    index->has_map = true;
    return keras_read_object(index, keras_read_group);
}

static coffer_status keras_read_text(keras_index *index, coffer_error *err)
{
    index->json = (coffer__json){ .in = { .base = index->text, .length = index->text_size },
                                  .err = err,
                                  .noun = "the index of the weights" };
    const coffer_status status = keras_read_object(index, keras_read_member_of_index);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__json_peek(&index->json) != 0 || index->json.in.position < index->text_size) {
        return coffer__json_error(&index->json, "nothing should follow the object");
    }
    return index->has_map ? COFFER_OK
                          : coffer__fail(err, COFFER_ERR_MISSING_FIELD, "the index of the weights has no weight_map");
}

/* Names are judged where files are opened: nothing that leads out of the folder of the index is. */
static coffer_status keras_read_files(keras_index *index, coffer_error *err)
{
    coffer__keras *keras = &index->keras;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < index->count && status == COFFER_OK; i++) {
        uint32_t file = 0;
        uint32_t number = 0;
        uint64_t size = 0;
        status = keras->input->open(keras->input->ctx, index->names[i], index->lens[i], &file, &size, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__import_plan_put_file(keras->plan, index->names[i], index->lens[i], &number, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (number != file) {
            return coffer__fail(err, COFFER_ERR_PLAN, "the files of the index are not numbered as they were opened");
        }
        const coffer__reader_file part = {
            .input = keras->input, .wants = keras->wants, .plan = keras->plan, .file = file, .size = size
        };
        status =
            keras->wants->scan ? coffer__hdf5_scan(&part, err) : coffer__keras_read(keras, file, size, 0, size, err);
    }
    return status;
}

static coffer_status keras_index_read(keras_index *index, const coffer__input_files *input, coffer_error *err)
{
    const coffer_allocator *allocator = index->keras.plan->allocator;
    if (input->size > KERAS_MAX_JSON) {
        return coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the index has %z, more than an index may have",
                            input->size);
    }
    index->text_size = (size_t)input->size;
    index->text = coffer__alloc_array(allocator, index->text_size, 1, err);
    index->strings = coffer__alloc_array(allocator, index->text_size, 1, err);
    if (index->text == NULL || index->strings == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer__input_files_read(input, 0, input->size, 0, index->text, index->text_size, err);
    if (status == COFFER_OK) {
        status = coffer__reader_index_status(keras_read_text(index, err), index->text, index->text_size, err);
    }
    if (status == COFFER_OK) {
        status = keras_read_files(index, err);
    }
    return status == COFFER_OK ? coffer__keras_finish(&index->keras, err) : status;
}

static coffer_status keras_index_reader(const coffer__input_files *input, const coffer__wants *wants,
                                        coffer__import_plan *plan, coffer_error *err)
{
    keras_index *index = coffer__alloc_array(plan->allocator, 1, sizeof *index, err);
    if (index == NULL) {
        return COFFER_ERR_MEMORY;
    }
    index->scratch.allocator = plan->allocator;
    coffer_status status = coffer__keras_begin(&index->keras, input, wants, plan, err);
    if (status == COFFER_OK) {
        status = keras_index_read(index, input, err);
    }
    coffer__keras_free(&index->keras);
    coffer__scratch_free(&index->scratch);
    coffer__free_array(plan->allocator, index->text, index->text_size, 1);
    coffer__free_array(plan->allocator, index->strings, index->text_size, 1);
    coffer__free_array(plan->allocator, index, 1, sizeof *index);
    return status;
}

static bool keras_index_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                              const char *path, size_t path_len)
{
    (void)tail;
    (void)tail_size;
    return head_size > 0 && head[0] == '{' && coffer__text_ends(path, path_len, ".weights.json");
}

const coffer__reader coffer__reader_keras_index = { "keras-index", "Keras weights of several files", keras_index_sniff,
                                                    keras_index_reader };
