/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole model as the output of a command: -o FOLDER/, or a folder that is there. The model's files have in it the names
 * that they have as one file or as several, and its companions (coffer_companions_read) come with them, with what the
 * change makes untrue set right (cli_config.h) and told. The library publishes all of it as one.
 *
 *     cli_model_folder folder;
 *     int code = cli_model_folder_open(&folder, app, output, model, path, force);
 *     if (code == CLI_EXIT_OK) {
 *         code = plan folder.path with folder.files; cli_model_folder_correct(&folder, &facts); write
 *     }
 *     cli_model_folder_close(&folder, code);
 */
#ifndef COFFER_CLI_MODEL_FOLDER_H
#define COFFER_CLI_MODEL_FOLDER_H

#include "cli_command.h"
#include "cli_config.h"
#include "coffer.h"

typedef struct cli_model_folder {
    cli *app;
    char *path;       /* what the model is called as one file in it */
    char *folder;     /* with a slash at its end */
    size_t made_from; /* of the folder's path, what was there before, in bytes */
    coffer_companions *companions;
    coffer_companion *files; /* `count` of them: what is published with the model */
    size_t count;
    char *config; /* the text of config.json where it was corrected */
} cli_model_folder;

/* Whether -o means a folder: it ends in a slash, or is a folder. */
bool cli_names_folder(const char *output);
/* Reads the companions of the model, or with NULL those beside `input` on this machine, makes the folder with its parents,
   and looks whether what it will have may be written. `input` is what the command was given. Reports what is wrong and
   returns the exit code; close it in any case. `name` is what a model without a name that programs look for is called;
   NULL: it keeps its own. */
int cli_model_folder_open(cli_model_folder *folder, cli *app, const char *output, const coffer *model,
                          const char *input, const char *name, bool force);
/* Leaves out the files that say nothing but how the model is quantised. Before it is planned. */
void cli_model_folder_leave_out_quantisation(cli_model_folder *folder);
/* Sets the companions right, and tells each change. Once. */
void cli_model_folder_correct(cli_model_folder *folder, const cli_config_facts *facts);
/* Releases it; folders that were made go with a failure, and with a dry run (`keep` false). */
void cli_model_folder_close(cli_model_folder *folder, bool keep);

#endif
