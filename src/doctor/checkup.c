/* SPDX-License-Identifier: Apache-2.0 */
/* What all rules stand on: memory, whether to go on, names of files, failures. See checkup.h for the contracts. */
#include "checkup.h"

#include "checked.h"
#include "os.h"
#include "paths.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

/* ---- Memory ---- */

void *coffer__doctor_new(coffer__checkup *d, size_t size)
{
    return coffer__block_new(&d->allocator, size);
}

void *coffer__doctor_array(coffer__checkup *d, size_t count, size_t size)
{
    if (size > 0 && count > SIZE_MAX / size) {
        d->failed = true;
        return NULL;
    }
    return coffer__doctor_new(d, count * size);
}

void *coffer__doctor_grow(coffer__checkup *d, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    const size_t wanted = *capacity == 0 ? 16 : 2 * *capacity;
    void *more = wanted <= SIZE_MAX / 2 / size ? coffer__block_resize(&d->allocator, items, wanted * size) : NULL;
    *capacity = more != NULL ? wanted : *capacity;
    return more;
}

char *coffer__doctor_copy_part(coffer__checkup *d, const char *text, size_t text_len)
{
    char *copy = coffer__doctor_new(d, text_len + 1);
    if (copy != NULL) {
        memcpy(copy, text, text_len);
    }
    return copy;
}

char *coffer__doctor_copy(coffer__checkup *d, const char *text)
{
    return coffer__doctor_copy_part(d, text, strlen(text));
}

/* ---- Going on ---- */

bool coffer__doctor_stopped(coffer__checkup *d)
{
    const coffer_doctor_options *options = &d->options;
    d->cancelled = d->cancelled || (options->progress != NULL && options->progress(options->progress_ctx, 0, 0) != 0);
    return d->cancelled;
}

void coffer__doctor_begin_step(const coffer__checkup *d, const char *what, uint64_t total)
{
    if (d->options.step != NULL) {
        d->options.step(d->options.progress_ctx, what, total);
    }
}

void coffer__doctor_count(coffer__checkup *d, coffer_doctor_subject subject, bool looked_at, uint64_t count)
{
    *(looked_at ? &d->summary.looked_at[subject] : &d->summary.passed_over[subject]) += count;
}

/* ---- Names ---- */

char *coffer__doctor_join(coffer__checkup *d, const char *folder, const char *name)
{
    const size_t len = strlen(folder);
    const bool slash = len > 0 && strchr(coffer__os_separators, folder[len - 1]) == NULL && name[0] != '\0';
    const size_t size = len + strlen(name) + 2;
    char *path = coffer__doctor_new(d, size);
    if (path != NULL) {
        snprintf(path, size, "%s%s%s", folder, slash ? "/" : "", name);
    }
    return path;
}

const char *coffer__doctor_last_slash(const char *path)
{
    const char *last = NULL;
    for (const char *slash = strpbrk(path, coffer__os_separators); slash != NULL;
         slash = strpbrk(slash + 1, coffer__os_separators)) {
        last = slash;
    }
    return last;
}

const char *coffer__doctor_last_name(const char *path)
{
    const char *slash = coffer__doctor_last_slash(path);
    return slash != NULL ? slash + 1 : path;
}

bool coffer__doctor_is_folder(const char *path)
{
    coffer__os_info info;
    return coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY;
}

size_t coffer__doctor_first_bytes(const char *path, char *bytes, size_t size)
{
    int fd = -1;
    size_t done = 0;
    coffer__os_info info;
    if (coffer__os_open(path, COFFER__OS_READ, true, &fd) != 0) {
        return 0;
    }
    if (coffer__os_inspect_fd(fd, &info) == 0 && info.kind == COFFER__OS_REGULAR) {
        (void)coffer__os_read_at(fd, 0, bytes, size, &done);
    }
    (void)coffer__os_close(fd);
    return done;
}

/* ---- Models ---- */

coffer_open_options coffer__doctor_open_options(const coffer__checkup *d, bool all_notes)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &d->allocator;
    options.access = COFFER_READ;
    options.all_notes = all_notes;
    options.formats = COFFER_FORMATS_OWN;
    options.progress = d->options.progress;
    options.progress_ctx = d->options.progress_ctx;
    return options;
}

coffer_status coffer__doctor_open(coffer__checkup *d, coffer **model, const char *path, bool all_notes,
                                  coffer_error *err)
{
    const coffer_open_options options = coffer__doctor_open_options(d, all_notes);
    const coffer_status status = coffer_open(model, path, &options, err);
    d->cancelled = d->cancelled || status == COFFER_ERR_CANCELLED;
    return status;
}

coffer_status coffer__doctor_would_fix_file(coffer__checkup *d, const char *path, coffer_fixed_file *fixed,
                                            coffer_error *err)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.allocator = &d->allocator;
    return coffer_fix_file(path, &options, true, fixed, err);
}

coffer_status coffer__doctor_would_fix_index(coffer__checkup *d, const char *path, coffer_fixed_index *fixed,
                                             coffer_error *err)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.allocator = &d->allocator;
    return coffer_fix_index(path, &options, true, fixed, err);
}

/* What a file says, what it is and what does not fit its index is known by having read it; the rest is not. */
bool coffer__doctor_is_unread(coffer_status status)
{
    const bool file = status >= COFFER_ERR_EMPTY && status <= COFFER_ERR_IS_CONVERTIBLE;
    const bool model = status >= COFFER_ERR_SHARD_NAME && status <= COFFER_ERR_INDEX_TOO_LARGE;
    const bool digests = status >= COFFER_ERR_NO_DIGESTS && status <= COFFER_ERR_CONTENT_DIGEST;
    const bool foreign = status >= COFFER_ERR_DAMAGED && status <= COFFER_ERR_ARRAY && status != COFFER_ERR_PLAN &&
                         status != COFFER_ERR_NOT_EQUAL;
    const bool packed = status >= COFFER_ERR_PACKED && status <= COFFER_ERR_PACK_FILE;
    return !file && !model && !digests && !foreign && !packed;
}

bool coffer__doctor_same_shape(const coffer_tensor *a, const coffer_tensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

void coffer__doctor_put_bytes(char text[COFFER__DOCTOR_NUMBER], uint64_t size)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    uint64_t unit = 1;
    uint64_t tenths = 0;
    size_t name = 0;
    if (size < 1000) {
        snprintf(text, COFFER__DOCTOR_NUMBER, "%u B", (unsigned)size);
        return;
    }
    /* Rounded to tenths, 999.95 would be 1000.0, which belongs to the next unit. */
    do {
        unit *= 1000;
        name++;
        tenths = size / unit * 10 + (size % unit * 10 + unit / 2) / unit;
    } while (tenths >= 10000 && name + 1 < sizeof units / sizeof units[0]);
    snprintf(text, COFFER__DOCTOR_NUMBER, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10), units[name]);
}
