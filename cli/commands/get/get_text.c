/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor as text or JSON.
 *
 * It is written by an odometer over the dimensions instead of by recursion, because a header may
 * state any rank. For text it runs twice: first to find how wide the columns must be, then to
 * write.
 */
#include "get.h"

#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"
#include "cli_values.h"

#include <stdlib.h>
#include <string.h>

#define CUT_ABOVE 1000     /* elements; more are cut in the middle of each dimension */
#define EDGE 3             /* indices shown at each end of a dimension that is cut */
#define ALIGN_MAX 10000    /* elements; more are not aligned in columns, which would read everything twice */
#define LINE_WIDTH 79      /* where rows that are shown whole are broken, if not by a terminal's width */
#define CUT_WIDTH 119      /* rows that are cut have few elements, and read better unbroken */
#define UNALIGNED_WIDTH 12 /* space kept for an element whose width is not known */
#define INDENT_MAX 16
#define BLOCK_WHOLE 65536 /* elements read at a time when all are shown */
#define BLOCK_CUT 8       /* and when only edges are */

typedef struct get_printer {
    const get_request *request;
    cli_output *out;
    cli_view *view;
    uint64_t *position; /* of the row that is written: an index for each axis */
    bool cut;           /* show the edges only */
    bool measuring;     /* write nothing, find the width */
    size_t width;       /* of a column; 0: as wide as each element is */
    size_t column;      /* where the line stands */
    coffer_error *err;
} get_printer;

static bool is_json(const get_printer *printer)
{
    return printer->request->format == GET_JSON;
}

static void print_text(get_printer *printer, const char *text, size_t len)
{
    if (!printer->measuring) {
        cli_put(printer->out, text, len);
        printer->column += len;
    }
}

static void print_repeat(get_printer *printer, char c, size_t count)
{
    if (!printer->measuring) {
        cli_put_repeat(printer->out, c, count);
        printer->column += count;
    }
}

static void print_new_line(get_printer *printer, size_t lines, size_t indent)
{
    print_repeat(printer, '\n', lines);
    printer->column = 0;
    print_repeat(printer, ' ', indent < INDENT_MAX ? indent : INDENT_MAX);
}

/* The index shown after `index`; *skipped tells that some are left out between. */
static uint64_t next_shown(const get_printer *printer, const cli_axis *axis, uint64_t index, bool *skipped)
{
    *skipped = printer->cut && axis->count > 2 * EDGE && index == EDGE - 1;
    return *skipped ? axis->count - EDGE : index + 1;
}

/* An element, converted when that was asked for. */
static size_t element_text(const get_printer *printer, char text[CLI_VALUE_SIZE], const void *data, uint64_t at)
{
    const coffer_dtype dtype = printer->view->tensor->dtype;
    const coffer_dtype as = printer->request->as;
    double value = 0;
    unsigned char bytes[sizeof value];
    if (as == dtype) {
        return cli_value_text(text, dtype, data, at, is_json(printer));
    }
    coffer_decode(dtype, data, at, 1, &value);
    coffer_encode(as, &value, 1, bytes);
    return cli_value_text(text, as, bytes, 0, is_json(printer));
}

