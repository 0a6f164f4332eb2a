/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file at a URL, read by range requests. The first request is a guess: it asks for as many bytes
 * as most headers have. Its answer also tells the file's size, so no HEAD request has to come
 * before it. Its bytes are kept.
 *
 *   206   the bytes that were asked for. Content-Range must say so, byte for byte; it may end early only where
 *         the file ends
 *   200   the whole file. Accepted if it is no longer than the first request. Otherwise the server does not support
 *         ranges, which is accepted only from a caller who downloads the whole file: then each read asks for all of
 *         it, and drops what comes before
 *   416   there are no bytes there: to the first request, an empty file
 *
 * What the first answer says of size, ETag and Last-Modified is pinned. A later answer that differs
 * in any of them, or lacks one, is COFFER_ERR_CHANGED: bytes of two versions are never mixed. An
 * answer that breaks off is continued where it ended. The address to which redirects led is
 * remembered, and the original one is asked again when that address has expired, as signed ones do.
 *
 * Who may change what: the first request runs while the source is opened, on one thread, and sets
 * everything that is known of the file. After that only `place` changes, under `lock`, and what is
 * known of the checksum, which only one thread asks for (source.h).
 */
#include "source_http.h"
#include "alloc.h"
#include "error.h"
#include "os.h"
#include "text.h"
#include "web.h"

#include <string.h>

/*
 * As much as a new TCP connection delivers in its first three round trips (10 + 20 + 40 segments of
 * 1448 bytes are 101,360), and more than 9 of 10 headers have. A smaller guess would cost many
 * headers a second request, a larger one would cost all of them a fourth round trip.
 * docs/network.md has the figures.
 */
#define SOURCE_HTTP_FIRST ((size_t)96 << 10)
/* After this many bytes the count of tries begins again: a long download may break off often, as
   long as it gets somewhere each time. */
#define SOURCE_HTTP_WORTH ((uint64_t)1 << 20)

/* What is known of one file. Strings are those of the first answer, "" where it had none; they are
   compared byte for byte and never parsed, except for digests. */
typedef struct coffer__source_http {
    coffer_allocator allocator;
    coffer__web *web;
    coffer__web_address origin;
    /* COFFER__HTTP_UNKNOWN until the first answer came; constant afterwards, as is most of what
       follows. */
    uint64_t size;
    char etag[256];
    char modified[64];
    bool pinned;           /* etag and modified are what the first answer stated, which may be nothing */
    char linked_etag[128]; /* what the Hub says of the whole file's digest, or "" */
    char checksum[64];     /* what an object store says of the whole file's digest, or "" */
    bool checksum_asked;   /* the store was asked for it: an answer with a part does not state it */
    char commit[COFFER__HUB_MAX_REVISION]; /* of the Hub's repository, or "" */
    uint8_t *head;                         /* the file's first bytes */
    size_t head_size;
    bool sequential;           /* the server does not support ranges */
    coffer__mutex lock;        /* guards `place` */
    coffer__web_address place; /* where redirects led */
} source_http;

/* One read in progress: bytes [offset, offset + size) of the file, of which `done` have arrived. It
   lives on the stack of the thread that reads, so several threads may read at the same time. */
typedef struct source_http_part {
    source_http *file;
    uint64_t offset;
    uint64_t size;
    uint8_t *to;                /* where the bytes go */
    const coffer__taker *taker; /* what takes the bytes, where they go nowhere else */
    uint64_t done;
    uint64_t expected;     /* bytes of the body that is arriving */
    coffer_status verdict; /* on the answer; if it is a failure, `error` says why */
    coffer_error error;
} source_http_part;

/* ---- judging an answer ------------------------------------------------------------------------------------------- */

/* Whether an answer states another version than the first one did. One that states less, or more,
   counts as another version, too: it may come from another server at the same address. Before
   the first answer nothing is pinned, and nothing differs. */
