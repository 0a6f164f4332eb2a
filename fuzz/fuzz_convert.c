/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes all readers of other programs' files, as they are chosen. Whatever plan a reader makes, its judge finds nothing in it
 * that no reader makes, and its bytes add up; every read is within the file; and a scan of the same file ends as well.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "plan.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct fuzz_file {
    const uint8_t *bytes;
    size_t size;
} fuzz_file;

static coffer_status read_file(void *ctx, uint32_t number, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const fuzz_file *file = ctx;
    (void)err;
    expect(number == 0, "no other file was opened");
    expect(offset <= file->size && size <= file->size - offset, "a read is within the file");
    memcpy(bytes, file->bytes + offset, size);
    return COFFER_OK;
}

static coffer_status open_none(void *ctx, const char *name, size_t name_len, uint32_t *file, uint64_t *size,
                               coffer_error *err)
{
    (void)ctx;
    (void)name;
    (void)name_len;
    (void)file;
    (void)size;
    if (err != NULL) {
        *err = (coffer_error){ .code = COFFER_ERR_NOT_FOUND, .offset = COFFER_NO_OFFSET, .message = "none" };
    }
    return COFFER_ERR_NOT_FOUND;
}

static void expect_plan(const coffer__plan *plan, uint64_t size)
{
    coffer_error err;
    coffer__plan_account account;
    const coffer_status status = coffer__plan_check(plan, &size, true, &err);
    expect(status != COFFER_ERR_PLAN, err.message);
    if (status != COFFER_OK) {
        expect(err.message[0] != '\0', "there is a message");
        return;
    }
    if (coffer__plan_add_up(plan, &account, &err) == COFFER_OK) {
        expect(account.total == account.written + account.aliased + account.skipped + account.unreferenced,
               "the bytes add up");
    }
}

static void read_as(const uint8_t *bytes, size_t size, const coffer__wants *wants)
{
    fuzz_file file = { bytes, size };
    const coffer__input input = {
        .ctx = &file, .read = read_file, .open = open_none, .size = size, .path = "file.npz", .path_len = 8
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
        expect_plan(&plan, size);
    }
    coffer__plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const coffer__wants wants[] = {
        { .root = "auto", .strip_prefix = "", .blocks_as = COFFER_BF16 },
        { .root = "all",
          .strip_prefix = "w",
          .scalars = COFFER_SCALARS_METADATA,
          .skip_unsupported = true,
          .complex128_as_f64 = true,
          .raw_blocks = true,
          .bytes_as = COFFER_F8_E4M3,
          .ties = COFFER_TIES_KEEP },
        { .root = "auto", .strip_prefix = "", .scan = true },
    };
    const uint8_t *edge = guarded_copy(bytes, size);
    for (size_t i = 0; edge != NULL && i < sizeof wants / sizeof wants[0]; i++) {
        read_as(edge, size, &wants[i]);
    }
    return 0;
}
