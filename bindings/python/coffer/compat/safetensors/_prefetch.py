# SPDX-License-Identifier: Apache-2.0
"""safe_open.prefetch: tensors that are loaded to a CUDA device in the background, as of safetensors 0.9."""

from __future__ import annotations

import operator

from ... import _native
from ..._errors import Error, NoTensorError
from ..._frameworks import Framework, TorchFramework
from .. import SafetensorError
from ._wording import framework_failed, wrong_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any, NoReturn

    from ..._load import Load

# Of each tensor a slice of its first dimension, one slice for each of several, or None for the whole.
PrefetchPlan = dict[str, slice | tuple[slice, ...] | None]


class TensorMeta:
    """What a file's header says of a tensor: `dtype`, as files name it, `shape`, and `data_offsets`, the place of its bytes among the
    data."""

    __slots__ = ("_data_offsets", "_dtype", "_shape")

    _dtype: str
    _shape: tuple[int, ...]
    _data_offsets: tuple[int, int]

    def __new__(cls) -> TensorMeta:
        raise TypeError(f"cannot create '{cls.__name__}' instances")

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def shape(self) -> list[int]:
        return list(self._shape)

    @property
    def data_offsets(self) -> tuple[int, int]:
        return self._data_offsets

    def __repr__(self) -> str:
        return f'TensorMeta {{ dtype: "{self._dtype}", shape: {self.shape}, data_offsets: {self._data_offsets} }}'


def meta_of(model: _native.Model, name: str) -> TensorMeta:
    """What the header says of a tensor."""
    tensor = model.find(name)
    meta = object.__new__(TensorMeta)
    meta._dtype, meta._shape = tensor.dtype, tensor.shape
    if len(model.shards) == 1:
        begin = (tensor.offset or 0) - model.data_offset
        meta._data_offsets = (begin, begin + tensor.nbytes)
    else:
        meta._data_offsets = next(tensors[name][2] for _, tensors in model.headers() if name in tensors)
    return meta


