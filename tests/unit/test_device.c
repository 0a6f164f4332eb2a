/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, on drivers that are none: opening and what is said when that cannot be, memory, copies and their order,
   registered memory, an error at every call of a driver, and a driver that is lost. */
#define _GNU_SOURCE
#include "device.h"
#include "driver.h"
#include "fake_libraries.h"
#include "support_cmocka.h"
#include "support_file.h"
#include "support_memory.h"

#include <sys/wait.h>
#include <unistd.h>

/* Each test runs for both vendors. */
typedef struct vendor_names {
    const char *kind; /* "cuda" */
    const char *library;
    const char *get_count;
    const char *allocate;
    const char *copy;
} vendor_names;

static const vendor_names vendors[] = {
    { "cuda", "libcuda.so.1", "cuDeviceGetCount", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2" },
    { "hip", "libamdhip64.so.6", "hipGetDeviceCount", "hipMalloc", "hipMemcpyAsync" },
};
#define VENDORS (sizeof vendors / sizeof vendors[0])

static const fake_control_table *control;

static void use_vendor(const vendor_names *vendor, const char *settings)
{
    fake_folder = "good";
    control = fake_library(vendor->library);
    assert_non_null(control);
    control->reset(settings);
}

static coffer_device *open_one(const vendor_names *vendor, int number)
{
    coffer_error err;
    coffer_device *device = NULL;
    char name[16];
    snprintf(name, sizeof name, "%s:%d", vendor->kind, number);
    assert_int_equal(coffer_device_open(&device, name, NULL, &err), COFFER_OK);
    return device;
}

static void assert_nothing_left(void)
{
    const fake_counts counts = control->counts();
    assert_null(control->mistake());
    assert_int_equal(counts.memory + counts.streams + counts.events + counts.registered + counts.contexts, 0);
    assert_int_equal(counts.calls_after_lost, 0);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void refuse(const char *name, coffer_status status, const char *words)
{
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_error err;
    coffer_device *device = (coffer_device *)(void *)&err;
    assert_int_equal(coffer_device_open(&device, name, &allocator, &err), status);
    assert_null(device);
    assert_int_equal(err.code, status);
    if (strstr(err.message, words) == NULL) {
        fail_msg("%s: \"%s\" is not in \"%s\"", name, words, err.message);
    }
    assert_int_equal(meter.held, 0);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",       "gpu",   "cuda:",   "cuda:x",         "cuda:-1",    "cuda:01",
                                         "cuda 0", "cpu:0", "CUDA",    "hip:1.5",        "cuda:00000", "cuda:12345",
                                         "hipp",   "mps",   "cuda:+1", "cuda:4294967296" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        refuse(wrong[i], COFFER_ERR_NO_DEVICE, "names no device: write cpu, cuda, cuda:N, hip or hip:N");
    }
    coffer_error err;
    coffer_device *device = NULL;
    assert_int_equal(coffer_device_open(NULL, "cpu", NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_device_open(&device, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    use_vendor(&vendors[0], "devices=2");
    assert_int_equal(coffer_device_open(&device, "cuda", NULL, &err), COFFER_OK);
    assert_int_equal(device->number, 0);
    assert_string_equal(device->words, "cuda:0");
    coffer_device_close(device);
    coffer_device_close(NULL);
    assert_nothing_left();
}

static void test_without_a_driver(void **state)
{
    (void)state;
    fake_folder = NULL;
    refuse("cuda:0", COFFER_ERR_NO_DEVICE, "the NVIDIA driver is missing: libcuda.so.1 cannot be loaded here: install");
    refuse("hip", COFFER_ERR_NO_DEVICE, "HIP is missing: libamdhip64.so.7 cannot be loaded here: install ROCm");
    fake_folder = "incomplete";
    refuse("cuda:0", COFFER_ERR_NO_DEVICE, "the NVIDIA driver has no cuEventQuery: update it to version 450");
}

static void test_a_driver_that_does_not_start(void **state)
{
    (void)state;
    static const struct {
        size_t vendor;
        const char *settings;
        const char *words;
    } rows[] = {
        { 0, "init=34", "is the stub that programs are linked with" },
        { 0, "init=100", "the driver sees no device (error 100" },
        { 0, "init=803", "of different versions (error 803 of the NVIDIA driver): restart" },
        { 0, "init=802", "nvidia-fabricmanager" },
        { 0, "init=46", "in use by other processes" },
        { 0, "init=999", "the driver does not start (error 999" },
        { 0, "init=3", "was forked" },
        { 0, "version=10020", "is too old: its interface is version 10020: update it to version 450" },
        { 0, "devices=0", "there is no cuda:1: this process sees 0" },
        { 0, "devices=1", "there is no cuda:1: this process sees 1" },
        { 1, "init=100", "HIP sees no device" },
        { 1, "version=40000000", "update ROCm to version 5.0" },
        { 1, "devices=1", "there is no hip:1: this process sees 1" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        use_vendor(&vendors[rows[i].vendor], rows[i].settings);
        refuse(rows[i].vendor == 0 ? "cuda:1" : "hip:1", COFFER_ERR_NO_DEVICE, rows[i].words);
        assert_nothing_left();
    }
    use_vendor(&vendors[0], "");
    control->break_call("cuDevicePrimaryCtxRetain", 1, 2);
    refuse("cuda:0", COFFER_ERR_DEVICE_MEMORY, "has not enough memory free to be used at all");
    assert_nothing_left();
}

static void test_memory_of_the_caller_runs_out(void **state)
{
    (void)state;
    use_vendor(&vendors[0], "");
    for (size_t i = 1; i <= 2; i++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = i;
        coffer_error err;
        coffer_device *device = NULL;
        assert_int_equal(coffer_device_open(&device, "cuda:0", &allocator, &err), COFFER_ERR_MEMORY);
        assert_int_equal(meter.held, 0);
    }
    assert_nothing_left();
}

/* A context is made on the device that is asked for, and on no other. */
static void test_only_one_device_is_touched(void **state)
{
    (void)state;
    use_vendor(&vendors[0], "devices=4");
    coffer_device *device = open_one(&vendors[0], 2);
    assert_int_equal(control->calls("cuDevicePrimaryCtxRetain"), 1);
    assert_int_equal(control->calls("cuDeviceGet"), 2);
    assert_string_equal(device->name, "Fake GPU 2");
    assert_int_equal(device->node, 0);
    coffer__device_hold(device);
    coffer_device_close(device);
    assert_int_equal(control->counts().contexts, 1);
    coffer_device_close(device);
    assert_nothing_left();
}

static void test_description(void **state)
{
    (void)state;
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "devices=2 memory=5000 attributes=3");
        coffer_device *device = open_one(&vendors[i], 1);
        uint64_t address = 0;
        coffer_error err;
        coffer_device_info info = { .struct_size = sizeof info };
        assert_int_equal(coffer_device_allocate(device, 1000, &address, &err), COFFER_OK);
        assert_int_equal(coffer_device_describe(device, &info, &err), COFFER_OK);
        assert_int_equal(info.kind, i == 0 ? COFFER_DEVICE_CUDA : COFFER_DEVICE_HIP);
        assert_int_equal(info.number, 1);
        assert_string_equal(info.name, i == 0 ? "Fake GPU 1" : "Fake AMD GPU 1");
        assert_int_equal(info.total, 5000);
        assert_int_equal(info.free, 4000);
        assert_int_equal(info.integrated, i == 0);
        assert_true(info.registers);
        /* An older caller's struct ends earlier. */
        coffer_device_info cut = { .struct_size = offsetof(coffer_device_info, total), .total = 77 };
        assert_int_equal(coffer_device_describe(device, &cut, &err), COFFER_OK);
        assert_int_equal(cut.number, 1);
        assert_int_equal(cut.total, 77);
        coffer_device_info unset = { 0 };
        assert_int_equal(coffer_device_describe(device, &unset, &err), COFFER_ERR_ARGUMENT);
        coffer_device_release(device, address, 1000);
        coffer_device_close(device);
        assert_nothing_left();
    }
}

static void test_out_of_memory_says_the_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "memory=5000");
        coffer_device *device = open_one(&vendors[i], 0);
        uint64_t address = 0;
        uint64_t more = 0;
        coffer_error err;
        assert_int_equal(coffer_device_allocate(device, 3000, &address, &err), COFFER_OK);
        assert_int_equal(coffer_device_allocate(device, 2001, &more, &err), COFFER_ERR_DEVICE_MEMORY);
        assert_int_equal(err.expected, 2001);
        assert_int_equal(err.actual, 2000);
        assert_non_null(strstr(err.message, "2001 bytes are wanted at once, 2000 bytes of 5000 bytes are free"));
        assert_int_equal(coffer_device_allocate(device, UINT64_MAX, &more, &err), COFFER_ERR_DEVICE_MEMORY);
        assert_int_equal(coffer_device_allocate(device, 0, &more, &err), COFFER_ERR_ARGUMENT);
        coffer_device_release(device, address, 3000);
        coffer_device_release(device, 0, 0);
        coffer_device_close(device);
        assert_nothing_left();
    }
}

