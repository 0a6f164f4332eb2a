/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/model.h - one or more files of tensors, opened: look-up, metadata, zero-copy data, reading, slicing. */
#ifndef COFFER_MODEL_H
#define COFFER_MODEL_H

#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* One or more files of tensors, opened: immutable. A single file is a model of one shard, number 0. */
typedef struct coffer coffer;

/* The caller's own bytes at random access: an archive member, an encrypted store, an object in memory elsewhere.
   read_at fills all `size` bytes from `offset` (never past `size` of the source) and returns COFFER_OK, or fails with a
   status of its choice; it may fill *err (never NULL), else the library does. It is called from several threads at once
   and must not call back into the same model. close (may be NULL) is called once, by coffer_close or by a failed open.
   What follows `size` may be left zero. The struct is copied. */
typedef struct coffer_source {
    coffer_status (*read_at)(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err);
    void (*close)(void *ctx);
    void *ctx;
    uint64_t size; /* in bytes; it does not change */
    /* Each read costs a round trip, however small it is: a server, a tape. Data is then read in few large reads, with
       the gaps between what is wanted (up to 128 KiB), up to 16 reads at a time regardless of the number of
       processors. */
    bool far;
    /* The address of byte 0 of all `size` bytes in memory, a multiple of 8, valid until close: coffer_data then has
       the tensors there, and they are read from there. The bytes must not change and are not written to, so that
       COFFER_MAP_PRIVATE fails. NULL when there is no such memory; it may fill *err (never NULL), else the library
       does. Called by the thread that wants the data, and not by two at once. NULL: the bytes are not in memory. */
    const void *(*map)(void *ctx, coffer_error *err);
    /* Lends a descriptor that can be read by position, in which the source's byte 0 is at *offset, until give_back.
       coffer_writer_copy then has the system copy from it, and headers come in several small reads. Fails as
       read_at does; may be called from several threads at once. Both are NULL, or none. */
    coffer_status (*borrow)(void *ctx, int *fd, uint64_t *offset, coffer_error *err);
    void (*give_back)(void *ctx);
} coffer_source;

/* How coffer_data gets at a file's bytes. */
typedef enum coffer_access {
    /* Map the file read-only on the first use of coffer_data. Contract: when another process shortens the file,
       touching the bytes that were lost raises SIGBUS; see docs/c.md. */
    COFFER_MAP = 0,
    /* Map it copy-on-write: the data may be changed in memory, the file never is. */
    COFFER_MAP_PRIVATE = 1,
    /* Never map: coffer_data fails, and reads return an error where a map would raise SIGBUS. */
    COFFER_READ = 2
} coffer_access;

/* Whether tensors are verified, by the digests that their file records, when their bytes are first wanted: damage is
   then COFFER_ERR_TENSOR_DIGEST instead of bytes. What is read whole is hashed on the way; a part or slice, and
   coffer_data, look at the whole tensor first, once. The file must not change while the model is open. What comes by
   URL or from the caller's functions may change, so there every read is hashed, and a part or slice is cut from a copy
   of its whole tensor, which needs that much memory; the model keeps the last such copy, so that many slices of one
   tensor read it once. Since 0.2. */
typedef enum coffer_verifying {
    COFFER_VERIFY_NOTHING = 0,
    COFFER_VERIFY_ALL = 1,     /* a file that records none cannot be opened: COFFER_ERR_NO_DIGESTS */
    COFFER_VERIFY_RECORDED = 2 /* tensors of files that do record digests */
} coffer_verifying;

/* Which files are opened as models. Those of other programs (PyTorch, GGUF, NumPy, ONNX, Keras, …) are read-only: their
   tensors are gathered, inflated, byte-swapped or dequantised as they are read, and nothing of a file is executed. See
   docs/format.md. Since 0.2. */
typedef enum coffer_formats {
    COFFER_FORMATS_PLAIN = 0, /* files of tensors, and those of other programs that hold no pickles */
    COFFER_FORMATS_OWN = 1,   /* files of tensors only: safetensors, bintensors */
    COFFER_FORMATS_ALL = 2    /* pickles, too, which are read as data: nothing that they name is looked up or called */
} coffer_formats;

