# SPDX-License-Identifier: Apache-2.0
"""In a user namespace without a map every stranger has the number of this process's user: nothing is shared there."""

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from network import SMALL
from web_server import Server

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


# ---- files --------------------------------------------------------------------------------------------------------------


def for_all(folder):
    """A folder that every user may write, with a model and its sums; how its sums are verified with a state."""
    folder.chmod(0o777)
    (folder / "m.safetensors").write_bytes(SMALL)
    (folder / "sums").write_text(hashlib.sha256(SMALL).hexdigest() + "  m.safetensors\n")
    return [CLI, "verify", folder / "m.safetensors", "-m", folder / "sums", "--state", folder / "state"]


def test_a_state_is_not_trusted_where_all_have_one_number(tmp_path):
    """One that was just made is, and outside it is this user's as ever. Without such namespaces nobody can be in one."""
    words = for_all(tmp_path)
    made, again = in_namespace(*words), in_namespace(*words)
    if in_namespace("true").returncode == 0:
        assert made.returncode == 0, made.stderr
        assert again.returncode == 3 and "cannot be told in a user namespace" in again.stderr
    here = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert here.returncode == 0, here.stderr


def test_nobody_with_a_number_of_its_own_trusts_what_is_its_own():
    """As outside of a namespace that lacks numbers. Another user than this one can only be played by root."""
    user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        words = for_all(Path(folder))
        for _ in range(2):
            run = subprocess.run(words, capture_output=True, text=True, timeout=60, **user)
            assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("where", ["here", "namespace", "nobody"])
def test_fetch_works_whatever_the_own_number_says(where):
    """What somebody left there is not resumed; the file is fetched anew, and what is already there is no failure."""
    with Server({"/m.safetensors": SMALL}) as server, tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "to"
        folder.mkdir()
        folder.chmod(0o777)
        Path(root).chmod(0o755)
        (folder / "m.safetensors.coffer-part").write_bytes(b"of somebody")
        words = [CLI, "fetch", server.url("/m.safetensors"), "-o", str(folder)]
        for _ in range(2):
            user = {"user": 65534, "group": 65534} if where == "nobody" and os.geteuid() == 0 else {}
            run = subprocess.run((["unshare", "-U"] if where == "namespace" and in_namespace("true").returncode == 0 else []) + words,
                                 capture_output=True, text=True, timeout=60, **user)  # fmt: skip
            assert run.returncode == 0, run.stderr
            assert (folder / "m.safetensors").read_bytes() == SMALL
            assert [each.name for each in folder.iterdir()] == ["m.safetensors"]
