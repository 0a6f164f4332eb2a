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

const char *coffer_fixed_looks(const coffer_fixed_file *fixed)
{
    static const struct {
        coffer_status looks;
        const char *text;
    } kinds[] = {
        { COFFER_ERR_IS_HTML, "a web page" },
        { COFFER_ERR_IS_JSON, "JSON" },
        { COFFER_ERR_IS_ZIP, "a zip archive" },
        { COFFER_ERR_IS_PICKLE, "a pickle" },
        { COFFER_ERR_IS_GGUF, "a GGUF file" },
        { COFFER_ERR_IS_HDF5, "an HDF5 file" },
        { COFFER_ERR_IS_NUMPY, "a NumPy array" },
        { COFFER_ERR_IS_COMPRESSED, "compressed data" },
        { COFFER_ERR_IS_ZEROS, "zeros" },
        { COFFER_ERR_IS_TEXT, "text" },
        { COFFER_ERR_IS_TAR, "a tar archive" },
        { COFFER_ERR_IS_ELF, "a program or library" },
        { COFFER_ERR_IS_CONVERTIBLE, "a file of another format" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !fixed->tensors; i++) {
        if (fixed->looks == kinds[i].looks) {
            return kinds[i].text;
        }
    }
    return fixed->tensors ? "another file of tensors" : "";
}