struct coffer_input; /* coffer/convert.h has these */
struct coffer_import;
struct coffer_import_options;

/* Describes a file of another program for coffer_open, as coffer_import_open does; for programs that have a confined
   process do that, and load what it says (coffer_import_load). Since 0.2. */
typedef coffer_status (*coffer_importer)(void *ctx, struct coffer_input *input,
                                         const struct coffer_import_options *options, struct coffer_import **imported,
                                         coffer_error *err);

/* How a model is opened. */
typedef struct coffer_open_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* of the model; NULL: coffer_libc_allocator() */
    uint64_t max_header_size;          /* as in coffer_parse_options */
    coffer_access access;
    bool populate;        /* fault the whole map in when it is made, rather than page by page */
    bool all_notes;       /* as in coffer_parse_options */
    bool unknown_dtypes;  /* as in coffer_parse_options */
    bool hidden_bytes;    /* as in coffer_parse_options */
    coffer_format format; /* as in coffer_parse_options */
    coffer_verifying verify;
    /* Of a model with an index: open only the shards that hold a tensor whose name `select_count` patterns take
       (coffer_match_list); every tensor of theirs is then there. COFFER_ERR_NO_TENSOR for
       none. */
    const char *const *select;
    size_t select_count; /* 0: all */
    const char *token;   /* for the Hub, and nothing else; "": none. NULL: what the environment has */
    uint32_t timeout_ms; /* how long a server may say nothing, a day at most; 0: what the environment says */
    /* The model is opened for coffer_fetch. A server that serves no ranges is then accepted, where each read has to
       begin at the file's first byte; and where the Hub's cache knows a branch, the Hub is asked for its commit, so
       that an older one is not taken for it (not with HF_HUB_OFFLINE, nor when the Hub cannot be reached). */
    bool to_fetch;
    /* Open files that end before their data do, for what is whole: a tensor that is not (coffer_is_whole) fails with
       COFFER_ERR_DATA_TRUNCATED wherever its bytes are wanted. Also files that go on after their data. The header has
       to be there. */
    bool partial;
    /* Asked now and then while a server is waited for, and after each file of several, with the files whose headers
       were read and those in all (1 until that is known). Non-zero: COFFER_ERR_CANCELLED, without waiting for the
       network. NULL: none. */
    coffer_progress progress;
    void *progress_ctx;
    coffer_formats formats; /* of a path or URL; with `to_fetch`, `partial` or a `format` there are none but its own */
    coffer_importer importer; /* NULL: coffer_import_open */
    void *importer_ctx;
    /* Of packed files (coffer/pack.h), bytes of tensors that coffer_data may decode into memory of the model, each
       tensor once; beyond that it fails with COFFER_ERR_NOT_MAPPED. 0: none. Since 0.2. */
    uint64_t unpacked_limit;
} coffer_open_options;
#define COFFER_OPEN_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_open_options), NULL, 0, COFFER_MAP, false, false, false, false, COFFER_FORMAT_ANY,               \
            COFFER_VERIFY_NOTHING, NULL, 0, NULL, 0, false, false, NULL, NULL, COFFER_FORMATS_PLAIN, NULL, NULL, 0     \
    }

