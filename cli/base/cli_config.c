/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations set right: see cli_config.h for the contract. */
#include "cli_config.h"

#include "cli_text.h"
#include "json_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDITS_MAX 64
#define TOLD_SIZE 240

/* Bytes of the text that others replace. */
typedef struct config_edit {
    size_t at;
    size_t len;
    char *text; /* with `text_len` bytes */
    size_t text_len;
} config_edit;

typedef struct config_editing {
    coffer__document document;
    const cli_config_facts *facts;
    cli_config_reported *reported;
    void *ctx;
    config_edit edits[EDITS_MAX]; /* in the order of the text, without overlaps, once they are sorted */
    size_t count;
    size_t grown; /* bytes of all replacements */
} config_editing;

/* ---- Edits ------------------------------------------------------------------------------------------------------- */

/* Takes over `text`; NULL: there was no memory for it, and nothing changes. */
static bool edit_take(config_editing *run, size_t at, size_t len, char *text)
{
    if (text == NULL || run->count == EDITS_MAX) {
        free(text);
        return false;
    }
    const size_t text_len = strlen(text);
    run->edits[run->count++] = (config_edit){ at, len, text, text_len };
    run->grown += text_len;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const config_edit *x = a;
    const config_edit *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The text with all edits; NULL without memory, or when there is none. */
static char *edit_apply(config_editing *run, size_t *len)
{
    const coffer__document *document = &run->document;
    char *out = run->count > 0 ? malloc(document->text_len + run->grown + 1) : NULL;
    size_t used = 0;
    size_t at = 0;
    if (out == NULL) {
        return NULL;
    }
    qsort(run->edits, run->count, sizeof run->edits[0], by_place);
    for (size_t i = 0; i < run->count; i++) {
        const config_edit *edit = &run->edits[i];
        memcpy(out + used, document->text + at, edit->at - at);
        used += edit->at - at;
        memcpy(out + used, edit->text, edit->text_len);
        used += edit->text_len;
        at = edit->at + edit->len;
    }
    memcpy(out + used, document->text + at, document->text_len - at);
    used += document->text_len - at;
    out[used] = '\0';
    *len = used;
    return out;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* One past a value, with its closing quote or bracket. The text was checked, so each bracket closes. */
static size_t value_end(const coffer__document *document, const coffer__json_node *node)
{
    if (node->kind != '{' && node->kind != '[') {
        return (size_t)node->at + node->len + (node->kind == '"');
    }
    size_t depth = 0;
    bool quoted = false;
    for (size_t at = node->at; at < document->text_len; at++) {
        const char c = document->text[at];
        if (quoted) {
            at += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth == 0) {
            return at + 1;
        }
    }
    return document->text_len;
}

static size_t value_start(const coffer__json_node *node)
{
    return node->at - (node->kind == '"');
}

static void tell_change(const config_editing *run, const coffer__json_node *member, const char *from, size_t from_len,
                        const char *to)
{
    char what[TOLD_SIZE];
    snprintf(what, sizeof what, "%.*s: from %.*s to %s", (int)(member->key_len < 64 ? member->key_len : 64),
             run->document.text + member->key, (int)(from_len < 64 ? from_len : 64), from, to);
    run->reported(run->ctx, what);
}

/* A value of a member, a string's without its quotes. */
static void set_value(config_editing *run, const coffer__json_node *member, const char *value)
{
    if (edit_take(run, member->at, member->len, strdup(value))) {
        tell_change(run, member, run->document.text + member->at, member->len, value);
    }
}

/* ---- The dtype --------------------------------------------------------------------------------------------------- */

static const char *torch_name(coffer_dtype dtype)
{
    return dtype == COFFER_F16    ? "float16"
           : dtype == COFFER_BF16 ? "bfloat16"
           : dtype == COFFER_F32  ? "float32"
           : dtype == COFFER_F64  ? "float64"
                                  : NULL;
}

/* One of the names that a dtype of numbers can have here. */
static bool is_dtype(const coffer__document *document, const coffer__json_node *node)
{
    static const char *const names[] = { "float16", "bfloat16", "float32", "float64" };
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || coffer__document_is(document, node, names[i]);
    }
    return found;
}

/* The member with the dtype of an object: transformers renamed it. */
static const coffer__json_node *dtype_member(const coffer__document *document, const coffer__json_node *object)
{
    static const char *const keys[] = { "torch_dtype", "dtype" };
    const coffer__json_node *found = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && found == NULL; i++) {
        found = coffer__document_member(document, object, keys[i]);
        found = is_dtype(document, found) ? found : NULL;
    }
    return found;
}

