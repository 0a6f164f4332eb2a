/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensor goes into which file of a model, what the files are called, and what the index says: rules that other programs
 * have, too, so that every byte of an index counts. (tests/python compares with one of those programs.)
 */
#include "support_cmocka.h"

#include "shards.h"
#include "support_header.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 16

static coffer_header *header_of_sizes(const uint64_t *sizes, size_t count)
{
    coffer_header *header = new_header();
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        add_tensor(header, name, COFFER_U8, 1, sizes[i], 0);
    }
    return header;
}

/* `sizes` and `expected` end with a negative number; `expected` is the shard of each tensor. */
static void check_plan(const int *sizes, uint64_t limit, bool balanced, const int *expected)
{
    uint64_t given[MAX_TENSORS] = { 0 };
    size_t count = 0;
    while (sizes[count] >= 0) {
        given[count] = (uint64_t)sizes[count];
        count++;
    }
    coffer_header *header = header_of_sizes(given, count);
    coffer__shards shards;
    assert_int_equal(coffer__shards_plan(&shards, header, limit, balanced, NULL), COFFER_OK);
    size_t last = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(shards.shard_of[i], expected[i]);
        last = shards.shard_of[i] > last ? shards.shard_of[i] : last;
    }
    assert_int_equal(expected[count], -1);
    assert_int_equal(shards.count, last + 1);
    /* Every tensor stands once in the order, in its shard, after those that were declared before it. */
    assert_int_equal(shards.first[0], 0);
    assert_int_equal(shards.first[shards.count], count);
    for (size_t s = 0; s < shards.count; s++) {
        for (uint32_t at = shards.first[s]; at < shards.first[s + 1]; at++) {
            assert_int_equal(shards.shard_of[shards.order[at]], s);
            assert_true(at == shards.first[s] || shards.order[at - 1] < shards.order[at]);
        }
    }
    coffer__shards_free(&shards);
    coffer_header_free(header);
}

#define LIST(...) ((const int[]){ __VA_ARGS__, -1 })

static void test_greedy(void **state)
{
    (void)state;
    check_plan(LIST(6, 6, 2, 6, 2, 2), 10, false, LIST(0, 1, 1, 2, 2, 2));
    check_plan(LIST(5, 5), 10, false, LIST(0, 0));
    check_plan(LIST(5, 6), 10, false, LIST(0, 1));
    check_plan(LIST(10, 10), 10, false, LIST(0, 1));
    check_plan(LIST(3, 3, 3, 3), 1, false, LIST(0, 1, 2, 3));
    /* A large one is counted where it comes, and the file that was begun goes on behind it. */
    check_plan(LIST(1, 11, 1), 10, false, LIST(1, 0, 1));
    check_plan(LIST(1, 11, 1, 9, 12), 10, false, LIST(1, 0, 1, 3, 2));
    check_plan(LIST(11, 12), 10, false, LIST(0, 1));
    /* Empty tensors go along with their neighbours; alone they are a file. */
    check_plan(LIST(0, 0), 10, false, LIST(0, 0));
    check_plan(LIST(10, 0, 0, 1), 10, false, LIST(0, 0, 0, 1));
    check_plan(LIST(0, 11), 10, false, LIST(1, 0));
}

static void test_no_tensors(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    coffer__shards shards;
    assert_int_equal(coffer__shards_plan(&shards, header, 10, true, NULL), COFFER_OK);
    assert_int_equal(shards.count, 1);
    assert_int_equal(shards.first[1], 0);
    coffer__shards_free(&shards);
    coffer_header_free(header);
}

static void test_balanced(void **state)
{
    (void)state;
    check_plan(LIST(5, 5, 1), 10, false, LIST(0, 0, 1));
    check_plan(LIST(5, 5, 1), 10, true, LIST(0, 1, 1));
    check_plan(LIST(2, 2, 2, 2, 2, 2), 10, true, LIST(0, 0, 0, 1, 1, 1));
    /* Large ones are not part of the balance. */
    check_plan(LIST(5, 20, 5, 1), 10, true, LIST(1, 0, 2, 2));
    check_plan(LIST(7), 10, true, LIST(0));
    check_plan(LIST(0, 0), 10, true, LIST(0, 0));
    check_plan(LIST(20, 30), 10, true, LIST(0, 1));
}

static void test_largest_sizes(void **state)
{
    (void)state;
    const uint64_t large = UINT64_C(1) << 61;
    const uint64_t sizes[] = {
        large - 1, large - 1, large - 1, large - 1, large - 1, large - 1, large - 1, large - 1, 8
    };
    coffer_header *header = header_of_sizes(sizes, 8);
    coffer__shards shards;
    assert_int_equal(coffer__shards_plan(&shards, header, UINT64_MAX, true, NULL), COFFER_OK);
    assert_int_equal(shards.count, 1);
    coffer__shards_free(&shards);
    coffer_header_free(header);
    header = header_of_sizes(sizes, 9);
    coffer_error err;
    assert_int_equal(coffer__shards_plan(&shards, header, UINT64_MAX, false, &err), COFFER_ERR_OVERFLOW);
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    coffer_header_free(header);
}

