/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the pickle machine stands between a stranger's file and everything else. Each refusal is seen here at its byte, each opcode
   by what it builds, and what memory and a failing reader do to it. That it builds what Python builds, the tests in Python
   say (test_convert_pickle.py). */
#include "support_cmocka.h"

#include "pickle.h"
#include "pickle_machine.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET ((uint64_t)16 << 20)

/* A stream in memory, and what happened while it was run. */
typedef struct running {
    const uint8_t *bytes;
    size_t size;
    size_t fail_from; /* reads of bytes from here on fail; 0: none does */
    size_t largest;   /* read at once */
    uint32_t seen[32];
    size_t seen_count;
    size_t stop_after; /* things that are told; 0: never */
    coffer__pickle *pickle;
    coffer_error err;
    uint64_t end;
} running;

static coffer_status read_bytes(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    running *in = ctx;
    assert_true(size > 0 && offset <= in->size && size <= in->size - offset);
    if (in->fail_from > 0 && offset + size > in->fail_from) {
        *err = (coffer_error){ .code = COFFER_ERR_IO, .offset = COFFER_NO_OFFSET, .message = "no" };
        return COFFER_ERR_IO;
    }
    in->largest = size > in->largest ? size : in->largest;
    memcpy(bytes, in->bytes + offset, size);
    return COFFER_OK;
}

static coffer_status see(void *ctx, const coffer__pickle *pickle, coffer__value value, coffer_error *err)
{
    running *in = ctx;
    (void)pickle;
    if (in->stop_after > 0 && in->seen_count == in->stop_after) {
        *err = (coffer_error){ .code = COFFER_ERR_CANCELLED, .offset = COFFER_NO_OFFSET, .message = "enough" };
        return COFFER_ERR_CANCELLED;
    }
    if (in->seen_count < sizeof in->seen / sizeof in->seen[0]) {
        in->seen[in->seen_count] = value;
    }
    in->seen_count++;
    return COFFER_OK;
}

static coffer_status run_with(running *in, const coffer_allocator *allocator, uint64_t budget)
{
    const coffer__pickle_bytes bytes = { in, read_bytes, in->size };
    const coffer__pickle_watch watch = { .ctx = in, .seen = see };
    return coffer__pickle_run(&in->pickle, &bytes, 0, allocator, budget, &watch, &in->end, &in->err);
}

static coffer_status run(running *in, const void *bytes, size_t size)
{
    memset(in, 0, sizeof *in);
    in->bytes = bytes;
    in->size = size;
    return run_with(in, coffer_libc_allocator(), BUDGET);
}

/* Runs a literal without its NUL. */
#define RUN(in, literal) run(in, literal, sizeof(literal) - 1)

static const coffer__node *root_of(const running *in)
{
    return coffer__pickle_node(in->pickle, coffer__pickle_root(in->pickle));
}

static const coffer__node *item_of(const running *in, const coffer__node *node, size_t i)
{
    uint32_t link = node->first;
    coffer__value value = coffer__pickle_item(in->pickle, &link);
    for (; i > 0; i--) {
        value = coffer__pickle_item(in->pickle, &link);
    }
    return coffer__pickle_node(in->pickle, value);
}

static void expect_bytes(const running *in, coffer__value value, const char *expected, size_t size)
{
    size_t actual = 0;
    const char *bytes = coffer__pickle_bytes_of(in->pickle, value, &actual);
    assert_non_null(bytes);
    assert_int_equal(actual, size);
    assert_memory_equal(bytes, expected, size + 1);
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *stream;
    size_t size;
    uint64_t at;
    const char *what;
} refusal;

#define REFUSAL(literal, at, what)                                                                                     \
    {                                                                                                                  \
        literal, sizeof(literal) - 1, at, what                                                                         \
    }

