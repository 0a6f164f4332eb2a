/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json as a list of its members: see cli_config.h for the contract.
 *
 * One pass over the tokens keeps the path of keys in a buffer of fixed size, and each value appends its path and its text
 * to one block, which grows. Members are offsets into it until the block is complete. A path that is too long is left
 * out, with all that lies below it: nobody asks for it.
 */
#include "cli_config.h"

#include "cli_text.h"
#include "cli_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "config.json"
#define LARGEST_COUNT (UINT64_C(1) << 53) /* beyond it, other readers of JSON know no exact integers */

/* A member while the block may still move. */
typedef struct config_place {
    size_t path;
    size_t text;
    size_t text_len;
    cli_config_kind kind;
} config_place;

typedef struct config_reading {
    cli_tokens json;
    char *texts;
    size_t used;
    size_t room;
    config_place *places;
    size_t count;
    size_t places_room;
    char path[CLI_CONFIG_MOST_PATH + 32]; /* beyond the limit there is room for the number of an item */
    size_t path_len;                      /* above CLI_CONFIG_MOST_PATH: too long, and not written any further */
    size_t before[CLI_TOKENS_DEPTH + 1];  /* of each open container: the length of its own path, … */
    uint64_t items[CLI_TOKENS_DEPTH + 1]; /* … and of an array, which item comes next */
    const char *why;
} config_reading;

/* ---- Growing ---- */

static bool make_room(config_reading *reading, size_t size)
{
    if (size <= reading->room - reading->used) {
        return true;
    }
    /* The text and the paths are bounded, so the sum cannot overflow. */
    const size_t room = 2 * reading->room + size + 1024;
    char *texts = realloc(reading->texts, room);
    reading->texts = texts != NULL ? texts : reading->texts;
    reading->room = texts != NULL ? room : reading->room;
    return texts != NULL;
}

static bool make_place(config_reading *reading)
{
    if (reading->count == CLI_CONFIG_MOST_MEMBERS) {
        reading->why = "has more values than any model's configuration";
        return false;
    }
    if (reading->count < reading->places_room) {
        return true;
    }
    const size_t room = 2 * reading->places_room + 64;
    config_place *places = realloc(reading->places, room * sizeof *places);
    reading->places = places != NULL ? places : reading->places;
    reading->places_room = places != NULL ? room : reading->places_room;
    return places != NULL;
}

/* ---- Paths ---- */

static void add_to_path(config_reading *reading, const char *text, size_t text_len)
{
    if (reading->path_len <= CLI_CONFIG_MOST_PATH && text_len <= sizeof reading->path - reading->path_len) {
        memcpy(reading->path + reading->path_len, text, text_len);
        reading->path_len += text_len;
        return;
    }
    reading->path_len = sizeof reading->path;
}

/* Ends the path with the innermost container's own, and a dot where something follows it. */
static void begin_path(config_reading *reading)
{
    const size_t depth = reading->json.depth;
    reading->path_len = reading->before[depth];
    if (depth > 1) {
        add_to_path(reading, ".", 1);
    }
}

/* The key at `start`. */
static bool read_path_key(config_reading *reading, size_t start)
{
    size_t len = 0;
    if (!make_room(reading, reading->json.at - start)) {
        return false;
    }
    char *key = reading->texts + reading->used; /* for a moment */
    if (!cli_tokens_unescape(reading->json.text + start, key, &len)) {
        reading->why = "is not JSON";
        return false;
    }
    begin_path(reading);
    for (size_t i = 0; i < len && reading->path_len <= CLI_CONFIG_MOST_PATH; i++) {
        if (key[i] == '.' || key[i] == '\\') {
            add_to_path(reading, "\\", 1);
        }
        add_to_path(reading, key + i, 1);
    }
    return true;
}

/* What stands in a container that is `depth` deep: an item of an array has its number as a key. */
static void number_path(config_reading *reading, size_t depth)
{
    char number[CLI_NUMBER_SIZE];
    if (reading->json.open[depth - 1] == '[') {
        reading->path_len = reading->before[depth];
        add_to_path(reading, ".", 1);
        const size_t len = cli_number_text(number, reading->items[depth]++, false);
        add_to_path(reading, number, len);
    }
}

/* ---- Members ---- */

static cli_config_kind kind_of_value(char first)
{
    switch (first) {
    case '{':
        return CLI_CONFIG_OBJECT;
    case '[':
        return CLI_CONFIG_ARRAY;
    case '"':
        return CLI_CONFIG_TEXT;
    case 'n':
        return CLI_CONFIG_NULL;
    case 't':
    case 'f':
        return CLI_CONFIG_BOOL;
    default:
        return CLI_CONFIG_NUMBER;
    }
}

