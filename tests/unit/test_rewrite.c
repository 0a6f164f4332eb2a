/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting models: what a plan says, what comes of it, and what is there when something goes wrong. The new files are compared
 * with those that an ordinary writer makes of the same tensors; every request for memory fails once, every call of the system
 * fails once: the old model or the new one has to be there, whole. test_rewrite_crash.c kills a process before each.
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include "support_cmocka.h"

#include "coffer.h"
#include "faulty_calls.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_COUNT 300001 /* elements: more than one piece of a cast */

static const coffer_rewrite_rule to_half = { .kind = COFFER_REWRITE_CAST, .dtype = COFFER_F16, .pattern = "w.*" };

/* ---- what is rewritten ---------------------------------------------------------------------------------------------- */

static const float tiny = 1e-9F; /* a variable, since some machines compute with constants of more digits */

static float long_value(size_t i)
{
    static const float odd[] = { 1e6F, -1e6F, 1e-9F, 0.1F, -0.0F, 65504.0F, INFINITY };
    return i % 1000 < sizeof odd / sizeof odd[0] ? odd[i % 1000] : (float)i / 7;
}

static coffer_header *declare(bool rewritten)
{
    coffer_header *header = new_header();
    set_metadata(header, "format", "pt");
    add_tensor(header, rewritten ? "layers.0" : "w.0", rewritten ? COFFER_F16 : COFFER_F32, 1, LONG_COUNT, 0);
    add_tensor(header, rewritten ? "layers.1" : "w.1", rewritten ? COFFER_F16 : COFFER_F32, 0, 0, 0);
    add_tensor(header, "ids", COFFER_I64, 2, 3, 2);
    if (!rewritten) {
        add_tensor(header, "optimizer.m", COFFER_U8, 1, 5, 0);
    }
    return header;
}

static void write_values(coffer_writer *writer, coffer_dtype dtype)
{
    static const unsigned char ids[48] = { 1, 2, 3 };
    double *values = calloc(LONG_COUNT, sizeof *values);
    unsigned char *bytes = calloc(LONG_COUNT, sizeof *bytes * 4);
    assert_true(values != NULL && bytes != NULL);
    for (size_t i = 0; i < LONG_COUNT; i++) {
        values[i] = (double)long_value(i);
    }
    const size_t size = coffer_dtype_bits(dtype) / 8;
    assert_int_equal(coffer_encode(dtype, values, LONG_COUNT, bytes), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, bytes, LONG_COUNT * size, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 1, 0, bytes, size, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 2, 0, ids, sizeof ids, NULL), COFFER_OK);
    free(bytes);
    free(values);
}