static bool source_http_differs(const source_http *file, const coffer__http_reply *reply)
{
    return file->pinned && (strcmp(file->etag, reply->etag) != 0 || strcmp(file->modified, reply->modified) != 0);
}

/* The bytes that are there already are of the old version, so the read fails as a whole. `size` is
   the new one, where the answer states it. The verdict is final: asking again would give the new
   version again. */
static coffer_status source_http_changed(source_http_part *part, uint64_t size)
{
    coffer__fail_at(&part->error, COFFER_ERR_CHANGED, part->offset + part->done,
                    "the file was changed on the server while it was in use: open it again");
    return coffer__fail_sizes(&part->error, COFFER_ERR_CHANGED, part->file->size, size);
}

/* Reading a model from such a server would transfer the whole file for each tensor. Final as well.
   The offset is that of the first byte that is still missing. */
static coffer_status source_http_no_ranges(source_http_part *part)
{
    return coffer__fail_at(&part->error, COFFER_ERR_ANSWER, part->offset + part->done,
                           "the server sends the whole file instead of the requested part (200, not 206): it does not "
                           "support ranges; download the file, and open that");
}

/* Judges a 200: the whole file, though a range was asked for. For the first request that is fine if
   the file is short enough, or if the caller downloads it anyway; the length may be unknown then,
   and the file's end tells. `done` begins at 0 again, because the body begins at the file's byte 0.
   For every later request, 200 is either the answer of a server that is known not to have ranges,
   or that to If-Range: then the size or a validator differs, and the file was changed. A 200
   without any difference means that the server has stopped supporting ranges. */
static coffer_status source_http_judge_whole(source_http_part *part, const coffer__http_reply *reply)
{
    source_http *file = part->file;
    if (file->size == COFFER__HTTP_UNKNOWN) {
        if (reply->length != COFFER__HTTP_UNKNOWN && reply->length > part->size) {
            if (!coffer__web_fetches(file->web)) {
                return source_http_no_ranges(part);
            }
            file->sequential = true;
            file->size = reply->length;
        }
        /* What an earlier try has brought comes again from the beginning. */
        part->done = 0;
        part->expected = reply->length == COFFER__HTTP_UNKNOWN ? part->size : reply->length;
        return COFFER_OK;
    }
    if (reply->length != file->size || source_http_differs(file, reply)) {
        return source_http_changed(part, reply->length);
    }
    part->expected = reply->length;
    return file->sequential ? COFFER_OK : source_http_no_ranges(part);
}

/* Judges a 206. The range must begin exactly at the next byte that is missing, and end where it was
   asked to end, or earlier if that is where the file ends. A server that sends anything else would
   put bytes in the wrong places, so nothing is guessed. The length of the body must agree with the
   range. Offsets cannot overflow: the part lies within the file, or is the first request, which
   begins at 0. A missing Content-Range means that a proxy or server has mixed up its answers.
   Several ranges in one answer (multipart/byteranges) are never asked for, and have no such field
   either. */
static coffer_status source_http_judge_range(source_http_part *part, const coffer__http_reply *reply)
{
    const source_http *file = part->file;
    const coffer__content_range *range = &reply->range;
    const uint64_t first = part->offset + part->done;
    const uint64_t last = part->offset + part->size - 1;
    if (!reply->has_range || reply->range_is_bad || !range->satisfied) {
        return coffer__fail_at(&part->error, COFFER_ERR_ANSWER, first,
                               "the server sends a part of the file and does not say which (%s Content-Range)",
                               reply->has_range ? "an unusable" : "no");
    }
    /* The size may be stated as * later on, but not in the first answer. */
    const bool known = file->size != COFFER__HTTP_UNKNOWN;
    if (range->size == COFFER__HTTP_UNKNOWN && !known) {
        return coffer__fail_at(&part->error, COFFER_ERR_ANSWER, first,
                               "the server does not say how long the file is (Content-Range ends in *)");
    }
    const bool other_size = known && range->size != COFFER__HTTP_UNKNOWN && range->size != file->size;
    if (other_size || source_http_differs(file, reply)) {
        return source_http_changed(part, range->size);
    }
    /* An end that is too early is accepted only at the file's own end. */
    if (range->first != first || range->last > last || (range->last < last && range->last + 1 != range->size)) {
        return coffer__fail_at(&part->error, COFFER_ERR_ANSWER, first,
                               "the server sends bytes %u to %u instead of %u to %u", range->first, range->last, first,
                               last);
    }
    part->expected = range->last - range->first + 1;
    if (reply->length != COFFER__HTTP_UNKNOWN && reply->length != part->expected) {
        coffer__fail_at(&part->error, COFFER_ERR_ANSWER, first,
                        "the server sends %u bytes and calls them bytes %u to %u of the file", reply->length,
                        range->first, range->last);
        return coffer__fail_sizes(&part->error, COFFER_ERR_ANSWER, part->expected, reply->length);
    }
    return COFFER_OK;
}

