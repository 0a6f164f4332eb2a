/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer browse PATH [OTHER]: looking around in a model, on a terminal. This file has the terminal and the clock; what is
 * seen and what keys do is in the others (browse.h).
 *
 * It draws, waits for whatever comes first, keys, a signal or news from the threads that read, and draws again. Nothing
 * that may take long is done here.
 */
#include "browse.h"
#include "cli_command.h"
#include "cli_console.h"
#include "cli_files.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_terminal.h"
#include "cli_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REST 80 /* milliseconds that the cursor rests on a tensor before its numbers are read */

typedef struct browse_run {
    browse state;
    browse_work *work;
    cli_screen screen;
    cli_keys keys;
    uint32_t asked;  /* the tensor whose numbers are read, or were; BROWSE_NONE: none */
    uint32_t rested; /* the tensor that the cursor came to last */
    double due;      /* when the numbers of `rested` are to be read */
    bool done;
    bool failed; /* the terminal takes nothing any more */
} browse_run;

/* ---- Drawing ---- */

static void show(browse_run *run)
{
    size_t size = 0;
    const browse_part part = browse_seen_part(&run->state);
    browse_work_look(run->work, browse_wanted(&run->state), &run->state.found);
    browse_work_look_at_part(run->work, &part, &run->state.slice);
    browse_compared(&run->state, browse_work_compared(run->work));
    browse_draw(&run->state, &run->screen);
    const char *bytes = cli_screen_render(&run->screen, &size);
    if (bytes == NULL || !cli_console_write(bytes, size)) {
        run->failed = run->done = true;
    }
}

static void measure_again(browse_run *run)
{
    size_t columns = 0;
    size_t rows = 0;
    cli_console_size(&columns, &rows);
    if (!cli_screen_resize(&run->screen, columns, rows)) {
        run->failed = run->done = true;
        return;
    }
    browse_resize(&run->state, run->screen.columns, run->screen.rows);
}

/* ---- Work ---- */

static void read_what_is_seen(browse_run *run)
{
    const browse_part part = browse_seen_part(&run->state);
    browse_work_read_part(run->work, &part);
}

static void begin_work(browse_run *run)
{
    run->asked = browse_wanted(&run->state);
    browse_work_read(run->work, run->asked);
    read_what_is_seen(run);
}

/* What the cursor has left is not read any more, and what it has rested on is, whatever other keys come; from then on,
   what is seen of it is read at once. Returns how many milliseconds are left until then; negative: there is nothing to
   read. */
static int see_to_work(browse_run *run)
{
    const uint32_t wanted = browse_wanted(&run->state);
    if (run->asked != BROWSE_NONE && run->asked != wanted) {
        browse_work_read(run->work, BROWSE_NONE);
        browse_work_read_part(run->work, &(browse_part){ .item = BROWSE_NONE });
        run->asked = BROWSE_NONE;
    }
    if (run->rested != wanted) {
        run->rested = wanted;
        run->due = cli_seconds() + REST / 1000.0;
    }
    if (wanted == BROWSE_NONE || run->state.asks) {
        return -1;
    }
    if (run->asked == wanted) {
        read_what_is_seen(run);
        return -1;
    }
    const double left = run->due - cli_seconds();
    if (left > 0) {
        return (int)(left * 1000) + 1;
    }
    begin_work(run);
    return -1;
}

static void compare(browse_run *run)
{
    size_t count = 0;
    uint32_t *items = browse_items_below(&run->state, &count);
    if (items != NULL) {
        browse_work_compare(run->work, items, count);
    }
}

static void grant(browse_run *run, browse_wish wish)
{
    switch (wish) {
    case BROWSE_WISH_QUIT:
        run->done = true;
        break;
    case BROWSE_WISH_INTERRUPT:
        cli_console_interrupt();
        run->done = true;
        break;
    case BROWSE_WISH_SUSPEND:
        cli_console_suspend();
        break;
    case BROWSE_WISH_REDRAW:
        measure_again(run);
        break;
    case BROWSE_WISH_READ:
        begin_work(run);
        break;
    case BROWSE_WISH_COMPARE:
        compare(run);
        break;
    case BROWSE_WISH_STOP:
        browse_work_compare(run->work, NULL, 0);
        break;
    default:
        break;
    }
}

/* ---- The loop ---- */

/* All that has come is handled before anything is drawn, so that a key that repeats does not lag. */
static void take_input(browse_run *run)
{
    char bytes[256];
    cli_event event;
    const size_t count = cli_console_read(bytes, sizeof bytes);
    run->done = run->done || count == 0;
    for (size_t i = 0; i < count && !run->done; i++) {
        if (cli_keys_take(&run->keys, (unsigned char)bytes[i], &event)) {
            grant(run, browse_handle(&run->state, &event));
        }
    }
}

/* No more bytes have come: an escape character was the key. */
static void end_waiting(browse_run *run)
{
    cli_event event;
    if (cli_keys_waiting(&run->keys) && cli_keys_idle(&run->keys, &event)) {
        grant(run, browse_handle(&run->state, &event));
    }
}

