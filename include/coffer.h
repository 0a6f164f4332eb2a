/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.h - tensors, kept safe: the whole public API of libcoffer.
 *
 * Four levels, each usable without the ones after it:
 *   1. bytes only     coffer_parse, coffer_table_*, coffer_header_*: no I/O, no threads, the caller's allocator
 *   2. models         coffer_open*, look-up, metadata, zero-copy data, reading, slicing
 *   3. writing        coffer_writer_*: declare every tensor, push bodies in any order, publish atomically
 *   4. editing        coffer_edit_metadata, coffer_record_digests, coffer_recover: metadata of a file changed in place
 *
 * Conventions that hold for every declaration:
 *   - Failure: what can fail returns a coffer_status, COFFER_OK (0) on success, and fills an optional coffer_error of the
 *     caller's (NULL is allowed everywhere). On failure every output is left NULL or untouched, except where said.
 *     Nothing is ever printed, no state is global or thread-local, no input aborts.
 *   - Ownership: an object from X_new, X_open or coffer_parse is released by its one X_free or X_close; those accept NULL.
 *     Pointers handed out by an object are borrowed and live as long as it does.
 *   - Threads: an opened model and a parsed table are immutable: any number of threads may use them at once. Other objects
 *     belong to one thread at a time, except where said. Release an object only when no call on it is running.
 *   - Units: `_len` counts elements or the bytes of a string, `_size` counts bytes, `_count` counts things; offsets are in
 *     bytes and, unless said otherwise, from the start of the file.
 *   - Options: zero is the default in every field and NULL is the default for the whole struct. Start from the initialiser
 *     (`coffer_open_options o = COFFER_OPEN_OPTIONS_INIT;`); `struct_size` lets a newer library serve an older caller.
 */
#ifndef COFFER_H
#define COFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define COFFER_API __attribute__((visibility("default")))
#else
#define COFFER_API
#endif

/* ---- Version --------------------------------------------------------------------------------------------------------- */

#define COFFER_VERSION_MAJOR 0
#define COFFER_VERSION_MINOR 1
#define COFFER_VERSION_PATCH 0
#define COFFER_VERSION_STRING "0.1.0"

/* The version of the library in use, "MAJOR.MINOR.PATCH". Compare with COFFER_VERSION_STRING, that of this header. */
COFFER_API const char *coffer_version(void);

/* ---- Failing --------------------------------------------------------------------------------------------------------- */

/* Why a call failed. The numbers never change and are never used again; docs/errors.md describes each with its cause and
   the next step. */
typedef enum coffer_status {
    COFFER_OK = 0,
    COFFER_NEED_MORE = 1, /* not a failure: coffer_parse saw a prefix and says how many bytes it needs */

    /* the call and its surroundings */
    COFFER_ERR_ARGUMENT = 10,    /* the call itself is wrong: a NULL, an order or an option that is not allowed */
    COFFER_ERR_MEMORY = 11,      /* the allocator gave nothing */
    COFFER_ERR_CANCELLED = 12,   /* the progress callback asked to stop */
    COFFER_ERR_NOT_FOUND = 13,   /* no such file or directory */
    COFFER_ERR_DIRECTORY = 14,   /* a directory where a file is wanted */
    COFFER_ERR_NOT_REGULAR = 15, /* a pipe, socket or device, which cannot be read at random */
    COFFER_ERR_IO = 16,          /* the operating system refused; `os_error` is its errno */
    COFFER_ERR_CHANGED = 17,     /* the file became shorter, or another one, while it was in use or to be replaced */
    COFFER_ERR_UNSUPPORTED = 18, /* this system, file system or sink cannot do it */

    /* the frame of a safetensors file */
    COFFER_ERR_EMPTY = 20,            /* no bytes at all */
    COFFER_ERR_TOO_SHORT = 21,        /* fewer than the 8 bytes of the header's length */
    COFFER_ERR_HEADER_LENGTH = 22,    /* the header's length is 0 */
    COFFER_ERR_HEADER_TOO_LARGE = 23, /* the header's length is above the limit */
    COFFER_ERR_HEADER_TRUNCATED = 24, /* the header reaches past the end of the file */
    COFFER_ERR_DATA_TRUNCATED = 25,   /* the file ends before the data does */
    COFFER_ERR_TRAILING_BYTES = 26,   /* bytes follow the data */

    /* the header's text */
    COFFER_ERR_JSON = 30,   /* not JSON by RFC 8259 */
    COFFER_ERR_UTF8 = 31,   /* not UTF-8, or half a surrogate pair escaped */
    COFFER_ERR_DEPTH = 32,  /* values nested deeper than 127 */
    COFFER_ERR_TYPE = 33,   /* a value of another kind than the format wants there */
    COFFER_ERR_NUMBER = 34, /* not a plain decimal integer of at most 2^64-1; elsewhere, a number beyond a double */
    COFFER_ERR_MISSING_FIELD = 35, /* a tensor without dtype, shape or data_offsets; in .bt layout A, or name */
    COFFER_ERR_HEADER_ENDS = 36,   /* a bintensors header that ends within a number, a text or a list */
    COFFER_ERR_PADDING = 37,       /* bytes other than spaces behind all that a bintensors header says */

    /* what the header says */
    COFFER_ERR_DUPLICATE_NAME = 40, /* two tensors of one name */
    COFFER_ERR_DUPLICATE_KEY = 41,  /* the same key twice in any other object of the header */
    COFFER_ERR_DTYPE = 42,          /* not a dtype of the format */
    COFFER_ERR_OVERFLOW = 43,       /* the shape's product, in bits, is beyond 2^64-1 */
    COFFER_ERR_PARTIAL_BYTE = 44,   /* bits that do not fill whole bytes (F4, F6) */
    COFFER_ERR_RANGE = 45,          /* data_offsets end before they begin, or beyond byte 2^64-1 of the file */
    COFFER_ERR_SIZE = 46,           /* data_offsets span another size than dtype and shape */
    COFFER_ERR_HOLE = 47,           /* bytes that no tensor covers */
    COFFER_ERR_OVERLAP = 48,        /* bytes that two tensors cover */

    /* not a safetensors file but, by its first bytes, something else */
    COFFER_ERR_IS_LFS_POINTER = 60,
    COFFER_ERR_IS_HTML = 61, /* or XML */
    COFFER_ERR_IS_JSON = 62,
    COFFER_ERR_IS_ZIP = 63,
    COFFER_ERR_IS_PICKLE = 64,
    COFFER_ERR_IS_GGUF = 65,
    COFFER_ERR_IS_HDF5 = 66,
    COFFER_ERR_IS_NUMPY = 67,
    COFFER_ERR_IS_COMPRESSED = 68, /* gzip, zstd, xz, bzip2 */
    COFFER_ERR_IS_ZEROS = 69,      /* begins with zeros only: space set aside by a download that never came */
    COFFER_ERR_IS_TEXT = 70,       /* what a server says in the place of a file, perhaps: "Entry not found" */
    COFFER_ERR_IS_TAR = 71,
    COFFER_ERR_IS_ELF = 72, /* ELF: a program or library */

    /* reading */
    COFFER_ERR_NO_TENSOR = 80,    /* no tensor of that name */
    COFFER_ERR_NOT_MAPPED = 81,   /* zero-copy data was asked of a model that has no map */
    COFFER_ERR_BUFFER_SIZE = 82,  /* the caller's buffer is not of the size the result has */
    COFFER_ERR_SLICE_SYNTAX = 83, /* a slice's text cannot be understood */
    COFFER_ERR_INDEX = 84,        /* an index outside its dimension, or more indices than dimensions */
    COFFER_ERR_STEP = 85,         /* a step of 0 */
    COFFER_ERR_SLICE_BITS = 86,   /* a slice of F4 or F6 elements that are not whole bytes */

    /* writing and editing */
    COFFER_ERR_NAME = 100,         /* a name or key that cannot be written, "__metadata__" for one */
    COFFER_ERR_MISSING_DATA = 101, /* finish before every byte of every tensor was written */
    COFFER_ERR_WRITE_RANGE = 102,  /* bytes outside their tensor, or written twice */
    COFFER_ERR_REPLACE = 103,      /* the complete new file could not take its place; the message names where it is */
    COFFER_ERR_UNDO = 104,         /* an edit was interrupted: its undo file lies beside the file; see coffer_recover */
    COFFER_ERR_NO_UNDO = 105,      /* nothing to recover, or an undo file that does not belong to this file */
    COFFER_ERR_LOCKED = 106,       /* another process is editing the file */
    COFFER_ERR_LINKED = 107,       /* a symbolic or hard link, which an edit follows only when told to */
    COFFER_ERR_NO_SLACK = 108,     /* the new metadata does not fit in the header, and a rewrite was not allowed */

    /* models of several files */
    COFFER_ERR_SHARD_NAME = 120,      /* an index names a file that is not simply one in its folder */
    COFFER_ERR_SHARD_LINK = 121,      /* a shard is a symbolic link out of the model's folder */
    COFFER_ERR_SHARD_MISSING = 122,   /* a file of the model does not exist */
    COFFER_ERR_NOT_IN_SHARD = 123,    /* the index names a tensor that its shard does not have */
    COFFER_ERR_TWO_SHARDS = 124,      /* a tensor's name comes in two shards */
    COFFER_ERR_INDEX_TOO_LARGE = 125, /* an index above 250,000,000 bytes or 100,000 files */
    COFFER_ERR_NO_MODEL = 126,        /* a folder without a model */
    COFFER_ERR_AMBIGUOUS = 127,       /* a folder with several models */

    /* writing models of several files */
    COFFER_ERR_SHADOWED = 130,   /* a model of one file lies there, which would be loaded instead of the new index */
    COFFER_ERR_UNFINISHED = 131, /* a save was interrupted, or is just now, between two models; see coffer_recover */

    /* the network: `http_status` is what the server said, if it came to that */
    COFFER_ERR_URL = 140,         /* a URL that cannot be understood, or of a scheme that is not known */
    COFFER_ERR_NO_NETWORK = 141,  /* no libcurl on this system, or one that is too old */
    COFFER_ERR_CONNECT = 142,     /* the host cannot be reached, or the connection broke time and again */
    COFFER_ERR_TIMEOUT = 143,     /* the host said nothing, or too little, for too long */
    COFFER_ERR_CERTIFICATE = 144, /* the host could not prove by TLS who it is */
    COFFER_ERR_HTTP = 145,        /* the server answered with a status that means failure */
    COFFER_ERR_ACCESS = 146,      /* 401 or 403: credentials are missing or wrong */
    COFFER_ERR_ANSWER = 147,   /* the answer is not what was asked for: another range, or none, or more than it says */
    COFFER_ERR_REDIRECT = 148, /* redirects that do not end, lead nowhere or away from https */
    COFFER_ERR_OFFLINE = 149,  /* HF_HUB_OFFLINE forbids to ask the Hub, and the file is not in its cache */
    COFFER_ERR_NO_REPOSITORY = 150, /* the Hub has no such repository, or none that this token may read */
    COFFER_ERR_NO_REVISION = 151,   /* the repository has no such branch, tag or commit */
    COFFER_ERR_GATED = 152,         /* access to the repository has to be asked for, on its page */

    /* integrity */
    COFFER_ERR_NO_ALGORITHM = 160,    /* a digest's algorithm is not to be had here: a library is missing */
    COFFER_ERR_NO_DIGESTS = 161,      /* no digests are recorded: nothing can be verified */
    COFFER_ERR_DIGESTS = 162,         /* what is recorded as digests cannot be used */
    COFFER_ERR_TENSOR_DIGEST = 163,   /* a tensor is not the one whose digest is recorded */
    COFFER_ERR_METADATA_DIGEST = 164, /* the metadata are not those whose digest is recorded */
    COFFER_ERR_CONTENT_DIGEST = 165,  /* the files of a model are not those whose digests its index records */

    /* manifests */
    COFFER_ERR_MANIFEST = 170,           /* neither lines of digests nor model signing's JSON */
    COFFER_ERR_MANIFEST_NAME = 171,      /* a name that leads out of the manifest's folder, or comes twice */
    COFFER_ERR_MANIFEST_ALGORITHM = 172, /* digests by an algorithm that is not known */
    COFFER_ERR_MANIFEST_ROOT = 173,      /* the digest of all digests is not theirs */
    COFFER_ERR_KEY = 174,                /* not a key that can sign or verify */
    COFFER_ERR_NOT_SIGNED = 175,         /* a key was given, and the manifest has no signature */
    COFFER_ERR_SIGNATURE = 176           /* the signature is not by this key for this manifest */
} coffer_status;

