/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: everything that reads trusts that all bytes that were asked for are there, from any thread, or that an error
 * says why not. So here are the paths that are no files, the files that shrink, the ranges that do not fit, interrupted
 * and short reads, and the functions of a caller that say nothing about why they failed. And the rest of the system's
 * doors: pages, the default allocator, and the words for errors.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "errno_status.h"
#include "paths.h"
#include "source.h"
#include "support_file.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SIZE 10000u

static uint8_t content[SIZE];

static int set_up(void **state)
{
    (void)state;
    faults_clear();
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = pattern_byte(i);
    }
    work_dir_make();
    file_write("model", content, SIZE);
    return 0;
}

/* The source's bytes in memory, until it is closed. */
static coffer__os_map mapped;

static void *map_whole(const coffer__byte_source *source, coffer_access access, bool populate, coffer_error *err)
{
    return coffer__source_map(source, 0, source->size, access, populate, &mapped, err);
}

static void close_mapped(coffer__byte_source *source)
{
    coffer__os_unmap(&mapped);
    mapped = (coffer__os_map){ NULL, 0 };
    source->ops->close(source);
}

static coffer_status open_range(coffer__byte_source *source, int fd, uint64_t offset, uint64_t size, coffer_error *err)
{
    const coffer_status status = coffer__source_fd(source, fd, err);
    return status == COFFER_OK ? coffer__source_narrow(source, offset, size, coffer_libc_allocator(), err) : status;
}

static void assert_reads(const coffer__byte_source *source, uint64_t offset, size_t size, const uint8_t *expected)
{
    uint8_t buffer[SIZE];
    coffer_error err;
    assert_int_equal(coffer__source_read(source, offset, buffer, size, &err), COFFER_OK);
    assert_memory_equal(buffer, expected, size);
}

/* ---- paths ----------------------------------------------------------------------------------------------------------- */

static void test_path(void **state)
{
    (void)state;
    const size_t before = open_descriptors();
    coffer__byte_source source;
    coffer_error err;
    assert_int_equal(coffer__source_path(&source, work_path("model"), &err), COFFER_OK);
    assert_int_equal(source.size, SIZE);
    assert_reads(&source, 0, SIZE, content);
    assert_reads(&source, 17, 1, content + 17);
    assert_reads(&source, SIZE - 1, 1, content + SIZE - 1);
    assert_reads(&source, SIZE, 0, content);
    close_mapped(&source);
    assert_int_equal(open_descriptors(), before);
}

static void assert_path_fails(const char *path, coffer_status code, int os_error)
{
    const size_t before = open_descriptors();
    coffer__byte_source source;
    coffer_error err;
    assert_int_equal(coffer__source_path(&source, path, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.os_error, os_error);
    assert_true(err.offset == COFFER_NO_OFFSET);
    assert_string_equal(err.path, path);
    assert_true(err.message[0] != '\0');
    assert_int_equal(coffer__source_path(&source, path, NULL), code);
    assert_int_equal(open_descriptors(), before);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(close(fd), 0);
}

static void test_path_is_no_file(void **state)
{
    (void)state;
    assert_path_fails(work_path("nothing"), COFFER_ERR_NOT_FOUND, ENOENT);
    assert_path_fails("", COFFER_ERR_NOT_FOUND, ENOENT);
    assert_path_fails(work_path("model/part"), COFFER_ERR_NOT_FOUND, ENOTDIR);
    assert_path_fails(work_path("."), COFFER_ERR_DIRECTORY, 0);
    assert_path_fails("/dev/null", COFFER_ERR_NOT_REGULAR, 0);
    /* Opening a pipe to read waits for a writer, unless one takes care. */
    assert_int_equal(mkfifo(work_path("pipe"), 0600), 0);
    assert_path_fails(work_path("pipe"), COFFER_ERR_NOT_REGULAR, 0);
    make_socket(work_path("socket"));
    assert_path_fails(work_path("socket"), COFFER_ERR_NOT_REGULAR, 0);
    assert_int_equal(symlink("gone", work_path("dangling")), 0);
    assert_path_fails(work_path("dangling"), COFFER_ERR_NOT_FOUND, ENOENT);
    assert_int_equal(symlink("loop", work_path("loop")), 0);
    assert_path_fails(work_path("loop"), COFFER_ERR_IO, ELOOP);
    char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_path_fails(work_path(long_name), COFFER_ERR_IO, ENAMETOOLONG);
}

static void test_path_system_refuses(void **state)
{
    (void)state;
    faults.always[FAULT_OPEN] = EACCES;
    assert_path_fails(work_path("model"), COFFER_ERR_IO, EACCES);
    faults_clear();
    faults.always[FAULT_INSPECT] = EIO;
    assert_path_fails(work_path("model"), COFFER_ERR_IO, EIO);
}

/* While the undo file of an edit is there, the header may be half old and half new. */
static void test_path_undo(void **state)
{
    (void)state;
    file_write("model.coffer-undo", "x", 1);
    assert_path_fails(work_path("model"), COFFER_ERR_UNDO, 0);
    coffer_error err;
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, work_path("model"), &err), COFFER_ERR_UNDO);
    assert_non_null(strstr(err.message, "coffer meta --recover \"/"));
    assert_non_null(strstr(err.message, "/model\""));
    /* A link lies elsewhere; the undo file lies beside the file itself. */
    assert_int_equal(symlink("model", work_path("link")), 0);
    assert_path_fails(work_path("link"), COFFER_ERR_UNDO, 0);
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    file_write("link.coffer-undo", "x", 1);
    assert_int_equal(coffer__source_path(&source, work_path("link"), &err), COFFER_OK);
    assert_reads(&source, 5, 100, content + 5);
    close_mapped(&source);
}

