# SPDX-License-Identifier: Apache-2.0
"""Torch tensors on devices, by way of host memory that is used again and again.

Bytes are read into it and copied out of it. It is never a map of the file, of which a driver copies slowly, and it is pinned where
CUDA is, of which a driver copies fastest. It holds the tensors of a file one after the other, so that a model costs no more of the
host's memory than that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ._dtypes import framework_shape, is_packed, torch_dtype, typed
from ._places import is_cuda

if TYPE_CHECKING:
    from ._native import Model, Progress, Tensor

# Bytes of it. Larger tensors go through it piece by piece.
SIZE = 64 << 20
# Where a tensor begins in it.
_ALIGNMENT = 64

# As `Model.infos` has them: name, dtype, shape, offset, bytes.
Info = tuple[str, str, tuple[int, ...], int, int]


class TorchStaging:
    """Memory for tensors of these sizes, on their way to a device."""

    def __init__(self, device: Any, sizes: Iterable[int]) -> None:
        self._device = device
        wanted = sum(map(_aligned, sizes))
        # What was pinned before is given out again by torch, which keeps it.
        pinned = is_cuda(device) and torch.cuda.is_available()
        self._memory = torch.empty(min(wanted, SIZE) + _ALIGNMENT, dtype=torch.uint8, pin_memory=pinned)
        address = self._memory.data_ptr()
        self._first = -address % _ALIGNMENT
        self._bytes = memoryview((ctypes.c_ubyte * self._memory.nbytes).from_address(address)).cast("B")

    def copied(self, tensor: Tensor) -> Any:
        """A tensor, or a part of one, on the device."""
        if tensor.nbytes <= SIZE:
            return _on(self._device, self._read(tensor))
        made = self._room(tensor)
        self._fill(made, tensor, _nothing)
        return made

    def all_copied(self, model: Model, infos: Sequence[Info], progress: Progress | None) -> dict[str, Any]:
        """Tensors of a model, on the device."""
        found: dict[str, Any] = {}
        done, total = 0, sum(info[4] for info in infos)

        def advance(now: int, _: int) -> None:
            if progress is not None:
                progress(done + now, total)

        for batch in _batches(infos):
            size = sum(info[4] for info in batch)
            if size > SIZE:
                tensor = model.find(batch[0][0])
                found[tensor.name] = made = self._room(tensor)
                self._fill(made, tensor, lambda now: advance(now, 0))
            else:
                found.update(self._together(model, batch, None if progress is None else advance))
            done += size
        return found

    def _together(self, model: Model, batch: Sequence[Info], progress: Progress | None) -> Iterator[tuple[str, Any]]:
        """Tensors that have room beside each other, read at once."""
        places: list[int] = []
        at = self._first
        for *_, size in batch:
            places.append(at)
            at += _aligned(size)
        targets = [(info[0], self._bytes[place : place + info[4]]) for info, place in zip(batch, places, strict=True)]
        model.read_into(targets, progress=progress)
        for (name, dtype, shape, _, size), place in zip(batch, places, strict=True):
            yield name, _on(self._device, self._seen(place, size, dtype, shape))

    def _room(self, tensor: Tensor) -> Any:
        shape = framework_shape(tensor.dtype, tensor.shape)
        return torch.empty(shape, dtype=torch_dtype(tensor.dtype), device=self._device)

    def _fill(self, made: Any, tensor: Tensor, advance: Callable[[int], object], before: int = 0) -> None:
        """Copies a tensor to its room, a few rows at a time; `advance` is called with the bytes that were copied."""
        if tensor.nbytes <= SIZE or (tensor.ndim == 1 and is_packed(tensor.dtype)):  # of which torch has half as many elements
            read = self._read(tensor) if tensor.nbytes <= SIZE else _read(tensor)
            made.view(torch.uint8).copy_(read.view(torch.uint8))  # not every device copies every dtype
            advance(before + tensor.nbytes)
            return
        step = max(SIZE * len(tensor) // tensor.nbytes, 1)
        for first in range(0, len(tensor), step):
            rows = tensor[first : first + step] if step > 1 else tensor[first]
            self._fill(made[first : first + step] if step > 1 else made[first], rows, advance, before)
            before += rows.nbytes

    def _read(self, tensor: Tensor) -> Any:
        place = self._first
        tensor.read_into(self._bytes[place : place + tensor.nbytes])
        return self._seen(place, tensor.nbytes, tensor.dtype, tensor.shape)

    def _seen(self, place: int, size: int, dtype: str, shape: tuple[int, ...]) -> Any:
        """What is there in the memory, as a tensor."""
        return typed(self._memory[place : place + size], torch_dtype(dtype), dtype, shape)


def _nothing(_: int) -> None:
    pass


def _read(tensor: Tensor) -> Any:
    """A tensor in memory of its own."""
    return typed(torch.frombuffer(tensor.read(), dtype=torch.uint8), torch_dtype(tensor.dtype), tensor.dtype, tensor.shape)


def _on(device: Any, tensor: Any) -> Any:
    """A tensor on a device, with memory of its own there; it is complete when this returns, so that the memory can be used again."""
    moved = tensor.to(device)
    return moved.clone() if moved.device.type == "cpu" else moved


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT


def _batches(infos: Sequence[Info]) -> Iterator[list[Info]]:
    """The tensors in their order, as many together as there is room for; one that is larger alone."""
    batch: list[Info] = []
    room = SIZE
    for info in infos:
        if batch and _aligned(info[4]) > room:
            yield batch
            batch, room = [], SIZE
        batch.append(info)
        room -= _aligned(info[4])
    if batch:
        yield batch
