/* SPDX-License-Identifier: Apache-2.0 */
/* Why: loads bring any plan to devices as a naive reader has it, their copies run while the next bytes are read, and
   whatever a driver does leaves nothing behind. */
#define _GNU_SOURCE
#include "fake_libraries.h"
#include "staging.h"
#include "support_cmocka.h"
#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#define MAX_ITEMS 24

static const char *const libraries[] = { "libcuda.so.1", "libamdhip64.so.6" };
static const char *const kinds[] = { "cuda", "hip" };

static const fake_control_table *control;

static void begin_fake(size_t vendor, const char *settings)
{
    fake_folder = "good";
    control = fake_library(libraries[vendor]);
    assert_non_null(control);
    control->reset(settings);
}

static coffer_device *open_number(size_t vendor, int number)
{
    coffer_error err;
    coffer_device *device = NULL;
    char name[16];
    snprintf(name, sizeof name, "%s:%d", kinds[vendor], number);
    if (coffer_device_open(&device, name, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return device;
}

static void assert_fake_is_empty(void)
{
    const fake_counts counts = control->counts();
    if (control->mistake() != NULL) {
        fail_msg("%s", control->mistake());
    }
    assert_int_equal(counts.memory, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.registered, 0);
    assert_int_equal(counts.contexts, 0);
    assert_int_equal(counts.calls_after_lost, 0);
}

static coffer_plan *plan_on(const coffer *model, coffer_device *device)
{
    coffer_plan *plan = NULL;
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_int_equal(coffer_plan_add_on(plan, coffer_at(model, i), NULL, 0, device, NULL, NULL), COFFER_OK);
    }
    return plan;
}

static void assert_is_on_device(const coffer *model, const coffer_loaded *loaded)
{
    uint8_t *expected = malloc((size_t)loaded->size + 1);
    uint8_t *found = malloc((size_t)loaded->size + 1);
    assert_int_equal(coffer_read(model, loaded->tensor, expected, loaded->size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_device_read(loaded->device, loaded->address, found, loaded->size, NULL), COFFER_OK);
    assert_memory_equal(found, expected, (size_t)loaded->size);
    free(expected);
    free(found);
}

/* Takes everything; how many items that were. What went wrong, if anything did, is in *err. */
static size_t take_all(coffer_load *load, const coffer *model, bool compare, coffer_status *status, coffer_error *err)
{
    size_t count = 0;
    coffer_loaded loaded = { .item = 0 };
    while ((*status = coffer_load_next(load, UINT64_MAX, &loaded, err)) == COFFER_OK && loaded.item != SIZE_MAX) {
        if (compare) {
            assert_is_on_device(model, &loaded);
        }
        coffer_memory_free(loaded.memory);
        count++;
    }
    return count;
}

/* ---- whole models ------------------------------------------------------------------------------------------------ */

static void test_models_come_to_devices(void **state)
{
    (void)state;
    for (size_t vendor = 0; vendor < 2; vendor++) {
        dice of = { 7 + vendor };
        coffer_error err;
        coffer_status status = COFFER_OK;
        coffer_load *load = NULL;
        coffer *model = random_model(&of, 50, 2 << 20, 6 << 20, COFFER_NO_ALGORITHM, NULL);
        begin_fake(vendor, "strict=1");
        coffer_device *device = open_number(vendor, 0);
        coffer_plan *plan = plan_on(model, device);
        assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, &err), COFFER_OK);
        assert_int_equal(take_all(load, model, true, &status, &err), 50);
        assert_int_equal(status, COFFER_OK);
        coffer_load_free(load);
        coffer_plan_free(plan);
        coffer_close(model);
        coffer_device_close(device);
        assert_fake_is_empty();
        work_dir_remove();
        work_dir_make();
    }
}

/* Small tensors share blocks of the device's memory; what it takes beyond them is little. */
static void test_small_tensors_share_memory(void **state)
{
    (void)state;
    dice of = { 11 };
    coffer_error err;
    coffer_status status = COFFER_OK;
    coffer_load *load = NULL;
    coffer *model = random_model(&of, 1000, 2000, 0, COFFER_NO_ALGORITHM, NULL);
    begin_fake(0, "");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_OK);
    assert_true(control->counts().memory < 400);
    assert_true(control->counts().peak < (uint64_t)4 << 20);
    assert_int_equal(take_all(load, model, true, &status, &err), 1000);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_device_close(device);
    assert_fake_is_empty();
}

