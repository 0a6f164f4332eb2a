/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer get PATH NAME[SLICE]: a tensor, or a slice of it, as text.
 *
 * The text is written by an odometer over the dimensions instead of by recursion, because a header may state any
 * rank. It runs twice: first to find how wide the columns must be, then to write.
 */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"
#include "cli_values.h"
#include "cli_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_ABOVE 1000     /* elements; more are cut in the middle of each dimension */
#define EDGE 3             /* indices shown at each end of a dimension that is cut */
#define ALIGN_MOST 10000   /* elements; more are not aligned in columns, which would read everything twice */
#define LINE_WIDTH 79      /* where rows that are shown whole are broken */
#define CUT_WIDTH 119      /* rows that are cut have few elements, and read better unbroken */
#define UNALIGNED_WIDTH 12 /* room kept for an element whose width is not known */
#define INDENT_MOST 16
#define BLOCK_WHOLE 65536 /* elements read at a time when all are shown */
#define BLOCK_CUT 8       /* and when only edges are */
#define NEAREST_MOST 3

typedef struct get_printer {
    cli *app;
    cli_view *view;
    uint64_t *position; /* of the row that is written: an index for each axis */
    bool cut;           /* show the edges only */
    bool measuring;     /* write nothing, find the width */
    size_t width;       /* of a column; 0: as wide as each element is */
    size_t column;      /* where the line stands */
    coffer_error *err;
} get_printer;

static void print_text(get_printer *printer, const char *text, size_t len)
{
    if (!printer->measuring) {
        cli_put(&printer->app->out, text, len);
        printer->column += len;
    }
}

static void print_repeat(get_printer *printer, char c, size_t count)
{
    if (!printer->measuring) {
        cli_put_repeat(&printer->app->out, c, count);
        printer->column += count;
    }
}

static void print_new_line(get_printer *printer, size_t lines, size_t indent)
{
    print_repeat(printer, '\n', lines);
    printer->column = 0;
    print_repeat(printer, ' ', indent < INDENT_MOST ? indent : INDENT_MOST);
}

/* The index shown after `index`; *skipped tells that some are left out between. */
static uint64_t next_shown(const get_printer *printer, const cli_axis *axis, uint64_t index, bool *skipped)
{
    *skipped = printer->cut && axis->count > 2 * EDGE && index == EDGE - 1;
    return *skipped ? axis->count - EDGE : index + 1;
}

