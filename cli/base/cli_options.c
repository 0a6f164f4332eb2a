/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of options: see cli_options.h for what it understands. */
#include "cli_options.h"

#include "cli_formats.h"
#include "cli_report.h"
#include "cli_text.h"
#include "coffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The words that are still to be read. */
typedef struct word_list {
    char **words;
    size_t count;
    size_t next;
} word_list;

static const cli_option *option_by_name(const cli_command *command, const char *name, size_t name_len)
{
    const cli_option *option = NULL;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        if (strlen(option->name) == name_len && memcmp(option->name, name, name_len) == 0) {
            return option;
        }
    }
    for (size_t i = 0; (option = cli_old_option_at(command, i)) != NULL; i++) {
        if (strlen(option->name) == name_len && memcmp(option->name, name, name_len) == 0) {
            return option;
        }
    }
    return NULL;
}

static const cli_option *option_by_letter(const cli_command *command, char letter)
{
    const cli_option *option = NULL;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        if (option->letter == letter) {
            return option;
        }
    }
    for (size_t i = 0; (option = cli_old_option_at(command, i)) != NULL; i++) {
        if (option->letter == letter) {
            return option;
        }
    }
    return NULL;
}

/* What somebody may not know who gives an option before a command. */
static const char *hint_of_place(const cli_command *command)
{
    return command == &cli_top ? "; the options of a command follow its name" : "";
}

static int unknown_option(cli *app, const cli_command *command, const char *name, size_t name_len)
{
    const cli_option *nearest = NULL;
    const cli_option *option = NULL;
    size_t best = cli_distance_limit(name_len) + 1;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        const size_t distance = cli_distance(name, name_len, option->name, strlen(option->name), best);
        if (distance < best) {
            best = distance;
            nearest = option;
        }
    }
    char shown[128];
    coffer_escape(name, name_len, shown, sizeof shown);
    if (nearest == NULL) {
        return cli_usage_error(app, "unknown option --%s%s", shown, hint_of_place(command));
    }
    return cli_usage_error(app, "unknown option --%s; did you mean --%s?", shown, nearest->name);
}

/* Which of "name|offset|size" a value is, in upper or lower case; -1: none. */
static int place_among(const char *values, const char *value)
{
    const size_t value_len = strlen(value);
    int place = 0;
    for (const char *next = values; next != NULL; next = strchr(next, '|')) {
        next += *next == '|';
        if (strcspn(next, "|") == value_len && strncasecmp(next, value, value_len) == 0) {
            return place;
        }
        place++;
    }
    return -1;
}

/* "name|offset|size" as people write it: "name, offset or size". */
static void list_values(const char *values, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    while (*values != '\0' && used < size) {
        const size_t value_len = strcspn(values, "|");
        const char *rest = values + value_len + (values[value_len] == '|');
        const char *separator = *rest == '\0' ? "" : strchr(rest, '|') != NULL ? ", " : " or ";
        used += (size_t)snprintf(text + used, size - used, "%.*s%s", (int)value_len, values, separator);
        values = rest;
    }
}

static int choose(cli *app, cli_arguments *arguments, const cli_option *option, const char *value)
{
    char capacity[CLI_VALUES_SIZE];
    const char *values = cli_option_values(option, capacity);
    if (value != NULL && values != NULL && place_among(values, value) < 0) {
        char known[2 * CLI_VALUES_SIZE];
        list_values(values, known, sizeof known);
        return cli_usage_error(app, "--%s needs %s", option->name, known);
    }
    arguments->choices[arguments->choice_count].option = option;
    arguments->choices[arguments->choice_count].value = value;
    arguments->choice_count++;
    return CLI_EXIT_OK;
}

static int missing_value(cli *app, const cli_option *option)
{
    return cli_usage_error(app, "--%s needs a value: --%s %s", option->name, option->name, option->argument);
}

