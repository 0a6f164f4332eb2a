/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that distributed trainings save. Which file is read of one:
 *
 *   .metadata                         the description of a distributed checkpoint of PyTorch
 *   mp_rank_00_model_states.pt        the first rank of DeepSpeed, of stages 1 and 2, …
 *   zero_pp_rank_0_mp_rank_00_model_states.pt      … and of stage 3
 *   latest                            the name of a folder of DeepSpeed in this one, in which the above is looked for
 *
 * The others are found by the readers.
 */
#include "input.h"

#include "os.h"
#include "paths.h"
#include "place_name.h"

#include <string.h>

#define FOLDER_LATEST "latest"

static const char *const folder_files[] = { ".metadata", "mp_rank_00_model_states.pt",
                                            "zero_pp_rank_0_mp_rank_00_model_states.pt" };

/* Joins a name to a folder; false when that is too long. */
static bool folder_join(const char *folder, const char *name, coffer__path *path)
{
    const size_t len = strlen(folder);
    return coffer__path_copy(path, folder) &&
           ((len > 0 && folder[len - 1] == '/') || coffer__path_append(path, "/", 1)) &&
           coffer__path_append(path, name, strlen(name));
}

/* The first of the files that is there. */
static bool folder_look(const char *folder, coffer__path *path)
{
    for (size_t i = 0; i < sizeof folder_files / sizeof *folder_files; i++) {
        if (folder_join(folder, folder_files[i], path) && coffer__os_exists(path->text)) {
            return true;
        }
    }
    return false;
}

/* The folder that `latest` names, as a line of text. It has to be one in this folder. */
static bool folder_latest(const char *folder, coffer__path *path)
{
    char name[COFFER__PATH_MAX_NAME + 1];
    coffer__source source;
    if (!folder_join(folder, FOLDER_LATEST, path) || !coffer__os_exists(path->text) ||
        coffer__source_path(&source, path->text, NULL) != COFFER_OK) {
        return false;
    }
    size_t len = source.size < sizeof name - 1 ? (size_t)source.size : sizeof name - 1;
    const bool read = len > 0 && coffer__source_read(&source, 0, name, len, NULL) == COFFER_OK;
    source.ops->close(&source);
    while (len > 0 && (name[len - 1] == '\n' || name[len - 1] == '\r' || name[len - 1] == ' ')) {
        len--;
    }
    name[len] = '\0';
    return read && coffer__place_check_name(name, len, COFFER_NO_OFFSET, NULL) == COFFER_OK &&
           folder_join(folder, name, path);
}

bool coffer__input_in_folder(const char *path, coffer__path *file)
{
    coffer__path latest;
    return folder_look(path, file) || (folder_latest(path, &latest) && folder_look(latest.text, file));
}
