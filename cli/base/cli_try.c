/* SPDX-License-Identifier: Apache-2.0 */
/* Whether new files have their space: see cli_try.h for the contract. */
#include "cli_try.h"

/* Files that are open at once, at most: every program may have so many. */
#define TRY_FILES_MAX 200

/* The declaration of the tensor that ends a file: of those from `first` to before `end` the last one with bytes. SIZE_MAX:
   none has any. */
static size_t last_of(const coffer_header *header, size_t first, size_t end)
{
    size_t last = SIZE_MAX;
    for (size_t i = first; i < end; i++) {
        const coffer_tensor *tensor = coffer_header_at(header, i);
        const bool after = last == SIZE_MAX || tensor->offset > coffer_header_at(header, last)->offset;
        last = tensor->size > 0 && after ? i : last;
    }
    return last;
}

coffer_status cli_try_file(coffer_writer *writer, const coffer_header *header, coffer_error *err)
{
    const size_t last = last_of(header, 0, coffer_header_count(header));
    return last == SIZE_MAX ? COFFER_OK
                            : coffer_writer_write(writer, last, coffer_header_at(header, last)->size - 1, "", 1, err);
}

/* Tensors go into files in the order of their declaration, so a file's follow each other, and within it they lie in the
   order that all of them would have in one. */
coffer_status cli_try_files(coffer_model_writer *writer, coffer_header *header, coffer_error *err)
{
    const size_t count = coffer_header_count(header);
    coffer_status status = coffer_header_build(header, NULL, NULL, NULL, NULL, err);
    size_t first = 0;
    for (size_t file = 0; status == COFFER_OK && file < TRY_FILES_MAX && first < count; file++) {
        size_t end = first;
        while (end < count &&
               coffer_model_writer_shard_of(writer, end) == coffer_model_writer_shard_of(writer, first)) {
            end++;
        }
        const size_t last = last_of(header, first, end);
        if (last != SIZE_MAX) {
            status = coffer_model_writer_write(writer, last, coffer_header_at(header, last)->size - 1, "", 1, err);
        }
        first = end;
    }
    return status;
}
