# SPDX-License-Identifier: Apache-2.0
"""Tensors and slices of them: what they say, and the ways to their bytes."""

from __future__ import annotations

import ctypes
import hashlib
import io
import itertools
import struct
import zlib

import ml_dtypes
import numpy as np
import pytest
from conftest import FORMAT, array_file, file_bytes
from hypothesis import given
from hypothesis import strategies as st

import coffer

ACCESS = ["map", "private", "read"]


def test_says_what_it_is(path, arrays):
    with coffer.open(path) as f:
        for name, array in arrays.items():
            tensor = f[name]
            assert (tensor.name, tensor.dtype, tensor.shape) == (name, FORMAT[array.dtype.name], array.shape)
            assert (tensor.ndim, tensor.size, tensor.nbytes, tensor.itemsize) == (
                array.ndim, array.size, array.nbytes, array.itemsize,
            )  # fmt: skip
            content = path.read_bytes()
            assert content[tensor.offset : tensor.offset + tensor.nbytes] == array.tobytes()


def test_names_of_any_text():
    names = ["", "ä☃𝄞", "a\0b", "x" * 5000]
    f = coffer.open(file_bytes([(name, "U8", (1,), bytes([i])) for i, name in enumerate(names)]))
    assert sorted(f) == sorted(names)
    for i, name in enumerate(names):
        assert f[name].tobytes() == bytes([i]) and f[name].name == name


# ---- Slices -----------------------------------------------------------------------------------------------------------

INDICES = [
    np.s_[0], np.s_[-1], np.s_[1:], np.s_[:-1], np.s_[::2], np.s_[::-1], np.s_[2:0:-1], np.s_[5:2], np.s_[...], (),
    np.s_[0, 1], np.s_[..., 0], np.s_[:, 1], np.s_[:, 1:3], np.s_[1, ...], np.s_[..., ::3], np.s_[0:1, ...], np.s_[-2:, ::-2],
    np.s_[np.int64(1)], np.s_[1, 2, 3], np.s_[0, :, 4], np.s_[:, :, -1], np.s_[1:2, 3, 1:4], np.s_[100:], np.s_[:-100],
]  # fmt: skip


@pytest.mark.parametrize("access", ACCESS)
def test_slices_are_those_of_numpy(path, arrays, access):
    with coffer.open(path, access=access) as f:
        for name, index in itertools.product(arrays, INDICES):
            try:
                expected = arrays[name][index]
            except IndexError:
                with pytest.raises(IndexError) as caught:
                    f[name][index]
                assert caught.value.code == "INDEX"
                continue
            part = f[name][index]
            assert part.shape == expected.shape and part.nbytes == expected.nbytes and part.size == expected.size
            assert np.array_equal(part.numpy(), expected)
            assert part.tobytes() == expected.tobytes() == bytes(part.read())


slices = st.builds(slice, *[st.none() | st.integers(-7, 7)] * 2, st.none() | st.integers(-3, 3).filter(bool))
index = st.lists(slices | st.integers(-2, 1), max_size=3).map(tuple)


@given(st.lists(index, min_size=1, max_size=4))
def test_slices_of_slices_are_those_of_numpy(chain):
    expected = np.arange(5 * 2 * 6, dtype=np.int16).reshape(5, 2, 6)
    part = coffer.open(array_file({"x": expected}))["x"]
    for step in chain:
        try:
            expected = expected[step]
        except IndexError:
            with pytest.raises(IndexError):
                part[step]
            return
        part = part[step]
        assert part.shape == expected.shape
        assert np.array_equal(part.numpy(), expected)


def test_contiguous_slices_have_an_offset_and_are_views(path, arrays):
    f = coffer.open(path)
    whole = f["cube"]
    assert whole[1].offset == whole.offset + 4 * 5 * 8
    assert whole[1, 2:].offset == whole.offset + (4 + 2) * 5 * 8
    assert whole[2, 3, 4].offset == whole.offset + whole.nbytes - 8
    assert whole[:, 1].offset is None and whole[::-1].offset is None and whole[:, :, 1:].offset is None
    assert np.shares_memory(whole.numpy(), whole[1].numpy())
    assert not np.shares_memory(whole.numpy(), whole[:, 1].numpy())


