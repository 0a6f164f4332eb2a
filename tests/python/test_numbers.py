# SPDX-License-Identifier: Apache-2.0
"""The library's statistics, histograms, distributions and comparisons against numpy's, of random tensors of every dtype.

The chunks are of random lengths. numpy decodes by ml_dtypes where it has the dtype, so decoding is compared, too.
"""

import ctypes
import math
import os
from ctypes import POINTER, Structure, byref, c_bool, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p

import coffer_ctypes
import ml_dtypes
import numpy as np
import pytest

COUNT = 20_011
DTYPES = {
    "BOOL": np.uint8, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16, "I32": np.int32, "U32": np.uint32,
    "I64": np.int64, "U64": np.uint64, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64,
    "C64": np.float32, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F4": ml_dtypes.float4_e2m1fn, "F6_E2M3": ml_dtypes.float6_e2m3fn, "F6_E3M2": ml_dtypes.float6_e3m2fn,
}  # fmt: skip
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


class Statistics(Structure):
    _fields_ = [
        ("count", c_uint64), ("finite", c_uint64), ("nan", c_uint64), ("infinite", c_uint64), ("zeros", c_uint64),
        ("subnormal", c_uint64), ("min", c_double), ("max", c_double), ("mean", c_double), ("squares", c_double),
        ("dtype", c_int), ("reserved", c_uint32), ("min_bits", c_uint64), ("max_bits", c_uint64),
    ]  # fmt: skip


class Histogram(Structure):
    _fields_ = [("low", c_double), ("high", c_double), ("bins", POINTER(c_uint64)), ("bin_count", c_size_t)]


class Distribution(Structure):
    _fields_ = [
        ("counts", POINTER(c_uint64)), ("dtype", c_int), ("reserved", c_uint32), ("zeros", c_uint64),
        ("finite", c_uint64), ("min", c_double), ("max", c_double),
    ]  # fmt: skip


class Range(Structure):
    _fields_ = [("low", c_double), ("high", c_double), ("count", c_uint64)]


class Comparison(Structure):
    _fields_ = [
        ("norms", c_bool), ("reserved", c_bool * 7), ("differing_bytes", c_uint64), ("differing", c_uint64),
        ("nan", c_uint64), ("infinite", c_uint64), ("max", c_double), ("sum", c_double), ("not_finite", c_uint64),
        ("squares_a", c_double), ("squares_b", c_double), ("squares_apart", c_double), ("products", c_double),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def library():
    lib = ctypes.CDLL(os.environ["COFFER_LIB"])
    lib.coffer_statistics_add.argtypes = [POINTER(Statistics), c_int, c_void_p, c_size_t]
    lib.coffer_statistics_deviation.argtypes = [POINTER(Statistics)]
    lib.coffer_histogram_add.argtypes = [POINTER(Histogram), c_int, c_void_p, c_size_t]
    lib.coffer_distribution_slots.argtypes = [c_int]
    lib.coffer_distribution_slots.restype = c_size_t
    lib.coffer_distribution_add.argtypes = [POINTER(Distribution), c_void_p, c_size_t]
    lib.coffer_distribution_next.argtypes = [POINTER(Distribution), POINTER(c_size_t), POINTER(Range)]
    lib.coffer_distribution_next.restype = c_bool
    lib.coffer_comparison_add.argtypes = [POINTER(Comparison), c_int, c_void_p, c_int, c_void_p, c_size_t]
    for name in ("coffer_statistics_deviation", "coffer_comparison_relative_norm", "coffer_comparison_cosine"):
        getattr(lib, name).restype = c_double
    return lib


def random_codes(rng, name):
    """Elements of a dtype, one in each item: any bits, but of wide floats numbers whose squares are doubles."""
    if name == "F64":
        values = rng.standard_normal(COUNT) * 10.0 ** rng.integers(-100, 100, COUNT)
        values[rng.integers(0, COUNT, 30)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324], 30)
        return values
    numpy_dtype = np.dtype(DTYPES[name])
    bits = BITS.get(name, 8 * numpy_dtype.itemsize)
    count = 2 * COUNT if name == "C64" else COUNT
    codes = rng.integers(0, 2**bits, count, dtype=np.uint64)
    return codes.astype(f"u{numpy_dtype.itemsize}").view(numpy_dtype)


def packed(name, codes):
    """The bytes of a file."""
    if name not in BITS:
        return codes.tobytes()
    bits = np.unpackbits(codes.view(np.uint8)[:, None], axis=1, bitorder="little", count=BITS[name])
    return np.packbits(bits.ravel(), bitorder="little").tobytes()


def numbers_of(name, codes):
    with np.errstate(invalid="ignore"):  # signalling NaN
        return (codes != 0).astype(np.float64) if name == "BOOL" else codes.astype(np.float64)


