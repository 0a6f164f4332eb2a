/* SPDX-License-Identifier: Apache-2.0 */
#include "support_model.h"

#include "support_cmocka.h"

#include "support_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL_FIRST_SIZE 40
#define MODEL_MAX_BYTES 256

/* ---- what lies there ------------------------------------------------------------------------------------------------- */

/* The names in the directory, at most SNAPSHOT_MAX_FILES of them. */
static size_t list_names(char names[SNAPSHOT_MAX_FILES][256])
{
    size_t count = 0;
    DIR *stream = opendir(work_path("."));
    assert_non_null(stream);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            assert_true(count < SNAPSHOT_MAX_FILES);
            snprintf(names[count++], 256, "%s", entry->d_name);
        }
    }
    closedir(stream);
    return count;
}

snapshot snapshot_take(void)
{
    snapshot taken = { 0 };
    char names[SNAPSHOT_MAX_FILES][256];
    taken.count = list_names(names);
    for (size_t i = 0; i < taken.count; i++) {
        memcpy(taken.files[i].name, names[i], sizeof names[i]);
        taken.files[i].bytes = file_read(names[i], &taken.files[i].size);
    }
    return taken;
}

void snapshot_free(snapshot *taken)
{
    for (size_t i = 0; i < taken->count; i++) {
        free(taken->files[i].bytes);
    }
    taken->count = 0;
}

bool snapshot_has(const snapshot *taken, const char *name)
{
    for (size_t i = 0; i < taken->count; i++) {
        if (strcmp(taken->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void snapshot_restore(const snapshot *taken)
{
    char names[SNAPSHOT_MAX_FILES][256];
    const size_t count = list_names(names);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(unlink(work_path(names[i])), 0);
    }
    for (size_t i = 0; i < taken->count; i++) {
        file_write(taken->files[i].name, taken->files[i].bytes, taken->files[i].size);
    }
}

bool snapshot_is_there(const snapshot *taken)
{
    for (size_t i = 0; i < taken->count; i++) {
        if (access(work_path(taken->files[i].name), F_OK) != 0) {
            return false;
        }
        size_t size = 0;
        uint8_t *bytes = file_read(taken->files[i].name, &size);
        const bool same = size == taken->files[i].size && memcmp(bytes, taken->files[i].bytes, size) == 0;
        free(bytes);
        if (!same) {
            return false;
        }
    }
    return true;
}

/* ---- saving ---------------------------------------------------------------------------------------------------------- */

coffer *model_open(const char *name)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path(name), &options, NULL), COFFER_OK);
    return model;
}

const coffer_tensor *tensor_named(const coffer *model, const char *name)
{
    return coffer_find(model, name, strlen(name));
}

coffer_header *model_header(size_t count, const coffer_allocator *allocator)
{
    coffer_header *header = NULL;
    assert_int_equal(coffer_header_new(&header, allocator, NULL), COFFER_OK);
    assert_int_equal(coffer_header_set_metadata(header, "format", 6, "pt", 2, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        const int name_len = snprintf(name, sizeof name, "t%zu", i);
        const uint64_t size = MODEL_FIRST_SIZE + i;
        assert_int_equal(coffer_header_add(header, name, (size_t)name_len, COFFER_U8, &size, 1, NULL), COFFER_OK);
    }
    return header;
}

static coffer_status write_all(coffer_model_writer *writer, size_t count, uint8_t seed, coffer_error *err)
{
    uint8_t bytes[MODEL_MAX_BYTES];
    coffer_status status = COFFER_OK;
    for (size_t k = 0; k < sizeof bytes; k++) {
        bytes[k] = (uint8_t)(seed + k);
    }
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = coffer_model_writer_write(writer, i, 0, bytes, MODEL_FIRST_SIZE + i, err);
    }
    return status == COFFER_OK ? coffer_model_writer_finish(writer, err) : status;
}

coffer_status model_save(size_t count, uint8_t seed, uint64_t limit, const coffer_model_writer_options *options,
                         const coffer_allocator *allocator, coffer_error *err)
{
    coffer_model_writer *writer = NULL;
    coffer_model_writer_options with_limit = COFFER_MODEL_WRITER_OPTIONS_INIT;
    if (options != NULL) {
        with_limit = *options;
    }
    with_limit.max_shard_size = limit;
    coffer_header *header = model_header(count, allocator);
    coffer_status status = coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &with_limit, err);
    if (status == COFFER_OK) {
        status = write_all(writer, count, seed, err);
    }
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    return status;
}

void model_assert_whole(const char *name, size_t count, size_t shards, uint8_t seed)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_RECORDED;
    if (coffer_open(&model, work_path(name), &options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(coffer_count(model), count);
    assert_int_equal(coffer_shard_count(model), shards);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[64];
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_true(tensor->size <= sizeof bytes);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        for (size_t k = 0; k < tensor->size; k++) {
            assert_int_equal(bytes[k], (uint8_t)(seed + k));
        }
    }
    coffer_close(model);
}