/* A file that has no name any more can still be opened by way of /proc. */
static void test_path_of_deleted_file(void **state)
{
    (void)state;
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(work_path("model")), 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, path, NULL), COFFER_OK);
    assert_int_equal(close(fd), 0);
    assert_reads(&source, 0, SIZE, content);
    close_mapped(&source);
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static void test_read_out_of_range(void **state)
{
    (void)state;
    coffer__byte_source source;
    coffer_error err;
    uint8_t buffer[16];
    assert_int_equal(coffer__source_path(&source, work_path("model"), &err), COFFER_OK);
    assert_int_equal(coffer__source_read(&source, SIZE - 15, buffer, 16, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(err.offset, SIZE - 15);
    assert_int_equal(coffer__source_read(&source, SIZE + 1, buffer, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer__source_read(&source, UINT64_MAX, buffer, 16, &err), COFFER_ERR_ARGUMENT);
    close_mapped(&source);
}

static void test_read_interrupted_and_short(void **state)
{
    (void)state;
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    faults.interrupted = 2;
    faults.most = 999;
    assert_reads(&source, 1, SIZE - 1, content + 1);
    assert_true(faults.calls >= 11);
    close_mapped(&source);
}

static void test_read_fails(void **state)
{
    (void)state;
    coffer__byte_source source;
    coffer_error err;
    uint8_t buffer[2000];
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    faults_clear();
    faults.most = 600;
    faults.fail_at = 3;
    faults.error = EIO;
    assert_int_equal(coffer__source_read(&source, 100, buffer, sizeof buffer, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EIO);
    assert_int_equal(err.offset, 100 + 2 * 600);
    faults_clear();
    close_mapped(&source);
}

static void test_file_shrinks(void **state)
{
    (void)state;
    coffer__byte_source source;
    coffer_error err;
    uint8_t buffer[SIZE];
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    assert_int_equal(truncate(work_path("model"), 5000), 0);
    assert_reads(&source, 0, 5000, content);
    assert_int_equal(coffer__source_read(&source, 4000, buffer, 2000, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 5000);
    assert_int_equal(err.expected, SIZE);
    assert_int_equal(err.actual, 5000);
    assert_non_null(strstr(err.message, "10000"));
    assert_non_null(strstr(err.message, "5000"));
    assert_int_equal(coffer__source_read(&source, 9000, buffer, 1, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 9000);
    assert_null(map_whole(&source, COFFER_MAP, false, &err));
    assert_int_equal(err.code, COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 5000);
    close_mapped(&source);
}

/* ---- descriptors ----------------------------------------------------------------------------------------------------- */

static void test_descriptor_range(void **state)
{
    (void)state;
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(lseek(fd, 77, SEEK_SET), 77);
    coffer__byte_source source;
    coffer_error err;
    assert_int_equal(open_range(&source, fd, 100, 5000, &err), COFFER_OK);
    assert_int_equal(source.size, 5000);
    assert_reads(&source, 0, 5000, content + 100);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 77);
    const uint8_t *map = map_whole(&source, COFFER_MAP, false, &err);
    assert_non_null(map);
    assert_memory_equal(map, content + 100, 5000);
    /* The caller's descriptor is its own affair from now on. */
    assert_int_equal(close(fd), 0);
    assert_reads(&source, 4999, 1, content + 5099);
    close_mapped(&source);
}

static void test_descriptor_to_the_end(void **state)
{
    (void)state;
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    coffer__byte_source source;
    assert_int_equal(open_range(&source, fd, 4097, UINT64_MAX, NULL), COFFER_OK);
    assert_int_equal(source.size, SIZE - 4097);
    const uint8_t *map = map_whole(&source, COFFER_MAP, false, NULL);
    assert_memory_equal(map, content + 4097, SIZE - 4097);
    close_mapped(&source);
    /* Nothing is a range, too, and has an address. */
    assert_int_equal(open_range(&source, fd, SIZE, UINT64_MAX, NULL), COFFER_OK);
    assert_int_equal(source.size, 0);
    assert_non_null(map_whole(&source, COFFER_MAP, true, NULL));
    close_mapped(&source);
    assert_int_equal(close(fd), 0);
}

static void assert_descriptor_fails(int fd, uint64_t offset, uint64_t size, coffer_status code)
{
    coffer__byte_source source;
    coffer_error err;
    const size_t before = open_descriptors();
    assert_int_equal(open_range(&source, fd, offset, size, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(open_descriptors(), before);
}

static void test_descriptor_fails(void **state)
{
    (void)state;
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_descriptor_fails(fd, SIZE + 1, UINT64_MAX, COFFER_ERR_ARGUMENT);
    assert_descriptor_fails(fd, SIZE + 1, 0, COFFER_ERR_ARGUMENT);
    assert_descriptor_fails(fd, 1, SIZE, COFFER_ERR_ARGUMENT);
    assert_descriptor_fails(fd, SIZE, UINT64_MAX - 1, COFFER_ERR_ARGUMENT);
    assert_int_equal(close(fd), 0);
    assert_descriptor_fails(-1, 0, UINT64_MAX, COFFER_ERR_IO);
    const int directory = open(work_path("."), O_RDONLY | O_CLOEXEC);
    assert_descriptor_fails(directory, 0, UINT64_MAX, COFFER_ERR_DIRECTORY);
    assert_int_equal(close(directory), 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_descriptor_fails(ends[0], 0, UINT64_MAX, COFFER_ERR_NOT_REGULAR);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

static void test_descriptor_write_only(void **state)
{
    (void)state;
    const int fd = open(work_path("model"), O_WRONLY | O_CLOEXEC);
    coffer__byte_source source;
    coffer_error err;
    uint8_t byte = 0;
    assert_int_equal(open_range(&source, fd, 0, UINT64_MAX, &err), COFFER_OK);
    assert_int_equal(coffer__source_read(&source, 0, &byte, 1, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EBADF);
    assert_null(map_whole(&source, COFFER_MAP, false, &err));
    assert_int_equal(err.code, COFFER_ERR_IO);
    assert_int_equal(err.os_error, EACCES);
    close_mapped(&source);
    assert_int_equal(close(fd), 0);
}

/* ---- maps ------------------------------------------------------------------------------------------------------------ */

static void check_map(coffer_access access, bool populate)
{
    coffer__byte_source source;
    coffer_error err;
    assert_int_equal(coffer__source_path(&source, work_path("model"), &err), COFFER_OK);
    uint8_t *map = map_whole(&source, access, populate, &err);
    assert_non_null(map);
    assert_memory_equal(map, content, SIZE);
    if (access == COFFER_MAP_PRIVATE) {
        map[0] ^= 0xFF;
        map[SIZE - 1] ^= 0xFF;
        assert_reads(&source, 0, SIZE, content);
    }
    close_mapped(&source);
}

static void test_map(void **state)
{
    (void)state;
    check_map(COFFER_MAP, false);
    check_map(COFFER_MAP, true);
    check_map(COFFER_MAP_PRIVATE, false);
    check_map(COFFER_MAP_PRIVATE, true);
}

/* A shared map is the file, not a copy of it. */
static void test_map_sees_changes(void **state)
{
    (void)state;
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    const uint8_t *map = map_whole(&source, COFFER_MAP, false, NULL);
    const int fd = open(work_path("model"), O_WRONLY | O_CLOEXEC);
    const uint8_t changed = (uint8_t)(content[123] ^ 0xFF);
    assert_int_equal(pwrite(fd, &changed, 1, 123), 1);
    assert_int_equal(map[123], changed);
    assert_int_equal(close(fd), 0);
    close_mapped(&source);
}

static void test_empty_file(void **state)
{
    (void)state;
    file_write("empty", "", 0);
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, work_path("empty"), NULL), COFFER_OK);
    assert_int_equal(source.size, 0);
    assert_non_null(map_whole(&source, COFFER_MAP, true, NULL));
    assert_reads(&source, 0, 0, content);
    close_mapped(&source);
}

/* ---- memory and the caller's own ------------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
    (void)state;
    coffer__byte_source source;
    coffer_error err;
    coffer__source_memory(&source, content, SIZE);
    assert_int_equal(source.size, SIZE);
    assert_reads(&source, 3, 500, content + 3);
    assert_ptr_equal(map_whole(&source, COFFER_MAP, false, &err), content);
    assert_null(map_whole(&source, COFFER_MAP_PRIVATE, false, &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    close_mapped(&source);
    coffer__source_memory(&source, NULL, 0);
    assert_non_null(map_whole(&source, COFFER_MAP, false, &err));
    assert_reads(&source, 0, 0, content);
    close_mapped(&source);
}

typedef struct own_source {
    coffer_status answer;
    bool silent;
    unsigned reads;
    unsigned closes;
} own_source;

static coffer_status own_read_at(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    own_source *own = ctx;
    own->reads++;
    assert_non_null(err);
    assert_int_equal(err->code, COFFER_OK);
    if (own->answer != COFFER_OK) {
        if (!own->silent) {
            err->code = own->answer;
            err->http_status = 503;
        }
        return own->answer;
    }
    memcpy(buffer, content + offset, size);
    return COFFER_OK;
}

static void own_close(void *ctx)
{
    own_source *own = ctx;
    own->closes++;
}

static void test_custom(void **state)
{
    (void)state;
    own_source own = { COFFER_OK, false, 0, 0 };
    const coffer_source given = { .read_at = own_read_at, .close = own_close, .ctx = &own, .size = SIZE };
    coffer__byte_source source;
    coffer_error err;
    uint8_t buffer[8];
    coffer__source_custom(&source, &given);
    assert_int_equal(source.size, SIZE);
    assert_reads(&source, 77, 1000, content + 77);
    assert_int_equal(coffer__source_read(&source, SIZE, buffer, 1, &err), COFFER_ERR_ARGUMENT);
    assert_reads(&source, 5, 0, content);
    assert_int_equal(own.reads, 1);
    own.answer = COFFER_ERR_CHANGED;
    assert_int_equal(coffer__source_read(&source, 1, buffer, 1, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.http_status, 503);
    assert_int_equal(coffer__source_read(&source, 1, buffer, 1, NULL), COFFER_ERR_CHANGED);
    own.silent = true;
    assert_int_equal(coffer__source_read(&source, 42, buffer, 1, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.code, COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 42);
    assert_true(err.message[0] != '\0');
    assert_null(map_whole(&source, COFFER_MAP, false, &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    close_mapped(&source);
    assert_int_equal(own.closes, 1);
    const coffer_source without_close = { .read_at = own_read_at, .ctx = &own, .size = SIZE };
    coffer__source_custom(&source, &without_close);
    close_mapped(&source);
}

/* ---- pages, allocator, words ----------------------------------------------------------------------------------------- */

static void test_buffers(void **state)
{
    (void)state;
    const size_t sizes[] = { 0, 1, 4096, 4097, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, (5u << 20) + 12345 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *buffer = coffer_buffer_new(sizes[i]);
        assert_non_null(buffer);
        const uintptr_t wanted = sizes[i] >= 2u << 20 ? 2u << 20 : 4096;
        assert_int_equal((uintptr_t)buffer % wanted, 0);
        memset(buffer, 0x5A, sizes[i]);
        coffer_buffer_free(buffer, sizes[i]);
    }
    assert_null(coffer_buffer_new(SIZE_MAX));
    assert_null(coffer_buffer_new(SIZE_MAX - (8u << 20)));
    coffer_buffer_free(NULL, 100);
}

/* What was mapped only to find an aligned place must be gone: neither address space nor memory may leak. */
static void test_buffers_do_not_leak(void **state)
{
    (void)state;
    const size_t size = (size_t)8 << 20;
    void *first = coffer_buffer_new(size);
    unsigned char resident = 0;
    coffer_buffer_free(first, size);
    assert_int_equal(mincore(first, 4096, &resident), -1);
    assert_int_equal(errno, ENOMEM);
}

static void test_libc_allocator(void **state)
{
    (void)state;
    const coffer_allocator *libc = coffer_libc_allocator();
    assert_ptr_equal(libc, coffer_libc_allocator());
    uint8_t *block = libc->alloc(libc->ctx, 10);
    assert_non_null(block);
    memcpy(block, "0123456789", 10);
    block = libc->realloc(libc->ctx, block, 10, 10000);
    assert_non_null(block);
    assert_memory_equal(block, "0123456789", 10);
    libc->free(libc->ctx, block, 10000);
}

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(coffer__os_words(ENOSPC), "no space left on the device");
    assert_string_equal(coffer__os_words(EXDEV), "it is on another file system");
    assert_string_equal(coffer__os_words(123456), "the system refused");
    coffer_error err;
    assert_int_equal(coffer__errno_status(&err, "do it", "some/path", EIO), COFFER_ERR_IO);
    assert_string_equal(err.message, "cannot do it: input/output error of the device (errno 5)");
    assert_string_equal(err.path, "some/path");
    assert_int_equal(coffer__errno_status(NULL, "do it", "some/path", ENOENT), COFFER_ERR_NOT_FOUND);
    assert_true(coffer__os_processors() >= 1);
    assert_true(coffer__os_descriptors() >= 16);
}

static void test_path_texts(void **state)
{
    (void)state;
    coffer__path path;
    assert_true(coffer__path_directory(&path, "name"));
    assert_string_equal(path.text, ".");
    assert_true(coffer__path_directory(&path, "/name"));
    assert_string_equal(path.text, "/");
    assert_true(coffer__path_directory(&path, "a/b/name"));
    assert_string_equal(path.text, "a/b/");
    assert_true(coffer__path_beside(&path, "a/b/name", ".", ".new"));
    assert_string_equal(path.text, "a/b/.name.new");
    assert_true(coffer__path_beside(&path, "name", "", ".coffer-undo"));
    assert_string_equal(path.text, "name.coffer-undo");
    assert_true(coffer__path_sibling(&path, "a/b/name", "other"));
    assert_string_equal(path.text, "a/b/other");
    assert_int_equal(coffer__path_name_at("a/b/"), 4);
    char long_path[COFFER__PATH_SIZE + 1];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_false(coffer__path_copy(&path, long_path));
    assert_false(coffer__path_beside(&path, long_path + COFFER__PATH_SIZE - 250, "", ".coffer-undo"));
    assert_true(coffer__path_beside(&path, long_path + COFFER__PATH_SIZE - 243, "", ".coffer-undo"));
    assert_false(coffer__path_beside(&path, long_path + COFFER__PATH_SIZE - 244, "", ".coffer-undo"));
    long_path[COFFER__PATH_SIZE - 1] = '\0';
    assert_true(coffer__path_copy(&path, long_path));
    memset(long_path, '/', COFFER__PATH_SIZE - 5);
    assert_true(coffer__path_beside(&path, long_path, "", ""));
    assert_false(coffer__path_beside(&path, long_path, ".", ""));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_path),
        TEST(test_path_is_no_file),
        TEST(test_path_system_refuses),
        TEST(test_path_undo),
        TEST(test_path_of_deleted_file),
        TEST(test_read_out_of_range),
        TEST(test_read_interrupted_and_short),
        TEST(test_read_fails),
        TEST(test_file_shrinks),
        TEST(test_descriptor_range),
        TEST(test_descriptor_to_the_end),
        TEST(test_descriptor_fails),
        TEST(test_descriptor_write_only),
        TEST(test_map),
        TEST(test_map_sees_changes),
        TEST(test_empty_file),
        TEST(test_memory),
        TEST(test_custom),
        TEST(test_buffers),
        TEST(test_buffers_do_not_leak),
        TEST(test_libc_allocator),
        TEST(test_words),
        TEST(test_path_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