/*
 * Opens a file: reads and validates its header; tensors' bytes are not touched. Fails as coffer_parse does, with
 * COFFER_ERR_NOT_FOUND and its like when there is no such file, and with COFFER_ERR_UNDO while the undo file of an
 * interrupted edit lies next to it. *model is NULL on failure.
 *
 * A path that ends in `.index.json` is the index of a sharded model. Their headers are read by several threads
 * (docs/c.md says how many), which call the allocator one at a time, in order of the files' names, and compared
 * with the index. A bounded number of files stays open; one that is opened again for reading must not have changed
 * (COFFER_ERR_CHANGED). When another model takes its place while it is opened, all files are of the one or of the
 * other; COFFER_ERR_UNFINISHED at a moment when there is neither. Statuses from 120 on are of such models.
 *
 * A path that is a folder stands for the one model in it, found as other programs find it; docs/format.md has the
 * rules.
 *
 * A file or folder of another program is opened as a model of one file, where `formats` has it: with the tensors that
 * coffer_import_open finds, those that share bytes counted, and what else is in it as metadata. Fails as
 * coffer_import_open does. coffer_model_import and coffer_stored_tensor say what is known of it.
 *
 * A path may be a URL: http, https, s3 or hf://owner/name[@revision][/file], of a file, an index, a folder that ends in
 * a slash, or a repository of the Hub, whose cache comes first. One request then brings a file's size and most headers,
 * reads fetch what they need, several ranges at once, and there is no map. docs/network.md has the other names of the
 * Hub, what the environment changes, what is sent where and what is tried again.
 */
COFFER_API coffer_status coffer_open(coffer **model, const char *path, const coffer_open_options *options,
                                     coffer_error *err);
/* A file that is already in memory: `size` bytes, borrowed until close and not to be changed. coffer_data points into
   it. */
COFFER_API coffer_status coffer_open_memory(coffer **model, const void *bytes, size_t size,
                                            const coffer_open_options *options, coffer_error *err);
/* A range of an open descriptor of a regular file or block device, `size` bytes from `offset` (UINT64_MAX: to its end).
   The descriptor is duplicated; its position is neither used nor moved. Fails as coffer_open does, and with
   COFFER_ERR_NOT_REGULAR for a pipe or socket. */
COFFER_API coffer_status coffer_open_fd(coffer **model, int fd, uint64_t offset, uint64_t size,
                                        const coffer_open_options *options, coffer_error *err);
/* The caller's own source; the struct is copied. Without its `map` there is no zero-copy data: coffer_data fails with
   COFFER_ERR_NOT_MAPPED. */
COFFER_API coffer_status coffer_open_source(coffer **model, const coffer_source *source,
                                            const coffer_open_options *options, coffer_error *err);
/* Releases everything, maps included: pointers from coffer_data, tensors and tables are dead afterwards. NULL is
   ignored. */
COFFER_API void coffer_close(coffer *model);

/* Called for a file of a model, on the thread that made the call: its path, borrowed for the call, and whether there is
   a file of that name. A non-zero answer ends the listing. Since 0.2. */
typedef int (*coffer_file_visitor)(void *ctx, const char *path, bool exists);
/*
 * Names the files of a model without opening them, those that are missing, too: of an index what it names, of a folder
 * what coffer_open would open in it, of a file that is named as one of several (`-00001-of-00003`) all that are named
 * like it, in order of their names; else the file itself. An index has to conform. COFFER_ERR_UNSUPPORTED for a URL,
 * COFFER_ERR_CANCELLED when the visitor ended it. Any thread may call it. Since 0.2.
 */
COFFER_API coffer_status coffer_list_files(const char *path, const coffer_allocator *allocator,
                                           coffer_file_visitor visit, void *ctx, coffer_error *err);

/*
 * Names all files of a repository of the Hub, or of a folder of it (a URL that ends in a slash), with those in folders
 * below: their URLs, hf://owner/name[@revision]/file, in the Hub's order. `exists` is false for a name that cannot be
 * written as a URL; the path is then the name as the Hub has it. The Hub gives its list page by page; each is asked for
 * when the visitor has had the one before. Of the options, the allocator, the token and the timeout are used.
 * COFFER_ERR_ARGUMENT for any other URL or path, COFFER_ERR_OFFLINE where the environment forbids requests,
 * COFFER_ERR_ANSWER for an answer that is no such list, COFFER_ERR_CANCELLED when the visitor ended it. Since 0.2.
 */
COFFER_API coffer_status coffer_list_repository(const char *url, const coffer_open_options *options,
                                                coffer_file_visitor visit, void *ctx, coffer_error *err);

