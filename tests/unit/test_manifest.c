/* SPDX-License-Identifier: Apache-2.0 */
/* Why: a manifest comes from wherever the model came from. What it says must be taken exactly as its tools take it, a name must
   never lead out of the model's folder, and whatever is changed in a signed one must be noticed. */
#include "support_cmocka.h"
#include "support_memory.h"

#include "coffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define XXH128_OF_NOTHING "99aa06d3014798d86001c324468d497f"

static coffer_status parse(coffer_manifest **manifest, const char *text, size_t size, coffer_error *err)
{
    /* At the end of its own memory, so that a sanitizer sees a byte too many. */
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    memset(err, 0x5A, sizeof *err);
    const coffer_status status = coffer_manifest_parse(manifest, copy, size, NULL, 0, coffer_libc_allocator(), err);
    free(copy);
    assert_true((status == COFFER_OK) == (*manifest != NULL));
    if (status != COFFER_OK) {
        assert_int_equal(err->code, status);
        assert_true(strlen(err->message) > 10);
    }
    return status;
}

static coffer_manifest *parsed(const char *text)
{
    coffer_error err;
    coffer_manifest *manifest = NULL;
    const coffer_status status = parse(&manifest, text, strlen(text), &err);
    if (status != COFFER_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return manifest;
}

static void refused(const char *text, coffer_status code, uint64_t offset)
{
    coffer_error err;
    coffer_manifest *manifest = NULL;
    const coffer_status status = parse(&manifest, text, strlen(text), &err);
    if (status != code || err.offset != offset) {
        fail_msg("%s: %d at %llu, not %d at %llu (%s)", text, (int)status, (unsigned long long)err.offset, (int)code,
                 (unsigned long long)offset, err.message);
    }
}

/* ---- Lines ---- */

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "# by hand\n" SHA256_OF_NOTHING "  a.safetensors\n"
                               "\n" XXH128_OF_NOTHING " *./sub//b.bin\r\n"
                               "\\" SHA256_OF_NOTHING "  n\\nl\\\\b\\r\n"
                               "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855   two spaces ";
    static const char *names[] = { "a.safetensors", "sub/b.bin", "n\nl\\b\r", " two spaces " };
    coffer_manifest *manifest = parsed(text);
    assert_int_equal(coffer_manifest_count(manifest), 4);
    assert_int_equal(coffer_manifest_format_of(manifest), COFFER_MANIFEST_LINES);
    for (size_t i = 0; i < 4; i++) {
        const coffer_manifest_entry *entry = coffer_manifest_at(manifest, i);
        assert_string_equal(entry->name, names[i]);
        assert_int_equal(entry->algorithm, i == 1 ? COFFER_XXH3_128 : COFFER_SHA256);
        assert_int_equal(entry->digest[0], i == 1 ? 0x99 : 0xe3);
        assert_int_equal(entry->digest[i == 1 ? 15 : 31], i == 1 ? 0x7f : 0x55);
    }
    assert_null(coffer_manifest_at(manifest, 4));
    coffer_manifest_free(manifest);
}

