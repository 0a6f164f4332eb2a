/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays inputs through a fuzz target without libFuzzer: every file named on the command line, and every file below every
 * folder named. An input lies so that its last byte is the last of a page and the next page cannot be touched: a read of
 * one byte too many is a crash with any compiler. Fails when a path cannot be read and when there was no input at all.
 */
#define _XOPEN_SOURCE 700 /* nftw */
#define _DEFAULT_SOURCE   /* MAP_ANONYMOUS */

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* nftw offers its callback no context, so the count is the program's. */
static unsigned long replayed;

/* Fills `size` bytes from the file; false when it has fewer. */
static int read_whole(const char *path, uint8_t *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    close(fd);
    return done == size;
}

static int replay(const char *path, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t readable = (size + page - 1) / page * page;
    uint8_t *pages = mmap(NULL, readable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + readable, page, PROT_NONE) != 0) {
        perror(path);
        return 1;
    }
    uint8_t *input = pages + (readable - size);
    int failed = !read_whole(path, input, size);
    if (failed) {
        fprintf(stderr, "%s: cannot be read\n", path);
    } else {
        LLVMFuzzerTestOneInput(input, size);
        replayed++;
    }
    munmap(pages, readable + page);
    return failed;
}

static int visit(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)where;
    if (kind == FTW_F) {
        return replay(path, (size_t)about->st_size);
    }
    if (kind == FTW_D) {
        return 0;
    }
    fprintf(stderr, "%s: cannot be read\n", path);
    return 1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int result = nftw(argv[i], visit, 16, FTW_PHYS);
        if (result < 0) {
            perror(argv[i]);
        }
        if (result != 0) {
            return 1;
        }
    }
    printf("%lu inputs replayed\n", replayed);
    return replayed == 0;
}
