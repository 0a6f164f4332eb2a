/* SPDX-License-Identifier: Apache-2.0 */
/* Names that were probably meant: see cli_nearest.h for the contract. */
#include "cli_nearest.h"

#include "cli_text.h"

#include <stdio.h>
#include <string.h>

#define NEAREST_MAX 3

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
    size_t used = (size_t)snprintf(text, size, "%s", found > 0 ? "; did you mean " : "; coffer ls shows the names");
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

bool cli_is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

bool cli_has_match(const coffer *model, const char *pattern)
{
    const size_t count = coffer_count(model);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (coffer_match(pattern, tensor->name, tensor->name_len)) {
            return true;
        }
    }
    return false;
}

/* A text without what makes it a pattern is a name. */
void cli_nearest_say(const coffer *model, const char *name, size_t name_len, coffer_error *err)
{
    char asked[129];
    char shown[sizeof err->tensor];
    char suggestions[sizeof err->message - 160];
    const size_t asked_len = cli_cut_at_character(name, name_len, sizeof asked - 1);
    memcpy(asked, name, asked_len);
    asked[asked_len] = '\0';
    err->code = COFFER_ERR_NO_TENSOR;
    const bool pattern = cli_is_pattern(asked);
    coffer_escape(name, name_len, shown, sizeof shown);
    suggest_names(model, asked, asked_len, suggestions, sizeof suggestions);
    snprintf(err->message, sizeof err->message,
             pattern ? "no tensor has a name that matches \"%.100s\"%s" : "no tensor \"%.100s\"%s", shown, suggestions);
    snprintf(err->tensor, sizeof err->tensor, "%s", pattern ? "" : shown);
}
