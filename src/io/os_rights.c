/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: who may use a file that takes the place of another one. Nobody gets more than the old file gave: what
 * cannot be kept is left out.
 *
 * Linux keeps access control lists as an extended attribute, little-endian whatever the machine:
 *
 *   version u32 | entries: tag u16, rights u16, number of a user or group u32
 *
 * Where there is one, the mode's bits for the group are its mask: the most that all but the owner and others may have.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "bytes.h"
#include "os.h"
#include "trouble.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/xattr.h>
#endif

#define RIGHTS_LIST "system.posix_acl_access"
/* A longer list than of so many entries is not copied. */
#define RIGHTS_MOST_ENTRIES 500
#define RIGHTS_HEAD_SIZE 4
#define RIGHTS_ENTRY_SIZE 8
#define RIGHTS_ALL 7u

typedef enum rights_tag {
    RIGHTS_OWNER = 0x01,
    RIGHTS_USER = 0x02,
    RIGHTS_GROUP = 0x04,
    RIGHTS_NAMED_GROUP = 0x08,
    RIGHTS_MASK = 0x10,
    RIGHTS_OTHERS = 0x20
} rights_tag;

/* What a file gives to whom, in the bits of an `rwx`. */
typedef struct rights {
    unsigned owner;
    unsigned group;
    unsigned others;
    unsigned mask;  /* of the group and of whom the list names; without a list what the group may */
    unsigned named; /* what all that the list names may */
    size_t size;    /* of the list; 0: there is none */
    uint8_t list[RIGHTS_HEAD_SIZE + RIGHTS_MOST_ENTRIES * RIGHTS_ENTRY_SIZE];
} rights;

/* ---- access control lists ---------------------------------------------------------------------------------------- */

#ifdef __linux__

/* The size of the list that a file has; 0: none, SIZE_MAX: one that is too long. */
static size_t rights_read_list(const char *path, uint8_t *list, size_t room)
{
    const ssize_t size = getxattr(path, RIGHTS_LIST, list, room);
    return size >= 0 ? (size_t)size : errno == ERANGE ? SIZE_MAX : 0;
}

static bool rights_write_list(int fd, const rights *given)
{
    return fsetxattr(fd, RIGHTS_LIST, given->list, given->size, 0) == 0;
}

/* A new file may have got a list from its folder. False when it still has one. */
static bool rights_remove_list(int fd)
{
    return fremovexattr(fd, RIGHTS_LIST) == 0 || errno == ENODATA || errno == EOPNOTSUPP || errno == ENOSYS;
}

#else

static size_t rights_read_list(const char *path, uint8_t *list, size_t room)
{
    (void)path;
    (void)list;
    (void)room;
    return 0;
}

static bool rights_write_list(int fd, const rights *given)
{
    (void)fd;
    (void)given;
    return false;
}

static bool rights_remove_list(int fd)
{
    (void)fd;
    return true;
}

#endif

/* The entries of a list, from the first byte of one to that of the next. */
static uint8_t *rights_entry(rights *given, size_t at)
{
    const bool there = at < given->size && given->size - at >= RIGHTS_ENTRY_SIZE;
    return there ? given->list + at : NULL;
}

/* What the entries say. */
static void rights_parse_list(rights *given)
{
    given->named = RIGHTS_ALL;
    size_t at = RIGHTS_HEAD_SIZE;
    for (const uint8_t *entry = rights_entry(given, at); entry != NULL; entry = rights_entry(given, at)) {
        const unsigned tag = entry[0] | (unsigned)entry[1] << 8;
        const unsigned may = entry[2] & RIGHTS_ALL;
        given->group = tag == RIGHTS_GROUP ? may : given->group;
        given->named &= tag == RIGHTS_USER || tag == RIGHTS_NAMED_GROUP ? may : RIGHTS_ALL;
        at += RIGHTS_ENTRY_SIZE;
    }
}

