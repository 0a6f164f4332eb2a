/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the extension's files share. One file for each type; all are heap types that hang on the module's state, and there
 * are no global variables.
 *
 * Who keeps what alive: a py_handle is an opened model and a count of references to it. Model and Tensor objects, buffers that
 * were handed out and DLPack exports hold one each; when the last is released the file is closed, and its map goes. That may
 * happen on any thread and without the GIL, because DLPack's deleters are called so.
 *
 * Functions that return int or a pointer and may fail follow Python: -1 or NULL with an exception set.
 */
#ifndef PY_NATIVE_H
#define PY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The module (py_module.c) ------------------------------------------------------------------------------------- */

typedef struct py_state {
    PyTypeObject *model_type;
    PyTypeObject *tensor_type;
    PyTypeObject *buffer_type;
    PyTypeObject *writer_type;
    PyTypeObject *lent_type;
    PyTypeObject *hasher_type;
    PyTypeObject *manifest_type;
    PyTypeObject *device_type;
    PyTypeObject *staging_type;
    PyTypeObject *plan_type;
    PyTypeObject *load_type;
    PyTypeObject *loaded_type;
    PyTypeObject *exchange_type;
    PyObject *make_error;                          /* coffer._errors._make */
    PyObject *dtype_names[COFFER_DTYPE_COUNT + 1]; /* by coffer_dtype; that of the unknown one is not used */
} py_state;

/* The state behind an object of one of the extension's types. None of them can be subclassed, so it is the type's own. */
py_state *py_state_of(PyObject *self);

PyTypeObject *py_model_make_type(PyObject *module);
PyTypeObject *py_tensor_make_type(PyObject *module);
PyTypeObject *py_buffer_make_type(PyObject *module);
PyTypeObject *py_writer_make_type(PyObject *module);
PyTypeObject *py_lent_make_type(PyObject *module);
PyTypeObject *py_hasher_make_type(PyObject *module);
PyTypeObject *py_manifest_make_type(PyObject *module);
PyTypeObject *py_device_make_type(PyObject *module);
PyTypeObject *py_staging_make_type(PyObject *module);
PyTypeObject *py_plan_make_type(PyObject *module);
PyTypeObject *py_load_make_type(PyObject *module);
PyTypeObject *py_loaded_make_type(PyObject *module);
PyTypeObject *py_exchange_make_type(PyObject *module);

