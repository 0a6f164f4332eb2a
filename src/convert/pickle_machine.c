/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: its opcodes. As in Python, values are pushed on a stack, MARK remembers the stack's
 * height, and whoever takes "all above the mark" takes them as one container. Nothing may be taken from
 * below the last mark. Unlike Python, what would be called or looked up is only written down.
 *
 * The opcodes are those of Python's pickletools.py, which is their only specification. An opcode is one byte
 * and what follows it; all integers are little-endian but for BINFLOAT's double:
 *
 *   numbers    u8, u16, i32 (BININT, LONG4), u32, u64: K M J, and the widths of lengths
 *   payload    a length of 1, 4 or 8 bytes, then that many bytes: U T, C B 8e 96, 8c X 8d
 *   line       text to the next LF, which is consumed: I L F S V, p g, c i, P (protocol 0)
 *   nothing    all others, which work on the stack alone
 *
 *   protocol   0 lines only   1 binary numbers and text   2 PROTO, NEWOBJ, TUPLE1 to 3, booleans, LONG1 and 4
 *              3 bytes        4 FRAME, MEMOIZE, STACK_GLOBAL, sets, 8-byte lengths      5 bytearrays, buffers
 *
 * A stream may use any opcode whatever PROTO says, as Python allows; only a number above 5 is refused.
 *
 * Each opcode has a row in a table: a function, and a number that says how wide its length is, how many
 * values it takes, or the like. Every function leaves a stack, a memo and a graph that are whole, also when
 * it fails: scans look at what was built before the failure.
 */
#include "pickle_machine.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "text.h"

#include <string.h>

/* What bounds the time of one run. DUP, GET and POP cost the stream a byte or two each and the budget nothing,
   so the budget alone would not; 64 M opcodes are far more than the largest checkpoint has. */
#define PICKLE_MOST_OPCODES (UINT64_C(64) << 20)
#define PICKLE_LAST_PROTOCOL 5

/* ---- the stack ---- */

/* Everything that goes onto the stack goes through here, so the stack costs the budget four bytes for each
   value. */
static coffer_status pickle_push(coffer__pickle *p, coffer__value value)
{
    const coffer_status status = coffer__pickle_reserve(p, &p->stack, sizeof value, 1);
    if (status == COFFER_OK) {
        ((coffer__value *)p->stack.items)[p->stack.count++] = value;
    }
    return status;
}

/* The height of the stack that belongs to what is before the last mark. */
static size_t pickle_fence(const coffer__pickle *p)
{
    return p->marks.count == 0 ? 0 : ((const uint32_t *)p->marks.items)[p->marks.count - 1];
}

/* The value on top, which stays. Every pop goes through here: this is the one place that keeps an opcode from
   reaching below the last mark, and so from an index below zero. */
static coffer_status pickle_top(const coffer__pickle *p, coffer__value *value)
{
    if (p->stack.count == pickle_fence(p)) {
        return coffer__pickle_fail(p, p->marks.count == 0 ? "a value is missing: the stack is empty"
                                                          : "a value is missing: there is a mark in its place");
    }
    *value = ((const coffer__value *)p->stack.items)[p->stack.count - 1];
    return COFFER_OK;
}

static coffer_status pickle_pop(coffer__pickle *p, coffer__value *value)
{
    const coffer_status status = pickle_top(p, value);
    p->stack.count -= status == COFFER_OK;
    return status;
}

/* Takes the last mark away; *first is the place in the stack of what was above it. The caller takes that, too. */
static coffer_status pickle_pop_mark(coffer__pickle *p, size_t *first)
{
    if (p->marks.count == 0) {
        return coffer__pickle_fail(p, "a mark is missing");
    }
    *first = pickle_fence(p);
    p->marks.count--;
    return COFFER_OK;
}

/*
 * Makes a node and pushes it. The pointer is valid until the next node is made. There is room on the stack before there is
 * a node, and so with links further down: what is looked at after a failure has no node that is half made.
 */
static coffer_status pickle_push_new(coffer__pickle *p, coffer__value_kind kind, coffer__node **node)
{
    coffer__value value = 0;
    coffer_status status = coffer__pickle_reserve(p, &p->stack, sizeof value, 1);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_make(p, kind, &value, node);
    return status == COFFER_OK ? pickle_push(p, value) : status;
}

/* Pushes a node that all uses share, and makes it before the first. */
static coffer_status pickle_push_shared(coffer__pickle *p, coffer__value *shared, coffer__value_kind kind,
                                        int64_t integer)
{
    if (*shared == 0) {
        coffer__node *node = NULL;
        const coffer_status status = coffer__pickle_make(p, kind, shared, &node);
        if (status != COFFER_OK) {
            return status;
        }
        node->as.integer = integer;
    }
    return pickle_push(p, *shared);
}

/* Values on the stack and in the memo are numbers of nodes that exist, never 0, so their kind may be asked for
   without a check. */
static coffer__value_kind pickle_kind(const coffer__pickle *p, coffer__value value)
{
    return coffer__pickle_node(p, value)->kind;
}

/* What stands for something that only a loader would have: it may turn out to be anything. */
static bool pickle_is_unknown(const coffer__pickle *p, coffer__value value)
{
    const coffer__value_kind kind = pickle_kind(p, value);
    return kind == COFFER__VALUE_CALL || kind == COFFER__VALUE_GLOBAL || kind == COFFER__VALUE_PERSISTENT;
}

/* Reports a value to the watch, which sees it in the order in which a loader would have acted on it. */
static coffer_status pickle_tell(coffer__pickle *p, coffer__value value)
{
    return p->watch == NULL ? COFFER_OK : p->watch->seen(p->watch->ctx, p, value, p->err);
}

/* ---- stack and memo ---- */

/* The number is checked and otherwise ignored: which opcodes follow is decided by the opcodes themselves. */
static coffer_status op_proto(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t protocol = 0;
    const coffer_status status = coffer__pickle_take_number(p, 1, &protocol);
    if (status == COFFER_OK && protocol > PICKLE_LAST_PROTOCOL) {
        return coffer__pickle_fail(p, "it is of a protocol above 5");
    }
    return status;
}

/* Frames only tell readers how much to read at once. One that says more than there is, or begins within another, is of no
   program that pickles. */
