/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process in which the command reads files that nobody trusts. This program is such a child itself, one that
 * misbehaves in the way that the path it is told asks for, which the command's own child never does: it is killed for
 * what reading does not need, and whoever waits for it says so, whatever the child does and however it ends.
 */
#include "cli_confine.h"
#include "cli_sandbox.h"
#include "sandbox_messages.h"
#include "support_cmocka.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GONE 7 /* the exit code of a misdeed that was survived */

/* ---- Misdeeds ---- */

static void open_file(void)
{
    (void)open("/dev/null", O_RDONLY);
}

static void make_socket(void)
{
    (void)socket(AF_INET, SOCK_STREAM, 0);
}

static void start_process(void)
{
    (void)fork();
}

static void map_descriptor(void)
{
    (void)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0);
}

static void make_code(void)
{
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void write_elsewhere(void)
{
    (void)!write(2, "x", 1);
}

static void send_signal(void)
{
    (void)kill(getppid(), 0);
}

/* What kills where system calls are filtered, and fails where they are not. */
static const struct {
    const char *name;
    void (*run)(void);
} CALLS[] = {
    { "open", open_file },      { "socket", make_socket },    { "fork", start_process }, { "map", map_descriptor },
    { "make code", make_code }, { "write", write_elsewhere }, { "kill", send_signal },
};
#define CALL_COUNT (sizeof CALLS / sizeof CALLS[0])

static void send_raw(const sandbox_message *message, const void *bytes, size_t size)
{
    (void)sandbox_send(0, message, sizeof *message);
    (void)sandbox_send(0, bytes, size);
}

/* An error that was not made by the library. */
static void send_error(coffer_status code, const char *text)
{
    coffer_error err = { .code = code, .offset = COFFER_NO_OFFSET };
    memset(err.message, 'x', sizeof err.message); /* no end */
    memcpy(err.message, text, strlen(text));
    const sandbox_message message = { .kind = SANDBOX_FAILED, .size = sizeof err };
    send_raw(&message, &err, sizeof err);
    _exit(0);
}

static void take_memory(void)
{
    /* Four times what there is. */
    for (int i = 0; i < 32; i++) {
        char *volatile block = malloc((size_t)64 << 20);
        if (block == NULL) {
            send_error(COFFER_ERR_MEMORY, "no more");
        }
        block[0] = 1;
    }
    _exit(GONE);
}

static void send_message(uint32_t kind, uint64_t size, const char *bytes)
{
    const sandbox_message message = { .kind = kind, .size = size };
    send_raw(&message, bytes, strlen(bytes));
    _exit(0);
}

/* Asks until it is refused; its own end is then no answer. */
static void read_for_ever(void)
{
    static unsigned char bytes[SANDBOX_PIECE];
    sandbox_message message = { .kind = SANDBOX_READ, .size = 1 };
    coffer_error err;
    for (;;) {
        sandbox_message answer;
        message.size = message.size == 1 ? 16 : SANDBOX_PIECE;
        if (!sandbox_send(0, &message, sizeof message) || !sandbox_receive(0, &answer, sizeof answer)) {
            _exit(GONE);
        }
        if (answer.kind == SANDBOX_FAILED) {
            (void)sandbox_receive(0, &err, sizeof err);
            const sandbox_message failed = { .kind = SANDBOX_FAILED, .size = sizeof err };
            send_raw(&failed, &err, sizeof err);
            _exit(0);
        }
        (void)sandbox_receive(0, bytes, (size_t)answer.size);
    }
}

static void misbehave(const char *what)
{
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (strcmp(what, CALLS[i].name) == 0) {
            CALLS[i].run();
            _exit(GONE);
        }
    }
    if (strcmp(what, "crash") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    } else if (strcmp(what, "memory") == 0) {
        take_memory();
    } else if (strcmp(what, "unknown message") == 0) {
        send_message(77, 0, "");
    } else if (strcmp(what, "large import") == 0) {
        send_message(SANDBOX_DONE, UINT64_MAX, "");
    } else if (strcmp(what, "short import") == 0) {
        send_message(SANDBOX_DONE, 1000, "CofPlan1");
    } else if (strcmp(what, "large read") == 0) {
        send_message(SANDBOX_READ, SANDBOX_PIECE + 1, "");
    } else if (strcmp(what, "long name") == 0) {
        send_message(SANDBOX_BESIDE, UINT64_MAX, "");
    } else if (strcmp(what, "success") == 0) {
        send_error(COFFER_OK, "fine");
    } else if (strcmp(what, "unknown error") == 0) {
        send_error((coffer_status)9999, "what");
    } else if (strcmp(what, "terminal") == 0) {
        send_error(COFFER_ERR_PICKLE, "bell \a and \033[31m red \xff");
    } else if (strcmp(what, "read") == 0) {
        read_for_ever();
    }
    _exit(0);
}