/* What was handed out lives on, also when the program closes the device. */
static void test_device_memory_owns_itself(void **state)
{
    (void)state;
    dice of = { 13 };
    coffer_error err;
    coffer_loaded loaded;
    coffer_load *load = NULL;
    coffer *model = random_model(&of, 3, 100000, 0, COFFER_NO_ALGORITHM, NULL);
    begin_fake(0, "");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_load_take(load, 0, UINT64_MAX, &loaded, &err), COFFER_OK);
    coffer_load_free(load);
    coffer_plan_free(plan);
    assert_is_on_device(model, &loaded);
    coffer_close(model);
    coffer_device_close(device);
    assert_int_equal(control->counts().memory, 1);
    coffer_memory_free(loaded.memory);
    assert_fake_is_empty();
}

/* Changes a byte in the middle of the only file. */
static void damage_file(void)
{
    size_t size = 0;
    uint8_t *bytes = file_read("model.safetensors", &size);
    bytes[size / 2] ^= 1;
    file_write("model.safetensors", bytes, size);
    free(bytes);
}

/* Digests are checked before anything is handed out, also of what only passes through on its way to a device. */
static void test_digests_are_checked_on_the_way(void **state)
{
    (void)state;
    for (int damaged = 0; damaged < 2; damaged++) {
        dice of = { 41 };
        coffer_error err;
        coffer_loaded loaded;
        coffer_load *load = NULL;
        coffer_status status = COFFER_OK;
        coffer *model = random_model(&of, 20, 3 << 20, 0, some_algorithm(), NULL);
        if (damaged) {
            coffer_close(model);
            damage_file();
            assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, &err), COFFER_OK);
        }
        begin_fake(0, "");
        coffer_device *device = open_number(0, 0);
        coffer_plan *plan = plan_on(model, device);
        status = coffer_load_start(&load, plan, NULL, NULL, &err);
        while (status == COFFER_OK && (status = coffer_load_next(load, UINT64_MAX, &loaded, &err)) == COFFER_OK &&
               loaded.item != SIZE_MAX) {
            assert_true(loaded.verified || loaded.size == 0 || some_algorithm() == COFFER_NO_ALGORITHM);
            coffer_memory_free(loaded.memory);
        }
        const bool noticed = damaged && some_algorithm() != COFFER_NO_ALGORITHM;
        assert_int_equal(status, noticed ? COFFER_ERR_TENSOR_DIGEST : COFFER_OK);
        coffer_load_free(load);
        coffer_plan_free(plan);
        coffer_close(model);
        coffer_device_close(device);
        assert_fake_is_empty();
        work_dir_remove();
        work_dir_make();
    }
}

/* ---- random plans ------------------------------------------------------------------------------------------------ */

