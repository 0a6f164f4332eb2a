/* SPDX-License-Identifier: Apache-2.0 */
/* Why: archives are read by their directory alone, and whatever contradicts it is refused at its byte; a scan goes on and tells. The
   attacks are made in Python (tests/attacks); what depends on the machine's byte order, memory and failing reads is here. */
#include "support_cmocka.h"

#include "inflate.h"
#include "support_memory.h"
#include "zip.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET ((uint64_t)1 << 20)

/* An archive of two members, "a" with 5 bytes and "b/c", deflated, and a comment; hello's CRC-32 is 0x3610A686. */
#define HELLO_CRC "\x86\xa6\x10\x36"
#define HEAD_A "PK\3\4\x14\0\0\0\0\0\0\0\0\0" HELLO_CRC "\5\0\0\0\5\0\0\0\1\0\0\0a"
#define HEAD_B "PK\3\4\x14\0\0\0\x08\0\0\0\0\0" HELLO_CRC "\7\0\0\0\5\0\0\0\3\0\0\0b/c"
#define PACKED "\xcb\x48\xcd\xc9\xc9\x07\x00" /* hello */
#define ENTRY_A "PK\1\2\x14\0\x14\0\0\0\0\0\0\0\0\0" HELLO_CRC "\5\0\0\0\5\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a"
#define ENTRY_B                                                                                                        \
    "PK\1\2\x14\0\x14\0\0\0\x08\0\0\0\0\0" HELLO_CRC "\7\0\0\0\5\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\x24\0\0\0b/c"
#define END "PK\5\6\0\0\0\0\2\0\2\0\x60\0\0\0\x4c\0\0\0\2\0ok"
#define ARCHIVE HEAD_A "hello" HEAD_B PACKED ENTRY_A ENTRY_B END

enum { HEAD_B_AT = 36, DIRECTORY_AT = 76, ENTRY_B_AT = 123, END_AT = 172, ARCHIVE_SIZE = 196 };

typedef struct reading {
    uint8_t bytes[512];
    size_t size;
    size_t fail_read; /* the number of the read that fails, from 1; 0: none does */
    size_t reads;
    coffer__input_files input;
    coffer__zip zip;
    coffer__import_plan plan;
    coffer_error err;
} reading;

static coffer_status read_bytes(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    reading *in = ctx;
    assert_int_equal(file, 0);
    assert_true(offset <= in->size && size <= in->size - offset);
    if (++in->reads == in->fail_read) {
        *err = (coffer_error){ .code = COFFER_ERR_IO, .offset = COFFER_NO_OFFSET, .message = "no" };
        return COFFER_ERR_IO;
    }
    memcpy(bytes, in->bytes + offset, size);
    return COFFER_OK;
}

static void begin(reading *in)
{
    memset(in, 0, sizeof *in);
    memcpy(in->bytes, ARCHIVE, sizeof ARCHIVE - 1);
    in->size = sizeof ARCHIVE - 1;
    assert_int_equal(in->size, ARCHIVE_SIZE);
}

static coffer_status read_zip(reading *in, bool scan, const coffer_allocator *allocator)
{
    const coffer__wants wants = { .scan = scan };
    in->input = (coffer__input_files){ .ctx = in, .read = read_bytes, .size = in->size, .path = "" };
    assert_int_equal(coffer__import_plan_begin(&in->plan, coffer_libc_allocator(), BUDGET, NULL), COFFER_OK);
    return coffer__zip_read(&in->zip, &in->input, 0, 0, in->size, &wants, &in->plan, allocator, &in->err);
}

static void end(reading *in, coffer_status status)
{
    if (status == COFFER_OK) {
        coffer__zip_free(&in->zip);
    }
    coffer__import_plan_free(&in->plan);
}

