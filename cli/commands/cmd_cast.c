/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer cast PATH GLOB=DTYPE...: floats of another dtype. Pieces of the tensors are read, decoded, encoded with one correct
 * rounding, and written, by several threads; what became infinite or zero on the way is counted.
 */
#include "cli_names.h"
#include "cli_parallel.h"
#include "cli_pieces.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- The plan ---- */

/* The dtype behind the last =, in any case of letters; COFFER_UNKNOWN_DTYPE for what is none to cast to. */
static coffer_dtype read_dtype(const char *text)
{
    char name[16] = "";
    for (size_t i = 0; i + 1 < sizeof name && text[i] != '\0'; i++) {
        name[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]);
    }
    const coffer_dtype dtype = coffer_dtype_from_name(name, strlen(name));
    const bool can = dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32 || dtype == COFFER_F64;
    return can ? dtype : COFFER_UNKNOWN_DTYPE;
}

static int refuse_tensor(const cli_rewrite *rewrite, const coffer_tensor *tensor)
{
    char shown[160];
    coffer_escape(tensor->name, tensor->name_len, shown, sizeof shown);
    return cli_rewrite_refuse(rewrite, COFFER_ERR_DTYPE,
                              "tensor \"%s\" is %s, and only floats can be cast: choose a pattern that leaves it out",
                              shown, coffer_tensor_dtype_name(tensor));
}

/* Plans one GLOB=DTYPE. What an earlier one has taken is left alone: the first one counts. */
static int plan(cli_rewrite *rewrite, const char *glob, coffer_dtype dtype, bool *taken)
{
    bool found = false;
    for (size_t i = 0; i < rewrite->count; i++) {
        cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        const coffer_tensor *from = tensor->from;
        if (!cli_matches(glob, from->name, from->name_len)) {
            continue;
        }
        found = true;
        if (taken[i]) {
            continue;
        }
        taken[i] = true;
        if (coffer_dtype_kind(from->dtype) != COFFER_KIND_FLOAT) {
            return refuse_tensor(rewrite, from);
        }
        tensor->dtype = dtype;
        rewrite->needed = rewrite->needed || dtype != from->dtype;
    }
    return found ? CLI_EXIT_OK : cli_rewrite_no_match(rewrite, glob);
}

/* ---- Casting ---- */

/* What came of a piece. */
typedef struct cast_result {
    coffer_status status;
    coffer_error err;
    uint64_t overflowed;
    uint64_t vanished;
} cast_result;

typedef struct cast_run {
    cli_rewrite *rewrite;
    coffer_writer *writer;
    cli_progress *progress;
    cli_piece *pieces;
    cast_result *results; /* by piece */
    size_t piece_count;
    atomic_bool failed; /* the rest need not be done */
    coffer_status status;
    coffer_error *err;
} cast_run;

/* What became infinite, and what became zero, judged by what can be read back. */
static void count_losses(cast_result *result, const double *values, const double *back, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        result->overflowed += isinf(back[i]) && !isinf(values[i]);
        result->vanished += back[i] == 0 && values[i] != 0;
    }
}

static void cast_elements(const cli_rewrite_tensor *tensor, size_t elements, const void *from, unsigned char *to,
                          cast_result *result)
{
    double values[CLI_BLOCK_ELEMENTS];
    double back[CLI_BLOCK_ELEMENTS];
    for (size_t done = 0; done < elements; done += CLI_BLOCK_ELEMENTS) {
        const size_t left = elements - done;
        const size_t count = left < CLI_BLOCK_ELEMENTS ? left : CLI_BLOCK_ELEMENTS;
        unsigned char *into = to + cli_elements_size(tensor->dtype, done);
        coffer_decode(tensor->from->dtype, from, done, count, values);
        coffer_encode(tensor->dtype, values, count, into);
        coffer_decode(tensor->dtype, into, 0, count, back);
        count_losses(result, values, back, count);
    }
}

