/* SPDX-License-Identifier: Apache-2.0 */
/* A header's bytes as they come in: which are here, which are asked for, and where these will be. */
#include "intake.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

/* The bytes are not touched: dropping moves where they begin. */
static void intake_skip(coffer__intake *in, size_t done)
{
    in->bytes += done;
    in->size -= done;
    in->origin += done;
}

/* Moves what is here to `to`, and asks for `wanted` bytes more after it. The two places may
   overlap: sliding moves bytes down within one window. */
static coffer_status intake_ask(coffer__intake *in, uint8_t *to, size_t wanted)
{
    memmove(to, in->bytes, in->size);
    in->bytes = to;
    in->to = to + in->size;
    in->wanted = wanted;
    return COFFER_NEED_MORE;
}

coffer_status coffer__intake_slide(coffer__intake *in, size_t done)
{
    intake_skip(in, done);
    const size_t missing = coffer__intake_missing(in);
    /* After the drop what is here is shorter than the window, so there is space for at least one byte. */
    const size_t capacity = in->window_size - in->size;
    return intake_ask(in, in->window, missing < capacity ? missing : capacity);
}

coffer_status coffer__intake_rest(coffer__intake *in, size_t done, coffer_error *err)
{
    intake_skip(in, done);
    const size_t missing = coffer__intake_missing(in);
    if (missing == 0) {
        return COFFER_OK;
    }
    /* The caller has the file's first bytes in one piece, and is only told how many it lacks. */
    if (in->at_once) {
        in->wanted = missing;
        return COFFER_NEED_MORE;
    }
    const size_t size = in->size + missing;
    uint8_t *block = coffer__alloc(in->allocator, size);
    if (block == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the header (%z)", (uint64_t)size);
    }
    /* What is here may lie in an earlier block, of a header whose end was not known then; so that
       is freed after the move. */
    const coffer_status status = intake_ask(in, block, missing);
    coffer__intake_free(in);
    in->block = block;
    in->block_size = size;
    return status;
}

void coffer__intake_given(coffer__intake *in)
{
    in->size += in->wanted;
    in->wanted = 0;
}

/* `block` is NULL until all that was left was asked for. */
void coffer__intake_free(coffer__intake *in)
{
    coffer__free(in->allocator, in->block, in->block_size);
}
