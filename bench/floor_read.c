/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast this machine reads files at all: a program that only reads, for comparison with everything that does more.
 *
 *   floor_read cold [DEPTH [CHUNK]] FILE...    past the page cache by io_uring: DEPTH reads (16) of CHUNK bytes (2 MiB) at
 *                                              once, by one thread, into the same memory over and over
 *   floor_read warm [THREADS] FILE...          out of the page cache by pread, one thread for each processor, into huge
 *                                              pages as large as the files that were touched before
 *   floor_read half FILE...                    the first half of each file like warm, then the others like cold
 *
 * cold-fresh, warm-fresh and half-fresh read into memory as large as the files that nobody has touched. The system has to
 * clear it, as for every program that keeps what it reads.
 *
 * It prints one line: megabytes per second, seconds of processor time per gigabyte, and the bytes read. fio reads as fast
 * with --ioengine=io_uring --direct=1 --bs=2M --iodepth=16 --rw=read. It shares no code with the library, so that a mistake
 * there cannot hide here. What a file has after its last whole block is not read.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <sys/syscall.h>
#define FLOOR_HAS_RING
#endif
#endif

#define FLOOR_BLOCK 4096u
#define FLOOR_HUGE ((size_t)2 << 20)
#define FLOOR_PIECE ((size_t)2 << 20)

