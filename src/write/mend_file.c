/* SPDX-License-Identifier: Apache-2.0 */
/* Mends a file: an edit that changes nothing but what an edit would refuse. */
#include "edit.h"

#include <string.h>

static void mend_file_tell(const coffer__edit_told *told, coffer_mended_file *mended)
{
    coffer_mended_file all = COFFER_MENDED_FILE_INIT;
    const size_t size = mended->struct_size < sizeof all ? mended->struct_size : sizeof all;
    all.struct_size = mended->struct_size;
    all.way = told->way;
    all.metadata = told->loose;
    all.trailing = told->trailing;
    all.looks = told->looks;
    all.tensors = told->tensors;
    memcpy(mended, &all, size);
}

coffer_status coffer_mend_file(const char *path, const coffer_edit_options *options, bool dry_run,
                               coffer_mended_file *mended, coffer_error *err)
{
    coffer_error own;
    coffer__edit_told told;
    const coffer__edit_wanted wanted = { .mends = true };
    coffer_error *filled = err != NULL ? err : &own;
    const coffer_status status = dry_run ? coffer__edit_measure(path, &wanted, options, &told, filled)
                                         : coffer__edit_only(path, &wanted, options, &told, filled);
    if (status == COFFER_OK && mended != NULL) {
        mend_file_tell(&told, mended);
    }
    return status;
}
