/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that read a file of known bytes in random ranges: what test_engine.c and test_engine_disks.c share. The file is
 * "model" in the test's directory, or a copy of it elsewhere.
 */
#ifndef COFFER_TESTS_SUPPORT_ENGINE_H
#define COFFER_TESTS_SUPPORT_ENGINE_H

#include "engine_own.h"

#define ENGINE_SIZE ((size_t)(5 << 20) + 1234)
#define ENGINE_SLOT ((size_t)512 << 10)
#define ENGINE_SLOTS 12u
#define ENGINE_CAPACITY (ENGINE_SLOT + 2 * (size_t)COFFER__BLOCK_MAX)

extern uint8_t *engine_content;
extern uint8_t *engine_slots; /* ENGINE_SLOTS times ENGINE_CAPACITY */
extern coffer__engine_facts engine_facts;
/* Those that read files. */
#define ENGINE_KINDS 4
extern const coffer_engine engine_kinds[ENGINE_KINDS];

/* For cmocka: what runs before a test and after it. */
int engine_set_up(void **state);
int engine_tear_down(void **state);

uint64_t engine_random(uint64_t bound);
coffer__range_reader *engine_reader(const coffer__ring_calls *calls, uint32_t depth);
/* Opens the file for an engine; false where the system refuses it, which is said. */
bool engine_open(coffer__file_reader *file_reader, const coffer__byte_source *source, coffer_engine engine);
/* Keeps several random requests of a file reader in progress until `count` were checked. */
void engine_read_randomly(coffer__range_reader *reader, const coffer__file_reader *file_reader, unsigned count);
/* The same by all engines. */
void engine_read_by_all(const coffer__byte_source *source);

#endif