static void take_turn(browse_run *run)
{
    const int left = see_to_work(run);
    show(run);
    if (run->done) {
        return;
    }
    switch (cli_console_wait(cli_keys_waiting(&run->keys) ? CLI_KEYS_PATIENCE : left)) {
    case CLI_CONSOLE_INPUT:
        take_input(run);
        break;
    case CLI_CONSOLE_RESIZED:
        measure_again(run);
        break;
    case CLI_CONSOLE_STOP:
        cli_console_suspend();
        break;
    case CLI_CONSOLE_END:
        run->done = true;
        break;
    case CLI_CONSOLE_TIMEOUT:
        end_waiting(run);
        break;
    default:
        break;
    }
}

static bool is_url(const char *path)
{
    return path != NULL && strstr(path, "://") != NULL;
}

static bool prepare(browse_run *run, const browse_data *data)
{
    size_t columns = 0;
    size_t rows = 0;
    cli_console_size(&columns, &rows);
    run->asked = run->rested = BROWSE_NONE;
    run->screen.ascii = !cli_terminal_utf8();
    run->screen.colours = cli_colours_of(getenv("TERM"), getenv("COLORTERM"), getenv("NO_COLOR"));
    run->work = browse_work_new(data, cli_console_wake);
    if (run->work == NULL || !cli_screen_resize(&run->screen, columns, rows) ||
        !browse_begin(&run->state, data, run->screen.columns, run->screen.rows)) {
        return false;
    }
    run->state.work = run->work;
    run->state.asks = is_url(data->paths[0]) || is_url(data->paths[1]);
    return true;
}

static int look_around(cli *app, const browse_data *data)
{
    int code = CLI_EXIT_OK;
    browse_run run;
    memset(&run, 0, sizeof run);
    if (!prepare(&run, data)) {
        code = cli_fail_memory(app, data->paths[0]);
    } else if (!cli_console_open()) {
        cli_say(app, "cannot use the terminal: %s; coffer ls lists the tensors", strerror(errno));
        code = CLI_EXIT_UNREADABLE;
    } else {
        while (!run.done) {
            take_turn(&run);
        }
        cli_console_close();
        code = run.failed ? CLI_EXIT_UNREADABLE : CLI_EXIT_OK;
    }
    browse_work_free(run.work);
    browse_free(&run.state);
    cli_screen_free(&run.screen);
    return code;
}

static int browse_models(cli *app, const coffer *a, const char *path_a, const coffer *b, const char *path_b)
{
    browse_data data;
    if (!browse_data_make(&data, a, path_a, b, path_b)) {
        return cli_fail_memory(app, path_a);
    }
    const int code = look_around(app, &data);
    browse_data_free(&data);
    return code;
}

static int run_browse(cli *app, const cli_arguments *arguments)
{
    const char *path_a = arguments->names[0];
    const char *path_b = arguments->name_count > 1 ? arguments->names[1] : NULL;
    int code = CLI_EXIT_OK;
    if (!cli_console_possible()) {
        const bool dumb = cli_terminal_width(STDOUT_FILENO) > 0 && !cli_terminal_capable(STDOUT_FILENO);
        cli_say(app, "browse needs a terminal %s; coffer ls lists the tensors anywhere",
                dumb ? "that can move its cursor, and TERM says that this one cannot" : "at standard input and output");
        return CLI_EXIT_USAGE;
    }
    coffer *a = cli_open(app, path_a, false, &code);
    coffer *b = a != NULL && path_b != NULL ? cli_open(app, path_b, false, &code) : NULL;
    if (code == CLI_EXIT_OK) {
        code = browse_models(app, a, path_a, b, path_b);
    }
    coffer_close(b);
    coffer_close(a);
    return code;
}

static const cli_option BROWSE_OPTIONS[] = {
    CLI_OPTION_ROW_END,
};

static const cli_example BROWSE_EXAMPLES[] = {
    { "coffer browse model.safetensors", "look around in a file" },
    { "coffer browse model/", "in all files of a model" },
    { "coffer browse hf://owner/name", "in one on the Hub, of which only headers are read" },
    { "coffer browse base/ tuned/", "in two side by side, and what differs" },
    { NULL, NULL },
};

const cli_command cli_browse = {
    .name = "browse",
    .run = run_browse,
    .summary = "look around in a model on a terminal: tree, search, numbers, metadata, differences",
    .usage = "PATH [OTHER]",
    .about = "Shows the tree of names, equal layers folded, with dtype, shape, size and share of the whole. What\n"
             "is under the cursor has its details at its side (from 100 columns on; else Enter shows them): where\n"
             "it is, statistics, a histogram and a part of its numbers, read in the background; Enter there shows\n"
             "a screen of them, to move over all dimensions. Of a URL they are read only when r is pressed.\n"
             "\n"
             "With OTHER, two models whose tensors are matched by name: A and B mark what only one has, ~ another\n"
             "dtype or shape; c compares the bytes below the cursor.\n"
             "\n"
             "Keys: arrows or j k h l move, Enter opens, / searches, f filters, s sorts, t lists all flat, m shows\n"
             "the metadata, b the map of bytes, d only what differs, ? all keys, q quits. The mouse works, too.\n"
             "\n"
             "Needs a terminal of 40 columns and 10 rows. Colours follow TERM, COLORTERM and NO_COLOR.\n",
    .options = BROWSE_OPTIONS,
    .examples = BROWSE_EXAMPLES,
    .least_names = 1,
    .most_names = 2,
};
