/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window over an archive: see zip_window.h. Ranges come from a directory whose entries were checked one by one, so
 * their ends do not wrap; whether they follow each other in the file is not known yet, and asked here.
 */
#include "zip_window.h"

#include <string.h>

/* Whether the window has all of a range. */
static bool window_has(const coffer__zip_window *window, uint64_t at, uint64_t size)
{
    return at >= window->at && at - window->at <= window->size && size <= window->size - (size_t)(at - window->at);
}

coffer_status coffer__zip_window_fill(coffer__zip_window *window, const coffer__input_files *input,
                                      coffer__zip_range range, coffer_error *err)
{
    /* Empty until all of it has been read: after a failure nothing of it may be taken for the file's. */
    window->size = 0;
    const coffer_status status =
        coffer__input_files_read(input, window->file, window->limit, range.at, window->bytes, (size_t)range.size, err);
    if (status == COFFER_OK) {
        window->at = range.at;
        window->size = (size_t)range.size;
    }
    return status;
}

/*
 * The window grows over one member after another, in the order of the directory, which is that of the file in archives
 * that programs write. It ends before a member that lies elsewhere, too far away, or beyond its space. A single range is
 * left to whoever reads it: through the window it would only be copied once more.
 */
coffer_status coffer__zip_window_ahead(coffer__zip_window *window, const coffer__input_files *input, size_t first,
                                       size_t end, coffer__zip_range (*wanted)(const void *archive, size_t member),
                                       const void *archive, coffer_error *err)
{
    coffer__zip_range all = wanted(archive, first);
    if (window_has(window, all.at, all.size) || all.size > COFFER__ZIP_WINDOW) {
        return COFFER_OK;
    }
    const uint64_t alone = all.size;
    for (size_t i = first + 1; i < end; i++) {
        const coffer__zip_range next = wanted(archive, i);
        const uint64_t gap = next.at - (all.at + all.size);
        if (next.at < all.at + all.size || gap > COFFER__ZIP_MAX_GAP || gap > window->spare ||
            next.at - all.at > COFFER__ZIP_WINDOW || next.size > COFFER__ZIP_WINDOW - (next.at - all.at)) {
            break;
        }
        window->spare -= gap;
        all.size = next.at - all.at + next.size;
    }
    return all.size == alone ? COFFER_OK : coffer__zip_window_fill(window, input, all, err);
}

coffer_status coffer__zip_window_read(const coffer__zip_window *window, const coffer__input_files *input, uint64_t at,
                                      void *bytes, size_t size, coffer_error *err)
{
    if (window_has(window, at, size)) {
        memcpy(bytes, window->bytes + (at - window->at), size);
        return COFFER_OK;
    }
    return coffer__input_files_read(input, window->file, window->limit, at, bytes, size, err);
}
