/* SPDX-License-Identifier: Apache-2.0 */
/* See real_text.h. */
#include "real_text.h"

#include "pickle_text.h"

#include <stdio.h>
#include <string.h>

/* The shortest digits that are read as the same number again. Where a locale has its own decimal point, it is
   replaced. JSON has no words for what is no number, so these become texts. A number without point or exponent gets a
   point, or it would come back as an integer. */
void coffer__write_real(coffer__writing *out, double real, bool single)
{
    char text[40];
    double again = 0;
    if (real != real || real - real != 0) {
        coffer__write_text(out, real != real ? "\"NaN\"" : real > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    /* Seventeen digits tell every F64 from its neighbours, so the loop always ends with a text that is read as the
       same number. */
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, real);
        const size_t point = strcspn(text, ",");
        text[point] = text[point] == ',' ? '.' : '\0';
        (void)coffer__pickle_read_real(text, strlen(text), &again);
        if (single ? (float)again == (float)real : again == real) {
            break;
        }
    }
    coffer__write_text(out, text);
    coffer__write_text(out, strpbrk(text, ".e") == NULL ? ".0" : "");
}
