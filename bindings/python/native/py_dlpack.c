/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack: the structures that its ABI prescribes, and capsules of them. What an export needs is one block of memory:
 *
 *   dlpack_export | shape, int64 each | strides, int64 each
 *
 * Whoever takes a capsule calls the deleter, on any thread and with or without the GIL.
 */
#include "py_native.h"

#include <stdlib.h>

/* ---- The ABI, version 1.0 ------------------------------------------------------------------------------------------ */

enum { DLPACK_CPU = 1 };

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };

enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

typedef struct dlpack_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    py_dlpack_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

typedef struct dlpack_versioned {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_versioned;

bool py_dlpack_knows(coffer_dtype dtype)
{
    return py_dlpack_type_of(dtype).bits != 0;
}

/* ---- Exports ------------------------------------------------------------------------------------------------------- */

typedef struct dlpack_export {
    union {
        dlpack_managed plain;
        dlpack_versioned versioned;
    } as;
    py_view view;
    int64_t lengths[]; /* shape, then strides */
} dlpack_export;

static void dlpack_delete(dlpack_export *export)
{
    py_view_release(&export->view);
    free(export);
}

static void dlpack_delete_plain(dlpack_managed *self)
{
    dlpack_delete(self->context);
}

static void dlpack_delete_versioned(dlpack_versioned *self)
{
    dlpack_delete(self->context);
}

/* Of a capsule that nobody took: whoever does renames it. */
static void dlpack_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dlpack_managed *plain = PyCapsule_GetPointer(capsule, "dltensor");
        plain->deleter(plain);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}

/* Shape and strides of a row-major tensor. Two elements of F4 are one of DLPack's, of two lanes. */
static void dlpack_fill_lengths(int64_t *shape, int64_t *strides, const uint64_t *lengths, size_t rank, uint16_t lanes)
{
    int64_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
        shape[i] = (int64_t)(i + 1 == rank ? lengths[i] / lanes : lengths[i]);
        strides[i] = stride;
        stride *= shape[i] > 1 ? shape[i] : 1;
    }
}

static dlpack_tensor dlpack_describe(dlpack_export *export, const py_part *part, bool as_bytes)
{
    const py_dlpack_type type = py_dlpack_type_of(as_bytes ? COFFER_U8 : part->tensor->dtype);
    const uint64_t *lengths = as_bytes ? &part->size : py_part_shape(part);
    const size_t rank = as_bytes ? 1 : part->rank;
    dlpack_fill_lengths(export->lengths, export->lengths + rank, lengths, rank, type.lanes);
    return (dlpack_tensor){
        export->view.data, DLPACK_CPU, 0, (int32_t)rank, type, export->lengths, export->lengths + rank, 0,
    };
}

PyObject *py_dlpack_capsule(py_view *view, const py_part *part, bool as_bytes, bool versioned, bool is_copy)
{
    const size_t rank = as_bytes ? 1 : part->rank;
    dlpack_export *export = malloc(sizeof *export + 2 * rank * sizeof(int64_t));
    if (export == NULL) {
        py_view_release(view);
        return PyErr_NoMemory();
    }
    export->view = *view;
    const dlpack_tensor tensor = dlpack_describe(export, part, as_bytes);
    if (versioned) {
        const uint64_t flags = (view->writable ? 0 : DLPACK_READ_ONLY) | (is_copy ? DLPACK_IS_COPIED : 0u);
        export->as.versioned =
            (dlpack_versioned){ DLPACK_MAJOR, DLPACK_MINOR, export, dlpack_delete_versioned, flags, tensor };
    } else {
        export->as.plain = (dlpack_managed){ tensor, export, dlpack_delete_plain };
    }
    PyObject *capsule = PyCapsule_New(&export->as, versioned ? "dltensor_versioned" : "dltensor", dlpack_free);
    if (capsule == NULL) {
        dlpack_delete(export);
    }
    return capsule;
}
