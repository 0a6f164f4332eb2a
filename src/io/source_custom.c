/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own bytes: its functions are called with an error that is never NULL, and fill it or not. */
#include "error.h"
#include "source.h"
#include "trouble.h"

#include <string.h>

static coffer_status source_custom_read_at(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                           coffer_error *err)
{
    const coffer_source *custom = &source->as.custom;
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    coffer__error_clear(filled);
    const coffer_status status = custom->read_at(custom->ctx, offset, buffer, size, filled);
    return status == COFFER_OK ? COFFER_OK : coffer__trouble_of_caller(filled, status, "read", offset);
}

static void *source_custom_map(coffer__source *source, coffer_access access, bool populate, coffer_error *err)
{
    (void)source;
    (void)access;
    (void)populate;
    coffer__fail(err, COFFER_ERR_NOT_MAPPED,
                 "a source of the caller's own cannot be mapped: read the tensor with coffer_read instead");
    return NULL;
}

static void source_custom_close(coffer__source *source)
{
    if (source->as.custom.close != NULL) {
        source->as.custom.close(source->as.custom.ctx);
    }
}

void coffer__source_custom(coffer__source *source, const coffer_source *custom)
{
    static const coffer__source_ops ops = {
        .read_at = source_custom_read_at, .map = source_custom_map, .close = source_custom_close, .far = true
    };
    memset(source, 0, sizeof *source);
    source->ops = &ops;
    source->size = custom->size;
    source->as.custom = *custom;
}