/* While measuring, nothing is printed: only the longest text counts. */
static coffer_status print_element(get_printer *printer, uint64_t element)
{
    char text[CLI_VALUE_SIZE];
    const void *data = NULL;
    uint64_t at = 0;
    const coffer_status status = cli_view_need(printer->view, element, &data, &at, printer->err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t len = element_text(printer, text, data, at);
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
    const size_t usual = printer->cut ? CUT_WIDTH : LINE_WIDTH;
    const size_t most = printer->out->width > 0 ? printer->out->width - 1 : usual;
    const size_t next = printer->width > 0 ? printer->width : UNALIGNED_WIDTH;
    print_text(printer, ",", 1);
    if (!is_json(printer) && printer->column + next + 2 > most) {
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
    while (index < axis->count && printer->out->error == 0) {
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
    const size_t lines = closed > 1 && !is_json(printer) ? 2 : 1;
    print_text(printer, ",", 1);
    print_new_line(printer, lines, outer);
    if (skipped) {
        print_text(printer, "...,", 4);
        print_new_line(printer, lines, outer);
    }
}

/* Row by row. `closed` is how many axes ended with the last row: as many brackets close there, and open
   before the next one. */
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
    while (printer->out->error == 0) {
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

/* Elements are aligned when there are few: that takes a walk over them that only measures. */
static coffer_status print_view(get_printer *printer)
{
    coffer_status status = COFFER_OK;
    if (!is_json(printer) && count_shown(printer->view, printer->cut) <= ALIGN_MAX) {
        printer->measuring = true;
        status = print_all(printer);
        printer->measuring = false;
    }
    return status == COFFER_OK ? print_all(printer) : status;
}

static void json_head(const get_request *request, const cli_view *view, cli_output *out)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, request->path);
    cli_json_key(out, "name");
    cli_json_string_n(out, request->tensor->name, request->tensor->name_len);
    cli_json_key(out, "slice");
    if (request->slice != NULL) {
        cli_json_string(out, request->slice);
    } else {
        cli_json_null(out);
    }
    cli_json_key(out, "dtype");
    cli_json_string(out, coffer_dtype_name(request->as));
    cli_json_key(out, "shape");
    cli_json_open(out, '[', false);
    for (size_t i = 0; i < view->rank; i++) {
        cli_json_number(out, view->axes[i].count);
    }
    cli_json_close(out, ']');
    cli_json_key(out, "values");
    cli_json_raw(out, "");
}

static void remark_cut(cli *app, uint64_t shown, uint64_t elements)
{
    char few[CLI_NUMBER_SIZE];
    char many[CLI_NUMBER_SIZE];
    if (shown < elements) {
        cli_number_text(few, shown, true);
        cli_number_text(many, elements, true);
        cli_remark(app, "cut: %s of %s elements shown; --all shows all", few, many);
    }
}

/* Text is cut when it is long, unless it goes to a file or all was asked for. */
static bool is_cut(const get_request *request, uint64_t elements)
{
    return request->format == GET_TEXT && !request->all && request->output == NULL && elements > CUT_ABOVE;
}

uint64_t get_text_block(const get_request *request)
{
    return is_cut(request, coffer_tensor_elements(request->tensor)) ? BLOCK_CUT : BLOCK_WHOLE;
}

int get_write_text(const get_request *request, cli_view *view, cli_output *out)
{
    coffer_error err;
    const void *data = NULL;
    uint64_t at = 0;
    get_printer printer = { .request = request, .out = out, .view = view, .err = &err };
    printer.cut = is_cut(request, view->elements);
    printer.position = malloc((view->rank + 1) * sizeof *printer.position);
    if (printer.position == NULL) {
        return cli_fail_memory(request->app, request->path);
    }
    /* What cannot be read at all fails here, before the answer has begun. */
    if (view->elements > 0 && cli_view_need(view, 0, &data, &at, &err) != COFFER_OK) {
        free(printer.position);
        return cli_fail(request->app, request->path, &err);
    }
    if (request->format == GET_JSON) {
        json_head(request, view, out);
    }
    const coffer_status status = print_view(&printer);
    free(printer.position);
    if (status != COFFER_OK) {
        /* Some of the values are out already: no whole answer is possible any more, and the exit code says so. */
        cli_put_char(out, '\n');
        request->app->json = false;
        return cli_fail(request->app, request->path, &err);
    }
    if (request->format == GET_JSON) {
        cli_json_close(out, '}');
    } else {
        cli_put_char(out, '\n');
    }
    remark_cut(request->app, count_shown(view, printer.cut), view->elements);
    return CLI_EXIT_OK;
}
