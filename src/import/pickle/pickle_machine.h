/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the pickle machine, which its files share and nobody else includes:
 *
 *   pickle_machine.c     the run: the table of opcodes, PROTO, FRAME and STOP
 *   pickle_stack.c       the stack, marks and the memo, with their opcodes
 *   pickle_atoms.c       opcodes of numbers, text and bytes
 *   pickle_containers.c  opcodes of tuples, lists, dicts and sets
 *   pickle_calls.c       opcodes of imports, calls, states and persistent ids, and those that are refused
 *   pickle_graph.c       nodes, links, texts, the memo: all that grows, within the budget
 *   pickle_stream.c      the window over the stream: numbers, payloads, lines
 *   pickle_text.c        numbers and escapes that are written as text; names that Python 3 has changed
 *   pickle_follow.c      shares only the stream: how far loaders get, without a graph
 *
 * Everything that grows lies in pools, of which the items have numbers of 32 bits. Nothing is freed
 * before the machine is. Functions fail by p->err, at the opcode that is being run.
 */
#ifndef COFFER_PICKLE_PICKLE_MACHINE_H
#define COFFER_PICKLE_PICKLE_MACHINE_H

#include "pickle.h"
#include "pickle_text.h"

#define COFFER__PICKLE_WINDOW ((size_t)64 * 1024)
#define COFFER__PICKLE_KEPT_MASK 0x3FFFFFFFU /* all that fits in a node's kept_size */
#define COFFER__PICKLE_SMALL 256             /* integers from 0 below this one are nodes that all uses share */

typedef struct coffer__pickle_pool {
    void *items;
    size_t count;
    size_t capacity;
} coffer__pickle_pool;

/* An item of a container: its value and the link after it, 0 for the last. */
typedef struct coffer__pickle_link {
    coffer__value value;
    uint32_t next;
} coffer__pickle_link;

struct coffer__pickle {
    coffer_allocator allocator;
    uint64_t left; /* bytes of the budget */
    coffer__pickle_bytes bytes;
    const coffer__pickle_watch *watch;
    coffer_error *err;

    uint64_t position;  /* in the stream: the next byte */
    uint64_t opcode_at; /* of the opcode that is being run */
    uint64_t frame_end; /* of the frame that was begun last; 0: none */
    bool over_budget;   /* it failed since it may not have more memory or time */
    uint8_t *window;    /* `window_size` bytes of the stream from `window_at` on */
    uint64_t window_at;
    size_t window_size;
    size_t window_capacity;

    coffer__pickle_pool nodes; /* coffer__node; value 1 is item 0 */
    coffer__pickle_pool links; /* coffer__pickle_link; link 1 is item 0 */
    coffer__pickle_pool texts; /* char */
    coffer__pickle_pool stack; /* coffer__value */
    coffer__pickle_pool marks; /* uint32_t: heights of the stack */
    coffer__pickle_pool memo;  /* uint32_t, in pages of 256; see coffer__pickle_memo_put */
    uint32_t memo_count;

    coffer__value none, no, yes, empty_tuple; /* shared, as Python shares them; 0 before their first use */
    coffer__value small[COFFER__PICKLE_SMALL];
    coffer__value root;
};

/* ---- pickle_machine.c ---------------------------------------------------------------------------------------------- */

/* A machine at the beginning of a stream, with a window of so many bytes, at least 16. Free it also after a failure. */
coffer_status coffer__pickle_begin(coffer__pickle **pickle, const coffer__pickle_bytes *bytes,
                                   const coffer_allocator *allocator, size_t window_capacity, coffer_error *err);

/* ---- pickle_graph.c ------------------------------------------------------------------------------------------------ */

/* COFFER_ERR_PICKLE at the opcode: "at byte 12 of the pickle, `what`". */
coffer_status coffer__pickle_fail(const coffer__pickle *p, const char *what);
/* Space for `more` items of `item_size` bytes; COFFER_ERR_MEMORY beyond the budget. */
coffer_status coffer__pickle_reserve(coffer__pickle *p, coffer__pickle_pool *pool, size_t item_size, size_t more);
void coffer__pickle_pool_free(coffer__pickle *p, coffer__pickle_pool *pool, size_t item_size);
/* A node of the opcode that is being run. The pointer is valid until the next one is made. */
coffer_status coffer__pickle_make(coffer__pickle *p, coffer__value_kind kind, coffer__value *value,
                                  coffer__node **node);
coffer__node *coffer__pickle_at(coffer__pickle *p, coffer__value value);
coffer_status coffer__pickle_append(coffer__pickle *p, coffer__value container, coffer__value item);
coffer_status coffer__pickle_memo_put(coffer__pickle *p, uint32_t number, coffer__value value);
/* 0: nothing was put there. */
coffer__value coffer__pickle_memo_get(const coffer__pickle *p, uint32_t number);

/* ---- pickle_stack.c ------------------------------------------------------------------------------------------------ */

coffer_status coffer__pickle_push(coffer__pickle *p, coffer__value value);
/* Makes a node and pushes it. The pointer is valid until the next node is made. */
coffer_status coffer__pickle_push_new(coffer__pickle *p, coffer__value_kind kind, coffer__node **node);
/* Pushes a node that all uses share, and makes it before the first, when *shared is 0. */
coffer_status coffer__pickle_push_shared(coffer__pickle *p, coffer__value *shared, coffer__value_kind kind,
                                         int64_t integer);