/* coffer._native.serialize, serialize_file and serialize_model (py_serialize.c). */
PyObject *py_serialize(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_serialize_file(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_serialize_model(PyObject *module, PyObject *args, PyObject *kwargs);
/* coffer._native.import_file (py_import.c). */
PyObject *py_import_file(PyObject *module, PyObject *args, PyObject *kwargs);
/* coffer._native.doctor (py_doctor.c). */
PyObject *py_doctor(PyObject *module, PyObject *args, PyObject *kwargs);
/* coffer._native.export_file and export_format (py_export.c). */
PyObject *py_export_file(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_add_lora(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_export_format(PyObject *module, PyObject *path);
/* coffer._native.record_digests (py_model_digest.c). */
PyObject *py_record_digests(PyObject *module, PyObject *args, PyObject *kwargs);
/* coffer._native.refuse_exchange (py_exchange.c). */
PyObject *py_refuse_exchange(PyObject *module, PyObject *args);
/* coffer._native.lay_out (py_slabs.c). */
PyObject *py_lay_out(PyObject *module, PyObject *args);

/* coffer._native.copy_tensors (py_copy.c), edit_metadata and recover (py_edit.c), compare and statistics (py_numbers.c). */
PyObject *py_copy_tensors(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_edit_metadata(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_recover(PyObject *module, PyObject *args, PyObject *kwargs);
/* An edit of (key, value), borrowed; a value of None removes the key. */
int py_edit_from(coffer_edit *edit, PyObject *pair);
PyObject *py_compare(PyObject *module, PyObject *args);
PyObject *py_statistics(PyObject *module, PyObject *args);
/* coffer._native.list_facilities (py_device.c). */
PyObject *py_list_facilities(PyObject *module, PyObject *path);

/* ---- Failing (py_errors.c) ---------------------------------------------------------------------------------------- */

/* Raises coffer.Error from what the library says. An exception that is set already (by a callback) stays. Returns NULL. */
PyObject *py_raise(const py_state *state, const coffer_error *err);
/* The same for a failure that the extension itself notices; `format` is that of snprintf. */
PyObject *py_fail(const py_state *state, coffer_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A call with something of the wrong type, which is a TypeError too, or of the wrong value, a ValueError; `format` is that of
   PyUnicode_FromFormat. Returns NULL. */
typedef enum py_wrong { PY_WRONG_TYPE, PY_WRONG_VALUE } py_wrong;
PyObject *py_fail_call(py_wrong wrong, const char *format, ...);
/* The same, with two sizes that should agree, for a tensor (NULL: none). */
PyObject *py_fail_sizes(const py_state *state, coffer_status code, const char *tensor, uint64_t expected,
                        uint64_t actual, const char *message);

/* ---- Handles (py_handle.c) ---------------------------------------------------------------------------------------- */

typedef struct py_handle py_handle;

/* Takes over `model`, and `memory` (may be NULL) that it was opened from; both are released with the last reference. On failure
   (an exception is set) both are released at once. */
py_handle *py_handle_new(coffer *model, coffer_access access, bool verifies, bool remote, const Py_buffer *memory);
py_handle *py_handle_retain(py_handle *handle);
/* NULL is allowed. Needs no GIL. */
void py_handle_release(py_handle *handle);
coffer *py_handle_model(const py_handle *handle);
coffer_access py_handle_access(const py_handle *handle);
/* Whether tensors are verified when their bytes are first wanted. */
bool py_handle_verifies(const py_handle *handle);
/* Whether its files are behind a network, as far as that is known. */
bool py_handle_is_remote(const py_handle *handle);
/* How the model was opened, if it was by a path: a pair of what Model.open was called with, or what coffer._origin has made of it.
   Borrowed, and replaced by one that is taken over, with the GIL. */
PyObject *py_handle_origin(const py_handle *handle);
void py_handle_set_origin(py_handle *handle, PyObject *origin);
/* What a model is opened again by in another process (coffer._origin.Origin); NULL and a TypeError when it cannot be. */
PyObject *py_origin(py_handle *handle);

/* ---- Parts of tensors (py_part.c) --------------------------------------------------------------------------------- */

/* A tensor or a slice of it: what a Tensor object is about. `indices` is NULL for the whole; else one for each dimension of the
   tensor, each an index or a range within bounds, and `shape` is that of the result. */
typedef struct py_part {
    const coffer_tensor *tensor;
    coffer_index *indices;
    uint64_t *own_shape; /* of a slice; to be read through py_part_shape */
    size_t rank;
    uint64_t size;   /* bytes */
    uint64_t offset; /* of the first byte in the file, when `contiguous` */
    bool contiguous; /* in the file */
} py_part;

/* The whole tensor. Nothing to release. */
void py_part_whole(py_part *part, const coffer_tensor *tensor);
/* What the Python index `index` (an int, a slice, an ellipsis, or a tuple of them) takes of `whole`. */
int py_part_slice(const py_state *state, py_part *part, const py_part *whole, PyObject *index);
/* The same for an index that means to every framework what it means here: ints and slices, none of which reach beyond the end or go
   backwards, of whole bytes. 1 for any other, without an exception, and then nothing was made. */
int py_part_slice_plainly(const py_state *state, py_part *part, const py_part *whole, PyObject *index);
void py_part_release(py_part *part);
const uint64_t *py_part_shape(const py_part *part);
uint64_t py_part_elements(const py_part *part);
PyObject *py_shape_tuple(const uint64_t *shape, size_t rank);
PyObject *py_dtype_name(const py_state *state, const coffer_tensor *tensor);
PyObject *py_tensor_name(const coffer_tensor *tensor);

/* ---- Bytes in memory (py_view.c) ---------------------------------------------------------------------------------- */

/* Memory that holds a tensor's bytes: a place in the map, a copy, or memory of a load. Released by py_view_release, without the GIL too. */
typedef struct py_view {
    py_handle *handle; /* when it is in the map */
    void *owned;       /* when it is a copy, of owned_size bytes */
    size_t owned_size;
    coffer_memory *loaded; /* when a load handed it out */
    void *data;            /* never NULL */
    bool writable;
} py_view;

/* Which pages the memory of one load gets (py_memory.c). */
typedef struct py_pages {
    bool always;         /* huge ones, untried */
    unsigned slow;       /* how often huge ones were slower */
    uint64_t small_cost; /* nanoseconds for a block of small ones; 0: nothing is tried, and all are small */
} py_pages;

/* A view of the map when there is one and the part is contiguous and aligned in it, or a copy. */
int py_view_init(const py_state *state, py_view *view, py_handle *handle, const py_part *part, bool copy);
/* The same without reading: *in_map says whether the view is complete; else it is fresh memory, still to be
   filled, of the pages of its load (NULL: it is one by itself). */
int py_view_prepare(const py_state *state, py_view *view, py_handle *handle, const py_part *part, bool copy,
                    py_pages *pages, bool *in_map);
void py_view_release(py_view *view);
/* Below it one thread reads a tensor of a file that is near: another one would have to be started, and the memory is often
   what the last tensor was in, so that no fresh pages take the time. */
#define PY_ALONE_SIZE ((uint64_t)32 << 20)
/* Reads a part into memory of its size, without the GIL. */
int py_part_read(const py_state *state, const py_handle *handle, const py_part *part, void *memory);

/* The pages for a load of so many bytes in all, which are tried out when they are many, unless COFFER_HUGE_PAGES says "always" or
   "never". */
py_pages py_pages_for(uint64_t total);
/* Memory for tensors (py_memory.c); never NULL on success, for 0 bytes too. */
void *py_memory_new(size_t size, py_pages *pages);
void py_memory_free(void *memory);

/* Buffer objects (py_buffer.c): take over memory of py_memory_new, which is freed at once when that fails. */
PyObject *py_buffer_new(const py_state *state, void *memory, size_t size);
void *py_buffer_memory(PyObject *buffer);

/* A memoryview of `size` bytes at `data`, which `owner` keeps (py_lent.c). */
PyObject *py_lent_memory(const py_state *state, PyObject *owner, void *data, Py_ssize_t size, bool writable);

/* ---- Values (py_values.c) ------------------------------------------------------------------------------------------ */

/* The elements of a part, whose bytes are at `data`, as Python's numbers: in lists of lists, or the first alone. Integers are
   exact, and so are floats. */
PyObject *py_values_list(const py_state *state, const py_part *part, const void *data);
PyObject *py_values_first(const py_state *state, const py_part *part, const void *data);
/* coffer._native.decode. */
PyObject *py_decode(PyObject *module, PyObject *args);

/* ---- Reading many tensors (py_read.c) ----------------------------------------------------------------------------- */

/* A long call of the library, made without the GIL between begin and end; it is taken to call `progress` (NULL or None: none)
   and to look for signals. An exception cancels the call, and stays set. */
typedef struct py_watch {
    coffer_read_options options; /* for the call */
    PyThreadState *thread;       /* of the caller, while the GIL is released */
    PyObject *progress;          /* NULL: none */
    uint64_t asked;              /* when signals were looked for last, in milliseconds */
    uint64_t done;               /* bytes of those that the extension writes itself */
    uint64_t total;              /* bytes of all tensors */
} py_watch;

void py_watch_begin(py_watch *watch, PyObject *progress, unsigned threads);
void py_watch_finish(py_watch *watch);
/* A coffer_progress for objects that live longer than one call: it looks for signals, at once. */
int py_ask_signals(void *ctx, uint64_t done, uint64_t total);

/* coffer_writer_write, or that of another writer. */
typedef coffer_status (*py_write_function)(void *writer, size_t i, uint64_t offset, const void *bytes, uint64_t size,
                                           coffer_error *err);
/* Writes bytes of a tensor in pieces, watched: an exception that is set then is the failure. */
coffer_status py_write(py_watch *watch, py_write_function write, void *writer, size_t i, uint64_t offset,
                       const void *bytes, uint64_t size, coffer_error *err);
/* coffer_writer_write as such a function. */
coffer_status py_write_one(void *writer, size_t i, uint64_t offset, const void *bytes, uint64_t size,
                           coffer_error *err);

/* Reads them, watched. */
int py_read_targets(const py_state *state, const py_handle *handle, const coffer_read_target *targets, size_t count,
                    PyObject *progress, unsigned threads);

/* ---- Dtypes (py_dtypes.c) ----------------------------------------------------------------------------------------- */

/* DLPack's DLDataType: no bits where it has none. */
typedef struct py_dlpack_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} py_dlpack_type;

py_dlpack_type py_dlpack_type_of(coffer_dtype dtype);
/* The buffer protocol's format; NULL where it has none. */
const char *py_buffer_format_of(coffer_dtype dtype);
/* A dict: the names that frameworks have for dtypes, by those in files. */
PyObject *py_dtypes_of_frameworks(void);
/* coffer._native.is_exact. */
PyObject *py_is_exact(PyObject *module, PyObject *args);

/* ---- Bytes that callers give (py_given.c) ------------------------------------------------------------------------- */

/* Gets the buffer of an object if its bytes are those of a tensor of that dtype as they are, contiguous: plain bytes, or elements
   of that dtype. Without an exception false for any other object, which coffer._given knows about. */
bool py_given_buffer(PyObject *object, coffer_dtype dtype, bool writable, Py_buffer *buffer);
/* The same for what is written: of any other object the buffer is that of bytes made from it. */
int py_given_bytes(PyObject *object, const coffer_tensor *tensor, Py_buffer *buffer);
/* coffer._native.is_given. */
PyObject *py_is_given(PyObject *module, PyObject *args);
/* What a function of a module returns for these, of which NULL ends the list. */
PyObject *py_call(const char *module, const char *function, PyObject *first, PyObject *second, PyObject *third);

/* ---- DLPack (py_dlpack.c) ----------------------------------------------------------------------------------------- */

/* Whether DLPack has a type for it. */
bool py_dlpack_knows(coffer_dtype dtype);
/* A capsule that takes over `view`, which is released at once when that fails. */
PyObject *py_dlpack_capsule(py_view *view, const py_part *part, bool as_bytes, bool versioned, bool is_copy);

/* ---- Tensor objects (py_tensor.c) --------------------------------------------------------------------------------- */

PyObject *py_tensor_new(const py_state *state, py_handle *handle, const coffer_tensor *tensor);
/* Of a part, which is taken over, on failure too. */
PyObject *py_tensor_new_part(const py_state *state, py_handle *handle, py_part *part);
/* What a Tensor object is about: its handle, borrowed, and its part. NULL and a TypeError for any other object. */
const py_part *py_tensor_of(const py_state *state, PyObject *object, py_handle **handle);

/* ---- Arguments (py_arguments.c) ----------------------------------------------------------------------------------- */

/* The UTF-8 of a str, which the message calls `what`: "a tensor's name". NULL and a TypeError for anything else. */
const char *py_text(PyObject *text, const char *what, Py_ssize_t *length);
/* A converter for "O&": a path as a bytes object. */
int py_to_path(PyObject *object, void *out);
/* The tensor that a Python string names, or NULL and Error NO_TENSOR. */
const coffer_tensor *py_find(const py_state *state, const py_handle *handle, PyObject *name);
/* Converters for "O&": whole numbers from 0 on, a ValueError for others. What the letters K and I take wraps around. */
int py_to_u64(PyObject *number, void *out);
int py_to_u32(PyObject *number, void *out);
/* The `count` items of a tuple, borrowed; what is none of that length is a TypeError that says `what`. */
int py_unpack(PyObject *tuple, const char *what, PyObject **items, Py_ssize_t count);
/* A shape: a sequence of non-negative ints. *shape is released by PyMem_Free. */
int py_shape_from(PyObject *sequence, uint64_t **shape, size_t *rank);
/* A path (*fd is -1 then, and *path a bytes object) or a descriptor (*path is NULL). */
int py_path_or_fd(PyObject *target, PyObject **path, int *fd);
int py_sync_from(const py_state *state, const char *text, coffer_sync *sync);
/* A format by its identifier; NULL is COFFER_FORMAT_ANY. */
int py_format_from(const py_state *state, const char *text, coffer_format *format);
/* An algorithm by its name; NULL is COFFER_NO_ALGORITHM. */
int py_algorithm_from(const py_state *state, const char *text, coffer_algorithm *algorithm);
/* The arguments of what writes a file: two objects of its own (borrowed), and those that are the same for all. `names` are the
   two own ones and PY_WRITING_NAMES; `format` is PY_WRITING_FORMAT with the function's name. */
typedef struct py_writing {
    PyObject *own[2];
    PyObject *metadata;
    PyObject *progress; /* NULL: none */
    coffer_header_options header;
    coffer_writer_options options;
} py_writing;

#define PY_WRITING_NAMES                                                                                               \
    "metadata", "sync", "alignment", "slack", "in_place", "format", "digests", "progress", "packed", NULL
#define PY_WRITING_FORMAT "OO|O$sKKpzzOp:"
int py_writing_from(const py_state *state, PyObject *args, PyObject *kwargs, const char *format, char **names,
                    py_writing *writing);
/* Adds all pairs of a mapping of str to str, or nothing for None. */
int py_add_metadata(const py_state *state, coffer_header *header, PyObject *metadata);
/* Declares a tensor. */
int py_add_tensor(const py_state *state, coffer_header *header, PyObject *name, PyObject *dtype, PyObject *shape);

/* ---- Writers (py_writer.c) ---------------------------------------------------------------------------------------- */

/* Opens a writer to a path or a descriptor, without the GIL. */
int py_writer_open(const py_state *state, coffer_writer **writer, coffer_header *header, PyObject *target,
                   const coffer_writer_options *options);

#endif
