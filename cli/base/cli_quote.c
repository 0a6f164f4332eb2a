/* SPDX-License-Identifier: Apache-2.0 */
/* Words for a shell: see cli_quote.h for the contract. */
#include "cli_quote.h"

#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A word that is written if there is space, and measured in any case. */
typedef struct quoted_word {
    char *out;
    size_t size;
    size_t used;
} quoted_word;

static void add_bytes(quoted_word *word, const char *bytes, size_t count)
{
    if (word->used < word->size && count < word->size - word->used) {
        memcpy(word->out + word->used, bytes, count);
    }
    word->used += count;
}

static void add_text(quoted_word *word, const char *text)
{
    add_bytes(word, text, strlen(text));
}

/* Characters that no shell takes for anything else, wherever they stand; = in an option, where it starts no word. */
static bool is_plain_word(const char *text, size_t text_len)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@+,-";
    for (size_t i = 0; i < text_len; i++) {
        if (text[i] == '\0' || (strchr(plain, text[i]) == NULL && (text[i] != '=' || text[0] != '-'))) {
            return false;
        }
    }
    return text_len > 0;
}

static bool is_safe_word(const char *text, size_t text_len)
{
    for (size_t at = 0; at < text_len;) {
        uint32_t code = 0;
        const size_t size = cli_read_character(text + at, text_len - at, &code);
        if (size == 0 || cli_is_unsafe(code)) {
            return false;
        }
        at += size;
    }
    return true;
}

static void add_in_quotes(quoted_word *word, const char *text, size_t text_len)
{
    add_text(word, "'");
    for (size_t i = 0; i < text_len; i++) {
        add_bytes(word, text[i] == '\'' ? "'\\''" : text + i, text[i] == '\'' ? 4 : 1);
    }
    add_text(word, "'");
}

/* Three octal digits cannot run into what follows them, as \x would. */
static void add_escaped(quoted_word *word, const char *text, size_t text_len)
{
    add_text(word, "$'");
    for (size_t at = 0; at < text_len;) {
        uint32_t code = 0;
        const size_t size = cli_read_character(text + at, text_len - at, &code);
        if (size > 0 && !cli_is_unsafe(code)) {
            add_text(word, text[at] == '\'' || text[at] == '\\' ? "\\" : "");
            add_bytes(word, text + at, size);
            at += size;
            continue;
        }
        for (const size_t end = at + (size > 0 ? size : 1); at < end; at++) {
            char octal[8];
            snprintf(octal, sizeof octal, "\\%03o", (unsigned)(unsigned char)text[at]);
            add_text(word, octal);
        }
    }
    add_text(word, "'");
}

/* `before` is put in front of the text, and is plain. */
static size_t quote_word(const char *before, const char *text, size_t text_len, char *out, size_t size)
{
    quoted_word word = { .out = out, .size = size };
    add_text(&word, before);
    if (is_plain_word(text, text_len)) {
        add_bytes(&word, text, text_len);
    } else if (is_safe_word(text, text_len)) {
        add_in_quotes(&word, text, text_len);
    } else {
        add_escaped(&word, text, text_len);
    }
    if (size > 0) {
        out[word.used < size ? word.used : 0] = '\0';
    }
    return word.used;
}

size_t cli_quote(const char *text, size_t text_len, char *out, size_t size)
{
    return quote_word("", text, text_len, out, size);
}

size_t cli_quote_path(const char *path, char *out, size_t size)
{
    const bool option = path[0] == '-' && path[1] != '\0';
    return quote_word(option ? "./" : "", path, strlen(path), out, size);
}

void cli_put_quoted(cli_output *out, const char *text, size_t text_len)
{
    const size_t need = cli_quote(text, text_len, NULL, 0);
    char *word = malloc(need + 1);
    if (word != NULL) {
        cli_quote(text, text_len, word, need + 1);
        cli_put(out, word, need);
    }
    free(word);
}