/* Writes the file before, or what it has to be rewritten to. */
static void write_model(const char *name, bool rewritten)
{
    coffer_header *header = declare(rewritten);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    write_values(writer, rewritten ? COFFER_F16 : COFFER_F32);
    if (!rewritten) {
        assert_int_equal(coffer_writer_write(writer, 3, 0, "12345", 5, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static const coffer_rewrite_rule all_rules[] = {
    { COFFER_REWRITE_CAST, COFFER_F16, "w.*", NULL },
    { COFFER_REWRITE_DROP, COFFER_UNKNOWN_DTYPE, "optimizer.*", NULL },
    { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.*", "layers.*" },
};

static coffer_rewrite_options with_rules(const coffer_rewrite_rule *rules, size_t count, const char *output)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = count;
    options.output = output;
    return options;
}

static coffer *open_model(const char *name)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer_error err;
    options.verify = COFFER_VERIFY_RECORDED;
    options.access = COFFER_READ;
    if (coffer_open(&model, work_path(name), &options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

static const coffer_tensor *find(const coffer *model, const char *name)
{
    return coffer_table_find(coffer_shard_table(model, 0), name, strlen(name));
}

/* Plans and runs; the status, and *err, of what fails. */
static coffer_status rewrite_model(const char *name, const coffer_rewrite_options *options, coffer_error *err)
{
    coffer *model = open_model(name);
    coffer_rewrite *rewrite = NULL;
    coffer_status status = coffer_rewrite_plan(&rewrite, model, options, err);
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, NULL, err);
    } else {
        assert_null(rewrite);
    }
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    return status;
}

static void assert_rewritten(const char *name, const coffer_rewrite_options *options)
{
    coffer_error err;
    if (rewrite_model(name, options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
}

static void assert_same_files(const char *a, const char *b)
{
    size_t sizes[2];
    uint8_t *files[] = { file_read(a, &sizes[0]), file_read(b, &sizes[1]) };
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(files[0], files[1], sizes[0]);
    free(files[0]);
    free(files[1]);
}

/* ---- one file --------------------------------------------------------------------------------------------------------- */

static void test_a_plan_says_what_would_be(void **state)
{
    (void)state;
    write_model("model", false);
    coffer *model = open_model("model");
    coffer_rewrite *rewrite = NULL;
    const coffer_rewrite_options options = with_rules(all_rules, 3, work_path("new"));
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(rewrite);
    assert_int_equal(summary->way, COFFER_REWRITE_FILES);
    assert_int_equal(summary->tensor_count, 3);
    assert_int_equal(summary->file_count, 1);
    assert_int_equal(summary->copied, 48);
    assert_int_equal(summary->cast, (LONG_COUNT + 1) * 2);
    assert_int_equal(summary->size_before, coffer_shard_size(model, 0));
    size_t left_out = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_rewrite_change *change = coffer_rewrite_at(rewrite, i);
        assert_ptr_equal(change->from, coffer_at(model, i));
        left_out += change->to == NULL;
        if (change->from->name[0] == 'w') {
            assert_int_equal(change->to->dtype, COFFER_F16);
            assert_memory_equal(change->to->name, "layers.", 7);
            assert_int_equal(change->to->name[7], change->from->name[2]);
        }
    }
    assert_int_equal(left_out, 1);
    assert_null(coffer_rewrite_at(rewrite, coffer_count(model)));
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_ERR_ARGUMENT);
    struct stat about;
    assert_int_equal(stat(work_path("new"), &about), 0);
    assert_int_equal(about.st_size, summary->size);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
}

static void test_the_new_file_is_what_a_writer_writes(void **state)
{
    (void)state;
    write_model("model", false);
    write_model("expected", true);
    const coffer_rewrite_options aside = with_rules(all_rules, 3, work_path("new"));
    assert_rewritten("model", &aside);
    assert_same_files("new", "expected");
    const coffer_rewrite_options in_place = with_rules(all_rules, 3, NULL);
    assert_rewritten("model", &in_place);
    assert_same_files("model", "expected");
    assert_int_equal(work_dir_count(), 3);
}

static void test_keeping_is_dropping_the_rest(void **state)
{
    (void)state;
    const coffer_rewrite_rule keep[] = { { .kind = COFFER_REWRITE_KEEP, .pattern = "w.1" },
                                         { .kind = COFFER_REWRITE_KEEP, .pattern = "i?s" } };
    const coffer_rewrite_rule drop[] = { { .kind = COFFER_REWRITE_DROP, .pattern = "w.0" },
                                         { .kind = COFFER_REWRITE_DROP, .pattern = "opt*" } };
    write_model("model", false);
    const coffer_rewrite_options kept = with_rules(keep, 2, work_path("kept"));
    const coffer_rewrite_options dropped = with_rules(drop, 2, work_path("dropped"));
    assert_rewritten("model", &kept);
    assert_rewritten("model", &dropped);
    assert_same_files("kept", "dropped");
}

static void test_what_casts_lose_is_counted(void **state)
{
    (void)state;
    uint64_t overflowed = 0;
    uint64_t vanished = 0;
    for (size_t i = 0; i < LONG_COUNT; i++) {
        overflowed += isfinite(long_value(i)) && fabsf(long_value(i)) >= 65520.0F;
        vanished += long_value(i) == tiny;
    }
    write_model("model", false);
    coffer *model = open_model("model");
    coffer_read_options read = COFFER_READ_OPTIONS_INIT;
    for (read.threads = 1; read.threads < 5; read.threads += 3) {
        coffer_rewrite *rewrite = NULL;
        const coffer_rewrite_options options = with_rules(&to_half, 1, work_path(read.threads == 1 ? "one" : "four"));
        assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
        assert_int_equal(coffer_rewrite_run(rewrite, &read, NULL), COFFER_OK);
        for (size_t i = 0; i < coffer_count(model); i++) {
            const coffer_rewrite_change *change = coffer_rewrite_at(rewrite, i);
            if (coffer_tensor_elements(change->from) == LONG_COUNT) {
                assert_int_equal(change->overflowed, overflowed);
                assert_int_equal(change->vanished, vanished);
            }
        }
        coffer_rewrite_free(rewrite);
    }
    coffer_close(model);
    assert_same_files("one", "four");
}

static void test_digests_are_recorded_again(void **state)
{
    (void)state;
    write_model("model", false);
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    const coffer_rewrite_options options = with_rules(all_rules, 3, NULL);
    assert_rewritten("model", &options);
    coffer *model = open_model("model");
    assert_int_equal(coffer_recorded_algorithm(model, 0), COFFER_XXH3_128);
    assert_int_equal(coffer_verify(model, NULL, coffer_count(model), NULL, NULL, NULL), COFFER_OK);
    coffer_close(model);
}

static void test_metadata_alone_are_edited(void **state)
{
    (void)state;
    const coffer_edit edits[] = { { "license", 7, "mit", 3 }, { "format", 6, NULL, 0 } };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    coffer_rewrite *rewrite = NULL;
    write_model("model", false);
    options.edits = edits;
    options.edit_count = 2;
    coffer *model = open_model("model");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_summarize(rewrite)->way, COFFER_REWRITE_HEADERS);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    model = open_model("model");
    const coffer_table *table = coffer_shard_table(model, 0);
    size_t len = 0;
    assert_int_equal(coffer_table_metadata_count(table), 1);
    assert_string_equal(coffer_table_metadata_get(table, "license", 7, &len), "mit");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_summarize(rewrite)->way, COFFER_REWRITE_NOTHING);
    coffer_rewrite_free(rewrite);
    /* With tensors that change, the same edits go into the new header. */
    options.rules = &to_half;
    options.rule_count = 1;
    options.output = work_path("new");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    model = open_model("new");
    assert_int_equal(coffer_table_metadata_count(coffer_shard_table(model, 0)), 1);
    coffer_close(model);
}

static void test_alignment_and_format(void **state)
{
    (void)state;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    write_model("model", false);
    options.alignment = 4096;
    options.output = work_path("aligned");
    assert_rewritten("model", &options);
    coffer *model = open_model("aligned");
    assert_int_equal(coffer_table_data_offset(coffer_shard_table(model, 0)) % 4096, 0);
    coffer_close(model);
    /* It is kept by whoever does not ask for another one, but not by another format. */
    options.alignment = 0;
    options.output = work_path("again");
    assert_rewritten("aligned", &options);
    assert_same_files("again", "aligned");
    options.format = COFFER_FORMAT_BINTENSORS;
    options.output = work_path("there.bt");
    assert_rewritten("aligned", &options);
    options.format = COFFER_FORMAT_SAFETENSORS;
    options.output = work_path("back");
    assert_rewritten("there.bt", &options);
    assert_same_files("back", "model");
}

/* ---- refusals --------------------------------------------------------------------------------------------------------- */

static void assert_refused(const coffer_rewrite_rule *rules, size_t count, coffer_status expected, const char *message)
{
    coffer_error err;
    const coffer_rewrite_options options = with_rules(rules, count, work_path("new"));
    assert_int_equal(rewrite_model("model", &options, &err), expected);
    if (strstr(err.message, message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, message);
    }
    assert_int_equal(work_dir_count(), 1);
}

static void test_rules_that_cannot_be(void **state)
{
    (void)state;
    const coffer_rewrite_rule none = { .kind = COFFER_REWRITE_DROP, .pattern = "nosuch*" };
    const coffer_rewrite_rule one_name = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.*", "w" };
    const coffer_rewrite_rule taken = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.0", "ids" };
    const coffer_rewrite_rule integers = { COFFER_REWRITE_CAST, COFFER_F32, "ids", NULL };
    const coffer_rewrite_rule to_integers = { COFFER_REWRITE_CAST, COFFER_I8, "w.0", NULL };
    const coffer_rewrite_rule stars = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.0", "*" };
    const coffer_rewrite_rule many = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "*****************", "x" };
    const coffer_rewrite_rule unnamed = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.0", NULL };
    const coffer_rewrite_rule reserved = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.0", "__metadata__" };
    const coffer_rewrite_rule strange = { .kind = (coffer_rewrite_kind)10, .pattern = "*" };
    const coffer_rewrite_rule blank = { .kind = COFFER_REWRITE_DROP };
    write_model("model", false);
    assert_refused(&none, 1, COFFER_ERR_NO_TENSOR, "\"nosuch*\"");
    assert_refused(&one_name, 1, COFFER_ERR_DUPLICATE_NAME, "\"w.0\" and \"w.1\" would both be named \"w\"");
    assert_refused(&taken, 1, COFFER_ERR_DUPLICATE_NAME, "would both be named \"ids\"");
    assert_refused(&integers, 1, COFFER_ERR_DTYPE, "tensor \"ids\" is I64");
    assert_refused(&to_integers, 1, COFFER_ERR_ARGUMENT, "F64, F8_E4M3 or F8_E5M2");
    assert_refused(&stars, 1, COFFER_ERR_ARGUMENT, "more stars than the pattern");
    assert_refused(&many, 1, COFFER_ERR_ARGUMENT, "more than 16 stars");
    assert_refused(&unnamed, 1, COFFER_ERR_ARGUMENT, "needs a name");
    assert_refused(&reserved, 1, COFFER_ERR_NAME, "__metadata__");
    assert_refused(&strange, 1, COFFER_ERR_ARGUMENT, "kind");
    assert_refused(&blank, 1, COFFER_ERR_ARGUMENT, "pattern");
    assert_refused(NULL, 1, COFFER_ERR_ARGUMENT, "NULL");
}

static void test_two_renames_exchange_names(void **state)
{
    (void)state;
    const coffer_rewrite_rule there[] = { { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.0", "w.1" },
                                          { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w.1", "w.0" } };
    const coffer_rewrite_rule literal[] = { { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "w[.*]0", "\\*" },
                                            { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "*.*1", "*-*" } };
    write_model("model", false);
    const coffer_rewrite_options options = with_rules(there, 2, NULL);
    assert_rewritten("model", &options);
    coffer *model = open_model("model");
    assert_int_equal(coffer_tensor_elements(find(model, "w.1")), LONG_COUNT);
    coffer_close(model);
    assert_rewritten("model", &options);
    write_model("expected", false);
    assert_same_files("model", "expected");
    const coffer_rewrite_options marks = with_rules(literal, 2, NULL);
    assert_rewritten("model", &marks);
    model = open_model("model");
    assert_non_null(find(model, "*"));
    assert_non_null(find(model, "w-"));
    coffer_close(model);
}

static void test_options_that_cannot_be(void **state)
{
    (void)state;
    coffer_error err;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    write_model("model", false);
    options.alignment = 12;
    assert_int_equal(rewrite_model("model", &options, &err), COFFER_ERR_ARGUMENT);
    options.alignment = 0;
    options.sync = (coffer_sync)7;
    assert_int_equal(rewrite_model("model", &options, &err), COFFER_ERR_ARGUMENT);
    options.sync = COFFER_SYNC_REPLACE;
    options.output = "";
    assert_int_equal(rewrite_model("model", &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_rewrite_plan(NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_rewrite_run(NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_rewrite_free(NULL);
}

static void test_what_has_no_place_needs_an_output(void **state)
{
    (void)state;
    size_t size = 0;
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = with_rules(&to_half, 1, NULL);
    write_model("model", false);
    uint8_t *bytes = file_read("model", &size);
    assert_int_equal(coffer_open_memory(&model, bytes, size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_ERR_UNSUPPORTED);
    options.output = work_path("new");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    free(bytes);
}

/* ---- others ----------------------------------------------------------------------------------------------------------- */

static void test_links_and_locks(void **state)
{
    (void)state;
    coffer_error err;
    coffer_rewrite_options options = with_rules(&to_half, 1, NULL);
    write_model("model", false);
    assert_int_equal(symlink("model", work_path("link")), 0);
    assert_int_equal(rewrite_model("link", &options, &err), COFFER_ERR_LINKED);
    options.follow_links = true;
    assert_rewritten("link", &options);
    struct stat about;
    assert_true(lstat(work_path("link"), &about) == 0 && S_ISLNK(about.st_mode));
    options.follow_links = false;
    assert_int_equal(link(work_path("model"), work_path("second")), 0);
    assert_int_equal(rewrite_model("model", &options, &err), COFFER_ERR_LINKED);
    assert_int_equal(unlink(work_path("second")), 0);
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(rewrite_model("model", &options, &err), COFFER_ERR_LOCKED);
    close(fd);
}

/* Between plan and run somebody saves another model. */
static void assert_change_is_noticed(const char *name, const char *saved_over)
{
    coffer_error err;
    coffer_rewrite *rewrite = NULL;
    const coffer_rewrite_rule rule = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "*", "new.*" };
    const coffer_rewrite_options options = with_rules(&rule, 1, NULL);
    coffer *model = open_model(name);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_OK);
    size_t size = 0;
    uint8_t *bytes = file_read(saved_over, &size);
    assert_int_equal(unlink(work_path(saved_over)), 0);
    file_write(saved_over, bytes, size);
    free(bytes);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, &err), COFFER_ERR_CHANGED);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
}

static void test_what_somebody_saved_meanwhile_stays(void **state)
{
    (void)state;
    write_model("model", false);
    assert_change_is_noticed("model", "model");
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(model_save(4, 1, 90, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(unlink(work_path("model")), 0);
    snapshot before = snapshot_take();
    assert_change_is_noticed("model.safetensors.index.json", "model-00002-of-00002.safetensors");
    assert_true(snapshot_is_there(&before));
    assert_int_equal(work_dir_count(), before.count);
    snapshot_free(&before);
}

/* ---- several files ------------------------------------------------------------------------------------------------------ */

#define INDEX "model.safetensors.index.json"
#define SEED 7
#define TENSORS 6 /* of 40 to 45 bytes: three files of two each */

static void save_sharded(coffer_algorithm digests)
{
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    files.digests = digests;
    options.files = &files;
    assert_int_equal(model_save(TENSORS, SEED, 90, &options, coffer_libc_allocator(), NULL), COFFER_OK);
}

static void test_several_files_stay_several(void **state)
{
    (void)state;
    const coffer_rewrite_rule rules[] = { { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "a.b.t*" },
                                          { .kind = COFFER_REWRITE_DROP, .pattern = "t5" } };
    save_sharded(COFFER_SHA256);
    const coffer_rewrite_options options = with_rules(rules, 2, NULL);
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS - 1, 3, SEED);
    assert_int_equal(work_dir_count(), 4);
    coffer *model = open_model(INDEX);
    assert_int_equal(coffer_recorded_content(model), COFFER_SHA256);
    assert_int_equal(coffer_verify(model, NULL, coffer_count(model), NULL, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_memory_equal(coffer_at(model, i)->name, "a.b.t", 5);
        assert_int_equal(coffer_at(model, i)->shard, i / 2);
    }
    coffer_close(model);
}

static void test_a_file_without_tensors_goes(void **state)
{
    (void)state;
    const coffer_rewrite_rule rule = { .kind = COFFER_REWRITE_DROP, .pattern = "t[23]" };
    save_sharded(COFFER_NO_ALGORITHM);
    const coffer_rewrite_options options = with_rules(&rule, 1, NULL);
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS - 2, 2, SEED);
    assert_int_equal(work_dir_count(), 3);
    assert_int_equal(access(work_path("model-00002-of-00002.safetensors"), F_OK), 0);
}

static void test_files_are_put_together_and_apart(void **state)
{
    (void)state;
    coffer_error err;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    save_sharded(COFFER_SHA256);
    options.max_shard_size = 50;
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS, 6, SEED);
    options.max_shard_size = UINT64_MAX;
    options.output = work_path("one.safetensors");
    assert_rewritten(INDEX, &options);
    model_assert_whole("one.safetensors", TENSORS, 1, SEED);
    options.output = NULL;
    assert_rewritten(INDEX, &options);
    model_assert_whole("model.safetensors", TENSORS, 1, SEED);
    assert_int_equal(work_dir_count(), 2);
    options.max_shard_size = 90;
    assert_rewritten("model.safetensors", &options);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
    /* An output that a file alone is in the way of is refused, unless it may go. */
    options.output = work_path("one.safetensors");
    assert_int_equal(rewrite_model(INDEX, &options, &err), COFFER_ERR_SHADOWED);
    options.force = true;
    assert_rewritten(INDEX, &options);
    model_assert_whole("one.safetensors.index.json", TENSORS, 3, SEED);
}

static void test_metadata_that_contradict_each_other(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_edit other = { "format", 6, "np", 2 };
    const coffer_rewrite_rule rule = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" };
    coffer_rewrite_options options = with_rules(&rule, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_edit_metadata(work_path("model-00002-of-00003.safetensors"), &other, 1, NULL, NULL, NULL),
                     COFFER_OK);
    assert_int_equal(rewrite_model(INDEX, &options, &err), COFFER_ERR_DUPLICATE_KEY);
    assert_non_null(strstr(err.path, "00002"));
    options.edits = &other;
    options.edit_count = 1;
    assert_rewritten(INDEX, &options);
    coffer *model = open_model(INDEX);
    for (size_t s = 0; s < 3; s++) {
        assert_string_equal(coffer_table_metadata_get(coffer_shard_table(model, s), "format", 6, NULL), "np");
    }
    coffer_close(model);
    /* Alone, they change in the headers. */
    const coffer_edit gone = { "format", 6, NULL, 0 };
    options = (coffer_rewrite_options)COFFER_REWRITE_OPTIONS_INIT;
    options.edits = &gone;
    options.edit_count = 1;
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
    model = open_model(INDEX);
    assert_int_equal(coffer_table_metadata_count(coffer_shard_table(model, 2)), 0);
    coffer_close(model);
}

static void test_several_files_that_are_links_stay(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_rewrite_options options =
        with_rules(&(const coffer_rewrite_rule){ COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" }, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    assert_int_equal(rename(work_path(INDEX), work_path("real.json")), 0);
    assert_int_equal(symlink("real.json", work_path(INDEX)), 0);
    assert_int_equal(rewrite_model(INDEX, &options, &err), COFFER_ERR_LINKED);
    assert_int_equal(unlink(work_path(INDEX)), 0);
    assert_int_equal(rename(work_path("real.json"), work_path("other.index.json")), 0);
    assert_int_equal(rewrite_model("other.index.json", &options, &err), COFFER_ERR_UNSUPPORTED);
}

/* ---- what has to stay --------------------------------------------------------------------------------------------------- */

#define FIRST "model-00001-of-00003.safetensors"
#define SECOND "model-00002-of-00003.safetensors"

static const coffer_rewrite_rule other_names = { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" };

/* Rewrites to an output (NULL: in place), which fails with that status and a path that ends so; nothing is changed. */
static void assert_stays(const char *name, const coffer_rewrite_options *options, const char *output,
                         coffer_status status, const char *path)
{
    coffer_error err = { .code = COFFER_OK };
    coffer_rewrite_options with_output = *options;
    snapshot before = snapshot_take();
    with_output.output = output != NULL ? work_path(output) : NULL;
    assert_int_equal(rewrite_model(name, &with_output, &err), status);
    assert_non_null(strstr(err.path, path));
    assert_true(snapshot_is_there(&before));
    assert_int_equal(work_dir_count(), before.count);
    snapshot_free(&before);
}

static void replace_in_file(const char *name, const char *old, const char *new)
{
    size_t size = 0;
    char text[4096];
    char *bytes = (char *)file_read(name, &size);
    const char *at = memmem(bytes, size, old, strlen(old));
    assert_non_null(at);
    const int rest = (int)(size - (size_t)(at - bytes) - strlen(old));
    const int len = snprintf(text, sizeof text, "%.*s%s%.*s", (int)(at - bytes), bytes, new, rest, at + strlen(old));
    assert_true(len < (int)sizeof text);
    file_write(name, text, (size_t)len);
    free(bytes);
}

static void test_an_output_is_never_an_input(void **state)
{
    (void)state;
    coffer_rewrite_options options = with_rules(&to_half, 1, NULL);
    write_model("model", false);
    assert_int_equal(symlink("model", work_path("link")), 0);
    assert_int_equal(link(work_path("model"), work_path("second")), 0);
    options.force = true;
    assert_stays("model", &options, "model", COFFER_ERR_ARGUMENT, "model");
    assert_stays("model", &options, "link", COFFER_ERR_ARGUMENT, "link");
    assert_stays("model", &options, "second", COFFER_ERR_ARGUMENT, "second");
}

static void test_an_output_of_several_is_never_an_input(void **state)
{
    (void)state;
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    options.force = true;
    save_sharded(COFFER_NO_ALGORITHM);
    assert_stays(INDEX, &options, "model.safetensors", COFFER_ERR_ARGUMENT, FIRST);
    options.max_shard_size = UINT64_MAX;
    assert_stays(INDEX, &options, SECOND, COFFER_ERR_ARGUMENT, SECOND);
    /* The index alone. */
    options.max_shard_size = 50;
    assert_stays(INDEX, &options, "model.safetensors", COFFER_ERR_ARGUMENT, INDEX);
    /* A model without an index has files of the same names all the same. */
    options.max_shard_size = 0;
    assert_int_equal(unlink(work_path(INDEX)), 0);
    assert_stays(".", &options, "model.safetensors", COFFER_ERR_ARGUMENT, FIRST);
    /* And when another model is replaced, the files of that one go. */
    char index[512];
    snprintf(index, sizeof index, "{\"weight_map\": {\"x\": \"%s\"}}", SECOND);
    file_write("other.safetensors.index.json", index, strlen(index));
    options.output = work_path("other.safetensors");
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_error err;
    assert_int_equal(rename(work_path("other.safetensors.index.json"), work_path("aside")), 0);
    assert_int_equal(coffer_open(&model, work_path("."), NULL, NULL), COFFER_OK);
    assert_int_equal(rename(work_path("aside"), work_path("other.safetensors.index.json")), 0);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.path, SECOND));
    coffer_close(model);
}

static void test_files_of_others_stay(void **state)
{
    (void)state;
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    file_write("model-00004-of-00006.safetensors", "mine", 4);
    options.max_shard_size = 50;
    assert_stays(INDEX, &options, NULL, COFFER_ERR_SHADOWED, "model-00004-of-00006.safetensors");
    options.max_shard_size = 0;
    file_write("model.safetensors", "mine, too", 9);
    assert_stays(INDEX, &options, NULL, COFFER_ERR_SHADOWED, "model.safetensors");
    options.force = true;
    options.max_shard_size = 50;
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS, 6, SEED);
}

/* A file that becomes several in its place would replace an index beside it, and remove what that names. */
static void test_an_index_of_others_stays(void **state)
{
    (void)state;
    static const char index[] = "{\"weight_map\": {\"x\": \"other.safetensors\"}}";
    coffer_rewrite_options options = with_rules(NULL, 0, NULL);
    options.max_shard_size = 90;
    assert_int_equal(model_save(TENSORS, 7, UINT64_MAX, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    file_write("other.safetensors", "mine", 4);
    file_write(INDEX, index, sizeof index - 1);
    assert_stays("model.safetensors", &options, NULL, COFFER_ERR_SHADOWED, INDEX);
    options.force = true;
    assert_rewritten("model.safetensors", &options);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
}

static void test_files_that_are_not_open_stay(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    const char *const patterns[] = { "t0" };
    coffer_open_options chosen = COFFER_OPEN_OPTIONS_INIT;
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    chosen.select = patterns;
    chosen.select_count = 1;
    save_sharded(COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_open(&model, work_path(INDEX), &chosen, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "1 of the 3 files"));
    options.output = work_path("part.safetensors");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, &err), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    model_assert_whole("part.safetensors", 2, 1, SEED);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
}

static void assert_index_says(const char *name, const char *expected)
{
    size_t len = 0;
    coffer *model = open_model(name);
    const char *text = coffer_index_metadata(model, &len);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(text, expected, len);
    coffer_close(model);
}

static void test_what_an_index_says_stays(void **state)
{
    (void)state;
    const coffer_edit edits[] = { { "made\"by", 7, NULL, 0 }, { "n", 1, "two", 3 } };
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    replace_in_file(INDEX, "\"total_size\": 255",
                    "\"author\" :  {\"name\": [1, null]}, \"total_size\": 255.0, \"made\\u0022by\": \"me\", \"n\": 1e2,"
                    " \"coffer.content_digest\": null");
    assert_rewritten(INDEX, &options);
    assert_index_says(INDEX, "{\n    \"total_size\": 255,\n    \"author\" :  {\"name\": [1, null]},\n    "
                             "\"made\\u0022by\": \"me\",\n    \"n\": 1e2\n  }");
    options = with_rules(NULL, 0, work_path("again.safetensors"));
    options.edits = edits;
    options.edit_count = 2;
    assert_rewritten(INDEX, &options);
    assert_index_says("again.safetensors.index.json",
                      "{\n    \"total_size\": 255,\n    \"author\" :  {\"name\": [1, null]},\n    "
                      "\"n\": \"two\"\n  }");
}

/* Files keep the names that they have, even one alone, but not when their number changes. */
static void test_files_keep_their_names(void **state)
{
    (void)state;
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    save_sharded(COFFER_XXH3_128);
    for (size_t i = 0; i < 2; i++) {
        replace_in_file(INDEX, FIRST, "text encoder.safetensors");
        replace_in_file(INDEX, SECOND, "vision.safetensors");
    }
    assert_int_equal(rename(work_path(FIRST), work_path("text encoder.safetensors")), 0);
    assert_int_equal(rename(work_path(SECOND), work_path("vision.safetensors")), 0);
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
    assert_int_equal(access(work_path("text encoder.safetensors"), F_OK), 0);
    assert_int_equal(access(work_path("vision.safetensors"), F_OK), 0);
    assert_int_equal(work_dir_count(), 4);
    const coffer_rewrite_rule keep = { .kind = COFFER_REWRITE_KEEP, .pattern = "u[0-3]" };
    options = with_rules(&keep, 1, NULL);
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, 4, 2, SEED);
    assert_int_equal(access(work_path("model-00001-of-00002.safetensors"), F_OK), 0);
    assert_int_equal(work_dir_count(), 3);
}

static void test_the_only_file_of_an_index_keeps_it(void **state)
{
    (void)state;
    static const char index[] = "{\"metadata\": {\"a\": 1}, \"weight_map\": {\"t0\": \"only.safetensors\"}}";
    const coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    assert_int_equal(model_save(1, 7, 90, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(rename(work_path("model.safetensors"), work_path("only.safetensors")), 0);
    file_write(INDEX, index, sizeof index - 1);
    assert_rewritten(INDEX, &options);
    model_assert_whole(INDEX, 1, 1, SEED);
    assert_index_says(INDEX, "{\n    \"total_size\": 40,\n    \"a\": 1\n  }");
    assert_int_equal(access(work_path("only.safetensors"), F_OK), 0);
    assert_int_equal(work_dir_count(), 2);
}

static void test_several_files_with_second_names_stay(void **state)
{
    (void)state;
    coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    assert_int_equal(link(work_path(SECOND), work_path("backup")), 0);
    assert_stays(INDEX, &options, NULL, COFFER_ERR_LINKED, SECOND);
    options.follow_links = true;
    assert_rewritten(INDEX, &options);
    model_assert_whole("backup", 2, 1, SEED);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
}

/* An index that was changed since the plan is not overwritten. */
static void test_an_index_that_somebody_changed_stays(void **state)
{
    (void)state;
    coffer_error err;
    coffer_rewrite *rewrite = NULL;
    const coffer_rewrite_options options = with_rules(&other_names, 1, NULL);
    save_sharded(COFFER_NO_ALGORITHM);
    coffer *model = open_model(INDEX);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_OK);
    replace_in_file(INDEX, "\"total_size\"", "\"note\": 1, \"total_size\"");
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, &err), COFFER_ERR_CHANGED);
    assert_non_null(strstr(err.path, INDEX));
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    assert_index_says(INDEX, "{\n    \"note\": 1, \"total_size\": 255\n  }");
}

static const coffer_edit license = { "license", 7, "mit", 3 };

static coffer_rewrite_options with_license(void)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.edits = &license;
    options.edit_count = 1;
    return options;
}

/* Metadata of several files change together, so one file that somebody edits keeps all of them from it. */
static void test_no_file_is_edited_without_the_others(void **state)
{
    (void)state;
    const coffer_rewrite_options options = with_license();
    save_sharded(COFFER_NO_ALGORITHM);
    const int fd = open(work_path(SECOND), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_stays(INDEX, &options, NULL, COFFER_ERR_LOCKED, SECOND);
    close(fd);
    assert_rewritten(INDEX, &options);
}

static void assert_licensed(void)
{
    model_assert_whole(INDEX, TENSORS, 3, SEED);
    coffer *model = open_model(INDEX);
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        assert_string_equal(coffer_table_metadata_get(coffer_shard_table(model, i), "license", 7, NULL), "mit");
    }
    coffer_close(model);
}

/* What an index says is of its tensors, so it stays to the byte, with digests and what nobody knows; also where the model was
   opened by a selection of all files. */
static void test_edits_leave_the_index_as_it_is(void **state)
{
    (void)state;
    static const char *const all[] = { "t*" };
    coffer_open_options chosen = COFFER_OPEN_OPTIONS_INIT;
    coffer_rewrite *rewrite = NULL;
    coffer *model = NULL;
    size_t sizes[2];
    const coffer_rewrite_options options = with_license();
    chosen.select = all;
    chosen.select_count = 1;
    save_sharded(COFFER_SHA256);
    replace_in_file(INDEX, "\"weight_map\"", "\"odd\" : [1e3, null],  \"weight_map\"");
    uint8_t *before = file_read(INDEX, &sizes[0]);
    assert_int_equal(coffer_open(&model, work_path(INDEX), &chosen, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_summarize(rewrite)->way, COFFER_REWRITE_HEADERS);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    uint8_t *after = file_read(INDEX, &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(before, after, sizes[0]);
    free(before);
    free(after);
    assert_licensed();
    assert_int_equal(work_dir_count(), 4);
    model = open_model(INDEX);
    assert_int_equal(coffer_recorded_content(model), COFFER_SHA256);
    assert_int_equal(coffer_verify(model, NULL, coffer_count(model), NULL, NULL, NULL), COFFER_OK);
    coffer_close(model);
}

/* Files that only their names make one model are replaced together as well, and get an index. */
static void test_a_set_without_an_index_gets_one(void **state)
{
    (void)state;
    coffer_error err;
    coffer_rewrite *rewrite = NULL;
    const coffer_rewrite_rule rule = { .kind = COFFER_REWRITE_DROP, .pattern = "u[23]" };
    coffer_rewrite_options options = with_license();
    save_sharded(COFFER_NO_ALGORITHM);
    assert_int_equal(unlink(work_path(INDEX)), 0);
    assert_rewritten("", &options);
    assert_licensed();
    assert_int_equal(unlink(work_path(INDEX)), 0);
    options = with_rules(&other_names, 1, NULL);
    assert_rewritten("", &options);
    assert_licensed();
    assert_int_equal(work_dir_count(), 4);
    /* Files that nobody would remove, and an index that somebody made meanwhile. */
    assert_int_equal(unlink(work_path(INDEX)), 0);
    options = with_rules(&rule, 1, NULL);
    assert_stays("", &options, NULL, COFFER_ERR_UNSUPPORTED, "");
    coffer *model = open_model("");
    options = with_rules(NULL, 0, NULL);
    options.digests = COFFER_SHA256;
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, &err), COFFER_OK);
    file_write(INDEX, "{}", 2);
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, &err), COFFER_ERR_CHANGED);
    assert_non_null(strstr(err.path, INDEX));
    coffer_rewrite_free(rewrite);
    coffer_close(model);
}

/* ---- what goes wrong ---------------------------------------------------------------------------------------------------- */

typedef struct reported {
    uint64_t stop_at;
    uint64_t done;
    uint64_t total;
} reported;

static int tell(void *ctx, uint64_t done, uint64_t total)
{
    reported *t = ctx;
    assert_true(done >= t->done && done <= total);
    t->done = done;
    t->total = total;
    return t->stop_at != 0 && done >= t->stop_at;
}

static void test_progress_and_cancelling(void **state)
{
    (void)state;
    coffer_rewrite *rewrite = NULL;
    const coffer_rewrite_options options = with_rules(all_rules, 3, NULL);
    coffer_read_options read = COFFER_READ_OPTIONS_INIT;
    reported seen = { .stop_at = 100 };
    write_model("model", false);
    snapshot before = snapshot_take();
    read.progress = tell;
    read.progress_ctx = &seen;
    coffer *model = open_model("model");
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, &read, NULL), COFFER_ERR_CANCELLED);
    coffer_rewrite_free(rewrite);
    assert_true(snapshot_is_there(&before));
    assert_int_equal(work_dir_count(), 1);
    seen = (reported){ .stop_at = 0 };
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_rewrite_run(rewrite, &read, NULL), COFFER_OK);
    assert_int_equal(seen.done, (LONG_COUNT + 1) * 2 + 48);
    assert_int_equal(seen.total, seen.done);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    snapshot_free(&before);
}