static void test_lines_that_are_none(void **state)
{
    (void)state;
    refused("", COFFER_ERR_MANIFEST, 0);
    refused("\n# nothing\n", COFFER_ERR_MANIFEST, 0);
    refused(SHA256_OF_NOTHING "  a\nhello\n", COFFER_ERR_MANIFEST, 68);
    refused(SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused(SHA256_OF_NOTHING "  ", COFFER_ERR_MANIFEST, 0);
    refused(SHA256_OF_NOTHING " a", COFFER_ERR_MANIFEST, 0);
    refused(SHA256_OF_NOTHING "\ta", COFFER_ERR_MANIFEST, 0);
    refused(SHA256_OF_NOTHING " ?a", COFFER_ERR_MANIFEST, 0);
    refused(" " SHA256_OF_NOTHING "  a", COFFER_ERR_MANIFEST, 0);
    refused("0" SHA256_OF_NOTHING "  a", COFFER_ERR_MANIFEST, 0);
    refused("\\" SHA256_OF_NOTHING "  a\\t", COFFER_ERR_MANIFEST, 0);
    refused("\\" SHA256_OF_NOTHING "  a\\", COFFER_ERR_MANIFEST, 0);
    refused("da39a3ee5e6b4b0d3255bfef95601890afd80709  a", COFFER_ERR_MANIFEST_ALGORITHM, 0); /* sha1sum's */
    refused(SHA256_OF_NOTHING SHA256_OF_NOTHING "  a", COFFER_ERR_MANIFEST_ALGORITHM, 0);     /* b2sum's */
}

static void one_name(const char *text, size_t size, const char *name, coffer_algorithm algorithm)
{
    coffer_error err;
    coffer_manifest *manifest = NULL;
    if (parse(&manifest, text, size, &err) != COFFER_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    const coffer_manifest_entry *entry = coffer_manifest_at(manifest, coffer_manifest_count(manifest) - 1);
    assert_string_equal(entry->name, name);
    assert_int_equal(entry->algorithm, algorithm);
    assert_int_equal(entry->digest[0], algorithm == COFFER_SHA256 ? 0xe3 : 0x99);
    coffer_manifest_free(manifest);
}

/* As sha256sum and xxhsum write them with --tag, and openssl dgst. */
static void test_tagged_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name;
        coffer_algorithm algorithm;
    } lines[] = {
        { "SHA256 (a.safetensors) = " SHA256_OF_NOTHING "\n", "a.safetensors", COFFER_SHA256 },
        { "SHA256 (sub/b) = " SHA256_OF_NOTHING "\r\n", "sub/b", COFFER_SHA256 },
        { "# tags\nXXH128 (b) = " XXH128_OF_NOTHING, "b", COFFER_XXH3_128 },
        { "SHA2-256(a)= " SHA256_OF_NOTHING "\n", "a", COFFER_SHA256 },
        { "SHA256(a)=" SHA256_OF_NOTHING "\n", "a", COFFER_SHA256 },
        { "SHA256 (we (ird)) = x) = " SHA256_OF_NOTHING "\n", "we (ird)) = x", COFFER_SHA256 },
        { "\\SHA256 (n\\nl\\\\) = " SHA256_OF_NOTHING "\n", "n\nl\\", COFFER_SHA256 },
        { SHA256_OF_NOTHING "  a\nSHA256 (b) = " SHA256_OF_NOTHING "\n", "b", COFFER_SHA256 },
        { SHA256_OF_NOTHING "  a (b) = c", "a (b) = c", COFFER_SHA256 },
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        one_name(lines[i].text, strlen(lines[i].text), lines[i].name, lines[i].algorithm);
    }
    refused("SHA512 (a) = " SHA256_OF_NOTHING SHA256_OF_NOTHING, COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("XXH3 (a) = b34d1a3ab2bece70", COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("MD5 (a) = d41d8cd98f00b204e9800998ecf8427e", COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("XXH128_LE (a) = " XXH128_OF_NOTHING, COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("sha256 (a) = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("(a) = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST_ALGORITHM, 0);
    refused("SHA256 (a) = " XXH128_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("SHA256 (a) = ", COFFER_ERR_MANIFEST, 0);
    refused("SHA256 (a) " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("SHA256 (a = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("SHA256 a) = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("SHA256 )a( = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("= " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("(= " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
    refused("SHA256 () = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST_NAME, 0);
    refused("SHA256 (../a) = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST_NAME, 0);
    refused("\\SHA256 (a\\t) = " SHA256_OF_NOTHING, COFFER_ERR_MANIFEST, 0);
}

/* As sha256sum -z writes them, with --tag and without: names stand for themselves. */
static void test_lines_that_end_with_nul(void **state)
{
    (void)state;
    static const char plain[] = SHA256_OF_NOTHING "  a\0" SHA256_OF_NOTHING "  n\nl\\n\r";
    static const char tagged[] = "SHA256 (a) = " SHA256_OF_NOTHING "\0SHA256 (n\nl) = " SHA256_OF_NOTHING;
    static const char lone[] = XXH128_OF_NOTHING " *a";
    one_name(plain, sizeof plain, "n\nl\\n\r", COFFER_SHA256);
    one_name(tagged, sizeof tagged, "n\nl", COFFER_SHA256);
    one_name(lone, sizeof lone, "a", COFFER_XXH3_128);
    static const struct {
        const char *text;
        size_t size;
        coffer_status code;
        uint64_t offset;
    } wrong[] = {
        { "", 1, COFFER_ERR_MANIFEST, 0 },
        { SHA256_OF_NOTHING "  a\0hello", 74, COFFER_ERR_MANIFEST, 68 },
        { "\\" SHA256_OF_NOTHING "  a\\n", 71, COFFER_ERR_MANIFEST, 0 },
        { SHA256_OF_NOTHING "  ../a", 71, COFFER_ERR_MANIFEST_NAME, 0 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        coffer_error err;
        coffer_manifest *manifest = NULL;
        assert_int_equal(parse(&manifest, wrong[i].text, wrong[i].size, &err), wrong[i].code);
        assert_int_equal(err.offset, wrong[i].offset);
    }
}

/* ---- Names ---- */

static const char *hostile_names[] = { "/etc/passwd", "..",  "../a",   "a/../../b", "a/..", "./..", "a/",
                                       ".//",         "//a", "a/./..", "./",        "a//",  "/" };

static void test_hostile_names(void **state)
{
    (void)state;
    char text[6000];
    for (size_t i = 0; i < sizeof hostile_names / sizeof hostile_names[0]; i++) {
        snprintf(text, sizeof text, "%s  ok\n%s  %s\n", SHA256_OF_NOTHING, SHA256_OF_NOTHING, hostile_names[i]);
        refused(text, COFFER_ERR_MANIFEST_NAME, 69);
    }
    refused(SHA256_OF_NOTHING "  a\n" SHA256_OF_NOTHING "  ./a\n", COFFER_ERR_MANIFEST_NAME, COFFER_NO_OFFSET);
    refused(SHA256_OF_NOTHING "  a\n" XXH128_OF_NOTHING "  a\n", COFFER_ERR_MANIFEST_NAME, COFFER_NO_OFFSET);
    memset(text, 'x', sizeof text);
    memcpy(text, SHA256_OF_NOTHING "  ", 66);
    text[66 + 4096] = '\0';
    refused(text, COFFER_ERR_MANIFEST_NAME, 0);
    text[66 + 4095] = '\0';
    coffer_manifest_free(parsed(text));
    memcpy(text, SHA256_OF_NOTHING "  a\0b", 70);
    coffer_error err;
    coffer_manifest *manifest = NULL;
    assert_int_equal(parse(&manifest, text, 69, &err), COFFER_ERR_MANIFEST_NAME);
    assert_int_equal(err.offset, 0);
}

/* A long name with little in it is that name, and never a part of it that happens to fit. */
static void test_long_names(void **state)
{
    (void)state;
    enum { DOTS = 9000 };
    static char text[2 * DOTS + 200];
    const char *const begins[] = { SHA256_OF_NOTHING "  ab", "\\" SHA256_OF_NOTHING "  ab" };
    for (size_t i = 0; i < 2; i++) {
        const size_t len = strlen(begins[i]);
        memcpy(text, begins[i], len + 1);
        for (size_t k = 0; k < DOTS; k++) {
            memcpy(text + len + 2 * k, "/.", 3);
        }
        strcat(text, "/c\n");
        if (i == 1) {
            refused(text, COFFER_ERR_MANIFEST_NAME, 0);
        } else {
            one_name(text, strlen(text), "ab/c", COFFER_SHA256);
        }
    }
}

static void test_harmless_names(void **state)
{
    (void)state;
    static const char *names[][2] = { { "...", "..." },     { "a/..b", "a/..b" },       { "./a/./b", "a/b" },
                                      { "a//b", "a/b" },    { ".git/a", ".git/a" },     { "-rf", "-rf" },
                                      { "~root", "~root" }, { "a\\..\\b", "a\\..\\b" }, { ".", "." } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s  %s", SHA256_OF_NOTHING, names[i][0]);
        coffer_manifest *manifest = parsed(text);
        assert_string_equal(coffer_manifest_at(manifest, 0)->name, names[i][1]);
        coffer_manifest_free(manifest);
    }
}

/* ---- Statements ---- */

#define TYPE "\"_type\":\"https://in-toto.io/Statement/v1\""
#define PREDICATE_TYPE "\"predicateType\":\"https://model_signing/signature/v1.0\""
#define SUBJECT(root) "\"subject\":[{\"name\":\"m\",\"digest\":{\"sha256\":\"" root "\"}}]"
#define SERIALIZATION "\"serialization\":{\"method\":\"files\",\"hash_type\":\"sha256\",\"allow_symlinks\":false}"
#define RESOURCE(name) "{\"name\":\"" name "\",\"algorithm\":\"sha256\",\"digest\":\"" SHA256_OF_NOTHING "\"}"
/* SHA-256 of the digest of nothing. */
#define ROOT_OF_ONE "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456"
#define STATEMENT(subject, serialization, resources)                                                                   \
    "{" TYPE "," subject "," PREDICATE_TYPE ",\"predicate\":{" serialization ",\"resources\":[" resources "]}}"

static void test_statement(void **state)
{
    (void)state;
    coffer_manifest *manifest = parsed(
        " {\"extra\":[1,{\"a\":null}],\"predicate\":{\"resources\":[{\"digest\":\"" SHA256_OF_NOTHING
        "\",\"more\":{},\"name\":\"\\u0061/\\u00fc\",\"algorithm\":\"sha256\"}],\"serialization\":{\"ignore_paths\":"
        "[\".git\",\"a/b\",\"/"
        "x\",\"n\\u0000\"],\"method\":\"files\",\"allow_symlinks\":true,\"hash_type\":\"sha256\"}},\n" TYPE
        "," PREDICATE_TYPE "," SUBJECT(ROOT_OF_ONE) "} ");
    assert_int_equal(coffer_manifest_format_of(manifest), COFFER_MANIFEST_STATEMENT);
    assert_int_equal(coffer_manifest_count(manifest), 1);
    assert_string_equal(coffer_manifest_at(manifest, 0)->name, "a/\xc3\xbc");
    assert_true(coffer_manifest_follows_links(manifest));
    assert_true(coffer_manifest_ignores(manifest, ".git"));
    assert_true(coffer_manifest_ignores(manifest, ".git/config"));
    assert_true(coffer_manifest_ignores(manifest, "a/b/c"));
    assert_false(coffer_manifest_ignores(manifest, "a/bc"));
    assert_false(coffer_manifest_ignores(manifest, ".gitignore"));
    assert_false(coffer_manifest_ignores(manifest, "n"));
    coffer_manifest_free(manifest);
}

static void test_statements_that_are_none(void **state)
{
    (void)state;
    coffer_manifest_free(parsed(STATEMENT(SUBJECT(ROOT_OF_ONE), SERIALIZATION, RESOURCE("a"))));
    refused("{", COFFER_ERR_JSON, 1);
    refused("{}", COFFER_ERR_MISSING_FIELD, 0);
    refused("{} x", COFFER_ERR_MISSING_FIELD, 0);
    refused("{\"_type\":\"https://in-toto.io/Statement/v0.1\"}", COFFER_ERR_MANIFEST, 9);
    refused("{" TYPE "," TYPE "}", COFFER_ERR_DUPLICATE_KEY, 43);
    refused("{" TYPE ",\"x\":{\"a\":1,\"a\":2}}", COFFER_ERR_DUPLICATE_KEY, 54);
    refused("{\"predicateType\":\"https://model_signing/Digests/v0.1\"}", COFFER_ERR_MANIFEST, 17);
    refused("{\"subject\":{}}", COFFER_ERR_TYPE, 11);
    refused("{\"subject\":[{\"name\":1}]}", COFFER_ERR_TYPE, 20);
    refused("{\"subject\":[{\"name\":\"\xff\"}]}", COFFER_ERR_UTF8, 21);
    refused("{\"subject\":[{\"name\":\"a\\u0000b\"}]}", COFFER_ERR_MANIFEST_NAME, 20);
    refused("{\"predicate\":{\"serialization\":{\"method\":\"shards\"}}}", COFFER_ERR_MANIFEST, 40);
    refused("{\"predicate\":{\"serialization\":{\"allow_symlinks\":\"false\"}}}", COFFER_ERR_TYPE, 48);
    refused("{\"predicate\":{\"serialization\":{\"hash_type\":\"blake3\"}}}", COFFER_ERR_MANIFEST_ALGORITHM, 43);
    refused("{\"predicate\":{\"resources\":[{\"algorithm\":\"blake2b\"}]}}", COFFER_ERR_MANIFEST_ALGORITHM, 40);
    refused("{\"predicate\":{\"resources\":[{\"name\":\"a\",\"algorithm\":\"sha256\",\"digest\":\"e3\"}]}}",
            COFFER_ERR_MANIFEST, 27);
    refused("{\"predicate\":{\"resources\":[{\"name\":\"a\",\"algorithm\":\"sha256\"}]}}", COFFER_ERR_MISSING_FIELD,
            27);
    refused("{\"predicate\":{\"resources\":[" RESOURCE("../a") "]}}", COFFER_ERR_MANIFEST_NAME, 27);
    refused("{\"predicate\":{\"resources\":[" RESOURCE("a\\u0000") "]}}", COFFER_ERR_MANIFEST_NAME, 27);
    refused("{\"predicate\":{\"resources\":[" RESOURCE("\\u002e\\u002e/a") "]}}", COFFER_ERR_MANIFEST_NAME, 27);
    refused(STATEMENT("\"subject\":[]", SERIALIZATION, RESOURCE("a")), COFFER_ERR_MANIFEST, 0);
    refused(STATEMENT(SUBJECT(ROOT_OF_ONE), SERIALIZATION, ""), COFFER_ERR_MANIFEST, 0);
    refused(STATEMENT(SUBJECT(SHA256_OF_NOTHING), SERIALIZATION, RESOURCE("a")), COFFER_ERR_MANIFEST_ROOT, 85);
    refused(STATEMENT(SUBJECT("e3"), SERIALIZATION, RESOURCE("a")), COFFER_ERR_MANIFEST, 85);
    refused(STATEMENT(SUBJECT(ROOT_OF_ONE), SERIALIZATION, RESOURCE("a")) "{", COFFER_ERR_JSON, 427);
}

/* A statement says "the manifest" where the reader of JSON would say "the header". */
static void test_words_of_json(void **state)
{
    (void)state;
    coffer_error err;
    coffer_manifest *manifest = NULL;
    assert_int_equal(parse(&manifest, "{\"a\" 1}", 7, &err), COFFER_ERR_JSON);
    assert_string_equal(err.message, "the manifest is not valid JSON: at byte 5, a colon should be here; found \"1\"");
}

/* ---- Writing ---- */

static coffer_manifest *filled(void)
{
    static const char *names[] = { "sub.txt", "sub/b", "a\nb", "\xc3\xbc \"q\"" };
    coffer_manifest *manifest = NULL;
    assert_int_equal(coffer_manifest_new(&manifest, "m", NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 4; i++) {
        uint8_t digest[32];
        memset(digest, (int)(i + 1), sizeof digest);
        assert_int_equal(coffer_manifest_add(manifest, names[i], COFFER_SHA256, digest, sizeof digest, NULL),
                         COFFER_OK);
    }
    assert_int_equal(coffer_manifest_ignore(manifest, ".git", NULL), COFFER_OK);
    return manifest;
}

/* After each of many additions, in no order: all that were added are ignored, with what is below them, and nothing else. */
static void test_many_that_are_ignored(void **state)
{
    (void)state;
    enum { COUNT = 70 };
    char name[32];
    coffer_manifest *manifest = NULL;
    assert_int_equal(coffer_manifest_new(&manifest, "m", NULL, NULL), COFFER_OK);
    for (int added = 0; added <= COUNT; added++) {
        for (int i = 0; i < COUNT; i++) {
            const int number = i * 29 % COUNT;
            snprintf(name, sizeof name, "d/%d", number);
            assert_int_equal(coffer_manifest_ignores(manifest, name), i < added);
            snprintf(name, sizeof name, "d/%d/x/y", number);
            assert_int_equal(coffer_manifest_ignores(manifest, name), i < added);
            snprintf(name, sizeof name, "d/%d.x", number);
            assert_false(coffer_manifest_ignores(manifest, name));
            snprintf(name, sizeof name, "x/d/%d", number);
            assert_false(coffer_manifest_ignores(manifest, name));
        }
        assert_false(coffer_manifest_ignores(manifest, "d"));
        snprintf(name, sizeof name, "d/%d", added * 29 % COUNT);
        assert_int_equal(coffer_manifest_ignore(manifest, name, NULL), COFFER_OK);
    }
    assert_false(coffer_manifest_ignores(manifest, ""));
    assert_int_equal(coffer_manifest_ignore(manifest, "", NULL), COFFER_OK);
    assert_true(coffer_manifest_ignores(manifest, "") && coffer_manifest_ignores(manifest, "/a"));
    assert_false(coffer_manifest_ignores(manifest, "a"));
    assert_int_equal(coffer_manifest_ignore(manifest, ".", NULL), COFFER_OK);
    assert_true(coffer_manifest_ignores(manifest, "a"));
    coffer_manifest_free(manifest);
}

static void test_written_lines(void **state)
{
    (void)state;
    const char *text = NULL;
    size_t size = 0;
    coffer_manifest *manifest = filled();
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_LINES, NULL, 0, &text, &size, NULL), COFFER_OK);
    static const char wanted[] = "0101010101010101010101010101010101010101010101010101010101010101  sub.txt\n"
                                 "0202020202020202020202020202020202020202020202020202020202020202  sub/b\n"
                                 "\\0303030303030303030303030303030303030303030303030303030303030303  a\\nb\n"
                                 "0404040404040404040404040404040404040404040404040404040404040404  \xc3\xbc \"q\"\n";
    assert_int_equal(size, sizeof wanted - 1);
    assert_memory_equal(text, wanted, size);
    coffer_manifest_free(manifest);
}

/* What was written is read, in the order in which statements have their files. */
static void test_written_statement(void **state)
{
    (void)state;
    static const char *order[] = { "a\nb", "sub/b", "sub.txt", "\xc3\xbc \"q\"" };
    const char *text = NULL;
    size_t size = 0;
    coffer_error err;
    coffer_manifest *manifest = filled();
    coffer_manifest *again = NULL;
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_STATEMENT, NULL, 0, &text, &size, NULL),
                     COFFER_OK);
    assert_int_equal(parse(&again, text, size, &err), COFFER_OK);
    assert_int_equal(coffer_manifest_format_of(again), COFFER_MANIFEST_STATEMENT);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(coffer_manifest_at(again, i)->name, order[i]);
    }
    assert_true(coffer_manifest_ignores(again, ".git/x"));
    coffer_manifest_free(again);
    coffer_manifest_free(manifest);
}

static void test_what_cannot_be_written(void **state)
{
    (void)state;
    const char *text = NULL;
    size_t size = 0;
    const uint8_t digest[32] = { 0 };
    coffer_manifest *manifest = filled();
    assert_int_equal(coffer_manifest_add(manifest, "../x", COFFER_SHA256, digest, sizeof digest, NULL),
                     COFFER_ERR_MANIFEST_NAME);
    assert_int_equal(coffer_manifest_add(manifest, "x", COFFER_NO_ALGORITHM, digest, sizeof digest, NULL),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_manifest_add(manifest, "x", COFFER_SHA256, digest, 16, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_BUNDLE, NULL, 0, &text, &size, NULL),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_manifest_add(manifest, "fast", COFFER_XXH3_128, digest, 16, NULL), COFFER_OK);
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_STATEMENT, NULL, 0, &text, &size, NULL),
                     COFFER_ERR_MANIFEST_ALGORITHM);
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_LINES, NULL, 0, &text, &size, NULL), COFFER_OK);
    coffer_manifest_free(manifest);
    manifest = filled();
    assert_int_equal(coffer_manifest_add(manifest, "sub//b", COFFER_SHA256, digest, sizeof digest, NULL), COFFER_OK);
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_LINES, NULL, 0, &text, &size, NULL),
                     COFFER_ERR_MANIFEST_NAME);
    coffer_manifest_free(manifest);
    manifest = filled();
    assert_int_equal(coffer_manifest_add(manifest, "latin1-\xfc", COFFER_SHA256, digest, sizeof digest, NULL),
                     COFFER_OK);
    assert_int_equal(coffer_manifest_write(manifest, COFFER_MANIFEST_STATEMENT, NULL, 0, &text, &size, NULL),
                     COFFER_ERR_MANIFEST_NAME);
    coffer_manifest_free(manifest);
}

/* ---- Bundles ---- */

/* Keys for these tests alone: each a private one and its public one. */
static const char p256_private[] = "-----BEGIN PRIVATE KEY-----\n"
                                   "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmmh+wn7rGfgsoh1G\n"
                                   "4LkqD+rP7j2tlEbX5kZInfaDCbKhRANCAARZvEs1WWGZQUmyCSfi4SeBFpljeVAG\n"
                                   "XvMhJjsLfQL4usQdpjBtEiiqthNllPfeQfTOWcIe60fKMrpumpGmLtfo\n"
                                   "-----END PRIVATE KEY-----\n";
static const char p256_public[] = "-----BEGIN PUBLIC KEY-----\n"
                                  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWbxLNVlhmUFJsgkn4uEngRaZY3lQ\n"
                                  "Bl7zISY7C30C+LrEHaYwbRIoqrYTZZT33kH0zlnCHutHyjK6bpqRpi7X6A==\n"
                                  "-----END PUBLIC KEY-----\n";
static const char p384_private[] = "-----BEGIN PRIVATE KEY-----\n"
                                   "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAm7q3yUbdwPIPalaWf\n"
                                   "T8q6xx85xbHm+MqPC5fGT9kePEtKDguSGTJt9DY1tZzLEyuhZANiAASu5bDq4uLn\n"
                                   "jvx5sJa1acA6m+kiJ+PAWGL4c5DSluWu+Pm8m2i+CPYue50C03VB0QlOvxQ+GG3L\n"
                                   "5P+byWrkfSfxizYnwBxZOJMKJOaEvkZEhArXeBEhT8dw06DgFghXuAc=\n"
                                   "-----END PRIVATE KEY-----\n";
static const char p384_public[] = "-----BEGIN PUBLIC KEY-----\n"
                                  "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEruWw6uLi5478ebCWtWnAOpvpIifjwFhi\n"
                                  "+HOQ0pblrvj5vJtovgj2LnudAtN1QdEJTr8UPhhty+T/m8lq5H0n8Ys2J8AcWTiT\n"
                                  "CiTmhL5GRIQK13gRIU/HcNOg4BYIV7gH\n"
                                  "-----END PUBLIC KEY-----\n";
static const char p521_private[] = "-----BEGIN PRIVATE KEY-----\n"
                                   "MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIBddpcVihnELVEUjac\n"
                                   "xmE3pqLySI2MuCtSiAGYKhDlIH7QvCh70ttc5AkVjaJOL0N8BZISCiMQYyjWEQRC\n"
                                   "Kj33kWChgYkDgYYABAAHRhNEGM2vyz8SBe+cyjU4FVXtMF/cpH3BCjaPIviTEJUz\n"
                                   "HdhhRD6MT3UqpfHGkigru4XUKXCvR/lCF9XYbwRBdAH1mup1QJnMFANd0N5q1F9C\n"
                                   "3fq+aZRZKBp7pxKVUlYTCSxBYFrs+j+uJHNY0gZP+vjQ63lTW15ZR+0KKJEmukSE\n"
                                   "5w==\n"
                                   "-----END PRIVATE KEY-----\n";
static const char p521_public[] = "-----BEGIN PUBLIC KEY-----\n"
                                  "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAB0YTRBjNr8s/EgXvnMo1OBVV7TBf\n"
                                  "3KR9wQo2jyL4kxCVMx3YYUQ+jE91KqXxxpIoK7uF1Clwr0f5QhfV2G8EQXQB9Zrq\n"
                                  "dUCZzBQDXdDeatRfQt36vmmUWSgae6cSlVJWEwksQWBa7Po/riRzWNIGT/r40Ot5\n"
                                  "U1teWUftCiiRJrpEhOc=\n"
                                  "-----END PUBLIC KEY-----\n";
static const char ed25519_private[] = "-----BEGIN PRIVATE KEY-----\n"
                                      "MC4CAQAwBQYDK2VwBCIEIGnQjACdY+wVQ4ZqoIxhBzQekwoRgFp+v30Oiec6IRu7\n"
                                      "-----END PRIVATE KEY-----\n";
static const char k1_private[] = "-----BEGIN EC PRIVATE KEY-----\n"
                                 "MHQCAQEEIJ1qvBxwLxQKhCW4NDmaei36mk28hWNYiFfub+0FYIEOoAcGBSuBBAAK\n"
                                 "oUQDQgAEjQAgo6zgAxu7I3k3YIsOrWRIFNAMXlasahhMVod1Mbm9zJBlXYey9Cj4\n"
                                 "FRkhzlui0iX89jzNJVGnOdLvrWh1XA==\n"
                                 "-----END EC PRIVATE KEY-----\n";
static const char encrypted_private[] = "-----BEGIN EC PRIVATE KEY-----\n"
                                        "Proc-Type: 4,ENCRYPTED\n"
                                        "DEK-Info: AES-128-CBC,55E409433118F433E98E345B98EDAC26\n"
                                        "\n"
                                        "ifPQnjnJyfq61HZ8aJ2wQCKexjCTLKa8MvYCOyfcIA4nLYDX07oNMf6TbU7011FX\n"
                                        "JJHrt7QTtvfzTuyS1EwrlM6u31G5eapVviZSuVf4sBc87i72lTNtC8fVJoos0KQ7\n"
                                        "z8pcDdEnyfGZ37WP+RgGHHtq7TlyzVjvQ7XHxqXxZoI=\n"
                                        "-----END EC PRIVATE KEY-----\n";

static const struct pair {
    const char *private_key;
    const char *public_key;
} pairs[] = { { p256_private, p256_public }, { p384_private, p384_public }, { p521_private, p521_public } };

static char *bundle_of(const char *private_key)
{
    const char *text = NULL;
    size_t size = 0;
    coffer_error err;
    coffer_manifest *manifest = filled();
    if (coffer_manifest_write(manifest, COFFER_MANIFEST_BUNDLE, private_key, strlen(private_key), &text, &size, &err) !=
        COFFER_OK) {
        fail_msg("%s", err.message);
    }
    char *copy = calloc(1, size + 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    coffer_manifest_free(manifest);
    return copy;
}

static coffer_status verify(const char *text, const char *public_key, coffer_error *err)
{
    coffer_manifest *manifest = NULL;
    const coffer_status status =
        coffer_manifest_parse(&manifest, text, strlen(text), public_key, strlen(public_key), NULL, err);
    assert_true((status == COFFER_OK) == (manifest != NULL));
    if (status == COFFER_OK) {
        assert_int_equal(coffer_manifest_format_of(manifest), COFFER_MANIFEST_BUNDLE);
        assert_int_equal(coffer_manifest_count(manifest), 4);
        assert_string_equal(coffer_manifest_at(manifest, 1)->name, "sub/b");
        assert_int_equal(coffer_manifest_at(manifest, 1)->digest[31], 2);
    }
    coffer_manifest_free(manifest);
    return status;
}

static void test_signing(void **state)
{
    (void)state;
    coffer_error err;
    for (size_t i = 0; i < 3; i++) {
        char *text = bundle_of(pairs[i].private_key);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(verify(text, pairs[k].public_key, &err), k == i ? COFFER_OK : COFFER_ERR_SIGNATURE);
        }
        coffer_manifest_free(parsed(text)); /* without a key, unverified */
        free(text);
    }
}

/* Every bit of a bundle, and of the statement in it: either it no longer verifies, or the flip has no meaning. Those are named
   here: the names of "keyid" and "tlogEntries", which nobody reads, and of "publicKey" and "hint", without which only the
   signature tells whose it is. Signatures are slow to check where a machine is emulated (COFFER_EMULATED is set): there, of what
   cannot be read without a key, one bit in 32 is tried with it. */
static void test_every_flip(void **state)
{
    (void)state;
    coffer_error err;
    const bool slow = getenv("COFFER_EMULATED") != NULL;
    char *text = bundle_of(p256_private);
    const char *log = strstr(text, "\"tlogEntries\"");
    const char *id = strstr(text, "\"keyid\"");
    const char *key = strstr(text, "\"publicKey\"");
    const char *hint = strstr(text, "\"hint\"");
    for (char *at = text; *at != '\0'; at++) {
        const bool unread = (at > log && at < log + 12) || (at > id && at < id + 6) || (at > key && at < key + 10) ||
                            (at > hint && at < hint + 5);
        for (int bit = 0; bit < 8; bit++) {
            *at = (char)(*at ^ 1 << bit);
            coffer_manifest *unverified = NULL;
            coffer_status status = parse(&unverified, text, strlen(text), &err);
            coffer_manifest_free(unverified);
            if (!slow || status == COFFER_OK || (at - text) % 32 == bit * 4) {
                status = verify(text, p256_public, &err);
            }
            if (status == COFFER_OK && !unread) {
                fail_msg("bit %d of byte %td: %.20s", bit, at - text, at);
            }
            *at = (char)(*at ^ 1 << bit);
        }
    }
    assert_int_equal(verify(text, p256_public, &err), COFFER_OK);
    free(text);
}

static void test_keys_that_are_none(void **state)
{
    (void)state;
    static const char *keys[] = { "", "hello", ed25519_private, k1_private, encrypted_private, p256_public };
    const char *text = NULL;
    size_t size = 0;
    coffer_error err;
    coffer_manifest *manifest = filled();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_int_equal(
            coffer_manifest_write(manifest, COFFER_MANIFEST_BUNDLE, keys[i], strlen(keys[i]), &text, &size, &err),
            COFFER_ERR_KEY);
    }
    assert_non_null(strstr(err.message, "is the public one"));
    coffer_manifest_free(manifest);
    char *bundle = bundle_of(p256_private);
    assert_int_equal(verify(bundle, p256_private, &err), COFFER_ERR_KEY);
    assert_non_null(strstr(err.message, "is the private one"));
    free(bundle);
    assert_int_equal(verify(SHA256_OF_NOTHING "  a\n", p256_public, &err), COFFER_ERR_NOT_SIGNED);
    assert_int_equal(verify(STATEMENT(SUBJECT(ROOT_OF_ONE), SERIALIZATION, RESOURCE("a")), p256_public, &err),
                     COFFER_ERR_NOT_SIGNED);
}

