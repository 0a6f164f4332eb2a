# SPDX-License-Identifier: Apache-2.0
"""Which part of a tensor a strided view of it needs.

A view is an offset, sizes and strides, in elements of a tensor whose elements lie row by row. A box is one range for each
dimension of that tensor: what can be sliced from a file. What is read of a box lies row by row again, so the view has other
strides there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

# Start, end and step, for each dimension.
Ranges = tuple[tuple[int, int, int], ...]


class Box(NamedTuple):
    """A part of a tensor, and where a view is in what is read of it."""

    ranges: Ranges
    offset: int
    strides: tuple[int, ...]


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements from one to the next along each dimension, of a tensor that lies row by row."""
    found = [1] * len(shape)
    for dim in range(len(shape) - 1, 0, -1):
        found[dim - 1] = found[dim] * max(shape[dim], 1)
    return tuple(found)


def counts(ranges: Ranges) -> tuple[int, ...]:
    """The shape of what a box has."""
    return tuple(-(-(stop - start) // step) for start, stop, step in ranges)


def elements(ranges: Ranges) -> int:
    return prod(counts(ranges))


def whole(shape: Sequence[int]) -> Ranges:
    """The box that is all of a tensor."""
    return tuple((0, length, 1) for length in shape)


def slices(ranges: Ranges) -> tuple[slice, ...]:
    """As it is written between brackets."""
    return tuple(slice(*entry) for entry in ranges)


@lru_cache(maxsize=4096)  # layers have the same views
def box_of(shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Box:
    """The box that has all of a view's elements; nearly always these alone."""
    if 0 in sizes:
        return Box(tuple((0, 0, 1) for _ in shape), 0, strides)
    steps = row_strides(shape)
    first = _position(offset, steps)
    walked = _walked(shape, steps, first, sizes, strides)
    if walked is None:
        return _rows(shape, steps, first, sizes, strides, offset)
    return _box_along(first, walked, len(sizes))


def _position(offset: int, steps: Sequence[int]) -> list[int]:
    """The index of an element, for each dimension."""
    found = []
    for step in steps:
        index, offset = divmod(offset, step)
        found.append(index)
    return found


# For each dimension of the tensor the views' dimensions that go along it: (dimension, elements, step).
_Walks = list[list[tuple[int, int, int]]]


def _walked(
    shape: Sequence[int], steps: Sequence[int], first: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> _Walks | None:
    """Along which dimension of the tensor each of the view goes; None where one leaves its dimension, as a flattened or a
    diagonal one does. Several may go along the same: one that was split."""
    found: _Walks = [[] for _ in shape]
    room = [length - 1 - index for length, index in zip(shape, first, strict=True)]
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if size == 1 or stride == 0:
            continue
        along = next((k for k, step in enumerate(steps) if step <= stride and shape[k] > 1), -1)
        if along < 0 or stride % steps[along]:
            return None
        step = stride // steps[along]
        room[along] -= (size - 1) * step
        if room[along] < 0:
            return None
        found[along].append((dim, size, step))
    return found


def _box_along(first: Sequence[int], walks: _Walks, rank: int) -> Box:
    ranges = []
    for start, walk in zip(first, walks, strict=True):
        step = gcd(*(entry[2] for entry in walk)) or 1
        last = start + sum((size - 1) * each for _, size, each in walk)
        ranges.append((start, last + 1, step))
    inside = row_strides(counts(tuple(ranges)))
    strides = [0] * rank
    for walk, (_, _, step), stride in zip(walks, ranges, inside, strict=True):
        for dim, _, each in walk:
            strides[dim] = each // step * stride
    return Box(tuple(ranges), 0, tuple(strides))


def _rows(
    shape: Sequence[int],
    steps: Sequence[int],
    first: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int,
) -> Box:
    """All from a view's first element to its last, made up to whole rows of the outermost dimension in which they differ."""
    last = _position(offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)), steps)
    outer = next((dim for dim in range(len(shape)) if first[dim] != last[dim]), len(shape))
    ranges = [(index, index + 1, 1) for index in first[:outer]]
    if outer < len(shape):
        ranges += [(first[outer], last[outer] + 1, 1), *((0, length, 1) for length in shape[outer + 1 :])]
    start = sum(entry[0] * step for entry, step in zip(ranges, steps, strict=True))
    return Box(tuple(ranges), offset - start, tuple(strides))
