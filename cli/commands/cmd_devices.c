/* SPDX-License-Identifier: Apache-2.0 */
/* coffer devices [PATH]: what loading can use here, and of what it cannot, why and what to change. */
#include "cli_columns.h"
#include "cli_options.h"
#include "cli_report.h"

#include <string.h>

/* One list is shown in one of two forms, or measured for a table. */
typedef struct devices_list {
    cli *app;
    cli_columns columns;
} devices_list;

static int show_json(void *ctx, const coffer_facility *facility)
{
    cli_output *out = &((devices_list *)ctx)->app->out;
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string(out, facility->name);
    cli_json_key(out, "usable");
    cli_json_bool(out, facility->usable);
    cli_json_key(out, "detail");
    cli_json_string(out, facility->detail);
    cli_json_key(out, "advice");
    cli_json_string(out, facility->advice);
    cli_json_close(out, '}');
    return 0;
}

/* It is called once to measure the columns and once to write them. The answers may differ by a little in between,
   which only a column's width would show. */
static int show_row(void *ctx, const coffer_facility *facility)
{
    cli_columns *columns = &((devices_list *)ctx)->columns;
    cli_columns_text(columns, facility->name);
    cli_columns_text(columns, facility->usable ? "yes" : "no");
    cli_columns_text(columns, facility->detail);
    return 0;
}

/* What to change stands below the table: it is a sentence, and would not fit into a column. */
static int show_advice(void *ctx, const coffer_facility *facility)
{
    devices_list *list = ctx;
    if (!facility->usable && facility->advice[0] != '\0') {
        cli_remark(list->app, "%s: %s", facility->name, facility->advice);
    }
    return 0;
}

/* The facilities are asked for again each time, since what they say lives only as long as the visitor runs. */
static coffer_status show_table(devices_list *list, const char *path, coffer_error *err)
{
    list->columns = (cli_columns){ .out = &list->app->out, .count = 3, .measuring = true };
    coffer_status status = coffer_list_facilities(path, NULL, show_row, list, err);
    if (status != COFFER_OK) {
        return status;
    }
    cli_columns_fit(&list->columns);
    status = coffer_list_facilities(path, NULL, show_row, list, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer_list_facilities(path, NULL, show_advice, list, err);
}

static int pass_over(void *ctx, const coffer_facility *facility)
{
    (void)ctx;
    (void)facility;
    return 0;
}

/* Of a path that cannot be looked at the failure alone is written: it is a JSON value of its own. */
static coffer_status show_array(devices_list *list, const char *path, coffer_error *err)
{
    coffer_status status = coffer_list_facilities(path, NULL, pass_over, list, err);
    if (status == COFFER_OK) {
        cli_json_open(&list->app->out, '[', true);
        status = coffer_list_facilities(path, NULL, show_json, list, err);
        cli_json_close(&list->app->out, ']');
    }
    return status;
}

static int run_devices(cli *app, const cli_arguments *arguments)
{
    const char *path = arguments->name_count > 0 ? arguments->names[0] : NULL;
    devices_list list = { .app = app };
    coffer_error err;
    const coffer_status status = app->json ? show_array(&list, path, &err) : show_table(&list, path, &err);
    return status == COFFER_OK ? CLI_EXIT_OK : cli_fail(app, path != NULL ? path : "devices", &err);
}

static const cli_option DEVICES_OPTIONS[] = {
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DEVICES_EXAMPLES[] = {
    { "coffer devices", "what can models be loaded to, and how?" },
    { "coffer devices /models", "also: what can the file system of this folder do?" },
    { NULL, NULL },
};

const cli_command cli_devices = {
    .name = "devices",
    .run = run_devices,
    .summary = "list the devices and system facilities that loading can use",
    .usage = "[PATH]",
    .about = "Lists the devices that a model can be loaded to, and what the system has to load it fast: io_uring,\n"
             "reading past the page cache, huge pages, locked memory. For what cannot be used here it says why,\n"
             "and below, on standard error, what to change. With PATH, a file or folder, its file system is asked,\n"
             "too. Nothing is needed for loading to work: it takes the best of what there is.\n"
             "\n"
             "JSON: [{name, usable, detail, advice}].\n",
    .options = DEVICES_OPTIONS,
    .examples = DEVICES_EXAMPLES,
    .least_names = 0,
    .most_names = 1,
};
