/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs: the file that is converted and those beside it, as numbered sources.
 *
 * File 0 is the input itself. Others come when a reader asks for them by name (the shards of an
 * index, the weights beside a program), in that order, and keep their numbers. They are opened in
 * one of two ways: as neighbours of a path or a URL (sibling_files.h), or by the caller's functions,
 * as in a process that can open nothing by itself.
 *
 * Readers are given offsets and names by the file that they read. So every range is compared with
 * the file's size, and every name is checked, here and not in each reader.
 *
 * Not for several threads: opening and counting change the input.
 */
#include "input.h"

#include "alloc.h"
#include "error.h"
#include "libc_allocator.h"
#include "opening.h"
#include "options.h"
#include "os.h"

#include <string.h>

#define INPUT_MAX_FILES 65536u

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The failure of everything here that allocates, but for what opens sources. */
static coffer_status input_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to open a file that is to be converted");
}

/* Makes space for one more file. The array moves, the files do not: sources and callbacks keep
   pointers to them. The bound is against an index that names many thousands of files: each takes
   memory, and may take a descriptor. */
static coffer_status input_capacity(coffer_input *input, coffer_error *err)
{
    if (input->count == INPUT_MAX_FILES) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "at most %u files are converted together",
                            (uint64_t)INPUT_MAX_FILES);
    }
    coffer__input_file **files =
        coffer__grow_array(&input->allocator, input->files, input->count, &input->capacity, sizeof(void *), err);
    if (files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    input->files = files;
    return COFFER_OK;
}