/* A word that begins with two dashes; `word` is what follows them. */
static int parse_long(cli *app, const cli_command *command, const char *word, word_list *list, cli_arguments *arguments)
{
    const char *equals = strchr(word, '=');
    const size_t name_len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const cli_option *option = option_by_name(command, word, name_len);
    if (option == NULL) {
        return unknown_option(app, command, word, name_len);
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (option->argument == NULL && value != NULL) {
        return cli_usage_error(app, "--%s takes no value", option->name);
    }
    if (option->argument != NULL && value == NULL) {
        if (list->next == list->count) {
            return missing_value(app, option);
        }
        value = list->words[list->next++];
    }
    return choose(app, arguments, option, value);
}

/* A word that begins with one dash: letters, the last of which may have a value. */
static int parse_letters(cli *app, const cli_command *command, const char *word, word_list *list,
                         cli_arguments *arguments)
{
    for (const char *letter = word; *letter != '\0'; letter++) {
        const cli_option *option = option_by_letter(command, *letter);
        if (option == NULL) {
            char shown[64];
            const size_t size = cli_cut_at_character(letter, strlen(letter), 4);
            uint32_t code = 0;
            const size_t character = cli_read_character(letter, size, &code);
            coffer_escape(letter, character > 0 ? character : 1, shown, sizeof shown);
            return cli_usage_error(app, "unknown option -%s%s", shown, hint_of_place(command));
        }
        if (option->argument == NULL) {
            choose(app, arguments, option, NULL);
            continue;
        }
        const char *value = letter[1] != '\0' ? letter + 1 : NULL;
        if (value == NULL && list->next == list->count) {
            return missing_value(app, option);
        }
        return choose(app, arguments, option, value != NULL ? value : list->words[list->next++]);
    }
    return CLI_EXIT_OK;
}

int cli_parse_arguments(cli *app, const cli_command *command, size_t count, char **words, cli_arguments *arguments)
{
    word_list list = { words, count, 0 };
    bool names_only = false;
    size_t letters = count;
    for (size_t i = 0; i < count; i++) {
        letters += strlen(words[i]); /* -xyz is one word and three options */
    }
    arguments->name_count = 0;
    arguments->choice_count = 0;
    arguments->names = malloc((count + 1) * sizeof *arguments->names);
    arguments->choices = malloc((letters + 1) * sizeof *arguments->choices);
    if (arguments->names == NULL || arguments->choices == NULL) {
        cli_free_arguments(arguments);
        cli_say(app, "out of memory");
        return CLI_EXIT_UNREADABLE;
    }
    int code = CLI_EXIT_OK;
    while (code == CLI_EXIT_OK && list.next < list.count && !cli_given(arguments, CLI_OPTION_HELP)) {
        const char *word = list.words[list.next++];
        if (names_only || word[0] != '-' || word[1] == '\0') {
            arguments->names[arguments->name_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            names_only = true;
        } else if (word[1] == '-') {
            code = parse_long(app, command, word + 2, &list, arguments);
        } else {
            code = parse_letters(app, command, word + 1, &list, arguments);
        }
    }
    if (code != CLI_EXIT_OK) {
        cli_free_arguments(arguments);
    }
    return code;
}

void cli_free_arguments(cli_arguments *arguments)
{
    free(arguments->names);
    free(arguments->choices);
    arguments->names = NULL;
    arguments->choices = NULL;
}

bool cli_given(const cli_arguments *arguments, cli_option_id id)
{
    for (size_t i = 0; i < arguments->choice_count; i++) {
        if (arguments->choices[i].option->id == id) {
            return true;
        }
    }
    return false;
}

const char *cli_value(const cli_arguments *arguments, cli_option_id id)
{
    const char *value = NULL;
    for (size_t i = 0; i < arguments->choice_count; i++) {
        if (arguments->choices[i].option->id == id) {
            value = arguments->choices[i].value;
        }
    }
    return value;
}

const char **cli_values_of(const cli_arguments *arguments, cli_option_id id, size_t *count)
{
    const char **values = malloc((arguments->choice_count + 1) * sizeof *values);
    *count = 0;
    for (size_t i = 0; values != NULL && i < arguments->choice_count; i++) {
        if (arguments->choices[i].option->id == id) {
            values[(*count)++] = arguments->choices[i].value;
        }
    }
    return values;
}

int cli_which(const cli_arguments *arguments, cli_option_id id)
{
    int which = -1;
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_choice *choice = &arguments->choices[i];
        char capacity[CLI_VALUES_SIZE];
        const char *values = cli_option_values(choice->option, capacity);
        if (choice->option->id == id && values != NULL) {
            which = place_among(values, choice->value);
        }
    }
    return which;
}
