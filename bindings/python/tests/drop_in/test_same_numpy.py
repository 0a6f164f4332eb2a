# SPDX-License-Identifier: Apache-2.0
"""coffer.numpy does what safetensors.numpy does, but for documented deviations, which carry their id."""

from __future__ import annotations

import collections
import subprocess
import sys

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from both import BITS, COFFER, EVERY_DTYPE, REFERENCE, Raised, one_tensor, outcome
from hypothesis import given, settings

LIMITS = settings(max_examples=200, deadline=None, database=None, derandomize=True)

DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
          np.float64, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
          ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu]  # fmt: skip


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    size = int(np.prod(shape)) * dtype.itemsize
    content = draw(st.binary(min_size=size, max_size=size))
    if dtype == np.bool_:
        content = bytes(byte & 1 for byte in content)
    array = np.frombuffer(content, dtype).reshape(shape)
    return array.astype(array.dtype.newbyteorder(">")) if dtype.kind in "iufc" and draw(st.booleans()) else array


NAMES = st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda name: name != "__metadata__")
DICTS = st.dictionaries(NAMES, arrays(), max_size=3)
METADATA = st.none() | st.dictionaries(NAMES, NAMES, min_size=1, max_size=1)


def both(call, *arguments):
    sides = [(side.module("numpy"), *arguments) for side in (REFERENCE, COFFER)]
    return [outcome(call, *side) for side in sides]


@LIMITS
@given(tensors=DICTS, metadata=METADATA)
def test_save(tensors, metadata):
    theirs, ours = both(lambda module: module.save(tensors, metadata))
    assert ours == theirs


@LIMITS
@given(tensors=DICTS, metadata=METADATA)
def test_what_is_saved_is_loaded(tensors, metadata):
    ours = COFFER.module("numpy")
    loaded = ours.load(ours.save(tensors, metadata))
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        little = array.astype(array.dtype.newbyteorder("<"))
        assert (loaded[name].dtype, loaded[name].shape, loaded[name].tobytes()) == (little.dtype, array.shape, little.tobytes())
        assert loaded[name].flags.writeable


@pytest.mark.parametrize(("dtype", "shape"), EVERY_DTYPE, ids=str)
def test_load(dtype, shape, tmp_path):
    """N1: bfloat16 and float8 arrays, which the reference has only in part. N2: what no array can be is a SafetensorError."""
    content = one_tensor(dtype, shape)
    (tmp_path / "x").write_bytes(content)
    calls = {
        "load": lambda module: module.load(content),
        "mmap": lambda module: module.load_file(tmp_path / "x"),
        "pread": lambda module: module.load_file(str(tmp_path / "x"), backend="pread"),
    }
    for name, call in calls.items():
        theirs, ours = both(call)
        if not isinstance(theirs, Raised):
            assert ours == theirs, name
        elif dtype.startswith("F8") or dtype == "BF16":
            size = int(np.prod(shape)) * BITS[dtype] // 8
            assert ours["a"][2:] == (tuple(shape), content[len(content) - size :])
        else:
            assert dtype in ("F4", "F6_E2M3", "F6_E3M2")
            assert ours.kind == "SafetensorError" and dtype in ours.text


BAD = {
    "complex128": {"a": np.zeros(2, np.complex128)},
    "object": {"a": np.zeros(2, object)},
    "str": {"a": np.zeros(2, "U2")},
    "datetime": {"a": np.zeros(2, "M8[s]")},
    "int4": {"a": np.zeros(2, ml_dtypes.int4)},
    "float8_e4m3": {"a": np.zeros(2, ml_dtypes.float8_e4m3)},
    "a number": {"a": 3},
    "a list": {"a": [1, 2]},
    "None": {"a": None},
    "no dict": [np.zeros(2)],
    "nothing": None,
    "an int for a name": {1: np.zeros(2)},
}


@pytest.mark.parametrize("tensors", BAD.values(), ids=BAD)
def test_what_cannot_be_saved(tensors, tmp_path):
    theirs, ours = both(lambda module: module.save(tensors))
    assert isinstance(ours, Raised) and ours == theirs
    theirs, ours = both(lambda module: module.save_file(tensors, tmp_path / "x"))
    assert isinstance(ours, Raised) and ours == theirs
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.UserDict])
def test_other_mappings(kind):
    theirs, ours = both(lambda module: module.save(kind(a=np.zeros(2))))
    assert ours == theirs and isinstance(ours, bytes)


def test_arrays_that_are_not_contiguous_are_saved_as_they_read():
    """N3: the reference writes whatever lies in memory from their first element on."""
    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    ours = COFFER.module("numpy")
    for array in (whole.T, whole[:, ::2], whole[::-1], whole[1:3, 2:4].T, np.broadcast_to(whole[0], (3, 6))):
        assert np.array_equal(ours.load(ours.save({"a": array}))["a"], array)


def test_load_file_fails_as_safe_open_does(tmp_path):
    for call in (
        lambda module: module.load_file(tmp_path / "none"),
        lambda module: module.load_file(b"x"),
        lambda module: module.load_file(tmp_path / "x", backend="foo"),
        lambda module: module.load(bytearray(b"x")),
        lambda module: module._getdtype("F32") == np.float32,
    ):
        theirs, ours = both(call)
        assert ours == theirs


def test_arrays_own_their_memory(tmp_path):
    """What happens to the file afterwards does not reach them, nor they it."""
    ours = COFFER.module("numpy")
    array = np.arange(1000, dtype=np.int32)
    ours.save_file({"a": array, "b": array}, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    for backend in ("mmap", "pread"):
        loaded = ours.load_file(tmp_path / "x", backend=backend)
        loaded["a"][:] = 0
        assert np.array_equal(loaded["b"], array)
        assert (tmp_path / "x").read_bytes() == before
        (tmp_path / "x").write_bytes(bytes(len(before)))
        assert np.array_equal(loaded["b"], array)
        (tmp_path / "x").write_bytes(before)


@pytest.mark.parametrize("sync", ["replace", "always", "never"])
def test_sync(tmp_path, sync):
    ours = COFFER.module("numpy")
    for _ in range(2):
        ours.save_file({"a": np.arange(3)}, tmp_path / "x", sync=sync)
    assert np.array_equal(ours.load_file(tmp_path / "x")["a"], np.arange(3))


def test_without_ml_dtypes_the_error_names_it(tmp_path):
    (tmp_path / "x").write_bytes(one_tensor("BF16", [2]))
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import coffer.numpy\n"
        f"coffer.numpy.load_file({str(tmp_path / 'x')!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "numpy has no dtype for BF16; ml_dtypes has one: pip install ml_dtypes" in done.stderr
