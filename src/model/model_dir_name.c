/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names of files an index may have, and which paths other descriptions of a model: see model_dir_name.h. Names are checked in every form that
 * undoing escapes can give them, as a server or a cache may undo them later. Pure: nothing is looked
 * for on a disk.
 */
#include "model_dir_name.h"

#include "error.h"
#include "paths.h"
#include "text.h"

#include <string.h>

/* The value of the %XX at `at`; -1 when there is none. `at` is less than `len`. */
static int model_dir_escape_at(const char *text, size_t len, size_t at)
{
    int value = 0;
    if (text[at] != '%' || len - at < 3) {
        return -1;
    }
    for (size_t i = 1; i <= 2; i++) {
        const char c = text[at + i];
        const char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9') {
            value = value * 16 + (c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value * 16 + (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

/* Undoes every %XX in place; true if there was one. The text gets shorter each time, so undoing
   repeatedly ends. */
static bool model_dir_undo_escapes(char *text, size_t *len)
{
    size_t to = 0;
    for (size_t at = 0; at < *len; to++) {
        const int value = model_dir_escape_at(text, *len, at);
        text[to] = value < 0 ? text[at] : (char)value;
        at += value < 0 ? 1 : 3;
    }
    const bool undone = to < *len;
    *len = to;
    return undone;
}

/* What is wrong with a name in this spelling; NULL: nothing. Bytes that are not UTF-8 are
   accepted one by one, since undoing escapes may give them. A backslash is refused on
   every system, because an index is made on one machine and read on another. The words end
   the sentence in the message. */
static const char *model_dir_fault_of(const char *name, size_t len)
{
    if (len == 0 || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))) {
        return "it names no file";
    }
    for (size_t at = 0, size = 0; at<len; at += size> 0 ? size : 1) {
        uint32_t code_point = 0;
        size = coffer__utf8_decode(name + at, len - at, &code_point); /* undone escapes may not be UTF-8 */
        if (name[at] == '/' || name[at] == '\\') {
            return "it leads to another folder";
        }
        if (name[at] == ':') {
            return "a colon could make it an address or another drive";
        }
        if (size > 0 && coffer__is_control(code_point)) {
            return "it has a control character";
        }
    }
    return NULL;
}

/* Checks the name as it is written, and again after each round of undoing escapes, until nothing is
   left to undo: "%252e%252e" is ".." after two rounds. Each round makes the text shorter, so there
   are at most 127 of them. */
static const char *model_dir_fault(const char *name, size_t name_len)
{
    char decoded[COFFER__PATH_MAX_NAME];
    size_t len = name_len;
    const char *fault = name_len > sizeof decoded ? "it is longer than 255 bytes" : model_dir_fault_of(name, name_len);
    if (fault == NULL) {
        memcpy(decoded, name, len);
        while (fault == NULL && model_dir_undo_escapes(decoded, &len)) {
            fault = model_dir_fault_of(decoded, len);
        }
    }
    return fault;
}

/* An absolute path begins with an empty name, so it is refused as every other that has one. */
static const char *model_dir_path_fault(const char *path, size_t path_len)
{
    const char *fault = path_len > COFFER__MODEL_DIR_MAX_PATH ? "it is longer than 1,000 bytes" : NULL;
    for (size_t at = 0; fault == NULL && at <= path_len;) {
        size_t end = at;
        while (end < path_len && path[end] != '/') {
            end++;
        }
        fault = model_dir_fault(path + at, end - at);
        at = end + 1;
    }
    return fault;
}

/* The message shows the name as it is written, escaped. */
coffer_status coffer__model_dir_check_name(const char *name, size_t name_len, uint64_t offset, coffer_error *err)
{
    const char *fault = model_dir_fault(name, name_len);
    if (fault == NULL) {
        return COFFER_OK;
    }
    return coffer__fail_at(
        err, COFFER_ERR_SHARD_NAME, offset,
        "at byte %u, the index names the file %q, which is not opened: %s; a shard must be a file in "
        "the folder of the index",
        offset, name, name_len, fault);
}

coffer_status coffer__model_dir_check_shard(const char *path, size_t path_len, uint64_t offset, coffer_error *err)
{
    const char *fault = model_dir_path_fault(path, path_len);
    return fault == NULL ? COFFER_OK
                         : coffer__fail_at(err, COFFER_ERR_SHARD_NAME, offset,
                                           "at byte %u, the index names the file %q, which is not opened: %s; a shard "
                                           "must be a file in the folder of the index, or below it",
                                           offset, path, path_len, fault);
}

coffer_status coffer__model_dir_check_path(const char *path, size_t path_len, uint64_t offset, coffer_error *err)
{
    const char *fault = model_dir_path_fault(path, path_len);
    return fault == NULL ? COFFER_OK
                         : coffer__fail_at(err, COFFER_ERR_SHARD_NAME, offset,
                                           "the file %q is not opened: %s; only files in the folder of the input, or "
                                           "below it, are",
                                           path, path_len, fault);
}
