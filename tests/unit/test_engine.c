/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: whatever reads a file, and however the system disturbs it, the bytes are those of pread, or there is an error that
 * says why not. So every engine reads random ranges of a file whose length is odd, to aligned places and others; completions
 * of io_uring are cut short, swapped and failed; and the file becomes shorter while it is read.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "support_child.h"
#include "support_engine.h"
#include "support_file.h"
#include "support_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static void test_every_engine(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    engine_read_by_all(&source);
    source.ops->close(&source);
}

/* As if every third granule had been in the page cache. */
static void mix(coffer__file_reader *file_reader)
{
    file_reader->mixed = true;
    file_reader->granule = (uint64_t)128 << 10;
    file_reader->held[0] = UINT64_C(0x9249249249249249) | 0xF0;
}

/* ---- disturbed completions --------------------------------------------------------------------------------------- */

/* Everything that the system has completed, from which `next` takes any. */
static coffer__os_completion held[64];
static size_t held_count;

/* Shortens a result to any length, a whole number of blocks or not, or replaces it by a failure. The bytes are there, but
   the engine is told otherwise, and the failures are those that a device or a signal causes. */
static int32_t disturb(int32_t result)
{
    static const int32_t failures[] = { -EINTR, -EAGAIN, -EIO, -ECANCELED };
    switch (engine_random(4)) {
    case 0:
        return failures[engine_random(sizeof failures / sizeof failures[0])];
    case 1:
        return result > 0 ? (int32_t)engine_random((uint64_t)result + 1) : result;
    case 2:
        return result > 4096 ? result / 2 / 4096 * 4096 : result;
    default:
        return result;
    }
}

static bool disturbed_next(coffer__os_ring *ring, coffer__os_completion *completion)
{
    while (held_count < sizeof held / sizeof held[0] && coffer__os_ring_next(ring, &held[held_count])) {
        held_count++;
    }
    if (held_count == 0) {
        return false;
    }
    const size_t which = (size_t)engine_random(held_count);
    *completion = held[which];
    held[which] = held[--held_count];
    completion->result = disturb(completion->result);
    return true;
}

static void test_disturbed_completions(void **unused)
{
    (void)unused;
    static const coffer__ring_calls calls = { coffer__os_ring_open, disturbed_next };
    coffer__byte_source source;
    coffer__file_reader file_reader;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    if (engine_open(&file_reader, &source, COFFER_ENGINE_RING)) {
        coffer__range_reader *reader = engine_reader(&calls, 8);
        engine_read_randomly(reader, &file_reader, 2000);
        mix(&file_reader);
        engine_read_randomly(reader, &file_reader, 500);
        coffer__range_reader_free(reader);
        coffer__file_reader_close(&file_reader);
    }
    source.ops->close(&source);
}

/* A system that only ever interrupts: the engine gives up and reads by itself. */
static bool interrupted_next(coffer__os_ring *ring, coffer__os_completion *completion)
{
    const bool any = coffer__os_ring_next(ring, completion);
    completion->result = any ? -EINTR : 0;
    return any;
}

