/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new kind of source is one file, and touches nothing that reads. Here is one, whole: a store whose bytes are coded,
 * like an encrypted file. All of it is in the first section, and in the product that section would be
 * src/io/source_coded.c, with its last function declared in source.h. Models are then opened from it, read, sliced,
 * verified, copied and opened again from a range of it, near and far, by what there is for any source.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "opening.h"
#include "source.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_header.h"
#include "support_model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kind ---------------------------------------------------------------------------------------------------------- */

typedef struct coded_store {
    const uint8_t *bytes; /* each with its place's key */
    atomic_uint reads;
    atomic_uint watched;
    atomic_uint closes;
} coded_store;

static uint8_t coded_key(uint64_t at)
{
    return (uint8_t)(at * 7 + 1);
}

static coffer_status coded_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                   const coffer__watch *watch, coffer_error *err)
{
    coded_store *store = source->state.kept;
    uint8_t *to = buffer;
    (void)err;
    store->reads++;
    store->watched += watch != NULL;
    for (size_t i = 0; i < size; i++) {
        to[i] = store->bytes[(size_t)offset + i] ^ coded_key(offset + i);
    }
    return COFFER_OK;
}

static void coded_close(coffer__byte_source *source)
{
    coded_store *store = source->state.kept;
    store->closes++;
}

static void source_coded(coffer__byte_source *source, coded_store *store, uint64_t size, bool far)
{
    static const coffer__source_ops ops = { .kind = "a coded store", .read_at = coded_read_at, .close = coded_close };
    coffer__source_init(source, &ops, size, (coffer__source_traits){ .far = far });
    source->state.kept = store;
}

/* ---- what it is asked for ---------------------------------------------------------------------------------------------- */

#define BEFORE 1003 /* bytes of something else, in an archive */

static uint8_t *plain;
static uint8_t *coded;
static size_t plain_size;

