/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest in memory, and the one rule for names in it: a name leads to a file below the folder that
 * the manifest speaks of, whoever wrote it. "./" and doubled slashes are dropped; an absolute name, "..",
 * a NUL and a name that comes twice are refused. Whoever checks a manifest opens files by its names, so
 * this rule is what keeps a manifest from reaching other files.
 */
#include "manifest.h"

#include "alloc.h"
#include "error.h"
#include "hex.h"
#include "libc_allocator.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* ---- Names ---- */

/*
 * Why a name is refused, or NULL; then `out` has it in its plain form, with a NUL. Components are
 * copied one by one, so what is checked is what is kept. A lone "." is the model itself, where that
 * is one file (statement.c).
 */
static const char *manifest_plain_name(const char *name, size_t name_len, char out[COFFER__MANIFEST_NAME_SIZE])
{
    size_t used = 0;
    if (name_len == 1 && name[0] == '.') {
        memcpy(out, ".", 2);
        return NULL;
    }
    /* A slash at the end names a folder, which has no digest. */
    if (name_len == 0 || name[0] == '/' || name[name_len - 1] == '/') {
        return name_len == 0 ? "an empty name" : name[0] == '/' ? "an absolute name" : "the name of a folder";
    }
    for (size_t start = 0; start < name_len;) {
        size_t end = start;
        while (end < name_len && name[end] != '/') {
            if (name[end] == '\0') {
                return "a name with a NUL in it";
            }
            end++;
        }
        const size_t len = end - start;
        if (len == 2 && memcmp(name + start, "..", 2) == 0) {
            return "a name that leads upwards (\"..\")";
        }
        /* "." and the empty component between two slashes lead nowhere, and are left out. */
        if (len > 0 && !(len == 1 && name[start] == '.')) {
            /* Space for the component, the slash before it if there is one, and a NUL. */
            if (len + (used > 0 ? 2 : 1) > COFFER__MANIFEST_NAME_SIZE - used) {
                return "a name of more than 4095 bytes";
            }
            if (used > 0) {
                out[used++] = '/';
            }
            memcpy(out + used, name + start, len);
            used += len;
        }
        start = end + 1;
    }
    out[used] = '\0';
    return used > 0 ? NULL : "a name that leads nowhere";
}

/* Byte order, with what ends a component before every other byte: the order of lists of components.
   So "a/b" comes before "a.b", and a folder's files come together. */
static bool manifest_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_manifest_entry *entries = ctx;
    const unsigned char *left = (const unsigned char *)entries[a].name;
    const unsigned char *right = (const unsigned char *)entries[b].name;
    while (*left != '\0' && *left == *right) {
        left++;
        right++;
    }
    const unsigned from = *left == '/' ? 1 : *left == '\0' ? 0 : *left + 1u;
    const unsigned to = *right == '/' ? 1 : *right == '\0' ? 0 : *right + 1u;
    return from < to;
}

/* Entries of one name come together, whichever comes first in the text. */
void coffer__manifest_order(const coffer_manifest *manifest, uint32_t *order)
{
    for (size_t i = 0; i < manifest->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, manifest->count, manifest_before, manifest->entries);
}

/* ---- Entries ---- */

coffer_status coffer__manifest_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the manifest");
}

/* With a NUL. The size for freeing is the length of the copy, so `text` must not have a NUL in it. */
static char *manifest_copy(const coffer_allocator *allocator, const char *text, size_t text_len)
{
    char *copy = coffer__alloc(allocator, text_len + 1);
    if (copy != NULL) {
        memcpy(copy, text, text_len);
        copy[text_len] = '\0';
    }
    return copy;
}

/* Copies first: when there is no memory the old name stays. */
bool coffer__manifest_set_model(coffer_manifest *manifest, const char *name, size_t name_len)
{
    char *copy = manifest_copy(&manifest->allocator, name, name_len);
    if (copy == NULL) {
        return false;
    }
    if (manifest->model != NULL) {
        coffer__free(&manifest->allocator, manifest->model, coffer__text_len(manifest->model) + 1);
    }
    manifest->model = copy;
    return true;
}

