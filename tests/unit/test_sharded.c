/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files as one model: whatever can be done with a file can be done with an index and its shards, and index and shards
 * that do not belong together are refused with the place where they differ. Names of files come from strangers, so that
 * nothing outside the folder may be reached through them. What fails leaves nothing behind.
 */
#define _GNU_SOURCE /* RTLD_NEXT, of what faulty_calls.h needs */

#include "support_cmocka.h"

#include "coffer.h"
#include "faulty_calls.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- models to test with ----------------------------------------------------------------------------------------- */

static const tensor_spec first_specs[] = { { "b.weight", COFFER_F32, 2, { 3, 5 } }, { "tail", COFFER_U8, 1, { 7 } } };
static const tensor_spec second_specs[] = { { "a.weight", COFFER_F32, 2, { 64, 32 } },
                                            { "empty", COFFER_BF16, 2, { 0, 7 } } };
/* A file that has another, stale "a.weight". */
static const tensor_spec overlay_specs[] = { { "extra", COFFER_U8, 1, { 24 } },
                                             { "a.weight", COFFER_F32, 2, { 5, 3 } } };
static const tensor_spec third_specs[] = { { "c.weight", COFFER_F64, 1, { 9 } } };

static const char INDEX[] = "model.safetensors.index.json";
static const char THREE[] = "{\"metadata\": {\"total_size\": 8331}, \"weight_map\": {"
                            "\"c.weight\": \"m-00003-of-00003.safetensors\", "
                            "\"a.weight\": \"m-00002-of-00003.safetensors\", "
                            "\"empty\": \"m-00002-of-00003.safetensors\", "
                            "\"b.weight\": \"m-00001-of-00003.safetensors\", "
                            "\"tail\": \"m-00001-of-00003.safetensors\"}}";

static void write_shard(const char *name, const tensor_spec *specs, size_t count)
{
    image made = image_of(specs, count);
    file_write(name, made.bytes, made.size);
    image_free(&made);
}

static void write_index(const char *text)
{
    file_write(INDEX, text, strlen(text));
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    write_shard("m-00001-of-00003.safetensors", first_specs, 2);
    write_shard("m-00002-of-00003.safetensors", second_specs, 2);
    write_shard("m-00003-of-00003.safetensors", third_specs, 1);
    write_index(THREE);
    return 0;
}

static coffer *open_index(coffer_access access)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    coffer_error err;
    options.access = access;
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, &err), COFFER_OK);
    return model;
}

static void assert_open_fails(const char *text, coffer_status status, uint64_t offset, const char *path)
{
    coffer *model = NULL;
    coffer_error err;
    write_index(text);
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, &err), status);
    assert_null(model);
    assert_int_equal(err.code, status);
    assert_int_equal(err.offset, offset);
    assert_string_equal(err.path, work_path(path));
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), status);
}

/* Where `part` begins in `text`. */
static uint64_t place_of(const char *text, const char *part)
{
    const char *found = strstr(text, part);
    assert_non_null(found);
    return (uint64_t)(found - text);
}

/* ---- looking up and reading -------------------------------------------------------------------------------------- */

static void tensors_of_all_shards_are_found(void **state)
{
    (void)state;
    static const char *const in_order[] = { "b.weight", "tail", "a.weight", "empty", "c.weight" };
    static const char *const by_name[] = { "a.weight", "b.weight", "c.weight", "empty", "tail" };
    static const uint32_t shards[] = { 0, 0, 1, 1, 2 };
    coffer *model = open_index(COFFER_MAP);
    uint32_t order[5];
    assert_int_equal(coffer_count(model), 5);
    assert_int_equal(coffer_shard_count(model), 3);
    coffer_sort_by_name(model, order);
    for (size_t i = 0; i < 5; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_string_equal(tensor->name, in_order[i]);
        assert_int_equal(tensor->shard, shards[i]);
        assert_ptr_equal(tensor_named(model, in_order[i]), tensor);
        assert_string_equal(coffer_at(model, order[i])->name, by_name[i]);
    }
    assert_null(coffer_at(model, 5));
    assert_null(tensor_named(model, "d.weight"));
    assert_null(coffer_find(model, "b.weight", 7));
    assert_null(coffer_find(model, NULL, 0));
    assert_string_equal(coffer_shard_path(model, 1), work_path("m-00002-of-00003.safetensors"));
    assert_string_equal(coffer_shard_path(model, 3), "");
    assert_int_equal(coffer_table_count(coffer_shard_table(model, 0)), 2);
    assert_null(coffer_shard_table(model, 3));
    coffer_close(model);
}

