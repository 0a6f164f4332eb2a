/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects by tables of their members. The order in which members are read is that of the text;
   the tables say only what they are. */
#include "members.h"

#include "alloc.h"
#include "error.h"
#include "text.h"

#include <string.h>

/* One byte more than the text, so that the size is never 0. */
coffer_status coffer__members_open(coffer__members *in, const char *text, size_t text_len,
                                   const coffer_allocator *allocator, void *ctx, coffer_error *err)
{
    *in = (coffer__members){ .json = { { (const uint8_t *)text, text_len, 0 }, 0, err, "the manifest" },
                             .scratch = { .allocator = allocator },
                             .text_size = text_len + 1,
                             .ctx = ctx };
    in->text = coffer__alloc(allocator, in->text_size);
    return in->text != NULL ? COFFER_OK
                            : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the manifest's text (%z)",
                                           (uint64_t)in->text_size);
}

coffer_status coffer__members_close(coffer__members *in, coffer_status status)
{
    coffer__free(in->scratch.allocator, in->text, in->text_size);
    coffer__scratch_free(&in->scratch);
    return status;
}

/* ---- Values ---- */

/* The byte at the cursor. White space is consumed first where the position of the next token is meant. */
static uint64_t members_at(const coffer__members *in)
{
    return in->json.origin + in->json.in.position;
}

/* The string stays in the block although a caller may drop it: keys are read this way, too. The
   block has space for all of them. */
coffer_status coffer__members_string(coffer__members *in, const char *what, const char **value, size_t *value_len)
{
    bool has_control = false;
    if (coffer__json_peek(&in->json) != '"') {
        return coffer__json_type_error(&in->json, what, "a string");
    }
    /* The rest of the block is as long as the rest of the text, or longer, which is what
       coffer__json_string asks for. */
    char *text = in->text + in->text_used;
    const coffer_status status = coffer__json_string(&in->json, text, value_len, &has_control);
    if (status == COFFER_OK) {
        *value = text;
        in->text_used += *value_len;
    }
    return status;
}

/* For members that say which version or kind of document this is: any other value may mean
   anything, so it is refused. */
coffer_status coffer__members_constant(coffer__members *in, const char *what, const char *wanted)
{
    const char *value = "";
    size_t value_len = 0;
    (void)coffer__json_peek(&in->json);
    const uint64_t at = members_at(in);
    const coffer_status status = coffer__members_string(in, what, &value, &value_len);
    if (status == COFFER_OK && (value_len != strlen(wanted) || memcmp(value, wanted, value_len) != 0)) {
        return coffer__fail_at(in->json.err, COFFER_ERR_MANIFEST, at, "at byte %u, %s is %q, and only \"%s\" is read",
                               at, what, value, value_len, wanted);
    }
    return status;
}

/* Peeking consumes white space. After a failure *value is false. */
coffer_status coffer__members_bool(coffer__members *in, const char *what, bool *value)
{
    (void)coffer__json_peek(&in->json);
    *value = coffer__next_is(&in->json.in, "true", 4);
    if (!*value && !coffer__next_is(&in->json.in, "false", 5)) {
        return coffer__json_type_error(&in->json, what, "true or false");
    }
    in->json.in.position += *value ? 4 : 5;
    return COFFER_OK;
}

/* `depth` is wrong after a failure; nothing is read after one. */
coffer_status coffer__members_array(coffer__members *in, const char *what,
                                    coffer_status (*element)(coffer__members *in))
{
    if (coffer__json_peek(&in->json) != '[') {
        return coffer__json_type_error(&in->json, what, "an array");
    }
    in->json.in.position++;
    bool more = coffer__json_peek(&in->json) != ']';
    in->json.in.position += more ? 0 : 1;
    in->depth++;
    while (more) {
        coffer_status status = element(in);
        if (status == COFFER_OK) {
            status = coffer__json_next(&in->json, ']', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    in->depth--;
    return COFFER_OK;
}

/* ---- Objects ---- */

/*
 * Reads the member whose key comes next, or passes over it. Keys are compared unescaped, as JSON
 * has it. `seen` has a bit for each member of the table. A key that is not in the table may come
 * twice: nobody looks at it. The depth is counted on for coffer__json_skip.
 */
static coffer_status members_read_one(coffer__members *in, const char *what, const coffer__member *members,
                                      size_t count, uint32_t *seen)
{
    const char *key = "";
    size_t key_len = 0;
    (void)coffer__json_peek(&in->json);
    const uint64_t at = members_at(in);
    coffer_status status = coffer__members_string(in, "a key", &key, &key_len);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__json_expect(&in->json, ':', "a colon should be here");
    if (status != COFFER_OK) {
        return status;
    }
    /* A handful of members: comparing them all is as fast as any table. */
    for (size_t i = 0; i < count; i++) {
        if (strlen(members[i].key) != key_len || memcmp(members[i].key, key, key_len) != 0) {
            continue;
        }
        if ((*seen >> i & 1) != 0) {
            return coffer__fail_at(in->json.err, COFFER_ERR_DUPLICATE_KEY, at, "at byte %u, %s has \"%s\" twice", at,
                                   what, members[i].key);
        }
        /* Marked before it is read, though a failure in between makes no difference: nothing is
           read after one. */
        *seen |= UINT32_C(1) << i;
        return members[i].read(in);
    }
    return coffer__json_skip(&in->json, in->depth, &in->scratch);
}

/* The bits of `seen` bound a table to 32 members. What is missing is reported at the object's brace. */
coffer_status coffer__members_object(coffer__members *in, const char *what, const coffer__member *members, size_t count)
{
    uint32_t seen = 0;
    if (coffer__json_peek(&in->json) != '{') {
        return coffer__json_type_error(&in->json, what, "an object");
    }
    const uint64_t at = members_at(in);
    in->json.in.position++;
    in->depth++;
    bool more = coffer__json_peek(&in->json) != '}';
    in->json.in.position += more ? 0 : 1;
    while (more) {
        coffer_status status = members_read_one(in, what, members, count, &seen);
        if (status == COFFER_OK) {
            status = coffer__json_next(&in->json, '}', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    in->depth--;
    /* Only now: members may come in any order. */
    for (size_t i = 0; i < count; i++) {
        if (members[i].required && (seen >> i & 1) == 0) {
            return coffer__fail_at(in->json.err, COFFER_ERR_MISSING_FIELD, at, "at byte %u, %s has no \"%s\"", at, what,
                                   members[i].key);
        }
    }
    return COFFER_OK;
}

/* What follows a document could be another one, which some other reader would take. */
coffer_status coffer__members_end(coffer__members *in)
{
    (void)coffer__json_peek(&in->json);
    return coffer__left(&in->json.in) == 0 ? COFFER_OK : coffer__json_error(&in->json, "nothing should follow");
}

/* The value itself does not matter, but has to be passed over. */
static coffer_status members_found(coffer__members *in)
{
    *(bool *)in->ctx = true;
    return coffer__json_skip(&in->json, in->depth, &in->scratch);
}

/* Reads the whole object, so that a text that breaks off says no. */
bool coffer__members_has(const char *text, size_t text_len, const char *key, const coffer_allocator *allocator)
{
    bool found = false;
    coffer__members in;
    const coffer__member members[] = { { key, false, members_found } };
    if (coffer__members_open(&in, text, text_len, allocator, &found, NULL) != COFFER_OK) {
        return false;
    }
    const coffer_status status = coffer__members_object(&in, "it", members, 1);
    return coffer__members_close(&in, status) == COFFER_OK && found;
}