static coffer_status cast_piece(const cast_run *run, const cli_piece *piece, cast_result *result)
{
    const cli_rewrite_tensor *tensor = &run->rewrite->tensors[piece->item];
    const uint64_t size = cli_elements_size(tensor->dtype, piece->count);
    void *to = malloc((size_t)size);
    if (to == NULL) {
        return cli_no_memory(&result->err);
    }
    void *from = cli_read_piece(run->rewrite->model, tensor->from, piece, &result->err);
    coffer_status status = from == NULL ? result->err.code : COFFER_OK;
    if (status == COFFER_OK) {
        cast_elements(tensor, piece->count, from, to, result);
        status = coffer_writer_write(run->writer, tensor->to, cli_elements_size(tensor->dtype, piece->first), to, size,
                                     &result->err);
    }
    free(from);
    free(to);
    return status;
}

/* Runs on any thread. */
static void work(void *ctx, size_t job)
{
    cast_run *run = ctx;
    if (atomic_load(&run->failed)) {
        return;
    }
    cast_result *result = &run->results[job];
    result->status = cast_piece(run, &run->pieces[job], result);
    if (result->status != COFFER_OK) {
        atomic_store(&run->failed, true);
    }
}

static void deliver(void *ctx, size_t job)
{
    cast_run *run = ctx;
    const cast_result *result = &run->results[job];
    cli_rewrite_tensor *tensor = &run->rewrite->tensors[run->pieces[job].item];
    /* Once the writer has failed, it refuses what other threads bring as a wrong call: what it failed of is what counts. */
    const bool is_cause = run->status == COFFER_OK || run->status == COFFER_ERR_ARGUMENT;
    if (is_cause && result->status != COFFER_OK) {
        run->status = result->status;
        *run->err = result->err;
    }
    tensor->overflowed += result->overflowed;
    tensor->vanished += result->vanished;
    cli_progress_add(run->progress, cli_elements_size(tensor->dtype, run->pieces[job].count));
}

/* Cuts what is cast into pieces; false without memory. */
static bool cut(cast_run *run)
{
    const cli_rewrite *rewrite = run->rewrite;
    uint64_t *elements = calloc(rewrite->count + 1, sizeof *elements);
    for (size_t i = 0; i < rewrite->count && elements != NULL; i++) {
        const cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        elements[i] = tensor->dtype == tensor->from->dtype ? 0 : coffer_tensor_elements(tensor->from);
    }
    run->pieces = elements != NULL ? cli_cut(elements, rewrite->count, &run->piece_count) : NULL;
    run->results = calloc(run->piece_count + 1, sizeof *run->results);
    free(elements);
    return run->pieces != NULL && run->results != NULL;
}

/* Says once for all tensors what was lost. */
static void warn(const cli_rewrite *rewrite)
{
    uint64_t overflowed = 0;
    uint64_t vanished = 0;
    char text[2][CLI_NUMBER_SIZE];
    for (size_t i = 0; i < rewrite->count; i++) {
        overflowed += rewrite->tensors[i].overflowed;
        vanished += rewrite->tensors[i].vanished;
    }
    if (overflowed + vanished > 0) {
        cli_number_text(text[0], overflowed, true);
        cli_number_text(text[1], vanished, true);
        cli_remark_path(rewrite->app, rewrite->path,
                        "warning: %s numbers became infinite and %s became zero; --json says in which tensors", text[0],
                        text[1]);
    }
}

static coffer_status cancelled(coffer_error *err)
{
    *err = (coffer_error){ .code = COFFER_ERR_CANCELLED, .offset = COFFER_NO_OFFSET, .message = "cancelled" };
    return COFFER_ERR_CANCELLED;
}

