/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this machine can bring bytes of a model's files into memory at all, whatever is done with them. */
#ifndef COFFER_CLI_LOAD_FLOOR_H
#define COFFER_CLI_LOAD_FLOOR_H

#include "coffer.h"

/* Reads up to 1 GiB of the files of a model, evenly spread, into memory that is used again and again. With `direct` past
   the page cache, else through it, where the bytes should be by then. Returns bytes a second; 0 when that cannot be
   measured: the model has no files here, or too little in them, or their file system has no direct reading. */
double load_floor(const coffer *model, bool direct);

/* Makes the system forget what it has cached of a model's files. False when some of it may still be cached: it is being
   used by another process, or the files are not here. */
bool load_evict(const coffer *model);

#endif
