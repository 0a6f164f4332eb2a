/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back from metadata to GGUF: values of JSON as keys of a type, and what gguf.tensors tells of bytes that are
 * blocks. No I/O.
 */
#ifndef COFFER_CONVERT_GGUF_KEYS_H
#define COFFER_CONVERT_GGUF_KEYS_H

#include "gguf_blocks.h"
#include "writing.h"

/* Writes a key and its value. The type is that of the JSON: true and false are bool; integers u32, i32, u64 or i64, the first
   that holds them; other numbers f32; a string text; an array of any one of these an array, of whose integers i32 comes
   first. Any other value is text as it is. */
void coffer__gguf_write_key(coffer__writing *out, const char *key, size_t key_len, const char *json, size_t json_len);
/* Writes a key whose value is this text, whatever is in it. */
void coffer__gguf_write_text_key(coffer__writing *out, const char *key, size_t key_len, const char *text,
                                 size_t text_len);

/* What a tensor of bytes was. */
typedef struct coffer__gguf_record {
    size_t name; /* in `names` */
    size_t name_len;
    const coffer__gguf_type *type;
    uint32_t rank;
    uint64_t shape[4]; /* the innermost dimension last */
} coffer__gguf_record;

/* Begins as zeros but for the allocators; coffer__gguf_free_records follows in any case. */
typedef struct coffer__gguf_records {
    const coffer_allocator *allocator;
    coffer__writing names;
    coffer__gguf_record *items;
    uint32_t *order; /* by name; `count` of them */
    size_t count;
    size_t room;
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
