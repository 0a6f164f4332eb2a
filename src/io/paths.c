/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include "os.h"
#include "text.h"

#include <string.h>

size_t coffer__path_name_at(const char *path)
{
    size_t at = coffer__text_len(path);
    while (at > 0 && strchr(coffer__os_separators, path[at - 1]) == NULL) {
        at--;
    }
    return at;
}

/* The slash is kept, so that the directory of "/name" is "/". */
bool coffer__path_directory(coffer__path *out, const char *path)
{
    const size_t name_at = coffer__path_name_at(path);
    out->text[0] = '\0';
    return name_at == 0 ? coffer__path_append(out, ".", 1) : coffer__path_append(out, path, name_at);
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
    out->text[0] = '\0';
    return coffer__path_append(out, path, name_at) && coffer__path_append(out, prefix, prefix_len) &&
           coffer__path_append(out, path + name_at, name_len) && coffer__path_append(out, suffix, suffix_len);
}

bool coffer__path_sibling(coffer__path *out, const char *path, const char *name)
{
    out->text[0] = '\0';
    return coffer__path_append(out, path, coffer__path_name_at(path)) &&
           coffer__path_append(out, name, coffer__text_len(name));
}