/* The text of a member that begins at `token`; false when it names no characters. */
static bool add_value(config_reading *reading, config_place *place, const char *token, size_t token_len)
{
    char *out = reading->texts + reading->used;
    if (place->kind == CLI_CONFIG_TEXT && !cli_tokens_unescape(token, out, &place->text_len)) {
        reading->why = "is not JSON";
        return false;
    }
    if (place->kind <= CLI_CONFIG_NUMBER) {
        memcpy(out, token, token_len);
        place->text_len = token_len;
    }
    place->text = reading->used;
    reading->used += place->text_len;
    reading->texts[reading->used++] = '\0';
    return true;
}

/* The value at `start`, in a container that is `depth` deep. */
static bool add_member(config_reading *reading, size_t start, size_t depth)
{
    const char *token = reading->json.text + start;
    const size_t token_len = reading->json.at - start;
    number_path(reading, depth);
    if (reading->path_len > CLI_CONFIG_MOST_PATH) {
        return true;
    }
    if (!make_place(reading) || !make_room(reading, reading->path_len + token_len + 2)) {
        return false;
    }
    config_place *place = &reading->places[reading->count++];
    *place = (config_place){ .path = reading->used, .kind = kind_of_value(token[0]) };
    memcpy(reading->texts + reading->used, reading->path, reading->path_len);
    reading->used += reading->path_len;
    reading->texts[reading->used++] = '\0';
    return add_value(reading, place, token, token_len);
}

static bool open_container(config_reading *reading, size_t start)
{
    const size_t depth = reading->json.depth;
    if (depth > 1 && !add_member(reading, start, depth - 1)) {
        return false;
    }
    reading->before[depth] = reading->path_len;
    reading->items[depth] = 0;
    return true;
}

static bool take_token(config_reading *reading, cli_token token, size_t start)
{
    switch (token) {
    case CLI_TOKEN_OPEN:
        return open_container(reading, start);
    case CLI_TOKEN_KEY:
        return read_path_key(reading, start);
    case CLI_TOKEN_SCALAR:
        return add_member(reading, start, reading->json.depth);
    case CLI_TOKEN_NONE:
        reading->why = "is not JSON";
        return false;
    case CLI_TOKEN_CLOSE:
    case CLI_TOKEN_END:
        break;
    }
    return true;
}

static bool read_members(config_reading *reading)
{
    size_t start = 0;
    cli_token token = cli_tokens_next(&reading->json, CLI_TOKEN_END, &start);
    if (token != CLI_TOKEN_OPEN || reading->json.open[0] != '{') {
        reading->why = "is not a JSON object";
        return false;
    }
    while (take_token(reading, token, start)) {
        if (token == CLI_TOKEN_END) {
            return true;
        }
        token = cli_tokens_next(&reading->json, token, &start);
    }
    return false;
}

/* ---- The list ---- */

static int compare_members(const void *left, const void *right)
{
    const cli_config_member *a = left;
    const cli_config_member *b = right;
    return strcmp(a->path, b->path);
}

/* The block stays where it is from now on. Two members of one path are a key that comes twice. */
static bool list_members(config_reading *reading, cli_config *config, char *twice, size_t twice_size)
{
    config->members = malloc((reading->count + 1) * sizeof *config->members);
    if (config->members == NULL) {
        return false;
    }
    for (size_t i = 0; i < reading->count; i++) {
        const config_place *place = &reading->places[i];
        config->members[i] = (cli_config_member){ .path = reading->texts + place->path,
                                                  .text = reading->texts + place->text,
                                                  .text_len = place->text_len,
                                                  .kind = place->kind };
    }
    config->count = reading->count;
    qsort(config->members, config->count, sizeof *config->members, compare_members);
    for (size_t i = 1; i < config->count; i++) {
        if (compare_members(&config->members[i - 1], &config->members[i]) == 0) {
            char shown[81];
            const char *path = config->members[i].path;
            coffer_escape(path, cli_cut_at_character(path, strlen(path), 40), shown, sizeof shown);
            snprintf(twice, twice_size, "has the key \"%s\" twice", shown);
            return false;
        }
    }
    return true;
}