/* ---- the host as a device ---------------------------------------------------------------------------------------- */

static void test_host(void **state)
{
    (void)state;
    coffer_error err;
    coffer_device *device = NULL;
    uint64_t address = 0;
    coffer_device_info info = { .struct_size = sizeof info };
    assert_int_equal(coffer_device_open(&device, "cpu", NULL, &err), COFFER_OK);
    assert_int_equal(coffer_device_describe(device, &info, &err), COFFER_OK);
    assert_string_equal(info.name, "host memory");
    assert_true(info.total >= info.free);
    assert_int_equal(coffer_device_allocate(device, 100, &address, &err), COFFER_OK);
    memset((void *)(uintptr_t)address, 7, 100);
    uint8_t back[100] = { 0 };
    assert_int_equal(coffer_device_read(device, address, back, sizeof back, &err), COFFER_OK);
    assert_int_equal(back[99], 7);
    coffer_device_release(device, address, 100);
    assert_int_equal(coffer_device_allocate(device, UINT64_MAX - 5, &address, &err), COFFER_ERR_DEVICE_MEMORY);
    coffer_device_close(device);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

#define SLOT 4096u
#define SLOTS 3u
#define ROUNDS 60u

static uint8_t byte_of(size_t round, size_t i)
{
    return (uint8_t)(round * 31 + i * 7 + (i >> 8));
}

/*
 * A ring of slots that is used again and again, as a load does: each slot is written to once its event was reached.
 * Half of the copies are plain, half are boxes whose rows have gaps on both sides.
 */
static coffer_status fill_by_ring(coffer_device *device, uint8_t *ring, uint64_t address, coffer_error *err)
{
    const coffer__device_ops *ops = device->ops;
    coffer__stream *stream = NULL;
    coffer__event *events[SLOTS] = { NULL };
    bool used[SLOTS] = { false };
    coffer_status status = ops->stream_new(device, &stream, err);
    for (size_t i = 0; i < SLOTS && status == COFFER_OK; i++) {
        status = ops->event_new(device, &events[i], err);
    }
    for (size_t round = 0; round < ROUNDS && status == COFFER_OK; round++) {
        const size_t slot = round % SLOTS;
        uint8_t *bytes = ring + slot * SLOT;
        if (used[slot]) {
            status = ops->event_reached(device, events[slot], round % 2 == 0, err);
            if (status == COFFER_NEED_MORE) {
                status = ops->event_reached(device, events[slot], true, err);
            }
        }
        if (status != COFFER_OK) {
            break;
        }
        for (size_t i = 0; i < SLOT; i++) {
            bytes[i] = byte_of(round, i);
        }
        const bool plain = round % 2 == 0;
        const coffer__strided_copy copy = { 0, 96, address + round * SLOT, 160, plain ? SLOT : 64, plain ? 1 : 25 };
        status = ops->copy(device, stream, &copy, bytes, err);
        if (status == COFFER_OK) {
            status = ops->event_record(device, events[slot], stream, err);
        }
        used[slot] = true;
    }
    ops->stream_free(device, stream);
    for (size_t i = 0; i < SLOTS; i++) {
        ops->event_free(device, events[i]);
    }
    return status;
}

static void check_ring(const uint8_t *found)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SLOT && round % 2 == 0; i++) {
            assert_int_equal(found[round * SLOT + i], byte_of(round, i));
        }
        for (size_t i = 0; i < SLOT && round % 2 == 1; i++) {
            const bool within = i / 160 < 25 && i % 160 < 64;
            const uint8_t expected = within ? byte_of(round, i / 160 * 96 + i % 160) : 0xAA;
            assert_int_equal(found[round * SLOT + i], expected);
        }
    }
}

