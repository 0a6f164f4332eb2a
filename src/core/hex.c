/* SPDX-License-Identifier: Apache-2.0 */
#include "hex.h"

void coffer__hex_write(char *text, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 0xF];
    }
}

/* The value of a hexadecimal digit of either case, or 16. ORing 0x20 makes lower case of letters;
   no other byte becomes a letter from a to f by it. */
static unsigned hex_value(char digit)
{
    const char lower = (char)(digit | 0x20);
    return digit >= '0' && digit <= '9'   ? (unsigned)(digit - '0')
           : lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a' + 10)
                                          : 16;
}

bool coffer__hex_read(uint8_t *bytes, size_t size, const char *hex, size_t hex_len)
{
    if (hex_len != 2 * size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        const unsigned high = hex_value(hex[2 * i]);
        const unsigned low = hex_value(hex[2 * i + 1]);
        if (high > 15 || low > 15) {
            return false;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
