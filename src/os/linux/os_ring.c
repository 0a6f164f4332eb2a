/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: io_uring, by its three system calls, so that neither a library nor the headers of a new system are
 * needed. The ABI, which never changes:
 *
 *     io_uring_setup(entries, parameters)     parameters, 120 bytes:
 *         0 reads  4 completions  8 flags  12 processor  16 idle  20 features  24 other ring  28..39 zero
 *         40 the places in the map of the queue of reads: head, tail, mask, entries, flags, dropped, array (32 bits each)
 *         80 those of the queue of completions: head, tail, mask, entries, overflow, completions, flags
 *     a read, 64 bytes:        0 code  1 flags  2 priority  4 descriptor  8 offset  16 address  24 size  32 user  40 buffer
 *     a completion, 16 bytes:  0 user  8 result  12 flags
 *
 * Both queues lie in one map (a feature since Linux 5.4), the reads in another. The system reads and writes the heads and
 * tails while this code runs, so they are loaded to acquire what was written before, and stored to release it.
 */
#include "os_posix.h"

#include <string.h>

#ifdef __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

#if defined(__linux__) && !defined(__alpha__) && !defined(__mips__)

/* The numbers are the same on every architecture but those two. */
enum { OS_RING_SETUP = 425, OS_RING_ENTER = 426, OS_RING_REGISTER = 427 };
enum { OS_RING_CODE_READ_FIXED = 4, OS_RING_CODE_READ = 22 };
enum { OS_RING_GET_EVENTS = 1 };
enum { OS_RING_TASK_WORK_IS_DUE = 4, OS_RING_OVERFLOW = 2 }; /* in the flags of the queue of reads */
enum { OS_RING_SINGLE_MAP = 1 };                             /* a feature */
#define OS_RING_MAP_READS ((off_t)0x10000000)
#define OS_RING_READ_SIZE 64u
#define OS_RING_COMPLETION_SIZE 16u
/* Registered memory is cut into buffers of at most that size. */
#define OS_RING_BUFFER_MAX ((size_t)1 << 30)

/* Parameters: see above. */
typedef struct os_ring_parameters {
    uint32_t entries;
    uint32_t completions;
    uint32_t flags;
    uint32_t processor;
    uint32_t idle;
    uint32_t features;
    uint32_t zero[4];
    uint32_t read_places[10];
    uint32_t done_places[10];
} os_ring_parameters;

typedef struct os_ring_entry {
    uint8_t code;
    uint8_t flags;
    uint16_t priority;
    int32_t fd;
    uint64_t offset;
    uint64_t address;
    uint32_t size;
    uint32_t how;
    uint64_t user;
    uint16_t buffer;
    uint16_t zero[3];
    uint64_t more[2];
} os_ring_entry;

typedef struct os_ring_done {
    uint64_t user;
    int32_t result;
    uint32_t flags;
} os_ring_done;

_Static_assert(sizeof(os_ring_parameters) == 120, "as the system has it");
_Static_assert(sizeof(os_ring_entry) == OS_RING_READ_SIZE, "as the system has it");
_Static_assert(sizeof(os_ring_done) == OS_RING_COMPLETION_SIZE, "as the system has it");

/*
 * Flags of the setup, from the best on; an older system refuses those that it does not know with EINVAL. CLAMP (16): fewer
 * entries than asked for, if those are too many. SINGLE_ISSUER (4096) and DEFER_TASKRUN (8192), since Linux 6.1: completions
 * are worked off when this thread asks, and do not interrupt it. COOP_TASKRUN (256) and TASKRUN_FLAG (512), 5.19: nearly
 * that.
 */
static const uint32_t os_ring_flags[] = { 16 | 4096 | 8192 | 512, 16 | 256 | 512, 16 };

/* The parameters are cleared for each try, since the system refuses any that it did not expect. Every other error
   than EINVAL would be the same with fewer flags. */
