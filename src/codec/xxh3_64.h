/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 of 64 bits, with seed 0: what packed tensors are checked by (docs/packed.md). It is here, and not in src/hash, since
   every build has to check them, also one without xxHash's header. */
#ifndef COFFER_CODEC_XXH3_64_H
#define COFFER_CODEC_XXH3_64_H

#include <stddef.h>
#include <stdint.h>

uint64_t coffer__xxh3_64(const uint8_t *bytes, size_t size);

#endif