#define COFFER_NO_OFFSET UINT64_MAX

/* What went wrong, where, and what to do: filled by the call that failed, owned by the caller, any allocation (the stack).
   Its size is part of the ABI. Fields that do not apply are 0, "" or COFFER_NO_OFFSET. */
typedef struct coffer_error {
    coffer_status code;
    int32_t os_error;    /* errno of the system call that failed, or 0 */
    int32_t http_status; /* of the server's last answer, or 0 */
    uint32_t reserved_32;
    uint64_t offset;   /* byte of the file where the trouble is */
    uint64_t expected; /* with `actual`: two sizes or counts that should agree; docs/errors.md says which, by code */
    uint64_t actual;
    char message[384]; /* one line of printable UTF-8: what is wrong, where, what to do; without the path */
    char path[512];    /* the file as it was named, cut in the middle when longer */
    char tensor[160];  /* the tensor's name, escaped for a terminal, cut in the middle when longer */
    uint64_t reserved[8];
} coffer_error;

/* The constant's name without its prefix, "DATA_TRUNCATED"; "UNKNOWN" for a number that is none. Static. */
COFFER_API const char *coffer_status_name(coffer_status status);

/* Writes `text` to `out` (of `out_size` bytes, NUL included) so that it is safe on a terminal and unambiguous: control
   characters, invalid UTF-8, line and paragraph separators and marks that turn the direction of writing become \xNN or
   \u{N}, a backslash becomes \\. Returns the length that the whole needs, without the NUL, as snprintf does. */
COFFER_API size_t coffer_escape(const char *text, size_t text_len, char *out, size_t out_size);

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

/* Where an object's memory comes from. The sizes given back are those that were asked for. Called by the thread that makes
   the call, and by those that coffer_open starts for a model of several files, one at a time; an allocator shared by objects that several threads use must allow that. NULL from alloc or realloc is an
   error (COFFER_ERR_MEMORY), never an abort. */
typedef struct coffer_allocator {
    void *(*alloc)(void *ctx, size_t size);
    void *(*realloc)(void *ctx, void *block, size_t old_size, size_t new_size);
    void (*free)(void *ctx, void *block, size_t size);
    void *ctx;
} coffer_allocator;

/* malloc, realloc and free. Static. */
COFFER_API const coffer_allocator *coffer_libc_allocator(void);

/* Memory to read tensors into: page-aligned and, where the system has them, in huge pages (faulting in fresh 4 KiB pages
   costs several times the copy itself). NULL when there is none. Release with the size that was asked for. */
COFFER_API void *coffer_buffer_new(size_t size);
COFFER_API void coffer_buffer_free(void *buffer, size_t size);

/* ---- Dtypes ---------------------------------------------------------------------------------------------------------- */

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
COFFER_API coffer_kind coffer_dtype_kind(coffer_dtype dtype);
/* The least positive number that is normal: what is nearer to zero is subnormal (denormal). Of C64, that of its parts; 0 for
   dtypes without subnormal numbers: integers, BOOL, F8_E8M0. */
COFFER_API double coffer_dtype_least_normal(coffer_dtype dtype);

/* Decodes `count` elements, beginning with element `first` of the little-endian `data`, to doubles; C64 gives two for each
   element (real, imaginary). Exact for every dtype but I64 and U64 beyond 2^53. F4 and F6 elements are packed from the low
   bits of each byte up. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE. `data` needs no alignment. */
COFFER_API coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count,
                                       double *values);
/* The other way, for the floats that have infinities (F16, BF16, F32, F64, F8_E5M2): `count` doubles to little-endian `data`,
   rounded to the nearest, of two that are as near to the even one, so subnormal numbers too; beyond the largest to infinity.
   Zeros keep their sign, a NaN becomes the quiet one. COFFER_ERR_ARGUMENT for any other dtype. `data` needs no alignment. */
COFFER_API coffer_status coffer_encode(coffer_dtype dtype, const double *values, size_t count, void *data);

/* ---- Formats --------------------------------------------------------------------------------------------------------- */

