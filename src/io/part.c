/* SPDX-License-Identifier: Apache-2.0 */
#include "part.h"

#include "alloc.h"
#include "bytes.h"
#include "errno_status.h"
#include "error.h"
#include "text.h"

#include <errno.h>
#include <string.h>

#define PART_SUFFIX ".coffer-part"
#define PART_FIXED ((size_t)16 + 8 + 8 + 8)
/* How often a part is opened that other processes rename or remove at the same time. */
#define PART_MAX_TURNS 16u

/* The record that the part should have: what it must be equal to if pieces are to count. */
typedef struct part_wish {
    uint8_t fixed[PART_FIXED];
    const char *origin;
    size_t origin_len;
} part_wish;

/* The layout is in part.h. The version is part of the magic text: a part of another version is not
   equal. */
static void part_wish_for(part_wish *wish, const coffer__part *part, const char *origin, uint64_t plan)
{
    static const char magic[] = "coffer-part 2\n";
    wish->origin = origin;
    wish->origin_len = coffer__text_len(origin);
    memset(wish->fixed, 0, sizeof wish->fixed);
    memcpy(wish->fixed, magic, sizeof magic);
    coffer__store_u64le(wish->fixed + 16, part->size);
    coffer__store_u64le(wish->fixed + 24, plan);
    coffer__store_u64le(wish->fixed + 32, wish->origin_len);
}

static coffer_status part_trouble(const coffer__part *part, const char *task, int os_error, coffer_error *err)
{
    return coffer__errno_status(err, task, part->name.text, os_error);
}

/* Where the bytes are that say which pieces are there. The sum does not overflow: with a size near 2^64 there
   would have been no memory for the marks. */
static uint64_t part_marks_at(const coffer__part *part, const part_wish *wish)
{
    return part->size + PART_FIXED + wish->origin_len;
}

/* ---- what lies there --------------------------------------------------------------------------------------------- */

/* Whether the file has these bytes at `at`. A read error or an early end means no. */
static bool part_has(const coffer__part *part, uint64_t at, const void *bytes, size_t size)
{
    uint8_t there[256];
    for (size_t seen = 0; seen < size;) {
        const size_t step = size - seen < sizeof there ? size - seen : sizeof there;
        size_t got = 0;
        if (coffer__os_read_at(part->fd, at + seen, there, step, &got) != 0 || got != step ||
            memcmp(there, (const uint8_t *)bytes + seen, step) != 0) {
            return false;
        }
        seen += step;
    }
    return true;
}

/* Whether what lies there is this very part: the length and the whole record must be equal. Then
   `done` is read, and its pieces count. Without an origin two versions could not be told apart. */
static bool part_goes_on(const coffer__part *part, const part_wish *wish)
{
    coffer__os_info info;
    size_t got = 0;
    const uint64_t marks = part_marks_at(part, wish);
    return wish->origin_len > 0 && coffer__os_inspect_fd(part->fd, &info) == 0 &&
           info.size == marks + part->piece_count && part_has(part, part->size, wish->fixed, sizeof wish->fixed) &&
           part_has(part, part->size + sizeof wish->fixed, wish->origin, wish->origin_len) &&
           coffer__os_read_at(part->fd, marks, part->done, (size_t)part->piece_count, &got) == 0 &&
           got == part->piece_count;
}

/* Starts again. Truncating to 0 first drops old bytes and marks; space is reserved before the
   length is set, so that a full disk is found now. The marks are written by the last truncation:
   they are zeros. */
static coffer_status part_begin(const coffer__part *part, const part_wish *wish, coffer_error *err)
{
    const uint64_t marks = part_marks_at(part, wish);
    memset(part->done, 0, (size_t)part->piece_count);
    int os_error = coffer__os_truncate(part->fd, 0);
    os_error = os_error != 0 ? os_error : coffer__os_reserve(part->fd, 0, part->size);
    os_error = os_error != 0 ? os_error : coffer__os_truncate(part->fd, marks + part->piece_count);
    os_error = os_error != 0 ? os_error : coffer__os_write_at(part->fd, part->size, wish->fixed, sizeof wish->fixed);
    os_error = os_error != 0
                   ? os_error
                   : coffer__os_write_at(part->fd, part->size + sizeof wish->fixed, wish->origin, wish->origin_len);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "make room for the file", os_error, err);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Opens what lies under the name, or creates it, which *made says. O_NOFOLLOW: a symbolic link, and whatever else
   cannot be opened for writing, was not made by this library and is removed. */
static int part_open_name(coffer__part *part, bool *made)
{
    const int os_error = coffer__os_open(part->name.text, COFFER__OS_EDIT, false, &part->fd);
    if (os_error == 0) {
        return 0;
    }
    /* A symbolic link, and what else cannot be opened to write, is none of ours. */
    const int removed = os_error == ENOENT ? 0 : coffer__os_unlink(part->name.text);
    *made = removed == 0;
    return *made ? coffer__os_create(part->name.text, false, &part->fd) : removed;
}

/* Whether the open file may be written to. A second link would be a name of somebody's file that
   changes under them. One that was just `made` here is this user's, even where its number does not say so. */
static bool part_is_own(const coffer__os_info *info, bool made)
{
    return info->kind == COFFER__OS_REGULAR && info->links == 1 && (made || coffer__os_is_mine(info));
}

/* Whether the name still leads to the open file. Between opening and locking, another process may
   have completed that file and given it its final name, or removed it: writing to it would damage a
   finished file. */
static bool part_is_named(const coffer__part *part)
{
    coffer__os_info now;
    return coffer__os_inspect(part->name.text, false, &now) == 0 && now.device == part->device &&
           now.inode == part->inode;
}

