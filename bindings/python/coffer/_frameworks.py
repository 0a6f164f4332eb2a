# SPDX-License-Identifier: Apache-2.0
"""How each framework gets its tensors from a model: whole, in part, and all at once.

torch and paddle index tensors themselves where these view a map; for every other case, and for the frameworks that take numpy's
arrays, the model reads just what the index names. What a framework gets is its own: arrays own their memory, tensors view a
private map, which lives as long as the last of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from . import _indexing
from ._dtypes import FORMAT, FRAMEWORK, framework_name, numpy_dtype
from ._errors import Error, SafetensorError
from ._wording import sub_byte_slice

if TYPE_CHECKING:
    import numpy as np

    from . import _native

    Array = np.ndarray[Any, np.dtype[Any]]

Progress = Callable[[int, int], object]


class Framework(ABC):
    """A framework, and the device its tensors go to."""

    @abstractmethod
    def whole(self, model: _native.Model, name: str) -> Any:
        """One tensor."""

    @abstractmethod
    def part(self, model: _native.Model, name: str, index: object) -> Any:
        """What `index`, between brackets, takes of one tensor."""

    @abstractmethod
    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        """Every tensor, in the order of the file."""


def choose_part(model: _native.Model, name: str, index: object) -> _native.Tensor:
    """The part of a tensor that `index` names, unread."""
    tensor = model.find(name)
    entries = _indexing.entries(index, tensor.shape)
    try:
        return tensor[tuple(entries)]
    except Error as error:
        if error.code != "SLICE_BITS":
            raise
        raise sub_byte_slice(_indexing.text(entries), list(tensor.shape)) from error


# ---- Frameworks that take numpy's arrays -----------------------------------------------------------------------------


class ArrayFramework(Framework):
    """Reads arrays, and has `convert` make the framework's tensors of them."""

    def __init__(self, convert: Callable[[Array], Any] | None = None) -> None:
        import numpy as np

        self._convert = convert
        self._ndarray = np.ndarray

    def whole(self, model: _native.Model, name: str) -> Any:
        return self._made(*model.array(name))

    def part(self, model: _native.Model, name: str, index: object) -> Any:
        found = model.array(name, index)
        if found is None:
            chosen = choose_part(model, name, index)
            found = chosen.dtype, chosen.shape, chosen.read()
        return self._made(*found)

    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        found: dict[str, Any] = arrays(model, progress)
        if self._convert is not None:
            for name, array in found.items():
                found[name] = self._convert(array)
        return found

    def _made(self, dtype: str, shape: tuple[int, ...], memory: _native.Buffer) -> Any:
        # numpy takes whatever has a buffer.
        array: Array = self._ndarray(shape, numpy_dtype(dtype), memory)  # type: ignore[arg-type]
        return array if self._convert is None else self._convert(array)


def arrays(model: _native.Model, progress: Progress | None = None) -> dict[str, Array]:
    """Every tensor as an array with memory of its own, in the order of the file: read by few large parallel reads."""
    import numpy as np

    infos = model.infos()
    dtypes = {dtype: numpy_dtype(dtype) for dtype in {info[1] for info in infos}}
    memory = model.read_many(progress=progress)
    return {
        name: np.ndarray(shape, dtypes[dtype], buffer=memoryview(buffer))
        for (name, dtype, shape, _, _), buffer in zip(infos, memory, strict=True)
    }


# ---- Frameworks whose tensors view the map ---------------------------------------------------------------------------