/* The large vectors, recorded, as a file and coded, with something before and after. */
static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    image made = image_of(LARGE, LARGE_COUNT);
    file_write("plain", made.bytes, made.size);
    image_free(&made);
    assert_int_equal(coffer_record_digests(work_path("plain"), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    plain = file_read("plain", &plain_size);
    coded = calloc(1, BEFORE + plain_size + BEFORE);
    assert_non_null(coded);
    for (size_t i = 0; i < plain_size; i++) {
        coded[BEFORE + i] = plain[i] ^ coded_key(BEFORE + i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(plain);
    free(coded);
    work_dir_remove();
    return 0;
}

static coffer *open_coded(coded_store *store, coffer_verifying verify, bool far)
{
    coffer_error err;
    coffer *model = NULL;
    coffer__byte_source source;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = verify;
    options.allocator = coffer_libc_allocator();
    *store = (coded_store){ .bytes = coded };
    source_coded(&source, store, BEFORE + plain_size + BEFORE, far);
    assert_int_equal(coffer__source_narrow(&source, BEFORE, plain_size, options.allocator, &err), COFFER_OK);
    if (coffer__open_shard_source(&model, &source, NULL, &options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(coffer_count(model), LARGE_COUNT);
    return model;
}

static void check_reads(const coffer *model)
{
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        uint8_t *bytes = malloc((size_t)tensor->size + 1);
        assert_non_null(bytes);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        assert_memory_equal(bytes, plain + tensor->offset, (size_t)tensor->size);
        const uint64_t part = tensor->size / 3;
        assert_int_equal(coffer_read_part(model, tensor, part, bytes, part, NULL, NULL), COFFER_OK);
        assert_memory_equal(bytes, plain + tensor->offset + part, (size_t)part);
        free(bytes);
    }
}

/* Every third element along the last dimension, beside what the plain file gives. */
static void check_slices(const coffer *model)
{
    const coffer_index third[] = { { .kind = COFFER_INDEX_ELLIPSIS }, { .kind = COFFER_INDEX_RANGE, .step = 3 } };
    coffer *other = open_with("plain", NULL);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (tensor->rank == 0) {
            continue;
        }
        const uint64_t last = tensor->shape[tensor->rank - 1];
        const uint64_t size = last == 0 ? 0 : tensor->size / last * ((last + 2) / 3);
        uint8_t *bytes = calloc(2, (size_t)size + 1);
        assert_non_null(bytes);
        uint8_t *wanted = bytes + size + 1;
        assert_int_equal(coffer_read_slice(model, tensor, third, 2, bytes, size, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_read_slice(other, coffer_at(other, i), third, 2, wanted, size, NULL, NULL), COFFER_OK);
        assert_memory_equal(bytes, wanted, (size_t)size);
        free(bytes);
    }
    coffer_close(other);
}

static void check_copies(const coffer *model)
{
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_copy copies[LARGE_COUNT];
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        copies[i] = (coffer_copy){ i, model, tensor };
        assert_int_equal(
            coffer_header_add(header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape, tensor->rank, NULL),
            COFFER_OK);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, LARGE_COUNT, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer *copy = open_with("copy", NULL);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const coffer_tensor *made = tensor_named(copy, tensor->name);
        assert_memory_equal(coffer_data(copy, made, NULL), plain + tensor->offset, (size_t)tensor->size);
    }
    coffer_close(copy);
}

static void a_kind_of_source_does_all_that_sources_do(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        for (int verify = COFFER_VERIFY_NOTHING; verify <= COFFER_VERIFY_ALL; verify++) {
            coded_store store;
            coffer *model = open_coded(&store, (coffer_verifying)verify, far == 1);
            check_reads(model);
            check_slices(model);
            check_copies(model);
            assert_int_equal(coffer_verify(model, NULL, LARGE_COUNT, NULL, NULL, NULL), COFFER_OK);
            assert_true(store.watched > 0); /* whoever reads lets it ask whether to go on */
            assert_int_equal(store.closes, 0);
            coffer_close(model);
            assert_int_equal(store.closes, 1);
        }
    }
}

/* It lends no descriptor, so its header comes at once and not through a window; and what it cannot do has one failure.
   */
static void what_a_kind_leaves_out_is_known(void **state)
{
    (void)state;
    coded_store store;
    coffer_error err;
    coffer *model = open_coded(&store, COFFER_VERIFY_NOTHING, false);
    assert_true(store.reads <= 2);
    assert_null(coffer_data(model, tensor_named(model, LARGE[0].name), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    coffer_close(model);
    coffer__byte_source source;
    coffer__os_map map = { NULL, 0 };
    char identity[COFFER__SOURCE_IDENTITY];
    uint8_t digest[32];
    source_coded(&source, &store, 10, false);
    assert_null(coffer__source_map(&source, 0, 10, COFFER_MAP, false, &map, &err));
    assert_string_equal(err.message, "a coded store cannot be mapped: read the tensor instead");
    assert_null(coffer__source_seen(&source));
    assert_true(coffer__source_is_still(&source));
    assert_false(coffer__source_is_fresh(&source));
    assert_int_equal(coffer__source_path_again(&source, "nothing", &err), COFFER_OK);
    assert_false(coffer__source_identity(&source, identity));
    assert_string_equal(identity, "");
    assert_string_equal(coffer__source_commit(&source), "");
    assert_null(coffer__source_kept(&source));
    assert_false(coffer__source_stated_sha256(&source, digest));
}

/* A slice whose elements lie 16 KiB apart: from a near source nothing but the elements, from a far one few reads. */
static void far_is_what_decides_how_data_is_read(void **state)
{
    (void)state;
    const coffer_index every[] = { { .kind = COFFER_INDEX_RANGE, .step = 16384 } };
    unsigned reads[2] = { 0, 0 };
    for (int far = 0; far < 2; far++) {
        coded_store store;
        coffer *model = open_coded(&store, COFFER_VERIFY_NOTHING, far == 1);
        const coffer_tensor *longest = coffer_at(model, 0);
        for (size_t i = 0; i < LARGE_COUNT; i++) {
            const coffer_tensor *tensor = coffer_at(model, i);
            longest = tensor->rank == 1 && (longest->rank != 1 || tensor->size > longest->size) ? tensor : longest;
        }
        const uint64_t count = (longest->shape[0] + 16383) / 16384;
        const uint64_t size = count * (longest->size / longest->shape[0]);
        uint8_t *bytes = malloc((size_t)size);
        assert_non_null(bytes);
        store.reads = 0;
        assert_int_equal(coffer_read_slice(model, longest, every, 1, bytes, size, NULL, NULL), COFFER_OK);
        reads[far] = store.reads;
        assert_true(far == 1 || store.reads == count);
        free(bytes);
        coffer_close(model);
    }
    assert_true(reads[1] * 4 <= reads[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kind_of_source_does_all_that_sources_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_kind_leaves_out_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(far_is_what_decides_how_data_is_read, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("source_kind", tests, NULL, NULL);
}
