/* SPDX-License-Identifier: Apache-2.0 */
/* What gguf.tensors, in the metadata, tells of tensors whose bytes are blocks. No I/O. */
#ifndef COFFER_GGUF_GGUF_RECORDS_H
#define COFFER_GGUF_GGUF_RECORDS_H

#include "gguf_blocks.h"
#include "writing.h"

/* What a tensor of bytes was. */
typedef struct coffer__gguf_record {
    size_t name; /* in `names` */
    size_t name_len;
    const coffer__gguf_type *type;
    bool has_shape;
    uint32_t rank;
    uint64_t shape[4]; /* the innermost dimension last */
} coffer__gguf_record;

/* Begins as zeros but for the allocators; coffer__gguf_free_records follows in any case. */
/* In the order of the text, which is that of the tensors in the file that was read. */
typedef struct coffer__gguf_records {
    const coffer_allocator *allocator;
    coffer__writing names;
    coffer__gguf_record *items;
    uint32_t *order; /* by name; `count` of them */
    size_t count;
    size_t capacity;
} coffer__gguf_records;

/* Reads gguf.tensors, which gguf.c writes: {"NAME": {"type": "Q4_K", "shape": [64, 256]}, ...}. COFFER_ERR_JSON and
   COFFER_ERR_TYPE for anything else. */
coffer_status coffer__gguf_read_records(coffer__gguf_records *records, const char *json, size_t json_len,
                                        coffer_error *err);
/* The record of a name; NULL: there is none. */
const coffer__gguf_record *coffer__gguf_find_record(const coffer__gguf_records *records, const char *name,
                                                    size_t name_len);
void coffer__gguf_free_records(coffer__gguf_records *records);

#endif
