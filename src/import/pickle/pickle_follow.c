/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far loaders get in a stream: see pickle_follow.h.
 *
 * A row of the table says what an opcode reads after its byte and what it does to the stack:
 *
 *   needs    values that have to be there, above the last mark; after all above it was dropped, if `marked`
 *   drops    of them are taken away
 *   gives    what is pushed then
 *
 * Nothing is known of a value but whether it may be a str, a bit for each of the upper 64: names on the stack are only
 * imported if both are. Before the first import all values are plain data, so a call fails for certain unless there is
 * one that only the program knows: what stands for a persistent id, a buffer, or the number of an extension.
 * Whether items or a state fit a value is not asked: loaders differ, and take more than picklers write ("]Nb", "N(e").
 */
#include "pickle_follow.h"

#include "alloc.h"
#include "error.h"
#include "pickle_machine.h"
#include "text.h"

#include <string.h>

#define FOLLOW_MAX_OPCODES (UINT64_C(64) << 20)
#define FOLLOW_MAX_MARKS ((size_t)64 * 1024) /* open at once */
#define FOLLOW_WINDOW ((size_t)4096)         /* most streams are no pickle, and end within a few bytes */
#define FOLLOW_MAX_LINE ((size_t)255)        /* of a module or a name; what is longer may be one */
#define FOLLOW_LAST_PROTOCOL 5

/* What stands after the opcode's byte. */
typedef enum follow_argument {
    FOLLOW_NO_OPCODE,
    FOLLOW_NOTHING,
    FOLLOW_BYTES,     /* `width` of them */
    FOLLOW_PAYLOAD,   /* a length of `width` bytes, then so many */
    FOLLOW_SIGNED,    /* the same, where a length of 4 bytes is signed */
    FOLLOW_PROTOCOL,  /* a byte */
    FOLLOW_FRAME,     /* a length of 8 bytes, which some loaders do not compare with what there is */
    FOLLOW_EXTENSION, /* a number of `width` bytes, above 0 */
    FOLLOW_INTEGER,   /* lines */
    FOLLOW_INDEX,
    FOLLOW_REAL,
    FOLLOW_QUOTED,
    FOLLOW_ASCII,
    FOLLOW_LINE,
    FOLLOW_NAMES /* two lines, and an import */
} follow_argument;

typedef enum follow_effect {
    FOLLOW_PLAIN,
    FOLLOW_MARK,
    FOLLOW_POP,
    FOLLOW_DUP,
    FOLLOW_PUT,
    FOLLOW_GET,
    FOLLOW_STACK_NAMES, /* an import of the two values on top */
    FOLLOW_FOREIGN,     /* what is given only the program knows */
    FOLLOW_CALL,
    FOLLOW_STOP
} follow_effect;

typedef enum follow_gift { FOLLOW_GIVES_NONE, FOLLOW_GIVES_DATA, FOLLOW_GIVES_TEXT } follow_gift;

typedef struct follow_row {
    uint8_t argument;
    uint8_t width;
    bool marked;
    uint8_t needs;
    uint8_t drops;
    uint8_t gives;
    uint8_t effect;
} follow_row;

typedef struct follower {
    coffer__pickle *p; /* the stream and its window alone */
    coffer__followed *found;
    uint64_t from;
    uint32_t *marks; /* for each open mark: values between it and the one before; NULL before the first */
    size_t mark_count;
    uint32_t depth;     /* values above the last mark */
    uint64_t texts;     /* bit 0: the value on top may be a str, and so on; what lies deeper may be */
    bool has_memo;      /* something was put there */
    bool memo_text;     /* something that may be a str */
    bool has_foreign;   /* there are values that may be called */
    bool extended;      /* one of them is of an extension, which is an import of the program's choice */
    bool ended;         /* at an import or a limit */
    bool stopped;       /* by what is no opcode, or a value that every loader fails with */
    uint64_t frame_end; /* the byte after the frame that was begun last */
} follower;

/* ---- the table ------------------------------------------------------------------------------------------------------ */

