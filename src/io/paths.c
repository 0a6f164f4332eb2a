/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include "os.h"
#include "text.h"

#include <string.h>

/* The text is terminated and shorter than `size`, so `size - used` is at least 1, and a text that fits leaves space
   for the NUL. */
bool coffer__text_append(char *text, size_t size, const char *more, size_t more_len)
{
    const size_t used = coffer__text_len(text);
    if (more_len >= size - used) {
        return false;
    }
    memcpy(text + used, more, more_len);
    text[used + more_len] = '\0';
    return true;
}

size_t coffer__path_name_at(const char *path)
{
    size_t at = coffer__text_len(path);
    while (at > 0 && strchr(coffer__os_separators, path[at - 1]) == NULL) {
        at--;
    }
    return at;
}

/* Appends to the `used` bytes that are there, NUL included; false when that is too long. */
static bool path_append(coffer__path *out, size_t *used, const char *text, size_t text_len)
{
    if (text_len >= sizeof out->text - *used) {
        return false;
    }
    memcpy(out->text + *used, text, text_len);
    *used += text_len;
    out->text[*used] = '\0';
    return true;
}

bool coffer__path_append(coffer__path *path, const char *text, size_t text_len)
{
    size_t used = coffer__text_len(path->text);
    return path_append(path, &used, text, text_len);
}

bool coffer__path_copy(coffer__path *out, const char *path)
{
    size_t used = 0;
    return path_append(out, &used, path, coffer__text_len(path));
}

/* The slash is kept, so that the directory of "/name" is "/". */
bool coffer__path_directory(coffer__path *out, const char *path)
{
    size_t used = 0;
    const size_t name_at = coffer__path_name_at(path);
    return name_at == 0 ? path_append(out, &used, ".", 1) : path_append(out, &used, path, name_at);
}

/* A component has a limit of its own, which is below that of a path; creating the file would fail
   with it. */
bool coffer__path_beside(coffer__path *out, const char *path, const char *prefix, const char *suffix)
{
    const size_t name_at = coffer__path_name_at(path);
    const size_t name_len = coffer__text_len(path) - name_at;
    const size_t prefix_len = coffer__text_len(prefix);
    const size_t suffix_len = coffer__text_len(suffix);
    if (name_len > COFFER__PATH_MAX_NAME || prefix_len + suffix_len > COFFER__PATH_MAX_NAME - name_len) {
        return false;
    }
    size_t used = 0;
    return path_append(out, &used, path, name_at) && path_append(out, &used, prefix, prefix_len) &&
           path_append(out, &used, path + name_at, name_len) && path_append(out, &used, suffix, suffix_len);
}

bool coffer__path_sibling(coffer__path *out, const char *path, const char *name)
{
    size_t used = 0;
    return path_append(out, &used, path, coffer__path_name_at(path)) &&
           path_append(out, &used, name, coffer__text_len(name));
}
