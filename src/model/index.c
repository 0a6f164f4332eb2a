/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the index of a model of many files: see index.h for its contract.
 *
 * Reading is two steps. The text is parsed into entries, in its order, whose strings borrow from
 * the text (or from `escaped`, if they have escapes). Then the entries are put in order: their
 * names are indexed, which finds names that occur twice, and their files are listed and numbered.
 * Weight maps mostly name one file many times in a row. So files are compared by runs of entries,
 * and the number of names to look up is that of the runs.
 *
 * Nothing here recurses on input, and memory is bounded by a multiple of the text, which is at most
 * COFFER__INDEX_MAX_BYTES.
 */
#include "index.h"

#include "alloc.h"
#include "error.h"
#include "json.h"
#include "pattern.h"
#include "sniff.h"
#include "sort.h"

#include <string.h>

static coffer_status index_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model's index");
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Reads a string that has escapes again, into `escaped`. The first such string allocates that, as
   large as the rest of the text: a string is never longer than its spelling, so this is enough for
   all that follow, and none of them moves. The position is set back to the string's opening quote
   by the caller. The string was validated by the first reading, so this one fails only for lack of
   memory. */
static coffer_status index_unescape(coffer__model_index *index, coffer__json *json, coffer__name *text)
{
    bool has_control = false;
    if (index->escaped == NULL) {
        /* Enough for all that follow: undoing escapes makes a string shorter. */
        index->escaped_size = coffer__left(&json->in);
        index->escaped = coffer__alloc(index->allocator, index->escaped_size);
        if (index->escaped == NULL) {
            return index_no_memory(json->err);
        }
    }
    char *to = (char *)index->escaped + index->escaped_used;
    const coffer_status status = coffer__json_string(json, to, &text->len, &has_control);
    text->text = to;
    index->escaped_used += text->len;
    return status;
}

/* Reads a string, which stays in the text if it has no escapes: then its spelling is two quotes
   longer than itself. *position is that of its opening quote. Borrowing matters: an index of a
   large model has tens of thousands of names, and hardly any has an escape. Control characters in a
   tensor's name are allowed here; they are escaped where names are shown, and refused in the names
   of files. */
static coffer_status index_string(coffer__model_index *index, coffer__json *json, coffer__name *text,
                                  uint32_t *position)
{
    bool has_control = false;
    coffer__json_space(json);
    const size_t at = json->in.position;
    *position = (uint32_t)at;
    const coffer_status status = coffer__json_string(json, NULL, &text->len, &has_control);
    if (status != COFFER_OK) {
        return status;
    }
    /* No escapes: the string is what lies between its quotes. */
    if (json->in.position - at == text->len + 2) {
        text->text = (const char *)json->in.base + at + 1;
        return COFFER_OK;
    }
    /* There are escapes: it is read once more, from its quote. */
    json->in.position = at;
    return index_unescape(index, json, text);
}

static bool index_is(coffer__name text, const char *wanted)
{
    const size_t len = strlen(wanted);
    return text.len == len && memcmp(text.text, wanted, len) == 0;
}

/* Enters an object; *more tells whether it has members. The failure names the value by `where`. An
   empty object is passed over whole. */
static coffer_status index_open_object(coffer__json *json, const char *where, bool *more)
{
    if (coffer__json_peek(json) != '{') {
        return coffer__json_type_error(json, where, "an object");
    }
    json->in.position++;
    *more = coffer__json_peek(json) != '}';
    json->in.position += *more ? 0 : 1;
    return COFFER_OK;
}

