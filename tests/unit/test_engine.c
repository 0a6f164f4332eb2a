/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: whatever reads a file, and however the system disturbs it, the bytes are those of pread, or there is an error that
 * says why not. So every engine reads random ranges of a file whose length is odd, to aligned places and others; completions
 * of io_uring are cut short, swapped and failed; and the file becomes shorter while it is read.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "engine_own.h"
#include "support_file.h"
#include "tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)(5 << 20) + 1234)
#define SLOT ((size_t)512 << 10)
#define SLOTS 12u
#define ROOM (SLOT + 2 * (size_t)COFFER__BLOCK_MOST)
#define SEED UINT64_C(0x9E3779B97F4A7C15)

static uint8_t *content;
static uint8_t *slots; /* SLOTS times ROOM */
static coffer__engine_facts facts;

static uint64_t state;

static uint64_t random_below(uint64_t bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
}

static int set_up(void **unused)
{
    (void)unused;
    state = SEED;
    content = malloc(SIZE);
    assert_non_null(content);
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = (uint8_t)(i % 251 + (i >> 12));
    }
    slots = mmap(NULL, SLOTS * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(slots, MAP_FAILED);
    work_dir_make();
    file_write("model", content, SIZE);
    coffer__engine_facts_get(&facts);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    work_dir_remove();
    free(content);
    (void)munmap(slots, SLOTS * ROOM);
    return 0;
}

static coffer__reader *reader_of(const coffer__ring_calls *calls, uint32_t depth)
{
    coffer__reader *reader = NULL;
    const coffer__reader_options options = { .allocator = coffer_libc_allocator(),
                                             .depth = depth,
                                             .memory = slots,
                                             .memory_size = SLOTS * ROOM,
                                             .ring = calls };
    assert_int_equal(coffer__reader_new(&reader, &options, NULL), COFFER_OK);
    return reader;
}

/* A request for a random range, to a place in a slot that agrees with the file's blocks three times of four. */
static void request_random(coffer__request *request, const coffer__inlet *inlet, size_t slot, uint64_t end)
{
    const uint64_t offset = random_below(end);
    const uint64_t most = end - offset < SLOT / 2 ? end - offset : SLOT / 2;
    const size_t residue = random_below(4) > 0 ? (size_t)((inlet->base + offset) % COFFER__BLOCK_MOST)
                                               : (size_t)random_below(COFFER__BLOCK_MOST);
    *request = (coffer__request){ .inlet = inlet,
                                  .offset = offset,
                                  .size = 1 + (size_t)random_below(most),
                                  .to = slots + slot * ROOM + COFFER__BLOCK_MOST + residue };
    memset(slots + slot * ROOM, 0xA5, ROOM);
}

static void check_request(const coffer__request *request, coffer_status status, const coffer_error *err)
{
    if (status != COFFER_OK) {
        fail_msg("%s", err->message);
    }
    assert_memory_equal(request->to, content + request->inlet->base + request->offset, request->size);
    assert_true(request->read >= request->size);
    assert_true(request->cached + request->direct <= request->read);
}

/* Keeps several random requests of an inlet under way until `count` were checked. */
static void read_randomly(coffer__reader *reader, const coffer__inlet *inlet, unsigned count)
{
    coffer__request requests[SLOTS];
    coffer_error err;
    for (size_t i = 0; i < SLOTS; i++) {
        request_random(&requests[i], inlet, i, inlet->source->size);
        coffer__reader_submit(reader, &requests[i]);
    }
    for (unsigned i = 0; i < count + SLOTS; i++) {
        coffer__request *done = NULL;
        const coffer_status status = coffer__reader_reap(reader, true, &done, &err);
        assert_non_null(done);
        check_request(done, status, &err);
        if (i < count) {
            request_random(done, inlet, (size_t)(done - requests), inlet->source->size);
            coffer__reader_submit(reader, done);
        }
    }
    coffer__request *none = NULL;
    assert_int_equal(coffer__reader_reap(reader, true, &none, &err), COFFER_OK);
    assert_null(none);
}

/* Opens the file for an engine; false where the system refuses it, which the test says. */
static bool open_inlet(coffer__inlet *inlet, const coffer__source *source, coffer_engine engine)
{
    coffer_error err;
    const coffer__engine_wish wish = { .engine = engine, .planned = source->size };
    const coffer_status status = coffer__inlet_open(inlet, source, &wish, &facts, &err);
    if (status != COFFER_OK) {
        assert_int_equal(status, COFFER_ERR_ENGINE);
        print_message("not run with this engine: %s\n", err.message);
    }
    return status == COFFER_OK;
}

static const coffer_engine engines[] = { COFFER_ENGINE_AUTO, COFFER_ENGINE_BUFFERED, COFFER_ENGINE_DIRECT,
                                         COFFER_ENGINE_RING };

static void read_source_by_all(const coffer__source *source)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        coffer__inlet inlet;
        coffer__reader *reader = reader_of(NULL, 4);
        if (open_inlet(&inlet, source, engines[i])) {
            read_randomly(reader, &inlet, 100);
            coffer__inlet_close(&inlet);
        }
        coffer__reader_free(reader);
    }
}

static void test_every_engine(void **unused)
{
    (void)unused;
    coffer__source source;
    assert_int_equal(coffer__source_path(&source, work_path("model"), NULL), COFFER_OK);
    read_source_by_all(&source);
    source.ops->close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_engine, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
