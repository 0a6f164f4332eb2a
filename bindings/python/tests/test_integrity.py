# SPDX-License-Identifier: Apache-2.0
"""Digests: computed, and held against those that a file records. Here they are made by hashlib from docs/integrity.md."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct

import numpy as np
import pytest
from conftest import FORMAT, file_bytes

import coffer
import coffer.numpy
from coffer._native import serialize_model

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


# ---- Recording them, and verifying on the way -------------------------------------------------------------------------


@pytest.fixture(params=["sha256", "xxh3-128"])
def recorded(request, tmp_path):
    declared = {name: (FORMAT[array.dtype.name], array.shape) for name, array in ARRAYS.items()}
    with coffer.Writer(tmp_path / "x", declared, {"k": "v"}, digests=request.param) as writer:
        writer.write("b", ARRAYS["b"].tobytes()[8:], 8)
        writer.write("a", ARRAYS["a"])
        writer.write("b", ARRAYS["b"].tobytes()[:8])
    return tmp_path / "x"


def test_a_writer_records_them(recorded):
    with coffer.open(recorded) as f:
        assert f.verify() is None and f.content_digest() == content(ARRAYS)
        assert f.metadata["k"] == "v" and f.metadata.keys() == {"k", "coffer.digests", "coffer.metadata_digest"}


def test_sha256_is_as_documented(tmp_path):
    coffer.numpy.save_file(ARRAYS, tmp_path / "x", digests="sha256")
    wanted = coffer.open(with_digests(ARRAYS, {})).metadata
    assert coffer.open(tmp_path / "x").metadata["coffer.digests"] == wanted["coffer.digests"]


def damage(path, name):
    tensor = coffer.open(path)[name]
    with path.open("r+b") as file:
        file.seek(tensor.offset)
        byte = file.read(1)[0]
        file.seek(tensor.offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("access", ["private", "map", "read"])
def test_damaged_bytes_are_not_handed_out(recorded, access):
    damage(recorded, "b")
    with coffer.open(recorded, access=access, verify=True) as f:
        for way in (lambda: f["b"].numpy(), lambda: f["b"][0].numpy(), lambda: f["b"].tobytes(), lambda: bytes(f["b"][:, 1:].read())):
            with pytest.raises(coffer.Error) as raised:
                way()
            assert (raised.value.code, raised.value.tensor) == ("TENSOR_DIGEST", "b")
        assert np.array_equal(f["a"].numpy(), ARRAYS["a"])
    with pytest.raises(coffer.SafetensorError):
        coffer.numpy.load_file(recorded, verify=True)
    assert coffer.numpy.load_file(recorded).keys() == ARRAYS.keys()


def test_sound_files_load(recorded):
    loaded = coffer.numpy.load_file(recorded, verify=True)
    assert all(np.array_equal(loaded[name], array) for name, array in ARRAYS.items())


def test_what_records_nothing_cannot_be_opened_so(path):
    with pytest.raises(coffer.Error) as raised:
        coffer.open(path, verify=True)
    assert raised.value.code == "NO_DIGESTS"


def test_recording_them_afterwards(path, arrays):
    seen = []
    coffer.record_digests(path, "xxh3-128", progress=lambda done, total: seen.append(done))
    with coffer.open(path, verify=True) as f:
        assert all(np.array_equal(f[name].numpy(), array) for name, array in arrays.items())
        assert f.metadata["coffer.digests"].startswith("1:xxh3-128:") and f.metadata["made by"] == "conftest"
    assert seen
    with pytest.raises(FileNotFoundError):
        coffer.record_digests(path.with_name("none"))


def test_models_of_several_files_record_them(tmp_path):
    entries = [(name, FORMAT[array.dtype.name], array.shape, array) for name, array in ARRAYS.items()]
    serialize_model(entries, tmp_path / "m.safetensors", max_shard_size=24, digests="sha256")
    with coffer.open(tmp_path / "m.safetensors.index.json", verify=True) as f:
        assert len(f.shards) == 2 and f.verify() is None and f.content_digest() == content(ARRAYS)


def save_in_two(folder, arrays):
    folder.mkdir()
    entries = [(name, FORMAT[array.dtype.name], array.shape, array) for name, array in arrays.items()]
    serialize_model(entries, folder / "model.safetensors", max_shard_size=24, digests="sha256")


def test_files_that_do_not_belong_together(tmp_path):
    save_in_two(tmp_path / "new", ARRAYS)
    save_in_two(tmp_path / "old", {**ARRAYS, "a": ARRAYS["a"] + 1})
    recorded = json.loads((tmp_path / "new/model.safetensors.index.json").read_text())["metadata"]
    assert recorded["coffer.content_digest"] == encoded(bytes.fromhex(content(ARRAYS)))
    parts = [{"b": ARRAYS["b"]}, {name: ARRAYS[name] for name in ("a", "empty")}]
    assert recorded["coffer.shard_digests"] == encoded(b"".join(bytes.fromhex(content(part)) for part in parts))
    with coffer.open(tmp_path / "new", verify=True) as f:
        f.verify()
    shutil.copy(tmp_path / "old/model-00002-of-00002.safetensors", tmp_path / "new")
    for verify in (True, False):
        with pytest.raises(coffer.Error) as raised:
            coffer.open(tmp_path / "new", verify=verify).verify()
        assert raised.value.code == "CONTENT_DIGEST"
        assert str(raised.value.path).endswith("model-00002-of-00002.safetensors")
    coffer.record_digests(tmp_path / "new/model.safetensors.index.json")
    coffer.open(tmp_path / "new").verify()