static coffer_status print_element(get_printer *printer, uint64_t element)
{
    char text[CLI_VALUE_SIZE];
    const void *data = NULL;
    uint64_t at = 0;
    const coffer_status status = cli_view_need(printer->view, element, &data, &at, printer->err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t len = cli_value_text(text, printer->view->tensor->dtype, data, at, printer->app->json);
    if (printer->measuring) {
        printer->width = len > printer->width ? len : printer->width;
        return COFFER_OK;
    }
    print_repeat(printer, ' ', len < printer->width ? printer->width - len : 0);
    print_text(printer, text, len);
    return COFFER_OK;
}

/* What stands between two elements of a row; the line breaks where the next one would be too far to the right. */
static void print_comma(get_printer *printer, bool skipped)
{
    const size_t rank = printer->view->rank;
    const size_t most = printer->cut ? CUT_WIDTH : LINE_WIDTH;
    const size_t next = printer->width > 0 ? printer->width : UNALIGNED_WIDTH;
    print_text(printer, ",", 1);
    if (!printer->app->json && printer->column + next + 2 > most) {
        print_new_line(printer, 1, rank);
    } else {
        print_text(printer, " ", 1);
    }
    if (skipped) {
        print_text(printer, "..., ", 5);
    }
}

/* A run of elements along the last axis. */
static coffer_status print_row(get_printer *printer)
{
    const cli_view *view = printer->view;
    const cli_axis *axis = &view->axes[view->rank - 1];
    uint64_t base = 0;
    for (size_t i = 0; i + 1 < view->rank; i++) {
        base += printer->position[i] * view->axes[i].stride;
    }
    uint64_t index = 0;
    bool skipped = false;
    while (index < axis->count && printer->app->out.error == 0) {
        if (index > 0) {
            print_comma(printer, skipped);
        }
        const coffer_status status = print_element(printer, base + index);
        if (status != COFFER_OK) {
            return status;
        }
        index = next_shown(printer, axis, index, &skipped);
    }
    return COFFER_OK;
}

/* Moves to the next row. Returns how many axes, from the last, came to their end with this row: all at the very end. */
static size_t next_row(get_printer *printer, bool *skipped)
{
    const cli_view *view = printer->view;
    *skipped = false;
    for (size_t axis = view->rank - 1; axis > 0; axis--) {
        const uint64_t next = next_shown(printer, &view->axes[axis - 1], printer->position[axis - 1], skipped);
        if (next < view->axes[axis - 1].count) {
            printer->position[axis - 1] = next;
            return view->rank - axis;
        }
        printer->position[axis - 1] = 0;
    }
    return view->rank;
}

/* Between two rows: a line break, and an empty line more where matrices or more end, as numpy has it. */
static void print_row_break(get_printer *printer, size_t closed, bool skipped)
{
    const size_t outer = printer->view->rank - closed;
    const size_t lines = closed > 1 && !printer->app->json ? 2 : 1;
    print_text(printer, ",", 1);
    print_new_line(printer, lines, outer);
    if (skipped) {
        print_text(printer, "...,", 4);
        print_new_line(printer, lines, outer);
    }
}

static coffer_status print_all(get_printer *printer)
{
    const size_t rank = printer->view->rank;
    printer->column = 0;
    if (printer->view->elements == 0) {
        print_text(printer, "[]", 2);
        return COFFER_OK;
    }
    if (rank == 0) {
        return print_element(printer, 0);
    }
    size_t closed = rank;
    memset(printer->position, 0, rank * sizeof *printer->position);
    while (printer->app->out.error == 0) {
        bool skipped = false;
        print_repeat(printer, '[', closed);
        const coffer_status status = print_row(printer);
        if (status != COFFER_OK) {
            return status;
        }
        closed = next_row(printer, &skipped);
        print_repeat(printer, ']', closed);
        if (closed == rank) {
            break;
        }
        print_row_break(printer, closed, skipped);
    }
    return COFFER_OK;
}

static uint64_t count_shown(const cli_view *view, bool cut)
{
    uint64_t shown = 1;
    for (size_t i = 0; i < view->rank; i++) {
        const uint64_t count = view->axes[i].count;
        shown *= cut && count > 2 * EDGE ? 2 * EDGE : count;
    }
    return view->elements == 0 ? 0 : shown;
}

static coffer_status print_view(cli *app, cli_view *view, bool cut, coffer_error *err)
{
    get_printer printer = { .app = app, .view = view, .cut = cut, .err = err };
    printer.position = malloc((view->rank + 1) * sizeof *printer.position);
    if (printer.position == NULL) {
        return cli_no_memory(err);
    }
    coffer_status status = COFFER_OK;
    if (!app->json && count_shown(view, cut) <= ALIGN_MOST) {
        printer.measuring = true;
        status = print_all(&printer);
        printer.measuring = false;
    }
    if (status == COFFER_OK) {
        status = print_all(&printer);
    }
    free(printer.position);
    return status;
}

/* ---- Which tensor, and which part of it ---- */

/* What the argument names. */
typedef struct get_target {
    const coffer_tensor *tensor;
    const char *slice; /* from the bracket on, or NULL */
} get_target;

/* By the name as it is and, failing that, by the name as `coffer ls` shows it: a NUL cannot be typed. */
static const coffer_tensor *find_tensor(const coffer *model, const char *name, size_t name_len)
{
    const coffer_tensor *tensor = coffer_find_n(model, name, name_len);
    if (tensor != NULL || memchr(name, '\\', name_len) == NULL) {
        return tensor;
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        char shown[1024];
        tensor = coffer_at(model, i);
        const size_t len = coffer_escape(tensor->name, tensor->name_len, shown, sizeof shown);
        if (len == name_len && len < sizeof shown && memcmp(shown, name, name_len) == 0) {
            return tensor;
        }
    }
    return NULL;
}

static bool find_target(const coffer *model, const char *argument, get_target *target, size_t *name_len)
{
    const char *bracket = strrchr(argument, '[');
    *name_len = strlen(argument);
    target->slice = NULL;
    target->tensor = find_tensor(model, argument, *name_len);
    if (target->tensor != NULL || bracket == NULL) {
        return target->tensor != NULL;
    }
    *name_len = (size_t)(bracket - argument);
    target->slice = bracket;
    target->tensor = find_tensor(model, argument, *name_len);
    return target->tensor != NULL;
}

/* Lower is nearer; a name that holds what was asked for, whole, is nearer than one that is spelt alike. */
static size_t name_distance(const coffer_tensor *tensor, const char *asked, size_t asked_len, size_t limit)
{
    if (asked_len >= 3 && strlen(tensor->name) == tensor->name_len && strstr(tensor->name, asked) != NULL) {
        return 0;
    }
    return cli_distance(tensor->name, tensor->name_len, asked, asked_len, limit);
}

/* Writes up to NEAREST_MOST names that were probably meant into the message. */
static void suggest_names(const coffer *model, const char *asked, size_t asked_len, char *text, size_t size)
{
    const coffer_tensor *nearest[NEAREST_MOST] = { NULL };
    size_t distances[NEAREST_MOST];
    size_t found = 0;
    const size_t limit = cli_distance_limit(asked_len);
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const size_t distance = name_distance(tensor, asked, asked_len, limit);
        size_t place = found;
        while (place > 0 && distances[place - 1] > distance) {
            place--;
        }
        if (distance > limit || place == NEAREST_MOST) {
            continue;
        }
        found += found < NEAREST_MOST;
        for (size_t k = found - 1; k > place; k--) {
            nearest[k] = nearest[k - 1];
            distances[k] = distances[k - 1];
        }
        nearest[place] = tensor;
        distances[place] = distance;
    }
    size_t used = (size_t)snprintf(text, size, "%s", found > 0 ? "; did you mean " : "; coffer ls shows all names");
    for (size_t i = 0; i < found && used < size; i++) {
        char shown[96];
        coffer_escape(nearest[i]->name, nearest[i]->name_len, shown, sizeof shown);
        used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", i == 0 ? "" : " or ", shown);
    }
    if (found > 0 && used < size) {
        snprintf(text + used, size - used, "?");
    }
}

