/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are cut short: see cli_partial.h for the contract. */
#include "cli_partial.h"

#include "cli_report.h"
#include "cli_text.h"

cli_whole cli_whole_of(const coffer *model)
{
    cli_whole whole = { 0 };
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (coffer_is_whole(model, tensor)) {
            whole.tensors++;
            whole.bytes += tensor->size;
        } else {
            whole.cut++;
        }
    }
    return whole;
}

int cli_report_whole(cli *app, const char *path, const coffer *model)
{
    char cut[CLI_NUMBER_SIZE];
    char all[CLI_NUMBER_SIZE];
    const cli_whole whole = cli_whole_of(model);
    if (whole.cut == 0) {
        return CLI_EXIT_OK;
    }
    cli_number_text(cut, whole.cut, true);
    cli_number_text(all, whole.cut + whole.tensors, true);
    cli_say_path(app, path,
                 "WARNING: the file is truncated: %s of %s tensors %s incomplete, and only the others can be used; get "
                 "the file again",
                 cut, all, whole.cut == 1 ? "is" : "are");
    return CLI_EXIT_NOT_CONFORMING;
}