static void test_endless_interruptions(void **unused)
{
    (void)unused;
    static const coffer__ring_calls calls = { coffer__os_ring_open, interrupted_next };
    coffer__byte_source source;
    coffer__file_reader file_reader;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    if (engine_open(&file_reader, &source, COFFER_ENGINE_RING)) {
        coffer__range_reader *reader = engine_reader(&calls, 3);
        engine_read_randomly(reader, &file_reader, 50);
        coffer__range_reader_free(reader);
        coffer__file_reader_close(&file_reader);
    }
    source.ops->close(&source);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static int refused_open(coffer__os_ring *ring, unsigned entries)
{
    (void)ring;
    (void)entries;
    return EPERM;
}

/* The engine_facts said that there is io_uring, and the reader's thread does not get it: silently the next best. */
static void test_ring_refused_to_a_reader(void **unused)
{
    (void)unused;
    static const coffer__ring_calls calls = { refused_open, coffer__os_ring_next };
    coffer__byte_source source;
    coffer__file_reader file_reader;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    engine_facts.ring = 0;
    if (engine_open(&file_reader, &source, COFFER_ENGINE_RING)) {
        coffer__range_reader *reader = engine_reader(&calls, 8);
        assert_true(coffer__range_reader_wants(reader, &file_reader));
        engine_read_randomly(reader, &file_reader, 100);
        coffer__range_reader_free(reader);
        coffer__file_reader_close(&file_reader);
    }
    source.ops->close(&source);
}

/* What a system says, and what the failure says of it. */
static void test_ring_refused_by_name(void **unused)
{
    (void)unused;
    static const struct {
        int os_error;
        const char *advice;
    } cases[] = {
        { EPERM, "io_uring_setup" }, { ENOSYS, "\"direct\"" }, { ENOMEM, "ulimit -l" }, { EMFILE, "ulimit -n" }
    };
    coffer__byte_source source;
    coffer__file_reader file_reader;
    coffer_error err;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    const size_t before = open_descriptors();
    const coffer__engine_wish wish = { .engine = COFFER_ENGINE_RING, .planned = source.size };
    const coffer__engine_wish direct = { .engine = COFFER_ENGINE_DIRECT, .planned = source.size };
    const bool can = coffer__file_reader_open(&file_reader, &source, &direct, &engine_facts, &err) == COFFER_OK;
    coffer__file_reader_close(&file_reader);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        engine_facts.ring = cases[i].os_error;
        assert_int_equal(coffer__file_reader_open(&file_reader, &source, &wish, &engine_facts, &err),
                         COFFER_ERR_ENGINE);
        assert_true(!can || err.os_error == cases[i].os_error);
        assert_non_null(strstr(err.message, can ? cases[i].advice : "page cache"));
        assert_int_equal(file_reader.direct, -1);
    }
    assert_int_equal(open_descriptors(), before);
    source.ops->close(&source);
}

#ifdef __linux__
/* The number of the system call that a child refuses itself, and the errno that it answers. */
typedef struct refusal {
    unsigned call;
    unsigned os_error;
} refusal;

static bool refuse(const refusal *wanted)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted->call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | wanted->os_error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* 77: there are no filters here. */
static int read_refused(void *ctx)
{
    const refusal *wanted = ctx;
    coffer__byte_source source;
    if (!refuse(wanted)) {
        return 77;
    }
    coffer__engine_facts_get(&engine_facts);
    if (engine_facts.ring != (int)wanted->os_error) {
        return 1;
    }
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    const coffer_engine spared[] = { COFFER_ENGINE_AUTO, COFFER_ENGINE_BUFFERED, COFFER_ENGINE_DIRECT };
    for (size_t i = 0; i < sizeof spared / sizeof spared[0]; i++) {
        coffer__file_reader file_reader;
        coffer__range_reader *reader = engine_reader(NULL, 4);
        if (engine_open(&file_reader, &source, spared[i])) {
            engine_read_randomly(reader, &file_reader, 50);
            coffer__file_reader_close(&file_reader);
        }
        coffer__range_reader_free(reader);
    }
    source.ops->close(&source);
    return 0;
}

static void test_calls_refused(void **unused)
{
    (void)unused;
    static refusal refusals[] = { { 425, EPERM }, { 425, ENOSYS }, { 426, EPERM } };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (engine_facts.ring != 0) {
            print_message("not run: io_uring is refused to this test itself (errno %d)\n", engine_facts.ring);
            return;
        }
        const int result = child_run(read_refused, &refusals[i]);
        if (result == 77) {
            print_message("not run: this system has no seccomp filters\n");
            return;
        }
        assert_int_equal(result, 0);
    }
}

/* Without the right to lock memory beyond the limit, and with a limit of none. */
static int read_unlocked(void *ctx)
{
    static const struct rlimit none = { 0, 0 };
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    coffer__byte_source source;
    (void)ctx;
    if (syscall(SYS_capget, &header, data) != 0) {
        return 77;
    }
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data) != 0 || setrlimit(RLIMIT_MEMLOCK, &none) != 0) {
        return 77;
    }
    coffer__engine_facts_get(&engine_facts);
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    engine_read_by_all(&source);
    source.ops->close(&source);
    return coffer__os_memory_lockable() == 0 ? 0 : 1;
}

static void test_no_memory_to_lock(void **unused)
{
    (void)unused;
    const int result = child_run(read_unlocked, NULL);
    if (result == 77) {
        print_message("not run: rights cannot be given up here\n");
        return;
    }
    assert_int_equal(result, 0);
}