static coffer_status op_frame(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t size = 0;
    const coffer_status status = coffer__pickle_take_number(p, 8, &size);
    if (status != COFFER_OK) {
        return status;
    }
    /* The opcode itself lies within the frame that was begun before; frames follow each other and are never
       nested. */
    if (p->opcode_at < p->frame_end) {
        return coffer__pickle_fail(p, "a frame begins within another one");
    }
    if (size > p->bytes.size - p->position) {
        return coffer__pickle_fail(p, "a frame reaches past the end");
    }
    p->frame_end = p->position + size;
    return COFFER_OK;
}

/* A mark is no value but a height, kept apart from the stack: so no opcode can take a mark for a value. */
static coffer_status op_mark(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    const coffer_status status = coffer__pickle_reserve(p, &p->marks, sizeof(uint32_t), 1);
    if (status == COFFER_OK) {
        /* A height fits in 32 bits: no pool has more items than that (pickle_graph.c). */
        ((uint32_t *)p->marks.items)[p->marks.count++] = (uint32_t)p->stack.count;
    }
    return status;
}

/* POP takes a mark away, too, when that is what is on top. */
static coffer_status op_pop(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    if (p->marks.count > 0 && p->stack.count == pickle_fence(p)) {
        p->marks.count--;
        return COFFER_OK;
    }
    coffer__value value = 0;
    return pickle_pop(p, &value);
}

/* POP_MARK drops everything above the mark; the nodes stay, since the memo may refer to them. */
static coffer_status op_pop_mark(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    const coffer_status status = pickle_pop_mark(p, &first);
    p->stack.count = status == COFFER_OK ? first : p->stack.count;
    return status;
}

/* The node is pushed a second time; a change to the one is seen by the other, as in Python. */
static coffer_status op_dup(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value value = 0;
    const coffer_status status = pickle_top(p, &value);
    return status == COFFER_OK ? pickle_push(p, value) : status;
}

/* Whether zeros come before an integer, which Python does not read. 00 and 01 are how truth is written. */
static bool pickle_has_zeros(const char *text, size_t len, bool is_long)
{
    const size_t sign = text[0] == '-' || text[0] == '+';
    const bool truth = !is_long && len == 2 && sign == 0 && (text[1] == '0' || text[1] == '1');
    return text[sign] == '0' && len - sign > 1 && !truth;
}

/* A line that is a decimal integer. */
static coffer_status pickle_line_integer(coffer__pickle *p, bool is_long, int64_t *value, bool *fits)
{
    uint64_t size = 0;
    uint32_t kept = 0;
    const coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    /*
     * The line is only borrowed from the end of the texts and is dropped once it has been read. A line that
     * was too long to be kept is no integer that any program writes; its size alone must not be used to index
     * what is not there.
     */
    const char *text = (const char *)p->texts.items + (kept == UINT32_MAX ? 0 : kept);
    size -= is_long && size > 0 && kept != UINT32_MAX && text[size - 1] == 'L';
    const bool good = kept != UINT32_MAX && coffer__pickle_read_integer(text, (size_t)size, value, fits) &&
                      !pickle_has_zeros(text, (size_t)size, is_long);
    p->texts.count = kept == UINT32_MAX ? p->texts.count : kept;
    return good ? COFFER_OK : coffer__pickle_fail(p, "an integer should be here, in decimal digits");
}

/* The index of a PUT or GET: `width` bytes, or a line when that is 0. */
static coffer_status pickle_memo_number(coffer__pickle *p, unsigned width, uint32_t *number)
{
    uint64_t wide = 0;
    if (width > 0) {
        const coffer_status status = coffer__pickle_take_number(p, width, &wide);
        *number = (uint32_t)wide;
        return status;
    }
    /* Protocol 0 writes indices in decimal digits. Python takes larger ones, too, which no pickler makes: it counts. */
    int64_t value = 0;
    bool fits = false;
    const coffer_status status = pickle_line_integer(p, false, &value, &fits);
    if (status != COFFER_OK) {
        return status;
    }
    if (!fits || value < 0 || value > UINT32_MAX) {
        return coffer__pickle_fail(p, "an index of the memo is negative, or above 4294967295");
    }
    *number = (uint32_t)value;
    return COFFER_OK;
}

/* PUT, BINPUT, LONG_BINPUT: the value on top also goes into the memo. The index may be any number of 32 bits,
   because the memo is sized by how many values it has and not by their indices (pickle_graph.c). */
static coffer_status op_put(coffer__pickle *p, unsigned width)
{
    uint32_t number = 0;
    coffer__value value = 0;
    coffer_status status = pickle_memo_number(p, width, &number);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_top(p, &value);
    return status == COFFER_OK ? coffer__pickle_memo_put(p, number, value) : status;
}

/* MEMOIZE is a PUT whose index is the number of values in the memo, as Python counts them. */
static coffer_status op_memoize(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value value = 0;
    const coffer_status status = pickle_top(p, &value);
    return status == COFFER_OK ? coffer__pickle_memo_put(p, p->memo_count, value) : status;
}

/* GET, BINGET, LONG_BINGET: pushes the number of the node once more, so a value that is used a million times
   costs four bytes each time and is never copied. */
static coffer_status op_get(coffer__pickle *p, unsigned width)
{
    uint32_t number = 0;
    const coffer_status status = pickle_memo_number(p, width, &number);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value value = coffer__pickle_memo_get(p, number);
    return value == 0 ? coffer__pickle_fail(p, "it takes a value from the memo that was never put there")
                      : pickle_push(p, value);
}

/* ---- atoms ---- */

static coffer_status op_none(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return pickle_push_shared(p, &p->none, COFFER__VALUE_NONE, 0);
}

/* NEWTRUE and NEWFALSE. */
static coffer_status op_bool(coffer__pickle *p, unsigned truth)
{
    return pickle_push_shared(p, truth != 0 ? &p->yes : &p->no, COFFER__VALUE_BOOL, truth);
}

/* Small integers are shared as in Python: shapes and strides are full of them. */
static coffer_status pickle_push_integer(coffer__pickle *p, int64_t integer)
{
    if (integer >= 0 && integer < COFFER__PICKLE_SMALL) {
        return pickle_push_shared(p, &p->small[integer], COFFER__VALUE_INT, integer);
    }
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_new(p, COFFER__VALUE_INT, &node);
    if (status == COFFER_OK) {
        node->as.integer = integer;
    }
    return status;
}

