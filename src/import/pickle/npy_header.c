/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a NumPy array: a parser for the one dict that it is, and for nothing else of Python.
 *
 *   dict    { pair, pair[,] }        spaces, tabs and line ends between any two tokens
 *   pair    'descr': type   |   'fortran_order': True or False   |   'shape': tuple
 *   type    'ORDER LETTER SIZE', as '<f4'; or a list or tuple, of a structure, which is not read
 *   tuple   ()   (2,)   (2, 3)       integers, with an L after them from Python 2
 *
 * NumPy evaluates the text with ast.literal_eval, and so takes spellings that it never writes. Those are refused:
 * escapes in texts, comments, other keys, keys that come twice, integers in other bases. The parser recurses
 * nowhere and keeps nothing but the result; texts are looked at where they lie.
 */
#include "npy_header.h"

#include "bytes.h"
#include "checked.h"

/* A text within the header, without its quotes. */
typedef struct npy_text {
    const char *text;
    size_t len;
} npy_text;

/* The text and where it is read, and what was found so far. */
typedef struct npy_parser {
    coffer__npy *npy;
    coffer__cursor in;
    unsigned seen; /* keys, one bit each */
} npy_parser;

enum { NPY_DESCR = 1, NPY_ORDER = 2, NPY_SHAPE = 4, NPY_ALL = 7 };

/* The reader, who knows the array's name, makes a sentence of it. */
static coffer_status npy_fail(npy_parser *parser, const char *fault)
{
    parser->npy->fault = fault;
    parser->npy->fault_at = parser->in.position;
    return COFFER_ERR_ARRAY;
}

/* ---- types --------------------------------------------------------------------------------------------------------- */

coffer__element coffer__numpy_element(const char *code, size_t code_len)
{
    /* Letter and number of bytes, as numpy.dtype.str has them after the order. "V2" is what ml_dtypes' bfloat16 is written
       as, "f1" its float8_e5m2. */
    static const struct {
        char code[4];
        coffer__element element;
    } elements[] = {
        { "b1", COFFER__ELEMENT_BOOL },  { "?", COFFER__ELEMENT_BOOL },     { "u1", COFFER__ELEMENT_U8 },
        { "i1", COFFER__ELEMENT_I8 },    { "i2", COFFER__ELEMENT_I16 },     { "u2", COFFER__ELEMENT_U16 },
        { "f2", COFFER__ELEMENT_F16 },   { "V2", COFFER__ELEMENT_BF16 },    { "i4", COFFER__ELEMENT_I32 },
        { "u4", COFFER__ELEMENT_U32 },   { "f4", COFFER__ELEMENT_F32 },     { "i8", COFFER__ELEMENT_I64 },
        { "u8", COFFER__ELEMENT_U64 },   { "f8", COFFER__ELEMENT_F64 },     { "c8", COFFER__ELEMENT_C64 },
        { "c16", COFFER__ELEMENT_C128 }, { "f1", COFFER__ELEMENT_F8_E5M2 },
    };
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        /* A code fills its four bytes or ends with a NUL before. */
        const size_t len = elements[i].code[1] == '\0' ? 1 : elements[i].code[2] == '\0' ? 2 : 3;
        if (len == code_len && memcmp(elements[i].code, code, len) == 0) {
            return elements[i].element;
        }
    }
    return COFFER__ELEMENT_NONE;
}

/* What an array without an equivalent is of, by the letter of its type. */
static const char *npy_lack(char letter)
{
    switch (letter) {
    case 'O':
        return "its elements are objects, which are a pickle";
    case 'S':
    case 'a':
    case 'U':
        return "its elements are text";
    case 'm':
    case 'M':
        return "its elements are dates or times";
    case 'V':
        return "its elements are bytes without a type";
    case 'f':
    case 'c':
        return "its elements are longer floats than safetensors has";
    default:
        return NULL;
    }
}

/* A type is an order (< > = |), a letter and a number. */
static coffer_status npy_set_type(npy_parser *parser, npy_text type)
{
    coffer__npy *npy = parser->npy;
    /* "|" says that there is no order, and "=" that it is the writer's own: NumPy never writes that, and it is read
       as "<". */
    const bool ordered =
        type.len > 0 && (type.text[0] == '<' || type.text[0] == '>' || type.text[0] == '=' || type.text[0] == '|');
    const char *code = type.text + ordered;
    const size_t len = type.len - ordered;
    npy->swapped = ordered && type.text[0] == '>';
    npy->element = coffer__numpy_element(code, len);
    npy->void_bfloat16 = npy->element == COFFER__ELEMENT_BF16;
    if (len == 2 && memcmp(code, "V1", 2) == 0) {
        npy->element = COFFER__ELEMENT_BYTE;
        npy->void_byte = true;
    } else if (npy->element == COFFER__ELEMENT_NONE) {
        /* A type that NumPy has and safetensors has not is no fault of the file; any other letter is. */
        npy->lack = len > 0 ? npy_lack(code[0]) : NULL;
        npy->objects = len > 0 && code[0] == 'O';
        return npy->lack != NULL ? COFFER_OK : npy_fail(parser, "the type of its elements is not one that NumPy has");
    }
    return COFFER_OK;
}

