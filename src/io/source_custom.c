/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own bytes: its functions are called with an error that is never NULL, and fill it or not. */
#include "error.h"
#include "source.h"
#include "trouble.h"

#include <string.h>

_Static_assert(sizeof(coffer_source) <= COFFER__SOURCE_ROOM, "the caller's functions fit in the source");

static const coffer_source *source_custom_of(const coffer__source *source)
{
    return (const void *)source->state.room;
}

static coffer_status source_custom_read_at(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                           const coffer__watch *watch, coffer_error *err)
{
    const coffer_source *custom = source_custom_of(source);
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    (void)watch;
    coffer__error_clear(filled);
    const coffer_status status = custom->read_at(custom->ctx, offset, buffer, size, filled);
    return status == COFFER_OK ? COFFER_OK : coffer__trouble_of_caller(filled, status, "read", offset);
}

static void source_custom_close(coffer__source *source)
{
    const coffer_source *custom = source_custom_of(source);
    if (custom->close != NULL) {
        custom->close(custom->ctx);
    }
}

void coffer__source_custom(coffer__source *source, const coffer_source *custom)
{
    static const coffer__source_ops ops = { .kind = "a source of the caller's own",
                                            .read_at = source_custom_read_at,
                                            .close = source_custom_close };
    /* Nobody knows what the functions ask, so their bytes may be others the next time. */
    coffer__source_init(source, &ops, custom->size, (coffer__source_traits){ .fickle = true });
    memcpy(source->state.room, custom, sizeof *custom);
}
