# SPDX-License-Identifier: Apache-2.0
"""Digests: computed, and held against those that a file records. Here they are made by hashlib from docs/integrity.md."""

from __future__ import annotations

import base64
import hashlib
import struct

import numpy as np
import pytest
from conftest import FORMAT, file_bytes

import coffer

ARRAYS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.arange(5, dtype=np.uint8), "empty": np.zeros((0, 2), np.int16)}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def record(name: str, array: np.ndarray) -> bytes:
    shape = struct.pack(f"<{array.ndim + 1}Q", array.ndim, *array.shape)
    data = hashlib.sha256(array.tobytes()).digest()
    return hashlib.sha256(b"coffer.tensor.1\0" + text(name) + text(FORMAT[array.dtype.name]) + shape + data).digest()


def content(arrays: dict[str, np.ndarray]) -> str:
    records = b"".join(record(name, arrays[name]) for name in sorted(arrays))
    return hashlib.sha256(b"coffer.content.1\0" + struct.pack("<Q", len(arrays)) + records).hexdigest()


def encoded(digests: bytes) -> str:
    return "1:sha256:" + base64.b64encode(digests).decode()


def with_digests(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    metadata = {**metadata, "coffer.digests": encoded(b"".join(record(name, arrays[name]) for name in sorted(arrays)))}
    pairs = b"".join(text(key) + text(metadata[key]) for key in sorted(metadata))
    digest = hashlib.sha256(b"coffer.metadata.1\0" + struct.pack("<Q", len(metadata)) + pairs).digest()
    tensors = [(name, FORMAT[array.dtype.name], array.shape, array.tobytes()) for name, array in arrays.items()]
    return file_bytes(tensors, {**metadata, "coffer.metadata_digest": encoded(digest)})


def test_what_is_sound():
    seen = []
    with coffer.open(with_digests(ARRAYS, {"k": "v"})) as f:
        assert f.verify() is None
        assert f.verify(["a", "empty"]) is None
        f.verify(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (29, 29)


def test_every_bit_of_the_data():
    whole = with_digests(ARRAYS, {})
    names = {name: range(tensor.offset, tensor.offset + tensor.nbytes) for name, tensor in coffer.open(whole).items()}
    for name, places in names.items():
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            with pytest.raises(coffer.Error) as raised:
                coffer.open(bytes(changed)).verify()
            assert (raised.value.code, raised.value.tensor) == ("TENSOR_DIGEST", name)
            coffer.open(bytes(changed)).verify([other for other in names if other != name])


def test_metadata_and_names():
    with pytest.raises(coffer.Error) as raised:
        coffer.open(with_digests(ARRAYS, {"k": "v"}).replace(b'"k": "v"', b'"k": "w"')).verify()
    assert raised.value.code == "METADATA_DIGEST"
    with pytest.raises(coffer.Error) as raised:
        coffer.open(with_digests(ARRAYS, {}).replace(b'"empty"', b'"emptz"')).verify()
    assert raised.value.code == "TENSOR_DIGEST"


def test_nothing_recorded_is_not_verified(path):
    with pytest.raises(coffer.Error) as raised:
        coffer.open(path).verify()
    assert (raised.value.code, raised.value.path) == ("NO_DIGESTS", str(path))


def test_names_that_are_none():
    with pytest.raises(KeyError):
        coffer.open(with_digests(ARRAYS, {})).verify(["none"])


def test_a_progress_that_raises():
    def stop(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        coffer.open(with_digests(ARRAYS, {})).verify(progress=stop)


def test_content(tmp_path):
    """Whatever the order, the metadata and the format."""
    wanted = content(ARRAYS)
    assert coffer.open(with_digests(ARRAYS, {})).content_digest() == wanted
    for format in ("safetensors", "bintensors"):
        declared = {name: (FORMAT[array.dtype.name], array.shape) for name, array in ARRAYS.items()}
        with coffer.Writer(tmp_path / "x", declared, {"m": "n"}, format=format) as writer:
            for name, array in ARRAYS.items():
                writer.write(name, array)
        assert coffer.open(tmp_path / "x").content_digest() == wanted
    other = coffer.open(with_digests({**ARRAYS, "a": ARRAYS["a"] + 1}, {})).content_digest()
    assert len(other) == 64 and other != wanted
    with pytest.raises(ValueError, match='the algorithm is "sha256" or "xxh3-128"'):
        coffer.open(tmp_path / "x").content_digest("md5")
