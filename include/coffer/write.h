/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/write.h - writing a file of tensors, or a model of several, and publishing it atomically. */
#ifndef COFFER_WRITE_H
#define COFFER_WRITE_H

#include "header.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One file ---------------------------------------------------------------------------------------------------- */

/* A file being written. Any number of threads may write and copy at once; one finishes it, when they have returned. */
typedef struct coffer_writer coffer_writer;

/* When what was written is made to survive a power cut. docs/editing.md says what each survives. */
typedef enum coffer_sync {
    COFFER_SYNC_REPLACE = 0, /* when an existing file is replaced: its new bytes are durable before the rename */
    COFFER_SYNC_ALWAYS = 1,  /* always, and the directory entry too, before finish returns */
    COFFER_SYNC_NEVER = 2    /* and a large file that is replaced is given up by a thread that outlives the call */
} coffer_sync;

/* The caller's own place to write to. write_at stores all `size` bytes at `offset` or fails, like coffer_source's
   read_at; called from the threads that call coffer_writer_write. finish (may be NULL) is called once when everything
   was written; discard (may be NULL) once instead, when the writer is freed unfinished or failed, or could not be
   opened. */
typedef struct coffer_sink {
    coffer_status (*write_at)(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err);
    coffer_status (*finish)(void *ctx, coffer_error *err);
    void (*discard)(void *ctx);
    void *ctx;
} coffer_sink;

/* How a file is written. */
typedef struct coffer_writer_options {
    size_t struct_size;
    uint64_t alignment;       /* as in coffer_header_options */
    uint64_t slack;           /* as in coffer_header_options */
    uint64_t max_header_size; /* as in coffer_parse_options */
    coffer_sync sync;         /* of a path or descriptor */
    /* Of a path: overwrite the existing file itself. Neither atomic nor crash-safe: for files that a rename cannot
       replace (bind mounts, some FUSE mounts). */
    bool in_place;
    bool empty_metadata;  /* as in coffer_header_options */
    coffer_format format; /* as in coffer_header_options */
    /* Record digests in the metadata: they are computed as the tensors come, best in order, and the header is written
       last. A pipe is refused; where the writer cannot read back (a descriptor, `in_place`, the caller's sink), so are
       pieces out of order. */
    coffer_algorithm digests;
    /* Of a path: what was read from this model, one file that was opened by its path, is written again. Its file is the
       only one that is replaced: when the path leads to another one by then, or somebody wrote to it, finishing fails
       with COFFER_ERR_CHANGED, and what lies there stays. Not with in_place. NULL: anything there is replaced.
       Borrowed by coffer_writer_open alone. */
    const coffer *replaces;
    /* Asked now and then by the thread that waits in coffer_writer_finish for bytes to become durable, or in
       coffer_writer_write for the reader of a pipe, with the bytes that are and those of the file. Non-zero:
       COFFER_ERR_CANCELLED, and the writer can only be freed. Other writing takes as long as the pieces are. NULL:
       none. */
    coffer_progress progress;
    void *progress_ctx;
    /* Of a path, not with in_place, and only safetensors: coffer_writer_finish packs the file (coffer/pack.h) before it
       is published. Until then the plain file takes space on the disk, too. Since 0.2. */
    bool packed;
} coffer_writer_options;
#define COFFER_WRITER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_writer_options), 0, 0, 0, COFFER_SYNC_REPLACE, false, false, COFFER_FORMAT_ANY,                  \
            COFFER_NO_ALGORITHM, NULL, NULL, NULL, false                                                               \
    }

/*
 * Opens a writer to a path: builds the header (coffer_header_build) and writes it. The header stays the caller's and
 * must live until the writer is freed; coffer_header_at says where each tensor goes.
 *
 * A complete temporary file next to `path` takes its place when the writer finishes: programs that have the old file
 * open keep it, and a crash at any point leaves the old or the new file whole. An existing file's mode is kept, a new
 * one's is what the umask asks for. A symbolic link is itself replaced, not what it points to.
 *
 * Fails as coffer_header_build does, and with COFFER_ERR_IO and its like when nothing can be written there.
 */
COFFER_API coffer_status coffer_writer_open(coffer_writer **writer, coffer_header *header, const char *path,
                                            const coffer_writer_options *options, coffer_error *err);
