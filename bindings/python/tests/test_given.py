# SPDX-License-Identifier: Apache-2.0
"""Arrays that callers give to be written and to be read into: cast where that loses nothing, and refused otherwise. Never are the bytes
of one dtype taken for those of another."""

from __future__ import annotations

import array
import ctypes
import itertools
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import FORMAT, array_file

import coffer
from coffer import _native

NAMES = {dtype: name for name, dtype in FORMAT.items()}


def numpy_dtype(dtype):
    return np.dtype(getattr(np, NAMES[dtype], None) or getattr(ml_dtypes, NAMES[dtype]))


def written(tmp_path, dtype, shape, data, offset=0):
    with coffer.Writer(tmp_path / "x", {"a": (dtype, shape)}) as writer:
        writer.write("a", data, offset)
    return coffer.open(tmp_path / "x")["a"]


def refused(tmp_path, dtype, shape, data, kind=TypeError):
    with pytest.raises(coffer.Error) as caught, coffer.Writer(tmp_path / "refused", {"a": (dtype, shape)}) as writer:
        writer.write("a", data)
    assert isinstance(caught.value, kind) and "'a'" in str(caught.value)
    assert not (tmp_path / "refused").exists()
    return caught.value


# ---- Which casts are exact --------------------------------------------------------------------------------------------


def some_of(dtype):
    """Every value of a dtype of 16 bits or less; of others those at which they differ: around powers of two, the least and the greatest."""
    wide = numpy_dtype(dtype)
    if wide == np.bool_:
        return np.array([False, True])
    if wide.itemsize <= 2:
        return np.arange(256**wide.itemsize, dtype=f"u{wide.itemsize}").view(wide)
    if wide.kind in "iu":
        ends = np.iinfo(wide)
        powers = [2**power + step for power in range(65) for step in (-1, 0, 1)]
        return np.array([n for n in (*powers, *(-n for n in powers)) if ends.min <= n <= ends.max], wide)
    part = np.dtype("f4") if wide == np.complex64 else wide
    ends = np.finfo(part)
    values = np.array([0, 1, 1 + ends.eps, ends.max, ends.tiny, ends.smallest_subnormal, np.inf, np.nan, 1 / 3], part)
    return (values + 1j).astype(wide) if wide == np.complex64 else values


def is_kept(values, wanted):
    """Whether each value is the same in another dtype: compared as what has all of them."""
    with np.errstate(all="ignore"):
        between = values.astype(np.float64) if values.dtype.itemsize == 1 == wanted.itemsize else values  # casts that ml_dtypes lacks
        found = between.astype(wanted)
    for one, other in zip(values.tolist(), found.tolist(), strict=True):
        if one != other and not (one != one and other != other):
            return False
    return True


# Exact, but not known to be: numbers that the other one has only as subnormals, and a bias that is another one.
MORE = {("F8_E8M0", "F32"), ("F8_E8M0", "C64"), ("F8_E8M0", "BF16"), ("F8_E5M2FNUZ", "F16")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "other"), [*itertools.permutations(NAMES, 2)])
def test_exact_casts(dtype, other):
    """By the table of dtypes as by the values themselves."""
    exact = _native.is_exact(dtype, other)
    if numpy_dtype(dtype).kind == "c" and numpy_dtype(other).kind != "c":
        assert not exact
    else:
        assert is_kept(some_of(dtype), numpy_dtype(other)) == (exact or (dtype, other) in MORE)


# ---- Writing ----------------------------------------------------------------------------------------------------------

