/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing is shared with a process whose user cannot be told from this one's. The system's answers about users are made
 * up here: what is asked is only what the library makes of them.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "os.h"
#include "served.h"
#include "support_file.h"
#include "support_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOMEBODY 4711
#define STRANGER 4712

static uid_t me;
static uid_t peer;

/* ---- what the system says ---------------------------------------------------------------------------------------- */

uid_t geteuid(void)
{
    return me;
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    int (*next)(int fd, int level, int option, void *value, socklen_t *size);
    void *found = dlsym(RTLD_NEXT, "getsockopt");
    memcpy(&next, &found, sizeof next);
    const int result = next(fd, level, option, value, size);
    if (result == 0 && level == SOL_SOCKET && option == SO_PEERCRED) {
        ((struct ucred *)value)->uid = peer;
    }
    return result;
}

static uid_t overflow_user(void)
{
    char text[24] = "65534";
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "r");
    if (file != NULL) {
        (void)!fgets(text, sizeof text, file);
        (void)fclose(file);
    }
    return (uid_t)strtoul(text, NULL, 10);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int answer_by(const char *name)
{
    int listener = -1;
    assert_int_equal(coffer__os_answer(name, &listener), 0);
    return listener;
}

static void nobody_calls_or_answers_as_the_unknown_user(void **state)
{
    (void)state;
    char name[64];
    int listener = -1;
    int caller = -1;
    (void)snprintf(name, sizeof name, "coffer/test/users/%ld", (long)getpid());
    me = peer = SOMEBODY;
    const int honest = answer_by(name);
    assert_int_equal(coffer__os_call(name, &caller), 0);
    (void)close(caller);
    peer = STRANGER;
    assert_int_equal(coffer__os_call(name, &caller), EACCES);
    /* The numbers are equal, and say nothing. */
    me = peer = overflow_user();
    assert_int_equal(coffer__os_call(name, &caller), EPERM);
    (void)close(honest);
    assert_int_equal(coffer__os_answer(name, &listener), EPERM);
}

/* A listener that was made before stays honest: it passes nothing to those whom it cannot tell apart. */
static void nothing_is_passed_to_the_unknown_user(void **state)
{
    (void)state;
    char name[64];
    int caller = -1;
    int fd = -1;
    uint32_t given = 7;
    (void)snprintf(name, sizeof name, "coffer/test/users/%ld", (long)getpid());
    me = peer = SOMEBODY;
    const int listener = answer_by(name);
    assert_int_equal(coffer__os_call(name, &caller), 0);
    me = peer = overflow_user();
    assert_int_equal(coffer__os_answer_all(listener, STDERR_FILENO, &given), 0);
    assert_int_equal(given, 0);
    assert_int_not_equal(coffer__os_await_passed(caller, 1, &fd), 0);
    (void)close(caller);
    (void)close(listener);
}

/* ---- cache servers ----------------------------------------------------------------------------------------------- */

static coffer *small_model(void)
{
    dice of = { 3 };
    return random_model(&of, 5, 1 << 10, UINT64_C(1) << 40, COFFER_NO_ALGORITHM, NULL);
}

static coffer_status keep(coffer_cache_server **server, coffer_error *err)
{
    return coffer_cache_server_new(server, work_path("model.safetensors"), NULL, NULL, NULL, err);
}

static size_t kept_files(const coffer *model)
{
    coffer__served *kept = NULL;
    assert_int_equal(coffer__served_find(&kept, model, coffer_libc_allocator(), NULL), COFFER_OK);
    const size_t found = kept == NULL ? 0 : kept->found;
    coffer__served_close(kept);
    return found;
}

static void a_server_is_only_for_a_user_who_is_known(void **state)
{
    (void)state;
    coffer_error err;
    coffer_cache_server *server = NULL;
    coffer *model = small_model();
    me = peer = SOMEBODY;
    assert_int_equal(keep(&server, &err), COFFER_OK);
    assert_int_equal(kept_files(model), 1);
    me = peer = overflow_user();
    assert_int_equal(kept_files(model), 0);
    coffer_cache_server_free(server);
    assert_int_equal(keep(&server, &err), COFFER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "namespace"));
    coffer_close(model);
}

static void a_stranger_with_the_name_is_told_as_one(void **state)
{
    (void)state;
    coffer_error err;
    coffer_cache_server *server = NULL;
    coffer__os_info info;
    char name[COFFER__SERVED_NAME];
    coffer *model = small_model();
    me = peer = SOMEBODY;
    assert_int_equal(coffer__os_inspect(work_path("model.safetensors"), true, &info), 0);
    coffer__served_name(name, &info);
    const int listener = answer_by(name);
    peer = STRANGER;
    assert_int_equal(keep(&server, &err), COFFER_ERR_LOCKED);
    assert_non_null(strstr(err.message, "another user"));
    assert_non_null(strstr(err.message, name));
    assert_string_equal(err.path, work_path("model.safetensors"));
    assert_int_equal(kept_files(model), 0);
    /* One of this user's is told as what it is. */
    peer = SOMEBODY;
    assert_int_equal(keep(&server, &err), COFFER_ERR_LOCKED);
    assert_null(strstr(err.message, "another user"));
    (void)close(listener);
    assert_int_equal(keep(&server, &err), COFFER_OK);
    coffer_cache_server_free(server);
    coffer_close(model);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nobody_calls_or_answers_as_the_unknown_user),
        TEST(nothing_is_passed_to_the_unknown_user),
        TEST(a_server_is_only_for_a_user_who_is_known),
        TEST(a_stranger_with_the_name_is_told_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
