/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is that is not what was expected, from its first bytes. */
#ifndef COFFER_CORE_SNIFF_H
#define COFFER_CORE_SNIFF_H

#include "coffer.h"

/*
 * Called when the frame or the first byte of a header is wrong: fails with the COFFER_ERR_IS_* code
 * of what the file is, and says what to do; returns COFFER_OK when the bytes tell nothing. `size`
 * bytes are known, 512 are enough. A wrong guess only changes the message: the file is refused in
 * any case.
 */
coffer_status coffer__sniff(const void *bytes, size_t size, coffer_error *err);
/* What the file is called, if it is compressed (COFFER_ERR_IS_COMPRESSED) or of a kind that has no tensors
   (COFFER_ERR_IS_OTHER): "a PNG image"; else COFFER_OK. */
coffer_status coffer__sniff_noun(const void *bytes, size_t size, const char **noun);

#endif
