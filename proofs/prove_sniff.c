/* SPDX-License-Identifier: Apache-2.0 */
/* What else a file may be: every content of up to SNIFF_MAX bytes, and a longer one. */
#include "prove.h"
#include "sniff.h"

#define SNIFF_MAX 24

int main(void)
{
    coffer_error err;
    //@ loop unroll SNIFF_MAX;
    for (size_t size = 1; size <= SNIFF_MAX; size++) {
        coffer__sniff(prove_bytes(size), size, &err);
    }
    coffer__sniff(prove_bytes(64), 64, &err);
    coffer__sniff(prove_bytes(520), 520, &err);
    return 0;
}
