/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines on file systems of their own: disks with sectors of 512 and of 4096 bytes differ in what direct reading accepts,
 * and file systems in what they say of it. Each is made in a file, on a loop device, and mounted where only the child that
 * reads it can see it. That takes rights and kernel modules; what is missing is said, and not tested.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "support_child.h"
#include "support_engine.h"
#include "support_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <sched.h>
#include <sys/mount.h>

/* How a file system is made and mounted at $D/at; D is the test's directory, S the sectors' size. The loop device goes when
   it is unmounted, and that happens when the child ends. */
#define ON_LOOP(make, type)                                                                                            \
    "set -e; mkdir $D/at; rm -f $D/disk; truncate -s 320M $D/disk; L=$(losetup --sector-size $S --find --show "        \
    "$D/disk);"                                                                                                        \
    "trap 'losetup -d $L' EXIT;" make " $L; mount -t " type " $L $D/at"

static const struct disk {
    const char *name;
    unsigned sector;
    const char *script;
} disks[] = {
    { "ext4 with sectors of 512 bytes", 512, ON_LOOP("mkfs.ext4 -q", "ext4") },
    { "ext4 with sectors of 4096 bytes", 4096, ON_LOOP("mkfs.ext4 -q", "ext4") },
    { "XFS with sectors of 512 bytes", 512, ON_LOOP("mkfs.xfs -q", "xfs") },
    { "XFS with sectors of 4096 bytes", 4096, ON_LOOP("mkfs.xfs -q", "xfs") },
    { "Btrfs with sectors of 512 bytes", 512, ON_LOOP("mkfs.btrfs -q", "btrfs") },
    { "Btrfs with sectors of 4096 bytes", 4096, ON_LOOP("mkfs.btrfs -q", "btrfs") },
    { "compressed Btrfs", 512, ON_LOOP("mkfs.btrfs -q", "btrfs -o compress-force=zstd") },
    { "overlay", 0,
      "set -e; mkdir $D/at $D/low $D/up $D/work; cp $D/model $D/low/model;"
      "mount -t overlay -o lowerdir=$D/low,upperdir=$D/up,workdir=$D/work none $D/at" },
    { "tmpfs", 0, "set -e; mkdir $D/at; mount -t tmpfs none $D/at" },
    { "a system without /proc", 0, "set -e; mkdir $D/at; mount -t tmpfs none /proc" },
    { "ramfs", 0, "set -e; mkdir $D/at; mount -t ramfs none $D/at" },
    /* By a process, which ends when it is unmounted, and after a minute in any case. */
    { "FUSE", 0,
      "set -e; mkdir $D/at $D/low; cp $D/model $D/low/model; timeout 60 bindfs -f $D/low $D/at & "
      "for i in $(seq 100); do [ -e $D/at/model ] && exit 0; sleep 0.1; done; exit 1" },
};

/* A file system in user space is read by many large reads, each thread by a descriptor of its own. */
static void assert_is_read_as_fuse(const coffer__byte_source *source)
{
    coffer__file_reader file_reader;
    coffer__engine_facts facts;
    const coffer__engine_wish wish = { .planned = source->size };
    coffer__engine_facts_get(&facts);
    assert_int_equal(coffer__file_reader_open(&file_reader, source, &wish, &facts, NULL), COFFER_OK);
    assert_int_equal(coffer__file_reader_engine(&file_reader), COFFER_ENGINE_BUFFERED);
    assert_true(file_reader.unshared);
    assert_int_equal(file_reader.threads, 16);
    assert_int_equal(file_reader.chunk, 8 << 20);
    coffer__file_reader_close(&file_reader);
}

/* 77: the file system cannot be made here. */
static int read_on_disk(void *ctx)
{
    const struct disk *disk = ctx;
    char text[1024];
    coffer__byte_source source;
    snprintf(text, sizeof text, "exec >/dev/null 2>&1; D='%s'; S=%u; %s; [ -e $D/at/model ] || cp $D/model $D/at/model",
             work_path("."), disk->sector, disk->script);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return 77;
    }
    if (system(text) != 0) { /* NOLINT(cert-env33-c,concurrency-mt-unsafe): the script above */
        return 77;
    }
    assert_int_equal(coffer__source_path(&source, work_path("at/model"), NULL), COFFER_OK);
    const bool fuse = strcmp(disk->name, "FUSE") == 0;
    if (fuse) {
        assert_is_read_as_fuse(&source);
    }
    engine_read_by_all(&source);
    source.ops->close(&source);
    return fuse && umount(work_path("at")) != 0 ? 1 : 0;
}

/* Removes what work_dir_remove does not look for: folders, which are empty outside of the child but for the overlay's. */
static void remove_folders(void)
{
    char text[512];
    snprintf(text, sizeof text, "cd '%s' && rm -rf at low up work", work_path("."));
    assert_int_equal(system(text), 0); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): the line above */
}

static void test_disks(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof disks / sizeof disks[0]; i++) {
        struct disk disk = disks[i];
        const int result = child_run(read_on_disk, &disk);
        remove_folders();
        if (result == 77) {
            print_message("not run: %s cannot be made here\n", disk.name);
        } else {
            print_message("%s\n", disk.name);
            assert_int_equal(result, 0);
        }
    }
}
#else
static void test_disks(void **unused)
{
    (void)unused;
    print_message("not run: this system has no loop devices\n");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_disks, engine_set_up, engine_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