/* clang-format off */
#define DATA FOLLOW_GIVES_DATA
#define TEXT FOLLOW_GIVES_TEXT
#define ATOM(argument, width, gives) { FOLLOW_##argument, width, false, 0, 0, gives, FOLLOW_PLAIN }
#define STACK(needs, drops, gives, effect) { FOLLOW_NOTHING, 0, false, needs, drops, gives, FOLLOW_##effect }
#define MARKED(needs, drops, gives, effect) { FOLLOW_NOTHING, 0, true, needs, drops, gives, FOLLOW_##effect }
#define MEMO(argument, width, needs, effect) { FOLLOW_##argument, width, false, needs, 0, 0, FOLLOW_##effect }
#define GIVEN(argument, width, needs) { FOLLOW_##argument, width, false, needs, needs, TEXT, FOLLOW_FOREIGN }

static const follow_row follow_rows[256] = {
    [0x80] = ATOM(PROTOCOL, 1, 0), [0x95] = ATOM(FRAME, 8, 0), ['.'] = STACK(1, 1, 0, STOP),
    ['('] = STACK(0, 0, 0, MARK), ['0'] = STACK(0, 0, 0, POP), ['1'] = MARKED(0, 0, 0, PLAIN),
    ['2'] = STACK(1, 0, 0, DUP),

    ['p'] = MEMO(INDEX, 0, 1, PUT), ['q'] = MEMO(BYTES, 1, 1, PUT), ['r'] = MEMO(BYTES, 4, 1, PUT),
    [0x94] = MEMO(NOTHING, 0, 1, PUT),
    ['g'] = MEMO(INDEX, 0, 0, GET), ['h'] = MEMO(BYTES, 1, 0, GET), ['j'] = MEMO(BYTES, 4, 0, GET),

    ['N'] = ATOM(NOTHING, 0, DATA), [0x88] = ATOM(NOTHING, 0, DATA), [0x89] = ATOM(NOTHING, 0, DATA),
    ['K'] = ATOM(BYTES, 1, DATA), ['M'] = ATOM(BYTES, 2, DATA), ['J'] = ATOM(BYTES, 4, DATA),
    ['G'] = ATOM(BYTES, 8, DATA), ['I'] = ATOM(INTEGER, 0, DATA), ['L'] = ATOM(INDEX, 0, DATA),
    ['F'] = ATOM(REAL, 0, DATA), [0x8A] = ATOM(PAYLOAD, 1, DATA), [0x8B] = ATOM(SIGNED, 4, DATA),

    [0x8C] = ATOM(PAYLOAD, 1, TEXT), ['X'] = ATOM(PAYLOAD, 4, TEXT), [0x8D] = ATOM(PAYLOAD, 8, TEXT),
    ['U'] = ATOM(PAYLOAD, 1, TEXT), ['T'] = ATOM(SIGNED, 4, TEXT), ['S'] = ATOM(QUOTED, 0, TEXT),
    ['V'] = ATOM(LINE, 0, TEXT), ['C'] = ATOM(PAYLOAD, 1, DATA), ['B'] = ATOM(PAYLOAD, 4, DATA),
    [0x8E] = ATOM(PAYLOAD, 8, DATA), [0x96] = ATOM(PAYLOAD, 8, DATA),

    [')'] = ATOM(NOTHING, 0, DATA), [']'] = ATOM(NOTHING, 0, DATA), ['}'] = ATOM(NOTHING, 0, DATA),
    [0x8F] = ATOM(NOTHING, 0, DATA),
    ['t'] = MARKED(0, 0, DATA, PLAIN), ['l'] = MARKED(0, 0, DATA, PLAIN), ['d'] = MARKED(0, 0, DATA, PLAIN),
    [0x91] = MARKED(0, 0, DATA, PLAIN),
    [0x85] = STACK(1, 1, DATA, PLAIN), [0x86] = STACK(2, 2, DATA, PLAIN), [0x87] = STACK(3, 3, DATA, PLAIN),
    ['a'] = STACK(2, 1, 0, PLAIN), ['s'] = STACK(3, 2, 0, PLAIN), ['b'] = STACK(2, 1, 0, PLAIN),
    ['e'] = MARKED(1, 0, 0, PLAIN), ['u'] = MARKED(1, 0, 0, PLAIN), [0x90] = MARKED(1, 0, 0, PLAIN),

    ['c'] = { FOLLOW_NAMES, 0, false, 0, 0, TEXT, FOLLOW_FOREIGN },
    ['i'] = { FOLLOW_NAMES, 0, true, 0, 0, TEXT, FOLLOW_FOREIGN },
    [0x93] = STACK(2, 2, TEXT, STACK_NAMES),
    ['R'] = STACK(2, 2, TEXT, CALL), [0x81] = STACK(2, 2, TEXT, CALL), [0x92] = STACK(3, 3, TEXT, CALL),
    ['o'] = MARKED(0, 0, TEXT, CALL),
    [0x82] = GIVEN(EXTENSION, 1, 0), [0x83] = GIVEN(EXTENSION, 2, 0), [0x84] = GIVEN(EXTENSION, 4, 0),
    ['P'] = GIVEN(ASCII, 0, 0), ['Q'] = GIVEN(NOTHING, 0, 1),
    [0x97] = GIVEN(NOTHING, 0, 0), [0x98] = STACK(1, 0, 0, PLAIN),
};
/* clang-format on */