/* The value on top, which stays, or is taken off. COFFER_ERR_PICKLE when there is none above the last mark. */
coffer_status coffer__pickle_top(const coffer__pickle *p, coffer__value *value);
coffer_status coffer__pickle_pop(coffer__pickle *p, coffer__value *value);
/* Takes the value on top and the one under it, which was pushed first. */
coffer_status coffer__pickle_pop_two(coffer__pickle *p, coffer__value *under, coffer__value *top);
/* Takes the last mark away; *first is the place in the stack of what was above it, which the caller takes, too. */
coffer_status coffer__pickle_pop_mark(coffer__pickle *p, size_t *first);
/* The height of the stack that belongs to what is before the last mark. */
size_t coffer__pickle_fence(const coffer__pickle *p);
coffer__value_kind coffer__pickle_kind(const coffer__pickle *p, coffer__value value);
/* Whether a value stands for something that only a loader would have: a GLOBAL, CALL or PERSISTENT. */
bool coffer__pickle_is_unknown(const coffer__pickle *p, coffer__value value);
/* Reports a value to the watch, if there is one. */
coffer_status coffer__pickle_tell(coffer__pickle *p, coffer__value value);

/* ---- opcodes ------------------------------------------------------------------------------------------------------- */

/*
 * Functions of the table in pickle_machine.c. The number is that of the opcode's row: the width of a length, a kind, a
 * count. COFFER_ERR_PICKLE for what is damaged or refused, COFFER_ERR_MEMORY beyond the budget; stack, memo and graph are
 * whole also then.
 */

/* pickle_stack.c */
coffer_status coffer__op_mark(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_pop(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_pop_mark(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_dup(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_put(coffer__pickle *p, unsigned width);
coffer_status coffer__op_memoize(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_get(coffer__pickle *p, unsigned width);

/* pickle_atoms.c */
coffer_status coffer__op_none(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_bool(coffer__pickle *p, unsigned truth);
coffer_status coffer__op_binint(coffer__pickle *p, unsigned width);
coffer_status coffer__op_binlong(coffer__pickle *p, unsigned width);
coffer_status coffer__op_integer_line(coffer__pickle *p, unsigned is_long);
coffer_status coffer__op_binfloat(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_float_line(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_text(coffer__pickle *p, unsigned width);
coffer_status coffer__op_bytes(coffer__pickle *p, unsigned width);
coffer_status coffer__op_string(coffer__pickle *p, unsigned width);
coffer_status coffer__op_text_line(coffer__pickle *p, unsigned is_string);

/* pickle_containers.c */
/* Pushes a container of what is on the stack from `first` on, which it replaces there. */
coffer_status coffer__pickle_collect(coffer__pickle *p, coffer__value_kind kind, size_t first);
coffer_status coffer__op_empty(coffer__pickle *p, unsigned kind);
coffer_status coffer__op_collect(coffer__pickle *p, unsigned kind);
coffer_status coffer__op_tuple(coffer__pickle *p, unsigned count);
coffer_status coffer__op_add(coffer__pickle *p, unsigned kind);
coffer_status coffer__op_add_marked(coffer__pickle *p, unsigned kind);

/* pickle_calls.c */
coffer_status coffer__op_global(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_stack_global(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_call(coffer__pickle *p, unsigned kind);
coffer_status coffer__op_newobj_ex(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_build(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_persid(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_binpersid(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_inst(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_obj(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_extension(coffer__pickle *p, unsigned unused);
coffer_status coffer__op_buffer(coffer__pickle *p, unsigned unused);

/* ---- pickle_stream.c ----------------------------------------------------------------------------------------------- */

/* The next `size` bytes, at most 16, which lie together and are consumed. */
coffer_status coffer__pickle_take(coffer__pickle *p, size_t size, const uint8_t **bytes);
/* A little-endian unsigned integer of `width` bytes, 1 to 8. */
coffer_status coffer__pickle_take_number(coffer__pickle *p, unsigned width, uint64_t *value);
/* Consumes `size` bytes: a TEXT or BYTES, which are kept when there are at most COFFER__PICKLE_INLINE. */
coffer_status coffer__pickle_take_payload(coffer__pickle *p, uint64_t size, coffer__node *node);
/* Skips bytes that the machine has no use for. */
coffer_status coffer__pickle_skip(coffer__pickle *p, uint64_t size);
/* Consumes a line, of `size` bytes without its end. They are put at the end of the texts, where the caller leaves or
   drops them, when there are at most COFFER__PICKLE_INLINE; else `kept` is UINT32_MAX. */
coffer_status coffer__pickle_take_line(coffer__pickle *p, uint64_t *size, uint32_t *kept);
/* Consumes a line that is a decimal integer, of LONG if `is_long`. *fits: it is in *value; else it is beyond 8 bytes. */
coffer_status coffer__pickle_take_integer_line(coffer__pickle *p, bool is_long, int64_t *value, bool *fits);

#endif