/* An integer beyond 8 bytes. No size or stride can be one, so only its being there is kept. */
static coffer_status pickle_push_big(coffer__pickle *p)
{
    coffer__node *node = NULL;
    return pickle_push_new(p, COFFER__VALUE_BIG, &node);
}

/* The integer whose two's complement has `width` bytes, of which `bits` has as many as there are. */
static int64_t pickle_signed(uint64_t bits, size_t width)
{
    const uint64_t sign = width == 0 ? 0 : UINT64_C(1) << (8 * width - 1);
    /* If the sign bit is set, all bits above it are, too. Of 8 bytes there are none above, and the expression
       leaves them as they are. */
    const uint64_t extended = (bits & sign) != 0 ? bits | ~(sign | (sign - 1)) : bits;
    int64_t value = 0;
    memcpy(&value, &extended, sizeof value);
    return value;
}

/* BININT is signed, the shorter two are not. */
static coffer_status op_binint(coffer__pickle *p, unsigned width)
{
    uint64_t bits = 0;
    const coffer_status status = coffer__pickle_take_number(p, width, &bits);
    return status == COFFER_OK ? pickle_push_integer(p, width == 4 ? pickle_signed(bits, 4) : (int64_t)bits) : status;
}

/* LONG1 and LONG4: a length of `width` bytes, then an integer of that many. The length of LONG4 is signed. */
static coffer_status op_binlong(coffer__pickle *p, unsigned width)
{
    uint64_t size = 0;
    uint64_t bits = 0;
    coffer_status status = coffer__pickle_take_number(p, width, &size);
    if (status != COFFER_OK) {
        return status;
    }
    /* The length of LONG1 cannot be above 255, so one comparison serves both widths. */
    if (size > INT32_MAX) {
        return coffer__pickle_fail(p, "the length of an integer is negative");
    }
    /* Too large for any size or offset: its bytes are skipped, not read. */
    if (size > 8) {
        status = coffer__pickle_skip(p, size);
        return status == COFFER_OK ? pickle_push_big(p) : status;
    }
    status = size == 0 ? COFFER_OK : coffer__pickle_take_number(p, (unsigned)size, &bits);
    return status == COFFER_OK ? pickle_push_integer(p, pickle_signed(bits, (size_t)size)) : status;
}

/* INT and LONG. Protocol 0 and 1 wrote truth as the integers 00 and 01. */
static coffer_status op_integer_line(coffer__pickle *p, unsigned is_long)
{
    int64_t value = 0;
    bool fits = false;
    const uint64_t start = p->position;
    const coffer_status status = pickle_line_integer(p, is_long != 0, &value, &fits);
    if (status != COFFER_OK) {
        return status;
    }
    /* Two characters and the line's end. CPython decides by just these two things, the length and the value, so what is
       true for it, "+1" among others, is true here. */
    const bool truth = is_long == 0 && fits && (value == 0 || value == 1) && p->position - start == 3;
    if (truth) {
        return op_bool(p, value != 0);
    }
    return fits ? pickle_push_integer(p, value) : pickle_push_big(p);
}

static coffer_status pickle_push_real(coffer__pickle *p, double real)
{
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_new(p, COFFER__VALUE_FLOAT, &node);
    if (status == COFFER_OK) {
        node->as.real = real;
    }
    return status;
}

/* BINFLOAT: a double, its highest byte first. */
static coffer_status op_binfloat(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t bits = 0;
    double real = 0;
    const coffer_status status = coffer__pickle_take_number(p, 8, &bits);
    if (status != COFFER_OK) {
        return status;
    }
    /* The number was taken as little-endian, whatever this machine is; the double's bytes come highest first. */
    bits = __builtin_bswap64(bits);
    memcpy(&real, &bits, sizeof real);
    return pickle_push_real(p, real);
}

/* FLOAT: a line as Python's repr writes a double, or nan, inf and -inf. */
static coffer_status op_float_line(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t size = 0;
    uint32_t kept = 0;
    double real = 0;
    const coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    const bool good =
        kept != UINT32_MAX && coffer__pickle_read_real((const char *)p->texts.items + kept, (size_t)size, &real);
    p->texts.count = kept == UINT32_MAX ? p->texts.count : kept;
    return good ? pickle_push_real(p, real) : coffer__pickle_fail(p, "a number should be here");
}

/* ---- text and bytes ---- */

/* A length of `width` bytes and so many bytes. */
static coffer_status pickle_push_payload(coffer__pickle *p, coffer__value_kind kind, unsigned width,
                                         coffer__node **node)
{
    uint64_t size = 0;
    coffer_status status = coffer__pickle_take_number(p, width, &size);
    if (status != COFFER_OK) {
        return status;
    }
    /* The node comes before its bytes: should these be missing, the node is a text of no bytes, which is
       whole. */
    status = pickle_push_new(p, kind, node);
    return status == COFFER_OK ? coffer__pickle_take_payload(p, size, *node) : status;
}

/* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8. Only kept text is checked; of longer text no one reads a byte. */
static coffer_status op_text(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_payload(p, COFFER__VALUE_TEXT, width, &node);
    if (status != COFFER_OK) {
        return status;
    }
    /* Lone surrogates pass, as in Python with "surrogatepass": names with them are refused later, where it
       matters. */
    const bool good =
        node->as.bytes.kept == UINT32_MAX ||
        coffer__pickle_is_text((const char *)p->texts.items + node->as.bytes.kept, node->as.bytes.kept_size);
    if (!good) {
        node->as.bytes.kept = UINT32_MAX; /* what is looked at after a failure is text, too */
        return coffer__pickle_fail(p, "a text is not UTF-8");
    }
    return COFFER_OK;
}

/* SHORT_BINBYTES, BINBYTES, BINBYTES8, and BYTEARRAY8, of which nobody needs to know that it can be changed. */
static coffer_status op_bytes(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    return pickle_push_payload(p, COFFER__VALUE_BYTES, width, &node);
}