static int os_ring_set_up(unsigned entries, os_ring_parameters *parameters)
{
    for (size_t i = 0; i < sizeof os_ring_flags / sizeof os_ring_flags[0]; i++) {
        memset(parameters, 0, sizeof *parameters);
        parameters->flags = os_ring_flags[i];
        const long fd = syscall(OS_RING_SETUP, entries, parameters);
        if (fd >= 0) {
            return (int)fd;
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return -1;
}

/* By way of void, as the map begins at a page and the system's places are aligned for what is there. */
static unsigned *os_ring_place(const coffer__os_ring *ring, uint32_t place)
{
    void *at = (char *)ring->queues + place;
    return at;
}

/* Each place in the queue of reads has its own entry, for good: place i holds entry i. The masks and the array are
   constant from here on. So to queue a read is to fill an entry and to move the tail: the array need not be written
   again. */
static void os_ring_find(coffer__os_ring *ring, const os_ring_parameters *parameters)
{
    const uint32_t *reads = parameters->read_places;
    const uint32_t *done = parameters->done_places;
    ring->entries = parameters->entries;
    ring->head = os_ring_place(ring, reads[0]);
    ring->tail = os_ring_place(ring, reads[1]);
    ring->mask = *os_ring_place(ring, reads[2]);
    ring->flags = os_ring_place(ring, reads[4]);
    ring->done_head = os_ring_place(ring, done[0]);
    ring->done_tail = os_ring_place(ring, done[1]);
    ring->done_mask = *os_ring_place(ring, done[2]);
    ring->completions = os_ring_place(ring, done[5]);
    unsigned *array = os_ring_place(ring, reads[6]);
    for (unsigned i = 0; i < ring->entries; i++) {
        array[i] = i;
    }
}

/* One map serves both queues, so it is as long as the one that reaches further. The entries have a map of their own,
   at an offset that the ABI reserves for it. The pages are brought in at once, since the first faults would otherwise
   fall into the first reads. What was mapped before a failure is unmapped by the caller's close. */
static int os_ring_map(coffer__os_ring *ring, const os_ring_parameters *parameters)
{
    const int protection = PROT_READ | PROT_WRITE;
    const size_t reads = parameters->read_places[6] + (size_t)parameters->entries * sizeof(uint32_t);
    const size_t done = parameters->done_places[5] + (size_t)parameters->completions * OS_RING_COMPLETION_SIZE;
    ring->queues_size = reads > done ? reads : done;
    ring->reads_size = (size_t)parameters->entries * OS_RING_READ_SIZE;
    void *queues = mmap(NULL, ring->queues_size, protection, MAP_SHARED | MAP_POPULATE, ring->fd, 0);
    if (queues == MAP_FAILED) {
        return errno;
    }
    ring->queues = queues;
    void *entries = mmap(NULL, ring->reads_size, protection, MAP_SHARED | MAP_POPULATE, ring->fd, OS_RING_MAP_READS);
    if (entries == MAP_FAILED) {
        return errno;
    }
    ring->reads = entries;
    return 0;
}

/* A filter may allow one call and refuse another, which must be known before any read is in progress. The call asks
   for nothing and so waits for nothing. It comes from the thread that has set the ring up, which is the only one that
   a ring of a single issuer admits. */
static int os_ring_try(const coffer__os_ring *ring)
{
    return syscall(OS_RING_ENTER, ring->fd, 0, 0, OS_RING_GET_EVENTS, NULL, (size_t)0) < 0 ? errno : 0;
}

/* Everything is zero before the first step, so that closing after a failure at any step releases just what there
   is. */
int coffer__os_ring_open(coffer__os_ring *ring, unsigned entries)
{
    os_ring_parameters parameters;
    memset(ring, 0, sizeof *ring);
    ring->fd = os_ring_set_up(entries, &parameters);
    if (ring->fd < 0) {
        return errno;
    }
    int os_error = (parameters.features & OS_RING_SINGLE_MAP) == 0 ? ENOSYS : os_ring_map(ring, &parameters);
    if (os_error == 0) {
        os_error = os_ring_try(ring);
    }
    if (os_error != 0) {
        coffer__os_ring_close(ring);
        return os_error;
    }
    os_ring_find(ring, &parameters);
    return 0;
}

/* The maps go first, though the order is free: each of them keeps the ring alive by itself. Reads that are still in
   progress would write into memory that is the caller's again, so nobody closes before all have come back. */
void coffer__os_ring_close(coffer__os_ring *ring)
{
    if (ring->reads != NULL) {
        (void)munmap(ring->reads, ring->reads_size);
    }
    if (ring->queues != NULL) {
        (void)munmap(ring->queues, ring->queues_size);
    }
    (void)close(ring->fd);
}

/* One buffer: the staging buffer's memory is smaller than the system's limit for one, or is not registered. The pages
   are locked and looked up once, instead of at each read. The limit for locked memory may forbid it; then reads go
   without, and are only slower. */
int coffer__os_ring_register(coffer__os_ring *ring, void *memory, size_t size)
{
    struct iovec buffer = { .iov_base = memory, .iov_len = size };
    if (size > OS_RING_BUFFER_MAX) {
        return EFBIG;
    }
    return syscall(OS_RING_REGISTER, ring->fd, 0, &buffer, 1) == 0 ? 0 : errno;
}

/* Only this thread moves the tail, so it needs no atomic load; the system moves the head when it has taken an entry,
   and the acquiring load keeps this thread from overwriting one before that. The entry is complete before the tail is
   released. */
bool coffer__os_ring_put(coffer__os_ring *ring, const coffer__os_ring_read *read)
{
    const unsigned tail = *ring->tail;
    if (tail - __atomic_load_n(ring->head, __ATOMIC_ACQUIRE) >= ring->entries) {
        return false;
    }
    os_ring_entry *entry = (os_ring_entry *)ring->reads + (tail & ring->mask);
    *entry = (os_ring_entry){ .code = read->registered ? OS_RING_CODE_READ_FIXED : OS_RING_CODE_READ,
                              .fd = read->fd,
                              .offset = read->offset,
                              .address = (uintptr_t)read->to,
                              .size = read->size,
                              .user = (uintptr_t)read->user };
    __atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
    ring->pending++;
    return true;
}

/* Completions may be due, and need a call to appear. With deferred work the system finishes reads only within a call,
   so an empty queue does not mean that nothing is done. Completions that did not fit into their queue are kept by the
   system, and also moved only by a call. */
static bool os_ring_is_due(const coffer__os_ring *ring)
{
    const unsigned flags = __atomic_load_n(ring->flags, __ATOMIC_ACQUIRE);
    return (flags & (OS_RING_TASK_WORK_IS_DUE | OS_RING_OVERFLOW)) != 0;
}

/* What the system did not take of `pending` stays in the queue for the next call. Looking costs a call, which is
   saved while reads are on their way and nothing is known to be due. The count that comes back is of reads alone, and
   is not trusted to stay within `pending`. */
int coffer__os_ring_enter(coffer__os_ring *ring, unsigned wanted)
{
    const bool look = wanted > 0 || os_ring_is_due(ring);
    if (ring->pending == 0 && !look) {
        return 0;
    }
    const long taken =
        syscall(OS_RING_ENTER, ring->fd, ring->pending, wanted, look ? OS_RING_GET_EVENTS : 0, NULL, (size_t)0);
    if (taken < 0) {
        return errno;
    }
    ring->pending -= (unsigned)taken < ring->pending ? (unsigned)taken : ring->pending;
    return 0;
}

/* The copy is made before the head is released: from then on the system may write another completion to that
   place. */
bool coffer__os_ring_next(coffer__os_ring *ring, coffer__os_completion *completion)
{
    const unsigned head = *ring->done_head;
    if (head == __atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE)) {
        return false;
    }
    const os_ring_done *done = (const os_ring_done *)ring->completions + (head & ring->done_mask);
    completion->user = (void *)(uintptr_t)done->user; /* NOLINT(performance-no-int-to-ptr): it was a pointer */
    completion->result = done->result;
    __atomic_store_n(ring->done_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

#endif
