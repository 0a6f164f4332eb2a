/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a storage that is decoded or joined, as a source: in memory when they are few, as a stream that is read
 * once and in order, or in a file without a name.
 */
#ifndef COFFER_IMPORT_STORAGE_H
#define COFFER_IMPORT_STORAGE_H

#include "decode.h"
#include "source.h"
#include "temporary.h"

/* Storages up to this size are decoded into memory. */
#define COFFER__STORAGE_IN_MEMORY ((uint64_t)16 << 20)

/* What decoding needs. */
typedef struct coffer__decoding {
    const coffer__import_plan *plan;
    const coffer_input *input;
    const coffer__crcs *crcs; /* NULL: CRCs are not compared */
    const char *spool;        /* beside this path the file is made; NULL: in the folder for temporary files */
    const coffer_allocator *allocator;
    coffer__inflaters inflaters; /* zero at first; to be closed */
} coffer__decoding;

/* It must not move while it is open. */
typedef struct coffer__storage_source {
    coffer__byte_source source;
    bool in_order; /* the source is a stream */
    coffer__decoder decode;
    uint64_t at; /* of the stream */
    uint8_t *memory;
    size_t memory_size;
    coffer__temporary file;
    bool has_file;
    bool open;
} coffer__storage_source;

/* Whether any of its bytes can be had without those before it, and without keeping anything: opening it then costs nothing. */
bool coffer__storage_is_random(const coffer__import_plan *plan, uint32_t number);
/* Opens one. `streams`: it will be read once, in order. coffer__storage_close follows also after a failure. */
coffer_status coffer__storage_open(coffer__storage_source *storage, coffer__decoding *decoding, uint32_t number,
                                   bool streams, coffer_error *err);
void coffer__storage_close(coffer__storage_source *storage);

#endif