/* A file of somebody else's, which may be read and not written: the system says less of what is in the page cache. The
   program is not privileged any more, so /proc is its own only when it says so. */
static int read_as_stranger(void *ctx)
{
    coffer__byte_source source;
    coffer__file_reader file_reader;
    (void)ctx;
    assert_int_equal(chmod(work_path("model"), 0644), 0);
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    if (setresuid(65534, 65534, 65534) != 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) {
        return 77;
    }
    coffer__engine_facts_get(&engine_facts);
    engine_read_by_all(&source);
    for (size_t i = 2; i < ENGINE_KINDS; i++) {
        if (engine_open(&file_reader, &source, engine_kinds[i])) {
            mix(&file_reader);
            coffer__range_reader *reader = engine_reader(NULL, 4);
            engine_read_randomly(reader, &file_reader, 100);
            coffer__range_reader_free(reader);
            coffer__file_reader_close(&file_reader);
        }
    }
    source.ops->close(&source);
    return 0;
}

static void test_strangers_file(void **unused)
{
    (void)unused;
    const int result = child_run(read_as_stranger, NULL);
    if (result == 77) {
        print_message("not run: this user cannot become another one\n");
        return;
    }
    assert_int_equal(result, 0);
}
#endif

/* ---- changed files ------------------------------------------------------------------------------------------------ */

/* The file ends before the range: in the middle of a block, at a block, and before its first byte. */
static void test_truncated(void **unused)
{
    (void)unused;
    static const size_t ends[] = { ENGINE_SIZE / 2 + 77, ENGINE_SIZE / 2 / 4096 * 4096, 100 };
    for (size_t i = 0; i < ENGINE_KINDS; i++) {
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
            coffer__byte_source source;
            coffer__file_reader file_reader;
            coffer_error err;
            file_write("model", engine_content, ENGINE_SIZE);
            assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
            coffer__range_reader *reader = engine_reader(NULL, 4);
            if (engine_open(&file_reader, &source, engine_kinds[i])) {
                assert_int_equal(truncate(work_path("model"), (off_t)ends[k]), 0);
                coffer__request request = { .file_reader = &file_reader,
                                            .offset = ENGINE_SIZE / 2 / 4096 * 4096 - 4096,
                                            .size = 100000,
                                            .to = engine_slots + COFFER__BLOCK_MAX };
                coffer__request *done = NULL;
                coffer__range_reader_submit(reader, &request);
                assert_int_equal(coffer__range_reader_reap(reader, true, &done, &err), COFFER_ERR_CHANGED);
                assert_ptr_equal(done, &request);
                assert_int_equal(err.expected, ENGINE_SIZE);
                assert_int_equal(err.actual, ends[k]);
                coffer__file_reader_close(&file_reader);
            }
            coffer__range_reader_free(reader);
            source.ops->close(&source);
        }
    }
}

/* ---- kinds of sources --------------------------------------------------------------------------------------------- */

static void test_sources_that_are_no_files(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    coffer__file_reader file_reader;
    coffer_error err;
    coffer__source_memory(&source, engine_content, ENGINE_SIZE);
    coffer__range_reader *reader = engine_reader(NULL, 4);
    assert_true(engine_open(&file_reader, &source, COFFER_ENGINE_AUTO));
    engine_read_randomly(reader, &file_reader, 50);
    coffer__file_reader_close(&file_reader);
    for (coffer_engine engine = COFFER_ENGINE_DIRECT; engine <= COFFER_ENGINE_RING; engine++) {
        const coffer__engine_wish wish = { .engine = engine, .planned = ENGINE_SIZE };
        assert_int_equal(coffer__file_reader_open(&file_reader, &source, &wish, &engine_facts, &err),
                         COFFER_ERR_ENGINE);
        assert_non_null(strstr(err.message, "not a file"));
    }
    coffer__range_reader_free(reader);
    source.ops->close(&source);
}

/* A range that begins at a block, and one that does not. */
static void test_ranges_of_files(void **unused)
{
    (void)unused;
    static const uint64_t begins[] = { 8192, 8193 };
    for (size_t i = 0; i < 2; i++) {
        coffer__byte_source whole;
        coffer__byte_source range;
        assert_int_equal(coffer__source_path(&whole, work_path("model"), NULL), COFFER_OK);
        assert_int_equal(coffer__source_range(&range, &whole, begins[i], ENGINE_SIZE - 8193 - 5000, NULL), COFFER_OK);
        engine_read_by_all(&range);
        whole.ops->close(&whole);
    }
}

