# SPDX-License-Identifier: Apache-2.0
"""Models as arrays of jax that are divided among devices. `coffer.flax` has files as a whole, for one device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import Sharding

from . import _native
from ._dtypes import numpy_dtype
from ._errors import wrong_argument
from ._file import File, open
from ._frameworks import framework
from ._load import Destination, started
from ._options import several
from ._plan import Plan

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

# How an array is divided: the same for all, by the name, or by the name and shape.
Shardings = Sharding | Mapping[str, Sharding] | Callable[[str, tuple[int, ...]], Sharding]
_Box = tuple[tuple[int, int], ...]


def load_sharded(
    source: str | os.PathLike[str] | File,
    shardings: Shardings,
    names: str | Iterable[str] | None = None,
    *,
    memory: int = 256 << 20,
    threads: int = 8,
) -> dict[str, jax.Array]:
    """The tensors of a model, each divided as its sharding says. Only what this process's devices hold is read, and what several
    of them hold, once.

    source     a path, a URL, or what coffer.open gave
    shardings  one for all tensors; a mapping of names, which then are the tensors that are loaded; or a function of name and shape
    names      which tensors; None: all
    memory     bytes that are read ahead at most, besides the arrays themselves, and at least those of the largest part
    threads    that read, at most

    The arrays own their memory. A name that the model does not have is a KeyError with the code NO_TENSOR; what jax says of a sharding
    that does not fit passes through, before anything is read. A tensor that is read whole is compared with its digest, where the file
    records one. May be called by several threads at once.
    """
    file = source if isinstance(source, File) else open(source, access="read")
    if names is None:
        names = shardings if isinstance(shardings, Mapping) else file
    wanted = {name: _sharding(shardings, name, file[name].shape) for name in _in_order(file, several(names))}
    parts = _parts(file, wanted, memory, threads)
    arrays = {name: _array(file[name], wanted[name], found) for name, found in parts}
    return {name: arrays[name] for name in wanted}


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


def _parts(
    file: File, wanted: Mapping[str, Sharding], memory: int, threads: int
) -> Iterator[tuple[str, dict[_Box, Array]]]:
    """The parts of each tensor that this process's devices hold, when all of them are there. They are loaded in the order of the
    file, so that few tensors are incomplete at a time."""
    plan = Plan(file)
    boxes: list[tuple[str, _Box]] = []
    left: dict[str, int] = {}
    for name, sharding in wanted.items():
        shape = file[name].shape
        several = {_box(index, shape) for index in sharding.addressable_devices_indices_map(shape).values()}
        left[name] = len(several)
        for box in several:
            plan.add(name, tuple(slice(*entry) for entry in box))
            boxes.append((name, box))
    budget = max([memory, *(item.nbytes for item in plan.items)])
    found: dict[str, dict[_Box, Array]] = {name: {} for name in left}
    yield from ((name, {}) for name, count in left.items() if count == 0)
    staging = _native.Staging(threads=max(1, threads))
    with started(plan, Destination(framework("numpy"), plan), staging, host_budget=max(1, budget)) as load:
        for number, part in load.numbered():
            name, box = boxes[number]
            found[name][box] = part
            left[name] -= 1
            if left[name] == 0:
                yield name, found.pop(name)


def _array(tensor: _native.Tensor, sharding: Sharding, parts: Mapping[_Box, Array]) -> jax.Array:
    shape = tensor.shape
    return jax.make_array_from_callback(
        shape, sharding, lambda index: parts[_box(index, shape)], dtype=numpy_dtype(tensor.dtype)
    )
