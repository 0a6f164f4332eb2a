/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict pull reader and a writer for JSON (RFC 8259), that of the formats' headers above all, with
 * byte positions.
 *
 * The reader never looks ahead of what it was asked for and keeps no tree: the format's own reader asks
 * for the token it expects. So memory does not grow with the input, and what a header must not contain
 * is refused at the byte where it stands. Failures carry the offset in the file: the cursor's position
 * plus `origin`. Nesting is counted, not recursed: a hostile header cannot exhaust the stack.
 */
#ifndef COFFER_CORE_JSON_H
#define COFFER_CORE_JSON_H

#include "bytes.h"
#include "coffer.h"

/* Containers within containers, the outermost counted. The limit is that of the reference's JSON
   library: with another one, one of the two would accept a file that the other refuses. */
#define COFFER__JSON_MAX_DEPTH 127

/* Memory that grows and is used again. Begins as zeros but for the allocator; release it with
   coffer__scratch_free. */
typedef struct coffer__scratch {
    const coffer_allocator *allocator;
    uint8_t *block;
    size_t size;
    size_t used;
} coffer__scratch;

typedef struct coffer__json {
    coffer__cursor in;
    uint64_t origin; /* the file offset of in.base */
    coffer_error *err;
    const char *noun; /* as coffer__json_noun has it; NULL: "the header" */
} coffer__json;

/* What failures call the text. */
const char *coffer__json_noun(const coffer__json *json);
/* Fails at the cursor's position with COFFER_ERR_JSON. `what` completes "the header is not valid
   JSON: at byte 9, ", and what was found there follows it. */
coffer_status coffer__json_error(const coffer__json *json, const char *what);
/* Fails with COFFER_ERR_TYPE at the next token, which is named: "`where` must be `wanted`, not a number". */
coffer_status coffer__json_type_error(coffer__json *json, const char *where, const char *wanted);

/* Skips white space (space, tab, line feed, carriage return). */
void coffer__json_space(coffer__json *json);
/*
 * The next byte after white space, which is consumed; the byte itself is not. 0 at the end: no
 * token begins with NUL, so callers need not ask for the end first. Inline, for most headers have
 * no white space or one space between tokens; more of it is left to coffer__json_space.
 */
static inline uint8_t coffer__json_peek(coffer__json *json)
{
    coffer__cursor *in = &json->in;
    if (in->position < in->length && in->base[in->position] == ' ') {
        in->position++;
    }
    if (in->position < in->length && in->base[in->position] <= ' ') {
        coffer__json_space(json);
    }
    return in->position < in->length ? in->base[in->position] : 0;
}
/* Consumes white space and the one-byte token `token`, or fails with coffer__json_error(json, what). */
static inline coffer_status coffer__json_expect(coffer__json *json, char token, const char *what)
{
    if (coffer__json_peek(json) != (uint8_t)token) {
        return coffer__json_error(json, what);
    }
    json->in.position++;
    return COFFER_OK;
}
/*
 * After a member or element: consumes `,` (then *more is true) or `close`. After `,` a closing
 * token is an error here, with the position of that token: the caller would report a missing key or
 * value instead.
 */
static inline coffer_status coffer__json_next(coffer__json *json, char close, bool *more)
{
    const uint8_t next = coffer__json_peek(json);
    if (next != ',' && next != (uint8_t)close) {
        return coffer__json_error(json,
                                  close == '}' ? "a comma or \"}\" should be here" : "a comma or \"]\" should be here");
    }
    json->in.position++;
    *more = next == ',';
    if (*more && coffer__json_peek(json) == (uint8_t)close) {
        return coffer__json_error(json, "something should follow the comma");
    }
    return COFFER_OK;
}
/*
 * Consumes white space and a string. `text` needs space for as many bytes as are left in the input,
 * at most: what an escape stands for is never longer than the escape. The unescaped bytes go there,
 * without a NUL; the string may contain NULs of its own. *has_control tells of control characters
 * in the result: C0 and NUL come by escapes only, DEL and C1 also as they are. With text NULL the
 * string is checked and measured, not stored.
 */
coffer_status coffer__json_string(coffer__json *json, char *text, size_t *text_len, bool *has_control);
/*
 * Consumes white space and a plain decimal integer of at most 2^64-1: no sign, no leading zero, no
 * point, no exponent. The rule is that of the format, and narrower than JSON's: other spellings of
 * an integer are JSON, and still refused.
 */
coffer_status coffer__json_u64(coffer__json *json, uint64_t *value);
/*
 * Consumes white space and any value, which is ignored but has to be JSON all the same: nested at
 * most to COFFER__JSON_MAX_DEPTH (`depth` containers are open already), without a key twice in any
 * object, and without a number beyond a double's range. Until the value ends, *scratch has the keys
 * of the objects that are open; after a failure scratch->used may not be what it was.
 */
coffer_status coffer__json_skip(coffer__json *json, size_t depth, coffer__scratch *scratch);
void coffer__scratch_free(coffer__scratch *scratch);

/*
 * Writes `text`, which is UTF-8, as a JSON string, quotes included: short escapes where JSON has
 * them, \u00xx for other control characters, everything else as it is. That is the reference's
 * spelling, so that both write the same bytes. Returns the length; writes to `out` when it is not
 * NULL, so that a caller can measure first.
 */
size_t coffer__json_write_string(char *out, const char *text, size_t text_len);
#endif
