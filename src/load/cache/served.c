/* SPDX-License-Identifier: Apache-2.0 */
#include "served.h"

#include "alloc.h"
#include "fnv.h"
#include "model.h"
#include "os.h"

#include <stdio.h>
#include <string.h>

/* A model cache server that lives answers at once. One that is stopped is not waited for. */
#define SERVED_PATIENCE_MS 200

/* Part of the name is a number of all that is known, and part the two things that are hardest to have in common by
   chance. */
void coffer__served_name(char name[COFFER__SERVED_NAME], const coffer__os_info *info)
{
    char all[112];
    (void)snprintf(all, sizeof all, "%llx/%llx/%llx/%llx/%llx", (unsigned long long)info->device,
                   (unsigned long long)info->inode, (unsigned long long)info->size, (unsigned long long)info->modified,
                   (unsigned long long)info->touched);
    const unsigned long long number = coffer__fnv(COFFER__FNV_START, all, strlen(all));
    (void)snprintf(name, COFFER__SERVED_NAME, "coffer/keep/%lu/%016llx/%llx/%llx", (unsigned long)coffer__os_user(),
                   number, (unsigned long long)info->inode, (unsigned long long)info->size);
}

/* The line is closed whatever came: a model cache server passes one descriptor to each call. */
static int served_ask(const char *name, int *fd)
{
    int caller = -1;
    int os_error = coffer__os_call(name, &caller);
    if (os_error == 0) {
        os_error = coffer__os_await_passed(caller, SERVED_PATIENCE_MS, fd);
        (void)coffer__os_close(caller);
    }
    return os_error;
}

/* Whatever is wrong with an answer, the file is read from where it is. Memory that is not sealed could change under the
   reader, so its seals are looked at. The name says which version of the file the model cache server has, and the size
   is compared as well, so bytes of another file are not taken even from a model cache server that answers nonsense, and
   every byte that the load is going to read is there. */
static bool served_attach(coffer__served_file *file, const coffer__byte_source *source)
{
    const coffer__os_info *seen = coffer__source_seen(source);
    char name[COFFER__SERVED_NAME];
    uint64_t size = 0;
    int fd = -1;
    if (seen == NULL || seen->size != source->size || seen->size == 0) {
        return false;
    }
    coffer__served_name(name, seen);
    if (served_ask(name, &fd) != 0) {
        return false;
    }
    file->found = coffer__os_shared_check(fd, true, &size) == 0 && size == seen->size &&
                  coffer__source_fd(&file->source, fd, NULL) == COFFER_OK;
    (void)coffer__os_close(fd); /* the source has a duplicate */
    return file->found;
}

static void served_release(const coffer__served *served)
{
    for (size_t i = 0; i < served->count; i++) {
        if (served->files[i].found) {
            served->files[i].source.ops->close(&served->files[i].source);
        }
    }
    coffer__free_array(&served->allocator, served->files, served->count, sizeof *served->files);
}

/* The list is made on the stack first, so that nothing is kept where no model cache server has anything, which is the
   usual case. */
coffer_status coffer__served_find(coffer__served **served, const coffer *model, const coffer_allocator *allocator,
                                  coffer_error *err)
{
    coffer__served made = { .allocator = *allocator, .count = model->shard_count };
    *served = NULL;
    made.files = coffer__alloc_array(allocator, made.count, sizeof *made.files, err);
    if (made.files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < made.count; i++) {
        made.found += served_attach(&made.files[i], &model->shards[i].source) ? 1 : 0;
    }
    coffer__served *found = made.found > 0 ? coffer__alloc_array(allocator, 1, sizeof *found, err) : NULL;
    if (found == NULL) {
        const coffer_status status = made.found > 0 ? COFFER_ERR_MEMORY : COFFER_OK;
        served_release(&made);
        return status;
    }
    *found = made;
    *served = found;
    return COFFER_OK;
}

void coffer__served_close(coffer__served *served)
{
    if (served != NULL) {
        const coffer_allocator allocator = served->allocator;
        served_release(served);
        coffer__free_array(&allocator, served, 1, sizeof *served);
    }
}
