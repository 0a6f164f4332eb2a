/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying whole tensors from models into a writer: from every kind of source to every kind of sink, by the system and by hand,
 * in any order. A copy that goes wrong has to be noticed and may publish nothing, so calls of the system fail one after the
 * other; and thousands of small tensors must not cost thousands of calls, so calls are counted.
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include "support_cmocka.h"

#include "coffer.h"
#include "faulty_calls.h"
#include "os.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One above what the system copies in one piece, some that are worth a call of their own, and some that are not. */
static const tensor_spec specs[] = {
    { "small", COFFER_F16, 1, { 100 } },   { "empty", COFFER_U8, 2, { 3, 0 } },
    { "packed", COFFER_F4, 1, { 64 } },    { "wide", COFFER_I64, 2, { 1000, 25 } },
    { "flag", COFFER_BOOL, 0, { 0 } },     { "large", COFFER_BF16, 2, { 5000, 1024 } },
    { "long", COFFER_F32, 1, { 300001 } }, { "bytes", COFFER_U8, 1, { 131072 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static image model_image; /* a file with the tensors in their order above, reversed: not the one that writers choose */

static const char *const MEMBERS[SPEC_COUNT] = {
    "\"small\":{\"dtype\":\"F16\",\"shape\":[100]",   "\"empty\":{\"dtype\":\"U8\",\"shape\":[3,0]",
    "\"packed\":{\"dtype\":\"F4\",\"shape\":[64]",    "\"wide\":{\"dtype\":\"I64\",\"shape\":[1000,25]",
    "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[]",      "\"large\":{\"dtype\":\"BF16\",\"shape\":[5000,1024]",
    "\"long\":{\"dtype\":\"F32\",\"shape\":[300001]", "\"bytes\":{\"dtype\":\"U8\",\"shape\":[131072]",
};
static const size_t SIZES[SPEC_COUNT] = { 200, 0, 32, 200000, 1, 10240000, 1200004, 131072 };

static image reversed_image(void)
{
    char text[2048] = "{";
    size_t at = 0;
    for (size_t i = SPEC_COUNT; i > 0; i--) {
        char member[200];
        (void)snprintf(member, sizeof member, "%s%s,\"data_offsets\":[%zu,%zu]}", i < SPEC_COUNT ? "," : "",
                       MEMBERS[i - 1], at, at + SIZES[i - 1]);
        strcat(text, member);
        at += SIZES[i - 1];
    }
    strcat(text, "}");
    const size_t length = strlen(text);
    image made = { .data_offset = 8 + length, .size = 8 + length + at };
    made.bytes = calloc(1, made.size);
    assert_non_null(made.bytes);
    made.bytes[0] = (uint8_t)length;
    made.bytes[1] = (uint8_t)(length >> 8);
    memcpy(made.bytes + 8, text, length);
    for (size_t i = made.data_offset; i < made.size; i++) {
        made.bytes[i] = pattern_byte(i);
    }
    return made;
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    model_image = reversed_image();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_free(&model_image);
    work_dir_remove();
    return 0;
}

static int before_each(void **state)
{
    (void)state;
    faults_clear();
    file_write("source", model_image.bytes, model_image.size);
    return 0;
}

static int after_each(void **state)
{
    (void)state;
    faults_clear();
    (void)unlink(work_path("source"));
    (void)unlink(work_path("target"));
    assert_int_equal(work_dir_count(), 0);
    return 0;
}

static coffer *open_source(void)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path("source"), &options, NULL), COFFER_OK);
    return model;
}

static void fill_copies(coffer_copy *copies, const coffer *model)
{
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        copies[i] = (coffer_copy){ i, model, tensor_named(model, specs[i].name) };
        assert_non_null(copies[i].tensor);
    }
}