static int unknown_tensor(cli *app, const char *path, const coffer *model, const char *name, size_t name_len)
{
    coffer_error err = { .code = COFFER_ERR_NO_TENSOR, .offset = COFFER_NO_OFFSET };
    char asked[129];
    char suggestions[sizeof err.message - 160];
    const size_t asked_len = cli_cut_at_character(name, name_len, sizeof asked - 1);
    memcpy(asked, name, asked_len);
    asked[asked_len] = '\0';
    coffer_escape(name, name_len, err.tensor, sizeof err.tensor);
    suggest_names(model, asked, asked_len, suggestions, sizeof suggestions);
    snprintf(err.message, sizeof err.message, "no tensor \"%.100s\"%s", err.tensor, suggestions);
    return cli_fail(app, path, &err);
}

/* ---- The command ---- */

static void json_head(cli *app, const char *path, const get_target *target, const cli_view *view)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "name");
    cli_json_string_n(out, target->tensor->name, target->tensor->name_len);
    cli_json_key(out, "slice");
    if (target->slice != NULL) {
        cli_json_string(out, target->slice);
    } else {
        cli_json_null(out);
    }
    cli_json_key(out, "dtype");
    cli_json_string(out, coffer_tensor_dtype_name(target->tensor));
    cli_json_key(out, "shape");
    cli_json_open(out, '[', false);
    for (size_t i = 0; i < view->rank; i++) {
        cli_json_number(out, view->axes[i].count);
    }
    cli_json_close(out, ']');
    cli_json_key(out, "values");
    cli_json_raw(out, "");
}

