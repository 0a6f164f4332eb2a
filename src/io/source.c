/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all sources share. Every call goes through here, so that a kind may rely on a range that lies within the source,
 * and needs no function for what it cannot do.
 */
#include "source.h"

#include "error.h"
#include "patch.h"

#include <string.h>

void coffer__source_init(coffer__byte_source *source, const coffer__source_ops *ops, uint64_t size,
                         coffer__source_traits traits)
{
    memset(source, 0, sizeof *source);
    source->ops = ops;
    source->size = size;
    source->is = traits;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Whether a range lies within the source. Neither number is trusted, so that they are not added. */
static bool source_has(const coffer__byte_source *source, uint64_t offset, uint64_t size)
{
    return offset <= source->size && size <= source->size - offset;
}

/* A mistake of ours, or of the program that calls the library. Offsets that a file states were
   compared with its size before they get here. */
static coffer_status source_out_of_range(const coffer__byte_source *source, uint64_t offset, uint64_t size,
                                         coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_ARGUMENT, offset,
                           "%u bytes from %u on were requested from a source of %u bytes", size, offset, source->size);
}

coffer_status coffer__source_read(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                  coffer_error *err)
{
    return coffer__source_read_watched(source, offset, buffer, size, NULL, err);
}

coffer_status coffer__source_read_watched(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err)
{
    if (!source_has(source, offset, size)) {
        return source_out_of_range(source, offset, size, err);
    }
    return size == 0 ? COFFER_OK : source->ops->read_at(source, offset, buffer, size, watch, err);
}

/* Checked in this order so that a source that cannot be mapped says so whatever the range is. */
void *coffer__source_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                         bool populate, coffer__os_map *map, coffer_error *err)
{
    /* An empty range cannot be mapped, but callers get an address for every tensor; this one is aligned. */
    static uint64_t nothing;
    if (!source->is.maps) {
        (void)coffer__fail(err, COFFER_ERR_NOT_MAPPED, "%s cannot be mapped: read the tensor instead",
                           source->ops->kind);
        return NULL;
    }
    if (!source_has(source, offset, size)) {
        (void)source_out_of_range(source, offset, size, err);
        return NULL;
    }
    return size == 0 ? &nothing : source->ops->map(source, offset, size, access, populate, map, err);
}

/* The address is copied as bytes, because a cast would take the const away silently. */
void *coffer__source_lent_memory(const void *bytes, coffer_access access, coffer_error *err)
{
    if (access == COFFER_MAP_PRIVATE) {
        (void)coffer__fail(
            err, COFFER_ERR_NOT_MAPPED,
            "memory given to Coffer is never changed, and a private map would not copy it: map it read-only");
        return NULL;
    }
    void *address = NULL;
    memcpy(&address, &bytes, sizeof address);
    return address;
}

/* ---- which version of the bytes it is ---------------------------------------------------------------------------- */

const coffer__os_info *coffer__source_seen(const coffer__byte_source *source)
{
    return source->ops->seen == NULL ? NULL : source->ops->seen(source);
}

/* Only the times of a regular file tell of changes. */
static bool source_has_times(const coffer__byte_source *source)
{
    const coffer__os_info *seen = coffer__source_seen(source);
    return seen != NULL && seen->kind == COFFER__OS_REGULAR;
}

bool coffer__source_is_file(const coffer__byte_source *source, const coffer__os_info *file)
{
    const coffer__os_info *seen = coffer__source_seen(source);
    return seen != NULL && seen->device == file->device && seen->inode == file->inode;
}

/* A change that comes within the clock's tick leaves the times as they are (os.h), so only a file that was left alone
   for a while tells of the next change. */
bool coffer__source_is_fresh(const coffer__byte_source *source)
{
    return source_has_times(source) && coffer__source_seen(source)->recent;
}

/* Only the first hole is looked for, and it counts if it begins within the source. */
bool coffer__source_has_holes(const coffer__byte_source *source)
{
    int fd = -1;
    uint64_t begin = 0;
    if (!source->is.lends || source->ops->borrow(source, &fd, &begin, NULL) != COFFER_OK) {
        return false;
    }
    const uint64_t hole = coffer__os_next_hole(fd, begin);
    source->ops->give_back(source);
    return hole != UINT64_MAX && hole - begin < source->size;
}

uint64_t coffer__source_holes(const coffer__byte_source *source, uint64_t *first)
{
    int fd = -1;
    uint64_t begin = 0;
    uint64_t count = 0;
    if (!source->is.lends || source->ops->borrow(source, &fd, &begin, NULL) != COFFER_OK) {
        return 0;
    }
    uint64_t hole = coffer__os_next_hole(fd, begin);
    while (hole != UINT64_MAX && hole - begin < source->size) {
        *first = count++ == 0 ? hole - begin : *first;
        const uint64_t data = coffer__os_next_data(fd, hole);
        hole = data > hole ? coffer__os_next_hole(fd, data) : UINT64_MAX;
    }
    source->ops->give_back(source);
    return count;
}

/* What has no times cannot show a change, and is taken to have none. */
bool coffer__source_is_still(coffer__byte_source *source)
{
    return !source_has_times(source) || source->ops->is_still == NULL || source->ops->is_still(source);
}

/* Kinds whose bytes are not edited in place, and so have no undo file, are never in the middle of an edit. */
coffer_status coffer__source_path_again(const coffer__byte_source *source, const char *path, coffer_error *err)
{
    const bool edited = source->ops->is_edited != NULL && source->ops->is_edited(source, path);
    return edited ? coffer__undo_fail(err, path) : COFFER_OK;
}

/* The text is "" whenever the answer is false, also where the kind filled half of it and gave up. */
bool coffer__source_identity(const coffer__byte_source *source, char text[COFFER__SOURCE_IDENTITY])
{
    text[0] = '\0';
    return source->ops->identity != NULL && source->ops->identity(source, text);
}

const char *coffer__source_commit(const coffer__byte_source *source)
{
    return source->ops->commit == NULL ? "" : source->ops->commit(source);
}

const void *coffer__source_kept(const coffer__byte_source *source)
{
    return source->ops->kept == NULL ? NULL : source->ops->kept(source);
}

bool coffer__source_stated_sha256(const coffer__byte_source *source, uint8_t digest[32])
{
    return source->ops->stated_sha256 != NULL && source->ops->stated_sha256(source, digest);
}
