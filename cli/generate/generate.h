/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made from the table of commands when the command is built: the manual page and the
 * completions of three shells. Each is a template with a line `@MARKER@` where the table goes; what
 * stands around it is the same for every table.
 */
#ifndef COFFER_CLI_GENERATE_H
#define COFFER_CLI_GENERATE_H

#include "cli_command.h"
#include "coffer.h"

#include <stdio.h>

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

#define MOST_OPERANDS 4

/* Takes a command's usage apart; returns how many operands it has. Ends the program when a word is new to it. */
size_t read_operands(const cli_command *command, operand operands[MOST_OPERANDS]);
/* What an option's value is; the option takes one. Ends the program when the word is new to it. */
word_kind kind_of_value(const cli_option *option);
/* "file", "tensor", ...: how the templates call it. */
const char *kind_name(word_kind kind);

/* Writes text with a backslash in front of each of the characters in `special`; NULL is allowed and nothing. */
void put_escaped(FILE *out, const char *text, const char *special);
/* Writes text as a part of a string in single quotes, for bash and zsh. */
void put_in_quotes(FILE *out, const char *text);
/* Writes the values that an option may have with `between` between them. */
void put_values(FILE *out, const cli_option *option, const char *between);

/* Write the names of all commands, of all dtypes, with a space between. */
void put_command_names(FILE *out);
void put_dtype_names(FILE *out);

void put_man_title(FILE *out);
void put_man_options(FILE *out);
void put_man_environment(FILE *out);
void put_man_commands(FILE *out);
void put_bash_tables(FILE *out);
void put_zsh_commands(FILE *out);
void put_zsh_cases(FILE *out);
void put_fish_tables(FILE *out);
void put_fish_completions(FILE *out);

#endif
