/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a tensor in memory: in the file's map where that is sound, else in memory of their own. */
#include "py_native.h"

#include <string.h>

int py_part_read(const py_state *state, const py_handle *handle, const py_part *part, void *memory)
{
    const coffer_read_target target = { part->tensor, memory, part->size };
    if (part->indices == NULL) {
        const bool alone = !py_handle_is_remote(handle) && part->size < PY_ALONE_SIZE;
        return py_read_targets(state, handle, &target, 1, NULL, alone ? 1 : 0);
    }
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, NULL, 0);
    const coffer_status status = coffer_read_slice(py_handle_model(handle), part->tensor, part->indices,
                                                   part->tensor->rank, memory, part->size, &watch.options, &err);
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

/* Where the part is in the map; NULL if it is not available there, with an exception set if that is a failure. */
static void *view_in_map(const py_state *state, const py_handle *handle, const py_part *part)
{
    if (!part->contiguous || py_handle_access(handle) == COFFER_READ) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    const void *data = NULL;
    coffer_status status = COFFER_OK;
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, NULL, 0);
    if (py_handle_verifies(handle)) {
        /* Reading no bytes verifies the tensor, which coffer_data would do without looking for signals. */
        status = coffer_read_part(model, part->tensor, 0, NULL, 0, &watch.options, &err);
    }
    if (status == COFFER_OK) {
        /* The first call makes the map, which may fault all of it in. */
        data = coffer_data(model, part->tensor, &err);
    }
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        return py_raise(state, &err);
    }
    /* Some file systems have no maps, and address space has an end: then the part is read. What else may be wrong with the file,
       reading says as well. */
    if (data == NULL) {
        return NULL;
    }
    const uintptr_t address = (uintptr_t)data + (size_t)(part->offset - part->tensor->offset);
    const uint32_t alignment = coffer_dtype_alignment(part->tensor->dtype);
    return alignment > 1 && address % alignment != 0 ? NULL : (void *)address;
}

int py_view_prepare(const py_state *state, py_view *view, py_handle *handle, const py_part *part, bool copy,
                    py_pages *pages, bool *in_map)
{
    memset(view, 0, sizeof *view);
    void *data = copy ? NULL : view_in_map(state, handle, part);
    *in_map = data != NULL;
    if (data != NULL) {
        view->handle = py_handle_retain(handle);
        view->data = data;
        view->writable = py_handle_access(handle) == COFFER_MAP_PRIVATE;
        return 0;
    }
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    py_pages own = { .always = false };
    if (pages == NULL) {
        own = py_pages_for(part->size);
    }
    view->owned = part->size > PY_SSIZE_T_MAX ? NULL : py_memory_new((size_t)part->size, pages == NULL ? &own : pages);
    if (view->owned == NULL) {
        py_fail(state, COFFER_ERR_MEMORY, "no memory for the %llu bytes of a tensor", (unsigned long long)part->size);
        return -1;
    }
    view->owned_size = (size_t)part->size;
    view->data = view->owned;
    view->writable = true;
    return 0;
}

int py_view_init(const py_state *state, py_view *view, py_handle *handle, const py_part *part, bool copy)
{
    bool in_map = false;
    if (py_view_prepare(state, view, handle, part, copy, NULL, &in_map) < 0) {
        return -1;
    }
    if (in_map || py_part_read(state, handle, part, view->data) == 0) {
        return 0;
    }
    py_view_release(view);
    return -1;
}

void py_view_release(py_view *view)
{
    py_handle_release(view->handle);
    if (view->owned != NULL) {
        py_memory_free(view->owned);
    }
    coffer_memory_free(view->loaded);
    memset(view, 0, sizeof *view);
}