/* The new file's bytes, tensor by tensor, against those of the model's image. */
static void assert_copied(const void *bytes, size_t size)
{
    coffer *made = NULL;
    coffer *source = NULL;
    assert_int_equal(coffer_open_memory(&made, bytes, size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_open_memory(&source, model_image.bytes, model_image.size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_count(made), SPEC_COUNT);
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = tensor_named(made, specs[i].name);
        const coffer_tensor *original = tensor_named(source, specs[i].name);
        assert_int_equal(tensor->size, original->size);
        assert_memory_equal(coffer_data(made, tensor, NULL), coffer_data(source, original, NULL), (size_t)tensor->size);
    }
    coffer_close(source);
    coffer_close(made);
}

static void assert_file_copied(const char *name)
{
    size_t size = 0;
    uint8_t *bytes = file_read(name, &size);
    assert_copied(bytes, size);
    free(bytes);
}

/* Copies the whole model to "target"; nothing may be there when it fails. */
static coffer_status copy_to_path(const coffer *model, const coffer_read_options *options, coffer_error *err)
{
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    coffer_copy copies[SPEC_COUNT];
    fill_copies(copies, model);
    coffer_status status = coffer_writer_open(&writer, header, work_path("target"), NULL, err);
    if (status == COFFER_OK) {
        status = coffer_writer_copy(writer, copies, SPEC_COUNT, options, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    } else if (writer != NULL) {
        assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_ERR_ARGUMENT);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(access(work_path("target"), F_OK), status == COFFER_OK ? 0 : -1);
    return status;
}

static void assert_copies(const coffer *model)
{
    coffer_error err;
    if (copy_to_path(model, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    assert_file_copied("target");
    assert_int_equal(unlink(work_path("target")), 0);
}

/* ---- sources and sinks ----------------------------------------------------------------------------------------------- */

static coffer_status read_image(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)ctx;
    assert_non_null(err);
    assert_true(offset <= model_image.size && size <= model_image.size - offset);
    memcpy(buffer, model_image.bytes + offset, size);
    return COFFER_OK;
}

static void from_every_source(void **state)
{
    (void)state;
    coffer *model = open_source();
    assert_copies(model);
    faults.always[FAULT_COPY] = EXDEV;
    assert_copies(model);
    faults.most = 100000;
    faults.always[FAULT_COPY] = 0;
    assert_copies(model);
    faults_clear();
    coffer_close(model);

    assert_int_equal(coffer_open_memory(&model, model_image.bytes, model_image.size, NULL, NULL), COFFER_OK);
    assert_copies(model);
    coffer_close(model);

    const coffer_source custom = { .read_at = read_image, .size = model_image.size };
    assert_int_equal(coffer_open_source(&model, &custom, NULL, NULL), COFFER_OK);
    assert_copies(model);
    coffer_close(model);

    /* A model that begins somewhere in a file. */
    const int fd = open(work_path("source"), O_RDWR | O_TRUNC | O_CLOEXEC);
    assert_int_equal(pwrite(fd, model_image.bytes, model_image.size, 777), (ssize_t)model_image.size);
    assert_int_equal(coffer_open_fd(&model, fd, 777, model_image.size, NULL, NULL), COFFER_OK);
    assert_int_equal(close(fd), 0);
    assert_copies(model);
    coffer_close(model);
}

static coffer_status keep(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    assert_non_null(err);
    memcpy((uint8_t *)ctx + offset, bytes, size);
    return COFFER_OK;
}

static void finish_copy(coffer_writer *writer, const coffer *model)
{
    coffer_copy copies[SPEC_COUNT];
    coffer_error err;
    fill_copies(copies, model);
    if (coffer_writer_copy(writer, copies, SPEC_COUNT, NULL, &err) != COFFER_OK ||
        coffer_writer_finish(writer, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    coffer_writer_free(writer);
}

static void *drain(void *arg)
{
    uint8_t *into = arg;
    const int fd = *(const int *)arg;
    ssize_t got = 1;
    for (size_t size = 0; got > 0; size += (size_t)got) {
        got = read(fd, into + size, 65536);
        assert_true(got >= 0);
    }
    return NULL;
}

static void to_every_sink(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    uint64_t size = 0;
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_build(header, NULL, NULL, &size, &table, NULL), COFFER_OK);
    size += coffer_table_data_size(table);
    uint8_t *got = calloc(1, (size_t)size + 65536);
    assert_non_null(got);
    coffer_writer *writer = NULL;

    const int fd = open(work_path("target"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
    assert_int_equal(coffer_writer_open_fd(&writer, header, fd, NULL, NULL), COFFER_OK);
    finish_copy(writer, model);
    assert_int_equal(pread(fd, got, (size_t)size, 5), (ssize_t)size);
    assert_int_equal(close(fd), 0);
    assert_copied(got, (size_t)size);

    coffer_writer_options in_place = COFFER_WRITER_OPTIONS_INIT;
    in_place.in_place = true;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), &in_place, NULL), COFFER_OK);
    finish_copy(writer, model);
    assert_file_copied("target");

    memset(got, 0, (size_t)size);
    assert_int_equal(coffer_writer_open_memory(&writer, header, got, (size_t)size, NULL, NULL), COFFER_OK);
    finish_copy(writer, model);
    assert_copied(got, (size_t)size);

    memset(got, 0, (size_t)size);
    const coffer_sink custom = { keep, NULL, NULL, got };
    assert_int_equal(coffer_writer_open_sink(&writer, header, &custom, NULL, NULL), COFFER_OK);
    finish_copy(writer, model);
    assert_copied(got, (size_t)size);

    /* A pipe takes bytes in their order only, and the copies are given in another one. */
    int ends[2];
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    memset(got, 0, (size_t)size);
    memcpy(got, &ends[0], sizeof ends[0]);
    assert_int_equal(pthread_create(&thread, NULL, drain, got), 0);
    assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], NULL, NULL), COFFER_OK);
    finish_copy(writer, model);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_copied(got, (size_t)size);

    free(got);
    coffer_header_free(header);
    coffer_close(model);
}