/* ---- tokens -------------------------------------------------------------------------------------------------------- */

/* The next byte that is no white space, 0 at the end. Spaces are passed over here and nowhere else, so they may stand
   between any two tokens. */
static char npy_peek(npy_parser *parser)
{
    coffer__cursor *in = &parser->in;
    while (coffer__left(in) > 0 && (in->base[in->position] == ' ' || in->base[in->position] == '\n' ||
                                    in->base[in->position] == '\r' || in->base[in->position] == '\t')) {
        in->position++;
    }
    return coffer__left(in) > 0 ? (char)in->base[in->position] : '\0';
}

/* Takes the token if it is the next one, whatever space comes before it. */
static bool npy_take(npy_parser *parser, char token)
{
    const bool there = npy_peek(parser) == token;
    parser->in.position += there;
    return there;
}

/* A text in quotes of either kind. An escape is refused and not read: neither types nor keys ever need one. */
static coffer_status npy_string(npy_parser *parser, npy_text *text)
{
    coffer__cursor *in = &parser->in;
    const char quote = npy_peek(parser);
    if (quote != '\'' && quote != '"') {
        return npy_fail(parser, "a text in quotes should be here");
    }
    in->position++;
    text->text = (const char *)in->base + in->position;
    text->len = 0;
    while (coffer__left(in) > 0 && in->base[in->position] != (uint8_t)quote) {
        if (in->base[in->position] == '\\') {
            return npy_fail(parser, "a text has an escape");
        }
        in->position++;
        text->len++;
    }
    return npy_take(parser, quote) ? COFFER_OK : npy_fail(parser, "a text does not end");
}

/* An integer, which Python 2 wrote with an L after it. */
static coffer_status npy_integer(npy_parser *parser, uint64_t *value)
{
    coffer__cursor *in = &parser->in;
    const char first = npy_peek(parser);
    if (first < '0' || first > '9') {
        return npy_fail(parser, "a number should be here");
    }
    *value = 0;
    /* Python's integers have no leading zeros: a text that has them is none that literal_eval would take. */
    const size_t start = in->position;
    while (coffer__left(in) > 0 && in->base[in->position] >= '0' && in->base[in->position] <= '9') {
        const unsigned digit = in->base[in->position] - (unsigned)'0';
        if (!coffer__mul_u64(*value, 10, value) || !coffer__add_u64(*value, digit, value)) {
            return npy_fail(parser, "a number is beyond 2^64");
        }
        in->position++;
    }
    if (first == '0' && in->position - start > 1) {
        return npy_fail(parser, "a number begins with a zero");
    }
    in->position += coffer__next_is(in, "L", 1);
    return COFFER_OK;
}

/* (), (2,), (2, 3), (2, 3,): a comma has to follow a single one. */
static coffer_status npy_read_shape(npy_parser *parser)
{
    coffer__npy *npy = parser->npy;
    bool comma = true;
    if (!npy_take(parser, '(')) {
        return npy_fail(parser, "the shape is no tuple");
    }
    /* At the end of the text peek gives 0, which is no digit, so the loop ends in an error and not past the
       end. */
    while (npy_peek(parser) != ')') {
        if (!comma || npy->rank == COFFER__PLAN_MAX_RANK) {
            return npy_fail(parser, comma ? "there are more than 64 dimensions" : "a comma is missing");
        }
        const coffer_status status = npy_integer(parser, &npy->shape[npy->rank]);
        if (status != COFFER_OK) {
            return status;
        }
        npy->rank++;
        comma = npy_take(parser, ',');
    }
    parser->in.position++;
    return npy->rank == 1 && !comma ? npy_fail(parser, "the shape is no tuple") : COFFER_OK;
}

/* True or False, which are no texts. */
static coffer_status npy_read_order(npy_parser *parser)
{
    (void)npy_peek(parser);
    const bool is_true = coffer__next_is(&parser->in, "True", 4);
    if (!is_true && !coffer__next_is(&parser->in, "False", 5)) {
        return npy_fail(parser, "True or False should be here");
    }
    parser->in.position += is_true ? 4 : 5;
    parser->npy->fortran = is_true;
    return COFFER_OK;
}