/* Judges the head of a 200 or 206, before any byte of its body is stored, and pins what the first
   answer says. When the first range was longer than the file, the part shrinks to what there is. A
   checksum is kept only from an answer that reached the end of the file: of a part of an object it
   may be that of the part. `first` is asked before anything is pinned, since judging the whole file
   may set its size. Nothing is pinned by an answer that is refused, so the next try begins from the
   same state. */
static coffer_status source_http_judge(source_http_part *part, const coffer__http_reply *reply)
{
    source_http *file = part->file;
    const bool first = file->size == COFFER__HTTP_UNKNOWN;
    if (reply->encoded) {
        return coffer__fail_at(
            &part->error, COFFER_ERR_ANSWER, part->offset + part->done,
            "the server sends the file compressed (Content-Encoding), and ranges of that are not ranges of the file");
    }
    /* A server that was seen to have no ranges and now sends one is another server, or another
       version of it. */
    const bool whole = reply->status == 200;
    if (file->sequential && !whole) {
        return source_http_changed(part, reply->length);
    }
    const coffer_status status = whole ? source_http_judge_whole(part, reply) : source_http_judge_range(part, reply);
    if (status == COFFER_OK && first) {
        memcpy(file->etag, reply->etag, sizeof file->etag);
        memcpy(file->modified, reply->modified, sizeof file->modified);
        file->pinned = true;
        if (whole || reply->range.last + 1 == reply->range.size) {
            memcpy(file->checksum, reply->checksum, sizeof file->checksum);
        }
        if (!whole) {
            file->size = reply->range.size;
            part->size = part->size < file->size ? part->size : file->size;
        }
    }
    return status;
}

/* Puts bytes where they belong; false if the taker wants no more. There is space: `expected` was
   compared with the part, and the callers compare `size` with it. `part->to` has space for
   `part->size` bytes, and the part never grows. */
static bool source_http_hand_on(source_http_part *part, const uint8_t *bytes, size_t size)
{
    if (part->to != NULL) {
        memcpy(part->to + (size_t)part->done, bytes, size);
    } else if (!part->taker->take(part->taker->ctx, bytes, size)) {
        part->verdict = coffer__fail(&part->error, COFFER_ERR_CANCELLED, "no more of the file is needed");
        return false;
    }
    part->done += size;
    return true;
}

/* Takes from a whole file what is wanted of it; `at` is where in the file these bytes are. False
   also after the last byte that is wanted, which ends the connection: the rest of the file would be
   transferred for nothing. The bytes before the offset are dropped. That costs a transfer from byte
   0 for every read, which is why `sequential` is one of the source's traits. */
static bool source_http_take_of_whole(source_http_part *part, uint64_t at, const uint8_t *bytes, size_t size)
{
    const uint64_t from = part->offset + part->done;
    const uint64_t passed = from > at ? from - at : 0;
    if (passed >= size) {
        return true;
    }
    const uint64_t left = part->size - part->done;
    const uint64_t here = size - passed;
    return source_http_hand_on(part, bytes + (size_t)passed, (size_t)(here < left ? here : left)) &&
           part->done < part->size;
}