/* Some of it in the page cache, some not: what is taken from where does not show in the bytes. */
static void test_mixed(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    coffer__file_reader file_reader;
    int fd = -1;
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_EDIT, true, &fd), 0);
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    for (size_t i = 2; i < ENGINE_KINDS; i++) {
        if (!engine_open(&file_reader, &source, engine_kinds[i])) {
            continue;
        }
        mix(&file_reader);
        for (unsigned round = 0; round < 10; round++) {
            (void)coffer__os_sync(fd);
            (void)posix_fadvise(fd, 0, (off_t)ENGINE_SIZE, POSIX_FADV_DONTNEED);
            coffer__range_reader *reader = engine_reader(NULL, 4);
            engine_read_randomly(reader, &file_reader, 10);
            coffer__range_reader_free(reader);
            size_t some = 0;
            assert_int_equal(coffer__os_read_at(fd, engine_random(ENGINE_SIZE), engine_slots, 4096, &some), 0);
        }
        coffer__file_reader_close(&file_reader);
    }
    source.ops->close(&source);
    (void)coffer__os_close(fd);
}

/* Each reader has a descriptor of its own, as file systems in user space want it, and goes from one file to another and back;
   and nothing stays in the page cache. The files differ in their first byte. */
static void test_descriptors_of_readers(void **unused)
{
    (void)unused;
    coffer__byte_source sources[2];
    coffer__file_reader file_readers[2];
    coffer_error err;
    const size_t before = open_descriptors();
    coffer__range_reader *reader = engine_reader(NULL, 1);
    const uint8_t first = engine_content[0];
    engine_content[0] = (uint8_t)(first + 1);
    file_write("other", engine_content, ENGINE_SIZE);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer__source_path(&sources[i], work_path(i == 0 ? "model" : "other"), NULL), COFFER_OK);
        assert_true(engine_open(&file_readers[i], &sources[i], COFFER_ENGINE_BUFFERED));
        file_readers[i].unshared = true;
        file_readers[i].leave = true;
    }
    for (unsigned round = 0; round < 20; round++) {
        const size_t which = (size_t)engine_random(2);
        coffer__request request = { .file_reader = &file_readers[which], .size = 10000, .to = engine_slots };
        coffer__request *done = NULL;
        coffer__range_reader_submit(reader, &request);
        assert_int_equal(coffer__range_reader_reap(reader, true, &done, &err), COFFER_OK);
        assert_int_equal(engine_slots[0], first + which);
        assert_memory_equal(engine_slots + 1, engine_content + 1, 9999);
    }
    engine_read_randomly(reader, &file_readers[1], 50);
    coffer__range_reader_free(reader);
    for (size_t i = 0; i < 2; i++) {
        coffer__file_reader_close(&file_readers[i]);
        sources[i].ops->close(&sources[i]);
    }
    assert_int_equal(open_descriptors(), before);
}

static void test_cached_and_uncached_reads(void **unused)
{
    (void)unused;
    int fd = -1;
    size_t got = 0;
    bool cached = false;
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_READ, true, &fd), 0);
    for (unsigned i = 0; i < 200; i++) {
        const uint64_t offset = engine_random(ENGINE_SIZE);
        const size_t size = 1 + (size_t)engine_random(ENGINE_SLOT);
        const size_t there = size < ENGINE_SIZE - offset ? size : (size_t)(ENGINE_SIZE - offset);
        assert_int_equal(coffer__os_read_uncached(fd, offset, engine_slots, size, &got), 0);
        assert_int_equal(got, there);
        assert_memory_equal(engine_slots, engine_content + offset, there);
        if (coffer__os_is_cached(fd, offset, &cached) != 0 && i == 0) {
            print_message("this system does not say what is in the page cache\n");
        }
    }
    assert_int_equal(coffer__os_read_uncached(fd, UINT64_MAX, engine_slots, 1, &got), EOVERFLOW);
    assert_int_equal(coffer__os_read_enough(fd, UINT64_MAX, engine_slots, 1, 1, &got), EOVERFLOW);
    assert_int_equal(coffer__os_is_cached(fd, UINT64_MAX, &cached), EOVERFLOW);
    (void)coffer__os_close(fd);
}

