/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked beside reading and building: the names of things. */
#include "js.h"
#include "text.h"

/* What a number is called: texts that end with a NUL. "" is no such number. */
JS_EXPORT(coffer_js_format_id) const char *coffer_js_format_id(unsigned format)
{
    return coffer_format_id((coffer_format)format);
}

JS_EXPORT(coffer_js_version) const char *coffer_js_version(void)
{
    return coffer_version();
}

/* Text that is safe to show, in the answer's bytes. With `capacity` it loses its middle when it and a NUL take more bytes. */
JS_EXPORT(coffer_js_escape) coffer_status coffer_js_escape(const char *text, size_t text_len, size_t capacity)
{
    const size_t size = capacity > 0 ? capacity : coffer_escape(text, text_len, NULL, 0) + 1;
    char *out = js_capacity(size, 1);
    if (out == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer__escape_cut(text, text_len, out, size);
    js_state.bytes = (uint32_t)(size_t)out;
    js_state.bytes_size = (uint32_t)coffer__text_len(out);
    return COFFER_OK;
}