static const refusal refusals[] = {
    REFUSAL("", 0, "without STOP"),
    REFUSAL("N", 1, "without STOP"),
    REFUSAL("\x80", 0, "middle of an opcode"),
    REFUSAL("\x80\x06N.", 0, "a protocol above 5"),
    REFUSAL(".", 0, "the stack is empty"),
    REFUSAL("N(.", 2, "a mark in its place"),
    REFUSAL("\xff", 0, "0xff is no opcode"),
    REFUSAL("Nt.", 1, "a mark is missing"),
    REFUSAL("1.", 0, "a mark is missing"),
    REFUSAL("0.", 0, "the stack is empty"),
    REFUSAL("2.", 0, "the stack is empty"),
    REFUSAL("N(2.", 2, "a mark in its place"),
    REFUSAL("\x85.", 0, "more items"),
    REFUSAL("N\x86.", 1, "more items"),
    REFUSAL("NN(N\x87.", 4, "more items"),
    REFUSAL("Na.", 1, "too few values"),
    REFUSAL("](Na.", 3, "too few values"),
    REFUSAL("}Ns.", 2, "too few values"),
    REFUSAL("(e.", 1, "nothing to add them to"),
    REFUSAL("}(Nu.", 3, "a key has no value"),
    REFUSAL("(Nd.", 2, "a key has no value"),
    REFUSAL("NNa.", 2, "takes none of the kind"),
    REFUSAL("}Na.", 2, "takes none of the kind"),
    REFUSAL("]NNs.", 3, "takes none of the kind"),
    REFUSAL("](N\x90.", 3, "takes none of the kind"),
    REFUSAL("ca\nb\n)RNaNNs.", 11, "takes none of the kind"),
    REFUSAL("Nq", 1, "middle of an opcode"),
    REFUSAL("q\0.", 0, "the stack is empty"),
    REFUSAL("Np-1\n.", 1, "negative"),
    REFUSAL("Np4294967296\n.", 1, "above 4294967295"),
    REFUSAL("Npx\n.", 1, "decimal digits"),
    REFUSAL("h\0.", 0, "never put there"),
    REFUSAL("Nq\x01h\0.", 3, "never put there"),
    REFUSAL("j\xff\xff\xff\xff.", 0, "never put there"),
    REFUSAL("J\0\0\0", 0, "middle of an opcode"),
    REFUSAL("\x8b\xff\xff\xff\xff.", 0, "negative"),
    REFUSAL("\x8b\xff\xff\xff\x7f.", 0, "middle of an opcode"),
    REFUSAL("\x8a\x09\0\0\0\0.", 0, "middle of an opcode"),
    REFUSAL("I1", 0, "middle of an opcode"),
    REFUSAL("I\n.", 0, "decimal digits"),
    REFUSAL("I-\n.", 0, "decimal digits"),
    REFUSAL("I0x1\n.", 0, "decimal digits"),
    REFUSAL("L01L\n.", 0, "decimal digits"),
    REFUSAL("Fx\n.", 0, "a number should be here"),
    REFUSAL("F1e\n.", 0, "a number should be here"),
    REFUSAL("F.\n.", 0, "a number should be here"),
    REFUSAL("X\1\0\0\0\xff.", 0, "not UTF-8"),
    REFUSAL("X\2\0\0\0a", 0, "middle of an opcode"),
    REFUSAL("\x8d\0\0\0\0\0\0\0\x80", 0, "middle of an opcode"),
    REFUSAL("\x96\xff\xff\xff\xff\xff\xff\xff\xff", 0, "middle of an opcode"),
    REFUSAL("T\xff\xff\xff\xff", 0, "middle of an opcode"),
    REFUSAL("Sabc\n.", 0, "quotes"),
    REFUSAL("S'abc\"\n.", 0, "quotes"),
    REFUSAL("S'\\x4'\n.", 0, "escape"),
    REFUSAL("V\\u12\n.", 0, "escape"),
    REFUSAL("V\\U00110000\n.", 0, "escape"),
    REFUSAL("cos\nsystem", 0, "middle of an opcode"),
    REFUSAL("c\xff\nx\n.", 0, "not UTF-8"),
    REFUSAL("NN\x93.", 2, "not plain texts"),
    REFUSAL("\x8c\1aN\x93.", 4, "not plain texts"),
    REFUSAL("C\1a\x8c\1b\x93.", 6, "not plain texts"),
    REFUSAL("X\3\0\0\0\xed\xa0\x80\x8c\1b\x93.", 11, "not plain texts"),
    REFUSAL("N)R.", 2, "cannot be"),
    REFUSAL("ca\nb\nNR.", 6, "cannot be"),
    REFUSAL("ca\nb\n)N\x92.", 7, "cannot be"),
    REFUSAL("NNb.", 2, "has none"),
    REFUSAL("}Nb.", 2, "has none"),
    REFUSAL("P\xc3\xa9\n.", 0, "not ASCII"),
    REFUSAL("ica\nb\n.", 0, "a mark is missing"),
    REFUSAL("\x82\1.", 0, "EXT"),
    REFUSAL("\x83\1\0.", 0, "EXT"),
    REFUSAL("\x84\1\0\0\0.", 0, "EXT"),
    REFUSAL("\x97.", 0, "out of band"),
    REFUSAL("N\x98.", 1, "out of band"),
    REFUSAL("\x95\2\0\0\0\0\0\0\0N", 0, "past the end"),
    REFUSAL("\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", 0, "past the end"),
    REFUSAL("\x95\x0b\0\0\0\0\0\0\0\x95\2\0\0\0\0\0\0\0N.", 9, "within another"),
    REFUSAL("\x95\2\0\0\0\0\0\0\0M\0\0N.", 9, "out of its frame"),
    REFUSAL("(o.", 1, "no class"),
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *row = &refusals[i];
        running in;
        char place[48];
        const coffer_status status = run(&in, row->stream, row->size);
        snprintf(place, sizeof place, "at byte %u of the pickle, ", (unsigned)row->at);
        if ((status != COFFER_ERR_PICKLE || in.err.code != status || in.err.offset != row->at ||
             strstr(in.err.message, place) == NULL || strstr(in.err.message, row->what) == NULL)) {
            fail_msg("%zu, \"%s\": %s at %u: %s", i, row->what, coffer_status_name(status), (unsigned)in.err.offset,
                     in.err.message);
        }
        coffer__pickle_free(in.pickle);
    }
}

