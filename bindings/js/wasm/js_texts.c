/* SPDX-License-Identifier: Apache-2.0 */
/* What rooms above core and format want of libc besides js_memory.c. */
#include <string.h>

size_t strlen(const char *text)
{
    size_t len = 0;
    while (text[len] != '\0') {
        len++;
    }
    return len;
}

char *strchr(const char *text, int wanted)
{
    for (; *text != (char)wanted; text++) {
        if (*text == '\0') {
            return NULL;
        }
    }
    return (char *)text;
}
