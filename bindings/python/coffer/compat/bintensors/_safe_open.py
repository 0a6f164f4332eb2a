# SPDX-License-Identifier: Apache-2.0
"""safe_open for `.bt` files: that of safetensors, but for its failures and its arguments."""

from __future__ import annotations

import os

from ... import _native
from ..._errors import Error
from ..safetensors import _safe_open
from ..safetensors._wording import file_path
from ._wording import reading_failed, worded


_framework_on = worded(_safe_open.framework_on)


def open_model(filename: object) -> _native.Model:
    """Opens a file, with the exceptions of bintensors."""
    path = file_path(filename)
    try:
        return _native.Model.open(path, format="bintensors")
    except Error as error:
        reading_failed(error, "deserializing header", path)


class PySafeSlice(_safe_open.PySafeSlice):
    """A tensor of a file, of which parts can be taken: slice[1:3, ..., 0]."""

    __slots__ = ()

    __getitem__ = worded(_safe_open.PySafeSlice.__getitem__)


class safe_open(_safe_open.Reader):  # noqa: N801  the reference's name
    """Opens a file: reads and checks its header, but no tensor before it is asked for.

    filename   str or os.PathLike
    framework  "pt", "np", "tf", "flax", "mlx", "paddle", or another of their names
    device     where the tensors go, for those frameworks that have devices: "cuda:0", or its number

    May be used as a context manager. Tensors and slices stay usable after its end.
    """

    __slots__ = ()

    _part = PySafeSlice

    def __new__(cls, filename: str | os.PathLike[str], framework: str, device: str | int | None = "cpu") -> safe_open:
        path = file_path(filename)
        self = super().__new__(cls)
        self._framework = _framework_on(framework, device)
        self._model = open_model(path)
        return self

    keys = worded(_safe_open.Reader.keys)
    offset_keys = worded(_safe_open.Reader.offset_keys)
    metadata = worded(_safe_open.Reader.metadata)
    get_tensor = worded(_safe_open.Reader.get_tensor)
    get_tensors = worded(_safe_open.Reader.get_tensors)
    get_slice = worded(_safe_open.Reader.get_slice)
