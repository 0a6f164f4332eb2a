/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.h - tensors, kept safe: the whole public API of libcoffer, by topic.
 *
 *   coffer/base.h        the version, how a call fails, memory, progress
 *   coffer/table.h       bytes only: dtypes, formats, the header of a file parsed to a table
 *   coffer/header.h      bytes only: a header under construction
 *   coffer/hash.h        bytes only: digests and what computes them
 *   coffer/model.h       models: coffer_open*, look-up, metadata, zero-copy data, reading, slicing
 *   coffer/write.h       writing: declare every tensor, push bodies in any order, publish atomically
 *   coffer/edit.h        editing: metadata of a file changed in place
 *   coffer/rewrite.h     models written again: renamed, cast, aligned, without some tensors, in another format
 *   coffer/pack.h        packed files: the same tensors, without loss, in fewer bytes
 *   coffer/mix.h         models computed from others: adapters merged and extracted, averages
 *   coffer/convert.h     files of other programs: read without running anything of them, written as safetensors
 *   coffer/integrity.h   digests of tensors and models: computing, recording, verifying
 *   coffer/manifest.h    digests of files, kept beside them, signed or not
 *   coffer/fetch.h       models from elsewhere, downloaded
 *   coffer/load.h        loading: many tensors or parts of them, into host or device memory, in the background
 *
 * This file is all that a program includes. Where the topics lie beside it, each of them can be included alone, too.
 */
#ifndef COFFER_H
#define COFFER_H

/*
 * coffer/base.h - what every other header stands on: the version, how a call fails, memory and progress.
 *
 * Conventions, which hold for every declaration of every header; a comment says where one departs from them.
 *
 *   - Failure: what can fail returns a coffer_status, COFFER_OK (0) on success, and fills the caller's coffer_error,
 *     for which NULL will do everywhere. (coffer_decode and coffer_encode return a status alone.) On failure every
 *     output is left NULL or untouched. Nothing is ever printed, no state is global or thread-local, no input aborts.
 *   - Which failures: every call that can fail may do so with COFFER_ERR_ARGUMENT, when the call itself is wrong, and
 *     with COFFER_ERR_MEMORY. A call that reads a model's bytes fails, too, as its source does (COFFER_ERR_IO,
 *     COFFER_ERR_CHANGED, by URL with a status of the network, 140 and up), and one that has `progress` with
 *     COFFER_ERR_CANCELLED. A comment names the others; docs/errors.md describes all.
 *   - Names: the text of files (names of tensors, keys and values, slices, JSON, PEM) is UTF-8 with its length in
 *     bytes. It may contain NULs, and where it has no bytes NULL will do. What is handed in need not end with a NUL;
 *     what is handed out does, for convenience. Paths, names of files, URLs, tokens and patterns end with a NUL, as the
 *     system has them.
 *   - Tensors: those of a model or table are pointers that it handed out, singly or in lists with their count; where a
 *     list may be NULL, that is all of a model, and the count is coffer_count. Numbers are for walking through them
 *     (coffer_at), in order of their bytes. Tensors to be written are the numbers of their declaration: 0, 1, 2…
 *   - Ownership: an object from X_new, X_open or coffer_parse is released by its one X_free or X_close; those accept
 *     NULL, nothing else does. What an object hands out is borrowed, and lives as long as it does. What is handed in is
 *     copied or used up within the call.
 *   - Memory: the allocator is given when an object is made, as a parameter or among the options, and serves all that
 *     is done with the object. NULL stands for coffer_libc_allocator().
 *   - Threads: an opened model and a parsed table are immutable: any number of threads may use them at once, and any
 *     function that takes no object. Other objects belong to one thread at a time. Release an object only when no call
 *     on it is running.
 *   - Units: `_len` counts the bytes of a text, `_size` counts bytes, `_count` counts things; offsets are in bytes,
 *     from the start of the file. Shapes have `rank` dimensions, slowest first. Bytes of a tensor are counted in
 *     uint64_t, also when they are in memory.
 *   - Options: zero is the default in every field, and NULL is the default for the whole struct. Start from the
 *     initialiser (`coffer_open_options o = COFFER_OPEN_OPTIONS_INIT;`); `struct_size` lets a newer library serve an
 *     older caller. Each kind of call has options of its own.
 *   - Versions: functions and types without "Since" are there since 0.1. docs/abi.md says what may change when, and
 *     what did.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whoever compiles the library into one of their own may define it empty, to keep what is here out of their exports. */
#ifndef COFFER_API
#if defined(_WIN32) && defined(COFFER_BUILDING)
#define COFFER_API __declspec(dllexport)
#elif defined(__GNUC__) || defined(__clang__)
#define COFFER_API __attribute__((visibility("default")))
#else
#define COFFER_API
#endif
#endif

/* ---- Version ----------------------------------------------------------------------------------------------------- */

#define COFFER_VERSION_MAJOR 0
#define COFFER_VERSION_MINOR 2
#define COFFER_VERSION_PATCH 0
#define COFFER_VERSION_STRING "0.2.0"

/* The version of the library in use, "MAJOR.MINOR.PATCH". Compare with COFFER_VERSION_STRING, that of this header. */
COFFER_API const char *coffer_version(void);

/* ---- Failing ----------------------------------------------------------------------------------------------------- */

/* Why a call failed. The numbers never change and are never used again; docs/errors.md describes each with its cause
   and the next step. */
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
    COFFER_ERR_PADDING = 37,       /* bytes other than spaces after all that a bintensors header says */

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
    COFFER_ERR_IS_COMPRESSED = 68, /* gzip, zstd, xz, bzip2, lzma, lz4, zlib, 7z, rar */
    COFFER_ERR_IS_ZEROS = 69,      /* begins with zeros only: space set aside by a download that never came */
    COFFER_ERR_IS_TEXT = 70,       /* what a server says in the place of a file, perhaps: "Entry not found" */
    COFFER_ERR_IS_TAR = 71,
    COFFER_ERR_IS_ELF = 72,   /* ELF: a program or library */
    COFFER_ERR_IS_OTHER = 73, /* of a kind that has no tensors: an image, a document, a database */

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
    COFFER_ERR_LOCKED = 106,       /* another process is editing the file, or keeps it in memory */
    COFFER_ERR_LINKED = 107,       /* a symbolic or hard link, which an edit follows only when told to */
    COFFER_ERR_NO_SLACK = 108,     /* the new metadata does not fit in the header, and a rewrite was not allowed */

    /* models of several files */
    COFFER_ERR_SHARD_NAME = 120,      /* an index names a file that is not simply one in its folder */
    COFFER_ERR_SHARD_LINK = 121,      /* a shard is a symbolic link out of the model's folder */
    COFFER_ERR_SHARD_MISSING = 122,   /* a file of the model does not exist */
    COFFER_ERR_NOT_IN_SHARD = 123,    /* the index names a tensor that its shard does not have */
    COFFER_ERR_TWO_SHARDS = 124,      /* a tensor's name comes in two shards, and no index says which counts */
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
    COFFER_ERR_NO_ALGORITHM = 160,    /* a digest's algorithm is not available: a library is missing */
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
    COFFER_ERR_SIGNATURE = 176,          /* the signature is not by this key for this manifest */

    /* files of other programs */
    COFFER_ERR_ARCHIVE = 180,  /* an archive (zip, tar) that is damaged, contradicts itself, or uses what is refused */
    COFFER_ERR_PICKLE = 181,   /* a pickle that is damaged or uses opcodes that are refused */
    COFFER_ERR_CHECKSUM = 182, /* bytes do not match the CRC-32 that the archive records */
    COFFER_ERR_NO_EQUIVALENT = 183, /* a tensor that the other format cannot express */
    COFFER_ERR_ROOT = 184,          /* it is not clear which dict of a checkpoint is the model, or there is none */
    COFFER_ERR_VIEW = 185, /* a tensor's sizes and strides lead out of its storage, or multiply it beyond measure */
    COFFER_ERR_PLAN = 186, /* a plan that no reader makes */
    COFFER_ERR_UNKNOWN_INPUT = 187, /* a file that no reader knows */
    COFFER_ERR_NOT_EQUAL = 188,     /* what was written is not what was read */
    COFFER_ERR_OPAQUE = 189,        /* an object of another program: all of the file, or in a strict conversion */
    COFFER_ERR_ARRAY = 190,         /* an array of NumPy that is damaged, or has another size than it says */

    /* loading */
    COFFER_ERR_NO_DEVICE = 200,     /* no such device: no driver, one that is too old, or no permission */
    COFFER_ERR_DEVICE = 201,        /* the device's driver failed */
    COFFER_ERR_DEVICE_MEMORY = 202, /* the device has not enough memory free */
    COFFER_ERR_PLACE = 203,         /* a place that is too small, or that overlaps itself or another */
    COFFER_ERR_BUDGET = 204,        /* an item that is larger than its budget, or a budget that nobody empties */
    COFFER_ERR_ENGINE = 205,        /* an engine that was asked for by name cannot be used here */
    COFFER_ERR_TAKEN = 206,         /* an item that was handed out before */
    COFFER_ERR_PEER = 207,          /* another process of the same load failed */

    /* packed tensors: docs/packed.md */
    COFFER_ERR_PACKED = 210,        /* a packed file or tensor where only a plain one can be used */
    COFFER_ERR_PACK_HEAD = 211,     /* a packed tensor's first 64 bytes do not describe it */
    COFFER_ERR_PACK_TABLE = 212,    /* its index contradicts itself, or does not match its checksum */
    COFFER_ERR_PACK_CODE = 213,     /* one of its codes is incomplete, or longer than 11 bits */
    COFFER_ERR_PACK_STREAM = 214,   /* the bytes of a chunk are not those of its elements */
    COFFER_ERR_PACK_CHECKSUM = 215, /* a chunk's elements do not match their checksum */
    COFFER_ERR_PACK_FILE = 216      /* the headers of a packed file contradict each other, or claim too much */
} coffer_status;

/* The offset of what has none. */
#define COFFER_NO_OFFSET UINT64_MAX

/* What went wrong, where, and what to do: filled by the call that failed, owned by the caller, any allocation (the
   stack). Its size is part of the ABI. Fields that do not apply are 0, "" or COFFER_NO_OFFSET. */
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

/* The constant's name without its prefix, "DATA_TRUNCATED"; "UNKNOWN" for any other number. Static, never NULL. */
COFFER_API const char *coffer_status_name(coffer_status status);

/* Writes `text` to `out` (of `out_size` bytes, NUL included) so that it is safe on a terminal and unambiguous: control
   characters, invalid UTF-8, line and paragraph separators and marks that turn the direction of writing become \xNN or
   \u{N}, a backslash becomes \\. Returns the length that the whole needs, without the NUL, as snprintf does: `out` may
   be NULL when `out_size` is 0. */
COFFER_API size_t coffer_escape(const char *text, size_t text_len, char *out, size_t out_size);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Where an object's memory comes from. The struct is copied; what `ctx` points to must outlive the object. The sizes
   given back are those that were asked for. Called by the threads that make calls on the object, and by those that
   coffer_open starts for a model of several files, one at a time; an allocator that is shared by objects of several
   threads must allow that. NULL from alloc or realloc is COFFER_ERR_MEMORY, never an abort. */
typedef struct coffer_allocator {
    void *(*alloc)(void *ctx, size_t size);
    void *(*realloc)(void *ctx, void *block, size_t old_size, size_t new_size);
    void (*free)(void *ctx, void *block, size_t size);
    void *ctx;
} coffer_allocator;

/* malloc, realloc and free. Static, never NULL; any thread may use it. */
COFFER_API const coffer_allocator *coffer_libc_allocator(void);

/* Memory to read tensors into: page-aligned and, where the system has them, in huge pages (faulting in fresh 4 KiB
   pages costs several times the copy itself). `size` is at least 1. NULL when there is none. The caller's, to be
   released by coffer_buffer_free. */
COFFER_API void *coffer_buffer_new(size_t size);
/* Releases memory of coffer_buffer_new, with the size that was asked for; NULL is ignored. */
COFFER_API void coffer_buffer_free(void *buffer, size_t size);

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

/* The caller's, for calls that may take long: called on the thread that made the call, now and then and once at the
   end, with what is done and what there is in all, in bytes unless said otherwise. A non-zero answer cancels: the call
   fails with COFFER_ERR_CANCELLED when the work in progress has ended; the network is not waited for. It may use the
   model, but not close it, and must not throw or jump out. */
typedef int (*coffer_progress)(void *ctx, uint64_t done, uint64_t total);

#ifdef __cplusplus
}
#endif

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
 * An input is bytes: a file, what is behind a URL, or the caller's own functions. An import is what a reader made of
 * them: which tensors there are, what becomes of each, and what else was found. Reading and writing may be done by two
 * processes, of which the first need not be trusted: coffer_import_save gives the import as bytes, coffer_import_load
 * takes it from them and checks every number again.
 *
 * Since 0.2. One thread at a time may use an input with its imports.
 */

/* coffer/write.h - writing a file of tensors, or a model of several, and publishing it atomically. */

/* coffer/header.h - a header under construction: bytes only, no I/O and no threads. What writers are given, see
   write.h. */

/* coffer/hash.h - digests of bytes: the algorithms, and hashers for bytes that come in pieces. All of it is there since
   0.2. */

#ifdef __cplusplus
extern "C" {
#endif

/* How a digest is computed. SHA-256 comes from OpenSSL's libcrypto, which is loaded when it is first needed; where it
   is missing, from Windows' bcrypt.dll, or else from code of this library, which takes several times as long. XXH3 was
   compiled in where its header was there; where it is missing, COFFER_ERR_NO_ALGORITHM says so. */
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

/* Makes a hasher. Making one may load a library, so one for many digests is faster than many. COFFER_ERR_NO_ALGORITHM
   says what is missing. */
COFFER_API coffer_status coffer_hasher_new(coffer_hasher **hasher, coffer_algorithm algorithm,
                                           const coffer_allocator *allocator, coffer_error *err);
/* Adds `size` bytes, after those that came before. COFFER_ERR_NO_ALGORITHM when the library that computes refuses
   to. */
COFFER_API coffer_status coffer_hasher_update(coffer_hasher *hasher, const void *bytes, size_t size, coffer_error *err);
/* Writes the digest of all bytes since the last one to memory of exactly its size, else COFFER_ERR_BUFFER_SIZE; the
   next digest then begins. */
COFFER_API coffer_status coffer_hasher_finish(coffer_hasher *hasher, void *digest, size_t digest_size,
                                              coffer_error *err);
/* Releases the hasher, wherever it is; NULL is ignored. */
COFFER_API void coffer_hasher_free(coffer_hasher *hasher);

/* Writes `size` bytes as base64 (RFC 4648, section 4: with padding, without line breaks), as recorded digests are
   written, to `text` (of `text_size` bytes) and a NUL after it. Returns the length that it needs, without the NUL: 4
   characters for every 3 bytes begun. Where that and the NUL do not fit nothing is written; `text` may then be NULL. */
COFFER_API size_t coffer_base64(const void *bytes, size_t size, char *text, size_t text_size);

#ifdef __cplusplus
}
#endif

