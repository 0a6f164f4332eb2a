# SPDX-License-Identifier: Apache-2.0
"""A library that has the static library in it and is unloaded right after it saved a file: nothing of it may be at work then, or be
missed."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(os.environ["COFFER_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["COFFER_LIB"]).parent

PLUGIN = r"""
#include "coffer.h"
#include <stdlib.h>
__attribute__((visibility("default"))) int save(const char *path, uint64_t size)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    void *data = calloc(1, size);
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.sync = COFFER_SYNC_NEVER;
    int failed = coffer_header_new(&header, coffer_libc_allocator(), NULL) != COFFER_OK ||
                 coffer_header_add(header, "a", 1, COFFER_U8, &size, 1, NULL) != COFFER_OK ||
                 coffer_writer_open(&writer, header, path, &options, NULL) != COFFER_OK ||
                 coffer_writer_write(writer, 0, 0, data, size, NULL) != COFFER_OK ||
                 coffer_writer_finish(writer, NULL) != COFFER_OK;
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(data);
    return failed;
}
"""

# The old file takes long to be given up: so long that the plug-in is gone, if it goes.
HOST = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_t program;
int munmap(void *address, size_t size)
{
    if (!pthread_equal(pthread_self(), program)) {
        sleep(1);
        puts("a thread");
    }
    return (int)syscall(SYS_munmap, address, size);
}
int main(int count, char **arguments)
{
    int (*save)(const char *path, unsigned long long size);
    program = pthread_self();
    for (int i = 0; i < 2 && count == 3; i++) {
        void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL) {
            return 2;
        }
        *(void **)&save = dlsym(plugin, "save");
        if (save(arguments[2], 64 << 20) != 0) {
            return 3;
        }
        dlclose(plugin);
    }
    sleep(2);
    puts("the end");
    return 0;
}
"""


def compile_c(folder, name, text, *options):
    (folder / f"{name}.c").write_text(text)
    subprocess.run(["cc", "-O1", "-o", name, f"{name}.c", *options], cwd=folder, check=True)


def test_a_plugin_is_unloaded_after_it_saved(tmp_path):
    compile_c(tmp_path, "plugin", PLUGIN, "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'include'}",
              str(BUILD / "libcoffer.a"), "-Wl,--exclude-libs,ALL", "-ldl", "-lpthread", "-lm")
    compile_c(tmp_path, "host", HOST, "-rdynamic", "-ldl", "-lpthread")
    result = subprocess.run(["./host", "./plugin", "model"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (0, "a thread\nthe end\n")
