/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the new files of a rewrite are called. Names are kept when the model is replaced and every old file becomes a
 * new one; otherwise their numbers would no longer count the files, so that all are numbered, and named after the index
 * or the output.
 */
#include "rewriting.h"

#include "commit.h"
#include "model.h"
#include "shard_name.h"

#include <string.h>

/* Whether a file of the model may be called in the new one as it is. The name of the model as one file is refused,
   since a file of that name would shadow the index. */
static bool rewrite_is_fit(const coffer_rewrite *rewrite, const char *path)
{
    const char *target = rewrite->target.text;
    const char *name = path + coffer__path_name_at(path);
    return coffer__commit_judge(target, path, NULL) == COFFER_OK &&
           strcmp(name, target + coffer__path_name_at(target)) != 0;
}

/* All or none: a mixture of old and new names could let two files have one name. */
bool coffer__rewrite_can_keep_names(const coffer_rewrite *rewrite)
{
    const coffer *model = rewrite->model;
    const coffer_rewrite_options *options = &rewrite->options;
    if (options->output != NULL || options->max_shard_size != 0 || model->sharded == NULL ||
        rewrite->shards.count != model->shard_count) {
        return false;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        if (!rewrite_is_fit(rewrite, model->shards[i].path)) {
            return false;
        }
    }
    return true;
}

bool coffer__rewrite_name_file(const coffer_rewrite *rewrite, size_t file, coffer__path *path)
{
    return rewrite->keeps_names ? coffer__path_copy(path, rewrite->model->shards[file].path)
                                : coffer__shards_name(path, rewrite->target.text, file, rewrite->shards.count);
}