static bool has_same_text(const coffer__document *document, const coffer__json_node *a, const coffer__json_node *b)
{
    return a->len == b->len && memcmp(document->text + a->at, document->text + b->at, a->len) == 0;
}

/* The dtype of the model, and of its parts that are said to have the same: a part that states another one keeps it. */
static void set_dtype(config_editing *run)
{
    const coffer__document *document = &run->document;
    const coffer__json_node *root = coffer__document_root(document);
    const coffer__json_node *quantised = coffer__document_member(document, root, "quantization_config");
    const char *wanted = torch_name(run->facts->dtype);
    const coffer__json_node *stated = dtype_member(document, root);
    if (wanted == NULL) {
        return;
    }
    if (stated != NULL && !coffer__document_is(document, stated, wanted)) {
        set_value(run, stated, wanted);
    }
    for (const coffer__json_node *part = coffer__document_first(document, root); part != NULL;
         part = coffer__document_after(document, root, part)) {
        const coffer__json_node *inner = part == quantised ? NULL : dtype_member(document, part);
        const bool same = inner != NULL && (stated == NULL || has_same_text(document, inner, stated));
        if (same && !coffer__document_is(document, inner, wanted)) {
            set_value(run, inner, wanted);
        }
    }
}

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

static bool is_scalar(const coffer__json_node *node)
{
    return node->kind != '{' && node->kind != '[';
}

/* The elements of an array of scalars; 0 for anything else. */
static size_t count_elements(const coffer__document *document, const coffer__json_node *array)
{
    size_t count = 0;
    if (array->kind != '[') {
        return 0;
    }
    for (const coffer__json_node *node = coffer__document_first(document, array); node != NULL;
         node = coffer__document_after(document, array, node)) {
        if (!is_scalar(node)) {
            return 0;
        }
        count++;
    }
    return count;
}

/* The elements of the layers that are kept, with what stands between the first two of them. Scalars follow each other in
   the array of nodes. */
static char *kept_elements(const config_editing *run, const coffer__json_node *array)
{
    const coffer__document *document = &run->document;
    const cli_config_facts *facts = run->facts;
    const coffer__json_node *first = array + 1;
    const size_t gap_at = value_end(document, first);
    const size_t gap = facts->layers_before > 1 ? value_start(first + 1) - gap_at : 0;
    size_t capacity = 1;
    for (size_t i = 0; i < facts->layers_after; i++) {
        capacity += (size_t)first[facts->layers[i]].len + 2 + gap;
    }
    char *out = malloc(capacity);
    size_t used = 0;
    for (size_t i = 0; out != NULL && i < facts->layers_after; i++) {
        const coffer__json_node *node = &first[facts->layers[i]];
        const size_t start = value_start(node);
        const size_t len = value_end(document, node) - start;
        if (i > 0) {
            memcpy(out + used, document->text + gap_at, gap);
            used += gap;
        }
        memcpy(out + used, document->text + start, len);
        used += len;
    }
    if (out != NULL) {
        out[used] = '\0';
    }
    return out;
}

/* Lists with an element for each layer, such as layer_types. */
static void set_lists(config_editing *run, const coffer__json_node *object)
{
    const coffer__document *document = &run->document;
    const size_t before = run->facts->layers_before;
    for (const coffer__json_node *node = coffer__document_first(document, object); node != NULL;
         node = coffer__document_after(document, object, node)) {
        char key[64] = "";
        memcpy(key, document->text + node->key, node->key_len < sizeof key ? node->key_len : 0);
        if (strstr(key, "layer") == NULL || count_elements(document, node) != before) {
            continue;
        }
        const coffer__json_node *last = node + before;
        const size_t start = value_start(node + 1);
        if (edit_take(run, start, value_end(document, last) - start, kept_elements(run, node))) {
            char from[32];
            char to[48];
            const int from_len = snprintf(from, sizeof from, "%zu", before);
            snprintf(to, sizeof to, "%zu elements", run->facts->layers_after);
            tell_change(run, node, from, (size_t)from_len, to);
        }
    }
}

/* Sets the number of layers in one object, which states the old one; false: it does not. */
static bool set_layers_of(config_editing *run, const coffer__json_node *object)
{
    static const char *const keys[] = { "num_hidden_layers",  "n_layer",        "n_layers",       "num_layers",
                                        "num_decoder_layers", "decoder_layers", "encoder_layers", "depth" };
    uint64_t stated = 0;
    char number[32];
    snprintf(number, sizeof number, "%zu", run->facts->layers_after);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const coffer__json_node *node = coffer__document_member(&run->document, object, keys[i]);
        if (coffer__document_u64(&run->document, node, &stated) && stated == run->facts->layers_before) {
            if (run->facts->layers_after != run->facts->layers_before) {
                set_value(run, node, number);
            }
            set_lists(run, object);
            return true;
        }
    }
    return false;
}

