/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has of doctor's rules, which the command's tests try one by one: findings with what they rest on, advice as
 * words that need no shell, what was looked at and what was not, and that memory and a program's wish to stop are heeded.
 */
#include "support_cmocka.h"
#include "support_file.h"
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

static const char CONFIG[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 4, \"n_head\": 2}";

static void put_text(const char *name, const char *text)
{
    file_write(name, text, strlen(text));
}

/* A file of tensors, its header written by hand, so that it may have what a writer never writes. */
static void put_tensors(const char *name, const char *header, size_t data_size)
{
    uint8_t bytes[1024] = { 0 };
    const size_t len = strlen(header);
    assert_true(8 + len + data_size <= sizeof bytes);
    bytes[0] = (uint8_t)len;
    bytes[1] = (uint8_t)(len >> 8);
    memcpy(bytes + 8, header, len);
    file_write(name, bytes, 8 + len + data_size);
}

static void put_model(const char *name)
{
    put_tensors(name,
                "{\"__metadata__\":{\"format\":\"pt\"},\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[8,4],"
                "\"data_offsets\":[0,128]}}        ",
                128);
}

static coffer_diagnosis *doctor_of(const char *path, const coffer_doctor_options *options)
{
    coffer_error err;
    coffer_diagnosis *diagnosis = NULL;
    assert_int_equal(coffer_doctor(&diagnosis, path, options, &err), COFFER_OK);
    assert_non_null(diagnosis);
    return diagnosis;
}

/* The first finding of a kind; NULL without one. */
static const coffer_doctor_finding *find_kind(const coffer_diagnosis *diagnosis, const char *kind)
{
    const coffer_doctor_finding *finding = NULL;
    for (size_t i = 0; (finding = coffer_diagnosis_finding_at(diagnosis, i)) != NULL; i++) {
        if (strcmp(finding->kind, kind) == 0) {
            return finding;
        }
    }
    return NULL;
}

static uint64_t looked_at(const coffer_diagnosis *diagnosis, coffer_doctor_subject subject)
{
    return coffer_diagnosis_summarize(diagnosis)->looked_at[subject];
}

static uint64_t passed_over(const coffer_diagnosis *diagnosis, coffer_doctor_subject subject)
{
    return coffer_diagnosis_summarize(diagnosis)->passed_over[subject];
}

/* ---- A folder ---- */

static void test_findings(void **state)
{
    (void)state;
    const coffer_doctor_finding *finding = NULL;
    put_model("model.safetensors");
    put_text("config.json", CONFIG);
    put_text("notes.part", "half");
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), NULL);
    const coffer_doctor_summary *summary = coffer_diagnosis_summarize(diagnosis);
    finding = find_kind(diagnosis, "leftover");
    assert_non_null(finding);
    assert_int_equal(finding->severity, COFFER_SEVERITY_WARNING);
    assert_int_equal(finding->evidence, COFFER_EVIDENCE_NAMES);
    assert_string_equal(finding->file, "notes.part");
    assert_null(finding->tensor);
    assert_int_equal(finding->step_count, 0);
    assert_false(finding->fixes);
    assert_int_equal(summary->warnings, 1);
    assert_int_equal(summary->errors + summary->warnings + summary->notes, summary->finding_count);
    assert_false(summary->unreadable);
    coffer_severity last = COFFER_SEVERITY_ERROR;
    for (size_t i = 0; (finding = coffer_diagnosis_finding_at(diagnosis, i)) != NULL; i++) {
        assert_true(finding->severity <= last);
        last = finding->severity;
    }
    coffer_diagnosis_free(diagnosis);
}

static void test_models(void **state)
{
    (void)state;
    put_model("model.safetensors");
    put_text("config.json", CONFIG);
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), NULL);
    const coffer_doctor_model *model = coffer_diagnosis_model_at(diagnosis, 0);
    assert_non_null(model);
    assert_string_equal(model->name, "model.safetensors");
    assert_string_equal(model->type, "gpt2");
    assert_int_equal(model->tensor_count, 1);
    assert_int_equal(model->size, 128);
    assert_null(coffer_diagnosis_model_at(diagnosis, 1));
    coffer_diagnosis_free(diagnosis);
}

