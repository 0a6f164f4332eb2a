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

/* Bytes that follow the tensors. */
static uint64_t count_trailing(const coffer *model)
{
    uint64_t trailing = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const coffer_table *table = coffer_shard_table(model, i);
        const uint64_t end = coffer_table_data_offset(table) + coffer_table_data_size(table);
        const uint64_t size = coffer_shard_size(model, i);
        trailing += size > end ? size - end : 0;
    }
    return trailing;
}

static int report_trailing(cli *app, const char *path, uint64_t trailing)
{
    char bytes[CLI_NUMBER_SIZE];
    if (trailing == 0) {
        return CLI_EXIT_OK;
    }
    cli_number_text(bytes, trailing, true);
    cli_say_path(app, path, "WARNING: %s byte%s after the tensors belong%s to none; coffer meta --fix cuts %s off",
                 bytes, trailing == 1 ? "" : "s", trailing == 1 ? "s" : "", trailing == 1 ? "it" : "them");
    return CLI_EXIT_NOT_CONFORMING;
}

int cli_report_whole(cli *app, const char *path, const coffer *model)
{
    char cut[CLI_NUMBER_SIZE];
    char all[CLI_NUMBER_SIZE];
    const cli_whole whole = cli_whole_of(model);
    if (whole.cut == 0) {
        return report_trailing(app, path, count_trailing(model));
    }
    cli_number_text(cut, whole.cut, true);
    cli_number_text(all, whole.cut + whole.tensors, true);
    cli_say_path(app, path,
                 "WARNING: the file is truncated: %s of %s tensors %s incomplete, and only the others can be used; get "
                 "the file again",
                 cut, all, whole.cut == 1 ? "is" : "are");
    return CLI_EXIT_NOT_CONFORMING;
}
