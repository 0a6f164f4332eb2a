/* SPDX-License-Identifier: Apache-2.0 */
/* What decode.c gives in place of elements. */
#ifndef COFFER_PROOFS_DECODE_H
#define COFFER_PROOFS_DECODE_H

#include <stdbool.h>

/* Any finite numbers; else any doubles at all. */
extern bool prove_decodes_finite;

#endif