/*
 * coffer/table.h - bytes only, no I/O and no threads: dtypes, formats, and the header of a file, parsed to a table of
 * its tensors and metadata.
 */

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
/* The least positive number that is normal: what is nearer to zero is subnormal (denormal). Of C64, that of its parts;
   0 for dtypes without subnormal numbers: integers, BOOL, F8_E8M0. Since 0.2. */
COFFER_API double coffer_dtype_least_normal(coffer_dtype dtype);

/* Decodes `count` elements, beginning with element `first` of the little-endian `data`, to doubles; C64 gives two for
   each element (real, imaginary). Exact for every dtype but I64 and U64 beyond 2^53. F4 and F6 elements are packed from
   the low bits of each byte up. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE. `data` needs no alignment. Pure, with no
   memory of its own. */
COFFER_API coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count,
                                       double *values);
/* The other way, for the floats that have infinities (F16, BF16, F32, F64, F8_E5M2): `count` doubles to little-endian
   `data`, rounded to the nearest, of two that are as near to the even one, so subnormal numbers too; beyond the largest
   to infinity. Zeros keep their sign, a NaN becomes the quiet one. COFFER_ERR_ARGUMENT for any other dtype. `data`
   needs no alignment. Since 0.2. */
COFFER_API coffer_status coffer_encode(coffer_dtype dtype, const double *values, size_t count, void *data);

/* ---- Formats ----------------------------------------------------------------------------------------------------- */

/* How a file's header is spelt. docs/format.md and docs/bintensors.md say what is accepted as each. Since 0.2. */
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

    /* of a model of several files as a whole, so only in coffer_model_note */
    COFFER_NOTE_UNINDEXED = 10, /* a tensor that its shard has and the index does not name */
    COFFER_NOTE_TOTAL_SIZE =
        11, /* the index states another total_size than the tensors have, or none that is a number */
    COFFER_NOTE_EXTRA_SHARD = 12, /* * a file beside the shards that is named like them and not in the index */
    COFFER_NOTE_SHARD_COUNT = 13, /* files whose names state another number of them than the index names */
    COFFER_NOTE_NO_INDEX = 14,    /* a model of several files that has no index */
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
    bool loose_metadata;  /* accept values of the metadata that are no strings, as their JSON text; since 0.2 */
} coffer_parse_options;
#define COFFER_PARSE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_parse_options), 0, 0, false, false, false, COFFER_FORMAT_ANY, false                              \
    }

/*
 * Parses and validates the header at the start of a file. `bytes` are the first `size` bytes of the file, at least its
 * first 8 + N; more does no harm. With fewer the answer is COFFER_NEED_MORE and *need (when not NULL) says how many
 * bytes from the start of the file the next call wants: 8, then 8 + N. On success *need is 8 + N. Accepts what
 * docs/format.md and docs/bintensors.md say and nothing else; err->offset is the byte where the file departs from it.
 * Memory is at most about 7 times the header's bytes for hostile headers and about 1.3 times for real ones, the
 * caller's bytes not counted; for those of bintensors, which are denser, about 24 and 4. Fails with the status that
 * says what the header is not, 20 to 48, or what the file is instead, 60 to 72.
 */
COFFER_API coffer_status coffer_parse(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                      const coffer_allocator *allocator, const coffer_parse_options *options,
                                      coffer_error *err);
/* Releases the table, and with it every tensor and text that it handed out; NULL is ignored. */
COFFER_API void coffer_table_free(coffer_table *table);

/* How the header is spelt: never COFFER_FORMAT_ANY. Since 0.2. */
COFFER_API coffer_format coffer_table_format(const coffer_table *table);
/* Tensors of the table. */
COFFER_API size_t coffer_table_count(const coffer_table *table);
/* Tensor `i` in order of offset (tensors of one offset: empty ones first, then as the header has them); NULL when i is
   not below the count. */
COFFER_API const coffer_tensor *coffer_table_at(const coffer_table *table, size_t i);
/* The tensor of a name, in constant time on average and in about 6 * sqrt(count) steps at most, however the names were
   chosen; NULL when there is none. */
COFFER_API const coffer_tensor *coffer_table_find(const coffer_table *table, const char *name, size_t name_len);
/* Fills `order`, of coffer_table_count entries, with the numbers of the tensors for coffer_table_at in byte order of
   their names. O(n log n), without memory of its own. */
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

#ifdef __cplusplus
extern "C" {
#endif

/* A header under construction: declare tensors and metadata in any order, then build. */
typedef struct coffer_header coffer_header;

/* How a header is laid out. */
typedef struct coffer_header_options {
    size_t struct_size;
    uint64_t alignment;       /* of the data's start in the file: a power of two, at least 8; 0: 8 */
    uint64_t slack;           /* spaces to reserve after the header for later edits of the metadata */
    uint64_t max_header_size; /* as in coffer_parse_options */
    coffer_format format;     /* COFFER_FORMAT_ANY: safetensors */
    bool empty_metadata;      /* write a place for metadata even when no key was set */
} coffer_header_options;
#define COFFER_HEADER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_header_options), 0, 0, 0, COFFER_FORMAT_ANY, false                                               \
    }

/* Makes a header that declares nothing. */
COFFER_API coffer_status coffer_header_new(coffer_header **header, const coffer_allocator *allocator,
                                           coffer_error *err);
/* Releases the header, and with it what coffer_header_build handed out; NULL is ignored. */
COFFER_API void coffer_header_free(coffer_header *header);
/* Declares a tensor of `rank` dimensions (0 for a scalar); name and shape are copied. Tensors are numbered 0, 1, 2… in
   the order of their declaration. Refused at once: the name "__metadata__" (COFFER_ERR_NAME), a name that is not UTF-8
   (COFFER_ERR_UTF8), an unknown dtype (COFFER_ERR_DTYPE), a size beyond 2^64-1 bits (COFFER_ERR_OVERFLOW) or not in
   whole bytes (COFFER_ERR_PARTIAL_BYTE). Two tensors of one name are refused when the header is built. */
COFFER_API coffer_status coffer_header_add(coffer_header *header, const char *name, size_t name_len, coffer_dtype dtype,
                                           const uint64_t *shape, size_t rank, coffer_error *err);
/* Sets a key of the metadata, replacing what it had; both texts are copied. COFFER_ERR_UTF8. */
COFFER_API coffer_status coffer_header_set_metadata(coffer_header *header, const char *key, size_t key_len,
                                                    const char *value, size_t value_len, coffer_error *err);
/*
 * Lays the file out and writes its first bytes: the length, the header and its padding, in the canonical order and
 * spelling (tensors by dtype, highest first, then by name; metadata by key; compact; spaces up to the alignment), which
 * for the same tensors are the bytes that the format's reference implementation writes. A dtype that the format lacks
 * is refused before anything is written (COFFER_ERR_DTYPE names the tensor). What was built is validated by
 * coffer_parse before it is handed out. *bytes and *table are borrowed until the header is freed; nothing can be
 * declared afterwards. Either output may be NULL. A second call returns the same bytes and ignores its options.
 * COFFER_ERR_DUPLICATE_NAME, COFFER_ERR_HEADER_TOO_LARGE above the limit, COFFER_ERR_OVERFLOW when the tensors' sizes
 * add up to more than 2^64-1.
 */
COFFER_API coffer_status coffer_header_build(coffer_header *header, const coffer_header_options *options,
                                             const void **bytes, uint64_t *size, const coffer_table **table,
                                             coffer_error *err);
/* Where tensor number `i` of the declaration will be; NULL before the header is built or when i is not below the
   count. */
COFFER_API const coffer_tensor *coffer_header_at(const coffer_header *header, size_t i);
/* Tensors that are declared. */
COFFER_API size_t coffer_header_count(const coffer_header *header);
/* Makes space for digests in the metadata, when everything is declared and before the header is built. A writer that is
   to record digests does so itself, unless it gets a header that is built. COFFER_ERR_ARGUMENT when it is built
   already. Since 0.2. */
COFFER_API coffer_status coffer_header_reserve_digests(coffer_header *header, coffer_algorithm algorithm,
                                                       coffer_error *err);

#ifdef __cplusplus
}
#endif

/* coffer/model.h - one or more files of tensors, opened: look-up, metadata, zero-copy data, reading, slicing. */

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
       the gaps between what is wanted (up to 128 KiB), up to 16 reads at a time whatever the number of processors. */
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
       touching the bytes that were lost raises SIGBUS; see docs/mmap.md. */
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
    /* Of a model with an index: open only the shards that hold a tensor whose name matches one of `select_count`
       patterns (coffer_match); every tensor of theirs is then there. COFFER_ERR_NO_TENSOR for
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
} coffer_open_options;
#define COFFER_OPEN_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_open_options), NULL, 0, COFFER_MAP, false, false, false, false, COFFER_FORMAT_ANY,               \
            COFFER_VERIFY_NOTHING, NULL, 0, NULL, 0, false, false, NULL, NULL                                          \
    }

/*
 * Opens a file: reads and validates its header; tensors' bytes are not touched. Fails as coffer_parse does, with
 * COFFER_ERR_NOT_FOUND and its like when there is no such file, and with COFFER_ERR_UNDO while the undo file of an
 * interrupted edit lies beside it. *model is NULL on failure.
 *
 * A path that ends in `.index.json` is the index of a model of several files. Their headers are read by several threads
 * (docs/threads.md says how many), which call the allocator one at a time, in order of the files' names, and compared
 * with the index. A bounded number of files stays open; one that is opened again for reading must not have changed
 * (COFFER_ERR_CHANGED). When another model takes its place while it is opened, all files are of the one or of the
 * other; COFFER_ERR_UNFINISHED at a moment when there is neither. Statuses from 120 on are of such models.
 *
 * A path that is a folder stands for the one model in it, found as other programs find it; docs/models.md has the
 * rules.
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
   (COFFER_READ, a URL, a source without `map`) or where mapping failed. Not necessarily aligned: see
   coffer_is_aligned. */
COFFER_API const void *coffer_data(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* The same, to be changed in memory: only with COFFER_MAP_PRIVATE, else COFFER_ERR_NOT_MAPPED. Changes are seen by
   every user of this model; who changes what is up to the program, threads are not kept apart. */
COFFER_API void *coffer_data_mutable(const coffer *model, const coffer_tensor *tensor, coffer_error *err);
/* Whether coffer_data's pointer is (or would be) aligned for the dtype. No I/O. */
COFFER_API bool coffer_is_aligned(const coffer *model, const coffer_tensor *tensor);

/* Whether the file has all bytes of the tensor, which can be false only with the option `partial`; false for a tensor
   of another model. No I/O. Since 0.2. */
COFFER_API bool coffer_is_whole(const coffer *model, const coffer_tensor *tensor);

/* Whether a file is better read than mapped: it is behind a URL, on a network file system, or on one in user space
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

/* Reads a tensor's bytes into memory of exactly tensor->size bytes, else COFFER_ERR_BUFFER_SIZE: large parallel reads,
   no map. The memory needs no alignment. On failure its contents are undefined. */
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
   @huggingface/hub counts: the same without scalars, and in whole weights for each element. docs/models.md has the
   rules. Since 0.2. */
typedef struct coffer_parameters {
    uint64_t plain[32];
    uint64_t trained[32];
    uint64_t compatible[32];
    char assumed[256]; /* of the quantisation, in words; "" when there is none */
} coffer_parameters;
/* Counts by the text of a config.json. NULL: by the one beside the model's first file, if there is one; "" (length 0):
   by none. Reads that file, and no tensors. Since 0.2. */
COFFER_API coffer_status coffer_count_parameters(const coffer *model, const char *config, size_t config_len,
                                                 coffer_parameters *counts, coffer_error *err);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One file ---------------------------------------------------------------------------------------------------- */

/* A file being written. Any number of threads may write and copy at once; one finishes it, when they have returned. */
typedef struct coffer_writer coffer_writer;

/* When what was written is made to survive a power cut. docs/durability.md says what each survives. */
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
       with COFFER_ERR_CHANGED, and what lies there stays. Not with in_place. NULL: whatever lies there is replaced.
       Borrowed by coffer_writer_open alone. */
    const coffer *replaces;
    /* Asked now and then by whoever waits in coffer_writer_finish for bytes to become durable, or in
       coffer_writer_write for the reader of a pipe, with the bytes that are and those of the file. Non-zero:
       COFFER_ERR_CANCELLED, and the writer can only be freed. Other writing takes as long as the pieces are. NULL:
       none. */
    coffer_progress progress;
    void *progress_ctx;
} coffer_writer_options;
#define COFFER_WRITER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_writer_options), 0, 0, 0, COFFER_SYNC_REPLACE, false, false, COFFER_FORMAT_ANY,                  \
            COFFER_NO_ALGORITHM, NULL, NULL, NULL                                                                      \
    }

/*
 * Opens a writer to a path: builds the header (coffer_header_build) and writes it. The header stays the caller's and
 * must live until the writer is freed; coffer_header_at says where each tensor goes.
 *
 * A complete temporary file beside `path` takes its place when the writer finishes: programs that have the old file
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
/* The same to the caller's own place; the struct is copied. Whenever this fails, whatever the reason is, it calls the
   sink's discard. */
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

/* ---- Several files ----------------------------------------------------------------------------------------------- */

