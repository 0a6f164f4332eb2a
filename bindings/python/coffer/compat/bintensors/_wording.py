# SPDX-License-Identifier: Apache-2.0
"""How coffer.bintensors fails: with the exceptions and the texts that callers of bintensors match on.

As in the drop-in for safetensors, what says more is the cause (`__cause__`) of each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from ..._errors import Error
from .. import SafetensorError
from ..safetensors._wording import raise_of_system

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_FIXED = {
    "EMPTY": "HeaderTooSmall",
    "TOO_SHORT": "HeaderTooSmall",
    "HEADER_TOO_LARGE": "HeaderTooLarge",
    "HEADER_TRUNCATED": "InvalidHeaderLength",
    "DATA_TRUNCATED": "MetadataIncompleteBuffer",
    "TRAILING_BYTES": "MetadataIncompleteBuffer",
    "DUPLICATE_NAME": "ValidationMismatch",
    "OVERFLOW": "ValidationOverflow",
    "SIZE": "TensorInvalidInfo",
}
_ABOUT_DECODING = frozenset(
    {"HEADER_LENGTH", "IS_ZEROS", "HEADER_ENDS", "TYPE", "NUMBER", "DTYPE", "UTF8", "PADDING", "DUPLICATE_KEY"}
)
_ABOUT_OFFSETS = frozenset({"RANGE", "HOLE", "OVERLAP"})


class BintensorError(Exception):
    """A file or a call that the format does not allow. What callers of bintensors catch."""


def _what(error: Error) -> str:
    if error.code in _FIXED:
        return _FIXED[error.code]
    if error.code in _ABOUT_DECODING:
        return f"DecoderError({error.message})"
    if error.code.startswith("IS_"):  # its first eight bytes, taken for a length, are beyond the limit
        return "HeaderTooLarge"
    if error.code in _ABOUT_OFFSETS:
        return f'InvalidOffset("{error.tensor}")'
    return str(error)


def reading_failed(error: Error, doing: str, path: str = "") -> NoReturn:
    """Raises what `error` is called where a file is read; `doing` is "deserializing" or "deserializing header"."""
    raise_of_system(error, f'"{path}"')
    raise BintensorError(f"Error while {doing}: {_what(error)}") from error


def writing_failed(error: Error, doing: str) -> NoReturn:
    """Raises what `error` is called where a file is written."""
    what = f"IoError({error})" if isinstance(error, OSError) else _what(error)
    raise BintensorError(f"Error while {doing} {what}") from error


def worded(call: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """The same function of the drop-in for safetensors, failing as bintensors does."""

    @wraps(call)
    def wrapped(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        try:
            return call(*arguments, **keywords)
        except SafetensorError as error:
            raise BintensorError(str(error)) from error.__cause__ or error

    return wrapped
