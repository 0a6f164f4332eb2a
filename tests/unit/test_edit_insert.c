/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits that find no space in the header, and yet copy no data: by a clone that shares their blocks, or, where it is asked for, by
 * blocks that the file system puts in before them. Few file systems can do either, so here lazy tensors for the system calls do it,
 * by copying; how the real ones behave is shown by tools/assurance/crash.py.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_model.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- lazy tensors ------------------------------------------------------------------------------------------------------- */

static struct {
    int insert;      /* the errno of putting in; 0: it works */
    int claim;       /* the same of leases; -1: the system is asked */
    bool clones;     /* ranges can be cloned */
    bool whole;      /* files can be cloned as a whole */
    bool fail_after; /* when blocks were put in, writing fails */
    bool broken;     /* … as it does now */
    bool dies;       /* the process ends instead of putting in */
    unsigned inserts;
    unsigned claims;
    unsigned let_go;
} world;

#ifdef __GLIBC__
#define NAME_OF(name) name "64"
#else
#define NAME_OF(name) name
#endif
/* With times of 64 bits on a machine of 32, two more functions have a name of their own. */
#if defined __GLIBC__ && __TIMESIZE == 32
#define FCNTL_NAME "__fcntl_time64"
#define IOCTL_NAME "__ioctl_time64"
#else
#define FCNTL_NAME NAME_OF("fcntl")
#define IOCTL_NAME "ioctl"
#endif

static void find_next(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

static ssize_t real_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    ssize_t (*next)(int fd, const void *bytes, size_t size, off_t offset);
    find_next(&next, NAME_OF("pwrite"));
    return next(fd, bytes, size, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    if (world.broken) {
        errno = EIO;
        return -1;
    }
    return real_pwrite(fd, bytes, size, offset);
}

/* Copies what lies from `from` on to `to_at` of another descriptor, or of the same. */
static void move_rest(int from_fd, off_t from, int to_fd, off_t to_at)
{
    struct stat info;
    assert_int_equal(fstat(from_fd, &info), 0);
    const size_t size = (size_t)(info.st_size - from);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(from_fd, bytes, size, from), (ssize_t)size);
    assert_int_equal(real_pwrite(to_fd, bytes, size, to_at), (ssize_t)size);
    free(bytes);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (mode != FALLOC_FL_INSERT_RANGE) {
        return 0;
    }
    world.inserts++;
    if (world.dies) {
        _exit(0);
    }
    if (world.insert != 0) {
        errno = world.insert;
        return -1;
    }
    assert_int_equal(offset % 4096, 0);
    assert_int_equal(size % 4096, 0);
    move_rest(fd, offset, fd, offset + size);
    uint8_t *zeros = calloc(1, (size_t)size);
    assert_int_equal(real_pwrite(fd, zeros, (size_t)size, offset), (ssize_t)size);
    free(zeros);
    world.broken = world.fail_after;
    return 0;
}

int ioctl(int fd, ioctl_request request, ...)
{
    int (*next)(int fd, ioctl_request request, ...);
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if ((unsigned long)request == FICLONE) {
        errno = EOPNOTSUPP;
        if (world.whole) {
            move_rest((int)(intptr_t)argument, 0, fd, 0);
        }
        return world.whole ? 0 : -1;
    }
    if ((unsigned long)request == FICLONERANGE) {
        const struct file_clone_range *range = argument;
        if (!world.clones || range->src_offset % 4096 != 0 || range->dest_offset % 4096 != 0) {
            errno = world.clones ? EINVAL : EOPNOTSUPP;
            return -1;
        }
        assert_int_equal(range->src_length, 0);
        move_rest((int)range->src_fd, (off_t)range->src_offset, fd, (off_t)range->dest_offset);
        return 0;
    }
    find_next(&next, IOCTL_NAME);
    return next(fd, request, argument);
}

int fcntl(int fd, int command, ...)
{
    int (*next)(int fd, int command, ...);
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    const long value = (long)(intptr_t)argument;
    if (command == F_SETLEASE) {
        world.claims += value == F_WRLCK;
        world.let_go += value == F_UNLCK;
    }
    if (world.claim >= 0 && (command == F_SETLEASE || command == F_SETSIG)) {
        errno = command == F_SETLEASE ? world.claim : 0;
        return errno == 0 ? 0 : -1;
    }
    find_next(&next, FCNTL_NAME);
    return next(fd, command, argument);
}

/* ---- helpers ----------------------------------------------------------------------------------------------------------- */

static const tensor_spec specs[] = {
    { "weight", COFFER_F32, 2, { 30, 40 } },
    { "bias", COFFER_F16, 1, { 7 } },
};

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    work_dir_make();
    image made = image_of(specs, 2);
    file_write("model", made.bytes, made.size);
    image_free(&made);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    work_dir_remove();
    return 0;
}

