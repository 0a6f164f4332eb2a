/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that names or holds code: see scan_json.h.
 *
 * The text is read as its brackets and strings: a string that a colon follows is a key of the object that is open, what
 * comes next its value. What is malformed besides does not matter, since no loader would get further than this. Of an object
 * only those members are kept by which Keras finds what it makes (scan_keras.h), as places in the text, and they are judged
 * when it closes. So memory does not grow with the number of objects.
 */
#include "scan_json.h"

#include "alloc.h"
#include "json.h"
#include "pickle_scan.h"
#include "scan_keras.h"
#include "text.h"

#include <string.h>

#define JSON_NO_DIGIT 64u
/* Objects and lists within each other. Keras writes some twenty. */
#define JSON_MAX_DEPTH 512
/* A finding names a key of Keras's with this. */
#define JSON_MEMBERS COFFER__KERAS_MEMBERS

/* Keys that say what comes next, after those of Keras. */
enum { JSON_SERIALIZED = JSON_MEMBERS, JSON_MAP, JSON_OTHER };

/* An object or a list that is open. */
typedef struct scan_json_frame {
    uint8_t key;                /* that stands before the value that comes next */
    bool has_config;            /* whatever it is */
    bool twice;                 /* a member of Keras's is there twice */
    size_t texts[JSON_MEMBERS]; /* 1 and the place of each member that is a text; 0: it is none, or not there */
} scan_json_frame;

/* A text that is looked at. */
typedef struct scan_json {
    const coffer__reader_file *file;
    const char *member;
    uint64_t at;
    coffer__json in;
    char *text;     /* strings, with space for as many bytes as the text has */
    uint8_t *bytes; /* what one stands for, likewise */
    size_t len;     /* of the string that was read last, which is at the beginning */
    size_t depth;
    size_t objects; /* of Keras */
    scan_json_frame *frames;
} scan_json;

static coffer_status json_tell(const scan_json *json, coffer_weight weight, const char *sentence, const char *subject,
                               size_t subject_len, coffer_error *err)
{
    return coffer__import_plan_put_finding(json->file->plan, weight, json->file->file, json->at, json->member, sentence,
                                           subject, subject_len, err);
}

/* ---- pickles as text ----------------------------------------------------------------------------------------------- */

/* A digit of base64. */
static uint32_t json_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (uint32_t)(c - 'A');
    }
    if (c >= 'a' && c <= 'z') {
        return (uint32_t)(c - 'a' + 26);
    }
    if (c >= '0' && c <= '9') {
        return (uint32_t)(c - '0' + 52);
    }
    return c == '+' ? 62 : c == '/' ? 63 : JSON_NO_DIGIT;
}

/* As Python decodes it: what is no digit is passed over, and the padding ends it. */
static size_t json_decode(const char *text, size_t len, uint8_t *bytes)
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t quad = 0;
    size_t pads = 0;
    size_t size = 0;
    for (size_t i = 0; i < len; i++) {
        const uint32_t digit = json_digit(text[i]);
        pads += text[i] == '=' ? 1 : 0;
        if (text[i] == '=' && quad >= 2 && quad + pads >= 4) {
            return size;
        }
        if (digit == JSON_NO_DIGIT) {
            continue;
        }
        pads = 0;
        bits = (bits << 6 | digit) & 0xFFFF;
        have += 6;
        quad = (quad + 1) % 4;
        if (have >= 8) {
            have -= 8;
            bytes[size++] = (uint8_t)(bits >> have);
        }
    }
    return size;
}

static coffer_status json_serialized(const scan_json *json, coffer_error *err)
{
    const coffer__scan_range range = {
        .member = json->member,
        .bytes = json->bytes,
        .at = json->at,
        .expected = 1,
        .size = json_decode(json->text, json->len, json->bytes),
    };
    return range.size > 0 ? coffer__scan_pickles(json->file, &range, NULL, err) : COFFER_OK;
}

/* ---- objects of Keras ---------------------------------------------------------------------------------------------- */

