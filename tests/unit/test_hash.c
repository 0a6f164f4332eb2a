/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of bytes that come in pieces: answers that are known from other programs, whatever the pieces; and what is said
 * where an implementation is not available, which is played by a dlopen that finds nothing, or the wrong thing.
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include "support_cmocka.h"

#include "coffer.h"
#include "sha256_portable.h"
#include "support_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the library finds when it looks for another one. */
static enum { FIND_ALL, FIND_NEWEST_MISSING, FIND_NONE, FIND_OTHER } find;

void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int);
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&next, &found, sizeof found);
    if (find == FIND_NONE || (find == FIND_NEWEST_MISSING && strstr(name, ".so.3") != NULL)) {
        return NULL;
    }
    if (find == FIND_OTHER) {
        return next(NULL, flags); /* the program itself, which has no EVP */
    }
    /* The older one need not be installed; then the newest comes under its name. */
    found = next(name, flags);
    return found == NULL && find == FIND_NEWEST_MISSING ? next("libcrypto.so.3", flags) : found;
}

static const coffer_algorithm ALGORITHMS[] = { COFFER_SHA256, COFFER_XXH3_128 };

/* By sha256sum and xxhsum: of nothing, of "abc", and of a million times "a". */
static const char *const KNOWN[][3] = {
    { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
    { "99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950", "a545df8e384a9579b1fd6fae5285c4eb" },
};

static coffer_hasher *new_hasher(coffer_algorithm algorithm)
{
    coffer_hasher *hasher = NULL;
    coffer_error err;
    if (coffer_hasher_new(&hasher, algorithm, coffer_libc_allocator(), &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return hasher;
}

static void assert_finishes(coffer_hasher *hasher, coffer_algorithm algorithm, const char *hex)
{
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    char text[2 * COFFER_LARGEST_DIGEST_SIZE + 1];
    const size_t size = coffer_algorithm_digest_size(algorithm);
    assert_int_equal(coffer_hasher_finish(hasher, digest, size, NULL), COFFER_OK);
    for (size_t i = 0; i < size; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, hex);
}

static void known_answers(void **state)
{
    (void)state;
    char *many = malloc(1000000);
    assert_non_null(many);
    memset(many, 'a', 1000000);
    for (size_t i = 0; i < 2; i++) {
        coffer_hasher *hasher = new_hasher(ALGORITHMS[i]);
        assert_finishes(hasher, ALGORITHMS[i], KNOWN[i][0]);
        assert_int_equal(coffer_hasher_update(hasher, "abc", 3, NULL), COFFER_OK);
        assert_finishes(hasher, ALGORITHMS[i], KNOWN[i][1]);
        assert_int_equal(coffer_hasher_update(hasher, many, 1000000, NULL), COFFER_OK);
        assert_finishes(hasher, ALGORITHMS[i], KNOWN[i][2]);
        coffer_hasher_free(hasher);
    }
    free(many);
}

static void pieces_of_every_size(void **state)
{
    (void)state;
    char many[4096];
    memset(many, 'a', sizeof many);
    for (size_t i = 0; i < 2; i++) {
        coffer_hasher *hasher = new_hasher(ALGORITHMS[i]);
        size_t left = 1000000;
        for (size_t size = 0; left > 0; size = (size * 7 + 1) % sizeof many) {
            const size_t piece = size < left ? size : left;
            assert_int_equal(coffer_hasher_update(hasher, many, piece, NULL), COFFER_OK);
            left -= piece;
        }
        assert_int_equal(coffer_hasher_update(hasher, NULL, 0, NULL), COFFER_OK);
        assert_finishes(hasher, ALGORITHMS[i], KNOWN[i][2]);
        coffer_hasher_free(hasher);
    }
}

static void names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(coffer_algorithm_name(COFFER_SHA256), "sha256");
    assert_string_equal(coffer_algorithm_name(COFFER_XXH3_128), "xxh3-128");
    assert_string_equal(coffer_algorithm_name(COFFER_NO_ALGORITHM), "");
    assert_string_equal(coffer_algorithm_name((coffer_algorithm)77), "");
    assert_int_equal(coffer_algorithm_digest_size(COFFER_SHA256), 32);
    assert_int_equal(coffer_algorithm_digest_size(COFFER_XXH3_128), 16);
    assert_int_equal(coffer_algorithm_digest_size((coffer_algorithm)3), 0);
    assert_int_equal(coffer_algorithm_from_name("sha256", 6), COFFER_SHA256);
    assert_int_equal(coffer_algorithm_from_name("xxh3-128!", 8), COFFER_XXH3_128);
    assert_int_equal(coffer_algorithm_from_name("SHA256", 6), COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_algorithm_from_name("sha256 ", 7), COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_algorithm_from_name("", 0), COFFER_NO_ALGORITHM);
}

static void wrong_calls(void **state)
{
    (void)state;
    coffer_error err;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    const coffer_allocator *allocator = coffer_libc_allocator();
    coffer_hasher *hasher = (coffer_hasher *)(void *)digest;
    assert_int_equal(coffer_hasher_new(NULL, COFFER_SHA256, allocator, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_hasher_new(&hasher, COFFER_NO_ALGORITHM, allocator, &err), COFFER_ERR_ARGUMENT);
    assert_null(hasher);
    assert_int_equal(coffer_hasher_new(&hasher, (coffer_algorithm)3, allocator, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_hasher_update(NULL, "a", 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_hasher_finish(NULL, digest, 32, &err), COFFER_ERR_ARGUMENT);
    coffer_hasher_free(NULL);

    assert_int_equal(coffer_hasher_new(&hasher, COFFER_SHA256, NULL, &err), COFFER_OK); /* by libc's allocator */
    assert_int_equal(coffer_hasher_update(hasher, NULL, 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_hasher_finish(hasher, NULL, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_hasher_finish(hasher, digest, 16, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.expected, 32);
    assert_int_equal(err.actual, 16);
    assert_finishes(hasher, COFFER_SHA256, KNOWN[0][0]);
    coffer_hasher_free(hasher);
}

static void memory_that_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t fail_at = 1; fail_at <= 2; fail_at++) {
            memory_meter meter;
            const coffer_allocator allocator = metered_allocator(&meter);
            meter.fail_at = fail_at;
            coffer_hasher *hasher = NULL;
            assert_int_equal(coffer_hasher_new(&hasher, ALGORITHMS[i], &allocator, NULL), COFFER_ERR_MEMORY);
            assert_null(hasher);
            assert_int_equal(meter.blocks, 0);
        }
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_hasher *hasher = NULL;
        assert_int_equal(coffer_hasher_new(&hasher, ALGORITHMS[i], &allocator, NULL), COFFER_OK);
        assert_int_equal(meter.blocks, 2);
        coffer_hasher_free(hasher);
        assert_int_equal(meter.blocks, 0);
    }
}

/* Both implementations, of messages of every length around those of one and of two blocks, in two pieces. */
static void implementations_agree(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 151 + 7);
    }
    coffer_hasher *theirs = new_hasher(COFFER_SHA256);
    find = FIND_NONE;
    coffer_hasher *ours = new_hasher(COFFER_SHA256);
    assert_ptr_equal(ours->ops, &coffer__hash_sha256_portable);
    assert_ptr_not_equal(theirs->ops, ours->ops);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        uint8_t digests[2][32];
        for (size_t i = 0; i < 2; i++) {
            coffer_hasher *hasher = i == 0 ? theirs : ours;
            assert_int_equal(coffer_hasher_update(hasher, bytes, size / 3, NULL), COFFER_OK);
            assert_int_equal(coffer_hasher_update(hasher, bytes + size / 3, size - size / 3, NULL), COFFER_OK);
            assert_int_equal(coffer_hasher_finish(hasher, digests[i], sizeof digests[i], NULL), COFFER_OK);
        }
        assert_memory_equal(digests[0], digests[1], sizeof digests[0]);
    }
    coffer_hasher_free(theirs);
    coffer_hasher_free(ours);
}

/* The answers of libcrypto, without it. */
static void known_answers_without_libcrypto(void **state)
{
    find = FIND_NONE;
    known_answers(state);
    pieces_of_every_size(state);
}

static void libcrypto_is_not_there(void **state)
{
    (void)state;
    coffer_error err;
    coffer_hasher *hasher = NULL;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    for (find = FIND_NONE; find != FIND_ALL; find = find == FIND_NONE ? FIND_OTHER : FIND_ALL) {
        assert_int_equal(coffer_hasher_new(&hasher, COFFER_SHA256, &allocator, &err), COFFER_OK);
        assert_ptr_equal(hasher->ops, &coffer__hash_sha256_portable);
        assert_int_equal(err.code, COFFER_OK);
        coffer_hasher_free(hasher);
        assert_int_equal(meter.blocks, 0);
        for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
            memory_meter failing;
            const coffer_allocator without = metered_allocator(&failing);
            failing.fail_at = fail_at;
            assert_int_equal(coffer_hasher_new(&hasher, COFFER_SHA256, &without, &err), COFFER_ERR_MEMORY);
            assert_int_equal(failing.blocks, 0);
        }
    }
    find = FIND_NONE;
    coffer_hasher *other = new_hasher(COFFER_XXH3_128);
    assert_finishes(other, COFFER_XXH3_128, KNOWN[1][0]);
    coffer_hasher_free(other);
    find = FIND_NEWEST_MISSING;
    hasher = new_hasher(COFFER_SHA256);
    assert_finishes(hasher, COFFER_SHA256, KNOWN[0][0]);
    coffer_hasher_free(hasher);
}

/* The examples of RFC 4648, and that nothing is written where there is no space. */
static void bytes_as_base64(void **state)
{
    (void)state;
    static const char *const known[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[16];
        memset(text, '#', sizeof text);
        const size_t len = strlen(known[i]);
        assert_int_equal(coffer_base64("foobar", i, NULL, 0), len);
        assert_int_equal(coffer_base64("foobar", i, text, len), len);
        assert_int_equal(text[0], '#');
        assert_int_equal(coffer_base64("foobar", i, text, len + 1), len);
        assert_string_equal(text, known[i]);
        assert_int_equal(text[len + 1], '#');
    }
    char text[5];
    assert_int_equal(coffer_base64("\xff\xef\xbe", 3, text, sizeof text), 4);
    assert_string_equal(text, "/+++");
    assert_int_equal(coffer_base64(NULL, 0, text, sizeof text), 0);
}

static int after_each(void **state)
{
    (void)state;
    find = FIND_ALL;
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, NULL, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_answers),         TEST(pieces_of_every_size),
        TEST(names_and_sizes),       TEST(wrong_calls),
        TEST(memory_that_fails),     TEST(libcrypto_is_not_there),
        TEST(implementations_agree), TEST(known_answers_without_libcrypto),
        TEST(bytes_as_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