/* How a file's header is spelt. docs/format.md and docs/bintensors.md say what is accepted as each. */
typedef enum coffer_format {
    COFFER_FORMAT_ANY = 0, /* in options: to read, what the content says; to write, safetensors */
    COFFER_FORMAT_SAFETENSORS = 1,
    COFFER_FORMAT_BINTENSORS = 2,      /* .bt, in the layout of 0.1 and later ("B") */
    COFFER_FORMAT_BINTENSORS_ALPHA = 3 /* .bt, in that of before ("A"): read when it is asked for, never written */
} coffer_format;

/* What people call a format: "safetensors", "bintensors", "bintensors, layout A"; "" for any other number. Static. */
COFFER_API const char *coffer_format_name(coffer_format format);

/* What programs call it, in options and output, which never changes: "safetensors", "bintensors", "bintensors-a"; "" for any other
   number. Static. Formats are numbered without gaps, so counting up from 1 to the first "" lists all that this library knows. */
COFFER_API const char *coffer_format_id(coffer_format format);
/* The format of an identifier; COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_from_id(const char *id, size_t id_len);

/* Ending `i` of names of a format's files, with its dot, the usual one first (".safetensors"; ".bt", ".bintensors"); NULL when i is
   beyond the last, as it always is for a format without any. Static. */
COFFER_API const char *coffer_format_ending(coffer_format format, size_t i);
/* The format whose files have names that end as this path or URL does; COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_from_path(const char *path);

/* The format in which files of this one are written: itself, or for one that is only read the one that took its place;
   COFFER_FORMAT_ANY when there is none. */
COFFER_API coffer_format coffer_format_to_write(coffer_format format);

/* ---- Digests --------------------------------------------------------------------------------------------------------- */

/* How a digest is computed. SHA-256 comes from OpenSSL's libcrypto, which is loaded when it is first needed; XXH3 was compiled in
   where its header was there. Where one is not to be had, COFFER_ERR_NO_ALGORITHM says what is missing. */
typedef enum coffer_algorithm {
    COFFER_NO_ALGORITHM = 0,
    COFFER_SHA256 = 1,  /* 32 bytes; nobody can make other bytes for a digest */
    COFFER_XXH3_128 = 2 /* 16 bytes, in the canonical order; many times as fast, and against accidents only */
} coffer_algorithm;

#define COFFER_LARGEST_DIGEST_SIZE 32

/* "sha256", "xxh3-128"; "" for any other. Static. */
COFFER_API const char *coffer_algorithm_name(coffer_algorithm algorithm);
/* The algorithm of a name (exact, lower case); COFFER_NO_ALGORITHM for any other. */
COFFER_API coffer_algorithm coffer_algorithm_from_name(const char *name, size_t name_len);
/* Bytes of a digest; 0 for no algorithm. */
COFFER_API size_t coffer_algorithm_digest_size(coffer_algorithm algorithm);

/* Computes digests of bytes that come in pieces. */
typedef struct coffer_hasher coffer_hasher;

/* The allocator is never NULL. Making a hasher may load a library, so one for many digests is faster than many. */
COFFER_API coffer_status coffer_hasher_new(coffer_hasher **hasher, coffer_algorithm algorithm,
                                           const coffer_allocator *allocator, coffer_error *err);
COFFER_API coffer_status coffer_hasher_update(coffer_hasher *hasher, const void *bytes, size_t size, coffer_error *err);
/* Writes the digest of all bytes since the last one, to memory of exactly its size; the next digest then begins. */
COFFER_API coffer_status coffer_hasher_finish(coffer_hasher *hasher, void *digest, size_t digest_size,
                                              coffer_error *err);
COFFER_API void coffer_hasher_free(coffer_hasher *hasher);

/* ---- Tensors, metadata, notes ---------------------------------------------------------------------------------------- */

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

/* The dtype's name as the file spells it, for COFFER_UNKNOWN_DTYPE too. Borrowed from the tensor's table. */
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
    COFFER_NOTE_PADDING = 6, /* padding behind the header that is not spaces (of bintensors: with `hidden_bytes`) */
    COFFER_NOTE_CASE = 7,    /* * names that differ only in the case of ASCII letters */
    COFFER_NOTE_UNKNOWN_DTYPE = 8, /* a dtype that this version does not know (only with `unknown_dtypes`) */
    COFFER_NOTE_LONG_NUMBER = 9,   /* of bintensors: a number that is longer than it has to be */

    /* of a model of several files as a whole, so only in coffer_model_note */
    COFFER_NOTE_UNINDEXED = 10, /* a tensor that its shard has and the index does not name */
    COFFER_NOTE_TOTAL_SIZE =
        11, /* the index states another total_size than the tensors have, or none that is a number */
    COFFER_NOTE_EXTRA_SHARD = 12, /* * a file beside the shards that is named like them and not in the index */
    COFFER_NOTE_SHARD_COUNT = 13, /* files whose names state another number of them than the index names */
    COFFER_NOTE_NO_INDEX = 14     /* a model of several files that has no index */
} coffer_note_kind;

#define COFFER_NOTE_COUNT 15 /* kinds are 0 to COFFER_NOTE_COUNT - 1 */

typedef struct coffer_note {
    uint64_t count;  /* how often; 0: not seen */
    uint64_t offset; /* byte of the file where it was seen first; COFFER_NO_OFFSET when not seen */
} coffer_note;

/* A short English description of a kind, "names that differ only in case"; "" for no kind. Static. */
COFFER_API const char *coffer_note_text(coffer_note_kind kind);

/* ---- Level 1: bytes only --------------------------------------------------------------------------------------------- */

/* At this level the allocator is the caller's to give, and never NULL: coffer_libc_allocator() where there is a libc. */

#define COFFER_DEFAULT_MAX_HEADER_SIZE 100000000u  /* the format's own limit on the header's length */
#define COFFER_LARGEST_MAX_HEADER_SIZE 4000000000u /* the highest limit that can be set */

/* A header's tensors and metadata: immutable, self-contained (nothing points into the bytes that were parsed). */
typedef struct coffer_table coffer_table;

typedef struct coffer_parse_options {
    size_t struct_size;
    uint64_t file_size;       /* bytes of the whole file; 0: unknown, its end is not checked */
    uint64_t max_header_size; /* 0: COFFER_DEFAULT_MAX_HEADER_SIZE; at most COFFER_LARGEST_MAX_HEADER_SIZE */
    bool all_notes;           /* look for the costly notes too */
    bool unknown_dtypes;      /* accept dtypes not known, as a note; their size is what data_offsets say */
    bool hidden_bytes;        /* accept bytes other than spaces in a bintensors header's padding, as a note */
    coffer_format format; /* what the file is; COFFER_FORMAT_ANY: by its content, which is never taken for layout A */
} coffer_parse_options;
#define COFFER_PARSE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_parse_options), 0, 0, false, false, false, COFFER_FORMAT_ANY                                     \
    }

/*
 * Parses and validates the header at the start of a file. `bytes` are the first `size` bytes of the file, at least its
 * first 8 + N; more does no harm. With fewer the answer is COFFER_NEED_MORE and *need (when not NULL) says how many bytes
 * from the start of the file the next call wants: 8, then 8 + N. On success *need is 8 + N. Accepts what docs/format.md
 * and docs/bintensors.md say and nothing else; err->offset is the byte where the file departs from it. Memory is at most about
 * 7 times the header's bytes for hostile headers and about 1.3 times for real ones, the caller's bytes not counted; for those of
 * bintensors, which are denser, about 24 and 4.
 */
COFFER_API coffer_status coffer_parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                      const coffer_allocator *allocator, const coffer_parse_options *options,
                                      coffer_error *err);
COFFER_API void coffer_table_free(coffer_table *table);

COFFER_API coffer_format coffer_table_format(const coffer_table *table);
COFFER_API size_t coffer_table_count(const coffer_table *table);
/* Tensor `i` in order of offset (tensors of one offset: empty ones first, then as the header has them); NULL when i is not
   below the count. */
COFFER_API const coffer_tensor *coffer_table_at(const coffer_table *table, size_t i);
/* By name, in constant time on average and in about 6 * sqrt(count) steps at most, however the names were chosen; NULL when
   there is none. A name of no bytes may be NULL. */