/* ---- What was looked at ---- */

static void test_scope(void **state)
{
    (void)state;
    const coffer_doctor_finding *finding = NULL;
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    put_model("model.safetensors");
    put_text("config.json", CONFIG);
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), &options);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_FOLDERS), 1);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_FILES), 2);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_MODELS), 1);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_CONFIGS), 1);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_NUMBERS), 0);
    assert_int_equal(passed_over(diagnosis, COFFER_DOCTOR_NUMBERS), 1);
    assert_null(find_kind(diagnosis, "zeros"));
    coffer_diagnosis_free(diagnosis);
    options.data = true;
    diagnosis = doctor_of(work_path(""), &options);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_NUMBERS), 1);
    assert_int_equal(passed_over(diagnosis, COFFER_DOCTOR_NUMBERS), 0);
    finding = find_kind(diagnosis, "zeros");
    assert_non_null(finding);
    assert_int_equal(finding->evidence, COFFER_EVIDENCE_DATA);
    assert_string_equal(finding->tensor, "wte.weight");
    coffer_diagnosis_free(diagnosis);
}

static void test_unknown_family(void **state)
{
    (void)state;
    const coffer_doctor_finding *finding = NULL;
    put_model("model.safetensors");
    put_text("config.json", "{\"model_type\": \"nobody\"}");
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), NULL);
    finding = find_kind(diagnosis, "unknown_family");
    assert_non_null(finding);
    assert_int_equal(looked_at(diagnosis, COFFER_DOCTOR_CONFIGS), 0);
    assert_int_equal(passed_over(diagnosis, COFFER_DOCTOR_CONFIGS), 1);
    coffer_diagnosis_free(diagnosis);
}

/* ---- Advice ---- */

/* Bytes after the tensors belong to none: they can be cut off, which is shown without reading a tensor. */
static void test_advice_is_words(void **state)
{
    (void)state;
    size_t size = 0;
    const coffer_doctor_finding *finding = NULL;
    put_model("model.safetensors");
    uint8_t *bytes = file_read("model.safetensors", &size);
    uint8_t *longer = realloc(bytes, size + 16);
    assert_non_null(longer);
    memset(longer + size, 0, 16);
    file_write("model.safetensors", longer, size + 16);
    free(longer);
    coffer_diagnosis *diagnosis = doctor_of(work_path("model.safetensors"), NULL);
    finding = find_kind(diagnosis, "broken_file");
    assert_non_null(finding);
    assert_int_equal(finding->severity, COFFER_SEVERITY_ERROR);
    assert_true(finding->fixes);
    assert_int_equal(finding->step_count, 1);
    assert_int_equal(finding->steps[0].action, COFFER_ADVICE_COFFER);
    assert_int_equal(finding->steps[0].count, 4);
    assert_string_equal(finding->steps[0].words[0], "coffer");
    assert_string_equal(finding->steps[0].words[1], "meta");
    assert_string_equal(finding->steps[0].words[2], "--fix");
    assert_string_equal(finding->steps[0].words[3], work_path("model.safetensors"));
    assert_null(finding->steps[0].words[4]);
    assert_int_equal(passed_over(diagnosis, COFFER_DOCTOR_MODELS), 1);
    coffer_diagnosis_free(diagnosis);
}

static void test_name_in_another_case(void **state)
{
    (void)state;
    const coffer_doctor_finding *finding = NULL;
    put_model("model.safetensors");
    put_text("Config.json", CONFIG);
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), NULL);
    finding = find_kind(diagnosis, "file_case");
    assert_non_null(finding);
    assert_int_equal(finding->steps[0].action, COFFER_ADVICE_RENAME);
    assert_string_equal(finding->steps[0].words[0], "mv");
    assert_string_equal(finding->steps[0].words[finding->steps[0].count - 1], work_path("config.json"));
    coffer_diagnosis_free(diagnosis);
}

