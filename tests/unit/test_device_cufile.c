/* SPDX-License-Identifier: Apache-2.0 */
/* Reading to a device by cuFile, on one that is none: what is said when it cannot be used, short reads, and errors. */
#define _GNU_SOURCE
#include "cufile.h"
#include "fake_cufile.h"
#include "fake_libraries.h"
#include "support_cmocka.h"
#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define FILE_SIZE 20000u
#define NVME (1u << 4)

static const fake_control_table *cuda;
static const fake_cufile_table *cufile_fake;

static void use_cufile(fake_cufile_settings settings)
{
    fake_cufile_function control = NULL;
    fake_folder = "good";
    cuda = fake_library("libcuda.so.1");
    cuda->reset("");
    void *library = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "fake_cufile_control");
    memcpy(&control, &found, sizeof control);
    cufile_fake = control();
    cufile_fake->begin(&settings, cuda);
}

static void assert_refused(const char *words)
{
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_error err;
    coffer__cufile *cufile = NULL;
    assert_int_equal(coffer__cufile_open(&cufile, &allocator, &err), COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, words));
    assert_non_null(strstr(err.message, "the engine \"auto\""));
    assert_int_equal(meter.held, 0);
}

static void test_what_is_missing(void **state)
{
    (void)state;
    use_cufile((fake_cufile_settings){ .open = 5001, .storage = NVME });
    assert_refused("does not start (error 5001)");
    use_cufile((fake_cufile_settings){ .storage = 0 });
    assert_refused("only work in its compatibility mode");
    assert_int_equal(cufile_fake->seen().drivers, 0);
    fake_folder = NULL;
    assert_refused("libcufile.so.0 cannot be loaded");
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_error err;
    coffer__cufile *cufile = NULL;
    meter.fail_at = 1;
    assert_int_equal(coffer__cufile_open(&cufile, &allocator, &err), COFFER_ERR_MEMORY);
}

/* Reads the file's middle to a device, and compares; the status of the read. */
static coffer_status read_middle(fake_cufile_settings settings, size_t size, coffer_error *err)
{
    uint8_t bytes[FILE_SIZE];
    coffer_device *device = NULL;
    coffer__cufile *cufile = NULL;
    coffer__cufile_file file;
    uint64_t address = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = pattern_byte(i);
    }
    file_write("data", bytes, sizeof bytes);
    use_cufile(settings);
    const int fd = open(work_path("data"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(coffer_device_open(&device, "cuda:0", NULL, err), COFFER_OK);
    assert_int_equal(coffer_device_allocate(device, FILE_SIZE, &address, err), COFFER_OK);
    assert_int_equal(coffer__cufile_open(&cufile, coffer_libc_allocator(), err), COFFER_OK);
    coffer_status status = coffer__cufile_add(cufile, fd, COFFER__OS_LOCAL, &file, err);
    if (status == COFFER_OK) {
        status = coffer__cufile_read(cufile, device, &file, 5001, address + 7, size, err);
    }
    if (status == COFFER_OK) {
        assert_memory_equal(cuda->bytes(address + 7, size), bytes + 5001, size);
        assert_int_equal(cuda->bytes(address + 6, 1)[0], 0xAA);
        assert_int_equal(cuda->bytes(address + 7 + size, 1)[0], 0xAA);
    }
    coffer__cufile_forget(cufile, &file);
    coffer__cufile_forget(cufile, &file);
    coffer__cufile_close(cufile);
    coffer__cufile_close(NULL);
    coffer_device_release(device, address, FILE_SIZE);
    coffer_device_close(device);
    close(fd);
    assert_int_equal(cufile_fake->seen().drivers + cufile_fake->seen().files, 0);
    assert_null(cuda->mistake());
    assert_int_equal(cuda->counts().memory + cuda->counts().contexts, 0);
    return status;
}

static void test_reads(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = NVME }, 9000, &err), COFFER_OK);
    assert_int_equal(cufile_fake->seen().reads, 1);
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = NVME, .most = 1000 }, 9000, &err), COFFER_OK);
    assert_int_equal(cufile_fake->seen().reads, 9);
}

static void test_reads_that_fail(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = NVME }, 14999 + 1, &err), COFFER_ERR_CHANGED);
    assert_int_equal(
        read_middle((fake_cufile_settings){ .storage = NVME, .most = 1000, .read = -1, .after = 2 }, 9000, &err),
        COFFER_ERR_IO);
    assert_int_equal(err.os_error, EIO);
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = NVME, .read = -5013 }, 9000, &err),
                     COFFER_ERR_DEVICE);
    assert_non_null(strstr(err.message, "cannot read the file to cuda:0: error 5013 of cuFile"));
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = NVME, .add = 5008 }, 9000, &err),
                     COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, "refuses the file (error 5008)"));
    assert_int_equal(read_middle((fake_cufile_settings){ .storage = 1u << 2 }, 9000, &err), COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, "cannot read from this kind of storage"));
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

