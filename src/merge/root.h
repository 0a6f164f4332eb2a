/* SPDX-License-Identifier: Apache-2.0 */
/* Square roots, since the library does without libm. */
#ifndef COFFER_MERGE_ROOT_H
#define COFFER_MERGE_ROOT_H

/* Of a number that is not negative, by Newton's steps from above, which end where rounding ends them. */
static inline double coffer__root(double number)
{
    double root = number > 1 ? number : 1;
    double next = (root + number / root) / 2;
    while (next < root) {
        root = next;
        next = (root + number / root) / 2;
    }
    return root;
}

#endif
