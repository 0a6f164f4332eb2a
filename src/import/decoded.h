/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages that are decoded while they are read at any place, for an import that is open as a model (import_source.h).
 *
 *   at most 16 MiB       decoded whole when they are first wanted
 *   chunks of HDF5       likewise, the larger ones into a file without a name
 *   any larger one       decoded from its first byte up to what is wanted. The last 16 MiB of that are kept, so that reads
 *                        that go on, or a little back, cost what they take; one that is before them begins anew
 *
 * The last four that were used are kept: 64 MiB. Any number of threads may read; one of them decodes.
 */
#ifndef COFFER_IMPORT_DECODED_H
#define COFFER_IMPORT_DECODED_H

#include "storage.h"

typedef struct coffer__decoded_entry coffer__decoded_entry;

typedef struct coffer__decoded {
    coffer__decoding decoding;
    coffer__crcs crcs;
    coffer__mutex lock;             /* of what follows, and of decoding */
    coffer__decoded_entry *entries; /* the one that was used last is the first */
} coffer__decoded;

/* Whether a storage is decoded from its first byte on, however few of its bytes are wanted. */
bool coffer__decoded_in_order(const coffer__import_plan *plan, uint32_t storage);

/* Everything is borrowed until coffer__decoded_close; any number of threads may use the allocator at once. False where the
   system has no mutex; then nothing is to be closed. */
bool coffer__decoded_open(coffer__decoded *decoded, const coffer__import_plan *plan, const coffer_input *input,
                          const coffer_allocator *allocator);
void coffer__decoded_close(coffer__decoded *decoded);
/* Opens a storage to be read as a source, until coffer__decoded_release, which follows on success alone. */
coffer_status coffer__decoded_acquire(coffer__decoded *decoded, uint32_t storage, coffer__decoded_entry **entry,
                                      coffer_error *err);
const coffer__byte_source *coffer__decoded_source(const coffer__decoded_entry *entry);
void coffer__decoded_release(coffer__decoded *decoded, coffer__decoded_entry *entry);

#endif
