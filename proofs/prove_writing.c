/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows: every function, of bytes of any value, where memory may run out at any moment; digits of bytes, and bytes of
 * digits, in base 16 and 64. Each text and each block ends where it says.
 */
#include "base64.h"
#include "hex.h"
#include "prove.h"
#include "writing.h"

#define TEXT_MAX 9

/* `size` bytes in one of five ways, behind up to two others; then what comes after that, and after the end. */
static void prove_growing(unsigned way, size_t size)
{
    coffer__writing out = { .allocator = &prove_allocator };
    uint8_t *bytes = prove_bytes(TEXT_MAX);
    coffer__write(&out, (const char *)bytes, prove_each(0, 2));
    if (way == 0) {
        coffer__write(&out, (const char *)bytes, size);
    } else if (way == 1) {
        coffer__write_hex(&out, bytes, size);
    } else if (way == 2) {
        coffer__write_le(&out, prove_u64(), size < 8 ? size : 8);
    } else if (way == 3) {
        coffer__write_json(&out, "a\"\n\x01");
    } else {
        (void)coffer__write_space(&out, SIZE_MAX / (size + 1));
    }
    coffer__write_text(&out, "after");
    coffer__writing_free(&out);
    coffer__write_text(&out, "again");
    coffer__writing_free(&out);
    free(bytes);
}

/* Any text of this length that is valid UTF-8 or not. */
static void prove_hex(size_t len)
{
    uint8_t bytes[TEXT_MAX];
    char *text = (char *)prove_bytes(len);
    coffer__hex_read(bytes, len / 2, text, len);
    coffer__hex_read(bytes, 1, text, len);
    free(text);
}

static void prove_base64(size_t size)
{
    const size_t len = coffer__base64_len(size);
    uint8_t *bytes = prove_bytes(size);
    char *text = malloc(len + 1);
    if (text == NULL) {
        exit(1);
    }
    coffer__base64_write(text, bytes, size);
    coffer_base64(bytes, size, text, prove_size(0, len + 1));
    free(text);
    free(bytes);
}

/* Four characters of any value, or fewer, behind so many that are digits. */
static void prove_base64_read(size_t digits, size_t any)
{
    uint8_t *back = malloc((digits + any) / 4 * 3 + 1);
    char *text = malloc(digits + any + 1);
    size_t read = 0;
    if (back == NULL || text == NULL) {
        exit(1);
    }
    memset(text, 'Q', digits);
    //@ loop unroll 4;
    for (size_t i = 0; i < any; i++) {
        text[digits + i] = (char)Frama_C_char_interval(-128, 127);
    }
    coffer__base64_read(back, &read, text, digits + any);
    //@ assert read <= (digits + any) / 4 * 3;
    free(back);
    free(text);
}

int main(void)
{
    //@ loop unroll 5;
    for (unsigned way = 0; way < 5; way++) {
        //@ loop unroll 10;
        for (size_t size = 0; size <= TEXT_MAX; size++) {
            prove_growing(way, size);
        }
    }
    //@ loop unroll 10;
    for (size_t len = 0; len <= TEXT_MAX; len++) {
        prove_hex(len);
        prove_base64(len);
    }
    //@ loop unroll 5;
    for (size_t any = 0; any <= 4; any++) {
        prove_base64_read(0, any);
    }
    prove_base64_read(4, 4);
    return 0;
}