/* INST and OBJ call, as REDUCE does, with what is above the mark. */
static void test_calls_of_python_2(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "N(K\1ios\nsystem\n\x86."), COFFER_OK);
    assert_int_equal(in.seen_count, 2);
    assert_string_equal(coffer__pickle_module(in.pickle, in.seen[0]), "os");
    const coffer__node *call = coffer__pickle_node(in.pickle, in.seen[1]);
    assert_int_equal(call->kind, COFFER__VALUE_CALL);
    assert_int_equal(item_of(&in, item_of(&in, call, 1), 0)->as.integer, 1);
    assert_ptr_equal(item_of(&in, root_of(&in), 1), call);
    coffer__pickle_free(in.pickle);
    assert_int_equal(RUN(&in, "N(cos\nsystem\nK\1o\x86."), COFFER_OK);
    assert_int_equal(in.seen_count, 2);
    call = coffer__pickle_node(in.pickle, in.seen[1]);
    assert_int_equal(item_of(&in, call, 1)->count, 1);
    assert_ptr_equal(item_of(&in, root_of(&in), 1), call);
    assert_int_equal(item_of(&in, root_of(&in), 0)->kind, COFFER__VALUE_NONE);
    coffer__pickle_free(in.pickle);
}

/* ---- values ---- */

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *stream;
        size_t size;
        int64_t value;
    } rows[] = {
        { "K\xff.", 3, 255 },
        { "M\xff\xff.", 4, 65535 },
        { "J\xff\xff\xff\xff.", 6, -1 },
        { "J\0\0\0\x80.", 6, INT32_MIN },
        { "\x8a\0.", 3, 0 },
        { "\x8a\1\xff.", 4, -1 },
        { "\x8a\x02\xff\0.", 5, 255 },
        { "\x8a\x08\0\0\0\0\0\0\0\x80.", 11, INT64_MIN },
        { "\x8b\3\0\0\0\1\2\3.", 9, 0x030201 },
        { "I-9223372036854775808\n.", 23, INT64_MIN },
        { "L9223372036854775807L\n.", 23, INT64_MAX },
        { "I0\n.", 4, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        running in;
        assert_int_equal(run(&in, rows[i].stream, rows[i].size), COFFER_OK);
        assert_int_equal(root_of(&in)->kind, COFFER__VALUE_INT);
        assert_true(root_of(&in)->as.integer == rows[i].value);
        assert_int_equal(in.end, rows[i].size);
        coffer__pickle_free(in.pickle);
    }
    running in;
    static const char *const big[] = { "I9223372036854775808\n.", "L-9223372036854775809L\n.",
                                       "\x8a\x09\1\1\1\1\1\1\1\1\1." };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(run(&in, big[i], strlen(big[i])), COFFER_OK);
        assert_int_equal(root_of(&in)->kind, COFFER__VALUE_BIG);
        coffer__pickle_free(in.pickle);
    }
    assert_int_equal(RUN(&in, "I01\n."), COFFER_OK);
    assert_int_equal(root_of(&in)->kind, COFFER__VALUE_BOOL);
    coffer__pickle_free(in.pickle);
}