/* Adds a file without a source. */
static coffer_status input_add(coffer_input *input, const char *name, size_t name_len, coffer__input_file **file,
                               coffer_error *err)
{
    const coffer_allocator *allocator = &input->allocator;
    const coffer_status status = input_capacity(input, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__input_file *made = coffer__alloc_zeroed(allocator, sizeof *made);
    char *text = coffer__alloc(allocator, name_len + 1);
    if (made == NULL || text == NULL) {
        coffer__free(allocator, text, name_len + 1);
        coffer__free(allocator, made, sizeof *made);
        return input_no_memory(err);
    }
    memcpy(text, name, name_len);
    text[name_len] = '\0';
    *made = (coffer__input_file){ .input = input, .number = input->count, .name = text, .name_len = name_len };
    input->files[input->count++] = made;
    *file = made;
    return COFFER_OK;
}

/* Releases the last file that was added. From the last to the first is also the order in which all
   are released. One that another input has lent is that input's to release. */
static void input_close_last(coffer_input *input)
{
    coffer__input_file *file = input->files[--input->count];
    if (file->input != input) {
        return;
    }
    if (file->source.ops != NULL) {
        file->source.ops->close(&file->source);
    }
    coffer__free(&input->allocator, file->name, file->name_len + 1);
    coffer__free(&input->allocator, file, sizeof *file);
}

void coffer_input_free(coffer_input *input)
{
    if (input == NULL) {
        return;
    }
    const coffer_allocator allocator = input->allocator;
    while (input->count > 0) {
        input_close_last(input);
    }
    coffer__free(&allocator, input->files, input->capacity * sizeof(void *));
    if (input->functions.read == NULL) {
        coffer__sibling_files_close(&input->around);
    } else if (input->functions.close != NULL) {
        input->functions.close(input->functions.ctx);
    }
    coffer__free(&allocator, input->path, input->path_size);
    coffer__free(&allocator, input, sizeof *input);
}

/* An input without files; NULL when there is no memory. */
static coffer_input *input_new(const coffer_allocator *allocator, const char *path)
{
    coffer_input *made = coffer__alloc_zeroed(allocator, sizeof *made);
    const size_t path_size = strlen(path) + 1;
    char *text = coffer__alloc(allocator, path_size);
    if (made == NULL || text == NULL) {
        coffer__free(allocator, text, path_size);
        coffer__free(allocator, made, sizeof *made);
        return NULL;
    }
    memcpy(text, path, path_size);
    made->allocator = *allocator;
    made->path = text;
    made->path_size = path_size;
    return made;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The input itself is file 0, and has no name: what it is called is its path. A source without
   `ops` was not opened, which is how releasing knows. */
coffer_status coffer_input_open(coffer_input **input, const char *path, const coffer_open_options *options,
                                coffer_error *err)
{
    if (input == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an input cannot be opened from or into NULL");
    }
    *input = NULL;
    coffer_open_options known;
    coffer__input_file *file = NULL;
    coffer__path in_folder;
    coffer__os_info info;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    /* A URL is no path, and leads to no folder here. Without such a file opening the folder says what is wrong. */
    if (coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY &&
        coffer__input_in_folder(path, &in_folder)) {
        path = in_folder.text;
    }
    coffer_input *made = input_new(known.allocator, path);
    if (made == NULL) {
        return input_no_memory(err);
    }
    made->progress = known.progress;
    made->progress_ctx = known.progress_ctx;
    status = input_add(made, "", 0, &file, err);
    if (status == COFFER_OK) {
        status = coffer__sibling_files_open(&made->around, made->path, &known, &made->allocator, &file->source, err);
        file->source.ops = status == COFFER_OK ? file->source.ops : NULL;
    }
    if (status != COFFER_OK) {
        coffer_input_free(made);
        return status;
    }
    *input = made;
    return COFFER_OK;
}

const char *coffer_input_path(const coffer_input *input)
{
    return input != NULL ? input->path : "";
}

/* What the caller's functions look like to a source of one file. */
static coffer_status input_read_by_function(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    const coffer__input_file *file = ctx;
    const coffer_input_functions *functions = &file->input->functions;
    return functions->read(functions->ctx, file->number, offset, buffer, size, err);
}

/* The source's `ctx` is the file, which knows its number and its input. */
static void input_source_of(coffer__input_file *file, uint64_t size)
{
    const coffer_source custom = {
        .read_at = input_read_by_function, .ctx = file, .size = size, .far = file->input->functions.far
    };
    coffer__source_custom(&file->source, &custom);
}

/* From here on the caller's `close` is this function's to call: it is called also after a failure,
   once. */
coffer_status coffer_input_open_functions(coffer_input **input, const coffer_input_functions *functions,
                                          const coffer_allocator *allocator, coffer_error *err)
{
    if (input != NULL) {
        *input = NULL;
    }
    if (input == NULL || functions == NULL || functions->read == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an input cannot be opened from or into NULL");
    }
    coffer__input_file *file = NULL;
    coffer_input *made =
        input_new(coffer__allocator_or_libc(allocator), functions->path != NULL ? functions->path : "");
    if (made == NULL) {
        if (functions->close != NULL) {
            functions->close(functions->ctx);
        }
        return input_no_memory(err);
    }
    /* Copied, as the caller's struct may be gone when a file is read. From here coffer_input_free
       closes it. */
    made->functions = *functions;
    const coffer_status status = input_add(made, "", 0, &file, err);
    if (status != COFFER_OK) {
        coffer_input_free(made);
        return status;
    }
    input_source_of(file, functions->size);
    *input = made;
    return COFFER_OK;
}

/*
 * The source of a file that was just added. A source that could not be opened has no functions. The
 * name comes from the input, so it is checked before anything is opened: it must be the plain name
 * of a file beside it, or the plain path of one below its folder, with no way out of the folder. coffer__sibling_files_find does the same for
 * paths and URLs.
 */
static coffer_status input_find(coffer_input *input, coffer__input_file *file, coffer_error *err)
{
    const coffer__name name = { file->name, file->name_len };
    const coffer_input_functions *functions = &input->functions;
    uint64_t size = 0;
    if (functions->read == NULL) {
        const coffer_status status =
            coffer__sibling_files_find(&input->around, input->path, name, &file->pooled, &file->source, err);
        file->source.ops = status == COFFER_OK ? file->source.ops : NULL;
        return status;
    }
    coffer_status status = coffer__model_dir_check_path(name.text, name.len, COFFER_NO_OFFSET, err);
    if (status == COFFER_OK && functions->beside == NULL) {
        status = coffer__fail(err, COFFER_ERR_SHARD_MISSING, "there are no files next to this input, and %q is wanted",
                              name.text, name.len);
    }
    if (status == COFFER_OK) {
        status = functions->beside(functions->ctx, name.text, name.len, &size, err);
    }
    if (status == COFFER_OK) {
        input_source_of(file, size);
    }
    return status;
}

/* A file that was opened before is found again, whatever happened to its name on the disk since. */
coffer_status coffer_input_beside(coffer_input *input, const char *name, size_t name_len, uint32_t *file,
                                  uint64_t *size, coffer_error *err)
{
    if (input == NULL || name == NULL || file == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the input, the name or the place for the number is NULL");
    }
    /* The same name again gives the same number. A walk over all is quick enough for so few files. */
    uint32_t found = 1;
    while (found < input->count && (input->files[found]->input != input || input->files[found]->name_len != name_len ||
                                    memcmp(input->files[found]->name, name, name_len) != 0)) {
        found++;
    }
    if (found == input->count) {
        coffer__input_file *made = NULL;
        coffer_status status = input_add(input, name, name_len, &made, err);
        if (status != COFFER_OK) {
            return status;
        }
        /* A file that is not there leaves no trace, so that numbers stay those that a plan has. */
        status = input_find(input, made, err);
        if (status != COFFER_OK) {
            input_close_last(input);
            return status;
        }
    }
    *file = found;
    if (size != NULL) {
        *size = input->files[found]->source.size;
    }
    return COFFER_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* 0 also for a file that there is not, so callers can compare with it before they ask. */
uint64_t coffer_input_size(const coffer_input *input, uint32_t file)
{
    return input != NULL && file < input->count ? input->files[file]->source.size : 0;
}

/* For coffer scan, which tells how little of a file it needed. */
uint64_t coffer_input_bytes_read(const coffer_input *input)
{
    return input == NULL ? 0 : input->bytes_read;
}

/* The caller's progress as a watch: asked now and then while a server is waited for. How much of
   what is read is not known here, so it is told "0 of 1" each time, and only its answer counts. */
static bool input_stops(void *ctx)
{
    const coffer_input *input = ctx;
    return input->progress(input->progress_ctx, 0, 1) != 0;
}

/* Counts, for which the input cannot be constant inside. */
static coffer_status input_read(coffer_input *input, uint32_t file, uint64_t offset, void *buffer, size_t size,
                                coffer_error *err)
{
    const uint64_t file_size = coffer_input_size(input, file);
    /* Offsets come from readers, who took them from the file. */
    if (offset > file_size || size > file_size - offset) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "%u bytes from byte %u on do not lie within file %u, which has %u", (uint64_t)size, offset,
                            (uint64_t)file, file_size);
    }
    if (size == 0) {
        return COFFER_OK;
    }
    /* What was asked for, not what a source read ahead: it tells how much of a file a reader looked
       at. */
    input->bytes_read += size;
    const coffer__watch watch = { input_stops, input };
    const coffer_status status = coffer__source_read_watched(&input->files[file]->source, offset, buffer, size,
                                                             input->progress != NULL ? &watch : NULL, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, input->path);
}

/* For readers and for whoever serves a reader in another process. Errors of a source name the
   input, so that messages say which file could not be read. */
coffer_status coffer_input_read(coffer_input *input, uint32_t file, uint64_t offset, void *buffer, size_t size,
                                coffer_error *err)
{
    if (input == NULL || file >= input->count || (buffer == NULL && size > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no such input or file, or nowhere to read to");
    }
    return input_read(input, file, offset, buffer, size, err);
}

/* Readers know of an input only these two functions, the size of the file and its path; see
   reader.h. */
static coffer_status input_reader_read(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size,
                                       coffer_error *err)
{
    return coffer_input_read(ctx, file, offset, bytes, size, err);
}

static coffer_status input_reader_open(void *ctx, const char *name, size_t name_len, uint32_t *file, uint64_t *size,
                                       coffer_error *err)
{
    return coffer_input_beside(ctx, name, name_len, file, size, err);
}

/* Path and size are borrowed: a reader is called and returns while the input is open. */
coffer__input_files coffer__input_for_reader(coffer_input *input)
{
    return (coffer__input_files){ .ctx = input,
                                  .read = input_reader_read,
                                  .open = input_reader_open,
                                  .size = input->files[0]->source.size,
                                  .path = input->path,
                                  .path_len = input->path_size - 1 };
}

const coffer__byte_source *coffer__input_source(const coffer_input *input, uint32_t file)
{
    return &input->files[file]->source;
}

/* ---- files of others --------------------------------------------------------------------------------------------- */

const char *coffer__input_file_path(const coffer_input *input, uint32_t file)
{
    const coffer__input_file *which = input->files[file];
    return which->number == 0 ? which->input->path : which->name;
}

coffer_status coffer__input_lend(const coffer_input *input, coffer_input *to, coffer_error *err)
{
    for (uint32_t i = 0; i < input->count; i++) {
        const coffer_status status = input_capacity(to, err);
        if (status != COFFER_OK) {
            return status;
        }
        to->files[to->count++] = input->files[i];
    }
    return COFFER_OK;
}

void coffer__input_take_back(coffer_input *input, uint32_t count)
{
    while (input->count > count) {
        input_close_last(input);
    }
}

bool coffer__input_is_far(const coffer_input *input)
{
    bool far = false;
    for (uint32_t i = 0; i < input->count; i++) {
        far = far || input->files[i]->source.is.far;
    }
    return far;
}

/* ---- which files they are ---------------------------------------------------------------------------------------- */

/* A path that leads nowhere is not one of them. */
bool coffer__input_has_path(const coffer_input *input, const char *path)
{
    coffer__os_info info;
    if (coffer__os_inspect(path, true, &info) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < input->count; i++) {
        if (coffer__source_is_file(&input->files[i]->source, &info)) {
            return true;
        }
    }
    return false;
}

/* Whether a file is what it was when it was opened, by its size and times. One that was made a moment ago may be changed
   without either telling; that is for verifying to find. */
static bool input_file_is_still(const coffer__byte_source *source)
{
    const coffer__os_info *seen = coffer__source_seen(source);
    coffer__os_info now;
    uint64_t offset = 0;
    int fd = -1;
    /* Without a descriptor there is nothing to ask: memory and functions are the caller's. */
    if (seen == NULL || !source->is.lends) {
        return true;
    }
    if (source->ops->borrow(source, &fd, &offset, NULL) != COFFER_OK) {
        return false;
    }
    const int os_error = coffer__os_inspect_fd(fd, &now);
    source->ops->give_back(source);
    return os_error == 0 && coffer__os_unchanged(seen, &now);
}

/* What is at a URL is watched by its source, which asks for ranges of one version only. */
coffer_status coffer__input_is_still(const coffer_input *input, coffer_error *err)
{
    for (uint32_t i = 0; i < input->count; i++) {
        if (!input_file_is_still(&input->files[i]->source)) {
            coffer__fail(err, COFFER_ERR_CHANGED, "the file was changed while it was converted");
            return coffer__fail_path(err, COFFER_ERR_CHANGED, coffer__input_file_path(input, i));
        }
    }
    return COFFER_OK;
}