/* Everything that is done with a device, from opening it to closing it; what was read back, where it went well. */
static coffer_status do_everything(const vendor_names *vendor, uint8_t *found, coffer_error *err)
{
    static uint8_t ring[SLOTS * SLOT];
    const uint64_t size = ROUNDS * SLOT;
    coffer_device *device = NULL;
    coffer__device_visit visit;
    uint64_t address = 0;
    bool mine = false;
    coffer_status status = coffer_device_open(&device, vendor->kind, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->enter(device, &visit, err);
    if (status == COFFER_OK) {
        status = device->ops->register_host(device, ring, sizeof ring, &mine, err);
        if (status == COFFER_OK || status == COFFER_ERR_UNSUPPORTED) {
            status = device->ops->allocate(device, size, &address, err);
        }
        if (status == COFFER_OK) {
            status = fill_by_ring(device, ring, address, err);
        }
        if (status == COFFER_OK) {
            status = device->ops->read(device, address, found, size, err);
        }
        if (mine) {
            device->ops->forget_host(device, ring);
        }
        if (address != 0) {
            device->ops->release(device, address, size);
        }
        device->ops->leave(device, &visit);
    }
    coffer_device_close(device);
    return status;
}

static void test_copies(void **state)
{
    (void)state;
    static uint8_t found[ROUNDS * SLOT];
    for (size_t i = 0; i < VENDORS; i++) {
        for (int seed = 1; seed <= 5; seed++) {
            char settings[64];
            coffer_error err;
            snprintf(settings, sizeof settings, "seed=%d strict=1 lazy=%d", seed, seed % 2);
            use_vendor(&vendors[i], settings);
            assert_int_equal(do_everything(&vendors[i], found, &err), COFFER_OK);
            check_ring(found);
            assert_nothing_left();
            assert_int_equal(control->counts().boxes, ROUNDS / 2);
        }
    }
}

/* Registering is not a condition: without it the copies are slower. */
static void test_copies_from_memory_that_is_not_registered(void **state)
{
    (void)state;
    static uint8_t found[ROUNDS * SLOT];
    static const char *const settings[] = { "locked=5000", "attributes=0" };
    for (size_t i = 0; i < VENDORS; i++) {
        for (size_t k = 0; k < 2; k++) {
            coffer_error err;
            use_vendor(&vendors[i], settings[k]);
            assert_int_equal(do_everything(&vendors[i], found, &err), COFFER_OK);
            check_ring(found);
            assert_int_equal(control->counts().pageable, ROUNDS);
            assert_nothing_left();
        }
    }
}

/* The nth call fails, for every n until none does any more. Memory, streams and events are released all the same,
   unless the driver is lost: then it is not called again. */
static void test_an_error_at_every_call(void **state)
{
    (void)state;
    static const int codes[] = { 2, 999, 700, 719 };
    static uint8_t found[ROUNDS * SLOT];
    for (size_t i = 0; i < VENDORS; i++) {
        for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
            bool failed = true;
            for (unsigned n = 1; failed; n++) {
                coffer_error err;
                use_vendor(&vendors[i], "");
                control->break_call(NULL, n, codes[k]);
                const coffer_status status = do_everything(&vendors[i], found, &err);
                failed = control->calls(NULL) >= n;
                assert_null(control->mistake());
                assert_int_equal(control->counts().calls_after_lost, 0);
                if (codes[k] < 700 || !failed) {
                    assert_nothing_left();
                }
                if (status == COFFER_OK) {
                    check_ring(found);
                } else {
                    assert_true(failed);
                    assert_int_equal(err.code, status);
                    assert_true(strlen(err.message) > 20);
                }
            }
        }
    }
}