/* Numbers in decimal are the doubles that strtod makes of them, to the last bit. */
static void test_reals(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "0",
        "-0.0",
        "1",
        ".5",
        "5.",
        "1e3",
        "-1.5E-3",
        "0.1",
        "3.141592653589793",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740992.5",
        "4.9e-324",
        "2.47e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1e-400",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e309",
        "1e1000000000000",
        "1e-99999999999999999999",
        "123456789012345678901234567890",
        "0.00000000000000000000000000001",
        "8.41e+21",
        "5e-324",
        "7.8459735791271921e+65",
        "inf",
        "-inf",
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double actual = 0;
        const double expected = strtod(numbers[i], NULL);
        assert_true(coffer__pickle_read_real(numbers[i], strlen(numbers[i]), &actual));
        if (memcmp(&actual, &expected, sizeof actual) != 0) {
            fail_msg("%s: %a, not %a", numbers[i], actual, expected);
        }
    }
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < 20000; i++) {
        char text[40];
        double real = 0;
        double actual = 0;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(&real, &seed, sizeof real);
        if (real != real) {
            continue;
        }
        snprintf(text, sizeof text, "%.17g", real);
        assert_true(coffer__pickle_read_real(text, strlen(text), &actual));
        if (memcmp(&actual, &real, sizeof real) != 0) {
            fail_msg("%s: %a, not %a", text, actual, real);
        }
    }
}

static void test_text_and_bytes(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "(\x8c\2\xc3\xa9"
                              "C\2\0\xff"
                              "U\1a"
                              "S'\\x41\\'\\101\\q'\n"
                              "V\xe9\\u20ac\\\\u0041\n"
                              "t."),
                     COFFER_OK);
    const coffer__node *all = root_of(&in);
    assert_int_equal(all->count, 5);
    uint32_t link = all->first;
    expect_bytes(&in, coffer__pickle_item(in.pickle, &link), "\xc3\xa9", 2);
    expect_bytes(&in, coffer__pickle_item(in.pickle, &link), "\0\xff", 2);
    const coffer__value python2 = coffer__pickle_item(in.pickle, &link);
    expect_bytes(&in, python2, "a", 1);
    assert_true(coffer__pickle_node(in.pickle, python2)->python2);
    expect_bytes(&in, coffer__pickle_item(in.pickle, &link), "A'A\\q", 5);
    expect_bytes(&in, coffer__pickle_item(in.pickle, &link), "\xc3\xa9\xe2\x82\xac\\\\u0041", 12);
    assert_int_equal(link, 0);
    coffer__pickle_free(in.pickle);
}

