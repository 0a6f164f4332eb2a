/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by dtype: see cli_sums.h for the contract. */
#include "cli_sums.h"

#include "cli_columns.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_shares(const void *left, const void *right)
{
    const cli_share *a = left;
    const cli_share *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    if (a->tensors != b->tensors) {
        return a->tensors > b->tensors ? -1 : 1;
    }
    return a->dtype < b->dtype ? -1 : a->dtype > b->dtype;
}

void cli_sums_add(cli_sums *sums, const coffer_tensor *tensor)
{
    cli_share *share = &sums->shares[tensor->dtype];
    const uint64_t elements = coffer_tensor_elements(tensor);
    share->tensors++;
    share->elements += elements;
    share->bytes += tensor->size;
    sums->tensors++;
    sums->elements += elements;
    sums->bytes += tensor->size;
}

void cli_sums_finish(cli_sums *sums)
{
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        if (sums->shares[i].tensors > 0) {
            sums->shares[sums->share_count] = sums->shares[i];
            sums->shares[sums->share_count++].dtype = (coffer_dtype)i;
        }
    }
    qsort(sums->shares, sums->share_count, sizeof sums->shares[0], compare_shares);
}

void cli_sums_of(const coffer *model, cli_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    for (size_t i = 0; i < coffer_count(model); i++) {
        cli_sums_add(sums, coffer_at(model, i));
    }
    cli_sums_finish(sums);
}

static void number_cell(cli_columns *columns, uint64_t number, const char *one, const char *many)
{
    char digits[CLI_NUMBER_SIZE];
    char text[2 * CLI_NUMBER_SIZE];
    cli_number_text(digits, number, true);
    snprintf(text, sizeof text, "%s %s", digits, number == 1 ? one : many);
    cli_columns_text(columns, text);
}

static void show_rows(cli_columns *columns, const cli_sums *sums)
{
    for (size_t i = 0; i < sums->share_count; i++) {
        const cli_share *share = &sums->shares[i];
        char bytes[CLI_NUMBER_SIZE];
        cli_bytes_text(bytes, share->bytes);
        cli_columns_text(columns, coffer_dtype_name(share->dtype));
        number_cell(columns, share->tensors, "tensor ", "tensors");
        number_cell(columns, share->elements, "parameter ", "parameters");
        cli_columns_text(columns, bytes);
    }
}

void cli_sums_show(cli_output *out, const cli_sums *sums, const char *label, size_t indent)
{
    cli_columns columns = { .out = out, .count = 4, .indent = indent, .label = label, .measuring = true };
    columns.right[1] = columns.right[2] = columns.right[3] = true;
    show_rows(&columns, sums);
    cli_columns_fit(&columns);
    show_rows(&columns, sums);
}

void cli_json_dtypes(cli_output *out, const cli_sums *sums)
{
    cli_json_key(out, "dtypes");
    cli_json_open(out, '{', true);
    for (size_t i = 0; i < sums->share_count; i++) {
        const cli_share *share = &sums->shares[i];
        cli_json_key(out, coffer_dtype_name(share->dtype));
        cli_json_open(out, '{', false);
        cli_json_put_number(out, "tensors", share->tensors);
        cli_json_put_number(out, "parameters", share->elements);
        cli_json_put_number(out, "bytes", share->bytes);
        cli_json_close(out, '}');
    }
    cli_json_close(out, '}');
}
