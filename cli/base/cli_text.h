/* SPDX-License-Identifier: Apache-2.0 */
/* Small work on text that several commands share: characters, numbers for people, and the name that was probably
   meant. */
#ifndef COFFER_CLI_TEXT_H
#define COFFER_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_NUMBER_SIZE 32 /* space for any number that these functions write, NUL included */

/* Writes a number in decimal, in groups of three when `grouped`; returns its length. */
size_t cli_number_text(char text[CLI_NUMBER_SIZE], uint64_t number, bool grouped);
/* Writes a number of bytes for people, in powers of 1000; returns its length. */
size_t cli_bytes_text(char text[CLI_NUMBER_SIZE], uint64_t size);

/* The same for a number of parameters: "1.1 B", "124.4 M", "999". */
size_t cli_count_text(char text[CLI_NUMBER_SIZE], uint64_t count);
/* Writes how long something took, in the unit that reads best: "12.3 ms", "42.2 s", "3 min 20 s";
   returns its length. */
size_t cli_duration_text(char text[CLI_NUMBER_SIZE], double seconds);
/* Reads plain decimal digits, all of the text, as a number of things; false for anything else. */
bool cli_read_count(const char *text, size_t *count);
/* Reads a number of bytes, "5GB", "1.5 GB", "1GiB", "250000": units of 1000 or, with an i, of 1024; false for anything
   else, and for 0. */
bool cli_read_size(const char *text, uint64_t *size);

/* Reads one UTF-8 character of at most `text_len` bytes into *code and returns its bytes; 0 when it is not UTF-8. */
size_t cli_read_character(const char *text, size_t text_len, uint32_t *code);
bool cli_is_utf8(const char *text, size_t text_len);
/* Whether a character steers a terminal instead of showing: controls, separators of lines, marks of direction. */
bool cli_is_unsafe(uint32_t code);
/* Whether all of the text is printable ASCII without a backslash, so that escaping would change nothing. */
bool cli_is_plain(const char *text, size_t text_len);
/* The largest length up to `most` that does not cut a character in two. */
size_t cli_cut_at_character(const char *text, size_t text_len, size_t most);
/* Columns that a name takes when it is escaped, each character counted as one. */
size_t cli_escaped_width(const char *text, size_t text_len);

/* Whether a name ends in that, and has something before it. */
bool cli_ends_in(const char *name, const char *ending);

/* How many letters must be changed, added, dropped or swapped with their neighbour to make one text of the other; more
   than `limit` is answered by limit + 1. */
size_t cli_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t limit);
/* The distance up to which a name of that length is taken for a slip of the finger. */
size_t cli_distance_limit(size_t text_len);

/* Seconds since some moment, for measuring how long something took. */
double cli_seconds(void);
/* Whether a sign separates the parts of a path here: a slash, and on Windows a backslash too. */
bool cli_is_slash(char c);
/* The last such sign of a path; NULL where there is none. */
const char *cli_last_slash(const char *path);

#endif
