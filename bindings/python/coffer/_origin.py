# SPDX-License-Identifier: Apache-2.0
"""How an opened file is pickled: by its path, and how it was opened. Whoever unpickles it opens it again, once for all tensors that
come in one pickle, as those of a data set do that a spawned worker gets."""

from __future__ import annotations

import os
from typing import Any

from ._errors import Error, _make
from ._native import Model, Tensor

# What belongs to this process: a token is not to lie in files, and the environment has it in the other one, too.
_OWN = frozenset({"progress", "token"})


class Origin:
    """Where a model comes from. It is opened when the first of what was pickled with it is wanted."""

    __slots__ = ("_count", "_model", "_options", "_path")

    def __init__(self, path: str, options: dict[str, Any], count: int) -> None:
        self._path = path
        self._options = options
        self._count = count
        self._model: Model | None = None

    def model(self) -> Model:
        if self._model is None:
            model = Model.open(self._path, **self._options)
            if len(model) != self._count:
                raise self._changed()
            self._model = model
        return self._model

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...], index: tuple[int | slice, ...] | None) -> Tensor:
        found = self.model().find(name)
        if (found.dtype, found.shape) != (dtype, shape):
            raise self._changed()
        return found if index is None else found[index]

    def __reduce__(self) -> tuple[object, ...]:
        return (Origin, (self._path, self._options, self._count))

    def _changed(self) -> Error:
        message = "the file has other tensors than when it was pickled"
        return _make("CHANGED", {"message": message, "path": self._path})


def origin_of(arguments: tuple[Any, ...], options: dict[str, Any] | None, count: int) -> Origin:
    """That of what `Model.open` opened by a path, with these arguments."""
    given = dict(options or {})
    path = os.fsdecode(arguments[0] if arguments else given.pop("source"))
    if "://" not in path:
        path = os.path.abspath(path)
    return Origin(path, {name: value for name, value in given.items() if name not in _OWN}, count)
