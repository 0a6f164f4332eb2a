# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch that stand for those of a file, and read no byte before they are copied.

An engine's weight loaders slice what they are given and copy it into their parameters. With a `LazyTensor` slicing is arithmetic,
and the copy reads just these bytes, into the parameter where that is possible:

    with Weights(["model.safetensors"]) as weights:
        for name, tensor in weights:                      # as `get_tensor` would give it, of the same dtype and shape
            parameter.copy_(tensor.narrow(0, first, count))

Whatever else is done with a lazy tensor works as with the tensor itself: views are views, every other operation gets the bytes,
and a change is seen by all views of it. A copy is complete when it returns.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import TracebackType
from typing import Any
from weakref import WeakSet

import torch
from torch.utils._pytree import tree_map_only

from .._dtypes import is_packed, torch_dtype
from .._errors import wrong_argument, wrong_type
from .prefetch import MEMORY, THREADS, ReadAhead, Statistics
from .boxes import Box, Ranges, box_of, elements, row_strides, slices, whole

_CPU = torch.device("cpu")  # always said, since a program may have another one as its default
_META = torch.device("meta")
_COPY = torch.ops.aten.copy_.default
_DISPATCH = "__torch_dispatch__"
_COPIES = frozenset({torch.ops.aten.clone.default, torch.ops.aten._to_copy.default})
_is_alias: Any = vars(torch._C)["_is_alias_of"]
_VIEW_OF_COPY = torch.ops.aten._unsafe_view.default  # of one that `reshape` has just made


