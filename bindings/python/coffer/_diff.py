# SPDX-License-Identifier: Apache-2.0
"""coffer.diff: what two models have in common, and what not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from . import _native
from ._dtypes import is_complex
from ._models import RECORDED, Source, _opened

if TYPE_CHECKING:
    from ._file import File
    from ._native import Progress, Tensor


class TensorDifference(NamedTuple):
    """A tensor that both have, and that is not the same."""

    name: str
    dtypes: tuple[str, str]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    # Numbers that are not equal, of how many, and how far they are apart; a complex number is two. None where shapes differ, or one
    # of the tensors is complex.
    differing: int | None
    numbers: int
    most: float | None
    mean: float | None


class Difference(NamedTuple):
    """What differs between two models, A and B. True when anything does."""

    only_in_a: list[str]
    only_in_b: list[str]
    tensors: list[TensorDifference]
    metadata: list[str]  # the keys whose values differ, or that only one of them has

    def __bool__(self) -> bool:
        return any(self)


def diff(a: Source, b: Source, *, tolerance: float | None = None, progress: Progress | None = None) -> Difference:
    """Compares two models: tensors by name, those of one dtype and shape by their bytes, and where these differ by their numbers.

    a, b       paths, URLs, or what coffer.open gave
    tolerance  tensors of one dtype and shape whose numbers are nowhere further apart count as the same
    progress   called with the bytes of A's tensors that were compared, and those of all that are
    """
    with _opened(a) as left, _opened(b) as right:
        both = [name for name in left._model.offset_keys() if name in right]
        total = sum(left[name].nbytes for name in both)
        done = 0
        found = []
        for name in both:
            difference = _compared(left[name], right[name])
            if difference is not None and not _within(difference, tolerance):
                found.append(difference)
            done += left[name].nbytes
            if progress is not None:
                progress(done, total)
        return Difference(
            [name for name in left if name not in right],
            [name for name in right if name not in left],
            found,
            _metadata(left, right),
        )


def _compared(a: Tensor, b: Tensor) -> TensorDifference | None:
    """How two tensors of one name differ; None when they do not."""
    complex_numbers = [is_complex(tensor.dtype) for tensor in (a, b)]
    numbers = a.size * (2 if complex_numbers[0] else 1)
    dtypes, shapes = (a.dtype, b.dtype), (a.shape, b.shape)
    if a.shape != b.shape or complex_numbers[0] != complex_numbers[1]:
        return TensorDifference(a.name, dtypes, shapes, None, numbers, None, None)
    differ, differing, most, total = _native.compare(a, b)
    if not differ and a.dtype == b.dtype:
        return None
    return TensorDifference(a.name, dtypes, shapes, differing, numbers, most, total / numbers if numbers else 0.0)


def _within(difference: TensorDifference, tolerance: float | None) -> bool:
    alike = difference.dtypes[0] == difference.dtypes[1]
    return tolerance is not None and alike and (math.inf if difference.most is None else difference.most) <= tolerance


def _metadata(a: File, b: File) -> list[str]:
    left, right = a.metadata, b.metadata
    return sorted(key for key in {*left, *right} - RECORDED if left.get(key) != right.get(key))
