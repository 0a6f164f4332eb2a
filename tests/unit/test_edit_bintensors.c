/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing the metadata of bintensors, whose header has them before everything else: the rest moves when they grow.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "support_edit.h"

#include <stdlib.h>

typedef struct binary_row {
    const char *before; /* what comes before the list of tensors */
    size_t before_size;
    const char *key;
    const char *value;
    const char *after;
    size_t after_size;
    bool rewrite; /* 4 bytes of slack are not enough */
} binary_row;

#define BINARY(text) text, sizeof(text) - 1

static const binary_row binary_rows[] = {
    { BINARY("\1\1\1k\1v"), "k", "w", BINARY("\1\1\1k\1w"), false },
    { BINARY("\1\1\1k\1v"), "k", "value", BINARY("\1\1\1k\5value"), false },
    { BINARY("\1\1\1k\1v"), "k", "values", BINARY("\1\1\1k\6values"), true },
    { BINARY("\1\2\1z\1 \1k\1v"), "a", "", BINARY("\1\3\1a\0\1k\1v\1z\1 "), false },
    { BINARY("\1\2\1z\1 \1k\1v"), "k", NULL, BINARY("\1\1\1z\1 "), false },
    { BINARY("\1\1\1k\1v"), "k", NULL, BINARY("\0"), false },
    { BINARY("\1\0"), "k", "", BINARY("\1\1\1k\0"), false },
    { BINARY("\0"), "k", "", BINARY("\1\1\1k\0"), false },
    { BINARY("\0"), "k", "v", BINARY("\1\1\1k\1v"), true },
};

static const char binary_tensors[] = "\1\1t\1\1\x40\0\x40"; /* U8 [64] */

static file_bytes binary_file(const char *metadata, size_t size, size_t slack)
{
    char header[64];
    memcpy(header, metadata, size);
    memcpy(header + size, binary_tensors, sizeof binary_tensors - 1);
    return file_of_bytes(header, size + sizeof binary_tensors - 1, slack, DATA_SIZE);
}

/* The metadata lie before everything else, and the rest moves behind them. */
static void test_bintensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof binary_rows / sizeof binary_rows[0]; i++) {
        const binary_row *row = &binary_rows[i];
        file_bytes before = binary_file(row->before, row->before_size, 4);
        file_write("model", before.at, before.size);
        const size_t capacity = row->before_size + 4 - (row->rewrite ? 0 : row->after_size);
        /* A rewrite leaves 4096 bytes, and the data where they are aligned as well as before, to 8. */
        const size_t used = 8 + row->after_size + sizeof binary_tensors - 1;
        const size_t slack = row->rewrite ? (used + 4096 + 7) / 8 * 8 - used : capacity;
        file_bytes after = binary_file(row->after, row->after_size, slack);
        coffer_edit_way way = COFFER_EDITED_NOTHING;
        coffer_error err;
        assert_int_equal(edit_with("model", row->key, row->value, NULL, &way, &err), COFFER_OK);
        assert_int_equal(way == COFFER_EDITED_REWRITE, row->rewrite);
        assert_file_has("model", after);
        assert_int_equal(edit_with("model", row->key, row->value, NULL, &way, &err), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
        free(before.at);
        free(after.at);
    }
    const coffer_edit_options options = options_of(COFFER_EDIT_IN_PLACE);
    file_bytes full = binary_file("\0", 1, 0);
    file_write("model", full.at, full.size);
    assert_edit_fails("model", &options, COFFER_ERR_NO_SLACK, 0);
    assert_file_has("model", full);
    free(full.at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bintensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
