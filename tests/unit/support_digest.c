/* SPDX-License-Identifier: Apache-2.0 */
#include "support_digest.h"

#include "support_cmocka.h"
#include "support_header.h"

#include <string.h>

const coffer_algorithm ALGORITHMS[2] = { COFFER_SHA256, COFFER_XXH3_128 };

const digest_vector VECTORS[VECTOR_COUNT] = {
    { "a",
      24,
      "\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25\26\27",
      { "1d64add2a6388367c9bc2d1f1b384b069a6ef382cdaaa89771dd103e28613a25", "bcb7bbf24fcbfc6148f9b79ee9ca6dac" },
      { "f866c9bb61ba6bddf51c1dcc1acee5b53ba54e079e21a9faebd088d65cc1a073", "8401d2585a1d605adf5e7db7be48d320" } },
    { "scalar",
      1,
      "\7",
      { "ca358758f6d27e6cf45272937977a748fd88391db679ceda7dc7bf1f005ee879", "495b62073ef70ca44c5cca45d0f4811f" },
      { "c48e13af7b509fa966ed01bac881bc868a1d2b955fbdd2f5fc7d83558ac418f4", "320befe919807d9c1f703d67088159a7" } },
    { "empty",
      0,
      "",
      { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "99aa06d3014798d86001c324468d497f" },
      { "32cd31d04763219d59712d4691ac2d5ccf84f3a310345bcf43184f33b46a6718", "993b5b059e18851716efe0a9143fb5ca" } },
    { "\xC3\xA9",
      4,
      "\1\0\xFF\xFF",
      { "16b8cb1fe734fbc60c6763c94c9e4cc55840ae966e7e508ba82f539d82702511", "be1f30f4c1db3923f3127af19ef4a6f0" },
      { "4aebaf0a7f8e1d9fc772ed0966cb3d4018d625aa1802120886a0f0a873d3c6e6", "566d48c7b2a73ef85f90823a44d28de0" } },
};

const tensor_spec LARGE[LARGE_COUNT] = {
    { "one", COFFER_F32, 1, { 1500000 } }, { "two", COFFER_U8, 1, { 3000001 } }, { "three", COFFER_I64, 1, { 250000 } },
    { "four", COFFER_BF16, 1, { 12345 } }, { "five", COFFER_BOOL, 1, { 0 } },    { "six", COFFER_F64, 1, { 777 } },
};

coffer_header *vector_header(void)
{
    coffer_header *header = new_header();
    add_tensor(header, "a", COFFER_F32, 2, 2, 3);
    add_tensor(header, "scalar", COFFER_U8, 0, 0, 0);
    add_tensor(header, "empty", COFFER_BF16, 2, 0, 4);
    add_tensor(header, "\xC3\xA9", COFFER_I16, 1, 2, 0);
    set_metadata(header, "made by", "test");
    return header;
}

void write_vectors(const char *name, const coffer_writer_options *options)
{
    coffer_header *header = vector_header();
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), options, NULL), COFFER_OK);
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        assert_int_equal(coffer_writer_write(writer, i, 0, VECTORS[i].bytes, VECTORS[i].size, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

void write_recorded(const char *name, coffer_algorithm algorithm)
{
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = algorithm;
    options.slack = 200;
    write_vectors(name, &options);
}

coffer *open_with(const char *name, const coffer_open_options *options)
{
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, work_path(name), options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

coffer_status verify_file(const char *name, coffer_error *err)
{
    coffer *model = NULL;
    coffer_status status = coffer_open(&model, work_path(name), NULL, err);
    if (status == COFFER_OK) {
        status = coffer_verify(model, NULL, coffer_count(model), NULL, NULL, err);
    }
    coffer_close(model);
    return status;
}

void assert_verifies(const char *name)
{
    coffer_error err;
    if (verify_file(name, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
}

coffer_status set_key(const char *name, const char *key, const char *value, coffer_error *err)
{
    const coffer_edit edit = { key, strlen(key), value, value == NULL ? 0 : strlen(value) };
    return coffer_edit_metadata(work_path(name), &edit, 1, NULL, NULL, err);
}

int tell(void *ctx, uint64_t done, uint64_t total)
{
    telling *reported = ctx;
    assert_true(done >= reported->last);
    assert_true(done <= total);
    reported->last = done;
    reported->total = total;
    return ++reported->calls == reported->stop_at;
}
