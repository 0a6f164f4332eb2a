/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/convert.h - files of other programs (PyTorch, NumPy, Paddle, …) read without running anything of them, and
 * written as safetensors.
 *
 *     coffer_input *input;
 *     coffer_import *imported;
 *     coffer_input_open(&input, "pytorch_model.bin", NULL, &err);
 *     coffer_import_open(&import, input, NULL, &err);             nothing is written: look at what would be
 *     coffer_import_write(import, "model.safetensors", NULL, NULL, &err);
 *     coffer_import_free(import);
 *     coffer_input_free(input);
 *
 * An input is bytes: a file, what is at a URL, or the caller's own functions. An import is what a reader made of
 * them: which tensors there are, what becomes of each, and what else was found. Reading and writing may be done by two
 * processes, of which the first need not be trusted: coffer_import_save gives the import as bytes, coffer_import_load
 * takes it from them and checks every number again.
 *
 * Since 0.2. One thread at a time may use an input with its imports.
 */
#ifndef COFFER_CONVERT_H
#define COFFER_CONVERT_H

#include "write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* A file and, once a reader has asked for them, files next to it. Files are numbered in the order in which they were
   opened; the input itself is 0. */
typedef struct coffer_input coffer_input;

/*
 * The caller's own way to a file and to those next to it; the struct is copied, `path` too.
 *
 * read fills `size` bytes of a file from `offset` on (never past its end), or fails with a status of its choice; it may
 * fill *err (never NULL), else the library does. It is called from several threads at once when tensors are carried,
 * else by the caller's. `beside` opens a file by its name, or by its path below the folder of the input: plain names
 * with slashes between them, none of which leads up. It sets the file's size; files get the numbers 1, 2, … in the
 * order of these calls. NULL: there are no other files. close (may be NULL) is called once, by coffer_input_free or by
 * a failed open.
 */
typedef struct coffer_input_functions {
    coffer_status (*read)(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err);
    coffer_status (*beside)(void *ctx, const char *name, size_t name_len, uint64_t *size, coffer_error *err);
    void (*close)(void *ctx);
    void *ctx;
    uint64_t size;    /* of the input, in bytes */
    const char *path; /* by whose ending some formats are recognised, and which messages show; NULL: none */
    bool far;         /* as in coffer_source */
} coffer_input_functions;

/* Opens a path or a URL (docs/network.md). Of a folder that a distributed training or TensorFlow has saved, that is the
   file in it by which a reader finds the others; COFFER_ERR_DIRECTORY when there is none. Of the options, the
   allocator, the token, the timeout and the progress are used, the last also while coffer_input_read and readers wait
   for a server; NULL: the default. Files next to it are looked for as the files of an index are: nowhere but in its
   folder and below it, also where that has links (the Hub's cache). Fails as coffer_open does for what is not there.
   *input is NULL on failure. */
COFFER_API coffer_status coffer_input_open(coffer_input **input, const char *path, const coffer_open_options *options,
                                           coffer_error *err);
/* The same by the caller's functions. `allocator` NULL: coffer_libc_allocator(). */
COFFER_API coffer_status coffer_input_open_functions(coffer_input **input, const coffer_input_functions *functions,
                                                     const coffer_allocator *allocator, coffer_error *err);
/* Opens a file next to the input, or below its folder ("data/w.bin"), or gives the number of one that is open already.
   COFFER_ERR_SHARD_NAME for a path that is absolute or has names that are empty, ".." or not plain;
   COFFER_ERR_SHARD_MISSING; COFFER_ERR_SHARD_LINK for a link out of the folder. `size` may be NULL. */
COFFER_API coffer_status coffer_input_beside(coffer_input *input, const char *name, size_t name_len, uint32_t *file,
                                             uint64_t *size, coffer_error *err);
/* Reads bytes of a file; COFFER_ERR_ARGUMENT when the range does not lie within it. */
COFFER_API coffer_status coffer_input_read(coffer_input *input, uint32_t file, uint64_t offset, void *buffer,
                                           size_t size, coffer_error *err);
/* Bytes of a file; 0 when there is none of that number. */
COFFER_API uint64_t coffer_input_size(const coffer_input *input, uint32_t file);
/* Bytes that were read of all files together by coffer_input_read and by readers: what was looked at, without the
   tensors that were carried. */
COFFER_API uint64_t coffer_input_bytes_read(const coffer_input *input);
/* The path that was given, borrowed from the input; of a folder the path of the file in it that is read. "" when there
   is none. */