/* Python 2's str. The length of BINSTRING is signed. */
static coffer_status op_string(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_payload(p, COFFER__VALUE_BYTES, width, &node);
    if (status != COFFER_OK) {
        return status;
    }
    /* A str of Python 2 is text or bytes, and only its use tells. Keys accept it as text, arrays as bytes. */
    node->python2 = true;
    return node->as.bytes.size <= INT32_MAX ? COFFER_OK : coffer__pickle_fail(p, "the length of a string is negative");
}

/*
 * STRING and UNICODE: a line in which some bytes are escaped. It lies at the end of the texts; its value
 * is made behind it and then moves into its place. Of a line that is too long to keep nobody will
 * know the value.
 */
static coffer_status op_text_line(coffer__pickle *p, unsigned is_string)
{
    uint64_t size = 0;
    uint32_t kept = 0;
    const uint64_t at = p->position;
    coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    size_t len = 0;
    if (kept != UINT32_MAX) {
        /*
         * UNICODE's value can take twice as many bytes as its line, since a byte above 127 becomes two in
         * UTF-8; STRING's is never longer than its line. The reservation may move the texts, so pointers come
         * after it.
         */
        status = coffer__pickle_reserve(p, &p->texts, 1, 2 * (size_t)size + 1);
        if (status != COFFER_OK) {
            return status;
        }
        char *line = (char *)p->texts.items + kept;
        char *value = line + size;
        const bool good = is_string != 0 ? coffer__pickle_unquote(line, (size_t)size, value, &len)
                                         : coffer__pickle_unescape(line, (size_t)size, value, &len);
        if (!good) {
            return coffer__pickle_fail(p, "a text has a wrong escape, or quotes that do not match");
        }
        /* The value takes the line's place. It may be longer than the line, but no longer than what was
           reserved. */
        memmove(line, value, len);
        line[len] = '\0';
        p->texts.count = kept + len + 1;
    }
    coffer__node *node = NULL;
    status = pickle_push_new(p, is_string != 0 ? COFFER__VALUE_BYTES : COFFER__VALUE_TEXT, &node);
    if (status == COFFER_OK) {
        node->python2 = is_string != 0;
        node->as.bytes.at = at;
        node->as.bytes.size = size;
        node->as.bytes.kept = kept;
        node->as.bytes.kept_size = (unsigned)len & COFFER__PICKLE_KEPT_MASK;
        node->as.bytes.escaped = true;
    }
    return status;
}

/* ---- containers ---- */

/* EMPTY_TUPLE is one node for all uses, since nothing can be added to it. Lists, dicts and sets are made each
   time. */
static coffer_status op_empty(coffer__pickle *p, unsigned kind)
{
    coffer__node *node = NULL;
    return kind == COFFER__VALUE_TUPLE ? pickle_push_shared(p, &p->empty_tuple, COFFER__VALUE_TUPLE, 0)
                                       : pickle_push_new(p, (coffer__value_kind)kind, &node);
}

/* Appends what is on the stack from `first` on, and takes it away. The links are reserved in one go: the container gets
   all of these items or, without memory, none. */
static coffer_status pickle_append_from(coffer__pickle *p, coffer__value container, size_t first)
{
    coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), p->stack.count - first);
    for (size_t i = first; status == COFFER_OK && i < p->stack.count; i++) {
        status = coffer__pickle_append(p, container, ((const coffer__value *)p->stack.items)[i]);
    }
    p->stack.count = first;
    return status;
}

/* A container of what is on the stack from `first` on, which replaces it there. */
static coffer_status pickle_collect(coffer__pickle *p, coffer__value_kind kind, size_t first)
{
    if (kind == COFFER__VALUE_TUPLE && first == p->stack.count) {
        return op_empty(p, kind);
    }
    if (kind == COFFER__VALUE_DICT && (p->stack.count - first) % 2 != 0) {
        return coffer__pickle_fail(p, "a key has no value");
    }
    /* Memory for the links is reserved before the node is made: a failure then leaves no container that lacks
       items. The values stay on the stack until they are in the container. */
    coffer__value value = 0;
    coffer__node *node = NULL;
    coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), p->stack.count - first);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_make(p, kind, &value, &node);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_append_from(p, value, first);
    return status == COFFER_OK ? pickle_push(p, value) : status;
}

/* TUPLE, LIST, DICT, FROZENSET: all above the mark. */
static coffer_status op_collect(coffer__pickle *p, unsigned kind)
{
    size_t first = 0;
    const coffer_status status = pickle_pop_mark(p, &first);
    return status == COFFER_OK ? pickle_collect(p, (coffer__value_kind)kind, first) : status;
}

/* TUPLE1 to TUPLE3. */
static coffer_status op_tuple(coffer__pickle *p, unsigned count)
{
    if (p->stack.count - pickle_fence(p) < count) {
        return coffer__pickle_fail(p, "a tuple has more items than there are values");
    }
    return pickle_collect(p, COFFER__VALUE_TUPLE, p->stack.count - count);
}

/*
 * Where items go that are added to a value: into itself when it is of that kind, and into its
 * attributes when only a loader would know what it is. What would fail there fails here.
 */
static coffer_status pickle_recipient(coffer__pickle *p, coffer__value value, coffer__value_kind kind,
                                      coffer__value *recipient)
{
    *recipient = value;
    if (pickle_kind(p, value) == kind) {
        return COFFER_OK;
    }
    /* Sets collect as a list: nothing but their items is ever asked for. */
    const coffer__value_kind inside = kind == COFFER__VALUE_DICT ? kind : COFFER__VALUE_LIST;
    const bool unknown = pickle_is_unknown(p, value);
    *recipient = unknown ? coffer__pickle_at(p, value)->attributes : 0;
    /* One object gets items of one kind: as a dict or as a list, not as both. Python's own types are like
       this. */
    if (!unknown || (*recipient != 0 && pickle_kind(p, *recipient) != inside)) {
        return coffer__pickle_fail(p, "items are added to a value that takes none of the kind");
    }
    if (*recipient != 0) {
        return COFFER_OK;
    }
    coffer__node *node = NULL;
    const coffer_status status = coffer__pickle_make(p, inside, recipient, &node);
    if (status == COFFER_OK) {
        coffer__pickle_at(p, value)->attributes = *recipient;
    }
    return status;
}