/* Takes what it is told as the command's child does, and does something else. "unconfined " keeps all rights. */
static int run_child(void)
{
    sandbox_message message;
    static char block[4096];
    if (!sandbox_receive(0, &message, sizeof message) || message.size > sizeof block ||
        !sandbox_receive(0, block, (size_t)message.size)) {
        return 1;
    }
    const char *what = block + sizeof(sandbox_wants);
    const size_t prefix = sizeof "unconfined " - 1;
    if (strncmp(what, "unconfined ", prefix) == 0) {
        what += prefix;
    } else {
        (void)cli_confine();
    }
    misbehave(what);
    return 0;
}

/* ---- The other end ---- */

static coffer_status read_bytes(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)file;
    (void)offset;
    (void)err;
    memset(buffer, 0, size);
    return COFFER_OK;
}

static coffer_status run_misdeed(const char *what, coffer_error *err)
{
    const coffer_input_functions functions = { .read = read_bytes, .size = (uint64_t)1 << 40, .path = what };
    const coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    coffer_input *input = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, err), COFFER_OK);
    const coffer_status status = cli_sandbox_read(input, what, &options, &bytes, &size, err);
    assert_int_equal(status, err->code);
    assert_null(bytes);
    coffer_input_free(input);
    return status;
}

/* What a process gives up when it is confined, of which a system may have less. */
static unsigned confined(void)
{
    int ended = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit((int)cli_confine());
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    return (unsigned)WEXITSTATUS(ended);
}

static void test_what_reading_never_does_kills(void **state)
{
    (void)state;
    coffer_error err;
    const bool kills = (confined() & CLI_CONFINED_CALLS) != 0;
    for (size_t i = 0; cli_sandbox_possible() && i < CALL_COUNT; i++) {
        const coffer_status status = run_misdeed(CALLS[i].name, &err);
        assert_int_equal(status, kills ? COFFER_ERR_IO : COFFER_ERR_PLAN);
        if (kills) {
            assert_non_null(strstr(err.message, "SIGSYS"));
        }
    }
}

/* The test above would not notice a child that could do these things all along. */
static void test_the_same_is_possible_before(void **state)
{
    (void)state;
    coffer_error err;
    for (size_t i = 0; cli_sandbox_possible() && i < CALL_COUNT; i++) {
        char what[64] = "unconfined ";
        strcat(what, CALLS[i].name);
        assert_int_equal(run_misdeed(what, &err), COFFER_ERR_PLAN);
        assert_non_null(strstr(err.message, "never gives"));
    }
}

static void test_memory_is_limited(void **state)
{
    (void)state;
    coffer_error err;
    if (cli_sandbox_possible()) {
        assert_true((confined() & CLI_CONFINED_LIMITS) != 0);
        assert_int_equal(run_misdeed("memory", &err), COFFER_ERR_MEMORY);
    }
}

static void test_a_crash_names_its_signal(void **state)
{
    (void)state;
    coffer_error err;
    if (cli_sandbox_possible()) {
        assert_int_equal(run_misdeed("unconfined crash", &err), COFFER_ERR_IO);
        assert_non_null(strstr(err.message, "SIGSEGV"));
    }
}

static void test_nonsense_is_noticed(void **state)
{
    (void)state;
    static const char *const misdeeds[] = { "unknown message", "large import", "short import",  "large read",
                                            "long name",       "success",      "unknown error", "nothing" };
    coffer_error err;
    for (size_t i = 0; cli_sandbox_possible() && i < sizeof misdeeds / sizeof misdeeds[0]; i++) {
        assert_int_equal(run_misdeed(misdeeds[i], &err), COFFER_ERR_PLAN);
        assert_non_null(strstr(err.message, "do not use the file"));
    }
}

static void test_messages_cannot_steer_a_terminal(void **state)
{
    (void)state;
    coffer_error err;
    if (cli_sandbox_possible()) {
        assert_int_equal(run_misdeed("terminal", &err), COFFER_ERR_PICKLE);
        assert_memory_equal(err.message, "bell ? and ?[31m red ?", 22);
        assert_int_equal(strlen(err.message), sizeof err.message - 1);
    }
}

static void test_reading_is_counted(void **state)
{
    (void)state;
    coffer_error err;
    if (cli_sandbox_possible()) {
        assert_int_equal(run_misdeed("read", &err), COFFER_ERR_MEMORY);
        assert_non_null(strstr(err.message, "--no-sandbox"));
    }
}

int main(int argc, char **argv)
{
    if (cli_sandbox_is_child(argc, argv)) {
        return run_child();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_reading_never_does_kills),
        cmocka_unit_test(test_the_same_is_possible_before),
        cmocka_unit_test(test_memory_is_limited),
        cmocka_unit_test(test_a_crash_names_its_signal),
        cmocka_unit_test(test_nonsense_is_noticed),
        cmocka_unit_test(test_messages_cannot_steer_a_terminal),
        cmocka_unit_test(test_reading_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
