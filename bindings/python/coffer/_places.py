# SPDX-License-Identifier: Apache-2.0
"""Memory of others that a load writes to: arrays of numpy, tensors of torch, and buffers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from . import _native
from ._dtypes import framework_name, framework_shape, is_packed
from ._errors import Error, wrong_argument, wrong_type


# An item of a plan as the extension has it: name, dtype, shape, bytes, and whether it is all of a tensor.
Item = tuple[str, str, tuple[int, ...], int, bool]


class Place(NamedTuple):
    """Where the result of one item goes."""

    # The address of its first element, bytes from there on, bytes from element to element of each dimension, and the stream.
    where: tuple[int, int, tuple[int, ...] | None, int]
    device: _native.Device | None  # None: host memory
    owner: Any  # which keeps it


def place_of(out: Any, dtype: str, shape: Sequence[int]) -> Place:
    """The place that `out` is for a result of that dtype, as files have it, and that shape."""
    if hasattr(out, "data_ptr"):
        return _of_tensor(out, dtype, tuple(shape))
    if hasattr(out, "__array_interface__"):
        return _of_array(out, dtype, tuple(shape))
    return _of_buffer(out, dtype, tuple(shape))


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element of such a tensor to the end of its last; `strides` are in bytes."""
    if 0 in shape:
        return 0
    return sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) + itemsize


def _of_tensor(out: Any, dtype: str, shape: tuple[int, ...]) -> Place:
    """Of a torch tensor. Where it holds two elements in one, it has to be without gaps."""
    wanted = framework_shape(dtype, shape)
    _compare(str(out.dtype).rpartition(".")[2], framework_name(dtype), tuple(out.shape), wanted)
    size = out.element_size()
    strides = tuple(stride * size for stride in out.stride())
    device = engine_device(out.device)
    if device is None and out.device.type != "cpu":
        raise wrong_argument(f"no driver of Coffer's reaches the device {out.device}")
    if out.is_conj() or out.is_neg():
        raise wrong_argument("its tensor has other values than its memory: resolve_conj and resolve_neg make one that has the same")
    dense = out.is_contiguous()
    if is_packed(dtype) and not dense:
        raise wrong_argument(f"{dtype} has two elements in a byte, so its tensor must be contiguous")
    given = None if dense else _of_ones(shape, strides)
    stream = 0 if device is None else stream_of(out.device)
    return Place((out.data_ptr(), extent(wanted, strides, size), given, stream), device, out)


def _of_array(out: Any, dtype: str, shape: tuple[int, ...]) -> Place:
    from ._dtypes import numpy_dtype

    _compare(out.dtype, numpy_dtype(dtype), out.shape, shape)
    if not out.flags.writeable:
        raise wrong_argument("its array is read-only")
    if any(stride < 0 for stride in out.strides):
        raise wrong_argument("its array goes backwards: it has negative strides")
    address = out.__array_interface__["data"][0]
    strides = None if out.flags.c_contiguous else _of_ones(shape, out.strides)
    return Place((address, extent(shape, out.strides, out.itemsize), strides, 0), None, out)


def _of_buffer(out: Any, dtype: str, shape: tuple[int, ...]) -> Place:
    import ctypes

    try:
        view = memoryview(out)
    except TypeError:
        raise wrong_type(f"a numpy array, a torch tensor or a writable buffer is wanted, not {type(out).__name__}") from None
    if view.readonly or not view.c_contiguous:
        raise wrong_argument("its buffer is not writable, or not contiguous")
    if not _native.is_given(view, dtype):
        raise wrong_argument(f"the file has {dtype}, and the place is for elements of the format '{view.format}'")
    first = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))) if view.nbytes else 0
    return Place((first, view.nbytes, None, 0), None, view)


def _compare(dtype: Any, wanted: Any, shape: tuple[int, ...], wanted_shape: tuple[int, ...]) -> None:
    if dtype != wanted:
        raise wrong_argument(f"the file has {wanted}, and the place is for {dtype}")
    if shape != wanted_shape:
        raise wrong_argument(f"the result has the shape {list(wanted_shape)}, and the place {list(shape)}")


