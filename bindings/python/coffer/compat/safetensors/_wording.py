# SPDX-License-Identifier: Apache-2.0
"""How the imitation of safetensors fails: with the exceptions and the texts that callers of safetensors match on.

The library's own error, which says more, is the cause (`__cause__`) of each, so a traceback shows it, and its attributes (code,
offset, expected, actual) are at hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps

from ..._dtypes import FRAMEWORK
from ..._errors import Error, NoDtypeError, PackedError
from .. import SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, ParamSpec, TypeVar

    _Parameters = ParamSpec("_Parameters")
    _Result = TypeVar("_Result")

_OVERFLOW = "overflow computing buffer size from shape and/or element type"
_SIZE = "invalid shape, data type, or offset for tensor"
_BITS = "The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary, this is invalid."

_FIXED = {
    "EMPTY": "header too small",
    "TOO_SHORT": "header too small",
    "HEADER_TOO_LARGE": "header too large",
    "HEADER_LENGTH": "invalid JSON in header: EOF while parsing a value at line 1 column 0",
    "IS_ZEROS": "invalid JSON in header: EOF while parsing a value at line 1 column 0",
    "HEADER_TRUNCATED": "invalid header length",
    "DATA_TRUNCATED": "incomplete metadata, file not fully covered",
    "TRAILING_BYTES": "incomplete metadata, file not fully covered",
    "OVERFLOW": _OVERFLOW,
    "PARTIAL_BYTE": _BITS,
    "SIZE": _SIZE,
}
_ABOUT_JSON = frozenset(
    {"JSON", "DEPTH", "TYPE", "NUMBER", "MISSING_FIELD", "DTYPE", "DUPLICATE_NAME", "DUPLICATE_KEY"}
)
_ABOUT_OFFSETS = frozenset({"RANGE", "HOLE", "OVERLAP"})
_NOT_A_FILE = frozenset({"DIRECTORY", "NOT_REGULAR", "NO_MODEL"})


def _what(error: Error) -> str | None:
    """What is wrong with a file's contents; None for a failure of another kind."""
    if error.code in _FIXED:
        return _FIXED[error.code]
    if error.code.startswith("IS_"):  # its first eight bytes, taken for a length, are beyond the limit
        return "header too large"
    if error.code in _ABOUT_JSON:
        return f"invalid JSON in header: {error.message}"
    if error.code == "UTF8":  # of a parser of JSON's, escapes are a matter of JSON
        where = "JSON" if "escape" in error.message else "UTF-8"
        return f"invalid {where} in header: {error.message}"
    if error.code in _ABOUT_OFFSETS:
        return f"invalid offset for tensor `{error.tensor}`"
    return None


def reading_failed(error: Error, doing: str, path: str = "") -> NoReturn:
    """Raises what `error` is called where a file is read; `doing` is "deserializing" or "deserializing header"."""
    raise_of_system(error, path)
    what = _what(error)
    if what is None:
        _raise_other(error)
    raise SafetensorError(f"Error while {doing}: {what}") from error


def writing_failed(error: Error) -> NoReturn:
    """Raises what `error` is called where a file is written."""
    what = _FIXED.get(error.code, error.message)
    if error.os_error:
        what = f'I/O error: {os.strerror(error.os_error)} (os error {error.os_error}) at path "{error.path}"'
    raise SafetensorError(f"Error while serializing: {what}") from error


def raise_of_system(error: Error, named: str) -> None:
    """Raises the OSError that `error` is, if it is one; `named` is the file, as the message has it."""
    if error.code == "NOT_FOUND":
        raise FileNotFoundError(f"No such file or directory: {named}") from error
    if error.code in _NOT_A_FILE or error.code == "IO":
        raise _system_error(error) from error


def _system_error(error: Error) -> OSError:
    """The OSError of the kind that errno tells: PermissionError, IsADirectoryError."""
    number = error.os_error or 0
    return type(OSError(number, ""))(f"{error.path}: {error.message}")


def framework_failed(error: Error) -> NoReturn:
    """Raises what `error` is called where a framework gets tensors."""
    if isinstance(error, NoDtypeError):
        known = error.dtype in FRAMEWORK
        raise SafetensorError(error.message if known else f"Dtype not understood: {error.dtype}") from error
    if isinstance(error, PackedError):
        what = "f4_x2 dtype requires that the last dim be divisible by 2 in torch"
        raise SafetensorError(f"{what}: got {list(error.shape)}") from error
    _raise_other(error)


def _raise_other(error: Error) -> NoReturn:
    """Raises what the reference has no words for: as what its callers know, unless it is a built-in exception, too."""
    if type(error) is Error:
        raise SafetensorError(str(error)) from error
    raise error


def for_framework(call: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """The same function, failing so."""

    @wraps(call)
    def wrapped(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        try:
            return call(*arguments, **keywords)
        except (NoDtypeError, PackedError) as error:
            framework_failed(error)

    return wrapped


def sub_byte_slice(text: str, shape: list[int]) -> SafetensorError:
    return SafetensorError(f"Error during slicing [{text}] with shape {shape}: {_BITS}")


# ---- Arguments --------------------------------------------------------------------------------------------------------


def wrong_type(argument: str, value: object, wanted: str) -> TypeError:
    """`value`, given for `argument`, is of the wrong type."""
    what = "'None'" if value is None else f"'{type(value).__name__}' object"
    return TypeError(f"argument '{argument}': {what} is not an instance of '{wanted}'")


def as_text(argument: str, value: object) -> str:
    """An argument that has to be text; halves of surrogate pairs are none."""
    if not isinstance(value, str):
        raise wrong_type(argument, value, "str")
    value.encode()
    return value


def file_path(value: object) -> str:
    """A path as text, from str or os.PathLike."""
    try:
        path = os.fspath(value)  # type: ignore[call-overload]
    except TypeError as error:
        raise TypeError(f"argument 'filename': {error}") from None
    return as_text("filename", path)  # even where the system would take surrogates for bytes