/* What is long is not read, only remembered by its place; the window is all that is ever read at once. */
static void test_long_bytes_are_places(void **state)
{
    (void)state;
    const size_t size = 300000;
    uint8_t *stream = calloc(size + 6, 1);
    assert_non_null(stream);
    stream[0] = 'B';
    stream[1] = (uint8_t)size;
    stream[2] = (uint8_t)(size >> 8);
    stream[3] = (uint8_t)(size >> 16);
    stream[size + 5] = '.';
    running in;
    assert_int_equal(run(&in, stream, size + 6), COFFER_OK);
    size_t kept = 0;
    assert_null(coffer__pickle_bytes_of(in.pickle, coffer__pickle_root(in.pickle), &kept));
    assert_int_equal(root_of(&in)->as.bytes.at, 5);
    assert_int_equal(root_of(&in)->as.bytes.size, size);
    assert_true(in.largest <= COFFER__PICKLE_WINDOW);
    coffer__pickle_free(in.pickle);
    free(stream);
}

static void test_latin1(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "c_codecs\nencode\n(X\4\0\0\0\xc3\xbf\x41\x00X\6\0\0\0latin1tR."), COFFER_OK);
    assert_int_equal(root_of(&in)->kind, COFFER__VALUE_BYTES);
    assert_true(root_of(&in)->as.bytes.latin1);
    assert_int_equal(root_of(&in)->as.bytes.size, 4);
    expect_bytes(&in, coffer__pickle_root(in.pickle), "\xff\x41\x00", 3);
    coffer__pickle_free(in.pickle);
    assert_int_equal(RUN(&in, "c_codecs\nencode\n(X\2\0\0\0\xc4\x80X\6\0\0\0latin1tR."), COFFER_ERR_PICKLE);
    assert_non_null(strstr(in.err.message, "above 255"));
    coffer__pickle_free(in.pickle);
    /* Any other encoding is a call like others. */
    assert_int_equal(RUN(&in, "c_codecs\nencode\n(X\1\0\0\0aX\4\0\0\0utf8tR."), COFFER_OK);
    assert_int_equal(root_of(&in)->kind, COFFER__VALUE_CALL);
    coffer__pickle_free(in.pickle);
}

/* ---- containers and calls ---- */

static void test_an_ordered_dict_with_metadata(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "\x80\2ccollections\nOrderedDict\nq\0)Rq\1(X\1\0\0\0aK\1X\1\0\0\0aK\2u}X\1\0\0\0mNsb."),
                     COFFER_OK);
    const coffer__node *dict = root_of(&in);
    assert_int_equal(dict->kind, COFFER__VALUE_CALL);
    assert_int_equal(dict->count, 2);
    assert_int_equal(coffer__pickle_node(in.pickle, coffer__node_state(dict))->kind, COFFER__VALUE_DICT);
    assert_int_equal(coffer__pickle_node(in.pickle, coffer__node_attributes(dict))->count, 4);
    /* Of a key that comes twice the last value counts. */
    const coffer__value found = coffer__pickle_get(in.pickle, coffer__pickle_root(in.pickle), "a");
    assert_int_equal(coffer__pickle_node(in.pickle, found)->as.integer, 2);
    assert_int_equal(coffer__pickle_get(in.pickle, coffer__pickle_root(in.pickle), "m"), 0);
    assert_int_equal(in.seen_count, 3); /* the name, the call, the state; not the items */
    coffer__pickle_free(in.pickle);
}