/* The hint is what tells the wrong key before anything is computed; older bundles have none. */
static void test_hints(void **state)
{
    (void)state;
    coffer_error err;
    char *text = bundle_of(p256_private);
    assert_int_equal(verify(text, p384_public, &err), COFFER_ERR_SIGNATURE);
    assert_non_null(strstr(err.message, "another key than this one"));
    char *hint = strstr(text, "\"hint\"");
    assert_non_null(hint);
    hint[1] = 'H'; /* nobody's member now */
    assert_int_equal(verify(text, p256_public, &err), COFFER_OK);
    assert_int_equal(verify(text, p384_public, &err), COFFER_ERR_SIGNATURE);
    assert_non_null(strstr(err.message, "is not by this key"));
    free(text);
}

static void test_bundles_that_are_none(void **state)
{
    (void)state;
    static const char type[] = "\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\"";
    static const char payload_type[] = "\"payloadType\":\"application/vnd.in-toto+json\"";
    char text[600];
    refused("{\"dsseEnvelope\":{}}", COFFER_ERR_MISSING_FIELD, 16);
    refused("{\"dsseEnvelope\":1}", COFFER_ERR_TYPE, 16);
    refused("{\"dsseEnvelope\":{\"payloadType\":\"text\"}}", COFFER_ERR_MANIFEST, 31);
    refused("{\"mediaType\":\"v0.1\",\"dsseEnvelope\":{}}", COFFER_ERR_MANIFEST, 13);
    snprintf(text, sizeof text, "{%s,\"dsseEnvelope\":{\"payload\":\"e30=\",%s,\"signatures\":[{\"sig\":\"\"}]}}", type,
             payload_type);
    refused(text, COFFER_ERR_MISSING_FIELD, 0); /* no verificationMaterial */
    snprintf(text, sizeof text,
             "{%s,\"verificationMaterial\":{},\"dsseEnvelope\":{\"payload\":\"e30=\",%s,\"signatures\":[]}}", type,
             payload_type);
    refused(text, COFFER_ERR_MANIFEST, COFFER_NO_OFFSET);
    snprintf(
        text, sizeof text,
        "{%s,\"verificationMaterial\":{},\"dsseEnvelope\":{\"payload\":\"e30\",%s,\"signatures\":[{\"sig\":\"\"}]}}",
        type, payload_type);
    refused(text, COFFER_ERR_MANIFEST, COFFER_NO_OFFSET); /* base64 without its padding */
    snprintf(
        text, sizeof text,
        "{%s,\"verificationMaterial\":{},\"dsseEnvelope\":{\"payload\":\"e30=\",%s,\"signatures\":[{\"sig\":\"\"}]}}",
        type, payload_type);
    refused(text, COFFER_ERR_MISSING_FIELD, 0); /* of the statement, which is {} */
}

