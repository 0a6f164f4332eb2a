/* SPDX-License-Identifier: Apache-2.0 */
/* What the words mean that the table has for arguments and values: PATH is a file, NAME a tensor of it. */
#include "completion.h"

#include <stdlib.h>
#include <string.h>

static const struct word {
    const char *word;
    word_kind kind;
} WORDS[] = {
    { "PATH", WORD_FILE },
    { "A", WORD_FILE },
    { "B", WORD_FILE },
    { "FILE", WORD_FILE },
    { "OUT", WORD_FILE },
    { "NAME", WORD_TENSOR },
    { "NAME[SLICE]", WORD_TENSOR },
    { "GLOB", WORD_TENSOR },
    { "OLD=NEW", WORD_TENSOR },
    { "DTYPE|GLOB=DTYPE", WORD_DTYPE },
    { "KEY", WORD_KEY },
    { "KEY=VALUE", WORD_KEY },
    { "COMMAND", WORD_COMMAND },
    { "DTYPE", WORD_DTYPE },
    { "N", WORD_ANY },
    { "BYTES", WORD_ANY },
    { "TOLERANCE", WORD_ANY },
    { "MODEL", WORD_FILE },
    { "FOLDER", WORD_FILE },
    { "SIZE", WORD_ANY },
    { "URL", WORD_FILE },
    { "REVISION", WORD_ANY },
    { "KINDS", WORD_ANY },
    { "PART", WORD_ANY },
    { "PREFIX", WORD_ANY },
    { "R", WORD_ANY },
    { "DEVICE", WORD_ANY },
    { "GLOB=DIM", WORD_TENSOR },
    { "NORM", WORD_ANY },
    { "s/RE/NEW/", WORD_ANY },
    { "LIST", WORD_ANY },
    { "TOKENS", WORD_ANY },
    { "SHELL", WORD_ANY },
    { "OTHER", WORD_FILE },
    { "BASE", WORD_FILE },
    { "TUNED", WORD_FILE },
    { "ADAPTER", WORD_FILE },
    { "X", WORD_ANY },
    { "T", WORD_ANY },
    { "WEIGHTS", WORD_ANY },
    { "TOOL", WORD_ANY },
};

static word_kind kind_of_word(const char *word)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (strcmp(word, WORDS[i].word) == 0) {
            return WORDS[i].kind;
        }
    }
    fprintf(stderr, "the table of commands has a new word, %s: say in completion_words.c what it is\n", word);
    exit(1);
}

word_kind kind_of_value(const cli_option *option)
{
    return option->values != NULL ? WORD_ANY : kind_of_word(option->argument);
}

const char *kind_name(word_kind kind)
{
    static const char *const names[] = { "any", "file", "tensor", "key", "command", "dtype" };
    return names[kind];
}

/* One word of a usage: "[KEY]" may be left out, "PATH..." may come again; "NAME[SLICE]" is a word
   with brackets in it. */
static operand read_operand(const char *text, size_t len)
{
    operand read = { .repeats = false };
    if (text[0] == '[') {
        text++;
        len -= 2;
    }
    if (len > 3 && memcmp(text + len - 3, "...", 3) == 0) {
        read.repeats = true;
        len -= 3;
        len -= text[len - 1] == ']';
    }
    snprintf(read.word, sizeof read.word, "%.*s", (int)len, text);
    read.kind = kind_of_word(read.word);
    return read;
}

size_t read_operands(const cli_command *command, operand operands[MAX_OPERANDS])
{
    size_t count = 0;
    const char *text = command->usage;
    while (*text != '\0' && count < MAX_OPERANDS) {
        const size_t len = strcspn(text, " ");
        operands[count++] = read_operand(text, len);
        text += len;
        text += strspn(text, " ");
    }
    return count;
}