COFFER_API const char *coffer_input_path(const coffer_input *input);
/* Releases the input. NULL is ignored. No import of it may be used afterwards. */
COFFER_API void coffer_input_free(coffer_input *input);

/* ---- Imports ----------------------------------------------------------------------------------------------------- */

/* What becomes of names that stand for the same view of the same bytes. */
typedef enum coffer_ties {
    COFFER_TIES_HF = 0,  /* one is written; the others go into the metadata, as the ecosystem does it */
    COFFER_TIES_KEEP = 1 /* all are written */
} coffer_ties;

/* What becomes of numbers that lie in a checkpoint next to its tensors. */
typedef enum coffer_scalars {
    COFFER_SCALARS_SKIP = 0,
    COFFER_SCALARS_METADATA = 1, /* whole numbers and truths among them go into the metadata */
    COFFER_SCALARS_ALL = 2       /* so do numbers and texts elsewhere in a pickle, 1,000 at most */
} coffer_scalars;

/* What is wanted of an import. */
typedef struct coffer_import_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* NULL: that of the input */
    const char *root;         /* the dict whose tensors are wanted, its path joined by dots; "all"; NULL or "auto" */
    const char *strip_prefix; /* removed from the beginnings of names; NULL: none */
    coffer_ties ties;
    coffer_scalars scalars;
    coffer_dtype bytes_as;  /* what NumPy's one-byte voids are: a dtype of 8 bits; COFFER_UNKNOWN_DTYPE: refuse them */
    bool skip_unsupported;  /* leave out tensors that have no equivalent instead of failing */
    bool strict;            /* fail where an object of another program would be left out (COFFER_ERR_OPAQUE) */
    bool complex128;        /* write complex128 as F64 with a last dimension of 2 */
    bool allow_expand;      /* tensors may be larger than what they view by more than 64 MiB together */
    bool scan;              /* findings alone are wanted: go on past what could not be converted, and list no tensors */
    uint64_t max_metadata;  /* bytes of memory that describing the file may take; 0: 256 MiB */
    bool raw_blocks;        /* keep tensors of GGUF's block types as U8, with their types in the metadata */
    coffer_dtype blocks_as; /* or make F32, F16 or BF16 of them; COFFER_UNKNOWN_DTYPE: refuse them */
    bool packed;            /* keep integers of less than a byte as U8, with their dtypes and shapes in the metadata */
    bool constants;         /* take the tensors in the attributes of ONNX's nodes, too, not only initializers */
    const char *const *select; /* patterns (coffer_match_list): only tensors whose names, as they would be written, */
    size_t select_count;       /* they take are wanted; 0: all are */
} coffer_import_options;
#define COFFER_IMPORT_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_import_options), NULL, NULL, NULL, COFFER_TIES_HF, COFFER_SCALARS_SKIP, COFFER_UNKNOWN_DTYPE,    \
            false, false, false, false, false, 0, false, COFFER_UNKNOWN_DTYPE, false, false, NULL, 0                   \
    }

/* What a file holds, and what becomes of it. */
typedef struct coffer_import coffer_import;

/*
 * Reads what the input says of its tensors, by the reader that its content asks for; no tensor's bytes are read. The
 * input is borrowed until the import is freed; the options' strings are not kept.
 *
 * COFFER_ERR_UNKNOWN_INPUT for a file that no reader knows, COFFER_ERR_DAMAGED, COFFER_ERR_PICKLE and COFFER_ERR_ARRAY
 * for what is damaged or refused, COFFER_ERR_ROOT when it is not clear what the model is, COFFER_ERR_NO_EQUIVALENT,
 * COFFER_ERR_VIEW, COFFER_ERR_NAME and COFFER_ERR_DUPLICATE_NAME for tensors that cannot be written; err->tensor names
 * the tensor, err->offset the byte of the file. *imported is NULL on failure.
 */
COFFER_API coffer_status coffer_import_open(coffer_import **imported, coffer_input *input,
                                            const coffer_import_options *options, coffer_error *err);
/*
 * Adds all that an import of another input has, so that the first one is of both, and is written as one model: the
 * shards of a checkpoint without an index, a file of weights and one of what was trained besides. `more` stays as it is
 * and may be freed; its input must outlive `imported`. Tensors keep their order, those of `more` come last.
 *
 * COFFER_ERR_DUPLICATE_NAME when a tensor is in both: the message names both files. COFFER_ERR_DUPLICATE_KEY for
 * metadata of one key and two values, COFFER_ERR_ARGUMENT for two imports of one input. After a failure `imported` is
 * as it was. What was borrowed from it before is to be asked for again. As long as `imported` is there, its input may
 * not be used for other imports.
 */