COFFER_API const coffer_tensor *coffer_table_find(const coffer_table *table, const char *name, size_t name_len);
/* Fills `order` (of coffer_table_count entries) with the indices for coffer_table_at in byte order of the names. */
COFFER_API void coffer_table_sort_by_name(const coffer_table *table, uint32_t *order);
COFFER_API size_t coffer_table_metadata_count(const coffer_table *table);
/* Whether the header has a place for metadata, be it an empty one: none and empty metadata are different files. */
COFFER_API bool coffer_table_has_metadata(const coffer_table *table);
/* Entry `i` in byte order of the keys; false when i is not below the count. */
COFFER_API bool coffer_table_metadata_at(const coffer_table *table, size_t i, coffer_pair *pair);
/* The value of a key, its length in *value_len (when not NULL); NULL when there is no such key. A key of no bytes may be NULL. */
COFFER_API const char *coffer_table_metadata_get(const coffer_table *table, const char *key, size_t key_len,
                                                 size_t *value_len);
COFFER_API coffer_note coffer_table_note(const coffer_table *table, coffer_note_kind kind);
/* Bytes from the start of the file to the start of the data: 8 + N. */
COFFER_API uint64_t coffer_table_data_offset(const coffer_table *table);
/* Bytes of data: the end of the last tensor less coffer_table_data_offset. */
COFFER_API uint64_t coffer_table_data_size(const coffer_table *table);
/* Bytes of padding behind all that the header says: the room for an edit in place. */
COFFER_API uint64_t coffer_table_slack(const coffer_table *table);

/* A header under construction: declare tensors and metadata in any order, then build. */
typedef struct coffer_header coffer_header;

typedef struct coffer_header_options {
    size_t struct_size;
    uint64_t alignment;       /* of the data's start in the file: a power of two, at least 8; 0: 8 */
    uint64_t slack;           /* spaces to reserve behind the header for later edits of the metadata */
    uint64_t max_header_size; /* as in coffer_parse_options */
    coffer_format format;     /* COFFER_FORMAT_ANY: safetensors */
    bool empty_metadata;      /* write a place for metadata even when no key was set */
} coffer_header_options;
#define COFFER_HEADER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_header_options), 0, 0, 0, COFFER_FORMAT_ANY, false                                               \
    }

COFFER_API coffer_status coffer_header_new(coffer_header **header, const coffer_allocator *allocator,
                                           coffer_error *err);
COFFER_API void coffer_header_free(coffer_header *header);
/* Declares a tensor; name and shape are copied. Tensors are numbered 0, 1, 2… in the order of their declaration. Refused at
   once: the name "__metadata__", a name that is not UTF-8, an unknown dtype, a size beyond 2^64-1 bits or not in whole
   bytes. Two tensors of one name are refused when the header is built. */
COFFER_API coffer_status coffer_header_add(coffer_header *header, const char *name, size_t name_len, coffer_dtype dtype,
                                           const uint64_t *shape, size_t rank, coffer_error *err);
/* Sets a key of the metadata, replacing what it had; copied. */
COFFER_API coffer_status coffer_header_set_metadata(coffer_header *header, const char *key, size_t key_len,
                                                    const char *value, size_t value_len, coffer_error *err);
/*
 * Lays the file out and writes its first bytes: the length, the header and its padding, in the canonical order and spelling
 * (tensors by dtype, highest first, then by name; metadata by key; compact; spaces up to the alignment), which for the same
 * tensors are the bytes that the format's reference implementation writes. A dtype that the format lacks is refused before
 * anything is written (COFFER_ERR_DTYPE names the tensor). What was built is validated by coffer_parse before it is handed
 * out. *bytes and *table are borrowed until the header is freed; nothing can be declared afterwards. Either output may be NULL. A second call returns the same bytes and ignores its options.
 */
COFFER_API coffer_status coffer_header_build(coffer_header *header, const coffer_header_options *options,
                                             const void **bytes, uint64_t *size, const coffer_table **table,
                                             coffer_error *err);
/* Where tensor number `i` of the declaration will be; NULL before the header is built or when i is not below the count. */
COFFER_API const coffer_tensor *coffer_header_at(const coffer_header *header, size_t i);
COFFER_API size_t coffer_header_count(const coffer_header *header);
/* Makes room for digests in the metadata, when everything is declared and before the header is built. A writer that is to record
   digests does so itself, unless it gets a header that is built. */
COFFER_API coffer_status coffer_header_reserve_digests(coffer_header *header, coffer_algorithm algorithm,
                                                       coffer_error *err);

/* ---- Level 2: models ------------------------------------------------------------------------------------------------- */

/* One or more files of tensors, opened: immutable. A single file is a model of one shard, number 0. */
typedef struct coffer coffer;

/* The caller's own bytes at random access: an archive member, an encrypted store, an object in memory elsewhere.
   read_at fills all `size` bytes from `offset` (never past `size` of the source) and returns COFFER_OK, or fails with a
   status of its choice; it may fill *err (never NULL), else the library does. It is called from several threads at once and
   must not call back into the same model. close (may be NULL) is called once, by coffer_close or by a failed open. */
typedef struct coffer_source {
    coffer_status (*read_at)(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err);
    void (*close)(void *ctx);
    void *ctx;
    uint64_t size;
} coffer_source;

typedef enum coffer_access {
    /* Map the file read-only on the first use of coffer_data. Contract: when another process shortens the file, touching the
       bytes that were lost raises SIGBUS; see docs/mmap.md. */
    COFFER_MAP = 0,
    /* Map it copy-on-write: the data may be changed in memory, the file never is. */
    COFFER_MAP_PRIVATE = 1,
    /* Never map: coffer_data fails, and reads return an error where a map would raise SIGBUS. */
    COFFER_READ = 2
} coffer_access;

/* Whether tensors are verified, by the digests that their file records, when their bytes are first wanted: damage is then
   COFFER_ERR_TENSOR_DIGEST instead of bytes. What is read whole is hashed on the way; a part or slice, and coffer_data, look at the
   whole tensor first, once. The file must not change meanwhile. What comes by URL or from the caller's functions may change, so
   there every read is hashed, and a part or slice is cut from a copy of its whole tensor, which needs that much memory; the model
   keeps the last such copy, so that many slices of one tensor read it once. */
typedef enum coffer_verifying {
    COFFER_VERIFY_NOTHING = 0,
    COFFER_VERIFY_ALL = 1,     /* a file that records none cannot be opened: COFFER_ERR_NO_DIGESTS */
    COFFER_VERIFY_RECORDED = 2 /* tensors of files that do record digests */
} coffer_verifying;

/* Called on the thread that made the call, now and then and once at the end, with bytes done and in all. A non-zero answer
   cancels: the call fails with COFFER_ERR_CANCELLED when what is under way has ended; the network is not waited for. It may use the
   model, but not close it. */
typedef int (*coffer_progress)(void *ctx, uint64_t done, uint64_t total);

typedef struct coffer_open_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* NULL: coffer_libc_allocator(); the struct is copied */
    uint64_t max_header_size;          /* as in coffer_parse_options */
    coffer_access access;
    bool populate;        /* fault the whole map in when it is made, rather than page by page */
    bool all_notes;       /* as in coffer_parse_options */
    bool unknown_dtypes;  /* as in coffer_parse_options */
    bool hidden_bytes;    /* as in coffer_parse_options */
    coffer_format format; /* as in coffer_parse_options */
    coffer_verifying verify;
    /* Of a model with an index: open only the shards that hold a tensor whose name matches one of `select_count` patterns (`*`,
       `?`, `[a-z]`, a backslash before one of them); every tensor of theirs is then there. COFFER_ERR_NO_TENSOR for none. */
    const char *const *select;
    size_t select_count; /* 0: all */
    const char *token;   /* for the Hub, and nothing else; "": none. NULL: what the environment has */
    uint32_t timeout_ms; /* how long a server may say nothing, a day at most; 0: what the environment says */
    /* The model is opened for coffer_fetch. A server that serves no ranges is then put up with, where each read has to begin at the
       file's first byte; and where the Hub's cache knows a branch, the Hub is asked for its commit, so that an older one is not
       taken for it (not with HF_HUB_OFFLINE, nor when the Hub cannot be reached). */
    bool to_fetch;
    /* Open files that end before their data do, for what is whole: a tensor that is not (coffer_is_whole) fails with
       COFFER_ERR_DATA_TRUNCATED wherever its bytes are wanted. The header has to be there. */
    bool partial;
    /* Asked now and then while a server is waited for, and after each file of several, with the files whose headers were read and
       those in all (1 until that is known). Non-zero: COFFER_ERR_CANCELLED, without waiting for the network. NULL: none. */
    coffer_progress progress;
    void *progress_ctx;
} coffer_open_options;
#define COFFER_OPEN_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_open_options), NULL, 0, COFFER_MAP, false, false, false, false, COFFER_FORMAT_ANY,               \
            COFFER_VERIFY_NOTHING, NULL, 0, NULL, 0, false, false, NULL, NULL                                          \
    }