/* Puts what group and others may into the list; those whom it names keep what they had. */
static void rights_update_list(rights *given)
{
    size_t at = RIGHTS_HEAD_SIZE;
    for (uint8_t *entry = rights_entry(given, at); entry != NULL; entry = rights_entry(given, at)) {
        const unsigned tag = entry[0] | (unsigned)entry[1] << 8;
        if (tag == RIGHTS_GROUP || tag == RIGHTS_OTHERS) {
            entry[2] = (uint8_t)(tag == RIGHTS_GROUP ? given->group : given->others);
        }
        at += RIGHTS_ENTRY_SIZE;
    }
}

static void rights_of(rights *given, const coffer__os_info *info, const char *path)
{
    given->owner = info->mode >> 6 & RIGHTS_ALL;
    given->mask = info->mode >> 3 & RIGHTS_ALL;
    given->others = info->mode & RIGHTS_ALL;
    given->group = given->mask;
    given->named = RIGHTS_ALL;
    given->size = rights_read_list(path, given->list, sizeof given->list);
    if (given->size == SIZE_MAX) {
        given->size = 0;
        given->mask = given->group = given->others = 0; /* nobody knows what they may */
    } else if (given->size > 0) {
        rights_parse_list(given);
    }
}

/* Whom owner or group had in mind is somebody else to a file of another owner or group: nobody may do there what one of the two
   could not do before. */
static void rights_reduce(rights *given, bool owner_is_kept, bool group_is_kept)
{
    if (!group_is_kept) {
        given->group &= given->mask;
        given->others &= given->group;
        given->group = given->others;
    }
    if (!owner_is_kept) {
        given->group &= given->owner;
        given->others &= given->owner;
    }
}

/* Gives the file the list. Without it those that it named are like others, or of the group. */
static void rights_apply_list(rights *given, int fd)
{
    if (given->size > 0) {
        rights_update_list(given);
        if (rights_write_list(fd, given)) {
            return;
        }
        given->group &= given->mask & given->named;
        given->others &= given->named;
        given->mask = given->group;
    }
    if (!rights_remove_list(fd)) {
        given->mask = 0; /* none for those whom the folder's list names */
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Takes owner and group, as far as that is permitted, and tells which the file has now. */
static int rights_take_owner(int fd, const coffer__os_info *info, coffer__os_info *own)
{
    int os_error = coffer__os_inspect_fd(fd, own);
    if (os_error != 0 || (own->owner == info->owner && own->group == info->group)) {
        return os_error;
    }
    if (fchown(fd, (uid_t)info->owner, (gid_t)info->group) != 0) {
        /* Whoever is a member of the group may at least keep that. */
        (void)!fchown(fd, (uid_t)-1, (gid_t)info->group);
    }
    return coffer__os_inspect_fd(fd, own);
}

int coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path)
{
    coffer__os_info own;
    rights given;
    int os_error = rights_take_owner(fd, info, &own);
    if (os_error != 0) {
        return os_error;
    }
    const bool owner_is_kept = own.owner == info->owner;
    const bool group_is_kept = own.group == info->group;
    rights_of(&given, info, path);
    rights_reduce(&given, owner_is_kept, group_is_kept);
    given.mask = given.size > 0 ? given.mask : given.group;
    rights_apply_list(&given, fd);
    const uint32_t lent = owner_is_kept && group_is_kept ? info->mode & 07000u : 0; /* set-id and sticky bits */
    const uint32_t mode = lent | given.owner << 6 | given.mask << 3 | given.others;
    os_error = coffer__os_inspect_fd(fd, &own);
    /* Some file systems know no modes: they refuse to change the one that all their files have. */
    return os_error != 0 || own.mode == mode || fchmod(fd, (mode_t)mode) == 0 ? os_error : errno;
}

coffer_status coffer_take_rights(int fd, const char *path, coffer_error *err)
{
    coffer__os_info info;
    int os_error = coffer__os_inspect(path, true, &info);
    if (os_error == 0) {
        os_error = coffer__os_take_owner_and_mode(fd, &info, path);
    }
    return os_error == 0 ? COFFER_OK
                         : coffer__trouble(err, "give the new file the rights of the old one", path, os_error);
}