/* ---- what is found -------------------------------------------------------------------------------------------------- */

/* Every loader stops here. The message is for nobody: what is no pickle is no error. */
static coffer_status follow_fails(follower *f)
{
    f->stopped = true;
    return coffer__pickle_fail(f->p, "loaders stop");
}

static coffer_status follow_limit(follower *f)
{
    f->ended = true;
    f->found->outcome = COFFER__FOLLOWED_TO_LIMIT;
    f->found->offset = f->p->opcode_at;
    return COFFER_OK;
}

/* An import, or a call of what the program gives. */
static void follow_import(follower *f, const char *module, size_t module_len, const char *name, size_t name_len)
{
    char *out = f->found->name;
    f->has_foreign = true;
    if (f->p->opcode_at < f->from) {
        return;
    }
    f->ended = true;
    f->found->outcome = COFFER__FOLLOWED_TO_IMPORT;
    f->found->offset = f->p->opcode_at;
    memcpy(out, module, module_len);
    if (module_len > 0) {
        out[module_len] = '.';
        memcpy(out + module_len + 1, name, name_len);
        out[module_len + 1 + name_len] = '\0';
    }
}

/* ---- lines ---------------------------------------------------------------------------------------------------------- */

static bool follow_is_one_of(char c, const char *set)
{
    while (*set != '\0' && *set != c) {
        set++;
    }
    return *set != '\0';
}

/* The next character of a line. The line ends with the stream for Python's twin, but nothing follows then. */
static coffer_status follow_char(follower *f, char *c)
{
    const uint8_t *byte = NULL;
    const coffer_status status = coffer__pickle_take(f->p, 1, &byte);
    *c = status == COFFER_OK ? (char)*byte : '\n';
    return status;
}

/* A line to its end, whatever it has; *last is the character before that. */
static coffer_status follow_rest(follower *f, char *last)
{
    char c = *last;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && c != '\n') {
        *last = c;
        status = follow_char(f, &c);
    }
    return status;
}

/*
 * A number, which is read as C and Python do together: with signs, spaces, underscores and the prefixes of other bases,
 * and for C up to a NUL. `letters` are those that such a number may have, and one of `wanted` has to be there; more is not
 * asked of it. INT of C takes even a number without digits, if the NUL comes first.
 */
static coffer_status follow_number(follower *f, const char *letters, const char *wanted, bool may_lack)
{
    bool good = false;
    char c = 0;
    for (size_t i = 0;; i++) {
        const coffer_status status = follow_char(f, &c);
        if (status != COFFER_OK || c == '\n') {
            return status == COFFER_OK && !good ? follow_fails(f) : status;
        }
        if (c == '\0') {
            return good || (may_lack && i == 0) ? follow_rest(f, &c) : follow_fails(f);
        }
        if (!follow_is_one_of(c, "0123456789+-_ \t\v\f\r") && !follow_is_one_of(c, letters)) {
            return follow_fails(f);
        }
        good = good || follow_is_one_of(c, wanted);
    }
}