/* ---- Against another model ---- */

static void test_against(void **state)
{
    (void)state;
    coffer_error err;
    coffer *other = NULL;
    const coffer_doctor_finding *finding = NULL;
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    put_model("model.safetensors");
    put_tensors("base.safetensors",
                "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]}}       ", 128);
    assert_int_equal(coffer_open(&other, work_path("base.safetensors"), NULL, &err), COFFER_OK);
    options.against = other;
    coffer_diagnosis *diagnosis = doctor_of(work_path("model.safetensors"), &options);
    finding = find_kind(diagnosis, "against_shape");
    assert_non_null(finding);
    assert_int_equal(finding->tensor_len, strlen("wte.weight"));
    coffer_diagnosis_free(diagnosis);
    coffer_close(other);
}

/* ---- Failing ---- */

static void test_what_is_no_path(void **state)
{
    (void)state;
    coffer_error err;
    coffer_diagnosis *diagnosis = NULL;
    assert_int_equal(coffer_doctor(&diagnosis, work_path("nothing.safetensors"), NULL, &err), COFFER_ERR_NOT_FOUND);
    assert_null(diagnosis);
    assert_int_equal(coffer_doctor(&diagnosis, "", NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_doctor_options unset = COFFER_DOCTOR_OPTIONS_INIT;
    unset.struct_size = 0;
    assert_int_equal(coffer_doctor(&diagnosis, work_path(""), &unset, &err), COFFER_ERR_ARGUMENT);
    coffer_diagnosis_free(NULL);
}

static void test_empty_folder(void **state)
{
    (void)state;
    const coffer_doctor_finding *finding = NULL;
    coffer_diagnosis *diagnosis = doctor_of(work_path(""), NULL);
    finding = find_kind(diagnosis, "no_model");
    assert_non_null(finding);
    assert_true(coffer_diagnosis_summarize(diagnosis)->unreadable);
    coffer_diagnosis_free(diagnosis);
}

static int stop_at(void *ctx, uint64_t done, uint64_t total)
{
    int *left = ctx;
    (void)done;
    (void)total;
    return (*left)-- <= 0;
}

static void test_stopping(void **state)
{
    (void)state;
    coffer_error err;
    coffer_diagnosis *diagnosis = NULL;
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    put_model("model.safetensors");
    put_text("config.json", CONFIG);
    options.data = true;
    options.progress = stop_at;
    for (int calls = 0; calls < 4; calls++) {
        int left = calls;
        options.progress_ctx = &left;
        assert_int_equal(coffer_doctor(&diagnosis, work_path(""), &options, &err), COFFER_ERR_CANCELLED);
        assert_null(diagnosis);
    }
}

/* Without memory for anything: never half a diagnosis, and nothing stays. */
static void test_memory(void **state)
{
    (void)state;
    memory_meter meter = { 0 };
    coffer_error err;
    coffer_diagnosis *diagnosis = NULL;
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    const coffer_allocator allocator = metered_allocator(&meter);
    options.allocator = &allocator;
    put_model("model.safetensors");
    put_text("config.json", CONFIG);
    put_text("notes.part", "half");
    assert_int_equal(coffer_doctor(&diagnosis, work_path(""), &options, &err), COFFER_OK);
    coffer_diagnosis_free(diagnosis);
    assert_int_equal(meter.held, 0);
    const size_t requests = meter.requests;
    for (size_t i = 1; i <= requests; i++) {
        meter.requests = 0;
        meter.fail_at = i;
        const coffer_status status = coffer_doctor(&diagnosis, work_path(""), &options, &err);
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_null(diagnosis);
        assert_int_equal(meter.held, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_findings, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_models, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_scope, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_family, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_advice_is_words, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_name_in_another_case, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_against, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_path, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_empty_folder, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_stopping, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_memory, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