/* Reads a member's key and the colon after it. *position is that of its opening quote. */
static coffer_status index_key(coffer__model_index *index, coffer__json *json, coffer__name *key, uint32_t *position)
{
    const coffer_status status = index_string(index, json, key, position);
    return status == COFFER_OK ? coffer__json_expect(json, ':', "a colon should follow the key") : status;
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

/* Reads the total size if it is a whole number: in digits, or as Python writes a float that is
   whole. Any other value is left unread, and noted by the code that compares it. "4305.0" is what
   some writers produce, which sum in floats. A sign, an exponent or another fraction is not
   understood, nor is a number beyond 64 bits, and none of this is a reason to refuse a model. */
static void index_total_size(coffer__model_index *index, const uint8_t *text, size_t len)
{
    uint64_t value = 0;
    size_t at = 0;
    bool fits = len > 0;
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
        const uint64_t digit = (uint64_t)(text[at] - '0');
        fits = fits && value <= (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    fits = fits && at > 0;
    if (at < len && text[at] == '.') {
        for (at++; at < len && text[at] == '0';) {
            at++;
        }
    }
    /* Anything left over means that it is not a whole number. */
    index->total_size_is_read = fits && at == len;
    index->total_size = index->total_size_is_read ? value : 0;
}

const char *coffer__index_record_key(size_t record)
{
    static const char *const keys[COFFER__INDEX_RECORDS] = { COFFER_CONTENT_DIGEST_KEY, COFFER_SHARD_DIGESTS_KEY };
    return keys[record];
}

/* Reads one member of metadata that are known to be JSON. It keeps where the values are that this
   library uses; all others are skipped. Depth 2 is that of a value within the metadata, so the
   bound on nesting counts from the outermost object. A key that occurs twice in the metadata was
   refused by the first pass, together with everything else that is no strict JSON. */
static coffer_status index_metadata_member(coffer__model_index *index, coffer__json *json, coffer__scratch *scratch,
                                           size_t metadata_at)
{
    coffer__name key;
    uint32_t position = 0;
    coffer_status status = index_key(index, json, &key, &position);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__json_space(json);
    /* The value is skipped to learn where it ends, and looked at afterwards. */
    const size_t at = json->in.position;
    status = coffer__json_skip(json, 2, scratch);
    if (status == COFFER_OK && index_is(key, "total_size")) {
        index->total_size_at = at;
        index->total_size_from = at - metadata_at;
        index->total_size_len = json->in.position - at;
        index_total_size(index, json->in.base + at, json->in.position - at);
    }
    for (size_t i = 0; status == COFFER_OK && i < COFFER__INDEX_RECORDS; i++) {
        if (index_is(key, coffer__index_record_key(i))) {
            index->records[i] = (coffer__index_span){ at - metadata_at, json->in.position - at };
        }
    }
    return status;
}

/* Reads the metadata in two passes: the first one validates them, also in their depth, and the
   second one looks for the members that matter. Validating first keeps the second pass simple. It
   costs one more pass over a few hundred bytes. */
static coffer_status index_metadata(coffer__model_index *index, coffer__json *json, coffer__scratch *scratch)
{
    const uint8_t first = coffer__json_peek(json);
    const size_t at = json->in.position;
    if (first != '{' && first != 'n') {
        return coffer__json_type_error(json, "the index's metadata", "an object");
    }
    /* The first pass, which validates. */
    coffer_status status = coffer__json_skip(json, 1, scratch);
    index->metadata_at = (coffer__index_span){ at, json->in.position - at };
    if (status != COFFER_OK || first == 'n') {
        return status;
    }
    index->metadata = (const char *)json->in.base + at;
    index->metadata_len = json->in.position - at;
    /* The second pass, for the members that matter. */
    bool more = false;
    json->in.position = at;
    status = index_open_object(json, "the index's metadata", &more);
    while (status == COFFER_OK && more) {
        status = index_metadata_member(index, json, scratch, at);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(json, '}', &more);
    }
    return status;
}

/* ---- the weight_map ---------------------------------------------------------------------------------------------- */

/* Whether the entry names another file than the one before it; mostly it does not. Comparing with
   the neighbour is one memcmp for each tensor, where a look-up would be a hash and a search. */
static bool index_begins_run(const coffer__model_index *index, size_t i)
{
    const coffer__index_entry *entry = &index->entries[i];
    return i == 0 || entry->file.len != entry[-1].file.len ||
           memcmp(entry->file.text, entry[-1].file.text, entry->file.len) != 0;
}

/* Reads one member of the weight_map. Names of files are checked once for each run, as the same
   bytes give the same result. The entry counts only when all of it was read and its file's name was
   accepted, so what looks at the list later sees checked names only. */
static coffer_status index_entry(coffer__model_index *index, coffer__json *json)
{
    uint32_t file_at = 0;
    coffer__index_entry *entries = coffer__grow_array(index->allocator, index->entries, index->count, &index->capacity,
                                                      sizeof *entries, json->err);
    if (entries == NULL) {
        return index_no_memory(json->err);
    }
    index->entries = entries;
    coffer__index_entry *entry = &entries[index->count];
    entry->shard = 0;
    coffer_status status = index_key(index, json, &entry->name, &entry->position);
    if (status == COFFER_OK && coffer__json_peek(json) != '"') {
        status = coffer__json_type_error(json, "the file of a tensor", "a string");
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = index_string(index, json, &entry->file, &file_at);
    if (status == COFFER_OK && index_begins_run(index, index->count)) {
        status = index->judge(entry->file.text, entry->file.len, file_at, json->err);
    }
    index->count += status == COFFER_OK;
    return status;
}

/* An empty map is not refused here, but by index_parse, which knows whether there was any. */
static coffer_status index_weight_map(coffer__model_index *index, coffer__json *json)
{
    bool more = false;
    coffer_status status = index_open_object(json, "the weight_map", &more);
    while (status == COFFER_OK && more) {
        status = index_entry(index, json);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(json, '}', &more);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status index_key_twice(const coffer__json *json, uint32_t position, const char *key)
{
    return coffer__fail_at(json->err, COFFER_ERR_DUPLICATE_KEY, position,
                           "at byte %u, the key \"%s\" occurs a second time in the index", (uint64_t)position, key);
}

/* Reads a member of the outermost object. `seen` tells which of the two known keys have occurred; a
   second one is refused, as readers would disagree about which counts. Unknown members are skipped,
   as the format may grow, but their JSON is checked like the rest. */
static coffer_status index_member(coffer__model_index *index, coffer__json *json, coffer__scratch *scratch,
                                  bool seen[2])
{
    coffer__name key;
    uint32_t position = 0;
    coffer_status status = index_key(index, json, &key, &position);
    if (status != COFFER_OK) {
        return status;
    }
    const bool is_map = index_is(key, "weight_map");
    if (!is_map && !index_is(key, "metadata")) {
        return coffer__json_skip(json, 1, scratch);
    }
    if (seen[is_map]) {
        return index_key_twice(json, position, is_map ? "weight_map" : "metadata");
    }
    seen[is_map] = true;
    return is_map ? index_weight_map(index, json) : index_metadata(index, json, scratch);
}

/* Reads the whole text. Nothing but space may follow the outermost object, and the weight_map must
   have entries. A NUL byte after the object does not pass for the end: the number of bytes that are
   left is compared as well. */
static coffer_status index_parse(coffer__model_index *index, coffer__json *json, coffer__scratch *scratch)
{
    bool more = false;
    bool seen[2] = { false, false };
    coffer_status status = index_open_object(json, "the index", &more);
    while (status == COFFER_OK && more) {
        status = index_member(index, json, scratch, seen);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(json, '}', &more);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__json_peek(json) != 0 || coffer__left(&json->in) > 0) {
        return coffer__json_error(json, "nothing should follow the index");
    }
    if (index->count == 0) {
        return coffer__fail(json->err, COFFER_ERR_MISSING_FIELD,
                            seen[true] ? "the index names no tensors: its weight_map is empty"
                                       : "not the index of a model: it has no weight_map");
    }
    return COFFER_OK;
}

/* ---- what it says, in order -------------------------------------------------------------------------------------- */

static coffer__name index_name_of(const void *ctx, uint32_t item)
{
    return ((const coffer__model_index *)ctx)->entries[item].name;
}

static coffer__name index_file_of(const void *ctx, uint32_t item)
{
    return ((const coffer__model_index *)ctx)->entries[item].file;
}

/* Indexes the names of the tensors and refuses one that occurs twice. Of several repeated names the
   one that comes first in the text is reported, however the hash orders them. */
static coffer_status index_find_names(coffer__model_index *index, coffer_error *err)
{
    uint32_t twice = 0;
    index->names = (coffer__names){ index->allocator, index_name_of, index, index->count, 0, NULL, NULL };
    const coffer_status status = coffer__names_build(&index->names, &twice, err);
    if (status != COFFER_OK || twice == COFFER__NO_NAME) {
        return status;
    }
    const coffer__index_entry *entry = &index->entries[twice];
    coffer__fail_at(err, COFFER_ERR_DUPLICATE_NAME, entry->position,
                    "the index names the tensor %q twice; the second time at byte %u", entry->name.text,
                    entry->name.len, (uint64_t)entry->position);
    return coffer__fail_tensor(err, COFFER_ERR_DUPLICATE_NAME, entry->name.text, entry->name.len);
}

/* Equal names do not occur among the first entries of the files. */
static bool index_file_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__name first = index_file_of(ctx, a);
    const coffer__name second = index_file_of(ctx, b);
    return coffer__compare_names(first.text, first.len, second.text, second.len) < 0;
}

static coffer__name index_shard_name(const void *ctx, uint32_t item)
{
    return ((const coffer__model_index *)ctx)->shards[item].file;
}

/* Lists the files in order of their names. `firsts` has the first entry of each file. The order
   decides the numbers of shards, and with them the order of tensors. It must not depend on how the
   index was written, so it is that of the names. */
static coffer_status index_list_files(coffer__model_index *index, uint32_t *firsts, size_t count, coffer_error *err)
{
    if (count > COFFER__INDEX_MAX_SHARDS) {
        return coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the index names %u files, and at most %u are read",
                            (uint64_t)count, (uint64_t)COFFER__INDEX_MAX_SHARDS);
    }
    index->shards = coffer__alloc_array(index->allocator, count, sizeof *index->shards, err);
    if (index->shards == NULL) {
        return COFFER_ERR_MEMORY;
    }
    index->shard_count = count;
    index->file_count = count;
    coffer__sort(firsts, count, index_file_before, index);
    for (size_t i = 0; i < count; i++) {
        index->shards[i] = (coffer__index_shard){ index_file_of(index, firsts[i]), index->entries[firsts[i]].position };
    }
    return COFFER_OK;
}

/* Runs of entries with the same file. The first entry of every file begins a run, so the files are
   found among the runs. */
typedef struct index_runs {
    const coffer__model_index *index;
    uint32_t *starts;
    size_t count;
    uint32_t *firsts; /* space for as many */
} index_runs;

static coffer__name index_run_file(const void *ctx, uint32_t item)
{
    const index_runs *runs = ctx;
    return index_file_of(runs->index, runs->starts[item]);
}

/* Counts the runs, then lists where they begin. One block has space for that list and for the first
   entries of the files. A hostile index may begin a run with every entry. Memory is then eight
   bytes for each, which is still below that of the entries themselves. */
static coffer_status index_find_runs(index_runs *runs, coffer_error *err)
{
    const coffer__model_index *index = runs->index;
    for (size_t i = 0; i < index->count; i++) {
        runs->count += index_begins_run(index, i);
    }
    runs->starts = coffer__alloc_array(index->allocator, runs->count, 2 * sizeof *runs->starts, err);
    if (runs->starts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    runs->firsts = runs->starts + runs->count;
    for (size_t i = 0, run = 0; i < index->count; i++) {
        if (index_begins_run(index, i)) {
            runs->starts[run++] = (uint32_t)i;
        }
    }
    return COFFER_OK;
}

/* Lists the files that the runs name. For a file of several runs coffer__names_find returns the
   first run, so each file is listed once. */
static coffer_status index_find_files(coffer__model_index *index, index_runs *runs, coffer_error *err)
{
    uint32_t twice = 0;
    size_t count = 0;
    coffer__names files = { index->allocator, index_run_file, runs, runs->count, 0, NULL, NULL };
    coffer_status status = coffer__names_build(&files, &twice, err);
    for (size_t run = 0; status == COFFER_OK && run < runs->count; run++) {
        const coffer__name file = index_run_file(runs, (uint32_t)run);
        /* A file of several runs is found by its first run only. */
        if (coffer__names_find(&files, file.text, file.len) == run) {
            runs->firsts[count++] = runs->starts[run];
        }
    }
    coffer__names_free(&files);
    return status == COFFER_OK ? index_list_files(index, runs->firsts, count, err) : status;
}

/* Gives every entry the number of its file: one look-up for each run. Every file is found: the list
   was made from these very entries. */
static coffer_status index_number_entries(coffer__model_index *index, coffer_error *err)
{
    uint32_t twice = 0;
    coffer__names files = { index->allocator, index_shard_name, index, index->shard_count, 0, NULL, NULL };
    const coffer_status status = coffer__names_build(&files, &twice, err);
    /* Within a run the number is that of the entry before. */
    for (size_t i = 0; status == COFFER_OK && i < index->count; i++) {
        const coffer__name file = index->entries[i].file;
        index->entries[i].shard =
            index_begins_run(index, i) ? coffer__names_find(&files, file.text, file.len) : index->entries[i - 1].shard;
    }
    coffer__names_free(&files);
    return status;
}

/* Lists the files and numbers the entries by them. The runs are released before the numbering
   begins. */
static coffer_status index_order_files(coffer__model_index *index, coffer_error *err)
{
    index_runs runs = { .index = index };
    coffer_status status = index_find_runs(&runs, err);
    if (status == COFFER_OK) {
        status = index_find_files(index, &runs, err);
    }
    coffer__free_array(index->allocator, runs.starts, runs.count, 2 * sizeof *runs.starts);
    return status == COFFER_OK ? index_number_entries(index, err) : status;
}

/* Fails if the text is something known other than JSON, such as a web page: that says more than a
   syntax error. What begins like any JSON value is left to the parser, whose message has a
   position. An empty text is left to it, too. */
static coffer_status index_is_foreign(const uint8_t *text, size_t text_size, coffer_error *err)
{
    size_t at = 0;
    while (at < text_size && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') {
        at++;
    }
    const bool begins = at < text_size && text[at] != '\0' && strchr("{[\"-0123456789", text[at]) != NULL;
    return begins || at == text_size ? COFFER_OK : coffer__sniff(text, text_size, err);
}

/* `index` is valid for coffer__index_free from the first statement on. The size is checked before
   anything is looked at, since positions are kept in 32 bits. */
coffer_status coffer__index_read(coffer__model_index *index, const uint8_t *text, size_t text_size,
                                 coffer__index_judge *judge, const coffer_allocator *allocator, coffer_error *err)
{
    memset(index, 0, sizeof *index);
    index->allocator = allocator;
    index->judge = judge;
    index->names.allocator = allocator;
    index->total_size_at = COFFER_NO_OFFSET;
    if (text_size > COFFER__INDEX_MAX_BYTES) {
        coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the index has %z, and at most %z are read", (uint64_t)text_size,
                     COFFER__INDEX_MAX_BYTES);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX_TOO_LARGE, COFFER__INDEX_MAX_BYTES, text_size);
    }
    /* First what the text is, then what it says, then whether that holds together. */
    const coffer_status foreign = index_is_foreign(text, text_size, err);
    if (foreign != COFFER_OK) {
        return foreign;
    }
    coffer__json json = { .in = { .base = text, .length = text_size }, .err = err, .noun = "the index" };
    coffer__scratch scratch = { .allocator = allocator };
    coffer_status status = index_parse(index, &json, &scratch);
    coffer__scratch_free(&scratch);
    if (status != COFFER_OK) {
        return status;
    }
    status = index_find_names(index, err);
    return status == COFFER_OK ? index_order_files(index, err) : status;
}

/* ---- selecting --------------------------------------------------------------------------------------------------- */

/* Moves the files whose number is not COFFER__INDEX_LEFT_OUT together and renumbers them. They keep
   their order, so they stay sorted. `numbers` has an item for every file of the index:
   COFFER__INDEX_LEFT_OUT, or 0 until the number is known. */
static void index_leave_out(coffer__model_index *index, uint32_t *numbers)
{
    uint32_t left = 0;
    for (size_t i = 0; i < index->shard_count; i++) {
        if (numbers[i] != COFFER__INDEX_LEFT_OUT) {
            index->shards[left] = index->shards[i];
            numbers[i] = left++;
        }
    }
    for (size_t i = 0; i < index->count; i++) {
        index->entries[i].shard = numbers[index->entries[i].shard];
    }
    index->shard_count = left;
}

/* Works per file and not per tensor: if one of its tensors is selected, all tensors of the file are
   read. If nothing matches, nothing is changed. Names are compared with patterns once for each
   tensor, in at most pattern times name steps, so hostile names cannot make it slow. */
coffer_status coffer__index_select(coffer__model_index *index, const char *const *patterns, size_t count,
                                   coffer_error *err)
{
    uint32_t *numbers = coffer__alloc_array(index->allocator, index->file_count, sizeof *numbers, err);
    if (numbers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* All bits set is COFFER__INDEX_LEFT_OUT, so every file is left out until one of its tensors
       matches. */
    memset(numbers, 0xFF, index->file_count * sizeof *numbers);
    bool found = false;
    for (size_t i = 0; i < index->count; i++) {
        if (coffer__patterns_take(patterns, count, index->entries[i].name)) {
            numbers[index->entries[i].shard] = 0;
            found = true;
        }
    }
    if (found) {
        index_leave_out(index, numbers);
    }
    coffer__free_array(index->allocator, numbers, index->file_count, sizeof *numbers);
    return found ? COFFER_OK
                 : coffer__fail(err, COFFER_ERR_NO_TENSOR, "the index names no tensor that matches %q%s", patterns[0],
                                strlen(patterns[0]), count > 1 ? " or one of the other patterns" : "");
}

/* `shards` was allocated for file_count items, and keeps that size when files are left out. */
void coffer__index_free(coffer__model_index *index)
{
    coffer__names_free(&index->names);
    coffer__free_array(index->allocator, index->shards, index->file_count, sizeof *index->shards);
    coffer__free(index->allocator, index->entries, index->capacity * sizeof *index->entries);
    coffer__free(index->allocator, index->escaped, index->escaped_size);
}

/* ---- writing what is recorded ------------------------------------------------------------------------------------ */

/* Text that is measured (`out` NULL) or written. */
typedef struct index_text {
    char *out;
    size_t size;
} index_text;

/* The same code measures and writes, so the two cannot disagree. */
static void index_put(index_text *text, const void *bytes, size_t size)
{
    if (text->out != NULL) {
        memcpy(text->out + text->size, bytes, size);
    }
    text->size += size;
}

static void index_put_text(index_text *text, const char *piece)
{
    index_put(text, piece, strlen(piece));
}

static void index_put_value(index_text *text, coffer__name value)
{
    index_put_text(text, "\"");
    index_put(text, value.text, value.len);
    index_put_text(text, "\"");
}

/* Puts the members that do not exist yet, each on a line of its own, like most members of an index.
   `last` follows the last one of them: a comma if another member follows, or nothing. The comma
   before each member is that of the one before, so it is decided from the end: only the last new
   member has `last` after it. */
static void index_put_missing(const coffer__model_index *index, const coffer__name values[COFFER__INDEX_RECORDS],
                              const char *last, index_text *text)
{
    const char *after[COFFER__INDEX_RECORDS] = { ",", "," };
    for (size_t i = COFFER__INDEX_RECORDS; i > 0; i--) {
        if (index->records[i - 1].len == 0) {
            after[i - 1] = last;
            break;
        }
    }
    for (size_t i = 0; i < COFFER__INDEX_RECORDS; i++) {
        if (index->records[i].len == 0) {
            index_put_text(text, "\n    \"");
            index_put_text(text, coffer__index_record_key(i));
            index_put_text(text, "\": ");
            index_put_value(text, values[i]);
            index_put_text(text, after[i]);
        }
    }
}

/* Puts the metadata's object with the new values in place of the old ones. Missing members come
   first, right after the brace. The existing ones are visited in the order in which they lie in the
   text. Every byte outside the values stays as it was, white space and unknown members included, so
   a diff of the two files shows only what changed. */
static void index_put_metadata(const coffer__model_index *index, const coffer__name values[COFFER__INDEX_RECORDS],
                               index_text *text)
{
    const bool swapped = index->records[COFFER__INDEX_CONTENT].from > index->records[COFFER__INDEX_SHARDS].from;
    const char *old = index->metadata;
    /* `at` is how much of the old text has been passed on. */
    size_t at = 1; /* after the brace */
    size_t first = at;
    while (first < index->metadata_len && strchr(" \t\r\n", old[first]) != NULL) {
        first++;
    }
    index_put_text(text, "{");
    index_put_missing(index, values, old[first] == '}' ? "" : ",", text);
    for (size_t k = 0; k < COFFER__INDEX_RECORDS; k++) {
        const size_t i = swapped ? COFFER__INDEX_RECORDS - 1 - k : k;
        const coffer__index_span *span = &index->records[i];
        if (span->len > 0) {
            index_put(text, old + at, span->from - at);
            index_put_value(text, values[i]);
            at = span->from + span->len;
        }
    }
    index_put(text, old + at, index->metadata_len - at);
}

/* There are three cases: the metadata are an object, they are null, or there are none. */
size_t coffer__index_write_records(const coffer__model_index *index, const uint8_t *text, size_t text_size,
                                   const coffer__name values[COFFER__INDEX_RECORDS], char *out)
{
    index_text to = { .size = 0 };
    to.out = out;
    const coffer__index_span *span = &index->metadata_at;
    /* An object: its text with other values. */
    if (index->metadata != NULL) {
        index_put(&to, text, span->from);
        index_put_metadata(index, values, &to);
        index_put(&to, text + span->from + span->len, text_size - span->from - span->len);
        return to.size;
    }
    /* null becomes an object. Without metadata, they become the first member of the index;
       a comma follows, as its weight_map comes after. The brace exists, as the text was
       read as an object. */
    const bool is_null = span->len > 0;
    const size_t brace = (size_t)((const uint8_t *)memchr(text, '{', text_size) - text) + 1;
    index_put(&to, text, is_null ? span->from : brace);
    index_put_text(&to, is_null ? "{" : "\n  \"metadata\": {");
    index_put_missing(index, values, "", &to);
    index_put_text(&to, is_null ? "\n  }" : "\n  },");
    const size_t rest = is_null ? span->from + span->len : brace;
    index_put(&to, text + rest, text_size - rest);
    return to.size;
}