/*
 * A model of as many files as a limit asks for, and their index. Tensors go into files in the order of their
 * declaration, as every writer of such models does it, and so are the files named: of `FOLDER/NAME.safetensors`, which
 * is what the model is called if one file is enough, come NAME-00001-of-00003.safetensors… and
 * NAME.safetensors.index.json. Of an older model there and the new one, nobody ever finds a mixture: docs/durability.md
 * says what is there when. Since 0.2.
 */
typedef struct coffer_model_writer coffer_model_writer;

/* How a model of several files is written. Since 0.2. */
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
   0.2. */
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

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* A file and, once a reader has asked for them, files beside it. Files are numbered in the order in which they were
   opened; the input itself is 0. */
typedef struct coffer_input coffer_input;

/*
 * The caller's own way to a file and to those beside it; the struct is copied, `path` too.
 *
 * read fills `size` bytes of a file from `offset` on (never past its end), or fails with a status of its choice; it may
 * fill *err (never NULL), else the library does. It is called from several threads at once when tensors are carried,
 * else by the caller's. beside opens a file by its name, or by its path below the folder of the input: plain names with
 * slashes between them, none of which leads up. It sets the file's size; files get the numbers 1, 2, … in the order of
 * these calls. NULL: there is nothing beside. close (may be NULL) is called once, by coffer_input_free or by a failed
 * open.
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
   for a server; NULL: the default. Files beside it are looked for as the files of an index are: nowhere but in its
   folder and below it, also where that has links (the Hub's cache). Fails as coffer_open does for what is not there.
   *input is NULL on failure. */
COFFER_API coffer_status coffer_input_open(coffer_input **input, const char *path, const coffer_open_options *options,
                                           coffer_error *err);
/* The same by the caller's functions. `allocator` NULL: coffer_libc_allocator(). */
COFFER_API coffer_status coffer_input_open_functions(coffer_input **input, const coffer_input_functions *functions,
                                                     const coffer_allocator *allocator, coffer_error *err);
/* Opens a file beside the input, or below its folder ("data/w.bin"), or gives the number of one that is open already.
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
/* Releases the input. NULL is ignored. No import of it may be used any more. */
COFFER_API void coffer_input_free(coffer_input *input);

/* ---- Imports ----------------------------------------------------------------------------------------------------- */

/* What becomes of names that stand for the same view of the same bytes. */
typedef enum coffer_ties {
    COFFER_TIES_HF = 0,  /* one is written; the others go into the metadata, as the ecosystem does it */
    COFFER_TIES_KEEP = 1 /* all are written */
} coffer_ties;

/* What becomes of numbers that lie in a checkpoint beside its tensors. */
typedef enum coffer_scalars { COFFER_SCALARS_SKIP = 0, COFFER_SCALARS_METADATA = 1 } coffer_scalars;

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
    const char *const *select; /* patterns of coffer_match: only tensors whose names, as they would be written, */
    size_t select_count;       /* match one of them are wanted; 0: all are */
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
 * COFFER_ERR_UNKNOWN_INPUT for a file that no reader knows, COFFER_ERR_ARCHIVE, COFFER_ERR_PICKLE and COFFER_ERR_ARRAY
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
    uint32_t file;         /* the file's number … */
    const char *file_name; /* … and plain name; "" of the input itself; the path of an input that was added */
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
    const char *format;   /* the reader: "torch", "npz"; "several" of inputs that different readers know */
    const char *noun;     /* "a PyTorch checkpoint" */
    uint32_t file_count;  /* the input counted */
    size_t tensor_count;  /* of all fates */
    size_t written_count; /* of those that are written */
    size_t alias_count;
    size_t skipped_count;
    size_t finding_count;
    size_t opaque_count; /* findings of that weight … */
    size_t danger_count; /* … and of that */
    uint64_t total;      /* bytes that the file holds for tensors */
    uint64_t written;
    uint64_t aliased;
    uint64_t skipped;
    uint64_t unreferenced;     /* of no tensor */
    uint64_t output;           /* bytes of the tensors that are written: more than `written` where views overlap */
    size_t unreferenced_count; /* storages of which no tensor views anything */
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
/* An import from such bytes, which may be hostile: everything is checked as if nothing had been. The files beside the
   input that the bytes name are opened. Of the options, `allocator`, `allow_expand` and `max_metadata` are used.
   COFFER_ERR_PLAN for bytes that coffer_import_save does not make. *imported is NULL on failure. */
COFFER_API coffer_status coffer_import_load(coffer_import **imported, coffer_input *input, const void *bytes,
                                            size_t size, const coffer_import_options *options, coffer_error *err);

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* How an import is written. */
typedef struct coffer_import_write_options {
    size_t struct_size;
    uint64_t max_shard_size; /* bytes of tensors in a file; 0: one file, whatever its size */
    bool balanced;           /* as in coffer_model_writer_options */
    bool force;              /* as in coffer_model_writer_options; a file at `output` is replaced in any case */
    bool unverified;         /* do not read both sides again to compare them */
    bool unchecked;          /* do not compute the CRCs that an archive records: the system then copies what it can */
    const coffer_writer_options *files; /* of each file; NULL: the default */
    const char *sidecar; /* of GGUF: where all keys go as well, with the arrays that are too long for metadata: a GGUF
                            file without tensors, which coffer_export_options takes back; NULL: nowhere */
} coffer_import_write_options;
#define COFFER_IMPORT_WRITE_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_import_write_options), 0, false, false, false, false, NULL, NULL                                 \
    }

/*
 * Writes all of it to `output`, as one file or as several with an index; then reads what was written and compares it
 * with the input, byte by byte, by other code than wrote it; then publishes it. `progress` counts bytes: those that are
 * written, and again those that are compared. Memory: less than 64 MiB besides the import, whatever the number of
 * threads.
 *
 * COFFER_ERR_ARGUMENT when the output or the sidecar is a file of the input, or a sidecar is wanted of an import that
 * has no keys of GGUF; COFFER_ERR_CHECKSUM when bytes do not match their CRC, COFFER_ERR_CHANGED when the input was
 * changed since it was opened, COFFER_ERR_NOT_EQUAL when what was written is not what was read.
 * COFFER_ERR_UNSUPPORTED names the library that is missing for a large compressed member. After any failure nothing
 * is published, and what was at `output` is still there. Only a file that is written in place (`in_place` of the
 * files' options) is compared after it was published; if that fails, it must not be used.
 */
COFFER_API coffer_status coffer_import_write(coffer_import *imported, const char *output,
                                             const coffer_import_write_options *options,
                                             const coffer_read_options *reading, coffer_error *err);

/* The same in steps, for writers to anywhere else. First what is written is declared, the metadata too, in a header
   that has no tensors yet. */
COFFER_API coffer_status coffer_import_declare(const coffer_import *imported, coffer_header *header, coffer_error *err);
/* Then the tensors are carried into a writer of that header. As with coffer_writer_copy, a failure
   leaves a writer that can only be freed. Checks CRCs, unless `unchecked`, and at the end that the input has not
   changed. */
COFFER_API coffer_status coffer_import_carry(coffer_import *imported, coffer_writer *writer, bool unchecked,
                                             const coffer_read_options *reading, coffer_error *err);
/* The same for a model of several files. */
COFFER_API coffer_status coffer_import_carry_model(coffer_import *imported, coffer_model_writer *writer, bool unchecked,
                                                   const coffer_read_options *reading, coffer_error *err);
/* Last, what was written is compared with the input: COFFER_ERR_NOT_EQUAL, and err->tensor names a tensor that
   differs. */
COFFER_API coffer_status coffer_import_verify(coffer_import *imported, const coffer *written,
                                              const coffer_read_options *reading, coffer_error *err);

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
 * model makes the same bytes, whatever the file is called. In archives tensors begin at multiples of 64. Metadata are
 * left out, but for GGUF. A pair of them whose value is the name of a tensor, and whose key is none and not "format",
 * is what converters write of tied tensors: the key is written as a second name, in a checkpoint of the same storage,
 * in an archive of arrays and in GGUF with a copy of the bytes.
 *
 * BF16 is two bytes without a type in NumPy ("<V2") and F8_E5M2 is "<f1", as other programs spell them. F4 is torch's
 * float4_e2m1fn_x2, of half the last dimension. What else the format has no type for is COFFER_ERR_NO_EQUIVALENT, or
 * bytes with `bytes_as`; where elements are smaller than bytes, the last dimension counts bytes.
 *
 * In GGUF, metadata "gguf.KEY" with a value of JSON become the key KEY, of the type of "gguf:KEY" if it fits. U8 that
 * gguf.tensors tells to be blocks of a type is such blocks again, and tensors are in its order. Keys of a sidecar come
 * first. COFFER_ERR_ARGUMENT when there is neither `arch` nor gguf.general.architecture, nor a sidecar with it;
 * COFFER_ERR_JSON and COFFER_ERR_TYPE for a gguf.tensors that cannot be read; COFFER_ERR_UNKNOWN_INPUT,
 * COFFER_ERR_UNSUPPORTED and COFFER_ERR_ARCHIVE for a sidecar that is no GGUF file, big-endian or damaged, and
 * COFFER_ERR_DUPLICATE_KEY for one that has a key twice.
 *
 * COFFER_ERR_NAME for a name that GGUF or an archive of arrays cannot have, or that NumPy would take for another one;
 * COFFER_ERR_NO_TENSOR when there is none called `tensor`; COFFER_ERR_ARGUMENT for a .npy file of a model of several
 * tensors without `tensor`, and when the path is a file of the model. Fails as coffer_writer_copy does, else. err->path
 * is the file of the model or the new one. After a failure nothing is published. `progress` counts the bytes of
 * tensors.
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
/* The same to a descriptor, which is borrowed, as by coffer_writer_open_fd. To a pipe, large tensors of an archive are
   read twice, as their CRC comes before them; COFFER_ERR_CHANGED when they are not the same both times. */
COFFER_API coffer_status coffer_export_fd(const coffer *model, coffer_export_format format, int fd,
                                          const coffer_export_options *options, const coffer_read_options *reading,
                                          coffer_error *err);
/* The same to the caller's own place; exactly one of its finish and discard is called. Of the options, `sync` and
   `in_place` are not used. */
COFFER_API coffer_status coffer_export_sink(const coffer *model, coffer_export_format format, const coffer_sink *sink,
                                            const coffer_export_options *options, const coffer_read_options *reading,
                                            coffer_error *err);

#ifdef __cplusplus
}
#endif

/* coffer/edit.h - metadata of a file changed in place, and what an interrupted change left. */

#ifdef __cplusplus
extern "C" {
#endif

/* A key of the metadata and what becomes of it. */
typedef struct coffer_edit {
    const char *key; /* UTF-8; of no bytes, NULL too */
    size_t key_len;
    const char *value; /* NULL: remove the key, which need not exist */
    size_t value_len;
} coffer_edit;

/* How an edit may be done. */
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
    COFFER_EDITED_IN_PLACE = 2, /* the header was overwritten, with an undo file beside it until that was done */
    COFFER_EDITED_REWRITE = 3,  /* a new file was written and renamed */
    COFFER_EDITED_INSERT = 4    /* space was put in before the data, where they are: see coffer_edit_options */
} coffer_edit_way;

/* How a file is edited. */
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
    /* Where the new header does not fit, have the file system put blocks in before the data instead of rewriting:
       milliseconds for any size, on ext4 and XFS of Linux. The data move to another place in the file, so nobody else
       may have it open, and none can open it meanwhile: COFFER_ERR_LOCKED. COFFER_ERR_UNSUPPORTED where the file system
       cannot do it, or the file is not the user's. A kill is recovered from, as in place; a power cut in those
       milliseconds may cost the data. */
    bool insert;
    bool read_only; /* edit a file that must not be written, too: by a new file in its place, of the same mode */
} coffer_edit_options;
#define COFFER_EDIT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_edit_options), NULL, 0, 0, COFFER_EDIT_AUTO, false, COFFER_SYNC_REPLACE, NULL, NULL, false,      \
            false                                                                                                      \
    }

/*
 * Sets and removes keys of a file's metadata; where a key comes twice, the last edit counts. The first metadata of a
 * file of safetensors get format=pt, too, unless an edit names "format". Everything else in the header keeps its
 * bytes. In place, neither the header's length nor the data change, whatever the file's size; until it is done
 * `PATH.coffer-undo` holds the old header, and opening the file fails with COFFER_ERR_UNDO. Editors exclude each other
 * by a lock on the file (COFFER_ERR_LOCKED); docs/editing.md says what readers may see. What somebody saves there
 * meanwhile stays, and the edit fails with COFFER_ERR_CHANGED. *way (when not NULL) says how it was done. Where
 * digests are recorded, that of the metadata is kept true, and goes when those of the tensors are removed; metadata
 * that it does not fit fail with COFFER_ERR_METADATA_DIGEST. COFFER_ERR_NO_SLACK, COFFER_ERR_LINKED, and what
 * coffer_parse says of a file that does not conform. Any thread may call it.
 */
COFFER_API coffer_status coffer_edit_metadata(const char *path, const coffer_edit *edits, size_t count,
                                              const coffer_edit_options *options, coffer_edit_way *way,
                                              coffer_error *err);
/* Finishes what an interrupted edit left: puts the old header back and removes the undo file. COFFER_ERR_NO_UNDO when
   there is none, or when it is not this file's, or belongs to another user (then nothing is changed). Only allocator
   and follow_links of the options count. When it was a coffer_model_writer for that path that was interrupted, its save
   is finished or undone. Any thread may call it. */
COFFER_API coffer_status coffer_recover(const char *path, const coffer_edit_options *options, coffer_error *err);
/* What was wrong with a file, and how it was mended. The caller sets struct_size, by the initialiser. Since 0.2. */
typedef struct coffer_mended_file {
    size_t struct_size;
    coffer_edit_way way; /* COFFER_EDITED_NOTHING: nothing was wrong, or `dry_run` */
    bool metadata;       /* values of the metadata were no strings */
    uint64_t trailing;   /* bytes that follow the tensors and belong to none, … */
    coffer_status looks; /* … and what they look like: COFFER_ERR_IS_ZEROS if all are zeros, another COFFER_ERR_IS_...;
                             COFFER_OK: that is not known, … */
    bool tensors;        /* … or whether they begin as a file of tensors does */
} coffer_mended_file;
#define COFFER_MENDED_FILE_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(coffer_mended_file), COFFER_EDITED_NOTHING, false, 0, COFFER_OK, false                                  \
    }

