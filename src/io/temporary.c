/* SPDX-License-Identifier: Apache-2.0 */
#include "temporary.h"

#include <errno.h>

/* How many names are tried. Numbers are random, so a second try is rare, and the hundredth means
   that something else is wrong. */
#define TEMPORARY_MAX_TRIES 100
#define TEMPORARY_PIECE 16384

/* Writes the number into the suffix, least significant digit last. The target's own name is part of
   the name where there is space, so that a user who finds the file after a crash knows what it is. */
static bool temporary_next_name(coffer__temporary *temporary, const char *target, uint32_t number)
{
    char suffix[] = ".coffer-00000000";
    for (size_t i = 0; i < 8; i++) {
        suffix[sizeof suffix - 2 - i] = "0123456789abcdef"[number >> (4 * i) & 0xF];
    }
    return coffer__path_beside(&temporary->name, target, ".", suffix) ||
           coffer__path_sibling(&temporary->name, target, suffix);
}

/* Calls make_file(temporary) with one name after the other until one is free. Creating with O_EXCL,
   or linking, is what reserves the name; nothing is looked up first, so there is no race. */
static int temporary_try_names(coffer__temporary *temporary, const char *target, bool secret,
                               int (*make_file)(coffer__temporary *temporary, bool secret))
{
    const uint32_t first = coffer__os_unlikely_number();
    int os_error = EEXIST;
    for (uint32_t i = 0; i < TEMPORARY_MAX_TRIES && os_error == EEXIST; i++) {
        if (!temporary_next_name(temporary, target, first + i)) {
            return ENAMETOOLONG;
        }
        os_error = make_file(temporary, secret);
    }
    temporary->named = os_error == 0;
    return os_error;
}

static int temporary_create(coffer__temporary *temporary, bool secret)
{
    return coffer__os_create(temporary->name.text, secret, &temporary->fd);
}

static int temporary_name(coffer__temporary *temporary, bool secret)
{
    (void)secret;
    return coffer__os_name(temporary->fd, temporary->name.text);
}

/* Any failure to create an unnamed file leads to a named one. If the reason was a real one (no
   space, no permission), the second attempt fails with it, too. */
int coffer__temporary_open(coffer__temporary *temporary, const char *target, bool secret)
{
    temporary->fd = -1;
    temporary->named = false;
    coffer__path directory;
    if (!coffer__path_directory(&directory, target)) {
        return ENAMETOOLONG;
    }
    if (coffer__os_create_unnamed(directory.text, secret, &temporary->fd) == 0) {
        return 0;
    }
    return temporary_try_names(temporary, target, secret, temporary_create);
}

/* Copies a whole file, in the kernel as far as it can (and shares blocks where that is supported),
   and with a buffer from there on. A copy that ends early without an error is continued that way; if
   reading ends early, too, the file has become shorter. */
static int temporary_copy_bytes(int from, int to, uint64_t size)
{
    uint8_t bytes[TEMPORARY_PIECE];
    uint64_t at = 0;
    int os_error = coffer__os_copy(from, 0, to, 0, size, &at);
    while (at < size && (os_error == 0 || os_error == EOPNOTSUPP)) {
        size_t done = 0;
        os_error = coffer__os_read_at(from, at, bytes, sizeof bytes, &done);
        if (os_error == 0) {
            os_error = done > 0 ? coffer__os_write_at(to, at, bytes, done) : EIO;
        }
        at += done;
    }
    return os_error;
}

/* temporary_create stores the new descriptor in temporary->fd, so the old one is kept aside. If no
   name could be made, nothing has changed and the unnamed file is still open; otherwise it is
   closed, which deletes it. */
int coffer__temporary_copy(coffer__temporary *temporary, const char *target, bool secret)
{
    coffer__os_info info;
    const int unnamed = temporary->fd;
    int os_error = coffer__os_inspect_fd(unnamed, &info);
    if (os_error == 0) {
        os_error = temporary_try_names(temporary, target, secret, temporary_create);
    }
    if (os_error != 0) {
        return os_error;
    }
    os_error = temporary_copy_bytes(unnamed, temporary->fd, info.size);
    (void)coffer__os_close(unnamed);
    if (os_error != 0) {
        (void)coffer__os_unlink(temporary->name.text);
        temporary->named = false;
    }
    return os_error;
}

