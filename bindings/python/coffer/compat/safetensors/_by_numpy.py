# SPDX-License-Identifier: Apache-2.0
"""The functions of a module whose arrays go by way of numpy's: those of flax, mlx and tensorflow differ in nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..._options import Backend, Sync
from . import numpy

if TYPE_CHECKING:
    from ..._native import Algorithm
    from ..._progress import Shown

Tensor = TypeVar("Tensor")


class ByNumpy(Generic[Tensor]):
    """A framework. A module takes the methods as its functions, and lists them in `__all__`, so that its help shows them."""

    def __init__(
        self,
        from_numpy: Callable[[dict[str, Any]], dict[str, Tensor]],
        to_numpy: Callable[[dict[str, Tensor]], dict[str, Any]],
    ) -> None:
        self._from_numpy = from_numpy
        self._to_numpy = to_numpy

    def save(self, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
        """The bytes of a file that holds these tensors."""
        return numpy.save(self._to_numpy(tensors), metadata=metadata)

    def save_file(
        self,
        tensors: dict[str, Tensor],
        filename: str | os.PathLike[str],
        metadata: dict[str, str] | None = None,
        *,
        sync: Sync = "replace",
        digests: Algorithm | None = None,
        progress: Shown = False,
    ) -> None:
        """Writes a file that holds these tensors; see `coffer.numpy.save_file`."""
        arrays = self._to_numpy(tensors)
        numpy.save_file(arrays, filename, metadata=metadata, sync=sync, digests=digests, progress=progress)

    def load(self, data: bytes) -> dict[str, Tensor]:
        """The tensors of a file that is in memory."""
        return self._from_numpy(numpy.load(data))

    def load_file(
        self,
        filename: str | os.PathLike[str],
        *,
        backend: Backend = "mmap",
        verify: bool = False,
        progress: Shown = False,
    ) -> dict[str, Tensor]:
        """The tensors of a file; see `coffer.numpy.load_file`."""
        return self._from_numpy(numpy.load_file(filename, backend=backend, verify=verify, progress=progress))