/* ---- the choice --------------------------------------------------------------------------------------------------- */

static const char *choice_of(const coffer__byte_source *source, const coffer__engine_wish *wish)
{
    coffer__file_reader file_reader;
    assert_int_equal(coffer__file_reader_open(&file_reader, source, wish, &engine_facts, NULL), COFFER_OK);
    assert_true(file_reader.threads >= 1 && file_reader.depth >= 1 && file_reader.chunk >= COFFER__BLOCK_MAX);
    const char *name = file_reader.engine->name;
    coffer__file_reader_close(&file_reader);
    return name;
}

/* Opens the file when its times tell of the next change: it was written a moment ago. */
static void open_settled(coffer__byte_source *source)
{
    assert_int_equal(coffer__source_path(source, work_path("model"), NULL), COFFER_OK);
    while (coffer__source_is_fresh(source)) {
        source->ops->close(source);
        coffer__os_sleep(1);
        assert_int_equal(coffer__source_path(source, work_path("model"), NULL), COFFER_OK);
    }
}

/* Reads through the page cache tell what was there, as far as the system does. */
static void test_what_was_cached_is_counted(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    coffer__file_reader file_reader;
    coffer__request *done = NULL;
    coffer_error err;
    size_t present = 0;
    open_settled(&source);
    const coffer__engine_wish wish = { .engine = COFFER_ENGINE_BUFFERED, .planned = ENGINE_SIZE };
    const coffer__range_reader_options options = { .allocator = coffer_libc_allocator(), .depth = 1 };
    coffer__range_reader *reader = NULL;
    assert_int_equal(coffer__range_reader_new(&reader, &options, &err), COFFER_OK);
    assert_int_equal(coffer__file_reader_open(&file_reader, &source, &wish, &engine_facts, &err), COFFER_OK);
    for (unsigned round = 0; round < 2 && file_reader.buffered >= 0; round++) {
        (void)coffer__os_read_present(file_reader.buffered, 100, engine_slots, 50000, &present);
        file_reader.mixed = round == 1;
        coffer__request request = { .file_reader = &file_reader, .offset = 100, .size = 50000, .to = engine_slots };
        coffer__range_reader_submit(reader, &request);
        assert_int_equal(coffer__range_reader_reap(reader, true, &done, &err), COFFER_OK);
        assert_int_equal(request.read, 50000);
        assert_true(request.cached <= 50000);
        assert_true(round == 0 || request.cached >= present);
        assert_memory_equal(engine_slots, engine_content + 100, 50000);
    }
    assert_int_equal(coffer__os_read_present(0, UINT64_MAX, engine_slots, 1, &present), EOVERFLOW);
    coffer__file_reader_close(&file_reader);
    coffer__range_reader_free(reader);
    source.ops->close(&source);
}

static bool is_direct(const char *name)
{
    return strcmp(name, "ring") == 0 || strcmp(name, "direct") == 0;
}

static void test_choice(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    int fd = -1;
    bool cached = true;
    const coffer__engine_wish little = { .planned = 1000 };
    const coffer__engine_wish all = { .planned = ENGINE_SIZE };
    const coffer__engine_wish shared = { .planned = ENGINE_SIZE, .shared = true };
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    source.is.untrusted = true;
    assert_string_not_equal(choice_of(&source, &all), "ring");
    source.ops->close(&source);
    open_settled(&source);
    assert_string_equal(choice_of(&source, &little), "source");
    char path[4096];
    snprintf(path, sizeof path, "%s", work_path("model"));
    file_write("model.coffer-undo", engine_content, 100);
    const coffer__engine_wish edited = { .planned = ENGINE_SIZE, .path = path };
    assert_false(is_direct(choice_of(&source, &edited)));
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_EDIT, true, &fd), 0);
    coffer__file_reader direct;
    const bool can = engine_open(&direct, &source, COFFER_ENGINE_DIRECT);
    coffer__file_reader_close(&direct);
    if (can && coffer__os_is_cached(fd, 0, &cached) == 0 && coffer__os_storage_of(fd) == COFFER__OS_LOCAL) {
        assert_int_equal(coffer__os_sync(fd), 0);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        assert_true(coffer__os_is_cached(fd, 0, &cached) != 0 || cached || is_direct(choice_of(&source, &all)));
        assert_false(is_direct(choice_of(&source, &shared)));
        const int ring = engine_facts.ring;
        engine_facts.ring = EPERM;
        assert_true(coffer__os_is_cached(fd, 0, &cached) != 0 || cached ||
                    strcmp(choice_of(&source, &all), "direct") == 0);
        engine_facts.ring = ring;
        uint8_t *bytes = malloc(ENGINE_SIZE);
        size_t got = 0;
        assert_int_equal(coffer__os_read_at(fd, 0, bytes, ENGINE_SIZE, &got), 0);
        free(bytes);
        assert_string_equal(choice_of(&source, &all), "buffered");
        coffer__file_reader warm;
        assert_int_equal(coffer__file_reader_open(&warm, &source, &all, &engine_facts, NULL), COFFER_OK);
        assert_true(warm.mixed);
        coffer__file_reader_close(&warm);
    }
    (void)coffer__os_close(fd);
    source.ops->close(&source);
}