/* Adds what is on the stack from `first` on to the value before it, which stays. */
static coffer_status pickle_add_from(coffer__pickle *p, coffer__value_kind kind, size_t first)
{
    if (first == pickle_fence(p)) {
        return coffer__pickle_fail(p, "items are added, and there is nothing to add them to");
    }
    if (kind == COFFER__VALUE_DICT && (p->stack.count - first) % 2 != 0) {
        return coffer__pickle_fail(p, "a key has no value");
    }
    /* There is a value at first - 1: it lies above the fence, which was compared. */
    const coffer__value value = ((const coffer__value *)p->stack.items)[first - 1];
    coffer__value recipient = 0;
    coffer_status status = pickle_recipient(p, value, kind, &recipient);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_append_from(p, recipient, first);
    if (status != COFFER_OK) {
        return status;
    }
    /* os.environ and sys.path are globals that take items; of calls it is the rule, and tells nothing. */
    const coffer__value_kind target = pickle_kind(p, value);
    return target == COFFER__VALUE_GLOBAL || target == COFFER__VALUE_PERSISTENT ? pickle_tell(p, value) : COFFER_OK;
}

/* APPENDS, SETITEMS, ADDITEMS: all above the mark. */
static coffer_status op_add_marked(coffer__pickle *p, unsigned kind)
{
    size_t first = 0;
    const coffer_status status = pickle_pop_mark(p, &first);
    return status == COFFER_OK ? pickle_add_from(p, (coffer__value_kind)kind, first) : status;
}

/* APPEND and SETITEM: one item, which of a dict is two values. */
static coffer_status op_add(coffer__pickle *p, unsigned kind)
{
    const size_t count = kind == COFFER__VALUE_DICT ? 2 : 1;
    /* One more than the items: the container itself. */
    if (p->stack.count - pickle_fence(p) <= count) {
        return coffer__pickle_fail(p, "an item is added, and there are too few values for that");
    }
    return pickle_add_from(p, (coffer__value_kind)kind, p->stack.count - count);
}

/* ---- names and calls ---- */

/* A kept text that can be a name: UTF-8, without NULs, of which one would end it early for whoever reads it. */
static const char *pickle_plain_name(const coffer__pickle *p, coffer__value value)
{
    size_t len = 0;
    const char *name = pickle_kind(p, value) == COFFER__VALUE_TEXT ? coffer__pickle_bytes_of(p, value, &len) : NULL;
    const bool good = name != NULL && coffer__text_len(name) == len && coffer__utf8_valid_len(name, len) == len;
    return good ? name : NULL;
}

/* Puts a name of our own at the end of the texts, which may move. */
static coffer_status pickle_put_name(coffer__pickle *p, const char *name, uint32_t *place)
{
    /* With its NUL. `name` is never one of the texts themselves, which could move while it is copied. */
    const size_t size = coffer__text_len(name) + 1;
    const coffer_status status = coffer__pickle_reserve(p, &p->texts, 1, size);
    if (status == COFFER_OK) {
        memcpy((char *)p->texts.items + p->texts.count, name, size);
        *place = (uint32_t)p->texts.count;
        p->texts.count += size;
    }
    return status;
}

/* Pushes and tells a GLOBAL of two names that lie in the texts, at `module_at` and `name_at`. */
static coffer_status pickle_push_global(coffer__pickle *p, uint32_t module_at, uint32_t name_at)
{
    const char *module = (const char *)p->texts.items + module_at;
    const char *name = (const char *)p->texts.items + name_at;
    const char *new_module = module;
    const char *new_name = name;
    coffer__pickle_rename(&new_module, &new_name);
    /* A new name comes from the table of renamings and not from the texts, so it stays valid when putting the
       new module moves them. After that only the places count; `module` and `name` may point to freed memory. */
    const bool name_is_new = new_name != name;
    coffer_status status = new_module != module ? pickle_put_name(p, new_module, &module_at) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    status = name_is_new ? pickle_put_name(p, new_name, &name_at) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    coffer__node *node = NULL;
    status = pickle_push_new(p, COFFER__VALUE_GLOBAL, &node);
    if (status != COFFER_OK) {
        return status;
    }
    node->as.names.module = module_at;
    node->as.names.name = name_at;
    /* After the node is whole: the watch asks for its names. */
    return pickle_tell(p, (coffer__value)p->nodes.count);
}

/* A line that is a name: UTF-8 without NULs. It stays in the texts, with a NUL. */
static coffer_status pickle_line_name(coffer__pickle *p, uint32_t *place)
{
    uint64_t size = 0;
    coffer_status status = coffer__pickle_take_line(p, &size, place);
    if (status != COFFER_OK) {
        return status;
    }
    if (*place == UINT32_MAX) {
        p->hides_import = true;
        return coffer__pickle_fail(p, "a name is longer than 64 KiB");
    }
    status = coffer__pickle_reserve(p, &p->texts, 1, 1);
    if (status != COFFER_OK) {
        return status;
    }
    /* A line of no bytes is a name, too: an empty one, which no table has. */
    char *name = (char *)p->texts.items + *place;
    name[size] = '\0';
    p->texts.count++;
    if (coffer__text_len(name) != size || coffer__utf8_valid_len(name, (size_t)size) != size) {
        return coffer__pickle_fail(p, "a name is not UTF-8, or has a NUL");
    }
    return COFFER_OK;
}

/* GLOBAL: module and name, a line each. Nothing is imported; the two names are all that there is to it. */
static coffer_status op_global(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint32_t module = 0;
    uint32_t name = 0;
    coffer_status status = pickle_line_name(p, &module);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_line_name(p, &name);
    return status == COFFER_OK ? pickle_push_global(p, module, name) : status;
}

/* Names that were computed, as the result of a call, cannot be known here: that is refused, since what a loader would
   import is the one thing that must not stay hidden. */
static coffer_status op_stack_global(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value module = 0;
    coffer__value name = 0;
    coffer_status status = pickle_pop(p, &name);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &module);
    if (status != COFFER_OK) {
        return status;
    }
    if (pickle_plain_name(p, module) == NULL || pickle_plain_name(p, name) == NULL) {
        p->hides_import = true;
        return coffer__pickle_fail(p, "the names of a global are not plain texts");
    }
    /* The names of the two texts serve as they are: texts are never changed once they are kept, and end with a
       NUL. */
    return pickle_push_global(p, coffer__pickle_at(p, module)->as.bytes.kept,
                              coffer__pickle_at(p, name)->as.bytes.kept);
}