/* Types that are no text are those of structures. They are not read, and neither is what follows them. */
static coffer_status npy_read_type(npy_parser *parser)
{
    npy_text type;
    const char first = npy_peek(parser);
    if (first == '[' || first == '(') {
        parser->npy->lack = "its elements are structures";
        return COFFER_OK;
    }
    const coffer_status status = npy_string(parser, &type);
    return status == COFFER_OK ? npy_set_type(parser, type) : status;
}

/* ---- the dict ------------------------------------------------------------------------------------------------------ */

/* The bit of a key; 0 for one that no header has. */
static unsigned npy_key(npy_text key)
{
    static const struct {
        npy_text name;
        unsigned bit;
    } keys[] = { { { "descr", 5 }, NPY_DESCR }, { { "fortran_order", 13 }, NPY_ORDER }, { { "shape", 5 }, NPY_SHAPE } };
    for (size_t i = 0; i < 3; i++) {
        if (keys[i].name.len == key.len && memcmp(keys[i].name.text, key.text, key.len) == 0) {
            return keys[i].bit;
        }
    }
    return 0;
}

/* One key and its value. Each key may come once: of two, programs could take either. */
static coffer_status npy_read_pair(npy_parser *parser)
{
    npy_text key;
    const coffer_status status = npy_string(parser, &key);
    if (status != COFFER_OK) {
        return status;
    }
    const unsigned bit = npy_key(key);
    if (bit == 0 || (parser->seen & bit) != 0) {
        return npy_fail(parser, bit == 0 ? "a key is not descr, fortran_order or shape" : "a key comes twice");
    }
    parser->seen |= bit;
    if (!npy_take(parser, ':')) {
        return npy_fail(parser, "a colon is missing");
    }
    return bit == NPY_DESCR   ? npy_read_type(parser)
           : bit == NPY_ORDER ? npy_read_order(parser)
                              : npy_read_shape(parser);
}

/* All three keys have to be there, in any order, and nothing after the brace but space. */
static coffer_status npy_read_dict(npy_parser *parser)
{
    bool comma = true;
    if (!npy_take(parser, '{')) {
        return npy_fail(parser, "a dict should be here");
    }
    while (!npy_take(parser, '}')) {
        if (!comma) {
            return npy_fail(parser, "a comma is missing");
        }
        const coffer_status status = npy_read_pair(parser);
        if (status != COFFER_OK) {
            return status;
        }
        /* The type of a structure was not read, so neither can the rest be. The array is skipped or refused in any case. */
        if (parser->npy->lack != NULL && npy_peek(parser) != ',' && npy_peek(parser) != '}') {
            return COFFER_OK; /* a structure */
        }
        comma = npy_take(parser, ',');
    }
    if (parser->seen != NPY_ALL) {
        return npy_fail(parser, "descr, fortran_order or shape is missing");
    }
    (void)npy_peek(parser);
    return coffer__left(&parser->in) == 0 ? COFFER_OK : npy_fail(parser, "something follows the dict");
}

/* In two steps: twelve bytes tell how long the header is, and only when all of it is there is the text read.
   Its length is compared with NumPy's own limit first, so a caller never has to fetch more than that. */
coffer_status coffer__npy_read(coffer__npy *npy, const uint8_t *bytes, size_t size)
{
    npy_parser parser = { .npy = npy, .in = { .base = bytes, .length = size } };
    *npy = (coffer__npy){ .rank = 0 };
    if (size < 12) {
        npy->size = 12;
        return COFFER_NEED_MORE;
    }
    if (memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return npy_fail(&parser, "it does not begin as one");
    }
    const bool is_short = bytes[6] == 1;
    parser.in.position = 6;
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        return npy_fail(&parser, "its version is not 1.0, 2.0 or 3.0");
    }
    parser.in.position = is_short ? 10 : 12;
    /* Two bytes in version 1.0, four from 2.0 on; 3.0 differs in that the text may be UTF-8. */
    const uint32_t length = is_short ? coffer__load_u16le(bytes + 8) : coffer__load_u32le(bytes + 8);
    if (length > COFFER__NPY_MAX - parser.in.position) {
        return npy_fail(&parser, "it is longer than NumPy allows");
    }
    npy->size = parser.in.position + length;
    if (npy->size > size) {
        return COFFER_NEED_MORE;
    }
    parser.in.length = npy->size;
    return npy_read_dict(&parser);
}
