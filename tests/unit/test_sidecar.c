/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: a sidecar is the only copy of a tokenizer, so what was written of it is read again and compared, as tensors are. When
 * it differs, neither it nor the model is left.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One key, which ends at byte 68, and one tensor "w", F32 [1]. */
static const char keys[] = "GGUF\3\0\0\0"
                           "\1\0\0\0\0\0\0\0"
                           "\1\0\0\0\0\0\0\0"
                           "\x14\0\0\0\0\0\0\0general.architecture"
                           "\x08\0\0\0"
                           "\4\0\0\0\0\0\0\0test";
static const char tensors[] = "\1\0\0\0\0\0\0\0w"
                              "\1\0\0\0"
                              "\1\0\0\0\0\0\0\0"
                              "\0\0\0\0"
                              "\0\0\0\0\0\0\0\0";
#define KEYS (sizeof keys - 1)
#define ALIGNED 128

typedef struct changing {
    char bytes[ALIGNED + 4];
    unsigned beginnings; /* reads from byte 0 on, … */
    unsigned lies_at;    /* … of which this one, from 1, gives another byte at its end; 0: none does */
} changing;

static coffer_status changing_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size,
                                   coffer_error *err)
{
    changing *input = ctx;
    (void)file;
    (void)err;
    memcpy(buffer, input->bytes + offset, size);
    input->beginnings += offset == 0;
    if (offset == 0 && input->beginnings == input->lies_at) {
        ((char *)buffer)[size - 1] ^= 1;
    }
    return COFFER_OK;
}

/* Writes both files, the input giving other bytes at that read of its beginning after it was opened. */
static coffer_status write_both(unsigned lies_at, bool unverified, coffer_error *err)
{
    changing bytes = { .lies_at = 0 };
    const coffer_input_functions functions = {
        .read = changing_read, .ctx = &bytes, .size = sizeof bytes.bytes, .path = "m.gguf"
    };
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    coffer_input *input = NULL;
    coffer_import *import = NULL;
    memcpy(bytes.bytes, keys, KEYS);
    memcpy(bytes.bytes + KEYS, tensors, sizeof tensors - 1);
    memcpy(bytes.bytes + ALIGNED, "1234", 4);
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, err), COFFER_OK);
    assert_int_equal(coffer_import_open(&import, input, NULL, err), COFFER_OK);
    bytes.beginnings = 0;
    bytes.lies_at = lies_at;
    char sidecar[512];
    (void)snprintf(sidecar, sizeof sidecar, "%s", work_path("sidecar.gguf"));
    options.sidecar = sidecar;
    options.unverified = unverified;
    options.force = true;
    const coffer_status status = coffer_import_write(import, work_path("m.safetensors"), &options, NULL, err);
    coffer_import_free(import);
    coffer_input_free(input);
    return status;
}

static void test_what_was_written_is_compared(void **state)
{
    (void)state;
    coffer_error err;
    char expected[KEYS];
    memcpy(expected, keys, KEYS);
    expected[8] = 0; /* no tensors */
    for (unsigned lies_at = 1; lies_at <= 2; lies_at++) {
        assert_int_equal(write_both(lies_at, false, &err), COFFER_ERR_CHECKSUM);
        assert_non_null(strstr(err.message, "sidecar"));
        assert_int_equal(work_dir_count(), 0);
    }
    assert_int_equal(write_both(2, true, &err), COFFER_OK);
    assert_int_equal(write_both(0, false, &err), COFFER_OK);
    assert_int_equal(work_dir_count(), 2);
    size_t size = 0;
    uint8_t *written = file_read("sidecar.gguf", &size);
    assert_int_equal(size, KEYS);
    assert_memory_equal(written, expected, KEYS);
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_compared),
    };
    return cmocka_run_group_tests(tests, work_dir_set_up, work_dir_tear_down);
}
