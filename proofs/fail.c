/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of error.c, for the drivers of the readers: what a failure writes, without its message. How messages are made is
 * proved apart (prove_error.c), and their arguments are evaluated here all the same.
 */
#include "error.h"

void coffer__error_clear(coffer_error *err)
{
    if (err != NULL) {
        err->offset = COFFER_NO_OFFSET;
    }
}

coffer_status coffer__fail(coffer_error *err, coffer_status code, const char *format, ...)
{
    if (err != NULL) {
        err->code = code;
    }
    return format == NULL ? COFFER_OK : code;
}

coffer_status coffer__fail_at(coffer_error *err, coffer_status code, uint64_t offset, const char *format, ...)
{
    if (err != NULL) {
        err->code = code;
        err->offset = offset;
    }
    return format == NULL ? COFFER_OK : code;
}

coffer_status coffer__fail_sizes(coffer_error *err, coffer_status code, uint64_t expected, uint64_t actual)
{
    if (err != NULL) {
        err->expected = expected;
        err->actual = actual;
    }
    return code;
}

coffer_status coffer__fail_tensor(coffer_error *err, coffer_status code, const char *name, size_t name_len)
{
    /* It reads the name, all of it. */
    //@ loop unroll 64;
    for (size_t i = 0; err != NULL && i < name_len; i++) {
        (void)*(const volatile char *)&name[i];
    }
    return code;
}
