# SPDX-License-Identifier: Apache-2.0
"""coffer.torch.load_into: a model, read into the memory that parameters have already."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module

from . import _torch_memory
from ._dtypes import framework_shape, is_packed, torch_dtype
from ._errors import Error, wrong_argument, wrong_type
from ._frameworks import framework
from ._load import Destination, started
from ._places import reaches
from ._plan import Plan, PlannedItem

if TYPE_CHECKING:
    from ._file import File
    from ._native import Staging
    from ._plan import Rules
    from ._progress import Shown


def into(
    target: Module | Mapping[str, Tensor],
    source: str | os.PathLike[str] | File,
    strict: bool,
    rank: int,
    world: int,
    rules: Rules | None,
    staging: Staging | None,
    verify: bool,
    progress: Shown,
) -> tuple[set[str], list[str]]:
    tensors = _tensors_of(target)
    plan = Plan(source).all(rank, world, rules=rules)
    names = [item.name for item in plan.items]
    shared = [group for group in _torch_memory.find_shared(tensors) if len(group) > 1]
    missing, unexpected = _missing(tensors, set(names), shared), [name for name in names if name not in tensors]
    if strict and (missing or unexpected):
        raise does_not_fit(plan.file.path, type(target).__name__, missing, unexpected)
    _carry_out(plan.only(tensors), tensors, set().union(*shared), staging, verify, progress)
    return missing, unexpected


def does_not_fit(path: str | None, target: str, missing: Iterable[str], unexpected: Iterable[str]) -> Error:
    lists = (("the file lacks", sorted(missing)), ("the module has no", sorted(unexpected)))
    said = "; ".join(f"{what} {', '.join(names)}" for what, names in lists if names)
    return wrong_argument(f"{path} does not fit {target}: {said}")


def _tensors_of(target: Module | Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not isinstance(target, Module | Mapping):
        raise wrong_type(f"the target is a module or a mapping of names to tensors, not {type(target).__name__}")
    tensors = dict(target.state_dict() if isinstance(target, Module) else target)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise wrong_type(f"'{name}' is not a tensor of torch, but of the type {type(tensor).__name__}")
        if tensor.device.type == "meta":
            raise wrong_argument(f"'{name}' has no memory: to_empty() gives a module some")
        tensors[name] = tensor.detach()
    return tensors


def _missing(tensors: Mapping[str, Tensor], there: Set[str], shared: Iterable[Set[str]]) -> set[str]:
    """The names that get nothing. One whose memory is all part of another one's that is there does."""
    found = tensors.keys() - there
    for group in shared:
        spans = [_span(tensors[name]) for name in group & there]
        covered = {name for name in group - there if any(_is_within(_span(tensors[name]), span) for span in spans)}
        found -= covered
    return found


def _span(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), _torch_memory.end_ptr(tensor)


def _is_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _carry_out(
    plan: Plan,
    tensors: Mapping[str, Tensor],
    shared: Set[str],
    staging: Staging | None,
    verify: bool,
    progress: Shown,
) -> None:
    """What the load does not put into the targets is copied by torch; what shares memory last, in the target's order."""
    names = [item.name for item in plan.items]
    by_torch = {number for number, name in enumerate(names) if name in shared}
    kept: dict[str, Tensor] = {}
    targets = [tensors[name] for name in names]
    with torch.no_grad(), Filling(plan, targets, by_torch, staging, verify=verify, progress=progress) as filling:
        for number, tensor in filling:
            if number in by_torch and tensor is not None:
                kept[names[number]] = tensor
            elif tensor is not None:
                targets[number].copy_(tensor)
        for name in tensors:
            if name in kept:
                tensors[name].copy_(kept[name])


class Filling:
    """A plan that is carried out into tensors that are there, one for each item: pairs of an item's number and, where torch has to
    copy it to its target, what was read; else None, and the target is complete.

    Those of `by_torch` are always copied, since they share memory with others.
    """

    def __init__(
        self, plan: Plan, targets: Sequence[Tensor], by_torch: Container[int], staging: Staging | None, **options: Any
    ) -> None:
        self._placed: set[int] = set()
        for number, (item, target) in enumerate(zip(plan.items, targets, strict=True)):
            _check(item, target)
            if number not in by_torch and _takes_bytes(target, item.dtype):
                plan.put(number, target)
                self._placed.add(number)
        self._load = started(plan, Destination(framework("torch"), plan), staging, **options)

    def __iter__(self) -> Iterator[tuple[int, Tensor | None]]:
        for number, tensor in self._load.numbered():
            yield number, None if number in self._placed else tensor

    def __enter__(self) -> Filling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._load.close()


def _check(item: PlannedItem, tensor: Tensor) -> None:
    shape = framework_shape(item.dtype, item.shape)
    if tuple(tensor.shape) != shape:
        raise wrong_argument(f"'{item.name}' has the shape {list(shape)} in the file, and {list(tensor.shape)} in the target")


def _takes_bytes(tensor: Tensor, dtype: str) -> bool:
    """Whether the file's bytes can go to the tensor's memory as they are."""
    as_they_are = tensor.dtype == torch_dtype(dtype) and not (tensor.is_conj() or tensor.is_neg())
    return _is_reached(tensor.device) and as_they_are and (tensor.is_contiguous() or not is_packed(dtype))


def _is_reached(device: torch.device) -> bool:
    return device.type == "cpu" or reaches(device)