/* Takes a piece of the body. The first piece is preceded by judging the head. A body that is longer
   than was announced is refused before it can overrun the buffer. False ends the exchange as
   REFUSED. The caller tells from the verdict whether that was a failure or only the end of what is
   wanted. An unsigned difference is safe: reply->body never exceeds part->expected, as each earlier
   piece was compared. */
static bool source_http_take(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size)
{
    source_http_part *part = ctx;
    if (reply->body == 0) {
        part->verdict = source_http_judge(part, reply);
    }
    if (part->verdict != COFFER_OK) {
        return false;
    }
    if (size > part->expected - reply->body) {
        part->verdict = reply->status == 200
                            ? source_http_no_ranges(part)
                            : coffer__fail_at(&part->error, COFFER_ERR_ANSWER, part->offset + part->done,
                                              "the server sends more bytes than it announced");
        return false;
    }
    return part->file->sequential ? source_http_take_of_whole(part, reply->body, bytes, size)
                                  : source_http_hand_on(part, bytes, size);
}

/* ---- fetching ---------------------------------------------------------------------------------------------------- */

/* Several threads read at once, and any of them may learn a new place. The address is copied, since
   it is several KiB of text that another thread may replace. The lock is held only for the copy. */
static void source_http_where(source_http *file, coffer__web_address *place)
{
    coffer__os_mutex_lock(&file->lock);
    *place = file->place;
    coffer__os_mutex_unlock(&file->lock);
}

/* Called after a read that succeeded, with the address that answered, so that the next read saves
   the redirects. */
static void source_http_remember(source_http *file, const coffer__web_address *place)
{
    coffer__os_mutex_lock(&file->lock);
    file->place = *place;
    coffer__os_mutex_unlock(&file->lock);
}

/* Whether the address that redirects led to may have expired: it denies access or the file, and is
   not the original one. Then the next question goes to the original address, which redirects to a
   fresh one. 404 and 410 count as well, because some stores answer so once a signature's time is
   over. Forgetting the place here makes all threads ask the original address, not only this one. */
static bool source_http_expired(source_http *file, const coffer__web_address *place, const coffer__web_answer *answer)
{
    const uint32_t status = answer->reply.status;
    if ((status != 401 && status != 403 && status != 404 && status != 410) ||
        strcmp(place->url.text, file->origin.url.text) == 0) {
        return false;
    }
    source_http_remember(file, &file->origin);
    return true;
}

/* After a complete answer. An empty body was not judged while it came, so that is done here. If the
   length of a whole file was not stated, it is known now. 416 after the first answer means that the
   file became shorter. For a first request, which begins at byte 0, it means an empty file, and
   Content-Range may say so ("bytes *" and a size of 0), but nothing else. */
static void source_http_conclude(source_http_part *part, const coffer__http_reply *reply)
{
    source_http *file = part->file;
    const bool first = file->size == COFFER__HTTP_UNKNOWN;
    if (reply->status == 416) {
        if (!first) {
            part->verdict = source_http_changed(part, reply->has_range && !reply->range_is_bad ? reply->range.size : 0);
        } else if (reply->has_range && (reply->range_is_bad || reply->range.size != 0)) {
            part->verdict = coffer__fail(&part->error, COFFER_ERR_ANSWER,
                                         "the server says that the file's first bytes are outside of it (416)");
        } else {
            file->size = part->size = 0;
        }
        return;
    }
    if (reply->body == 0 && part->verdict == COFFER_OK && (reply->status == 200 || reply->status == 206)) {
        part->verdict = source_http_judge(part, reply);
    }
    if (part->verdict == COFFER_OK && reply->status == 200 && file->size == COFFER__HTTP_UNKNOWN &&
        (reply->length == COFFER__HTTP_UNKNOWN || reply->length == part->done)) {
        file->size = part->size = part->done;
    }
}

