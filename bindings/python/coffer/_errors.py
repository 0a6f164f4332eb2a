# SPDX-License-Identifier: Apache-2.0
"""The one way to fail: `Error`, and for some codes a kind of it that is a built-in exception too."""

from __future__ import annotations

from .compat import SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Error(SafetensorError):
    """A failure of the library.

    code         what is wrong, as docs/errors.md lists it: "HEADER_TRUNCATED"
    message      what is wrong, where, and what to do next, without the path
    path         the file as it was named, or None
    tensor       the tensor's name, made safe for a terminal, or None
    offset       the byte of the file where the trouble is, or None
    expected     with `actual` two sizes or counts that should agree; both None where that does not apply
    actual
    os_error     the errno of the system call that failed, or None
    http_status  of the server's last answer, or None
    """

    code: str = "UNKNOWN"
    message: str = ""
    path: str | None = None
    tensor: str | None = None
    offset: int | None = None
    expected: int | None = None
    actual: int | None = None
    os_error: int | None = None
    http_status: int | None = None

    def __str__(self) -> str:
        return self.message if self.path is None else f"{self.path}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return (build, (type(self), self.code, dict(self.__dict__)))


class ArgumentError(Error, ValueError):
    """The call itself is wrong, or its object is closed."""


class WrongTypeError(Error, TypeError):
    """What was given is of the wrong type."""


class ReadOnlyError(Error, BufferError):
    """Memory that is to be written to, and cannot be."""


class NoTensorError(Error, KeyError):
    """No tensor of that name."""


class SliceError(Error, IndexError):
    """An index outside its dimension, too many of them, or a step of 0."""


class MissingFileError(Error, FileNotFoundError):
    """No such file or directory."""


class SystemFailure(Error, OSError):
    """The operating system refused."""


class UnreachableError(Error, ConnectionError):
    """The host cannot be reached, or must not be asked."""


class SilenceError(Error, TimeoutError):
    """The host sent nothing for too long."""


class RefusedError(Error, PermissionError):
    """The server does not let this be read."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


class DeviceFailure(Error, RuntimeError):
    """A device, its driver, an engine or another process of the same load failed, or is not available."""


class NoDtypeError(Error):
    """A framework has no dtype for this one."""

    dtype: str  # of the file, or what the framework calls its own


class PackedError(Error):
    """Elements that share bytes, of which a row ends within one."""

    shape: Sequence[int]


_CLASSES: dict[str, type[Error]] = {
    "ARGUMENT": ArgumentError,
    "MEMORY": OutOfMemoryError,
    "NOT_FOUND": MissingFileError,
    "DIRECTORY": SystemFailure,
    "NOT_REGULAR": SystemFailure,
    "NO_MODEL": SystemFailure,
    "IO": SystemFailure,
    "SHARD_MISSING": MissingFileError,
    "CONNECT": UnreachableError,
    "TIMEOUT": SilenceError,
    "ACCESS": RefusedError,
    "OFFLINE": UnreachableError,
    "NO_REPOSITORY": MissingFileError,
    "NO_REVISION": MissingFileError,
    "GATED": RefusedError,
    "NO_TENSOR": NoTensorError,
    "INDEX": SliceError,
    "STEP": SliceError,
    "NO_DEVICE": DeviceFailure,
    "DEVICE": DeviceFailure,
    "DEVICE_MEMORY": OutOfMemoryError,
    "DESTINATION": ArgumentError,
    "BUDGET": ArgumentError,
    "ENGINE": DeviceFailure,
    "TAKEN": ArgumentError,
    "PEER": DeviceFailure,
}


# What allows what a message speaks of allowing, in the words of Python's functions.
_ALLOWED = {"LINKED": "follow_links=True", "SHADOWED": "force=True"}


# What the library calls the options of the command, and the command itself; functions here have arguments of the same names.
_OPTION = r"(?<![\w-])--(arch|bytes-as|complex128|constants|dequantize|packed|raw|skip-unsupported)(?: f64x2)?(?![\w-])"
_PLACE = "name another place for the new model"
_RECOVER = r"coffer meta --recover ('[^']*'|\S+)"


def worded(message: str) -> str:
    """A message of the library in the words of Python, where it names what a shell has."""
    message = message.replace(_PLACE, f"{_PLACE} (output)")
    if "--" not in message:
        return message
    import re  # which most programs that import this do without

    message = re.sub(_RECOVER, lambda found: f"coffer.recover({found[1].strip(chr(39))!r})", message)
    message = message.replace("`coffer hash --write`", "coffer.record_digests")
    return re.sub(_OPTION, lambda found: f"the option {found[1].replace('-', '_')}", message)


def _make(code: str, attributes: dict[str, object]) -> Error:
    """What the extension raises."""
    message = worded(str(attributes.get("message", "")))
    attributes["message"] = f"{message} ({_ALLOWED[code]})" if code in _ALLOWED else message
    return build(_CLASSES.get(code, Error), code, attributes)


def wrong_argument(message: str) -> Error:
    """A call that is wrong."""
    return _make("ARGUMENT", {"message": message})


def wrong_type(message: str) -> Error:
    """A call with something of the wrong type."""
    return build(WrongTypeError, "ARGUMENT", {"message": message})


def no_tensor(message: str) -> Error:
    """A name that nothing has."""
    return _make("NO_TENSOR", {"message": message})


def no_dtype(dtype: str, message: str) -> Error:
    """A framework that has no dtype for this one."""
    return build(NoDtypeError, "DTYPE", {"message": message, "dtype": dtype})


def build(kind: type[Error], code: str, attributes: dict[str, object]) -> Error:
    """An error of a kind, whatever its code's own is."""
    error = kind(attributes.get("message", ""))
    error.__dict__.update(attributes)
    error.code = code
    if isinstance(error, OSError):
        error.errno = attributes.get("os_error")  # type: ignore[assignment]
        error.filename = attributes.get("path")
    return error
