/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that trainings and frameworks save. Which file is read of one:
 *
 *   .metadata                         the description of a distributed checkpoint of PyTorch
 *   mp_rank_00_model_states.pt        the first rank of DeepSpeed, of stages 1 and 2, …
 *   zero_pp_rank_0_mp_rank_00_model_states.pt      … and of stage 3
 *   variables.index                   the index of a SavedModel of TensorFlow, in its folder of variables, …
 *   variables/variables.index         … or in the whole
 *   manifest.ocdbt                    of Orbax, …
 *   Data/com.apple.CoreML/model.mlmodel            … and of Core ML: they have no reader, and the message says so
 *   pytorch_model.bin.index.json, pytorch_model.bin, and the same of diffusers and of adapters: models of the Hub; …
 *   flax_model.msgpack, tf_model.h5   … where PyTorch has no file
 *   latest                            the name of a folder of DeepSpeed in this one, in which the above is looked for
 *   checkpoint                        says which of TensorFlow's checkpoints in this folder is the latest
 *
 * The others are found by the readers.
 */
#include "input.h"

#include "model_dir_name.h"
#include "os.h"
#include "paths.h"

#include <string.h>

static const char *const folder_files[] = { ".metadata",
                                            "mp_rank_00_model_states.pt",
                                            "zero_pp_rank_0_mp_rank_00_model_states.pt",
                                            "variables.index",
                                            "variables/variables.index",
                                            "manifest.ocdbt",
                                            "Data/com.apple.CoreML/model.mlmodel",
                                            "pytorch_model.bin.index.json",
                                            "pytorch_model.bin",
                                            "diffusion_pytorch_model.bin.index.json",
                                            "diffusion_pytorch_model.bin",
                                            "adapter_model.bin",
                                            "flax_model.msgpack.index.json",
                                            "flax_model.msgpack",
                                            "tf_model.h5" };

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

/* The first line of a file of the folder, without what ends it. A line may be a path of another machine, and is as long as one at
   most. */
static bool folder_line(const char *folder, const char *called, coffer__path *line)
{
    coffer__byte_source source;
    if (!folder_join(folder, called, line) || !coffer__os_exists(line->text) ||
        coffer__source_path(&source, line->text, NULL) != COFFER_OK) {
        return false;
    }
    size_t len = source.size < sizeof line->text - 1 ? (size_t)source.size : sizeof line->text - 1;
    const bool read = len > 0 && coffer__source_read(&source, 0, line->text, len, NULL) == COFFER_OK;
    source.ops->close(&source);
    line->text[len] = '\0';
    len = strcspn(line->text, "\r\n");
    while (len > 0 && line->text[len - 1] == ' ') {
        len--;
    }
    line->text[len] = '\0';
    return read;
}

/* The file or folder of a name that was read in this folder, in which it has to be. */
static bool folder_named(const char *folder, const char *name, coffer__path *path)
{
    return coffer__model_dir_check_name(name, strlen(name), COFFER_NO_OFFSET, NULL) == COFFER_OK &&
           folder_join(folder, name, path);
}

/* The folder that `latest` names. */
static bool folder_latest(const char *folder, coffer__path *path)
{
    coffer__path line;
    return folder_line(folder, "latest", &line) && folder_named(folder, line.text, path);
}

/* The checkpoint that TensorFlow calls the latest. It is there under its last name, whatever folders come before that: those of
   the machine where it was saved. */
static bool folder_checkpoint(const char *folder, coffer__path *path)
{
    static const char key[] = "model_checkpoint_path: \"";
    coffer__path line;
    if (!folder_line(folder, "checkpoint", &line) || strncmp(line.text, key, sizeof key - 1) != 0) {
        return false;
    }
    char *name = line.text + sizeof key - 1;
    char *quote = strrchr(name, '"');
    if (quote == NULL || quote[1] != '\0') {
        return false;
    }
    *quote = '\0';
    return folder_named(folder, name + coffer__path_name_at(name), path) && coffer__path_append(path, ".index", 6);
}

bool coffer__input_in_folder(const char *path, coffer__path *file)
{
    coffer__path latest;
    return folder_look(path, file) || (folder_latest(path, &latest) && folder_look(latest.text, file)) ||
           folder_checkpoint(path, file);
}
