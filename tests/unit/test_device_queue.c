/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies on their way to a device: random ones arrive as a naive copy has them, slots are free when their
   ticket was reached and not before, the caller's streams are waited for, and whatever fails leaves nothing behind. */
#define _GNU_SOURCE
#include "device_queue.h"
#include "fake_libraries.h"
#include "pins.h"
#include "support_cmocka.h"
#include "support_memory.h"

#define SLOT_SIZE ((size_t)256 << 10)
#define SLOT_COUNT 3u
#define CAPACITY ((size_t)3 << 20) /* on the device */

static const fake_control_table *control;

static void set_up_fake(const char *library, const char *settings)
{
    fake_folder = "good";
    control = fake_library(library);
    assert_non_null(control);
    control->reset(settings);
}

static coffer_device *open_device(const char *name)
{
    coffer_error err;
    coffer_device *device = NULL;
    assert_int_equal(coffer_device_open(&device, name, NULL, &err), COFFER_OK);
    return device;
}

static void assert_clean(void)
{
    const fake_counts counts = control->counts();
    if (control->mistake() != NULL) {
        fail_msg("%s", control->mistake());
    }
    assert_int_equal(counts.memory + counts.streams + counts.events + counts.registered + counts.contexts, 0);
    assert_int_equal(counts.calls_after_lost, 0);
}

/* ---- random strided copies --------------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % bound;
}

/* A strided copy that fits in a slot and in the device's space; its `to` counts from the space's beginning. Narrow and
   wide, dense and with gaps, forwards and backwards. */
static coffer__strided_copy random_copy(void)
{
    static const uint64_t widths[] = { 1, 2, 4, 6, 100, 511, 512, 513, 4096, 40000, 70000 };
    coffer__strided_copy copy = { .width = widths[random_below(sizeof widths / sizeof widths[0])] };
    const uint64_t most = SLOT_SIZE / copy.width / 2;
    copy.runs = 1 + random_below(most < 3000 ? most : 3000);
    const uint64_t capacity_from = copy.runs == 1 ? copy.width : (SLOT_SIZE - copy.width) / (copy.runs - 1);
    copy.from_step = (int64_t)(copy.width + random_below(capacity_from - copy.width + 1));
    uint64_t step = copy.width;
    if (random_below(2) == 0 && copy.runs > 1) {
        step += random_below((CAPACITY - copy.width) / (copy.runs - 1) - copy.width + 1);
    }
    const uint64_t reach = step * (copy.runs - 1) + copy.width;
    const uint64_t lowest = random_below(CAPACITY - reach + 1);
    const bool backwards = random_below(3) == 0;
    copy.to_step = backwards ? -(int64_t)step : (int64_t)step;
    copy.to = backwards ? lowest + step * (copy.runs - 1) : lowest;
    return copy;
}

static void copy_naively(const coffer__strided_copy *copy, const uint8_t *bytes, uint8_t *capacity)
{
    for (uint64_t i = 0; i < copy->runs; i++) {
        const uint64_t to = copy->to + i * (uint64_t)copy->to_step;
        memcpy(capacity + to, bytes + (int64_t)i * copy->from_step, (size_t)copy->width);
    }
}

typedef struct stand {
    coffer_device *device;
    coffer__pins pins;
    uint8_t *ring;
    uint8_t *expected; /* of the device's space */
    uint64_t address;
} stand;

