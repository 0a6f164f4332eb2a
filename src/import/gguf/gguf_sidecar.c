/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a sidecar goes through the same functions as the reader of GGUF, which bound every length by the file. */
#include "gguf_sidecar.h"

#include "alloc.h"
#include "error.h"
#include "input.h"

#include <string.h>

#define SIDECAR_WINDOW ((size_t)COFFER__GGUF_WINDOW + COFFER__GGUF_MAX_KEY)

/* The letters are looked at here, since no reader was asked whose file this is. */
static coffer_status sidecar_begin(coffer__gguf_sidecar *sidecar, coffer_error *err)
{
    uint64_t letters = 0;
    uint64_t tensors = 0;
    coffer_status status = coffer__gguf_number(&sidecar->in, 4, &letters, err);
    if (status != COFFER_OK || letters != 0x46554747) {
        return coffer__fail(err, COFFER_ERR_UNKNOWN_INPUT, "the sidecar is no GGUF file");
    }
    sidecar->in.position = 0;
    status = coffer__gguf_head(&sidecar->in, &tensors, &sidecar->left, err);
    if (status == COFFER_OK && sidecar->in.swapped) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "the sidecar is big-endian, and what is written is not");
    }
    return status;
}

/* All members are zero until they are there, so that closing is right after any failure. The window and the key share
   one allocation, as in the reader. */
coffer_status coffer__gguf_sidecar_open(coffer__gguf_sidecar *sidecar, const char *path,
                                        const coffer_allocator *allocator, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    *sidecar = (coffer__gguf_sidecar){ .allocator = allocator };
    options.allocator = allocator;
    coffer_status status = coffer_input_open(&sidecar->input, path, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    sidecar->in.window = coffer__alloc_array(allocator, SIDECAR_WINDOW, 1, err);
    if (sidecar->in.window == NULL) {
        return COFFER_ERR_MEMORY;
    }
    sidecar->reading = coffer__input_for_reader(sidecar->input);
    sidecar->in.input = &sidecar->reading;
    sidecar->in.file_size = sidecar->reading.size;
    sidecar->in.key = (char *)sidecar->in.window + COFFER__GGUF_WINDOW;
    sidecar->in.json.allocator = allocator;
    status = sidecar_begin(sidecar, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* The place is taken before and afterwards, so that the caller can copy exactly these bytes, whatever is in them. */
coffer_status coffer__gguf_sidecar_next(coffer__gguf_sidecar *sidecar, coffer__gguf_value *value, uint64_t *at,
                                        uint64_t *size, coffer_error *err)
{
    *at = coffer__gguf_at(&sidecar->in);
    const coffer_status status = coffer__gguf_read_value(&sidecar->in, value, err);
    *size = coffer__gguf_at(&sidecar->in) - *at;
    sidecar->left--;
    return status == COFFER_OK ? status : coffer__fail_path(err, status, sidecar->input->path);
}

/* The reader has gone over the bytes, so that they are in the file; only their number may be too large for memory. */
coffer_status coffer__gguf_sidecar_copy(coffer__gguf_sidecar *sidecar, uint64_t at, uint64_t size, coffer__writing *out,
                                        coffer_error *err)
{
    char *bytes = size <= SIZE_MAX / 2 ? coffer__write_space(out, (size_t)size) : NULL;
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the keys of a sidecar");
    }
    return sidecar->reading.read(sidecar->reading.ctx, 0, at, bytes, (size_t)size, err);
}

/* Freeing NULL does nothing, and nor does an input of NULL. */
void coffer__gguf_sidecar_close(coffer__gguf_sidecar *sidecar)
{
    coffer__writing_free(&sidecar->in.json);
    coffer__free_array(sidecar->allocator, sidecar->in.window, SIDECAR_WINDOW, 1);
    coffer_input_free(sidecar->input);
}