/* In the configuration itself or, of a model with several parts, in that of the text model. */
static void set_layers(config_editing *run)
{
    static const char *const parts[] = { "text_config", "llm_config", "language_config", "decoder" };
    const coffer__document *document = &run->document;
    const coffer__json_node *root = coffer__document_root(document);
    if (run->facts->layers == NULL) {
        return;
    }
    bool done = set_layers_of(run, root);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !done; i++) {
        done = set_layers_of(run, coffer__document_member(document, root, parts[i]));
    }
    if (!done && run->facts->layers_after != run->facts->layers_before) {
        char what[TOLD_SIZE];
        snprintf(what, sizeof what,
                 "warning: it states no number of layers that is %zu, so that it is still to be set to %zu",
                 run->facts->layers_before, run->facts->layers_after);
        run->reported(run->ctx, what);
    }
}

/* ---- Quantisation ------------------------------------------------------------------------------------------------ */

/* Removes a member of an object, with the comma that goes with it: the one after it or, of the last member, the one
   before. */
static void remove_member(config_editing *run, const coffer__json_node *object, const char *key)
{
    const coffer__document *document = &run->document;
    const coffer__json_node *node = coffer__document_member(document, object, key);
    const char *text = document->text;
    if (node == NULL) {
        return;
    }
    size_t start = (size_t)node->key - 1;
    size_t end = value_end(document, node);
    const size_t rest = end + strspn(text + end, " \t\r\n");
    if (text[rest] == ',') {
        end = rest + 1 + strspn(text + rest + 1, " \t\r\n");
    } else {
        const size_t key_at = start;
        while (start > 0 && strchr(" \t\r\n", text[start - 1]) != NULL) {
            start--;
        }
        start = start > 0 && text[start - 1] == ',' ? start - 1 : key_at;
    }
    if (edit_take(run, start, end - start, strdup(""))) {
        char what[TOLD_SIZE];
        snprintf(what, sizeof what, "%s: removed", key);
        run->reported(run->ctx, what);
    }
}

/* One of what says it: MLX has a name of its own as well; of a model with several parts, the text model may say it. The
   next one is removed from the new text, as members that follow each other share a comma. */
static void remove_quantisation(config_editing *run)
{
    static const char *const parts[] = { NULL, "text_config", "language_config", "llm_config" };
    const coffer__document *document = &run->document;
    const coffer__json_node *root = coffer__document_root(document);
    const size_t before = run->count;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && run->count == before; i++) {
        const coffer__json_node *part = parts[i] == NULL ? root : coffer__document_member(document, root, parts[i]);
        if (part != NULL) {
            remove_member(run, part, "quantization");
        }
        if (part != NULL && run->count == before) {
            remove_member(run, part, "quantization_config");
        }
    }
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static char *correct_once(const char *text, size_t text_len, const cli_config_facts *facts,
                          cli_config_reported *reported, void *ctx, size_t *len)
{
    char *out = NULL;
    config_editing *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return NULL;
    }
    run->facts = facts;
    run->reported = reported;
    run->ctx = ctx;
    const bool read = coffer__document_read(&run->document, coffer_libc_allocator(), text, text_len);
    if (read && coffer__document_root(&run->document)->kind == '{') {
        set_dtype(run);
        set_layers(run);
        if (facts->dequantised) {
            remove_quantisation(run);
        }
        out = edit_apply(run, len);
    }
    for (size_t i = 0; i < run->count; i++) {
        free(run->edits[i].text);
    }
    coffer__document_free(&run->document);
    free(run);
    return out;
}

char *cli_config_correct(const char *text, size_t text_len, const cli_config_facts *facts,
                         cli_config_reported *reported, void *ctx, size_t *len)
{
    const cli_config_facts only = { .dequantised = facts->dequantised };
    char *out = correct_once(text, text_len, facts, reported, ctx, len);
    char *next = out;
    while (next != NULL && only.dequantised) {
        size_t next_len = 0;
        next = correct_once(out, *len, &only, reported, ctx, &next_len);
        if (next != NULL) {
            free(out);
            out = next;
            *len = next_len;
        }
    }
    return out;
}
