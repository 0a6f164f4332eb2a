/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model cache server holds a model in memory, and loads find it there: with the same bytes, only as long as the files
 * are what they were, and whatever becomes of the model cache server meanwhile.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "served.h"
#include "support_child.h"
#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHOLE_TEST_S 120
#define LONG_ENOUGH 20000 /* milliseconds in which a thread that ever sleeps has slept */
#define NEVER 600000      /* milliseconds that no test waits for */

static coffer *saved_model(uint64_t seed, uint64_t limit)
{
    dice of = { seed };
    return random_model(&of, 40, 1 << 20, limit, COFFER_NO_ALGORITHM, NULL);
}

static const char *model_path(void)
{
    return access(work_path("model.safetensors.index.json"), F_OK) == 0 ? work_path("model.safetensors.index.json")
                                                                        : work_path("model.safetensors");
}

static coffer_cache_server *keep(void)
{
    coffer_cache_server *server = NULL;
    coffer_error err;
    if (coffer_cache_server_new(&server, model_path(), NULL, NULL, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return server;
}

static uint64_t attached_to(coffer_cache_server *server)
{
    uint64_t bytes = 0;
    uint64_t attached = 0;
    coffer_cache_server_state(server, &bytes, &attached);
    assert_true(bytes > 0);
    return attached;
}

/* Who is given the memory may go on before the model cache server's thread has counted it. */
static void await_attached(coffer_cache_server *server, uint64_t wanted)
{
    for (int ms = 0; attached_to(server) < wanted && ms < LONG_ENOUGH; ms++) {
        (void)usleep(1000);
    }
    assert_int_equal(attached_to(server), wanted);
}

/* Loads slices and whole tensors, and compares them with what a naive reader gets. Returns the engines that read files:
   0 when all of it came from a model cache server. */
static uint32_t load_and_compare(const coffer *model, uint64_t seed)
{
    dice of = { seed };
    wish wishes[30];
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    coffer_loaded loaded;
    coffer_error err;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 30; i++) {
        wishes[i] = random_wish(&of, plan, model);
    }
    if (coffer_load_start(&load, plan, NULL, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    while (coffer_load_next(load, UINT64_MAX, &loaded, &err) == COFFER_OK && loaded.item != SIZE_MAX) {
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
    }
    assert_int_equal(loaded.item, SIZE_MAX);
    coffer_load_stats_of(load, &stats);
    coffer_load_free(load);
    coffer_plan_free(plan);
    for (size_t i = 0; i < 30; i++) {
        wish_free(&wishes[i]);
    }
    return stats.engines;
}

/* A staging buffer whose engine is named: what is measured through it is to be that engine. */
static void test_a_named_engine_reads_the_files(void **state)
{
    (void)state;
    coffer *model = saved_model(3, 0);
    coffer_cache_server *server = keep();
    const uint64_t attached = attached_to(server);
    coffer_staging *staging = NULL;
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    options.engine = COFFER_ENGINE_BUFFERED;
    assert_int_equal(coffer_staging_new(&staging, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add_all(plan, NULL, 0, 0, 1, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_load_start(&load, plan, staging, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, NULL), COFFER_OK);
    coffer_load_stats_of(load, &stats);
    assert_int_equal(stats.engines, 1 << COFFER_ENGINE_BUFFERED);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    assert_int_equal(attached_to(server), attached);
    coffer_cache_server_free(server);
    coffer_close(model);
}

static void test_loads_find_a_kept_model(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 0, 2 << 20 };
    for (size_t i = 0; i < 2; i++) {
        coffer *model = saved_model(10 + i, limits[i]);
        const size_t before = open_descriptors();
        assert_true(load_and_compare(model, 1) > 0);
        coffer_cache_server *server = keep();
        const uint64_t attached = attached_to(server);
        for (uint64_t seed = 1; seed < 6; seed++) {
            assert_int_equal(load_and_compare(model, seed), 0);
        }
        await_attached(server, attached + 5);
        coffer_cache_server_free(server);
        assert_true(load_and_compare(model, 1) > 0);
        assert_int_equal(open_descriptors(), before);
        coffer_close(model);
        work_dir_remove();
        work_dir_make();
    }
}

/* The model is loaded by another process, and the model cache server is gone in the middle of it. */
static int load_without_keeper(void *ctx)
{
    const pid_t *server = ctx;
    coffer *model = NULL;
    coffer__served *kept = NULL;
    (void)alarm(WHOLE_TEST_S);
    if (coffer_open(&model, model_path(), NULL, NULL) != COFFER_OK ||
        coffer__served_find(&kept, model, coffer_libc_allocator(), NULL) != COFFER_OK || kept == NULL) {
        return 1;
    }
    (void)kill(*server, SIGKILL);
    (void)usleep(50000);
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const size_t size = (size_t)tensor->size;
        uint8_t *bytes = malloc(2 * size + 1);
        if (bytes == NULL || coffer_read(model, tensor, bytes, tensor->size, NULL, NULL) != COFFER_OK ||
            coffer__source_read(&kept->files[tensor->shard].source, tensor->offset, bytes + size, size, NULL) !=
                COFFER_OK ||
            memcmp(bytes, bytes + size, size) != 0) {
            return 2;
        }
        free(bytes);
    }
    coffer__served_close(kept);
    coffer_close(model);
    return 0;
}

static void test_a_keeper_that_dies_harms_nobody(void **state)
{
    (void)state;
    coffer_close(saved_model(20, 2 << 20));
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t server = fork();
    if (server == 0) {
        (void)alarm(WHOLE_TEST_S);
        (void)keep();
        (void)!write(ready[1], "", 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    assert_int_equal(child_run(load_without_keeper, &server), 0);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

static void test_a_file_that_was_changed_is_not_used(void **state)
{
    (void)state;
    coffer_close(saved_model(30, 0));
    coffer_cache_server *server = keep();
    size_t size = 0;
    uint8_t *bytes = file_read("model.safetensors", &size);
    bytes[size - 1] ^= 1;
    file_write("model.safetensors", bytes, size);
    free(bytes);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    assert_true(load_and_compare(model, 1) > 0);
    assert_int_equal(attached_to(server), 0);
    coffer_close(model);
    coffer_cache_server_free(server);
}

/* What a process attaches to cannot be written to, whether by a map or by a call. */
static void test_kept_memory_is_sealed(void **state)
{
    (void)state;
    coffer *model = saved_model(40, 0);
    coffer__served *kept = NULL;
    coffer_cache_server *server = keep();
    assert_int_equal(coffer__served_find(&kept, model, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_non_null(kept);
    const coffer__byte_source *source = &kept->files[0].source;
    int fd = -1;
    uint64_t offset = 1;
    assert_int_equal(source->ops->borrow(source, &fd, &offset, NULL), COFFER_OK);
    assert_int_equal(offset, 0);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    source->ops->give_back(source);
    coffer__served_close(kept);
    coffer_cache_server_free(server);
    coffer_close(model);
}

static int keep_in_vain(void *ctx)
{
    (void)ctx;
    coffer_error err;
    coffer_cache_server *second = NULL;
    const size_t before = open_descriptors();
    if (coffer_cache_server_new(&second, model_path(), NULL, NULL, NULL, &err) != COFFER_ERR_LOCKED || second != NULL) {
        return 1;
    }
    return open_descriptors() == before ? 0 : 2;
}

/* The second model cache server is in another process, as descriptors are counted there: the first one's thread has one
   more in its own while it answers the question whether it is there. */
static void test_a_model_is_kept_once(void **state)
{
    (void)state;
    coffer_close(saved_model(50, 0));
    coffer_cache_server *server = keep();
    assert_int_equal(child_run(keep_in_vain, NULL), 0);
    coffer_cache_server_free(server);
    server = keep();
    coffer_cache_server_free(server);
}

/* Memory that could still change, that is too short, or is no memory at all is not used; nor is what never comes. */
static void test_other_answers_are_not_believed(void **state)
{
    (void)state;
    coffer *model = saved_model(60, 0);
    char name[COFFER__SERVED_NAME];
    const struct stat found = look("model.safetensors");
    coffer__os_info info;
    int listener = -1;
    assert_int_equal(coffer__os_inspect(work_path("model.safetensors"), true, &info), 0);
    coffer__served_name(name, &info);
    for (int kind = 0; kind < 4; kind++) {
        int fd = -1;
        if (kind < 2) {
            assert_int_equal(coffer__os_shared_new("odd", (uint64_t)found.st_size + (uint64_t)kind, &fd), 0);
            assert_int_equal(coffer__os_shared_seal(fd, kind == 1), 0);
        } else {
            fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        const pid_t child = fork();
        if (child == 0) {
            (void)alarm(WHOLE_TEST_S);
            for (listener = -1; coffer__os_answer(name, &listener) != 0;) {
                (void)usleep(1000);
            }
            for (;;) {
                uint32_t given = 0;
                (void)(kind < 3 ? coffer__os_answer_all(listener, fd, &given) : 0);
                (void)usleep(1000);
            }
        }
        int caller = -1;
        while (coffer__os_call(name, &caller) != 0) {
            (void)usleep(1000);
        }
        (void)close(caller);
        assert_true(load_and_compare(model, 1) > 0);
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        (void)close(fd);
    }
    coffer_close(model);
}

/* The model cache server has no descriptor for a caller. It must not try again all the time: it sleeps in between,
   which only its thread does here, and lets the caller in when it can. */
static void test_a_keeper_without_descriptors_sleeps(void **state)
{
    (void)state;
    coffer_close(saved_model(80, 0));
    coffer_cache_server *server = keep();
    char name[COFFER__SERVED_NAME];
    coffer__os_info info;
    struct rlimit before;
    struct rusage used;
    int caller = -1;
    int fd = -1;
    assert_int_equal(coffer__os_inspect(work_path("model.safetensors"), true, &info), 0);
    coffer__served_name(name, &info);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = dup(STDOUT_FILENO);
    assert_true(lowest >= 0);
    (void)close(lowest);
    const struct rlimit one_more = { (rlim_t)lowest + 1, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one_more), 0);
    assert_int_equal(coffer__os_call(name, &caller), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    const uint64_t until = coffer__os_milliseconds() + LONG_ENOUGH;
    for (const long enough = used.ru_nvcsw + 5; used.ru_nvcsw < enough;) {
        assert_true(coffer__os_milliseconds() < until);
        assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    }
    assert_int_equal(coffer__os_await_passed(caller, 0, &fd), EAGAIN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (coffer__os_await_passed(caller, NEVER, &fd) == EAGAIN) {}
    assert_true(fd >= 0);
    (void)close(fd);
    (void)close(caller);
    coffer_cache_server_free(server);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

static void test_keeping_can_fail(void **state)
{
    (void)state;
    coffer_error err;
    coffer_cache_server *server = NULL;
    assert_int_equal(coffer_cache_server_new(NULL, "x", NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_cache_server_new(&server, NULL, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_cache_server_new(&server, work_path("none"), NULL, NULL, NULL, &err), COFFER_ERR_NOT_FOUND);
    coffer_close(saved_model(70, 2 << 20));
    const size_t before = open_descriptors();
    assert_int_equal(coffer_cache_server_new(&server, model_path(), NULL, stop_at_once, NULL, &err),
                     COFFER_ERR_CANCELLED);
    assert_null(server);
    assert_int_equal(open_descriptors(), before);
    coffer_cache_server_free(NULL);
}

int main(void)
{
#define KEEP_TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        KEEP_TEST(test_a_named_engine_reads_the_files),
        KEEP_TEST(test_loads_find_a_kept_model),
        KEEP_TEST(test_a_keeper_that_dies_harms_nobody),
        KEEP_TEST(test_a_file_that_was_changed_is_not_used),
        KEEP_TEST(test_kept_memory_is_sealed),
        KEEP_TEST(test_a_model_is_kept_once),
        KEEP_TEST(test_other_answers_are_not_believed),
        KEEP_TEST(test_a_keeper_without_descriptors_sleeps),
        KEEP_TEST(test_keeping_can_fail),
    };
    (void)alarm(WHOLE_TEST_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
