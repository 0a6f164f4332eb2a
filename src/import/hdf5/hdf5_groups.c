/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over HDF5's groups:
 *
 *   "TREE" node:     type 1 | level 1 | entries 2 | left 8 | right 8 | key 8 | child 8 | key 8 | child 8 | … | key 8
 *   "SNOD" node:     version 1 | 0 | entries 2 | entries of 40: name 8 | header 8 | kind 4 | 0 4 | of the kind 16
 *   "HEAP":          version 1 | 0 3 | size 8 | free 8 | address of the names 8
 *
 * A group's children are found by its symbol table, a tree of nodes with names in a heap, or are links among its messages.
 */
#include "hdf5.h"

#include "alloc.h"
#include "error.h"
#include "text.h"

#include <string.h>

#define HDF5_MAX_DEPTH 128u
#define HDF5_MAX_NAME 1024u
#define HDF5_MAX_NAMES ((size_t)64 << 20)
#define HDF5_MAX_NODES 4096u /* pending, of one group's tree */

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* One walk: the group that is being read, by its number. */
typedef struct hdf5_group {
    coffer__hdf5 *h;
    uint32_t number;
    uint64_t names;      /* the address of its names */
    uint64_t names_size; /* bytes of them */
    bool has_links;
} hdf5_group;

const char *coffer__hdf5_path(const coffer__hdf5 *h, const coffer__hdf5_node *node)
{
    return node->path_len == 0 ? "" : h->names.text + node->path;
}

/* A group that is among those above it would have no end. */
static bool hdf5_is_above(const coffer__hdf5 *h, uint32_t number, uint64_t address)
{
    for (uint32_t i = number;; i = h->nodes[i].parent) {
        if (h->nodes[i].address == address) {
            return true;
        }
        if (h->nodes[i].parent == i) {
            return false;
        }
    }
}

/* The path of a child, after that of its group. */
static coffer_status hdf5_put_path(coffer__hdf5 *h, const coffer__hdf5_node *parent, const char *name, size_t name_len,
                                   coffer__hdf5_node *node, uint64_t at, coffer_error *err)
{
    const size_t parent_len = parent->path_len;
    const size_t len = parent_len + (parent_len > 0) + name_len;
    if (len > COFFER__HDF5_MAX_PATH || h->names.used > HDF5_MAX_NAMES) {
        return coffer__hdf5_refuse(h, at, "paths that are too long", err);
    }
    node->path = h->names.used;
    node->path_len = (uint32_t)len;
    char *path = coffer__write_space(&h->names, len);
    if (path == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the paths of an HDF5 file");
    }
    /* The space may have moved the text, so the parent's path is looked up only now. */
    memcpy(path, h->names.text + parent->path, parent_len);
    path[parent_len] = '/';
    memcpy(path + (parent_len > 0 ? parent_len + 1 : 0), name, name_len);
    return COFFER_OK;
}

/* A child of the group. Names are one component: with a slash or a dot one would be another path. */
static coffer_status hdf5_put_child(hdf5_group *group, const char *name, size_t name_len, uint64_t address, uint64_t at,
                                    coffer_error *err)
{
    coffer__hdf5 *h = group->h;
    const bool dots = coffer__text_is(name, name_len, ".") || coffer__text_is(name, name_len, "..");
    if (name_len == 0 || dots || memchr(name, '/', name_len) != NULL ||
        coffer__utf8_valid_len(name, name_len) != name_len) {
        return coffer__hdf5_fail(h, at, "the name of a link is no name", err);
    }
    if (hdf5_is_above(h, group->number, address)) {
        return coffer__hdf5_fail(h, at, "a group is in itself", err);
    }
    if (h->count == COFFER__HDF5_MAX_OBJECTS || h->nodes[group->number].depth == HDF5_MAX_DEPTH) {
        return coffer__hdf5_refuse(h, at, "more objects, or groups in groups, than a file of weights", err);
    }
    coffer__hdf5_node *nodes = coffer__grow_array(h->allocator, h->nodes, h->count, &h->capacity, sizeof *nodes, err);
    if (nodes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    h->nodes = nodes;
    coffer__hdf5_node *node = &nodes[h->count];
    *node = (coffer__hdf5_node){ .address = address, .parent = group->number, .depth = nodes[group->number].depth + 1 };
    const coffer_status status = hdf5_put_path(h, &nodes[group->number], name, name_len, node, at, err);
    h->count += status == COFFER_OK;
    return status;
}

/* The name at an offset of the heap, up to its NUL, which has to be within the heap. */
static coffer_status hdf5_name(hdf5_group *group, uint64_t offset, char *name, size_t *name_len, coffer_error *err)
{
    coffer__hdf5 *h = group->h;
    if (offset >= group->names_size) {
        return coffer__hdf5_fail(h, group->names, "a name is beyond the heap", err);
    }
    const uint64_t left = group->names_size - offset;
    const size_t have = left < HDF5_MAX_NAME ? (size_t)left : HDF5_MAX_NAME;
    const coffer_status status = coffer__hdf5_read(h, group->names + offset, name, have, err);
    if (status != COFFER_OK) {
        return status;
    }
    const char *end = memchr(name, 0, have);
    if (end == NULL) {
        return coffer__hdf5_fail(h, group->names + offset, "a name has no end", err);
    }
    *name_len = (size_t)(end - name);
    return COFFER_OK;
}

/* A link that leads to no object of this file, or says only what one is called. */
static coffer_status hdf5_pass_link(const coffer__hdf5 *h, const char *what, const char *name, size_t name_len,
                                    uint64_t at, coffer_error *err)
{
    return h->on_link != NULL ? h->on_link(h->on_link_ctx, what, name, name_len, at, err)
                              : coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, h->start + at,
                                                "the HDF5 file has %s %q, which is not followed", what, name, name_len);
}

