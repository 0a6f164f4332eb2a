/* SPDX-License-Identifier: Apache-2.0 */
/* Reading to a device by cuFile, on one that is none: what is said when it cannot be used, short reads, and errors. */
#define _GNU_SOURCE
#include "cufile.h"
#include "fake_cufile.h"
#include "fake_libraries.h"
#include "support_cmocka.h"
#include "support_file.h"
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
static coffer_status read_middle(fake_cufile_settings settings, uint64_t size, coffer_error *err)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_missing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_reads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_reads_that_fail, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