/*
 * Opens a file: reads and validates its header; tensors' bytes are not touched. Fails with COFFER_ERR_UNDO while the undo
 * file of an interrupted edit lies beside it. *model is NULL on failure.
 * A path that ends in `.index.json` is the index of a model of several files: their headers are read by up to 16 threads
 * (behind a URL by up to 192, as far as descriptors allow), which call the allocator one at a time, in order of the files' names,
 * and compared with the index. At most 64 files or so stay open; one that is opened again for reading must not have changed
 * (COFFER_ERR_CHANGED). When another model takes its place meanwhile, all files are of the one or of the other;
 * COFFER_ERR_UNFINISHED at a moment when there is neither.
 * A path that is a folder stands for the one model in it, found as other programs find it; docs/models.md has the rules.
 * A path may be a URL: http, https, s3 or hf://owner/name[@revision][/file], of a file, an index, a folder that ends in a slash, or
 * a repository of the Hub, whose cache comes first. One request then brings a file's size and most headers, reads fetch what
 * they need, several ranges at once, and there is no map. docs/network.md has the other names of the Hub, what the environment
 * changes, what is sent where and what is tried again.
 */
COFFER_API coffer_status coffer_open(coffer **model, const char *path, const coffer_open_options *options,
                                     coffer_error *err);
/* A file that is already in memory; borrowed until close. coffer_data points into it. */
COFFER_API coffer_status coffer_open_memory(coffer **model, const void *bytes, size_t size,
                                            const coffer_open_options *options, coffer_error *err);
/* A range of an open descriptor of a regular file or block device, `size` bytes from `offset` (UINT64_MAX: to its end). The
   descriptor is duplicated; its position is neither used nor moved. */
COFFER_API coffer_status coffer_open_fd(coffer **model, int fd, uint64_t offset, uint64_t size,
                                        const coffer_open_options *options, coffer_error *err);
/* The caller's own source; the struct is copied. Zero-copy data is not to be had. */
COFFER_API coffer_status coffer_open_source(coffer **model, const coffer_source *source,
                                            const coffer_open_options *options, coffer_error *err);
/* Releases everything, maps included: pointers from coffer_data and tensors are dead afterwards. */
COFFER_API void coffer_close(coffer *model);

/* Called for a file of a model, on the thread that made the call: its path, borrowed for the call, and whether there is a file of
   that name. A non-zero answer ends the listing. */
typedef int (*coffer_file_visitor)(void *ctx, const char *path, bool exists);
/*
 * Names the files of a model without opening them, those that are missing, too: of an index what it names, of a folder what
 * coffer_open would open in it, of a file that is named as one of several (`-00001-of-00003`) all that are named like it, in order
 * of their names; else the file itself. An index has to conform. COFFER_ERR_UNSUPPORTED for a URL, COFFER_ERR_CANCELLED when the
 * visitor ended it. NULL allocator: coffer_libc_allocator().
 */
COFFER_API coffer_status coffer_list_files(const char *path, const coffer_allocator *allocator,
                                           coffer_file_visitor visit, void *ctx, coffer_error *err);

COFFER_API size_t coffer_count(const coffer *model);
/* Tensor `i` in order of (shard, offset); NULL when i is not below the count. No I/O, cannot fail otherwise. */
COFFER_API const coffer_tensor *coffer_at(const coffer *model, size_t i);
/* By name; NULL when there is none. The second form takes names that contain NUL or end elsewhere; of no bytes, NULL too. */
COFFER_API const coffer_tensor *coffer_find(const coffer *model, const char *name);
COFFER_API const coffer_tensor *coffer_find_n(const coffer *model, const char *name, size_t name_len);
/* Fills `order` (of coffer_count entries) with the indices for coffer_at in byte order of the names. */
COFFER_API void coffer_sort_by_name(const coffer *model, uint32_t *order);
COFFER_API size_t coffer_shard_count(const coffer *model);
/* Everything else that shard `shard`'s header says: metadata, notes, sizes. NULL when shard is not below the count. */
COFFER_API const coffer_table *coffer_shard_table(const coffer *model, size_t shard);
/* Bytes of shard `shard`'s file; 0 when shard is not below the count. */
COFFER_API uint64_t coffer_shard_size(const coffer *model, size_t shard);
/* The path of shard `shard`'s file, as it was given or as the index names it; "" when there is none. Borrowed. */
COFFER_API const char *coffer_shard_path(const coffer *model, size_t shard);
/* A kind of note over all shards, and of the model as a whole. *subject (when not NULL) becomes the name of the first tensor or
   file that it is about, "" when it is about none; an offset is then one in that file, or in the index. Borrowed. */
COFFER_API coffer_note coffer_model_note(const coffer *model, coffer_note_kind kind, const char **subject);
/* The index's `metadata`: JSON text of an object, *len bytes; "" when it has none, NULL when there is no index. Borrowed. */
COFFER_API const char *coffer_index_metadata(const coffer *model, size_t *len);

/* The tensor's bytes as the file has them (little-endian, row-major), without a copy: never NULL on success, an empty
   tensor's too. Valid until coffer_close. Fails where there is no map (COFFER_READ, the caller's own source) or where
   mapping failed. Not necessarily aligned: see coffer_is_aligned. */