/*
 * Mends what keeps a file of tensors from being opened though all tensors are there:
 *
 *   - bytes after the data are cut off, in place; after a crash all, some or none of them are left
 *   - values of the metadata that are no strings become strings, their JSON text, by an edit as coffer_edit_metadata
 *     makes it
 *
 * The file is otherwise what coffer_parse accepts, or this fails as that does; so no byte that is cut belongs to a
 * tensor. With `dry_run` nothing is written, and `mended` says what would be. What else is said of coffer_edit_metadata
 * is true of this. `mended` may be NULL. Since 0.2.
 */
COFFER_API coffer_status coffer_mend_file(const char *path, const coffer_edit_options *options, bool dry_run,
                                          coffer_mended_file *mended, coffer_error *err);

/* What was made of an index. The caller sets struct_size, by the initialiser. Since 0.2. */
typedef struct coffer_mended_index {
    size_t struct_size;
    coffer_edit_way way; /* COFFER_EDITED_REWRITE: it was written, or would be; COFFER_EDITED_NOTHING: it was right */
    char name[256];      /* of the index, without its folder */
    size_t file_count;   /* of the model */
    size_t tensor_count;
    uint64_t total_size;  /* of the tensors, in bytes */
    size_t missing_count; /* tensors that the old index names and no file has: they are lost, or of another model */
    bool damaged;         /* the old index breaks a rule, so that nothing was taken from it */
} coffer_mended_index;
#define COFFER_MENDED_INDEX_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_mended_index), COFFER_EDITED_NOTHING, "", 0, 0, 0, 0, false                                      \
    }

/*
 * Writes or mends the index of a model of several files, from their headers: which file each tensor is in, and the
 * total_size. What else the metadata of a readable index say stays, byte for byte. No other file is touched, and the
 * index takes its place when it is complete. `path` is the index, a folder, or one of several files that are named as a
 * set.
 *
 * The files of the model are those that the index names, if all of them exist, together with the rest of a complete set
 * (PREFIX-00001-of-00003.safetensors) that they belong to; else those of the only complete set. Fails where it is not
 * certain which files are the model: COFFER_ERR_AMBIGUOUS where there are several sets, or the index names another file
 * that exists (the path of one of the files then says that its set is meant), COFFER_ERR_SHARD_MISSING,
 * COFFER_ERR_TWO_SHARDS, and what coffer_open says of a file. COFFER_ERR_ARGUMENT for a model of one file, which needs
 * no index.
 *
 * With `dry_run` nothing is written. Of the options allocator, max_header_size, follow_links and sync count. `mended`
 * may be NULL. Any thread may call it. Since 0.2.
 */
COFFER_API coffer_status coffer_mend_index(const char *path, const coffer_edit_options *options, bool dry_run,
                                           coffer_mended_index *mended, coffer_error *err);
/* For files that a program writes itself: gives the new file that is open in `fd` the rights of the file at `path`,
   whose place it is to take, as every writer here does: owner, group, mode and access control list. What is not
   permitted is left out, and then nobody may do more with the new file than with the old one. COFFER_ERR_NOT_FOUND,
   COFFER_ERR_IO. Any thread may call it. Since 0.2. */
COFFER_API coffer_status coffer_take_rights(int fd, const char *path, coffer_error *err);

#ifdef __cplusplus
}
#endif

/* coffer/fetch.h - models from elsewhere, downloaded into a folder. All of it is there since 0.2. */

#ifdef __cplusplus
extern "C" {
#endif

/* How a model is fetched. */
typedef struct coffer_fetch_options {
    size_t struct_size;
    coffer_progress progress; /* in bytes of all files, those that were there already included; NULL: none */
    void *progress_ctx;
    uint32_t threads; /* connections at most, up to 64; 0: 64, or fewer where that many do not pay */
    bool force;       /* replace files that are there, and take a model of one file away that is in the way */
    bool *unchanged;  /* becomes true when all of it was there already, and nothing was done; NULL: it is not told */
} coffer_fetch_options;
#define COFFER_FETCH_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_fetch_options), NULL, NULL, 0, false, NULL                                                       \
    }

/*
 * Downloads a model that was opened by URL (or copies one that was opened by path) into a folder that exists, under
 * its files' names; of several files with an index, of a model named as a whole with its config.json, tokenizer and
 * the like. Open it with `to_fetch`. With `count` tensors of the model in `tensors`, in any order, the files have only
 * those, and the index names those; with NULL (`count` is then coffer_count) all, and every file as it is, byte for
 * byte, the index too. Files get their names when every one of them is complete, and those of several files as by
 * coffer_model_writer: COFFER_ERR_SHADOWED, COFFER_ERR_LOCKED, COFFER_ERR_UNFINISHED. Until then they are NAME.coffer-
 * part, with which the next call for the same goes on, whatever ended this one. A SHA-256 that the server states is
 * compared. Nothing is done, with COFFER_OK, where all files are there with the same bytes, which is shown by that
 * SHA-256 or, of small files and near ones, by comparing them. docs/network.md has the rest. COFFER_ERR_NO_TENSOR when
 * the list is empty, COFFER_ERR_DATA_TRUNCATED for a tensor that is not whole.
 */
COFFER_API coffer_status coffer_fetch(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                      const char *folder, const coffer_fetch_options *options, coffer_error *err);

#ifdef __cplusplus
}
#endif

/* coffer/integrity.h - digests of tensors and models: computing, recording and verifying them. All of it is there since
   0.2. */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Computing and verifying ------------------------------------------------------------------------------------- */

/* Under these keys of its metadata a file records digests, by which accidents are noticed; docs/integrity.md has every
   byte. They do not protect from changes on purpose, which can include the digests: signatures do (manifest.h). */
#define COFFER_DIGESTS_KEY "coffer.digests"                 /* of each tensor */
#define COFFER_METADATA_DIGEST_KEY "coffer.metadata_digest" /* of all other metadata, the list above included */
/* Under these keys of its metadata the index of several files records digests of the whole, by which files of another
   version, and files that are missing, are noticed. coffer_model_writer writes them, and coffer_record_content. */
#define COFFER_CONTENT_DIGEST_KEY "coffer.content_digest" /* of all tensors, as coffer_digest_content computes it */
#define COFFER_SHARD_DIGESTS_KEY "coffer.shard_digests"   /* the same of each file by itself */

/* The digests of a tensor, each in the first coffer_algorithm_digest_size bytes; the others are 0. */
typedef struct coffer_digest {
    uint8_t data[COFFER_LARGEST_DIGEST_SIZE];   /* of the tensor's bytes */
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE]; /* of its name, dtype and shape, and the digest above */
} coffer_digest;

/* How tensors are hashed, to compute their digests or to verify them. */
typedef struct coffer_digest_options {
    size_t struct_size;
    coffer_progress progress; /* in bytes of the tensors; NULL: none */
    void *progress_ctx;
    uint32_t threads; /* at most that many at once, the caller's included; 0: by size and processors */
} coffer_digest_options;
#define COFFER_DIGEST_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_digest_options), NULL, NULL, 0                                                                   \
    }

/* Computes the digests of `count` tensors, in their order; of all in coffer_at's order when `tensors` is NULL (`count`
   is then coffer_count). Several at once, the longest first, from the map where there is one: the digest of one tensor
   takes one processor. `progress` counts the tensors' bytes. A failure names the tensor in err->tensor.
   COFFER_ERR_NO_ALGORITHM. */
COFFER_API coffer_status coffer_digest_tensors(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                               coffer_algorithm algorithm, coffer_digest *digests,
                                               const coffer_digest_options *options, coffer_error *err);
/* Computes from the digests of all its tensors, in coffer_at's order, that of a model's content: whatever its files,
   their order, padding and metadata, two models have it in common when their tensors are the same. No I/O.
   COFFER_ERR_BUFFER_SIZE unless `digest_size` is that of the algorithm. */
COFFER_API coffer_status coffer_digest_content(const coffer *model, const coffer_digest *digests,
                                               coffer_algorithm algorithm, void *digest, size_t digest_size,
                                               coffer_error *err);

/* Which digests shard `shard` records; COFFER_NO_ALGORITHM for none, or none that this version knows. */
COFFER_API coffer_algorithm coffer_recorded_algorithm(const coffer *model, size_t shard);
/* By which algorithm the index of a model records digests of the whole; COFFER_NO_ALGORITHM for none, none that this
   version knows, and a model without an index. */
COFFER_API coffer_algorithm coffer_recorded_content(const coffer *model);
/* Verifies `count` tensors, all when `tensors` is NULL, by the digests that their files record, and the metadata of
   those files. Everything is verified before it fails, and sound[i] (NULL: not wanted) says whether tensors[i] is what
   was recorded. COFFER_OK only when all is: COFFER_ERR_NO_DIGESTS when a file records none, COFFER_ERR_DIGESTS when
   they cannot be used, COFFER_ERR_TENSOR_DIGEST with the first tensor that was changed, renamed, replaced or added in
   err->tensor, or when one is missing of all that are recorded, COFFER_ERR_METADATA_DIGEST. The work is done as by
   coffer_digest_tensors. Where the index records digests of the whole, what the files record is compared with that,
   too, however many tensors are asked for (of none, that alone is done, without reading data):
   COFFER_ERR_CONTENT_DIGEST when a file is of another version or missing. */
COFFER_API coffer_status coffer_verify(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                       bool *sound, const coffer_digest_options *options, coffer_error *err);

/* ---- Recording --------------------------------------------------------------------------------------------------- */

/* Computes the digests of a file's tensors and records them in its metadata, by an edit: in place when they fit in the
   header's slack. What was recorded before is replaced without being verified. `progress` counts the bytes that are
   hashed. They are recorded in the file that was hashed, or in none (COFFER_ERR_CHANGED). Of a model of several files
   every file gets those of its tensors, and then the index what coffer_record_content writes; *way is that of the most
   thorough of these edits. Fails as coffer_edit_metadata does. */
COFFER_API coffer_status coffer_record_digests(const char *path, coffer_algorithm algorithm,
                                               const coffer_edit_options *options, coffer_edit_way *way,
                                               coffer_error *err);
/* Records digests of the whole in the index of a model of several files, `path` being that of the index or of its
   folder: from what the files record, which coffer_record_digests has written to each of them before. No data is read,
   and nothing is verified. The index gets a new file (COFFER_EDITED_REWRITE), in which everything else keeps its bytes.
   Fails with COFFER_ERR_NO_DIGESTS when a file records none, with COFFER_ERR_DIGESTS when they do not all record by one
   algorithm, and with COFFER_ERR_LOCKED while another program saves a model in the folder. Of the options allocator,
   max_header_size, follow_links and sync count. */
COFFER_API coffer_status coffer_record_content(const char *path, const coffer_edit_options *options,
                                               coffer_edit_way *way, coffer_error *err);

#ifdef __cplusplus
}
#endif

/*
 * coffer/load.h - loading: many tensors, or parts of them, into host or device memory as fast as disk, network and bus
 * allow. The conventions of coffer/base.h hold.
 *
 *   coffer_plan     what is wanted of a model, and where it goes. No I/O.
 *   coffer_window   what bytes pass through on their way: memory of a fixed size, threads, registrations with devices.
 *                   It may serve any number of loads, one after the other, so that pinning is paid for once.
 *   coffer_load     one plan that is carried out in the background. Tensors are handed out as they become ready.
 *   coffer_exchange who reads what where several hosts load one model, and who sends what to whom.
 *
 * docs/loading.md says how a load chooses its engine, and what every option does. All of it is since 0.2.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

/* A memory space: host memory, or that of one accelerator. Any number of threads may use it at once. */
typedef struct coffer_device coffer_device;

/* Whose driver a device is used by. */
typedef enum coffer_device_kind {
    COFFER_DEVICE_HOST = 0,
    COFFER_DEVICE_CUDA = 1, /* by the driver's libcuda */
    COFFER_DEVICE_HIP = 2   /* by libamdhip64 */
} coffer_device_kind;

/* What a device says of itself. */
typedef struct coffer_device_info {
    size_t struct_size; /* set before the call */
    coffer_device_kind kind;
    int32_t number;  /* among those of its kind that this process sees; 0 for host memory */
    char name[128];  /* as the driver calls it */
    uint64_t total;  /* bytes of memory */
    uint64_t free;   /* of them now free */
    bool integrated; /* its memory is the host's, so what is in flight takes from what tensors need */
    bool registers;  /* host memory can be registered for faster copies */
} coffer_device_info;

/*
 * Opens "cpu", "cuda", "cuda:N" or "hip:N" ("cuda" alone is number 0). The driver is loaded now; nothing is done to any
 * other device. The device's primary context is used, as frameworks do, and retained until coffer_device_close.
 * COFFER_ERR_NO_DEVICE says what is missing: no driver, a stub of it, one that is too old, no device of that number, no
 * permission.
 */
COFFER_API coffer_status coffer_device_open(coffer_device **device, const char *name, const coffer_allocator *allocator,
                                            coffer_error *err);
/* Windows that were used for it, and memory that loads handed out, keep it open until they are freed themselves; plans,
   running loads and memory of coffer_device_allocate do not. NULL is ignored. */
COFFER_API void coffer_device_close(coffer_device *device);
/* COFFER_ERR_DEVICE when the driver fails. */
COFFER_API coffer_status coffer_device_describe(coffer_device *device, coffer_device_info *info, coffer_error *err);
/* Memory of the device, `size` bytes of at least 1, aligned to 256 bytes. *address is a pointer's value in host memory,
   else an address that only the device understands. COFFER_ERR_DEVICE_MEMORY carries what was asked for as
   err->expected and what is free as err->actual. */
COFFER_API coffer_status coffer_device_allocate(coffer_device *device, uint64_t size, uint64_t *address,
                                                coffer_error *err);
/* Releases it, with the size that was asked for; address 0 is ignored. What runs on the device must not need it any
   more. */
COFFER_API void coffer_device_release(coffer_device *device, uint64_t address, uint64_t size);
/* Copies `size` bytes of the device's memory to `buffer`, and waits for that. */
COFFER_API coffer_status coffer_device_read(coffer_device *device, uint64_t address, void *buffer, uint64_t size,
                                            coffer_error *err);