static void pieces_and_copies_together(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    coffer_copy copies[SPEC_COUNT];
    fill_copies(copies, model);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), NULL, NULL), COFFER_OK);
    /* The first tensor is written, the others are copied in two calls. */
    const uint64_t at = copies[0].tensor->offset;
    assert_int_equal(coffer_writer_write(writer, 0, 0, model_image.bytes + at, 200, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies + 4, SPEC_COUNT - 4, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies + 1, 3, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, NULL, 0, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer_close(model);
    assert_file_copied("target");
}

typedef struct copier {
    pthread_t thread;
    coffer_writer *writer;
    coffer_copy *copies;
    coffer_status status;
} copier;

static void *copy_half(void *arg)
{
    copier *c = arg;
    c->status = coffer_writer_copy(c->writer, c->copies, SPEC_COUNT / 2, NULL, NULL);
    return NULL;
}

static void two_threads_share_a_writer(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    coffer_copy copies[SPEC_COUNT];
    fill_copies(copies, model);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), NULL, NULL), COFFER_OK);
    copier copiers[2];
    for (size_t i = 0; i < 2; i++) {
        copiers[i] = (copier){ .writer = writer, .copies = copies + i * (SPEC_COUNT / 2) };
        assert_int_equal(pthread_create(&copiers[i].thread, NULL, copy_half, &copiers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(copiers[i].thread, NULL), 0);
        assert_int_equal(copiers[i].status, COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer_close(model);
    assert_file_copied("target");
}

/* ---- how many calls it takes ----------------------------------------------------------------------------------------- */

static unsigned copies_counted;
static unsigned writes_counted;

static void count_copy(void)
{
    copies_counted++;
}

static void count_write(void)
{
    writes_counted++;
}

#define MANY 5000

/* A model of MANY tensors of `bytes` bytes each, copied in an order that is not that of the file, each under its own name or
   (when `turned`) under the last one's, the one before it, and so on, so that none has its neighbour beside it. */
static void copy_many(uint64_t bytes, bool turned)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
    for (size_t i = 0; i < MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%05zu", i);
        assert_int_equal(coffer_header_add(header, name, strlen(name), COFFER_U8, &bytes, 1, NULL), COFFER_OK);
    }
    uint64_t header_size = 0;
    const void *text = NULL;
    assert_int_equal(coffer_header_build(header, NULL, &text, &header_size, NULL, NULL), COFFER_OK);
    const size_t size = (size_t)(header_size + MANY * bytes);
    uint8_t *file = malloc(size);
    assert_non_null(file);
    memcpy(file, text, (size_t)header_size);
    for (size_t i = (size_t)header_size; i < size; i++) {
        file[i] = pattern_byte(i);
    }
    file_write("source", file, size);
    coffer *model = open_source();
    coffer_copy *copies = calloc(MANY, sizeof *copies);
    assert_non_null(copies);
    for (size_t i = 0; i < MANY; i++) {
        const size_t to = i * 7 % MANY;
        copies[i] = (coffer_copy){ to, model, coffer_at(model, turned ? MANY - 1 - to : to) };
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), NULL, NULL), COFFER_OK);
    faults.before[FAULT_COPY] = count_copy;
    faults.before[FAULT_WRITE] = count_write;
    copies_counted = 0;
    writes_counted = 0;
    assert_int_equal(coffer_writer_copy(writer, copies, MANY, NULL, NULL), COFFER_OK);
    faults_clear();
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_close(model);
    size_t got_size = 0;
    uint8_t *got = file_read("target", &got_size);
    assert_int_equal(got_size, size);
    for (size_t i = 0; i < MANY; i++) {
        const size_t from = (size_t)(header_size + (turned ? MANY - 1 - i : i) * bytes);
        assert_memory_equal(got + header_size + i * bytes, file + from, (size_t)bytes);
    }
    free(got);
    free(file);
    free(copies);
    coffer_header_free(header);
}

