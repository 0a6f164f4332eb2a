/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: what os_ring.c answers where there is no io_uring. */
#include "os.h"

#include <string.h>

#if !defined(__linux__) || defined(__alpha__) || defined(__mips__)

int coffer__os_ring_open(coffer__os_ring *ring, unsigned entries)
{
    (void)entries;
    memset(ring, 0, sizeof *ring);
    ring->fd = -1;
    return ENOSYS;
}

void coffer__os_ring_close(coffer__os_ring *ring)
{
    (void)ring;
}

int coffer__os_ring_register(coffer__os_ring *ring, void *memory, size_t size)
{
    (void)ring;
    (void)memory;
    (void)size;
    return ENOSYS;
}

bool coffer__os_ring_put(coffer__os_ring *ring, const coffer__os_ring_read *read)
{
    (void)ring;
    (void)read;
    return false;
}

int coffer__os_ring_enter(coffer__os_ring *ring, unsigned wanted)
{
    (void)ring;
    (void)wanted;
    return ENOSYS;
}

bool coffer__os_ring_next(coffer__os_ring *ring, coffer__os_completion *completion)
{
    (void)ring;
    (void)completion;
    return false;
}

#endif
