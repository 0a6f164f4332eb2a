/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pickles write as text: numbers and escapes of protocol 0, latin-1 in UTF-8, and the names that
 * globals had in Python 2.
 */
#include "pickle_text.h"

#include "text.h"

#include <string.h>

/* ---- characters ---- */

/* Whether three bytes are a surrogate, encoded as if it were a character. */
static bool text_is_surrogate(const char *text, size_t text_len)
{
    return text_len >= 3 && (uint8_t)text[0] == 0xED && ((uint8_t)text[1] & 0xE0) == 0xA0 &&
           ((uint8_t)text[2] & 0xC0) == 0x80;
}

/* Valid runs are skipped as a whole; only where one ends is a surrogate looked for. */
bool coffer__pickle_is_text(const char *text, size_t text_len)
{
    size_t at = coffer__utf8_valid_len(text, text_len);
    while (at < text_len) {
        if (!text_is_surrogate(text + at, text_len - at)) {
            return false;
        }
        at += 3;
        at += coffer__utf8_valid_len(text + at, text_len - at);
    }
    return true;
}

/* In place works because a character never becomes longer: `out` cannot overtake `at`. */
bool coffer__pickle_to_latin1(char *text, size_t *text_len)
{
    size_t out = 0;
    for (size_t at = 0; at < *text_len; out++) {
        uint32_t code_point = 0;
        const size_t size = coffer__utf8_decode(text + at, *text_len - at, &code_point);
        if (size == 0 || code_point > 0xFF) {
            return false;
        }
        text[out] = (char)(uint8_t)code_point;
        at += size;
    }
    *text_len = out;
    return true;
}

/* As coffer__utf8_encode, but of surrogates as well. */
static size_t text_encode(char *out, uint32_t code_point)
{
    if (code_point < 0xD800 || code_point > 0xDFFF) {
        return coffer__utf8_encode(out, code_point);
    }
    out[0] = (char)(uint8_t)0xED;
    out[1] = (char)(uint8_t)(0x80 | (code_point >> 6 & 0x3F));
    out[2] = (char)(uint8_t)(0x80 | (code_point & 0x3F));
    return 3;
}

/* Without the white space at the end of a line, which Python's unpicklers did not always mind. */
static size_t text_trim(const char *text, size_t text_len)
{
    while (text_len > 0 && (text[text_len - 1] == '\r' || text[text_len - 1] == ' ')) {
        text_len--;
    }
    return text_len;
}

/* ---- escapes ---- */

/* The value of `count` hexadecimal digits. False: there are fewer. */
static bool text_hex(const char *text, size_t text_len, size_t count, uint32_t *value)
{
    if (count > text_len) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < count; i++) {
        const char c = text[i];
        const bool digit = c >= '0' && c <= '9';
        const char lower = (char)(c | 0x20);
        if (!digit && (lower < 'a' || lower > 'f')) {
            return false;
        }
        *value = *value * 16 + (uint32_t)(digit ? c - '0' : lower - 'a' + 10);
    }
    return true;
}

/* A byte that is written as one to three octal digits; how many. */
static size_t text_octal(const char *text, size_t text_len, char *byte)
{
    unsigned value = 0;
    size_t count = 0;
    while (count < 3 && count < text_len && text[count] >= '0' && text[count] <= '7') {
        value = value * 8 + (unsigned)(text[count++] - '0');
    }
    *byte = (char)(uint8_t)value;
    return count;
}

/*
 * One escape of STRING, after its backslash: how many bytes it takes, 0 when it is wrong. What is no
 * escape of Python stands for itself, backslash included.
 */
