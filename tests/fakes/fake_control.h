/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test may ask of a driver that is not one. Each fake library exports one function, fake_control, which gives this
 * table; the state behind it is the library's own.
 *
 * Settings are words of the form name=number, in the environment variable COFFER_FAKE_DRIVER when the library is first
 * used, or as reset() gets them. What is not named has its default:
 *
 *   devices=1        how many there are
 *   memory=1e9 …     bytes of each (a plain number)
 *   version=12040    what the driver says of its own (HIP: 60000000)
 *   init=0           the code with which initialising fails
 *   attributes=…     bits: 1 integrated, 2 registers host memory (set unless named), 4 registers read-only maps
 *   locked=0         bytes of host memory that can be registered at once; 0: any number
 *   seed=1           of the delays before each copy
 *   touching=0       bytes of memory in which allocations of whole pages follow each other; 0: they lie anywhere
 *   lazy=0           1: streams do nothing until somebody waits for one, so copies are as late as they can be
 *   strict=0         1: a copy from memory that is not registered is a mistake
 *   rate=0           not 0: time is virtual; bytes that a device copies in one unit of it
 */
#ifndef COFFER_TESTS_FAKE_CONTROL_H
#define COFFER_TESTS_FAKE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

/* What is held now, and what was seen since the last reset. */
typedef struct fake_counts {
    size_t memory; /* blocks of device memory … */
    uint64_t bytes;
    uint64_t peak;
    size_t streams; /* … other than those that the driver has of its own */
    size_t events;
    size_t registered;
    size_t contexts; /* retained and not released */
    size_t copies;   /* so far: plain ones, … */
    size_t boxes;    /* … and of several rows */
    size_t pageable; /* of both, those from memory that was not registered */
    size_t calls_after_lost;
} fake_counts;

typedef struct fake_control_table {
    /* Forgets everything, and reads settings. Nothing may be in use. */
    void (*reset)(const char *settings);
    /* The nth call from now on of a function, from 1, answers `code`; of any function with NULL; n 0: none does. From 700 to 719
       (but 712 and 713) the driver is lost from then on. */
    void (*break_call)(const char *function, unsigned nth, int code);
    /* Calls since the last reset. */
    unsigned (*calls)(const char *function);
    /* The first mistake of the caller that was seen; NULL: none. */
    const char *(*mistake)(void);
    fake_counts (*counts)(void);
    /* Makes a stream of the caller's wait, by its number, until let_go is called. */
    void (*hold)(uint64_t stream);
    void (*let_go)(void);
    /* Writes to memory of the device, in the order of a stream of the caller's. */
    void (*fill)(uint64_t stream, uint64_t address, size_t size, uint8_t value);
    /* Virtual time: the calling thread is busy until `units` have passed on the one thing that reads, which it
       shares with all others. */
    void (*read_for)(uint64_t units);
    /* When everything that was done so far is done. */
    uint64_t (*end)(void);
    /* The bytes of device memory, for the fake that reads files into it; NULL where there are none. */
    uint8_t *(*bytes)(uint64_t address, size_t size);
} fake_control_table;

typedef const fake_control_table *(*fake_control_function)(void);

#endif