COFFER_API coffer_status coffer_import_add(coffer_import *imported, const coffer_import *more, coffer_error *err);
/* Releases the import. NULL is ignored. */
COFFER_API void coffer_import_free(coffer_import *imported);

/* What becomes of a tensor. */
typedef enum coffer_fate {
    COFFER_FATE_WRITTEN = 0,
    COFFER_FATE_ALIAS = 1,  /* the same as another one, which is written; its name goes into the metadata */
    COFFER_FATE_SKIPPED = 2 /* left out */
} coffer_fate;

/* One tensor of the input, in the order in which they were found. Handed out by pointer, and grows at its end in later
   versions. Strings are NUL-terminated; those of untrusted files are to be escaped (coffer_escape) before they are
   shown. */
typedef struct coffer_import_tensor {
    const char *name; /* UTF-8, unless it is skipped */
    size_t name_len;
    coffer_dtype dtype; /* of what is written; of what is skipped perhaps COFFER_UNKNOWN_DTYPE */
    uint32_t rank;
    const uint64_t *shape; /* `rank` sizes */
    uint64_t size;         /* bytes that are written, or would be */
    coffer_fate fate;
    size_t alias_of;     /* of an alias: the number of the one that is written; else SIZE_MAX */
    const char *reason;  /* of a skipped one, a sentence; else "" */
    const char *storage; /* what its bytes are called in the file ("data/0"); "" when there are none */
    size_t storage_len;
    bool gathered; /* its elements do not lie one after another: it is a slice, transposed, expanded or in parts */
    bool changed;  /* its elements are byte-swapped, negated or conjugated */
    bool decoded;  /* its bytes are inflated, or decoded from text */
} coffer_import_tensor;

/* How a finding weighs. */
typedef enum coffer_weight {
    COFFER_WEIGHT_NOTE = 0,   /* legal but odd, or worth knowing */
    COFFER_WEIGHT_OPAQUE = 1, /* an object of another program, which is left out */
    COFFER_WEIGHT_DANGER = 2  /* what a loader would have called, or a file made to mislead */
} coffer_weight;

/* Something that the user should know. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_import_finding {
    coffer_weight weight;
    uint32_t file;         /* the file's number */
    const char *file_name; /* the file's plain name; "" of the input itself; the path of an input that was added */
    uint64_t offset;       /* in the file; COFFER_NO_OFFSET when it is about no byte */
    const char *member;    /* of an archive; "" when there is none; not escaped */
    const char *subject;   /* "os.system", a key, a name; not escaped */
    const char *text;      /* a sentence, escaped */
} coffer_import_finding;

/*
 * What there is, in numbers. The bytes add up: total = written + aliased + skipped + unreferenced, where a byte that
 * several tensors view counts once. Handed out by pointer, and grows at its end in later versions.
 */
typedef struct coffer_import_summary {
    const char *reader;   /* its name: "torch", "npz"; "several" of inputs that different readers know */
    const char *noun;     /* "a PyTorch checkpoint" */
    uint32_t file_count;  /* the input counted */
    size_t tensor_count;  /* of all fates */
    size_t written_count; /* of those that are written */
    size_t alias_count;
    size_t skipped_count;
    size_t finding_count;
    size_t opaque_count; /* findings of weight opaque */
    size_t danger_count; /* findings of weight danger */
    uint64_t total;      /* bytes that the file holds for tensors */
    uint64_t written;
    uint64_t aliased;
    uint64_t skipped;
    uint64_t unreferenced;     /* of no tensor */
    uint64_t output;           /* bytes of the tensors that are written: more than `written` where views overlap */
    size_t unreferenced_count; /* storages of which no tensor views anything */
    bool pickles;              /* it is made of pickles: other programs may run what is in them */
} coffer_import_summary;

/* Borrowed from the import, as is what the following functions give. */
COFFER_API const coffer_import_summary *coffer_import_summarize(const coffer_import *imported);
/* Tensor `i`; NULL when i is not below the count. The struct is overwritten by the next call for this import; what it
   points to lives as long as the import. */