static void test_an_archive(void **state)
{
    (void)state;
    reading in;
    char bytes[6] = "";
    begin(&in);
    assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_OK);
    assert_int_equal(in.zip.count, 2);
    assert_int_equal(in.zip.end, ARCHIVE_SIZE);
    assert_int_equal(in.plan.findings.count, 0);
    coffer__zip_member *member = coffer__zip_find(&in.zip, "b/c", 3);
    assert_ptr_equal(member, &in.zip.members[1]);
    assert_string_equal(member->name, "b/c");
    assert_int_equal(member->at, 69);
    assert_int_equal(member->coding, COFFER__CODING_DEFLATED);
    assert_int_equal(coffer__zip_load(&in.zip, &in.input, member, bytes, 5, &in.err), COFFER_OK);
    assert_string_equal(bytes, "hello");
    assert_int_equal(coffer__zip_load(&in.zip, &in.input, &in.zip.members[0], bytes, 2, &in.err), COFFER_OK);
    assert_int_equal(coffer__zip_check(&in.zip, &in.input, &in.zip.members[0], &in.err), COFFER_OK);
    assert_null(coffer__zip_find(&in.zip, "b", 1));
    assert_null(coffer__zip_find(&in.zip, "", 0));
    assert_null(coffer__zip_find(&in.zip, "z", 1));
    end(&in, COFFER_OK);
}

/* One byte is otherwise, and the archive is refused where the fault shows. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        size_t place;
        uint8_t byte;
        uint64_t at;
        const char *what;
    } rows[] = {
        { 2, 5, 0, "where the file has none" },
        { 6, 1, 0, "other flags" },
        { 8, 8, 0, "another method before" },
        { 14, 0, 0, "other sizes" },
        { 18, 6, 0, "other sizes" },
        { 22, 6, 0, "other sizes" },
        { 26, 2, 0, "another name" },
        { 30, 'b', 0, "another name" },
        { 28, 255, 0, "reaches into the directory" },
        { DIRECTORY_AT, 'Q', DIRECTORY_AT, "an entry should be there" },
        { DIRECTORY_AT + 8, 1, 0, "encrypted" },
        { DIRECTORY_AT + 10, 12, 0, "another method than deflate" },
        { DIRECTORY_AT + 20, 6, 0, "contradict each other" },
        { DIRECTORY_AT + 24, 6, 0, "contradict each other" },
        { DIRECTORY_AT + 28, 2, DIRECTORY_AT + 48, "an entry should be there" },
        { DIRECTORY_AT + 30, 200, DIRECTORY_AT, "an entry should be there" },
        { DIRECTORY_AT + 34, 1, DIRECTORY_AT, "extra fields or disk" },
        { DIRECTORY_AT + 42, 200, DIRECTORY_AT, "reaches into the directory" },
        { DIRECTORY_AT + 42, 1, 1, "where the file has none" },
        { DIRECTORY_AT + 46, '/', 0, "not simply one" },
        { DIRECTORY_AT + 46, '\\', 0, "not simply one" },
        { DIRECTORY_AT + 46, '\0', 0, "not simply one" },
        { ENTRY_B_AT + 42, 0, 0, "another name" },
        { ENTRY_B_AT + 24, 255, 36, "other sizes" },
        { END_AT, 'Q', ARCHIVE_SIZE, "no end record" },
        { END_AT + 4, 1, END_AT, "contradicts" },
        { END_AT + 8, 1, END_AT, "contradicts" },
        { END_AT + 12, 0x5f, END_AT, "contradicts" },
        { END_AT + 16, 0x4b, END_AT, "contradicts" },
        { END_AT + 20, 3, END_AT, "contradicts" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reading in;
        begin(&in);
        in.bytes[rows[i].place] = rows[i].byte;
        const coffer_status status = read_zip(&in, false, coffer_libc_allocator());
        if (status != COFFER_ERR_DAMAGED || in.err.offset != rows[i].at ||
            strstr(in.err.message, rows[i].what) == NULL) {
            fail_msg("%zu: %s at %u: %s", i, coffer_status_name(status), (unsigned)in.err.offset, in.err.message);
        }
        end(&in, status);
    }
}

/* Twice the same name, also but for case; in a .npz only the same case clashes. */
static void test_names_that_clash(void **state)
{
    (void)state;
    reading in;
    for (unsigned i = 0; i < 2; i++) {
        begin(&in);
        in.bytes[HEAD_B_AT + 26] = 1;
        memmove(in.bytes + HEAD_B_AT + 31, in.bytes + HEAD_B_AT + 33, ARCHIVE_SIZE - HEAD_B_AT - 33);
        in.bytes[HEAD_B_AT + 30] = i == 0 ? 'a' : 'A';
        in.bytes[ENTRY_B_AT - 2 + 28] = 1;
        memmove(in.bytes + ENTRY_B_AT - 2 + 47, in.bytes + ENTRY_B_AT - 2 + 49, ARCHIVE_SIZE - ENTRY_B_AT - 49);
        in.bytes[ENTRY_B_AT - 2 + 46] = i == 0 ? 'a' : 'A';
        in.bytes[END_AT - 4 + 12] = 0x5e;
        in.bytes[END_AT - 4 + 16] = 0x4a;
        in.size = ARCHIVE_SIZE - 4;
        assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_ERR_DAMAGED);
        assert_non_null(strstr(in.err.message, "two members of the name"));
        end(&in, COFFER_ERR_DAMAGED);
        assert_int_equal(read_zip(&in, true, coffer_libc_allocator()), COFFER_OK);
        assert_int_equal(in.plan.findings.count, 1);
        assert_int_equal(coffer__import_plan_findings(&in.plan)[0].weight, COFFER_WEIGHT_DANGER);
        end(&in, COFFER_OK);
    }
}

