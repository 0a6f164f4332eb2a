/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON objects whose members are known: each kind of object is a table of its members, in any order. A
 * member that must be there and is missing, and one that comes twice, are refused; others are passed
 * over, as the specifications of these documents want it. The text is not trusted: nesting is bounded by
 * the tables and by coffer__json_skip, memory by the text's length.
 *
 *     static const coffer__member members[] = { { "name", true, read_name },      required
 *                                               { "note", false, read_note } };   not required
 *     status = coffer__members_object(in, "a thing", members, 2);
 *
 * The functions of members call each other as deep as the tables nest, and no deeper whatever the text
 * says. What a function fills is found by in->ctx.
 */
#ifndef COFFER_MANIFEST_MEMBERS_H
#define COFFER_MANIFEST_MEMBERS_H

#include "json.h"

/*
 * A document that is being read. One block has all strings that were read: unescaped they are never
 * longer than the text that they come from, so it never grows, and pointers into it are valid until
 * close.
 */
typedef struct coffer__members {
    coffer__json json;
    coffer__scratch scratch;
    char *text; /* every string that was read, one after the other; space for all of the input */
    size_t text_size;
    size_t text_used;
    size_t depth; /* containers that are open */
    void *ctx;    /* what the members' functions fill */
} coffer__members;

/* A member of an object. `read` is called with the cursor before its value, and consumes it. */
typedef struct coffer__member {
    const char *key;
    bool required;
    coffer_status (*read)(coffer__members *in);
} coffer__member;

/* Begins with the whole of a text, which must stay until close. Close it in any case, also when
   this fails. `ctx` is for the members' functions. */
coffer_status coffer__members_open(coffer__members *in, const char *text, size_t text_len,
                                   const coffer_allocator *allocator, void *ctx, coffer_error *err);
/* Frees what was read. Returns `status`, so that a caller can end with this call. */
coffer_status coffer__members_close(coffer__members *in, coffer_status status);
/* Reads one object by its table of at most 32 members; `what` names it in messages: "a resource". */
coffer_status coffer__members_object(coffer__members *in, const char *what, const coffer__member *members,
                                     size_t count);
/* Reads an array, calling `element` for each of its elements. */
coffer_status coffer__members_array(coffer__members *in, const char *what,
                                    coffer_status (*element)(coffer__members *in));
/* Reads a string; *value lives until close, and no NUL ends it. */
coffer_status coffer__members_string(coffer__members *in, const char *what, const char **value, size_t *value_len);
/* Reads a string that has to be `wanted`. */
coffer_status coffer__members_constant(coffer__members *in, const char *what, const char *wanted);
/* Reads true or false. */
coffer_status coffer__members_bool(coffer__members *in, const char *what, bool *value);
/* Nothing but white space may be left. */
coffer_status coffer__members_end(coffer__members *in);
/* Whether the text's outermost object has a member of that name. False for what is not JSON:
   whoever reads it next reports that. */
bool coffer__members_has(const char *text, size_t text_len, const char *key, const coffer_allocator *allocator);

#endif
