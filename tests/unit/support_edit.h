/* SPDX-License-Identifier: Apache-2.0 */
/* Editing metadata, for tests: files with one tensor whose header is written out, in the test's own directory
   (support_file.h), and edits of one key. */
#ifndef COFFER_TESTS_SUPPORT_EDIT_H
#define COFFER_TESTS_SUPPORT_EDIT_H

#include "coffer.h"
#include "support_file.h"

#include <stddef.h>

#define DATA_SIZE 64u
/* The member of a header that declares the one tensor, which has DATA_SIZE bytes. */
#define MEMBER "\"t\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}"
/* How a header with one key begins. */
#define ONE_KEY "{\"__metadata__\":{\"k\":\"v\"},"

/* A file of that header, so many spaces, and so much data. */
file_bytes file_of_bytes(const char *text, size_t text_len, size_t slack, size_t data_size);
file_bytes file_of(const char *text, size_t slack, size_t data_size);
/* Joins up to three pieces; valid until four more calls. */
const char *text_of(const char *a, const char *b, const char *c);
/* Writes the file "model": one tensor, metadata as given (with a comma behind), and slack. */
file_bytes make_model(const char *metadata, size_t slack);
/* The new file of an edit within the header: the same lengths, the new metadata, more or fewer spaces. */
file_bytes edited(const char *metadata, file_bytes old);

/* An edit of one key; NULL removes it. */
coffer_edit edit_of(const char *key, const char *value);
coffer_edit_options options_of(coffer_edit_mode mode);
/* Edits one key of that file. */
coffer_status edit_with(const char *name, const char *key, const char *value, const coffer_edit_options *options,
                        coffer_edit_way *way, coffer_error *err);
/* Fails unless editing that file fails like this, and says nothing of a way. */
void assert_edit_fails(const char *name, const coffer_edit_options *options, coffer_status code, int os_error);

#endif
