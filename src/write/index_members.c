/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the metadata of an index once more, from the text that the open model holds, and keeps
   the members as spans of that text. Values are never interpreted: other programs may put any
   JSON there, and numbers or spacing would not survive being parsed and written. */
#include "index_members.h"

#include "alloc.h"
#include "index.h"
#include "json.h"

#include <string.h>

/* What reading needs and the result does not. */
typedef struct members_reader {
    coffer__index_members *members;
    coffer__json json;
    coffer__scratch scratch;
    coffer__index_leaves_out *leaves_out;
    const void *ctx;
} members_reader;

/* For coffer__names, which asks for names by number. */
static coffer__name members_key_of(const void *ctx, uint32_t i)
{
    return ((const coffer__index_members *)ctx)->items[i].key;
}

/* With the length, as a key may contain a NUL. */
static bool members_is(coffer__name key, const char *wanted)
{
    return key.len == strlen(wanted) && memcmp(key.text, wanted, key.len) == 0;
}

/* Whether a member is still true in a new index. total_size and the digests are about the old
   files; the new index states its own. The caller leaves out what it replaces or removes. */
static bool members_stays(const members_reader *reader, coffer__name key)
{
    for (size_t i = 0; i < COFFER__INDEX_RECORDS; i++) {
        if (members_is(key, coffer__index_record_key(i))) {
            return false;
        }
    }
    return !members_is(key, "total_size") && !reader->leaves_out(reader->ctx, key.text, key.len);
}

/* Reads one member, whose key goes to `*at` in the space for keys: unescaped ones are no longer
   than their text. A member that is left out does not move `*at`, so the next key overwrites its
   own. On success the position is after the value. */
static coffer_status members_take(members_reader *reader, size_t *at)
{
    coffer__index_members *members = reader->members;
    coffer__json *json = &reader->json;
    coffer__index_member member = { .key = { members->keys + *at, 0 } };
    bool has_control = false;
    /* The text of the member begins at its key and not at the white space before it. */
    coffer__json_space(json);
    const size_t from = json->in.position;
    coffer_status status = coffer__json_string(json, members->keys + *at, &member.key.len, &has_control);
    if (status == COFFER_OK) {
        status = coffer__json_expect(json, ':', "a colon should follow the key");
    }
    if (status == COFFER_OK) {
        /* Any JSON; one container is open, that of the metadata. */
        status = coffer__json_skip(json, 1, &reader->scratch);
    }
    if (status != COFFER_OK) {
        return status;
    }
    member.text = (coffer__name){ (const char *)json->in.base + from, json->in.position - from };
    /* There is space for every member that the text can have. */
    if (members_stays(reader, member.key)) {
        members->items[members->count++] = member;
        *at += member.key.len;
    }
    return COFFER_OK;
}

/* The text was read when the model was opened: it is an object without a key twice, and was not
   changed since. So failures here are about memory; the others are handled all the same, as the
   text came from outside. */
static coffer_status members_read_all(members_reader *reader)
{
    size_t at = 0;
    bool more = false;
    coffer__json *json = &reader->json;
    coffer_status status = coffer__json_expect(json, '{', "the metadata of the index should be an object");
    more = status == COFFER_OK && coffer__json_peek(json) != '}';
    while (more) {
        status = members_take(reader, &at);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return status;
}

/* Allocates once, by bounds that follow from the length of the text, so the loop need not grow
   anything. The index of the names is built last, when the number of members is known. *members
   must not move afterwards, as that index points to it. */
coffer_status coffer__index_members_read(coffer__index_members *members, const coffer *model,
                                         coffer__index_leaves_out *leaves_out, const void *ctx,
                                         const coffer_allocator *allocator, coffer_error *err)
{
    uint32_t twice = COFFER__NO_NAME;
    size_t len = 0;
    const char *text = coffer_index_metadata(model, &len);
    *members = (coffer__index_members){ .allocator = *allocator };
    /* A model without an index, or an index without metadata. */
    if (text == NULL || len == 0) {
        return COFFER_OK;
    }
    /* The shortest member is `"":0,`, of 5 bytes. Keys take no more bytes than the text that has
       them. */
    members->capacity = len / 5 + 1;
    members->keys_size = len;
    members->keys = coffer__alloc_array(&members->allocator, len, 1, err);
    members->items = coffer__alloc_array(&members->allocator, members->capacity, sizeof *members->items, err);
    if (members->keys == NULL || members->items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    members_reader reader = { .members = members,
                              .json = { .in = { (const uint8_t *)text, len, 0 }, .err = err, .noun = "the index" },
                              .scratch = { .allocator = &members->allocator },
                              .leaves_out = leaves_out,
                              .ctx = ctx };
    coffer_status status = members_read_all(&reader);
    /* The scratch has served coffer__json_skip only; the members point into the text and `keys`. */
    coffer__scratch_free(&reader.scratch);
    if (status != COFFER_OK) {
        return status;
    }
    /* By key, so that the writer can tell which declared pairs a member replaces. No key comes
       twice, so `twice` stays unset. */
    members->names = (coffer__names){
        .allocator = &members->allocator, .name_of = members_key_of, .ctx = members, .count = members->count
    };
    return coffer__names_build(&members->names, &twice, err);
}

/* Without members there may be no index of names to ask. */
bool coffer__index_members_have(const coffer__index_members *members, const char *key, size_t key_len)
{
    return members->count > 0 && coffer__names_find(&members->names, key, key_len) != COFFER__NO_NAME;
}

/* May be called at any time after coffer__index_members_read, also when that failed half-way:
   the names have an allocator only when they were built. */
void coffer__index_members_free(coffer__index_members *members)
{
    if (members->names.allocator != NULL) {
        coffer__names_free(&members->names);
    }
    coffer__free_array(&members->allocator, members->keys, members->keys_size, 1);
    coffer__free_array(&members->allocator, members->items, members->capacity, sizeof *members->items);
    members->keys = NULL;
    members->items = NULL;
    members->count = 0;
}