static size_t text_escape(const char *text, size_t text_len, char *out, size_t *out_len)
{
    static const char letters[] = "abfnrtv\\'\"";
    static const char values[] = "\a\b\f\n\r\t\v\\'\"";
    for (size_t i = 0; text_len > 0 && i < sizeof letters - 1; i++) {
        if (text[0] == letters[i]) {
            out[(*out_len)++] = values[i];
            return 1;
        }
    }
    uint32_t value = 0;
    if (text_len > 0 && text[0] == 'x') {
        if (!text_hex(text + 1, text_len - 1, 2, &value)) {
            return 0;
        }
        out[(*out_len)++] = (char)(uint8_t)value;
        return 3;
    }
    char byte = 0;
    const size_t digits = text_octal(text, text_len, &byte);
    if (digits > 0) {
        out[(*out_len)++] = byte;
        return digits;
    }
    /* Neither an escape nor an error: Python keeps the backslash. */
    if (text_len > 0) {
        out[(*out_len)++] = '\\';
        out[(*out_len)++] = text[0];
        return 1;
    }
    return 0;
}

/* Python 2 stripped white space before it looked for quotes. An escape takes at least two bytes of the text and gives
   at most two, so `out` never needs more than the text has. */
bool coffer__pickle_unquote(const char *text, size_t text_len, char *out, size_t *out_len)
{
    text_len = text_trim(text, text_len);
    if (text_len < 2 || text[0] != text[text_len - 1] || (text[0] != '\'' && text[0] != '"')) {
        return false;
    }
    *out_len = 0;
    for (size_t at = 1; at < text_len - 1;) {
        size_t made = 0;
        const size_t size = coffer__pickle_byte(true, text + at, text_len - 1 - at, out + *out_len, &made);
        if (size == 0) {
            return false;
        }
        *out_len += made;
        at += size;
    }
    return true;
}

/*
 * UNICODE is latin-1 but for \uXXXX and \UXXXXXXXX. A backslash before anything else stands for
 * itself, and so does what follows it: of two backslashes the second begins no escape. A byte becomes
 * two bytes at most, an escape of 6 or 10 bytes at most 4, so twice the length is space enough.
 */
bool coffer__pickle_unescape(const char *text, size_t text_len, char *out, size_t *out_len)
{
    *out_len = 0;
    for (size_t at = 0; at < text_len;) {
        const bool escape = text[at] == '\\' && text_len - at > 1;
        const size_t digits = !escape ? 0 : text[at + 1] == 'u' ? 4 : text[at + 1] == 'U' ? 8 : 0;
        uint32_t code_point = (uint8_t)text[at];
        if (digits > 0) {
            if (!text_hex(text + at + 2, text_len - at - 2, digits, &code_point) || code_point > 0x10FFFF) {
                return false;
            }
            at += 2 + digits;
        } else {
            at++;
        }
        *out_len += text_encode(out + *out_len, code_point);
        if (escape && digits == 0) {
            *out_len += text_encode(out + *out_len, (uint8_t)text[at++]);
        }
    }
    return true;
}

size_t coffer__pickle_byte(bool quoted, const char *text, size_t text_len, char out[2], size_t *made)
{
    uint32_t code_point = 0;
    *made = 0;
    if (text_len > 0 && text[0] != '\\') {
        out[(*made)++] = text[0];
        return 1;
    }
    if (text_len < 2) {
        return 0;
    }
    if (quoted) {
        const size_t size = text_escape(text + 1, text_len - 1, out, made);
        return size == 0 ? 0 : 1 + size;
    }
    const size_t digits = text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
    /* Of two backslashes the second begins no escape. */
    if (digits == 0) {
        out[(*made)++] = text[0];
        out[(*made)++] = text[1];
        return 2;
    }
    if (!text_hex(text + 2, text_len - 2, digits, &code_point) || code_point > 0xFF) {
        return 0;
    }
    out[(*made)++] = (char)(uint8_t)code_point;
    return 2 + digits;
}

/* An escape of STRING has four bytes at most. */
bool coffer__pickle_text_fits(bool quoted, uint64_t text_len, uint64_t size)
{
    const uint64_t most = quoted ? 4 : COFFER__PICKLE_TEXT_MAX;
    return size <= text_len && text_len / most + (text_len % most != 0) <= size;
}

