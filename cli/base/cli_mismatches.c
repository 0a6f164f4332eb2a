/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit: see cli_mismatches.h for the contract. */
#include "cli_mismatches.h"

#include "cli_report.h"

#define MISMATCHES_SHOWN 20

void cli_mismatches_tell(void *ctx, size_t model, const coffer_tensor *tensor, const char *why)
{
    cli_mismatches *mismatches = ctx;
    char name[1024];
    if (mismatches->count++ < MISMATCHES_SHOWN) {
        coffer_escape(tensor->name, tensor->name_len, name, sizeof name);
        cli_say_path(mismatches->app, mismatches->paths[model], "\"%s\"%s%s", name, mismatches->between, why);
    }
}

void cli_mismatches_finish(const cli_mismatches *mismatches)
{
    if (mismatches->count > MISMATCHES_SHOWN) {
        cli_say(mismatches->app, "... and %zu more", mismatches->count - MISMATCHES_SHOWN);
    }
}