#ifdef __linux__
/* The numbers of linux/magic.h and of the file systems' own documents: few machines have all of them to try. */
static void test_file_systems_by_their_numbers(void **unused)
{
    (void)unused;
    static const uint32_t local[] = { 0xEF53, 0x58465342, 0x9123683E, 0x794C7630, 0x2FC12FC1, 0 };
    static const uint32_t memory[] = { 0x01021994, 0x858458F6, 0x958458F6 };
    static const uint32_t network[] = { 0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x0BD00BD0, 0x00C36400,
                                        0x47504653, 0x01021997, 0x19830326, 0x5346414F, 0x6B414653, 0x73757245 };
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        assert_int_equal(coffer__os_storage_called(local[i]), COFFER__OS_LOCAL);
    }
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        assert_int_equal(coffer__os_storage_called(memory[i]), COFFER__OS_MEMORY);
    }
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++) {
        assert_int_equal(coffer__os_storage_called(network[i]), COFFER__OS_NETWORK);
    }
    assert_int_equal(coffer__os_storage_called(0x65735546), COFFER__OS_USER);
}
#endif

static void test_no_memory(void **unused)
{
    (void)unused;
    memory_meter meter;
    const coffer_allocator none = metered_allocator(&meter);
    meter.fail_at = 1;
    coffer__range_reader *reader = NULL;
    const coffer__range_reader_options options = { .allocator = &none, .depth = 1 };
    assert_int_equal(coffer__range_reader_new(&reader, &options, NULL), COFFER_ERR_MEMORY);
    assert_null(reader);
    coffer__range_reader_free(reader);
}

static void test_no_such_engine(void **unused)
{
    (void)unused;
    coffer__byte_source source;
    coffer__file_reader file_reader;
    const coffer__engine_wish wish = { .engine = (coffer_engine)99, .planned = ENGINE_SIZE };
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    assert_int_equal(coffer__file_reader_open(&file_reader, &source, &wish, &engine_facts, NULL), COFFER_ERR_ARGUMENT);
    source.ops->close(&source);
}

/* ---- what needs no system ----------------------------------------------------------------------------------------- */

static void test_within(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t block;
        uint64_t residue; /* of the address */
        uint64_t offset;
        uint64_t size;
        uint64_t first;
        uint64_t got;
    } cases[] = {
        { 1, 3, 7, 100, 7, 100 },         { 512, 0, 0, 1024, 0, 1024 },     { 512, 0, 0, 1023, 0, 512 },
        { 512, 1, 513, 1024, 1024, 512 }, { 512, 1, 513, 511, 513, 0 },     { 512, 1, 513, 512, 1024, 0 },
        { 512, 0, 513, 4096, 513, 0 },    { 4096, 8, 8, 8192, 4096, 4096 }, { 4096, 8, 8, 4000, 8, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const coffer__file_reader file_reader = { .block = cases[i].block };
        uint64_t offset = cases[i].offset;
        uint64_t size = cases[i].size;
        coffer__file_reader_within(&file_reader, engine_slots + cases[i].residue, &offset, &size);
        assert_int_equal(size, cases[i].got);
        assert_true(size == 0 || offset == cases[i].first);
    }
}