/* ---- numbers ---- */

static bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool coffer__pickle_read_integer(const char *text, size_t text_len, int64_t *value, bool *fits)
{
    text_len = text_trim(text, text_len);
    const bool negative = text_len > 0 && text[0] == '-';
    size_t at = negative || (text_len > 0 && text[0] == '+');
    if (at == text_len) {
        return false;
    }
    /* What fits is at most 2^63 in size, and 2^63 only below zero. */
    const uint64_t most = (uint64_t)INT64_MAX + negative;
    uint64_t size = 0;
    *fits = true;
    for (; at < text_len; at++) {
        if (!text_is_digit(text[at])) {
            return false;
        }
        /*
         * Once a number does not fit, its digits are only looked at: it is an integer all the same, of which
         * nobody needs the value.
         */
        const unsigned digit = (unsigned)(text[at] - '0');
        *fits = *fits && size <= (most - digit) / 10;
        size = *fits ? size * 10 + digit : 0;
    }
    /* Unsigned, since the least integer has no positive twin. */
    const uint64_t two = negative ? 0 - size : size;
    memcpy(value, &two, sizeof *value);
    return true;
}

/* Digits that a double is made of: what FLOAT writes has 17 at most, and further ones change nothing that matters here. */
#define REAL_MAX_DIGITS 40
#define REAL_MAX_EXPONENT 400
#define REAL_LIMBS 64 /* of 32 bits: 10^440 takes 46, and a quotient that begins 2^1536 higher stays above 64 bits */

/* Digits times a power of ten, as the text has them. */
typedef struct real_parts {
    uint8_t digits[REAL_MAX_DIGITS];
    size_t count;
    int64_t exponent;
    bool negative;
} real_parts;

/* An integer of many bits, the lowest limb first. */
typedef struct real_big {
    uint32_t limbs[REAL_LIMBS];
} real_big;