class PrefetchLoader:
    """Tensors on their way to a device: each is handed out once, by `take` or by iterating, and owns its memory. What was not
    taken is released by `close`."""

    __slots__ = ("_load", "_names", "_taken")

    _load: Load | None
    _names: tuple[str, ...]
    _taken: set[str]

    def __new__(cls) -> PrefetchLoader:
        raise TypeError(f"cannot create '{cls.__name__}' instances")

    def names(self) -> list[str]:
        """Of all that is loaded, in the order of the file."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def take(self, name: str) -> Any:
        """Waits for a tensor, or the part of it that was planned."""
        load = self._opened()
        if not isinstance(name, str):
            raise wrong_type("name", name, "str")
        if name not in self._names:
            raise SafetensorError(f"{name} is not in the prefetch plan")
        if name in self._taken:
            raise _delivered()
        try:
            tensor = load.take(name)
        except Error as error:
            self._failed(error)
        self._taken.add(name)
        return tensor

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Pairs of a name and a tensor, as they become ready, of all that were not taken."""
        while True:
            try:
                found = next(self._opened(), None)
            except Error as error:
                self._failed(error)
            if found is None:
                return
            self._taken.add(found[0])
            yield found

    def close(self) -> None:
        """Ends the load, and releases what was not taken."""
        if self._load is not None:
            self._load.close()
        self._load = None

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(
        self, _exc_type: type[BaseException] | None, _exc_value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Load:
        if self._load is None:
            raise SafetensorError("prefetch loader closed")
        return self._load

    def _failed(self, error: Error) -> NoReturn:
        if error.code == "TAKEN":
            raise _delivered() from error
        if self._load is None:  # while it was waited for
            raise SafetensorError("prefetch loader closed") from error
        framework_failed(error)


def _delivered() -> SafetensorError:
    return SafetensorError("tensor already delivered (prefetch hands each tensor out once, via take or iteration)")


def prefetch(model: _native.Model, framework: Framework, plan: object, threads: object) -> PrefetchLoader:
    """Starts loading what a plan wants of a model, to the framework's device."""
    from ..._file import File  # all of which take long to import
    from ..._load import Destination, started
    from ..._places import is_cuda
    from ..._plan import Plan

    if not isinstance(framework, TorchFramework):
        raise SafetensorError('prefetch is only compatible with framework="pt"')
    if not is_cuda(framework.device):
        raise SafetensorError(f"prefetch loads to cuda devices, not {framework.device}")
    if not isinstance(threads, int):
        raise TypeError(f"'{type(threads).__name__}' object cannot be interpreted as an integer")
    if threads < 0:
        raise OverflowError("can't convert negative int to unsigned")
    import torch

    wanted = _wanted(model, plan)
    planned = Plan(File(model))
    for name in model.offset_keys():
        if name in wanted:
            planned.add(name, wanted[name])
    try:
        destination = Destination(framework, planned)
        if not torch.cuda.is_available():
            raise SafetensorError(f"torch has no CUDA here, so nothing can be loaded to {framework.device}")
        load = started(planned, destination, _staging(threads))
    except Error as error:
        framework_failed(error)
    loader = object.__new__(PrefetchLoader)
    loader._load, loader._names, loader._taken = load, tuple(load.names()), set()
    return loader


def _staging(threads: int) -> _native.Staging | None:
    """The staging buffer of all loads, unless so many threads are asked for."""
    return None if threads == THREADS else _native.Staging(threads=min(max(threads, 1), _MAX_THREADS))


# What the reference takes when nobody says how many: then it is up to the engine.
THREADS = 8
_MAX_THREADS = 64


# ---- What is wanted ---------------------------------------------------------------------------------------------------


def _wanted(model: _native.Model, plan: object) -> dict[str, tuple[slice, ...] | None]:
    """For each name what is taken of the tensor; None: all of it."""
    if plan is None:
        return dict.fromkeys(model.offset_keys())
    if not isinstance(plan, dict):
        raise wrong_type("plan", plan, "dict")
    if not plan:
        raise SafetensorError("prefetch plan selects no tensors")
    return {_known(model, name): _slices(name, chosen, model.find(name).shape) for name, chosen in plan.items()}


def _known(model: _native.Model, name: object) -> str:
    if not isinstance(name, str):
        raise SafetensorError("prefetch plan keys must be tensor names")
    try:
        model.find(name)
    except NoTensorError as error:
        raise SafetensorError(f"File does not contain tensor {name}") from error
    return name


def _slices(name: str, chosen: object, shape: Sequence[int]) -> tuple[slice, ...] | None:
    if chosen is None:
        return None
    several = [one for one in (chosen if isinstance(chosen, tuple) else (chosen,)) if isinstance(one, slice)]
    if len(several) < (len(chosen) if isinstance(chosen, tuple) else 1):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(chosen)} for {name}")
    if not shape:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    if len(several) > len(shape):
        raise SafetensorError(f"prefetch plan has {len(several)} slices for the {len(shape)} dimensions of {name}")
    return tuple(_slice(name, one, length, dim) for dim, (one, length) in enumerate(zip(several, shape, strict=False)))


def _slice(name: str, chosen: slice, length: int, dim: int) -> slice:
    """The slice with bounds from the start on. Beyond the end there is nothing: a plan says exactly what it wants."""
    if chosen.step == 0:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: slice step cannot be zero")
    if chosen.step not in (None, 1):
        raise SafetensorError(f"prefetch plan slices must have step 1, got {chosen.step} for {name}")
    unit = "rows" if dim == 0 else f"entries of dimension {dim}"
    found: list[int] = []
    for what, bound, otherwise in (("start", chosen.start, 0), ("stop", chosen.stop, length)):
        try:
            number = otherwise if bound is None else operator.index(bound)
        except TypeError:
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None") from None
        at = number + length if number < 0 else number
        if not 0 <= at <= length:
            raise SafetensorError(f"prefetch plan slice {what} {number} for {name} is out of range for {length} {unit}")
        found.append(at)
    return slice(found[0], max(found))
