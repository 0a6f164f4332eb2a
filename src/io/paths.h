/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files as text. A path has a fixed size, the most that Linux accepts, so that no name needs an
 * allocation. Functions that build a path return false when it does not fit; nothing is ever cut.
 */
#ifndef COFFER_IO_PATHS_H
#define COFFER_IO_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#define COFFER__PATH_SIZE 4096
#define COFFER__PATH_MAX_NAME 255 /* bytes of one component */

typedef struct coffer__path {
    char text[COFFER__PATH_SIZE];
} coffer__path;

/* Appends to a text in a space of `size` bytes; false, and nothing appended, when it does not fit. */
bool coffer__text_append(char *text, size_t size, const char *more, size_t more_len);
/* Where the last component begins; the path's length when it ends in a slash. */
size_t coffer__path_name_at(const char *path);
/* Adds text to the end; false, and nothing added, when that is too long. */
bool coffer__path_append(coffer__path *path, const char *text, size_t text_len);
/* Each fills *out, or returns false when the result is too long. */
bool coffer__path_copy(coffer__path *out, const char *path);
/* The directory that `path` lies in: "." or everything up to its last slash, which is kept. */
bool coffer__path_directory(coffer__path *out, const char *path);
/* The path with its last component NAME made prefix NAME suffix. */
bool coffer__path_beside(coffer__path *out, const char *path, const char *prefix, const char *suffix);
/* The path with its last component replaced by `name`. */
bool coffer__path_sibling(coffer__path *out, const char *path, const char *name);

#endif