static void test_names_of_python_2(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        { "c__builtin__\neval\n.", "builtins", "eval" },
        { "c__builtin__\nxrange\n.", "builtins", "range" },
        { "ccopy_reg\n_reconstructor\n.", "copyreg", "_reconstructor" },
        { "ctorch.tensor\nx\n.", "torch._tensor", "x" },
        { "cos\nsystem\n.", "os", "system" },
        { "ccommands\ngetoutput\n.", "subprocess", "getoutput" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        running in;
        assert_int_equal(run(&in, rows[i][0], strlen(rows[i][0])), COFFER_OK);
        assert_string_equal(coffer__pickle_module(in.pickle, coffer__pickle_root(in.pickle)), rows[i][1]);
        assert_string_equal(coffer__pickle_name(in.pickle, coffer__pickle_root(in.pickle)), rows[i][2]);
        coffer__pickle_free(in.pickle);
    }
}

static void test_items_of_names_are_told(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "cos\nenviron\n\x8c\1A\x8c\1Bs."), COFFER_OK);
    assert_int_equal(in.seen_count, 2);
    assert_int_equal(in.seen[0], in.seen[1]);
    assert_int_equal(coffer__pickle_node(in.pickle, coffer__node_attributes(root_of(&in)))->count, 2);
    coffer__pickle_free(in.pickle);
}

/* What a stream repeats is a number, not a copy: sixty doublings take a few hundred nodes. */
static void test_repeating_costs_nothing(void **state)
{
    (void)state;
    uint8_t stream[512] = { ']' };
    size_t size = 1;
    for (size_t i = 0; i < 60; i++) {
        stream[size++] = '2';
        stream[size++] = 0x86;
    }
    stream[size++] = '.';
    running in;
    assert_int_equal(run(&in, stream, size), COFFER_OK);
    assert_int_equal(coffer__pickle_count(in.pickle), 61);
    coffer__pickle_free(in.pickle);
}

static void test_a_cycle(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "]q\0h\0a."), COFFER_OK);
    assert_int_equal(root_of(&in)->count, 1);
    assert_ptr_equal(item_of(&in, root_of(&in), 0), root_of(&in));
    coffer__pickle_free(in.pickle);
}

/* ---- bounds ---- */

/* An index of the memo is the file's choice, and sizes nothing: the largest takes a few pages. */
static void test_the_memo_is_sparse(void **state)
{
    (void)state;
    running in;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    memset(&in, 0, sizeof in);
    in.bytes = (const uint8_t *)"Nr\xff\xff\xff\xff"
                                "r\0\0\0\x80"
                                "0j\xff\xff\xff\xff.";
    in.size = 18;
    assert_int_equal(run_with(&in, &allocator, BUDGET), COFFER_OK);
    assert_int_equal(root_of(&in)->kind, COFFER__VALUE_NONE);
    assert_true(meter.peak < 200000);
    coffer__pickle_free(in.pickle);
    assert_int_equal(meter.held, 0);
}

static void test_the_budget(void **state)
{
    (void)state;
    static uint8_t stream[40000];
    memset(stream, ']', sizeof stream);
    running in = { .bytes = stream, .size = sizeof stream };
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    assert_int_equal(run_with(&in, &allocator, 100000), COFFER_ERR_MEMORY);
    assert_true(in.err.offset > 0 && in.err.offset < sizeof stream);
    assert_true(coffer__pickle_count(in.pickle) > 500);
    assert_int_equal(coffer__pickle_root(in.pickle), 1);
    assert_true(meter.held < 100000 + sizeof(struct coffer__pickle));
    coffer__pickle_free(in.pickle);
    assert_int_equal(meter.held, 0);
}

static const char whole[] = "\x80\4}\x94(\x8c\1a\x94]\x94(K\1M\1\1\x8c\2os\x8c\6system\x93\x8c\1x\x85R}bN\x88"
                            "e\x8c\1b(C\1x\x8f(K\1\x90(K\2\x91G@\0\0\0\0\0\0\0tu.";