static int show_view(cli *app, const char *path, const get_target *target, cli_view *view, bool all)
{
    coffer_error err;
    const bool cut = !all && !app->json && view->elements > CUT_ABOVE;
    const uint64_t shown = count_shown(view, cut);
    const void *data = NULL;
    uint64_t at = 0;
    /* What cannot be read at all fails here, before the answer has begun. */
    if (view->elements > 0 && cli_view_need(view, 0, &data, &at, &err) != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    if (app->json) {
        json_head(app, path, target, view);
    }
    const coffer_status status = print_view(app, view, cut, &err);
    if (status != COFFER_OK) {
        /* Some of the values are out already: no whole answer is possible any more, and the exit code says so. */
        cli_put_char(&app->out, '\n');
        app->json = false;
        return cli_fail(app, path, &err);
    }
    if (app->json) {
        cli_json_close(&app->out, '}');
    } else {
        cli_put_char(&app->out, '\n');
    }
    if (shown < view->elements) {
        char few[CLI_NUMBER_SIZE];
        char many[CLI_NUMBER_SIZE];
        cli_number_text(few, shown, true);
        cli_number_text(many, view->elements, true);
        cli_remark(app, "cut: %s of %s elements shown; --all shows all", few, many);
    }
    return CLI_EXIT_OK;
}

/* The indices of a slice's text in memory of the caller's, who frees it on success. */
static coffer_status parse_slice(const char *text, coffer_index **indices, size_t *count, coffer_error *err)
{
    const size_t text_len = text != NULL ? strlen(text) : 0;
    *count = 1;
    for (size_t i = 0; i < text_len; i++) {
        *count += text[i] == ',';
    }
    *indices = malloc(*count * sizeof **indices);
    if (*indices == NULL) {
        return cli_no_memory(err);
    }
    if (text == NULL) {
        *count = 0;
        return COFFER_OK;
    }
    const coffer_status status = coffer_slice_parse(text, text_len, *indices, count, err);
    if (status != COFFER_OK) {
        free(*indices);
        *indices = NULL;
    }
    return status;
}

static int get_target_text(cli *app, const char *path, const coffer *model, const get_target *target, bool all)
{
    coffer_error err;
    coffer_index *indices = NULL;
    size_t count = 0;
    cli_view view;
    coffer_status status = parse_slice(target->slice, &indices, &count, &err);
    if (status == COFFER_ERR_SLICE_SYNTAX) {
        err.offset = COFFER_NO_OFFSET; /* a place in the slice's text, which is no byte of the file */
    }
    if (status == COFFER_OK) {
        const uint64_t most =
            all || app->json || coffer_tensor_elements(target->tensor) <= CUT_ABOVE ? BLOCK_WHOLE : BLOCK_CUT;
        status = cli_view_open(&view, model, target->tensor, indices, count, most, &err);
    }
    if (status != COFFER_OK) {
        free(indices);
        return cli_fail(app, path, &err);
    }
    const int code = show_view(app, path, target, &view, all);
    cli_view_close(&view);
    free(indices);
    return code;
}

static int run_get(cli *app, const cli_arguments *arguments)
{
    const char *path = arguments->names[0];
    const char *argument = arguments->names[1];
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(app, path, false, &code);
    if (model != NULL) {
        get_target target;
        size_t name_len = 0;
        if (find_target(model, argument, &target, &name_len)) {
            code = get_target_text(app, path, model, &target, cli_given(arguments, CLI_OPTION_ALL));
        } else {
            code = unknown_tensor(app, path, model, argument, name_len);
        }
        coffer_close(model);
    }
    return code;
}

static const cli_option GET_OPTIONS[] = {
    { CLI_OPTION_ALL, 0, "all", NULL, "show every element, however many there are", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example GET_EXAMPLES[] = {
    { "coffer get model.safetensors wte.weight", "the corners of a large tensor" },
    { "coffer get model.safetensors 'wte.weight[0, :8]'", "the first eight numbers of its first row" },
    { "coffer get model.safetensors 'wte.weight[::-1, -1]' --all", "its last column, backwards, whole" },
    { NULL, NULL },
};

const cli_command cli_get = {
    .name = "get",
    .run = run_get,
    .summary = "show a tensor, or a slice of it, as text",
    .usage = "PATH NAME[SLICE]",
    .about = "Shows the elements of a tensor. A slice in brackets is as in Python: indices, start:stop:step,\n"
             "negative ones, and ...; quote it, since the shell knows brackets too. Only what is shown is read.\n"
             "More than 1,000 elements are cut in the middle of each dimension. Numbers are the shortest that\n"
             "read back as the same element; a name may be given as coffer ls shows it.\n"
             "\n"
             "JSON: path, name, slice (null: none), dtype, shape of the result and values, as nested arrays.\n"
             "NaN and infinities are the strings \"NaN\", \"Infinity\", \"-Infinity\"; a complex number is [real,\n"
             "imaginary]. A file that fails has path and error (see coffer help info).\n",
    .options = GET_OPTIONS,
    .examples = GET_EXAMPLES,
    .least_names = 2,
    .most_names = 2,
};