/* Reads the texts of an object again, one behind the other: together they are no longer than the text that they are in. */
static void json_recall(const scan_json *json, const scan_json_frame *frame, coffer__keras_object *object)
{
    size_t used = 0;
    for (size_t i = 0; i < JSON_MEMBERS; i++) {
        coffer__json again = { .in = json->in.in };
        bool has_control = false;
        size_t len = 0;
        again.in.position = frame->texts[i] - 1;
        if (frame->texts[i] > 0 && coffer__json_string(&again, json->text + used, &len, &has_control) == COFFER_OK) {
            object->members[i] = json->text + used;
            object->lens[i] = len;
            used += len;
        }
    }
}

/* What the object is that closes. A vocabulary is in the configuration of the object whose class says what it is for. */
static coffer_status json_judge(scan_json *json, coffer_error *err)
{
    const scan_json_frame *frame = &json->frames[json->depth];
    coffer__keras_object object = { .has_config = frame->has_config };
    coffer__keras_finding finding = { .weight = COFFER_WEIGHT_NOTE };
    if (json->depth > 0 && json->frames[json->depth - 1].key == COFFER__KERAS_CONFIG) {
        json->frames[json->depth - 1].texts[COFFER__KERAS_VOCABULARY] = frame->texts[COFFER__KERAS_VOCABULARY];
    }
    if (frame->texts[COFFER__KERAS_CLASS] == 0) {
        return COFFER_OK;
    }
    json_recall(json, frame, &object);
    json->objects += frame->has_config;
    if (frame->twice) {
        return json_tell(json, COFFER_WEIGHT_DANGER,
                         "the object %q of the configuration has a member twice, and loaders differ about which counts",
                         object.members[COFFER__KERAS_CLASS], object.lens[COFFER__KERAS_CLASS], err);
    }
    return coffer__keras_judge(&object, &finding)
               ? json_tell(json, finding.weight, finding.sentence, finding.subject, finding.len, err)
               : COFFER_OK;
}

/* ---- strings ------------------------------------------------------------------------------------------------------- */

static uint8_t json_key_of(const scan_json *json)
{
    for (unsigned i = 0; i < JSON_MEMBERS; i++) {
        if (coffer__text_is(json->text, json->len, coffer__keras_member_name(i))) {
            return (uint8_t)i;
        }
    }
    return coffer__text_is(json->text, json->len, ":serialized:") ? JSON_SERIALIZED
           : coffer__text_is(json->text, json->len, "auto_map")   ? JSON_MAP
                                                                  : JSON_OTHER;
}

/* A string that is a key, and says what comes next. */
static coffer_status json_key(scan_json *json, coffer_error *err)
{
    scan_json_frame *frame = &json->frames[json->depth - 1];
    frame->key = json_key_of(json);
    if (frame->key == COFFER__KERAS_CONFIG) {
        frame->twice = frame->twice || frame->has_config;
        frame->has_config = true;
    }
    return frame->key == JSON_MAP ? json_tell(json, COFFER_WEIGHT_OPAQUE,
                                              "%q names code that comes with the model: transformers runs it if "
                                              "trust_remote_code is given",
                                              json->text, json->len, err)
                                  : COFFER_OK;
}

static coffer_status json_value(scan_json *json, size_t begin, coffer_error *err)
{
    scan_json_frame *frame = &json->frames[json->depth - 1];
    if (frame->key == JSON_SERIALIZED) {
        return json_serialized(json, err);
    }
    if (frame->key < JSON_MEMBERS) {
        frame->twice = frame->twice || frame->texts[frame->key] > 0;
        frame->texts[frame->key] = begin + 1;
    }
    return COFFER_OK;
}

/* *read is false for what Python may take and is refused here. */
static coffer_status json_string(scan_json *json, bool *read, coffer_error *err)
{
    const size_t begin = json->in.in.position;
    bool has_control = false;
    *read = coffer__json_string(&json->in, json->text, &json->len, &has_control) == COFFER_OK;
    if (!*read) {
        return COFFER_OK;
    }
    return coffer__json_peek(&json->in) == ':' ? json_key(json, err) : json_value(json, begin, err);
}

