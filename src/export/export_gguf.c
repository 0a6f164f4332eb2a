/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF, version 3, as gguf.c reads it: keys, a description of each tensor, and their bytes, each at a multiple of the
 * alignment, the last one padded, too, as ggml wants it.
 *
 * Nothing is quantised here. Tensors of dtypes that GGUF has are written as they are. Bytes that the metadata's gguf.tensors
 * tell to be blocks of a type, as gguf.c records them, are such blocks again.
 *
 * Keys are the metadata that begin with "gguf.", whose values are JSON (gguf_keys.c). A sidecar's keys come first, byte for
 * byte, since only they are in the order and of the types of the file that was converted (gguf_sidecar.h).
 */
#include "alloc.h"
#include "dtype.h"
#include "error.h"
#include "export.h"
#include "gguf_keys.h"
#include "gguf_records.h"
#include "gguf_sidecar.h"
#include "model.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define GGUF_MAKE_RANK 4
#define GGUF_MAKE_NAME 63 /* bytes; ggml has space for one more, which ends the name */
#define GGUF_MAKE_ALIGNMENT 32u

/* A key among those that are made: where its length begins, and the length. */
typedef struct gguf_made_key {
    size_t at;
    size_t len;
} gguf_made_key;

/* Keys and descriptions are made side by side and joined in the end: the head counts the keys before the first of
   them, and descriptions need the alignment, which is a key. */
typedef struct gguf_making {
    const coffer__export_content *content;
    gguf_made_key *known;  /* keys that a sidecar has, `known_count` of them */
    uint32_t *known_order; /* the numbers of `known` in order; NULL: there is no sidecar */
    size_t known_count;
    size_t known_capacity;
    coffer__writing keys;
    uint64_t key_count;
    coffer__writing infos;
    coffer__gguf_records records;
    uint32_t *order; /* of the content's entries, and as much again to make it */
    uint64_t alignment;
    uint64_t at; /* of the next tensor, from where the data begin */
    coffer_error *err;
} gguf_making;