/* Whatever request for memory fails, it is an error, and nothing is lost. */
static void test_no_memory(void **state)
{
    (void)state;
    char *text = bundle_of(p256_private);
    bool done = false;
    for (size_t k = 1; !done; k++) {
        memory_meter meter = { .fail_at = k };
        const coffer_allocator allocator = metered_allocator(&meter);
        const char *again = NULL;
        size_t size = 0;
        coffer_manifest *manifest = NULL;
        coffer_status status =
            coffer_manifest_parse(&manifest, text, strlen(text), p256_public, strlen(p256_public), &allocator, NULL);
        if (status == COFFER_OK) {
            status = coffer_manifest_write(manifest, COFFER_MANIFEST_BUNDLE, p256_private, strlen(p256_private), &again,
                                           &size, NULL);
        }
        coffer_manifest_free(manifest);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.held, 0);
        done = status == COFFER_OK;
        assert_true(k < 1000);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_that_are_none),
        cmocka_unit_test(test_tagged_lines),
        cmocka_unit_test(test_lines_that_end_with_nul),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_harmless_names),
        cmocka_unit_test(test_statement),
        cmocka_unit_test(test_statements_that_are_none),
        cmocka_unit_test(test_words_of_json),
        cmocka_unit_test(test_many_that_are_ignored),
        cmocka_unit_test(test_written_lines),
        cmocka_unit_test(test_written_statement),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_signing),
        cmocka_unit_test(test_every_flip),
        cmocka_unit_test(test_keys_that_are_none),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_bundles_that_are_none),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