static void assert_pattern(const coffer *model, const coffer_tensor *tensor, const uint8_t *bytes)
{
    (void)model;
    for (uint64_t i = 0; i < tensor->size; i++) {
        assert_int_equal(bytes[i], pattern_byte(tensor->offset + i));
    }
}

static void every_way_of_reading_works(void **state)
{
    (void)state;
    uint8_t buffers[5][8192];
    for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
        coffer *model = open_index(access);
        coffer_read_target targets[5];
        for (size_t i = 0; i < 5; i++) {
            const coffer_tensor *tensor = coffer_at(model, i);
            const coffer_index all = { .kind = COFFER_INDEX_ALL };
            assert_int_equal(coffer_read(model, tensor, buffers[i], tensor->size, NULL, NULL), COFFER_OK);
            assert_pattern(model, tensor, buffers[i]);
            memset(buffers[i], 0, sizeof buffers[i]);
            assert_int_equal(coffer_read_slice(model, tensor, &all, 1, buffers[i], tensor->size, NULL, NULL),
                             COFFER_OK);
            assert_pattern(model, tensor, buffers[i]);
            memset(buffers[i], 0, sizeof buffers[i]);
            targets[i] = (coffer_read_target){ tensor, buffers[i], tensor->size };
            const uint8_t *data = coffer_data(model, tensor, NULL);
            assert_true((data != NULL) == (access != COFFER_READ));
            if (data != NULL) {
                assert_pattern(model, tensor, data);
                assert_int_equal(coffer_is_aligned(model, tensor),
                                 (uintptr_t)data % coffer_dtype_alignment(tensor->dtype) == 0);
            }
        }
        assert_int_equal(coffer_read_many(model, targets, 5, NULL, NULL), COFFER_OK);
        for (size_t i = 0; i < 5; i++) {
            assert_pattern(model, targets[i].tensor, buffers[i]);
        }
        coffer_close(model);
    }
}