static void test_a_lost_device_says_why(void **state)
{
    (void)state;
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "");
        coffer_device *device = open_one(&vendors[i], 0);
        uint64_t address = 0;
        coffer_error first;
        coffer_error second;
        control->break_call(vendors[i].allocate, 1, 700);
        assert_int_equal(coffer_device_allocate(device, 100, &address, &first), COFFER_ERR_DEVICE);
        assert_non_null(strstr(first.message, "cannot allocate memory: FAKE_ERROR_700 (error 700 of "));
        assert_non_null(strstr(first.message, "this process cannot use the device any more"));
        const unsigned calls = control->calls(NULL);
        assert_int_equal(coffer_device_allocate(device, 100, &address, &second), COFFER_ERR_DEVICE);
        assert_string_equal(first.message, second.message);
        coffer_device_close(device);
        assert_int_equal(control->calls(NULL), calls);
    }
}

/* What was registered for one device serves another of the kind, and is forgotten once. */
static void test_registering_twice(void **state)
{
    (void)state;
    static uint8_t ring[SLOT];
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "devices=2");
        coffer_device *devices[2] = { open_one(&vendors[i], 0), open_one(&vendors[i], 1) };
        bool mine[2] = { false, false };
        for (size_t k = 0; k < 2; k++) {
            coffer__device_visit visit;
            coffer_error err;
            assert_int_equal(devices[k]->ops->enter(devices[k], &visit, &err), COFFER_OK);
            assert_int_equal(devices[k]->ops->register_host(devices[k], ring, sizeof ring, &mine[k], &err), COFFER_OK);
            devices[k]->ops->leave(devices[k], &visit);
        }
        assert_true(mine[0]);
        assert_false(mine[1]);
        coffer__device_visit visit;
        assert_int_equal(devices[0]->ops->enter(devices[0], &visit, NULL), COFFER_OK);
        devices[0]->ops->forget_host(devices[0], ring);
        devices[0]->ops->leave(devices[0], &visit);
        coffer_device_close(devices[0]);
        coffer_device_close(devices[1]);
        assert_nothing_left();
    }
}

