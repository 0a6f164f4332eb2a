/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing readers of other programs' files behind the public interface, over a file and the files beside it. Whatever plan a
 * reader makes, its judge finds nothing in it that no reader makes, and its bytes add up; every read is within a file.
 */
#ifndef COFFER_FUZZ_READER_H
#define COFFER_FUZZ_READER_H

#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "plan.h"
#include "reader.h"
#include "readers.h"

#define FUZZ_MAX_FILES 64

/* The input is file 0. All others are alike, and are called as the reader asks. */
typedef struct fuzz_folder {
    const uint8_t *bytes; /* of the input, and then of the others */
    size_t own;
    size_t others;
    uint32_t most;  /* files, with the input; no others can be opened */
    uint32_t count; /* that are open */
} fuzz_folder;

static coffer_status read_folder(void *ctx, uint32_t number, uint64_t offset, void *bytes, size_t size,
                                 coffer_error *err)
{
    const fuzz_folder *folder = ctx;
    const size_t file_size = number == 0 ? folder->own : folder->others;
    (void)err;
    expect(number < folder->count, "the file was opened");
    expect(offset <= file_size && size <= file_size - offset, "a read is within the file");
    memcpy(bytes, folder->bytes + (number == 0 ? 0 : folder->own) + offset, size);
    return COFFER_OK;
}

/* Every name is that of a file, until there are as many as there can be. */
static coffer_status open_folder(void *ctx, const char *name, size_t name_len, uint32_t *file, uint64_t *size,
                                 coffer_error *err)
{
    fuzz_folder *folder = ctx;
    (void)name;
    (void)name_len;
    if (folder->count == folder->most) {
        if (err != NULL) {
            *err = (coffer_error){ .code = COFFER_ERR_SHARD_MISSING, .offset = COFFER_NO_OFFSET, .message = "none" };
        }
        return COFFER_ERR_SHARD_MISSING;
    }
    *file = folder->count++;
    *size = folder->others;
    return COFFER_OK;
}

static void expect_plan(const coffer__import_plan *plan, const fuzz_folder *folder)
{
    uint64_t sizes[FUZZ_MAX_FILES];
    coffer_error err;
    coffer__import_plan_account account;
    for (size_t i = 0; i < FUZZ_MAX_FILES; i++) {
        sizes[i] = i == 0 ? folder->own : folder->others;
    }
    const coffer_status status = coffer__import_plan_check(plan, sizes, true, &err);
    expect(status != COFFER_ERR_PLAN, err.message);
    expect(status == COFFER_OK || err.message[0] != '\0', "there is a message");
    if (status == COFFER_OK && coffer__import_plan_add_up(plan, &account, &err) == COFFER_OK) {
        expect(account.total == account.written + account.aliased + account.skipped + account.unreferenced,
               "the bytes add up");
    }
}

/* By the reader that takes the file for its own, if any does. */
static void read_as(fuzz_folder folder, const char *path, const coffer__wants *wants)
{
    folder.count = 1;
    const coffer__input_files input = { .ctx = &folder,
                                        .read = read_folder,
                                        .open = open_folder,
                                        .size = folder.own,
                                        .path = path,
                                        .path_len = strlen(path) };
    const coffer__reader *reader = NULL;
    coffer__import_plan plan;
    coffer_error err;
    coffer_status status = coffer__import_plan_begin(&plan, coffer_libc_allocator(), (uint64_t)16 << 20, &err);
    expect(status == COFFER_OK, "a plan begins");
    if (wants->scan) {
        status = coffer__scan_input(&input, wants, &plan, &reader, &err);
    } else {
        status = coffer__reader_for(&input, coffer_libc_allocator(), &reader, &err);
        status = status == COFFER_OK ? reader->read(&input, wants, &plan, &err) : status;
    }
    expect(status == COFFER_OK || (err.code == status && err.message[0] != '\0'), "a failure says what it is");
    if (status == COFFER_OK) {
        expect_plan(&plan, &folder);
    }
    coffer__import_plan_free(&plan);
}

#endif