@pytest.mark.parametrize("wrong", ["0", 1.5, [0], None, True and object()])
def test_wrong_indices_are_type_errors(path, wrong):
    with pytest.raises(TypeError, match="a tensor's index is"):
        coffer.open(path)["matrix"][wrong]


def test_wrong_slices(path):
    tensor = coffer.open(path)["matrix"]
    with pytest.raises(ValueError, match="step"):
        tensor[::0]
    with pytest.raises(IndexError, match="at most one ellipsis"):
        tensor[..., ...]
    with pytest.raises(IndexError, match="3 indices for 2 dimensions"):
        tensor[0, 0, 0]
    with pytest.raises(IndexError, match="index 6 is outside dimension 0, whose length is 6"):
        tensor[6]
    with pytest.raises(IndexError):
        tensor[1 << 80]
    with pytest.raises(IndexError):
        tensor[0][0][0]


def test_packed_elements_are_sliced_in_whole_bytes():
    data = bytes(range(12))
    tensor = coffer.open(file_bytes([("x", "F4", (4, 6), data)]))["x"]
    assert (tensor.itemsize, tensor.size) == (0.5, 24)
    assert tensor[1].tobytes() == data[3:6]
    assert tensor[1:3, 2:4].tobytes() == data[4:5] + data[7:8]
    with pytest.raises(coffer.Error) as caught:
        tensor[:, 1:2]
    assert caught.value.code == "SLICE_BITS"


def test_length_and_scalars(path):
    with coffer.open(path) as f:
        assert len(f["cube"]) == 3 and len(f["cube"][0, 0]) == 5 and len(f["empty"]) == 0
        with pytest.raises(TypeError):
            len(f["scalar"])
        assert f["scalar"].numpy() == 2.5 and f["scalar"].shape == ()


def test_dimensions_beyond_the_machine():
    f = coffer.open(file_bytes([("x", "F32", (2**64 - 1, 0), b"")]))
    assert f["x"].shape == (2**64 - 1, 0) and f["x"].size == 0
    with pytest.raises(OverflowError):
        len(f["x"])
    with pytest.raises(IndexError, match="too long"):
        f["x"][0]


# ---- The buffer protocol ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_memoryviews(path, arrays, access):
    with coffer.open(path, access=access) as f:
        for name, array in arrays.items():
            view = memoryview(f[name])
            mine = memoryview(array)
            assert (view.format, view.shape, view.itemsize, view.nbytes) == (
                {"l": "q"}.get(mine.format, mine.format), mine.shape, mine.itemsize, mine.nbytes,
            )  # fmt: skip
            assert view.c_contiguous and view.readonly
            assert bytes(view) == array.tobytes()


def overwrite(tensor, data: bytes) -> None:
    """By a consumer that asks for a writable buffer."""
    assert io.BytesIO(data).readinto(tensor.memory(writable=True)) == len(data)


def test_a_private_map_can_be_changed_in_memory_only(path):
    before = path.read_bytes()
    with coffer.open(path, access="private") as f:
        assert f["bytes"].writable
        overwrite(f["bytes"], b"x" * 31)
        assert f["bytes"].numpy().tobytes() == b"x" * 31
    assert path.read_bytes() == before


def test_a_read_only_map_cannot_be_changed(path):
    with coffer.open(path, access="map") as f:
        assert not f["bytes"].writable
        with pytest.raises(BufferError, match="read-only"):
            overwrite(f["bytes"], b"x")
        with pytest.raises(BufferError, match="read-only"):
            f["bytes"].__dlpack__()
        assert not np.from_dlpack(f["bytes"]).flags.writeable
        assert f["cube"][:, 1].writable  # a copy