static void a_model_is_copied_into_one_file(void **state)
{
    (void)state;
    coffer *model = open_index(COFFER_READ);
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_copy copies[5];
    assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
    for (size_t i = 0; i < 5; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        copies[i] = (coffer_copy){ i, model, tensor };
        assert_int_equal(
            coffer_header_add(header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape, tensor->rank, NULL),
            COFFER_OK);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path("one.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, 5, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer *one = NULL;
    uint8_t buffer[8192];
    assert_int_equal(coffer_open(&one, work_path("one.safetensors"), NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 5; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const coffer_tensor *copy = tensor_named(one, tensor->name);
        assert_int_equal(coffer_read(one, copy, buffer, copy->size, NULL, NULL), COFFER_OK);
        assert_pattern(model, tensor, buffer);
    }
    assert_int_equal(coffer_read(model, coffer_at(one, 0), buffer, 0, NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_close(one);
    coffer_close(model);
}

/* ---- what does not belong together ------------------------------------------------------------------------------- */

static void index_and_shards_must_agree(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    static const char missing[] = "{\"weight_map\": {\"b.weight\": \"m-00001-of-00003.safetensors\", "
                                  "\"gone\": \"m-00001-of-00003.safetensors\"}}";
    assert_open_fails(missing, COFFER_ERR_NOT_IN_SHARD, place_of(missing, "\"gone\""), INDEX);
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, &err), COFFER_ERR_NOT_IN_SHARD);
    assert_string_equal(err.tensor, "gone");
    static const char elsewhere[] = "{\"weight_map\": {\"b.weight\": \"m-00001-of-00003.safetensors\", "
                                    "\"a.weight\": \"m-00001-of-00003.safetensors\", "
                                    "\"empty\": \"m-00002-of-00003.safetensors\"}}";
    assert_open_fails(elsewhere, COFFER_ERR_NOT_IN_SHARD, place_of(elsewhere, "\"a.weight\""), INDEX);
    static const char no_file[] = "{\"weight_map\": {\"b.weight\": \"m-00001-of-00003.safetensors\", "
                                  "\"z\": \"m-00004-of-00003.safetensors\"}}";
    assert_open_fails(no_file, COFFER_ERR_SHARD_MISSING, COFFER_NO_OFFSET, "m-00004-of-00003.safetensors");
    /* Of several that fail, the first is named. */
    static const char no_files[] = "{\"weight_map\": {\"b.weight\": \"z.safetensors\", \"z\": \"x.safetensors\", "
                                   "\"a\": \"y.safetensors\"}}";
    for (size_t i = 0; i < 50; i++) {
        assert_open_fails(no_files, COFFER_ERR_SHARD_MISSING, COFFER_NO_OFFSET, "x.safetensors");
    }
    write_shard("twice.safetensors", overlay_specs, 2);
    static const char twice[] = "{\"weight_map\": {\"empty\": \"m-00002-of-00003.safetensors\", "
                                "\"extra\": \"twice.safetensors\"}}";
    assert_open_fails(twice, COFFER_ERR_TWO_SHARDS, COFFER_NO_OFFSET, "twice.safetensors");
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, &err), COFFER_ERR_TWO_SHARDS);
    assert_non_null(strstr(err.message, "m-00002-of-00003.safetensors"));
    assert_string_equal(err.tensor, "a.weight");
    file_write("bad.safetensors", "version https://git-lfs.github.com/spec/v1\n", 43);
    assert_open_fails("{\"weight_map\": {\"a\": \"bad.safetensors\"}}", COFFER_ERR_IS_LFS_POINTER, 0,
                      "bad.safetensors");
}

/* ---- a name in two files ------------------------------------------------------------------------------------------ */

static const char OVERLAY[] = "{\"metadata\": {\"total_size\": %s}, \"weight_map\": {"
                              "\"a.weight\": \"%s\", \"empty\": \"m-00002-of-00003.safetensors\", "
                              "\"extra\": \"overlay.safetensors\"}}";

static coffer *open_overlay(const char *file, coffer_open_options *options)
{
    char text[512];
    coffer *model = NULL;
    coffer_error err;
    (void)snprintf(text, sizeof text, OVERLAY, "8216", file);
    write_shard("overlay.safetensors", overlay_specs, 2);
    write_index(text);
    if (coffer_open(&model, work_path(INDEX), options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

static uint64_t superseded(const coffer *model, const char **file)
{
    return coffer_model_note(model, COFFER_NOTE_SUPERSEDED, file).count;
}

/* Whichever file the index names has the tensor, and no way of asking finds the other copy. */
static void a_name_belongs_to_the_file_of_the_index(void **state)
{
    (void)state;
    static const char *const files[] = { "m-00002-of-00003.safetensors", "overlay.safetensors" };
    for (size_t i = 0; i < 2; i++) {
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        coffer *model = open_overlay(files[i], &options);
        const char *stale = NULL;
        uint32_t order[3];
        uint8_t buffer[8192];
        assert_int_equal(coffer_count(model), 3);
        const coffer_tensor *tensor = tensor_named(model, "a.weight");
        assert_non_null(tensor);
        assert_int_equal(tensor->shard, i);
        assert_string_equal(coffer_shard_path(model, tensor->shard), work_path(files[i]));
        assert_int_equal(coffer_read(model, tensor, buffer, tensor->size, NULL, NULL), COFFER_OK);
        assert_pattern(model, tensor, buffer);
        assert_int_equal(superseded(model, &stale), 1);
        assert_string_equal(stale, work_path(files[1 - i]));
        assert_int_equal(coffer_model_note(model, COFFER_NOTE_UNINDEXED, NULL).count, 0);
        assert_int_equal(
            coffer_table_count(coffer_shard_table(model, 0)) + coffer_table_count(coffer_shard_table(model, 1)), 3);
        assert_null(coffer_table_find(coffer_shard_table(model, 1 - i), "a.weight", 8));
        assert_ptr_equal(coffer_table_find(coffer_shard_table(model, (uint32_t)i), "a.weight", 8), tensor);
        coffer_sort_by_name(model, order);
        assert_ptr_equal(coffer_at(model, order[0]), tensor);
        coffer_close(model);
    }
}

/* Nor does a file that is open have what one has that is not. */
static void what_is_left_out_is_not_found_elsewhere(void **state)
{
    (void)state;
    static const char *const only[] = { "extra" };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.select = only;
    options.select_count = 1;
    coffer *model = open_overlay("m-00002-of-00003.safetensors", &options);
    assert_int_equal(coffer_shard_count(model), 1);
    assert_int_equal(coffer_count(model), 1);
    assert_null(tensor_named(model, "a.weight"));
    assert_int_equal(superseded(model, NULL), 1);
    coffer_close(model);
}

/* A total size may count superseded tensors or not: 64 × 32 floats and 24 bytes, and 5 × 3 floats that are stale. */
static void a_total_size_counts_one_copy_or_both(void **state)
{
    (void)state;
    static const struct {
        const char *size;
        uint64_t odd;
    } cases[] = { { "8216", 0 }, { "8276", 0 }, { "8252", 1 } };
    write_shard("overlay.safetensors", overlay_specs, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        coffer *model = NULL;
        (void)snprintf(text, sizeof text, OVERLAY, cases[i].size, "m-00002-of-00003.safetensors");
        write_index(text);
        assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_model_note(model, COFFER_NOTE_TOTAL_SIZE, NULL).count, cases[i].odd);
        coffer_close(model);
    }
}

static void names_of_files_lead_nowhere_else(void **state)
{
    (void)state;
    static const char *const names[] = {
        "/etc/passwd",
        "../x.safetensors",
        "..",
        ".",
        "",
        "a/../b.safetensors",
        "a//b.safetensors",
        "a/./b.safetensors",
        "a/",
        "a/..%2fb",
        "a\\\\b.safetensors",
        "..\\\\x",
        "http://example.org/x",
        "file:x",
        "C:x",
        "x\\u0000.safetensors",
        "x\\n",
        "\\u009bx",
        "..%2fx",
        "..%2Fx",
        "%2e%2e",
        "%2e",
        "%252e%252e%252fx",
        "a%5cb",
        "%00",
        "x%0a",
        "%3a",
        "a%252Fb",
        "\\u002e\\u002e\\u002fx",
    };
    char text[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text, "{\"weight_map\": {\"a\": \"%s\"}}", names[i]);
        assert_open_fails(text, COFFER_ERR_SHARD_NAME, 21, INDEX);
    }
    char longer[300];
    memset(longer, 'x', 256);
    longer[256] = '\0';
    snprintf(text, sizeof text, "{\"weight_map\": {\"a\": \"%s\"}}", longer);
    assert_open_fails(text, COFFER_ERR_SHARD_NAME, 21, INDEX);
    /* What only looks like an attack is the plain name of a file. */
    static const char *const fine[] = { "...",  "..x",         "100%", "%zz", "a%20b", "%",
                                        "x.%2", "\xC3\xA4%ff", " ",    "~",   "x?y#z", "below/x" };
    assert_int_equal(mkdir(work_path("below"), 0700), 0);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        write_shard(fine[i], third_specs, 1);
        snprintf(text, sizeof text, "{\"weight_map\": {\"c.weight\": \"%s\"}}", fine[i]);
        write_index(text);
        coffer *model = open_index(COFFER_READ);
        assert_string_equal(coffer_shard_path(model, 0), work_path(fine[i]));
        coffer_close(model);
    }
    assert_int_equal(remove(work_path("below/x")), 0);
    assert_int_equal(rmdir(work_path("below")), 0);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* The cache of the Hub: snapshots/REVISION/NAME are links to blobs/DIGEST. */
static const char *const HUB_FOLDERS[] = { "blobs", "snapshots", "snapshots/main", "elsewhere" };
#define HUB_FOLDER_COUNT (sizeof HUB_FOLDERS / sizeof HUB_FOLDERS[0])

static int set_up_hub(void **state)
{
    (void)state;
    work_dir_make();
    for (size_t i = 0; i < HUB_FOLDER_COUNT; i++) {
        assert_int_equal(mkdir(work_path(HUB_FOLDERS[i]), 0700), 0);
    }
    static const char index[] = "{\"weight_map\": {\"b.weight\": \"m-1\", \"c.weight\": \"m-2\"}}";
    write_shard("blobs/one", first_specs, 2);
    write_shard("blobs/two", third_specs, 1);
    write_shard("elsewhere/two", third_specs, 1);
    file_write("blobs/index", index, sizeof index - 1);
    file_write("elsewhere/index", index, sizeof index - 1);
    assert_int_equal(symlink("../../blobs/index", work_path("snapshots/main/model.safetensors.index.json")), 0);
    assert_int_equal(symlink("../../blobs/one", work_path("snapshots/main/m-1")), 0);
    assert_int_equal(symlink("../../blobs/two", work_path("snapshots/main/m-2")), 0);
    return 0;
}

static int tear_down_hub(void **state)
{
    (void)state;
    static const char *const files[] = { "snapshots/main/model.safetensors.index.json",
                                         "snapshots/main/m-1",
                                         "snapshots/main/m-2",
                                         "blobs/one",
                                         "blobs/two",
                                         "blobs/index",
                                         "elsewhere/two",
                                         "elsewhere/index" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        assert_int_equal(unlink(work_path(files[i])), 0);
    }
    for (size_t i = HUB_FOLDER_COUNT; i > 0; i--) {
        assert_int_equal(rmdir(work_path(HUB_FOLDERS[i - 1])), 0);
    }
    work_dir_remove();
    return 0;
}

static void assert_hub(const char *path, coffer_status status, const char *at)
{
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path(path), NULL, &err), status);
    if (status == COFFER_OK) {
        uint8_t buffer[72];
        const coffer_tensor *tensor = tensor_named(model, "c.weight");
        assert_int_equal(coffer_read(model, tensor, buffer, sizeof buffer, NULL, NULL), COFFER_OK);
        assert_string_equal(coffer_shard_path(model, tensor->shard), work_path(at));
    } else {
        assert_string_equal(err.path, work_path(at));
    }
    coffer_close(model);
}