/* One thing that loading may use: a device, or a facility of the system. Texts are borrowed for the call. */
typedef struct coffer_facility {
    const char *name; /* "cpu", "cuda:0", "io_uring", "direct reading", "huge pages", "locked memory", … */
    bool usable;
    const char *detail; /* what it is, or why it cannot be used */
    const char *advice; /* what to change so that it can be; "" if nothing is known */
} coffer_facility;
/* Called for each; a non-zero answer ends the list. */
typedef int (*coffer_facility_visitor)(void *ctx, const coffer_facility *facility);
/* Names what there is and what there is not. `path` is a file or folder whose file system is asked, too; NULL: none. */
COFFER_API coffer_status coffer_list_facilities(const char *path, const coffer_allocator *allocator,
                                                coffer_facility_visitor visit, void *ctx, coffer_error *err);

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

/* What is wanted of one model. It belongs to one thread at a time; the model must outlive it. */
typedef struct coffer_plan coffer_plan;

/* Where the result of one item goes. */
typedef struct coffer_place {
    coffer_device *device;  /* NULL: host memory */
    uint64_t address;       /* of the first element: a pointer's value, or an address of the device */
    uint64_t size;          /* bytes from there on that may be written */
    const int64_t *strides; /* bytes from one element to the next along each dimension of the result, none negative, and
                               0 only for dimensions of one; copied. NULL: row-major, without gaps, as it has to be
                               for F4 and F6, whose elements are no whole bytes */
    /* Of the device, as its driver numbers it: what is queued there when the load gets to the item comes first. 0: the
       default stream; 2, each thread's own, is refused. Without meaning in host memory. What was handed out is in place
       for every stream. */
    uint64_t stream;
} coffer_place;

/* One item of a plan. Pointers are borrowed from the plan. */
typedef struct coffer_plan_item {
    const coffer_tensor *tensor;
    const uint64_t *shape; /* of the result, `rank` dimensions */
    size_t rank;
    uint64_t size;         /* of the result, in bytes */
    bool whole;            /* all of the tensor, in its order: its digest can be checked */
    coffer_device *device; /* NULL: host memory */
} coffer_plan_item;

/* What a plan costs, of one shard or of all. Nothing is read to know that. */
typedef struct coffer_plan_cost {
    size_t struct_size; /* set before the call */
    uint64_t items;
    uint64_t needed;   /* bytes of the results */
    uint64_t read;     /* bytes that are read for them: gaps that cost less than another request are read, too */
    uint64_t requests; /* reads */
} coffer_plan_cost;

/* Makes an empty plan. Its allocator is also that of its loads, whose threads call it one at a time, but while the
   program's threads run: so it must be safe in threads. NULL: coffer_libc_allocator(). */
COFFER_API coffer_status coffer_plan_new(coffer_plan **plan, const coffer *model, const coffer_allocator *allocator,
                                         coffer_error *err);
/* Releases a plan, whose loads have been freed; NULL is ignored. */
COFFER_API void coffer_plan_free(coffer_plan *plan);
/*
 * Adds a tensor, or the slice of it that `count` indices name, with the rules of coffer_read_slice. `place` NULL: the
 * load allocates host memory, and hands it out. *item becomes the item's number; they count from 0, in the order in
 * which they are added. The same bytes may be wanted several times. COFFER_ERR_PLACE when the place is too small or its
 * strides let elements overlap.
 */
COFFER_API coffer_status coffer_plan_add(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                         size_t count, const coffer_place *place, size_t *item, coffer_error *err);
/* The same for memory that the load allocates on a device. */
COFFER_API coffer_status coffer_plan_add_on(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                            size_t count, coffer_device *device, size_t *item, coffer_error *err);
/*
 * Adds what rank `rank` of `world` takes of a tensor that is split along dimension `dim`. A fused tensor has several
 * parts along it, such as the queries, keys and values of an attention: `parts` are their sizes, in elements, whose sum
 * is that of the dimension; each is split by itself, and what the rank takes of them is put together in that order.
 * With part_count 0 the whole dimension is one part. COFFER_ERR_INDEX for a part that cannot be split evenly. `device`
 * is used where `place` is NULL.
 */
COFFER_API coffer_status coffer_plan_add_rank(coffer_plan *plan, const coffer_tensor *tensor, size_t dim,
                                              const uint64_t *parts, size_t part_count, uint32_t rank, uint32_t world,
                                              const coffer_place *place, coffer_device *device, size_t *item,
                                              coffer_error *err);

/* A rule of how tensors are split among ranks: the first whose pattern (coffer_match) fits a tensor's name holds. */
typedef struct coffer_split_rule {
    const char *pattern;
    int32_t dim; /* which dimension is split; -1: every rank takes the whole */
} coffer_split_rule;
/* Adds every tensor of the model as rank `rank` of `world` takes it. `rules` NULL: those of the usual transformers, by
   the names of their weights, which docs/loading.md lists. A tensor that no rule fits, or that cannot be split evenly,
   is taken whole. `device` NULL: host memory. */
COFFER_API coffer_status coffer_plan_add_all(coffer_plan *plan, const coffer_split_rule *rules, size_t rule_count,
                                             uint32_t rank, uint32_t world, coffer_device *device, coffer_error *err);

/* How many items a plan has. */
COFFER_API size_t coffer_plan_count(const coffer_plan *plan);
/* Describes an item. False when `item` is not below the count. */
COFFER_API bool coffer_plan_at(const coffer_plan *plan, size_t item, coffer_plan_item *out);
/* What shard `shard` costs; SIZE_MAX: all of them together. */
COFFER_API coffer_status coffer_plan_cost_of(const coffer_plan *plan, size_t shard, coffer_plan_cost *cost,
                                             coffer_error *err);
/* How a load that began now, in a window without an engine by name, would read shard `shard`; SIZE_MAX: all of them.
   *engines becomes a set of bits, 1 << coffer_engine for each; 0 where nothing is wanted. The files are opened, and the
   system is asked about them, but at most a block of each is read. What it says may change with what is cached. */
COFFER_API coffer_status coffer_plan_engines_of(const coffer_plan *plan, size_t shard, uint32_t *engines,
                                                coffer_error *err);

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* How bytes of a file are read. One that is asked for by name is used or fails with COFFER_ERR_ENGINE, which says what
   is missing and what to do; no keeper is asked then. */
typedef enum coffer_engine {
    COFFER_ENGINE_AUTO = 0,     /* by what the system says of each file, and by what is measured */
    COFFER_ENGINE_BUFFERED = 1, /* through the page cache, by threads */
    COFFER_ENGINE_DIRECT = 2,   /* past the page cache, by threads */
    COFFER_ENGINE_RING = 3,     /* past the page cache, by io_uring */
    COFFER_ENGINE_CUFILE = 4    /* from the disk into the device, by cuFile */
} coffer_engine;

/* What bytes pass through, from load to load. */
typedef struct coffer_window coffer_window;

/* How a window is made. The default is good for most uses. */
typedef struct coffer_window_options {
    size_t struct_size;
    const coffer_allocator *allocator;
    uint64_t memory;      /* bytes in flight, at most; 0: 64 MiB, more where a device has much memory of its own */
    uint32_t threads;     /* 0: by engine and processors */
    coffer_engine engine; /* for all files of its loads */
    const char *group;    /* with `ranks` above 1: processes of this user on this host that name the same group and
                             load the same model read each byte once, together; NULL: any that loads the model */
    uint32_t ranks;       /* how many processes that are; 0 and 1: this one alone */
    uint32_t rank;        /* which of them this is, below `ranks` */
} coffer_window_options;
#define COFFER_WINDOW_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_window_options), NULL, 0, 0, COFFER_ENGINE_AUTO, NULL, 0, 0                                      \
    }

/* Makes a window. Its memory comes when the first load needs it. One load reads through it at a time, while others that
   were started wait for it. */
COFFER_API coffer_status coffer_window_new(coffer_window **window, const coffer_window_options *options,
                                           coffer_error *err);
/* No load may use it any more. */
COFFER_API void coffer_window_free(coffer_window *window);

/* ---- Loads ------------------------------------------------------------------------------------------------------- */

/* One plan that is being carried out. Any number of threads may call its functions at once, but coffer_load_free. */
typedef struct coffer_load coffer_load;
/* Memory that a load allocated and handed out. It lives until coffer_memory_free, whatever becomes of the load. */
typedef struct coffer_memory coffer_memory;

/* In which order a load reads. */
typedef enum coffer_load_order {
    COFFER_ORDER_FILE = 0, /* as the bytes lie in the files: the fastest */
    COFFER_ORDER_PLAN = 1  /* as the items were added */
} coffer_load_order;

/* How a load is carried out. */
typedef struct coffer_load_options {
    size_t struct_size;
    uint64_t host_budget;     /* bytes of host memory that are allocated and not yet taken; 0: no limit */
    uint64_t device_budget;   /* the same of each device */
    coffer_load_order order;  /* in which items are read */
    bool unverified;          /* digests that the files record are not checked, unless the model was opened to verify */
    bool uncached;            /* leave nothing in the page cache, also where it would serve others */
    coffer_progress progress; /* called by a thread of the load's own, in bytes of the results; NULL: none */
    void *progress_ctx;
} coffer_load_options;
#define COFFER_LOAD_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_load_options), 0, 0, COFFER_ORDER_FILE, false, false, NULL, NULL                                 \
    }

/* An item that is ready. */
typedef struct coffer_loaded {
    size_t item; /* SIZE_MAX: there is none left */
    const coffer_tensor *tensor;
    coffer_device *device; /* NULL: host memory */
    uint64_t address;      /* of the first element */
    uint64_t size;         /* of the result, in bytes */
    coffer_memory *memory; /* the caller's to free; NULL where the plan gave the place */
    bool verified;         /* its digest was recorded, and is that of its bytes */
} coffer_loaded;

/* What a load has done so far. */
typedef struct coffer_load_stats {
    size_t struct_size;     /* set before the call */
    uint64_t wanted;        /* bytes of the results, all in all */
    uint64_t done;          /* of them, in place */
    uint64_t read;          /* bytes read, from wherever */
    uint64_t cached;        /* of them, known to have been in the page cache; little is read without looking */
    uint64_t direct;        /* of them, read past it */
    uint64_t requests;      /* reads */
    uint64_t nanoseconds;   /* since coffer_load_start, until the end */
    uint64_t first;         /* until the first item was ready; 0: none was */
    uint64_t waited_source; /* thread time that was spent waiting for bytes, … */
    uint64_t waited_device; /* … for the device, … */
    uint64_t waited_caller; /* … and for the caller to take what fills a budget */
    uint32_t engines;       /* bit 1 << coffer_engine for each that was used */
    uint32_t threads;       /* that worked at once, at most */
} coffer_load_stats;

/*
 * Starts carrying out a plan, and returns. Everything that can be refused is refused here, before anything is read:
 * COFFER_ERR_PLACE for places of two items that overlap, COFFER_ERR_BUDGET for an item that is larger than its budget,
 * COFFER_ERR_ENGINE, COFFER_ERR_DIGESTS and COFFER_ERR_METADATA_DIGEST for records that are damaged. A plan of little
 * is carried out before this returns, and so is any that fits its budgets where the system gives no thread. The plan
 * and its model must stay until coffer_load_free, and the plan is not changed meanwhile.
 * `window` NULL: one of the load's own. `options` are copied.
 */
COFFER_API coffer_status coffer_load_start(coffer_load **load, const coffer_plan *plan, coffer_window *window,
                                           const coffer_load_options *options, coffer_error *err);
/*
 * Waits for the next item that is ready and was not taken, at most `milliseconds` (UINT64_MAX: as long as it takes),
 * and hands it out. COFFER_NEED_MORE when the time is over. Items of given places are handed out in the same way, so
 * that their use can begin. After the last one loaded->item is SIZE_MAX. A load that has failed hands out nothing more:
 * every call returns that failure, COFFER_ERR_CHANGED for a file that was changed meanwhile, COFFER_ERR_TENSOR_DIGEST,
 * COFFER_ERR_DEVICE, COFFER_ERR_PEER for one of another rank.
 */
COFFER_API coffer_status coffer_load_next(coffer_load *load, uint64_t milliseconds, coffer_loaded *loaded,
                                          coffer_error *err);
/* The same for one item, which is read next if it was not read yet. COFFER_ERR_TAKEN when it was handed out before. */
COFFER_API coffer_status coffer_load_take(coffer_load *load, size_t item, uint64_t milliseconds, coffer_loaded *loaded,
                                          coffer_error *err);
/* Waits until everything is in place, without handing anything out. COFFER_ERR_BUDGET when that cannot be, since what
   a budget has space for was not taken. */
COFFER_API coffer_status coffer_load_wait(coffer_load *load, uint64_t milliseconds, coffer_error *err);
/* Ends a load soon: its calls fail with COFFER_ERR_CANCELLED. From any thread. */
COFFER_API void coffer_load_cancel(coffer_load *load);
/* From any thread. */
COFFER_API void coffer_load_stats_of(coffer_load *load, coffer_load_stats *stats);
/* Cancels what is not done, waits for it, and releases what was not taken. */
COFFER_API void coffer_load_free(coffer_load *load);
/* Releases memory that was handed out. From any thread. */
COFFER_API void coffer_memory_free(coffer_memory *memory);

/* ---- Several hosts ----------------------------------------------------------------------------------------------- */

/*
 * Hosts that have no disk in common, or one that is slower than the network between them, load a model together: each
 * byte that any of them wants is read by one of them, and goes from there to all that want it. Which host reads what,
 * and who sends what to whom, is a schedule, which each host computes by itself from the plans of all. How bytes get
 * from host to host is up to the caller: MPI, NCCL, UCX, sockets.
 *
 * The files are cut into pieces of at most 2 MiB. Rounds follow each other: in each, a host reads some pieces, and all
 * hosts exchange what they have read, while what comes next is read already.
 */

/* Who reads what, and who sends what to whom. It never changes, and any number of threads may use it at once. */
typedef struct coffer_exchange coffer_exchange;

/* How the schedule is made. The same on all hosts. */
typedef struct coffer_exchange_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* of the schedule; NULL: coffer_libc_allocator() */
    uint64_t memory; /* bytes that all hosts together read in a round; 0: 256 MiB. A host reads one piece at least. A
                        host that wants everything has twice this for messages and twice its part of it for reading */
} coffer_exchange_options;
#define COFFER_EXCHANGE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(coffer_exchange_options), NULL, 0                                                                       \
    }