def test_memory_that_was_lent_is_not_changed(path):
    content = path.read_bytes()
    tensor = coffer.open(content)["bytes"]
    assert not tensor.writable
    with pytest.raises(BufferError, match="read-only"):
        overwrite(tensor, b"x")
    assert np.shares_memory(tensor.numpy(), np.frombuffer(content, np.uint8))


def test_what_was_read_is_read_once_and_kept_by_the_tensor(path, arrays):
    """Some consumers, torch.frombuffer for one, give the buffer back at once and hold on to the object alone."""
    f = coffer.open(path, access="read")
    tensor = f["matrix"]
    array = tensor.numpy()
    assert np.shares_memory(array, tensor.numpy()) and not np.shares_memory(array, f["matrix"].numpy())
    address = array.ctypes.data
    view = memoryview(tensor)
    del array, view
    assert ctypes.string_at(address, tensor.nbytes) == arrays["matrix"].tobytes()


def test_unaligned_tensors_are_copied(tmp_path, arrays):
    file = tmp_path / "unaligned.safetensors"
    for padding in range(8):
        file.write_bytes(array_file(arrays, padding=padding))
        f = coffer.open(file, access="map")
        for name, array in arrays.items():
            made = f[name].numpy()
            assert made.ctypes.data % array.itemsize == 0 and np.array_equal(made, array)
            aligned = f[name].offset % array.itemsize == 0
            assert f[name].writable == (not aligned)


@pytest.mark.parametrize(("dtype", "bits"), [("BF16", 16), ("F8_E4M3", 8), ("F6_E2M3", 6), ("F4", 4)])
def test_formats_that_the_protocol_lacks_are_refused(dtype, bits):
    data = bytes(range(bits))
    tensor = coffer.open(file_bytes([("x", dtype, (2, 4), data)]))["x"]
    with pytest.raises(BufferError, match="no format"):
        memoryview(tensor)
    assert bytes(tensor.memory()) == tensor.tobytes() == data


def test_more_dimensions_than_the_protocol_has():
    tensor = coffer.open(file_bytes([("x", "U8", (1,) * 65, b"7")]))["x"]
    with pytest.raises(BufferError, match="no format"):
        memoryview(tensor)
    assert bytes(tensor.memory()) == b"7" and tensor.item() == 55


def test_who_asks_for_bytes_alone_is_sent_to_memory(path):
    """torch.asarray would take them for float32, whatever they are."""
    tensor = coffer.open(path)["cube"]
    for call in (hashlib.sha256, zlib.crc32, lambda tensor: io.BytesIO(bytes(480)).readinto(tensor)):
        with pytest.raises((BufferError, TypeError)):
            call(tensor)
    assert hashlib.sha256(tensor.memory()).digest() == hashlib.sha256(tensor.tobytes()).digest()


@pytest.mark.parametrize("access", ACCESS)
def test_memory(path, arrays, access):
    with coffer.open(path, access=access) as f:
        for name, array in arrays.items():
            memory = f[name].memory()
            assert (memory.format, memory.shape, memory.readonly) == ("B", (array.nbytes,), True)
            assert memory == array.tobytes()
        assert f["cube"][1, :, 2].memory() == arrays["cube"][1, :, 2].tobytes()
        memory = f["bytes"].memory()
    assert memory == arrays["bytes"].tobytes()


def test_complex():
    array = np.arange(6, dtype=np.float32).view(np.complex64)
    assert np.array_equal(coffer.open(array_file({"x": array}))["x"].numpy(), array)
    assert np.array_equal(np.asarray(coffer.open(array_file({"x": array}))["x"]), array)


def test_fortran_order_is_refused(path):
    f_contiguous, buffer = 0x0040 | 0x0010 | 0x0008, ctypes.create_string_buffer(256)
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes = [ctypes.py_object, ctypes.c_char_p, ctypes.c_int]
    f = coffer.open(path)
    get(f["bytes"], buffer, f_contiguous)
    release(buffer)
    with pytest.raises(BufferError, match="Fortran"):
        get(f["matrix"], buffer, f_contiguous)