/* The outer remainder makes nothing of a whole alignment, where a place is on it already. */
static uint64_t gguf_make_padding(const gguf_making *make, uint64_t at)
{
    return (make->alignment - at % make->alignment) % make->alignment;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static bool gguf_make_is(const coffer_pair *pair, const char *key)
{
    return coffer__text_is(pair->key, pair->key_len, key);
}

/* Keys that describe a set of files, which are one now. */
static bool gguf_make_is_of_set(const coffer_pair *pair)
{
    return gguf_make_is(pair, "gguf.split.no") || gguf_make_is(pair, "gguf.split.count") ||
           gguf_make_is(pair, "gguf.split.tensors.count");
}

/* What this file says by itself: its architecture comes first, and what was of several files is one now. The
   comparison of lengths includes the zero byte, so that a key of the prefix alone, which would have no name, is left
   out as well. */
static bool gguf_make_leaves_out(const coffer_pair *pair)
{
    static const char prefix[] = "gguf.";
    return pair->key_len < sizeof prefix || memcmp(pair->key, prefix, sizeof prefix - 1) != 0 ||
           gguf_make_is(pair, "gguf.tensors") || gguf_make_is(pair, "gguf.general.architecture") ||
           gguf_make_is(pair, "gguf.general.alignment") || gguf_make_is_of_set(pair);
}

/* The value of a key of the metadata, in the first of the model's files that has it. The files of a model are asked
   in their order, which is also whose value wins when keys are written. */
static const char *gguf_make_find(const gguf_making *make, const char *key, size_t key_len, size_t *len)
{
    const coffer *model = make->content->model;
    const char *value = NULL;
    for (size_t i = 0; i < model->shard_count && value == NULL; i++) {
        value = coffer_table_metadata_get(model->shards[i].table, key, key_len, len);
    }
    return value;
}

/* Five bytes are the prefix, which all keys that come here have. A type that JSON does not tell is under the same key
   with a colon for the point; a key that is too long for the array has none. */
static void gguf_make_key(gguf_making *make, const coffer_pair *pair)
{
    char typed[sizeof "gguf:" - 1 + COFFER__GGUF_MAX_KEY];
    uint32_t type = COFFER__GGUF_VALUE_TYPES;
    if (pair->key_len <= sizeof typed) {
        size_t name_len = 0;
        memcpy(typed, pair->key, pair->key_len);
        typed[4] = ':';
        const char *name = gguf_make_find(make, typed, pair->key_len, &name_len);
        type = name != NULL ? coffer__gguf_value_type(name, name_len) : type;
    }
    coffer__gguf_write_key(&make->keys, pair->key + 5, pair->key_len - 5, pair->value, pair->value_len, type);
    make->key_count++;
}

/* Who loads the file decides by the architecture what to do with all the rest, so there is none without. It is
   written first, as ggml's own programs do. What the caller names replaces what the metadata say. */
static coffer_status gguf_make_architecture(gguf_making *make)
{
    coffer_pair pair = { .key = "gguf.general.architecture", .key_len = sizeof "gguf.general.architecture" - 1 };
    const char *arch = make->content->arch;
    if (arch != NULL) {
        coffer__gguf_write_text_key(&make->keys, pair.key + 5, pair.key_len - 5, arch, strlen(arch));
        make->key_count++;
        return COFFER_OK;
    }
    pair.value = gguf_make_find(make, pair.key, pair.key_len, &pair.value_len);
    if (pair.value == NULL) {
        return coffer__fail(make->err, COFFER_ERR_UNSUPPORTED,
                            "a GGUF file names its architecture, and the metadata have no "
                            "gguf.general.architecture: say which one it is (--arch llama)");
    }
    gguf_make_key(make, &pair);
    return COFFER_OK;
}

/* Follows an alignment, as JSON, if it is one that ggml accepts. A number that is none, or that has too many digits,
   becomes UINT32_MAX, which is no power of two and ends the loop. What is not accepted is not written, so that the file
   never states an alignment other than its own. */
static bool gguf_make_align(gguf_making *make, const char *json, size_t json_len)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < json_len && wanted < UINT32_MAX; i++) {
        const uint8_t digit = (uint8_t)(json[i] - '0');
        wanted = digit < 10 ? wanted * 10 + digit : UINT32_MAX;
    }
    const bool accepted = wanted >= 8 && wanted <= (1u << 20) && (wanted & (wanted - 1)) == 0;
    make->alignment = accepted ? wanted : make->alignment;
    return accepted;
}

static void gguf_make_alignment(gguf_making *make)
{
    coffer_pair pair = { .key = "gguf.general.alignment", .key_len = sizeof "gguf.general.alignment" - 1 };
    pair.value = gguf_make_find(make, pair.key, pair.key_len, &pair.value_len);
    if (pair.value != NULL && gguf_make_align(make, pair.value, pair.value_len)) {
        gguf_make_key(make, &pair);
    }
}

/* ---- a sidecar's keys -------------------------------------------------------------------------------------------- */

/* Written keys are known by where they begin; after the length comes the key itself. */
static const char *gguf_make_known_at(const gguf_making *make, size_t i, size_t *len)
{
    *len = make->known[i].len;
    return make->keys.text + make->known[i].at + 8;
}

static bool gguf_make_known_before(const void *ctx, uint32_t a, uint32_t b)
{
    size_t a_len = 0;
    size_t b_len = 0;
    const char *first = gguf_make_known_at(ctx, a, &a_len);
    const char *second = gguf_make_known_at(ctx, b, &b_len);
    return coffer__compare_names(first, a_len, second, b_len) < 0;
}

static int gguf_make_known_compare(const void *ctx, size_t i, const void *wanted)
{
    const gguf_making *make = ctx;
    const coffer_pair *pair = wanted;
    size_t len = 0;
    const char *key = gguf_make_known_at(make, make->known_order[i], &len);
    return coffer__compare_names(key, len, pair->key + 5, pair->key_len - 5);
}

