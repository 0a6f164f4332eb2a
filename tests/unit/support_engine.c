/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "support_engine.h"

#include "support_cmocka.h"
#include "support_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint8_t *engine_content;
uint8_t *engine_slots; /* ENGINE_SLOTS times ENGINE_CAPACITY */
coffer__engine_facts engine_facts;

static uint64_t engine_state;

uint64_t engine_random(uint64_t bound)
{
    engine_state ^= engine_state << 13;
    engine_state ^= engine_state >> 7;
    engine_state ^= engine_state << 17;
    return engine_state % bound;
}

int engine_set_up(void **unused)
{
    (void)unused;
    engine_state = UINT64_C(0x9E3779B97F4A7C15);
    engine_content = malloc(ENGINE_SIZE);
    assert_non_null(engine_content);
    for (size_t i = 0; i < ENGINE_SIZE; i++) {
        engine_content[i] = (uint8_t)(i % 251 + (i >> 12));
    }
    engine_slots =
        mmap(NULL, ENGINE_SLOTS * ENGINE_CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(engine_slots, MAP_FAILED);
    work_dir_make();
    file_write("model", engine_content, ENGINE_SIZE);
    coffer__engine_facts_get(&engine_facts);
    return 0;
}

int engine_tear_down(void **unused)
{
    (void)unused;
    work_dir_remove();
    free(engine_content);
    (void)munmap(engine_slots, ENGINE_SLOTS * ENGINE_CAPACITY);
    return 0;
}

coffer__range_reader *engine_reader(const coffer__ring_calls *calls, uint32_t depth)
{
    coffer__range_reader *reader = NULL;
    const coffer__range_reader_options options = { .allocator = coffer_libc_allocator(),
                                                   .depth = depth,
                                                   .memory = engine_slots,
                                                   .memory_size = ENGINE_SLOTS * ENGINE_CAPACITY,
                                                   .ring = calls };
    assert_int_equal(coffer__range_reader_new(&reader, &options, NULL), COFFER_OK);
    return reader;
}

/* A request for a random range, to a place in a slot that agrees with the file's blocks three times of four. */
static void request_random(coffer__request *request, const coffer__file_reader *file_reader, size_t slot, uint64_t end)
{
    const uint64_t offset = engine_random(end);
    const uint64_t most = end - offset < ENGINE_SLOT / 2 ? end - offset : ENGINE_SLOT / 2;
    const size_t residue = engine_random(4) > 0 ? (size_t)((file_reader->base + offset) % COFFER__BLOCK_MAX)
                                                : (size_t)engine_random(COFFER__BLOCK_MAX);
    *request = (coffer__request){ .file_reader = file_reader,
                                  .offset = offset,
                                  .size = 1 + (size_t)engine_random(most),
                                  .to = engine_slots + slot * ENGINE_CAPACITY + COFFER__BLOCK_MAX + residue };
    memset(engine_slots + slot * ENGINE_CAPACITY, 0xA5, ENGINE_CAPACITY);
}

static void check_request(const coffer__request *request, coffer_status status, const coffer_error *err)
{
    if (status != COFFER_OK) {
        fail_msg("%s", err->message);
    }
    assert_memory_equal(request->to, engine_content + request->file_reader->base + request->offset, request->size);
    assert_true(request->read >= request->size);
    assert_true(request->cached + request->direct <= request->read);
}

/* Keeps several random requests of a file reader in progress until `count` were checked. */
void engine_read_randomly(coffer__range_reader *reader, const coffer__file_reader *file_reader, unsigned count)
{
    coffer__request requests[ENGINE_SLOTS];
    coffer_error err;
    for (size_t i = 0; i < ENGINE_SLOTS; i++) {
        request_random(&requests[i], file_reader, i, file_reader->source->size);
        coffer__range_reader_submit(reader, &requests[i]);
    }
    for (unsigned i = 0; i < count + ENGINE_SLOTS; i++) {
        coffer__request *done = NULL;
        const coffer_status status = coffer__range_reader_reap(reader, true, &done, &err);
        assert_non_null(done);
        check_request(done, status, &err);
        if (i < count) {
            request_random(done, file_reader, (size_t)(done - requests), file_reader->source->size);
            coffer__range_reader_submit(reader, done);
        }
    }
    coffer__request *none = NULL;
    assert_int_equal(coffer__range_reader_reap(reader, true, &none, &err), COFFER_OK);
    assert_null(none);
}

/* Opens the file for an engine; false where the system refuses it, which the test says. */
bool engine_open(coffer__file_reader *file_reader, const coffer__byte_source *source, coffer_engine engine)
{
    coffer_error err;
    const coffer__engine_wish wish = { .engine = engine, .planned = source->size };
    const coffer_status status = coffer__file_reader_open(file_reader, source, &wish, &engine_facts, &err);
    if (status != COFFER_OK) {
        assert_int_equal(status, COFFER_ERR_ENGINE);
        print_message("not run with this engine: %s\n", err.message);
    }
    assert_true(file_reader->direct >= 0 || file_reader->block == 1);
    return status == COFFER_OK;
}

const coffer_engine engine_kinds[ENGINE_KINDS] = { COFFER_ENGINE_AUTO, COFFER_ENGINE_BUFFERED, COFFER_ENGINE_DIRECT,
                                                   COFFER_ENGINE_RING };

void engine_read_by_all(const coffer__byte_source *source)
{
    for (size_t i = 0; i < ENGINE_KINDS; i++) {
        coffer__file_reader file_reader;
        coffer__range_reader *reader = engine_reader(NULL, 4);
        if (engine_open(&file_reader, source, engine_kinds[i])) {
            engine_read_randomly(reader, &file_reader, 100);
            coffer__file_reader_close(&file_reader);
        }
        coffer__range_reader_free(reader);
    }
}
