# SPDX-License-Identifier: Apache-2.0
"""In a user namespace without a map every stranger has the number of this process's user: nothing is shared there."""

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from network import SMALL

CLI = os.environ["COFFER_CLI"]


def in_namespace(*words):
    return subprocess.run(["unshare", "-U", *map(str, words)], capture_output=True, text=True, timeout=60)


def test_there_is_such_a_namespace():
    """What the tests below are about. Where the system makes none, nobody can be in one."""
    made = in_namespace("id", "-u")
    unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    assert made.returncode != 0 or int(made.stdout) == unknown


def kept_name(path, user):
    """By which a model cache server of that user answers for the file (src/load/cache/served.c)."""
    info = os.stat(path)
    number = 0xCBF29CE484222325
    for byte in ("%x/%x/%x/%x/%x" % (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)).encode():
        number = (number ^ byte) * 0x100000001B3 % 2**64
    return "coffer/keep/%d/%016x/%x/%x" % (user, number, info.st_ino, info.st_size)


def stranger(name):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + name)
    listener.listen(8)
    listener.setblocking(False)
    return listener


def calls(listener):
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(SMALL)
    return path


def test_the_name_is_the_servers(model):
    """Without this the tests below would watch a name that nobody calls."""
    with stranger(kept_name(model, os.geteuid())) as listener:
        subprocess.run([CLI, "load", model], check=True, capture_output=True, timeout=60)
        assert calls(listener) == 1


def test_no_memory_is_taken_from_a_stranger(model):
    unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    with stranger(kept_name(model, unknown)) as listener:
        in_namespace(CLI, "load", model)
        assert calls(listener) == 0


def test_nothing_is_kept_for_strangers(model):
    if in_namespace("true").returncode != 0:
        return
    done = in_namespace(CLI, "keep", model)
    assert done.returncode != 0
    assert re.search("nothing is shared here: .*namespace", done.stderr)