class _Origin:
    """A tensor of which there are lazy tensors: one of a file, or a copy of one that nobody has looked at yet."""

    def __init__(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype
        self.pinned: torch.Tensor | None = None  # all of it in memory, once that need not be what it was
        self._copies: WeakSet[_Copied] | None = None  # that nobody has looked at
        self._lock = threading.RLock()  # loaders may be run by several threads

    def part(self, ranges: Ranges) -> torch.Tensor:
        """What a box has, row by row, in memory of its own or in memory that does not change."""
        raise NotImplementedError

    def lazy_tensor(self) -> LazyTensor:
        return LazyTensor(self, torch.empty(self.shape, dtype=self.dtype, device="meta"))

    def box(self, twin: torch.Tensor) -> Box:
        return box_of(self.shape, twin.shape, twin.stride(), int(twin.storage_offset()))

    def view(self, twin: torch.Tensor) -> torch.Tensor:
        """What a view of it has, in memory. Nothing may be written there unless it is pinned."""
        if self.pinned is not None:
            changed = self.pinned if twin.dtype == self.dtype else self.pinned.view(twin.dtype)
            return changed.as_strided(twin.shape, twin.stride(), twin.storage_offset())
        if twin.numel() == 0:
            return torch.empty(twin.shape, dtype=twin.dtype, device=_CPU)
        box = self.box(twin)
        return self.part(box.ranges).view(twin.dtype).view(-1).as_strided(twin.shape, box.strides, box.offset)

    def pin(self) -> None:
        """Takes all of it into memory for good: it is about to be changed, or looked at in a way that cannot be followed."""
        with self._lock:
            if self.pinned is not None:
                return
            for copied in list(self._copies or ()):
                copied.pin()
            empty = 0 in self.shape
            found = torch.empty(0, dtype=self.dtype, device=_CPU) if empty else self.part(whole(self.shape))
            self.pinned = found.view(self.shape)

    def copied(self, twin: torch.Tensor, dtype: torch.dtype) -> LazyTensor | None:
        """A copy of a view, row by row. Nothing is read for it before it is used. None where that cannot wait, since memory may
        change meanwhile."""
        with self._lock:
            if self.pinned is not None:
                return None
            copied = _Copied(self, twin, dtype)
            if self._copies is None:
                self._copies = WeakSet()
            self._copies.add(copied)
        return copied.lazy_tensor()


class _InFile(_Origin):
    """A tensor of a file."""

    def __init__(self, source: ReadAhead, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__(name, shape, dtype)
        self.source = source

    def part(self, ranges: Ranges) -> torch.Tensor:
        return torch.frombuffer(self.source.read(self.name, ranges), dtype=torch.uint8).view(self.dtype)


class _Copied(_Origin):
    """A copy of a view of a tensor, perhaps in another dtype. Its boxes are boxes of that view."""

    def __init__(self, source: _Origin, twin: torch.Tensor, dtype: torch.dtype) -> None:
        super().__init__(source.name, twin.shape, dtype)
        self.source = source
        self.twin = twin

    def part(self, ranges: Ranges) -> torch.Tensor:
        found = self.source.view(self.twin[slices(ranges)])
        return torch.empty(found.shape, dtype=self.dtype, device=_CPU).copy_(found)


class LazyTensor(torch.Tensor):
    """A tensor of a file, or a view of one. `_twin` is the same view of a tensor without memory."""

    _origin: _Origin
    _twin: torch.Tensor

    @staticmethod
    def __new__(cls, origin: _Origin, twin: torch.Tensor) -> LazyTensor:
        self: LazyTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            twin.size(),
            strides=twin.stride(),
            storage_offset=twin.storage_offset(),
            dtype=twin.dtype,
            device=_CPU,
        )
        self._origin = origin
        self._twin = twin
        return self

    # What is below is enough, and this would cost more than all of it.
    __torch_function__: Any = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is _COPY and type(args[0]) is not cls and type(args[1]) is cls:
            return _filled(args[0], args[1])
        if func.is_view or func is _VIEW_OF_COPY:
            made = _viewed(func, args, kwargs)
            if made is not None:
                return made
        if func in _COPIES and type(args[0]) is cls:
            made = _copy(func, args, kwargs)
            if made is not None:
                return made
        if _is_composite(func):  # in inference mode torch leaves it to us to take them apart
            return func.decompose(*args, **kwargs)
        if func._schema.is_mutable:
            return _changed(func, args, kwargs)
        return func(*_real(args), **_real(kwargs))

    # ---- What torch does without asking -------------------------------------------------------------------------------

    def _in_memory(self) -> torch.Tensor:
        """The tensor that it stands for."""
        return self._origin.view(self._twin)

    def _pinned(self) -> torch.Tensor:
        """The same, in the memory that all lazy tensors of the tensor share from now on."""
        self._origin.pin()
        return self._in_memory()

    def numpy(self, *, force: bool = False) -> Any:
        return self._pinned().numpy(force=force)

    def tolist(self) -> Any:
        return self._in_memory().tolist()

    def data_ptr(self) -> int:
        return self._pinned().data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self._pinned().untyped_storage()

    def __array__(self, dtype: Any = None) -> Any:
        array: Any = self._pinned().__array__
        return array(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._pinned().__dlpack__(**options)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self._in_memory().clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = self._in_memory().clone().__reduce_ex__
        return reduced(protocol)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<lazy tensor of '{self._origin.name}': {self.dtype} {tuple(self.shape)}>"


# ---- Operations -------------------------------------------------------------------------------------------------------


def _real(values: Any) -> Any:
    return tree_map_only(LazyTensor, LazyTensor._in_memory, values)


@cache
def _is_composite(func: Any) -> bool:
    """Whether an operation consists of others, which arrive one by one."""
    return bool(func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def _viewed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view of a lazy tensor is one, too, if it has elements of the same size and the values that are in the file, not conjugated or
    negated ones. None for what turns out to be a copy: some operations are either."""
    self = args[0]
    made = func(self._twin, *args[1:], **kwargs)
    views = [made] if isinstance(made, torch.Tensor) else made
    if not all(_is_alias(view, self._twin) for view in views):
        return None
    if any(view.element_size() != self._twin.element_size() or view.is_conj() or view.is_neg() for view in views):
        return func(self._pinned(), *args[1:], **kwargs)
    if made is not views:
        return LazyTensor(self._origin, made)
    return type(made)(LazyTensor(self._origin, view) for view in views)


def _copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A copy that lies row by row and stays on the CPU can wait, and one without memory has nothing to read; None for another
    one."""
    if kwargs.get("device") == _META:
        return func(args[0]._twin, *args[1:], **kwargs)
    if kwargs.get("device") not in (None, _CPU) or kwargs.get("pin_memory"):
        return None
    made = func(args[0]._twin, *args[1:], **{name: value for name, value in kwargs.items() if name != "device"})
    return args[0]._origin.copied(args[0]._twin, made.dtype) if made.is_contiguous() else None


def _changed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation that writes. What it writes to has to be memory; what it gives back is what it was given."""
    given: dict[int, LazyTensor] = {}
    kept: list[torch.Tensor] = []  # so that no two have one id

    def written(value: LazyTensor) -> torch.Tensor:
        real = value._pinned()
        kept.append(real)
        given[id(real)] = value
        return real

    def passed(argument: Any, value: Any) -> Any:
        writes = argument.alias_info is not None and argument.alias_info.is_write
        return tree_map_only(LazyTensor, written, value) if writes else _real(value)

    arguments = func._schema.arguments
    named = {argument.name: argument for argument in arguments}
    made = func(
        *[passed(argument, value) for argument, value in zip(arguments, args, strict=False)],
        **{name: passed(named[name], value) for name, value in kwargs.items()},
    )
    for real in kept:
        if real.shape != given[id(real)].shape:
            raise wrong_argument(f"{func} cannot change the shape of a lazy tensor; use a view of it, or clone() it first")
    return tree_map_only(torch.Tensor, lambda tensor: given.get(id(tensor), tensor), made)


def _filled(target: torch.Tensor, source: LazyTensor) -> torch.Tensor:
    """Copies a lazy tensor into a tensor: reads it at once into its memory, where that has the same elements in the same order, and
    nothing where it has no memory."""
    origin, twin = source._origin, source._twin
    if target.device == _META:
        return target.copy_(twin)
    if (
        type(origin) is _InFile
        and origin.pinned is None
        and target.dtype == twin.dtype
        and target.shape == twin.shape
        and _is_plain(target)
        and twin.numel()
    ):
        box = origin.box(twin)
        if box.offset == 0 and elements(box.ranges) == twin.numel() and _in_rows(twin.shape, box.strides):
            origin.source.read_into(origin.name, box.ranges, _memory(target))
            return target
    return target.copy_(origin.view(twin))


def _is_plain(target: torch.Tensor) -> bool:
    """Whether a tensor is memory of the process, row by row, and nothing else."""
    return (
        target.device.type == "cpu"
        and getattr(type(target), _DISPATCH) is getattr(torch.Tensor, _DISPATCH)
        and target.is_contiguous()
        and not target.is_conj()
        and not target.is_neg()
    )


def _in_rows(shape: Sequence[int], strides: Sequence[int]) -> bool:
    wanted = row_strides(shape)
    return all(size == 1 or stride == want for size, stride, want in zip(shape, strides, wanted, strict=True))


def _memory(target: torch.Tensor) -> memoryview:
    size = target.numel() * target.element_size()
    return memoryview((ctypes.c_char * size).from_address(target.data_ptr())).cast("B")


# ---- Files ------------------------------------------------------------------------------------------------------------


class Weights:
    """The tensors of some files, in the order of their bytes: pairs of a name and a lazy tensor.

    They are meant to be gone through once, and copied as they come: what was copied of a layer is what is read ahead of those
    that follow, by `threads` threads into at most `memory` bytes. Nothing is read of a tensor that is not used.
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]], *, memory: int = MEMORY, threads: int = THREADS
    ) -> None:
        if isinstance(paths, str | os.PathLike):
            raise wrong_type("the files are a list of paths, even if there is one")
        self._source = ReadAhead(paths, memory=memory, threads=threads)
        found = {tensor.dtype for tensor in self._source.tensors.values()}
        self._dtypes = {dtype: None if is_packed(dtype) else torch_dtype(dtype) for dtype in found}

    @property
    def statistics(self) -> Statistics:
        """What was done so far."""
        return self._source.statistics

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name in self._source:
            yield name, self[name]

    def __len__(self) -> int:
        return len(self._source.tensors)

    def __getitem__(self, name: str) -> torch.Tensor:
        """A new lazy tensor for a tensor. One of packed elements is read now."""
        tensor = self._source.tensors[name]
        dtype = self._dtypes[tensor.dtype]
        if dtype is None:
            return tensor.torch()
        return _InFile(self._source, name, tensor.shape, dtype).lazy_tensor()

    def close(self) -> None:
        """Ends reading ahead. Lazy tensors stay usable."""
        self._source.close()

    def __enter__(self) -> Weights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