/* Strided copies through slots that are used again as soon as their ticket was reached. */
static coffer_status send_random_copies(stand *at, unsigned copies, const coffer_allocator *allocator,
                                        coffer_error *err)
{
    uint64_t tickets[SLOT_COUNT] = { 0 };
    coffer__device_queue *device_queue = NULL;
    coffer_status status = coffer__device_queue_open(&device_queue, at->device, allocator, err);
    if (status == COFFER_OK) {
        status = coffer__device_queue_after(device_queue, 0, err);
    }
    for (unsigned i = 0; i < copies && status == COFFER_OK; i++) {
        const size_t slot = i % SLOT_COUNT;
        uint8_t *bytes = at->ring + slot * SLOT_SIZE;
        status = coffer__device_queue_reached(device_queue, tickets[slot], random_below(2) == 0, err);
        if (status == COFFER_NEED_MORE) {
            status = coffer__device_queue_reached(device_queue, tickets[slot], true, err);
        }
        if (status != COFFER_OK) {
            break;
        }
        memset(bytes, (int)(i * 37 + 1), SLOT_SIZE);
        for (size_t k = 0; k < SLOT_SIZE; k += 61) {
            bytes[k] = (uint8_t)random_below(256);
        }
        for (unsigned k = 0; k < 3 && status == COFFER_OK; k++) {
            coffer__strided_copy copy = random_copy();
            copy_naively(&copy, bytes, at->expected);
            copy.to += at->address;
            status = coffer__device_queue_send(device_queue, &copy, bytes, err);
        }
        if (status == COFFER_OK) {
            status = coffer__device_queue_ticket(device_queue, &tickets[slot], err);
        }
    }
    coffer__device_queue_close(device_queue);
    return status;
}