/* STRING, in quotes. Whether its escapes are right is not asked. */
static coffer_status follow_quoted(follower *f)
{
    char quote = 0;
    char last = 0;
    coffer_status status = follow_char(f, &quote);
    if (status != COFFER_OK || (quote != '\'' && quote != '"')) {
        return status == COFFER_OK ? follow_fails(f) : status;
    }
    status = follow_rest(f, &last);
    return status == COFFER_OK && last != quote ? follow_fails(f) : status;
}

static coffer_status follow_ascii(follower *f)
{
    char c = 0;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && c != '\n') {
        status = follow_char(f, &c);
        if (status == COFFER_OK && (uint8_t)c >= 0x80) {
            return follow_fails(f);
        }
    }
    return status;
}

/* A line that is a name, of UTF-8. *cut: it is longer than what is kept of it, or the stream ends within it: Python's twin
   takes what there is. */
static coffer_status follow_name(follower *f, char *text, size_t *len, bool *cut)
{
    char c = 0;
    *len = 0;
    while (!*cut) {
        const coffer_status status = follow_char(f, &c);
        if (status != COFFER_OK && status != COFFER_ERR_PICKLE) {
            return status;
        }
        if (status == COFFER_OK && c == '\n') {
            break;
        }
        f->found->cut = status != COFFER_OK;
        *cut = f->found->cut || *len == FOLLOW_MAX_LINE;
        if (!*cut) {
            text[(*len)++] = c;
        }
    }
    /* Of a name that is cut, the last character may be cut, too. */
    const size_t valid = coffer__utf8_valid_len(text, *len);
    return valid == *len || (*cut && *len - valid < 4) ? COFFER_OK : follow_fails(f);
}

/*
 * Whether Python can find a module that is called so. It looks for a file of that name, so nearly any name could be one;
 * but text that begins with the letter c reads as the import of a whole line. A name with spaces or punctuation is none
 * that anybody can have written into an import: whoever could put a file of that name where Python looks for modules could
 * put one there that a loader imports by itself.
 */
static bool follow_is_module(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char letter = (char)(name[i] | 0x20);
        if (!(letter >= 'a' && letter <= 'z') && (uint8_t)name[i] < 0x80 &&
            !follow_is_one_of(name[i], "_.-0123456789")) {
            return false;
        }
    }
    return len > 0;
}

/* GLOBAL and INST: they import before they look at the stack. */
static coffer_status follow_names(follower *f)
{
    char module[FOLLOW_MAX_LINE];
    char name[FOLLOW_MAX_LINE];
    size_t module_len = 0;
    size_t name_len = 0;
    bool cut = false;
    coffer_status status = follow_name(f, module, &module_len, &cut);
    if (status == COFFER_OK && !follow_is_module(module, module_len)) {
        return follow_fails(f);
    }
    if (status == COFFER_OK && !cut) {
        status = follow_name(f, name, &name_len, &cut);
    }
    if (status != COFFER_OK) {
        return status;
    }
    follow_import(f, module, module_len, name, name_len);
    /* An import that is passed over has to end somewhere. */
    return cut && !f->ended ? follow_limit(f) : COFFER_OK;
}

/* ---- opcodes -------------------------------------------------------------------------------------------------------- */

/* A length of `width` bytes and so many, of which none is read. */
static coffer_status follow_payload(follower *f, unsigned width, bool is_signed)
{
    uint64_t size = 0;
    const coffer_status status = coffer__pickle_take_number(f->p, width, &size);
    if (status != COFFER_OK || (is_signed && size > INT32_MAX)) {
        return status == COFFER_OK ? follow_fails(f) : status;
    }
    return coffer__pickle_skip(f->p, size);
}

/* A number that is refused below `least` or above `most`. */
static coffer_status follow_bounded(follower *f, unsigned width, uint64_t least, uint64_t most)
{
    uint64_t value = 0;
    const coffer_status status = coffer__pickle_take_number(f->p, width, &value);
    return status == COFFER_OK && (value < least || value > most) ? follow_fails(f) : status;
}

