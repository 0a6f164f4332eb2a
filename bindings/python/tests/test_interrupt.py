# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends what takes long: the exception comes while a server still holds its answer back, or nobody reads from the pipe, so a
call that waited for them would never end, or end otherwise."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest
from conftest import SERVED, array_file

import coffer
import coffer.numpy


def pressed_too_late(signum: int, frame: object) -> None:
    """Where the machine has much else to do, Ctrl-C may come once more when the call has ended."""


def interrupted(call: Callable[[], object], begun: threading.Event) -> None:
    """Makes the call and, once it has begun, presses Ctrl-C until it ends."""
    ended = threading.Event()

    def press() -> None:
        begun.wait()
        while not ended.wait(0.3):
            os.kill(os.getpid(), signal.SIGINT)

    # A test run in the background of a shell ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                call()
            finally:
                signal.signal(signal.SIGINT, pressed_too_late)
    finally:
        signal.signal(signal.SIGINT, pressed_too_late)
        ended.set()
        begun.set()
        pressing.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("call", [coffer.open, coffer.check, coffer.numpy.load_file, coffer.load_file], ids=lambda call: call.__module__)
def test_opening_what_a_silent_server_has(server, call):
    server.silent = {"/x.safetensors"}
    interrupted(lambda: call(f"{server.base}/x.safetensors"), server.asked)
    assert not server.over.is_set()


def test_the_pause_that_a_server_asks_for(server):
    server.busy = {"/x.safetensors"}
    interrupted(lambda: coffer.open(f"{server.base}/x.safetensors"), server.asked)


def test_opening_an_index(server):
    server.silent = {"/x.index.json"}
    interrupted(lambda: coffer.open(f"{server.base}/x.index.json"), server.asked)


@pytest.mark.parametrize("count", [1, 30])
def test_opening_several_files(server, count):
    names = [f"{i}.safetensors" for i in range(count)]
    server.files |= {f"/{name}": array_file({name: SERVED["b"]}) for name in names}
    server.files["/x.index.json"] = json.dumps({"weight_map": {name: name for name in names}}).encode()
    server.silent = {f"/{names[-1]}"}
    interrupted(lambda: coffer.open(f"{server.base}/x.index.json"), server.asked)


def test_progress_of_opening(server):
    seen = []

    def progress(done, total):
        seen.append((done, total))
        if server.asked.is_set():
            raise ZeroDivisionError

    server.silent = {"/x.safetensors"}
    with pytest.raises(ZeroDivisionError):
        coffer.open(f"{server.base}/x.safetensors", progress=progress)
    assert set(seen) == {(0, 1)}


@pytest.mark.parametrize(
    "read",
    [
        lambda f: f["a"].numpy(),
        lambda f: f["a"].tobytes(),
        lambda f: f["a"][:, 5].numpy(),
        lambda f: f["a"][3:].read(),
        lambda f: f.content_digest(),
        lambda f: f.digests(),
        lambda f: coffer.diff(f, f),
    ],
    ids=["tensor", "bytes", "slice", "rows", "content", "digests", "diff"],
)
def test_reading(server, read):
    f = coffer.open(f"{server.base}/x.safetensors")
    server.silent = {"/x.safetensors"}
    interrupted(lambda: read(f), server.asked)


@pytest.mark.parametrize("read", [lambda f: f["a"].numpy(), lambda f: f["a"][1:2].numpy(), lambda f: f.verify()])
def test_reading_what_is_verified(server, tmp_path, read):
    coffer.numpy.save_file(SERVED, tmp_path / "x.safetensors", digests="sha256")
    server.files["/x.safetensors"] = (tmp_path / "x.safetensors").read_bytes()
    f = coffer.open(f"{server.base}/x.safetensors", verify=True)
    server.silent = {"/x.safetensors"}
    interrupted(lambda: read(f), server.asked)


def test_fetching(server, tmp_path):
    whole = array_file(SERVED)
    server.files |= {"/m/model.safetensors": whole, "/m/config.json": b"{}"}
    server.silent = {"/m/config.json"}
    interrupted(lambda: coffer.fetch(f"{server.base}/m/", tmp_path / "m"), server.asked)


def test_merging_from_a_server(server, tmp_path):
    f = coffer.open(f"{server.base}/x.safetensors")
    server.silent = {"/x.safetensors"}
    interrupted(lambda: coffer.merge(f, tmp_path / "y.safetensors"), server.asked)
    assert not (tmp_path / "y.safetensors").exists()


# ---- Saving -----------------------------------------------------------------------------------------------------------


def begun(reader: int) -> threading.Event:
    """Set when the pipe has something, of which a byte is read."""
    event = threading.Event()

    def look() -> None:
        os.read(reader, 1)
        event.set()

    threading.Thread(target=look, daemon=True).start()
    return event


@pytest.mark.parametrize("blocking", [True, False])
def test_saving_to_a_pipe_that_nobody_reads(blocking):
    reader, writer = os.pipe()
    os.set_blocking(writer, blocking)

    def save() -> None:
        with coffer.Writer(writer, {"a": ("F32", (300, 1000))}) as file:
            file.write("a", SERVED["a"])

    try:
        interrupted(save, begun(reader))
    finally:
        os.close(writer)
        os.close(reader)


@pytest.mark.parametrize("sync", ["replace", "always", "never"])
def test_saving_is_given_up_by_progress(tmp_path, sync):
    path = tmp_path / "x.safetensors"
    path.write_bytes(array_file({"b": SERVED["b"]}))
    before = path.read_bytes()
    seen = []

    def progress(done, total):
        seen.append((done, total))
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        coffer.numpy.save_file({"a": np.zeros(5_000_000, np.float32)}, path, sync=sync, progress=progress)
    assert len(seen) == 1 and 0 < seen[0][0] < seen[0][1] == 20_000_000
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.safetensors"]
