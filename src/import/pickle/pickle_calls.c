/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine's opcodes that would have a loader import, call or fetch something, and those that are
 * refused. Nothing of that is done here: an import is a GLOBAL of two names, a call is a CALL of what would
 * be called and with what, a persistent id is a PERSISTENT. The watch is told of each when its node is whole.
 *
 * Exactly one call has a result here: _codecs.encode(text, "latin1"), which is how protocols 0 to 2 write
 * bytes. It is text in another encoding, and no code of the file decides what comes of it.
 */
#include "pickle_machine.h"

#include "text.h"

#include <string.h>

/* ---- names and calls ---- */

/* Pushes a node with items, `count` of them. Links for all are there before the node is, so none is seen without its items. */
static coffer_status pickle_push_with(coffer__pickle *p, coffer__value_kind kind, const coffer__value *items,
                                      size_t count, coffer__node **node)
{
    coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), count);
    if (status == COFFER_OK) {
        status = coffer__pickle_push_new(p, kind, node);
    }
    for (size_t i = 0; status == COFFER_OK && i < count; i++) {
        status = coffer__pickle_append(p, (coffer__value)p->nodes.count, items[i]);
    }
    return status;
}

/* A kept text that can be a name: UTF-8, without NULs, of which one would end it early for whoever reads it. */
static const char *pickle_plain_name(const coffer__pickle *p, coffer__value value)
{
    size_t len = 0;
    const char *name =
        coffer__pickle_kind(p, value) == COFFER__VALUE_TEXT ? coffer__pickle_bytes_of(p, value, &len) : NULL;
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
    status = coffer__pickle_push_new(p, COFFER__VALUE_GLOBAL, &node);
    if (status != COFFER_OK) {
        return status;
    }
    node->as.object.module = module_at;
    node->as.object.name = name_at;
    /* After the node is whole: the watch asks for its names. */
    return coffer__pickle_tell(p, (coffer__value)p->nodes.count);
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
coffer_status coffer__op_global(coffer__pickle *p, unsigned unused)
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
coffer_status coffer__op_stack_global(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value module = 0;
    coffer__value name = 0;
    const coffer_status status = coffer__pickle_pop_two(p, &module, &name);
    if (status != COFFER_OK) {
        return status;
    }
    if (pickle_plain_name(p, module) == NULL || pickle_plain_name(p, name) == NULL) {
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
    const bool callable_fits = coffer__pickle_is_unknown(p, callable);
    const bool arguments_fit =
        coffer__pickle_kind(p, arguments) == COFFER__VALUE_TUPLE || coffer__pickle_is_unknown(p, arguments);
    const bool keywords_fit = keywords == 0 || coffer__pickle_kind(p, keywords) == COFFER__VALUE_DICT ||
                              coffer__pickle_is_unknown(p, keywords);
    if (!callable_fits || !arguments_fit || !keywords_fit) {
        return coffer__pickle_fail(p, "something is called that cannot be, or with arguments that are not a tuple");
    }
    coffer__node *node = NULL;
    const coffer__value items[] = { callable, arguments, keywords };
    const coffer_status status = pickle_push_with(p, COFFER__VALUE_CALL, items, keywords == 0 ? 2 : 3, &node);
    if (status != COFFER_OK) {
        return status;
    }
    node->call = (uint8_t)kind;
    return coffer__pickle_tell(p, (coffer__value)p->nodes.count);
}

/* Whether a value is a text of exactly these characters. */
static bool pickle_is_named(const coffer__pickle *p, coffer__value value, const char *text)
{
    const char *name = pickle_plain_name(p, value);
    return name != NULL && coffer__same_text(name, text);
}

/* The text of a call of _codecs.encode(text, "latin1"), which is how protocols 0 to 2 write bytes; else 0. */
static coffer__value pickle_encoded(const coffer__pickle *p, coffer__value callable, coffer__value arguments)
{
    const coffer__node *tuple = coffer__pickle_node(p, arguments);
    if (coffer__pickle_kind(p, callable) != COFFER__VALUE_GLOBAL || tuple->kind != COFFER__VALUE_TUPLE ||
        tuple->count != 2) {
        return 0;
    }
    if (!coffer__same_text(coffer__pickle_module(p, callable), "_codecs") ||
        !coffer__same_text(coffer__pickle_name(p, callable), "encode")) {
        return 0;
    }
    /* The tuple has two items, so neither is 0. */
    uint32_t link = tuple->first;
    const coffer__value text = coffer__pickle_item(p, &link);
    const coffer__value encoding = coffer__pickle_item(p, &link);
    const bool latin1 = pickle_is_named(p, encoding, "latin1") || pickle_is_named(p, encoding, "latin-1");
    return latin1 && coffer__pickle_kind(p, text) == COFFER__VALUE_TEXT ? text : 0;
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
    const coffer_status status = coffer__pickle_push_new(p, COFFER__VALUE_BYTES, &node);
    if (status == COFFER_OK) {
        node->as = source.as;
        node->as.bytes.kept = kept;
        node->as.bytes.kept_size = (unsigned)len & COFFER__PICKLE_KEPT_MASK;
        node->as.bytes.latin1 = true;
    }
    return status;
}

/* REDUCE, NEWOBJ: a callable and its arguments. */
coffer_status coffer__op_call(coffer__pickle *p, unsigned kind)
{
    coffer__value arguments = 0;
    coffer__value callable = 0;
    const coffer_status status = coffer__pickle_pop_two(p, &callable, &arguments);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value text = kind == COFFER__CALL_REDUCE ? pickle_encoded(p, callable, arguments) : 0;
    return text != 0 ? pickle_push_encoded(p, text)
                     : pickle_push_call(p, (coffer__call_kind)kind, callable, arguments, 0);
}

/* NEWOBJ_EX: callable, positional arguments, keywords; they lie on the stack in this order, so come off in
   reverse. */
coffer_status coffer__op_newobj_ex(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value keywords = 0;
    coffer__value arguments = 0;
    coffer__value callable = 0;
    coffer_status status = coffer__pickle_pop(p, &keywords);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_pop_two(p, &callable, &arguments);
    return status == COFFER_OK ? pickle_push_call(p, COFFER__CALL_NEW, callable, arguments, keywords) : status;
}

/* Bytes that a loader reads by itself come after the frame that is open, so that has to end here. */
static coffer_status pickle_pass_own(coffer__pickle *p, coffer__value value)
{
    uint64_t size = 0;
    if (p->watch == NULL || p->watch->own_bytes == NULL) {
        return COFFER_OK;
    }
    const coffer_status status = p->watch->own_bytes(p->watch->ctx, p, value, p->position, &size, p->err);
    if (status != COFFER_OK || size == 0) {
        return status;
    }
    if (p->position < p->frame_end) {
        return coffer__pickle_fail(p, "bytes of an array are within a frame");
    }
    p->frame_end = 0;
    return coffer__pickle_skip(p, size);
}

/* The state goes to what only a loader would have: a class or module, too, whose attributes it would set. */
coffer_status coffer__op_build(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value given = 0;
    coffer__value value = 0;
    coffer_status status = coffer__pickle_pop(p, &given);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_top(p, &value);
    if (status != COFFER_OK) {
        return status;
    }
    /* A list or a dict has no state in Python either: __setstate__ and __dict__ are of objects, which only
       calls make. */
    if (!coffer__pickle_is_unknown(p, value)) {
        return coffer__pickle_fail(p, "a state is given to a value that has none");
    }
    /* A second state replaces the first. Python would merge their dicts, but no pickler writes two. */
    coffer__pickle_at(p, value)->as.object.state = given;
    status = coffer__pickle_tell(p, value);
    return status == COFFER_OK ? pickle_pass_own(p, value) : status;
}

/* BINPERSID: the loader would be asked for what an id stands for, which is item 0 of the node. It is the value on top, in torch's
   files a tuple that names a storage. */
coffer_status coffer__op_binpersid(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    coffer__value id = 0;
    coffer__node *node = NULL;
    const coffer_status status = coffer__pickle_pop(p, &id);
    return status == COFFER_OK ? pickle_push_with(p, COFFER__VALUE_PERSISTENT, &id, 1, &node) : status;
}

/* PERSID: the id is a line of ASCII. */
coffer_status coffer__op_persid(coffer__pickle *p, unsigned unused)
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
    for (const char *text = (const char *)p->texts.items + kept; *text != '\0'; text++) {
        if ((uint8_t)*text >= 0x80) {
            return coffer__pickle_fail(p, "an id is not ASCII");
        }
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
    return pickle_push_with(p, COFFER__VALUE_PERSISTENT, &id, 1, &node);
}

/* A call with all above `first` on the stack as its arguments, which it replaces there. */
static coffer_status pickle_call_with(coffer__pickle *p, size_t first, coffer__value callable)
{
    coffer_status status = coffer__pickle_collect(p, COFFER__VALUE_TUPLE, first);
    coffer__value arguments = 0;
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_pop(p, &arguments);
    return status == COFFER_OK ? pickle_push_call(p, COFFER__CALL_REDUCE, callable, arguments, 0) : status;
}

/* INST: two names; arguments above the mark. Protocols 0 and 1 of Python 2 make instances of classes so. */
coffer_status coffer__op_inst(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    coffer_status status = coffer__op_global(p, 0);
    coffer__value callable = 0;
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_pop(p, &callable);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_pop_mark(p, &first);
    return status == COFFER_OK ? pickle_call_with(p, first, callable) : status;
}

/* OBJ: a class and its arguments above the mark. */
coffer_status coffer__op_obj(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    size_t first = 0;
    coffer_status status = coffer__pickle_pop_mark(p, &first);
    if (status != COFFER_OK) {
        return status;
    }
    if (first == p->stack.count) {
        return coffer__pickle_fail(p, "the opcode OBJ has no class");
    }
    /* The class is the first value above the mark, and the call takes its place. */
    const coffer__value callable = ((const coffer__value *)p->stack.items)[first];
    coffer__value call = 0;
    status = pickle_call_with(p, first + 1, callable);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_pop(p, &call);
    ((coffer__value *)p->stack.items)[first] = call;
    return status;
}

/* ---- what is refused ---- */

/* EXT1, EXT2, EXT4: the registry that gives the numbers a meaning is the loader's (copyreg), and no writer of
   checkpoints uses it. */
coffer_status coffer__op_extension(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return coffer__pickle_fail(p, "it names a global by a number (EXT), which only the program that wrote it knows");
}

/* NEXT_BUFFER, READONLY_BUFFER: the buffers were handed to the program that pickled, and are in no file. */
coffer_status coffer__op_buffer(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return coffer__pickle_fail(p, "it has buffers that are not in it (protocol 5, out of band)");
}
