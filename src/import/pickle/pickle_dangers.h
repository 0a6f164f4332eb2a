/* SPDX-License-Identifier: Apache-2.0 */
/* Packages and modules of which nothing belongs into data: what they have runs code, opens files and connections, or
   reaches what does. */
#ifndef COFFER_PICKLE_PICKLE_DANGERS_H
#define COFFER_PICKLE_PICKLE_DANGERS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a global is of such a module, or of one below it; or reaches one as an attribute: protocol 4 lets a name be a path,
   and "serialization.os.system" of torch is os.system. */
bool coffer__reaches_danger(const char *module, const char *name);
/* Module `i` of the table; NULL past the last. */
const char *coffer__danger_at(size_t i);

#endif
