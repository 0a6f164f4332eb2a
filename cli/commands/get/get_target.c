/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensor coffer get is asked for, and which part of it. */
#include "get.h"

#include "cli_nearest.h"
#include "cli_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name as it is and, failing that, as coffer ls shows it: a NUL cannot be typed. */
static const coffer_tensor *find_tensor(const coffer *model, const char *name, size_t name_len)
{
    const coffer_tensor *tensor = coffer_find(model, name, name_len);
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

static int unknown_tensor(cli *app, const char *path, const coffer *model, const char *name, size_t name_len)
{
    coffer_error err = { .code = COFFER_ERR_NO_TENSOR, .offset = COFFER_NO_OFFSET };
    if (memchr(name, '*', name_len) != NULL || memchr(name, '?', name_len) != NULL) {
        coffer_escape(name, name_len, err.tensor, sizeof err.tensor);
        snprintf(err.message, sizeof err.message,
                 "no tensor is named \"%.100s\"; what a pattern matches goes to a file of tensors: -o FILE.safetensors",
                 err.tensor);
        return cli_fail(app, path, &err);
    }
    cli_nearest_say(model, name, name_len, &err);
    return cli_fail(app, path, &err);
}

int get_find(get_request *request, const char *argument)
{
    const char *bracket = strrchr(argument, '[');
    size_t name_len = strlen(argument);
    request->slice = NULL;
    request->tensor = find_tensor(request->model, argument, name_len);
    if (request->tensor == NULL && bracket != NULL) {
        name_len = (size_t)(bracket - argument);
        request->slice = bracket;
        request->tensor = find_tensor(request->model, argument, name_len);
    }
    return request->tensor != NULL ? CLI_EXIT_OK
                                   : unknown_tensor(request->app, request->path, request->model, argument, name_len);
}

coffer_status get_indices(const get_request *request, coffer_index **indices, size_t *count, coffer_error *err)
{
    const size_t text_len = request->slice != NULL ? strlen(request->slice) : 0;
    *count = 1;
    for (size_t i = 0; i < text_len; i++) {
        *count += request->slice[i] == ',';
    }
    *indices = malloc(*count * sizeof **indices);
    if (*indices == NULL) {
        return cli_no_memory(err);
    }
    if (request->slice == NULL) {
        *count = 0;
        return COFFER_OK;
    }
    const coffer_status status = coffer_slice_parse(request->slice, text_len, *indices, count, err);
    if (status != COFFER_OK) {
        free(*indices);
        *indices = NULL;
    }
    if (status == COFFER_ERR_SLICE_SYNTAX) {
        err->offset = COFFER_NO_OFFSET; /* a place in the slice's text, which is no byte of the file */
    }
    return status;
}