/* The descriptor is gone whatever close returns, so it must not be closed a second time. */
int coffer__temporary_settle(coffer__temporary *temporary)
{
    if (!temporary->named || temporary->fd < 0) {
        return 0;
    }
    const int fd = temporary->fd;
    temporary->fd = -1;
    return coffer__os_close(fd);
}

int coffer__temporary_place(coffer__temporary *temporary, const char *target)
{
    return temporary->named ? coffer__temporary_replace(temporary, target, true)
                            : coffer__os_name(temporary->fd, target);
}

/* A rename needs a name to rename from. linkat cannot replace, so a file without a name gets one
   beside its target first. */
static int temporary_ensure_name(coffer__temporary *temporary, const char *target)
{
    return temporary->named ? 0 : temporary_try_names(temporary, target, false, temporary_name);
}

/* After the rename the file has its final name, and `named` is about the temporary one. */
int coffer__temporary_replace(coffer__temporary *temporary, const char *target, bool wait)
{
    int os_error = temporary_ensure_name(temporary, target);
    if (os_error != 0) {
        return os_error;
    }
    os_error = wait ? coffer__os_rename(temporary->name.text, target)
                    : coffer__os_rename_without_wait(temporary->name.text, target);
    if (os_error == 0) {
        temporary->named = false;
    }
    return os_error;
}

/* Learns whether the path leads to another file than `file`, or to none, or whether somebody wrote
   to it. */
static int temporary_compare(const char *path, const coffer__os_info *file, bool *changed)
{
    coffer__os_info now;
    const int os_error = coffer__os_inspect(path, true, &now);
    *changed = os_error == ENOENT || (os_error == 0 && !coffer__os_unchanged(file, &now));
    return *changed ? 0 : os_error;
}

/* The exchange took out a file that another program had just put there. Exchanging again puts it
   back. If in the meantime one more file came, the second exchange takes that one out instead,
   which is newer still, so it is put back once more. After that the race is lost, but no file of
   another program is deleted. */
static void temporary_put_back(const coffer__temporary *temporary, const char *target, const coffer__os_info *own)
{
    coffer__os_info out;
    for (int i = 0; i < 2; i++) {
        const bool done = coffer__os_exchange(temporary->name.text, target) != 0 ||
                          coffer__os_inspect(temporary->name.text, false, &out) != 0 ||
                          (out.device == own->device && out.inode == own->inode);
        if (done) {
            return;
        }
    }
}

/* First a look, which settles the usual case without touching anything. Then an exchange: it is
   atomic, and what it took out now lies under the temporary name, where nobody else replaces it and
   it can be examined at leisure. If it is the expected file, it is deleted, and the replacement is
   done. Where names cannot be exchanged, the first look has to do. */
int coffer__temporary_replace_only(coffer__temporary *temporary, const char *target, const coffer__os_info *old,
                                   bool wait, bool *changed)
{
    coffer__os_info own;
    *changed = false;
    int os_error = temporary_ensure_name(temporary, target);
    os_error = os_error == 0 ? coffer__os_inspect(temporary->name.text, false, &own) : os_error;
    os_error = os_error == 0 ? temporary_compare(target, old, changed) : os_error;
    if (os_error != 0 || *changed) {
        return os_error;
    }
    if (coffer__os_exchange(temporary->name.text, target) != 0) {
        return coffer__temporary_replace(temporary, target, wait);
    }
    os_error = temporary_compare(temporary->name.text, old, changed);
    if (os_error != 0 || *changed) {
        temporary_put_back(temporary, target, &own);
        return os_error;
    }
    /* The new file is in place, so this must not fail any more: an old file that cannot be removed stays
       under the temporary name. */
    temporary->named = false;
    (void)(wait ? coffer__os_unlink(temporary->name.text) : coffer__os_unlink_without_wait(temporary->name.text));
    return 0;
}

void coffer__temporary_discard(coffer__temporary *temporary)
{
    if (temporary->named) {
        (void)coffer__os_unlink(temporary->name.text);
    }
    coffer__temporary_keep(temporary);
}

void coffer__temporary_keep(coffer__temporary *temporary)
{
    if (temporary->fd >= 0) {
        (void)coffer__os_close(temporary->fd);
        temporary->fd = -1;
    }
    temporary->named = false;
}
