/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process gives up what it does not need: on Linux it may afterwards read and write one descriptor, number 0, and have
 * memory, and nothing else. It is for the process that reads files which nobody trusts (cli_sandbox.h).
 *
 *   limits      512 MB of address space, two minutes of the processor, no new descriptors, no files
 *   Landlock    no file system and no TCP, where the kernel has it
 *   seccomp     any other system call kills the process, on the machines whose calls are known here
 *
 * Each is asked of the kernel by raw system calls; what it lacks is left out. Under a sanitizer, whose runtime opens
 * files and reserves terabytes of addresses, there is nothing of this.
 */
#ifndef COFFER_CLI_CONFINE_H
#define COFFER_CLI_CONFINE_H

#if defined(__has_feature)
#define CLI_CONFINE_HAS(feature) __has_feature(feature)
#else
#define CLI_CONFINE_HAS(feature) 0
#endif
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                           \
    !CLI_CONFINE_HAS(address_sanitizer) && !CLI_CONFINE_HAS(thread_sanitizer) && !CLI_CONFINE_HAS(memory_sanitizer)
#define CLI_CONFINE_POSSIBLE 1
#else
#define CLI_CONFINE_POSSIBLE 0
#endif

/* What was given up. */
enum {
    CLI_CONFINED_LIMITS = 1,
    CLI_CONFINED_FILES = 2, /* Landlock */
    CLI_CONFINED_CALLS = 4  /* seccomp */
};

/* Gives all of it up, and closes every descriptor but 0. Returns which of it the kernel knew; 0 where nothing of it is
   possible. It cannot be undone. */
unsigned cli_confine(void);

#endif