/* Whether the sidecar had the key of a pair of the metadata. */
static bool gguf_make_knows(const gguf_making *make, const coffer_pair *pair)
{
    size_t found = 0;
    return make->known_order != NULL &&
           coffer__find_sorted(make->known_count, gguf_make_known_compare, make, pair, &found);
}

/* One order for all that is looked up later; of keys that come twice it makes neighbours, and ggml refuses such a file. */
static coffer_status gguf_make_sort_known(gguf_making *make)
{
    make->known_order =
        coffer__alloc_array(make->keys.allocator, make->known_count, sizeof *make->known_order, make->err);
    if (make->known_order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < make->known_count; i++) {
        make->known_order[i] = (uint32_t)i;
    }
    coffer__sort(make->known_order, make->known_count, gguf_make_known_before, make);
    for (size_t i = 1; i < make->known_count; i++) {
        size_t len = 0;
        const char *key = gguf_make_known_at(make, make->known_order[i], &len);
        if (!gguf_make_known_before(make, make->known_order[i - 1], make->known_order[i])) {
            return coffer__fail(make->err, COFFER_ERR_DUPLICATE_KEY, "the sidecar has the key %q twice", key, len);
        }
    }
    return COFFER_OK;
}

static coffer_status gguf_make_note(gguf_making *make, size_t at, size_t len)
{
    gguf_made_key *known = coffer__grow_array(make->keys.allocator, make->known, make->known_count,
                                              &make->known_capacity, sizeof *known, make->err);
    if (known == NULL) {
        return COFFER_ERR_MEMORY;
    }
    make->known = known;
    known[make->known_count++] = (gguf_made_key){ at, len };
    return COFFER_OK;
}

/* A key of the sidecar, which is `size` bytes at `at` there. The metadata may have been edited since the sidecar was
   written, so a value that they have and that differs replaces the sidecar's; one that is the same keeps its bytes, and
   with them its type. `pair` has the key with its prefix. */
static coffer_status gguf_make_sidecar_key(gguf_making *make, coffer__gguf_sidecar *sidecar, coffer_pair *pair,
                                           const coffer__gguf_value *value, uint64_t at, uint64_t size)
{
    const bool is_arch = gguf_make_is(pair, "gguf.general.architecture") && make->content->arch != NULL;
    pair->value = gguf_make_find(make, pair->key, pair->key_len, &pair->value_len);
    const bool same = pair->value == NULL ||
                      (pair->value_len == value->json_len && memcmp(pair->value, value->json, value->json_len) == 0);
    if (is_arch) {
        return gguf_make_architecture(make);
    }
    if (gguf_make_is(pair, "gguf.general.alignment") && !(same ? gguf_make_align(make, value->json, value->json_len)
                                                               : gguf_make_align(make, pair->value, pair->value_len))) {
        return COFFER_OK;
    }
    if (!same) {
        gguf_make_key(make, pair);
        return COFFER_OK;
    }
    make->key_count++;
    return coffer__gguf_sidecar_copy(sidecar, at, size, &make->keys, make->err);
}

/* All keys of the sidecar in their order, but those that describe a set of files. What is left out is not noted. */
static coffer_status gguf_make_sidecar_keys(gguf_making *make, coffer__gguf_sidecar *sidecar)
{
    char key[sizeof "gguf." - 1 + COFFER__GGUF_MAX_KEY] = "gguf.";
    coffer_status status = COFFER_OK;
    while (sidecar->left > 0 && status == COFFER_OK) {
        coffer__gguf_value value;
        uint64_t at = 0;
        uint64_t size = 0;
        const size_t before = make->keys.used;
        status = coffer__gguf_sidecar_next(sidecar, &value, &at, &size, make->err);
        if (status != COFFER_OK) {
            return status;
        }
        memcpy(key + 5, value.key, value.key_len);
        coffer_pair pair = { .key = key, .key_len = 5 + value.key_len };
        if (gguf_make_is_of_set(&pair)) {
            continue;
        }
        status = gguf_make_sidecar_key(make, sidecar, &pair, &value, at, size);
        if (status == COFFER_OK && make->keys.used > before) {
            status = gguf_make_note(make, before, value.key_len);
        }
    }
    return status;
}