static void test_one_name_in_two_files(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "a", COFFER_U8, 1, 10, 0);
    add_tensor(header, "b", COFFER_U8, 1, 10, 0);
    add_tensor(header, "a", COFFER_U8, 1, 11, 0);
    coffer__shards shards;
    coffer_error err;
    assert_int_equal(coffer__shards_plan(&shards, header, 10, false, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_string_equal(err.tensor, "a");
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    coffer_header_free(header);
}

static void test_without_memory(void **state)
{
    (void)state;
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_header *header = NULL;
    const uint64_t shape[] = { 4 };
    assert_int_equal(coffer_header_new(&header, &allocator, NULL), COFFER_OK);
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, shape, 1, NULL), COFFER_OK);
    const size_t before = meter.blocks;
    coffer__shards shards;
    for (size_t i = 1; i <= 4; i++) {
        meter.fail_at = meter.requests + i;
        assert_int_equal(coffer__shards_plan(&shards, header, 10, false, NULL), COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, before);
    }
    meter.fail_at = 0;
    assert_int_equal(coffer__shards_plan(&shards, header, 10, false, NULL), COFFER_OK);
    coffer__shards_free(&shards);
    assert_int_equal(meter.blocks, before);
    coffer_header_free(header);
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

static void check_name(const char *path, size_t shard, size_t count, const char *expected)
{
    coffer__path name;
    assert_true(coffer__shards_name(&name, path, shard, count));
    assert_string_equal(name.text, expected);
}

static void test_names(void **state)
{
    (void)state;
    check_name("model.safetensors", 0, 1, "model.safetensors");
    check_name("model.safetensors", 0, 2, "model-00001-of-00002.safetensors");
    check_name("a.b/diffusion.fp16.safetensors", 71, 72, "a.b/diffusion.fp16-00072-of-00072.safetensors");
    check_name("/m.safetensors", 99998, 123456, "/m-99999-of-123456.safetensors");
    check_name("/m.safetensors", 123455, 123456, "/m-123456-of-123456.safetensors");
    assert_true(coffer__shards_path_fits("x/m.safetensors"));
    assert_false(coffer__shards_path_fits("x/.safetensors"));
    assert_false(coffer__shards_path_fits("model.bt"));
    assert_false(coffer__shards_path_fits("x.safetensors/"));
    assert_false(coffer__shards_path_fits(""));
    char longest[256 + 16];
    memset(longest, 'm', sizeof longest);
    strcpy(longest + 255 - 12, ".safetensors");
    coffer__path name;
    assert_true(coffer__shards_name(&name, longest, 0, 1));
    assert_false(coffer__shards_name(&name, longest, 0, 2));
}

/* ---- the index ------------------------------------------------------------------------------------------------------- */

static void check_index(const coffer_header *header, uint64_t limit, const char *path, const char *expected)
{
    coffer__shards shards;
    assert_int_equal(coffer__shards_plan(&shards, header, limit, false, NULL), COFFER_OK);
    coffer__path names[8];
    assert_true(shards.count <= 8);
    for (size_t i = 0; i < shards.count; i++) {
        coffer__path file;
        assert_true(coffer__shards_name(&file, path, i, shards.count));
        assert_true(coffer__path_copy(&names[i], file.text + coffer__path_name_at(file.text)));
    }
    const coffer__shards_index index = { .names = names[0].text, .name_size = sizeof names[0] };
    const size_t size = coffer__shards_write_index(NULL, &shards, header, &index);
    char *text = malloc(size + 1);
    assert_non_null(text);
    text[size] = '!';
    assert_int_equal(coffer__shards_write_index(text, &shards, header, &index), size);
    assert_int_equal(text[size], '!');
    text[size] = '\0';
    assert_string_equal(text, expected);
    free(text);
    coffer__shards_free(&shards);
}

static void test_index(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "w", COFFER_F32, 2, 3, 4);
    add_tensor(header, "a", COFFER_F32, 1, 2, 0);
    check_index(header, 40, "out/model.safetensors",
                "{\n  \"metadata\": {\n    \"total_size\": 56\n  },\n  \"weight_map\": {\n"
                "    \"w\": \"model-00001-of-00002.safetensors\",\n"
                "    \"a\": \"model-00002-of-00002.safetensors\"\n  }\n}");
    set_metadata(header, "z", "old");
    set_metadata(header, "format", "pt");
    set_metadata(header, "licence", "MIT");
    set_metadata(header, "total_size", "a lie");
    set_metadata(header, "z", "new");
    check_index(header, 100, "n.safetensors",
                "{\n  \"metadata\": {\n    \"total_size\": 56,\n    \"licence\": \"MIT\",\n    \"z\": \"new\"\n  },\n"
                "  \"weight_map\": {\n    \"w\": \"n.safetensors\",\n    \"a\": \"n.safetensors\"\n  }\n}");
    coffer_header_free(header);
}

static void test_index_of_nothing(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    check_index(header, 1, "model.safetensors",
                "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}");
    coffer_header_free(header);
}

/* In ASCII, whatever is in the names. */
static void test_index_characters(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "\"\\/\b\f\n\r\t\x01\x1f ~\x7f", COFFER_U8, 0, 0, 0);
    add_tensor(header, "\xc3\xa4\xe2\x82\xac\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", COFFER_U8, 0, 0, 0);
    check_index(header, 10, "m.safetensors",
                "{\n  \"metadata\": {\n    \"total_size\": 2\n  },\n  \"weight_map\": {\n"
                "    \"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f ~\\u007f\": \"m.safetensors\",\n"
                "    \"\\u00e4\\u20ac\\uffff\\ud800\\udc00\\udbff\\udfff\": \"m.safetensors\"\n  }\n}");
    coffer_header_free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_balanced),
        cmocka_unit_test(test_largest_sizes),
        cmocka_unit_test(test_one_name_in_two_files),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_index_of_nothing),
        cmocka_unit_test(test_index_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
