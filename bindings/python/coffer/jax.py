# SPDX-License-Identifier: Apache-2.0
"""Models as arrays of jax that are divided among devices. `coffer.flax` has files as a whole, for one device."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import Sharding

from . import _native
from ._dtypes import numpy_dtype
from ._errors import wrong_argument
from ._file import File, open

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

# How an array is divided: the same for all, by the name, or by the name and shape.
Shardings = Sharding | Mapping[str, Sharding] | Callable[[str, tuple[int, ...]], Sharding]
_Box = tuple[tuple[int, int], ...]


def load_sharded(
    source: str | os.PathLike[str] | File,
    shardings: Shardings,
    names: Iterable[str] | None = None,
    *,
    memory: int = 256 << 20,
    threads: int = 8,
) -> dict[str, jax.Array]:
    """The tensors of a model, each divided as its sharding says. Only what this process's devices hold is read, and what several
    of them hold, once.

    source     a path, a URL, or what coffer.open gave
    shardings  one for all tensors; a mapping of names, which then are the tensors that are loaded; or a function of name and shape
    names      which tensors; None: all
    memory     bytes that are read ahead at most, besides the arrays themselves
    threads    that read
    """
    file = source if isinstance(source, File) else open(source, access="read")
    if names is None:
        names = shardings if isinstance(shardings, Mapping) else file
    wanted = {name: _sharding(shardings, name, file[name].shape) for name in _in_order(file, names)}
    with ThreadPoolExecutor(max(1, threads), "coffer-jax") as pool:
        reads = _reads(file, wanted, pool, memory)
        return {name: _array(file[name], sharding, parts) for (name, sharding), parts in zip(wanted.items(), reads, strict=True)}


def _in_order(file: File, names: Iterable[str]) -> list[str]:
    """In the order of the file's bytes."""
    chosen = {name: file[name] for name in names}  # what it does not have is an error here
    return [name for name in file._model.offset_keys() if name in chosen]


def _sharding(shardings: Shardings, name: str, shape: tuple[int, ...]) -> Sharding:
    if isinstance(shardings, Mapping):
        if name not in shardings:
            raise wrong_argument(f"there is no sharding for '{name}'")
        return shardings[name]
    return shardings if isinstance(shardings, Sharding) else shardings(name, shape)


# ---- Reading ----------------------------------------------------------------------------------------------------------


def _box(index: tuple[slice, ...] | None, shape: tuple[int, ...]) -> _Box:
    """What an index of jax takes, which has steps of 1."""
    return tuple(entry.indices(length)[:2] for entry, length in zip(index or (), shape, strict=True))


def _reads(
    file: File, wanted: Mapping[str, Sharding], pool: ThreadPoolExecutor, memory: int
) -> Iterator[dict[_Box, Future[Array]]]:
    """The parts of each tensor that this process's devices hold, being read, as far ahead as memory goes."""
    started: deque[tuple[int, dict[_Box, Future[Array]]]] = deque()
    held = 0
    for name, sharding in wanted.items():
        tensor = file[name]
        indices = sharding.addressable_devices_indices_map(tensor.shape).values()
        boxes = {_box(index, tensor.shape) for index in indices}
        parts = {box: tensor[tuple(slice(*entry) for entry in box)] for box in boxes}
        size = sum(part.nbytes for part in parts.values())
        while started and held + size > memory:
            freed, found = started.popleft()
            yield found
            held -= freed
        started.append((size, {box: pool.submit(part.numpy) for box, part in parts.items()}))
        held += size
    for _, found in started:
        yield found


def _array(tensor: _native.Tensor, sharding: Sharding, parts: Mapping[_Box, Future[Array]]) -> jax.Array:
    shape = tensor.shape
    return jax.make_array_from_callback(
        shape, sharding, lambda index: parts[_box(index, shape)].result(), dtype=numpy_dtype(tensor.dtype)
    )
