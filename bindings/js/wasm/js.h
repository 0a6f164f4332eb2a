/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim between the library on one side and JavaScript on the other. src/core.ts is its only caller. It makes three
 * modules: coffer.wasm is for headers; model.wasm, which is loaded when something of it is wanted, reads indices, plans
 * slices, decodes values and computes digests; packed.wasm decodes packed tensors, and is loaded when one is read.
 *
 * An instance of a module does one job at a time, from coffer_js_begin on: reading a header, building one, or a
 * question. Nothing is imported, so nothing is called back. Numbers of 64 bits cross the border as BigInt. Whatever has
 * more than one number is in js_answer, whose address coffer_js_answer tells; its layout is repeated in src/core.ts.
 *
 * What each exports is listed in exports.txt, and nothing else is.
 */
#ifndef COFFER_JS_H
#define COFFER_JS_H

#include "coffer.h"

#define JS_EXPORT(name) __attribute__((export_name(#name)))

/* What an index may record: see model/index.h. */
#define INDEX_RECORDS 2

/* What happened, and where its outcome lies. Addresses are those of the module's memory, until the next job. */
typedef struct js_answer {
    coffer_error error; /* of the last call that failed */

    /* what a reading wishes for */
    uint64_t wish_offset;
    uint32_t wish_to;
    uint32_t wish_size;

    /* a table, in columns: one entry for each tensor, in order of offset */
    uint64_t data_offset;
    uint64_t data_size;
    uint64_t slack;
    uint32_t format;
    uint32_t has_metadata;
    uint32_t count;
    uint32_t dimension_count;
    uint32_t offsets;    /* u64: from the start of the file */
    uint32_t sizes;      /* u64 */
    uint32_t dimensions; /* u64: all shapes, one behind the other */
    uint32_t ranks;      /* u32 */
    uint32_t positions;  /* u32: of the name in the header */
    uint32_t name_ends;  /* u32: where each ends among the names */
    uint32_t dtypes;     /* u8 */
    uint32_t names;      /* UTF-8: all names, one behind the other */
    uint32_t names_size;
    uint32_t pair_count;
    uint32_t pair_ends; /* u32, two for each pair: where its key and its value end among the texts */
    uint32_t pair_positions;
    uint32_t pair_texts; /* UTF-8: key, value, key, value… */
    uint32_t pair_texts_size;
    uint32_t metadata_position;
    uint32_t reserved;
    coffer_note notes[COFFER_NOTE_COUNT];

    /* bytes: a header that was built, a text that was escaped */
    uint32_t bytes;
    uint32_t bytes_size;

    /* a slice */
    uint64_t slice_size;
    uint64_t run_start;
    uint64_t run_size;
    uint64_t run_count;
    uint32_t slice_rank;
    uint32_t slice_shape; /* u64 */
    uint32_t run_rank;
    uint32_t run_counts;  /* u64 */
    uint32_t run_strides; /* i64 */
    uint32_t reserved_2;

    /* an index, in columns: one entry for each tensor, in the index's order; files in order of their names */
    uint64_t total_size;
    uint64_t total_size_at; /* byte of the index; COFFER_NO_OFFSET: it states none */
    uint32_t total_size_is_read;
    uint32_t entry_count;
    uint32_t entry_positions; /* u32: of the name in the index */
    uint32_t entry_files;     /* u32: the number of the file */
    uint32_t entry_ends;      /* u32: where each ends among the names */
    uint32_t entry_names;
    uint32_t entry_names_size;
    uint32_t file_count;
    uint32_t file_ends;
    uint32_t file_names;
    uint32_t file_names_size;
    uint32_t index_metadata; /* JSON; 0: none */
    uint32_t index_metadata_size;
    uint32_t records[2 * INDEX_RECORDS]; /* of each recorded digest: where its value is in the metadata, and its size */
    uint32_t reserved_3;
} js_answer;

/* src/core.ts has these numbers too. */
_Static_assert(offsetof(js_answer, wish_offset) == 1160, "the layout is JavaScript's, too");
_Static_assert(offsetof(js_answer, notes) == 1280, "the layout is JavaScript's, too");
_Static_assert(offsetof(js_answer, bytes) == 1536, "the layout is JavaScript's, too");
_Static_assert(offsetof(js_answer, run_strides) == 1592, "the layout is JavaScript's, too");
_Static_assert(offsetof(js_answer, records) == 1668, "the layout is JavaScript's, too");

extern js_answer js_state;
extern const coffer_allocator js_arena;

/* Forgets all that the arena has. */
void js_arena_reset(void);
/* Space for `count` items; NULL, with the failure told, when there is none. No items take the space of one. */
void *js_capacity(size_t count, size_t size);

#endif
