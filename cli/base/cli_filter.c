/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors a command is about: see cli_filter.h for the contract. */
#include "cli_filter.h"

#include "cli_nearest.h"
#include "cli_report.h"

#include <stdlib.h>
#include <string.h>

/* Space for what --except says, with a `!` before it. */
static size_t excepted_size(const cli_arguments *arguments)
{
    size_t size = 1;
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_choice *choice = &arguments->choices[i];
        size += choice->option->id == CLI_OPTION_EXCEPT ? strlen(choice->value) + 2 : 0;
    }
    return size;
}

/* Adds the patterns that begin with a `!`, or the others. */
static void add_patterns(cli_filter *filter, const cli_arguments *arguments, size_t first, bool excluding)
{
    for (size_t i = first; i < arguments->name_count; i++) {
        if ((arguments->names[i][0] == '!') == excluding) {
            filter->patterns[filter->count++] = arguments->names[i];
        }
    }
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_choice *choice = &arguments->choices[i];
        if (choice->option->id == CLI_OPTION_FILTER && (choice->value[0] == '!') == excluding) {
            filter->patterns[filter->count++] = choice->value;
        }
    }
}

static void add_excepted(cli_filter *filter, const cli_arguments *arguments)
{
    char *text = filter->texts;
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_choice *choice = &arguments->choices[i];
        if (choice->option->id == CLI_OPTION_EXCEPT) {
            const size_t size = strlen(choice->value) + 1;
            filter->patterns[filter->count++] = text;
            *text++ = '!';
            memcpy(text, choice->value, size);
            text += size;
        }
    }
}

bool cli_filter_init(cli_filter *filter, cli *app, const cli_arguments *arguments, size_t first)
{
    *filter = (cli_filter){ .count = 0 };
    filter->patterns = calloc(arguments->name_count + arguments->choice_count + 1, sizeof *filter->patterns);
    filter->texts = malloc(excepted_size(arguments));
    if (filter->patterns == NULL || filter->texts == NULL) {
        (void)cli_fail_memory(app, arguments->names[0]);
        return false;
    }
    add_patterns(filter, arguments, first, false);
    filter->taking = filter->count;
    add_patterns(filter, arguments, first, true);
    add_excepted(filter, arguments);
    return true;
}

void cli_filter_free(cli_filter *filter)
{
    free(filter->patterns);
    free(filter->texts);
    *filter = (cli_filter){ .count = 0 };
}

bool cli_filter_takes(const cli_filter *filter, const coffer_tensor *tensor)
{
    return coffer_match_list(filter->patterns, filter->count, tensor->name, tensor->name_len);
}

const char *cli_filter_idle(const cli_filter *filter, const coffer *model)
{
    for (size_t i = 0; i < filter->count; i++) {
        const char *pattern = filter->patterns[i] + (filter->patterns[i][0] == '!');
        if (!cli_has_match(model, pattern)) {
            return pattern;
        }
    }
    return NULL;
}

int cli_filter_fail(cli *app, const char *path, const coffer *model, const char *pattern)
{
    coffer_error err = { .code = COFFER_ERR_NO_TENSOR, .offset = COFFER_NO_OFFSET };
    cli_nearest_say(model, pattern, strlen(pattern), &err);
    return cli_fail(app, path, &err);
}
