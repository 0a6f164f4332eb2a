/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "support_edit.h"

#include "support_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

file_bytes file_of_bytes(const char *text, size_t text_len, size_t slack, size_t data_size)
{
    const size_t header_size = text_len + slack;
    file_bytes file = { NULL, 8 + header_size + data_size };
    file.at = malloc(file.size);
    assert_non_null(file.at);
    for (size_t i = 0; i < 8; i++) {
        file.at[i] = (uint8_t)((uint64_t)header_size >> (8 * i));
    }
    memcpy(file.at + 8, text, text_len);
    memset(file.at + 8 + text_len, ' ', slack);
    for (size_t i = 0; i < data_size; i++) {
        file.at[8 + header_size + i] = pattern_byte(i);
    }
    return file;
}

file_bytes file_of(const char *text, size_t slack, size_t data_size)
{
    return file_of_bytes(text, strlen(text), slack, data_size);
}

const char *text_of(const char *a, const char *b, const char *c)
{
    static char texts[4][1024];
    static size_t next;
    char *text = texts[next++ % 4];
    (void)snprintf(text, sizeof texts[0], "%s%s%s", a, b, c);
    return text;
}

file_bytes make_model(const char *metadata, size_t slack)
{
    file_bytes file = file_of(text_of(metadata, MEMBER, "}"), slack, DATA_SIZE);
    file_write("model", file.at, file.size);
    return file;
}

file_bytes edited(const char *metadata, file_bytes old)
{
    const char *text = text_of(metadata, MEMBER, "}");
    file_bytes file = file_of(text, old.size - 8 - DATA_SIZE - strlen(text), DATA_SIZE);
    assert_int_equal(file.size, old.size);
    return file;
}

coffer_edit edit_of(const char *key, const char *value)
{
    return (coffer_edit){ key, strlen(key), value, value != NULL ? strlen(value) : 0 };
}

coffer_edit_options options_of(coffer_edit_mode mode)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = mode;
    return options;
}

coffer_status edit_with(const char *name, const char *key, const char *value, const coffer_edit_options *options,
                        coffer_edit_way *way, coffer_error *err)
{
    const coffer_edit edit = edit_of(key, value);
    return coffer_edit_metadata(work_path(name), &edit, 1, options, way, err);
}

void assert_edit_fails(const char *name, const coffer_edit_options *options, coffer_status code, int os_error)
{
    coffer_error err;
    coffer_edit_way way = COFFER_EDITED_REWRITE;
    assert_int_equal(edit_with(name, "k", "new", options, &way, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.os_error, os_error);
    assert_string_equal(err.path, work_path(name));
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    assert_int_equal(edit_with(name, "k", "new", options, NULL, NULL), code);
}
