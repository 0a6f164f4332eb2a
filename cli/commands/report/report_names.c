/* SPDX-License-Identifier: Apache-2.0 */
/* What a report calls a model and its files. A report is for others: where its author keeps files is not in it, nor is
   what only the author's programs should send to a server, such as a signature in a URL. */
#include "report.h"

#include "cli_text.h"

#include <string.h>

static bool is_url(const char *path)
{
    return strstr(path, "://") != NULL;
}

/* A path without slashes at its end, a URL without its query too. */
static size_t length_of(const char *path)
{
    size_t len = is_url(path) ? strcspn(path, "?#") : strlen(path);
    while (len > 1 && cli_is_slash(path[len - 1])) {
        len--;
    }
    return len;
}

/* Bytes of a path up to the slash before its last part, and this slash. */
static size_t folder_of(const char *path, size_t len)
{
    while (len > 0 && !cli_is_slash(path[len - 1])) {
        len--;
    }
    return len;
}

static report_text last_part(const char *path)
{
    const size_t len = length_of(path);
    const size_t folder = folder_of(path, len);
    return len > folder ? (report_text){ path + folder, len - folder } : (report_text){ path, len };
}

/* Repositories of the Hub are known by all of their name; they have no user or signature in it. */
report_text report_model_name(const char *path)
{
    static const char hub[] = "hf://";
    const size_t scheme = sizeof hub - 1;
    if (strcmp(path, "-") == 0) {
        return (report_text){ "standard input", strlen("standard input") };
    }
    if (strncmp(path, hub, scheme) == 0 && length_of(path) > scheme) {
        return (report_text){ path + scheme, length_of(path) - scheme };
    }
    return last_part(path);
}

/* The page looks for the files by the names that the index has for them. They come from there as they are, at a URL too:
   a question mark in one begins no query. */
report_text report_file_name(const coffer *model, size_t shard)
{
    const char *path = coffer_shard_path(model, shard);
    if (coffer_index_path(model)[0] == '\0') {
        return last_part(path);
    }
    const size_t len = strlen(path);
    const char *index = coffer_index_path(model);
    const size_t own = folder_of(index, length_of(index)); /* files may be in folders below it */
    const size_t folder = len > own && memcmp(path, index, own) == 0 ? own : folder_of(path, len);
    return (report_text){ path + folder, len - folder };
}

report_text report_index_name(const coffer *model)
{
    return last_part(coffer_index_path(model));
}
