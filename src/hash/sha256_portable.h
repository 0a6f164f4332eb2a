/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 in C, which can be opened wherever there is memory. */
#ifndef COFFER_HASH_SHA256_PORTABLE_H
#define COFFER_HASH_SHA256_PORTABLE_H

#include "hash.h"

extern const coffer__hash_ops coffer__hash_sha256_portable;

#endif