/* A stream waits for what the caller's stream has been given, and the caller's bytes do not come over the stream's. */
static void test_a_stream_waits_for_the_caller_s(void **state)
{
    (void)state;
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "");
        coffer_device *device = open_one(&vendors[i], 0);
        const coffer__device_ops *ops = device->ops;
        coffer__device_visit visit;
        coffer__stream *stream = NULL;
        coffer__event *event = NULL;
        uint64_t address = 0;
        coffer_error err;
        uint8_t bytes[64];
        memset(bytes, 3, sizeof bytes);
        assert_int_equal(ops->enter(device, &visit, &err), COFFER_OK);
        assert_int_equal(ops->allocate(device, sizeof bytes, &address, &err), COFFER_OK);
        control->hold(0);
        control->fill(0, address, sizeof bytes, 9);
        assert_int_equal(ops->stream_new(device, &stream, &err), COFFER_OK);
        assert_int_equal(ops->event_new(device, &event, &err), COFFER_OK);
        assert_int_equal(ops->event_record_caller(device, event, 0, &err), COFFER_OK);
        assert_int_equal(ops->stream_wait(device, stream, event, &err), COFFER_OK);
        const coffer__strided_copy copy = { 0, 0, address, 0, sizeof bytes, 1 };
        assert_int_equal(ops->copy(device, stream, &copy, bytes, &err), COFFER_OK);
        assert_int_equal(ops->event_record(device, event, stream, &err), COFFER_OK);
        assert_int_equal(ops->event_reached(device, event, false, &err), COFFER_NEED_MORE);
        control->let_go();
        assert_int_equal(ops->event_reached(device, event, true, &err), COFFER_OK);
        assert_int_equal(control->bytes(address, 1)[0], 3);
        ops->event_free(device, event);
        ops->stream_free(device, stream);
        ops->release(device, address, sizeof bytes);
        ops->leave(device, &visit);
        coffer_device_close(device);
        assert_nothing_left();
    }
}

/* In a child process the driver is not called, whatever is asked; the parent goes on. */
static void test_after_fork(void **state)
{
    (void)state;
    for (size_t i = 0; i < VENDORS; i++) {
        use_vendor(&vendors[i], "");
        coffer_device *device = open_one(&vendors[i], 0);
        const unsigned calls = control->calls(NULL);
        const pid_t child = fork();
        if (child == 0) {
            coffer_error err;
            uint64_t address = 0;
            bool good = coffer_device_allocate(device, 10, &address, &err) == COFFER_ERR_DEVICE;
            good = good && strstr(err.message, "was opened before this process was forked") != NULL;
            coffer_device_close(device);
            _exit(good && control->calls(NULL) == calls ? 0 : 1);
        }
        int status = 1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        uint64_t address = 0;
        assert_int_equal(coffer_device_allocate(device, 10, &address, NULL), COFFER_OK);
        coffer_device_release(device, address, 10);
        coffer_device_close(device);
        assert_nothing_left();
    }
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

typedef struct seen_list {
    char text[4096];
    size_t count;
    size_t end_after;
} seen_list;

static int see(void *ctx, const coffer_facility *facility)
{
    seen_list *seen = ctx;
    const size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof seen->text - used, "%s|%d|%s|%s\n", facility->name, facility->usable,
             facility->detail, facility->advice);
    seen->count++;
    return seen->count == seen->end_after;
}

