/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "support_sink.h"

#include "support_cmocka.h"
#include "support_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t fresh[FRESH_SIZE];
uint8_t old[OLD_SIZE];
static mode_t mask_before;

void saving_begin(void)
{
    mask_before = umask(022);
    for (size_t i = 0; i < FRESH_SIZE; i++) {
        fresh[i] = pattern_byte(i);
    }
    for (size_t i = 0; i < OLD_SIZE; i++) {
        old[i] = pattern_byte(i + 1000000);
    }
    work_dir_make();
}

void saving_end(void)
{
    (void)umask(mask_before);
    work_dir_remove();
}

void assert_file(const char *name, const uint8_t *bytes, size_t size)
{
    size_t found_size = 0;
    uint8_t *found = file_read(name, &found_size);
    assert_int_equal(found_size, size);
    assert_memory_equal(found, bytes, size);
    free(found);
}

bool file_is(const char *name, const uint8_t *bytes, size_t size)
{
    size_t found_size = 0;
    uint8_t *found = file_read(name, &found_size);
    const bool same = found_size == size && memcmp(found, bytes, size) == 0;
    free(found);
    return same;
}

mode_t mode_of(const char *name)
{
    return look(name).st_mode & 07777;
}

coffer_status fill(coffer__byte_sink *sink, coffer_error *err)
{
    coffer_status status = sink->ops->reserve(sink, FRESH_SIZE, err);
    if (status == COFFER_OK) {
        status = sink->ops->write_at(sink, FRESH_SIZE / 2, fresh + FRESH_SIZE / 2, FRESH_SIZE - FRESH_SIZE / 2, err);
    }
    return status == COFFER_OK ? sink->ops->write_at(sink, 0, fresh, FRESH_SIZE / 2, err) : status;
}

coffer_status finish(coffer__byte_sink *sink, coffer_error *err)
{
    const coffer_status status = fill(sink, err);
    if (status != COFFER_OK) {
        sink->ops->discard(sink);
        return status;
    }
    return sink->ops->publish(sink, err);
}

coffer_status save(const char *path, coffer_sync sync, bool in_place, coffer_error *err)
{
    coffer__byte_sink sink;
    const coffer_status status = coffer__sink_path(&sink, coffer_libc_allocator(), path, sync, in_place, err);
    return status == COFFER_OK ? finish(&sink, err) : status;
}

coffer_status save_fd(int fd, coffer_sync sync, coffer_error *err)
{
    coffer__byte_sink sink;
    const coffer_status status = coffer__sink_fd(&sink, coffer_libc_allocator(), fd, sync, err);
    return status == COFFER_OK ? finish(&sink, err) : status;
}

const char *hidden_name(void)
{
    static char name[256];
    DIR *stream = opendir(work_path("."));
    assert_non_null(stream);
    unsigned count = 0;
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strncmp(entry->d_name, ".", 1) == 0 && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            (void)snprintf(name, sizeof name, "%s", entry->d_name);
            count++;
        }
    }
    closedir(stream);
    assert_int_equal(count, 1);
    return name;
}

int open_model(int flags)
{
    const int fd = open(work_path("model"), flags | O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}