FOUR = np.arange(4)
CAST = [
    ("F32", np.float16), ("F32", ">f4"), ("F32", ">f2"), ("F32", np.int16), ("F64", np.float32), ("F64", np.int32), ("I64", np.int8),
    ("I32", np.uint16), ("F32", ml_dtypes.bfloat16), ("BF16", ml_dtypes.float8_e4m3fn), ("C64", np.float32), ("U16", np.bool_),
    ("BF16", np.int8), ("F32", np.float32), ("I64", ">i8"), ("BF16", ml_dtypes.bfloat16), ("C64", ">c8"),
]  # fmt: skip
REFUSED = [
    ("BF16", np.float16), ("F16", ml_dtypes.bfloat16), ("F32", np.int32), ("F32", np.float64), ("F32", np.uint32), ("F64", np.int64),
    ("I32", np.int64), ("U8", np.int8), ("I8", np.uint16), ("BF16", np.uint16), ("F16", np.int16), ("BOOL", np.int8), ("I32", np.float32),
    ("F32", np.complex64), ("I32", np.float16),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "given"), CAST, ids=str)
@pytest.mark.parametrize("strided", [False, True], ids=["dense", "strided"])
def test_what_is_cast(tmp_path, dtype, given, strided):
    values = np.repeat(FOUR.astype(given), 2)[::2] if strided else FOUR.astype(given)
    assert values.flags.c_contiguous is not strided
    assert written(tmp_path, dtype, (4,), values).tolist() == FOUR.astype(given).astype(numpy_dtype(dtype)).tolist()


@pytest.mark.parametrize(("dtype", "given"), REFUSED, ids=str)
def test_what_is_refused(tmp_path, dtype, given):
    """Of as many bytes as the tensor has, too: these were written as they are."""
    size = coffer.open(array_file({"a": np.zeros(4, numpy_dtype(dtype))}))["a"].nbytes
    for count in (4, max(1, size // np.dtype(given).itemsize)):
        error = refused(tmp_path, dtype, (4,), np.arange(count).astype(given))
        assert error.tensor == "a" and f"'a' is {dtype}" in str(error) and FORMAT[np.dtype(given).name] in str(error)


def test_two_doubles_are_not_four_floats(tmp_path):
    refused(tmp_path, "F32", (4,), np.array([1.0, 2.0]))
    refused(tmp_path, "F32", (4,), array.array("d", [1.0, 2.0]))
    refused(tmp_path, "F32", (4,), memoryview(array.array("d", [1.0, 2.0])))
    refused(tmp_path, "F32", (4,), (ctypes.c_double * 2)(1, 2))


def test_strides(tmp_path):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (values.T, values[::-1], values[:, 1:, ::2], np.broadcast_to(values[0, 0], (5, 4)), values[0, 0, 0]):
        assert written(tmp_path, "F32", view.shape, view).tolist() == view.tolist()
    assert written(tmp_path, "U8", (3,), memoryview(b"abcdef")[::2]).tobytes() == b"ace"


def test_bytes_are_taken_as_they_are(tmp_path):
    """And so is memory of unsigned bytes, which is what bytes are called by those who have nothing else."""
    data = np.arange(4, dtype=np.float32).tobytes()
    plain = (ctypes.c_char * 16)(*[data[i : i + 1] for i in range(16)])
    for given in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), np.frombuffer(data, "V16")[0], plain):
        if not isinstance(given, np.void):
            assert written(tmp_path, "F32", (4,), given).tolist() == [0, 1, 2, 3]
    assert written(tmp_path, "F32", (4,), np.repeat(np.frombuffer(data, np.uint8), 2)[::2]).tolist() == [0, 1, 2, 3]


def test_buffers_of_the_dtype(tmp_path):
    assert written(tmp_path, "F32", (2,), array.array("f", [1, 2])).tolist() == [1, 2]
    assert written(tmp_path, "F64", (2,), array.array("f", [1, 2])).tolist() == [1, 2]
    assert written(tmp_path, "I64", (2,), array.array("q", [1, -2])).tolist() == [1, -2]
    assert written(tmp_path, "I64", (2,), array.array("b", [1, -2])).tolist() == [1, -2]
    assert written(tmp_path, "I32", (2,), (ctypes.c_int32 * 2)(1, -2)).tolist() == [1, -2]


def test_pieces_at_offsets_of_the_file(tmp_path):
    with coffer.Writer(tmp_path / "x", {"a": ("F32", (4,))}) as writer:
        writer.write("a", np.array([3, 4], np.float16), offset=8)
        writer.write("a", np.array([1, 2], ">f4"))
    assert coffer.open(tmp_path / "x")["a"].tolist() == [1, 2, 3, 4]


