/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensor coffer get is asked for, and which part of it. */
#include "get.h"

#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAREST_MAX 3

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

/* Lower is nearer; a name that holds what was asked for, whole, is nearer than one that is spelt alike. */
static size_t name_distance(const coffer_tensor *tensor, const char *asked, size_t asked_len, size_t limit)
{
    if (asked_len >= 3 && strlen(tensor->name) == tensor->name_len && strstr(tensor->name, asked) != NULL) {
        return 0;
    }
    return cli_distance(tensor->name, tensor->name_len, asked, asked_len, limit);
}

/* Writes up to NEAREST_MAX names that were probably meant into the message. */
static void suggest_names(const coffer *model, const char *asked, size_t asked_len, char *text, size_t size)
{
    const coffer_tensor *nearest[NEAREST_MAX] = { NULL };
    size_t distances[NEAREST_MAX];
    size_t found = 0;
    const size_t limit = cli_distance_limit(asked_len);
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const size_t distance = name_distance(tensor, asked, asked_len, limit);
        size_t place = found;
        while (place > 0 && distances[place - 1] > distance) {
            place--;
        }
        if (distance > limit || place == NEAREST_MAX) {
            continue;
        }
        found += found < NEAREST_MAX;
        for (size_t k = found - 1; k > place; k--) {
            nearest[k] = nearest[k - 1];
            distances[k] = distances[k - 1];
        }
        nearest[place] = tensor;
        distances[place] = distance;
    }
    size_t used = (size_t)snprintf(text, size, "%s", found > 0 ? "; did you mean " : "; coffer ls shows all names");
    /* Names that hold what was asked for leave no space for those that are only spelt alike. */
    for (size_t i = 0; i < found && used < size && (distances[0] > 0 || distances[i] == 0); i++) {
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