static void floor_die(const char *what)
{
    fprintf(stderr, "floor_read: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double floor_clock(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Both are whole blocks. */
typedef struct floor_file {
    int fd;
    uint64_t begin;
    uint64_t end;
} floor_file;

typedef struct floor_files {
    floor_file *at;
    size_t count;
    uint64_t bytes;
} floor_files;

/* What is read of each file. */
typedef enum floor_part { FLOOR_ALL, FLOOR_FIRST_HALF, FLOOR_SECOND_HALF } floor_part;

static floor_files floor_open(char **names, size_t count, floor_part part, int flags)
{
    floor_files files = { .at = calloc(count, sizeof(floor_file)), .count = count };
    for (size_t i = 0; i < count && files.at != NULL; i++) {
        struct stat info;
        files.at[i].fd = open(names[i], O_RDONLY | O_CLOEXEC | flags);
        if (files.at[i].fd < 0 || fstat(files.at[i].fd, &info) != 0) {
            floor_die(names[i]);
        }
        const uint64_t middle = (uint64_t)info.st_size / 2 / FLOOR_PIECE * FLOOR_PIECE;
        files.at[i].begin = part == FLOOR_SECOND_HALF ? middle : 0;
        files.at[i].end = part == FLOOR_FIRST_HALF ? middle : (uint64_t)info.st_size / FLOOR_BLOCK * FLOOR_BLOCK;
        files.bytes += files.at[i].end - files.at[i].begin;
    }
    return files;
}

/* Huge pages, as far as there are any, touched or not. */
static char *floor_memory(size_t size, int fresh)
{
    char *pages = mmap(NULL, size + FLOOR_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        floor_die("memory");
    }
    char *aligned = pages + (FLOOR_HUGE - (uintptr_t)pages % FLOOR_HUGE) % FLOOR_HUGE;
    (void)madvise(aligned, size, MADV_HUGEPAGE);
    if (!fresh) {
        memset(aligned, 1, size);
    }
    return aligned;
}

/* Where the next read is: files in order, each from its beginning. */
typedef struct floor_place {
    size_t file;
    uint64_t offset; /* from where its part begins */
} floor_place;

/* False at the end. */
static int floor_next(const floor_files *files, floor_place *place, uint64_t chunk, floor_place *read, uint64_t *size)
{
    while (place->file < files->count && place->offset >= files->at[place->file].end - files->at[place->file].begin) {
        place->file++;
        place->offset = 0;
    }
    if (place->file == files->count) {
        return 0;
    }
    const floor_file *file = &files->at[place->file];
    const uint64_t left = file->end - file->begin - place->offset;
    *read = (floor_place){ place->file, file->begin + place->offset };
    *size = left < chunk ? left : chunk;
    place->offset += *size;
    return 1;
}

/* ---- past the page cache ------------------------------------------------------------------------------------------ */

#ifdef FLOOR_HAS_RING
typedef struct floor_ring {
    int fd;
    struct io_uring_params params;
    char *queues;
    struct io_uring_sqe *reads;
} floor_ring;

static unsigned *floor_word(const floor_ring *ring, unsigned offset)
{
    void *word = ring->queues + offset;
    return word;
}

static floor_ring floor_ring_open(unsigned depth)
{
    floor_ring ring = { 0 };
    ring.params.flags = IORING_SETUP_CLAMP;
    ring.fd = (int)syscall(SYS_io_uring_setup, depth, &ring.params);
    if (ring.fd < 0) {
        floor_die("io_uring");
    }
    const size_t size = ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe) + 65536;
    void *queues = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
    void *reads = mmap(NULL, ring.params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
    if (queues == MAP_FAILED || reads == MAP_FAILED) {
        floor_die("io_uring");
    }
    ring.queues = queues;
    ring.reads = reads;
    return ring;
}

static void floor_put(const floor_ring *ring, int fd, uint64_t offset, char *to, uint64_t size, unsigned slot)
{
    unsigned *tail = floor_word(ring, ring->params.sq_off.tail);
    const unsigned place = *tail & *floor_word(ring, ring->params.sq_off.ring_mask);
    ring->reads[place] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
                                                .fd = fd,
                                                .off = offset,
                                                .addr = (uintptr_t)to,
                                                .len = (uint32_t)size,
                                                .user_data = slot };
    floor_word(ring, ring->params.sq_off.array)[place] = place;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

/* Takes one completion that is there; its slot, or -1. */
static int floor_take(const floor_ring *ring, const uint64_t *sizes)
{
    unsigned *head = floor_word(ring, ring->params.cq_off.head);
    if (*head == __atomic_load_n(floor_word(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE)) {
        return -1;
    }
    void *completions = ring->queues + ring->params.cq_off.cqes;
    const struct io_uring_cqe *done =
        (struct io_uring_cqe *)completions + (*head & *floor_word(ring, ring->params.cq_off.ring_mask));
    const unsigned slot = (unsigned)done->user_data;
    if (done->res < 0 || (uint64_t)done->res != sizes[slot]) {
        errno = done->res < 0 ? -done->res : EIO;
        floor_die("a read");
    }
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return (int)slot;
}

/* Each read goes to its slot of the memory, or with `fresh` to a place of its own. */
static void floor_read_cold(const floor_files *files, unsigned depth, uint64_t chunk, char *memory, int fresh)
{
    const floor_ring ring = floor_ring_open(depth);
    uint64_t *sizes = calloc(depth, sizeof *sizes);
    floor_place place = { 0, 0 };
    floor_place read = { 0, 0 };
    unsigned under_way = 0;
    uint64_t reads = 0;
    int slot = -1;
    if (sizes == NULL) {
        floor_die("memory");
    }
    for (unsigned first = 0; under_way > 0 || first == 0;) {
        unsigned put = 0;
        while (first < depth || slot >= 0) {
            const unsigned free_slot = slot >= 0 ? (unsigned)slot : first++;
            slot = -1;
            if (floor_next(files, &place, chunk, &read, &sizes[free_slot])) {
                char *to = memory + (fresh ? reads++ : free_slot) * chunk;
                floor_put(&ring, files->at[read.file].fd, read.offset, to, sizes[free_slot], free_slot);
                put++;
            }
        }
        under_way += put;
        if (syscall(SYS_io_uring_enter, ring.fd, put, under_way > 0 ? 1 : 0, IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
            errno != EINTR) {
            floor_die("io_uring");
        }
        slot = floor_take(&ring, sizes);
        under_way -= slot >= 0;
    }
    free(sizes);
    (void)close(ring.fd);
}
#else
static void floor_read_cold(const floor_files *files, unsigned depth, uint64_t chunk, char *memory, int fresh)
{
    (void)files;
    (void)depth;
    (void)chunk;
    (void)memory;
    (void)fresh;
    errno = ENOSYS;
    floor_die("io_uring");
}
#endif

/* ---- out of the page cache ---------------------------------------------------------------------------------------- */

typedef struct floor_work {
    const floor_files *files;
    char *memory;
    atomic_uint_fast64_t next; /* byte of all files together, each of which counts as whole pieces */
} floor_work;

static void floor_read_piece(const floor_files *files, char *to, uint64_t at, uint64_t *left)
{
    size_t file = 0;
    for (uint64_t pieces = 0; file < files->count; file++) {
        pieces = (files->at[file].end - files->at[file].begin + FLOOR_PIECE - 1) / FLOOR_PIECE * FLOOR_PIECE;
        if (at < pieces) {
            break;
        }
        at -= pieces;
    }
    *left = file < files->count ? files->at[file].end - files->at[file].begin - at : 0;
    const size_t size = *left < FLOOR_PIECE ? (size_t)*left : FLOOR_PIECE;
    for (size_t done = 0; done < size;) {
        const off_t offset = (off_t)(files->at[file].begin + at + done);
        const ssize_t got = pread(files->at[file].fd, to + done, size - done, offset);
        if (got <= 0) {
            floor_die("a read");
        }
        done += (size_t)got;
    }
}

static void *floor_thread(void *arg)
{
    floor_work *work = arg;
    for (uint64_t left = 1; left > 0;) {
        const uint64_t at = atomic_fetch_add(&work->next, FLOOR_PIECE);
        floor_read_piece(work->files, work->memory + at, at, &left);
    }
    return NULL;
}

static void floor_read_warm(const floor_files *files, unsigned threads, char *memory)
{
    floor_work work = { .files = files, .memory = memory };
    pthread_t others[256];
    unsigned started = 0;
    while (started + 1 < threads && started < 256 && pthread_create(&others[started], NULL, floor_thread, &work) == 0) {
        started++;
    }
    (void)floor_thread(&work);
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(others[i], NULL);
    }
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

typedef struct floor_order {
    int cold;
    int half;
    int fresh;
    unsigned depth; /* of cold */
    uint64_t chunk;
    unsigned threads; /* of warm */
} floor_order;

/* What the first argument and the numbers after it say; false: nothing that is known. */
static int floor_understand(floor_order *order, const char *word, const unsigned long numbers[2])
{
    const size_t length = strcspn(word, "-");
    order->cold = strncmp(word, "cold", length) == 0;
    order->half = strncmp(word, "half", length) == 0;
    order->fresh = strcmp(word + length, "-fresh") == 0;
    order->depth = order->cold && numbers[0] > 0 ? (unsigned)numbers[0] : 16;
    order->chunk = numbers[1] >= FLOOR_BLOCK ? numbers[1] / FLOOR_BLOCK * FLOOR_BLOCK : FLOOR_PIECE;
    order->threads = !order->cold && numbers[0] > 0 ? (unsigned)numbers[0] : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    return length == 4 && (order->fresh || word[length] == '\0') &&
           (order->cold || order->half || strncmp(word, "warm", length) == 0);
}

/* Memory for the reads of one kind, or none. */
static char *floor_memory_of(const floor_order *order, int cold, const floor_files *files)
{
    const size_t all = (size_t)(files->bytes / FLOOR_PIECE + files->count + 1) * FLOOR_PIECE;
    const size_t chunks = (size_t)(files->bytes / order->chunk + files->count + 1) * order->chunk;
    const size_t slots = order->depth * order->chunk;
    return files->count == 0 ? NULL : floor_memory(!cold ? all : order->fresh ? chunks : slots, order->fresh);
}

int main(int argc, char **argv)
{
    unsigned long numbers[2] = { 0, 0 };
    floor_order order = { 0 };
    int next = 2;
    for (size_t i = 0; i < 2 && next < argc && argv[next][strspn(argv[next], "0123456789")] == '\0'; i++, next++) {
        numbers[i] = strtoul(argv[next], NULL, 10);
    }
    if (argc < 3 || next == argc || !floor_understand(&order, argv[1], numbers)) {
        fprintf(stderr, "floor_read: floor_read cold [DEPTH [CHUNK]] FILE..., floor_read warm [THREADS] FILE..., or "
                        "floor_read half FILE...; or each with -fresh\n");
        return 2;
    }
    floor_files warm = { 0 };
    floor_files cold = { 0 };
    const size_t count = (size_t)(argc - next);
    if (!order.cold) {
        warm = floor_open(argv + next, count, order.half ? FLOOR_FIRST_HALF : FLOOR_ALL, 0);
    }
    if (order.cold || order.half) {
        cold = floor_open(argv + next, count, order.half ? FLOOR_SECOND_HALF : FLOOR_ALL, O_DIRECT);
    }
    char *warm_memory = floor_memory_of(&order, 0, &warm);
    char *cold_memory = floor_memory_of(&order, 1, &cold);
    const uint64_t bytes = warm.bytes + cold.bytes;
    const double start = floor_clock(CLOCK_MONOTONIC);
    const double processor = floor_clock(CLOCK_PROCESS_CPUTIME_ID);
    if (warm.count > 0) {
        floor_read_warm(&warm, order.threads, warm_memory);
    }
    if (cold.count > 0) {
        floor_read_cold(&cold, order.depth, order.chunk, cold_memory, order.fresh);
    }
    const double seconds = floor_clock(CLOCK_MONOTONIC) - start;
    printf("%.1f MB/s %s, %.4f CPU s/GB, %llu bytes\n", (double)bytes / 1e6 / seconds, argv[1],
           (floor_clock(CLOCK_PROCESS_CPUTIME_ID) - processor) / ((double)bytes / 1e9), (unsigned long long)bytes);
    return 0;
}
