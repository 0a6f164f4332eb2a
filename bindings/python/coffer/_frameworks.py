# SPDX-License-Identifier: Apache-2.0
"""How each framework gets its tensors from a model: whole, in part, and all at once.

torch and paddle index tensors themselves where these view a map; for every other case, and for the frameworks that take numpy's
arrays, the model reads just what the index names. What a framework gets is its own: arrays own their memory, tensors view a
private map, which lives as long as the last of them.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from ._dtypes import FORMAT, FRAMEWORK, framework_shape, is_packed, numpy_dtype, paddle_dtype, torch_dtype, typed
from ._errors import no_dtype, wrong_argument, wrong_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from . import _native
    from ._native import Progress

    Array = np.ndarray[Any, np.dtype[Any]]

# The part of a tensor that an index names, unread.
Choose = Callable[["_native.Model", str, object], "_native.Tensor"]
# A tensor to write: its name, its framework's name of its dtype, its shape, and where in memory its bytes are, and how many.
Described = tuple[str, str, Sequence[int], int, int]


class Framework(ABC):
    """A framework, and the device its tensors go to."""

    dtype: Callable[[str], Any]  # the framework's for one of a file

    @abstractmethod
    def made(self, dtype: str, shape: tuple[int, ...], memory: _native.Loaded) -> Any:
        """A tensor of memory that a load made, which it takes over."""

    @abstractmethod
    def whole(self, model: _native.Model, name: str) -> Any:
        """One tensor."""

    @abstractmethod
    def part(self, model: _native.Model, name: str, index: object, choose: Choose) -> Any:
        """What `index`, between brackets, takes of one tensor; where the framework does not index it itself, `choose` does."""

    @abstractmethod
    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        """Every tensor, in the order of the file."""

    @abstractmethod
    def described(self, tensors: Mapping[str, Any], kept: list[Any]) -> Iterator[Described]:
        """The tensors as they are written; what is put into `kept` holds the memory."""

    def of_bytes(self, data: bytes, model: _native.Model) -> dict[str, Any]:
        """Every tensor of a file that is in memory, copied; `model` is that file."""
        return self.all(model)


# ---- Frameworks that take numpy's arrays -----------------------------------------------------------------------------


class ArrayFramework(Framework):
    """Reads arrays, and has `convert` make the framework's tensors of them; `back` makes arrays of its tensors."""

    def __init__(
        self, name: str, convert: Callable[[Array], Any] | None = None, back: Callable[[Any], Array] | None = None
    ) -> None:
        import numpy as np

        self._name = name
        self._convert = convert
        self._back = back
        self._ndarray = np.ndarray
        self.dtype = numpy_dtype

    def whole(self, model: _native.Model, name: str) -> Any:
        return self.made(*model.array(name))

    def part(self, model: _native.Model, name: str, index: object, choose: Choose) -> Any:
        found = model.array(name, index)
        if found is None:
            chosen = choose(model, name, index)
            found = chosen.dtype, chosen.shape, chosen.read()
        return self.made(*found)

    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        found: dict[str, Any] = arrays(model, progress)
        if self._convert is not None:
            for name, array in found.items():
                found[name] = self._convert(array)
        return found

    def described(self, tensors: Mapping[str, Any], kept: list[Any]) -> Iterator[Described]:
        arrays = {name: self._array(name, tensor) for name, tensor in tensors.items()}
        yield from described_arrays(arrays, kept)

    def _array(self, name: str, tensor: Any) -> Array:
        """The array of a tensor: of this framework, of numpy, or of whoever says what array he is."""
        import numpy as np

        origin = framework_of_object(tensor)
        if origin not in (self._name, "numpy") and (origin is not None or not hasattr(tensor, "__array__")):
            what = f"of the type {type(tensor).__name__}" if origin is None else f"one of {origin}"
            raise wrong_type(f"'{name}' is not a tensor of {self._name}, but {what}")
        try:
            return np.asarray(tensor) if origin != self._name or self._back is None else self._back(tensor)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise wrong_type(f"'{name}', of the type {type(tensor).__name__}, cannot be made an array: {error}") from error

    def made(self, dtype: str, shape: tuple[int, ...], memory: _native.Buffer | _native.Loaded) -> Any:
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


def described_arrays(arrays: Mapping[str, Array], kept: list[Any]) -> Iterator[Described]:
    """Arrays as they are written: contiguous, and little-endian as files are."""
    import numpy as np

    for name, array in arrays.items():
        dtype = array.dtype
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        if not is_little_endian(array):
            contiguous = contiguous.byteswap()
        kept.append(contiguous)
        yield name, dtype.name, array.shape, contiguous.ctypes.data, contiguous.nbytes


def is_little_endian(array: Array) -> bool:
    order = array.dtype.byteorder
    return order in "<|" or (order == "=" and sys.byteorder == "little")