static coffer_status convert(cli_rewrite *rewrite, coffer_writer *writer, cli_progress *progress, coffer_error *err)
{
    cast_run run = { .rewrite = rewrite, .writer = writer, .progress = progress, .err = err };
    if (cut(&run)) {
        const cli_jobs jobs = { work, deliver, &run };
        const size_t done = cli_parallel(&jobs, run.piece_count, cli_processors());
        if (run.status == COFFER_OK && done < run.piece_count) {
            run.status = cancelled(err);
        }
    } else {
        run.status = cli_no_memory(err);
    }
    free(run.results);
    free(run.pieces);
    if (run.status == COFFER_OK) {
        warn(rewrite);
    }
    return run.status;
}

/* ---- The command ---- */

static int read_rule(cli *app, const char *text, char *glob, coffer_dtype *dtype)
{
    char shown[128];
    const char *equals = strrchr(text, '=');
    coffer_escape(text, strlen(text), shown, sizeof shown);
    if (equals == NULL) {
        return cli_usage_error(app, "\"%s\" has no =; cast wants GLOB=DTYPE, such as '*=BF16'", shown);
    }
    *dtype = read_dtype(equals + 1);
    if (*dtype == COFFER_UNKNOWN_DTYPE) {
        return cli_usage_error(app, "\"%s\": the dtype is to be F16, BF16, F32 or F64", shown);
    }
    memcpy(glob, text, (size_t)(equals - text));
    glob[equals - text] = '\0';
    return CLI_EXIT_OK;
}

static int plan_all(cli_rewrite *rewrite, const cli_arguments *arguments, bool *taken)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 1; i < arguments->name_count && code == CLI_EXIT_OK; i++) {
        coffer_dtype dtype = COFFER_UNKNOWN_DTYPE;
        char *glob = malloc(strlen(arguments->names[i]) + 1);
        if (glob == NULL) {
            return cli_fail_memory(rewrite->app, rewrite->path);
        }
        code = read_rule(rewrite->app, arguments->names[i], glob, &dtype);
        code = code == CLI_EXIT_OK ? plan(rewrite, glob, dtype, taken) : code;
        free(glob);
    }
    return code;
}

static int run_cast(cli *app, const cli_arguments *arguments)
{
    cli_rewrite rewrite;
    int code = cli_rewrite_open(&rewrite, app, arguments);
    if (code == CLI_EXIT_OK) {
        bool *taken = calloc(rewrite.count + 1, sizeof *taken);
        rewrite.convert = convert;
        rewrite.nothing = "its tensors have these dtypes already";
        code = taken != NULL ? plan_all(&rewrite, arguments, taken) : cli_fail_memory(app, rewrite.path);
        free(taken);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_run(&rewrite);
    }
    cli_rewrite_close(&rewrite);
    return code;
}

static const cli_option CAST_OPTIONS[] = {
    CLI_OPTION_ROW_OUTPUT, CLI_OPTION_ROW_DRY_RUN, CLI_OPTION_ROW_IN_PLACE, CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST, CLI_OPTION_ROW_JSON,    CLI_OPTION_ROW_END,
};

static const cli_example CAST_EXAMPLES[] = {
    { "coffer cast model.safetensors '*=BF16' -o half.safetensors", "every tensor to BF16" },
    { "coffer cast model.safetensors '*norm*=F32' '*=F16' --in-place", "all to F16, except norms to F32" },
    { NULL, NULL },
};

const cli_command cli_cast = {
    .name = "cast",
    .run = run_cast,
    .summary = "rewrite a file with floats of another dtype",
    .usage = "PATH GLOB=DTYPE...",
    .about = "Casts the tensors whose names match a pattern, as in coffer drop, to F16, BF16, F32 or F64, from any\n"
             "float, including those of 4, 6 and 8 bits. Numbers are rounded to nearest, ties to even; numbers\n"
             "that are too large become infinite, which a warning counts. The first pattern that matches is used.\n"
             "Integers, BOOL and C64 are refused. Every pattern has to match something, or nothing is done. Before\n"
             "PATH itself is rewritten, the command asks on a terminal; otherwise --in-place or -f allows it.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, from, to, overflowed, vanished}], the last two\n"
             "being the numbers that became infinite and zero.\n",
    .options = CAST_OPTIONS,
    .examples = CAST_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
