/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options structs that can grow. Each public one begins with its size as its caller knew it. A function
 * copies what it was given into a zeroed struct of its own and reads only that. Fields that an older
 * caller does not have are then 0, the default. Fields of a newer caller, which this library does not
 * know, are left out. So 0 must be the default of every field, now and in all versions to come.
 */
#ifndef COFFER_CORE_OPTIONS_H
#define COFFER_CORE_OPTIONS_H

#include "coffer.h"
#include "error.h"

#include <string.h>

/* Fills the `to_size` bytes of the struct `to` from the options `from`; NULL stands for the default in every field. */
static inline coffer_status coffer__options_copy(void *to, size_t to_size, const void *from, coffer_error *err)
{
    memset(to, 0, to_size);
    if (from == NULL) {
        return COFFER_OK;
    }
    size_t size = 0;
    memcpy(&size, from, sizeof size);
    /* A struct that was zeroed by hand has no size. Refusing it beats ignoring every option that
       was set in it. */
    if (size < sizeof size) {
        return coffer__fail(
            err, COFFER_ERR_ARGUMENT,
            "the options' struct_size is not set: start from their initialiser, COFFER_..._OPTIONS_INIT");
    }
    memcpy(to, from, size < to_size ? size : to_size);
    return COFFER_OK;
}

#endif
