/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints as torch.save wrote them before 0.1.10 (torch/serialization.py still has the code that loads them):
 * archives (tar) of
 *
 *   storages   pickle of their number; for each a pickle of (key, location, class), its number of elements (i64) and their
 *              bytes; then a pickle of a list of (key, key of the storage that it is a part of, offset, elements)
 *   tensors    pickle of their number; for each a pickle of (key, key of its storage, class), its rank (i32), four bytes,
 *              its sizes, its strides, its offset (i64 each)
 *   pickle     the object, in which tensors are persistent ids: their keys, which are numbers
 *   sys_info   not needed
 *
 * Nothing is extracted. Members of other names are passed over (tar.h has the archive itself).
 *
 * The order of reading is that of what depends on what: storages, tensors in them, the object that names tensors.
 * Every range is compared with its member, and every member with the file, before it is read.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "error.h"
#include "pickle_rows.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_contents.h"
#include "sort.h"
#include "tar.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* torch writes four. Others are passed over, which costs a read each. */
#define TAR_MAX_MEMBERS 1000
/* Storages and tensors of one file. */
#define TAR_MAX_ITEMS ((uint64_t)1 << 20)

/* A member: where its bytes are. */
typedef struct tar_member {
    uint64_t at;
    uint64_t size;
    bool there;
} tar_member;

/* A storage or a part of one, or a tensor, by its number. */
typedef struct tar_item {
    uint64_t key;
    coffer__element element;
    uint32_t storage;      /* in the plan */
    uint64_t from;         /* of a part: its first byte in the storage */
    uint64_t end;          /* of a part: the byte after it */
    uint64_t described_at; /* of a tensor: where its rank is in the file */
} tar_item;

typedef struct tar_items {
    const coffer_allocator *allocator;
    tar_item *items;
    uint32_t *order; /* by key, of the first `sealed` */
    size_t sealed;
    size_t count;
    size_t capacity;
} tar_items;

typedef struct torch_tar {
    const coffer__reader_file *file;
    tar_member storages;
    tar_member tensors;
    tar_member pickle;
    tar_items parts;
    tar_items views;
    coffer__graph graph;
    coffer__numbered numbered; /* what the graph's ids stand for */
} torch_tar;

/* ---- items --------------------------------------------------------------------------------------------------------- */

/* The number of items is bounded by the counts that were read (TAR_MAX_ITEMS) and the lists of parts, which
   the budget of their pickle bounds. */
static coffer_status tar_add(tar_items *items, const tar_item *item, coffer_error *err)
{
    tar_item *grown =
        coffer__grow_array(items->allocator, items->items, items->count, &items->capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    items->items = grown;
    items->items[items->count++] = *item;
    return COFFER_OK;
}

/* By keys, which are numbers: pointers of the process that saved. */
static bool tar_before(const void *ctx, uint32_t a, uint32_t b)
{
    const tar_items *items = ctx;
    return items->items[a].key < items->items[b].key;
}

/* Sorts the items by their keys. May be called again, after more were added. */
static coffer_status tar_seal(tar_items *items, coffer_error *err)
{
    /* Sealing again starts from nothing, as items were added at the end. */
    coffer__free_array(items->allocator, items->order, items->sealed, sizeof *items->order);
    items->sealed = 0;
    items->order = coffer__alloc_array(items->allocator, items->count, sizeof *items->order, err);
    if (items->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    items->sealed = items->count;
    for (size_t i = 0; i < items->count; i++) {
        items->order[i] = (uint32_t)i;
    }
    coffer__sort(items->order, items->count, tar_before, items);
    /* Equal keys are neighbours now. */
    for (size_t i = 1; i < items->count; i++) {
        if (!tar_before(items, items->order[i - 1], items->order[i])) {
            return coffer__fail(err, COFFER_ERR_DAMAGED, "number %u stands for two storages or tensors",
                                items->items[items->order[i]].key);
        }
    }
    return COFFER_OK;
}

static int tar_compare_key(const void *ctx, size_t i, const void *wanted)
{
    const tar_items *items = ctx;
    const uint64_t *key = wanted;
    const uint64_t found = items->items[items->order[i]].key;
    return found < *key ? -1 : found > *key;
}

/* By its key, among the items that were there when the list was sealed. */
static const tar_item *tar_find(const tar_items *items, uint64_t key)
{
    size_t at = 0;
    return coffer__find_sorted(items->sealed, tar_compare_key, items, &key, &at) ? &items->items[items->order[at]]
                                                                                 : NULL;
}

/* Also for lists that were never filled or sealed. */
static void tar_items_free(tar_items *items)
{
    coffer__free_array(items->allocator, items->order, items->sealed, sizeof *items->order);
    coffer__free(items->allocator, items->items, items->capacity * sizeof *items->items);
}

/* ---- members ------------------------------------------------------------------------------------------------------- */

/* Remembers a plain file of one of the names that matter; of two with one name neither is believed, whatever they are:
   loaders take the last. */
static coffer_status tar_meet(torch_tar *t, const coffer__tar_member *member, coffer_error *err)
{
    /* The fourth, sys_info, is read by no loader. */
    tar_member *const members[] = { &t->storages, &t->tensors, &t->pickle };
    static const char *const names[] = { "storages", "tensors", "pickle" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!coffer__tar_is_named(member->name, names[i])) {
            continue;
        }
        if (members[i]->there) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, member->at, "the archive has %s twice", names[i]);
        }
        if (!member->plain) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, member->at, "%s of the archive is no plain file", names[i]);
        }
        *members[i] = (tar_member){ .at = member->at, .size = member->size, .there = true };
    }
    return COFFER_OK;
}

