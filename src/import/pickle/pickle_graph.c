/* SPDX-License-Identifier: Apache-2.0 */
/* The graph that the pickle machine builds: pools within a budget, nodes, links, the memo; and looking at it. */
#include "pickle_machine.h"

#include "alloc.h"
#include "error.h"
#include "text.h"

#include <string.h>

#define PICKLE_MIN_CAPACITY 64
#define PICKLE_MAX_ITEMS (UINT32_MAX - 1) /* numbers begin at 1 and must not wrap */

/* Errors name the opcode and not the byte that was read last: that is where somebody with pickletools finds
   it. */
coffer_status coffer__pickle_fail(const coffer__pickle *p, const char *what)
{
    return coffer__fail_at(p->err, COFFER_ERR_PICKLE, p->opcode_at, "at byte %u of the pickle, %s", p->opcode_at, what);
}

/*
 * Rooms grow by halves, so that items move seldom. Near the end of the budget, which counts the rooms and not
 * what is in them, a pool gets half of what is left instead.
 */
coffer_status coffer__pickle_reserve(coffer__pickle *p, coffer__pickle_pool *pool, size_t item_size, size_t more)
{
    if (more <= pool->capacity - pool->count) {
        return COFFER_OK;
    }
    /* `most` is bounded three times: by the budget, by the 32 bits of the numbers, and by what a size_t can
       measure. With that, and item sizes of at most a few dozen bytes, none of the products below can wrap. */
    const uint64_t needed = (uint64_t)pool->count + more;
    /* What the pool has is paid for already; only what is added costs the budget. */
    const uint64_t affordable = pool->capacity + p->left / item_size;
    uint64_t most = affordable < PICKLE_MAX_ITEMS ? affordable : PICKLE_MAX_ITEMS;
    most = most < SIZE_MAX / item_size ? most : SIZE_MAX / item_size;
    /* No wrap: neither the count nor what is added to it is above 2^32. */
    uint64_t capacity = needed + needed / 2;
    capacity = capacity < PICKLE_MIN_CAPACITY ? PICKLE_MIN_CAPACITY : capacity;
    /* Half of what is left, so that the other pools can still grow, too; the budget is shared by all of them. */
    capacity = capacity <= most || most <= needed ? capacity : needed + (most - needed) / 2;
    capacity = capacity < most ? capacity : most;
    p->over_budget = capacity < needed;
    void *items = capacity < needed ? NULL
                                    : coffer__realloc(&p->allocator, pool->items, pool->capacity * item_size,
                                                      (size_t)capacity * item_size);
    if (items == NULL) {
        return coffer__fail_at(p->err, COFFER_ERR_MEMORY, p->opcode_at,
                               "at byte %u of the pickle, its values need more memory than they may have",
                               p->opcode_at);
    }
    p->left -= (capacity - pool->capacity) * item_size;
    pool->items = items;
    pool->capacity = (size_t)capacity;
    return COFFER_OK;
}

/* The budget does not get the bytes back: it bounds all that a run ever takes, and a run takes nothing after
   this. */
void coffer__pickle_pool_free(coffer__pickle *p, coffer__pickle_pool *pool, size_t item_size)
{
    coffer__free(&p->allocator, pool->items, pool->capacity * item_size);
    memset(pool, 0, sizeof *pool);
}

/* For values that are known to exist; coffer__pickle_node is the one for those that may be 0. */
coffer__node *coffer__pickle_at(coffer__pickle *p, coffer__value value)
{
    return (coffer__node *)p->nodes.items + (value - 1);
}

/* A node of all zeros is whole for each kind but TEXT and BYTES, whose place 0 among the texts would be a name
   of another node. */
coffer_status coffer__pickle_make(coffer__pickle *p, coffer__value_kind kind, coffer__value *value, coffer__node **node)
{
    const coffer_status status = coffer__pickle_reserve(p, &p->nodes, sizeof **node, 1);
    if (status != COFFER_OK) {
        return status;
    }
    *value = (coffer__value)++p->nodes.count;
    *node = coffer__pickle_at(p, *value);
    memset(*node, 0, sizeof **node);
    (*node)->kind = (uint8_t)kind;
    (*node)->offset = p->opcode_at;
    if (kind == COFFER__VALUE_TEXT || kind == COFFER__VALUE_BYTES) {
        (*node)->as.bytes.kept = UINT32_MAX;
    }
    return COFFER_OK;
}

/* Appending at the end costs no walk, since a container knows its last link. Links are numbers and not
   pointers, so it does not matter that the pools move. */
coffer_status coffer__pickle_append(coffer__pickle *p, coffer__value container, coffer__value item)
{
    const coffer_status status = coffer__pickle_reserve(p, &p->links, sizeof(coffer__pickle_link), 1);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__pickle_link *links = p->links.items;
    coffer__node *node = coffer__pickle_at(p, container);
    links[p->links.count].value = item;
    links[p->links.count].next = 0;
    const uint32_t link = (uint32_t)++p->links.count;
    if (node->last == 0) {
        node->first = link;
    } else {
        links[node->last - 1].next = link;
    }
    node->last = link;
    node->count++;
    return COFFER_OK;
}

/* ---- the memo ---- */

/*
 * The memo is a tree of pages of 256 numbers, one level for each byte of the index, the highest first;
 * page 0 is the root, and the last level holds values. The index comes from the file: in a tree it
 * sizes nothing, however large it is, and unlike a hash it cannot be chosen so that look-ups
 * become slow. Indices that count up, as real ones do, take four bytes each.
 */
#define MEMO_PAGE ((size_t)256)

