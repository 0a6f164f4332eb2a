/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All models below folders, for commands that look at many: each index stands for the files that it
 * names, files that are named as several of one model are looked at one by one, and any other file
 * of tensors is a model of its own. A folder that directly holds one model and nothing else stands
 * for it under its own name, as it does for every other command. Files of other formats are told
 * of, and passed over.
 */
#ifndef COFFER_CLI_MODELS_H
#define COFFER_CLI_MODELS_H

#include "cli_command.h"

typedef struct cli_models {
    char **paths;  /* what to look at, in order */
    bool *missing; /* of each, whether it is a file of a model that is not there */
    size_t count;
    size_t capacity;
    int code; /* of what could not be listed, which is reported */
} cli_models;

/* Replaces folders among the names by what is below them. Free it in any case; false without
   memory, which is reported. */
bool cli_models_find(cli *app, const char *const *names, size_t count, cli_models *models);
void cli_models_free(cli_models *models);

#endif
