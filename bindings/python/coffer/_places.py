# SPDX-License-Identifier: Apache-2.0
"""Memory of others that a load writes to: arrays of numpy, tensors of torch, and buffers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from . import _native
from ._dtypes import framework_name, framework_shape, is_packed
from ._errors import Error, wrong_argument, wrong_type


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
_SMALL_SLAB = 32 << 20
_SLAB = 256 << 20
# Where a tensor begins, so that kernels find it aligned.
_ALIGNMENT = 512


class Room(NamedTuple):
    """What a tensor needs: bytes, and torch's dtype and shape."""

    nbytes: int
    dtype: Any
    shape: Sequence[int]


class Rooms:
    """Torch tensors on a device, in few blocks of its memory: torch knows of them, so that its statistics and limits hold.

    `numbers` are those that the tensors are known by. A tensor is made when it is asked for: making one takes torch longer than
    a device needs to fill it, so that the caller does that while bytes are on their way. A block lives as long as a tensor of it,
    or one that was not asked for yet.
    """

    def __init__(self, rooms: Mapping[int, Room], device: Any) -> None:
        import torch

        self._rooms = rooms
        # Of each, its block as elements of its dtype, and the element there that is its first.
        self._at: dict[int, tuple[Any, int]] = {}
        self.places: dict[int, Place] = {}  # by the same numbers
        engine = engine_device(device)
        stream = 0 if engine is None else stream_of(device)
        small = [number for number, room in rooms.items() if room.nbytes < _SMALL]
        large = [number for number, room in rooms.items() if room.nbytes >= _SMALL]
        for together, limit in ((small, _SMALL_SLAB), (large, _SLAB)):
            for group in _groups(rooms, together, limit):
                slab = torch.empty(sum(_aligned(rooms[number].nbytes) for number in group), dtype=torch.uint8, device=device)
                typed = {dtype: slab.view(dtype) for dtype in {rooms[number].dtype for number in group}}
                first, at = slab.data_ptr(), 0
                for number in group:
                    size, dtype, _ = rooms[number]
                    self._at[number] = typed[dtype], at // dtype.itemsize
                    self.places[number] = Place((first + at, size, None, stream), engine, slab)
                    at += _aligned(size)

    def pop(self, number: int) -> Any:
        """The tensor of that number, once. It is one view of its block: slicing, and a view of that, would take three times
        as long."""
        block, first = self._at.pop(number)
        shape = self._rooms[number].shape
        return block.as_strided(shape, _dense(shape), first)

    def clear(self) -> None:
        self._at.clear()


def _dense(shape: Sequence[int]) -> list[int]:
    """The strides of a tensor without gaps, in elements."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 1, 0, -1):
        strides[dim - 1] = strides[dim] * max(shape[dim], 1)
    return strides


def _groups(rooms: Mapping[int, Room], numbers: Sequence[int], limit: int) -> list[list[int]]:
    """The numbers in their order, as many together as a slab has room for."""
    found: list[list[int]] = []
    left = 0
    for number in numbers:
        size = _aligned(rooms[number].nbytes)
        if not found or size > left:
            found.append([])
            left = limit
        found[-1].append(number)
        left -= size
    return found


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT
