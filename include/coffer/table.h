/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/table.h - bytes only, no I/O and no threads: dtypes, formats, and the header of a file, parsed to a table of
 * its tensors and metadata.
 */
#ifndef COFFER_TABLE_H
#define COFFER_TABLE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Dtypes ------------------------------------------------------------------------------------------------------ */

/* The element types of the format, in its order of alignment, which is also the order writers sort by (last first). */
typedef enum coffer_dtype {
    COFFER_UNKNOWN_DTYPE = 0, /* only in a table parsed with `unknown_dtypes` */
    COFFER_BOOL = 1,
    COFFER_F4 = 2,
    COFFER_F6_E2M3 = 3,
    COFFER_F6_E3M2 = 4,
    COFFER_U8 = 5,
    COFFER_I8 = 6,
    COFFER_F8_E5M2 = 7,
    COFFER_F8_E4M3 = 8,
    COFFER_F8_E8M0 = 9,
    COFFER_F8_E4M3FNUZ = 10,
    COFFER_F8_E5M2FNUZ = 11,
    COFFER_I16 = 12,
    COFFER_U16 = 13,
    COFFER_F16 = 14,
    COFFER_BF16 = 15,
    COFFER_I32 = 16,
    COFFER_U32 = 17,
    COFFER_F32 = 18,
    COFFER_C64 = 19,
    COFFER_F64 = 20,
    COFFER_I64 = 21,
    COFFER_U64 = 22
} coffer_dtype;

#define COFFER_DTYPE_COUNT 22 /* dtypes are 1 to COFFER_DTYPE_COUNT */

/* What a dtype's bits mean. */
typedef enum coffer_kind {
    COFFER_KIND_NONE = 0,
    COFFER_KIND_BOOL = 1,
    COFFER_KIND_UNSIGNED = 2,
    COFFER_KIND_SIGNED = 3,
    COFFER_KIND_FLOAT = 4,
    COFFER_KIND_COMPLEX = 5
} coffer_kind;

/* The name in files, "BF16"; "" for a number that is no dtype. Static. */
COFFER_API const char *coffer_dtype_name(coffer_dtype dtype);
/* The dtype of a name in files (exact, upper case); COFFER_UNKNOWN_DTYPE for any other. */
COFFER_API coffer_dtype coffer_dtype_from_name(const char *name, size_t name_len);
/* Bits of one element: 4, 6, 8, 16, 32 or 64; 0 for a number that is no dtype. */
COFFER_API uint32_t coffer_dtype_bits(coffer_dtype dtype);
/* Bytes to which an element wants to be aligned in memory: 1, 2, 4 or 8 (C64: 4, as two floats); 0 for no dtype. */
COFFER_API uint32_t coffer_dtype_alignment(coffer_dtype dtype);
/* What a dtype's bits mean; COFFER_KIND_NONE for no dtype. */
COFFER_API coffer_kind coffer_dtype_kind(coffer_dtype dtype);

/* Decodes `count` elements, beginning with element `first` of the little-endian `data`, to doubles; C64 gives two for
   each element (real, imaginary). Exact for every dtype but I64 and U64 beyond 2^53. F4 and F6 elements are packed from
   the low bits of each byte up. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE. `data` needs no alignment. Pure, with no
   memory of its own. */
COFFER_API coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count,
                                       double *values);
/* The other way, for the floats that have infinities (F16, BF16, F32, F64, F8_E5M2) and F8_E4M3: `count` doubles to
   little-endian `data`, rounded to the nearest, of two that are as near to the even one, so subnormal numbers too;
   beyond the largest to infinity. F8_E4M3 has none: there the largest number stands for what is beyond it and for
   infinity, as torch casts. Zeros keep their sign, a NaN becomes the quiet one. COFFER_ERR_ARGUMENT for any other
   dtype. `data` needs no alignment. Since 0.2. */
COFFER_API coffer_status coffer_encode(coffer_dtype dtype, const double *values, size_t count, void *data);

/* ---- Formats ----------------------------------------------------------------------------------------------------- */

/* How a file's header is spelt. docs/format.md says what is accepted as each. Since 0.2. */
typedef enum coffer_format {
    COFFER_FORMAT_ANY = 0, /* in options: to read, what the content says; to write, safetensors */
    COFFER_FORMAT_SAFETENSORS = 1,
    COFFER_FORMAT_BINTENSORS = 2,      /* .bt, in the layout of 0.1 and later ("B") */
    COFFER_FORMAT_BINTENSORS_ALPHA = 3 /* .bt, in that of before ("A"): read when it is asked for, never written */
} coffer_format;

/* What people call a format: "safetensors", "bintensors", "bintensors, layout A"; "" for any other number. Static. */
COFFER_API const char *coffer_format_name(coffer_format format);

/* What programs call it, in options and in output, which never changes: "safetensors", "bintensors", "bintensors-a";
   "" for any other number. Static. Formats are numbered without gaps: counting from 1 to the first "" lists all. */
COFFER_API const char *coffer_format_id(coffer_format format);
/* The format of an identifier; COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_from_id(const char *id, size_t id_len);

/* Ending `i` of the names of a format's files, with its dot, the usual one first: ".safetensors"; ".bt", ".bintensors".
   NULL when i is not below their number, which may be 0. Static. */
COFFER_API const char *coffer_format_ending(coffer_format format, size_t i);
/* The format whose files have names that end as this path or URL does; COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_from_path(const char *path);

/* The format in which files of this one are written: itself, or, for one that is only read, the one that took its
   place; COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_to_write(coffer_format format);

/* ---- Tensors, metadata, notes ------------------------------------------------------------------------------------ */

/* A tensor as the header states it. Handed out by pointer, singly, and grows at its end in later versions. */
typedef struct coffer_tensor {
    const char *name;      /* UTF-8, NUL-terminated; it may contain NULs, so name_len counts */
    const uint64_t *shape; /* `rank` dimensions, slowest first */
    uint64_t offset;       /* of the first byte, from the start of the file */
    uint64_t size;         /* in bytes */
    uint32_t name_len;     /* in bytes, without the NUL */
    uint32_t rank;         /* 0 for a scalar */
    coffer_dtype dtype;
    uint32_t shard; /* index of the file in its model; 0 in a table */
} coffer_tensor;

/* The dtype's name as the file spells it, for COFFER_UNKNOWN_DTYPE too. Borrowed from the tensor's table,
   NUL-terminated. */
COFFER_API const char *coffer_tensor_dtype_name(const coffer_tensor *tensor);
/* Elements: the product of the shape (1 for a scalar). */
COFFER_API uint64_t coffer_tensor_elements(const coffer_tensor *tensor);

/* One entry of a header's metadata. Both strings are NUL-terminated UTF-8 and may contain NULs. */
typedef struct coffer_pair {
    const char *key;
    const char *value;
    size_t key_len;
    size_t value_len;
} coffer_pair;

/* What is legal but suspicious. Kinds marked * take time or memory to see and are looked for only on request. */
typedef enum coffer_note_kind {
    COFFER_NOTE_LEADING_SPACE = 0, /* white space before the header's brace */
    COFFER_NOTE_UNKNOWN_KEY = 1,   /* a key in a tensor that the format does not define */
    COFFER_NOTE_NULL_METADATA = 2, /* "__metadata__": null */
    COFFER_NOTE_CONTROL_NAME = 3,  /* a control character or NUL in a tensor's name */
    COFFER_NOTE_EMPTY_NAME = 4,    /* a tensor named "" */
    COFFER_NOTE_UNALIGNED = 5,     /* a tensor whose offset in the file is no multiple of its dtype's alignment */
    COFFER_NOTE_PADDING = 6, /* padding after the header that is not spaces (of bintensors: with `hidden_bytes`) */
    COFFER_NOTE_CASE = 7,    /* * names that differ only in the case of ASCII letters */
    COFFER_NOTE_UNKNOWN_DTYPE = 8, /* a dtype that this version does not know (only with `unknown_dtypes`) */
    COFFER_NOTE_LONG_NUMBER = 9,   /* of bintensors: a number that is longer than it has to be */

    /* of a sharded model as a whole, so only in coffer_model_note */
    COFFER_NOTE_UNINDEXED = 10, /* a tensor that its shard has and the index does not name */
    COFFER_NOTE_TOTAL_SIZE =
        11, /* the index states another total_size than the tensors have, or none that is a number */
    COFFER_NOTE_EXTRA_SHARD = 12, /* * a file next to the shards that is named like them and not in the index */
    COFFER_NOTE_SHARD_COUNT = 13, /* files whose names state another number of them than the index names */
    COFFER_NOTE_NO_INDEX = 14,    /* a sharded model that has no index */
    COFFER_NOTE_SUPERSEDED = 15   /* a tensor of a file that the index says is in another one; since 0.2 */
} coffer_note_kind;

#define COFFER_NOTE_COUNT 16 /* kinds are 0 to COFFER_NOTE_COUNT - 1 */

/* How often something suspicious was seen, and where. */
typedef struct coffer_note {
    uint64_t count;  /* how often; 0: not seen */
    uint64_t offset; /* byte of the file where it was seen first; COFFER_NO_OFFSET when not seen */
} coffer_note;

/* A short English description of a kind, "names that differ only in case"; "" for no kind. Static. */
COFFER_API const char *coffer_note_text(coffer_note_kind kind);

/* ---- Parsing ----------------------------------------------------------------------------------------------------- */

#define COFFER_DEFAULT_MAX_HEADER_SIZE 100000000u  /* the format's own limit on the header's length */
#define COFFER_LARGEST_MAX_HEADER_SIZE 4000000000u /* the highest limit that can be set */

/* A header's tensors and metadata: immutable, self-contained (nothing points into the bytes that were parsed). */
typedef struct coffer_table coffer_table;

/* What coffer_parse is told besides the bytes. */
typedef struct coffer_parse_options {
    size_t struct_size;
    uint64_t file_size;       /* bytes of the whole file; 0: unknown, its end is not checked */
    uint64_t max_header_size; /* 0: COFFER_DEFAULT_MAX_HEADER_SIZE; at most COFFER_LARGEST_MAX_HEADER_SIZE */
    bool all_notes;           /* look for the costly notes too */
    bool unknown_dtypes;      /* accept dtypes not known, as a note; their size is what data_offsets say */
    bool hidden_bytes;        /* accept bytes other than spaces in a bintensors header's padding, as a note */
    coffer_format format; /* what the file is; COFFER_FORMAT_ANY: by its content, which is never taken for layout A */
    /* Accept values of the metadata that are no strings, as their JSON text, and NaN and Infinity. Since 0.2. */
    bool loose_metadata;
} coffer_parse_options;
#define COFFER_PARSE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_parse_options), 0, 0, false, false, false, COFFER_FORMAT_ANY, false                              \
    }

/*
 * Parses and validates the header at the start of a file. `bytes` are the first `size` bytes of the file, at least its
 * first 8 + N; more does no harm. With fewer the answer is COFFER_NEED_MORE and *need (when not NULL) says how many
 * bytes from the start of the file the next call wants: 8, then 8 + N. On success *need is 8 + N. Accepts what
 * docs/format.md says and nothing else; err->offset is the byte where the file departs from it.
 * Memory is at most about 7 times the header's bytes for hostile headers and about 1.3 times for real ones, the
 * caller's bytes not counted; for those of bintensors, which are denser, about 24 and 4. Fails with the status that
 * says what the header is not, 20 to 48, or what the file is instead, 60 to 72. For embedders without files: all that
 * a header says, from bytes alone.
 */
COFFER_API coffer_status coffer_parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                      const coffer_allocator *allocator, const coffer_parse_options *options,
                                      coffer_error *err);
/* Releases the table, and with it every tensor and text that it handed out; NULL is ignored. For embedders, as
   coffer_parse. */
COFFER_API void coffer_table_free(coffer_table *table);

/* How the header is spelt: never COFFER_FORMAT_ANY. Since 0.2. */
COFFER_API coffer_format coffer_table_format(const coffer_table *table);
/* Tensors of the table. */
COFFER_API size_t coffer_table_count(const coffer_table *table);
/* Tensor `i` in order of offset (tensors of one offset: empty ones first, then as the header has them); NULL when i is
   not below the count. */
COFFER_API const coffer_tensor *coffer_table_at(const coffer_table *table, size_t i);
/* The tensor of a name, in constant time on average and in about 6 * sqrt(count) steps at most, however the names
   were chosen; NULL when there is none. For embedders, as coffer_parse. */
COFFER_API const coffer_tensor *coffer_table_find(const coffer_table *table, const char *name, size_t name_len);
/* Fills `order`, of coffer_table_count entries, with the numbers of the tensors for coffer_table_at in byte order of
   their names. O(n log n), without memory of its own. For embedders, as coffer_parse. */
COFFER_API void coffer_table_sort_by_name(const coffer_table *table, uint32_t *order);
/* Entries of the metadata; 0 when there is no place for metadata, too. */
COFFER_API size_t coffer_table_metadata_count(const coffer_table *table);
/* Whether the header has a place for metadata, be it an empty one: none and empty metadata are different files. Since
   0.2. */
COFFER_API bool coffer_table_has_metadata(const coffer_table *table);
/* Fills *pair with entry `i` in byte order of the keys, its texts borrowed from the table; false when i is not below
   the count. */
COFFER_API bool coffer_table_metadata_at(const coffer_table *table, size_t i, coffer_pair *pair);
/* The value of a key, borrowed from the table, and its length in *value_len (when not NULL); NULL when there is no such
   key. */
COFFER_API const char *coffer_table_metadata_get(const coffer_table *table, const char *key, size_t key_len,
                                                 size_t *value_len);
/* How often a kind of note was seen in this header, and where first. */
COFFER_API coffer_note coffer_table_note(const coffer_table *table, coffer_note_kind kind);
/* Bytes from the start of the file to the start of the data: 8 + N. */
COFFER_API uint64_t coffer_table_data_offset(const coffer_table *table);
/* Bytes of data: the end of the last tensor less coffer_table_data_offset. */
COFFER_API uint64_t coffer_table_data_size(const coffer_table *table);
/* Bytes of padding after all that the header says: the space for an edit in place. */
COFFER_API uint64_t coffer_table_slack(const coffer_table *table);

#ifdef __cplusplus
}
#endif

#endif
