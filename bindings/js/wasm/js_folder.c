/* SPDX-License-Identifier: Apache-2.0 */
/* Which model a folder holds, whose names JavaScript has listed: see model/folder_names.h. */
#include "folder_names.h"
#include "js.h"

#include <string.h>

/* What is told of the folder besides its names, as bits. */
enum { FOLDER_PIPELINE = 1, FOLDER_DOUBTFUL = 2 };

/* The layout is repeated in src/discover.ts. */
typedef struct js_folder {
    uint32_t flags;
    uint32_t first; /* among the files of the answer: the first that was chosen, and how many */
    uint32_t chosen;
} js_folder;

static js_folder folder_reported;

JS_EXPORT(coffer_js_folder_reported) js_folder *coffer_js_folder_reported(void)
{
    return &folder_reported;
}

/* The names of interest are the answer's files. */
static coffer_status folder_tell_files(const coffer__folder_names *list)
{
    size_t size = 0;
    for (size_t i = 0; i < list->count; i++) {
        size += list->names[i].len;
    }
    char *text = js_capacity(size, 1);
    uint32_t *ends = js_capacity(list->count, sizeof *ends);
    uint32_t used = 0;
    if (text == NULL || ends == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < list->count; i++) {
        memcpy(text + used, list->names[i].text, list->names[i].len);
        used += (uint32_t)list->names[i].len;
        ends[i] = used;
    }
    js_state.file_count = (uint32_t)list->count;
    js_state.file_ends = (uint32_t)(size_t)ends;
    js_state.file_names = (uint32_t)(size_t)text;
    js_state.file_names_size = used;
    return COFFER_OK;
}

/* Chooses among names, each with a NUL after it. When a file of a set is missing the answer's bytes are its name. */
JS_EXPORT(coffer_js_folder) coffer_status coffer_js_folder(const char *text, size_t text_size)
{
    static coffer__choice choice;
    coffer__folder_names list = { .allocator = &js_arena };
    for (size_t at = 0; at < text_size; at += strlen(text + at) + 1) {
        if (!coffer__folder_names_see(&list, text + at)) {
            return COFFER_ERR_MEMORY;
        }
    }
    coffer_status status = coffer__folder_names_sort(&list, &js_state.error);
    status = status == COFFER_OK ? folder_tell_files(&list) : status;
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__folder_names_choose(&list, &choice, &js_state.error);
    folder_reported.flags = (list.is_pipeline && list.count == 0 ? FOLDER_PIPELINE : 0u) |
                            (choice.is_doubtful && list.interrupted ? FOLDER_DOUBTFUL : 0u);
    folder_reported.first = (uint32_t)choice.first;
    folder_reported.chosen = (uint32_t)(choice.set_count > 0 ? choice.set_count : 1);
    js_state.bytes = (uint32_t)(size_t)choice.missing.text;
    js_state.bytes_size = (uint32_t)strlen(choice.missing.text);
    return status;
}

/* Whether a name is one that a save leaves. */
JS_EXPORT(coffer_js_folder_is_left) bool coffer_js_folder_is_left(const char *text, size_t text_len)
{
    return coffer__folder_names_is_left((coffer__name){ text, text_len });
}
