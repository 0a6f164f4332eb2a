/* SPDX-License-Identifier: Apache-2.0 */
/* What xxHash's header names, and nothing that is used calls. */
#ifndef COFFER_JS_STDLIB_H
#define COFFER_JS_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void free(void *block);

#endif
