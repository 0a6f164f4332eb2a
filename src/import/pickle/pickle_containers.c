/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine's opcodes for tuples, lists, dicts and sets: making them of what is on the stack, and
 * adding to them later, as picklers do with everything that may contain itself.
 *
 * A container is a node with a chain of links, so adding an item costs one link wherever the container is.
 * Links are reserved before a node is made or changed: a container has all items of its opcode, or none.
 */
#include "pickle_machine.h"

/* EMPTY_TUPLE is one node for all uses, since nothing can be added to it. Lists, dicts and sets are made each
   time. */
coffer_status coffer__op_empty(coffer__pickle *p, unsigned kind)
{
    coffer__node *node = NULL;
    return kind == COFFER__VALUE_TUPLE ? coffer__pickle_push_shared(p, &p->empty_tuple, COFFER__VALUE_TUPLE, 0)
                                       : coffer__pickle_push_new(p, (coffer__value_kind)kind, &node);
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
coffer_status coffer__pickle_collect(coffer__pickle *p, coffer__value_kind kind, size_t first)
{
    if (kind == COFFER__VALUE_TUPLE && first == p->stack.count) {
        return coffer__op_empty(p, kind);
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
    return status == COFFER_OK ? coffer__pickle_push(p, value) : status;
}

/* TUPLE, LIST, DICT, FROZENSET: all above the mark. */
coffer_status coffer__op_collect(coffer__pickle *p, unsigned kind)
{
    size_t first = 0;
    const coffer_status status = coffer__pickle_pop_mark(p, &first);
    return status == COFFER_OK ? coffer__pickle_collect(p, (coffer__value_kind)kind, first) : status;
}

/* TUPLE1 to TUPLE3. */
coffer_status coffer__op_tuple(coffer__pickle *p, unsigned count)
{
    if (p->stack.count - coffer__pickle_fence(p) < count) {
        return coffer__pickle_fail(p, "a tuple has more items than there are values");
    }
    return coffer__pickle_collect(p, COFFER__VALUE_TUPLE, p->stack.count - count);
}

/*
 * Where items go that are added to a value: into itself when it is of that kind, and into its
 * attributes when only a loader would know what it is. What would fail there fails here.
 */
static coffer_status pickle_recipient(coffer__pickle *p, coffer__value value, coffer__value_kind kind,
                                      coffer__value *recipient)
{
    *recipient = value;
    if (coffer__pickle_kind(p, value) == kind) {
        return COFFER_OK;
    }
    /* Sets collect as a list: nothing but their items is ever asked for. */
    const coffer__value_kind inside = kind == COFFER__VALUE_DICT ? kind : COFFER__VALUE_LIST;
    const bool unknown = coffer__pickle_is_unknown(p, value);
    *recipient = coffer__node_attributes(coffer__pickle_at(p, value));
    /* One object gets items of one kind: as a dict or as a list, not as both. Python's own types are like
       this. */
    if (!unknown || (*recipient != 0 && coffer__pickle_kind(p, *recipient) != inside)) {
        return coffer__pickle_fail(p, "items are added to a value that takes none of the kind");
    }
    if (*recipient != 0) {
        return COFFER_OK;
    }
    coffer__node *node = NULL;
    const coffer_status status = coffer__pickle_make(p, inside, recipient, &node);
    if (status == COFFER_OK) {
        coffer__pickle_at(p, value)->as.object.attributes = *recipient;
    }
    return status;
}

/* Adds what is on the stack from `first` on to the value before it, which stays. */
static coffer_status pickle_add_from(coffer__pickle *p, coffer__value_kind kind, size_t first)
{
    if (first == coffer__pickle_fence(p)) {
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
    const coffer__value_kind target = coffer__pickle_kind(p, value);
    return target == COFFER__VALUE_GLOBAL || target == COFFER__VALUE_PERSISTENT ? coffer__pickle_tell(p, value)
                                                                                : COFFER_OK;
}

/* APPENDS, SETITEMS, ADDITEMS: all above the mark. */
coffer_status coffer__op_add_marked(coffer__pickle *p, unsigned kind)
{
    size_t first = 0;
    const coffer_status status = coffer__pickle_pop_mark(p, &first);
    return status == COFFER_OK ? pickle_add_from(p, (coffer__value_kind)kind, first) : status;
}

/* APPEND and SETITEM: one item, which of a dict is two values. */
coffer_status coffer__op_add(coffer__pickle *p, unsigned kind)
{
    const size_t count = kind == COFFER__VALUE_DICT ? 2 : 1;
    /* One more than the items: the container itself. */
    if (p->stack.count - coffer__pickle_fence(p) <= count) {
        return coffer__pickle_fail(p, "an item is added, and there are too few values for that");
    }
    return pickle_add_from(p, (coffer__value_kind)kind, p->stack.count - count);
}
