/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader: the one interface of what turns a file of another program into a plan. A new format is one file
 * with a coffer__reader and one row in readers.h.
 *
 * Readers get bytes through coffer__input_files alone: read whole, by offset. Behind it is a source (a file, memory,
 * a URL) or, in the command's sandbox, a socket to the process that has one. They call nothing else of the
 * system, start no threads, and know nothing of what will be written.
 */
#ifndef COFFER_IMPORT_READER_H
#define COFFER_IMPORT_READER_H

#include "plan.h"

/* The input and the files beside it. Files are numbered in the order in which they were opened, the input is 0. */
typedef struct coffer__input_files coffer__input_files;
struct coffer__input_files {
    void *ctx;
    /* Reads `size` bytes of a file at `offset`, all of them, or fails. */
    coffer_status (*read)(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size, coffer_error *err);
    /* Opens the file of that path, in the input's folder or below it (coffer__model_dir_check_path has the rule); its number and
       size. */
    coffer_status (*open)(void *ctx, const char *name, size_t name_len, uint32_t *file, uint64_t *size,
                          coffer_error *err);
    uint64_t size;    /* of the input, in bytes */
    const char *path; /* for its ending, where a format has no magic; "" when there is none */
    size_t path_len;
};

/* What the user wants of a conversion; the same for every reader, which takes what concerns it. */
typedef struct coffer__wants {
    const char *root;         /* "auto", "all", or the path of a dict, joined by dots */
    const char *strip_prefix; /* "" or what is removed from the beginnings of names */
    coffer_ties ties;
    coffer_scalars scalars;
    coffer_dtype bytes_as;     /* what one-byte voids of NumPy are; 0: not said */
    bool skip_unsupported;     /* tensors that have no equivalent become skipped rows instead of an error */
    bool strict;               /* an opaque object is an error */
    bool complex128_as_f64;    /* complex128 becomes F64 with a last dimension of 2 */
    bool raw_blocks;           /* tensors of GGUF's block types become rows of bytes */
    bool packed;               /* integers of less than a byte become rows of bytes */
    bool constants;            /* tensors in the attributes of ONNX's nodes are wanted as well */
    coffer_dtype blocks_as;    /* what their elements become, where they are not wanted raw; 0: they are refused */
    const char *const *select; /* patterns (pattern.h): names that one of them matches are wanted; */
    size_t select_count;       /* 0: all are */
    bool scan;                 /* findings are what is wanted: go on past what cannot be converted, put no rows */
} coffer__wants;

typedef struct coffer__reader {
    const char *id;   /* "torch", "npz": what --from and JSON say */
    const char *noun; /* "a PyTorch checkpoint" */
    /* Whether the file is of this format, by its first bytes (all of it, if it is shorter than that), by its last
       ones, and by the ending of its name. */
    bool (*sniff)(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                  size_t path_len);
    /* Fills a plan, which is begun and empty. What fails names the byte and, where there is one, the key. */
    coffer_status (*read)(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                          coffer_error *err);
} coffer__reader;

/* A file that is being read: the input, or another that it names. */
typedef struct coffer__reader_file {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    uint32_t file;
    uint64_t size;
    bool embedded; /* only a range of the file is read, … */
    uint64_t at;   /* … from this byte on, … */
    uint64_t part; /* … of so many bytes */
} coffer__reader_file;

/* The reader for an input, which is read at its head and tail; COFFER_ERR_UNKNOWN_INPUT, with what it is instead. */
coffer_status coffer__reader_for(const coffer__input_files *input, const coffer_allocator *allocator,
                                 const coffer__reader **reader, coffer_error *err);
/* Reader number `i` of the table; NULL past the last one. */
const coffer__reader *coffer__reader_at(size_t i);
/* The reader of an id; NULL when there is none. */
const coffer__reader *coffer__reader_named(const char *id);
/* Whether it follows pickles: a file of its format is opened as a model only where that is asked for. NULL does not. */
bool coffer__reader_follows_pickles(const coffer__reader *reader);
/* Reads `size` bytes of a file after checking the range against the file's size: COFFER_ERR_DAMAGED, for a file that was cut. */
coffer_status coffer__input_files_read(const coffer__input_files *input, uint32_t file, uint64_t file_size,
                                       uint64_t offset, void *bytes, size_t size, coffer_error *err);
/* Whether bytes have a text in them. */
bool coffer__reader_has(const uint8_t *bytes, size_t size, const char *text);
/* What reading an index of JSON gave, `status`; when that is no JSON because it ends too early, it says that it was cut. */
coffer_status coffer__reader_index_status(coffer_status status, const void *text, size_t size, coffer_error *err);

#endif
