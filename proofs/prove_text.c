/* SPDX-License-Identifier: Apache-2.0 */
/* Text: UTF-8 decoded and encoded, escaping, decimal digits; for every content of up to TEXT_MAX bytes. */
#include "prove.h"
#include "text.h"

#define TEXT_MAX 4
#define OUT_MAX 12
#define CUT_MAX 2

static void prove_encode(void)
{
    const uint32_t code_point = (uint32_t)prove_size(0, 0x10FFFF);
    char bytes[4];
    const size_t size = coffer__utf8_encode(bytes, code_point);
    //@ assert 1 <= size <= 4;
    coffer__is_control(code_point);
}

static void prove_decode(size_t size)
{
    const char *text = (const char *)prove_bytes(size);
    uint32_t code_point = 0;
    const size_t taken = coffer__utf8_decode(text, size, &code_point);
    //@ assert taken <= size && taken <= 4;
    //@ assert taken == 0 || code_point <= 0x10FFFF;
}

static void prove_valid_len(size_t size)
{
    const char *text = (const char *)prove_bytes(size);
    const size_t valid = coffer__utf8_valid_len(text, size);
    //@ assert valid <= size;
}

static void prove_escape(size_t size)
{
    const char *text = (const char *)prove_bytes(size);
    coffer_escape(text, size, NULL, 0);
    const size_t out_size = prove_each(1, OUT_MAX);
    char *out = (char *)prove_bytes(out_size);
    coffer_escape(text, size, out, out_size);
}

/* What is cut is measured first, so here the text has to stand still. */
static void prove_escape_cut(size_t size)
{
    const char *text = (const char *)prove_still_bytes(size);
    char *out = (char *)prove_bytes(16);
    coffer__escape_cut(text, size, out, 8);
}

static void prove_u64_digits(void)
{
    char digits[20];
    const size_t count = coffer__write_u64(digits, prove_u64());
    //@ assert 1 <= count <= 20;
    coffer__write_u64(NULL, prove_u64());
}

/* Words, which are texts that end with a zero: each of up to two letters. */
static void prove_words(void)
{
    char word[3] = { (char)prove_each('a', 'b'), (char)prove_each('a', 'b'), '\0' };
    char other[3] = { (char)prove_each('a', 'b'), '\0', '\0' };
    word[prove_each(0, 2)] = '\0';
    const size_t len = coffer__text_len(word);
    //@ assert len <= 2;
    coffer__same_text(word, other);
    coffer__text_is(word, len, other);
    coffer__text_ends(word, len, other);
    coffer__text_has_ending(word, other);
}

int main(void)
{
    prove_encode();
    prove_words();
    prove_u64_digits();
    //@ loop unroll TEXT_MAX;
    for (size_t size = 1; size <= TEXT_MAX; size++) {
        prove_decode(size);
        prove_valid_len(size);
        prove_escape(size);
    }
    //@ loop unroll CUT_MAX;
    for (size_t size = 1; size <= CUT_MAX; size++) {
        prove_escape_cut(size);
    }
    return 0;
}