static coffer_status edit_with(const coffer_edit_options *options, const char *value, coffer_edit_way *way,
                               coffer_error *err)
{
    const coffer_edit edit = { "licence", 7, value, strlen(value) };
    return coffer_edit_metadata(work_path("model"), &edit, 1, options, way, err);
}

static coffer_status insert(const char *value, coffer_edit_way *way, coffer_error *err)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.insert = true;
    return edit_with(&options, value, way, err);
}

/* The file has that licence (NULL: none), all its tensors, and their bytes; nothing lies beside it. Returns where the data begin. */
static uint64_t assert_model(const char *licence)
{
    image made = image_of(specs, 2);
    coffer *model = NULL;
    size_t len = 0;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    const char *found = coffer_table_metadata_get(table, "licence", 7, &len);
    if (licence == NULL) {
        assert_null(found);
    } else {
        assert_string_equal(found, licence);
    }
    assert_string_equal(coffer_table_metadata_get(table, "made by", 7, &len), "test");
    const uint64_t data_offset = coffer_table_data_offset(table);
    assert_int_equal(coffer_count(model), 2);
    for (size_t i = 0; i < 2; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_memory_equal(coffer_data(model, tensor, NULL),
                            made.bytes + made.data_offset + (tensor->offset - data_offset), (size_t)tensor->size);
    }
    coffer_close(model);
    image_free(&made);
    assert_int_equal(work_dir_count(), 1);
    return data_offset;
}

/* ---- putting space in ----------------------------------------------------------------------------------------------------- */