static coffer_status tar_read_members(torch_tar *t, coffer_error *err)
{
    coffer__tar tar = {
        .input = t->file->input, .allocator = t->file->plan->allocator, .file = t->file->file, .size = t->file->size
    };
    bool more = true;
    /* The bytes of members are passed over, so this costs a read for each, however large they are. */
    for (size_t i = 0; i < TAR_MAX_MEMBERS && more; i++) {
        coffer__tar_member member;
        coffer_status status = coffer__tar_next(&tar, &member, &more, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = more ? tar_meet(t, &member, err) : COFFER_OK;
        if (status != COFFER_OK) {
            return status;
        }
    }
    return t->storages.there && t->tensors.there && t->pickle.there
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_DAMAGED,
                              tar.ended ? "the archive lacks storages, tensors or pickle"
                                        : "the archive lacks storages, tensors or pickle, and its end: it was cut; get "
                                          "the file again");
}

/* ---- what is within members ---------------------------------------------------------------------------------------- */

static coffer_status tar_malformed(uint64_t at, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, at,
                           "the archive does not describe its storages and tensors as PyTorch did");
}

/* Runs the pickle at *at and goes past it. The graph is to be unloaded in any case. */
static coffer_status tar_run(torch_tar *t, const tar_member *member, uint64_t *at, coffer__graph *graph,
                             coffer_error *err)
{
    uint64_t end = 0;
    coffer_status status = COFFER_OK;
    /* Each pickle has a graph of its own, since the memo of one is nothing to the next. */
    *graph = (coffer__graph){ .member = "" };
    if (t->file->wants->scan) {
        const coffer__scan_range range = { .member = member == &t->storages ? "storages" : "tensors",
                                           .at = *at,
                                           .size = member->at + member->size - *at,
                                           .expected = 1,
                                           .more = true };
        status = coffer__scan_pickles(t->file, &range, NULL, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_file_load(graph, t->file, NULL, *at, member->at + member->size - *at, &end, err);
    *at += end;
    return status;
}

/* The number of storages or tensors, which is not trusted with memory: items are added as they are read. */
static coffer_status tar_read_count(torch_tar *t, const tar_member *member, uint64_t *at, uint64_t *count,
                                    coffer_error *err)
{
    coffer__graph graph;
    coffer_status status = tar_run(t, member, at, &graph, err);
    if (status == COFFER_OK &&
        (!coffer__graph_u64(&graph, coffer__pickle_root(graph.pickle), count) || *count > TAR_MAX_ITEMS)) {
        status = tar_malformed(*at, err);
    }
    coffer__pickle_file_unload(&graph);
    return status;
}

/* Reads bytes of a member and goes past them. */
static coffer_status tar_read(const torch_tar *t, const tar_member *member, uint64_t *at, void *bytes, size_t size,
                              coffer_error *err)
{
    /* *at is never past the member: pickles were run within it, and each read was compared with it. */
    const uint64_t left = member->at + member->size - *at;
    if (size > left) {
        return tar_malformed(*at, err);
    }
    const coffer_status status =
        coffer__input_files_read(t->file->input, t->file->file, t->file->size, *at, bytes, size, err);
    *at += size;
    return status;
}

/* A tuple of three that begins with a key. */
static bool tar_triple(const coffer__graph *graph, coffer__value parts[3], uint64_t *key)
{
    const coffer__value root = coffer__pickle_root(graph->pickle);
    return coffer__graph_items(graph, root, parts, 3) == 3 && coffer__graph_u64(graph, parts[0], key);
}

/* One storage: its pickle, the number of its elements, their bytes, which become a piece of the plan and are
   not read here. */
static coffer_status tar_read_storage(torch_tar *t, uint64_t *at, coffer_error *err)
{
    coffer__graph graph;
    coffer__value parts[3];
    uint8_t count[8];
    tar_item item = { 0 };
    char digits[20];
    coffer_status status = tar_run(t, &t->storages, at, &graph, err);
    if (status == COFFER_OK) {
        const bool fits = tar_triple(&graph, parts, &item.key);
        const coffer__known known = coffer__graph_known(&graph, fits ? parts[2] : 0);
        item.element = known.element;
        status = fits && known.meaning == COFFER__MEANS_STORAGE ? COFFER_OK : tar_malformed(*at, err);
    }
    coffer__pickle_file_unload(&graph);
    if (status != COFFER_OK) {
        return status;
    }
    status = tar_read(t, &t->storages, at, count, sizeof count, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The product and the member bound the bytes, which are then a range of the file without reading one of
       them. */
    const uint64_t left = t->storages.at + t->storages.size - *at;
    /* A negative count is a huge one here, and fails as such. */
    if (!coffer__mul_u64(coffer__load_u64le(count), coffer__element_facts_of(item.element)->size, &item.end) ||
        item.end > left) {
        return tar_malformed(*at, err);
    }
    const coffer__import_plan_piece piece = {
        .file = t->file->file, .offset = *at, .stored_size = item.end, .size = item.end
    };
    *at += item.end;
    status = coffer__pickle_file_put_storage(t->file, &piece, "storage ", digits, coffer__write_u64(digits, item.key),
                                             &item.storage, err);
    return status == COFFER_OK ? tar_add(&t->parts, &item, err) : status;
}

/* Parts of storages that have keys of their own: (key, key of the whole, offset, elements), in a list. */
static coffer_status tar_add_part(torch_tar *t, const coffer__graph *graph, coffer__value value, coffer_error *err)
{
    coffer__value parts[4];
    uint64_t numbers[4] = { 0 };
    bool fits = coffer__graph_items(graph, value, parts, 4) == 4;
    for (size_t i = 0; fits && i < 4; i++) {
        fits = coffer__graph_u64(graph, parts[i], &numbers[i]);
    }
    const tar_item *whole = fits ? tar_find(&t->parts, numbers[1]) : NULL;
    if (whole == NULL) {
        return tar_malformed(graph->at, err);
    }
    /* Element and storage are those of the whole, which is never a part itself: only wholes were sealed by now. */
    tar_item item = *whole;
    uint64_t size = 0;
    item.key = numbers[0];
    fits = coffer__mul_u64(numbers[2], coffer__element_facts_of(item.element)->size, &item.from) &&
           coffer__mul_u64(numbers[3], coffer__element_facts_of(item.element)->size, &size) &&
           coffer__add_u64(item.from, size, &item.end) && item.end <= whole->end;
    return fits ? tar_add(&t->parts, &item, err) : tar_malformed(graph->at, err);
}

/* Parts name storages by key, so the storages are sealed before, and all of them again with the parts. */
static coffer_status tar_read_parts(torch_tar *t, uint64_t *at, coffer_error *err)
{
    coffer__graph graph;
    coffer_status status = tar_seal(&t->parts, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = tar_run(t, &t->storages, at, &graph, err);
    const coffer__node *list =
        status == COFFER_OK ? coffer__pickle_node(graph.pickle, coffer__pickle_root(graph.pickle)) : NULL;
    for (uint32_t link = list != NULL ? list->first : 0; link != 0 && status == COFFER_OK;) {
        status = tar_add_part(t, &graph, coffer__pickle_item(graph.pickle, &link), err);
    }
    coffer__pickle_file_unload(&graph);
    return status == COFFER_OK ? tar_seal(&t->parts, err) : status;
}

/* Storages first and then the parts of them, in the order of the member. */
static coffer_status tar_read_storages(torch_tar *t, coffer_error *err)
{
    uint64_t at = t->storages.at;
    uint64_t count = 0;
    coffer_status status = tar_read_count(t, &t->storages, &at, &count, err);
    for (uint64_t i = 0; i < count && status == COFFER_OK; i++) {
        status = tar_read_storage(t, &at, err);
    }
    return status == COFFER_OK ? tar_read_parts(t, &at, err) : status;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* Goes past the rank, sizes, strides and offset of a tensor; with `placed` (else NULL) they are kept. */
static coffer_status tar_read_extents(const torch_tar *t, uint64_t *at, coffer__placed *placed, coffer_error *err)
{
    uint8_t bytes[8 + (2 * COFFER__PLAN_MAX_RANK + 1) * 8];
    coffer_status status = tar_read(t, &t->tensors, at, bytes, 8, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Rank and the four bytes after it in one read; the rank is the lower half. */
    const uint64_t rank = coffer__load_u32le(bytes);
    if (rank > COFFER__PLAN_MAX_RANK) {
        return tar_malformed(*at, err);
    }
    status = tar_read(t, &t->tensors, at, bytes, (size_t)(2 * rank + 1) * 8, err);
    if (status != COFFER_OK || placed == NULL) {
        return status;
    }
    placed->extents.rank = (size_t)rank;
    for (size_t i = 0; i < rank; i++) {
        placed->extents.sizes[i] = coffer__load_u64le(bytes + 8 * i);
        placed->extents.strides[i] = coffer__load_u64le(bytes + 8 * (rank + i));
    }
    placed->extents.offset = coffer__load_u64le(bytes + 16 * rank);
    return COFFER_OK;
}

static coffer_status tar_read_tensor(torch_tar *t, uint64_t *at, coffer_error *err)
{
    coffer__graph graph;
    coffer__value parts[3];
    uint64_t key = 0;
    uint64_t whole = 0;
    coffer_status status = tar_run(t, &t->tensors, at, &graph, err);
    if (status == COFFER_OK && (!tar_triple(&graph, parts, &key) || !coffer__graph_u64(&graph, parts[1], &whole))) {
        status = tar_malformed(*at, err);
    }
    coffer__pickle_file_unload(&graph);
    /* The tensor is in a storage or in a part of one, which is why both are in one list. */
    const tar_item *part = status == COFFER_OK ? tar_find(&t->parts, whole) : NULL;
    if (status != COFFER_OK || part == NULL) {
        return status != COFFER_OK ? status : tar_malformed(*at, err);
    }
    tar_item item = *part;
    item.key = key;
    item.described_at = *at;
    status = tar_read_extents(t, at, NULL, err);
    return status == COFFER_OK ? tar_add(&t->views, &item, err) : status;
}

/* All descriptions; what follows the last one in the member is not looked at, as torch does not. */
static coffer_status tar_read_tensors(torch_tar *t, coffer_error *err)
{
    uint64_t at = t->tensors.at;
    uint64_t count = 0;
    coffer_status status = tar_read_count(t, &t->tensors, &at, &count, err);
    for (uint64_t i = 0; i < count && status == COFFER_OK; i++) {
        status = tar_read_tensor(t, &at, err);
    }
    return status == COFFER_OK ? tar_seal(&t->views, err) : status;
}

/* For the graph: whether a persistent id is a tensor's key. */
static bool tar_has(const void *ctx, uint64_t number)
{
    const torch_tar *t = ctx;
    return tar_find(&t->views, number) != NULL;
}

/* The numbers are read again, since few tensors are looked at more than twice, and they are a kilobyte each in memory. An
   offset counts from where the part of the storage begins. */
static coffer_status tar_get(const void *ctx, uint64_t number, coffer__placed *placed, coffer_error *err)
{
    const torch_tar *t = ctx;
    const tar_item *item = tar_find(&t->views, number);
    if (item == NULL) {
        return tar_malformed(t->tensors.at, err);
    }
    uint64_t at = item->described_at;
    const coffer_status status = tar_read_extents(t, &at, placed, err);
    if (status != COFFER_OK) {
        return status;
    }
    placed->element = item->element;
    placed->storage = item->storage;
    /* The part's end, so that a tensor cannot leave the part through its end; coffer__view_fill compares with
       it. */
    placed->available = item->end;
    /* The part begins at a whole element, as its offset was given in elements. */
    const uint64_t from = item->from / coffer__element_facts_of(item->element)->size;
    return coffer__add_u64(placed->extents.offset, from, &placed->extents.offset) ? COFFER_OK : tar_malformed(at, err);
}

/* ---- the reader ---------------------------------------------------------------------------------------------------- */

/* A loader would run the pickles of all three members, each of which is told when it is read; and the archive may have more
   than these. */
static coffer_status tar_scan(torch_tar *t, coffer_error *err)
{
    const coffer__scan_range pickle = { .member = "pickle", .at = t->pickle.at, .size = t->pickle.size, .expected = 1 };
    coffer_status status = coffer__scan_tar(t->file, true, err);
    if (status == COFFER_OK) {
        status = coffer__scan_pickles(t->file, &pickle, NULL, err);
    }
    if (status == COFFER_OK) {
        status = tar_read_storages(t, err);
    }
    return status == COFFER_OK ? tar_read_tensors(t, err) : status;
}

static coffer_status tar_read_all(torch_tar *t, coffer_error *err)
{
    coffer_status status = tar_read_members(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (t->file->wants->scan) {
        return tar_scan(t, err);
    }
    status = tar_read_storages(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = tar_read_tensors(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Last, since its ids are numbers of tensors, which have to be known by then. */
    uint64_t at = t->pickle.at;
    status = tar_run(t, &t->pickle, &at, &t->graph, err);
    /* The object is the only pickle whose persistent ids are numbers of tensors. */
    t->numbered = (coffer__numbered){ t, tar_has, tar_get };
    t->graph.numbered = &t->numbered;
    return status == COFFER_OK ? coffer__graph_put_rows(&t->graph, err) : status;
}

/* Any of the four may come first, or what describes it; an archive of anything else has another first name. */
static bool tar_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    static const char *const names[] = { "storages", "tensors", "pickle", "sys_info" };
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    /* A block each for the description's head and its records, which are short for these names. */
    const bool described = head_size >= (size_t)3 * COFFER__TAR_BLOCK && coffer__tar_is_head(head) && head[156] == 'x';
    head += described ? (size_t)2 * COFFER__TAR_BLOCK : 0;
    head_size -= described ? (size_t)2 * COFFER__TAR_BLOCK : 0;
    if (head_size < COFFER__TAR_BLOCK || !coffer__tar_is_head(head)) {
        return false;
    }
    char name[COFFER__TAR_NAME];
    bool named = false;
    coffer__tar_name_of(head, name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        named = named || coffer__tar_is_named(name, names[i]);
    }
    return named;
}

static coffer_status tar_reader(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                                coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    torch_tar t = { .file = &file };
    t.parts.allocator = plan->allocator;
    t.views.allocator = plan->allocator;
    coffer_status status = coffer__pickle_file_put_format(plan, err);
    if (status == COFFER_OK) {
        status = tar_read_all(&t, err);
    }
    coffer__pickle_file_unload(&t.graph);
    tar_items_free(&t.parts);
    tar_items_free(&t.views);
    return status;
}

const coffer__reader coffer__reader_torch_tar = { "torch-tar", "a PyTorch checkpoint of the oldest kind", tar_sniff,
                                                  tar_reader };
