/* SPDX-License-Identifier: Apache-2.0 */
/* Saving for tests, in the test's own directory (support_file.h): fresh bytes, where there may be a file of old ones, and looking
   at what is there afterwards. */
#ifndef COFFER_TESTS_SUPPORT_SINK_H
#define COFFER_TESTS_SUPPORT_SINK_H

#include "coffer.h"
#include "sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define FRESH_SIZE 20000u
#define OLD_SIZE 12345u

extern uint8_t fresh[FRESH_SIZE];
extern uint8_t old[OLD_SIZE];

/* Before and after each test: the bytes, the directory, and a umask of 022. */
void saving_begin(void);
void saving_end(void);

/* Writes the fresh bytes, their second half first. */
coffer_status fill(coffer__byte_sink *sink, coffer_error *err);
/* The same, and publishes; or discards when they cannot be written. */
coffer_status finish(coffer__byte_sink *sink, coffer_error *err);
/* The same from the beginning. */
coffer_status save(const char *path, coffer_sync sync, bool in_place, coffer_error *err);
coffer_status save_fd(int fd, coffer_sync sync, coffer_error *err);

/* A descriptor of the file "model", which is made where it is missing. */
int open_model(int flags);

void assert_file(const char *name, const uint8_t *bytes, size_t size);
bool file_is(const char *name, const uint8_t *bytes, size_t size);
mode_t mode_of(const char *name);
/* The one name in the directory that begins with a dot; valid until the next call. */
const char *hidden_name(void);

#endif