/* The same to a descriptor, which is borrowed: from its position on, or wherever it stands when it cannot seek (a pipe:
   write in order of the file then, or COFFER_ERR_UNSUPPORTED). */
COFFER_API coffer_status coffer_writer_open_fd(coffer_writer **writer, coffer_header *header, int fd,
                                               const coffer_writer_options *options, coffer_error *err);
/* The same to memory, which is borrowed: `size` bytes, exactly as many as the file has, which is
   coffer_table_data_offset plus coffer_table_data_size of the header's table; else COFFER_ERR_BUFFER_SIZE. */
COFFER_API coffer_status coffer_writer_open_memory(coffer_writer **writer, coffer_header *header, void *memory,
                                                   size_t size, const coffer_writer_options *options,
                                                   coffer_error *err);
/* The same to the caller's own place; the struct is copied. Whenever this fails, for any reason, it calls
   the sink's discard. For programs that write to an object store or into a container of their own. */
COFFER_API coffer_status coffer_writer_open_sink(coffer_writer **writer, coffer_header *header, const coffer_sink *sink,
                                                 const coffer_writer_options *options, coffer_error *err);
/* Writes `size` bytes of tensor number `i` of the declaration, from byte `offset` of that tensor on. Pieces may come in
   any order and from any number of threads at once; a byte written twice or outside its tensor is
   COFFER_ERR_WRITE_RANGE. After a failure the writer can only be freed. The bytes are little-endian and row-major, as
   they will be in the file; they need no alignment. */
COFFER_API coffer_status coffer_writer_write(coffer_writer *writer, size_t i, uint64_t offset, const void *bytes,
                                             uint64_t size, coffer_error *err);
/* One of the tensors that coffer_writer_copy copies: `tensor` of `model` becomes tensor number `to` of the declaration,
   which must be of its size. Since 0.2. */
typedef struct coffer_copy {
    size_t to;
    const coffer *model;
    const coffer_tensor *tensor;
} coffer_copy;

/* Writes `count` whole tensors with the bytes that opened models have for them, from any number of models and to any
   sink. Where the system can, the bytes go from file to file without coming into memory; else through a buffer of at
   most 16 MiB. Neighbours are copied together, however they are given, so one call for many tensors is much faster than
   many calls. The bytes count as if coffer_writer_write had written them, the same rules for threads hold, and a
   failure has the same consequence. It takes the options of reading, since it reads; `progress` counts bytes, and
   cancelling is a failure, too. Since 0.2. */
COFFER_API coffer_status coffer_writer_copy(coffer_writer *writer, const coffer_copy *copies, size_t count,
                                            const coffer_read_options *options, coffer_error *err);
/* Checks that every byte was written and publishes the file. When it fails, nothing was published, unless the message
   says that only making it durable failed (COFFER_SYNC_ALWAYS); with COFFER_ERR_REPLACE the complete file is kept under
   the name that the message states. Then only coffer_writer_free is left to call. COFFER_ERR_MISSING_DATA when bytes
   are missing, COFFER_ERR_CHANGED with `replaces`. */
COFFER_API coffer_status coffer_writer_finish(coffer_writer *writer, coffer_error *err);
/* Releases the writer; one that was not finished leaves no file. NULL is ignored. */
COFFER_API void coffer_writer_free(coffer_writer *writer);

/* ---- Files next to a model --------------------------------------------------------------------------------------- */

/* A file that is published together with a model, in its folder. Since 0.2. */
typedef struct coffer_companion {
    const char *name;  /* without a folder */
    const void *bytes; /* NULL: the file has more than COFFER_COMPANION_MAX bytes, or cannot be read; it is left out */
    size_t size;
} coffer_companion;

/* The most bytes of a companion. */
#define COFFER_COMPANION_MAX ((uint64_t)256 << 20)

/* The companions of a model, in memory. Since 0.2. */
typedef struct coffer_companions coffer_companions;

/* Whether a file of this name, without a folder, is one that programs read together with a model's tensors, or people:
   a configuration, of a tokenizer or processor, too, a vocabulary, a chat template, code that a configuration names, a
   licence, a model card. Weights of any format, their indices, digests and the state of a training are not.
   For programs that copy models in a way of their own. Since 0.2. */
