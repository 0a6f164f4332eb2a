/* SPDX-License-Identifier: Apache-2.0 */
#include "cached.h"

#include "alloc.h"
#include "fnv.h"
#include "model.h"
#include "os.h"

#include <stdio.h>
#include <string.h>

/* A keeper that lives answers at once. One that is stopped is not waited for. */
#define KEPT_PATIENCE_MS 200

/* Part of the name is a number of all that is known, and part the two things that are hardest to have in common by
   chance. */
void coffer__kept_name(char name[COFFER__KEPT_NAME], const coffer__os_info *info)
{
    char all[112];
    (void)snprintf(all, sizeof all, "%llx/%llx/%llx/%llx/%llx", (unsigned long long)info->device,
                   (unsigned long long)info->inode, (unsigned long long)info->size, (unsigned long long)info->modified,
                   (unsigned long long)info->touched);
    const unsigned long long number = coffer__fnv(COFFER__FNV_START, all, strlen(all));
    (void)snprintf(name, COFFER__KEPT_NAME, "coffer/keep/%lu/%016llx/%llx/%llx", (unsigned long)coffer__os_user(),
                   number, (unsigned long long)info->inode, (unsigned long long)info->size);
}

/* The line is closed whatever came: a keeper passes one descriptor to each call. */
static int kept_ask(const char *name, int *fd)
{
    int caller = -1;
    int os_error = coffer__os_call(name, &caller);
    if (os_error == 0) {
        os_error = coffer__os_await_passed(caller, KEPT_PATIENCE_MS, fd);
        (void)coffer__os_close(caller);
    }
    return os_error;
}

/* Whatever is wrong with an answer, the file is read from where it is. Memory that is not sealed could change under
   the reader, so its seals are looked at. The name says which version of the file the keeper has, and the size is
   compared as well, so bytes of another file are not taken even from a keeper that answers nonsense, and every byte
   that the load is going to read is there. */
static bool kept_attach(coffer__kept_file *file, const coffer__byte_source *source)
{
    const coffer__os_info *seen = coffer__source_seen(source);
    char name[COFFER__KEPT_NAME];
    uint64_t size = 0;
    int fd = -1;
    if (seen == NULL || seen->size != source->size || seen->size == 0) {
        return false;
    }
    coffer__kept_name(name, seen);
    if (kept_ask(name, &fd) != 0) {
        return false;
    }
    file->found = coffer__os_shared_check(fd, true, &size) == 0 && size == seen->size &&
                  coffer__source_fd(&file->source, fd, NULL) == COFFER_OK;
    (void)coffer__os_close(fd); /* the source has a duplicate */
    return file->found;
}

static void kept_release(const coffer__kept *kept)
{
    for (size_t i = 0; i < kept->count; i++) {
        if (kept->files[i].found) {
            kept->files[i].source.ops->close(&kept->files[i].source);
        }
    }
    coffer__free_array(&kept->allocator, kept->files, kept->count, sizeof *kept->files);
}

/* The list is made on the stack first, so that nothing is kept where no keeper has anything, which is the usual
   case. */
coffer_status coffer__kept_find(coffer__kept **kept, const coffer *model, const coffer_allocator *allocator,
                                coffer_error *err)
{
    coffer__kept made = { .allocator = *allocator, .count = model->shard_count };
    *kept = NULL;
    made.files = coffer__alloc_array(allocator, made.count, sizeof *made.files, err);
    if (made.files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < made.count; i++) {
        made.found += kept_attach(&made.files[i], &model->shards[i].source) ? 1 : 0;
    }
    coffer__kept *found = made.found > 0 ? coffer__alloc_array(allocator, 1, sizeof *found, err) : NULL;
    if (found == NULL) {
        const coffer_status status = made.found > 0 ? COFFER_ERR_MEMORY : COFFER_OK;
        kept_release(&made);
        return status;
    }
    *found = made;
    *kept = found;
    return COFFER_OK;
}

void coffer__kept_close(coffer__kept *kept)
{
    if (kept != NULL) {
        const coffer_allocator allocator = kept->allocator;
        kept_release(kept);
        coffer__free_array(&allocator, kept, 1, sizeof *kept);
    }
}
