# SPDX-License-Identifier: Apache-2.0
"""What the tests share: files that are made without the package under test."""

from __future__ import annotations

import gc
import http.server
import json
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

FORMAT = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64",
    "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip


def file_bytes(
    tensors: list[tuple[str, str, tuple[int, ...], bytes]], metadata: dict[str, str] | None = None, padding: int = -1
) -> bytes:
    """A file with the tensors in the order given; padded to 8 bytes, or with so many spaces."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 if padding < 0 else padding)
    return struct.pack("<Q", len(text)) + text + b"".join(tensor[3] for tensor in tensors)


def array_file(arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None, padding: int = -1) -> bytes:
    return file_bytes([(n, FORMAT[a.dtype.name], a.shape, a.tobytes()) for n, a in arrays.items()], metadata, padding)


@pytest.fixture
def unmappable() -> Iterator[int]:
    """The descriptor of a file that is larger than the address space, so that no map can be made, as on a file system without maps."""
    descriptor = os.memfd_create("unmappable")
    small = np.arange(6, dtype=np.float32).reshape(3, 2).tobytes()
    content = file_bytes([("small", "F32", (3, 2), small)])
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    header["large"] = {"dtype": "U8", "shape": [1 << 57], "data_offsets": [24, 24 + (1 << 57)]}
    text = json.dumps(header).encode()
    os.pwrite(descriptor, struct.pack("<Q", len(text)) + text + small, 0)
    os.ftruncate(descriptor, 8 + len(text) + 24 + (1 << 57))
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {
        "matrix": random.random((6, 8), dtype=np.float32),
        "cube": random.integers(-99, 99, (3, 4, 5), dtype=np.int64),
        "bytes": random.integers(0, 255, 31, dtype=np.uint8),
        "scalar": np.array(2.5, dtype=np.float16),
        "empty": np.zeros((0, 3), dtype=np.float32),
    }


@pytest.fixture
def path(tmp_path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """A file of those arrays."""
    order = ["cube", "matrix", "scalar", "empty", "bytes"]
    file = tmp_path / "model.safetensors"
    file.write_bytes(array_file({name: arrays[name] for name in order}, {"made by": "conftest"}))
    return file


def maps_of(path: Path) -> int:
    """How many maps of the file this process has."""
    return Path("/proc/self/maps").read_text().count(str(path))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def released(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether nothing of the file is held any more: no map, no descriptor."""
    gc.collect()  # what earlier tests left
    before = descriptors()

    def check() -> bool:
        gc.collect()
        return maps_of(path) == 0 and descriptors() == before

    yield check


def taken_by_threads(load, names) -> dict[str, object]:
    """What a load hands out to as many threads as it has tensors, each of which takes one."""
    found: dict[str, object] = {}
    threads = [threading.Thread(target=lambda name=name: found.update({name: load.take(name)})) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# ---- A server that does not answer ------------------------------------------------------------------------------------

SERVED = {"a": np.arange(300_000, dtype=np.float32).reshape(300, 1000), "b": np.arange(5, dtype=np.int8)}


class Holding(http.server.BaseHTTPRequestHandler):
    """Answers ranges of `files`, but holds what `silent` names, and all but the beginning of what `half_silent` does, until the test
    is over."""

    files: dict[str, bytes]
    busy: set[str]
    silent: set[str]
    half_silent: set[str]
    asked: threading.Event
    over: threading.Event

    def do_GET(self):
        if self.path in self.busy:
            self.send_response(503)
            self.send_header("Retry-After", "50")
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.asked.set()
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        later = wanted is not None and int(wanted[1]) > 0
        if self.path in self.silent or (later and self.path in self.half_silent):
            self.asked.set()
            self.over.wait()
            return
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        first, last = (int(wanted[1]), min(int(wanted[2]), len(content) - 1)) if wanted else (0, len(content) - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(content[first : last + 1])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "60")
    state = {"files": {"/x.safetensors": array_file(SERVED)}, "busy": set(), "silent": set(), "half_silent": set()}
    state |= {"asked": threading.Event(), "over": threading.Event()}
    handler = type("Handler", (Holding,), state)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        handler.base = f"http://127.0.0.1:{running.server_port}"
        yield handler
        handler.over.set()
        running.shutdown()
        thread.join()
