/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of archives and what inflates their members. Of an archive that is accepted the members lie one after another
 * before the directory, each is found by its name and by no other, and what is loaded is all of it or a failure. A scan of
 * the same file ends, too, and locates members without leaving it.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "inflate.h"
#include "zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define FUZZ_MAX 65536

typedef struct fuzz_file {
    const uint8_t *bytes;
    size_t size;
    size_t at; /* of what is inflated */
} fuzz_file;

static coffer_status read_file(void *ctx, uint32_t number, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const fuzz_file *file = ctx;
    (void)err;
    expect(number == 0 && offset <= file->size && size <= file->size - offset, "a read is within the file");
    memcpy(bytes, file->bytes + offset, size);
    return COFFER_OK;
}

static void expect_member(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member)
{
    static uint8_t data[FUZZ_MAX];
    coffer_error err;
    expect(member->located && member->at >= member->head + 30 + member->name_len, "a member has a place");
    expect(member->at <= zip->directory && member->stored_size <= zip->directory - member->at,
           "a member lies before the directory");
    expect(coffer__zip_find(zip, member->name, member->name_len) == member, "a member is found by its name");
    if (member->size <= sizeof data) {
        const coffer_status status = coffer__zip_load(zip, input, member, data, (size_t)member->size, &err);
        expect(status == COFFER_OK || status == COFFER_ERR_DAMAGED || status == COFFER_ERR_CHECKSUM,
               "a member is loaded, or damaged");
        const coffer_status part = coffer__zip_load(zip, input, member, data, (size_t)member->size / 2, &err);
        expect(status != COFFER_OK || part == COFFER_OK, "the first half of what can be loaded can be, too");
    }
}

static void expect_apart(const coffer__zip *zip)
{
    for (size_t i = 0; i < zip->count && zip->count < 300; i++) {
        for (size_t j = 0; j < i; j++) {
            const coffer__zip_member *a = &zip->members[i];
            const coffer__zip_member *b = &zip->members[j];
            expect(a->head >= b->at + b->stored_size || b->head >= a->at + a->stored_size, "members do not overlap");
            expect(a->name_len != b->name_len || memcmp(a->name, b->name, a->name_len) != 0, "names are unique");
        }
    }
}

static void read_archive(const coffer__input_files *input, bool scan)
{
    const coffer__wants wants = { .scan = scan };
    coffer__zip zip;
    coffer__import_plan plan;
    coffer_error err;
    expect(coffer__import_plan_begin(&plan, coffer_libc_allocator(), (uint64_t)1 << 20, &err) == COFFER_OK,
           "a plan begins");
    const coffer_status status =
        coffer__zip_read(&zip, input, 0, 0, input->size, &wants, &plan, coffer_libc_allocator(), &err);
    expect(status == COFFER_OK || err.message[0] != '\0', "a failure says what it is");
    for (size_t i = 0; status == COFFER_OK && i < zip.count; i++) {
        if (scan) {
            (void)coffer__zip_locate(&zip, input, &zip.members[i], &err);
        } else {
            expect_member(&zip, input, &zip.members[i]);
        }
    }
    if (status == COFFER_OK) {
        if (!scan) {
            expect_apart(&zip);
        }
        coffer__zip_free(&zip);
    }
    coffer__import_plan_free(&plan);
}

static coffer_status next_part(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    fuzz_file *file = ctx;
    (void)err;
    *bytes = file->bytes + file->at;
    *size = file->size - file->at < 7 ? file->size - file->at : 7;
    file->at += *size;
    return COFFER_OK;
}

/* The input itself as deflated bytes: a part of what it inflates to is the beginning of more of it. */
static void inflate_input(const uint8_t *bytes, size_t size)
{
    static uint8_t some[FUZZ_MAX / 2];
    static uint8_t more[FUZZ_MAX];
    for (size_t wanted = 64; wanted <= FUZZ_MAX / 2; wanted *= 8) {
        fuzz_file file = { bytes, size, 0 };
        fuzz_file again = { bytes, size, 0 };
        const coffer__inflate_input first = { &file, next_part };
        const coffer__inflate_input second = { &again, next_part };
        coffer_error err;
        const coffer_status status = coffer__inflate(&first, some, wanted, false, &err);
        const coffer_status twice = coffer__inflate(&second, more, 2 * wanted, false, &err);
        expect(status == COFFER_OK || status == COFFER_ERR_DAMAGED, "it inflates, or is damaged");
        expect(twice != COFFER_OK || status == COFFER_OK, "who has more has less, too");
        expect(twice != COFFER_OK || memcmp(some, more, wanted) == 0, "the beginning is the same");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *edge = guarded_copy(bytes, size);
    if (edge == NULL) {
        return 0;
    }
    fuzz_file file = { edge, size, 0 };
    const coffer__input_files input = { .ctx = &file, .read = read_file, .size = size, .path = "", .path_len = 0 };
    read_archive(&input, false);
    read_archive(&input, true);
    inflate_input(edge, size);
    return 0;
}