/*
 * A call of `callable`, which is pushed and told. Only what a loader could call is accepted: calling a list or
 * a number would fail there, and accepting it here would make readers interpret what no loader gets to.
 * `keywords` may be 0.
 */
static coffer_status pickle_push_call(coffer__pickle *p, coffer__call_kind kind, coffer__value callable,
                                      coffer__value arguments, coffer__value keywords)
{
    const bool callable_fits = pickle_is_unknown(p, callable);
    const bool arguments_fit = pickle_kind(p, arguments) == COFFER__VALUE_TUPLE || pickle_is_unknown(p, arguments);
    const bool keywords_fit =
        keywords == 0 || pickle_kind(p, keywords) == COFFER__VALUE_DICT || pickle_is_unknown(p, keywords);
    if (!callable_fits || !arguments_fit || !keywords_fit) {
        return coffer__pickle_fail(p, "something is called that cannot be, or with arguments that are none");
    }
    coffer__node *node = NULL;
    coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), 3);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_push_new(p, COFFER__VALUE_CALL, &node);
    if (status != COFFER_OK) {
        return status;
    }
    node->call = kind;
    const coffer__value call = (coffer__value)p->nodes.count;
    /* Links for all three are there already, so these appends cannot fail, and no call is seen without its
       arguments. */
    const coffer__value items[] = { callable, arguments, keywords };
    for (size_t i = 0; status == COFFER_OK && i < 3 && items[i] != 0; i++) {
        status = coffer__pickle_append(p, call, items[i]);
    }
    return status == COFFER_OK ? pickle_tell(p, call) : status;
}

/* Whether a value is a text of exactly these characters. */
static bool pickle_is_named(const coffer__pickle *p, coffer__value value, const char *text)
{
    const char *name = pickle_plain_name(p, value);
    return name != NULL && coffer__text_len(name) == coffer__text_len(text) &&
           memcmp(name, text, coffer__text_len(text)) == 0;
}

/* The text of a call of _codecs.encode(text, "latin1"), which is how protocols 0 to 2 write bytes; else 0. */
static coffer__value pickle_encoded(const coffer__pickle *p, coffer__value callable, coffer__value arguments)
{
    const coffer__node *tuple = coffer__pickle_node(p, arguments);
    if (pickle_kind(p, callable) != COFFER__VALUE_GLOBAL || tuple->kind != COFFER__VALUE_TUPLE || tuple->count != 2) {
        return 0;
    }
    const char *module = coffer__pickle_module(p, callable);
    const char *name = coffer__pickle_name(p, callable);
    if (coffer__text_len(module) != 7 || memcmp(module, "_codecs", 7) != 0 || coffer__text_len(name) != 6 ||
        memcmp(name, "encode", 6) != 0) {
        return 0;
    }
    /* The tuple has two items, so neither is 0. */
    uint32_t link = tuple->first;
    const coffer__value text = coffer__pickle_item(p, &link);
    const coffer__value encoding = coffer__pickle_item(p, &link);
    const bool latin1 = pickle_is_named(p, encoding, "latin1") || pickle_is_named(p, encoding, "latin-1");
    return latin1 && pickle_kind(p, text) == COFFER__VALUE_TEXT ? text : 0;
}

/* Pushes the BYTES that a text is as latin-1. Their place in the stream is that of the text. */
static coffer_status pickle_push_encoded(coffer__pickle *p, coffer__value text)
{
    /*
     * A copy, since making the new node may move all nodes. The bytes get a place of their own among the
     * texts, because the text itself may still be in the memo. UTF-8 is at least as long as latin-1, so `len`
     * bytes are enough.
     */
    const coffer__node source = *coffer__pickle_node(p, text);
    uint32_t kept = source.as.bytes.kept;
    size_t len = source.as.bytes.kept_size;
    if (kept != UINT32_MAX) {
        const coffer_status status = coffer__pickle_reserve(p, &p->texts, 1, len + 1);
        if (status != COFFER_OK) {
            return status;
        }
        char *bytes = (char *)p->texts.items + p->texts.count;
        memcpy(bytes, (const char *)p->texts.items + kept, len);
        if (!coffer__pickle_to_latin1(bytes, &len)) {
            return coffer__pickle_fail(p, "bytes, which are written as text, have a character above 255");
        }
        bytes[len] = '\0';
        kept = (uint32_t)p->texts.count;
        p->texts.count += len + 1;
    }
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_new(p, COFFER__VALUE_BYTES, &node);
    if (status == COFFER_OK) {
        node->as = source.as;
        node->as.bytes.kept = kept;
        node->as.bytes.kept_size = (unsigned)len & COFFER__PICKLE_KEPT_MASK;
        node->as.bytes.latin1 = true;
    }
    return status;
}

/* REDUCE, NEWOBJ: a callable and its arguments. */
static coffer_status op_call(coffer__pickle *p, unsigned kind)
{
    coffer__value arguments = 0;
    coffer__value callable = 0;
    coffer_status status = pickle_pop(p, &arguments);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &callable);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value text = kind == COFFER__CALL_REDUCE ? pickle_encoded(p, callable, arguments) : 0;
    return text != 0 ? pickle_push_encoded(p, text)
                     : pickle_push_call(p, (coffer__call_kind)kind, callable, arguments, 0);
}

/* NEWOBJ_EX: callable, positional arguments, keywords; they lie on the stack in this order, so come off in
   reverse. */
static coffer_status op_newobj_ex(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value keywords = 0;
    coffer__value arguments = 0;
    coffer__value callable = 0;
    coffer_status status = pickle_pop(p, &keywords);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &arguments);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &callable);
    return status == COFFER_OK ? pickle_push_call(p, COFFER__CALL_NEW, callable, arguments, keywords) : status;
}

/* The state goes to what only a loader would have: a class or module, too, whose attributes it would set. */
static coffer_status op_build(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value given = 0;
    coffer__value value = 0;
    coffer_status status = pickle_pop(p, &given);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_top(p, &value);
    if (status != COFFER_OK) {
        return status;
    }
    /* A list or a dict has no state in Python either: __setstate__ and __dict__ are of objects, which only
       calls make. */
    if (!pickle_is_unknown(p, value)) {
        return coffer__pickle_fail(p, "a state is given to a value that has none");
    }
    /* A second state replaces the first. Python would merge their dicts, but no pickler writes two. */
    coffer__pickle_at(p, value)->state = given;
    return pickle_tell(p, value);
}

