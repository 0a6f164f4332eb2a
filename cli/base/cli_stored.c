/* SPDX-License-Identifier: Apache-2.0 */
/* How tensors lie in files of other programs: see cli_stored.h for the contract. */
#include "cli_stored.h"

#include "cli_json.h"
#include "cli_report.h"

#include <stdio.h>
#include <string.h>

void cli_stored_text(const coffer *model, const coffer_tensor *tensor, char text[CLI_STORED_SIZE])
{
    coffer_stored_tensor stored;
    text[0] = '\0';
    if (!coffer_stored_tensor_of(model, tensor, &stored)) {
        return;
    }
    char tied[CLI_STORED_SIZE / 2] = "";
    /* Of blocks, the type says it. */
    const bool compressed =
        stored.decoded && (strcmp(stored.type, coffer_tensor_dtype_name(tensor)) == 0 || stored.type[0] == 't');
    coffer_escape(stored.tied, stored.tied_len, tied, sizeof tied);
    snprintf(text, CLI_STORED_SIZE, "%s%s%s%s%s%s", stored.type, stored.gathered ? ", strided" : "",
             stored.changed ? ", swapped" : "", compressed ? ", compressed" : "", tied[0] != '\0' ? ", tied to " : "",
             tied);
}

void cli_json_stored(cli_output *out, const coffer *model, const coffer_tensor *tensor)
{
    coffer_stored_tensor stored;
    if (!coffer_stored_tensor_of(model, tensor, &stored)) {
        return;
    }
    cli_json_key(out, "stored");
    cli_json_open(out, '{', false);
    cli_json_put_string(out, "type", stored.type);
    cli_json_key(out, "size");
    cli_json_number(out, stored.size);
    cli_json_put_bool(out, "mapped", stored.mapped);
    cli_json_put_bool(out, "gathered", stored.gathered);
    cli_json_put_bool(out, "changed", stored.changed);
    cli_json_put_bool(out, "decoded", stored.decoded);
    cli_json_put_bool(out, "in_order", stored.in_order);
    cli_json_text_or_null(out, "tied", stored.tied, stored.tied_len);
    cli_json_close(out, '}');
}

size_t cli_stored_left_out(const coffer *model)
{
    const coffer_import_summary *summary = coffer_import_summarize(coffer_model_import(model));
    return summary == NULL ? 0 : summary->skipped_count;
}

/* Those that are left out because they are no part of the model, as an optimizer is, have the same sentence. */
void cli_stored_remark(cli *app, const char *path, const coffer *model)
{
    coffer_import *imported = coffer_model_import(model);
    const size_t count = cli_stored_left_out(model);
    const coffer_import_tensor *tensor = NULL;
    for (size_t i = 0; count > 0 && (tensor = coffer_import_at(imported, i)) != NULL; i++) {
        if (tensor->fate == COFFER_FATE_SKIPPED) {
            char name[256];
            coffer_escape(tensor->name, tensor->name_len, name, sizeof name);
            cli_remark_path(app, path, "%zu tensor%s left out, %s for one: %s", count, count == 1 ? " is" : "s are",
                            name, tensor->reason);
            return;
        }
    }
}
