/* SPDX-License-Identifier: Apache-2.0 */
/* Why: what is no pickle is called clean by this answer alone. Each spelling that a loader takes is seen here to go on to the import
   after it, and each thing with which every loader fails to end there. That Python does the same, tests/attacks/polyglots.py says. */
#include "support_cmocka.h"

#include "pickle_follow.h"
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct following {
    const uint8_t *bytes;
    size_t size;
    bool fails;
} following;

static coffer_status read_bytes(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const following *in = ctx;
    assert_true(size > 0 && offset <= in->size && size <= in->size - offset);
    if (in->fails) {
        *err = (coffer_error){ .code = COFFER_ERR_IO, .offset = COFFER_NO_OFFSET, .message = "no" };
        return COFFER_ERR_IO;
    }
    memcpy(bytes, in->bytes + offset, size);
    return COFFER_OK;
}

static coffer__followed follow(const void *bytes, size_t size, uint64_t from)
{
    following in = { bytes, size, false };
    const coffer__pickle_bytes stream = { &in, read_bytes, size };
    coffer__followed followed;
    coffer_error err;
    assert_int_equal(coffer__pickle_follow(&followed, &stream, from, coffer_libc_allocator(), &err), COFFER_OK);
    return followed;
}

#define FOLLOW(literal) follow(literal, sizeof(literal) - 1, 0)

typedef struct piece {
    const char *bytes;
    size_t size;
} piece;

#define PIECE(literal)                                                                                                 \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }

/* Before the import of os.system in each way that there is. */
static void expect_import(const piece *before)
{
    static const piece imports[] = {
        PIECE("cos\nsystem\n"),
        PIECE("(ios\nsystem\n"),
        PIECE("\x8c\2os\x8c\6system\x93"),
        PIECE("S'os'\nU\6system\x93"),
        PIECE("X\2\0\0\0osV\\u0073ystem\n\x93"),
        PIECE("T\2\0\0\0os\x8d\6\0\0\0\0\0\0\0system\x93"),
    };
    static const size_t at[] = { 0, 1, 12, 14, 20, 22 };
    for (size_t i = 0; i < sizeof imports / sizeof imports[0]; i++) {
        char stream[256];
        memcpy(stream, before->bytes, before->size);
        memcpy(stream + before->size, imports[i].bytes, imports[i].size);
        const coffer__followed followed = follow(stream, before->size + imports[i].size, 0);
        if (followed.outcome != COFFER__FOLLOWED_TO_IMPORT || followed.offset != before->size + at[i]) {
            fail_msg("\"%s\" and import %zu: %d at %u", before->bytes, i, (int)followed.outcome,
                     (unsigned)followed.offset);
        }
        assert_string_equal(followed.name, i < 2 ? "os.system" : "");
    }
}

static void test_what_loaders_go_on_after(void **state)
{
    (void)state;
    static const piece before[] = {
        PIECE(""),
        PIECE("\x80\0"),
        PIECE("\x80\5"),
        PIECE("I0x10\n"),
        PIECE("I 5\n"),
        PIECE("I010\n"),
        PIECE("I\0x\n"),
        PIECE("I5\0x\n"),
        PIECE("I0b1_1\n"),
        PIECE("L1_000L\n"),
        PIECE("L 7 \n"),
        PIECE("Finfinity\n"),
        PIECE("F-NaN\n"),
        PIECE("F 1_0.5e-3\n"),
        PIECE("Np00001\n"),
        PIECE("Np+1 \n"),
        PIECE("Nr\xff\xff\xff\xff"),
        PIECE("N\x94h\0"),
        PIECE("Nq\7g 7\n"),
        PIECE("\x96\1\0\0\0\0\0\0\0aK\1a"),
        PIECE("\x96\1\0\0\0\0\0\0\0aK\0K\1s"),
        PIECE("]K\1aK\0K\2s"),
        PIECE("]Nb"),
        PIECE("])b"),
        PIECE("N(e"),
        PIECE("N(u"),
        PIECE("N(\x90"),
        PIECE("NNNs"),
        PIECE("(0"),
        PIECE("N(NN1"),
        PIECE("(NNt"),
        PIECE("\x95\2\0\0\0\0\0\0\0K\1"),
        PIECE("\x95\xff\xff\xff\xff\0\0\0\0"),
        PIECE("\x95\xff\xff\xff\xff\0\0\0\0\x95\0\0\0\0\0\0\0\0"),
        PIECE("\x8b\0\0\0\0"),
        PIECE("S'\\x4f'\n"),
        PIECE("S\"a'\"\n"),
        PIECE("V\\u00\n"),
        PIECE("X\1\0\0\0\xff"),
        PIECE("\x97"),
        PIECE("C\1a\x98"),
        PIECE("Psome id\n"),
        PIECE("NQ"),
        PIECE("\x82\1"),
        PIECE("\x83\1\0"),
        PIECE("\x84\1\0\0\0"),
        PIECE("N."),
        PIECE("N.N."),
    };
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        expect_import(&before[i]);
    }
}