static coffer_status gguf_make_sidecar(gguf_making *make)
{
    coffer__gguf_sidecar sidecar;
    if (make->content->sidecar == NULL) {
        return COFFER_OK;
    }
    coffer_status status = coffer__gguf_sidecar_open(&sidecar, make->content->sidecar, make->keys.allocator, make->err);
    if (status == COFFER_OK) {
        status = gguf_make_sidecar_keys(make, &sidecar);
    }
    coffer__gguf_sidecar_close(&sidecar);
    return status == COFFER_OK ? gguf_make_sort_known(make) : status;
}

/* ---- all keys ---------------------------------------------------------------------------------------------------- */

/* Files of one model usually have the same metadata each, so a key that a file before had is not written again. The
   walk over the files before is short, as there are few with more than a key or two of their own. */
static void gguf_make_pairs(gguf_making *make)
{
    coffer_pair pair;
    size_t len = 0;
    const coffer *model = make->content->model;
    for (size_t shard = 0; shard < model->shard_count; shard++) {
        const coffer_table *table = model->shards[shard].table;
        for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
            bool known = gguf_make_leaves_out(&pair) || gguf_make_knows(make, &pair);
            for (size_t k = 0; k < shard && !known; k++) {
                known = coffer_table_metadata_get(model->shards[k].table, pair.key, pair.key_len, &len) != NULL;
            }
            if (!known) {
                gguf_make_key(make, &pair);
            }
        }
    }
}

