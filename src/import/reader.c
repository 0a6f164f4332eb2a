/* SPDX-License-Identifier: Apache-2.0 */
/* How readers read and look: a range is compared with the file's size before anybody is asked for it. */
#include "reader.h"

#include "error.h"
#include "text.h"

#include <string.h>

/* The one way from readers to bytes. Offsets and sizes come from files, so a failure here is told as one of
   the file; what input->read gets is in range, and an empty range is not asked for. */
coffer_status coffer__input_files_read(const coffer__input_files *input, uint32_t file, uint64_t file_size,
                                       uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    if (offset > file_size || size > file_size - offset) {
        coffer__fail_at(err, COFFER_ERR_DAMAGED, offset,
                        "%z at byte %u reach past the end of the file, which has %z; get the file again",
                        (uint64_t)size, offset, file_size);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, size, offset > file_size ? 0 : file_size - offset);
    }
    return size == 0 ? COFFER_OK : input->read(input->ctx, file, offset, bytes, size, err);
}

/* Searched byte by byte: it is asked of heads of a few kilobytes only. */
bool coffer__reader_has(const uint8_t *bytes, size_t size, const char *text)
{
    const size_t len = coffer__text_len(text);
    for (size_t i = 0; i + len <= size; i++) {
        if (bytes[i] == (uint8_t)text[0] && memcmp(bytes + i, text, len) == 0) {
            return true;
        }
    }
    return false;
}

coffer_status coffer__reader_index_status(coffer_status status, const void *text, size_t size, coffer_error *err)
{
    const char *bytes = text;
    while (size > 0 && (bytes[size - 1] == ' ' || (bytes[size - 1] >= '\t' && bytes[size - 1] <= '\r'))) {
        size--;
    }
    /* Within another object it may end with a brace, too; then the fault is at its end. */
    const bool at_end = err != NULL && err->offset != COFFER_NO_OFFSET && err->offset >= size;
    if (status != COFFER_ERR_JSON || (size > 0 && bytes[size - 1] == '}' && !at_end)) {
        return status;
    }
    return coffer__fail_at(err, COFFER_ERR_JSON, size,
                           "the index ends at byte %u, before its JSON does: it was cut; get the file again",
                           (uint64_t)size);
}
