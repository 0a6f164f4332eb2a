/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edits that a command line asks for, in its order: --set KEY=VALUE, of which the value may be a file's text (@FILE),
 * --set-json FILE, and --unset with patterns, which stand for the keys that are there.
 */
#include "block.h"
#include "cli_files.h"
#include "cli_inputs.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"
#include "json_document.h"
#include "meta.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_SIZE 256
#define SHOWN_MAX 60

/* A list that grows, of edits or of texts that are freed with them; NULL without memory. */
static void *grown(void *items, size_t count, size_t *capacity, size_t item_size)
{
    const size_t more = *capacity < 8 ? 8 : 2 * *capacity;
    if (count < *capacity) {
        return items;
    }
    void *larger = realloc(items, more * item_size);
    *capacity = larger != NULL ? more : *capacity;
    return larger;
}

static int no_memory(meta_edits *all)
{
    return cli_fail_memory(all->app, all->path);
}

/* The text belongs to the edits from here on, also when there is no memory; NULL is no memory, too. */
static bool keep_text(meta_edits *all, char *text)
{
    char **texts = text != NULL ? grown(all->texts, all->text_count, &all->text_capacity, sizeof *texts) : NULL;
    if (texts == NULL) {
        free(text);
        return false;
    }
    all->texts = texts;
    texts[all->text_count++] = text;
    return true;
}

static int add_edit(meta_edits *all, coffer_edit edit)
{
    coffer_edit *edits = grown(all->edits, all->count, &all->capacity, sizeof *edits);
    if (edits == NULL) {
        return no_memory(all);
    }
    all->edits = edits;
    edits[all->count++] = edit;
    return CLI_EXIT_OK;
}

static const char *shown_name(const char *text, size_t len, char shown[SHOWN_SIZE])
{
    coffer_escape(text, cli_cut_at_character(text, len, SHOWN_MAX), shown, SHOWN_SIZE);
    return shown;
}

/* ---- Setting ---- */

/* The value is the text of a file, as it is, or of standard input (-). */
static int value_of_file(meta_edits *all, const char *path, coffer_edit *edit)
{
    int code = CLI_EXIT_OK;
    cli_input input;
    if (!cli_input_read(all->app, path, META_VALUE_MAX, &input, &code)) {
        return code;
    }
    edit->value = input.bytes;
    edit->value_len = input.size;
    if (!keep_text(all, input.bytes)) {
        return no_memory(all);
    }
    if (!cli_is_utf8(edit->value, edit->value_len)) {
        cli_say_path(all->app, path, "is not UTF-8, which values must be");
        return CLI_EXIT_NOT_CONFORMING;
    }
    return CLI_EXIT_OK;
}

/* KEY=VALUE, KEY=@FILE, or KEY=@@VALUE for a value that begins with @. */
static int read_set(meta_edits *all, const char *text)
{
    char shown[SHOWN_SIZE];
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return cli_usage_error(all->app, "--set needs KEY=VALUE, and \"%s\" has no =; to remove a key: --unset",
                               shown_name(text, strlen(text), shown));
    }
    const char *value = equals + 1;
    coffer_edit edit = { .key = text, .key_len = (size_t)(equals - text) };
    if (value[0] == '@' && value[1] != '@') {
        const int code = value_of_file(all, value + 1, &edit);
        return code == CLI_EXIT_OK ? add_edit(all, edit) : code;
    }
    edit.value = value[0] == '@' ? value + 1 : value;
    edit.value_len = strlen(edit.value);
    return add_edit(all, edit);
}

/* ---- Removing ---- */

/* Whether a key is there before this edit: in a file of the model, or by an edit before it. */
static bool has_key(const meta_edits *all, const char *key, size_t key_len)
{
    bool found = false;
    for (size_t i = 0; !found && i < coffer_shard_count(all->model); i++) {
        found = coffer_table_metadata_get(coffer_shard_table(all->model, i), key, key_len, NULL) != NULL;
    }
    for (size_t i = 0; i < all->count; i++) {
        const coffer_edit *edit = &all->edits[i];
        const bool same = edit->key_len == key_len && memcmp(edit->key, key, key_len) == 0;
        found = same ? edit->value != NULL : found;
    }
    return found;
}

/* Removes a key of a file. It is copied, since the model is closed before its file is edited. */
static int remove_key_of_file(meta_edits *all, const coffer_pair *pair)
{
    char *key = malloc(pair->key_len + 1);
    if (!keep_text(all, key)) {
        return no_memory(all);
    }
    memcpy(key, pair->key, pair->key_len);
    return add_edit(all, (coffer_edit){ .key = key, .key_len = pair->key_len });
}

/* Removes what matches a pattern of what is there; *matched counts it. */
static int remove_matching(meta_edits *all, const char *pattern, size_t *matched)
{
    coffer_pair pair;
    const size_t before = all->count;
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < before && code == CLI_EXIT_OK; i++) {
        const coffer_edit edit = all->edits[i];
        if (coffer_match(pattern, edit.key, edit.key_len) && has_key(all, edit.key, edit.key_len)) {
            code = add_edit(all, (coffer_edit){ .key = edit.key, .key_len = edit.key_len });
            ++*matched;
        }
    }
    for (size_t i = 0; i < coffer_shard_count(all->model) && code == CLI_EXIT_OK; i++) {
        const coffer_table *table = coffer_shard_table(all->model, i);
        for (size_t k = 0; code == CLI_EXIT_OK && coffer_table_metadata_at(table, k, &pair); k++) {
            if (coffer_match(pattern, pair.key, pair.key_len) && has_key(all, pair.key, pair.key_len)) {
                code = remove_key_of_file(all, &pair);
                ++*matched;
            }
        }
    }
    return code;
}

