/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up rights: see cli_confine.h for what is left.
 *
 * Each layer would be enough for most attacks, and each may be missing: a kernel may be old, or a
 * container may forbid one. So all are tried, none is relied upon alone, and what was done is
 * returned.
 *
 * The order is given by what a layer needs: limits need nothing; Landlock needs a descriptor;
 * closing descriptors needs calls that the filter forbids; so the filter comes last. Nothing of the
 * file has been read before the last of them.
 */
#include "cli_confine.h"

#if !CLI_CONFINE_POSSIBLE

unsigned cli_confine(void)
{
    return 0;
}

#else

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CONFINE_MEMORY ((rlim_t)512 << 20)
#define CONFINE_SECONDS ((rlim_t)120)
#define CONFINE_DESCRIPTORS_MAX 65536 /* that are closed one by one where the kernel cannot close a range */

/* Numbers that are the same on every machine; headers of the C library may be older than the kernel. */
#define CONFINE_CLOSE_RANGE 436
#define CONFINE_LANDLOCK_CREATE 444
#define CONFINE_LANDLOCK_RESTRICT 446
#define CONFINE_LANDLOCK_VERSION 1u /* the flag that asks for the version of the interface */

/* ---- Limits ---- */

/* A limit is never raised: whoever started the command may have set a lower one. */
static int confine_limit(int resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        return -1;
    }
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit);
}

/* The kernel sends SIGXCPU, which nobody catches, when the time is up. */
static unsigned confine_limits(void)
{
    int failed = confine_limit(RLIMIT_AS, CONFINE_MEMORY);
    failed |= confine_limit(RLIMIT_CPU, CONFINE_SECONDS);
    failed |= confine_limit(RLIMIT_CORE, 0);
    failed |= confine_limit(RLIMIT_FSIZE, 0);
    failed |= confine_limit(RLIMIT_NPROC, 0);
    return failed == 0 ? CLI_CONFINED_LIMITS : 0;
}

/* All descriptors but 0, the socket, and then no new ones: with a limit of 0 even a call that the
   filter let through could open nothing. */
static void confine_descriptors(void)
{
    if (syscall(CONFINE_CLOSE_RANGE, 1u, ~0u, 0u) != 0) {
        for (int fd = 1; fd < CONFINE_DESCRIPTORS_MAX; fd++) {
            (void)close(fd);
        }
    }
    (void)confine_limit(RLIMIT_NOFILE, 0);
}

/*
 * The C library asks the system for what its memory needs when it is first used, random numbers for one, and how many
 * processors there are when there is no more: both would kill. The first is done here, by a pointer that is volatile
 * because a compiler removes memory that is not used; the second is not asked when there may be one arena only.
 */
static void confine_prepare_memory(void)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, 1);
#endif
    void *volatile first = malloc(1);
    free(first);
}

/* ---- Landlock ---- */

/*
 * A ruleset handles kinds of access, and allows those that its rules name: without rules, none. A kernel refuses bits
 * that it does not know, so the version decides: 1 has 13 kinds for files, 2, 3 and 5 add one each, 4 has two for TCP,
 * and 6 has two for signals and abstract sockets.
 */
static unsigned confine_files(void)
{
    /* The kernel's struct landlock_ruleset_attr, of which older kernels know the first members
       only. */
    struct {
        uint64_t files;
        uint64_t network;
        uint64_t scoped;
    } handled = { 0, 0, 0 };
    const long version = syscall(CONFINE_LANDLOCK_CREATE, NULL, (size_t)0, CONFINE_LANDLOCK_VERSION);
    if (version < 1) {
        return 0;
    }
    const unsigned kinds = 13u + (version >= 2) + (version >= 3) + (version >= 5);
    handled.files = (UINT64_C(1) << kinds) - 1;
    handled.network = version >= 4 ? 3 : 0;
    handled.scoped = version >= 6 ? 3 : 0;
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    const long rules = syscall(CONFINE_LANDLOCK_CREATE, &handled, size, 0u);
    if (rules < 0) {
        return 0;
    }
    const long failed = syscall(CONFINE_LANDLOCK_RESTRICT, (int)rules, 0u);
    (void)close((int)rules);
    return failed == 0 ? CLI_CONFINED_FILES : 0;
}

/* ---- seccomp ---- */

#if defined(__x86_64__) && !defined(__ILP32__)
#define CONFINE_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && !defined(__AARCH64EB__) && !defined(__ILP32__)
#define CONFINE_MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define CONFINE_MACHINE AUDIT_ARCH_RISCV64
#endif

#ifdef CONFINE_MACHINE

/* The filter is a program for a small machine, which loads 32 bits of what a call is and jumps over instructions. The
   machines above are little-endian, so an argument's lower half comes first. */
#define CONFINE_LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define CONFINE_LOAD_ARGUMENT(i) CONFINE_LOAD(offsetof(struct seccomp_data, args) + 8 * (i))
#define CONFINE_ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define CONFINE_KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
/* Skips `over` instructions unless the number of the call is this one. */
#define CONFINE_IF_CALL(number, over) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, (over))
/* A call that is allowed whatever its arguments are. */
#define CONFINE_PLAIN(number) CONFINE_IF_CALL(number, 1), CONFINE_ALLOW
/* A call that is allowed for descriptor 0. */
#define CONFINE_ON_SOCKET(number)                                                                                      \
    CONFINE_IF_CALL(number, 4), CONFINE_LOAD_ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), CONFINE_ALLOW, \
        CONFINE_KILL

/* Memory never becomes code, and is never a file's. */
static const struct sock_filter CONFINE_FILTER[] = {
    CONFINE_LOAD(offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFINE_MACHINE, 1, 0),
    CONFINE_KILL,
    CONFINE_LOAD(offsetof(struct seccomp_data, nr)),
    CONFINE_ON_SOCKET(__NR_read),
    CONFINE_ON_SOCKET(__NR_write),
    CONFINE_PLAIN(__NR_brk),
    CONFINE_PLAIN(__NR_munmap),
    CONFINE_PLAIN(__NR_mremap),
    CONFINE_PLAIN(__NR_madvise),
    CONFINE_PLAIN(__NR_exit),
    CONFINE_PLAIN(__NR_exit_group),
    CONFINE_IF_CALL(__NR_mmap, 6),
    CONFINE_LOAD_ARGUMENT(2),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0),
    CONFINE_LOAD_ARGUMENT(3),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
    CONFINE_ALLOW,
    CONFINE_KILL,
    CONFINE_IF_CALL(__NR_mprotect, 3),
    CONFINE_LOAD_ARGUMENT(2),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
    CONFINE_ALLOW,
    CONFINE_KILL,
};

/* After this, what is not in the filter kills. */
static unsigned confine_calls(void)
{
    const struct sock_fprog program = { sizeof CONFINE_FILTER / sizeof CONFINE_FILTER[0],
                                        (struct sock_filter *)(uintptr_t)CONFINE_FILTER };
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0u, &program) == 0 ? CLI_CONFINED_CALLS : 0;
}

#else

static unsigned confine_calls(void)
{
    return 0;
}

#endif

/* Landlock and seccomp want the promise that no program is run that has more rights. Landlock takes a descriptor for a
   moment, so there are none only afterwards; and the filter comes last, since it would kill for all the others. */
unsigned cli_confine(void)
{
    confine_prepare_memory();
    unsigned done = confine_limits();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
        done |= confine_files();
        confine_descriptors();
        done |= confine_calls();
    } else {
        confine_descriptors();
    }
    return done;
}

#endif
