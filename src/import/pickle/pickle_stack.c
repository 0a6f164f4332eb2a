/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine's stack, marks and memo, and the opcodes that work on nothing else.
 *
 * The stack holds numbers of nodes, four bytes each. A mark is a height of the stack and lies in a pool of
 * its own; the last one is a fence, below which no opcode takes a value. The memo keeps numbers of nodes by
 * index (pickle_graph.c). Every value on the stack or in the memo is the number of a node that exists,
 * never 0, and that node is whole.
 */
#include "pickle_machine.h"

/* ---- the stack ---- */

/* Everything that goes onto the stack goes through here, so the stack costs the budget four bytes for each
   value. */
coffer_status coffer__pickle_push(coffer__pickle *p, coffer__value value)
{
    const coffer_status status = coffer__pickle_reserve(p, &p->stack, sizeof value, 1);
    if (status == COFFER_OK) {
        ((coffer__value *)p->stack.items)[p->stack.count++] = value;
    }
    return status;
}

/* The height of the stack that belongs to what is before the last mark. */
size_t coffer__pickle_fence(const coffer__pickle *p)
{
    return p->marks.count == 0 ? 0 : ((const uint32_t *)p->marks.items)[p->marks.count - 1];
}

/* The value on top, which stays. Every pop goes through here: this is the one place that keeps an opcode from
   reaching below the last mark, and so from an index below zero. */
coffer_status coffer__pickle_top(const coffer__pickle *p, coffer__value *value)
{
    if (p->stack.count == coffer__pickle_fence(p)) {
        return coffer__pickle_fail(p, p->marks.count == 0 ? "a value is missing: the stack is empty"
                                                          : "a value is missing: there is a mark in its place");
    }
    *value = ((const coffer__value *)p->stack.items)[p->stack.count - 1];
    return COFFER_OK;
}

coffer_status coffer__pickle_pop(coffer__pickle *p, coffer__value *value)
{
    const coffer_status status = coffer__pickle_top(p, value);
    p->stack.count -= status == COFFER_OK;
    return status;
}

coffer_status coffer__pickle_pop_two(coffer__pickle *p, coffer__value *under, coffer__value *top)
{
    const coffer_status status = coffer__pickle_pop(p, top);
    return status == COFFER_OK ? coffer__pickle_pop(p, under) : status;
}

/* Takes the last mark away; *first is the place in the stack of what was above it. The caller takes that, too. */
coffer_status coffer__pickle_pop_mark(coffer__pickle *p, size_t *first)
{
    if (p->marks.count == 0) {
        return coffer__pickle_fail(p, "a mark is missing");
    }
    *first = coffer__pickle_fence(p);
    p->marks.count--;
    return COFFER_OK;
}

/*
 * Makes a node and pushes it. The pointer is valid until the next node is made. There is space on the stack before there is
 * a node, and so with links further down: what is looked at after a failure has no node that is half made.
 */
coffer_status coffer__pickle_push_new(coffer__pickle *p, coffer__value_kind kind, coffer__node **node)
{
    coffer__value value = 0;
    coffer_status status = coffer__pickle_reserve(p, &p->stack, sizeof value, 1);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_make(p, kind, &value, node);
    return status == COFFER_OK ? coffer__pickle_push(p, value) : status;
}

/* Pushes a node that all uses share, and makes it before the first. */
coffer_status coffer__pickle_push_shared(coffer__pickle *p, coffer__value *shared, coffer__value_kind kind,
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
    return coffer__pickle_push(p, *shared);
}

/* Values on the stack and in the memo are numbers of nodes that exist, never 0, so their kind may be asked for
   without a check. */
coffer__value_kind coffer__pickle_kind(const coffer__pickle *p, coffer__value value)
{
    return (coffer__value_kind)coffer__pickle_node(p, value)->kind;
}

/* What stands for something that only a loader would have: it may turn out to be anything. */
bool coffer__pickle_is_unknown(const coffer__pickle *p, coffer__value value)
{
    return coffer__node_is_object(coffer__pickle_node(p, value));
}

/* Reports a value to the watch, which sees it in the order in which a loader would have acted on it. */
coffer_status coffer__pickle_tell(coffer__pickle *p, coffer__value value)
{
    return p->watch == NULL || p->watch->seen == NULL ? COFFER_OK : p->watch->seen(p->watch->ctx, p, value, p->err);
}

/* ---- opcodes ---- */

/* A mark is no value but a height, kept apart from the stack: so no opcode can take a mark for a value. */
coffer_status coffer__op_mark(coffer__pickle *p, unsigned unused)
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
coffer_status coffer__op_pop(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    if (p->marks.count > 0 && p->stack.count == coffer__pickle_fence(p)) {
        p->marks.count--;
        return COFFER_OK;
    }
    coffer__value value = 0;
    return coffer__pickle_pop(p, &value);
}

/* POP_MARK drops everything above the mark; the nodes stay, since the memo may refer to them. */
coffer_status coffer__op_pop_mark(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    const coffer_status status = coffer__pickle_pop_mark(p, &first);
    p->stack.count = status == COFFER_OK ? first : p->stack.count;
    return status;
}

/* The node is pushed a second time; a change to the one is seen by the other, as in Python. */
coffer_status coffer__op_dup(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value value = 0;
    const coffer_status status = coffer__pickle_top(p, &value);
    return status == COFFER_OK ? coffer__pickle_push(p, value) : status;
}

/* The index of a PUT or GET: `width` bytes, or a line when that is 0. */
static coffer_status pickle_memo_number(coffer__pickle *p, unsigned width, uint32_t *number)
{
    uint64_t wide = 0;
    /* BINPUT and LONG_BINPUT have the index in binary. */
    if (width > 0) {
        const coffer_status status = coffer__pickle_take_number(p, width, &wide);
        *number = (uint32_t)wide;
        return status;
    }
    /* Protocol 0 writes indices in decimal digits. Python takes larger ones, too, which no pickler makes: it counts. */
    int64_t value = 0;
    bool fits = false;
    const coffer_status status = coffer__pickle_take_integer_line(p, false, &value, &fits);
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
coffer_status coffer__op_put(coffer__pickle *p, unsigned width)
{
    uint32_t number = 0;
    coffer__value value = 0;
    coffer_status status = pickle_memo_number(p, width, &number);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_top(p, &value);
    return status == COFFER_OK ? coffer__pickle_memo_put(p, number, value) : status;
}

/* MEMOIZE is a PUT whose index is the number of values in the memo, as Python counts them. */
coffer_status coffer__op_memoize(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value value = 0;
    const coffer_status status = coffer__pickle_top(p, &value);
    return status == COFFER_OK ? coffer__pickle_memo_put(p, p->memo_count, value) : status;
}

/* GET, BINGET, LONG_BINGET: pushes the number of the node once more, so a value that is used a million times
   costs four bytes each time and is never copied. */
coffer_status coffer__op_get(coffer__pickle *p, unsigned width)
{
    uint32_t number = 0;
    const coffer_status status = pickle_memo_number(p, width, &number);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value value = coffer__pickle_memo_get(p, number);
    return value == 0 ? coffer__pickle_fail(p, "it takes a value from the memo that was never put there")
                      : coffer__pickle_push(p, value);
}
