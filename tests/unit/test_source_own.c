/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's own source says of itself what a file says: that its reads cost round trips, that its bytes are in
 * memory, that there is a descriptor. Each is held here to what it is good for, and to its failures, and a source that
 * says nothing to what it was before it could.
 */
#define _XOPEN_SOURCE 700
#include "support_cmocka.h"

#include "coffer.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_header.h"
#include "support_model.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEFORE 777 /* bytes of something else, before the source's first */

/* A file in memory and at a place of a descriptor. */
typedef struct own {
    uint64_t *words; /* aligned, as a source must be that is shown */
    size_t size;
    int fd;
    atomic_uint reads;
    unsigned shown;
    unsigned borrowed;
    unsigned given_back;
    unsigned closes;
    coffer_status answer; /* of map and borrow */
    bool silent;          /* … without words */
} own;

static coffer_status own_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    own *of = ctx;
    (void)err;
    of->reads++;
    memcpy(buffer, (const uint8_t *)of->words + offset, size);
    return COFFER_OK;
}

static coffer_status own_fails(const own *of, coffer_error *err)
{
    assert_int_equal(err->code, COFFER_OK);
    if (of->answer != COFFER_OK && !of->silent) {
        err->code = of->answer;
        memcpy(err->message, "the vault is shut", 18);
    }
    return of->answer;
}

static const void *own_map(void *ctx, coffer_error *err)
{
    own *of = ctx;
    of->shown++;
    return own_fails(of, err) == COFFER_OK ? of->words : NULL;
}

static coffer_status own_borrow(void *ctx, int *fd, uint64_t *offset, coffer_error *err)
{
    own *of = ctx;
    of->borrowed++;
    *fd = of->fd;
    *offset = BEFORE;
    return own_fails(of, err);
}

static void own_give_back(void *ctx)
{
    own *of = ctx;
    of->given_back++;
}

static void own_close(void *ctx)
{
    own *of = ctx;
    of->closes++;
}

static own kept;
static coffer_source source;

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    image made = image_of(LARGE, LARGE_COUNT);
    uint8_t *archive = calloc(1, BEFORE + made.size);
    assert_non_null(archive);
    memcpy(archive + BEFORE, made.bytes, made.size);
    file_write("archive", archive, BEFORE + made.size);
    free(archive);
    kept = (own){ .words = malloc(made.size), .size = made.size, .fd = open(work_path("archive"), O_RDONLY) };
    assert_non_null(kept.words);
    memcpy(kept.words, made.bytes, made.size);
    image_free(&made);
    source = (coffer_source){ .read_at = own_read, .close = own_close, .ctx = &kept, .size = kept.size };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(kept.words);
    close(kept.fd);
    work_dir_remove();
    return 0;
}

static coffer *open_own(coffer_access access)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    if (coffer_open_source(&model, &source, &options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

/* ---- far --------------------------------------------------------------------------------------------------------------- */

static unsigned reads_of_a_sparse_slice(bool far)
{
    const coffer_index every[] = { { .kind = COFFER_INDEX_RANGE, .step = 8192 } };
    float got[184];
    source.far = far;
    coffer *model = open_own(COFFER_MAP);
    const coffer_tensor *one = tensor_named(model, "one");
    kept.reads = 0;
    assert_int_equal(coffer_read_slice(model, one, every, 1, got, sizeof got, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++) {
        assert_memory_equal(&got[i], (const uint8_t *)kept.words + one->offset + i * 8192 * sizeof(float),
                            sizeof(float));
    }
    coffer_close(model);
    return kept.reads;
}

static void what_is_far_is_read_in_few_pieces(void **state)
{
    (void)state;
    assert_int_equal(reads_of_a_sparse_slice(false), 184);
    assert_true(reads_of_a_sparse_slice(true) <= 8);
}

/* ---- map --------------------------------------------------------------------------------------------------------------- */

static void bytes_in_memory_are_data(void **state)
{
    (void)state;
    source.map = own_map;
    coffer *model = open_own(COFFER_MAP);
    kept.reads = 0;
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_ptr_equal(coffer_data(model, tensor, NULL), (const uint8_t *)kept.words + tensor->offset);
    }
    assert_int_equal(kept.shown, 1);
    assert_int_equal(kept.reads, 0);
    coffer_close(model);
    model = open_own(COFFER_MAP_PRIVATE);
    coffer_error err;
    assert_null(coffer_data_mutable(model, coffer_at(model, 0), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    coffer_close(model);
    model = open_own(COFFER_READ);
    assert_null(coffer_data(model, coffer_at(model, 0), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    coffer_close(model);
    assert_int_equal(kept.closes, 3);
}

static void memory_that_is_not_shown_fails_as_the_caller_says(void **state)
{
    (void)state;
    coffer_error err;
    source.map = own_map;
    for (int silent = 0; silent < 2; silent++) {
        kept.answer = COFFER_ERR_LOCKED;
        kept.silent = silent == 1;
        kept.shown = 0;
        coffer *model = open_own(COFFER_MAP);
        for (int again = 0; again < 2; again++) {
            assert_null(coffer_data(model, tensor_named(model, "one"), &err));
            assert_int_equal(err.code, silent ? COFFER_ERR_NOT_MAPPED : COFFER_ERR_LOCKED);
            assert_true(err.message[0] != '\0');
        }
        assert_int_equal(kept.shown, 1);
        uint8_t byte = 0;
        assert_int_equal(coffer_read_part(model, tensor_named(model, "two"), 7, &byte, 1, NULL, NULL), COFFER_OK);
        coffer_close(model);
    }
}

/* ---- a descriptor ------------------------------------------------------------------------------------------------------ */

static coffer_status copy_all(const coffer *model, coffer_error *err)
{
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_copy copies[LARGE_COUNT];
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        copies[i] = (coffer_copy){ i, model, tensor };
        add_tensor(header, tensor->name, tensor->dtype, 1, tensor->shape[0], 0);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), NULL, NULL), COFFER_OK);
    coffer_status status = coffer_writer_copy(writer, copies, LARGE_COUNT, NULL, err);
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

static void the_system_copies_from_a_descriptor(void **state)
{
    (void)state;
    source.borrow = own_borrow;
    source.give_back = own_give_back;
    coffer *model = open_own(COFFER_MAP);
    assert_int_equal(copy_all(model, NULL), COFFER_OK);
    assert_true(kept.borrowed > 0);
    assert_int_equal(kept.borrowed, kept.given_back);
    coffer *copy = open_with("copy", NULL);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        assert_memory_equal(coffer_data(copy, tensor_named(copy, tensor->name), NULL),
                            (const uint8_t *)kept.words + tensor->offset, (size_t)tensor->size);
    }
    coffer_close(copy);
    for (int silent = 0; silent < 2; silent++) {
        coffer_error err;
        kept.answer = COFFER_ERR_LOCKED;
        kept.silent = silent == 1;
        kept.given_back = 0;
        assert_int_equal(copy_all(model, &err), COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
        assert_true(err.message[0] != '\0');
        assert_int_equal(kept.given_back, 0);
    }
    coffer_close(model);
}

static void a_loan_needs_a_return(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer_error err;
    source.borrow = own_borrow;
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_ARGUMENT);
    source.borrow = NULL;
    source.give_back = own_give_back;
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(kept.closes, 2);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_far_is_read_in_few_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_in_memory_are_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_is_not_shown_fails_as_the_caller_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_system_copies_from_a_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loan_needs_a_return, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("source_own", tests, NULL, NULL);
}