def test_memory_and_parts_keep_the_file_and_give_it_up(path, released):
    f = coffer.open(path)
    kept = [f["cube"].memory(), f["bytes"].memory(writable=True), next(iter(f["matrix"])), f["bytes"].__array__()]
    f.close()
    del f
    assert not released() and bytes(kept[1]) == bytes(kept[3])
    kept.clear()
    assert released()


# ---- Values -------------------------------------------------------------------------------------------------------------


def one(dtype: str, data: bytes, shape: tuple[int, ...] = ()) -> coffer.Tensor:
    return coffer.open(file_bytes([("x", dtype, shape, data)]))["x"]


NUMBERS = [
    ("BOOL", b"\1", True), ("BOOL", b"\0", False), ("U8", b"\xff", 255), ("I8", b"\xff", -1), ("U16", b"01", 0x3130),
    ("I16", b"\0\x80", -(2**15)), ("U32", b"\xff" * 4, 2**32 - 1), ("I32", b"1234", 0x34333231), ("U64", b"\xff" * 8, 2**64 - 1),
    ("I64", b"\1" + bytes(6) + b"\x80", 1 - 2**63), ("F16", b"\0\x3e", 1.5), ("BF16", b"\xc0\x3f", 1.5),
    ("F32", b"\0\0\xc0\x3f", 1.5), ("F64", struct.pack("<d", 0.1), 0.1), ("F8_E4M3", b"\x3c", 1.5), ("F8_E5M2", b"\x3e", 1.5),
    ("F8_E8M0", b"\x80", 2.0), ("F8_E4M3FNUZ", b"\x44", 1.5), ("F8_E5M2FNUZ", b"\x42", 1.5), ("C64", struct.pack("<ff", 1, -2), 1 - 2j),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "data", "value"), NUMBERS)
def test_numbers(dtype, data, value):
    """int() of an object that is no number reads its bytes as digits: "1234" here."""
    for tensor in (one(dtype, data), one(dtype, data, (1, 1))):
        assert tensor.item() == value and type(tensor.item()) is type(value)
        assert bool(tensor) == bool(value)
        for convert in (int, float):
            try:
                expected = convert(value)
            except TypeError:  # a complex number
                with pytest.raises(TypeError):
                    convert(tensor)
            else:
                assert convert(tensor) == expected and type(convert(tensor)) is convert
    assert one(dtype, data).tolist() == value and one(dtype, data, (1, 1)).tolist() == [[value]]


def test_numbers_packed_in_bytes():
    assert one("F4", b"\x21\x73", (2, 2)).tolist() == [[0.5, 1.0], [1.5, 6.0]]
    assert one("F6_E2M3", bytes([0x08, 0x80, 0x7C]), (4,)).tolist() == [1.0, 0.0, 1.0, 7.5]


def test_only_one_number_is_a_number(path):
    f = coffer.open(path)
    for name, count in (("matrix", 48), ("empty", 0)):
        for convert in (int, float, bool, coffer.Tensor.item):
            with pytest.raises(ValueError, match=f"has {count}"):
                convert(f[name])


def test_lists(path, arrays):
    f = coffer.open(path)
    for name, array in arrays.items():
        assert f[name].tolist() == array.tolist()
    assert f["cube"][::-1, 1, ::2].tolist() == arrays["cube"][::-1, 1, ::2].tolist()


def test_lists_of_hostile_shapes():
    """A file says how many dimensions there are, and how long."""
    with pytest.raises(RecursionError):
        one("U8", b"x", (1,) * 100_000).tolist()
    with pytest.raises(MemoryError):
        one("U8", b"", (2**64 - 1, 0)).tolist()