static void link_to(const char *target, const char *name)
{
    assert_int_equal(unlink(work_path(name)), 0);
    assert_int_equal(symlink(target, work_path(name)), 0);
}

static void links_lead_only_where_the_index_lies(void **state)
{
    (void)state;
    static const char index[] = "snapshots/main/model.safetensors.index.json";
    static const char shard[] = "snapshots/main/m-2";
    assert_hub(index, COFFER_OK, shard);
    assert_hub("snapshots/main", COFFER_OK, shard);
    link_to("../../elsewhere/two", shard);
    assert_hub(index, COFFER_ERR_SHARD_LINK, shard);
    assert_hub("snapshots/main", COFFER_ERR_SHARD_LINK, shard);
    link_to("/dev/null", shard);
    assert_hub(index, COFFER_ERR_SHARD_LINK, shard);
    link_to("nowhere", shard);
    assert_hub(index, COFFER_ERR_SHARD_MISSING, shard);
    link_to("m-2", shard);
    assert_hub(index, COFFER_ERR_IO, shard);
    /* An index that is a file of its own, beside links into the cache. */
    link_to("../../blobs/two", shard);
    size_t size = 0;
    uint8_t *text = file_read("blobs/index", &size);
    assert_int_equal(unlink(work_path(index)), 0);
    file_write(index, text, size);
    free(text);
    assert_hub(index, COFFER_OK, shard);
    /* A model of links leads into the folder of its index, and no file of it anywhere else. */
    link_to("../../elsewhere/index", index);
    assert_hub(index, COFFER_ERR_SHARD_LINK, "snapshots/main/m-1");
    link_to("../../elsewhere/two", "snapshots/main/m-1");
    link_to("../../elsewhere/two", shard);
    assert_hub(index, COFFER_ERR_NOT_IN_SHARD, index);
}

