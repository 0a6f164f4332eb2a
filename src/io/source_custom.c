/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's own bytes: coffer_source, as the public header has it. Its functions are called with an error that is
 * clear and never NULL, and fill it or not; what they leave out is filled in here, so that every failure has words.
 * What the struct leaves zero is not asked for: a source that says nothing is near, and is only read.
 */
#include "errno_status.h"
#include "error.h"
#include "source.h"

#include <string.h>

_Static_assert(sizeof(coffer_source) <= COFFER__SOURCE_CAPACITY, "the caller's functions fit in the source");

static const coffer_source *source_custom_of(const coffer__byte_source *source)
{
    return (const void *)source->state.capacity;
}

/* The caller's function has no watch, and cannot be interrupted. Whoever reads asks between two calls. */
static coffer_status source_custom_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer,
                                           size_t size, const coffer__watch *watch, coffer_error *err)
{
    const coffer_source *custom = source_custom_of(source);
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    (void)watch;
    coffer__error_clear(filled);
    const coffer_status status = custom->read_at(custom->ctx, offset, buffer, size, filled);
    return status == COFFER_OK ? COFFER_OK : coffer__callback_status(filled, status, "read", offset);
}

/* A caller's map that fails without saying why is COFFER_ERR_NOT_MAPPED. There is nothing to unmap: the memory is
   the caller's until close. */
static void *source_custom_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                               bool populate, coffer__os_map *map, coffer_error *err)
{
    const coffer_source *custom = source_custom_of(source);
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    (void)size;
    (void)populate;
    (void)map;
    coffer__error_clear(filled);
    const uint8_t *bytes = custom->map(custom->ctx, filled);
    if (bytes == NULL) {
        const coffer_status status = filled->code != COFFER_OK ? filled->code : COFFER_ERR_NOT_MAPPED;
        (void)coffer__callback_status(filled, status, "show its bytes in memory", COFFER_NO_OFFSET);
        return NULL;
    }
    return coffer__source_lent_memory(bytes + (size_t)offset, access, err);
}

/* Several threads may borrow at once. The caller counts the loans, if it has to. */
static coffer_status source_custom_borrow(const coffer__byte_source *source, int *fd, uint64_t *offset,
                                          coffer_error *err)
{
    const coffer_source *custom = source_custom_of(source);
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    coffer__error_clear(filled);
    const coffer_status status = custom->borrow(custom->ctx, fd, offset, filled);
    return status == COFFER_OK ? COFFER_OK
                               : coffer__callback_status(filled, status, "lend a descriptor", COFFER_NO_OFFSET);
}

static void source_custom_give_back(const coffer__byte_source *source)
{
    const coffer_source *custom = source_custom_of(source);
    custom->give_back(custom->ctx);
}

static void source_custom_close(coffer__byte_source *source)
{
    const coffer_source *custom = source_custom_of(source);
    if (custom->close != NULL) {
        custom->close(custom->ctx);
    }
}

void coffer__source_custom(coffer__byte_source *source, const coffer_source *custom)
{
    static const coffer__source_ops ops = { .kind = "a source of the caller's own",
                                            .read_at = source_custom_read_at,
                                            .close = source_custom_close,
                                            .map = source_custom_map,
                                            .borrow = source_custom_borrow,
                                            .give_back = source_custom_give_back };
    /* Nothing is known of where the bytes come from, so they may differ the next time. */
    const coffer__source_traits traits = { .foreign = true,
                                           .far = custom->far,
                                           .maps = custom->map != NULL,
                                           .lends = custom->borrow != NULL,
                                           .unstable = true };
    coffer__source_init(source, &ops, custom->size, traits);
    memcpy(source->state.capacity, custom, sizeof *custom);
}