/* One piece: bytes of a file that one host reads. */
typedef struct coffer_exchange_piece {
    uint32_t host;  /* that reads it */
    uint64_t round; /* in which it does */
    size_t shard;
    uint64_t begin; /* bytes of the shard's file; long gaps between what is wanted are not read */
    uint64_t end;
    uint64_t read; /* how many bytes are read */
} coffer_exchange_piece;

/*
 * Makes the schedule for `world` hosts, of which host i wants plans[i]. Each host calls this with the plans of all, in
 * the same order, for its own handle of the same model; places matter only in its own plan. The plans must outlive the
 * exchange, and are not changed any more. Nothing is read.
 */
COFFER_API coffer_status coffer_exchange_new(coffer_exchange **exchange, const coffer_plan *const *plans,
                                             uint32_t world, const coffer_exchange_options *options, coffer_error *err);
/* NULL is ignored. */
COFFER_API void coffer_exchange_free(coffer_exchange *exchange);
/* How many rounds it takes. */
COFFER_API uint64_t coffer_exchange_rounds(const coffer_exchange *exchange);
/* How many pieces are read. */
COFFER_API size_t coffer_exchange_count(const coffer_exchange *exchange);
/* Describes a piece: they are in the order of rounds, in a round in that of the hosts, and of a host in that of the
   files. False when `piece` is not below the count. */
COFFER_API bool coffer_exchange_at(const coffer_exchange *exchange, size_t piece, coffer_exchange_piece *out);
/* Bytes of the model that host `from` sends to host `to` in a round; to itself: what it has read of its own plan. 0 for
   a round or host that there is not. What is wanted by several items of a plan is sent for each. */
COFFER_API uint64_t coffer_exchange_size(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t to);

/* What a host sends and receives at one time: for and from each host i sizes[i] bytes at `offsets[i]`, one after the
   other without gaps. For and from itself: none. */
typedef struct coffer_parcels {
    const void *send;
    const uint64_t *send_sizes;
    const uint64_t *send_offsets;
    void *receive;
    const uint64_t *receive_sizes;
    const uint64_t *receive_offsets;
} coffer_parcels;

/* The way between hosts. The struct is only read. */
typedef struct coffer_transport {
    /*
     * Sends and receives all of `parcels`, which are borrowed for the call, and returns COFFER_OK; or fails with a
     * status of its choice, and may fill *err (never NULL), else the library does. All hosts call it equally often, and
     * in the same order, with sizes that fit each other, as an "all to all" of MPI wants. The thread that called
     * coffer_exchange_run calls it. A host that does not answer any more must make it fail in bounded time; that is
     * what bounds the time in which all hosts get to know of it.
     */
    coffer_status (*carry)(void *ctx, const coffer_parcels *parcels, coffer_error *err);
    void *ctx;
    uint32_t host;  /* which this is, below `world` */
    uint32_t world; /* how many there are */
} coffer_transport;

/* How an exchange is carried out. */
typedef struct coffer_exchange_run_options {
    size_t struct_size;
    coffer_window *window;    /* what this host reads through, without ranks; NULL: one of its own */
    coffer_progress progress; /* called by the calling thread, in bytes of the host's results; NULL: none. A non-zero
                                 answer ends the exchange with COFFER_ERR_CANCELLED, on the other hosts, too */
    void *progress_ctx;
} coffer_exchange_run_options;
#define COFFER_EXCHANGE_RUN_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_exchange_run_options), NULL, NULL, NULL                                                          \
    }

/*
 * Loads this host's plan together with the others, all of which call this at about the same time, and returns when
 * everything is in place. loaded[i] becomes item i of the host's plan, of which there is space for coffer_plan_count:
 * memory that the plan gave no place for is the caller's. All places are in host memory; COFFER_ERR_UNSUPPORTED
 * for a device. Digests are not checked: the bytes of a tensor come from several hosts; coffer_verify does that.
 *
 * First the hosts compare their schedules, and each message says whether its sender has failed. So when one fails, it
 * returns its failure and all others COFFER_ERR_PEER with the number of that host and what it said, in the same round.
 * The same for hosts whose models or plans differ. After a failure `loaded` is all zeros, and what the places have is
 * undefined.
 */
COFFER_API coffer_status coffer_exchange_run(const coffer_exchange *exchange, const coffer_transport *transport,
                                             const coffer_exchange_run_options *options, coffer_loaded *loaded,
                                             coffer_error *err);
/* For a host that cannot take part, as it could not open its model or make its exchange: tells the others, whose
   coffer_exchange_run fails with COFFER_ERR_PEER, and what `why` says. In place of coffer_exchange_run. */
COFFER_API coffer_status coffer_exchange_refuse(const coffer_transport *transport, const coffer_error *why,
                                                coffer_error *err);

/* ---- Keeping a model in memory ----------------------------------------------------------------------------------- */

/* A model whose files are held in memory that nobody can change, for processes of this user that load it later. */
typedef struct coffer_keeper coffer_keeper;

/* Reads the files of a model at a path into sealed memory, and answers processes that open a load of it, until
   coffer_keeper_free. Loads find it by themselves, as long as the files are not changed, but those in a window whose
   engine is named, which read the files; digests that they record are checked first. Memory that a load has attached to
   stays for that load. COFFER_ERR_UNSUPPORTED where the system has no sealed memory, and for models that are not in
   files; COFFER_ERR_LOCKED when another process keeps one of the files. */
COFFER_API coffer_status coffer_keeper_new(coffer_keeper **keeper, const char *path, const coffer_allocator *allocator,
                                           coffer_progress progress, void *progress_ctx, coffer_error *err);
/* What it holds, in bytes, and how many loads have attached to it so far. From any thread. */
COFFER_API void coffer_keeper_state(coffer_keeper *keeper, uint64_t *bytes, uint64_t *attached);
/* Ends it: what others have attached to stays theirs. NULL is ignored. */
COFFER_API void coffer_keeper_free(coffer_keeper *keeper);

#ifdef __cplusplus
}
#endif

/* coffer/manifest.h - digests of files, kept beside them, signed or not. All of it is there since 0.2. */

#ifdef __cplusplus
extern "C" {
#endif

/* Digests of files, kept beside them. docs/integrity.md describes what is read and written. */
typedef enum coffer_manifest_format {
    COFFER_MANIFEST_LINES = 1,     /* "HEX  NAME", as sha256sum and xxhsum write and check them */
    COFFER_MANIFEST_STATEMENT = 2, /* the JSON of OpenSSF model signing, unsigned: an in-toto statement */
    COFFER_MANIFEST_BUNDLE = 3     /* the same, signed: a sigstore bundle, as its tool writes and checks them */
} coffer_manifest_format;

/* Digests of files by their names, read or made. One thread at a time while it is added to or written, any number to
   look at it. */
typedef struct coffer_manifest coffer_manifest;

/* A file of a manifest and its digest. */
typedef struct coffer_manifest_entry {
    const char *name; /* below the manifest's folder, with slashes, without ".."; "." alone: the model, one file */
    coffer_algorithm algorithm;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE]; /* the algorithm's size counts */
} coffer_manifest_entry;

/* Reads a manifest of any format, which is known by its content; hostile ones are refused. With a `key` (a public one,
   in PEM) it must be a bundle whose signature is by that key: COFFER_ERR_NOT_SIGNED, COFFER_ERR_SIGNATURE. Without one
   a bundle's signature is ignored. err->offset is the byte of the manifest, in a bundle of the statement in it.
   COFFER_ERR_MANIFEST and its like, 170 to 173, for what is none, COFFER_ERR_KEY for what is no key. */
COFFER_API coffer_status coffer_manifest_parse(coffer_manifest **manifest, const void *bytes, size_t size,
                                               const char *key, size_t key_len, const coffer_allocator *allocator,
                                               coffer_error *err);
/* Makes an empty manifest to be filled. `model` is what statements call the model. */
COFFER_API coffer_status coffer_manifest_new(coffer_manifest **manifest, const char *model,
                                             const coffer_allocator *allocator, coffer_error *err);
/* Releases the manifest, and with it its entries and its text; NULL is ignored. */
COFFER_API void coffer_manifest_free(coffer_manifest *manifest);
/* Adds a file by its name, which is copied, and its digest, of exactly its algorithm's size. COFFER_ERR_MANIFEST_NAME
   for a name that leads out of the manifest's folder or is no name; one that comes twice fails when the manifest is
   written. */
COFFER_API coffer_status coffer_manifest_add(coffer_manifest *manifest, const char *name, coffer_algorithm algorithm,
                                             const void *digest, size_t digest_size, coffer_error *err);
/* Names a file or folder that statements are silent about, as they say themselves. */
COFFER_API coffer_status coffer_manifest_ignore(coffer_manifest *manifest, const char *name, coffer_error *err);
/* Sets whether symbolic links to files count as files, as statements say too. */
COFFER_API void coffer_manifest_set_follows_links(coffer_manifest *manifest, bool follows);
/* Writes it; *text is borrowed until the next call or free. A bundle wants a private `key` in PEM (P-256, P-384 or
   P-521), other formats NULL. COFFER_ERR_MANIFEST_ALGORITHM for a statement with digests other than SHA-256.
   COFFER_ERR_MANIFEST_NAME for names that come twice or that the format cannot spell, COFFER_ERR_KEY for what is no
   key. */
COFFER_API coffer_status coffer_manifest_write(coffer_manifest *manifest, coffer_manifest_format format,
                                               const char *key, size_t key_len, const char **text, size_t *text_len,
                                               coffer_error *err);
/* Entry `i`, in the order they were read or added, borrowed until the next is added; NULL when i is not below the
   count. */
COFFER_API const coffer_manifest_entry *coffer_manifest_at(const coffer_manifest *manifest, size_t i);
/* Files of the manifest. */
COFFER_API size_t coffer_manifest_count(const coffer_manifest *manifest);
/* What it was read from; 0 for one that was made. */
COFFER_API coffer_manifest_format coffer_manifest_format_of(const coffer_manifest *manifest);
/* Whether a file of that name is ignored: it was named to coffer_manifest_ignore, or lies below such a folder. */
COFFER_API bool coffer_manifest_ignores(const coffer_manifest *manifest, const char *name);
/* Whether symbolic links to files count as files. */
COFFER_API bool coffer_manifest_follows_links(const coffer_manifest *manifest);

#ifdef __cplusplus
}
#endif

/*
 * coffer/mix.h - models computed from others: averages, and adapters (LoRA) merged into what they were trained on, or
 * extracted from what they were merged into.
 *
 *     coffer_lora *lora;
 *     coffer_lora_open(&lora, "adapter/", NULL, NULL, &err);
 *     coffer_adapter adapter = { lora, 1.0 };
 *     coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
 *     options.output = "merged.safetensors";
 *     coffer_rewrite *rewrite;
 *     coffer_merge_lora_plan(&rewrite, base, &adapter, 1, NULL, &options, &err);     nothing is written yet
 *     coffer_rewrite_run(rewrite, NULL, &err);                                       now it is
 *     coffer_rewrite_free(rewrite);
 *     coffer_lora_close(lora);
 *
 * Since 0.2.
 */

/*
 * coffer/rewrite.h - a model written again with other names, other dtypes, fewer tensors, other metadata, another
 * alignment or another format: in its own place or somewhere else, as one file or as several.
 *
 *     coffer_rewrite_rule rules[] = { { COFFER_REWRITE_CAST, COFFER_BF16, "*", NULL } };
 *     coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
 *     options.rules = rules;
 *     options.rule_count = 1;
 *     coffer_rewrite *rewrite;
 *     coffer_rewrite_plan(&rewrite, model, &options, &err);     nothing is written: look at what would be
 *     coffer_rewrite_run(rewrite, NULL, &err);                  now it is
 *     coffer_rewrite_free(rewrite);
 */