/* The loader would be asked for what the id stands for; the id is item 0 of the node. Room for its link comes
   first. */
static coffer_status pickle_push_persistent(coffer__pickle *p, coffer__value id)
{
    coffer__node *node = NULL;
    coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), 1);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_push_new(p, COFFER__VALUE_PERSISTENT, &node);
    return status == COFFER_OK ? coffer__pickle_append(p, (coffer__value)p->nodes.count, id) : status;
}

/* BINPERSID: the id is the value on top, in torch's files a tuple that names a storage. */
static coffer_status op_binpersid(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value id = 0;
    const coffer_status status = pickle_pop(p, &id);
    return status == COFFER_OK ? pickle_push_persistent(p, id) : status;
}

static bool pickle_is_ascii(const char *text)
{
    size_t i = 0;
    while (text[i] != '\0' && (uint8_t)text[i] < 0x80) {
        i++;
    }
    return text[i] == '\0';
}

/* PERSID: the id is a line of ASCII. */
static coffer_status op_persid(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    const uint64_t at = p->position;
    uint32_t kept = 0;
    coffer__value id = 0;
    coffer__node *node = NULL;
    coffer_status status = pickle_line_name(p, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    if (!pickle_is_ascii((const char *)p->texts.items + kept)) {
        return coffer__pickle_fail(p, "an id is not ASCII");
    }
    status = coffer__pickle_make(p, COFFER__VALUE_TEXT, &id, &node);
    if (status != COFFER_OK) {
        return status;
    }
    /* Where the line lies, without its end, which has been consumed. */
    node->as.bytes.at = at;
    node->as.bytes.size = p->position - 1 - at;
    node->as.bytes.kept = kept;
    node->as.bytes.kept_size = (unsigned)node->as.bytes.size & COFFER__PICKLE_KEPT_MASK;
    return pickle_push_persistent(p, id);
}

/* ---- what is refused ---- */

/* All above the mark are the arguments of `callable`. The call is told, so that a scan shows it. */
static coffer_status pickle_refuse_call(coffer__pickle *p, size_t first, coffer__value callable, const char *what)
{
    coffer_status status = pickle_collect(p, COFFER__VALUE_TUPLE, first);
    /* The tuple was pushed, and is taken off again at once: the call takes its place. */
    coffer__value arguments = 0;
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &arguments);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_push_call(p, COFFER__CALL_REDUCE, callable, arguments, 0);
    return status == COFFER_OK ? coffer__pickle_fail(p, what) : status;
}

/* INST: two names; arguments above the mark. */
static coffer_status op_inst(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    coffer_status status = op_global(p, 0);
    coffer__value callable = 0;
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop(p, &callable);
    if (status != COFFER_OK) {
        return status;
    }
    status = pickle_pop_mark(p, &first);
    return status == COFFER_OK ? pickle_refuse_call(p, first, callable, "the opcode INST is refused") : status;
}

/* OBJ: a class and its arguments above the mark. The class is left below them on the stack. */
static coffer_status op_obj(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    const coffer_status status = pickle_pop_mark(p, &first);
    if (status != COFFER_OK) {
        return status;
    }
    if (first == p->stack.count) {
        return coffer__pickle_fail(p, "the opcode OBJ has no class");
    }
    /* The class is the first value above the mark, the arguments are those after it. */
    const coffer__value callable = ((const coffer__value *)p->stack.items)[first];
    return pickle_refuse_call(p, first + 1, callable, "the opcode OBJ is refused");
}

/* EXT1, EXT2, EXT4: the registry that gives the numbers a meaning is the loader's (copyreg), and no writer of
   checkpoints uses it. */
static coffer_status op_extension(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return coffer__pickle_fail(p, "it names a global by a number (EXT), which only the program that wrote it knows");
}

/* NEXT_BUFFER, READONLY_BUFFER: the buffers were handed to the program that pickled, and are in no file. */
static coffer_status op_buffer(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return coffer__pickle_fail(p, "it has buffers that are not in it (protocol 5, out of band)");
}

/* ---- running ---- */

typedef struct pickle_row {
    coffer_status (*run)(coffer__pickle *p, unsigned number);
    unsigned number;
} pickle_row;