static void many_small_tensors_take_few_calls(void **state)
{
    (void)state;
    copy_many(1000, false);
    assert_int_equal(copies_counted, 1);
    assert_int_equal(writes_counted, 0);
    copy_many(1000, true);
    assert_int_equal(copies_counted, 0);
    assert_true(writes_counted <= MANY * 1000 / (1 << 20) + 1);
    copy_many(5000, true);
    assert_true(writes_counted <= MANY * 5000 / (1 << 20) + 1);
}

#ifdef __linux__
/* How many bytes the system copies on a file system of that number, from one offset to another. */
static uint64_t copied_on(uint32_t file_system, uint64_t from_offset, uint64_t to_offset)
{
    const uint32_t before = faults.file_system;
    uint64_t done = 1;
    const int from = open(work_path("source"), O_RDONLY | O_CLOEXEC);
    const int to = open(work_path("target"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    faults.file_system = file_system;
    const int os_error = coffer__os_copy_that_pays(from, from_offset, to, to_offset, 8192, &done);
    faults.file_system = before;
    assert_int_equal(os_error, done == 0 ? EOPNOTSUPP : 0);
    assert_int_equal(close(from), 0);
    assert_int_equal(close(to), 0);
    assert_int_equal(unlink(work_path("target")), 0);
    return done;
}

static void where_the_system_copies(void **state)
{
    (void)state;
    const uint32_t ext4 = 0xEF53;
    assert_int_equal(copied_on(ext4, 4096, 8192), 0);
    assert_int_equal(copied_on(FAULTY_BTRFS, 4096, 8192), 8192);
    assert_int_equal(copied_on(FAULTY_BTRFS, 4096, 8200), 0);
    assert_int_equal(copied_on(FAULTY_BTRFS, 100, 100), 0);
    assert_int_equal(copied_on(FAULTY_NFS, 100, 8200), 8192);
}
#endif

/* ---- failing --------------------------------------------------------------------------------------------------------- */

typedef struct watcher {
    uint64_t calls;
    uint64_t done;
    uint64_t cancel_at;
} watcher;

static int watch(void *ctx, uint64_t done, uint64_t total)
{
    watcher *seen = ctx;
    assert_int_equal(total, model_image.size - model_image.data_offset);
    assert_true(done > seen->done && done <= total);
    seen->done = done;
    return ++seen->calls == seen->cancel_at;
}

/* Copies, and cancels at the call of that number; 0: at none. Returns how often the user was told. */
static uint64_t copy_watched(const coffer *model, uint32_t threads, uint64_t cancel_at)
{
    watcher seen = { .cancel_at = cancel_at };
    coffer_error err;
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = threads;
    options.progress = watch;
    options.progress_ctx = &seen;
    const coffer_status status = copy_to_path(model, &options, &err);
    const bool cancelled = cancel_at != 0 && seen.calls >= cancel_at;
    assert_int_equal(status, cancelled ? COFFER_ERR_CANCELLED : COFFER_OK);
    assert_true(cancelled || seen.done == model_image.size - model_image.data_offset);
    (void)unlink(work_path("target"));
    return seen.calls;
}

static void progress_and_cancelling(void **state)
{
    (void)state;
    coffer *model = open_source();
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        faults.always[FAULT_COPY] = by_hand ? ENOSYS : 0;
        const uint64_t calls = copy_watched(model, 1, 0);
        assert_true(calls >= (by_hand ? 1 : 3));
        for (uint64_t cancel_at = 1; cancel_at <= calls; cancel_at++) {
            assert_int_equal(copy_watched(model, 1, cancel_at), cancel_at);
        }
    }
    coffer_close(model);
}

/* The calling thread tells of what all of them did, so how often depends on who is faster: at least the end is told. */
static void progress_of_several_threads(void **state)
{
    (void)state;
    coffer *model = open_source();
    faults.always[FAULT_COPY] = ENOSYS;
    for (uint64_t cancel_at = 0; cancel_at <= 3; cancel_at++) {
        const uint64_t calls = copy_watched(model, 4, cancel_at);
        assert_true(calls >= 1 && (cancel_at == 0 || calls <= cancel_at));
    }
    assert_int_equal(copy_watched(model, 4, 1), 1);
    coffer_close(model);
}

static void calls_of_the_system_that_fail(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer_error err;
    faults.always[FAULT_COPY] = EIO;
    assert_int_equal(copy_to_path(model, NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EIO);
    assert_string_equal(err.path, work_path("target"));
    /* What cannot be read is of the source, and has the name of its tensor. */
    faults.always[FAULT_COPY] = EXDEV;
    faults.always[FAULT_READ] = EIO;
    assert_int_equal(copy_to_path(model, NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EIO);
    assert_string_equal(err.path, work_path("source"));
    assert_string_equal(err.tensor, "wide");
    assert_int_equal(err.offset, tensor_named(model, "wide")->offset);
    faults_clear();
    /* Whatever call fails, nothing is published or left behind. */
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        coffer_status status = COFFER_ERR_IO;
        for (unsigned k = 1; status != COFFER_OK; k++) {
            faults_clear();
            faults.always[FAULT_COPY] = by_hand ? EXDEV : 0;
            faults.spare_clean_up = true;
            faults.fail_at = k;
            faults.error = ENOSPC;
            status = copy_to_path(model, NULL, &err);
            faults_clear();
            assert_int_equal(work_dir_count(), status == COFFER_OK ? 2 : 1);
        }
        assert_file_copied("target");
        assert_int_equal(unlink(work_path("target")), 0);
    }
    coffer_close(model);
}

static void shorten_source(void)
{
    assert_int_equal(truncate(work_path("source"), (off_t)(model_image.data_offset + 1000)), 0);
}

static void the_source_is_cut_meanwhile(void **state)
{
    (void)state;
    coffer_error err;
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        file_write("source", model_image.bytes, model_image.size);
        coffer *model = open_source();
        faults.always[FAULT_COPY] = by_hand ? EXDEV : 0;
        faults.before[by_hand ? FAULT_READ : FAULT_COPY] = shorten_source;
        assert_int_equal(copy_to_path(model, NULL, &err), COFFER_ERR_CHANGED);
        faults_clear();
        assert_int_equal(err.expected, model_image.size);
        assert_int_equal(err.actual, model_image.data_offset + 1000);
        assert_string_equal(err.path, work_path("source"));
        const coffer_tensor *tensor = tensor_named(model, err.tensor);
        assert_non_null(tensor);
        assert_true(err.offset >= tensor->offset && err.offset <= tensor->offset + tensor->size);
        coffer_close(model);
    }
}

static void memory_that_fails(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer_error err;
    memory_meter meter = { 0 };
    faults.always[FAULT_COPY] = EXDEV;
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t k = 1; status == COFFER_ERR_MEMORY; k++) {
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_header *header = header_of(specs, SPEC_COUNT, &allocator);
        coffer_copy copies[SPEC_COUNT];
        coffer_writer *writer = NULL;
        fill_copies(copies, model);
        assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), NULL, &err), COFFER_OK);
        meter.fail_at = meter.requests + k;
        meter.peak = 0;
        status = coffer_writer_copy(writer, copies, SPEC_COUNT, NULL, &err);
        assert_true(meter.peak < ((size_t)17 << 20));
        assert_true(status == COFFER_OK || err.code == COFFER_ERR_MEMORY);
        assert_true(k > 1 || status == COFFER_ERR_MEMORY);
        coffer_writer_free(writer);
        coffer_header_free(header);
        assert_int_equal(meter.blocks, 0);
    }
    assert_int_equal(status, COFFER_OK);
    coffer_close(model);
}

