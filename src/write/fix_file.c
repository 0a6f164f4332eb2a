/* SPDX-License-Identifier: Apache-2.0 */
/* Fixes a file: an edit that changes nothing but what an edit would refuse. */
#include "edit.h"

#include <string.h>

static void fix_file_tell(const coffer__edit_reported *reported, coffer_fixed_file *fixed)
{
    coffer_fixed_file all = COFFER_FIXED_FILE_INIT;
    const size_t size = fixed->struct_size < sizeof all ? fixed->struct_size : sizeof all;
    all.struct_size = fixed->struct_size;
    all.way = reported->way;
    all.metadata = reported->loose;
    all.trailing = reported->trailing;
    all.looks = reported->looks;
    all.tensors = reported->tensors;
    memcpy(fixed, &all, size);
}

coffer_status coffer_fix_file(const char *path, const coffer_edit_options *options, bool dry_run,
                              coffer_fixed_file *fixed, coffer_error *err)
{
    coffer_error own;
    coffer__edit_reported reported;
    const coffer__edit_wanted wanted = { .fixes = true };
    coffer_error *filled = err != NULL ? err : &own;
    const coffer_status status = dry_run ? coffer__edit_measure(path, &wanted, options, &reported, filled)
                                         : coffer__edit_only(path, &wanted, options, &reported, filled);
    if (status == COFFER_OK && fixed != NULL) {
        fix_file_tell(&reported, fixed);
    }
    return status;
}