class ViewFramework(Framework):
    """Makes tensors of DLPack capsules. With a private map these view it, and the framework indexes them itself."""

    # Dtypes that not every version of the framework takes by DLPack: they come as bytes, and are told what they are.
    as_bytes: frozenset[str] = frozenset()

    def __init__(self, device: str | int, from_capsule: Callable[[Any], Any], dtype: Callable[[str], Any]) -> None:
        self.device = device
        self.from_capsule = from_capsule
        self.dtype = dtype  # the framework's for one of a file

    @abstractmethod
    def from_part(self, part: _native.Tensor) -> Any:
        """A tensor of memory that a part is read into."""

    def moved(self, tensor: Any) -> Any:
        """The tensor on the device."""
        return tensor if self.device == "cpu" else tensor.to(self.device)

    def whole(self, model: _native.Model, name: str) -> Any:
        return self.moved(self._here(model, name))

    def part(self, model: _native.Model, name: str, index: object) -> Any:
        # Two elements of F4 are one of a framework, but not to those who ask a slice for its shape.
        if model.access == "private" and model.find(name).dtype != "F4":
            return self.moved(self._here(model, name)[index])
        part = choose_part(model, name, index)
        self.dtype(part.dtype)
        return self.moved(self.from_part(part))

    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        return self.some(model, None, progress)

    def some(
        self, model: _native.Model, names: Sequence[str] | None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The tensors of these names; None: all."""
        dtypes = {dtype: self.dtype(dtype) for dtype in model.dtypes()}
        capsules = model.dlpack_many(names, as_bytes=self.as_bytes, progress=progress)
        order = model.offset_keys() if names is None else names
        found = dict(zip(order, map(self.from_capsule, capsules), strict=True))
        if not self.as_bytes.isdisjoint(dtypes):
            for name, dtype, shape, _, _ in model.infos():
                if dtype in self.as_bytes and name in found:
                    found[name] = typed(found[name], dtypes[dtype], dtype, shape)
        if self.device != "cpu":
            for name, tensor in found.items():
                found[name] = self.moved(tensor)
        return found

    def _here(self, model: _native.Model, name: str) -> Any:
        tensor = model.find(name)
        dtype = self.dtype(tensor.dtype)
        made = self.from_capsule(model.dlpack_many([name], as_bytes=self.as_bytes)[0])
        return made if tensor.dtype not in self.as_bytes else typed(made, dtype, tensor.dtype, tensor.shape)


def typed(tensor: Any, dtype: Any, format_dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor of bytes, seen as what they are."""
    return tensor.view(dtype).view(framework_shape(format_dtype, shape))


def framework_shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that frameworks give a tensor: that in the file, but of F4 in pairs of elements."""
    if dtype != "F4":
        return shape
    if not shape or shape[-1] % 2:
        what = "f4_x2 dtype requires that the last dim be divisible by 2 in torch"
        raise SafetensorError(f"{what}: got {list(shape)}")
    return (*shape[:-1], shape[-1] // 2)


class TorchFramework(ViewFramework):
    as_bytes = frozenset(FRAMEWORK) - {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64", "C64"}

    def __init__(self, device: str | int) -> None:
        import torch.utils.dlpack

        # The public function first looks for what only objects other than capsules have, which is a third of its time.
        public = torch.utils.dlpack.from_dlpack
        super().__init__(device, getattr(torch._C, "_from_dlpack", public), torch_dtype)

    def from_part(self, part: _native.Tensor) -> Any:
        import torch

        shape = framework_shape(part.dtype, part.shape)
        dtype = self.dtype(part.dtype)
        if part.nbytes == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(part.read(), dtype=torch.uint8).view(dtype).view(shape)


def torch_dtype(dtype_str: str) -> Any:
    """torch's dtype for one of a file."""
    import torch

    try:
        return getattr(torch, framework_name(dtype_str))
    except AttributeError:
        what = f"torch {torch.__version__} has no dtype for {dtype_str}; a newer one may have it"
        raise SafetensorError(what) from None


class PaddleFramework(ViewFramework):
    def __init__(self, device: str | int) -> None:
        from paddle.utils import dlpack

        super().__init__(device, dlpack.from_dlpack, paddle_dtype)

    def from_part(self, part: _native.Tensor) -> Any:
        return self.from_capsule(part.__dlpack__(copy=True))


def paddle_dtype(dtype_str: str) -> Any:
    """paddle's dtype for one of a file."""
    import paddle

    name = framework_name(dtype_str)
    # What paddle calls uint16 is bfloat16.
    if dtype_str == "U16" or not hasattr(paddle, name):
        raise SafetensorError(f"paddle has no dtype for {dtype_str}")
    return getattr(paddle, name)


# ---- Which one --------------------------------------------------------------------------------------------------------


def to_flax(array: Array) -> Any:
    import jax.numpy

    return jax.numpy.array(array)


def to_tensorflow(array: Array) -> Any:
    import tensorflow

    try:
        return tensorflow.convert_to_tensor(array)
    except ValueError as error:
        raise _no_dtype("tensorflow", array) from error


def to_mlx(array: Array) -> Any:
    import mlx.core

    try:
        return mlx.core.array(array)
    except RuntimeError as error:
        raise _no_dtype("mlx", array) from error


def _no_dtype(framework: str, array: Array) -> SafetensorError:
    return SafetensorError(f"{framework} cannot take {FORMAT[array.dtype.name]} from numpy")


_NAMES = {
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "np": "numpy",
    "numpy": "numpy",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "jax": "flax",
    "flax": "flax",
    "mlx": "mlx",
    "paddle": "paddle",
}
_ON_ANY_DEVICE = {"torch": TorchFramework, "paddle": PaddleFramework}
_ON_CPU: dict[str, Callable[[Array], Any] | None] = {
    "numpy": None,
    "tensorflow": to_tensorflow,
    "flax": to_flax,
    "mlx": to_mlx,
}


def framework_of(name: str) -> str:
    """The framework that one of its names means."""
    try:
        return _NAMES[name]
    except KeyError:
        raise SafetensorError(f"framework {name} is invalid") from None


@cache
def framework(name: str, device: str | int) -> Framework:
    """A framework by the name that `framework_of` gives, and the device for its tensors."""
    if name in _ON_ANY_DEVICE:
        return _ON_ANY_DEVICE[name](device)
    if device != "cpu":
        raise SafetensorError(f"Device {device} is not supported for framework {name}")
    return ArrayFramework(_ON_CPU[name])