def test_tensors_of_files(tmp_path):
    source = coffer.open(array_file({"h": np.arange(4, dtype=np.float16), "b": np.arange(4).astype(ml_dtypes.bfloat16)}))
    assert written(tmp_path, "F16", (4,), source["h"]).tolist() == [0, 1, 2, 3]
    assert written(tmp_path, "F32", (4,), source["h"]).tolist() == [0, 1, 2, 3]
    assert written(tmp_path, "F32", (2,), source["b"][1:3]).tolist() == [1, 2]
    assert written(tmp_path, "BF16", (2,), source["b"][::2]).tolist() == [0, 2]
    refused(tmp_path, "F16", (4,), source["b"])


class Dlpack:
    """What has nothing but DLPack."""

    def __init__(self, values):
        self.__dlpack__, self.__dlpack_device__ = values.__dlpack__, values.__dlpack_device__


def test_dlpack(tmp_path):
    assert written(tmp_path, "F32", (4,), Dlpack(np.arange(4, dtype=np.float32))).tolist() == [0, 1, 2, 3]
    refused(tmp_path, "BF16", (4,), Dlpack(np.arange(4, dtype=np.float16)))


@pytest.mark.parametrize("wrong", ["text", None, [1.0], 3, object(), {"a": 1}, np.array(["a", "b"]), np.array([object()]), np.zeros(1, "M8[s]")], ids=repr)
def test_what_is_no_array(tmp_path, wrong):
    refused(tmp_path, "F32", (4,), wrong, coffer.Error)


# ---- Reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["private", "read"])
def source(request, tmp_path):
    (tmp_path / "s").write_bytes(array_file({"f": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4).astype(ml_dtypes.bfloat16)}))
    return coffer.open(tmp_path / "s", access=request.param)


@pytest.mark.parametrize("make", [
    lambda: np.zeros((2, 3), np.float32), lambda: np.zeros((2, 3), ">f4"), lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2), np.float32).T,
    lambda: np.zeros((2, 6), np.float32)[:, ::2], lambda: np.zeros((2, 3), ">f8")[::-1], lambda: np.zeros((2, 3), np.complex64),
])  # fmt: skip
def test_read_into(source, make):
    target = make()
    source["f"].read_into(target)
    assert np.array_equal(target, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int8, ml_dtypes.bfloat16, ">i4", "U1", object], ids=str)
def test_read_into_another_dtype(source, dtype):
    for count in (6, 24 // (np.dtype(dtype).itemsize or 1)):
        target = np.zeros(count, dtype)
        with pytest.raises(coffer.Error, match="'f'"):
            source["f"].read_into(target)
        assert np.array_equal(target, np.zeros(count, dtype))


def test_read_into_buffers(source):
    target = array.array("d", [0] * 6)
    source["f"].read_into(target)
    assert target.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match="'f' is F32, and what it is read into is I32"):
        source["f"].read_into(array.array("i", [0] * 6))
    spread = bytearray(48)
    source["f"].read_into(memoryview(spread)[::2])
    assert bytes(spread[::2]) == np.arange(6, dtype=np.float32).tobytes()
    with pytest.raises(TypeError, match="not into list"):
        source["f"].read_into([0] * 6)
    read_only = np.zeros(6, np.float32)
    read_only.flags.writeable = False
    for wrong in (read_only, bytes(24)):
        with pytest.raises(BufferError, match="'f' cannot be read into memory that is read-only") as caught:
            source["f"].read_into(wrong)
        assert isinstance(caught.value, coffer.Error)
    for wrong in (np.zeros(5), np.zeros(14, np.float32)[::2], np.zeros(40, np.uint8)[::2]):
        with pytest.raises(coffer.Error) as caught:
            source["f"].read_into(wrong)
        assert (caught.value.code, caught.value.tensor) == ("BUFFER_SIZE", "f")