/* Adds an entry that lacks only its name; `at` is where it stands in the text, or COFFER_NO_OFFSET.
   Every entry comes through here, so every name is checked. */
static coffer_status manifest_take(coffer_manifest *manifest, const coffer_manifest_entry *entry, const char *name,
                                   size_t name_len, uint64_t at, coffer_error *err)
{
    char plain[COFFER__MANIFEST_NAME_SIZE];
    const char *trouble = manifest_plain_name(name, name_len, plain);
    if (trouble != NULL) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST_NAME, at,
                               "%s: %q; a manifest names files below its folder, and nothing else", trouble, name,
                               name_len);
    }
    coffer_manifest_entry *entries = coffer__grow_array(&manifest->allocator, manifest->entries, manifest->count,
                                                        &manifest->capacity, sizeof *entries, err);
    if (entries == NULL) {
        return coffer__manifest_no_memory(err);
    }
    manifest->entries = entries;
    char *copy = manifest_copy(&manifest->allocator, plain, coffer__text_len(plain));
    if (copy == NULL) {
        return coffer__manifest_no_memory(err);
    }
    manifest->entries[manifest->count] = *entry;
    manifest->entries[manifest->count].name = copy;
    manifest->count++;
    return COFFER_OK;
}

/* The digest has to have exactly the digits of its algorithm; case does not matter. */
coffer_status coffer__manifest_add_item(coffer_manifest *manifest, const coffer__manifest_item *item, coffer_error *err)
{
    const size_t size = coffer_algorithm_digest_size(item->algorithm);
    coffer_manifest_entry entry = { .algorithm = item->algorithm };
    if (!coffer__hex_read(entry.digest, size, item->hex, item->hex_len)) {
        return coffer__fail_at(
            err, COFFER_ERR_MANIFEST, item->at, "at byte %u, the digest of %q is not the %u hexadecimal digits of %s",
            item->at, item->name, item->name_len, (uint64_t)(2 * size), coffer_algorithm_name(item->algorithm));
    }
    return manifest_take(manifest, &entry, item->name, item->name_len, item->at, err);
}

/* Byte order: the search compares in the same way. */
static bool manifest_ignored_before(const void *ctx, uint32_t a, uint32_t b)
{
    char *const *ignored = ctx;
    return strcmp(ignored[a], ignored[b]) < 0;
}

/* Of `count` names in blocks, how many are in the last block: the lowest bit of the count. */
static size_t manifest_last_block(size_t count)
{
    return count & (~count + 1);
}

/*
 * Somebody may ask between one addition and the next, and there may be very many of both. So the
 * names are kept in sorted blocks, as many and as large as the bits of the count. An addition works
 * as adding 1 to a binary number does: the last blocks become one, which is sorted. So a name is
 * sorted again at most as often as the count has bits, and a question is a search in each block.
 */
static void manifest_order_ignored(coffer_manifest *manifest)
{
    const size_t added = manifest->ignored_count++;
    const size_t size = manifest_last_block(manifest->ignored_count);
    manifest->ignored_order[added] = (uint32_t)added;
    coffer__sort(manifest->ignored_order + manifest->ignored_count - size, size, manifest_ignored_before,
                 manifest->ignored);
}

/* Space for one more name and for its number. Both arrays get it before anything is added, so that a
   failure leaves them alike. */
static coffer_status manifest_grow_ignored(coffer_manifest *manifest, coffer_error *err)
{
    const coffer_allocator *allocator = &manifest->allocator;
    char **ignored = coffer__grow_array(allocator, manifest->ignored, manifest->ignored_count,
                                        &manifest->ignored_capacity, sizeof *ignored, err);
    if (ignored == NULL) {
        return coffer__manifest_no_memory(err);
    }
    manifest->ignored = ignored;
    uint32_t *order = coffer__grow_array(allocator, manifest->ignored_order, manifest->ignored_count,
                                         &manifest->ignored_order_capacity, sizeof *order, err);
    if (order == NULL) {
        return coffer__manifest_no_memory(err);
    }
    manifest->ignored_order = order;
    return COFFER_OK;
}