/* Rewrites with an allocator that fails at its k-th request, until none fails; the reading of pieces needs the model's. */
static void fail_every_request(const char *name, const coffer_rewrite_rule *rules, size_t count)
{
    coffer_status status = COFFER_ERR_MEMORY;
    snapshot before = snapshot_take();
    for (size_t k = 1; status != COFFER_OK; k++) {
        memory_meter meter = { .fail_at = k };
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_rewrite_options options = with_rules(rules, count, NULL);
        coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
        coffer_rewrite *rewrite = NULL;
        coffer *model = open_model(name);
        alone.threads = 1;
        options.allocator = &allocator;
        status = coffer_rewrite_plan(&rewrite, model, &options, NULL);
        if (status == COFFER_OK) {
            status = coffer_rewrite_run(rewrite, &alone, NULL);
        }
        coffer_rewrite_free(rewrite);
        coffer_close(model);
        assert_int_equal(meter.blocks, 0);
        if (status != COFFER_OK) {
            assert_int_equal(status, COFFER_ERR_MEMORY);
            assert_true(snapshot_is_there(&before));
            assert_int_equal(work_dir_count(), before.count);
        }
        assert_true(k < 1000);
    }
    snapshot_free(&before);
}

static const coffer_rewrite_rule sharded_rules[] = {
    { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" },
    { .kind = COFFER_REWRITE_DROP, .pattern = "t0" },
};

static void test_without_memory_nothing_happens(void **state)
{
    (void)state;
    write_model("model", false);
    fail_every_request("model", all_rules, 3);
    assert_int_equal(unlink(work_path("model")), 0);
    save_sharded(COFFER_NO_ALGORITHM);
    fail_every_request(INDEX, sharded_rules, 2);
    model_assert_whole(INDEX, TENSORS - 1, 3, SEED);
}

/* After a call of the system failed, the old model or the new one is there. */
static void fail_every_call(const coffer_rewrite_options *options, void (*assert_new)(void))
{
    coffer_status status = COFFER_ERR_IO;
    save_sharded(COFFER_NO_ALGORITHM);
    snapshot before = snapshot_take();
    for (unsigned k = 1; status != COFFER_OK && k < 2000; k++) {
        coffer *model = open_model(INDEX);
        coffer_rewrite *rewrite = NULL;
        faults_clear();
        faults.error = EIO;
        faults.fail_at = k;
        faults.spare_clean_up = true;
        status = coffer_rewrite_plan(&rewrite, model, options, NULL);
        if (status == COFFER_OK) {
            status = coffer_rewrite_run(rewrite, NULL, NULL);
        }
        const bool came_to_it = faults.calls >= k;
        faults_clear();
        coffer_rewrite_free(rewrite);
        coffer_close(model);
        if (snapshot_is_there(&before) && work_dir_count() == before.count) {
            assert_true(status != COFFER_OK);
            continue;
        }
        if (status == COFFER_ERR_UNFINISHED) {
            assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, NULL), COFFER_OK);
        }
        assert_new();
        snapshot_restore(&before);
        status = came_to_it ? COFFER_ERR_IO : COFFER_OK;
    }
    assert_int_equal(status, COFFER_OK);
    snapshot_free(&before);
}