/* As on XFS, which can do both: the clone takes the place of the file into which space was put, and of no other. */
static void capacity_is_put_in_where_files_are_cloned(void **state)
{
    (void)state;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    assert_int_equal(utimensat(AT_FDCWD, work_path("model"), times, 0), 0);
    world.whole = true;
    assert_int_equal(insert("none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_INSERT);
    assert_int_equal(world.inserts, 1);
    (void)assert_model("none");
}

static void capacity_is_put_in(void **state)
{
    (void)state;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    const uint64_t before = assert_model(NULL);
    assert_int_equal(insert("none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_INSERT);
    const uint64_t after = assert_model("none");
    assert_true(after > before && (after - before) % 4096 == 0);
    assert_int_equal(world.inserts, 1);
    assert_int_equal(world.claims, 1);
    assert_int_equal(world.let_go, 1);
    /* The next one has space. */
    assert_int_equal(insert("some", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_IN_PLACE);
    assert_int_equal(assert_model("some"), after);
    assert_int_equal(world.inserts, 1);
    /* Without being asked nobody's tensors are moved. */
    char *large = calloc(1, 20000);
    memset(large, 'x', 19999);
    assert_int_equal(edit_with(NULL, large, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.insert = true;
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with(&options, "short", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    assert_int_equal(world.inserts, 1);
    /* As much as it takes, and what `slack` asks for. */
    options.mode = COFFER_EDIT_IN_PLACE;
    options.slack = 50000;
    assert_int_equal(edit_with(&options, large, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_INSERT);
    assert_true(assert_model(large) > 70000);
    free(large);
    assert_int_equal(world.inserts, 2);
}

static void digests_stay_true(void **state)
{
    (void)state;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    char large[6000];
    memset(large, 'y', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(insert(large, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_INSERT);
    assert_model(large);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_verify(model, NULL, 2, NULL, NULL, NULL), COFFER_OK);
    coffer_close(model);
}

/* A refusal leaves every byte as it was. */
static void assert_refused(coffer_status status)
{
    coffer_error err;
    size_t size = 0;
    size_t again_size = 0;
    uint8_t *before = file_read("model", &size);
    assert_int_equal(insert("none", NULL, &err), status);
    assert_string_equal(err.path, work_path("model"));
    uint8_t *after = file_read("model", &again_size);
    assert_int_equal(again_size, size);
    assert_memory_equal(after, before, size);
    free(after);
    free(before);
    assert_model(NULL);
    assert_int_equal(world.let_go, world.claim == 0 ? world.claims : 0);
}

static void where_it_cannot_be_done(void **state)
{
    (void)state;
    static const int errors[] = { EOPNOTSUPP, EINVAL, ENOSYS };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        world.insert = errors[i];
        assert_refused(COFFER_ERR_UNSUPPORTED);
    }
    world.insert = ENOSPC;
    assert_refused(COFFER_ERR_IO);
    world.inserts = 0;
    world.let_go = 0;
    world.claim = EAGAIN;
    assert_refused(COFFER_ERR_LOCKED);
    world.claim = EACCES;
    assert_refused(COFFER_ERR_UNSUPPORTED);
    assert_int_equal(world.inserts, 0);
}

/* The system's own leases: a descriptor of this process counts like any other's, and so does a map. */
static void somebody_has_it_open(void **state)
{
    (void)state;
    coffer *model = NULL;
    world.claim = -1;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    assert_non_null(coffer_data(model, coffer_at(model, 0), NULL));
    coffer_error err;
    const coffer_status status = insert("none", NULL, &err);
    assert_true(status == COFFER_ERR_LOCKED ||
                status == COFFER_ERR_UNSUPPORTED); /* the latter where there are no leases */
    assert_int_equal(world.inserts, 0);
    coffer_close(model);
    assert_model(NULL);
}

/* Between the insertion and the header the file is none; the undo file says so, and recovery makes it one with space. */
static void stopped_in_between(void **state)
{
    (void)state;
    coffer_error err;
    const uint64_t before = assert_model(NULL);
    world.fail_after = true;
    assert_int_equal(insert("none", NULL, &err), COFFER_ERR_UNDO);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_ERR_UNDO);
    world.broken = false;
    world.fail_after = false;
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
    assert_true(assert_model(NULL) > before);
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(insert("none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_IN_PLACE);
    assert_model("none");
}

/* Before the insertion nothing has happened yet, and recovery sees that; of another file it does not say so. */
static void stopped_before(void **state)
{
    (void)state;
    const uint64_t before = assert_model(NULL);
    const pid_t child = fork();
    if (child == 0) {
        world.dies = true;
        (void)insert("none", NULL, NULL);
        _exit(1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_ERR_UNDO);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    for (size_t i = 0; i < before; i += 7) {
        bytes[i] ^= 1;
        file_write("model", bytes, size);
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_ERR_NO_UNDO);
        bytes[i] ^= 1;
    }
    file_write("model", bytes, size - 1);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_ERR_NO_UNDO);
    file_write("model", bytes, size);
    free(bytes);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
    assert_int_equal(assert_model(NULL), before);
}

/* ---- sharing blocks ------------------------------------------------------------------------------------------------------ */

static void blocks_are_shared(void **state)
{
    (void)state;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    world.clones = true;
    const uint64_t before = assert_model(NULL);
    assert_int_equal(edit_with(NULL, "none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_CLONE);
    const uint64_t after = assert_model("none");
    assert_true(after > before && (after - before) % 4096 == 0);
    /* A header of several blocks, and one that begins to need more. */
    char large[30000];
    for (size_t size = 9000; size < sizeof large; size += 9000) {
        memset(large, 'z', size);
        large[size] = '\0';
        assert_int_equal(edit_with(NULL, large, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_CLONE);
        assert_model(large);
    }
    /* Not where a rewrite is wanted, nor where nothing may move. */
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with(&options, "none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    options.mode = COFFER_EDIT_IN_PLACE;
    assert_int_equal(edit_with(&options, large, &way, NULL), COFFER_ERR_NO_SLACK);
    assert_model("none");
}

static void other_names_keep_the_old_file(void **state)
{
    (void)state;
    char other[4200];
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    world.clones = true;
    options.follow_links = true;
    (void)snprintf(other, sizeof other, "%s", work_path("other"));
    assert_int_equal(link(work_path("model"), other), 0);
    assert_int_equal(edit_with(&options, "none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    assert_int_equal(unlink(other), 0);
    assert_model("none");
}

/* Names in several files: each becomes a clone, one with its header where it was, one with its data moved. */
static void files_of_a_model_are_cloned(void **state)
{
    (void)state;
    static const char index[] = "model.safetensors.index.json";
    const coffer_rewrite_rule rules[] = {
        { .kind = COFFER_REWRITE_RENAME,
          .pattern = "t0",
          .name = "a name that the header of its file has no room for" },
        { .kind = COFFER_REWRITE_RENAME, .pattern = "t*", .name = "u*" },
    };
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    const coffer_model_writer_options sharded = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = 2;
    world.clones = true;
    world.whole = true;
    assert_int_equal(unlink(work_path("model")), 0);
    assert_int_equal(model_save(6, 1, 90, &sharded, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(coffer_open(&model, work_path(index), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_summarize(rewrite)->edited, COFFER_EDITED_CLONE);
    assert_int_equal(coffer_rewrite_summarize(rewrite)->lacking_count, 1);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    model_assert_whole(index, 6, 3, 1);
    assert_int_equal(work_dir_count(), 4);
    assert_int_equal(coffer_open(&model, work_path(index), NULL, NULL), COFFER_OK);
    assert_non_null(tensor_named(model, rules[0].name));
    assert_non_null(tensor_named(model, "u5"));
    coffer_close(model);
}

static void a_clone_that_is_not_to_be_had(void **state)
{
    (void)state;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with(NULL, "none", &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    assert_model("none");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(capacity_is_put_in),
        TEST(capacity_is_put_in_where_files_are_cloned),
        TEST(digests_stay_true),
        TEST(where_it_cannot_be_done),
        TEST(somebody_has_it_open),
        TEST(stopped_in_between),
        TEST(stopped_before),
        TEST(blocks_are_shared),
        TEST(other_names_keep_the_old_file),
        TEST(files_of_a_model_are_cloned),
        TEST(a_clone_that_is_not_to_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