COFFER_API const coffer_import_tensor *coffer_import_at(coffer_import *imported, size_t i);
/* Finding `i`, in the same way. */
COFFER_API const coffer_import_finding *coffer_import_finding_at(coffer_import *imported, size_t i);
/* Fills *pair with entry `i` of the metadata that will be written, aliases counted; false when i is not below their
   number. */
COFFER_API bool coffer_import_metadata_at(const coffer_import *imported, size_t i, coffer_pair *pair);
/* The name of storage `i` of those that nothing views, and its size in bytes; NULL when i is not below their number. */
COFFER_API const char *coffer_import_unreferenced_at(const coffer_import *imported, size_t i, uint64_t *size);

/* ---- As bytes ---------------------------------------------------------------------------------------------------- */

/* The import as bytes, for a process of the same version: *bytes becomes memory of the import's allocator, freed with
   it; *size its size. COFFER_ERR_ARGUMENT for one that coffer_import_add was called for: save each by itself. */
COFFER_API coffer_status coffer_import_save(coffer_import *imported, const void **bytes, size_t *size,
                                            coffer_error *err);
/* An import from such bytes, which may be hostile: everything is checked as if nothing had been. The files next to
   the input that the bytes name are opened. Of the options, `allocator`, `allow_expand` and `max_metadata` are used.
   COFFER_ERR_PLAN for bytes that coffer_import_save does not make. *imported is NULL on failure. */
COFFER_API coffer_status coffer_import_load(coffer_import **imported, coffer_input *input, const void *bytes,
                                            size_t size, const coffer_import_options *options, coffer_error *err);

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* How an import is written. */
typedef struct coffer_import_write_options {
    size_t struct_size;
    uint64_t max_shard_size; /* bytes of tensors in a file; 0: one file of any size */
    bool balanced;           /* as in coffer_model_writer_options */
    bool force;              /* as in coffer_model_writer_options; a file at `output` is replaced in any case */
    bool unverified;         /* do not read both sides again to compare them */
    bool unchecked;          /* do not compute the CRCs that an archive records: the system then copies what it can */
    const coffer_writer_options *files; /* of each file; NULL: the default */
    const char *sidecar; /* of GGUF: where all keys go as well, with the arrays that are too long for metadata: a GGUF
                            file without tensors, which coffer_export_options takes back; NULL: nowhere */
    const coffer_companion *companions; /* as in coffer_model_writer_options; of safetensors alone */
    size_t companion_count;
} coffer_import_write_options;
#define COFFER_IMPORT_WRITE_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_import_write_options), 0, false, false, false, false, NULL, NULL, NULL, 0                        \
    }

/*
 * Writes all of it to `output`, as one file or as several with an index; then reads what was written and compares it
 * with the input, byte by byte, by other code than wrote it; then publishes it. `progress` counts bytes: those that are
 * written, and again those that are compared. Memory: less than 64 MiB besides the import, regardless of the number of
 * threads.
 *
 * COFFER_ERR_ARGUMENT when the output or the sidecar is a file of the input, COFFER_ERR_UNSUPPORTED when a sidecar is
 * wanted of an import that has no keys of GGUF; COFFER_ERR_CHECKSUM when bytes do not match their CRC,
 * COFFER_ERR_CHANGED when the input was changed since it was opened, COFFER_ERR_NOT_EQUAL when what was written is not
 * what was read. COFFER_ERR_UNSUPPORTED names the library that is missing for a large compressed member. After any
 * failure nothing is published, and what was at `output` is still there. Only a file that is written in place
 * (`in_place` of the files' options) is compared after it was published; if that fails, it must not be used.
 */
COFFER_API coffer_status coffer_import_write(coffer_import *imported, const char *output,
                                             const coffer_import_write_options *options,
                                             const coffer_read_options *reading, coffer_error *err);

/* The same in steps, for writers to anywhere else. First what is written is declared, the metadata too, in a header
   that has no tensors yet. For programs that write elsewhere than to a path, or several inputs into one file. */
COFFER_API coffer_status coffer_import_declare(const coffer_import *imported, coffer_header *header, coffer_error *err);
/* Then the tensors are carried into a writer of that header. As with coffer_writer_copy, a failure leaves a writer
   that can only be freed. Checks CRCs, unless `unchecked`, and at the end that the input has not changed. For the
   same programs. */
COFFER_API coffer_status coffer_import_carry(coffer_import *imported, coffer_writer *writer, bool unchecked,
                                             const coffer_read_options *reading, coffer_error *err);
