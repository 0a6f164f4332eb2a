/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit: see cli_misfits.h for the contract. */
#include "cli_misfits.h"

#include "cli_report.h"

#define MISFITS_SHOWN 20

void cli_misfits_tell(void *ctx, size_t model, const coffer_tensor *tensor, const char *why)
{
    cli_misfits *misfits = ctx;
    char name[1024];
    if (misfits->count++ < MISFITS_SHOWN) {
        coffer_escape(tensor->name, tensor->name_len, name, sizeof name);
        cli_say_path(misfits->app, misfits->paths[model], "\"%s\"%s%s", name, misfits->between, why);
    }
}

void cli_misfits_end(const cli_misfits *misfits)
{
    if (misfits->count > MISFITS_SHOWN) {
        cli_say(misfits->app, "... and %zu more", misfits->count - MISFITS_SHOWN);
    }
}
