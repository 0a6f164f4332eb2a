/* SPDX-License-Identifier: Apache-2.0 */
#include "deliver.h"

#include <string.h>

/* One loop for each usual width, so that the compiler makes a load and a store of the copy. */
#define DELIVER_RUNS(width)                                                                                            \
    for (uint64_t i = 0; i < line->runs; i++) {                                                                        \
        memcpy(to, from, width);                                                                                       \
        from += line->from_step;                                                                                       \
        to += line->to_step;                                                                                           \
    }

void coffer__deliver_host(const coffer__line *line, const uint8_t *bytes)
{
    const uint8_t *from = bytes;
    uint8_t *to = (uint8_t *)(uintptr_t)line->to; /* NOLINT(performance-no-int-to-ptr): it was a pointer */
    if (line->runs == 1) {
        memcpy(to, from, (size_t)line->width);
        return;
    }
    switch (line->width) {
    case 1:
        DELIVER_RUNS(1)
        break;
    case 2:
        DELIVER_RUNS(2)
        break;
    case 4:
        DELIVER_RUNS(4)
        break;
    case 8:
        DELIVER_RUNS(8)
        break;
    case 16:
        DELIVER_RUNS(16)
        break;
    default:
        DELIVER_RUNS((size_t)line->width)
        break;
    }
}