/* Opens and locks the file, and only then checks that it is the right one, since nothing changes
   under the lock. ESTALE: it was not, and opening should be tried again. With EWOULDBLOCK, when
   another process holds the lock, the descriptor stays open for coffer__part_close. */
static int part_enter(coffer__part *part)
{
    coffer__os_info info;
    bool made = false;
    int os_error = part_open_name(part, &made);
    if (os_error != 0) {
        part->fd = -1;
        return os_error == EEXIST ? ESTALE : os_error; /* another process was faster */
    }
    os_error = coffer__os_lock(part->fd);
    os_error = os_error == 0 ? coffer__os_inspect_fd(part->fd, &info) : os_error;
    if (os_error != 0) {
        return os_error;
    }
    part->device = info.device;
    part->inode = info.inode;
    const bool named = part_is_named(part);
    if (named && part_is_own(&info, made)) {
        return 0;
    }
    (void)coffer__os_close(part->fd);
    part->fd = -1;
    const int removed = named ? coffer__os_unlink(part->name.text) : 0;
    return removed == 0 || removed == ENOENT ? ESTALE : removed;
}

/* EWOULDBLOCK with an open descriptor is the lock's; without one it would be a failure to open. */
static coffer_status part_open_file(coffer__part *part, coffer_error *err)
{
    int os_error = ESTALE;
    for (unsigned turn = 0; turn < PART_MAX_TURNS && os_error == ESTALE; turn++) {
        os_error = part_enter(part);
    }
    if (os_error == 0) {
        return COFFER_OK;
    }
    if (part->fd >= 0 && os_error == EWOULDBLOCK) {
        coffer__fail(err, COFFER_ERR_LOCKED, "another process is fetching the same file");
        return coffer__fail_path(err, COFFER_ERR_LOCKED, part->name.text);
    }
    return part_trouble(part, "make the file", os_error, err);
}

bool coffer__part_name(coffer__path *name, const coffer__path *target)
{
    return coffer__path_beside(name, target->text, "", PART_SUFFIX);
}

/* `done` has one byte more than there are pieces, so that an empty file needs no special case. */
coffer_status coffer__part_open(coffer__part *part, const coffer__path *target, uint64_t size, const char *origin,
                                uint64_t plan, const coffer_allocator *allocator, coffer_error *err)
{
    part_wish wish;
    memset(part, 0, sizeof *part);
    part->fd = -1;
    part->size = size;
    part->piece_count = size / COFFER__PART_PIECE + (size % COFFER__PART_PIECE != 0);
    part->target = *target;
    if (!coffer__part_name(&part->name, target)) {
        return coffer__errno_status(err, "make the file", target->text, ENAMETOOLONG);
    }
    part->done = part->piece_count < SIZE_MAX ? coffer__alloc_zeroed(allocator, (size_t)part->piece_count + 1) : NULL;
    if (part->done == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the file");
    }
    const coffer_status status = part_open_file(part, err);
    if (status != COFFER_OK) {
        return status;
    }
    part_wish_for(&wish, part, origin, plan);
    part->marks_at = part_marks_at(part, &wish);
    return part_goes_on(part, &wish) ? COFFER_OK : part_begin(part, &wish, err);
}

/* The same checks as part_enter, in the same order: lock first. The file may still have its record,
   so it is at least as long as its contents. */
bool coffer__part_adopt(coffer__part *part, const coffer__path *target, uint64_t size, uint64_t device, uint64_t inode)
{
    coffer__os_info info;
    memset(part, 0, sizeof *part);
    part->fd = -1;
    part->size = size;
    part->target = *target;
    part->device = device;
    part->inode = inode;
    if (!coffer__part_name(&part->name, target) ||
        coffer__os_open(part->name.text, COFFER__OS_EDIT, false, &part->fd) != 0) {
        part->fd = -1;
        return false;
    }
    return coffer__os_lock(part->fd) == 0 && coffer__os_inspect_fd(part->fd, &info) == 0 && part_is_own(&info, false) &&
           info.device == device && info.inode == inode && info.size >= size && part_is_named(part);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* `piece` is below the count, so the difference is not negative. */
uint64_t coffer__part_piece_size(const coffer__part *part, uint64_t piece)
{
    const uint64_t left = part->size - piece * COFFER__PART_PIECE;
    return left < COFFER__PART_PIECE ? left : COFFER__PART_PIECE;
}

coffer_status coffer__part_write(const coffer__part *part, uint64_t at, const void *bytes, size_t size,
                                 coffer_error *err)
{
    const int os_error = coffer__os_write_at(part->fd, at, bytes, size);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "write the file", os_error, err);
}

/* Called after the bytes were written, never before. Both may be in memory only when the power
   fails, and the system may store the mark first: see part.h. */
coffer_status coffer__part_mark(coffer__part *part, uint64_t piece, coffer_error *err)
{
    static const uint8_t there = 1;
    const int os_error = coffer__os_write_at(part->fd, part->marks_at + piece, &there, 1);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "write the file", os_error, err);
}

/* The record goes first: a part without one is not resumed, so a crash from here on costs a new
   download, not a wrong file. */
coffer_status coffer__part_finish(coffer__part *part, bool durable, coffer_error *err)
{
    int os_error = coffer__os_truncate(part->fd, part->size);
    os_error = os_error != 0 || !durable ? os_error : coffer__os_sync(part->fd);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "complete the file", os_error, err);
}

void coffer__part_remove(coffer__part *part)
{
    (void)coffer__os_unlink(part->name.text);
}

void coffer__part_close(coffer__part *part, const coffer_allocator *allocator)
{
    if (part->fd >= 0) {
        (void)coffer__os_close(part->fd);
        part->fd = -1;
    }
    if (part->done != NULL) {
        coffer__free(allocator, part->done, (size_t)part->piece_count + 1);
        part->done = NULL;
    }
}
