/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "support_file.h"

#include "support_cmocka.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[64];

void work_dir_make(void)
{
    memcpy(directory, "/tmp/coffer-test-XXXXXX", sizeof "/tmp/coffer-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
}

/* Calls `each`, which may be NULL, for every name in the directory and returns how many there are. */
static size_t walk_directory(void (*each)(const char *name))
{
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    size_t count = 0;
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        count++;
        if (each != NULL) {
            each(entry->d_name);
        }
    }
    closedir(stream);
    return count;
}

static void remove_name(const char *name)
{
    assert_int_equal(unlink(work_path(name)), 0);
}

void work_dir_remove(void)
{
    walk_directory(remove_name);
    assert_int_equal(rmdir(directory), 0);
}

int work_dir_set_up(void **state)
{
    (void)state;
    work_dir_make();
    return 0;
}

int work_dir_tear_down(void **state)
{
    (void)state;
    work_dir_remove();
    return 0;
}

size_t work_dir_count(void)
{
    return walk_directory(NULL);
}

size_t open_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return count;
}

const char *work_path(const char *name)
{
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % 8];
    const int length = snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    assert_true(length > 0 && (size_t)length < sizeof paths[0]);
    return path;
}

void file_write(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(work_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

uint8_t *file_read(const char *name, size_t *size)
{
    FILE *file = fopen(work_path(name), "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

struct stat look(const char *name)
{
    struct stat found;
    assert_int_equal(lstat(work_path(name), &found), 0);
    return found;
}

bool file_has(const char *name, file_bytes expected)
{
    size_t size = 0;
    uint8_t *found = file_read(name, &size);
    const bool same = size == expected.size && memcmp(found, expected.at, size) == 0;
    free(found);
    return same;
}

void assert_file_has(const char *name, file_bytes expected)
{
    size_t size = 0;
    uint8_t *found = file_read(name, &size);
    assert_int_equal(size, expected.size);
    assert_memory_equal(found, expected.at, size);
    free(found);
}

coffer_header *header_of(const tensor_spec *specs, size_t count, const coffer_allocator *allocator)
{
    coffer_header *header = NULL;
    coffer_error err;
    assert_int_equal(coffer_header_new(&header, allocator != NULL ? allocator : coffer_libc_allocator(), &err),
                     COFFER_OK);
    assert_int_equal(coffer_header_set_metadata(header, "made by", 7, "test", 4, &err), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        const tensor_spec *spec = &specs[i];
        assert_int_equal(
            coffer_header_add(header, spec->name, strlen(spec->name), spec->dtype, spec->shape, spec->rank, &err),
            COFFER_OK);
    }
    return header;
}

uint8_t pattern_byte(uint64_t i)
{
    return (uint8_t)((i * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

image image_of(const tensor_spec *specs, size_t count)
{
    coffer_header *header = header_of(specs, count, NULL);
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_build(header, NULL, &bytes, &size, &table, NULL), COFFER_OK);
    image made = { .data_offset = (size_t)size };
    made.size = (size_t)(size + coffer_table_data_size(table));
    made.bytes = malloc(made.size + 1);
    assert_non_null(made.bytes);
    memcpy(made.bytes, bytes, (size_t)size);
    for (size_t i = (size_t)size; i < made.size; i++) {
        made.bytes[i] = pattern_byte(i);
    }
    coffer_header_free(header);
    return made;
}

void image_free(image *made)
{
    free(made->bytes);
    made->bytes = NULL;
}
