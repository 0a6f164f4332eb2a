# SPDX-License-Identifier: Apache-2.0
"""safe_open: a file's tensors, one by one, for a framework."""

from __future__ import annotations

from ... import _native
from ..._errors import Error, NoTensorError
from ..._frameworks import Framework, TorchFramework, framework, framework_of
from .. import SafetensorError
from ._devices import device as device_of
from ._indexing import choose_part
from ._prefetch import THREADS, PrefetchLoader, PrefetchPlan, TensorMeta, meta_of, prefetch
from ._wording import as_text, file_path, framework_failed, reading_failed, wrong_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import IO, Any, ClassVar, NoReturn

    from ..._native import Progress
    from ..._options import Backend

# "auto" reads on network file systems, where a map is slow, and may end the process when the connection breaks.
_ACCESS: dict[str, _native.Access] = {"mmap": "auto", "pread": "read"}


def open_model(filename: object, backend: object, verify: bool = False) -> _native.Model:
    """Opens a file as the drop-in does, with its exceptions."""
    path = file_path(filename)
    access = access_of(backend)
    try:
        return _native.Model.open(path, access=access, format="safetensors", verify=verify)
    except Error as error:
        reading_failed(error, "deserializing header", path)


def access_of(backend: object) -> _native.Access:
    name = as_text("backend", backend)
    if name not in _ACCESS:
        raise SafetensorError(f'backend "{name}" is invalid (expected one of: "mmap", "pread")')
    return _ACCESS[name]


def load_all(framework: Framework, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
    """Every tensor, in the order of the file."""
    from ..._load import everything  # which takes long to import, and safe_open is imported by many

    try:
        return everything(framework, model, progress)
    except Error as error:
        framework_failed(error)


def no_tensor(name: str, error: Error) -> NoReturn:
    raise SafetensorError(f"File does not contain tensor {name}") from error


class PySafeSlice:
    """A tensor of a file, of which parts can be taken: slice[1:3, ..., 0]. Any number of threads may do so at once."""

    __slots__ = ("_framework", "_model", "_tensor")

    def __init__(self, model: _native.Model, framework: Framework, tensor: _native.Tensor) -> None:
        self._model = model
        self._framework = framework
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The name in files, "F32"."""
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._framework.part(self._model, self._tensor.name, index, choose_part)
        except Error as error:
            framework_failed(error)


class Reader:
    """An opened file, and the framework its tensors are for."""

    __slots__ = ("_framework", "_model")

    _part: ClassVar[type[PySafeSlice]] = PySafeSlice

    _model: _native.Model | None
    _framework: Framework

    def keys(self) -> list[str]:
        """The names of the tensors, in order."""
        return self._opened().keys()

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their data in the file."""
        return self._opened().offset_keys()

    def metadata(self) -> dict[str, str] | None:
        """The metadata; None when the file has none."""
        return self._opened().metadata()

    def get_tensor(self, name: str) -> Any:
        """A tensor."""
        model = self._opened()
        if not isinstance(name, str):
            raise wrong_type("name", name, "str")
        try:
            return self._framework.whole(model, name)
        except NoTensorError as error:
            no_tensor(name, error)
        except Error as error:
            framework_failed(error)

    def get_tensors(self) -> dict[str, Any]:
        """Every tensor, by name."""
        return load_all(self._framework, self._opened())

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """What the header says of a tensor: nothing is read."""
        model = self._opened()
        if not isinstance(name, str):
            raise TypeError(f"'{type(name).__name__}' object is not an instance of 'str'")
        try:
            return meta_of(model, name)
        except NoTensorError as error:
            no_tensor(name, error)

    def get_slice(self, name: str) -> PySafeSlice:
        """A tensor to take parts of: nothing is read before it is indexed."""
        model = self._opened()
        if not isinstance(name, str):
            raise wrong_type("name", name, "str")
        try:
            return self._part(model, self._framework, model.find(name))
        except NoTensorError as error:
            no_tensor(name, error)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, _exc_type: type[BaseException] | None, _exc_value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._model = None  # what was handed out keeps it open

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def _opened(self) -> _native.Model:
        if self._model is None:
            raise SafetensorError("File is closed")
        return self._model


class PrefetchingReader(Reader):
    """The same with `prefetch`, which bintensors does not have."""

    __slots__ = ()

    def prefetch(
        self, plan: PrefetchPlan | None = None, *, device: str | int | None = None, threads: int = THREADS
    ) -> PrefetchLoader:
        """Starts loading tensors to a CUDA device in the background, for torch. The file stays usable as before.

        plan     names, and for each what is taken of the tensor: None for all of it, a slice of the first dimension, or a tuple of
                 slices, one for each dimension; all of step 1. None: every tensor
        device   None: that of this object
        threads  that read, at most; 8: as many as the engine finds useful
        """
        model, wanted = self._opened(), self._framework
        if device is not None and isinstance(wanted, TorchFramework):
            wanted = framework_on("pt", device)
        return prefetch(model, wanted, plan, threads)


class safe_open(PrefetchingReader):  # noqa: N801  the reference's name
    """Opens a file: reads and checks its header, but no tensor before it is asked for.

    filename   str or os.PathLike
    framework  "pt", "np", "tf", "flax", "mlx", "paddle", or another of their names
    device     where the tensors go, for those frameworks that have devices: "cuda:0", or its number
    backend    "mmap": torch's and paddle's tensors view a private map of the file; "pread": they are read

    May be used as a context manager. Tensors and slices stay usable after its end.
    """

    __slots__ = ()

    def __new__(
        cls,
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | None = "cpu",
        *,
        backend: Backend = "mmap",
    ) -> safe_open:
        path = file_path(filename)
        self = super().__new__(cls)
        self._framework = framework_on(framework, device)
        self._model = open_model(path, backend)
        return self


class _safe_open_handle(PrefetchingReader):  # noqa: N801  the reference's name
    """The same of a file that is already open; `f` has to be one of the operating system's, and may be closed afterwards."""

    __slots__ = ()

    def __new__(
        cls, f: IO[Any], framework: str, device: str | int | None = "cpu", *, backend: Backend = "mmap"
    ) -> _safe_open_handle:
        self = super().__new__(cls)
        self._framework = framework_on(framework, device)
        access = access_of(backend)
        fileno, name = f.fileno, f.name  # what is no file of the system's has no name
        try:
            self._model = _native.Model.open(fileno(), access=access, format="safetensors")
        except Error as error:
            reading_failed(error, "deserializing header", str(name))
        return self


def framework_on(name: object, device: object) -> Framework:
    """The framework that the arguments `framework` and `device` mean."""
    text = as_text("framework", name)
    try:
        wanted = framework_of(text)
    except Error as error:
        raise SafetensorError(f"framework {text} is invalid") from error
    place = device_of(device)
    try:
        return framework(wanted, place)
    except Error as error:
        raise SafetensorError(f"Device {place} is not supported for framework {wanted}") from error