def _of_ones(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Of a dimension of one element the stride means nothing, and some frameworks have odd ones there."""
    return tuple(0 if length == 1 else stride for length, stride in zip(shape, strides, strict=True))


# ---- Devices of torch ------------------------------------------------------------------------------------------------


def engine_device(device: Any) -> _native.Device | None:
    """Coffer's device for one of torch's; None when there is no driver for it, and for host memory."""
    import torch

    place = torch.device(device)
    if place.type != "cuda":
        return None
    number = torch.cuda.current_device() if place.index is None else place.index
    return _opened(f"{'cuda' if torch.version.hip is None else 'hip'}:{number}", os.getpid())


def is_cuda(device: Any) -> bool:
    """Whether it is one of CUDA's, as torch calls those of ROCm, too; it counts them when they are named by numbers alone."""
    return isinstance(device, int) or str(device).partition(":")[0] == "cuda"


def reaches(device: Any) -> bool:
    """Whether there is a driver for one of torch's devices, in the words of those who name it."""
    if not is_cuda(device):
        return False
    import torch

    return torch.cuda.is_available() and engine_device(device) is not None


@cache
def _opened(name: str, _pid: int) -> _native.Device | None:
    """Opened once, since each would retain the device's context; in a fork anew."""
    try:
        return _native.Device(name)
    except Error as error:
        if error.code != "NO_DEVICE":
            raise
        return None


def stream_of(device: Any) -> int:
    """The stream that torch uses now."""
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)


# Tensors that are smaller share slabs of their own: a tensor keeps the slab that it is in.
_SMALL = 1 << 20
_SLAB = 256 << 20
# Where a tensor begins, so that kernels find it aligned, as in memory that CUDA allocates. What fills its last 256 bytes, as weights do,
# is followed by the next one as it is in the file, and is copied with it.
_ALIGNMENT = 256


class Rooms:
    """Torch tensors on a device, in few slabs of its memory: torch knows of them, so that its statistics and limits hold.

    plan     what is loaded
    numbers  those of the items that get room
    device   torch's

    A tensor is made when it is asked for: making it takes torch longer than a device needs to fill it, so that the caller does that
    while bytes are on their way. A slab lives as long as a tensor of it, or one that was not asked for yet. Until then numbers are
    all that there is of a tensor: of tens of thousands, objects would keep Python's garbage collector busy.
    """

    def __init__(self, plan: _native.Plan, numbers: list[int], device: Any) -> None:
        self._plan = plan
        self._engine = engine_device(device)
        self._stream = 0 if self._engine is None else stream_of(device)
        slabs, slab_of, begins = _native.lay_out(plan, numbers, _SMALL, _SLAB, _ALIGNMENT)
        self._slabs: list[_Slab | None] = [_Slab(size, count, device) for size, count in slabs]
        self._slab_of = dict(zip(numbers, slab_of, strict=True))
        self._begin = dict(zip(numbers, begins, strict=True))

    def __contains__(self, number: int) -> bool:
        return number in self._begin

    def place(self, number: int, size: int) -> Place:
        slab = self._slab(number)
        return Place((slab.address + self._begin[number], size, None, self._stream), self._engine, slab.bytes)

    def put_all(self, placed: _native.Plan) -> bool:
        """Adds all items of the plan to another one at once, where all of them are whole tensors that have room here."""
        if len(self._begin) != len(self._plan):
            return False
        firsts = [0 if slab is None else slab.address for slab in self._slabs]
        addresses = [firsts[of] + begin for of, begin in zip(self._slab_of.values(), self._begin.values(), strict=True)]
        return placed.add_items(self._plan, addresses, self._engine, self._stream)

    def pop(self, number: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """The tensor of that number, once, of torch's dtype and shape. It is one view of its slab: slicing, and a view of that, would
        take three times as long."""
        slab, index = self._slab(number), self._slab_of.pop(number)
        tensor = slab.of(dtype).as_strided(shape, _dense(shape), self._begin.pop(number) // dtype.itemsize)
        slab.left -= 1
        if slab.left == 0:
            self._slabs[index] = None
        return tensor

    def clear(self) -> None:
        self._slabs.clear()
        self._begin.clear()

    def _slab(self, number: int) -> _Slab:
        slab = self._slabs[self._slab_of[number]]
        assert slab is not None
        return slab


class _Slab:
    """Bytes on a device, and views of them by dtype."""

    def __init__(self, size: int, count: int, device: Any) -> None:
        import torch

        self.bytes = torch.empty(size, dtype=torch.uint8, device=device)
        self.address = self.bytes.data_ptr()
        self.left = count  # tensors that were not asked for
        self._views: dict[Any, Any] = {}

    def of(self, dtype: Any) -> Any:
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self.bytes.view(dtype)
        return view


@lru_cache(maxsize=1024)  # a model has tens of thousands of tensors, of few shapes
def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor without gaps, in elements."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 1, 0, -1):
        strides[dim - 1] = strides[dim] * (shape[dim] or 1)
    return tuple(strides)