static void random_plan_round(uint64_t seed, size_t vendor)
{
    dice of = { seed };
    coffer_error err;
    wish wishes[MAX_ITEMS];
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    coffer_load *load = NULL;
    coffer_loaded loaded;
    char settings[64];
    size_t fulfilled = 0;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    const size_t count = 1 + (size_t)dice_below(&of, MAX_ITEMS);
    coffer *model = random_model(&of, 1 + (size_t)dice_below(&of, 8), (uint64_t)1 << (4 + dice_below(&of, 19)),
                                 dice_below(&of, 2) == 0 ? 0 : 1 << 20, COFFER_NO_ALGORITHM, NULL);
    snprintf(settings, sizeof settings, "devices=2 seed=%d attributes=%d lazy=%d", (int)(seed % 100),
             seed % 3 == 0 ? 0 : 2, seed % 4 < 2);
    begin_fake(vendor, settings);
    coffer_device *devices[3] = { open_number(vendor, 0), open_number(vendor, 1), NULL };
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        wishes[i] = random_wish_on(&of, plan, model, devices[dice_below(&of, 3)]);
    }
    how.memory = dice_below(&of, 2) == 0 ? 1 : 0;
    how.threads = (uint32_t)dice_below(&of, 4);
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    if (coffer_load_start(&load, plan, staging, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    for (;;) {
        if (coffer_load_next(load, UINT64_MAX, &loaded, &err) != COFFER_OK) {
            fail_msg("%s", err.message);
        }
        if (loaded.item == SIZE_MAX) {
            break;
        }
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
        fulfilled++;
    }
    assert_int_equal(fulfilled, count);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    for (size_t i = 0; i < count; i++) {
        wish_free(&wishes[i]);
    }
    coffer_staging_free(staging);
    coffer_device_close(devices[0]);
    coffer_device_close(devices[1]);
    assert_fake_is_empty();
    work_dir_remove();
    work_dir_make();
}

static void test_any_plan_on_devices(void **state)
{
    (void)state;
    for (uint64_t seed = 300; seed < 350; seed++) {
        random_plan_round(seed, seed % 2);
    }
}

/* ---- the caller's streams, and staging buffers ------------------------------------------------------------------- */

/* What was queued on the place's stream comes first; until then nothing of it is handed out. */
static void test_places_wait_for_their_stream(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 3000000 } } };
    image made = image_of(specs, 1);
    coffer *model = NULL;
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    coffer_error err;
    coffer_loaded loaded;
    uint64_t address = 0;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    begin_fake(0, "");
    coffer_device *device = open_number(0, 0);
    assert_int_equal(coffer_device_allocate(device, 3000000, &address, &err), COFFER_OK);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    coffer_destination place = { .device = device, .address = address, .size = 3000000, .stream = 2 };
    assert_int_equal(coffer_plan_add(plan, coffer_at(model, 0), NULL, 0, &place, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "stream 2"));
    place.stream = 0;
    assert_int_equal(coffer_plan_add(plan, coffer_at(model, 0), NULL, 0, &place, NULL, &err), COFFER_OK);
    control->hold(0);
    control->fill(0, address, 3000000, 77);
    assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_load_next(load, 20, &loaded, &err), COFFER_NEED_MORE);
    control->let_go();
    assert_int_equal(coffer_load_next(load, UINT64_MAX, &loaded, &err), COFFER_OK);
    assert_null(loaded.memory);
    assert_is_on_device(model, &loaded);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_device_release(device, address, 3000000);
    coffer_device_close(device);
    image_free(&made);
    assert_fake_is_empty();
}

/* The staging buffer's memory is registered once, for all loads that use it, and stays so when the program closes the
   device. */
static void test_windows_register_once(void **state)
{
    (void)state;
    dice of = { 17 };
    coffer_error err;
    coffer_staging *staging = NULL;
    coffer *model = random_model(&of, 10, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    begin_fake(0, "strict=1");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    assert_int_equal(coffer_staging_new(&staging, NULL, &err), COFFER_OK);
    for (int i = 0; i < 3; i++) {
        coffer_load *load = NULL;
        coffer_status status = COFFER_OK;
        assert_int_equal(coffer_load_start(&load, plan, staging, NULL, &err), COFFER_OK);
        assert_int_equal(take_all(load, model, true, &status, &err), 10);
        coffer_load_free(load);
        assert_int_equal(control->counts().registered, 1);
    }
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_device_close(device);
    coffer_staging_free(staging);
    assert_fake_is_empty();
}

/* What a server has passes through the staging buffer's memory, as what is read from files does: the driver gets no
   other. */
static void test_kept_files_come_through_registered_memory(void **state)
{
    (void)state;
    static const size_t tries[] = { 10, 1 };
    static const tensor_spec specs[] = { { "0", COFFER_U8, 2, { 3000, 900 } },
                                         { "1", COFFER_U8, 1, { 3000000 } },
                                         { "2", COFFER_U8, 1, { 3000000 } } };
    image made = image_of(specs, 3);
    file_write("model.safetensors", made.bytes, made.size);
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        coffer_error err;
        coffer *model = NULL;
        coffer_cache_server *server = NULL;
        coffer_load *load = NULL;
        coffer_plan *plan = NULL;
        coffer_status status = COFFER_OK;
        assert_int_equal(coffer_cache_server_new(&server, work_path("model.safetensors"), NULL, NULL, NULL, &err),
                         COFFER_OK);
        assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
        begin_fake(0, "strict=1");
        coffer_device *device = open_number(0, 0);
        assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
        for (size_t k = 0; k < 3 && k < tries[i]; k++) {
            assert_int_equal(coffer_plan_add_on(plan, coffer_at(model, k), NULL, 0, device, NULL, NULL), COFFER_OK);
        }
        assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, &err), COFFER_OK);
        assert_int_equal(take_all(load, model, true, &status, &err), coffer_plan_count(plan));
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(control->counts().pageable, 0);
        coffer_load_stats stats = { .struct_size = sizeof stats };
        coffer_load_stats_of(load, &stats);
        assert_int_equal(stats.engines, 0); /* of no file */
        assert_int_equal(stats.direct, 0);
        coffer_load_free(load);
        coffer_plan_free(plan);
        coffer_close(model);
        coffer_cache_server_free(server);
        coffer_device_close(device);
        assert_fake_is_empty();
    }
    image_free(&made);
}

