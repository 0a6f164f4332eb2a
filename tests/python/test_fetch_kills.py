# SPDX-License-Identifier: Apache-2.0
"""A fetch that is killed at any call that changes names: nobody gets files of two models, and the same command goes on."""

import os
import shutil
import subprocess

import pytest

import coffer_ctypes as coffer
from network import quick  # noqa: F401
from test_fetch import CLI, CONFIG, content, fetch
from test_network_models import INDEX, make_model, serve
from web_server import Server

# strace counts each of these for itself.
CALLS = ["renameat", "linkat", "unlink", "unlinkat", "ftruncate", "pwrite64", "fsync", "fdatasync"]


def killed_at(call, number, words):
    """Whether the command came to that call for the time of that number, and was killed there."""
    inject = "inject=%s:signal=SIGKILL:when=%d" % (call, number)
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", inject, CLI, "fetch", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -9, 137), done.stderr
    return done.returncode != 0


def every_kill(words, prepare):
    """(call, number), the folder being as a kill there leaves it."""
    renamed = 0
    for call in CALLS:
        for number in range(1, 100):
            prepare()
            if not killed_at(call, number, words):
                break
            renamed += call == "renameat"
            yield call, number
    assert renamed > 0


def other_version(files):
    """The same names with other tensors' bytes."""
    return {name: text if name == INDEX else text[:-300] + bytes(255 - byte for byte in text[-300:]) for name, text in files.items()}


def tensors(folder):
    """Those that a loader gets; None when it is refused."""
    done = subprocess.run([CLI, "check", folder], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    names = [folder / "model.safetensors"] if not (folder / INDEX).exists() else sorted(folder.glob("model-*.safetensors"))
    found = {}
    for name in names:
        verdict, data = coffer.open_and_read(name)
        assert verdict.accepted
        found |= data
    return found


def test_a_first_fetch_goes_on(tmp_path):
    files, bodies = make_model(3)
    with serve(files | {"config.json": CONFIG}) as server:
        words = [server.url("/" + INDEX), "-o", tmp_path / "m"]
        for number in every_kill(words, lambda: shutil.rmtree(tmp_path / "m", ignore_errors=True)):
            assert tensors(tmp_path / "m") in (None, bodies), number
            fetch(*words)
            assert content(tmp_path / "m") == files | {"config.json": CONFIG}, number


def test_what_is_replaced_is_no_mixture(tmp_path):
    files, bodies = make_model(3)
    old = other_version(files) | {"config.json": b'{"old": 1}'}
    new = files | {"config.json": CONFIG}
    assert old[INDEX] == new[INDEX] and all(old[name] != new[name] for name in new if name != INDEX)

    def prepare():
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        (tmp_path / "m").mkdir()
        for name, text in old.items():
            (tmp_path / "m" / name).write_bytes(text)

    prepare()
    before = tensors(tmp_path / "m")
    with serve(new) as server:
        words = [server.url("/" + INDEX), "-o", tmp_path / "m", "-f"]
        for number in every_kill(words, prepare):
            found = tensors(tmp_path / "m")
            assert found in (None, before, bodies), number
            # What lies beside them is that of the model.
            if found is not None:
                assert (tmp_path / "m" / "config.json").read_bytes() == (old if found == before else new)["config.json"], number
            fetch(*words)
            assert content(tmp_path / "m") == new, number


@pytest.mark.parametrize("there", [False, True])
def test_one_file_and_what_lies_beside_it(tmp_path, there):
    files, _ = make_model(1)
    new = {"model.safetensors": files["model-00001-of-00001.safetensors"], "config.json": CONFIG}

    def prepare():
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        (tmp_path / "m").mkdir()
        for name in new if there else ():
            (tmp_path / "m" / name).write_bytes(b"old")

    with serve(new, "/a/") as server:
        words = [server.url("/a/"), "-o", tmp_path / "m", *["-f"][: int(there)]]
        for number in every_kill(words, prepare):
            fetch(*words)
            assert content(tmp_path / "m") == new, number


def test_a_server_without_validators_goes_on_too(tmp_path):
    """What was complete needs no validator: it is decided."""
    files, _ = make_model(2)

    def behave(request):
        text = files.get(request.path[1:])
        return request.answer(404) if text is None else request.ranges(text, {"ETag": ""})

    with Server(behave=behave) as server:
        words = [server.url("/" + INDEX), "-o", tmp_path / "m"]
        for number in every_kill(words, lambda: shutil.rmtree(tmp_path / "m", ignore_errors=True)):
            fetch(*words)
            assert content(tmp_path / "m") == files, number
