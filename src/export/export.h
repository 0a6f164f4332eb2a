/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back: opened models as files of other programs. A kind of file is one struct with a function that lays the
 * file out (layout.h); it sees names and tensors, and knows nothing of sources and sinks. export_run.c writes every
 * kind.
 */
#ifndef COFFER_EXPORT_EXPORT_H
#define COFFER_EXPORT_EXPORT_H

#include "coffer.h"
#include "crc32.h"
#include "layout.h"
#include "sink.h"

/* One name in the new file. */
typedef struct coffer__export_entry {
    const char *name;
    size_t name_len;
    const coffer_tensor *tensor;
    size_t kept; /* the entry that it is the same as: itself, or for a tied name the one that the model has */
} coffer__export_entry;

/* What is to be laid out. */
typedef struct coffer__export_content {
    const coffer *model;
    const coffer__export_entry *entries; /* in order of the tensors in the model, then the tied names */
    size_t count;
    coffer_dtype bytes_as;      /* of what the format has no type for; COFFER_UNKNOWN_DTYPE: refuse that */
    const coffer__crc32 *crc32; /* NULL: the format has no CRCs */
    const char *arch;           /* as in coffer_export_options */
    const char *sidecar;        /* likewise */
} coffer__export_content;

typedef struct coffer__export_kind {
    const char *name;
    const char *endings[4]; /* the first is the usual one; NULL after the last */
    bool one;               /* it holds one tensor only */
    bool has_crcs;
    coffer_status (*lay_out)(const coffer__export_content *content, coffer__layout *layout, coffer_error *err);
} coffer__export_kind;

extern const coffer__export_kind coffer__export_npz;
extern const coffer__export_kind coffer__export_npy;
extern const coffer__export_kind coffer__export_torch;
extern const coffer__export_kind coffer__export_gguf;

/* Fails because a format has no type for the tensor's dtype; `format` is whose. */
coffer_status coffer__export_lacks(const coffer_tensor *tensor, const char *format, coffer_error *err);
/* The last dimension of a tensor when its bytes, and not its elements, are counted: for elements that are not whole
   bytes. False when a row of it is not of whole bytes. */
bool coffer__export_row_bytes(const coffer_tensor *tensor, uint64_t *size);

/* Writes a file that is laid out to an open sink, and fills the CRCs in. The sink stays the caller's, who publishes it.
   `options` are known to be whole; `progress` counts the bytes of tensors. */
coffer_status coffer__export_run(const coffer *model, coffer__layout *layout, const coffer__crc32 *crc32,
                                 coffer__byte_sink *sink, const coffer_read_options *options, coffer_error *err);

#endif