def test_what_no_number_is_known_for():
    f = coffer.open(file_bytes([("x", "X7", (1,), b"abc")]), unknown_dtypes=True)
    for call in (coffer.Tensor.item, coffer.Tensor.tolist, int):
        with pytest.raises(coffer.Error, match="X7") as caught:
            call(f["x"])
        assert caught.value.code == "DTYPE"


def test_iteration(path, arrays):
    f = coffer.open(path)
    for name in ("matrix", "cube", "bytes", "empty"):
        parts = list(f[name])
        assert all(isinstance(part, coffer.Tensor) for part in parts)
        assert [part.tolist() for part in parts] == arrays[name].tolist()
    with pytest.raises(TypeError, match="without dimensions cannot be iterated over"):
        iter(f["scalar"])
    assert [list(map(float, row)) for row in f["matrix"]] == arrays["matrix"].tolist()


def test_values_are_not_searched_for_in_vain(path):
    with pytest.raises(TypeError, match="numpy"):
        1 in coffer.open(path)["cube"]  # noqa: B015


@pytest.mark.parametrize("access", ACCESS)
def test_numpy_s_protocol(path, arrays, access):
    with coffer.open(path, access=access) as f:
        for name, array in arrays.items():
            tensor = f[name]
            made = tensor.__array__()
            assert made.dtype == array.dtype and np.array_equal(made, array) and not made.flags.writeable
            copy = tensor.__array__(copy=True)
            assert np.array_equal(copy, array) and copy.flags.writeable and not np.shares_memory(copy, made)
            wide = tensor.__array__(np.float64)
            assert wide.dtype == np.float64 and np.array_equal(wide, array.astype(np.float64))
            assert tensor.__array__(array.dtype, copy=False).dtype == array.dtype
            with pytest.raises(ValueError, match="only in a copy"):
                tensor.__array__("complex128", copy=False)


def test_astype(path, arrays):
    f = coffer.open(path)
    matrix = f["matrix"]
    for dtype, expected in (("F16", "float16"), ("float16", "float16"), (np.float16, "float16"), ("U8", "uint8"), ("BF16", "bfloat16"),
                            ("bfloat16", "bfloat16"), ("F8_E4M3", "float8_e4m3fn"), (float, "float64"), ("F32", "float32")):  # fmt: skip
        made = matrix.astype(dtype)
        assert made.dtype.name == expected and made.flags.writeable
        assert np.array_equal(made.astype(np.float64), arrays["matrix"].astype(made.dtype).astype(np.float64))
    with pytest.raises(coffer.SafetensorError, match="F4 packs"):
        matrix.astype("F4")


