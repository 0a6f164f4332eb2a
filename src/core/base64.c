/* SPDX-License-Identifier: Apache-2.0 */
#include "base64.h"

#include "coffer.h"

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t coffer__base64_len(size_t size)
{
    return size / 3 * 4 + (size % 3 > 0 ? 4 : 0);
}

/* Three bytes become 24 bits and four digits. Bytes that are missing from the last three count as
   zeros, and digits without any of their bits become padding. */
void coffer__base64_write(char *text, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t bits = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        *text++ = base64_digits[bits >> 18];
        *text++ = base64_digits[bits >> 12 & 63];
        *text++ = left > 1 ? base64_digits[bits >> 6 & 63] : '=';
        *text++ = left > 2 ? base64_digits[bits & 63] : '=';
    }
}

/* Space is compared without adding to the length, which may be the largest there is. */
size_t coffer_base64(const void *bytes, size_t size, char *text, size_t text_size)
{
    const size_t len = coffer__base64_len(size);
    if (text_size > len) {
        coffer__base64_write(text, bytes, size);
        text[len] = '\0';
    }
    return len;
}

/* The value of a digit, or 64. The padding has no value: it is a fault wherever it is not expected. */
static uint32_t base64_value(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? (uint32_t)(digit - 'A')
           : digit >= 'a' && digit <= 'z' ? (uint32_t)(digit - 'a' + 26)
           : digit >= '0' && digit <= '9' ? (uint32_t)(digit - '0' + 52)
           : digit == '+'                 ? 62
           : digit == '/'                 ? 63
                                          : 64;
}

/* Four characters at a time, and all of them: a text whose length is no multiple of 4 lacks its
   padding. */
bool coffer__base64_read(uint8_t *bytes, size_t *size, const char *text, size_t text_len)
{
    *size = 0;
    if (text_len % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < text_len; i += 4) {
        const bool last = i + 4 == text_len;
        /* Padding is looked for in the last four characters only. An equals sign anywhere else
           reaches base64_value, which refuses it. */
        const size_t padding = !last || text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        uint32_t bits = 0;
        for (size_t k = 0; k < 4 - padding; k++) {
            const uint32_t value = base64_value(text[i + k]);
            if (value > 63) {
                return false;
            }
            bits |= value << (18 - 6 * k);
        }
        /* The bits after the last byte must be zero, or several texts would stand for the same bytes. */
        if (padding > 0 && (bits & (padding == 1 ? 0xFFu : 0xFFFFu)) != 0) {
            return false;
        }
        bytes[(*size)++] = (uint8_t)(bits >> 16);
        if (padding < 2) {
            bytes[(*size)++] = (uint8_t)(bits >> 8 & 0xFF);
        }
        if (padding < 1) {
            bytes[(*size)++] = (uint8_t)(bits & 0xFF);
        }
    }
    return true;
}