bool cli_config_read(cli_config *config, const char *text, size_t text_len, char why[CLI_CONFIG_WHY_SIZE])
{
    *config = (cli_config){ .count = 0 };
    why[0] = '\0';
    if (text_len > CLI_CONFIG_MOST_BYTES || !cli_is_utf8(text, text_len)) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "%s",
                 text_len > CLI_CONFIG_MOST_BYTES ? "has more than 4 MiB" : "is not UTF-8");
        return false;
    }
    config_reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        return false;
    }
    reading->json = (cli_tokens){ .text = text, .text_len = text_len };
    bool fine = read_members(reading);
    if (!fine && reading->why != NULL) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "%s, at byte %zu", reading->why, reading->json.at);
    }
    fine = fine && list_members(reading, config, why, CLI_CONFIG_WHY_SIZE);
    config->texts = reading->texts;
    free(reading->places);
    free(reading);
    if (!fine) {
        cli_config_free(config);
    }
    return fine;
}

void cli_config_free(cli_config *config)
{
    free(config->members);
    free(config->texts);
    *config = (cli_config){ .count = 0 };
}

/* ---- Asking ---- */

const cli_config_member *cli_config_find(const cli_config *config, const char *path)
{
    const cli_config_member wanted = { .path = path };
    return config->count == 0
               ? NULL
               : bsearch(&wanted, config->members, config->count, sizeof *config->members, compare_members);
}

bool cli_config_count(const cli_config *config, const char *path, uint64_t *count)
{
    const cli_config_member *member = cli_config_find(config, path);
    if (member == NULL || member->kind != CLI_CONFIG_NUMBER || member->text_len > 16 ||
        strspn(member->text, "0123456789") != member->text_len) {
        return false;
    }
    *count = strtoull(member->text, NULL, 10);
    return *count <= LARGEST_COUNT;
}

bool cli_config_is_true(const cli_config *config, const char *path)
{
    const cli_config_member *member = cli_config_find(config, path);
    return member != NULL && member->kind == CLI_CONFIG_BOOL && member->text[0] == 't';
}

const char *cli_config_text(const cli_config *config, const char *path)
{
    const cli_config_member *member = cli_config_find(config, path);
    return member != NULL && member->kind == CLI_CONFIG_TEXT ? member->text : NULL;
}

/* ---- The file ---- */

/* FOLDER/config.json, to be freed; NULL without memory. */
static char *config_path(const char *file)
{
    const char *slash = cli_last_slash(file);
    const size_t folder_len = slash != NULL ? (size_t)(slash - file) + 1 : 0;
    char *path = malloc(folder_len + sizeof NAME);
    if (path != NULL) {
        memcpy(path, file, folder_len);
        memcpy(path + folder_len, NAME, sizeof NAME);
    }
    return path;
}

static coffer_status config_no_memory(coffer_error *err)
{
    *err = (coffer_error){ .code = COFFER_ERR_MEMORY, .offset = COFFER_NO_OFFSET, .message = "out of memory" };
    return COFFER_ERR_MEMORY;
}

static coffer_status config_read_input(coffer_input *input, char **text, size_t *text_len, coffer_error *err)
{
    const uint64_t size = coffer_input_size(input, 0);
    if (size > CLI_CONFIG_MOST_BYTES) {
        *err = (coffer_error){ .code = COFFER_ERR_UNSUPPORTED, .offset = COFFER_NO_OFFSET };
        snprintf(err->message, sizeof err->message, NAME " has more than 4 MiB");
        return err->code;
    }
    char *bytes = malloc((size_t)size + 1);
    if (bytes == NULL) {
        return config_no_memory(err);
    }
    const coffer_status status = size == 0 ? COFFER_OK : coffer_input_read(input, 0, 0, bytes, (size_t)size, err);
    if (status != COFFER_OK) {
        free(bytes);
        return status;
    }
    bytes[size] = '\0';
    *text = bytes;
    *text_len = (size_t)size;
    return COFFER_OK;
}

coffer_status cli_config_fetch(const coffer *model, char **text, size_t *text_len, coffer_error *err)
{
    const char *file = coffer_shard_path(model, 0);
    coffer_input *input = NULL;
    *text = NULL;
    *text_len = 0;
    if (file[0] == '\0' || strstr(file, "://") != NULL) {
        return COFFER_OK;
    }
    char *path = config_path(file);
    coffer_status status = path != NULL ? coffer_input_open(&input, path, NULL, err) : config_no_memory(err);
    free(path);
    if (status == COFFER_ERR_NOT_FOUND) {
        return COFFER_OK;
    }
    if (status == COFFER_OK) {
        status = config_read_input(input, text, text_len, err);
    }
    coffer_input_free(input);
    return status;
}
