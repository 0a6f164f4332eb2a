/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's own place: coffer_sink, as the public header has it. Exactly one of its finish and discard is
 * called, at the end. Its functions get an error that is clear and never NULL, so that they may fill it
 * without asking.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "sink.h"

static coffer_status sink_custom_reserve(coffer__byte_sink *sink, uint64_t size, coffer_error *err)
{
    (void)sink;
    (void)size;
    (void)err;
    return COFFER_OK;
}

/* The caller's function may be called by several threads at once, which the public header says. */
static coffer_status sink_custom_write_at(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                                          coffer_error *err)
{
    const coffer_sink *custom = sink->state;
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    coffer__error_clear(filled);
    const coffer_status status = custom->write_at(custom->ctx, offset, bytes, size, filled);
    return status == COFFER_OK ? COFFER_OK : coffer__callback_status(filled, status, "write", offset);
}

static void sink_custom_free(coffer__byte_sink *sink)
{
    coffer__free(&sink->allocator, sink->state, sizeof(coffer_sink));
    sink->state = NULL;
}

/* Released before the failure is reported; `custom` is not used after that. */
static coffer_status sink_custom_publish(coffer__byte_sink *sink, coffer_error *err)
{
    const coffer_sink *custom = sink->state;
    coffer_error own = { .code = COFFER_OK };
    coffer_error *filled = err != NULL ? err : &own;
    coffer__error_clear(filled);
    coffer_status status = COFFER_OK;
    if (custom->finish != NULL) {
        status = custom->finish(custom->ctx, filled);
    }
    sink_custom_free(sink);
    return status == COFFER_OK ? COFFER_OK : coffer__callback_status(filled, status, "finish", COFFER_NO_OFFSET);
}

static void sink_custom_discard(coffer__byte_sink *sink)
{
    const coffer_sink *custom = sink->state;
    if (custom->discard != NULL) {
        custom->discard(custom->ctx);
    }
    sink_custom_free(sink);
}

coffer_status coffer__sink_custom(coffer__byte_sink *sink, const coffer_allocator *allocator, const coffer_sink *custom,
                                  coffer_error *err)
{
    static const coffer__sink_ops ops = {
        sink_custom_reserve, sink_custom_write_at, sink_custom_publish, sink_custom_discard, NULL, NULL, NULL
    };
    const coffer_status status = coffer__sink_init(sink, &ops, allocator, sizeof(coffer_sink), err);
    if (status == COFFER_OK) {
        coffer_sink *copy = sink->state;
        *copy = *custom;
    }
    return status;
}