COFFER_API const void *coffer_data(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* The same, to be changed in memory: only with COFFER_MAP_PRIVATE. Changes are seen by every user of this model. */
COFFER_API void *coffer_data_mutable(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* Whether coffer_data's pointer is (or would be) aligned for the dtype. */
COFFER_API bool coffer_is_aligned(const coffer *model, const coffer_tensor *tensor);

/* Whether the file has all bytes of the tensor, which can be false only with the option `partial`; false for a tensor of another
   model. No I/O. */
COFFER_API bool coffer_is_whole(const coffer *model, const coffer_tensor *tensor);

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

/* Reads a tensor's bytes into memory of exactly tensor->size bytes: large parallel reads, no map. On failure the memory's
   contents are undefined. */
COFFER_API coffer_status coffer_read(const coffer *model, const coffer_tensor *tensor, void *buffer,
                                     uint64_t buffer_size, const coffer_read_options *options, coffer_error *err);

/* Reads `size` bytes of a tensor, from its byte `offset` on: a tensor of any size with little memory. COFFER_ERR_INDEX for bytes
   that are not all inside it. */
COFFER_API coffer_status coffer_read_part(const coffer *model, const coffer_tensor *tensor, uint64_t offset,
                                          void *buffer, uint64_t size, const coffer_read_options *options,
                                          coffer_error *err);

/* One of the tensors that coffer_read_many reads, and its place: memory of exactly tensor->size bytes. */
typedef struct coffer_read_target {
    const coffer_tensor *tensor;
    void *buffer;
    uint64_t buffer_size;
} coffer_read_target;

/* Reads `count` tensors, each into its own place, as coffer_read would one after the other; but the threads are started once
   and go from tensor to tensor, which loads a model of many small ones faster, and `progress` counts all of them together.
   Reading begins in the order given and only when every target has been checked. Places must not overlap. A failure at one
   tensor stops all and names it in err->tensor; then the contents of every place are undefined. */
COFFER_API coffer_status coffer_read_many(const coffer *model, const coffer_read_target *targets, size_t count,
                                          const coffer_read_options *options, coffer_error *err);

/* What is taken along one dimension, with the rules of Python's slices and of integer indices. */
typedef enum coffer_index_kind {
    COFFER_INDEX_ALL = 0, /* the whole dimension, `:` */
    COFFER_INDEX_AT = 1,  /* one index, which drops the dimension; negative counts from the end */
    COFFER_INDEX_RANGE =
        2, /* start:stop:step, each present or not; out-of-range bounds are clamped, step may be negative */
    COFFER_INDEX_ELLIPSIS = 3 /* as many whole dimensions as are left, `...`; at most one */
} coffer_index_kind;

typedef struct coffer_index {
    coffer_index_kind kind;
    bool has_start, has_stop; /* of a range: whether start and stop are given */
    int64_t start;            /* of a range, or the index itself */
    int64_t stop;
    int64_t step; /* of a range; 0 is an error, there is no default */
} coffer_index;

/* Reads the text form, "0:10, :, -1, ..., ::2", with or without brackets around it, into at most *count entries; *count
   becomes their number. "" and "[]" are no indices: the whole tensor. COFFER_ERR_SLICE_SYNTAX carries the position in the
   text as err->offset; with more than fit, COFFER_ERR_BUFFER_SIZE carries the number as err->expected. */
COFFER_API coffer_status coffer_slice_parse(const char *text, size_t text_len, coffer_index *indices, size_t *count,
                                            coffer_error *err);
/* The result of a slice, before reading it: its shape (room for tensor->rank dimensions), rank and size in bytes. Each
   output may be NULL. Dimensions that no index names are taken whole. */
COFFER_API coffer_status coffer_slice_shape(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                            uint64_t *shape, size_t *rank, uint64_t *size, coffer_error *err);
/* Reads a slice into memory of exactly the slice's size, row-major, touching only the runs of bytes that it needs (and small
   gaps between short ones). From the map where the model has one, else by reads. */
COFFER_API coffer_status coffer_read_slice(const coffer *model, const coffer_tensor *tensor,
                                           const coffer_index *indices, size_t count, void *buffer,
                                           uint64_t buffer_size, const coffer_read_options *options, coffer_error *err);

/* ---- Integrity ------------------------------------------------------------------------------------------------------- */

/* Under these keys of its metadata a file records digests, by which accidents are noticed; docs/integrity.md has every byte. Who
   changes a file on purpose can change them, too: only signatures of what cannot be changed stop that. */
#define COFFER_DIGESTS_KEY "coffer.digests"                 /* of each tensor */
#define COFFER_METADATA_DIGEST_KEY "coffer.metadata_digest" /* of all other metadata, the list above included */
/* Under these keys of its metadata the index of several files records digests of the whole, by which files of another version, and
   files that are missing, are noticed. coffer_model_writer writes them, and coffer_record_content. */
#define COFFER_CONTENT_DIGEST_KEY "coffer.content_digest" /* of all tensors, as coffer_digest_content computes it */
#define COFFER_SHARD_DIGESTS_KEY "coffer.shard_digests"   /* the same of each file by itself */

/* The digests of a tensor, each in the first coffer_algorithm_digest_size bytes; those behind are 0. */
typedef struct coffer_digest {
    uint8_t data[COFFER_LARGEST_DIGEST_SIZE];   /* of the tensor's bytes */
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE]; /* of its name, dtype and shape, and the digest above */
} coffer_digest;

/* Computes the digests of `count` tensors, in their order; of all in coffer_at's order when `tensors` is NULL (`count` is then
   coffer_count). Several at once, the longest first, from the map where there is one: the digest of one tensor takes one
   processor. `progress` counts the tensors' bytes. A failure names the tensor in err->tensor. */
COFFER_API coffer_status coffer_digest_tensors(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                               coffer_algorithm algorithm, coffer_digest *digests,
                                               const coffer_read_options *options, coffer_error *err);
/* Computes from the digests of all its tensors, in coffer_at's order, that of a model's content: whatever its files, their
   order, padding and metadata, two models have it in common when their tensors are the same. No I/O. */
COFFER_API coffer_status coffer_digest_content(const coffer *model, const coffer_digest *digests,
                                               coffer_algorithm algorithm, void *digest, size_t digest_size,
                                               coffer_error *err);

/* Which digests shard `shard` records; COFFER_NO_ALGORITHM for none, or none that this version knows. */
COFFER_API coffer_algorithm coffer_recorded_algorithm(const coffer *model, size_t shard);
/* By which algorithm the index of a model records digests of the whole; COFFER_NO_ALGORITHM for none, none that this version
   knows, and a model without an index. */
COFFER_API coffer_algorithm coffer_recorded_content(const coffer *model);
/* Verifies `count` tensors, all when `tensors` is NULL, by the digests that their files record, and the metadata of those files.
   Everything is looked at before it fails, and sound[i] (NULL: not wanted) says whether tensors[i] is what was recorded. COFFER_OK
   only when all is: COFFER_ERR_NO_DIGESTS when a file records none, COFFER_ERR_DIGESTS when they cannot be used,
   COFFER_ERR_TENSOR_DIGEST with the first tensor that was changed, renamed, replaced or added in err->tensor, or when one is
   missing of all that are recorded, COFFER_ERR_METADATA_DIGEST. The work is done as by coffer_digest_tensors. Where the index
   records digests of the whole, what the files record is held against that, too, however many tensors are asked for (of none, that
   alone is done, without reading data): COFFER_ERR_CONTENT_DIGEST when a file is of another version or missing. */
COFFER_API coffer_status coffer_verify(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                       bool *sound, const coffer_read_options *options, coffer_error *err);

/* Parameters by dtype (COFFER_UNKNOWN_DTYPE included, and room for more): `plain`, the elements of all tensors, 1 for a scalar;
   `trained`, the weights as they were before quantisation packed them, without what says how to unpack them; `compatible`, as
   @huggingface/hub counts: the same without scalars, and in whole weights for each element. docs/models.md has the rules. */
typedef struct coffer_parameters {
    uint64_t plain[32];
    uint64_t trained[32];
    uint64_t compatible[32];
    char assumed[256]; /* of the quantisation, in words; "" when there is none */
} coffer_parameters;
/* Counts by the text of a config.json. NULL: by the one beside the model's first file, if there is one; "" (length 0): by none. */
COFFER_API coffer_status coffer_count_parameters(const coffer *model, const char *config, size_t config_len,
                                                 coffer_parameters *counts, coffer_error *err);

/* ---- Fetching -------------------------------------------------------------------------------------------------------- */

typedef struct coffer_fetch_options {
    size_t struct_size;
    coffer_progress progress; /* in bytes of all files, those that were there already included; NULL: none */
    void *progress_ctx;
    uint32_t threads; /* connections at most, up to 64; 0: 64, or fewer where that many do not pay */
    bool force;       /* replace files that are there, and take a model of one file away that is in the way */
} coffer_fetch_options;
#define COFFER_FETCH_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_fetch_options), NULL, NULL, 0, false                                                             \
    }

/*
 * Downloads a model that was opened by URL (or copies one that was opened by path) into a folder that exists, under its files'
 * names; of several files with an index, of a model named as a whole with its config.json, tokenizer and the like. Open it with
 * `to_fetch`. `wanted` has a flag for each tensor, by its number for coffer_at: then the files have only those tensors, and the index
 * names those; NULL: all, and every file as it is, byte for byte, the index too. Files get their names when every one of them is
 * complete, and those of several files as by coffer_model_writer: COFFER_ERR_SHADOWED, COFFER_ERR_LOCKED, COFFER_ERR_UNFINISHED. Until
 * then they are NAME.coffer-part, with which the next call for the same goes on, whatever ended this one. A SHA-256 that the server
 * states is compared. docs/network.md has the rest.
 */
COFFER_API coffer_status coffer_fetch(const coffer *model, const bool *wanted, const char *folder,
                                      const coffer_fetch_options *options, coffer_error *err);

/* ---- Level 3: writing ------------------------------------------------------------------------------------------------ */

typedef struct coffer_writer coffer_writer;

/* When what was written is made to survive a power cut. docs/durability.md says what each survives. */
typedef enum coffer_sync {
    COFFER_SYNC_REPLACE = 0, /* when an existing file is replaced: its new bytes are durable before the rename */
    COFFER_SYNC_ALWAYS = 1,  /* always, and the directory entry too, before finish returns */
    COFFER_SYNC_NEVER = 2    /* and a large file that is replaced is given up by a thread that outlives the call */
} coffer_sync;

/* The caller's own place to write to. write_at stores all `size` bytes at `offset` or fails, like coffer_source's read_at;
   called from the threads that call coffer_writer_write. finish (may be NULL) is called once when everything was written;
   discard (may be NULL) once instead, when the writer is freed unfinished or failed, or could not be opened. */
typedef struct coffer_sink {
    coffer_status (*write_at)(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err);
    coffer_status (*finish)(void *ctx, coffer_error *err);
    void (*discard)(void *ctx);
    void *ctx;
} coffer_sink;