static void assert_one_is_dropped(void)
{
    model_assert_whole(INDEX, TENSORS - 1, 3, SEED);
}

static void test_calls_that_fail(void **state)
{
    (void)state;
    const coffer_rewrite_options options = with_rules(sharded_rules, 2, NULL);
    fail_every_call(&options, assert_one_is_dropped);
}

static void test_calls_that_fail_while_metadata_change(void **state)
{
    (void)state;
    const coffer_rewrite_options options = with_license();
    fail_every_call(&options, assert_licensed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_plan_says_what_would_be, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_the_new_file_is_what_a_writer_writes, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_keeping_is_dropping_the_rest, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_what_casts_lose_is_counted, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_digests_are_recorded_again, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_metadata_alone_are_edited, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_alignment_and_format, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_rules_that_cannot_be, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_two_renames_exchange_names, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_options_that_cannot_be, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_no_place_needs_an_output, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_links_and_locks, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_what_somebody_saved_meanwhile_stays, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_several_files_stay_several, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_without_tensors_goes, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_files_are_put_together_and_apart, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_metadata_that_contradict_each_other, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_several_files_that_are_links_stay, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_an_output_is_never_an_input, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_an_output_of_several_is_never_an_input, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_others_stay, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_an_index_of_others_stays, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_are_not_open_stay, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_what_an_index_says_stays, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_files_keep_their_names, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_the_only_file_of_an_index_keeps_it, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_several_files_with_second_names_stay, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_an_index_that_somebody_changed_stays, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_no_file_is_edited_without_the_others, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_edits_leave_the_index_as_it_is, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_a_set_without_an_index_gets_one, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_progress_and_cancelling, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_happens, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_fail, faults_set_up, faults_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_fail_while_metadata_change, faults_set_up, faults_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