#define EMPTY_HEAD(name) "PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0" name
#define EMPTY_ENTRY(name, at)                                                                                          \
    "PK\1\2\x14\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0" at "\0\0\0" name

/* Two arrays of one name clash although the directory has, between them, an array that differs from both in case: that one is
   in order. */
static void test_names_that_clash_across_another(void **state)
{
    (void)state;
    static const char three[] = EMPTY_HEAD("W.npy") EMPTY_HEAD("w.npy") EMPTY_HEAD("W.npy") EMPTY_ENTRY("W.npy", "\0")
        EMPTY_ENTRY("w.npy", "\x23") EMPTY_ENTRY("W.npy", "\x46") "PK\5\6\0\0\0\0\3\0\3\0\x99\0\0\0\x69\0\0\0\0\0";
    static const char two[] = EMPTY_HEAD("W.npy") EMPTY_HEAD("w.npy") EMPTY_ENTRY("W.npy", "\0")
        EMPTY_ENTRY("w.npy", "\x23") "PK\5\6\0\0\0\0\2\0\2\0\x66\0\0\0\x46\0\0\0\0\0";
    reading in;
    begin(&in);
    memcpy(in.bytes, three, sizeof three - 1);
    in.size = sizeof three - 1;
    assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_ERR_DAMAGED);
    assert_non_null(strstr(in.err.message, "two members of the name"));
    end(&in, COFFER_ERR_DAMAGED);
    begin(&in);
    memcpy(in.bytes, two, sizeof two - 1);
    in.size = sizeof two - 1;
    assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_OK);
    end(&in, COFFER_OK);
}

static void test_what_follows_an_archive_is_noted(void **state)
{
    (void)state;
    reading in;
    begin(&in);
    in.size += 3;
    assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_OK);
    assert_int_equal(in.plan.findings.count, 1);
    assert_int_equal(coffer__import_plan_findings(&in.plan)[0].weight, COFFER_WEIGHT_NOTE);
    assert_int_equal(coffer__import_plan_findings(&in.plan)[0].offset, ARCHIVE_SIZE);
    end(&in, COFFER_OK);
}

/* A scan tells what would be refused, and locates a member all the same when the file has its head. */
static void test_a_scan_goes_on(void **state)
{
    (void)state;
    reading in;
    char bytes[6] = "";
    begin(&in);
    in.bytes[30] = 'b';
    assert_int_equal(read_zip(&in, true, coffer_libc_allocator()), COFFER_OK);
    assert_int_equal(in.plan.findings.count, 1);
    assert_true(in.zip.members[0].located);
    assert_int_equal(coffer__zip_load(&in.zip, &in.input, &in.zip.members[0], bytes, 5, &in.err), COFFER_OK);
    assert_string_equal(bytes, "hello");
    end(&in, COFFER_OK);
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t size = 0; size < ARCHIVE_SIZE; size++) {
        reading in;
        begin(&in);
        in.size = size;
        assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_ERR_DAMAGED);
        end(&in, COFFER_ERR_DAMAGED);
    }
}