#ifdef __cplusplus
extern "C" {
#endif

/* What a rule does with the tensors whose names match its pattern. */
typedef enum coffer_rewrite_kind {
    COFFER_REWRITE_DROP = 1,   /* leaves them out */
    COFFER_REWRITE_KEEP = 2,   /* keeps them: with one such rule or more, whatever none of them matches is left out */
    COFFER_REWRITE_RENAME = 3, /* gives them other names */
    COFFER_REWRITE_CAST = 4,   /* gives them another dtype */
    /* Renames the one tensor whose name is `pattern`, to the byte, to `name`: no character is special in either.
       There may be as many of these as there are tensors. Since 0.2, as are those below. */
    COFFER_REWRITE_RENAME_EXACT = 5,
    /* Renames by a POSIX extended regular expression, which may match anywhere in a name: the first match becomes
       `name`, in which \1 to \9 are what groups took, & or \0 is the whole match, and a backslash takes any other
       character as it is. Whatever the locale of the program, by the characters of UTF-8 where the system has the
       locale C.UTF-8, else by bytes. A name with a NUL in it, or of more than 4096 bytes, never matches.
       COFFER_ERR_UNSUPPORTED on Windows. */
    COFFER_REWRITE_RENAME_REGEX = 6,
    COFFER_REWRITE_RENAME_REGEX_ALL = 7, /* the same for every match in a name, from left to right */
    COFFER_REWRITE_RENAME_MAP = 8,       /* renames by the known map that `pattern` names: see coffer_rewrite_map_at */
    /* Keeps the layers that `pattern` lists, "0-15,20", leaves the others out, and numbers those that are kept 0, 1,
       2, … in the order of the list. A layer is what a name has after the first part "layers", "layer", "h",
       "blocks", "block" or "blk" that a number follows: "model.layers.3.mlp.up". `name` says which stack of layers,
       "model.layers"; NULL: that of the model, which may have only one then. Tensors in no layer stay. Cannot be
       combined with renames. */
    COFFER_REWRITE_LAYERS = 9
} coffer_rewrite_kind;

/* The most `*` in the pattern of a rename. */
#define COFFER_REWRITE_MAX_STARS 16

/*
 * One rule. In a pattern, where the kind says nothing else, `*` is any text, `?` one character, `[a-z]` one of a set,
 * and a backslash takes the next character as it is; the whole name has to match. Every pattern has to match a tensor.
 * Of several renames that match a tensor the first counts, likewise of several casts. All patterns are about the names
 * that the model has, never about new ones, so that two renames can exchange names.
 */
typedef struct coffer_rewrite_rule {
    coffer_rewrite_kind kind;
    coffer_dtype dtype; /* of a cast: COFFER_F16, COFFER_BF16, COFFER_F32 or COFFER_F64 */
    const char *pattern;
    /* Of a rename: the new name. Each `*` becomes what the `*` of the same place in the pattern took (the shortest text
       that serves), and a backslash takes the next character as it is; of the other kinds, as these say. */
    const char *name;
} coffer_rewrite_rule;

/* What a rewrite is to do, and where. */
typedef struct coffer_rewrite_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options; casting calls it from several threads at once */
    const coffer_rewrite_rule *rules;  /* with their strings borrowed until the plan is freed, as are the edits */
    size_t rule_count;
    const coffer_edit *edits; /* of the metadata; where a key comes twice, the last edit counts */
    size_t edit_count;
    /* The path of the new file, which for several files has to end in NAME.safetensors, as for coffer_model_writer. No
       file that the model is read from may be replaced or removed. NULL: the new files replace the model, which then
       has to have been opened by a path, and whole. Borrowed until the plan is freed. */
    const char *output;
    /* COFFER_FORMAT_ANY: that of the model, with the alignment of its data and the slack that it has. Any other one: as
       that format's own writers write it, without slack. */
    coffer_format format;
    /* Of the data's start, at least: a power of two from 8 on. 0: tensors are not moved to be aligned. */
    uint64_t alignment;
    /* Bytes of tensors in a file, as in coffer_model_writer_options; UINT64_MAX: one file. 0: every tensor stays in its
       file. */
    uint64_t max_shard_size;
    uint64_t max_header_size; /* as in coffer_parse_options */
    /* To record; COFFER_NO_ALGORITHM: by that with which the model records them, if it does. */
    coffer_algorithm digests;
    coffer_sync sync;
    /* As in coffer_edit_options. Of several files, symbolic links are never replaced; with hard links, the other name
       keeps the old file. */
    bool follow_links;
    /* As in coffer_model_writer_options; in place, files that are not the model's are replaced, too. */
    bool force;
    bool ignore_unmatched; /* a rule that matches no tensor is no failure. Since 0.2, as is what follows */
    /* Told of every two tensors that would have one name, `name`, before the plan fails of that; NULL: err names the
       first two. What it is given is borrowed until it returns. */
    void (*collision)(void *ctx, const coffer_tensor *first, const coffer_tensor *second, const char *name,
                      size_t name_len);
    void *collision_ctx;
    /* Write files anew that have tensors which the index says are in others (COFFER_NOTE_SUPERSEDED), without these. */
    bool drop_superseded;
} coffer_rewrite_options;
#define COFFER_REWRITE_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(coffer_rewrite_options), NULL, NULL, 0, NULL, 0, NULL, COFFER_FORMAT_ANY, 0, 0, 0, COFFER_NO_ALGORITHM, \
            COFFER_SYNC_REPLACE, false, false, false, NULL, NULL, false                                                \
    }

/* Known maps from the names of one program to those of another, where nothing but the names differs: map number `i`,
   and in *about (when not NULL) a line on what it does. NULL after the last. docs/rewriting.md has them all, with
   their sources. Static strings; any thread. Since 0.2. */
COFFER_API const char *coffer_rewrite_map_at(size_t i, const char **about);

/* How a rewrite is done. */
typedef enum coffer_rewrite_way {
    COFFER_REWRITE_NOTHING = 0, /* the model is that way already, and there is no output */
    /* Only metadata or names change: each file is edited as by coffer_edit_metadata, and tensors stay where they are,
       in the order that they have. Several files change together, with their index where names do, and a crash leaves
       what coffer_recover finishes or undoes. */
    COFFER_REWRITE_HEADERS = 1,
    COFFER_REWRITE_FILES = 2 /* new files are written, and take their places together when all of them are complete */
} coffer_rewrite_way;

/* Why new files are written: the first of these that holds. Since 0.2. */
typedef enum coffer_rewrite_reason {
    COFFER_REWRITE_NO_REASON = 0,   /* they are not */
    COFFER_REWRITE_FOR_OUTPUT = 1,  /* an output was asked for */
    COFFER_REWRITE_FOR_DATA = 2,    /* tensors are left out, cast, moved, or divided among files in another way */
    COFFER_REWRITE_FOR_FORMAT = 3,  /* another format, or one in which names cannot be changed in place */
    COFFER_REWRITE_FOR_DIGESTS = 4, /* digests are recorded, and that of a tensor is of its name, too */
    COFFER_REWRITE_FOR_SEVERAL = 5  /* headers change of several files, which get other names themselves */
} coffer_rewrite_reason;

/* What is to be done, in numbers. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_rewrite_summary {
    coffer_rewrite_way way;
    size_t file_count;    /* of the new model */
    size_t tensor_count;  /* likewise */
    uint64_t size_before; /* bytes of the model's files, without an index */
    uint64_t size;        /* the same of the new model's; where only metadata change, of files that would be written */
    uint64_t copied; /* bytes of tensors that stay as they are: where the system can, they never come into memory */
    uint64_t cast;   /* bytes of tensors, in their new dtypes, that are cast or computed otherwise */
    coffer_rewrite_reason reason; /* why `way` is COFFER_REWRITE_FILES. Since 0.2, as is what follows */
    /* Once a rewrite of headers has run: how the files were edited, of several the way that takes longest. */
    coffer_edit_way edited;
    /* Of a rewrite of headers, from the plan on: the most bytes by which a new header is longer than the space for it;
       how many files lack space, which are cloned or copied then; and the bytes of those files. */
    uint64_t lacking;
    size_t lacking_count;
    uint64_t lacking_size;
} coffer_rewrite_summary;

/* What becomes of one tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_rewrite_change {
    const coffer_tensor *from;
    const coffer_tensor
        *to;             /* with its new name, dtype and offset in its file, which `shard` numbers; NULL: left out */
    uint64_t overflowed; /* numbers that a cast made infinite, once it has run, … */
    uint64_t vanished;   /* … and those that it made zero */
    bool computed;       /* its numbers are changed by a plan of coffer/mix.h. Since 0.2. */
} coffer_rewrite_change;

/* A plan, and what carries it out. One thread at a time. */
typedef struct coffer_rewrite coffer_rewrite;

/*
 * Plans a rewrite. No tensor is read and nothing is written; but a single file that is to be replaced is locked against
 * edits of its metadata until the plan is freed (COFFER_ERR_LOCKED). The model is borrowed until then. Everything that
 * follows from the headers is refused here: a pattern that matches nothing, or a layer that is not there
 * (COFFER_ERR_NO_TENSOR), an expression, map or list of layers that is none (COFFER_ERR_ARGUMENT), two tensors that
 * would have one name (COFFER_ERR_DUPLICATE_NAME), a cast of what is no float or a dtype that the format lacks
 * (COFFER_ERR_DTYPE), files whose metadata contradict each other and no edit settles it (COFFER_ERR_DUPLICATE_KEY), a
 * link that is not to be followed (COFFER_ERR_LINKED), a model without a place of its own, or of which only some files
 * are open (COFFER_ERR_UNSUPPORTED), an output that would replace or remove a file that the model is read from, under
 * whatever name (COFFER_ERR_ARGUMENT), a rewrite in place that would do so to a file that is not the model's
 * (COFFER_ERR_SHADOWED). err->tensor names the tensor, err->path the file.
 */
COFFER_API coffer_status coffer_rewrite_plan(coffer_rewrite **rewrite, const coffer *model,
                                             const coffer_rewrite_options *options, coffer_error *err);
/* Borrowed from the plan, like what it points to. */
COFFER_API const coffer_rewrite_summary *coffer_rewrite_summarize(const coffer_rewrite *rewrite);
/* What becomes of coffer_at(model, i); NULL when i is not below coffer_count(model). Borrowed from the plan. */
COFFER_API const coffer_rewrite_change *coffer_rewrite_at(const coffer_rewrite *rewrite, size_t i);
/*
 * Carries the plan out, once. In new files tensors come in the order in which every writer puts them; casts round to
 * the nearest, of two that are as near to the even one, beyond the largest to infinity, by several threads with at most
 * 4 MiB each.
 * Until the new files are complete nothing is touched: after any failure the old model is there as it was, and
 * COFFER_ERR_CHANGED means that somebody saved another one meanwhile, which stays. Several files, or their new headers,
 * take their places together: COFFER_ERR_UNFINISHED says that all is decided and coffer_recover has to finish.
 * `progress` counts the bytes of tensors (of an edit, those of coffer_edit_metadata). After a failure the plan can only
 * be freed.
 */
COFFER_API coffer_status coffer_rewrite_run(coffer_rewrite *rewrite, const coffer_read_options *options,
                                            coffer_error *err);
/*
 * Does what coffer_rewrite_run does before it writes the first byte of a tensor, and fails as that would: reads
 * what has to be known of tensors (those that an average leaves as they are, adapters), and makes the new files,
 * which have no name yet, get their space and are removed again. For one who asks first what a rewrite would do.
 * Afterwards the plan can only be freed. Since 0.2.
 */
COFFER_API coffer_status coffer_rewrite_check(coffer_rewrite *rewrite, const coffer_read_options *options,
                                              coffer_error *err);
/* Releases the plan and its lock; NULL is allowed. */
COFFER_API void coffer_rewrite_free(coffer_rewrite *rewrite);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Adapters ---------------------------------------------------------------------------------------------------- */

/* An adapter of low rank (LoRA, DoRA, LoHa, LoKr), opened: matrices, some for each tensor of a base model that it
   changes, and whole tensors that replace others. Immutable; any thread may use it. */
typedef struct coffer_lora coffer_lora;

/* How an adapter is opened. */
typedef struct coffer_lora_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options */
    /* Patterns (coffer_match) for the names of the adapter's tensors: only those that match one of them count. Of a
       file for several models, `text_encoder.*` or `lora_unet_*`. */
    const char *const *select;
    size_t select_count; /* 0: all */
    /* The text of an adapter_config.json; NULL: that of the file beside the adapter, if there is one. */
    const char *config;
    size_t config_len;
} coffer_lora_options;
#define COFFER_LORA_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_lora_options), NULL, NULL, 0, NULL, 0                                                            \
    }

/*
 * Opens an adapter: a file, a folder with adapter_model.safetensors or with one model, or a URL of either. Reads the
 * header and the configuration, no matrices. `open` says how the file is opened; NULL: as by default. Three kinds of
 * names are understood:
 *
 *   PEFT        base_model.model.NAME.lora_A.weight, lora_B, lora_embedding_A and _B, lora_magnitude_vector (DoRA);
 *               NAME.hada_w1_a and others of LoHa, NAME.lokr_w1 and others of LoKr; whole tensors, as modules_to_save
 *               and trained biases are. adapter_config.json has to be there: the factor is lora_alpha / r, or
 *               lora_alpha / sqrt(r) with use_rslora, by rank_pattern and alpha_pattern (names or ends of names)
 *   kohya       lora_unet_NAME.lora_down.weight, lora_up, lora_mid and alpha, where the dots of the name are
 *               underscores; also lora_te_, lora_te1_, lora_te2_, lora_te3_, lora_transformer_ and lycoris_; hada_w1_a
 *               and lokr_w1 and their like of LyCORIS. The factor is alpha / rank, 1 without alpha or rank
 *   diffusers   unet.NAME.lora.down.weight, NAME.lora_A.weight, NAME.processor.to_q_lora.down.weight and their like,
 *               with alpha as in kohya's files
 *
 * COFFER_ERR_UNSUPPORTED for other kinds of adapters, by their names (OFT, VeRA, IA3, …; LyCORIS' dora_scale), for one
 * that is of another kind than its configuration states, for what is not added by a product (layer_replication,
 * target_parameters, PiSSA and others that changed the base), and for matrices that are no floats;
 * COFFER_ERR_NO_TENSOR when nothing is selected, and for one matrix without the other; COFFER_ERR_NOT_FOUND for PEFT's
 * names without a configuration; COFFER_ERR_DUPLICATE_NAME for two matrices of one place, or of two kinds;
 * COFFER_ERR_SIZE for matrices whose ranks differ or are 0; COFFER_ERR_JSON, COFFER_ERR_TYPE and COFFER_ERR_NUMBER for
 * the configuration. *lora is NULL on failure.
 */
COFFER_API coffer_status coffer_lora_open(coffer_lora **lora, const char *path, const coffer_open_options *open,
                                          const coffer_lora_options *options, coffer_error *err);
/* The model of the adapter's file, whose tensors are the matrices. Borrowed. */
COFFER_API const coffer *coffer_lora_model(const coffer_lora *lora);
/* Releases it; NULL is allowed. */
COFFER_API void coffer_lora_close(coffer_lora *lora);

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

/* An adapter, and how much of it is added. Whole tensors replace others whatever the scale is, and rows that DoRA
   changes get the lengths that were trained. */
typedef struct coffer_adapter {
    const coffer_lora *lora;
    double scale; /* 1: as it was trained. Finite */
} coffer_adapter;

/* Called for a tensor of an adapter that has no place in the base model; `why` says so in a few words: "the base has no
   such tensor". Both are borrowed for the call. */
typedef void (*coffer_lora_misfit)(void *ctx, size_t adapter, const coffer_tensor *tensor, const char *why);

/* How adapters are merged. */
typedef struct coffer_merge_lora_options {
    size_t struct_size;
    coffer_lora_misfit misfit; /* called for each of them before planning fails; NULL: the error names the first */
    void *misfit_ctx;
} coffer_merge_lora_options;
#define COFFER_MERGE_LORA_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(coffer_merge_lora_options), NULL, NULL                                                                  \
    }

/* What an adapter does to a tensor. Later versions may know further kinds. */
typedef enum coffer_adapter_kind {
    COFFER_ADAPTER_WHOLE = 0, /* a tensor that replaces another one */
    COFFER_ADAPTER_LORA = 1,  /* a product of two thin matrices is added */
    COFFER_ADAPTER_DORA = 2,  /* likewise, and then each row gets a length that was trained */
    COFFER_ADAPTER_LOHA = 3,  /* two such products, multiplied element by element */
    COFFER_ADAPTER_LOKR = 4   /* the Kronecker product of two matrices */
} coffer_adapter_kind;