/* Loads a model to a device, but every third tensor to host memory, and compares. *engines: those that were used. */
static coffer_status load_by_cufile(const coffer *model, uint32_t *engines, coffer_error *err)
{
    coffer_device *device = NULL;
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    coffer_load *load = NULL;
    coffer_loaded loaded;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    how.engine = COFFER_ENGINE_CUFILE;
    assert_int_equal(coffer_device_open(&device, "cuda:0", NULL, err), COFFER_OK);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, err), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        coffer_device *to = i % 3 == 2 ? NULL : device;
        assert_int_equal(coffer_plan_add_on(plan, coffer_at(model, i), NULL, 0, to, NULL, err), COFFER_OK);
    }
    assert_int_equal(coffer_staging_new(&staging, &how, err), COFFER_OK);
    coffer_status status = coffer_load_start(&load, plan, staging, NULL, err);
    while (status == COFFER_OK && (status = coffer_load_next(load, UINT64_MAX, &loaded, err)) == COFFER_OK &&
           loaded.item != SIZE_MAX) {
        uint8_t *expected = malloc((size_t)loaded.size + 1);
        assert_int_equal(coffer_read(model, loaded.tensor, expected, loaded.size, NULL, NULL), COFFER_OK);
        const uint8_t *found = loaded.device == NULL ? (const uint8_t *)(uintptr_t)loaded.address
                                                     : cuda->bytes(loaded.address, (size_t)loaded.size);
        assert_memory_equal(found, expected, (size_t)loaded.size);
        coffer_memory_free(loaded.memory);
        free(expected);
    }
    coffer_load_stats_of(load, &stats);
    *engines = load == NULL ? 0 : stats.engines;
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    coffer_device_close(device);
    assert_int_equal(cufile_fake->seen().drivers + cufile_fake->seen().files, 0);
    assert_null(cuda->mistake());
    assert_int_equal(cuda->counts().memory + cuda->counts().contexts + cuda->counts().registered, 0);
    return status;
}

/* Where the file system of the test's folder cannot be read like that, the load has to say so; then the rest cannot be
   seen. */
static void test_loads_read_to_devices(void **state)
{
    (void)state;
    dice of = { 31 };
    coffer_error err;
    uint32_t engines = 0;
    coffer *model = random_model(&of, 12, 3 << 20, 8 << 20, COFFER_NO_ALGORITHM, NULL);
    use_cufile((fake_cufile_settings){ .storage = ~0u });
    coffer_status status = load_by_cufile(model, &engines, &err);
    if (status == COFFER_ERR_ENGINE) {
        print_message("not tested beyond this: %s\n", err.message);
        assert_non_null(strstr(err.message, "the engine \"cufile\" was asked for"));
        coffer_close(model);
        return;
    }
    assert_int_equal(status, COFFER_OK);
    const size_t reads = cufile_fake->seen().reads;
    assert_true(reads > 0);
    assert_true((engines & (1u << COFFER_ENGINE_CUFILE)) != 0);
    /* Each read fails once. */
    for (size_t i = 0; i < reads; i += 3) {
        use_cufile((fake_cufile_settings){ .storage = ~0u, .read = -1, .after = i });
        assert_int_equal(load_by_cufile(model, &engines, &err), COFFER_ERR_IO);
        assert_string_not_equal(err.path, "");
    }
    use_cufile((fake_cufile_settings){ .storage = ~0u, .add = 5008 });
    assert_int_equal(load_by_cufile(model, &engines, &err), COFFER_ERR_ENGINE);
    coffer_close(model);
}

/* What was asked for by name and cannot be had is refused before anything is read. */
static void test_loads_that_cannot_use_it(void **state)
{
    (void)state;
    dice of = { 37 };
    coffer_error err;
    uint32_t engines = 0;
    coffer_load *load = NULL;
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer *model = random_model(&of, 4, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    use_cufile((fake_cufile_settings){ .storage = 0 });
    assert_int_equal(load_by_cufile(model, &engines, &err), COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, "compatibility mode"));
    how.engine = COFFER_ENGINE_CUFILE;
    assert_int_equal(coffer_plan_new(&plan, model, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_plan_add(plan, coffer_at(model, 0), NULL, 0, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_staging_new(&staging, &how, &err), COFFER_OK);
    assert_int_equal(coffer_load_start(&load, plan, staging, NULL, &err), COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, "nothing of the plan goes to one"));
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    coffer_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_missing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_reads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_reads_that_fail, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_loads_read_to_devices, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_loads_that_cannot_use_it, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
