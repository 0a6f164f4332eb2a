/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors: which a pattern takes, in which order people expect them, and which of them are layers' numbers. */
#ifndef COFFER_CLI_NAMES_H
#define COFFER_CLI_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Natural order: numbers within names count as numbers, so that layer 2 comes before layer 10.
   Below, at or above 0. Names that begin alike up to a dot are neighbours in it. */
int cli_compare_names(const char *a, size_t a_len, const char *b, size_t b_len);
/* How a name begins, as a number: names of different keys are in the order of their keys, so that sorting many seldom has to
   look at two names. */
uint64_t cli_name_key(const char *name, size_t name_len);

/* Where the part of a name that begins at `start` ends: at the next dot or slash, or at the name's end. */
size_t cli_part_end(const char *name, size_t name_len, size_t start);
/* The digits of the number of a layer or an expert that begins at `at`: one that is a whole part,
   or one between two underscores, as kohya's names have it ("down_blocks_0_attentions"). 0: there
   is none. "ln_1" is a name, not a number. */
size_t cli_number_at(const char *name, size_t name_len, size_t at);
/* Where the layer's part of a name ends: after its first number, "model.layers.3"; in a name without one before its last
   part, "model.embed_tokens". The length of a name that has neither. */
size_t cli_layer_end(const char *name, size_t name_len);

#endif