def map_values(convert: Callable[[Any], Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: convert(tensor) for name, tensor in tensors.items()}


# ---- Frameworks whose tensors view the map ---------------------------------------------------------------------------


class ViewFramework(Framework):
    """Makes tensors of DLPack capsules. With a private map these view it, and the framework indexes them itself."""

    # Dtypes that not every version of the framework takes by DLPack: they come as bytes, and are told what they are.
    as_bytes: frozenset[str] = frozenset()

    def __init__(self, device: str | int, from_capsule: Callable[[Any], Any], dtype: Callable[[str], Any]) -> None:
        self.device = device
        self.on_host = is_host(device)
        self.from_capsule = from_capsule
        self.dtype = dtype

    def made(self, dtype: str, shape: tuple[int, ...], memory: _native.Loaded) -> Any:
        as_bytes = dtype in self.as_bytes
        tensor = self.from_capsule(memory.dlpack(dtype, shape, as_bytes))
        return typed(tensor, self.dtype(dtype), dtype, shape) if as_bytes else tensor

    @abstractmethod
    def from_part(self, part: _native.Tensor) -> Any:
        """A tensor of memory that a part is read into."""

    def moved(self, tensor: Any) -> Any:
        """The tensor, of memory of its own, on the device."""
        return tensor.to(self.device)

    def whole(self, model: _native.Model, name: str) -> Any:
        if self.on_host:
            return self._here(model, name)
        tensor = model.find(name)
        self.dtype(tensor.dtype)
        return self.copied(tensor)

    def part(self, model: _native.Model, name: str, index: object, choose: Choose) -> Any:
        # Two packed elements are one of a framework, but not to those who ask a slice for its shape.
        if model.access != "private" or is_packed(model.find(name).dtype):
            part = choose(model, name, index)
            self.dtype(part.dtype)
            return self.from_part(part) if self.on_host else self.copied(part)
        if self.on_host:
            return self._here(model, name)[index]
        plain = model.plain_part(name, index)
        tensor = model.find(name) if plain is None else plain
        self.dtype(tensor.dtype)
        return self.moved(self.from_part(tensor)[index]) if plain is None else self.copied(plain)

    def all(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        return self.some(model, None, progress) if self.on_host else self.all_copied(model, progress)

    # A device never copies from the map: the driver would make a private page of every page of it, which is a hundred times as slow
    # as copying from memory, and on a network file system it would wait for the server with its locks held.

    def copied(self, tensor: _native.Tensor) -> Any:
        """A tensor, or a part of one, on the device."""
        return self.moved(self.from_part(tensor))

    def all_copied(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        """Every tensor on the device, in the order of the file."""
        found: dict[str, Any] = {}
        tensors = model.tensors()
        done, total = 0, sum(tensor.nbytes for tensor in tensors)
        for dtype in model.dtypes():
            self.dtype(dtype)
        for tensor in tensors:
            found[tensor.name] = self.copied(tensor)
            done += tensor.nbytes
            if progress is not None:
                progress(done, total)
        return found

    def some(
        self, model: _native.Model, names: Sequence[str] | None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The tensors of these names, in host memory; None: all."""
        dtypes = {dtype: self.dtype(dtype) for dtype in model.dtypes()}
        capsules = model.dlpack_many(names, as_bytes=self.as_bytes, progress=progress)
        order = model.offset_keys() if names is None else names
        found = dict(zip(order, map(self.from_capsule, capsules), strict=True))
        if not self.as_bytes.isdisjoint(dtypes):
            for name, dtype, shape, _, _ in model.infos():
                if dtype in self.as_bytes and name in found:
                    found[name] = typed(found[name], dtypes[dtype], dtype, shape)
        return found

    def _here(self, model: _native.Model, name: str) -> Any:
        tensor = model.find(name)
        dtype = self.dtype(tensor.dtype)
        made = self.from_capsule(model.dlpack_many([name], as_bytes=self.as_bytes)[0])
        return made if tensor.dtype not in self.as_bytes else typed(made, dtype, tensor.dtype, tensor.shape)


def is_host(device: Any) -> bool:
    """Whether a device is the memory that tensors are read into: it has many spellings, and torch objects of its own."""
    return device is None or str(device).partition(":")[0] == "cpu"


class TorchFramework(ViewFramework):
    as_bytes = frozenset(
        dtype for dtype, name in FRAMEWORK.items() if name.startswith(("uint", "float8", "float4")) and name != "uint8"
    )

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

    def copied(self, tensor: _native.Tensor) -> Any:
        from ._torch_staging import TorchStaging

        return TorchStaging(self.device, [tensor.nbytes]).copied(tensor)

    def all_copied(self, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
        from ._torch_staging import TorchStaging

        infos = model.infos()
        for dtype in model.dtypes():
            self.dtype(dtype)
        return TorchStaging(self.device, (info[4] for info in infos)).all_copied(model, infos, progress)

    def of_bytes(self, data: bytes, model: _native.Model) -> dict[str, Any]:
        # Of small tensors, making them takes the time, and of large ones copying them, which bytearray does as fast as anything.
        infos = model.infos()
        small = [name for name, _, _, _, size in infos if size <= _SMALL]
        made = self.some(model, small) if small else {}
        if len(small) == len(infos):
            return made
        view = memoryview(data)
        for name, dtype, shape, offset, size in infos:
            if size > _SMALL:
                made[name] = of_memory(bytearray(view[offset : offset + size]), dtype, shape)
        return {info[0]: made[info[0]] for info in infos}

    def described(self, tensors: Mapping[str, Any], kept: list[Any]) -> Iterator[Described]:
        from ._torch_memory import described, refuse_what_files_cannot_hold

        refuse_what_files_cannot_hold(tensors)
        return described(tensors, kept)


# Bytes of a tensor that is copied together with all others.
_SMALL = 1 << 17


def of_memory(memory: bytearray, dtype: str, shape: tuple[int, ...]) -> Any:
    """A torch tensor that owns these bytes."""
    import torch

    flat = torch.frombuffer(memory, dtype=torch.uint8) if memory else torch.empty(0, dtype=torch.uint8)
    return typed(flat, torch_dtype(dtype), dtype, shape)


class PaddleFramework(ViewFramework):
    def __init__(self, device: str | int) -> None:
        from paddle.utils import dlpack

        super().__init__(device, dlpack.from_dlpack, paddle_dtype)

    def from_part(self, part: _native.Tensor) -> Any:
        return self.from_capsule(part.__dlpack__(copy=True))

    def described(self, tensors: Mapping[str, Any], kept: list[Any]) -> Iterator[Described]:
        import paddle

        for name, tensor in tensors.items():
            if not isinstance(tensor, paddle.Tensor):
                raise wrong_type(f"'{name}' is not a tensor of paddle, but of the type {type(tensor).__name__}")
            if paddle_size(tensor) and not tensor.is_contiguous():
                raise wrong_argument(f"'{name}' is not contiguous: copy it with contiguous()")
            held = tensor.cpu()
            kept.append(held)
            yield name, str(held.dtype).removeprefix("paddle."), held.shape, held.data_ptr(), paddle_size(held)


def paddle_size(tensor: Any) -> int:
    """Bytes of a paddle tensor."""
    return int(math.prod(tensor.shape) * tensor.element_size())


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


def _no_dtype(framework: str, array: Array) -> Exception:
    dtype = FORMAT[array.dtype.name]
    return no_dtype(dtype, f"{framework} cannot take {dtype} from numpy")


def from_flax(tensor: Any) -> Array:
    import numpy as np

    return np.asarray(tensor)


def from_tensorflow(tensor: Any) -> Array:
    import numpy as np

    return np.asarray(tensor.numpy())


def from_mlx(tensor: Any) -> Array:
    import mlx.core
    import numpy as np

    if getattr(tensor, "dtype", None) == mlx.core.bfloat16:  # which numpy cannot take from a buffer
        return np.array(tensor.view(mlx.core.uint16)).view(numpy_dtype("BF16"))
    return np.array(tensor)


_ON_ANY_DEVICE = {"torch": TorchFramework, "paddle": PaddleFramework}
_ON_CPU: dict[str, tuple[Callable[[Array], Any] | None, Callable[[Any], Array] | None]] = {
    "numpy": (None, None),
    "tensorflow": (to_tensorflow, from_tensorflow),
    "flax": (to_flax, from_flax),
    "mlx": (to_mlx, from_mlx),
}
_OTHER_NAMES = {"pt": "torch", "pytorch": "torch", "np": "numpy", "tf": "tensorflow", "jax": "flax"}


# The framework that takes the tensors of a module.
_OF_MODULES = {
    "jax": "flax",
    "jaxlib": "flax",
    "mlx": "mlx",
    "ml_dtypes": "numpy",
    "numpy": "numpy",
    "paddle": "paddle",
    "tensorflow": "tensorflow",
    "torch": "torch",
}


def framework_of_object(tensor: object) -> str | None:
    """The framework that a tensor is of, or what it is made from; None for anything else."""
    origins = (_OF_MODULES.get(kind.__module__.partition(".")[0]) for kind in type(tensor).__mro__)
    return next((origin for origin in origins if origin is not None), None)


def imported_framework(on_device: bool) -> str:
    """The framework that the program has imported, if it is one besides numpy, which most import themselves; else the usual one, as for
    one that has no devices where one is wanted."""
    found = {name for module, name in _OF_MODULES.items() if module in sys.modules} - {"numpy"}
    name = found.pop() if len(found) == 1 else "numpy"
    return "torch" if on_device and name not in _ON_ANY_DEVICE else name


def framework_of(name: str) -> str:
    """The framework that one of its names means."""
    found = _OTHER_NAMES.get(name, name)
    if found not in _ON_ANY_DEVICE and found not in _ON_CPU:
        raise wrong_argument(f"there is no framework '{name}': {', '.join((*_ON_ANY_DEVICE, *_ON_CPU))}")
    return found


@cache
def framework(name: str, device: str | int = "cpu") -> Framework:
    """A framework by the name that `framework_of` gives, and the device for its tensors."""
    if name in _ON_ANY_DEVICE:
        return _ON_ANY_DEVICE[name](device)
    if device != "cpu":
        raise wrong_argument(f"{name} has no device '{device}'")
    return ArrayFramework(name, *_ON_CPU[name])