/* ---- the text ------------------------------------------------------------------------------------------------------ */

/* What a list is the value of, its items are. */
static bool json_open(scan_json *json)
{
    const uint8_t key = json->depth > 0 ? json->frames[json->depth - 1].key : JSON_OTHER;
    if (json->depth == JSON_MAX_DEPTH) {
        return false;
    }
    json->frames[json->depth++] = (scan_json_frame){ .key = key == JSON_SERIALIZED ? key : JSON_OTHER };
    return true;
}

static coffer_status json_close(scan_json *json, coffer_error *err)
{
    json->depth--;
    return json_judge(json, err);
}

/* One byte that may be the beginning of something; *read is false where the rest cannot be told. */
static coffer_status json_step(scan_json *json, bool *read, coffer_error *err)
{
    const uint8_t byte = json->in.in.base[json->in.in.position];
    if (byte == '"') {
        return json_string(json, read, err);
    }
    json->in.in.position++;
    switch (byte) {
    case '{':
    case '[':
        *read = json_open(json);
        return COFFER_OK;
    case '}':
    case ']':
        return json->depth > 1 ? json_close(json, err) : COFFER_OK;
    case 0:
        *read = false;
        return COFFER_OK;
    default:
        return COFFER_OK;
    }
}

/* Python takes some strings that are refused here, and UTF-16, so a text that cannot be read to its end is a finding. */
static coffer_status json_walk(scan_json *json, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    bool read = json_open(json);
    while (status == COFFER_OK && read && coffer__left(&json->in.in) > 0) {
        status = json_step(json, &read, err);
    }
    if (status == COFFER_OK && !read) {
        status = json_tell(json, COFFER_WEIGHT_OPAQUE,
                           "this begins as JSON, and cannot be read as that: what it may hold was not looked at", "", 0,
                           err);
    }
    while (status == COFFER_OK && json->depth > 0) {
        status = json_close(json, err);
    }
    return status;
}

/* White space, a mark of the order of bytes, and what UTF-16 and UTF-32 have between the letters. */
static bool json_is_gap(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0 || c == 0xEF || c == 0xBB || c == 0xBF ||
           c == 0xFE || c == 0xFF;
}

bool coffer__scan_is_json(const uint8_t *head, size_t size)
{
    size_t at = 0;
    while (at < size && json_is_gap(head[at])) {
        at++;
    }
    const bool opens = at < size && head[at] == '{';
    at += opens ? 1 : 0;
    while (at < size && json_is_gap(head[at])) {
        at++;
    }
    return opens && at < size && head[at] == '"';
}

coffer_status coffer__scan_json(const coffer__reader_file *file, const char *member, uint64_t at, const uint8_t *text,
                                size_t size, coffer_error *err)
{
    const coffer_allocator *allocator = file->plan->allocator;
    const size_t first = file->plan->findings.count;
    scan_json json = { .file = file, .member = member, .at = at, .in = { .in = { .base = text, .length = size } } };
    json.text = coffer__alloc_array(allocator, size, 1, err);
    json.bytes = coffer__alloc_array(allocator, size, 1, err);
    json.frames = coffer__alloc_array(allocator, JSON_MAX_DEPTH, sizeof *json.frames, err);
    const bool made = json.text != NULL && json.bytes != NULL && json.frames != NULL;
    coffer_status status = made ? json_walk(&json, err) : COFFER_ERR_MEMORY;
    if (status == COFFER_OK && json.objects > 0 && file->plan->findings.count == first) {
        status = json_tell(&json, COFFER_WEIGHT_NOTE,
                           "a configuration of Keras was looked at: all that it names is part of Keras", "", 0, err);
    }
    coffer__free_array(allocator, json.text, size, 1);
    coffer__free_array(allocator, json.bytes, size, 1);
    coffer__free_array(allocator, json.frames, JSON_MAX_DEPTH, sizeof *json.frames);
    return status;
}