/*
 * Asks once for what is missing, and decides what to do about the answer. COFFER_OK means: done, or
 * ask again.
 *
 * If-Range makes the server send the whole file, with 200, when it has changed; that is judged as a
 * change. Only a strong ETag may be used for it. With an expired address the next question is asked
 * at once, but only once per read: if the original address does not help, it is a failure like any
 * other.
 *
 * What arrived before a failure stays counted in part->done, and enough progress renews the
 * patience. Only the first question, while the source is opened, sets digest and commit.
 */
static coffer_status source_http_ask(source_http_part *part, coffer__patience *patience, const coffer__watch *watch,
                                     bool *expired, coffer_error *err)
{
    source_http *file = part->file;
    const uint64_t before = part->done;
    coffer__web_address place;
    coffer__web_answer answer;
    source_http_where(file, &place);
    const coffer__web_question question = {
        .address = &place,
        .first = file->sequential ? COFFER__HTTP_UNKNOWN : part->offset + part->done,
        .last = file->sequential ? COFFER__HTTP_UNKNOWN : part->offset + part->size - 1,
        .if_range = coffer__http_is_strong(file->etag) && !file->sequential ? file->etag : NULL,
        .take = source_http_take,
        .ctx = part,
        .watch = watch,
    };
    const coffer_status status = coffer__web_ask(file->web, &question, &answer, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (file->head_size == 0 && file->linked_etag[0] == '\0') {
        memcpy(file->linked_etag, answer.linked_etag, sizeof file->linked_etag);
    }
    if (file->head_size == 0) {
        memcpy(file->commit, answer.commit, sizeof file->commit);
    }
    if (answer.end == COFFER__HTTP_DONE) {
        source_http_conclude(part, &answer.reply);
    }
    if (part->verdict != COFFER_OK) {
        part->error.http_status = (int32_t)answer.reply.status;
        if (err != NULL) {
            *err = part->error;
        }
        return part->verdict;
    }
    patience->tries = part->done > before && part->done - before >= SOURCE_HTTP_WORTH ? 0 : patience->tries;
    if (part->done == part->size) {
        source_http_remember(file, &answer.from);
        return COFFER_OK;
    }
    if (!*expired && source_http_expired(file, &place, &answer)) {
        *expired = true;
        return COFFER_OK;
    }
    return coffer__web_again(file->web, patience, &answer, watch, err);
}

/* Asks until all bytes of the part have arrived, or patience ends. For the first request `size` may
   shrink on the way to what the file has. A part of size 0 asks nothing. The loop ends, because
   each round without enough progress uses up patience, except one for an expired address. */
static coffer_status source_http_fetch(source_http_part *part, const coffer__watch *watch, coffer_error *err)
{
    coffer__patience patience = { .met = part->file->size != COFFER__HTTP_UNKNOWN };
    bool expired = false;
    coffer_status status = COFFER_OK;
    while (part->done < part->size && status == COFFER_OK) {
        status = source_http_ask(part, &patience, watch, &expired, err);
        patience.met = patience.met || part->file->size != COFFER__HTTP_UNKNOWN;
    }
    return status;
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

/* What was kept of the file's beginning is copied, and only the rest is asked for. So a header of
   ordinary size costs no request but the one that opened the source. An empty rest asks nothing at
   all. The kept bytes are constant after opening, so any number of threads copy them without a
   lock. */
static coffer_status source_http_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                         const coffer__watch *watch, coffer_error *err)
{
    source_http *file = source->state.kept;
    size_t kept = 0;
    if (offset < file->head_size) {
        kept = file->head_size - (size_t)offset < size ? file->head_size - (size_t)offset : size;
        memcpy(buffer, file->head + (size_t)offset, kept);
    }
    source_http_part part = {
        .file = file, .offset = offset + kept, .size = size - kept, .to = (uint8_t *)buffer + kept
    };
    return source_http_fetch(&part, watch, err);
}

/* As source_http_read_at. hand_on counts what it took, so the fetch begins after the kept bytes.
   Bytes that were taken are never handed on twice: after a broken answer the next question begins
   at part.done. */
static coffer_status source_http_stream(const coffer__byte_source *source, uint64_t offset, uint64_t size,
                                        const coffer__taker *taker, const coffer__watch *watch, coffer_error *err)
{
    source_http *file = source->state.kept;
    source_http_part part = { .file = file, .offset = offset, .size = size, .taker = taker };
    if (offset < file->head_size && size > 0) {
        const uint64_t kept = file->head_size - offset < size ? file->head_size - offset : size;
        if (!source_http_hand_on(&part, file->head + (size_t)offset, (size_t)kept)) {
            return coffer__fail(err, COFFER_ERR_CANCELLED, "no more of the file is needed");
        }
    }
    return source_http_fetch(&part, watch, err);
}

/* The client is shared; this gives up the source's own share of it. No other thread may use the
   source by then (source.h). */
static void source_http_close(coffer__byte_source *source)
{
    source_http *file = source->state.kept;
    const coffer_allocator allocator = file->allocator;
    coffer__web_free(file->web);
    coffer__os_mutex_close(&file->lock);
    coffer__free(&allocator, file->head, SOURCE_HTTP_FIRST);
    coffer__free(&allocator, file, sizeof *file);
}

/* ---- what is known of the whole file ----------------------------------------------------------------------------- */

/* The URL as it was named, the commit, the ETag and the date, a line each. Without ETag and date a
   version cannot be told from another, and nothing may be resumed or trusted by it. A text that
   does not fit is no identity: a cut one could be that of another file. */
static bool source_http_identity(const coffer__byte_source *source, char *text)
{
    const source_http *file = source->state.kept;
    const char *const lines[] = { file->origin.url.text, file->commit, file->etag, file->modified };
    if (file->etag[0] == '\0' && file->modified[0] == '\0') {
        return false;
    }
    bool fits = true;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        fits = fits && coffer__text_append(text, COFFER__SOURCE_IDENTITY, lines[i], coffer__text_len(lines[i])) &&
               coffer__text_append(text, COFFER__SOURCE_IDENTITY, "\n", 1);
    }
    return fits;
}