/* What of the system is there depends on the machine; that all of it is named does not. */
static void test_the_list_of_the_system(void **state)
{
    static const char *const names[] = { "\nio_uring|", "\nlocked memory|", "\nhuge pages|" };
    static const char *const of_files[] = { "\nstorage|1|", "\ndirect reading|", "\nuncached reading|",
                                            "\npage cache|" };
    (void)state;
    coffer_error err;
    fake_folder = NULL;
    seen_list without = { .end_after = 0 };
    assert_int_equal(coffer_list_facilities(NULL, NULL, see, &without, &err), COFFER_OK);
    assert_int_equal(without.count, 6);
    char host[64];
    (void)snprintf(host, sizeof host, "cpu|1|%u processor", coffer__os_processors());
    assert_ptr_equal(strstr(without.text, host), without.text);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(strstr(without.text, names[i]));
    }
    work_dir_make();
    seen_list empty = { .end_after = 0 };
    const char *folder = work_path(".");
    assert_int_equal(coffer_list_facilities(folder, NULL, see, &empty, &err), COFFER_OK);
    assert_non_null(strstr(empty.text, "\nstorage|0|the folder has no file"));
    file_write("some", "bytes", 5);
    seen_list file = { .end_after = 0 };
    assert_int_equal(coffer_list_facilities(work_path("some"), NULL, see, &file, &err), COFFER_OK);
    seen_list within = { .end_after = 0 };
    assert_int_equal(coffer_list_facilities(folder, NULL, see, &within, &err), COFFER_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(strstr(file.text, of_files[i]));
        assert_non_null(strstr(within.text, of_files[i]));
    }
    seen_list none = { .end_after = 0 };
    assert_int_equal(coffer_list_facilities(work_path("not there"), NULL, see, &none, &err), COFFER_ERR_NOT_FOUND);
    /* The visitor may end at any of them. */
    for (size_t i = 1; i <= file.count; i++) {
        seen_list cut = { .end_after = i };
        assert_int_equal(coffer_list_facilities(work_path("some"), NULL, see, &cut, &err), COFFER_OK);
        assert_int_equal(cut.count, i);
    }
    work_dir_remove();
}

static void test_the_list_of_devices(void **state)
{
    (void)state;
    coffer_error err;
    seen_list seen = { .end_after = 0 };
    use_vendor(&vendors[1], "init=100");
    use_vendor(&vendors[0], "devices=2 memory=20000000 attributes=1");
    assert_int_equal(coffer_list_facilities(NULL, NULL, see, &seen, &err), COFFER_OK);
    assert_non_null(strstr(seen.text, "cuda:0|1|Fake GPU 0, 20.0 MB (20000000 bytes), which is the host's; memory of"));
    assert_non_null(strstr(seen.text, "cuda:1|1|Fake GPU 1, "));
    assert_non_null(strstr(seen.text, "hip|0|HIP sees no device (error 100 of HIP)|see whether rocm-smi lists one"));
    /* Nothing is made on a device for the sake of a list. */
    assert_int_equal(control->calls("cuDevicePrimaryCtxRetain"), 0);
    assert_nothing_left();
    seen_list cut = { .end_after = 2 };
    assert_int_equal(coffer_list_facilities(NULL, NULL, see, &cut, &err), COFFER_OK);
    assert_int_equal(cut.count, 2);
    fake_folder = NULL;
    seen_list none = { .end_after = 0 };
    assert_int_equal(coffer_list_facilities(NULL, NULL, see, &none, &err), COFFER_OK);
    assert_non_null(
        strstr(none.text, "cuda|0|the NVIDIA driver is missing: libcuda.so.1 cannot be loaded here|install"));
    assert_int_equal(coffer_list_facilities(NULL, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_without_a_driver),
        cmocka_unit_test(test_a_driver_that_does_not_start),
        cmocka_unit_test(test_memory_of_the_caller_runs_out),
        cmocka_unit_test(test_only_one_device_is_touched),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_out_of_memory_says_the_sizes),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copies_from_memory_that_is_not_registered),
        cmocka_unit_test(test_an_error_at_every_call),
        cmocka_unit_test(test_a_lost_device_says_why),
        cmocka_unit_test(test_registering_twice),
        cmocka_unit_test(test_a_stream_waits_for_the_caller_s),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_the_list_of_devices),
        cmocka_unit_test(test_the_list_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
