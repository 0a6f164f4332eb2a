/* SPDX-License-Identifier: Apache-2.0 */
/* coffer keep PATH: holds a model in memory, for the processes that load it meanwhile, until Ctrl-C. */
#include "cli_interrupt.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <inttypes.h>
#include <time.h>

#define KEEP_LOOK_MS 200 /* how often the flag of Ctrl-C is looked at */

/* Tells of each load that has come, until Ctrl-C. Signals end the wait early, and are noticed by the flag. The
   library answers other processes in a thread of its own, so there is nothing to do here but to look at the count.
   Nothing tells of a new load by itself, which is why it is looked for. */
static void keep_until_interrupted(cli *app, const char *path, coffer_cache_server *server)
{
    const struct timespec pause = { .tv_nsec = KEEP_LOOK_MS * 1000000L };
    uint64_t reported = 0;
    while (!cli_interrupted()) {
        uint64_t bytes = 0;
        uint64_t attached = 0;
        coffer_cache_server_state(server, &bytes, &attached);
        if (attached != reported) {
            reported = attached;
            cli_remark_path(app, path, "used by %" PRIu64 " load%s so far", reported, reported == 1 ? "" : "s");
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* The failure's own path comes first: of a model in several files it names the one that failed. Ctrl-C while files
   are read ends the reading by the progress. */
static int run_keep(cli *app, const cli_arguments *arguments)
{
    const char *path = arguments->names[0];
    coffer_cache_server *server = NULL;
    uint64_t bytes = 0;
    uint64_t attached = 0;
    char size[CLI_NUMBER_SIZE];
    cli_progress progress;
    coffer_error err;
    cli_progress_begin(&progress, app, "reading", 0);
    cli_progress_part part = { &progress, 0 };
    const coffer_status status = coffer_cache_server_new(&server, path, NULL, cli_progress_call, &part, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : path, &err);
    }
    coffer_cache_server_state(server, &bytes, &attached);
    cli_bytes_text(size, bytes);
    cli_remark_path(app, path, "kept in memory: %s; loads find it by themselves. Ctrl-C releases it", size);
    keep_until_interrupted(app, path, server);
    coffer_cache_server_free(server);
    return CLI_EXIT_OK;
}

static const cli_option KEEP_OPTIONS[] = {
    CLI_OPTION_ROW_END,
};

static const cli_example KEEP_EXAMPLES[] = {
    { "coffer keep model.safetensors &",
      "loads of this file take its bytes from memory, also when the page cache was evicted" },
    { NULL, NULL },
};

const cli_command cli_keep = {
    .name = "keep",
    .alias = "cache",
    .run = run_keep,
    .summary = "hold a model in memory for programs that load it",
    .usage = "PATH",
    .about = "Reads the files of a model into memory that nobody can change, and holds it until Ctrl-C. Processes\n"
             "of the same user that load the model find it there and share its pages. A file that was changed\n"
             "since is read from disk as usual. The page cache alone can forget a file at any time; this cannot,\n"
             "and takes as much memory as the files have bytes. PATH is a file, an index or a folder.\n"
             "To keep some tensors of a file and drop all others: coffer drop PATH --filter '!GLOB'.\n",
    .options = KEEP_OPTIONS,
    .examples = KEEP_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