/* Whether a path or URL is that of the index of a model: its name, which alone tells, ends in `.index.json`. No I/O. */
COFFER_API bool coffer_is_index(const char *path);

/* ---- Look-up ----------------------------------------------------------------------------------------------------- */

/* Tensors of the model. */
COFFER_API size_t coffer_count(const coffer *model);
/* Tensor `i` in order of (shard, offset); NULL when i is not below the count. No I/O, cannot fail otherwise. */
COFFER_API const coffer_tensor *coffer_at(const coffer *model, size_t i);
/* The tensor of a name, as by coffer_table_find; NULL when there is none. No I/O, cannot fail otherwise. */
COFFER_API const coffer_tensor *coffer_find(const coffer *model, const char *name, size_t name_len);
/* Whether a whole name, of name_len bytes, matches a pattern: `*` is any text (dots and slashes too), `?` one
   character, [abc], [a-z] and [!a-z] one character of a set, and a backslash takes the next character as it is.
   Characters are those of UTF-8, or single bytes where the text is not UTF-8. Time is at most the product of both
   lengths. From any thread. */
COFFER_API bool coffer_match(const char *pattern, const char *name, size_t name_len);
/* Whether a list of patterns takes a name, in any order: it matches one of them, and no pattern that follows a
   `!`, as in "!*.bias". A list of exclusions alone takes every other name, and an empty list every name. This is what
   `select` of all options means. From any thread. Since 0.2. */
COFFER_API bool coffer_match_list(const char *const *patterns, size_t count, const char *name, size_t name_len);
/* Fills `order`, of coffer_count entries, with the numbers of the tensors for coffer_at in byte order of their names.
   O(n log n), without memory of its own. */
COFFER_API void coffer_sort_by_name(const coffer *model, uint32_t *order);
/* Files of the model, at least 1; with `select` those that were opened. */
COFFER_API size_t coffer_shard_count(const coffer *model);
/* Everything else that shard `shard`'s header says: metadata, notes, sizes. Tensors that the index says are in another
   file (COFFER_NOTE_SUPERSEDED) are not in it. NULL when shard is not below the count. */
COFFER_API const coffer_table *coffer_shard_table(const coffer *model, size_t shard);
/* Bytes of shard `shard`'s file; 0 when shard is not below the count. */
COFFER_API uint64_t coffer_shard_size(const coffer *model, size_t shard);
/* The path of shard `shard`'s file, as it was given or as the index names it; "" when there is none. Borrowed. Since
   0.2. */
COFFER_API const char *coffer_shard_path(const coffer *model, size_t shard);
/* How many holes the file of a shard has, which read as zeros and take no space: what a download into reserved space
   leaves when it is interrupted. *first becomes the byte where the first begins. 0 where the file system cannot tell,
   and of what is not a file of this machine. Asks the file system, and reads nothing. Since 0.2. */
COFFER_API uint64_t coffer_shard_holes(const coffer *model, size_t shard, uint64_t *first);
/* A kind of note over all shards, and of the model as a whole. *subject (when not NULL) becomes the name of the first
   tensor or file that it is about, "" when it is about none; an offset is then one in that file, or in the index.
   Borrowed. Since 0.2. */
COFFER_API coffer_note coffer_model_note(const coffer *model, coffer_note_kind kind, const char **subject);
/* The index's `metadata`: JSON text of an object, *len bytes (`len` is not NULL); "" when it has none, NULL when there
   is no index. Borrowed. Since 0.2. */
COFFER_API const char *coffer_index_metadata(const coffer *model, size_t *len);
/* The whole text of the index, byte for byte as it was read, *len bytes (when `len` is not NULL); no NUL follows. NULL
   when there is no index, and where `select` leaves files out. Borrowed. Since 0.2. */
COFFER_API const void *coffer_index_text(const coffer *model, size_t *len);
/* The path of the index, as it was given or found in a folder; "" when there is none. Borrowed. Since 0.2. */
COFFER_API const char *coffer_index_path(const coffer *model);

