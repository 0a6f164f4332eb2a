/* SPDX-License-Identifier: Apache-2.0 */
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
 *   - Versions: functions and types without "Since" are there since 0.1. docs/c.md says what may change when, and
 *     what did.
 */
#ifndef COFFER_BASE_H
#define COFFER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Those who compile the library into one of their own may define it empty, to keep what is here out of their
   exports. */
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
    COFFER_ERR_IS_ELF = 72,         /* ELF: a program or library */
    COFFER_ERR_IS_OTHER = 73,       /* of a kind that has no tensors: an image, a document, a database */
    COFFER_ERR_IS_CONVERTIBLE = 74, /* of another format that coffer convert reads: Arrow, ONNX, flax, TensorFlow */

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
    COFFER_ERR_UNDO = 104,     /* an edit was interrupted: its undo file lies next to the file; see coffer_recover */
    COFFER_ERR_NO_UNDO = 105,  /* nothing to recover, or an undo file that does not belong to this file */
    COFFER_ERR_LOCKED = 106,   /* another process is editing the file, or keeps it in memory */
    COFFER_ERR_LINKED = 107,   /* a symbolic or hard link, which an edit follows only when told to */
    COFFER_ERR_NO_SLACK = 108, /* the new metadata does not fit in the header, and a rewrite was not allowed */

    /* sharded models */
    COFFER_ERR_SHARD_NAME = 120,      /* an index names a file that is not simply one in its folder */
    COFFER_ERR_SHARD_LINK = 121,      /* a shard is a symbolic link out of the model's folder */
    COFFER_ERR_SHARD_MISSING = 122,   /* a file of the model does not exist */
    COFFER_ERR_NOT_IN_SHARD = 123,    /* the index names a tensor that its shard does not have */
    COFFER_ERR_TWO_SHARDS = 124,      /* a tensor's name comes in two shards, and no index says which counts */
    COFFER_ERR_INDEX_TOO_LARGE = 125, /* an index above 250,000,000 bytes or 100,000 files */
    COFFER_ERR_NO_MODEL = 126,        /* a folder without a model */
    COFFER_ERR_AMBIGUOUS = 127,       /* a folder with several models */

    /* writing sharded models */
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
    COFFER_ERR_DAMAGED = 180,       /* a file of another program that is damaged, or contradicts itself */
    COFFER_ERR_PICKLE = 181,        /* a pickle that is damaged or uses opcodes that are refused */
    COFFER_ERR_CHECKSUM = 182,      /* bytes do not match the CRC-32 that the archive records */
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
    COFFER_ERR_DESTINATION = 203,   /* one that is too small, or that overlaps itself or another */
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
    COFFER_ERR_PACK_CHECKSUM = 215, /* a chunk's elements do not match their checksum, or the file not its SHA-256 */
    COFFER_ERR_PACK_FILE = 216,     /* the headers of a packed file contradict each other, or claim too much */
    COFFER_ERR_NOT_PACKED = 217     /* a plain file where only a packed one can be used */
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
   coffer_open starts for a sharded model, one at a time; an allocator that is shared by objects of several
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

#endif
