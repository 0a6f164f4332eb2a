# SPDX-License-Identifier: Apache-2.0
"""Model, the layer below coffer.open: lists, many tensors at once, progress."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import FORMAT, file_bytes

import coffer
import coffer.numpy
from coffer._native import Model

ORDER = ["cube", "matrix", "scalar", "empty", "bytes"]


def test_lists(path, arrays):
    model = Model.open(path)
    assert model.keys() == sorted(arrays)
    assert model.offset_keys() == ORDER
    start = model.data_offset
    assert start == 8 + int.from_bytes(path.read_bytes()[:8], "little")
    expected = []
    for name in ORDER:
        array = arrays[name]
        expected.append((name, FORMAT[array.dtype.name], array.shape, start, array.nbytes))
        start += array.nbytes
    assert model.infos() == expected
    assert [(t.name, t.dtype, t.shape, t.offset, t.nbytes) for t in model.tensors()] == expected


def test_names_are_in_the_order_of_their_bytes():
    names = ["b", "a", "ä", "Z", "a.10", "a.2", "\U0001f600", "\uffff"]
    model = Model.open(file_bytes([(name, "U8", (0,), b"") for name in names]))
    assert model.keys() == sorted(names, key=str.encode)


def test_metadata(path):
    assert Model.open(path).metadata() == {"made by": "conftest"}
    assert Model.open(file_bytes([])).metadata() is None


def test_notes():
    model = Model.open(b"\x0c\0\0\0\0\0\0\0   {}       ", all_notes=True)
    assert model.notes() == [("white space before the header", 1, 8, "", None)]


def test_access_is_chosen(path):
    assert Model.open(path).access == "private"
    assert [Model.open(path, access=a).access for a in ("map", "private", "read")] == ["map", "private", "read"]
    assert Model.open(path).path == str(path)


@pytest.mark.parametrize("access", ["map", "private", "read"])
def test_read_many(path, arrays, access):
    model = Model.open(path, access=access)
    buffers = model.read_many()
    assert [bytes(buffer) for buffer in buffers] == [arrays[name].tobytes() for name in ORDER]
    assert [bytes(b) for b in model.read_many(["bytes", "cube", "bytes"])] == [
        arrays[name].tobytes() for name in ("bytes", "cube", "bytes")
    ]
    assert model.read_many([]) == []
    with pytest.raises(KeyError):
        model.read_many(["bytes", "none"])
    with pytest.raises(TypeError):
        model.read_many([b"bytes"])
    with pytest.raises(TypeError):
        model.read_many(7)


def test_read_into(path, arrays):
    model = Model.open(path, access="read")
    targets = {name: np.zeros_like(array) for name, array in arrays.items()}
    model.read_into(targets.items())
    assert all(np.array_equal(targets[name], arrays[name]) for name in arrays)
    with pytest.raises(coffer.Error) as caught:
        model.read_into([("cube", bytearray(480)), ("bytes", bytearray(3))])
    assert (caught.value.code, caught.value.tensor) == ("BUFFER_SIZE", "bytes")
    for wrong in ([("cube", bytes(480))], [("cube",)], ["cube"], None, [("cube", None)]):
        with pytest.raises((TypeError, BufferError)):
            model.read_into(wrong)


# What a consumer does with a capsule, for the fields that numpy does not show.
class Managed(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def look(capsule) -> tuple:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    made = Managed.from_address(get(capsule, b"dltensor"))
    size = made.bits * made.lanes
    for i in range(made.ndim):
        size *= made.shape[i]
    return (made.code, made.bits, made.lanes), tuple(made.shape[: made.ndim]), ctypes.string_at(made.data, size // 8)


@pytest.mark.parametrize("access", ["map", "private", "read"])
@pytest.mark.parametrize("copy", [False, True])
def test_dlpack_many(path, arrays, access, copy):
    capsules = Model.open(path, access=access).dlpack_many(copy=copy)
    for name, capsule in zip(ORDER, capsules, strict=True):
        assert look(capsule)[1:] == (arrays[name].shape, arrays[name].tobytes())


def test_dlpack_many_views_a_private_map(path, arrays):
    model = Model.open(path, access="private")
    (capsule,) = model.dlpack_many(["cube"])
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = Managed.from_address(get(capsule, b"dltensor")).data
    assert address == model.find("cube").numpy().ctypes.data


def test_dlpack_many_as_bytes():
    data = bytes(range(24))
    tensors = [("a", "F6_E2M3", 6), ("b", "F4", 4), ("c", "BF16", 16), ("d", "F8_E4M3", 8)]
    model = Model.open(file_bytes([(name, dtype, (4, 2), data[:size]) for name, dtype, size in tensors]))
    assert [look(c)[:2] for c in model.dlpack_many(["a", "b", "c", "d"])] == [
        ((1, 8, 1), (6,)), ((17, 4, 2), (4, 1)), ((4, 16, 1), (4, 2)), ((10, 8, 1), (4, 2)),
    ]  # fmt: skip
    assert [look(c)[:2] for c in model.dlpack_many(["b", "c", "d"], as_bytes=("F4", "F8_E4M3"))] == [
        ((1, 8, 1), (4,)), ((4, 16, 1), (4, 2)), ((1, 8, 1), (8,)),
    ]  # fmt: skip
    with pytest.raises(TypeError):
        model.dlpack_many(as_bytes=7)


@pytest.mark.parametrize("call", ["read_many", "dlpack_many"])
def test_progress(path, call):
    seen: list[tuple[int, int]] = []
    model = Model.open(path, access="read")
    getattr(model, call)(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (705, 705) and all(total == 705 for _, total in seen)


def test_an_exception_in_progress_cancels(path):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    model = Model.open(path, access="read")
    for call in (model.read_many, model.dlpack_many, lambda progress: model.read_into([("cube", bytearray(480))], progress=progress)):
        with pytest.raises(KeyboardInterrupt):
            call(progress=stop)


def test_types_cannot_be_made_or_subclassed():
    from coffer import Buffer, Tensor

    for kind in (Model, Tensor, Buffer):
        with pytest.raises(TypeError):
            kind()
    for kind in (Model, Tensor, Buffer, coffer.Writer):
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
        with pytest.raises(TypeError):
            kind.more = 1


def advised(array) -> bool:
    """Whether the memory of an array is to be in huge pages."""
    address = array.ctypes.data + array.nbytes // 2
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
            found = first <= address < last
        elif found and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError("no map has the array")


@pytest.mark.parametrize("told", ["always", "never", None])
def test_huge_pages_are_a_choice(tmp_path, monkeypatch, told):
    monkeypatch.delenv("COFFER_HUGE_PAGES", raising=False)
    if told is not None:
        monkeypatch.setenv("COFFER_HUGE_PAGES", told)
    array = np.arange(20_000_000, dtype=np.float32)
    coffer.numpy.save_file({"x": array}, tmp_path / "x.safetensors")
    for found in (coffer.numpy.load_file(tmp_path / "x.safetensors")["x"], np.asarray(coffer.open(tmp_path / "x.safetensors")["x"].read()).view(np.float32)):
        assert np.array_equal(found, array)
        supported = Path("/sys/kernel/mm/transparent_hugepage").exists()
        assert told is None or advised(found) == (told == "always" and supported)