/* Whichever allocation fails, it is a failure that leaves nothing behind. */
static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        running in = { .bytes = (const uint8_t *)whole, .size = sizeof whole - 1 };
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = i;
        const coffer_status status = run_with(&in, &allocator, BUDGET);
        coffer__pickle_free(in.pickle);
        assert_int_equal(meter.held, 0);
        if (meter.requests < i) {
            assert_int_equal(status, COFFER_OK);
            assert_true(i > 2);
            return;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_int_equal(in.err.code, COFFER_ERR_MEMORY);
    }
}

/* A reader that fails is not blamed on the pickle, wherever it does. */
static void test_a_reader_that_fails(void **state)
{
    (void)state;
    static uint8_t stream[200000];
    memset(stream, 'N', sizeof stream);
    stream[sizeof stream - 1] = '.';
    for (size_t from = 1; from < sizeof stream; from += 70000) {
        running in = { .bytes = stream, .size = sizeof stream, .fail_from = from };
        assert_int_equal(run_with(&in, coffer_libc_allocator(), BUDGET), COFFER_ERR_IO);
        assert_string_equal(in.err.message, "no");
        coffer__pickle_free(in.pickle);
    }
}

static void test_who_watches_may_stop_it(void **state)
{
    (void)state;
    const char stream[] = "ca\nb\n)R)R)R.";
    running in = { .bytes = (const uint8_t *)stream, .size = sizeof stream - 1, .stop_after = 2 };
    assert_int_equal(run_with(&in, coffer_libc_allocator(), BUDGET), COFFER_ERR_CANCELLED);
    assert_int_equal(in.seen_count, 2);
    coffer__pickle_free(in.pickle);
}

/* What stands before a damage is there to be looked at. */
static void test_what_was_built_before_a_failure(void **state)
{
    (void)state;
    running in;
    assert_int_equal(RUN(&in, "](ca\nb\n)RK\1\xff"), COFFER_ERR_PICKLE);
    assert_int_equal(in.err.offset, 11);
    assert_int_equal(root_of(&in)->kind, COFFER__VALUE_LIST);
    assert_int_equal(in.seen_count, 2);
    assert_int_equal(coffer__pickle_count(in.pickle), 5);
    coffer__pickle_free(in.pickle);
}

/* A second pickle begins where the first one ended. */
static void test_from_an_offset(void **state)
{
    (void)state;
    const char stream[] = "K\1.K\2.";
    running in = { .bytes = (const uint8_t *)stream, .size = sizeof stream - 1 };
    const coffer__pickle_bytes bytes = { &in, read_bytes, in.size };
    assert_int_equal(coffer__pickle_run(&in.pickle, &bytes, 3, coffer_libc_allocator(), BUDGET, NULL, &in.end, &in.err),
                     COFFER_OK);
    assert_int_equal(root_of(&in)->as.integer, 2);
    assert_int_equal(root_of(&in)->offset, 3);
    assert_int_equal(in.end, 6);
    coffer__pickle_free(in.pickle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_calls_of_python_2),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_text_and_bytes),
        cmocka_unit_test(test_long_bytes_are_places),
        cmocka_unit_test(test_latin1),
        cmocka_unit_test(test_an_ordered_dict_with_metadata),
        cmocka_unit_test(test_names_of_python_2),
        cmocka_unit_test(test_items_of_names_are_told),
        cmocka_unit_test(test_repeating_costs_nothing),
        cmocka_unit_test(test_a_cycle),
        cmocka_unit_test(test_the_memo_is_sparse),
        cmocka_unit_test(test_the_budget),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_a_reader_that_fails),
        cmocka_unit_test(test_who_watches_may_stop_it),
        cmocka_unit_test(test_what_was_built_before_a_failure),
        cmocka_unit_test(test_from_an_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