/* A sidecar's keys first, so that they keep their order; then what it lacks. */
static coffer_status gguf_make_keys(gguf_making *make)
{
    const coffer_pair arch = { .key = "gguf.general.architecture", .key_len = sizeof "gguf.general.architecture" - 1 };
    const coffer_pair alignment = { .key = "gguf.general.alignment", .key_len = sizeof "gguf.general.alignment" - 1 };
    coffer_status status = gguf_make_sidecar(make);
    if (status == COFFER_OK && !gguf_make_knows(make, &arch)) {
        status = gguf_make_architecture(make);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (!gguf_make_knows(make, &alignment)) {
        gguf_make_alignment(make);
    }
    gguf_make_pairs(make);
    return COFFER_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static coffer_status gguf_make_fail(const gguf_making *make, const coffer__export_entry *entry, coffer_status status,
                                    const char *what)
{
    coffer__fail(make->err, status, "tensor %q %s", entry->name, entry->name_len, what);
    return coffer__fail_tensor(make->err, status, entry->name, entry->name_len);
}

/* The bytes of a row are whole blocks, as many as the recorded row has elements for; all else is the same. The record
   is anybody's text, and the tensor may have been changed since it was written; a file that described blocks of
   another number than it has would be read beyond them. The shape is divided and never multiplied, so that nothing
   can overflow. */
static bool gguf_make_fits(const coffer_tensor *tensor, const coffer__gguf_record *record)
{
    const coffer__gguf_type *type = record->type;
    if (tensor->dtype != COFFER_U8 || tensor->rank != record->rank || tensor->rank == 0 || type->decode == NULL) {
        return false;
    }
    /* The rank is at least 1 here. */
    const size_t last = tensor->rank - 1;
    const uint64_t blocks = tensor->shape[last] / type->size;
    return memcmp(tensor->shape, record->shape, last * sizeof *record->shape) == 0 &&
           tensor->shape[last] % type->size == 0 && record->shape[last] % type->elements == 0 &&
           record->shape[last] / type->elements == blocks;
}

/* What is written of a tensor: the number of its type, and its innermost dimension in elements of that. A record
   of blocks comes first, since blocks look like plain bytes otherwise; one of a plain type has nothing to add, as the
   tensor may have been cast since. Bytes that are no blocks have no type in GGUF unless the
   caller lets them pass as I8, number 24. */
static coffer_status gguf_make_type(const gguf_making *make, const coffer__export_entry *entry, uint32_t *number,
                                    uint64_t *row)
{
    const coffer_tensor *tensor = entry->tensor;
    const coffer__gguf_record *record = coffer__gguf_find_record(&make->records, entry->name, entry->name_len);
    *row = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    if (record != NULL && record->type->decode != NULL) {
        *number = record->type->number;
        *row = record->rank > 0 ? record->shape[record->rank - 1] : 1;
        return gguf_make_fits(tensor, record)
                   ? COFFER_OK
                   : gguf_make_fail(make, entry, COFFER_ERR_NO_EQUIVALENT, "is not what gguf.tensors says of it");
    }
    for (uint32_t i = 0; i < COFFER__GGUF_TYPES; i++) {
        const coffer__gguf_type *type = coffer__gguf_type_of(i);
        const bool as_bytes = make->content->bytes_as == COFFER_I8 && coffer__dtype_info_of(tensor->dtype)->bits == 8;
        if (type != NULL && type->decode == NULL && (type->dtype == tensor->dtype || (as_bytes && i == 24))) {
            *number = i;
            return COFFER_OK;
        }
    }
    return gguf_make_fail(make, entry, COFFER_ERR_NO_EQUIVALENT,
                          "is of a dtype that GGUF has not, and nothing is quantised or cast here");
}

/* By the places of the records, which `ctx` has; of two without one, the first of the model comes first. */
static bool gguf_make_before(const void *ctx, uint32_t a, uint32_t b)
{
    const uint32_t *places = ctx;
    return places[a] < places[b];
}

/* The order of the tensors: that of the records, then those that have none. A header has an order of its own, so without
   this the same tensors would make another file. The second half of the memory has the places to sort by. */
static coffer_status gguf_make_order(gguf_making *make)
{
    const coffer__export_content *content = make->content;
    make->order = coffer__alloc_array(make->keys.allocator, content->count, 2 * sizeof *make->order, make->err);
    if (make->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    uint32_t *places = make->order + content->count;
    for (uint32_t i = 0; i < content->count; i++) {
        const coffer__export_entry *entry = &content->entries[i];
        const coffer__gguf_record *record = coffer__gguf_find_record(&make->records, entry->name, entry->name_len);
        places[i] = record != NULL ? (uint32_t)(record - make->records.items) : UINT32_MAX;
        make->order[i] = i;
    }
    coffer__sort(make->order, content->count, gguf_make_before, places);
    return COFFER_OK;
}

/* All limits are checked before anything is written, as ggml would refuse the file, or read a name that is cut. Only
   the innermost dimension differs from the tensor's: it counts elements where the tensor counts bytes of blocks. */
static coffer_status gguf_make_info(gguf_making *make, const coffer__export_entry *entry)
{
    const coffer_tensor *tensor = entry->tensor;
    uint32_t number = 0;
    uint64_t row = 0;
    if (entry->name_len > GGUF_MAKE_NAME) {
        return gguf_make_fail(make, entry, COFFER_ERR_NAME, "has a name longer than the 63 bytes that ggml reads");
    }
    if (tensor->rank > GGUF_MAKE_RANK) {
        return gguf_make_fail(make, entry, COFFER_ERR_NO_EQUIVALENT, "has more than the 4 dimensions of GGUF");
    }
    const coffer_status status = gguf_make_type(make, entry, &number, &row);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__write_le(&make->infos, entry->name_len, 8);
    coffer__write(&make->infos, entry->name, entry->name_len);
    coffer__write_le(&make->infos, tensor->rank, 4);
    for (uint32_t i = tensor->rank; i > 0; i--) {
        coffer__write_le(&make->infos, i == tensor->rank ? row : tensor->shape[i - 1], 8);
    }
    coffer__write_le(&make->infos, number, 4);
    coffer__write_le(&make->infos, make->at, 8);
    /* Each tensor ends at the alignment, so that the next one's place is on it. */
    make->at += tensor->size + gguf_make_padding(make, tensor->size);
    return COFFER_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void gguf_make_zeros(coffer__writing *out, uint64_t size)
{
    char *zeros = coffer__write_space(out, (size_t)size);
    if (zeros != NULL) {
        memset(zeros, 0, (size_t)size);
    }
}

/* The beginning is the text of the first tensor's leaf; the others' is padding, and the last padding is a leaf alone.
   The padding after the descriptions is counted from the file's first byte, which is also the text's. From there on
   every place is on the alignment, so that each tensor's padding depends on its own size alone. */
static coffer_status gguf_make_layout(gguf_making *make, coffer__layout *layout)
{
    const coffer__export_content *content = make->content;
    coffer__writing *out = &layout->text;
    if (make->keys.failed || make->infos.failed) {
        return coffer__fail(make->err, COFFER_ERR_MEMORY, "no memory for the beginning of a GGUF file");
    }
    coffer__write_text(out, "GGUF");
    coffer__write_le(out, 3, 4);
    coffer__write_le(out, content->count, 8);
    coffer__write_le(out, make->key_count, 8);
    coffer__write(out, make->keys.text, make->keys.used);
    coffer__write(out, make->infos.text, make->infos.used);
    gguf_make_zeros(out, gguf_make_padding(make, out->used));
    for (size_t i = 0; i < content->count; i++) {
        const coffer_tensor *tensor = content->entries[make->order[i]].tensor;
        const coffer_status status = coffer__layout_end_leaf(layout, tensor, make->err);
        if (status != COFFER_OK) {
            return status;
        }
        gguf_make_zeros(out, gguf_make_padding(make, tensor->size));
    }
    return coffer__layout_end_leaf(layout, NULL, make->err);
}

/* The order is fixed by what needs what: descriptions need the alignment and the records, and the head needs the
   number of keys. */
static coffer_status gguf_make(gguf_making *make, coffer__layout *layout)
{
    const coffer__export_content *content = make->content;
    size_t len = 0;
    const char *reported = gguf_make_find(make, "gguf.tensors", sizeof "gguf.tensors" - 1, &len);
    coffer_status status = gguf_make_keys(make);
    if (status != COFFER_OK) {
        return status;
    }
    status = reported != NULL ? coffer__gguf_read_records(&make->records, reported, len, make->err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_make_order(make);
    for (size_t i = 0; i < content->count && status == COFFER_OK; i++) {
        status = gguf_make_info(make, &content->entries[make->order[i]]);
    }
    return status == COFFER_OK ? gguf_make_layout(make, layout) : status;
}

/* All that is made here is copied into the layout, and freed on every way out. */
static coffer_status gguf_lay_out(const coffer__export_content *content, coffer__layout *layout, coffer_error *err)
{
    const coffer_allocator *allocator = layout->text.allocator;
    gguf_making make = { .content = content,
                         .keys = { .allocator = allocator },
                         .infos = { .allocator = allocator },
                         .alignment = GGUF_MAKE_ALIGNMENT,
                         .records = { .allocator = allocator, .names = { .allocator = allocator } },
                         .err = err };
    const coffer_status status = gguf_make(&make, layout);
    coffer__free_array(allocator, make.order, content->count, 2 * sizeof *make.order);
    coffer__free_array(allocator, make.known_order, make.known_count, sizeof *make.known_order);
    coffer__free_array(allocator, make.known, make.known_capacity, sizeof *make.known);
    coffer__gguf_free_records(&make.records);
    coffer__writing_free(&make.infos);
    coffer__writing_free(&make.keys);
    return status;
}

const coffer__export_kind coffer__export_gguf = {
    .name = "gguf",
    .endings = { ".gguf" },
    .lay_out = gguf_lay_out,
};