/* A device of which each read takes `latency` milliseconds, and that brings at most `rate` bytes in one. The answer is what
   the depth settles at. */
static uint32_t settles_at(uint32_t depth, uint32_t most, uint64_t latency, uint64_t rate)
{
    const uint64_t size = 1 << 20;
    coffer__tune tune;
    uint64_t now = 1000;
    coffer__tune_begin(&tune, depth, most, now);
    for (unsigned turn = 0; turn < 1000; turn++) {
        const uint64_t limit = tune.depth * size / rate;
        now += limit > latency ? limit : latency;
        for (uint32_t i = tune.depth; i > 0; i--) {
            coffer__tune_note(&tune, size, now);
        }
    }
    assert_true(tune.settled);
    return tune.depth;
}

/* What a gap may be after `count` brief and as many full requests to a device that needs `request` nanoseconds for each
   and one for every `speed` bytes. */
static uint64_t paced(bool far, uint64_t count, uint64_t request, uint64_t speed)
{
    coffer__pace pace;
    coffer__pace_begin(&pace, far);
    for (uint64_t i = 0; i < count; i++) {
        coffer__pace_note(&pace, 8192, request + 8192 / speed);
        coffer__pace_note(&pace, 300000, 1); /* of a size that tells nothing */
        coffer__pace_note(&pace, 2 << 20, request + (2 << 20) / speed);
    }
    return coffer__pace_gap(&pace);
}

static void test_pace(void **unused)
{
    (void)unused;
    /* as is usual, until something is known */
    assert_int_equal(paced(false, 0, 0, 1), COFFER__PACE_NEAR);
    assert_int_equal(paced(true, 0, 0, 1), COFFER__PACE_FAR);
    assert_int_equal(paced(false, 7, 1000000, 3), COFFER__PACE_NEAR);
    /* 100 us for a request are 100,000 bytes at one in a nanosecond; what was assumed counts less and less */
    assert_in_range(paced(false, 2000, 100000, 1), 95000, 101000);
    assert_in_range(paced(false, 2000, 10000, 1), 9500, 10100);
    assert_in_range(paced(true, 20000, 500000, 1), 490000, 510000);
    /* bounds */
    assert_int_equal(paced(false, 2000, 100, 1), 4096);
    assert_int_equal(paced(false, 2000, 10000000, 3), 256 << 10);
    assert_int_equal(paced(true, 20000, 1000, 3), 64 << 10);
    assert_int_equal(paced(true, 2000, UINT64_C(3600) * 1000000000, 3), 2 << 20);
    /* one request that hung changes little */
    coffer__pace pace;
    coffer__pace_begin(&pace, false);
    for (unsigned i = 0; i < 5000; i++) {
        coffer__pace_note(&pace, 4096, i == 2500 ? UINT64_MAX : 6250);
    }
    assert_in_range(coffer__pace_gap(&pace), 16000, 18000);
}

static void test_tune(void **unused)
{
    (void)unused;
    assert_int_equal(settles_at(16, 16, 10, 1 << 20), 16);
    assert_int_equal(settles_at(16, 1024, 10, 1 << 20), 16);
    assert_int_equal(settles_at(4, 1024, 64, 1 << 20), 64);
    assert_int_equal(settles_at(4, 40, 64, 1 << 20), 32);
    assert_int_equal(settles_at(4, 3, 64, 1 << 20), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_engine, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_disturbed_completions, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_endless_interruptions, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_ring_refused_to_a_reader, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_ring_refused_by_name, engine_set_up, engine_tear_down),
#ifdef __linux__
        cmocka_unit_test_setup_teardown(test_calls_refused, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory_to_lock, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_strangers_file, engine_set_up, engine_tear_down),
        cmocka_unit_test(test_file_systems_by_their_numbers),
#endif
        cmocka_unit_test_setup_teardown(test_truncated, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_sources_that_are_no_files, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_ranges_of_files, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_mixed, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors_of_readers, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_cached_and_uncached_reads, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_cached_is_counted, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_choice, engine_set_up, engine_tear_down),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test_setup_teardown(test_no_such_engine, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_within, engine_set_up, engine_tear_down),
        cmocka_unit_test(test_tune),
        cmocka_unit_test(test_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
