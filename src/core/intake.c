/* SPDX-License-Identifier: Apache-2.0 */
#include "intake.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

static void intake_drop(coffer__intake *in, size_t done)
{
    in->bytes += done;
    in->size -= done;
    in->origin += done;
}

/* Moves what is here to `to` and reads `size` bytes more behind it. */
static coffer_status intake_extend(coffer__intake *in, uint8_t *to, size_t size, coffer_error *err)
{
    const size_t here = in->size;
    memmove(to, in->bytes, here);
    in->bytes = to;
    in->size = here + size;
    return in->supply->read(in->supply->ctx, in->origin + here, to + here, size, err);
}

coffer_status coffer__intake_slide(coffer__intake *in, size_t done, coffer_error *err)
{
    intake_drop(in, done);
    const size_t missing = coffer__intake_missing(in);
    if (in->size >= in->supply->window_size) {
        return COFFER_OK;
    }
    const size_t room = in->supply->window_size - in->size;
    return intake_extend(in, in->supply->window, missing < room ? missing : room, err);
}

coffer_status coffer__intake_rest(coffer__intake *in, size_t done, coffer_error *err)
{
    intake_drop(in, done);
    const size_t missing = coffer__intake_missing(in);
    if (missing == 0) {
        return COFFER_OK;
    }
    in->block_size = in->size + missing;
    in->block = coffer__alloc(in->allocator, in->block_size);
    if (in->block == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the header (%z)", (uint64_t)in->block_size);
    }
    return intake_extend(in, in->block, missing, err);
}

void coffer__intake_free(coffer__intake *in)
{
    coffer__free(in->allocator, in->block, in->block_size);
}