static void test_what_every_loader_stops_at(void **state)
{
    (void)state;
    static const piece streams[] = {
        PIECE(""),
        PIECE("\xff"
              "cos\nsystem\n"),
        PIECE("\x80\6cos\nsystem\n"),
        PIECE("0cos\nsystem\n"),
        PIECE("1cos\nsystem\n"),
        PIECE("2cos\nsystem\n"),
        PIECE("tcos\nsystem\n"),
        PIECE("N(acos\nsystem\n"),
        PIECE("NNscos\nsystem\n"),
        PIECE("N\x86"
              "cos\nsystem\n"),
        PIECE("(ecos\nsystem\n"),
        PIECE("N(p0\ncos\nsystem\n"),
        PIECE("h\0cos\nsystem\n"),
        PIECE("NNRcos\nsystem\n"),
        PIECE("NN\x81"
              "cos\nsystem\n"),
        PIECE("(Nocos\nsystem\n"),
        PIECE("Ione\ncos\nsystem\n"),
        PIECE("I\ncos\nsystem\n"),
        PIECE("Np\0\ncos\nsystem\n"),
        PIECE("Fone\ncos\nsystem\n"),
        PIECE("S'a\"\ncos\nsystem\n"),
        PIECE("P\xff\ncos\nsystem\n"),
        PIECE("\x82\0cos\nsystem\n"),
        PIECE("\x84\xff\xff\xff\xff"
              "cos\nsystem\n"),
        PIECE("T\xff\xff\xff\xff"
              "cos\nsystem\n"),
        PIECE("\x95\xff\xff\xff\xff\xff\xff\xff\xff"
              "cos\nsystem\n"),
        PIECE("K\1K\2\x93."),
        PIECE("]U\1a\x93."),
        PIECE("c\nsystem\n"),
        PIECE("co\0s\nsystem\n"),
        PIECE("c\xff\nsystem\n"),
        PIECE("cos\n\xff\n"),
        PIECE("class of 2026\nand others\n"),
        PIECE("import this\nand others\n"),
        PIECE(".cos\nsystem\n"),
    };
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        if (follow(streams[i].bytes, streams[i].size, 0).outcome != COFFER__FOLLOWED_TO_END) {
            fail_msg("stream %zu, \"%s\", is followed further", i, streams[i].bytes);
        }
    }
}

/* Only the program knows what these are: a call of them is one of what it imported. */
static void test_calls_of_what_was_given(void **state)
{
    (void)state;
    assert_int_equal(FOLLOW("Pid\n)R.").offset, 5);
    assert_int_equal(FOLLOW("\x97)R.").outcome, COFFER__FOLLOWED_TO_IMPORT);
    assert_int_equal(FOLLOW("(\x82\1o.").outcome, COFFER__FOLLOWED_TO_IMPORT);
    /* A pickle that is but an extension has imported it. */
    assert_int_equal(FOLLOW("\x82\1.").outcome, COFFER__FOLLOWED_TO_IMPORT);
    assert_int_equal(FOLLOW("\x82\1\xff").outcome, COFFER__FOLLOWED_TO_END);
}

/* C drops what is left of a frame that an opcode reaches out of, Python's twin reads it as a whole: what comes then, nobody can
   follow for both. */