/* The same for a sharded model. For the same programs. */
COFFER_API coffer_status coffer_import_carry_model(coffer_import *imported, coffer_model_writer *writer, bool unchecked,
                                                   const coffer_read_options *reading, coffer_error *err);
/* Last, what was written is compared with the input: COFFER_ERR_NOT_EQUAL, and err->tensor names a tensor that
   differs. For the same programs. */
COFFER_API coffer_status coffer_import_verify(coffer_import *imported, const coffer *written,
                                              const coffer_read_options *reading, coffer_error *err);

/* ---- As a model -------------------------------------------------------------------------------------------------- */

/*
 * Opens an import as a model. For programs that say more of what is wanted than coffer_open does. The model has the
 * tensors that would be written and those that are aliases, and the metadata that would be written without the aliases.
 * It takes over the import and its input, which are freed with it, also by a failure. Of the options `access`,
 * `populate`, `all_notes` and `max_header_size` are used; NULL: the default. COFFER_ERR_ARGUMENT for an import that
 * coffer_import_add was called for.
 */
COFFER_API coffer_status coffer_open_import(coffer **model, coffer_import *imported, const coffer_open_options *options,
                                            coffer_error *err);
/* The import that a model was opened from, for its summary, findings and tensors: NULL for files of tensors. Borrowed
   from the model; one thread at a time may ask for tensors and findings. */
COFFER_API coffer_import *coffer_model_import(const coffer *model);

/* How a tensor lies in its file. */
typedef struct coffer_stored_tensor {
    char type[48]; /* as its format says: "Q4_K", "torch.float16"; else the name of its dtype */
    uint64_t size; /* bytes of the file that it is made of */
    bool mapped;   /* it lies there as it is read: coffer_data can have it */
    bool gathered; /* its elements do not lie one after another: it is a slice, transposed, expanded or in parts */
    bool changed;  /* its elements are byte-swapped, negated or conjugated */
    bool decoded;  /* its bytes are inflated, dequantised or decoded from text */
    bool in_order; /* … from the first byte to the last of what is wanted: a slice at the end costs as much as all */
    const char *tied; /* the name of the tensor whose bytes it is, tied_len bytes; "": none. Borrowed from the model */
    size_t tied_len;
} coffer_stored_tensor;
/* Fills *stored; false for a tensor of another model. Of files of tensors, too. No I/O. */
COFFER_API bool coffer_stored_tensor_of(const coffer *model, const coffer_tensor *tensor, coffer_stored_tensor *stored);

/* ---- The way back ------------------------------------------------------------------------------------------------ */

/* Files of other programs that models are written as. Numbers go from 1 on without a gap, and never change. */
typedef enum coffer_export_format {
    COFFER_EXPORT_NOTHING = 0,
    COFFER_EXPORT_NPZ = 1,   /* NumPy: an archive of arrays */
    COFFER_EXPORT_NPY = 2,   /* NumPy: one array */
    COFFER_EXPORT_TORCH = 3, /* PyTorch: a checkpoint that torch.load(weights_only=True) reads, with mmap=True, too */
    COFFER_EXPORT_GGUF = 4   /* GGUF: a model of llama.cpp and other programs on ggml. Nothing is quantised */
} coffer_export_format;

/* The name by which a format is asked for: "npz", "npy", "pt"; "" for no format. Static. */
COFFER_API const char *coffer_export_name(coffer_export_format format);
/* Ending `i` of the names of its files, ".pt"; NULL after the last. The first is the usual one. Static. */
COFFER_API const char *coffer_export_ending(coffer_export_format format, size_t i);
/* The format of a name; COFFER_EXPORT_NOTHING when there is none. */
COFFER_API coffer_export_format coffer_export_from_name(const char *name, size_t name_len);
/* The format that a path's ending stands for, in lower case; COFFER_EXPORT_NOTHING when it stands for none. No I/O. */
COFFER_API coffer_export_format coffer_export_from_path(const char *path);