/* "" for files that are none of the Hub's. */
static const char *source_http_commit(const coffer__byte_source *source)
{
    const source_http *file = source->state.kept;
    return file->commit;
}

/* All bytes of a file that is no longer than the first request. Constant after opening. NULL for an
   empty file, and for one of which more has to be asked for. */
static const void *source_http_kept(const coffer__byte_source *source)
{
    const source_http *file = source->state.kept;
    return file->size > 0 && file->head_size == file->size ? file->head : NULL;
}

/* For a HEAD request. A server that sends a body anyway loses the connection. */
static bool source_http_wants_no_body(void *ctx, const coffer__http_reply *reply, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)reply;
    (void)bytes;
    (void)size;
    return false;
}

/* Asks an object store for the digest of the whole object, with a HEAD request: with a part of it,
   it states none. Asked once at most, whatever the answer. A failure is none of the caller's: then
   there is no digest. The answer must be of the version that is pinned, by size and validators; the
   checksum of another one would condemn a good file. Retries are as for any question. It runs on
   one thread, which is what source.h asks of its caller. */
static void source_http_ask_checksum(source_http *file)
{
    const coffer__web_question question = { .address = &file->origin,
                                            .first = COFFER__HTTP_UNKNOWN,
                                            .last = COFFER__HTTP_UNKNOWN,
                                            .head_only = true,
                                            .take = source_http_wants_no_body };
    coffer__web_answer answer;
    coffer__patience patience = { .met = true };
    file->checksum_asked = true;
    while (coffer__web_ask(file->web, &question, &answer, NULL) == COFFER_OK) {
        if (answer.end == COFFER__HTTP_DONE && answer.reply.status == 200) {
            const bool same = answer.reply.length == file->size && !source_http_differs(file, &answer.reply);
            memcpy(file->checksum, answer.reply.checksum, same ? sizeof file->checksum : 0);
            return;
        }
        if (coffer__web_again(file->web, &patience, &answer, NULL, NULL) != COFFER_OK) {
            return;
        }
    }
}

