# SPDX-License-Identifier: Apache-2.0
"""Tensors and slices of them: what they say, and the ways to their bytes."""

from __future__ import annotations

import ctypes
import io
import itertools

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
    assert io.BytesIO(data).readinto(tensor) == len(data)


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
        with pytest.raises(TypeError):
            overwrite(f["bytes"], b"x")
        with pytest.raises(BufferError, match="read-only"):
            f["bytes"].__dlpack__()
        assert not np.from_dlpack(f["bytes"]).flags.writeable
        assert f["cube"][:, 1].writable  # a copy


def test_memory_that_was_lent_is_not_changed(path):
    content = path.read_bytes()
    tensor = coffer.open(content)["bytes"]
    assert not tensor.writable
    with pytest.raises(TypeError):
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


def test_formats_that_the_protocol_lacks_are_bytes():
    f = coffer.open(file_bytes([("x", "BF16", (2, 3), bytes(range(12)))]))
    view = memoryview(f["x"])
    assert (view.format, view.shape, bytes(view)) == ("B", (12,), bytes(range(12)))


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
    with pytest.raises(BufferError):
        tensor.read_into(memoryview(bytearray(62))[::2])
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