/* How a model is exported. */
typedef struct coffer_export_options {
    size_t struct_size;
    const char *tensor; /* only this one, tensor_len bytes; NULL: all */
    size_t tensor_len;
    coffer_dtype bytes_as; /* COFFER_U8 or COFFER_I8: what the format has no type for is written as that, byte by byte;
                              COFFER_UNKNOWN_DTYPE: refuse it */
    bool without_tied;     /* leave out the names that the metadata say are the same as a tensor */
    coffer_sync sync;      /* as in coffer_writer_options */
    bool in_place;         /* as in coffer_writer_options */
    const char *arch;      /* general.architecture of a GGUF file, "llama"; NULL: that of the metadata */
    const char *sidecar;   /* a GGUF file, by its path or URL, whose keys are written first, as they are there, those
                              excepted of which the metadata have another value; NULL: none */
} coffer_export_options;
#define COFFER_EXPORT_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_export_options), NULL, 0, COFFER_UNKNOWN_DTYPE, false, COFFER_SYNC_REPLACE, false, NULL, NULL    \
    }

/*
 * Writes all tensors of a model as a file of another program, and publishes it as coffer_writer_open does. The same
 * model makes the same bytes, under any name of the file. In archives tensors begin at multiples of 64. Metadata are
 * left out, but for GGUF. A pair of them whose value is the name of a tensor, and whose key is not one and not
 * "format", is what converters write of tied tensors: the key is written as a second name, in a checkpoint of the same
 * storage, in an archive of arrays and in GGUF with a copy of the bytes.
 *
 * BF16 is two bytes without a type in NumPy ("<V2") and F8_E5M2 is "<f1", as other programs spell them. F4 is torch's
 * float4_e2m1fn_x2, of half the last dimension. What else the format has no type for is COFFER_ERR_NO_EQUIVALENT, or
 * bytes with `bytes_as`; where elements are smaller than bytes, the last dimension counts bytes.
 *
 * In GGUF, metadata "gguf.KEY" with a value of JSON become the key KEY, of the type of "gguf:KEY" if it fits. U8 that
 * gguf.tensors tells to be blocks of a type is such blocks again, and tensors are in its order. Keys of a sidecar come
 * first. COFFER_ERR_UNSUPPORTED when there is neither `arch` nor gguf.general.architecture, nor a sidecar with it;
 * COFFER_ERR_JSON and COFFER_ERR_TYPE for a gguf.tensors that cannot be read; COFFER_ERR_UNKNOWN_INPUT,
 * COFFER_ERR_UNSUPPORTED and COFFER_ERR_DAMAGED for a sidecar that is no GGUF file, big-endian or damaged, and
 * COFFER_ERR_DUPLICATE_KEY for one that has a key twice.
 *
 * COFFER_ERR_NAME for a name that GGUF or an archive of arrays cannot have, or that NumPy would take for another one;
 * COFFER_ERR_NO_TENSOR when there is none called `tensor`; COFFER_ERR_UNSUPPORTED for a .npy file of a model of several
 * tensors without `tensor`; COFFER_ERR_ARGUMENT when the path is a file of the model. Fails as coffer_writer_copy does,
 * else. err->path is the file of the model or the new one. After a failure nothing is published. `progress` counts the
 * bytes of tensors.
 *
 * Memory: 32 MiB at most besides what names the tensors, and a whole tensor of a model that is not in a file and was
 * opened to verify. Any number of threads may export one model at the same time.
 */
COFFER_API coffer_status coffer_export(const coffer *model, coffer_export_format format, const char *path,
                                       const coffer_export_options *options, const coffer_read_options *reading,
                                       coffer_error *err);
/* What coffer_export would write, without writing it: *size becomes the bytes of the new file (NULL: not wanted). Fails
   as coffer_export does for what cannot be written. No I/O but for a sidecar. */
COFFER_API coffer_status coffer_export_size(const coffer *model, coffer_export_format format,
                                            const coffer_export_options *options, uint64_t *size, coffer_error *err);
/* The same to a descriptor, which is borrowed, as by coffer_writer_open_fd. To a pipe, large tensors of an archive
   are read twice, as their CRC comes before them; COFFER_ERR_CHANGED when they are not the same both times. For
   programs that export to a pipe or socket. */
COFFER_API coffer_status coffer_export_fd(const coffer *model, coffer_export_format format, int fd,
                                          const coffer_export_options *options, const coffer_read_options *reading,
                                          coffer_error *err);
/* The same to the caller's own place; exactly one of its finish and discard is called. Of the options, `sync` and
   `in_place` are not used. For programs that export to an object store or into a container of their own. */
COFFER_API coffer_status coffer_export_sink(const coffer *model, coffer_export_format format, const coffer_sink *sink,
                                            const coffer_export_options *options, const coffer_read_options *reading,
                                            coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