typedef struct coffer_writer_options {
    size_t struct_size;
    uint64_t alignment;       /* as in coffer_header_options */
    uint64_t slack;           /* as in coffer_header_options */
    uint64_t max_header_size; /* as in coffer_parse_options */
    coffer_sync sync;         /* of a path or descriptor */
    /* Of a path: overwrite the existing file itself. Neither atomic nor crash-safe: for files that a rename cannot replace
       (bind mounts, some FUSE mounts). */
    bool in_place;
    bool empty_metadata;  /* as in coffer_header_options */
    coffer_format format; /* as in coffer_header_options */
    /* Record digests in the metadata: they are computed as the tensors come, best in order, and the header is written last. A pipe
       is refused; where the writer cannot read back (a descriptor, `in_place`, the caller's sink), so are pieces out of order. */
    coffer_algorithm digests;
    /* Of a path: what was read from this model, one file that was opened by its path, is written again. Its file is the only one
       that is replaced: when the path leads to another one by then, or somebody wrote to it, finishing fails with
       COFFER_ERR_CHANGED, and what lies there stays. Not with in_place. NULL: whatever lies there is replaced. Borrowed by
       coffer_writer_open alone. */
    const coffer *replaces;
    /* Asked now and then by whoever waits in coffer_writer_finish for bytes to become durable, or in coffer_writer_write for the
       reader of a pipe, with the bytes that are and those of the file. Non-zero: COFFER_ERR_CANCELLED, and the writer can only be
       freed. Other writing takes as long as the pieces are. NULL: none. */
    coffer_progress progress;
    void *progress_ctx;
} coffer_writer_options;
#define COFFER_WRITER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_writer_options), 0, 0, 0, COFFER_SYNC_REPLACE, false, false, COFFER_FORMAT_ANY,                  \
            COFFER_NO_ALGORITHM, NULL, NULL, NULL                                                                      \
    }

/*
 * Opens a writer: builds the header (coffer_header_build) and writes it. The header stays the caller's and must live until
 * the writer is freed; coffer_header_at says where each tensor goes.
 *   path    a complete temporary file beside `path` takes its place when the writer finishes: whoever has the old file open
 *           keeps it, and a crash at any point leaves the old or the new file whole. An existing file's mode is kept, a new
 *           one's is what the umask asks for. A symbolic link is itself replaced, not what it points to.
 *   fd      at the descriptor's position, or at any position where it cannot seek (a pipe: write in file order then); borrowed
 *   memory  `size` bytes, exactly as many as the file has: the last tensor's end, see coffer_table_data_size
 *   sink    the caller's own; the struct is copied
 */
COFFER_API coffer_status coffer_writer_open(coffer_writer **writer, coffer_header *header, const char *path,
                                            const coffer_writer_options *options, coffer_error *err);
COFFER_API coffer_status coffer_writer_open_fd(coffer_writer **writer, coffer_header *header, int fd,
                                               const coffer_writer_options *options, coffer_error *err);
COFFER_API coffer_status coffer_writer_open_memory(coffer_writer **writer, coffer_header *header, void *memory,
                                                   size_t size, const coffer_writer_options *options,
                                                   coffer_error *err);
COFFER_API coffer_status coffer_writer_open_sink(coffer_writer **writer, coffer_header *header, const coffer_sink *sink,
                                                 const coffer_writer_options *options, coffer_error *err);
/* Writes `size` bytes of tensor number `i` of the declaration, from byte `offset` of that tensor on. Pieces may come in any
   order and from any number of threads at once; a byte written twice or outside its tensor is COFFER_ERR_WRITE_RANGE. After
   a failure the writer can only be freed. The bytes are little-endian, as they will be in the file. */
COFFER_API coffer_status coffer_writer_write(coffer_writer *writer, size_t i, uint64_t offset, const void *bytes,
                                             uint64_t size, coffer_error *err);
/* One of the tensors that coffer_writer_copy copies: `tensor` of `model` becomes tensor number `to` of the declaration, which
   must be of its size. */
typedef struct coffer_copy {
    size_t to;
    const coffer *model;
    const coffer_tensor *tensor;
} coffer_copy;

/* Writes `count` whole tensors with the bytes that opened models have for them, from any number of models and to any sink.
   Where the system can, the bytes go from file to file without coming into memory; else through a buffer of at most 16 MiB. Neighbours are
   copied together, however they are given, so one call for many tensors is much faster than many calls. The bytes count
   as if coffer_writer_write had written them, the same rules for threads hold, and a failure has the same consequence.
   `progress` counts bytes; cancelling is a failure too. */
COFFER_API coffer_status coffer_writer_copy(coffer_writer *writer, const coffer_copy *copies, size_t count,
                                            const coffer_read_options *options, coffer_error *err);
/* Checks that every byte was written and publishes the file. When it fails, nothing was published, unless the message says
   that only making it durable failed (COFFER_SYNC_ALWAYS); with COFFER_ERR_REPLACE the complete file is kept under the name
   that the message states. Then only coffer_writer_free is left to call. */
COFFER_API coffer_status coffer_writer_finish(coffer_writer *writer, coffer_error *err);
/* Releases the writer; one that was not finished leaves nothing behind. */
COFFER_API void coffer_writer_free(coffer_writer *writer);

/*
 * A model of as many files as a limit asks for, and their index. Tensors go into files in the order of their declaration, as
 * every writer of such models does it, and so are the files named: of `FOLDER/NAME.safetensors`, which is what the model is
 * called if one file is enough, come NAME-00001-of-00003.safetensors… and NAME.safetensors.index.json. Of an older model there
 * and the new one, nobody ever finds a mixture: docs/durability.md says what is there when.
 */
typedef struct coffer_model_writer coffer_model_writer;

typedef struct coffer_model_writer_options {
    size_t struct_size;
    uint64_t max_shard_size; /* bytes of tensors in a file; 0: 5,000,000,000. A larger tensor has a file of its own */
    bool balanced;           /* as many files as without it, but of sizes as even as the order allows */
    bool force;              /* take a model of one file away that is in the way, else COFFER_ERR_SHADOWED */
    const coffer_writer_options *files; /* of each file; NULL: the default. Not in_place, and only safetensors */
} coffer_model_writer_options;
#define COFFER_MODEL_WRITER_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_model_writer_options), 0, false, false, NULL                                                     \
    }

/* Opens a writer. The header declares all tensors, and the metadata of every file; it need not be built, and must live until the
   writer is freed. What an interrupted save left at `path` is finished or undone first. COFFER_ERR_LOCKED while another one
   saves in that folder. */
COFFER_API coffer_status coffer_model_writer_open(coffer_model_writer **writer, const coffer_header *header,
                                                  const char *path, const coffer_model_writer_options *options,
                                                  coffer_error *err);
/* The plan: how many files, the name of each (NULL when there is none of that number), and which one a tensor of the declaration
   goes to. */
COFFER_API size_t coffer_model_writer_count(const coffer_model_writer *writer);
COFFER_API const char *coffer_model_writer_name(const coffer_model_writer *writer, size_t shard);
COFFER_API size_t coffer_model_writer_shard_of(const coffer_model_writer *writer, size_t i);
/* As coffer_writer_write, _copy, _finish and _free. A file is made durable when its last byte has come; a file whose tensors are
   all empty, by finish. At most as many are open at once as tensors are being written to. */
COFFER_API coffer_status coffer_model_writer_write(coffer_model_writer *writer, size_t i, uint64_t offset,
                                                   const void *bytes, uint64_t size, coffer_error *err);
COFFER_API coffer_status coffer_model_writer_copy(coffer_model_writer *writer, const coffer_copy *copies, size_t count,
                                                  const coffer_read_options *options, coffer_error *err);
COFFER_API coffer_status coffer_model_writer_finish(coffer_model_writer *writer, coffer_error *err);
COFFER_API void coffer_model_writer_free(coffer_model_writer *writer);

/* ---- Level 4: editing ------------------------------------------------------------------------------------------------ */

typedef struct coffer_edit {
    const char *key; /* UTF-8; of no bytes, NULL too */
    size_t key_len;
    const char *value; /* NULL: remove the key, which need not exist */
    size_t value_len;
} coffer_edit;

typedef enum coffer_edit_mode {
    COFFER_EDIT_AUTO =
        0, /* in place when it fits in the header's slack, else by sharing the data's blocks, else by a rewrite */
    COFFER_EDIT_IN_PLACE = 1, /* in place or COFFER_ERR_NO_SLACK */
    COFFER_EDIT_REWRITE = 2   /* always by a rewrite, which leaves slack for the next edit */
} coffer_edit_mode;