# ---- numpy and DLPack --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMAT)
@pytest.mark.parametrize("access", ACCESS)
def test_every_dtype_of_numpy(name, access, tmp_path):
    dtype = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    array = np.arange(24 * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(4, 6)
    if name == "bool":
        array = np.arange(24).reshape(4, 6) % 3 == 0
    file = tmp_path / "x.safetensors"
    file.write_bytes(array_file({"x": array}))
    made = coffer.open(file, access=access)["x"].numpy()
    assert made.dtype == dtype and made.shape == (4, 6) and made.tobytes() == array.tobytes()
    assert not made.flags.writeable


def test_a_dtype_that_numpy_lacks_is_said_clearly():
    with pytest.raises(coffer.SafetensorError, match="F6_E2M3"):
        coffer.open(file_bytes([("x", "F6_E2M3", (4,), b"abc")]))["x"].numpy()


def test_dlpack(path, arrays):
    for access in ACCESS:
        f = coffer.open(path, access=access)
        for name, array in arrays.items():
            made = np.from_dlpack(f[name])
            assert made.dtype == array.dtype and np.array_equal(made, array)
            assert np.array_equal(np.from_dlpack(f[name][..., :2] if array.ndim else f[name]), array[..., :2] if array.ndim else array)
        assert f["cube"].__dlpack_device__() == (1, 0)


def test_dlpack_copies_when_asked(path):
    f = coffer.open(path, access="private")
    assert np.shares_memory(np.from_dlpack(f["cube"], copy=False), f["cube"].numpy())
    assert not np.shares_memory(np.from_dlpack(f["cube"], copy=True), f["cube"].numpy())
    with pytest.raises(BufferError, match="has to be copied"):
        np.from_dlpack(f["cube"][:, 0], copy=False)
    with pytest.raises(BufferError, match="has to be copied"):
        np.from_dlpack(coffer.open(path, access="read")["cube"], copy=False)


def test_dlpack_refuses_what_it_cannot_do(path):
    tensor = coffer.open(path)["cube"]
    with pytest.raises(BufferError, match="CPU"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="CPU"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        tensor.__dlpack__(max_version="1.0")
    with pytest.raises(TypeError):
        tensor.__dlpack__(1)
    with pytest.raises(BufferError, match="no type for F6_E2M3"):
        coffer.open(file_bytes([("x", "F6_E2M3", (4,), b"abc")]))["x"].__dlpack__()


def test_capsules_that_nobody_takes_release_what_they_hold(path, released):
    f = coffer.open(path)
    capsules = [f["cube"].__dlpack__(), f["cube"].__dlpack__(max_version=(1, 0)), f["cube"][:, 1].__dlpack__()]
    assert [repr(capsule).split('"')[1] for capsule in capsules] == ["dltensor", "dltensor_versioned", "dltensor"]
    f.close()
    del f
    assert not released()
    del capsules
    assert released()


# ---- Reading ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_read_into(path, arrays, access):
    f = coffer.open(path, access=access)
    for name, array in arrays.items():
        target = np.zeros_like(array)
        f[name].read_into(target)
        assert np.array_equal(target, array)
    target = np.zeros((3, 5), np.int64)
    f["cube"][:, 2].read_into(target)
    assert np.array_equal(target, arrays["cube"][:, 2])


def test_read_into_refuses_what_does_not_fit(path):
    tensor = coffer.open(path)["bytes"]
    with pytest.raises(coffer.Error) as caught:
        tensor.read_into(bytearray(30))
    error = caught.value
    assert (error.code, error.tensor, error.expected, error.actual) == ("BUFFER_SIZE", "bytes", 31, 30)
    with pytest.raises(BufferError):
        tensor.read_into(bytes(31))
    with pytest.raises(TypeError):
        tensor.read_into(None)


def test_buffers_own_their_memory(path, arrays, released):
    f = coffer.open(path)
    buffer = f["bytes"].read()
    f.close()
    del f
    assert released()
    assert len(buffer) == 31 and bytes(buffer) == arrays["bytes"].tobytes()
    assert repr(buffer) == "<coffer.Buffer: 31 bytes>"
    array = np.frombuffer(buffer, np.uint8)
    array[:] = 0
    assert bytes(buffer) == bytes(31)
    with pytest.raises(TypeError):
        type(buffer)()


@pytest.mark.parametrize("access", ACCESS)
def test_a_file_that_cannot_be_mapped_is_read(unmappable, access):
    """As on a file system without maps, of which errno 19 (ENODEV) tells: every way to a tensor's bytes is there."""
    tensor = coffer.open(unmappable, access=access)["small"]
    wanted = np.arange(6, dtype=np.float32).reshape(3, 2)
    target = np.zeros((3, 2), np.float32)
    tensor.read_into(target)
    ways = (tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor), memoryview(tensor), tensor.astype("float64"), target, tensor.tolist())
    for found in ways:
        assert np.array_equal(found, wanted)
    assert tensor.tobytes() == bytes(tensor.memory()) == bytes(tensor.read()) == wanted.tobytes()
    for index in (np.s_[1:], np.s_[:, 1], np.s_[::2, ::-1], 2):
        assert np.array_equal(tensor[index].numpy(), wanted[index]) and tensor[index].tobytes() == wanted[index].tobytes()
    assert tensor.writable and tensor.memory(writable=True).nbytes == 24