def chunks(rng, name, data):
    """Where each begins, and how many elements it has."""
    bits = BITS.get(name, 64 if name == "C64" else 8 * np.dtype(DTYPES[name]).itemsize)
    done = 0
    while done < COUNT:
        count = min(8 * int(rng.integers(1, 900)), COUNT - done)
        yield data[done * bits // 8 : -(-(done + count) * bits // 8)], count
        done += count


@pytest.mark.parametrize("name", DTYPES)
def test_statistics_and_histograms(library, name):
    rng = np.random.default_rng(1)
    codes = random_codes(rng, name)
    data, values = packed(name, codes), numbers_of(name, codes)
    finite = values[np.isfinite(values)]
    found = Statistics()
    number = coffer_ctypes.DTYPES[name]
    for chunk, count in chunks(rng, name, data):
        assert library.coffer_statistics_add(byref(found), number, chunk, count) == 0
    assert (found.count, found.finite) == (values.size, finite.size)
    assert (found.nan, found.infinite) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert (found.zeros, found.min, found.max) == ((values == 0).sum(), finite.min(), finite.max())
    scale = float(np.abs(finite).max())
    assert found.mean == pytest.approx(math.fsum(finite) / finite.size, rel=1e-12, abs=1e-12 * scale)
    assert library.coffer_statistics_deviation(byref(found)) == pytest.approx(
        float(np.std(finite / scale)) * scale, rel=1e-9)
    if name in ("I64", "U64"):
        assert np.array([found.min_bits, found.max_bits], np.uint64).view(codes.dtype).tolist() == [
            codes.min(), codes.max()]  # fmt: skip

    bins = (c_uint64 * 24)()
    histogram = Histogram(found.min, found.max, bins, 24)
    for chunk, count in chunks(rng, name, data):
        assert library.coffer_histogram_add(byref(histogram), number, chunk, count) == 0
    expected = np.histogram(finite / scale, 24, (found.min / scale, found.max / scale))[0]
    # A number on the edge of a bin may be rounded to either side.
    edges = np.linspace(found.min / scale, found.max / scale, 25)
    near = sum(np.isclose(finite / scale, edge, rtol=0, atol=1e-12).sum() for edge in edges)
    assert sum(bins) == finite.size
    assert np.abs(np.array(list(bins)).astype(np.int64) - expected).sum() <= 2 * near


@pytest.mark.parametrize("name", DTYPES)
def test_distributions(library, name):
    rng = np.random.default_rng(2)
    codes = random_codes(rng, name)
    data, values = packed(name, codes), numbers_of(name, codes)
    finite = np.sort(values[np.isfinite(values)])
    number = coffer_ctypes.DTYPES[name]
    counts = np.zeros(library.coffer_distribution_slots(number), np.uint64)
    found = Distribution(counts.ctypes.data_as(POINTER(c_uint64)), number)
    for chunk, count in chunks(rng, name, data):
        assert library.coffer_distribution_add(byref(found), chunk, count) == 0
    position, at, done = c_size_t(0), Range(), 0
    while library.coffer_distribution_next(byref(found), byref(position), byref(at)):
        part = finite[done : done + at.count]
        assert part.size == at.count and at.low <= part[0] and part[-1] <= at.high
        narrow = max(abs(part[0]), 2.0**-1022) / 1000
        assert at.low == at.high or (at.high - at.low <= narrow and len(counts) == 1 << 22)
        done += at.count
    assert done == finite.size


@pytest.mark.parametrize("name", DTYPES)
def test_comparisons(library, name):
    rng = np.random.default_rng(3)
    codes = random_codes(rng, name)
    others = codes.copy()
    changed = rng.integers(0, codes.size, 500)
    others[changed] = random_codes(rng, name)[changed]
    pairs = [packed(name, codes), packed(name, others)]
    a, b = numbers_of(name, codes), numbers_of(name, others)
    found = Comparison(norms=True)
    number = coffer_ctypes.DTYPES[name]
    seed = int(rng.integers(1 << 30))
    for (x, count), (y, _) in zip(*(chunks(np.random.default_rng(seed), name, data) for data in pairs)):
        assert library.coffer_comparison_add(byref(found), number, x, number, y, count) == 0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    both = np.isfinite(a) & np.isfinite(b)
    apart = np.abs(b[both] - a[both])
    assert found.differing == (~same).sum()
    assert found.nan == (np.isnan(a) != np.isnan(b)).sum()
    assert found.nan + found.infinite == (~same & ~both).sum()
    assert found.not_finite == (~both).sum()
    assert found.max == apart.max()
    assert found.sum == pytest.approx(math.fsum(apart), rel=1e-12)
    differing = np.frombuffer(pairs[0], np.uint8) != np.frombuffer(pairs[1], np.uint8)
    assert found.differing_bytes == differing.sum()
    scale = max(np.abs(a[both]).max(), np.abs(b[both]).max())
    x, y = a[both] / scale, b[both] / scale
    norm = np.linalg.norm(y - x) / np.linalg.norm(x)
    assert library.coffer_comparison_relative_norm(byref(found)) == pytest.approx(norm, rel=1e-9)
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert library.coffer_comparison_cosine(byref(found)) == pytest.approx(cosine, rel=1e-9, abs=1e-12)


def test_dtypes_are_all(library):
    assert set(DTYPES) == set(coffer_ctypes.DTYPES)
