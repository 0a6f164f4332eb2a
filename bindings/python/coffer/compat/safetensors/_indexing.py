# SPDX-License-Identifier: Apache-2.0
"""What may be written between the brackets of a slice that `safe_open.get_slice` gave, where no framework indexes itself.

Integers, slices with positive steps, one ellipsis, and the empty list. Bounds that count from the end follow Python's rules;
an index or a bound beyond the end is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from ..._errors import Error
from .. import SafetensorError
from ._wording import sub_byte_slice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._native import Model, Tensor

Entry = int | slice

# Beyond these the reference says no more than that it does not take them.
_INDICES = range(-(2**31), 2**31)


def choose_part(model: Model, name: str, index: object) -> Tensor:
    """The part of a tensor that `index` names, unread."""
    tensor = model.find(name)
    found = entries(index, tensor.shape)
    try:
        return tensor[tuple(found)]
    except Error as error:
        if error.code != "SLICE_BITS":
            raise
        raise sub_byte_slice(text(found), list(tensor.shape)) from error


def entries(index: object, shape: Sequence[int]) -> list[Entry]:
    """The index with at most one entry for each dimension, checked: integers within bounds, slices, no ellipsis."""
    found = _spread(index, shape)
    if len(found) > len(shape):
        raise _refused(found, shape, "more slicing indexes than dimensions in tensor")
    for dimension in reversed(range(len(found))):
        beyond = _beyond(found[dimension], shape[dimension])
        if beyond is not None:
            what = f"index {beyond} out of bounds for tensor dimension #{dimension} of size {shape[dimension]}"
            raise _refused(found, shape, what)
    return found


def text(found: Sequence[Entry]) -> str:
    """As it would be written between the brackets."""
    return ", ".join(str(entry) if isinstance(entry, int) else _slice_text(entry) for entry in found)


def _spread(index: object, shape: Sequence[int]) -> list[Entry]:
    if isinstance(index, list):
        if index:
            raise SafetensorError("Non empty lists are not implemented")
        return [slice(0, 0)]
    items = index if isinstance(index, tuple) else (index,)
    if sum(item is Ellipsis for item in items) > 1:
        raise SafetensorError("Only one ellipsis (...) is allowed in slice index")
    found: list[Entry] = []
    for item in items:
        if item is Ellipsis:
            found += [slice(None)] * (len(shape) - (len(items) - 1))
        else:
            found.append(_entry(item, len(found), shape))
    return found


def _entry(item: object, dimension: int, shape: Sequence[int]) -> Entry:
    if isinstance(item, slice):
        return _slice(item)
    size = shape[dimension] if dimension < len(shape) else 0
    number = _integer(item)
    if number is None or (number not in _INDICES and not -size <= number < size):
        what = f"Unsupported slice index at position {dimension}: expected slice, int, or ellipsis"
        raise SafetensorError(what)
    if number >= 0:
        return number
    if number + size < 0:
        raise SafetensorError(f"Invalid index {number} for dimension {dimension} of size {size}")
    return number + size


def _integer(item: object) -> int | None:
    try:
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        return None


def _slice(item: slice) -> slice:
    start, stop, step = (None if bound is None else operator.index(bound) for bound in (item.start, item.stop, item.step))
    if step is not None and not -(2**63) <= step < 2**63:
        raise OverflowError("Python int too large to convert to C long")
    if step is not None and step <= 0:
        raise SafetensorError(f"Slice step must be a positive integer, got {step}")
    for bound in (start, stop):
        if bound is not None and bound >= 2**64:
            raise OverflowError("int too big to convert")
    return slice(start, stop, step)


def _beyond(entry: Entry, size: int) -> int | None:
    """The index that `entry` names beyond a dimension's end. In a dimension of length 0 every slice is empty."""
    if isinstance(entry, int):
        return entry if entry >= size else None
    if size > 0 and entry.start is not None and entry.start >= size:
        return entry.start  # type: ignore[no-any-return]
    if size > 0 and entry.stop is not None and entry.stop > size:
        return entry.stop - 1  # type: ignore[no-any-return]
    return None


def _slice_text(entry: slice) -> str:
    start, stop = ("" if bound is None else bound for bound in (entry.start, entry.stop))
    step = "" if entry.step in (None, 1) else f":{entry.step}"
    return f"{start}:{stop}{step}"


def _refused(found: Sequence[Entry], shape: Sequence[int], why: str) -> SafetensorError:
    return SafetensorError(f"Error during slicing [{text(found)}] with shape {list(shape)}: {why}")
