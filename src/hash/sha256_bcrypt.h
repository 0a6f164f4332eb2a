/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 where there is no libcrypto, by a library that only Windows has. */
#ifndef COFFER_HASH_SHA256_BCRYPT_H
#define COFFER_HASH_SHA256_BCRYPT_H

#include "hash.h"

extern const coffer__hash_ops coffer__hash_sha256_bcrypt;

#endif