/* Opens, sends, compares and closes. */
static coffer_status run_lines(const char *name, unsigned copies, const coffer_allocator *allocator, coffer_error *err)
{
    stand at = { .device = NULL };
    bool taken = false;
    coffer_status status = coffer_device_open(&at.device, name, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    at.ring = coffer_buffer_new(SLOT_COUNT * SLOT_SIZE);
    at.expected = malloc(CAPACITY);
    uint8_t *found = malloc(CAPACITY);
    memset(at.expected, 0xAA, CAPACITY);
    status = coffer__pins_add(&at.pins, at.device, at.ring, SLOT_COUNT * SLOT_SIZE, allocator, err);
    if (status == COFFER_OK) {
        status = coffer_device_allocate(at.device, CAPACITY, &at.address, err);
        taken = status == COFFER_OK;
    }
    if (taken && at.device->kind == COFFER_DEVICE_HOST) {
        memset((void *)(uintptr_t)at.address, 0xAA, CAPACITY);
    }
    if (status == COFFER_OK) {
        status = send_random_copies(&at, copies, allocator, err);
    }
    if (status == COFFER_OK) {
        status = coffer_device_read(at.device, at.address, found, CAPACITY, err);
    }
    if (status == COFFER_OK) {
        assert_memory_equal(found, at.expected, CAPACITY);
    }
    coffer_device_release(at.device, taken ? at.address : 0, CAPACITY);
    coffer__pins_end(&at.pins, allocator);
    coffer_device_close(at.device);
    coffer_buffer_free(at.ring, SLOT_COUNT * SLOT_SIZE);
    free(at.expected);
    free(found);
    return status;
}

static void test_random_copies(void **state)
{
    (void)state;
    static const char *const names[][2] = { { "cuda:0", "libcuda.so.1" },
                                            { "hip:0", "libamdhip64.so.6" },
                                            { "cpu", "libcuda.so.1" } };
    for (size_t i = 0; i < 3; i++) {
        for (unsigned seed = 1; seed <= 4; seed++) {
            coffer_error err;
            char settings[64];
            snprintf(settings, sizeof settings, "strict=1 seed=%u lazy=%u", seed, seed / 3);
            set_up_fake(names[i][1], settings);
            random_state = seed;
            assert_int_equal(run_lines(names[i][0], 40, coffer_libc_allocator(), &err), COFFER_OK);
            assert_clean();
        }
    }
}

static void test_lines_from_memory_that_cannot_be_registered(void **state)
{
    (void)state;
    coffer_error err;
    set_up_fake("libcuda.so.1", "attributes=0");
    random_state = 77;
    assert_int_equal(run_lines("cuda:0", 20, coffer_libc_allocator(), &err), COFFER_OK);
    assert_true(control->counts().pageable >= 60);
    assert_clean();
}

/* Each call of the driver fails once; the same for each request of memory. */
static void test_lines_when_something_fails(void **state)
{
    (void)state;
    static const int codes[] = { 999, 700 };
    for (size_t k = 0; k < 2 * sizeof codes / sizeof codes[0]; k++) {
        bool failed = true;
        for (unsigned n = 1; failed; n++) {
            coffer_error err;
            set_up_fake("libcuda.so.1", "");
            control->break_call(NULL, n, codes[k / 2]);
            random_state = 5;
            const coffer_status status = run_lines("cuda:0", 4, coffer_libc_allocator(), &err);
            failed = control->calls(NULL) >= n;
            assert_true(status == COFFER_OK || failed);
            assert_true(status == COFFER_OK || (err.code == status && err.message[0] != '\0'));
            assert_null(control->mistake());
            assert_int_equal(control->counts().calls_after_lost, 0);
            if (codes[k / 2] < 700 || !failed) {
                assert_clean();
            }
        }
    }
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t n = 1; status != COFFER_OK; n++) {
        memory_meter meter;
        coffer_error err;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = n;
        set_up_fake("libcuda.so.1", "");
        status = run_lines("cuda:0", 3, &allocator, &err);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.held, 0);
        assert_clean();
        assert_true(n < 20);
    }
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* More tickets than the device queue has events; without anything sent in between, a ticket is the one before. */
static void test_many_tickets(void **state)
{
    (void)state;
    static uint8_t bytes[256];
    coffer_error err;
    set_up_fake("libcuda.so.1", "");
    coffer_device *device = open_device("cuda:0");
    coffer__device_queue *device_queue = NULL;
    uint64_t address = 0;
    uint64_t ticket = 1;
    assert_int_equal(coffer_device_allocate(device, sizeof bytes, &address, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_open(&device_queue, device, coffer_libc_allocator(), &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
    assert_int_equal(ticket, 0);
    assert_int_equal(coffer__device_queue_reached(device_queue, 0, false, &err), COFFER_OK);
    for (uint64_t i = 1; i <= 200; i++) {
        const coffer__strided_copy copy = { .to = address + i, .width = 1, .runs = 1 };
        bytes[i] = (uint8_t)i;
        assert_int_equal(coffer__device_queue_send(device_queue, &copy, bytes + i, &err), COFFER_OK);
        assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
        assert_int_equal(ticket, i);
        assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
        assert_int_equal(ticket, i);
    }
    assert_int_equal(coffer__device_queue_reached(device_queue, 190, true, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_reached(device_queue, 3, false, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_reached(device_queue, 200, true, &err), COFFER_OK);
    assert_memory_equal(control->bytes(address + 1, 200), bytes + 1, 200);
    assert_true(control->counts().events <= 64);
    coffer__device_queue_close(device_queue);
    coffer__device_queue_close(NULL);
    coffer_device_release(device, address, sizeof bytes);
    coffer_device_close(device);
    assert_clean();
}

/* Sends runs of 1,000 bytes that follow each other in memory, to one address after the other, and returns how many
   copies that took. */
static uint64_t copies_of_runs(coffer_device *device, const uint64_t *addresses, size_t count)
{
    static uint8_t bytes[8 * 1000];
    coffer_error err;
    coffer__device_queue *device_queue = NULL;
    uint64_t ticket = 0;
    const uint64_t before = control->counts().copies;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 1000);
    }
    assert_true(count <= 8);
    assert_int_equal(coffer__device_queue_open(&device_queue, device, coffer_libc_allocator(), &err), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        const coffer__strided_copy copy = { .to = addresses[i], .width = 1000, .runs = 1 };
        assert_int_equal(coffer__device_queue_send(device_queue, &copy, bytes + i * 1000, &err), COFFER_OK);
    }
    assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_reached(device_queue, ticket, true, &err), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(control->bytes(addresses[i], 1000), bytes + i * 1000, 1000);
    }
    coffer__device_queue_close(device_queue);
    return control->counts().copies - before;
}

static void test_runs_that_follow_each_other_go_together(void **state)
{
    (void)state;
    coffer_error err;
    uint64_t address = 0;
    set_up_fake("libcuda.so.1", "");
    coffer_device *device = open_device("cuda:0");
    assert_int_equal(coffer_device_allocate(device, 8000, &address, &err), COFFER_OK);
    const uint64_t dense[] = { address, address + 1000, address + 2000, address + 3000, address + 4000 };
    const uint64_t gap[] = { address, address + 1000, address + 2001, address + 3001 };
    const uint64_t backwards[] = { address + 2000, address + 1000, address };
    assert_int_equal(copies_of_runs(device, dense, 5), 1);
    assert_int_equal(control->calls("cuMemGetAddressRange_v2"), 1);
    assert_int_equal(copies_of_runs(device, gap, 4), 2);
    assert_int_equal(copies_of_runs(device, backwards, 3), 3);
    /* Memory that the driver's own interface does not know. */
    control->break_call("cuMemGetAddressRange_v2", 1, 1);
    assert_int_equal(copies_of_runs(device, dense, 2), 2);
    coffer_device_release(device, address, 8000);
    coffer_device_close(device);
    assert_clean();
}

/* Allocations may touch each other, and yet no copy goes from one into the next. */
static void test_runs_stay_in_their_allocation(void **state)
{
    (void)state;
    enum { size = 64 * 1024 };
    coffer_error err;
    uint64_t first = 0;
    uint64_t second = 0;
    set_up_fake("libcuda.so.1", "touching=1048576");
    coffer_device *device = open_device("cuda:0");
    assert_int_equal(coffer_device_allocate(device, size, &first, &err), COFFER_OK);
    assert_int_equal(coffer_device_allocate(device, size, &second, &err), COFFER_OK);
    assert_int_equal(second, first + size);
    const uint64_t across[] = { second - 2000, second - 1000, second, second + 1000 };
    assert_int_equal(copies_of_runs(device, across, 4), 2);
    coffer_device_release(device, first, size);
    coffer_device_release(device, second, size);
    coffer_device_close(device);
    assert_clean();
}

/* More goes through the device queue's own memory than that has space for, while nothing is waited for from outside. */
static void test_pieces_are_used_again(void **state)
{
    (void)state;
    coffer_error err;
    enum { narrow = 64 };
    const size_t size = (size_t)3 << 20;
    const size_t runs = size / narrow;
    uint8_t *bytes = malloc(2 * size);
    uint8_t *found = malloc(size);
    for (size_t i = 0; i < 2 * size; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 12) + (i >> 18) * 13);
    }
    set_up_fake("libcuda.so.1", "lazy=1");
    coffer_device *device = open_device("cuda:0");
    coffer__device_queue *device_queue = NULL;
    uint64_t address = 0;
    uint64_t ticket = 0;
    assert_int_equal(coffer_device_allocate(device, size, &address, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_open(&device_queue, device, coffer_libc_allocator(), &err), COFFER_OK);
    const coffer__strided_copy copy = {
        .from_step = 2 * narrow, .to = address, .to_step = narrow, .width = narrow, .runs = runs
    };
    assert_int_equal(coffer__device_queue_send(device_queue, &copy, bytes, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_reached(device_queue, ticket, true, &err), COFFER_OK);
    assert_int_equal(coffer_device_read(device, address, found, size, &err), COFFER_OK);
    for (size_t i = 0; i < runs; i++) {
        assert_memory_equal(found + i * narrow, bytes + i * 2 * narrow, narrow);
    }
    assert_int_equal(control->counts().pageable, 0);
    coffer__device_queue_close(device_queue);
    coffer_device_release(device, address, size);
    coffer_device_close(device);
    free(bytes);
    free(found);
    assert_clean();
}

/* What the caller has queued on a stream comes first. Nothing is reached as long as that waits. */
static void test_the_caller_s_stream_comes_first(void **state)
{
    (void)state;
    static uint8_t bytes[64] = { 3 };
    coffer_error err;
    set_up_fake("libcuda.so.1", "");
    coffer_device *device = open_device("cuda:0");
    coffer__device_queue *device_queue = NULL;
    uint64_t address = 0;
    uint64_t ticket = 0;
    assert_int_equal(coffer_device_allocate(device, sizeof bytes, &address, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_open(&device_queue, device, coffer_libc_allocator(), &err), COFFER_OK);
    control->hold(0);
    control->fill(0, address, sizeof bytes, 9);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(coffer__device_queue_after(device_queue, 0, &err), COFFER_OK);
    }
    assert_int_equal(control->calls("cuStreamWaitEvent"), 1);
    const coffer__strided_copy copy = { .to = address, .width = 1, .runs = 1 };
    assert_int_equal(coffer__device_queue_send(device_queue, &copy, bytes, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_ticket(device_queue, &ticket, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_reached(device_queue, ticket, false, &err), COFFER_NEED_MORE);
    control->let_go();
    assert_int_equal(coffer__device_queue_reached(device_queue, ticket, true, &err), COFFER_OK);
    assert_int_equal(control->bytes(address, 2)[0], 3);
    assert_int_equal(control->bytes(address, 2)[1], 9);
    coffer__device_queue_close(device_queue);
    coffer_device_release(device, address, sizeof bytes);
    coffer_device_close(device);
    assert_clean();
}

/* Steps that a box of the driver cannot have: the runs go one by one. The second one is refused here, as no block is
   that large. */
static void test_steps_that_are_too_long_for_a_box(void **state)
{
    (void)state;
    static uint8_t bytes[8];
    coffer_error err;
    set_up_fake("libcuda.so.1", "");
    coffer_device *device = open_device("cuda:0");
    coffer__device_queue *device_queue = NULL;
    uint64_t address = 0;
    assert_int_equal(coffer_device_allocate(device, 8, &address, &err), COFFER_OK);
    assert_int_equal(coffer__device_queue_open(&device_queue, device, coffer_libc_allocator(), &err), COFFER_OK);
    const coffer__strided_copy copy = {
        .from_step = 4, .to = address, .to_step = INT64_C(0x80000000), .width = 4, .runs = 2
    };
    assert_int_equal(coffer__device_queue_send(device_queue, &copy, bytes, &err), COFFER_ERR_DEVICE);
    assert_int_equal(control->calls("cuMemcpyHtoDAsync_v2"), 2);
    assert_int_equal(control->calls("cuMemcpy2DAsync_v2"), 0);
    assert_non_null(control->mistake());
    coffer__device_queue_close(device_queue);
    coffer_device_release(device, address, 8);
    coffer_device_close(device);
}

/* ---- registered memory ------------------------------------------------------------------------------------------- */

/* One registration serves two devices; it outlives the program's own use of them. */
static void test_pins(void **state)
{
    (void)state;
    static uint8_t memory[8192];
    coffer_error err;
    const coffer_allocator *allocator = coffer_libc_allocator();
    coffer__pins pins = { NULL, 0, 0 };
    set_up_fake("libcuda.so.1", "devices=2");
    coffer_device *devices[2] = { open_device("cuda:0"), open_device("cuda:1") };
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            assert_int_equal(coffer__pins_add(&pins, devices[k], memory, sizeof memory, allocator, &err), COFFER_OK);
        }
    }
    assert_int_equal(coffer__pins_add(&pins, NULL, memory, sizeof memory, allocator, &err), COFFER_OK);
    assert_int_equal(pins.count, 2);
    assert_int_equal(control->calls("cuMemHostRegister_v2"), 2);
    assert_int_equal(control->counts().registered, 1);
    coffer_device_close(devices[0]);
    coffer_device_close(devices[1]);
    assert_int_equal(control->counts().contexts, 2);
    coffer__pins_end(&pins, allocator);
    coffer__pins_end(&pins, allocator);
    assert_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_copies),
        cmocka_unit_test(test_lines_from_memory_that_cannot_be_registered),
        cmocka_unit_test(test_lines_when_something_fails),
        cmocka_unit_test(test_many_tickets),
        cmocka_unit_test(test_runs_that_follow_each_other_go_together),
        cmocka_unit_test(test_runs_stay_in_their_allocation),
        cmocka_unit_test(test_pieces_are_used_again),
        cmocka_unit_test(test_the_caller_s_stream_comes_first),
        cmocka_unit_test(test_steps_that_are_too_long_for_a_box),
        cmocka_unit_test(test_pins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