/*
 * A frame is read as a whole. Python's twin refuses an opcode that reaches out of it; C drops what is left of the frame and
 * reads on behind it, or does not if the file lets it look ahead. No program writes such a frame, nor one within another, nor
 * a pickle that ends before its frame, so where loaders differ is where following ends. A frame that is longer than the
 * stream is the rest of it.
 */
static coffer_status follow_frame(follower *f)
{
    uint64_t size = 0;
    const coffer_status status = coffer__pickle_take_number(f->p, 8, &size);
    if (status != COFFER_OK || size > INT64_MAX) {
        return status == COFFER_OK ? follow_fails(f) : status;
    }
    if (f->p->opcode_at < f->frame_end) {
        return follow_limit(f);
    }
    /* What reaches to the end of the stream cannot be left. */
    f->frame_end = size < f->p->bytes.size - f->p->position ? f->p->position + size : 0;
    return COFFER_OK;
}

static coffer_status follow_argument_of(follower *f, const follow_row *row)
{
    static const char integer_letters[] = "abcdefABCDEFxXoOL";
    static const char digits[] = "0123456789";
    char last = 0;
    switch ((follow_argument)row->argument) {
    case FOLLOW_NO_OPCODE:
        return follow_fails(f);
    case FOLLOW_NOTHING:
        return COFFER_OK;
    case FOLLOW_BYTES:
        return coffer__pickle_skip(f->p, row->width);
    case FOLLOW_PAYLOAD:
    case FOLLOW_SIGNED:
        return follow_payload(f, row->width, row->argument == FOLLOW_SIGNED);
    case FOLLOW_PROTOCOL:
        return follow_bounded(f, 1, 0, FOLLOW_LAST_PROTOCOL);
    case FOLLOW_FRAME:
        return follow_frame(f);
    case FOLLOW_EXTENSION:
        f->extended = true;
        return follow_bounded(f, row->width, 1, INT32_MAX);
    case FOLLOW_INTEGER:
    case FOLLOW_INDEX:
        return follow_number(f, integer_letters, digits, row->argument == FOLLOW_INTEGER);
    case FOLLOW_REAL:
        return follow_number(f, ".eEinfatyINFATY", "0123456789nN", false);
    case FOLLOW_QUOTED:
        return follow_quoted(f);
    case FOLLOW_ASCII:
        return follow_ascii(f);
    case FOLLOW_LINE:
        return follow_rest(f, &last);
    case FOLLOW_NAMES:
        break;
    }
    return follow_names(f);
}

/* Values leave the stack; of what comes into the upper 64 nothing is known. */
static void follow_discard(follower *f, uint32_t count)
{
    f->texts = count >= 64 ? UINT64_MAX : count > 0 ? f->texts >> count | ~(UINT64_MAX >> count) : f->texts;
}

static void follow_push(follower *f, bool text)
{
    f->texts = f->texts << 1 | text;
    f->depth++;
}

static coffer_status follow_pop_mark(follower *f)
{
    if (f->mark_count == 0) {
        return follow_fails(f);
    }
    follow_discard(f, f->depth);
    f->depth = f->marks[--f->mark_count];
    return COFFER_OK;
}

static coffer_status follow_mark(follower *f)
{
    if (f->mark_count == FOLLOW_MAX_MARKS) {
        return follow_limit(f);
    }
    if (f->marks == NULL) {
        f->marks = coffer__alloc_array(&f->p->allocator, FOLLOW_MAX_MARKS, sizeof *f->marks, f->p->err);
    }
    if (f->marks == NULL) {
        return COFFER_ERR_MEMORY;
    }
    f->marks[f->mark_count++] = f->depth;
    f->depth = 0;
    return COFFER_OK;
}

/* The next pickle begins here. */
static coffer_status follow_stop(follower *f)
{
    f->found->complete = true;
    if (f->extended) {
        follow_import(f, "", 0, "", 0);
    }
    if (!f->ended && f->p->position < f->frame_end) {
        return follow_limit(f);
    }
    /* A loader may keep its memo. */
    f->mark_count = 0;
    f->depth = 1;
    return COFFER_OK;
}