/* The same of one tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_lora_update {
    size_t adapter; /* its number among those that are merged */
    uint64_t rank;  /* 0: the tensor is replaced, or what is added is made of no thin matrices, as LoKr may be */
    double scale;   /* all of it: the adapter's own factor times that of the merge */
    bool transposed;
    coffer_adapter_kind kind;
} coffer_lora_update;

/*
 * Plans a rewrite of the model in which the adapters are added to the tensors that they are for: coffer_rewrite_run
 * carries it out, and coffer_rewrite_at tells which tensors are `computed`. Nothing is read of tensors or written by
 * planning. The base, the adapters and what `rewriting` points to are borrowed until the plan is freed.
 *
 * For an element w of the base, in F32 (in F64 where base or result are), for each adapter in order:
 *
 *     w = w + scale * (B[i][0] * A[0][j] + B[i][1] * A[1][j] + …)      from left to right, each step rounded to F32
 *
 * and then w is rounded once to the dtype of the result, as by a cast. So the result does not depend on the number of
 * threads. Convolutions are matrices whose rows are their output channels; of embeddings, and with fan_in_fan_out
 * where the shape fits, the product is transposed. A core C (lora_mid, hada_t1, …) is multiplied with A first: at row
 * i, column c and element q of the kernel, that is the sum of C[i][j][q] * A[j][c] over j. With two matrices P and Q,
 * each as such a sum or whole, and Q of m rows and n columns, instead of the sum in brackets it is
 *
 *     LoHa    P[i][j] * Q[i][j]
 *     LoKr    P[i / m][j / n] * Q[i % m][j % n]
 *
 * With DoRA, w is then multiplied by the length that was trained for its row (its column, where the product is
 * transposed), divided by the length of that row of the base with the adapter's own product added to it, whatever else
 * is merged. Lengths are summed up in F64 before anything is written, for which those tensors are read once more.
 *
 * An adapter's matrices are in memory, as F32, while the plan is carried out. COFFER_ERR_NUMBER then, before anything
 * is written, for a matrix with an infinity or a NaN, and for a row whose length is 0 or not finite.
 *
 * The name of an adapter's tensor is looked for as it is; else without its first component, or under further ones, if
 * exactly one tensor of the base has it so. Fails as coffer_rewrite_plan does, with COFFER_ERR_NO_TENSOR when tensors
 * of an adapter have no place, by name or by shape, or more than one; COFFER_ERR_DUPLICATE_NAME when two of one
 * adapter have the same, or one adapter replaces what another one changes; COFFER_ERR_DTYPE when the base's tensor is
 * none of F16, BF16, F32 and F64, as in a quantised model. err->tensor names the tensor.
 */
COFFER_API coffer_status coffer_merge_lora_plan(coffer_rewrite **rewrite, const coffer *base,
                                                const coffer_adapter *adapters, size_t count,
                                                const coffer_merge_lora_options *options,
                                                const coffer_rewrite_options *rewriting, coffer_error *err);
/* Update `k` of what is done to coffer_at(base, i), from 0 on in the order of the adapters; NULL when there are no
   more, and for a plan that merges no adapters. Borrowed from the plan. */
COFFER_API const coffer_lora_update *coffer_merge_lora_at(const coffer_rewrite *rewrite, size_t i, size_t k);

/* ---- Extracting -------------------------------------------------------------------------------------------------- */

/* An adapter of what one model has and another has not: which tensors it changes, and then their matrices. For one
   thread at a time. */
typedef struct coffer_extraction coffer_extraction;

/* What an extraction makes of a tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_extracted {
    const coffer_tensor *tensor; /* of the base; borrowed */
    uint64_t rank;               /* of its two matrices; 0: the tuned tensor itself is written */
    bool transposed;             /* the product is the transposed difference, as in embeddings */
    /* The share of the difference that stays: 1 less the squared length of what is lost by that of the difference. 0
       until it is computed; 1 of a tensor that is written itself. */
    double kept;
} coffer_extracted;

/* Called for what the two models do not have in common; `model` is 0 for the base and 1 for the other, and `why` says
   in a few words what is wrong: "is missing". Both are borrowed for the call. */
typedef void (*coffer_extract_misfit)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);

/* How an adapter is extracted. */
typedef struct coffer_extract_lora_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* NULL: coffer_libc_allocator() */
    uint64_t rank;                     /* of all pairs of matrices; at least 1, and has to be given */
    coffer_dtype dtype;                /* of the matrices: F32, BF16 or F16; COFFER_UNKNOWN_DTYPE: F32 */
    /* Patterns (coffer_match) for names of tensors: only those that match one of them are compared. */
    const char *const *select;
    size_t select_count; /* 0: all */
    /* Matrices are stored as [in, out], as GPT-2's are (Conv1D). The adapter's configuration says it, too. */
    bool fan_in_fan_out;
    coffer_extract_misfit misfit; /* called for each of them before planning fails; NULL: the error names the first */
    void *misfit_ctx;
} coffer_extract_lora_options;
#define COFFER_EXTRACT_LORA_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_extract_lora_options), NULL, 0, COFFER_UNKNOWN_DTYPE, NULL, 0, false, NULL, NULL                 \
    }

/*
 * Plans the adapter that makes `tuned` of `base`: reads and compares both, by several threads with 4 MiB each, and
 * writes nothing; progress counts elements. Of each tensor that differs it becomes
 *
 *   two matrices   of `rank`, where its name ends in .weight, it has 2 dimensions or more, and they are smaller than
 *                  it. Convolutions are matrices whose rows are their output channels; the product of embeddings, known
 *                  by their names (embed_tokens, wte, *embeddings, …), is transposed
 *   the tensor     of `tuned` itself, in any other case, as biases and norms
 *
 * Both models are borrowed until the plan is freed. COFFER_ERR_NO_TENSOR when the models do not have the same tensors,
 * by name and shape, among those that are selected, when none is, or when no tensor that has two matrices differs;
 * COFFER_ERR_DTYPE when a tensor differs that is none of F16, BF16, F32 and F64; COFFER_ERR_NUMBER for an infinity or a
 * NaN in a tensor that gets two matrices; COFFER_ERR_UNSUPPORTED when the system has no LAPACK, which is loaded here,
 * and says what to install. err->tensor names the tensor. *extraction is NULL on failure.
 */
COFFER_API coffer_status coffer_extract_lora_plan(coffer_extraction **extraction, const coffer *base,
                                                  const coffer *tuned, const coffer_extract_lora_options *options,
                                                  const coffer_read_options *reading, coffer_error *err);
/* How many tensors differ. */
COFFER_API size_t coffer_extraction_count(const coffer_extraction *extraction);
/* What becomes of one of them, in the order of the base; NULL when i is not below the count. Borrowed from the plan. */
COFFER_API const coffer_extracted *coffer_extraction_at(const coffer_extraction *extraction, size_t i);
/*
 * Carries the plan out, once: writes adapter_model.safetensors, with PEFT's names, and adapter_config.json into a
 * folder, which has to be there. lora_alpha is the rank, so the adapter is added as it is. New files appear when both
 * are complete; older ones are replaced, and no crash leaves the matrices of one adapter with the configuration of
 * another.
 *
 * The difference is computed in F32 (in F64 where a tensor is, and then rounded). What is lost of it exceeds what the
 * best matrices of that rank would lose by no more than about a hundredth. The result does not depend on the number of
 * threads, and does on the LAPACK. Memory is 64 MiB (one row of the tensor, if that is more) for a part of the
 * difference, and about 4 * (rank + 16) * (2 * rows + 3 * columns) bytes besides. `writing` says how the file of
 * matrices is written, without `replaces` and `in_place`; NULL: as by default. `reading` is for both models; progress
 * counts elements. COFFER_ERR_NUMBER when numbers are too large for the matrices' dtype. After a failure the plan can
 * only be freed.
 */
COFFER_API coffer_status coffer_extract_lora_run(coffer_extraction *extraction, const char *folder,
                                                 const coffer_writer_options *writing,
                                                 const coffer_read_options *reading, coffer_error *err);
/* Releases the plan; NULL is allowed. */
COFFER_API void coffer_extraction_free(coffer_extraction *extraction);

/* ---- Averages ---------------------------------------------------------------------------------------------------- */

/* The most models of an average. */
#define COFFER_AVERAGE_MAX_MODELS 64

/* Weights for the tensors whose names match a pattern (coffer_match). */
typedef struct coffer_average_rule {
    const char *pattern;
    const double *weights; /* one for each model; with `slerp` a single one, which is t */
} coffer_average_rule;

/* Called for what differs between the first model and another one, `model`; `why` says it in a few words: "has another
   shape". Both are borrowed for the call. The tensor is the first model's, or one that it does not have. */
typedef void (*coffer_average_misfit)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);

/* How models are averaged. */
typedef struct coffer_average_options {
    size_t struct_size;
    const double *weights; /* one for each model; NULL: all the same. With `slerp` a single one, t; NULL: 1/2 */
    /* Other weights for some tensors. Of several rules that match a tensor the first counts; each has to match one. */
    const coffer_average_rule *rules;
    size_t rule_count;
    bool slerp; /* of two models: along the sphere, and not along the line between them */
    /* Called for each difference before planning fails; NULL: the error names the first. */
    coffer_average_misfit misfit;
    void *misfit_ctx;
} coffer_average_options;
#define COFFER_AVERAGE_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(coffer_average_options), NULL, NULL, 0, false, NULL, NULL                                               \
    }

/*
 * Plans a rewrite of models[0] whose numbers are averages of `count` models, 2 to COFFER_AVERAGE_MAX_MODELS, that
 * have the same tensors, by name, dtype and shape. coffer_rewrite_run carries it out: layout, metadata and dtypes of
 * the result are those of models[0]. The models and what the options point to are borrowed until the plan is freed.
 *
 * For elements x of the models, in F64, with weights w whose sum is s, from left to right:
 *
 *     (w[0] / s) * x[0] + (w[1] / s) * x[1] + …                 and then one rounding to the dtype, as by a cast
 *
 * With `slerp`, t from 0 to 1 and vectors a and b, a tensor of each model with all its elements:
 *
 *     sin((1 - t) * angle) / sin(angle) * a + sin(t * angle) / sin(angle) * b,     cos(angle) = a·b / (|a| |b|)
 *
 * where a length of 1e-8 or less counts as 1. Where |cos(angle)| is above 0.9995 it is (1 - t) * a + t * b. The sums
 * are in F64, and the same with any number of threads; both models are read twice then.
 *
 * Tensors of other dtypes than F16, BF16, F32 and F64 have to be the same bytes in all models, and stay as they are;
 * that they differ is found when the plan is carried out, before anything is written: COFFER_ERR_DTYPE. Fails as
 * coffer_rewrite_plan does, with COFFER_ERR_UNSUPPORTED for adapters, whose factors cannot be averaged;
 * COFFER_ERR_NO_TENSOR when the models do not have the same tensors, or a pattern matches none; COFFER_ERR_ARGUMENT for
 * weights that are not finite, or whose sum is 0, and for t outside of 0 to 1.
 */
COFFER_API coffer_status coffer_average_plan(coffer_rewrite **rewrite, const coffer *const *models, size_t count,
                                             const coffer_average_options *options,
                                             const coffer_rewrite_options *rewriting, coffer_error *err);

#ifdef __cplusplus
}
#endif

/* coffer/pack.h - packed files: the same tensors, without loss, in fewer bytes. Since 0.2. */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A packed file is a file of tensors in which some have become smaller; docs/packed.md describes it. coffer_open
 * shows what was packed: its tensors, sizes, offsets and metadata. Reads decode, and verify what they decode;
 * coffer_data has no packed file's bytes (COFFER_ERR_NOT_MAPPED). Metadata cannot be edited in place
 * (COFFER_ERR_PACKED).
 */

/* How a file is packed or unpacked. Since 0.2. */
typedef struct coffer_pack_options {
    size_t struct_size;
    coffer_sync sync;         /* as in coffer_writer_options */
    uint32_t threads;         /* 0: as many as there are processors */
    coffer_progress progress; /* NULL: none; non-zero: COFFER_ERR_CANCELLED, and no file */
    void *progress_ctx;
} coffer_pack_options;
#define COFFER_PACK_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_pack_options), COFFER_SYNC_REPLACE, 0, NULL, NULL                                                \
    }

/* What packing a file comes to. Since 0.2. */
typedef struct coffer_pack_result {
    uint64_t original_size; /* in bytes */
    uint64_t packed_size;
    uint64_t tensor_count;
    uint64_t packed_count; /* of the tensors, those that gain at least 3 % and are packed */
} coffer_pack_result;

/*
 * Packs file `shard` of a model into a new file at `path`, as coffer_writer_open writes one; NULL: nothing is
 * written, and only *result (may be NULL) says what would be. The result does not depend on the number of threads.
 * Every chunk is decoded and compared before it is written. Memory: at most 2 MiB a thread, 16 bytes for each 65,536
 * elements, and twice the header. COFFER_ERR_PACKED when it is packed already, COFFER_ERR_UNSUPPORTED for another
 * format than safetensors, COFFER_ERR_CHANGED when the file changed in between. Since 0.2.
 */
COFFER_API coffer_status coffer_pack_shard(const coffer *model, size_t shard, const char *path,
                                           const coffer_pack_options *options, coffer_pack_result *result,
                                           coffer_error *err);
/* Writes the original of a packed file to `path`, byte for byte, and compares its SHA-256 with the one that is
   recorded before it is published: COFFER_ERR_PACK_CHECKSUM. COFFER_ERR_ARGUMENT when the file is not packed. Since
   0.2. */
COFFER_API coffer_status coffer_unpack_shard(const coffer *model, size_t shard, const char *path,
                                             const coffer_pack_options *options, coffer_error *err);

/* Bytes of shard `shard`'s file as it is stored: those of the packed file, where it is one; else coffer_shard_size.
   Since 0.2. */
COFFER_API uint64_t coffer_shard_stored_size(const coffer *model, size_t shard);
/* Whether the file is packed. Since 0.2. */
COFFER_API bool coffer_shard_is_packed(const coffer *model, size_t shard);
/* Bytes of a tensor as it is stored: fewer than tensor->size where it is packed. 0 for a tensor of another model.
   Since 0.2. */
COFFER_API uint64_t coffer_tensor_stored_size(const coffer *model, const coffer_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