/* The Hub's ETag of a large file is its SHA-256; object stores state one in a header. An object
   that came whole with the first answer needs no further question. A digest of another form (a
   multipart checksum of S3, a SHA-1 of git) is not one of these 32 bytes and counts as none. */
static bool source_http_stated_sha256(const coffer__byte_source *source, uint8_t digest[32])
{
    source_http *file = source->state.kept;
    if (file->origin.signs && file->checksum[0] == '\0' && !file->checksum_asked && file->head_size < file->size) {
        source_http_ask_checksum(file);
    }
    return coffer__http_sha256_hex(file->linked_etag, digest) || coffer__http_sha256_base64(file->checksum, digest);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* A source that knows only its address. Takes over one ownership of `web`, also when it fails. The
   head is allocated in full at once: the server alone knows how much of it will be used. The traits
   say: every read is a round trip, answers may differ from one time to the next, and libcurl runs
   on the calling thread. */
static coffer_status source_http_new(coffer__byte_source *source, coffer__web *web, const coffer__web_address *address,
                                     const coffer_allocator *allocator, coffer_error *err)
{
    static const coffer__source_ops ops = { .kind = "the file at a URL",
                                            .read_at = source_http_read_at,
                                            .close = source_http_close,
                                            .stream = source_http_stream,
                                            .identity = source_http_identity,
                                            .commit = source_http_commit,
                                            .kept = source_http_kept,
                                            .stated_sha256 = source_http_stated_sha256 };
    source_http *file = coffer__alloc_zeroed(allocator, sizeof *file);
    uint8_t *head = coffer__alloc(allocator, SOURCE_HTTP_FIRST);
    if (file == NULL || head == NULL || coffer__os_mutex_init(&file->lock) != 0) {
        coffer__free(allocator, file, sizeof *file);
        coffer__free(allocator, head, SOURCE_HTTP_FIRST);
        coffer__web_free(web);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the first bytes of the file at the URL");
    }
    file->allocator = *allocator;
    file->web = web;
    file->head = head;
    file->size = COFFER__HTTP_UNKNOWN;
    file->origin = *address;
    file->place = *address;
    coffer__source_init(source, &ops, 0,
                        (coffer__source_traits){ .far = true, .streams = true, .unstable = true, .foreign = true });
    source->state.kept = file;
    return COFFER_OK;
}

/* Opening is the first request. What it read is kept and its answer is pinned; the size is known
   afterwards, whichever of the three kinds of answers came. The first request is retried like any
   other. `size` may have shrunk on the way, so what counts as the head is what has arrived. */
coffer_status coffer__source_web(coffer__byte_source *source, coffer__web *web, const coffer__web_address *address,
                                 const coffer__watch *watch, const coffer_allocator *allocator, coffer_error *err)
{
    coffer_status status = source_http_new(source, coffer__web_share(web), address, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    source_http *file = source->state.kept;
    source_http_part part = { .file = file, .size = SOURCE_HTTP_FIRST, .to = file->head };
    status = source_http_fetch(&part, watch, err);
    if (status != COFFER_OK) {
        source_http_close(source);
        return status;
    }
    file->head_size = (size_t)part.done;
    source->size = file->size;
    source->is.sequential = file->sequential;
    return COFFER_OK;
}

/* The first request of a file at a URL has no watch of its own here: the client's is asked. */
coffer_status coffer__source_location(coffer__byte_source *source, const coffer__location *location,
                                      const coffer_allocator *allocator, coffer_error *err)
{
    return location->local.text[0] != '\0'
               ? coffer__source_path(source, location->local.text, err)
               : coffer__source_web(source, location->web, &location->address, NULL, allocator, err);
}
