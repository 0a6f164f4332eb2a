/* SPDX-License-Identifier: Apache-2.0 */
/* A window over a file: see file_window.h. Places come from the file, so each is compared with its size before it is used. */
#include "file_window.h"

#include "alloc.h"
#include "error.h"

coffer__file_window *coffer__file_window_new(const coffer__input_files *input, const coffer_allocator *allocator,
                                             coffer_error *err)
{
    coffer__file_window *window = coffer__alloc_array(allocator, 1, sizeof *window, err);
    if (window != NULL) {
        window->input = input;
        window->file_size = input->size;
    }
    return window;
}

void coffer__file_window_free(coffer__file_window *window, const coffer_allocator *allocator)
{
    coffer__free_array(allocator, window, 1, sizeof *window);
}

/* Whether all of a range is there. Neither difference wraps: each is taken after the comparison that it needs. */
static bool file_window_has(const coffer__file_window *window, uint64_t at, size_t size)
{
    return at >= window->at && at - window->at <= window->size && size <= window->size - (size_t)(at - window->at);
}

/* The window begins again at the place that is asked for: readers go forward, so what lies before it is not wanted
   again. */
coffer_status coffer__file_window_get(coffer__file_window *window, uint64_t at, size_t size, const uint8_t **bytes,
                                      coffer_error *err)
{
    if (!file_window_has(window, at, size)) {
        const uint64_t left = at < window->file_size ? window->file_size - at : 0;
        if (size > left || size > COFFER__FILE_WINDOW) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, at,
                                   "the file ends within what is described at byte %u; get the file again", at);
        }
        const size_t want = left < COFFER__FILE_WINDOW ? (size_t)left : COFFER__FILE_WINDOW;
        window->at = at;
        window->size = 0;
        const coffer_status status =
            coffer__input_files_read(window->input, window->file, window->file_size, at, window->bytes, want, err);
        if (status != COFFER_OK) {
            return status;
        }
        window->size = want;
    }
    *bytes = window->bytes + (size_t)(at - window->at);
    return COFFER_OK;
}

coffer_status coffer__file_window_peek(coffer__file_window *window, uint64_t at, uint64_t end, size_t most,
                                       const uint8_t **bytes, size_t *size, coffer_error *err)
{
    const uint64_t left = at < end ? end - at : 0;
    *size = left < most ? (size_t)left : most;
    return coffer__file_window_get(window, at, *size, bytes, err);
}
