/* SPDX-License-Identifier: Apache-2.0 */
/* What every module has, whatever it does: the answer, and the beginning of a job. */
#include "alloc.h"
#include "error.h"
#include "js.h"

js_answer js_state;

JS_EXPORT(coffer_js_answer) js_answer *coffer_js_answer(void)
{
    return &js_state;
}

/* For what JavaScript hands in; 0 when there is no memory. */
JS_EXPORT(coffer_js_alloc) void *coffer_js_alloc(size_t size)
{
    return js_arena.alloc(js_arena.ctx, size);
}

void *js_capacity(size_t count, size_t size)
{
    return coffer__alloc_array(&js_arena, count, size, &js_state.error);
}

/* Ends the job before, and forgets it. */
JS_EXPORT(coffer_js_begin) void coffer_js_begin(void)
{
    js_arena_reset();
    coffer__error_clear(&js_state.error);
}
