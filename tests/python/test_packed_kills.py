# SPDX-License-Identifier: Apache-2.0
"""Packing and unpacking that are killed, or find the disk full, at any call that reads, writes or changes names: what was there is
whole, what is new is whole or not there, and the same command succeeds afterwards."""

import os
import shutil
import subprocess

import pytest
from test_packed import coffer, plain_file

CLI = os.environ["COFFER_CLI"]
# strace counts each of these for itself.
CALLS = ["pread64", "pwrite64", "write", "fallocate", "copy_file_range", "linkat", "renameat", "unlinkat", "fsync", "fdatasync"]
# Not renameat: the complete file is kept then, and the message says where.
FULL = ["pwrite64", "fallocate", "copy_file_range", "linkat"]


@pytest.fixture(name="work")
def fixture_work(tmp_path):
    """A folder with a plain file and a packed one, and another that nothing changes."""
    folder = tmp_path / "kept"
    folder.mkdir()
    plain_file(folder / "plain.safetensors")
    assert coffer("pack", folder / "plain.safetensors", "-o", folder / "packed.safetensors").returncode == 0
    work = tmp_path / "work"
    return folder, work


def injected(what, folder, words):
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"inject={what}", CLI, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What is done, which file it writes, and what is made there before.
STEPS = {
    "pack": (["pack", "plain.safetensors", "-o", "new.safetensors"], "new.safetensors", None),
    "pack over": (["pack", "plain.safetensors", "-o", "new.safetensors", "-f"], "new.safetensors", b"older"),
    "unpack": (["unpack", "packed.safetensors", "-o", "new.safetensors"], "new.safetensors", None),
    "unpack over": (["unpack", "packed.safetensors", "-o", "new.safetensors", "-f"], "new.safetensors", b"older"),
    "rename": (["rename", "packed.safetensors", "large=huge", "--in-place"], "packed.safetensors", None),
}


def prepare(work, step):
    kept, folder = work
    _, name, older = STEPS[step]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    if older is not None:
        (folder / name).write_bytes(older)


def every(calls, how, work, step):
    """(the call, how the command ended, what is in the folder before and after) of a run for each call that the command makes."""
    _, folder = work
    words, name, _ = STEPS[step]
    count = 0
    for call in calls:
        for number in range(1, 200):
            prepare(work, step)
            old = contents(folder)
            done = injected(f"{call}:{how}:when={number}", folder, words)
            left = contents(folder)
            if done.returncode == 0 and left.get(name) not in (None, old.get(name)):
                break  # the command makes that call less often, or can do without it
            yield (call, number), done, old, left
            count += 1
    assert count > 1


def finished(work, step):
    """What the step leaves when nothing happens to it."""
    _, folder = work
    words, name, _ = STEPS[step]
    prepare(work, step)
    assert subprocess.run([CLI, *words], cwd=folder, capture_output=True).returncode == 0
    return contents(folder)[name]


@pytest.mark.parametrize("step", STEPS)
def test_killed(work, step):
    _, folder = work
    words, name, _ = STEPS[step]
    new = finished(work, step)
    for call, done, old, left in every(CALLS, "signal=SIGKILL", work, step):
        assert done.returncode in (-9, 137), (call, done.stderr)
        assert left.get(name) in (old.get(name), new), call
        assert all(left[other] == data for other, data in old.items() if other != name), call
        if left.get(name) == old.get(name):
            assert subprocess.run([CLI, *words], cwd=folder, capture_output=True).returncode == 0, call
            assert contents(folder)[name] == new, call


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk(work, step):
    for call, done, old, left in every(FULL, "error=ENOSPC", work, step):
        assert done.returncode == 3 and "space" in done.stderr, (call, done.returncode, done.stderr)
        assert left == old, call