/* The place of a number's byte of this level within a page. */
static size_t memo_slot(uint32_t page, uint32_t number, unsigned level)
{
    return page * MEMO_PAGE + (number >> (24 - 8 * level) & 0xFF);
}

/* Pages are zeros, and 0 is neither a value nor a page that another one could refer to: so it means "nothing
   here". */
static coffer_status memo_new_page(coffer__pickle *p, uint32_t *page)
{
    const coffer_status status = coffer__pickle_reserve(p, &p->memo, sizeof(uint32_t), MEMO_PAGE);
    if (status != COFFER_OK) {
        return status;
    }
    memset((uint32_t *)p->memo.items + p->memo.count, 0, MEMO_PAGE * sizeof(uint32_t));
    *page = (uint32_t)(p->memo.count / MEMO_PAGE);
    p->memo.count += MEMO_PAGE;
    return COFFER_OK;
}

coffer_status coffer__pickle_memo_put(coffer__pickle *p, uint32_t number, coffer__value value)
{
    uint32_t page = 0;
    coffer_status status = p->memo.count == 0 ? memo_new_page(p, &page) : COFFER_OK;
    /* Each put makes three pages at most, 3 KiB. So a stream that chooses its indices as badly as it can pays
       for each with the budget, and ends where that ends. */
    for (unsigned level = 0; status == COFFER_OK && level < 3; level++) {
        const size_t slot = memo_slot(page, number, level);
        page = ((uint32_t *)p->memo.items)[slot];
        if (page == 0) {
            status = memo_new_page(p, &page);
            if (status == COFFER_OK) {
                ((uint32_t *)p->memo.items)[slot] = page;
            }
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    uint32_t *place = (uint32_t *)p->memo.items + memo_slot(page, number, 3);
    /* A number that is put again replaces its value, and does not count twice: Python's memo is a dict. */
    p->memo_count += *place == 0;
    *place = value;
    return COFFER_OK;
}

coffer__value coffer__pickle_memo_get(const coffer__pickle *p, uint32_t number)
{
    const uint32_t *slots = p->memo.items;
    uint32_t page = 0;
    for (unsigned level = 0; level < 3; level++) {
        page = slots == NULL ? 0 : slots[memo_slot(page, number, level)];
        if (page == 0) {
            return 0;
        }
    }
    return slots[memo_slot(page, number, 3)];
}

/* ---- looking ---- */

coffer__value coffer__pickle_root(const coffer__pickle *pickle)
{
    return pickle->root;
}

bool coffer__pickle_over_budget(const coffer__pickle *pickle)
{
    return pickle->over_budget;
}

size_t coffer__pickle_count(const coffer__pickle *pickle)
{
    return pickle->nodes.count;
}

const coffer__node *coffer__pickle_node(const coffer__pickle *pickle, coffer__value value)
{
    return value == 0 ? NULL : (const coffer__node *)pickle->nodes.items + (value - 1);
}

/* Safe past the last item, where it gives 0 again: walkers of pairs need not ask whether a key has its value. */
coffer__value coffer__pickle_item(const coffer__pickle *pickle, uint32_t *link)
{
    if (*link == 0) {
        return 0;
    }
    const coffer__pickle_link *at = (const coffer__pickle_link *)pickle->links.items + (*link - 1);
    *link = at->next;
    return at->value;
}

const char *coffer__pickle_bytes_of(const coffer__pickle *pickle, coffer__value value, size_t *size)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    const bool has_bytes = node != NULL && (node->kind == COFFER__VALUE_TEXT || node->kind == COFFER__VALUE_BYTES);
    if (!has_bytes || node->as.bytes.kept == UINT32_MAX) {
        return NULL;
    }
    *size = node->as.bytes.kept_size;
    return (const char *)pickle->texts.items + node->as.bytes.kept;
}

const char *coffer__pickle_module(const coffer__pickle *pickle, coffer__value value)
{
    return (const char *)pickle->texts.items + coffer__pickle_node(pickle, value)->as.object.module;
}

const char *coffer__pickle_name(const coffer__pickle *pickle, coffer__value value)
{
    return (const char *)pickle->texts.items + coffer__pickle_node(pickle, value)->as.object.name;
}

/* Whether a value is that text: a str, which Python 2 wrote as BYTES. */
static bool pickle_is_key(const coffer__pickle *pickle, coffer__value value, const char *key)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    if (node->kind != COFFER__VALUE_TEXT && !(node->kind == COFFER__VALUE_BYTES && node->python2)) {
        return false;
    }
    size_t size = 0;
    const char *bytes = coffer__pickle_bytes_of(pickle, value, &size);
    return bytes != NULL && coffer__text_is(bytes, size, key);
}

/* All pairs are looked at, since the last of a key counts. For single questions about small dicts only; walks
   over many dicts use entries (pickle_classify.c). */
coffer__value coffer__pickle_get(const coffer__pickle *pickle, coffer__value dict, const char *key)
{
    const coffer__node *node = coffer__pickle_node(pickle, dict);
    if (node != NULL && node->kind == COFFER__VALUE_CALL) {
        node = coffer__pickle_node(pickle, coffer__node_attributes(node));
    }
    if (node == NULL || node->kind != COFFER__VALUE_DICT) {
        return 0;
    }
    coffer__value found = 0;
    for (uint32_t link = node->first; link != 0;) {
        const coffer__value name = coffer__pickle_item(pickle, &link);
        const coffer__value value = coffer__pickle_item(pickle, &link);
        found = pickle_is_key(pickle, name, key) ? value : found;
    }
    return found;
}