/* The fake's devices are next to node 0. What the system says of the staging buffer's memory is asked of itself, where
   it lets programs choose. */
static void test_windows_are_next_to_their_device(void **state)
{
    (void)state;
    dice of = { 18 };
    coffer_error err;
    coffer_staging *staging = NULL;
    coffer_load *load = NULL;
    coffer_status status = COFFER_OK;
    int policy = -1;
    unsigned long nodes[16] = { 0 };
    coffer *model = random_model(&of, 10, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    begin_fake(0, "strict=1");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    assert_int_equal(coffer_staging_new(&staging, NULL, &err), COFFER_OK);
    assert_int_equal(staging->node, -1);
    assert_int_equal(coffer_load_start(&load, plan, staging, NULL, &err), COFFER_OK);
    assert_int_equal(take_all(load, model, true, &status, &err), 10);
    assert_int_equal(staging->node, 0);
    if (coffer__os_pages_near(staging->slots, coffer__os_page_size(), 0) != 0) {
        print_message("this system does not let programs choose where memory is\n");
    } else {
        uint8_t *last = staging->slots + staging->slot_count * (size_t)COFFER__CELL - 1;
        assert_int_equal(syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, last, 2UL), 0);
        assert_int_equal(policy, 1);
        assert_int_equal(nodes[0], 1);
    }
    assert_int_not_equal(coffer__os_pages_near(staging->slots, 4096, -1), 0);
    assert_int_not_equal(coffer__os_pages_near(staging->slots, 4096, 100000), 0);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_staging_free(staging);
    coffer_device_close(device);
    assert_fake_is_empty();
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

/* Opens a device, loads a model to it, and closes everything. */
static coffer_status load_once(const coffer *model, size_t vendor, coffer_error *err)
{
    coffer_device *device = NULL;
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    coffer_staging *staging = NULL;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    how.threads = 2;
    coffer_status status = coffer_device_open(&device, kinds[vendor], NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    plan = plan_on(model, device);
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    status = coffer_load_start(&load, plan, staging, NULL, err);
    if (status == COFFER_OK) {
        const size_t count = take_all(load, model, false, &status, err);
        assert_true(status != COFFER_OK || count == coffer_count(model));
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    coffer_device_close(device);
    return status;
}

/* Each call of the driver fails once, passing or for good. */
static void test_an_error_at_every_call_of_a_load(void **state)
{
    (void)state;
    static const int codes[] = { 2, 999, 700 };
    dice of = { 19 };
    coffer *model = random_model(&of, 6, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
        bool failed = true;
        size_t refused = 0;
        for (unsigned n = 1; failed; n++) {
            coffer_error err;
            begin_fake(k % 2, "");
            control->break_call(NULL, n, codes[k]);
            const coffer_status status = load_once(model, k % 2, &err);
            failed = control->calls(NULL) >= n;
            assert_true(status == COFFER_OK || failed);
            assert_true(status == COFFER_OK || status == COFFER_ERR_DEVICE || status == COFFER_ERR_NO_DEVICE ||
                        status == COFFER_ERR_DEVICE_MEMORY);
            assert_true(status == COFFER_OK || (err.code == status && err.message[0] != '\0'));
            assert_int_equal(control->counts().calls_after_lost, 0);
            assert_null(control->mistake());
            if (codes[k] < 700 || !failed) {
                assert_fake_is_empty();
            }
            refused += status != COFFER_OK;
        }
        assert_true(refused > 10);
    }
    coffer_close(model);
}

static void test_a_device_that_is_full(void **state)
{
    (void)state;
    dice of = { 23 };
    coffer_error err;
    coffer *model = random_model(&of, 30, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    begin_fake(0, "memory=1500000");
    assert_int_equal(load_once(model, 0, &err), COFFER_ERR_DEVICE_MEMORY);
    assert_true(err.expected > err.actual);
    assert_non_null(strstr(err.message, "of 1.5 MB (1500000 bytes) are free: load less of the model on it, or set a"));
    assert_fake_is_empty();
    coffer_close(model);
}

/* With a budget the same model goes through the device in portions. */
static void test_a_device_budget(void **state)
{
    (void)state;
    dice of = { 23 };
    coffer_error err;
    coffer_status status = COFFER_OK;
    coffer_load *load = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    uint64_t largest = 0;
    coffer *model = random_model(&of, 30, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    for (size_t i = 0; i < coffer_count(model); i++) {
        largest = coffer_at(model, i)->size > largest ? coffer_at(model, i)->size : largest;
    }
    begin_fake(0, "");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    options.device_budget = largest - 1;
    assert_int_equal(coffer_load_start(&load, plan, NULL, &options, &err), COFFER_ERR_BUDGET);
    options.device_budget = largest;
    assert_int_equal(coffer_load_start(&load, plan, NULL, &options, &err), COFFER_OK);
    assert_int_equal(take_all(load, model, true, &status, &err), 30);
    assert_true(control->counts().peak < 2 * largest + ((uint64_t)4 << 20));
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_device_close(device);
    assert_fake_is_empty();
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* A source that takes `slow` units of virtual time for each byte. */
typedef struct slow_source {
    const image *of;
    uint64_t slow;
} slow_source;

static coffer_status slow_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    const slow_source *source = ctx;
    (void)err;
    memcpy(buffer, source->of->bytes + offset, size);
    if (control != NULL) {
        control->read_for(size * source->slow);
    }
    return COFFER_OK;
}

static void slow_close(void *ctx)
{
    (void)ctx;
}

/* How long a load of an image takes in virtual time, by one thread. */
static uint64_t virtual_time(const image *made, uint64_t slow_reading, uint64_t memory)
{
    slow_source from = { made, slow_reading };
    const coffer_source source = { .read_at = slow_read, .close = slow_close, .ctx = &from, .size = made->size };
    coffer *model = NULL;
    coffer_load *load = NULL;
    coffer_staging *staging = NULL;
    coffer_error err;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_OK);
    begin_fake(0, "rate=1");
    coffer_device *device = open_number(0, 0);
    coffer_plan *plan = plan_on(model, device);
    how.threads = 1;
    how.memory = memory;
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    assert_int_equal(coffer_load_start(&load, plan, staging, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_OK);
    const uint64_t end = control->end();
    coffer_load_free(load);
    coffer_staging_free(staging);
    coffer_plan_free(plan);
    coffer_close(model);
    coffer_device_close(device);
    assert_fake_is_empty();
    return end;
}

/* Reading and copying overlap: the whole takes hardly longer than the slower of them alone, and one slot. */
static void test_copies_run_while_bytes_are_read(void **state)
{
    (void)state;
    const uint64_t slot = (uint64_t)2 << 20;
    const uint64_t size = (uint64_t)24 << 20;
    const tensor_spec specs[] = { { "a", COFFER_U8, 1, { size / 2 } },
                                  { "b", COFFER_U8, 1, { size / 4 } },
                                  { "c", COFFER_U8, 1, { size / 4 } } };
    image made = image_of(specs, 3);
    /* Equal rates; then a disk that is half as fast as the device. */
    const uint64_t equal = virtual_time(&made, 1, 8 * slot);
    assert_true(equal >= size && equal <= size + size / 10 + slot);
    const uint64_t slow = virtual_time(&made, 2, 8 * slot);
    assert_true(slow >= 2 * size && slow <= 2 * size + size / 5 + slot);
    image_free(&made);
    control = NULL;
}

int main(void)
{
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        DEVICE_TEST(test_models_come_to_devices),
        DEVICE_TEST(test_small_tensors_share_memory),
        DEVICE_TEST(test_device_memory_owns_itself),
        DEVICE_TEST(test_digests_are_checked_on_the_way),
        DEVICE_TEST(test_any_plan_on_devices),
        DEVICE_TEST(test_places_wait_for_their_stream),
        DEVICE_TEST(test_windows_register_once),
        DEVICE_TEST(test_windows_are_next_to_their_device),
        DEVICE_TEST(test_kept_files_come_through_registered_memory),
        DEVICE_TEST(test_an_error_at_every_call_of_a_load),
        DEVICE_TEST(test_a_device_that_is_full),
        DEVICE_TEST(test_a_device_budget),
        DEVICE_TEST(test_copies_run_while_bytes_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