/* How an edit was done. */
typedef enum coffer_edit_way {
    COFFER_EDITED_NOTHING = 0, /* the file already said so */
    COFFER_EDITED_CLONE =
        1, /* a clone by reflink was edited and renamed; without slack the data moved by whole blocks */
    COFFER_EDITED_IN_PLACE = 2, /* the header was overwritten, with an undo file beside it meanwhile */
    COFFER_EDITED_REWRITE = 3,  /* a new file was written and renamed */
    COFFER_EDITED_INSERT = 4    /* room was put in before the data, where they are: see coffer_edit_options */
} coffer_edit_way;

typedef struct coffer_edit_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options */
    uint64_t max_header_size;          /* as in coffer_parse_options */
    uint64_t slack;                    /* what a rewrite leaves; 0: 4096 */
    coffer_edit_mode mode;
    bool follow_links;        /* edit what a symbolic link points to, and files that have several names */
    coffer_sync sync;         /* of a clone or rewrite; an edit in place is always durable */
    coffer_progress progress; /* of a rewrite, in bytes of the file, first before anything is copied; NULL: none */
    void *progress_ctx;
    /* Where the new header does not fit, have the file system put blocks in before the data instead of rewriting: milliseconds for
       any size, on ext4 and XFS of Linux. The data move to another place in the file, so nobody else may have it open, and none
       can open it meanwhile: COFFER_ERR_LOCKED. COFFER_ERR_UNSUPPORTED where the file system cannot do it, or the file is not the
       user's. A kill is recovered from, as in place; a power cut in those milliseconds may cost the data. */
    bool insert;
    bool read_only; /* edit a file that must not be written, too: by a new file in its place, of the same mode */
} coffer_edit_options;
#define COFFER_EDIT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_edit_options), NULL, 0, 0, COFFER_EDIT_AUTO, false, COFFER_SYNC_REPLACE, NULL, NULL, false,      \
            false                                                                                                      \
    }

/*
 * Sets and removes keys of a file's metadata; where a key comes twice, the last edit counts. Everything else in the header
 * keeps its bytes. In place, neither the header's length nor the data change, whatever the file's size; until it is done
 * `PATH.coffer-undo` holds the old header, and opening the file fails with COFFER_ERR_UNDO. Editors exclude each other by a
 * lock on the file (COFFER_ERR_LOCKED); docs/editing.md says what readers may see. What somebody saves there meanwhile stays, and
 * the edit fails with COFFER_ERR_CHANGED. *way (when not NULL) says how it was done.
 * Where digests are recorded, that of the metadata is kept true, and goes when those of the tensors are removed; metadata that
 * it does not fit fail with COFFER_ERR_METADATA_DIGEST.
 */
COFFER_API coffer_status coffer_edit_metadata(const char *path, const coffer_edit *edits, size_t count,
                                              const coffer_edit_options *options, coffer_edit_way *way,
                                              coffer_error *err);
/* Computes the digests of a file's tensors and records them in its metadata, by an edit: in place when they fit in the header's
   slack. What was recorded before is replaced without being verified. `progress` counts the bytes that are hashed. They are
   recorded in the file that was hashed, or in none (COFFER_ERR_CHANGED). Of a model of several files every file gets those of
   its tensors, and then the index what coffer_record_content writes; *way is that of the most thorough of these edits. */
COFFER_API coffer_status coffer_record_digests(const char *path, coffer_algorithm algorithm,
                                               const coffer_edit_options *options, coffer_edit_way *way,
                                               coffer_error *err);
/* Records digests of the whole in the index of a model of several files, `path` being that of the index or of its folder: from what
   the files record, which coffer_record_digests has written to each of them before. No data is read, and nothing is verified. The
   index gets a new file (COFFER_EDITED_REWRITE), in which everything else keeps its bytes. Fails with COFFER_ERR_NO_DIGESTS when
   a file records none, with COFFER_ERR_DIGESTS when they do not all record by one algorithm, and with COFFER_ERR_LOCKED while
   another program saves a model in the folder. Of the options allocator, max_header_size, follow_links and sync count. */
COFFER_API coffer_status coffer_record_content(const char *path, const coffer_edit_options *options,
                                               coffer_edit_way *way, coffer_error *err);
/* Finishes what an interrupted edit left: puts the old header back and removes the undo file. COFFER_ERR_NO_UNDO when there
   is none, or when it is not this file's, or a stranger's (then nothing is changed). Only allocator and follow_links of the options
   count. When it was a coffer_model_writer for that path that was interrupted, its save is finished or undone. */
COFFER_API coffer_status coffer_recover(const char *path, const coffer_edit_options *options, coffer_error *err);
/* For files that a program writes itself: gives the new file that is open in `fd` the rights of the file at `path`, whose place it is
   to take, as every writer here does: owner, group, mode and access control list. What is not permitted is left out, and then nobody
   may do more with the new file than with the old one. COFFER_ERR_NOT_FOUND, COFFER_ERR_IO. Any thread may call it. */
COFFER_API coffer_status coffer_take_rights(int fd, const char *path, coffer_error *err);

/* ---- Manifests ------------------------------------------------------------------------------------------------------- */

/* Digests of files, kept beside them. docs/integrity.md describes what is read and written. */
typedef enum coffer_manifest_format {
    COFFER_MANIFEST_LINES = 1,     /* "HEX  NAME", as sha256sum and xxhsum write and check them */
    COFFER_MANIFEST_STATEMENT = 2, /* the JSON of OpenSSF model signing, unsigned: an in-toto statement */
    COFFER_MANIFEST_BUNDLE = 3     /* the same, signed: a sigstore bundle, as its tool writes and checks them */
} coffer_manifest_format;

typedef struct coffer_manifest coffer_manifest;

typedef struct coffer_manifest_entry {
    const char *name; /* below the manifest's folder, with slashes, without ".."; "." alone: the model, one file */
    coffer_algorithm algorithm;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE]; /* the algorithm's size counts */
} coffer_manifest_entry;

/* Reads a manifest of any format, which is known by its content; hostile ones are refused. With a `key` (a public one, in PEM)
   it must be a bundle whose signature is by that key: COFFER_ERR_NOT_SIGNED, COFFER_ERR_SIGNATURE. Without one a bundle's
   signature is not looked at. err->offset is the byte of the manifest, in a bundle of the statement in it. */
COFFER_API coffer_status coffer_manifest_parse(coffer_manifest **manifest, const void *bytes, size_t size,
                                               const char *key, size_t key_len, const coffer_allocator *allocator,
                                               coffer_error *err);
/* An empty one to be filled. `model` is what statements call the model. The allocator may be NULL. */
COFFER_API coffer_status coffer_manifest_new(coffer_manifest **manifest, const char *model,
                                             const coffer_allocator *allocator, coffer_error *err);
COFFER_API void coffer_manifest_free(coffer_manifest *manifest);
COFFER_API coffer_status coffer_manifest_add(coffer_manifest *manifest, const char *name, coffer_algorithm algorithm,
                                             const void *digest, coffer_error *err);
/* Names a file or folder that statements are silent about, as they say themselves. */
COFFER_API coffer_status coffer_manifest_ignore(coffer_manifest *manifest, const char *name, coffer_error *err);
/* Sets whether symbolic links to files count as files, as statements say too. */
COFFER_API void coffer_manifest_set_follows_links(coffer_manifest *manifest, bool follows);
/* Writes it; *text is borrowed until the next call or free. A bundle wants a private `key` in PEM (P-256, P-384 or P-521), other
   formats NULL. COFFER_ERR_MANIFEST_ALGORITHM for a statement with digests other than SHA-256. */
COFFER_API coffer_status coffer_manifest_write(coffer_manifest *manifest, coffer_manifest_format format,
                                               const char *key, size_t key_len, const char **text, size_t *text_len,
                                               coffer_error *err);
/* Entry `i`, in the order they were read or added; NULL when i is not below the count. */
COFFER_API const coffer_manifest_entry *coffer_manifest_at(const coffer_manifest *manifest, size_t i);
COFFER_API size_t coffer_manifest_count(const coffer_manifest *manifest);
/* What it was read from; 0 for one that was made. */
COFFER_API coffer_manifest_format coffer_manifest_format_of(const coffer_manifest *manifest);
/* Whether it is silent about a name: that is one to be ignored, or below one. */
COFFER_API bool coffer_manifest_ignores(const coffer_manifest *manifest, const char *name);
COFFER_API bool coffer_manifest_follows_links(const coffer_manifest *manifest);

#ifdef __cplusplus
}
#endif

#endif
