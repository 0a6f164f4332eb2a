/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: every conversion, of numbers of any value, of texts with any character in them, and of texts that are far too long
 * for the message, which stop in each of its last places; and whatever else an error tells.
 */
#include "prove.h"

#include "error.h"

/* `length` letters, the first of which may be any character but the end; two bytes long from `wide` on. */
static char *prove_string(size_t length, size_t wide)
{
    char *text = malloc(length + 1);
    if (text == NULL) {
        exit(1);
    }
    memset(text, 'a', length);
    //@ loop unroll 1000;
    for (size_t i = wide; i + 1 < length; i += 2) {
        memcpy(text + i, "\xC3\xA9", 2);
    }
    text[length] = '\0';
    return text;
}

static void prove_conversions(coffer_error *err)
{
    char *text = prove_string(2, 2);
    text[0] = (char)prove_byte();
    coffer__fail(err, COFFER_ERR_ARGUMENT, "%s, %q %p%%", text, text, (size_t)2, text);
    coffer__fail(err, COFFER_ERR_ARGUMENT, "%d and no more", prove_i64());
    coffer__fail_at(err, COFFER_ERR_JSON, prove_u64(), "%u", prove_u64());
    coffer__fail_at(err, COFFER_ERR_JSON, prove_u64(), "%x", prove_u64());
    coffer__fail_at(err, COFFER_ERR_JSON, prove_u64(), "%z", prove_u64());
    free(text);
}

/* Characters of two bytes, cut where the message ends: in front of one, in one, behind one. */
static void prove_cuts(coffer_error *err)
{
    const size_t capacity = sizeof err->message;
    //@ loop unroll 5;
    for (size_t length = capacity - 3; length < capacity + 2; length++) {
        char *text = prove_string(length, capacity - 8 + length % 2);
        coffer__fail(err, COFFER_ERR_ARGUMENT, "%s%u%d%x%p", text, UINT64_MAX, INT64_MIN, UINT64_MAX, text);
        free(text);
    }
}

static void prove_paths(coffer_error *err)
{
    const size_t capacity = sizeof err->path;
    //@ loop unroll 3;
    for (size_t length = capacity - 1; length < capacity + 2; length++) {
        char *path = prove_string(length, length);
        coffer__fail_path(err, COFFER_ERR_IO, path);
        coffer__fail_tensor(err, COFFER_ERR_IO, path, length);
        free(path);
    }
    coffer__fail_path(err, COFFER_ERR_IO, "");
    coffer__fail_tensor(err, COFFER_ERR_IO, "", 0);
}

int main(void)
{
    coffer_error err;
    prove_conversions(&err);
    prove_cuts(&err);
    prove_paths(&err);
    coffer__fail_sizes(&err, COFFER_ERR_SIZE, prove_u64(), prove_u64());
    coffer__fail_errno(&err, COFFER_ERR_IO, 5);
    coffer__fail(NULL, COFFER_ERR_ARGUMENT, "%s", "");
    coffer__fail_at(NULL, COFFER_ERR_ARGUMENT, 1, "%s", "");
    coffer__fail_path(NULL, COFFER_ERR_IO, "");
    coffer__fail_tensor(NULL, COFFER_ERR_IO, "", 0);
    coffer__fail_sizes(NULL, COFFER_ERR_IO, 0, 0);
    coffer__fail_errno(NULL, COFFER_ERR_IO, 0);
    coffer_status_name((coffer_status)Frama_C_interval(-1, 300));
    return 0;
}
