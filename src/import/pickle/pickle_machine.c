/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: its run, and the table of opcodes. As in Python, values are pushed on a stack, MARK
 * remembers the stack's height, and whoever takes "all above the mark" takes them as one container. Nothing
 * may be taken from below the last mark. Unlike Python, what would be called or looked up is only written
 * down.
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
 * values it takes, or the like. The functions lie with what they work on (pickle_stack.c, pickle_atoms.c,
 * pickle_containers.c, pickle_calls.c); here are those of the stream itself, PROTO, FRAME and STOP. Every
 * function leaves a stack, a memo and a graph that are whole, also when it fails: scans look at what was
 * built before the failure.
 */
#include "pickle_machine.h"

#include "alloc.h"
#include "error.h"

/* What bounds the time of one run. DUP, GET and POP cost the stream a byte or two each and the budget nothing,
   so the budget alone would not; 64 M opcodes are far more than the largest checkpoint has. */
#define PICKLE_MAX_OPCODES (UINT64_C(64) << 20)
#define PICKLE_LAST_PROTOCOL 5

/* ---- the stream ---- */

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
        return coffer__pickle_fail(p, "a frame reaches past the end; get the file again");
    }
    p->frame_end = p->position + size;
    return COFFER_OK;
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
    ['('] = { coffer__op_mark, 0 },
    ['0'] = { coffer__op_pop, 0 },
    ['1'] = { coffer__op_pop_mark, 0 },
    ['2'] = { coffer__op_dup, 0 },
    ['p'] = { coffer__op_put, 0 },
    ['q'] = { coffer__op_put, 1 },
    ['r'] = { coffer__op_put, 4 },
    [0x94] = { coffer__op_memoize, 0 },
    ['g'] = { coffer__op_get, 0 },
    ['h'] = { coffer__op_get, 1 },
    ['j'] = { coffer__op_get, 4 },

    ['N'] = { coffer__op_none, 0 },
    [0x88] = { coffer__op_bool, 1 },
    [0x89] = { coffer__op_bool, 0 },
    ['J'] = { coffer__op_binint, 4 },
    ['K'] = { coffer__op_binint, 1 },
    ['M'] = { coffer__op_binint, 2 },
    [0x8A] = { coffer__op_binlong, 1 },
    [0x8B] = { coffer__op_binlong, 4 },
    ['I'] = { coffer__op_integer_line, 0 },
    ['L'] = { coffer__op_integer_line, 1 },
    ['G'] = { coffer__op_binfloat, 0 },
    ['F'] = { coffer__op_float_line, 0 },

    [0x8C] = { coffer__op_text, 1 },
    ['X'] = { coffer__op_text, 4 },
    [0x8D] = { coffer__op_text, 8 },
    ['C'] = { coffer__op_bytes, 1 },
    ['B'] = { coffer__op_bytes, 4 },
    [0x8E] = { coffer__op_bytes, 8 },
    [0x96] = { coffer__op_bytes, 8 },
    ['U'] = { coffer__op_string, 1 },
    ['T'] = { coffer__op_string, 4 },
    ['S'] = { coffer__op_text_line, 1 },
    ['V'] = { coffer__op_text_line, 0 },

    [')'] = { coffer__op_empty, COFFER__VALUE_TUPLE },
    [']'] = { coffer__op_empty, COFFER__VALUE_LIST },
    ['}'] = { coffer__op_empty, COFFER__VALUE_DICT },
    [0x8F] = { coffer__op_empty, COFFER__VALUE_SET },
    ['t'] = { coffer__op_collect, COFFER__VALUE_TUPLE },
    ['l'] = { coffer__op_collect, COFFER__VALUE_LIST },
    ['d'] = { coffer__op_collect, COFFER__VALUE_DICT },
    [0x91] = { coffer__op_collect, COFFER__VALUE_SET },
    [0x85] = { coffer__op_tuple, 1 },
    [0x86] = { coffer__op_tuple, 2 },
    [0x87] = { coffer__op_tuple, 3 },
    ['a'] = { coffer__op_add, COFFER__VALUE_LIST },
    ['e'] = { coffer__op_add_marked, COFFER__VALUE_LIST },
    ['s'] = { coffer__op_add, COFFER__VALUE_DICT },
    ['u'] = { coffer__op_add_marked, COFFER__VALUE_DICT },
    [0x90] = { coffer__op_add_marked, COFFER__VALUE_SET },

    ['c'] = { coffer__op_global, 0 },
    [0x93] = { coffer__op_stack_global, 0 },
    ['R'] = { coffer__op_call, COFFER__CALL_REDUCE },
    [0x81] = { coffer__op_call, COFFER__CALL_NEW },
    [0x92] = { coffer__op_newobj_ex, 0 },
    ['b'] = { coffer__op_build, 0 },
    ['P'] = { coffer__op_persid, 0 },
    ['Q'] = { coffer__op_binpersid, 0 },

    ['i'] = { coffer__op_inst, 0 },
    ['o'] = { coffer__op_obj, 0 },
    [0x82] = { coffer__op_extension, 0 },
    [0x83] = { coffer__op_extension, 0 },
    [0x84] = { coffer__op_extension, 0 },
    [0x97] = { coffer__op_buffer, 0 },
    [0x98] = { coffer__op_buffer, 0 },
};

