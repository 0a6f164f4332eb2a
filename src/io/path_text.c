/* SPDX-License-Identifier: Apache-2.0 */
/* The part of paths.h that knows nothing of the system: text that is put together within a fixed size. */
#include "paths.h"
#include "text.h"

#include <string.h>

/* The text is terminated and shorter than `size`, so `size - used` is at least 1, and a text that fits leaves space
   for the NUL. */
bool coffer__text_append(char *text, size_t size, const char *more, size_t more_len)
{
    const size_t used = coffer__text_len(text);
    if (more_len >= size - used) {
        return false;
    }
    memcpy(text + used, more, more_len);
    text[used + more_len] = '\0';
    return true;
}

bool coffer__path_append(coffer__path *path, const char *text, size_t text_len)
{
    return coffer__text_append(path->text, sizeof path->text, text, text_len);
}

bool coffer__path_copy(coffer__path *out, const char *path)
{
    out->text[0] = '\0';
    return coffer__path_append(out, path, coffer__text_len(path));
}