/* ---- Data -------------------------------------------------------------------------------------------------------- */

/* The tensor's bytes as the file has them (little-endian, row-major), without a copy: never NULL on success, an empty
   tensor's too. Borrowed, valid until coffer_close. NULL on failure: COFFER_ERR_NOT_MAPPED where there is no map
   (COFFER_READ, a URL, a source without `map`; of packed files see `unpacked_limit`) or where mapping failed. Not
   necessarily aligned: see coffer_is_aligned. */
COFFER_API const void *coffer_data(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* The same, to be changed in memory: only with COFFER_MAP_PRIVATE, else COFFER_ERR_NOT_MAPPED. Changes are seen by
   every user of this model; who changes what is up to the program, threads are not kept apart. For engines that
   permute or scale weights where they lie. */
COFFER_API void *coffer_data_mutable(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* Whether coffer_data's pointer is (or would be) aligned for the dtype. No I/O. For engines that use the map's bytes
   as numbers. */
COFFER_API bool coffer_is_aligned(const coffer *model, const coffer_tensor *tensor);

/* Whether the file has all bytes of the tensor, which can be false only with the option `partial`; false for a tensor
   of another model. No I/O. Since 0.2. */
COFFER_API bool coffer_is_whole(const coffer *model, const coffer_tensor *tensor);

/* Whether a file is better read than mapped: it is at a URL, on a network file system, or on one in user space
   (FUSE). There each page that is touched costs a round trip, and touching one whose server is gone hangs, or ends the
   process. By its path; NULL: by its descriptor. False where nothing is there. Since 0.2. */
COFFER_API bool coffer_is_remote(const char *path, int fd);

/* How tensors are read. */
typedef struct coffer_read_options {
    size_t struct_size;
    coffer_progress progress; /* NULL: none */
    void *progress_ctx;
    uint32_t threads; /* at most that many at once, the caller's included; 0: by size and processors */
} coffer_read_options;
#define COFFER_READ_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_read_options), NULL, NULL, 0                                                                     \
    }

/* Reads a tensor's bytes into memory of exactly tensor->size bytes, else COFFER_ERR_BUFFER_SIZE: large parallel
   reads, no map. The memory needs no alignment. On failure its contents are undefined. For programs that read one
   tensor; those that read many take coffer_read_many. */
COFFER_API coffer_status coffer_read(const coffer *model, const coffer_tensor *tensor, void *buffer,
                                     uint64_t buffer_size, const coffer_read_options *options, coffer_error *err);

/* Reads `size` bytes of a tensor, from its byte `offset` on, into memory of that size: a tensor of any size with little
   memory. COFFER_ERR_INDEX for bytes that are not all inside it. Since 0.2. */
COFFER_API coffer_status coffer_read_part(const coffer *model, const coffer_tensor *tensor, uint64_t offset,
                                          void *buffer, uint64_t size, const coffer_read_options *options,
                                          coffer_error *err);

/* Reads the header of shard `shard`, from the file's first byte to where the data begin, into memory of exactly
   coffer_table_data_offset(coffer_shard_table(model, shard)) bytes, else COFFER_ERR_BUFFER_SIZE. coffer_parse reads
   these bytes as coffer_open did, so they are all that is needed to describe the file elsewhere. They are those of the
   file as it is now: after an edit in place they may differ from the table. At a URL the first 96 KiB come from memory,
   the rest by another request. COFFER_ERR_ARGUMENT when shard is not below the count. Since 0.2. */
COFFER_API coffer_status coffer_read_header(const coffer *model, size_t shard, void *buffer, uint64_t buffer_size,
                                            const coffer_read_options *options, coffer_error *err);

/* One of the tensors that coffer_read_many reads, and its place: memory of exactly tensor->size bytes. Since 0.2. */
typedef struct coffer_read_target {
    const coffer_tensor *tensor;
    void *buffer;
    uint64_t buffer_size;
} coffer_read_target;

/* Reads `count` tensors, each into its own place, as coffer_read would one after the other; but the threads are started
   once and go from tensor to tensor, which loads a model of many small ones faster, and `progress` counts all of them
   together. Reading begins in the order given and only when every target has been checked. Places must not overlap. A
   failure at one tensor stops all and names it in err->tensor; then the contents of every place are undefined. Since
   0.2. */
COFFER_API coffer_status coffer_read_many(const coffer *model, const coffer_read_target *targets, size_t count,
                                          const coffer_read_options *options, coffer_error *err);

/* ---- Slices ------------------------------------------------------------------------------------------------------ */

/* What is taken along one dimension, with the rules of Python's slices and of integer indices. */
typedef enum coffer_index_kind {
    COFFER_INDEX_ALL = 0, /* the whole dimension, `:` */
    COFFER_INDEX_AT = 1,  /* one index, which drops the dimension; negative counts from the end */
    COFFER_INDEX_RANGE =
        2, /* start:stop:step, each present or not; out-of-range bounds are clamped, step may be negative */
    COFFER_INDEX_ELLIPSIS = 3 /* as many whole dimensions as are left, `...`; at most one */
} coffer_index_kind;

/* What is taken along one dimension. */
typedef struct coffer_index {
    coffer_index_kind kind;
    bool has_start, has_stop; /* of a range: whether start and stop are given */
    int64_t start;            /* of a range, or the index itself */
    int64_t stop;
    int64_t step; /* of a range; 0 is an error, there is no default */
} coffer_index;

/* Reads the text form, "0:10, :, -1, ..., ::2", with or without brackets around it, into at most *count entries; *count
   becomes their number. "" and "[]" are no indices: the whole tensor. COFFER_ERR_SLICE_SYNTAX carries the position in
   the text as err->offset; with more than fit, COFFER_ERR_BUFFER_SIZE carries the number as err->expected. */
COFFER_API coffer_status coffer_slice_parse(const char *text, size_t text_len, coffer_index *indices, size_t *count,
                                            coffer_error *err);
/* The result of a slice, before reading it: its shape (space for tensor->rank dimensions), rank and size in bytes. Each
   output may be NULL. Dimensions that no index names are taken whole. COFFER_ERR_INDEX, COFFER_ERR_STEP, and
   COFFER_ERR_SLICE_BITS for F4 or F6 elements that are not whole bytes. No I/O. */
COFFER_API coffer_status coffer_slice_shape(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                            uint64_t *shape, size_t *rank, uint64_t *size, coffer_error *err);
/* Reads a slice into memory of exactly the slice's size, row-major, touching only the runs of bytes that it needs (and
   small gaps between short ones). From the map where the model has one, else by reads. Fails as coffer_slice_shape
   does, and with COFFER_ERR_BUFFER_SIZE. */
COFFER_API coffer_status coffer_read_slice(const coffer *model, const coffer_tensor *tensor,
                                           const coffer_index *indices, size_t count, void *buffer,
                                           uint64_t buffer_size, const coffer_read_options *options, coffer_error *err);

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

/* Parameters by dtype (COFFER_UNKNOWN_DTYPE included, and more to come): `plain`, the elements of all tensors, 1 for a
   scalar; `trained`, the weights as they were before quantisation packed them, without what says how to unpack them;
   `compatible`, as
   @huggingface/hub counts: the same without scalars, and in whole weights for each element. docs/format.md has the
   rules. Since 0.2. */
typedef struct coffer_parameters {
    uint64_t plain[32];
    uint64_t trained[32];
    uint64_t compatible[32];
    char assumed[256]; /* of the quantisation, in words; "" when there is none */
} coffer_parameters;
/* Counts by the text of a config.json. NULL: by the one next to the model's first file, if there is one; "" (length 0):
   by none. Reads that file, and no tensors. Since 0.2. */
COFFER_API coffer_status coffer_count_parameters(const coffer *model, const char *config, size_t config_len,
                                                 coffer_parameters *counts, coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
