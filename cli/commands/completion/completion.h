/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions for shells, made from the table of commands. Each is a template with lines `@MARKER@` where the table goes;
 * what stands around it is the same for every table. A command's alias completes as the command does, and is not offered.
 */
#ifndef COFFER_COMPLETION_H
#define COFFER_COMPLETION_H

#include "cli_command.h"
#include "coffer.h"

#include <stdio.h>

/* The templates (cli/templates.cmake), each with a NUL. */
extern const char cli_template_bash[];
extern const char cli_template_zsh[];
extern const char cli_template_fish[];

/* Writes the completion for a shell: "bash", "zsh" or "fish"; false for any other. */
bool completion_write(FILE *out, const char *shell);

/* What a word of the table stands for, and so what a shell offers in its place. */
typedef enum word_kind {
    WORD_ANY = 0, /* a number, a name that is new: nothing to offer */
    WORD_FILE,
    WORD_TENSOR, /* a name from the file on the line */
    WORD_KEY,    /* a key of its metadata */
    WORD_COMMAND,
    WORD_DTYPE
} word_kind;

/* One argument of a command: a part of its usage. */
typedef struct operand {
    char word[32];
    word_kind kind;
    bool repeats;
} operand;

#define MAX_OPERANDS 4

/* Takes a command's usage apart; returns how many operands it has. Ends the program when a word is new to it, which the
   build notices. */
size_t read_operands(const cli_command *command, operand operands[MAX_OPERANDS]);
/* What an option's value is; the option takes one. Likewise. */
word_kind kind_of_value(const cli_option *option);
/* "file", "tensor", ...: how the templates call it. */
const char *kind_name(word_kind kind);

/* Writes text with a backslash in front of each of the characters in `special`; NULL is allowed and nothing. */
void put_escaped(FILE *out, const char *text, const char *special);
/* Writes the values that an option may have with `between` between them. */
void put_values(FILE *out, const cli_option *option, const char *between);
/* Write the names of all commands, of all dtypes, with a space between. */
void put_command_names(FILE *out);
void put_dtype_names(FILE *out);

void put_bash_tables(FILE *out);
void put_zsh_commands(FILE *out);
void put_zsh_cases(FILE *out);
void put_fish_tables(FILE *out);
void put_fish_completions(FILE *out);

#endif
