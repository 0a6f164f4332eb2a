/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: who may use a file that replaces another one. Nobody gets more than the old file
 * gave them; what cannot be kept is left out.
 *
 * Linux stores an access control list as an extended attribute, little-endian on every machine:
 *
 *   version u32 | entries: tag u16, rights u16, number of a user or group u32
 *
 * With a list, the mode's bits for the group are the list's mask: the most that anybody except the owner
 * and others may have. The rights of the group itself are then in the entry with the tag RIGHTS_GROUP.
 *
 * The order matters. Owner and group come first, because changing them may clear bits of the mode. Then the
 * list, because writing it changes the mode. The mode comes last and has the final word.
 */
#define _GNU_SOURCE 1
#define _FILE_OFFSET_BITS 64
#include "os.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/xattr.h>
#endif

#define RIGHTS_LIST "system.posix_acl_access"
/* A list with more entries is not copied. This many fill a block of 4 KiB, the space that ext4 has for them. */
#define RIGHTS_MAX_ENTRIES 500
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

/* Who may do what with a file, each as the three bits of an `rwx`. */
typedef struct rights {
    unsigned owner;
    unsigned group;
    unsigned others;
    unsigned mask;  /* bounds the group and those whom the list names; without a list equal to `group` */
    unsigned named; /* what everybody whom the list names has in common */
    size_t size;    /* bytes of the list; 0: there is none */
    uint8_t list[RIGHTS_HEAD_SIZE + RIGHTS_MAX_ENTRIES * RIGHTS_ENTRY_SIZE];
} rights;

/* ---- access control lists ---------------------------------------------------------------------------------------- */

#ifdef __linux__

/* Reads the list of a file and returns its size; 0: there is none, SIZE_MAX: it does not fit in the space. */
static size_t rights_read_list(const char *path, uint8_t *list, size_t capacity)
{
    const ssize_t size = getxattr(path, RIGHTS_LIST, list, capacity);
    return size >= 0 ? (size_t)size : errno == ERANGE ? SIZE_MAX : 0;
}

static bool rights_write_list(int fd, const rights *given)
{
    return fsetxattr(fd, RIGHTS_LIST, given->list, given->size, 0) == 0;
}

/* A new file may have inherited a list from its folder's default list. False when it still has one. */
static bool rights_remove_list(int fd)
{
    return fremovexattr(fd, RIGHTS_LIST) == 0 || errno == ENODATA || errno == EOPNOTSUPP || errno == ENOSYS;
}

#else

static size_t rights_read_list(const char *path, uint8_t *list, size_t capacity)
{
    (void)path;
    (void)list;
    (void)capacity;
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

/* The entry at a byte of the list; NULL if no whole entry is left. A list is bytes from the file system, and
   its length is not trusted to be a multiple of anything. */
static uint8_t *rights_entry(rights *given, size_t at)
{
    const bool there = at < given->size && given->size - at >= RIGHTS_ENTRY_SIZE;
    return there ? given->list + at : NULL;
}

/* Learns from the entries what the group may, and what all named users and groups have in common. */
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

/* Writes what group and others may into the list; those whom it names keep what they had. */
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

/* What the old file gave. If its list is too long to be read, nobody knows what others and the
   group may, and only the owner keeps anything. */
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
        given->mask = given->group = given->others = 0;
    } else if (given->size > 0) {
        rights_parse_list(given);
    }
}

/*
 * Reduces rights when the new file has another owner or group, in which people fall into other
 * classes.
 *
 * A member of the old group is now perhaps one of the others, and one of the others perhaps a
 * member of the new group. Both classes get only what both had before. The old owner is now perhaps
 * a member of the group or one of the others, so these get nothing that the owner lacked.
 */
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

/* Gives the file the list. If it cannot be written, those whom it named are now like the group or
   like others, so neither of these may have more than all of the named had. An inherited list that
   cannot be removed is made ineffective by an empty mask. */
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
        given->mask = 0;
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Takes over owner and group as far as permitted, and reports what the file has now. Only root may
   give files away; a member of the group may at least keep the group. Failing is not an error:
   rights_reduce deals with it. */
static int rights_take_owner(int fd, const coffer__os_info *info, coffer__os_info *own)
{
    int os_error = coffer__os_inspect_fd(fd, own);
    if (os_error != 0 || (own->owner == info->owner && own->group == info->group)) {
        return os_error;
    }
    if (fchown(fd, (uid_t)info->owner, (gid_t)info->group) != 0) {
        (void)!fchown(fd, (uid_t)-1, (gid_t)info->group);
    }
    return coffer__os_inspect_fd(fd, own);
}

/* Set-id bits are kept only if both owner and group are, since they lend the rights of these. The
   mode is compared before it is changed: some file systems have no modes, and refuse to change the
   one that all their files have. */
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
    const uint32_t lent = owner_is_kept && group_is_kept ? info->mode & 07000u : 0;
    const uint32_t mode = lent | given.owner << 6 | given.mask << 3 | given.others;
    os_error = coffer__os_inspect_fd(fd, &own);
    return os_error != 0 || own.mode == mode || fchmod(fd, (mode_t)mode) == 0 ? os_error : errno;
}
