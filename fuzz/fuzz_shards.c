/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the readers of checkpoints that lie in several files: distributed checkpoints, files of ranks, DeepSpeed's. The
 * first two bytes are the size of the input, little-endian; what follows it is every file beside it. Whatever plan a
 * reader makes, its judge finds nothing in it that no reader makes, and its bytes add up; every read is within a file.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "plan.h"
#include "reader.h"

#define MOST_FILES 64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct fuzz_folder {
    const uint8_t *bytes; /* of the input, and then of the others */
    size_t own;
    size_t others;
    uint32_t count; /* files that were opened */
} fuzz_folder;

static coffer_status read_file(void *ctx, uint32_t number, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const fuzz_folder *folder = ctx;
    const size_t file_size = number == 0 ? folder->own : folder->others;
    (void)err;
    expect(number < folder->count, "the file was opened");
    expect(offset <= file_size && size <= file_size - offset, "a read is within the file");
    memcpy(bytes, folder->bytes + (number == 0 ? 0 : folder->own) + offset, size);
    return COFFER_OK;
}

/* Every name is that of a file, until there are many. */
static coffer_status open_file(void *ctx, const char *name, size_t name_len, uint32_t *file, uint64_t *size,
                               coffer_error *err)
{
    fuzz_folder *folder = ctx;
    (void)name;
    (void)name_len;
    if (folder->count == MOST_FILES) {
        *err = (coffer_error){ .code = COFFER_ERR_SHARD_MISSING, .offset = COFFER_NO_OFFSET, .message = "none" };
        return COFFER_ERR_SHARD_MISSING;
    }
    *file = folder->count++;
    *size = folder->others;
    return COFFER_OK;
}

static void expect_plan(const coffer__plan *plan, const fuzz_folder *folder)
{
    uint64_t sizes[MOST_FILES];
    coffer_error err;
    coffer__plan_account account;
    for (size_t i = 0; i < MOST_FILES; i++) {
        sizes[i] = i == 0 ? folder->own : folder->others;
    }
    const coffer_status status = coffer__plan_check(plan, sizes, true, &err);
    expect(status != COFFER_ERR_PLAN, err.message);
    if (status == COFFER_OK && coffer__plan_add_up(plan, &account, &err) == COFFER_OK) {
        expect(account.total == account.written + account.aliased + account.skipped + account.unreferenced,
               "the bytes add up");
    }
}

static void read_as(fuzz_folder folder, const char *path, const coffer__wants *wants)
{
    const coffer__input input = {
        .ctx = &folder, .read = read_file, .open = open_file, .size = folder.own, .path = path, .path_len = strlen(path)
    };
    const coffer__reader *reader = NULL;
    coffer__plan plan;
    coffer_error err;
    coffer_status status = coffer__plan_begin(&plan, coffer_libc_allocator(), (uint64_t)16 << 20, &err);
    expect(status == COFFER_OK, "a plan begins");
    status = coffer__reader_for(&input, coffer_libc_allocator(), &reader, &err);
    if (status == COFFER_OK) {
        status = reader->read(&input, wants, &plan, &err);
    }
    expect(status == COFFER_OK || (err.code == status && err.message[0] != '\0'), "a failure says what it is");
    if (status == COFFER_OK) {
        expect_plan(&plan, &folder);
    }
    coffer__plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const paths[] = { ".metadata", "a_world_size_2_rank_1.pt", "mp_rank_00_model_states.pt",
                                         "zero_pp_rank_0_mp_rank_00_model_states.pt" };
    static const coffer__wants wants[] = {
        { .root = "auto", .strip_prefix = "" },
        { .root = "all", .strip_prefix = "w", .skip_unsupported = true, .complex128_as_f64 = true },
        { .root = "auto", .strip_prefix = "", .scan = true },
    };
    if (size < 2) {
        return 0;
    }
    const size_t wanted = (size_t)(bytes[0] | bytes[1] << 8);
    const uint8_t *edge = guarded_copy(bytes + 2, size - 2);
    const size_t own = wanted < size - 2 ? wanted : size - 2;
    const fuzz_folder folder = { .bytes = edge, .own = own, .others = size - 2 - own, .count = 1 };
    for (size_t i = 0; edge != NULL && i < sizeof paths / sizeof paths[0]; i++) {
        for (size_t k = 0; k < sizeof wants / sizeof wants[0]; k++) {
            read_as(folder, paths[i], &wants[k]);
        }
    }
    return 0;
}