static void indices_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        coffer_status status;
        uint64_t offset;
    } cases[] = {
        { "", COFFER_ERR_JSON, 0 },
        { "[]", COFFER_ERR_TYPE, 0 },
        { "{}", COFFER_ERR_MISSING_FIELD, COFFER_NO_OFFSET },
        { "{\"weight_map\": {}}", COFFER_ERR_MISSING_FIELD, COFFER_NO_OFFSET },
        { "{\"weight_map\": []}", COFFER_ERR_TYPE, 15 },
        { "{\"weight_map\": {\"a\": 1}}", COFFER_ERR_TYPE, 21 },
        { "{\"weight_map\": {\"a\": null}}", COFFER_ERR_TYPE, 21 },
        { "{\"weight_map\": {\"a\" \"x\"}}", COFFER_ERR_JSON, 20 },
        { "{\"weight_map\": {\"a\": \"x\",}}", COFFER_ERR_JSON, 25 },
        { "{\"weight_map\": {\"a\": \"x\"}", COFFER_ERR_JSON, 25 },
        { "{\"weight_map\": {\"a\": \"x\"}} x", COFFER_ERR_JSON, 27 },
        { "{\"weight_map\": {\"a\": \"x\"}}\\0", COFFER_ERR_JSON, 26 },
        { "{\"weight_map\": {\"a\": \"x\", \"b\": \"x\", \"\\u0061\": \"y\"}}", COFFER_ERR_DUPLICATE_NAME, 36 },
        { "{\"weight_map\": {\"a\": \"x\"}, \"weight_map\": {}}", COFFER_ERR_DUPLICATE_KEY, 27 },
        { "{\"metadata\": {}, \"metadata\": {}}", COFFER_ERR_DUPLICATE_KEY, 17 },
        { "{\"metadata\": {\"a\": 1, \"a\": 2}}", COFFER_ERR_DUPLICATE_KEY, 22 },
        { "{\"metadata\": 1}", COFFER_ERR_TYPE, 13 },
        { "{\"other\": {\"a\": 1, \"a\": 2}}", COFFER_ERR_DUPLICATE_KEY, 19 },
        { "{\"other\": nul}", COFFER_ERR_JSON, 10 },
        { "{\"weight_map\": {\"\xFF\": \"x\"}}", COFFER_ERR_UTF8, 17 },
        { "{\"weight_map\": {\"\\ud800\": \"x\"}}", COFFER_ERR_UTF8, 17 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_open_fails(cases[i].text, cases[i].status, cases[i].offset, INDEX);
    }
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("no.index.json"), NULL, &err), COFFER_ERR_NOT_FOUND);
    assert_string_equal(err.path, work_path("no.index.json"));
    /* Names may be written with escapes, and there may be members that nobody knows. */
    write_index("\n{\"x\": [1, {}], \"weight_map\": {\"c\\u002eweight\" : \"m-0000\\u0033-of-00003.safetensors\"}, "
                "\"metadata\": null} ");
    model = open_index(COFFER_READ);
    assert_non_null(tensor_named(model, "c.weight"));
    coffer_close(model);
}