COFFER_API bool coffer_is_companion(const char *name);
/* Reads the companions of a model from the folder of its files, in order of their names; of a URL, those that
   coffer_fetch downloads with it. With NULL for the model: those in the folder `path` on this machine, or in that of
   the file `path`. A model in memory has none. Since 0.2. */
COFFER_API coffer_status coffer_companions_read(coffer_companions **companions, const coffer *model, const char *path,
                                                coffer_error *err);
/* Companion `i`, borrowed; NULL when there is none of that number. Since 0.2. */
COFFER_API const coffer_companion *coffer_companions_at(const coffer_companions *companions, size_t i);
/* NULL is allowed. Since 0.2. */
COFFER_API void coffer_companions_free(coffer_companions *companions);

/* ---- Several files ----------------------------------------------------------------------------------------------- */

/*
 * A model of as many files as a limit asks for, and their index. Tensors go into files in the order of their
 * declaration, as every writer of such models does it, and so are the files named: of `FOLDER/NAME.safetensors`, which
 * is what the model is called if one file is enough, come NAME-00001-of-00003.safetensors… and
 * NAME.safetensors.index.json. Of an older model there and the new one, nobody ever finds a mixture: docs/editing.md
 * says what is there when. Since 0.2.
 */
typedef struct coffer_model_writer coffer_model_writer;

/* How a sharded model is written. Since 0.2. */
typedef struct coffer_model_writer_options {
    size_t struct_size;
    uint64_t max_shard_size; /* bytes of tensors in a file; 0: 5,000,000,000. A larger tensor has a file of its own */
    bool balanced;           /* as many files as without it, but of sizes as even as the order allows */
    bool force;              /* take a model of one file away that is in the way, else COFFER_ERR_SHADOWED */
    const coffer_writer_options *files; /* of each file; NULL: the default. Not in_place, and only safetensors */
    /* Files that are published with the model, and replace those of their names; borrowed by coffer_model_writer_open
       alone. Those without bytes are passed over. */
    const coffer_companion *companions;
    size_t companion_count;
} coffer_model_writer_options;
#define COFFER_MODEL_WRITER_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_model_writer_options), 0, false, false, NULL, NULL, 0                                            \
    }

/* Opens a writer. The header declares all tensors, and the metadata of every file; it need not be built, and must live
   until the writer is freed. What an interrupted save left at `path` is finished or undone first. COFFER_ERR_LOCKED
   while another one saves in that folder. Since 0.2. */
COFFER_API coffer_status coffer_model_writer_open(coffer_model_writer **writer, const coffer_header *header,
                                                  const char *path, const coffer_model_writer_options *options,
                                                  coffer_error *err);
/* Files of the plan, the index not counted. Since 0.2. */
COFFER_API size_t coffer_model_writer_shard_count(const coffer_model_writer *writer);
/* The name of file `shard` of the plan, borrowed, without a folder; NULL when there is none of that number. Since
   0.2. */
COFFER_API const char *coffer_model_writer_shard_name(const coffer_model_writer *writer, size_t shard);
/* The number of the file that tensor `i` of the declaration goes to; SIZE_MAX when there is no such tensor. Since
   0.2. For programs that make the tensors of one file after those of another. */
COFFER_API size_t coffer_model_writer_shard_of(const coffer_model_writer *writer, size_t i);
/* As coffer_writer_write. A file is made durable when its last byte has come, and at most as many are open at once as
   tensors are being written to. Since 0.2. */
COFFER_API coffer_status coffer_model_writer_write(coffer_model_writer *writer, size_t i, uint64_t offset,
                                                   const void *bytes, uint64_t size, coffer_error *err);
/* As coffer_writer_copy. Since 0.2. */
COFFER_API coffer_status coffer_model_writer_copy(coffer_model_writer *writer, const coffer_copy *copies, size_t count,
                                                  const coffer_read_options *options, coffer_error *err);
/* As coffer_writer_finish, of all files and their index; a file whose tensors are all empty is made durable here. Since
   0.2. */
COFFER_API coffer_status coffer_model_writer_finish(coffer_model_writer *writer, coffer_error *err);
/* Releases the writer; one that was not finished leaves the model that was there. NULL is ignored. Since 0.2. */
COFFER_API void coffer_model_writer_free(coffer_model_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