/* Kept as it is spelt, without the rule for names: it is compared with names and never opened. */
coffer_status coffer__manifest_add_ignored(coffer_manifest *manifest, const char *name, size_t name_len,
                                           coffer_error *err)
{
    const coffer_status status = manifest_grow_ignored(manifest, err);
    if (status != COFFER_OK) {
        return status;
    }
    char *copy = manifest_copy(&manifest->allocator, name, name_len);
    if (copy == NULL) {
        return coffer__manifest_no_memory(err);
    }
    manifest->ignored[manifest->ignored_count] = copy;
    manifest_order_ignored(manifest);
    return COFFER_OK;
}

/* Once for all entries, after the last one: sorting finds what comes twice in O(n log n). */
coffer_status coffer__manifest_check_names(const coffer_manifest *manifest, coffer_error *err)
{
    uint32_t *order = coffer__alloc_array(&manifest->allocator, manifest->count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = COFFER_OK;
    coffer__manifest_order(manifest, order);
    for (size_t i = 1; i < manifest->count && status == COFFER_OK; i++) {
        const char *name = manifest->entries[order[i]].name;
        if (strcmp(name, manifest->entries[order[i - 1]].name) == 0) {
            status = coffer__fail(err, COFFER_ERR_MANIFEST_NAME, "%q is in the manifest more than once", name,
                                  coffer__text_len(name));
        }
    }
    coffer__free_array(&manifest->allocator, order, manifest->count, sizeof *order);
    return status;
}

/* ---- The object ---- */

/* The writing uses the manifest's own copy of the allocator, which lives as long as it. */
coffer_status coffer_manifest_new(coffer_manifest **manifest, const char *model, const coffer_allocator *allocator,
                                  coffer_error *err)
{
    if (manifest == NULL || model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a manifest needs a place for its handle and its model's name");
    }
    const coffer_allocator *from = coffer__allocator_or_libc(allocator);
    *manifest = NULL;
    coffer_manifest *made = coffer__alloc_zeroed(from, sizeof *made);
    if (made == NULL) {
        return coffer__manifest_no_memory(err);
    }
    made->allocator = *from;
    made->written.allocator = &made->allocator;
    if (!coffer__manifest_set_model(made, model, coffer__text_len(model))) {
        coffer_manifest_free(made);
        return coffer__manifest_no_memory(err);
    }
    *manifest = made;
    return COFFER_OK;
}

/* A name as it was allocated: what is handed out is const. */
static char *manifest_owned_name(const coffer_manifest_entry *entry)
{
    char *name = NULL;
    memcpy(&name, &entry->name, sizeof name);
    return name;
}

/* Names are freed by their lengths: a NUL ends each, and none has one inside. */
void coffer_manifest_free(coffer_manifest *manifest)
{
    if (manifest == NULL) {
        return;
    }
    const coffer_allocator allocator = manifest->allocator;
    for (size_t i = 0; i < manifest->count; i++) {
        char *name = manifest_owned_name(&manifest->entries[i]);
        coffer__free(&allocator, name, coffer__text_len(name) + 1);
    }
    for (size_t i = 0; i < manifest->ignored_count; i++) {
        coffer__free(&allocator, manifest->ignored[i], coffer__text_len(manifest->ignored[i]) + 1);
    }
    if (manifest->model != NULL) {
        coffer__free(&allocator, manifest->model, coffer__text_len(manifest->model) + 1);
    }
    coffer__free(&allocator, manifest->entries, manifest->capacity * sizeof *manifest->entries);
    coffer__free(&allocator, manifest->ignored, manifest->ignored_capacity * sizeof *manifest->ignored);
    coffer__free(&allocator, manifest->ignored_order,
                 manifest->ignored_order_capacity * sizeof *manifest->ignored_order);
    coffer__writing_free(&manifest->written);
    coffer__free(&allocator, manifest, sizeof *manifest);
}

/* The name goes through the rule for names; the digest is copied. */
coffer_status coffer_manifest_add(coffer_manifest *manifest, const char *name, coffer_algorithm algorithm,
                                  const void *digest, size_t digest_size, coffer_error *err)
{
    const size_t size = coffer_algorithm_digest_size(algorithm);
    if (manifest == NULL || name == NULL || digest == NULL || size == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an entry of a manifest needs a name, an algorithm and a digest");
    }
    if (digest_size != size) {
        coffer__fail(err, COFFER_ERR_ARGUMENT, "the digest's size is not that of its algorithm");
        return coffer__fail_sizes(err, COFFER_ERR_ARGUMENT, size, digest_size);
    }
    coffer_manifest_entry entry = { .algorithm = algorithm };
    memcpy(entry.digest, digest, size);
    return manifest_take(manifest, &entry, name, coffer__text_len(name), COFFER_NO_OFFSET, err);
}

coffer_status coffer_manifest_ignore(coffer_manifest *manifest, const char *name, coffer_error *err)
{
    return coffer__manifest_add_ignored(manifest, name, coffer__text_len(name), err);
}

/* Compares a name that is ignored with the first `name_len` bytes of another one, as strcmp would
   if these ended there. */
static int manifest_compare_ignored(const char *ignored, const char *name, size_t name_len)
{
    const int order = strncmp(ignored, name, name_len);
    return order != 0 ? order : ignored[name_len] != '\0';
}

/* Whether one of so many sorted names is what the first bytes of `name` are. A binary search. */
static bool manifest_block_ignores(const coffer_manifest *manifest, const uint32_t *block, size_t count,
                                   const char *name, size_t name_len)
{
    /* What is between low and high may still fit; one look halves it. */
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = manifest_compare_ignored(manifest->ignored[block[middle]], name, name_len);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* Takes the blocks from the last to the first: the end of each is known from the count. */
static bool manifest_ignores_exactly(const coffer_manifest *manifest, const char *name, size_t name_len)
{
    bool found = false;
    for (size_t end = manifest->ignored_count; end > 0 && !found;) {
        /* The lowest bit of what is left of the count: blocks get larger towards the front. */
        const size_t size = manifest_last_block(end);
        end -= size;
        found = manifest_block_ignores(manifest, manifest->ignored_order + end, size, name, name_len);
    }
    return found;
}

/* A name is ignored when it is listed itself, or when a folder that it lies in is. "." ignores
   everything. */
bool coffer_manifest_ignores(const coffer_manifest *manifest, const char *name)
{
    bool ignored = manifest_ignores_exactly(manifest, ".", 1);
    /* Every prefix that ends where a component ends: "a", "a/b" and "a/b/c" of "a/b/c". */
    for (size_t len = 0; !ignored; len++) {
        if (name[len] == '/' || name[len] == '\0') {
            ignored = manifest_ignores_exactly(manifest, name, len);
        }
        if (name[len] == '\0') {
            return ignored;
        }
    }
    return ignored;
}

void coffer_manifest_set_follows_links(coffer_manifest *manifest, bool follows)
{
    manifest->follows_links = follows;
}

bool coffer_manifest_follows_links(const coffer_manifest *manifest)
{
    return manifest->follows_links;
}

coffer_manifest_format coffer_manifest_format_of(const coffer_manifest *manifest)
{
    return manifest->format;
}

size_t coffer_manifest_count(const coffer_manifest *manifest)
{
    return manifest->count;
}

const coffer_manifest_entry *coffer_manifest_at(const coffer_manifest *manifest, size_t i)
{
    return i < manifest->count ? &manifest->entries[i] : NULL;
}