static void an_index_is_called_one(void **state)
{
    (void)state;
    char deep[400] = "{\"x\": ";
    memset(deep + strlen(deep), '[', 200);
    const char *const cases[][2] = {
        { "{\"weight_map\" 1}", "the index is not valid JSON: at byte 14, a colon should follow the key; found \"1\"" },
        { "{\"weight_map\":", "the index is not valid JSON: it ends at byte 14, a value should be here" },
        { "{\"\xFF\": 1}", "the index is not UTF-8 at byte 2" },
        { deep, "at byte 132, the index nests values deeper than 127 levels" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer *model = NULL;
        coffer_error err;
        write_index(cases[i][0]);
        assert_int_not_equal(coffer_open(&model, work_path(INDEX), NULL, &err), COFFER_OK);
        assert_string_equal(err.message, cases[i][1]);
    }
}

/* ---- notes, and what is left out --------------------------------------------------------------------------------- */

static void assert_note(const coffer *model, coffer_note_kind kind, uint64_t count, uint64_t offset,
                        const char *subject)
{
    const char *about = NULL;
    const coffer_note note = coffer_model_note(model, kind, &about);
    assert_int_equal(note.count, count);
    assert_int_equal(note.offset, offset);
    assert_string_equal(about, subject);
    assert_int_equal(coffer_model_note(model, kind, NULL).count, count);
}

static coffer *open_noted(const char *text, bool all_notes)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    coffer_error err;
    options.all_notes = all_notes;
    write_index(text);
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, &err), COFFER_OK);
    return model;
}

static void what_is_odd_is_noted(void **state)
{
    (void)state;
    coffer *model = open_noted(THREE, true);
    for (int kind = -1; kind <= COFFER_NOTE_COUNT; kind++) {
        if (kind != COFFER_NOTE_UNALIGNED) {
            assert_note(model, (coffer_note_kind)kind, 0, COFFER_NO_OFFSET, "");
        }
    }
    coffer_close(model);
    static const char odd[] = "{\"metadata\": {\"total_size\": 8330, \"total_size \": 1}, \"weight_map\": {"
                              "\"a.weight\": \"m-00002-of-00003.safetensors\", "
                              "\"b.weight\": \"m-00001-of-00003.safetensors\"}}";
    write_shard("m-00004-of-00004.safetensors", third_specs, 1);
    write_shard("m_00004-of-00004.safetensors", third_specs, 1);
    write_shard("m.safetensors", third_specs, 1);
    model = open_noted(odd, true);
    assert_note(model, COFFER_NOTE_UNINDEXED, 2, COFFER_NO_OFFSET, "tail");
    assert_note(model, COFFER_NOTE_TOTAL_SIZE, 1, place_of(odd, "8330"), "");
    assert_note(model, COFFER_NOTE_EXTRA_SHARD, 2, COFFER_NO_OFFSET, "m-00003-of-00003.safetensors");
    assert_note(model, COFFER_NOTE_SHARD_COUNT, 1, COFFER_NO_OFFSET, work_path("m-00001-of-00003.safetensors"));
    assert_note(model, COFFER_NOTE_NO_INDEX, 0, COFFER_NO_OFFSET, "");
    size_t len = 0;
    const char *metadata = coffer_index_metadata(model, &len);
    assert_int_equal(len, strlen("{\"total_size\": 8330, \"total_size \": 1}"));
    assert_memory_equal(metadata, "{\"total_size\": 8330, \"total_size \": 1}", len);
    coffer_close(model);
    model = open_noted(odd, false);
    assert_note(model, COFFER_NOTE_EXTRA_SHARD, 0, COFFER_NO_OFFSET, "");
    coffer_close(model);
    /* What a total size may be, and what is none. */
    static const char *const sizes[] = {
        "8259", "8259.0", "8259.", "8259.5", "-1", "\"8259\"", "null", "8259e0", "99999999999999999999999", "[]", "1"
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"metadata\": {\"total_size\": %s}, \"weight_map\": {\"a.weight\": "
                 "\"m-00002-of-00003.safetensors\", \"b.weight\": \"m-00001-of-00003.safetensors\", \"tail\": "
                 "\"m-00001-of-00003.safetensors\"}}",
                 sizes[i]);
        if (strcmp(sizes[i], "8259.") == 0) {
            assert_open_fails(text, COFFER_ERR_JSON, 33, INDEX);
            continue;
        }
        model = open_noted(text, false);
        const bool right = i < 2;
        assert_note(model, COFFER_NOTE_TOTAL_SIZE, right ? 0 : 1, right ? COFFER_NO_OFFSET : 28, "");
        coffer_close(model);
    }
    assert_int_equal(coffer_open(&model, work_path("m.safetensors"), NULL, NULL), COFFER_OK);
    assert_null(coffer_index_metadata(model, &len));
    assert_int_equal(len, 0);
    len = 1;
    assert_null(coffer_index_text(model, &len));
    assert_int_equal(len, 0);
    assert_string_equal(coffer_index_path(model), "");
    assert_note(model, COFFER_NOTE_UNINDEXED, 0, COFFER_NO_OFFSET, "");
    coffer_close(model);
}

