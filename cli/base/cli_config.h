/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json beside a model, which nobody vouches for: read whole up to a limit, checked to be JSON, and kept as a
 * list of its values, each with the path of keys that leads to it: "text_config", "text_config.num_hidden_layers",
 * "architectures.0". A dot or a backslash within a key has a backslash before it. Nothing in it is obeyed; callers ask
 * for members by their paths and judge the values.
 */
#ifndef COFFER_CLI_CONFIG_H
#define COFFER_CLI_CONFIG_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_CONFIG_MOST_BYTES (4u << 20)
#define CLI_CONFIG_MOST_MEMBERS 65536u
#define CLI_CONFIG_MOST_PATH 1024u /* bytes of a member's path; what lies deeper is checked to be JSON and left out */
#define CLI_CONFIG_WHY_SIZE 160u

typedef enum cli_config_kind {
    CLI_CONFIG_NULL = 1,
    CLI_CONFIG_BOOL,
    CLI_CONFIG_NUMBER,
    CLI_CONFIG_TEXT,
    CLI_CONFIG_OBJECT,
    CLI_CONFIG_ARRAY
} cli_config_kind;

/* A value. */
typedef struct cli_config_member {
    const char *path; /* with a NUL */
    const char *text; /* "true", "4096", "llama": without quotes and escapes, with a NUL; of an object or array "" */
    size_t text_len;
    cli_config_kind kind;
} cli_config_member;

typedef struct cli_config {
    cli_config_member *members; /* in byte order of their paths */
    size_t count;
    char *texts; /* their strings */
} cli_config;

/*
 * Reads the text. Refused is what is no JSON object, has a key twice, or is beyond the limits above: then `why` says so
 * in words ("is not JSON, at byte 12"), and *config holds nothing. `why` is empty when there was no memory. Any thread.
 */
bool cli_config_read(cli_config *config, const char *text, size_t text_len, char why[CLI_CONFIG_WHY_SIZE]);
/* Releases what cli_config_read has filled; allowed on zeros, and more than once. */
void cli_config_free(cli_config *config);

/* The member at a path; NULL: there is none. */
const cli_config_member *cli_config_find(const cli_config *config, const char *path);
/* The value of a member that is an integer from 0 to 2^53, in plain digits; false for any other. */
bool cli_config_count(const cli_config *config, const char *path, uint64_t *count);
/* Whether the member is there and true. */
bool cli_config_is_true(const cli_config *config, const char *path);
/* The text of a member that is a string; NULL for any other. */
const char *cli_config_text(const cli_config *config, const char *path);

/*
 * The bytes of the config.json in the folder of a model's first file, with a NUL after them that does not count, for
 * free(). NULL with COFFER_OK: there is none, the model has no path, or it lies behind a URL: there the file that is
 * fetched by its name may belong to another commit than the model. Any thread.
 */
coffer_status cli_config_fetch(const coffer *model, char **text, size_t *text_len, coffer_error *err);

#endif
