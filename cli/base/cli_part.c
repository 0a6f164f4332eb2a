/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a folder of several models: see cli_part.h for the contract. */
#include "cli_part.h"

#include "cli_files.h"
#include "cli_folder.h"
#include "cli_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char PART_HUB[] = "hf://";

/* Where the colon is; NULL: the path has none that could be meant so. The colon of a drive stands second, and what leads
   out of the folder is no part of it. */
static const char *part_colon(const char *path)
{
    const char *colon = strrchr(path, ':');
    const bool usable = colon != NULL && colon - path > 1 && colon[1] != '\0' && colon[1] != '/' && colon[1] != '.' &&
                        strstr(colon, "/.") == NULL && strchr(colon, '\\') == NULL;
    return usable ? colon : NULL;
}

static bool part_is_hub(const char *path, const char *colon)
{
    return strncmp(path, PART_HUB, sizeof PART_HUB - 1) == 0 && colon > path + sizeof PART_HUB;
}

/* FOLDER/PART with an ending; NULL without memory. */
static char *part_join(const char *path, const char *colon, const char *ending)
{
    const size_t size = strlen(path) + strlen(ending) + 1;
    char *joined = malloc(size);
    if (joined != NULL) {
        snprintf(joined, size, "%s%s", path, ending);
        joined[colon - path] = '/';
    }
    return joined;
}

static coffer_status part_missing(const char *path, const char *colon, coffer_error *err)
{
    char shown[64];
    char folder[256];
    *err = (coffer_error){ .code = COFFER_ERR_NO_MODEL, .offset = COFFER_NO_OFFSET };
    coffer_escape(colon + 1, strlen(colon + 1), shown, sizeof shown);
    coffer_escape(path, (size_t)(colon - path), folder, sizeof folder);
    snprintf(err->message, sizeof err->message, "the folder has no part \"%s\"; coffer info %s lists them", shown,
             folder);
    return COFFER_ERR_NO_MODEL;
}

/* The first of both spellings that is there. */
static coffer_status part_in_folder(cli_part *part, const char *path, const char *colon, coffer_error *err)
{
    static const char *const endings[] = { "", ".safetensors" };
    struct stat about;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        part->path = part_join(path, colon, endings[i]);
        if (part->path == NULL) {
            return cli_no_memory(err);
        }
        if (stat(part->path, &about) == 0) {
            return COFFER_OK;
        }
        cli_part_free(part);
    }
    return part_missing(path, colon, err);
}

coffer_status cli_part_find(cli_part *part, const char *path, coffer_error *err)
{
    struct stat about;
    const char *colon = part_colon(path);
    *part = (cli_part){ .path = NULL };
    if (colon == NULL || stat(path, &about) == 0) {
        return COFFER_OK;
    }
    if (part_is_hub(path, colon)) {
        part->path = part_join(path, colon, "/");
        return part->path != NULL ? COFFER_OK : cli_no_memory(err);
    }
    char *folder = strndup(path, (size_t)(colon - path));
    if (folder == NULL) {
        return cli_no_memory(err);
    }
    const bool is = strstr(folder, "://") == NULL && cli_is_folder(folder);
    free(folder);
    return is ? part_in_folder(part, path, colon, err) : COFFER_OK;
}

void cli_part_free(cli_part *part)
{
    free(part->path);
    part->path = NULL;
}
