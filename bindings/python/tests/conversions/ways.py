# SPDX-License-Identifier: Apache-2.0
"""What every way from a tensor of Coffer's to a framework is held against: it gives these values in this shape, or it raises. What
must not be is an array of other values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from conftest import FORMAT, file_bytes

import coffer

SHAPES = [(2, 3), (6,), (), (1,), (0, 3)]
# No array of numpy's is of these.
PACKED = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
EVERYTHING = {*FORMAT.values(), *PACKED}


def array_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose numbers need all that the dtype has: signs, and every bit of 64."""
    dtype = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    count = int(np.prod(shape))
    if dtype.kind in "iu":
        edges = [np.iinfo(dtype).max, np.iinfo(dtype).min, 1, 2, 3, 4]
        return np.array(edges, dtype)[:count].reshape(shape)
    if name == "complex64":
        return np.array([1 + 2j, -1j, 3, 4, 5, 6], dtype)[:count].reshape(shape)
    positive = name == "float8_e8m0fnu"
    return np.array([1.0, 2.0 if positive else -2.0, 0.5, 4.0, 8.0, 16.0]).astype(dtype)[:count].reshape(shape)


def cases(shapes: list[tuple[int, ...]]) -> Iterator[tuple[coffer.Tensor, np.ndarray | None]]:
    """Tensors, and the arrays that they are; None where numpy has none."""
    for name, dtype in FORMAT.items():
        for shape in shapes:
            array = array_of(name, shape)
            yield coffer.open(file_bytes([("a", dtype, shape, array.tobytes())]))["a"], array
    for dtype, bits in PACKED.items():
        yield coffer.open(file_bytes([("a", dtype, (8,), bytes(range(bits)))]))["a"], None


def refused(
    way: Callable[[coffer.Tensor], Any], as_array: Callable[[Any], np.ndarray], shapes: list[tuple[int, ...]] = SHAPES
) -> set[str]:
    """The dtypes that a way raises for, in every shape. For the others `as_array` of what it gives has to be the tensor's values."""
    found, given = set(), set()
    for tensor, expected in cases(shapes):
        try:
            made = way(tensor)
        except Exception:  # noqa: BLE001  each framework has its own
            found.add(tensor.dtype)
            continue
        given.add(tensor.dtype)
        assert expected is not None, f"{tensor.dtype}: {made!r}"
        array = as_array(made)
        assert array.shape == expected.shape, (tensor.dtype, array, expected)
        assert np.array_equal(wide(array), wide(expected)), (tensor.dtype, array, expected)
    assert not found & given, "some shapes are refused, others not"
    return found


def wide(array: np.ndarray) -> np.ndarray:
    """The same numbers, as a dtype that compares exactly."""
    return array if array.dtype.kind in "biuc" else array.astype(np.float64)