/* By the opcode's byte. Rows that are not here are no opcodes; STOP is not here either, since it ends the run. */
static const pickle_row pickle_rows[256] = {
    [0x80] = { op_proto, 0 },
    [0x95] = { op_frame, 0 },
    ['('] = { op_mark, 0 },
    ['0'] = { op_pop, 0 },
    ['1'] = { op_pop_mark, 0 },
    ['2'] = { op_dup, 0 },
    ['p'] = { op_put, 0 },
    ['q'] = { op_put, 1 },
    ['r'] = { op_put, 4 },
    [0x94] = { op_memoize, 0 },
    ['g'] = { op_get, 0 },
    ['h'] = { op_get, 1 },
    ['j'] = { op_get, 4 },

    ['N'] = { op_none, 0 },
    [0x88] = { op_bool, 1 },
    [0x89] = { op_bool, 0 },
    ['J'] = { op_binint, 4 },
    ['K'] = { op_binint, 1 },
    ['M'] = { op_binint, 2 },
    [0x8A] = { op_binlong, 1 },
    [0x8B] = { op_binlong, 4 },
    ['I'] = { op_integer_line, 0 },
    ['L'] = { op_integer_line, 1 },
    ['G'] = { op_binfloat, 0 },
    ['F'] = { op_float_line, 0 },

    [0x8C] = { op_text, 1 },
    ['X'] = { op_text, 4 },
    [0x8D] = { op_text, 8 },
    ['C'] = { op_bytes, 1 },
    ['B'] = { op_bytes, 4 },
    [0x8E] = { op_bytes, 8 },
    [0x96] = { op_bytes, 8 },
    ['U'] = { op_string, 1 },
    ['T'] = { op_string, 4 },
    ['S'] = { op_text_line, 1 },
    ['V'] = { op_text_line, 0 },

    [')'] = { op_empty, COFFER__VALUE_TUPLE },
    [']'] = { op_empty, COFFER__VALUE_LIST },
    ['}'] = { op_empty, COFFER__VALUE_DICT },
    [0x8F] = { op_empty, COFFER__VALUE_SET },
    ['t'] = { op_collect, COFFER__VALUE_TUPLE },
    ['l'] = { op_collect, COFFER__VALUE_LIST },
    ['d'] = { op_collect, COFFER__VALUE_DICT },
    [0x91] = { op_collect, COFFER__VALUE_SET },
    [0x85] = { op_tuple, 1 },
    [0x86] = { op_tuple, 2 },
    [0x87] = { op_tuple, 3 },
    ['a'] = { op_add, COFFER__VALUE_LIST },
    ['e'] = { op_add_marked, COFFER__VALUE_LIST },
    ['s'] = { op_add, COFFER__VALUE_DICT },
    ['u'] = { op_add_marked, COFFER__VALUE_DICT },
    [0x90] = { op_add_marked, COFFER__VALUE_SET },

    ['c'] = { op_global, 0 },
    [0x93] = { op_stack_global, 0 },
    ['R'] = { op_call, COFFER__CALL_REDUCE },
    [0x81] = { op_call, COFFER__CALL_NEW },
    [0x92] = { op_newobj_ex, 0 },
    ['b'] = { op_build, 0 },
    ['P'] = { op_persid, 0 },
    ['Q'] = { op_binpersid, 0 },

    ['i'] = { op_inst, 0 },
    ['o'] = { op_obj, 0 },
    [0x82] = { op_extension, 0 },
    [0x83] = { op_extension, 0 },
    [0x84] = { op_extension, 0 },
    [0x97] = { op_buffer, 0 },
    [0x98] = { op_buffer, 0 },
};

/* Runs one opcode; *stopped when it was STOP. */
static coffer_status pickle_step(coffer__pickle *p, bool *stopped)
{
    const uint8_t *opcode = NULL;
    p->opcode_at = p->position;
    if (p->position == p->bytes.size) {
        return coffer__pickle_fail(p, "it ends without STOP: it is damaged, or was cut");
    }
    coffer_status status = coffer__pickle_take(p, 1, &opcode);
    if (status != COFFER_OK) {
        return status;
    }
    /* STOP needs one value, which is the result. What else is on the stack is dropped, as Python does. */
    *stopped = *opcode == '.';
    if (*stopped) {
        return pickle_pop(p, &p->root);
    }
    const pickle_row *row = &pickle_rows[*opcode];
    if (row->run == NULL) {
        return coffer__fail_at(p->err, COFFER_ERR_PICKLE, p->opcode_at,
                               "at byte %u of the pickle, %x is no opcode: it is damaged, or no pickle", p->opcode_at,
                               (uint64_t)*opcode);
    }
    status = row->run(p, row->number);
    /* Python reads a frame at once and refuses what reaches out of it. So must this: otherwise the same bytes
       would be two different pickles to the two of them. */
    if (status == COFFER_OK && p->opcode_at < p->frame_end && p->position > p->frame_end) {
        return coffer__pickle_fail(p, "an opcode reaches out of its frame");
    }
    return status;
}

static coffer_status pickle_steps(coffer__pickle *p)
{
    bool stopped = false;
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; status == COFFER_OK && !stopped; i++) {
        /* As for memory: more than this reader is willing to spend, not a fault of the file. */
        if (i == PICKLE_MOST_OPCODES) {
            p->opcode_at = p->position;
            return coffer__fail_at(p->err, COFFER_ERR_MEMORY, p->opcode_at,
                                   "at byte %u of the pickle, it has had %u opcodes and goes on", p->opcode_at,
                                   (uint64_t)PICKLE_MOST_OPCODES);
        }
        status = pickle_step(p, &stopped);
    }
    return status;
}

coffer_status coffer__pickle_run(coffer__pickle **pickle, const coffer__pickle_bytes *bytes, uint64_t offset,
                                 const coffer_allocator *allocator, uint64_t budget, const coffer__pickle_watch *watch,
                                 uint64_t *end, coffer_error *err)
{
    coffer__pickle *p = coffer__alloc_zeroed(allocator, sizeof *p);
    *pickle = p;
    if (p == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of pickles");
    }
    p->allocator = *allocator;
    p->bytes = *bytes;
    p->left = budget;
    p->watch = watch;
    p->err = err;
    p->position = offset;
    p->window = coffer__alloc(allocator, COFFER__PICKLE_WINDOW);
    if (p->window == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of pickles");
    }
    const coffer_status status = pickle_steps(p);
    /* After a failure the oldest value on the stack is most of what was built, and all that a scan has to
       start from. */
    if (status != COFFER_OK) {
        p->root = p->stack.count == 0 ? 0 : ((const coffer__value *)p->stack.items)[0];
    }
    *end = p->position;
    /* The graph is all that is needed from here on. */
    coffer__free(allocator, p->window, COFFER__PICKLE_WINDOW);
    p->window = NULL;
    p->err = NULL;
    coffer__pickle_release(p, &p->stack, sizeof(coffer__value));
    coffer__pickle_release(p, &p->marks, sizeof(uint32_t));
    coffer__pickle_release(p, &p->memo, sizeof(uint32_t));
    return status;
}

/* Also after a run that failed half-way: pools that were never filled, or were released, are empty. */
void coffer__pickle_free(coffer__pickle *pickle)
{
    if (pickle == NULL) {
        return;
    }
    const coffer_allocator allocator = pickle->allocator;
    coffer__pickle_release(pickle, &pickle->nodes, sizeof(coffer__node));
    coffer__pickle_release(pickle, &pickle->links, sizeof(coffer__pickle_link));
    coffer__pickle_release(pickle, &pickle->texts, 1);
    coffer__pickle_release(pickle, &pickle->stack, sizeof(coffer__value));
    coffer__pickle_release(pickle, &pickle->marks, sizeof(uint32_t));
    coffer__pickle_release(pickle, &pickle->memo, sizeof(uint32_t));
    coffer__free(&allocator, pickle->window, COFFER__PICKLE_WINDOW);
    coffer__free(&allocator, pickle, sizeof *pickle);
}