static void index_and_headers_are_had_as_they_are(void **state)
{
    (void)state;
    coffer *model = open_index(COFFER_READ);
    size_t len = 0;
    const void *text = coffer_index_text(model, &len);
    assert_int_equal(len, strlen(THREE));
    assert_memory_equal(text, THREE, len);
    assert_ptr_equal(coffer_index_text(model, NULL), text);
    assert_string_equal(coffer_index_path(model), work_path(INDEX));
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const uint64_t size = coffer_table_data_offset(coffer_shard_table(model, i));
        uint8_t header[512];
        char name[64];
        size_t file_size = 0;
        coffer_error err;
        snprintf(name, sizeof name, "m-0000%zu-of-00003.safetensors", i + 1);
        uint8_t *bytes = file_read(name, &file_size);
        assert_true(size <= sizeof header && size <= file_size);
        assert_int_equal(coffer_read_header(model, i, header, size, NULL, &err), COFFER_OK);
        assert_memory_equal(header, bytes, (size_t)size);
        assert_int_equal(coffer_read_header(model, i, header, size - 1, NULL, &err), COFFER_ERR_BUFFER_SIZE);
        assert_string_equal(err.path, work_path(name));
        free(bytes);
    }
    coffer_close(model);
    /* Of a selection, the index says more than is open. */
    static const char *const wanted[] = { "tail" };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.select = wanted;
    options.select_count = 1;
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, NULL), COFFER_OK);
    assert_null(coffer_index_text(model, &len));
    assert_string_equal(coffer_index_path(model), work_path(INDEX));
    coffer_close(model);
}

static void only_the_shards_that_are_wanted_are_opened(void **state)
{
    (void)state;
    const char *const patterns[] = { "c.*", "[!a-z]", "em?ty" };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    coffer_error err;
    options.select = patterns;
    options.select_count = 3;
    assert_int_equal(unlink(work_path("m-00001-of-00003.safetensors")), 0); /* it must not even be there */
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, &err), COFFER_OK);
    assert_int_equal(coffer_shard_count(model), 2);
    assert_int_equal(coffer_count(model), 3);
    assert_int_equal(tensor_named(model, "c.weight")->shard, 1);
    assert_string_equal(coffer_shard_path(model, 0), work_path("m-00002-of-00003.safetensors"));
    assert_non_null(tensor_named(model, "a.weight")); /* it is in one of them */
    assert_null(tensor_named(model, "b.weight"));
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        assert_int_equal(coffer_model_note(model, (coffer_note_kind)kind, NULL).count, 0);
    }
    coffer_close(model);
    options.select_count = 1;
    const char *const nothing[] = { "d.*" };
    options.select = nothing;
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, &err), COFFER_ERR_NO_TENSOR);
    assert_string_equal(err.path, work_path(INDEX));
    options.select = NULL;
    assert_int_equal(coffer_open(&model, work_path(INDEX), &options, &err), COFFER_ERR_ARGUMENT);
}

/* ---- memory and the system fail ---------------------------------------------------------------------------------- */

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &allocator;
    coffer *model = NULL;
    size_t fail_at = 1;
    for (;; fail_at++) {
        coffer_error err;
        meter = (memory_meter){ .fail_at = fail_at };
        const coffer_status status = coffer_open(&model, work_path(INDEX), &options, &err);
        if (status == COFFER_OK) {
            break;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_null(model);
        assert_int_equal(meter.held, 0);
        assert_int_equal(meter.blocks, 0);
    }
    assert_true(fail_at > 20);
    coffer_close(model);
    assert_int_equal(meter.held, 0);
    assert_int_equal(meter.blocks, 0);
}