/* A key that is there is that key, whatever else it could match. Of a file that cannot be opened nothing is known; its
   edit fails, and says why. */
static int remove_key(meta_edits *all, const char *text, size_t len, bool is_pattern)
{
    char shown[SHOWN_SIZE];
    size_t matched = 0;
    if (all->model == NULL || has_key(all, text, len)) {
        return add_edit(all, (coffer_edit){ .key = text, .key_len = len });
    }
    const int code = is_pattern ? remove_matching(all, text, &matched) : CLI_EXIT_OK;
    if (code == CLI_EXIT_OK && matched == 0) {
        cli_say_path(all->app, all->path, "no key matches \"%s\", and nothing was changed; coffer meta shows the keys",
                     shown_name(text, len, shown));
        return CLI_EXIT_NOT_CONFORMING;
    }
    return code;
}

/* ---- A document ---- */

static int bad_document(const meta_edits *all, const char *path, const char *what, size_t at)
{
    cli_say_path(all->app, path, "at byte %zu: %s", at, what);
    return CLI_EXIT_NOT_CONFORMING;
}

/* A text of a document as memory of this command; NULL without any. */
static char *own_text(char *text, size_t len)
{
    char *own = text != NULL ? malloc(len + 1) : NULL;
    if (own != NULL) {
        memcpy(own, text, len + 1);
    }
    coffer__block_free(text);
    return own;
}

static int read_member(meta_edits *all, const char *path, const coffer__document *document,
                       const coffer__json_node *member)
{
    coffer_edit edit = { .key = NULL };
    char *text = coffer__document_key(document, member, &edit.key_len);
    char *key = own_text(text, edit.key_len);
    edit.key = key;
    if (!keep_text(all, key)) {
        return no_memory(all);
    }
    if (member->kind == 'n') {
        return remove_key(all, key, edit.key_len, false);
    }
    if (member->kind != '"') {
        return bad_document(all, path, "a value has to be a string, or null to remove its key", member->at);
    }
    text = coffer__document_string(document, member, &edit.value_len);
    char *value = own_text(text, edit.value_len);
    edit.value = value;
    return keep_text(all, value) ? add_edit(all, edit) : no_memory(all);
}

static int read_document(meta_edits *all, const char *path, const cli_input *input)
{
    coffer__document document;
    int code = CLI_EXIT_OK;
    if (!coffer__document_read(&document, coffer_libc_allocator(), input->bytes, input->size)) {
        code = document.what != NULL ? bad_document(all, path, document.what, document.at) : no_memory(all);
        coffer__document_free(&document);
        return code;
    }
    const coffer__json_node *root = coffer__document_root(&document);
    if (root->kind != '{') {
        code = bad_document(all, path, "an object of strings is wanted", root->at);
    }
    const coffer__json_node *member = coffer__document_first(&document, root);
    for (; code == CLI_EXIT_OK && member != NULL; member = coffer__document_after(&document, root, member)) {
        code = read_member(all, path, &document, member);
    }
    coffer__document_free(&document);
    return code;
}

/* An object of keys, each with a string, or with null, which removes it. Of two members of one key the last counts. */
static int read_json(meta_edits *all, const char *path)
{
    int code = CLI_EXIT_OK;
    cli_input input;
    if (!cli_input_read(all->app, path, META_VALUE_MAX, &input, &code)) {
        return code;
    }
    code = read_document(all, path, &input);
    cli_input_free(&input);
    return code;
}

/* ---- All of them ---- */

static int read_choice(meta_edits *all, const cli_choice *choice)
{
    char shown[SHOWN_SIZE];
    const size_t len = strlen(choice->value);
    if (choice->option->id == CLI_OPTION_SET_JSON) {
        return read_json(all, choice->value);
    }
    if (!cli_is_utf8(choice->value, len)) {
        return cli_usage_error(all->app, "\"%s\" is not UTF-8, which keys and values must be",
                               shown_name(choice->value, len, shown));
    }
    return choice->option->id == CLI_OPTION_SET ? read_set(all, choice->value)
                                                : remove_key(all, choice->value, len, true);
}

int meta_edits_read(meta_edits *all, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < arguments->choice_count && code == CLI_EXIT_OK; i++) {
        const cli_option_id id = arguments->choices[i].option->id;
        if (id == CLI_OPTION_SET || id == CLI_OPTION_UNSET || id == CLI_OPTION_SET_JSON) {
            code = read_choice(all, &arguments->choices[i]);
        }
    }
    return code;
}

void meta_edits_free(meta_edits *all)
{
    for (size_t i = 0; i < all->text_count; i++) {
        free(all->texts[i]);
    }
    free(all->texts);
    free(all->edits);
}