/* One call that must fail, on a writer of its own. */
static void refuse(const coffer_copy *copies, size_t count, coffer_status wanted, coffer_error *err)
{
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("target"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, count, NULL, err), wanted);
    assert_int_equal(err->code, wanted);
    /* The writer has failed: nothing more is taken. */
    assert_int_equal(coffer_writer_copy(writer, copies, 0, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_write(writer, 1, 0, NULL, 0, NULL), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static void wrong_calls(void **state)
{
    (void)state;
    coffer *model = open_source();
    coffer *other = open_source();
    coffer_error err;
    const coffer_tensor *wide = tensor_named(model, "wide");
    const coffer_copy no_such = { SPEC_COUNT, model, wide };
    refuse(&no_such, 1, COFFER_ERR_ARGUMENT, &err);
    const coffer_copy strange = { 3, other, wide };
    refuse(&strange, 1, COFFER_ERR_ARGUMENT, &err);
    const coffer_copy no_model = { 3, NULL, wide };
    refuse(&no_model, 1, COFFER_ERR_ARGUMENT, &err);
    const coffer_copy no_tensor = { 3, model, NULL };
    refuse(&no_tensor, 1, COFFER_ERR_ARGUMENT, &err);
    const coffer_copy of_other_size = { 0, model, wide };
    refuse(&of_other_size, 1, COFFER_ERR_WRITE_RANGE, &err);
    assert_string_equal(err.tensor, "small");
    assert_int_equal(err.expected, 200);
    assert_int_equal(err.actual, 200000);
    const coffer_copy twice[2] = { { 3, model, wide }, { 3, other, tensor_named(other, "wide") } };
    refuse(twice, 2, COFFER_ERR_WRITE_RANGE, &err);
    assert_string_equal(err.tensor, "wide");
    refuse(twice, SIZE_MAX, COFFER_ERR_MEMORY, &err);
    assert_int_equal(coffer_writer_copy(NULL, twice, 1, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_close(other);
    coffer_close(model);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(from_every_source),
        TEST(to_every_sink),
        TEST(pieces_and_copies_together),
        TEST(two_threads_share_a_writer),
        TEST(many_small_tensors_take_few_calls),
#ifdef __linux__
        TEST(where_the_system_copies),
#endif
        TEST(progress_and_cancelling),
        TEST(progress_of_several_threads),
        TEST(calls_of_the_system_that_fail),
        TEST(the_source_is_cut_meanwhile),
        TEST(memory_that_fails),
        TEST(wrong_calls),
    };
    faults.file_system = FAULTY_NFS; /* so that the system copies where it can */
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