static void every_call_of_the_system_may_fail(void **state)
{
    (void)state;
    const size_t before = open_descriptors();
    coffer *model = NULL;
    unsigned failed = 0;
    for (unsigned fail_at = 1;; fail_at++) {
        coffer_error err;
        faults_clear();
        faults.fail_at = fail_at;
        faults.error = EIO;
        const coffer_status status = coffer_open(&model, work_path(INDEX), NULL, &err);
        const bool reached = atomic_load(&faults.calls) >= fail_at;
        faults_clear();
        if (!reached) {
            assert_int_equal(status, COFFER_OK);
            coffer_close(model);
            break;
        }
        if (status == COFFER_OK) {
            coffer_close(model); /* a file that could not be closed after reading is no loss */
        } else {
            failed++;
            assert_int_equal(status, COFFER_ERR_IO);
            assert_int_equal(err.os_error, EIO);
            assert_null(model);
            assert_string_not_equal(err.path, "");
        }
        assert_int_equal(open_descriptors(), before);
    }
    assert_true(failed > 10);
}

#ifdef __linux__
/* ---- file systems without maps ----------------------------------------------------------------------------------- */

static int map_error; /* 0: files can be mapped */

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *(*next)(void *address, size_t size, int protection, int flags, int fd, off_t offset);
    if (map_error != 0 && fd >= 0) {
        errno = map_error;
        return MAP_FAILED;
    }
    faulty_find(&next, FAULTY_OFFSETS("mmap"));
    return next(address, size, protection, flags, fd, offset);
}

/* Data in place are refused in words for anybody, and everything can be read. */
static void what_cannot_be_mapped_is_read(void **state)
{
    (void)state;
    const coffer_access ways[] = { COFFER_MAP, COFFER_MAP_PRIVATE };
    const int errors[] = { ENODEV, EACCES, EPERM, ENOMEM, EINVAL };
    for (size_t i = 0; i < 10; i++) {
        coffer *model = open_index(ways[i % 2]);
        const coffer_tensor *tensor = coffer_find(model, "a.weight", 8);
        const coffer_index rows = { COFFER_INDEX_RANGE, true, true, 3, 5, 1 };
        float whole[64 * 32];
        float part[2 * 32];
        coffer_error err;
        map_error = errors[i / 2];
        assert_null(coffer_data(model, tensor, &err));
        assert_int_equal(err.os_error, map_error);
        assert_null(strstr(err.message, "COFFER_"));
        assert_non_null(strstr(err.message, "cannot map the file, which can be read instead: "));
        const coffer_read_target target = { tensor, whole, sizeof whole };
        assert_int_equal(coffer_read(model, tensor, whole, sizeof whole, NULL, &err), COFFER_OK);
        assert_int_equal(coffer_read_slice(model, tensor, &rows, 1, part, sizeof part, NULL, &err), COFFER_OK);
        assert_memory_equal(part, whole + 3 * 32, sizeof part);
        memset(whole, 0, sizeof whole);
        assert_int_equal(coffer_read_many(model, &target, 1, NULL, &err), COFFER_OK);
        assert_memory_equal(part, whole + 3 * 32, sizeof part);
        coffer_close(model);
        map_error = 0;
    }
}

static void files_that_are_better_read(void **state)
{
    (void)state;
    const int fd = open(work_path(INDEX), O_RDONLY);
    assert_false(coffer_is_remote(work_path(INDEX), -1));
    assert_false(coffer_is_remote(work_path("none"), -1));
    assert_false(coffer_is_remote(NULL, fd));
    assert_true(coffer_is_remote("https://example.org/model.safetensors", -1));
    assert_true(coffer_is_remote("hf://owner/name", -1));
    faults.file_system = FAULTY_NFS;
    assert_true(coffer_is_remote(NULL, fd));
    faults.file_system = 0x65735546; /* FUSE */
    assert_true(coffer_is_remote(NULL, fd));
    faults.file_system = 0;
    close(fd);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_of_all_shards_are_found, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(every_way_of_reading_works, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(a_model_is_copied_into_one_file, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(index_and_shards_must_agree, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(a_name_belongs_to_the_file_of_the_index, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_out_is_not_found_elsewhere, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(a_total_size_counts_one_copy_or_both, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(names_of_files_lead_nowhere_else, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(links_lead_only_where_the_index_lies, set_up_hub, tear_down_hub),
        cmocka_unit_test_setup_teardown(indices_that_are_none, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(an_index_is_called_one, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(what_is_odd_is_noted, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(index_and_headers_are_had_as_they_are, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(only_the_shards_that_are_wanted_are_opened, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(every_call_of_the_system_may_fail, set_up, faults_tear_down),
#ifdef __linux__
        cmocka_unit_test_setup_teardown(what_cannot_be_mapped_is_read, set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(files_that_are_better_read, set_up, faults_tear_down),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
