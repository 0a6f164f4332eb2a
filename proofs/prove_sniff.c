/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What else a file may be. Whatever is found by signatures and by single bytes: every content of up to SNIFF_MAX bytes, and of longer
 * ones, whose eighth byte is zero, so that it is no text. Text, which is gone through character by character: every content
 * of a few bytes, and longer ones in which some bytes may be any.
 */
#include "prove.h"
#include "sniff.h"

#define SNIFF_MAX 24
#define SNIFF_TEXT_MAX 9
#define SNIFF_SEEN 512

/* Every content with a zero as its eighth byte; shorter ones end before it. */
static void prove_bytes_but_text(size_t size)
{
    coffer_error err;
    //@ eva_allocate fresh_weak;
    uint8_t *bytes = calloc(size, 1);
    if (bytes == NULL) {
        exit(1);
    }
    //@ loop unroll 600;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = i == 7 ? 0 : Frama_C_unsigned_char_interval(0, 255);
    }
    coffer__sniff(bytes, size, &err);
}

/* `size` letters behind `blanks` spaces; the last `any` bytes of those that are looked at may be any. */
static void prove_text(size_t size, size_t blanks, size_t any)
{
    coffer_error err;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        exit(1);
    }
    memset(bytes, 'a', size);
    memset(bytes, ' ', blanks);
    const size_t seen = size < SNIFF_SEEN ? size : SNIFF_SEEN;
    //@ loop unroll 8;
    for (size_t i = seen - any; i < seen; i++) {
        bytes[i] = Frama_C_unsigned_char_interval(0, 255);
    }
    coffer__sniff(bytes, size, &err);
    free(bytes);
}

/* What only a few bytes in their places lead to: no bytes, no character long before the last that are looked at, and a message of
   Arrow of any length. */
static void prove_rare(void)
{
    coffer_error err;
    uint8_t bytes[SNIFF_SEEN];
    coffer__sniff("", 0, &err);
    memset(bytes, 'a', sizeof bytes);
    bytes[SNIFF_SEEN / 2] = 0xFF;
    coffer__sniff(bytes, sizeof bytes, &err);
    memset(bytes, 0xFF, sizeof bytes);
    //@ loop unroll 8;
    for (size_t i = 4; i < 12; i++) {
        bytes[i] = Frama_C_unsigned_char_interval(0, 255);
    }
    coffer__sniff(bytes, 12, &err);
}

int main(void)
{
    coffer_error err;
    if (prove_is_mine(0)) {
        //@ loop unroll SNIFF_MAX;
        for (size_t size = 8; size <= SNIFF_MAX; size++) {
            prove_bytes_but_text(size);
        }
        prove_bytes_but_text(64);
        prove_bytes_but_text(520);
    }
    if (prove_is_mine(1)) {
        //@ loop unroll SNIFF_TEXT_MAX;
        for (size_t size = 1; size <= SNIFF_TEXT_MAX; size++) {
            coffer__sniff(prove_bytes(size), size, &err);
        }
    }
    if (prove_is_mine(2)) {
        prove_text(12, 3, 2);
        prove_text(SNIFF_SEEN, 0, 3);
        prove_text(SNIFF_SEEN + 8, SNIFF_SEEN - 4, 3);
        prove_text(SNIFF_SEEN + 8, SNIFF_SEEN + 4, 0);
        prove_text(SNIFF_SEEN + 8, SNIFF_SEEN + 8, 0);
        prove_rare();
    }
    return 0;
}
