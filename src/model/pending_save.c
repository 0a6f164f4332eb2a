/* SPDX-License-Identifier: Apache-2.0 */
#include "pending_save.h"

#include "shard_name.h"

#include <string.h>

bool coffer__pending_save_index_name(coffer__path *out, const char *path, const char *suffix)
{
    coffer__path index;
    return coffer__path_beside(&index, path, "", COFFER__INDEX_SUFFIX) &&
           coffer__path_beside(out, index.text, "", suffix);
}

#define SAVED_GROUP_WRITES 0020u
#define SAVED_OTHERS_WRITE 0002u
#define SAVED_STICKY 01000u

/* The rules of pending_save.h. `open_to_all` also accepts files that everybody may write, because in such
   a folder everybody may replace them anyway. The aim is that a stranger cannot block a folder of
   this user by putting a file with such a name there, in a folder like /tmp above all. A file that
   everybody may write is refused for the same reason: its content is anybody's. */
bool coffer__pending_save_is_own(const coffer__os_info *file, const coffer__os_info *folder, bool moved)
{
    const bool sticky = (folder->mode & SAVED_STICKY) != 0;
    const bool shared = (folder->mode & (SAVED_GROUP_WRITES | SAVED_OTHERS_WRITE)) != 0;
    /* Where the owners have a number that stands for many, only who may have put the file there tells. */
    const bool one = coffer__os_is_one_user(file->owner);
    const bool owned = one ? coffer__os_is_mine(file) || file->owner == folder->owner : !sticky && !shared;
    const bool open_to_all = !sticky && (folder->mode & SAVED_OTHERS_WRITE) != 0;
    return file->kind == COFFER__OS_REGULAR && (owned || (!sticky && (shared || moved))) &&
           (open_to_all || (file->mode & SAVED_OTHERS_WRITE) == 0);
}

/* A trace that is a link is none: the file itself is looked at. What cannot be looked at does not
   count. */
static bool pending_save_counts(const char *path, bool moved)
{
    coffer__path directory;
    coffer__os_info folder;
    coffer__os_info file;
    return coffer__path_directory(&directory, path) && coffer__os_inspect(directory.text, true, &folder) == 0 &&
           coffer__os_inspect(path, false, &file) == 0 && coffer__pending_save_is_own(&file, &folder, moved);
}

/* It is asked about what may have been moved from the old model as well as about what a save has
   made, so it accepts both. */
bool coffer__pending_save_counts(const char *path)
{
    return pending_save_counts(path, true);
}

bool coffer__pending_save_is_under_way(const char *path)
{
    coffer__path ready;
    return coffer__pending_save_index_name(&ready, path, COFFER__PENDING_SAVE_READY) &&
           coffer__pending_save_counts(ready.text);
}

/* One trace that counts is enough. A strange one only decides if no other counts. */
coffer__interrupted coffer__pending_save_interrupted(const char *path)
{
    static const struct {
        const char *suffix;
        bool moved;
    } left[] = { { COFFER__PENDING_SAVE_NEW, false },
                 { COFFER__PENDING_SAVE_READY, false },
                 { COFFER__PENDING_SAVE_OLD, true } };
    coffer__path name;
    coffer__interrupted found = COFFER__INTERRUPTED_NOT;
    for (size_t i = 0; i < sizeof left / sizeof left[0] && found != COFFER__INTERRUPTED_SAVE; i++) {
        if (coffer__pending_save_index_name(&name, path, left[i].suffix) && coffer__os_exists(name.text)) {
            found =
                pending_save_counts(name.text, left[i].moved) ? COFFER__INTERRUPTED_SAVE : COFFER__INTERRUPTED_STRANGE;
        }
    }
    return found;
}