/* Nothing is carried out of the last limb: REAL_LIMBS are enough for 40 digits and 400 more powers of ten. */
static void real_multiply_add(real_big *big, uint32_t factor, uint32_t more)
{
    uint64_t carry = more;
    for (size_t i = 0; i < REAL_LIMBS; i++) {
        carry += (uint64_t)big->limbs[i] * factor;
        big->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Divides; true when there was a remainder. School division by one limb, from the highest one down. */
static bool real_divide(real_big *big, uint32_t by)
{
    uint64_t rest = 0;
    for (size_t i = REAL_LIMBS; i-- > 0;) {
        rest = rest << 32 | big->limbs[i];
        big->limbs[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    return rest != 0;
}

/* The digits before the exponent. False: there are none, or something else is there. */
static bool real_read_digits(const char *text, size_t text_len, size_t *at, real_parts *parts)
{
    bool any = false;
    bool point = false;
    for (; *at < text_len && (text_is_digit(text[*at]) || (text[*at] == '.' && !point)); ++*at) {
        if (text[*at] == '.') {
            point = true;
            continue;
        }
        any = true;
        /* Leading zeros are no digits of the number, but after the point they still count for its exponent.
           Digits beyond the space before the point raise the exponent, those after it do neither. */
        const bool leading = parts->count == 0 && text[*at] == '0';
        const bool full = parts->count == REAL_MAX_DIGITS;
        if (!leading && !full) {
            parts->digits[parts->count++] = (uint8_t)(text[*at] - '0');
        }
        parts->exponent += (int)full - (int)point;
    }
    return any;
}

/* Digits, a point among them, and perhaps an exponent; sign and white space as in FLOAT's line. */
static bool real_read(const char *text, size_t text_len, real_parts *parts)
{
    memset(parts, 0, sizeof *parts);
    text_len = text_trim(text, text_len);
    parts->negative = text_len > 0 && text[0] == '-';
    size_t at = parts->negative || (text_len > 0 && text[0] == '+');
    if (!real_read_digits(text, text_len, &at, parts)) {
        return false;
    }
    if (at == text_len) {
        return true;
    }
    int64_t exponent = 0;
    bool fits = false;
    if ((text[at] | 0x20) != 'e' || !coffer__pickle_read_integer(text + at + 1, text_len - at - 1, &exponent, &fits)) {
        return false;
    }
    /* Cut before it is added, so that the sum cannot wrap. */
    const int64_t most = 1000000; /* more digits than a line has cannot bring it back */
    exponent = !fits || exponent > most || exponent < -most ? (text[at + 1] == '-' ? -most : most) : exponent;
    parts->exponent += exponent;
    return true;
}

/* The bit `bit` of the number. */
static unsigned real_bit(const real_big *big, size_t bit)
{
    return big->limbs[bit / 32] >> (bit % 32) & 1;
}

/*
 * The nearest double, ties to even, to big * 2^scale, which has a bit below its last one when `sticky`.
 * Its bits are those of a double once they are put together as fraction and exponent: adding the
 * rounding to both at once carries from the one into the other as it has to.
 */
static uint64_t real_round(const real_big *big, int64_t scale, bool sticky)
{
    size_t top = (size_t)REAL_LIMBS * 32;
    while (top > 0 && real_bit(big, top - 1) == 0) {
        top--;
    }
    if (top == 0) {
        return 0;
    }
    int64_t exponent = (int64_t)top - 1 + scale; /* of the highest bit */
    if (exponent > 1023) {
        return UINT64_C(0x7FF) << 52;
    }
    /* The lowest bit that a double of this size keeps: 52 below the highest, but not below 2^-1074. */
    const int64_t lowest = (exponent - 52 < -1074 ? -1074 : exponent - 52) - scale;
    uint64_t kept = 0;
    /* From the highest bit down, also past the lowest bit of the number: a small integer ends in zeros. */
    for (int64_t bit = (int64_t)top - 1; bit >= lowest; bit--) {
        kept = kept << 1 | (bit >= 0 ? real_bit(big, (size_t)bit) : 0);
    }
    const bool half = lowest >= 1 && lowest <= (int64_t)top && real_bit(big, (size_t)lowest - 1) != 0;
    for (int64_t bit = 0; bit < lowest - 1 && bit < (int64_t)top; bit++) {
        sticky = sticky || real_bit(big, (size_t)bit) != 0;
    }
    /* One less than the true exponent, since the highest bit of what is kept adds one to it; of subnormal
       numbers that bit is not there. */
    const uint64_t biased = exponent < -1022 ? 0 : (uint64_t)(exponent + 1022);
    return (biased << 52) + kept + (half && (sticky || (kept & 1) != 0));
}

/*
 * The bits of the number without its sign. Exact integer arithmetic instead of strtod: that depends on the
 * locale, and pure parts call nothing of libc beyond memory. Exponents are cut first, so that the loops are
 * short; what is cut is 0 or infinite in any case, since there are at most 40 digits.
 */
static uint64_t real_bits(const real_parts *parts)
{
    if (parts->count == 0 || parts->exponent < -REAL_MAX_EXPONENT) {
        return 0;
    }
    if (parts->exponent > REAL_MAX_EXPONENT) {
        return UINT64_C(0x7FF) << 52;
    }
    /* The digits as one integer, then as many powers of ten as the exponent says. */
    real_big big = { { 0 } };
    for (size_t i = 0; i < parts->count; i++) {
        real_multiply_add(&big, 10, parts->digits[i]);
    }
    for (int64_t i = 0; i < parts->exponent; i++) {
        real_multiply_add(&big, 10, 0);
    }
    if (parts->exponent >= 0) {
        return real_round(&big, 0, false);
    }
    /* Below the point: 2^1536 times the number, divided step by step. Floors of floors are the floor of the
       whole, and whether anything was left over is all that rounding wants to know of the rest. */
    memmove(big.limbs + 48, big.limbs, 16 * sizeof big.limbs[0]);
    memset(big.limbs, 0, 48 * sizeof big.limbs[0]);
    bool sticky = false;
    for (int64_t i = parts->exponent; i < 0; i++) {
        sticky = real_divide(&big, 10) || sticky;
    }
    return real_round(&big, -1536, sticky);
}

/* One of the three names of what has no digits. */
static bool real_read_name(const char *text, size_t text_len, uint64_t *bits)
{
    text_len = text_trim(text, text_len);
    const bool negative = text_len > 0 && text[0] == '-';
    const size_t at = negative;
    if (text_len - at != 3) {
        return false;
    }
    const bool nan = memcmp(text + at, "nan", 3) == 0;
    if (!nan && memcmp(text + at, "inf", 3) != 0) {
        return false;
    }
    /* The NaN that Python's float("nan") is: quiet, with no payload. */
    *bits = (nan ? UINT64_C(0xFFF) << 51 : UINT64_C(0x7FF) << 52) | (uint64_t)negative << 63;
    return true;
}

bool coffer__pickle_read_real(const char *text, size_t text_len, double *value)
{
    uint64_t bits = 0;
    if (!real_read_name(text, text_len, &bits)) {
        real_parts parts;
        if (!real_read(text, text_len, &parts)) {
            return false;
        }
        bits = real_bits(&parts) | (uint64_t)parts.negative << 63;
    }
    memcpy(value, &bits, sizeof *value);
    return true;
}

/* ---- names ---- */

/* What Python 3 has renamed (its own unpickler does the same) and, last, PyTorch. Without a name: the whole module. */
typedef struct text_rename {
    const char *module;
    const char *name;
    const char *new_module;
    const char *new_name;
} text_rename;

static const text_rename text_renames[] = {
    { "__builtin__", "xrange", "builtins", "range" },
    { "__builtin__", "reduce", "functools", "reduce" },
    { "__builtin__", "intern", "sys", "intern" },
    { "__builtin__", "unichr", "builtins", "chr" },
    { "__builtin__", "unicode", "builtins", "str" },
    { "__builtin__", "long", "builtins", "int" },
    { "__builtin__", "basestring", "builtins", "str" },
    { "itertools", "izip", "builtins", "zip" },
    { "itertools", "imap", "builtins", "map" },
    { "itertools", "ifilter", "builtins", "filter" },
    { "os", "getcwdu", "os", "getcwd" },
    { "urllib", "urlopen", "urllib.request", "urlopen" },
    { "urllib", "urlretrieve", "urllib.request", "urlretrieve" },
    { "__builtin__", NULL, "builtins", NULL },
    { "exceptions", NULL, "builtins", NULL },
    { "copy_reg", NULL, "copyreg", NULL },
    { "cPickle", NULL, "pickle", NULL },
    { "commands", NULL, "subprocess", NULL },
    { "Queue", NULL, "queue", NULL },
    { "SocketServer", NULL, "socketserver", NULL },
    { "httplib", NULL, "http.client", NULL },
    { "urllib2", NULL, "urllib.request", NULL },
    { "StringIO", NULL, "io", NULL },
    { "cStringIO", NULL, "io", NULL },
    { "UserDict", NULL, "collections", NULL },
    { "UserList", NULL, "collections", NULL },
    { "torch.tensor", NULL, "torch._tensor", NULL },
};

/* The first row that fits decides, so rows with a name stand before those of their whole module. Only one step
   is made: no new name is an old one again. */
void coffer__pickle_rename(const char **module, const char **name)
{
    for (size_t i = 0; i < sizeof text_renames / sizeof text_renames[0]; i++) {
        const text_rename *row = &text_renames[i];
        if (coffer__same_text(*module, row->module) && (row->name == NULL || coffer__same_text(*name, row->name))) {
            *module = row->new_module;
            *name = row->name == NULL ? *name : row->new_name;
            return;
        }
    }
}
