/* SPDX-License-Identifier: Apache-2.0 */
/* {"sha": "COMMIT", "siblings": [{"rfilename": "config.json", …}, …], …}, as the Hub answers. */
#include "listing.h"

#include "alloc.h"
#include "json.h"

#include <string.h>

#define LISTING_MAX ((uint64_t)64 << 20) /* bytes of the answer */

/* The state of one reading. The errors of the JSON reader go to a local that nobody shows. */
typedef struct listing_reader {
    coffer__listing *listing;
    const coffer_allocator *allocator;
    coffer__json json;
    coffer__scratch scratch;
    char *text; /* the last string that was read */
    size_t len;
} listing_reader;

/* A string without control characters, or a key, into `text`. There is space for any string: it is
   never longer than its spelling, which is a part of the answer. */
static bool listing_string(listing_reader *reader)
{
    bool has_control = false;
    return coffer__json_string(&reader->json, reader->text, &reader->len, &has_control) == COFFER_OK && !has_control;
}

static bool listing_is(const listing_reader *reader, const char *wanted)
{
    return reader->len == strlen(wanted) && memcmp(reader->text, wanted, reader->len) == 0;
}

/* `depth` is how many containers are open, which bounds nesting together with what is skipped. */
static bool listing_skip(listing_reader *reader, size_t depth)
{
    return coffer__json_skip(&reader->json, depth, &reader->scratch) == COFFER_OK;
}

/* Goes into an object or array; *more tells whether anything is in it. An empty container is passed
   over whole. */
static bool listing_enter(listing_reader *reader, char open, char close, bool *more)
{
    if (coffer__json_expect(&reader->json, open, "another value should be here") != COFFER_OK) {
        return false;
    }
    *more = coffer__json_peek(&reader->json) != (uint8_t)close;
    reader->json.in.position += *more ? 0 : 1;
    return true;
}

static bool listing_key(listing_reader *reader)
{
    return listing_string(reader) && coffer__json_expect(&reader->json, ':', "a colon should be here") == COFFER_OK;
}

static bool listing_next(listing_reader *reader, char close, bool *more)
{
    return coffer__json_next(&reader->json, close, more) == COFFER_OK;
}

/* Reads one file's object, of which only the name matters. A name that occurs twice in one object
   is kept twice, which changes no answer. */
static bool listing_sibling(listing_reader *reader)
{
    coffer__listing *listing = reader->listing;
    bool more = false;
    bool fine = listing_enter(reader, '{', '}', &more);
    while (fine && more) {
        fine = listing_key(reader);
        if (fine && listing_is(reader, "rfilename")) {
            fine = listing_string(reader);
            if (fine) {
                /* There is space: all names together are shorter than the text. */
                memcpy(listing->names + listing->size, reader->text, reader->len);
                listing->size += reader->len;
                listing->names[listing->size++] = '\0';
            }
        } else {
            fine = fine && listing_skip(reader, 3);
        }
        fine = fine && listing_next(reader, '}', &more);
    }
    return fine;
}

/* An item that is no object makes the whole answer not understood. */
static bool listing_siblings(listing_reader *reader)
{
    bool more = false;
    bool fine = listing_enter(reader, '[', ']', &more);
    while (fine && more) {
        fine = listing_sibling(reader) && listing_next(reader, ']', &more);
    }
    return fine;
}

/* The commit becomes a part of URLs, so only what is spelt like one is accepted. A text of another
   form fails the whole answer rather than leaving it without a commit: files would then be of a
   branch that may move. */
static bool listing_commit(listing_reader *reader)
{
    coffer__listing *listing = reader->listing;
    if (!listing_string(reader) || reader->len >= sizeof listing->commit) {
        return false;
    }
    memcpy(listing->commit, reader->text, reader->len);
    listing->commit[reader->len] = '\0';
    return coffer__hub_is_commit(listing->commit);
}

/* Reads the answer. It is understood only if all of it is valid and it has a commit and a list of
   files; a second list is skipped. Nothing may follow the object. What was collected before a
   failure is released by coffer__listing_ask. */
static bool listing_read(listing_reader *reader)
{
    bool more = false;
    bool has_files = false;
    bool fine = listing_enter(reader, '{', '}', &more);
    while (fine && more) {
        fine = listing_key(reader);
        if (fine && listing_is(reader, "siblings") && !has_files) {
            has_files = true;
            fine = listing_siblings(reader);
        } else if (fine && listing_is(reader, "sha")) {
            fine = listing_commit(reader);
        } else {
            fine = fine && listing_skip(reader, 1);
        }
        fine = fine && listing_next(reader, '}', &more);
    }
    return fine && has_files && reader->listing->commit[0] != '\0' && coffer__json_peek(&reader->json) == 0;
}

/* The block has space for all names and then for one more string: neither is longer than the text.
   The first half is for names, each of which needs two quotes in the answer and one NUL here. The
   second half is used again for each string. */
static bool listing_understand(coffer__listing *listing, const uint8_t *bytes, size_t size,
                               const coffer_allocator *allocator)
{
    coffer_error err;
    listing->capacity = 2 * size;
    listing->names = coffer__alloc(allocator, listing->capacity);
    if (listing->names == NULL) {
        return false;
    }
    listing_reader reader = { .listing = listing,
                              .allocator = allocator,
                              .json = { .in = { .base = bytes, .length = size }, .err = &err, .noun = "the answer" },
                              .scratch = { .allocator = allocator },
                              .text = listing->names + size };
    const bool read = listing_read(&reader);
    coffer__scratch_free(&reader.scratch);
    return read;
}

/* Every failure means the same, that nothing is known, so none is reported. The bytes of the answer
   are freed at once: names were copied. */
void coffer__listing_ask(coffer__listing *listing, coffer__web *web, const coffer__hub_name *name,
                         const coffer_allocator *allocator)
{
    coffer__web_address address;
    coffer__web_whole whole;
    memset(listing, 0, sizeof *listing);
    if (!coffer__web_listing(web, name, &address) ||
        coffer__web_read(web, &address, LISTING_MAX, allocator, &whole, NULL) != COFFER_OK) {
        return;
    }
    listing->known = whole.size > 0 && listing_understand(listing, whole.bytes, whole.size, allocator);
    coffer__free(allocator, whole.bytes, whole.size);
    if (!listing->known) {
        coffer__listing_free(listing, allocator);
    }
}

/* The list is searched from its beginning: it is asked about a few names, once. Whole paths are
   compared, so a file of the same name in another folder does not count. */
bool coffer__listing_has(const coffer__listing *listing, const char *folder, size_t folder_len, const char *file)
{
    const size_t file_len = strlen(file);
    for (size_t at = 0; at < listing->size;) {
        const char *name = listing->names + at;
        const size_t len = strlen(name);
        if (len == folder_len + file_len && memcmp(name, folder, folder_len) == 0 &&
            memcmp(name + folder_len, file, file_len) == 0) {
            return true;
        }
        at += len + 1;
    }
    return false;
}

void coffer__listing_free(coffer__listing *listing, const coffer_allocator *allocator)
{
    coffer__free(allocator, listing->names, listing->capacity);
    memset(listing, 0, sizeof *listing);
}
