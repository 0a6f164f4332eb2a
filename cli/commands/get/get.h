/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer get: which tensor and which part of it, and the ways to write it. */
#ifndef COFFER_GET_H
#define COFFER_GET_H

#include "cli_command.h"
#include "cli_view.h"
#include "coffer.h"

/* In the order of --format's values, of which the last are formats of tensors. */
typedef enum get_format { GET_TEXT = 0, GET_JSON, GET_NPY, GET_RAW, GET_TENSORS } get_format;

/* What is asked for. */
typedef struct get_request {
    cli *app;
    const char *path;
    const coffer *model;
    const coffer_tensor *tensor;
    const char *slice; /* from the bracket on, or NULL */
    coffer_dtype as;   /* the elements' dtype in the answer: the tensor's, or that of --as */
    get_format format;
    coffer_format tensors; /* of GET_TENSORS */
    const char *output;    /* the file of --output; NULL: standard output */
    bool all;              /* of text: cut nothing */
} get_request;

/* Finds the tensor that `argument` names, with or without a slice after it: by the name as it is
   and, failing that, by the name as coffer ls shows it. On failure reports it, with the nearest
   names, and returns the exit code. */
int get_find(get_request *request, const char *argument);
/* The indices of the slice in memory of the caller's, who frees it on success. */
coffer_status get_indices(const get_request *request, coffer_index **indices, size_t *count, coffer_error *err);

/* Elements that a view for text reads at a time. */
uint64_t get_text_block(const get_request *request);
/* Writes text or JSON to `out`. Returns the exit code. */
int get_write_text(const get_request *request, cli_view *view, cli_output *out);
/* Whether a dtype can be in a .npy file. */
bool get_has_npy(coffer_dtype dtype);
/* Writes .npy or raw bytes to `out`. */
coffer_status get_write_binary(const get_request *request, cli_view *view, cli_output *out, coffer_error *err);
/* Writes a file of this one tensor, in a format of tensors, to the file or standard output. */
coffer_status get_write_file(const get_request *request, cli_view *view, coffer_error *err);

#endif
