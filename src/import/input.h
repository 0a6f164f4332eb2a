/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer_input is: sources of one or more files, and the way to more of them. */
#ifndef COFFER_IMPORT_INPUT_H
#define COFFER_IMPORT_INPUT_H

#include "coffer.h"
#include "reader.h"
#include "sibling_files.h"
#include "source.h"

/* A file of an input, at the same place as long as the input lives. */
typedef struct coffer__input_file {
    coffer_input *input;
    uint32_t number;
    coffer__byte_source source;
    coffer__pooled pooled; /* of a file beside it, at a path */
    char *name;            /* NUL-terminated; "" of the input itself */
    size_t name_len;
} coffer__input_file;

struct coffer_input {
    coffer_allocator allocator;
    coffer_input_functions functions; /* the caller's; read is NULL when there are none */
    coffer__sibling_files around;     /* else */
    coffer_progress progress;         /* asked while a server is waited for; NULL: nobody */
    void *progress_ctx;
    char *path; /* as it was given */
    size_t path_size;
    coffer__input_file **files; /* `capacity` of them, `count` in use */
    uint32_t count;
    size_t capacity;
    const coffer_import *borrower; /* for which other inputs have lent files; or NULL */
    uint64_t bytes_read;
};

/* Finds the file of a folder that is read (input_folder.c); false when it has none. */
bool coffer__input_in_folder(const char *path, coffer__path *file);
/* What readers see of it. Borrowed from the input. */
coffer__input_files coffer__input_for_reader(coffer_input *input);
/* The source of a file. */
const coffer__byte_source *coffer__input_source(const coffer_input *input, uint32_t file);
/* What a file is called in messages: its path, or its name beside it. */
const char *coffer__input_file_path(const coffer_input *input, uint32_t file);
/* Adds all files of an input to another one, which may use them as long as the first one is open. */
coffer_status coffer__input_lend(const coffer_input *input, coffer_input *to, coffer_error *err);
/* Gives up files that were lent, all from number `count` on. */
void coffer__input_take_back(coffer_input *input, uint32_t count);
/* Whether one of the files is far. */
bool coffer__input_is_far(const coffer_input *input);
/* Whether a path leads to one of the files. */
bool coffer__input_has_path(const coffer_input *input, const char *path);
/* COFFER_ERR_CHANGED when one of the files was written to since it was opened. */
coffer_status coffer__input_is_still(const coffer_input *input, coffer_error *err);

#endif