/* What an opcode does besides moving values. The values that it needs are there, and still on the stack. */
static coffer_status follow_effect_of(follower *f, const follow_row *row)
{
    switch ((follow_effect)row->effect) {
    case FOLLOW_PLAIN:
        return COFFER_OK;
    case FOLLOW_MARK:
        return follow_mark(f);
    case FOLLOW_POP:
        if (f->depth == 0) {
            return follow_pop_mark(f);
        }
        follow_discard(f, 1);
        f->depth--;
        return COFFER_OK;
    case FOLLOW_DUP:
        follow_push(f, (f->texts & 1) != 0);
        return COFFER_OK;
    case FOLLOW_PUT:
        f->has_memo = true;
        f->memo_text = f->memo_text || (f->texts & 1) != 0;
        return COFFER_OK;
    case FOLLOW_GET:
        /* Which index was put is not remembered. */
        if (!f->has_memo) {
            return follow_fails(f);
        }
        follow_push(f, f->memo_text);
        return COFFER_OK;
    case FOLLOW_STACK_NAMES:
        if ((f->texts & 3) != 3) {
            return follow_fails(f);
        }
        follow_import(f, "", 0, "", 0);
        return COFFER_OK;
    case FOLLOW_FOREIGN:
        f->has_foreign = true;
        return COFFER_OK;
    case FOLLOW_CALL:
        if (!f->has_foreign) {
            return follow_fails(f);
        }
        follow_import(f, "", 0, "", 0);
        return COFFER_OK;
    case FOLLOW_STOP:
        break;
    }
    return follow_stop(f);
}

/* Whether an opcode reaches out of its frame; or may, since a line that is wrong here might be another one there. */
static bool follow_leaves_frame(const follower *f, const follow_row *row, coffer_status status)
{
    const bool line = status == COFFER_ERR_PICKLE && row->argument >= FOLLOW_INTEGER;
    const bool whole = status == COFFER_OK || status == COFFER_ERR_PICKLE;
    return f->p->opcode_at < f->frame_end && whole && (line || f->p->position > f->frame_end);
}

static coffer_status follow_step(follower *f)
{
    const uint8_t *opcode = NULL;
    f->p->opcode_at = f->p->position;
    coffer_status status = coffer__pickle_take(f->p, 1, &opcode);
    if (status != COFFER_OK) {
        return status;
    }
    const follow_row *row = &follow_rows[*opcode];
    status = follow_argument_of(f, row);
    if (!f->ended && follow_leaves_frame(f, row, status)) {
        return follow_limit(f);
    }
    if (status == COFFER_OK && !f->ended && row->marked) {
        status = follow_pop_mark(f);
    }
    if (status != COFFER_OK || f->ended) {
        return status;
    }
    if (f->depth < row->needs) {
        return follow_fails(f);
    }
    status = follow_effect_of(f, row);
    if (status != COFFER_OK || f->ended) {
        return status;
    }
    follow_discard(f, row->drops);
    f->depth -= row->drops;
    if (row->gives != FOLLOW_GIVES_NONE) {
        follow_push(f, row->gives == FOLLOW_GIVES_TEXT);
    }
    return COFFER_OK;
}

coffer_status coffer__pickle_follow(coffer__followed *followed, const coffer__pickle_bytes *bytes, uint64_t from,
                                    const coffer_allocator *allocator, coffer_error *err)
{
    coffer_error trouble;
    coffer__error_clear(&trouble);
    follower f = { .found = followed, .from = from };
    memset(followed, 0, sizeof *followed);
    coffer_status status = coffer__pickle_begin(&f.p, bytes, allocator, FOLLOW_WINDOW, &trouble);
    for (uint64_t i = 0; status == COFFER_OK && !f.ended; i++) {
        status = i == FOLLOW_MAX_OPCODES ? follow_limit(&f) : follow_step(&f);
    }
    /* What loaders stop at is the answer, and no error. */
    if (status == COFFER_ERR_PICKLE) {
        followed->offset = f.p->opcode_at;
        followed->ran_out = !f.stopped;
        status = COFFER_OK;
    }
    coffer__free_array(allocator, f.marks, FOLLOW_MAX_MARKS, sizeof *f.marks);
    coffer__pickle_free(f.p);
    if (status != COFFER_OK && err != NULL) {
        *err = trouble;
    }
    return status;
}
