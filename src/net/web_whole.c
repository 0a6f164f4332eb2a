/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file at a URL, read whole by one request: an index or a listing. Its size is not known
 * before, so the memory grows with the body, up to a limit that the caller sets.
 */
#include "alloc.h"
#include "error.h"
#include "web.h"

#include <string.h>

#define WHOLE_MIN_CAPACITY ((size_t)64 << 10)

/* `capacity` bytes are allocated and `size` of them used; size never exceeds `most`. */
typedef struct whole_body {
    const coffer_allocator *allocator;
    uint64_t most;
    uint8_t *bytes;
    size_t capacity;
    size_t size;
    coffer_status verdict; /* COFFER_OK while nothing is wrong with it */
} whole_body;

/* Makes space for `wanted` bytes in total. At least doubling keeps the number of copies small; the
   space may exceed `most`, but the size never does. `capacity` is computed in 64 bits and compared with
   what size_t holds, so a 32-bit program fails for lack of memory and does not wrap around. */
static coffer_status whole_grow(whole_body *body, uint64_t wanted)
{
    if (wanted > body->most) {
        return COFFER_ERR_INDEX_TOO_LARGE;
    }
    if (wanted <= body->capacity) {
        return COFFER_OK;
    }
    const uint64_t twice = (uint64_t)body->capacity * 2;
    const uint64_t capacity = wanted > twice ? wanted : twice;
    const size_t new_capacity = capacity < WHOLE_MIN_CAPACITY ? WHOLE_MIN_CAPACITY : (size_t)capacity;
    uint8_t *grown =
        new_capacity < capacity ? NULL : coffer__realloc(body->allocator, body->bytes, body->capacity, new_capacity);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    body->bytes = grown;
    body->capacity = new_capacity;
    return COFFER_OK;
}

/* If the length is stated, space for all of it is made at once; the limit holds for it,
   too, so a server that lies gains nothing. After an answer that broke off, the question
   is asked again, and the first piece (reply->body is 0) replaces what was kept. The
   memory of an earlier try is used again. A server that sends more than it stated is
   bounded by `most` like one that stated nothing. */
static bool whole_take(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size)
{
    whole_body *body = ctx;
    body->size = reply->body == 0 ? 0 : body->size;
    const uint64_t here = (uint64_t)body->size + size;
    const bool stated = reply->length != COFFER__HTTP_UNKNOWN && reply->length > here;
    body->verdict = reply->encoded ? COFFER_ERR_ANSWER : whole_grow(body, stated ? reply->length : here);
    if (body->verdict != COFFER_OK) {
        return false;
    }
    memcpy(body->bytes + body->size, bytes, size);
    body->size += size;
    return true;
}

/* The verdict that ended the transfer, in words. Only here is the size of the answer known, if it
   was stated. */
static coffer_status whole_fail(const whole_body *body, const coffer__web_answer *answer, coffer_error *err)
{
    switch (body->verdict) {
    case COFFER_ERR_MEMORY:
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the file at the URL");
    case COFFER_ERR_ANSWER:
        return coffer__fail(err, COFFER_ERR_ANSWER, "the server sends the file compressed, which was not requested");
    default:
        coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the file has more than the %u bytes that are read at most",
                     body->most);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX_TOO_LARGE, body->most,
                                  answer->reply.length == COFFER__HTTP_UNKNOWN ? 0 : answer->reply.length);
    }
}

/* Asks until the answer is complete, or patience ends. A verdict on the body ends it at once, since
   another answer would be the same. 206 is no answer here, as no range was asked for: it counts as
   passing and is tried again until patience ends. */
static coffer_status whole_ask(whole_body *body, coffer__web *web, const coffer__web_address *address,
                               coffer__web_answer *answer, coffer_error *err)
{
    const coffer__web_question question = {
        .address = address, .first = COFFER__HTTP_UNKNOWN, .last = COFFER__HTTP_UNKNOWN, .take = whole_take, .ctx = body
    };
    coffer__patience patience = { 0 };
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK) {
        body->size = 0;
        status = coffer__web_ask(web, &question, answer, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (body->verdict != COFFER_OK) {
            return whole_fail(body, answer, err);
        }
        if (answer->end == COFFER__HTTP_DONE && answer->reply.status == 200) {
            return COFFER_OK;
        }
        status = coffer__web_again(web, &patience, answer, NULL, err);
    }
    return status;
}

/* The memory is shrunk to the size in the end, because the caller frees it by that. If shrinking
   fails the whole block is freed, and the caller has one kind of failure to handle. The checksum is
   handed on undecided: comparing needs a digest, and net knows none. */
coffer_status coffer__web_read(coffer__web *web, const coffer__web_address *address, uint64_t most,
                               const coffer_allocator *allocator, coffer__web_whole *whole, coffer_error *err)
{
    whole_body body = { .allocator = allocator, .most = most };
    coffer__web_answer answer;
    memset(whole, 0, sizeof *whole);
    const coffer_status status = whole_ask(&body, web, address, &answer, err);
    uint8_t *fitted =
        status != COFFER_OK || body.size == 0 ? NULL : coffer__realloc(allocator, body.bytes, body.capacity, body.size);
    if (fitted == NULL) {
        coffer__free(allocator, body.bytes, body.capacity);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (fitted == NULL && body.size > 0) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the file at the URL");
    }
    whole->bytes = fitted;
    whole->size = body.size;
    memcpy(whole->commit, answer.commit, sizeof answer.commit);
    memcpy(whole->next, answer.reply.next, sizeof answer.reply.next);
    whole->has_sha256 = coffer__http_sha256_base64(answer.reply.checksum, whole->sha256);
    return COFFER_OK;
}
