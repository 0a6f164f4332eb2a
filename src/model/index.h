/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a model of many files, `model.safetensors.index.json`:
 *
 *       {"metadata": {"total_size": 4305, …}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", …}}
 *
 * The reader is as strict as that of headers: RFC 8259, no key twice, no other types. `metadata`
 * may be missing or null; what it has besides total_size does not matter, and unknown members are
 * skipped. Offsets in failures are bytes of the index. Nothing is opened here, and which names of
 * files are acceptable is for the caller to say.
 */
#ifndef COFFER_MODEL_INDEX_H
#define COFFER_MODEL_INDEX_H

#include "coffer.h"
#include "names.h"

#define COFFER__INDEX_MAX_BYTES ((uint64_t)250000000)
#define COFFER__INDEX_MAX_SHARDS 100000u

/* Where a value is in the metadata, and its length; length 0: there is none. */
typedef struct coffer__index_span {
    size_t from;
    size_t len;
} coffer__index_span;

/* What the metadata record of the whole model, in this order: its content digest, and those of its
   files. */
enum { COFFER__INDEX_CONTENT, COFFER__INDEX_SHARDS, COFFER__INDEX_RECORDS };

/* One member of the weight_map. Both names borrow from the text or from `escaped`. 32 bits are
   enough for positions, as a text has at most COFFER__INDEX_MAX_BYTES. */
typedef struct coffer__index_entry {
    coffer__name name; /* of the tensor */
    coffer__name file;
    uint32_t position; /* of the name's quote in the text */
    uint32_t shard;    /* the number of the file */
} coffer__index_entry;

/* A file that the weight_map names. */
typedef struct coffer__index_shard {
    coffer__name file;
    uint32_t position; /* of the first tensor in it */
} coffer__index_shard;

/* Fails if a file may not have that name, which is at `offset` of the index. */
typedef coffer_status coffer__index_judge(const char *name, size_t name_len, uint64_t offset, coffer_error *err);

/* An index that was read. It borrows the text, and its allocator, until coffer__index_free; all of
   it is constant once coffer__index_read has returned, except for what coffer__index_select leaves
   out. */
typedef struct coffer__model_index {
    const coffer_allocator *allocator;
    coffer__index_judge *judge;
    uint8_t *escaped; /* names that are written with escapes; the others stay in the text */
    size_t escaped_size;
    size_t escaped_used;
    coffer__index_entry *entries; /* in the order of the text */
    size_t count;
    size_t capacity;
    coffer__names names;         /* of the entries */
    coffer__index_shard *shards; /* in byte order of their names */
    size_t shard_count;
    size_t file_count;    /* of shards, before some were left out */
    const char *metadata; /* the text of its value; NULL: none, or null */
    size_t metadata_len;
    coffer__index_span metadata_at; /* where the value is in the text, null included */
    coffer__index_span records[COFFER__INDEX_RECORDS];
    size_t total_size_from; /* where the value of total_size is in the metadata */
    size_t total_size_len;  /* bytes of the value of total_size; 0: it is not there */
    uint64_t total_size;
    uint64_t total_size_at;  /* where it is in the text; COFFER_NO_OFFSET: it is not stated */
    bool total_size_is_read; /* it is a whole number */
} coffer__model_index;

/* The number of a file that is left out, for its entries. */
#define COFFER__INDEX_LEFT_OUT UINT32_MAX

/* Reads an index. `text` is borrowed until coffer__index_free, which also follows a failure. `judge`
   is asked about every file; what opens files by these names gives coffer__model_dir_check_name. */
coffer_status coffer__index_read(coffer__model_index *index, const uint8_t *text, size_t text_size,
                                 coffer__index_judge *judge, const coffer_allocator *allocator, coffer_error *err);
/* Leaves out the files with no tensor that matches one of the patterns: COFFER_ERR_NO_TENSOR when
   that is all of them. Called once at most. Entries of files that are left out stay, with the
   number COFFER__INDEX_LEFT_OUT, and shards are renumbered. */
coffer_status coffer__index_select(coffer__model_index *index, const char *const *patterns, size_t count,
                                   coffer_error *err);
void coffer__index_free(coffer__model_index *index);

/* The keys of what is recorded. */
const char *coffer__index_record_key(size_t record);
/* Writes the text of the index again, with other values of all that is recorded. Each value is the
   text of a string that needs no escapes. Everything else keeps its bytes. Returns the size; `out`
   may be NULL. Called twice: with `out` NULL to measure, then with space for that many bytes. `text`
   is the one that was read, and both calls must have the same values. */
size_t coffer__index_write_records(const coffer__model_index *index, const uint8_t *text, size_t text_size,
                                   const coffer__name values[COFFER__INDEX_RECORDS], char *out);

#endif