static void test_frames_that_are_left(void **state)
{
    (void)state;
    /* A pickle that ends before its frame, an opcode, a length, a payload and lines that leave it, a frame within. */
    assert_int_equal(FOLLOW("\x95\4\0\0\0\0\0\0\0N.\xff\xff"
                            "cos\nsystem\n")
                         .outcome,
                     COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\2\0\0\0\0\0\0\0J1\xff\xff\xff\xff").outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\2\0\0\0\0\0\0\0X\1\0\0\0a\xff").outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\3\0\0\0\0\0\0\0U\2ab\xff").outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\3\0\0\0\0\0\0\0Ixx5\n\xff").outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\5\0\0\0\0\0\0\0cos\n\xffsystem\n\xff").outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(FOLLOW("\x95\2\0\0\0\0\0\0\0N\x95\2\0\0\0\0\0\0\0\xff\xff\xff").outcome,
                     COFFER__FOLLOWED_TO_LIMIT);
    /* One that is kept, and one that is the rest of the stream. */
    assert_int_equal(FOLLOW("\x95\2\0\0\0\0\0\0\0N.\xff").outcome, COFFER__FOLLOWED_TO_END);
    assert_int_equal(FOLLOW("\x95\3\0\0\0\0\0\0\0N.\xff").outcome, COFFER__FOLLOWED_TO_END);
}

static void test_the_first_import_from_a_byte_on(void **state)
{
    (void)state;
    static const char stream[] = "ca\nb\n)R0cc\nd\n.";
    assert_int_equal(follow(stream, sizeof stream - 1, 0).offset, 0);
    assert_int_equal(follow(stream, sizeof stream - 1, 1).offset, 6);
    assert_int_equal(follow(stream, sizeof stream - 1, 7).offset, 8);
    assert_string_equal(follow(stream, sizeof stream - 1, 7).name, "c.d");
    assert_int_equal(follow(stream, sizeof stream - 1, 9).outcome, COFFER__FOLLOWED_TO_END);
}

static void test_names_that_are_cut(void **state)
{
    (void)state;
    char stream[700] = "c";
    memset(stream + 1, 'a', sizeof stream - 1);
    coffer__followed followed = follow(stream, sizeof stream, 0);
    assert_int_equal(followed.outcome, COFFER__FOLLOWED_TO_IMPORT);
    assert_false(followed.cut);
    assert_true(strlen(followed.name) < COFFER__FOLLOWED_NAME);
    stream[200] = '\n';
    assert_true(strlen(follow(stream, sizeof stream, 0).name) < COFFER__FOLLOWED_NAME);
    followed = FOLLOW("cos\nsystem");
    assert_int_equal(followed.outcome, COFFER__FOLLOWED_TO_IMPORT);
    assert_true(followed.cut);
    assert_true(FOLLOW("cos").cut);
    assert_false(FOLLOW("cos\nsystem\n").cut);
}

static void test_limits(void **state)
{
    (void)state;
    const size_t size = ((size_t)64 << 10) + 2;
    char *marks = malloc(size);
    assert_non_null(marks);
    memset(marks, '(', size);
    assert_int_equal(follow(marks, size, 0).outcome, COFFER__FOLLOWED_TO_LIMIT);
    assert_int_equal(follow(marks, size - 2, 0).outcome, COFFER__FOLLOWED_TO_END);
    assert_true(follow(marks, size - 2, 0).ran_out);
    assert_false(FOLLOW("\xff").ran_out);
    free(marks);
    /* More values than are remembered by kind: those below may be texts. */
    char stream[200];
    memset(stream, 'N', 100);
    memset(stream + 100, '0', 98);
    stream[198] = '\x93';
    assert_int_equal(follow(stream, 199, 0).outcome, COFFER__FOLLOWED_TO_IMPORT);
}

static void test_failures(void **state)
{
    (void)state;
    following in = { (const uint8_t *)"(N", 2, true };
    const coffer__pickle_bytes stream = { &in, read_bytes, 2 };
    coffer__followed followed;
    coffer_error err;
    assert_int_equal(coffer__pickle_follow(&followed, &stream, 0, coffer_libc_allocator(), &err), COFFER_ERR_IO);
    assert_string_equal(err.message, "no");
    in.fails = false;
    for (size_t i = 1; i <= 3; i++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = i;
        assert_int_equal(coffer__pickle_follow(&followed, &stream, 0, &allocator, &err), COFFER_ERR_MEMORY);
        assert_int_equal(meter.held, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_loaders_go_on_after),
        cmocka_unit_test(test_what_every_loader_stops_at),
        cmocka_unit_test(test_calls_of_what_was_given),
        cmocka_unit_test(test_frames_that_are_left),
        cmocka_unit_test(test_the_first_import_from_a_byte_on),
        cmocka_unit_test(test_names_that_are_cut),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