static void test_data_that_contradict_their_crc(void **state)
{
    (void)state;
    reading in;
    char bytes[5];
    begin(&in);
    in.bytes[31] = 'H';
    assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_OK);
    assert_int_equal(coffer__zip_load(&in.zip, &in.input, &in.zip.members[0], bytes, 5, &in.err), COFFER_ERR_CHECKSUM);
    assert_int_equal(in.err.offset, 31);
    assert_int_equal(coffer__zip_check(&in.zip, &in.input, &in.zip.members[0], &in.err), COFFER_ERR_CHECKSUM);
    end(&in, COFFER_OK);
}

static void test_damaged_deflate(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        reading in;
        char bytes[5];
        begin(&in);
        in.bytes[69 + i] ^= 0x55;
        assert_int_equal(read_zip(&in, false, coffer_libc_allocator()), COFFER_OK);
        const coffer_status status = coffer__zip_load(&in.zip, &in.input, &in.zip.members[1], bytes, 5, &in.err);
        assert_true(status == COFFER_ERR_DAMAGED || status == COFFER_ERR_CHECKSUM);
        end(&in, COFFER_OK);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        reading in;
        memory_meter meter;
        char bytes[5];
        const coffer_allocator allocator = metered_allocator(&meter);
        begin(&in);
        meter.fail_at = i;
        coffer_status status = read_zip(&in, false, &allocator);
        const coffer_status opened = status;
        if (status == COFFER_OK) {
            status = coffer__zip_load(&in.zip, &in.input, &in.zip.members[1], bytes, 5, &in.err);
        }
        end(&in, opened);
        assert_int_equal(meter.held, 0);
        if (meter.requests < i) {
            assert_int_equal(status, COFFER_OK);
            assert_true(i > 5);
            return;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
    }
}

static void test_reads_that_fail(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        reading in;
        begin(&in);
        in.fail_read = i;
        const coffer_status status = read_zip(&in, false, coffer_libc_allocator());
        end(&in, status);
        if (in.reads < i) {
            assert_int_equal(status, COFFER_OK);
            assert_int_equal(i, 2); /* all of it is among the last bytes */
            return;
        }
        assert_int_equal(status, COFFER_ERR_IO);
    }
}

/* ---- many members ------------------------------------------------------------------------------------------------ */

enum { MANY = 60, MANY_NAME = 2, MANY_HEAD = 30 + MANY_NAME, MANY_ENTRY = 46 + MANY_NAME };

typedef struct many {
    uint8_t *bytes;
    size_t size;
    size_t fail_read;
    size_t reads;
    coffer_error err;
} many;

static coffer_status read_many(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    many *in = ctx;
    assert_int_equal(file, 0);
    assert_true(offset <= in->size && size <= in->size - offset);
    if (++in->reads == in->fail_read) {
        *err = (coffer_error){ .code = COFFER_ERR_IO, .offset = COFFER_NO_OFFSET, .message = "no" };
        return COFFER_ERR_IO;
    }
    memcpy(bytes, in->bytes + offset, size);
    return COFFER_OK;
}

