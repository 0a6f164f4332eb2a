/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with holes, which take no space on the disk: copies of them, by a writer and by an edit, take none either. Where a file system
 * has no holes the file here has none, and then its copies may be as large as it is. Space is measured before the content is looked at,
 * since tmpfs fills the holes of a mapping that is read.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "coffer.h"
#include "os.h"
#include "support_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define HOLLOW (40 * MIB)
#define ISLAND (21 * MIB + 4321) /* where the first tensor has bytes */
#define ISLAND_SIZE 10000u
#define SLACK (2 * MIB)

/* The first tensor has one island of bytes, the second one bytes only, the third none, at the end of the file. */
static const char header[] = "{\"hollow\":{\"dtype\":\"U8\",\"shape\":[41943040],\"data_offsets\":[0,41943040]},"
                             "\"solid\":{\"dtype\":\"U8\",\"shape\":[200000],\"data_offsets\":[41943040,42143040]},"
                             "\"zeros\":{\"dtype\":\"U8\",\"shape\":[9000000],\"data_offsets\":[42143040,51143040]}}";

static uint8_t island[ISLAND_SIZE];
static uint8_t solid[200000];

static uint64_t capacity_of(const char *name)
{
    struct stat info;
    assert_int_equal(stat(work_path(name), &info), 0);
    return (uint64_t)info.st_blocks * 512;
}

static void put(int fd, const void *bytes, size_t size, uint64_t at)
{
    assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    memset(island, 0xa5, sizeof island);
    memset(solid, 0x5a, sizeof solid);
    const uint64_t size = sizeof header - 1;
    const uint8_t frame[8] = { (uint8_t)size, (uint8_t)(size >> 8) };
    const int fd = open(work_path("model.safetensors"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(8 + size + 51143040)), 0);
    put(fd, frame, 8, 0);
    put(fd, header, (size_t)size, 8);
    put(fd, island, sizeof island, 8 + size + ISLAND);
    put(fd, solid, sizeof solid, 8 + size + HOLLOW);
    assert_int_equal(close(fd), 0);
    return 0;
}

static void assert_zeros(const uint8_t *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            assert_int_equal(i, UINT64_MAX);
        }
    }
}

static void assert_content(const char *name)
{
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path(name), NULL, NULL), COFFER_OK);
    const uint8_t *hollow = coffer_data(model, coffer_find(model, "hollow", 6), NULL);
    const uint8_t *zeros = coffer_data(model, coffer_find(model, "zeros", 5), NULL);
    const uint8_t *filled = coffer_data(model, coffer_find(model, "solid", 5), NULL);
    assert_true(hollow != NULL && zeros != NULL && filled != NULL);
    assert_zeros(hollow, ISLAND);
    assert_memory_equal(hollow + ISLAND, island, sizeof island);
    assert_zeros(hollow + ISLAND + ISLAND_SIZE, HOLLOW - ISLAND - ISLAND_SIZE);
    assert_memory_equal(filled, solid, sizeof solid);
    assert_zeros(zeros, 9000000);
    coffer_close(model);
}

static void holes_are_found(void **state)
{
    (void)state;
    const int fd = open(work_path("model.safetensors"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 17, SEEK_SET), 17);
    const uint64_t end = 8 + sizeof header - 1 + 51143040;
    const uint64_t data = coffer__os_next_data(fd, MIB);
    assert_true(data == MIB || (data <= sizeof header + 7 + ISLAND && data > ISLAND - MIB));
    assert_int_equal(coffer__os_next_data(fd, end), end);
    assert_int_equal(coffer__os_next_data(fd, end + 5), end + 5);
    const uint64_t hole = coffer__os_next_hole(fd, 0);
    assert_true(hole == UINT64_MAX || hole < MIB);
    assert_int_equal(coffer__os_next_hole(fd, end), UINT64_MAX);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 17);
    assert_int_equal(close(fd), 0);
}

static void a_writer_keeps_holes(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer_header *built = NULL;
    coffer_writer *writer = NULL;
    coffer_copy copies[3];
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_header_new(&built, coffer_libc_allocator(), NULL), COFFER_OK);
    for (size_t i = 0; i < 3; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_int_equal(
            coffer_header_add(built, tensor->name, tensor->name_len, tensor->dtype, tensor->shape, tensor->rank, NULL),
            COFFER_OK);
        copies[i] = (coffer_copy){ .to = i, .model = model, .tensor = tensor };
    }
    assert_int_equal(coffer_writer_open(&writer, built, work_path("copy.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, 3, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(built);
    coffer_close(model);
    assert_true(capacity_of("copy.safetensors") <= capacity_of("model.safetensors") + SLACK);
    assert_content("copy.safetensors");
}

static void an_edit_keeps_holes(void **state)
{
    (void)state;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = COFFER_EDIT_REWRITE;
    const coffer_edit edit = { .key = "k", .key_len = 1, .value = "v", .value_len = 1 };
    const uint64_t before = capacity_of("model.safetensors");
    assert_int_equal(coffer_edit_metadata(work_path("model.safetensors"), &edit, 1, &options, NULL, NULL), COFFER_OK);
    assert_true(capacity_of("model.safetensors") <= before + SLACK);
    assert_content("model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_are_found),
        cmocka_unit_test(a_writer_keeps_holes),
        cmocka_unit_test(an_edit_keeps_holes),
    };
    return cmocka_run_group_tests(tests, set_up, work_dir_tear_down);
}