bool coffer__pickle_is_opcode(uint8_t byte)
{
    return byte == '.' || pickle_rows[byte].run != NULL;
}

/* Runs one opcode; *stopped when it was STOP. */
static coffer_status pickle_step(coffer__pickle *p, bool *stopped)
{
    const uint8_t *opcode = NULL;
    p->opcode_at = p->position;
    if (p->position == p->bytes.size) {
        return coffer__pickle_fail(p, "it ends without STOP: it is damaged, or was cut; get the file again");
    }
    coffer_status status = coffer__pickle_take(p, 1, &opcode);
    if (status != COFFER_OK) {
        return status;
    }
    /* STOP needs one value, which is the result. What else is on the stack is dropped, as Python does. */
    *stopped = *opcode == '.';
    if (*stopped && p->position < p->frame_end) {
        return coffer__pickle_fail(p, "it ends within a frame, behind which a loader would go on");
    }
    if (*stopped) {
        return coffer__pickle_pop(p, &p->root);
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
        if (i == PICKLE_MAX_OPCODES) {
            p->opcode_at = p->position;
            p->over_budget = true;
            return coffer__fail_at(p->err, COFFER_ERR_MEMORY, p->opcode_at,
                                   "at byte %u of the pickle, it has had %u opcodes and goes on", p->opcode_at,
                                   (uint64_t)PICKLE_MAX_OPCODES);
        }
        status = pickle_step(p, &stopped);
    }
    return status;
}

coffer_status coffer__pickle_begin(coffer__pickle **pickle, const coffer__pickle_bytes *bytes,
                                   const coffer_allocator *allocator, size_t window_capacity, coffer_error *err)
{
    coffer__pickle *p = coffer__alloc_zeroed(allocator, sizeof *p);
    *pickle = p;
    if (p == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of pickles");
    }
    p->allocator = *allocator;
    p->bytes = *bytes;
    p->err = err;
    p->window_capacity = window_capacity;
    p->window = coffer__alloc(allocator, window_capacity);
    return p->window != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a reader of pickles");
}

coffer_status coffer__pickle_run(coffer__pickle **pickle, const coffer__pickle_bytes *bytes, uint64_t offset,
                                 const coffer_allocator *allocator, uint64_t budget, const coffer__pickle_watch *watch,
                                 uint64_t *end, coffer_error *err)
{
    coffer_status status = coffer__pickle_begin(pickle, bytes, allocator, COFFER__PICKLE_WINDOW, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__pickle *p = *pickle;
    p->left = budget;
    p->watch = watch;
    p->position = offset;
    status = pickle_steps(p);
    /* After a failure the oldest value on the stack is most of what was built, and all that a scan has to
       start from. */
    if (status != COFFER_OK) {
        p->root = p->stack.count == 0 ? 0 : ((const coffer__value *)p->stack.items)[0];
    }
    *end = p->position;
    /* The graph is all that is needed from here on. */
    coffer__free(allocator, p->window, p->window_capacity);
    p->window = NULL;
    p->err = NULL;
    coffer__pickle_pool_free(p, &p->stack, sizeof(coffer__value));
    coffer__pickle_pool_free(p, &p->marks, sizeof(uint32_t));
    coffer__pickle_pool_free(p, &p->memo, sizeof(uint32_t));
    return status;
}

/* Also after a run that failed half-way: pools that were never filled, or were released, are empty. */
void coffer__pickle_free(coffer__pickle *pickle)
{
    if (pickle == NULL) {
        return;
    }
    const coffer_allocator allocator = pickle->allocator;
    coffer__pickle_pool_free(pickle, &pickle->nodes, sizeof(coffer__node));
    coffer__pickle_pool_free(pickle, &pickle->links, sizeof(coffer__pickle_link));
    coffer__pickle_pool_free(pickle, &pickle->texts, 1);
    coffer__pickle_pool_free(pickle, &pickle->stack, sizeof(coffer__value));
    coffer__pickle_pool_free(pickle, &pickle->marks, sizeof(uint32_t));
    coffer__pickle_pool_free(pickle, &pickle->memo, sizeof(uint32_t));
    coffer__free(&allocator, pickle->window, pickle->window_capacity);
    coffer__free(&allocator, pickle, sizeof *pickle);
}