static void put_number(uint8_t *to, size_t width, size_t value)
{
    for (size_t i = 0; i < width; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Stored members of zeros, called by two letters, without CRCs; the first byte of member i is i. */
static void begin_many(many *in, size_t member_size)
{
    const size_t step = MANY_HEAD + member_size;
    memset(in, 0, sizeof *in);
    in->size = MANY * (step + MANY_ENTRY) + 22;
    in->bytes = calloc(in->size, 1);
    assert_non_null(in->bytes);
    for (size_t i = 0; i < MANY; i++) {
        uint8_t *head = in->bytes + i * step;
        uint8_t *entry = in->bytes + MANY * step + i * MANY_ENTRY;
        memcpy(head, "PK\3\4", 4);
        memcpy(entry, "PK\1\2", 4);
        put_number(head + 18, 4, member_size);
        put_number(head + 22, 4, member_size);
        put_number(entry + 20, 4, member_size);
        put_number(entry + 24, 4, member_size);
        put_number(head + 26, 2, MANY_NAME);
        put_number(entry + 28, 2, MANY_NAME);
        put_number(entry + 42, 4, i * step);
        head[30] = entry[46] = (uint8_t)('a' + i / 26);
        head[31] = entry[47] = (uint8_t)('a' + i % 26);
        head[MANY_HEAD] = (uint8_t)i;
    }
    uint8_t *last = in->bytes + in->size - 22;
    memcpy(last, "PK\5\6", 4);
    put_number(last + 8, 2, MANY);
    put_number(last + 10, 2, MANY);
    put_number(last + 12, 4, (size_t)MANY * MANY_ENTRY);
    put_number(last + 16, 4, MANY * step);
}

/* Opens it, looks at the beginning of each member, and closes it. */
static coffer_status look_at_many(many *in, bool scan, const coffer_allocator *allocator)
{
    coffer__zip zip;
    coffer__import_plan plan;
    const coffer__wants wants = { .scan = scan };
    const coffer__input_files input = { .ctx = in, .read = read_many, .size = in->size, .path = "" };
    assert_int_equal(coffer__import_plan_begin(&plan, coffer_libc_allocator(), BUDGET, NULL), COFFER_OK);
    coffer_status status = coffer__zip_read(&zip, &input, 0, 0, in->size, &wants, &plan, allocator, &in->err);
    for (size_t i = 0; status == COFFER_OK && i < MANY; i++) {
        uint8_t beginning[200] = { 0 };
        status = coffer__zip_load_ahead(&zip, &input, &zip.members[i], &in->err);
        if (status == COFFER_OK) {
            status = coffer__zip_load(&zip, &input, &zip.members[i], beginning, sizeof beginning, &in->err);
            assert_true(status != COFFER_OK || beginning[0] == i);
        }
        if (status != COFFER_OK) {
            coffer__zip_free(&zip);
        }
    }
    if (status == COFFER_OK) {
        coffer__zip_free(&zip);
    }
    coffer__import_plan_free(&plan);
    return status;
}

/* Where each read is a round trip, small members are looked at many at a time; large ones are not read for their heads. */
static void test_neighbours_are_read_together(void **state)
{
    (void)state;
    static const struct {
        size_t member_size;
        size_t most;
        size_t most_scanned;
    } rows[] = {
        { 200, 1, 1 },                          /* all of it is among the last bytes */
        { 4000, 5, 130 },                       /* the end, and twice 240 KB in windows of 128 */
        { 30000, 1 + 2 * (MANY / 4 + 1), 130 }, /* four or five members a window */
        { 100000, 2 * MANY + 2, 2 * MANY + 2 }, /* too far from each other */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned scan = 0; scan < 2; scan++) {
            many in;
            begin_many(&in, rows[i].member_size);
            assert_int_equal(look_at_many(&in, scan != 0, coffer_libc_allocator()), COFFER_OK);
            assert_true(in.reads <= (scan != 0 ? rows[i].most_scanned : rows[i].most));
            free(in.bytes);
        }
    }
}

static void test_reads_of_neighbours_that_fail(void **state)
{
    (void)state;
    many in;
    begin_many(&in, 4000);
    for (size_t i = 1;; i++) {
        in.reads = 0;
        in.fail_read = i;
        const coffer_status status = look_at_many(&in, false, coffer_libc_allocator());
        if (in.reads < i) {
            assert_int_equal(status, COFFER_OK);
            assert_true(i > 4);
            break;
        }
        assert_int_equal(status, COFFER_ERR_IO);
    }
    free(in.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_archive),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names_that_clash),
        cmocka_unit_test(test_names_that_clash_across_another),
        cmocka_unit_test(test_what_follows_an_archive_is_noted),
        cmocka_unit_test(test_a_scan_goes_on),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_data_that_contradict_their_crc),
        cmocka_unit_test(test_damaged_deflate),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_reads_that_fail),
        cmocka_unit_test(test_neighbours_are_read_together),
        cmocka_unit_test(test_reads_of_neighbours_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
