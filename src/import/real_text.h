/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with a fraction as JSON has them. */
#ifndef COFFER_IMPORT_REAL_TEXT_H
#define COFFER_IMPORT_REAL_TEXT_H

#include "writing.h"

/* Writes the shortest text that is read as the same number, or, if it is `single`, as the same F32. What is no number
   becomes a string. */
void coffer__write_real(coffer__writing *out, double real, bool single);

#endif