def test_read_into_bfloat16(source):
    for dtype in (ml_dtypes.bfloat16, np.float32, np.float64):
        target = np.zeros(4, dtype)
        source["b"].read_into(target)
        assert target.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError):
        source["b"].read_into(np.zeros(4, np.float16))
    with pytest.raises(TypeError):
        source["b"].read_into(np.zeros(4, np.uint16))


def test_places_of_plans(source):
    for wrong in (array.array("d", [0] * 6), array.array("i", [0] * 6)):
        with pytest.raises(ValueError, match="the file has F32, and the place is for elements of the format"):
            coffer.load(coffer.Plan(source).add("f", out=wrong))
    for room in (array.array("f", [0] * 6), bytearray(24)):
        with coffer.load(coffer.Plan(source).add("f", out=room)) as load:
            dict(load)
        assert bytes(room) == np.arange(6, dtype=np.float32).tobytes()


# ---- Without ml_dtypes ------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, coffer
f = coffer.open(sys.argv[1])
for name in f:
    for found in (f[name].astype("float32"), f[name].astype("F64"), np.asarray(f[name], dtype=np.float32), f[name][1:3].astype(">f4")):
        wanted = f[name].tolist() if found.size > 2 else f[name][1:3].tolist()
        assert np.array_equal(found.ravel().tolist(), np.ravel(wanted), equal_nan=True), name
target = np.zeros(256, np.float32)
f["F8_E5M2"].read_into(target)
assert np.array_equal(target, f["F8_E5M2"].astype("float32"), equal_nan=True)
for use in (f["BF16"].numpy, lambda: f["BF16"].astype("bfloat16"), lambda: np.asarray(f["BF16"]), lambda: f["F32"].astype("BF16")):
    try:
        use()
    except coffer.Error as error:
        assert "pip install ml_dtypes" in str(error)
    else:
        sys.exit("no error")
with coffer.Writer(sys.argv[1] + ".new", {"a": ("F32", (256,))}) as writer:
    writer.write("a", f["F8_E4M3"])
"""


def test_floats_that_numpy_does_not_have(tmp_path):
    every = np.arange(256, dtype=np.uint8)
    arrays = {dtype: every.view(numpy_dtype(dtype)) for dtype in NAMES if dtype.startswith("F8")}
    arrays["BF16"] = np.arange(65536, dtype=np.uint16)[::7].copy().view(ml_dtypes.bfloat16)
    arrays["F32"] = np.arange(300, dtype=np.float32)
    (tmp_path / "x").write_bytes(array_file(arrays))
    subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path / "x")], check=True)


def test_more_elements_than_are_decoded_at_once(tmp_path):
    values = np.arange((1 << 20) + 5, dtype=np.uint32).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
    (tmp_path / "x").write_bytes(array_file({"a": values}))
    code = 'import sys\nsys.modules["ml_dtypes"] = None\nimport coffer\nsys.stdout.buffer.write(coffer.open(sys.argv[1])["a"].astype("F32").tobytes())'
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=True, capture_output=True).stdout
    assert np.array_equal(np.frombuffer(found, np.float32), values.astype(np.float32), equal_nan=True)


# ---- Comparing --------------------------------------------------------------------------------------------------------


def test_tensors_compare_as_arrays(source):
    f = source["f"]
    assert (f == f).all() and (f == source["f"]).all() and not (f != f).any()
    assert (f[0] == f[0, ::-1]).tolist() == [False, True, False] and (f != f[0]).tolist() == [[False] * 3, [True] * 3]
    assert (f == np.arange(6).reshape(2, 3)).all() and (np.arange(6).reshape(2, 3) == f).all()
    assert (f == 3).sum() == (3 == f).sum() == 1
    with pytest.raises(ValueError, match="ambiguous"):
        bool(f == f)
    assert f[0, 1] == 1 and f[0, 1] != 2
    assert not (f == None) and f != None and f in [f]  # noqa: E711
    assert hash(f) == hash(f) and len({f, f, source["f"]}) == 2
    with pytest.raises(TypeError):
        f < f  # noqa: B015