/* A node of a symbol table: children. Kind 2 is a soft link: a path that somebody else would look up. */
static coffer_status hdf5_read_entries(hdf5_group *group, uint64_t at, coffer_error *err)
{
    coffer__hdf5 *h = group->h;
    uint8_t head[8];
    uint8_t entry[40];
    char name[HDF5_MAX_NAME];
    size_t name_len = 0;
    coffer_status status = coffer__hdf5_read_signed(h, at, "SNOD", head, sizeof head, err);
    for (unsigned i = 0; i < coffer__load_u16le(head + 6) && status == COFFER_OK; i++) {
        const uint64_t place = at + sizeof head + i * sizeof entry;
        status = coffer__hdf5_read(h, place, entry, sizeof entry, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = hdf5_name(group, coffer__load_u64le(entry), name, &name_len, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (coffer__load_u32le(entry + 16) == 2) {
            status = hdf5_pass_link(h, "a soft link", name, name_len, place, err);
            continue;
        }
        status = hdf5_put_child(group, name, name_len, coffer__load_u64le(entry + 8), place, err);
    }
    return status;
}

/* What is still to be read of a group's tree: nodes of which the level is known, so that levels only go down. */
typedef struct hdf5_pending {
    uint64_t at[HDF5_MAX_NODES];
    uint8_t level[HDF5_MAX_NODES]; /* 0: a node of the symbol table itself; n: a node of the tree of level n - 1 */
    uint32_t count;
} hdf5_pending;

/* Puts the children of a node of the tree, the last one first, as they are taken from the end. */
static coffer_status hdf5_read_tree(coffer__hdf5 *h, uint64_t at, unsigned level, hdf5_pending *pending,
                                    coffer_error *err)
{
    uint8_t head[24];
    uint8_t child[8];
    coffer_status status = coffer__hdf5_read_signed(h, at, "TREE", head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    const unsigned entries = coffer__load_u16le(head + 6);
    if (head[4] != 0 || (level > 0 && head[5] != level - 1)) {
        return coffer__hdf5_fail(h, at, "a tree of a group has another level than it should have", err);
    }
    if (entries > HDF5_MAX_NODES - pending->count) {
        return coffer__hdf5_refuse(h, at, "a group of too many nodes", err);
    }
    for (unsigned i = entries; i > 0; i--) {
        status = coffer__hdf5_read(h, at + sizeof head + 8 + (uint64_t)(i - 1) * 16, child, sizeof child, err);
        if (status != COFFER_OK) {
            return status;
        }
        pending->at[pending->count] = coffer__load_u64le(child);
        pending->level[pending->count++] = head[5];
    }
    return COFFER_OK;
}

/* A tree's own level is believed of its root only; each child has one less. */
static coffer_status hdf5_read_table(hdf5_group *group, const coffer__hdf5_object *object, hdf5_pending *pending,
                                     coffer_error *err)
{
    coffer__hdf5 *h = group->h;
    uint8_t heap[32];
    coffer_status status = coffer__hdf5_read_signed(h, object->heap, "HEAP", heap, sizeof heap, err);
    if (status != COFFER_OK) {
        return status;
    }
    group->names_size = coffer__load_u64le(heap + 8);
    group->names = coffer__load_u64le(heap + 24);
    if (group->names > h->size || group->names_size > h->size - group->names) {
        return coffer__hdf5_fail(h, object->heap, "the names of a group reach beyond its end", err);
    }
    pending->count = 0;
    status = hdf5_read_tree(h, object->tree, 0, pending, err);
    while (status == COFFER_OK && pending->count > 0) {
        const uint32_t last = --pending->count;
        status = pending->level[last] == 0 ? hdf5_read_entries(group, pending->at[last], err)
                                           : hdf5_read_tree(h, pending->at[last], pending->level[last], pending, err);
    }
    return status;
}

/* ---- links among the messages of a header -------------------------------------------------------------------------- */

/* What a link leads to, if it is not an object of this file. */
static const char *hdf5_link_kind(uint64_t kind)
{
    switch (kind) {
    case 0:
        return NULL;
    case 1:
        return "a soft link";
    case 64:
        return "an external link, to another file,";
    default:
        return "a link of a user's own kind";
    }
}

/* version 1 | flags 1 | [kind 1] | [order of creation 8] | [character set 1] | length of the name 1 to 8 | name | address 8 */
static coffer_status hdf5_read_link(hdf5_group *group, coffer__cursor *in, uint64_t at, coffer_error *err)
{
    uint64_t version = 0;
    uint64_t flags = 0;
    uint64_t kind = 0;
    uint64_t name_len = 0;
    uint64_t address = 0;
    const bool is_there = coffer__hdf5_take(in, 1, &version) && coffer__hdf5_take(in, 1, &flags) &&
                          (!(flags & 8) || coffer__hdf5_take(in, 1, &kind)) &&
                          coffer__hdf5_pass(in, (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0)) &&
                          coffer__hdf5_take(in, 1u << (flags & 3), &name_len);
    if (!is_there || version != 1) {
        return coffer__hdf5_fail(group->h, at, "a link is not as links are", err);
    }
    const char *name = (const char *)in->base + in->position;
    if (!coffer__hdf5_pass(in, name_len)) {
        return coffer__hdf5_fail(group->h, at, "the name of a link has no end", err);
    }
    if (hdf5_link_kind(kind) != NULL) {
        return hdf5_pass_link(group->h, hdf5_link_kind(kind), name, (size_t)name_len, at, err);
    }
    if (!coffer__hdf5_take(in, 8, &address)) {
        return coffer__hdf5_fail(group->h, at, "a link leads nowhere", err);
    }
    return hdf5_put_child(group, name, (size_t)name_len, address, at, err);
}

/* Of the messages of a group those that are links. A child is put while the header is read, which does not move. */
static coffer_status hdf5_look_for_links(void *ctx, unsigned type, const uint8_t *bytes, size_t size, uint64_t at,
                                         coffer_error *err)
{
    coffer__cursor in = { .base = bytes, .length = size };
    return type == 6 ? hdf5_read_link(ctx, &in, at, err) : COFFER_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static coffer_status hdf5_walk_node(coffer__hdf5 *h, uint32_t number, hdf5_pending *pending, coffer_error *err)
{
    hdf5_group group = { .h = h, .number = number };
    coffer__hdf5_object object = { .at = 0 };
    const uint64_t address = h->nodes[number].address;
    coffer_status status = coffer__hdf5_object_read(h, address, &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    const bool is_data = object.has_space || object.has_type || object.has_layout;
    h->nodes[number].is_group = !is_data;
    if (is_data) {
        return COFFER_OK;
    }
    if (object.has_links) {
        status = coffer__hdf5_messages(h, address, hdf5_look_for_links, &group, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return object.has_table ? hdf5_read_table(&group, &object, pending, err) : COFFER_OK;
}

/* Groups are read in the order in which they were found; what is found comes after them. */
coffer_status coffer__hdf5_walk(coffer__hdf5 *h, coffer_error *err)
{
    hdf5_pending *pending = coffer__alloc_array(h->allocator, 1, sizeof *pending, err);
    if (pending == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = COFFER_OK;
    h->nodes = coffer__grow_array(h->allocator, NULL, 0, &h->capacity, sizeof *h->nodes, err);
    if (h->nodes == NULL) {
        status = COFFER_ERR_MEMORY;
    } else {
        h->nodes[0] = (coffer__hdf5_node){ .address = h->root };
        h->count = 1;
    }
    for (size_t i = 0; i < h->count && status == COFFER_OK; i++) {
        status = hdf5_walk_node(h, (uint32_t)i, pending, err);
    }
    coffer__free_array(h->allocator, pending, 1, sizeof *pending);
    return status;
}
