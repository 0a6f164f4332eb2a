# SPDX-License-Identifier: Apache-2.0
"""coffer.statistics: what the numbers of a tensor are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import _native

if TYPE_CHECKING:
    from ._native import Tensor


class Statistics(NamedTuple):
    """What `coffer stats` shows of a tensor. An element of C64 is two numbers, and BOOL has 0 and 1."""

    numbers: int
    finite: int
    nan: int
    infinite: int
    zeros: int
    subnormal: int
    # Of the finite numbers; None when there are none. The ends of dtypes of integers are int.
    min: float | None
    max: float | None
    mean: float | None
    std: float | None  # of the population
    histogram: list[int]  # numbers in each bin of equal width from min to max


def statistics(tensor: Tensor, *, bins: int = 0) -> Statistics:
    """Reads a tensor chunk by chunk and tells what its numbers are.

    bins  of a histogram, for which the tensor is read a second time; 0: none
    """
    return Statistics(*_native.statistics(tensor, bins))
