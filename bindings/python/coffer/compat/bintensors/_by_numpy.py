# SPDX-License-Identifier: Apache-2.0
"""The functions of a module whose arrays go by way of numpy's, as in `coffer.compat.safetensors._by_numpy`, for `.bt` files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..._options import Sync
from . import numpy
from ._serialization import Hasher, with_checksum

Array = TypeVar("Array")


class ByNumpy(Generic[Array]):
    """A framework. A module takes the methods as its functions."""

    def __init__(
        self,
        from_numpy: Callable[[dict[str, Any]], dict[str, Array]],
        to_numpy: Callable[[dict[str, Array]], dict[str, Any]],
    ) -> None:
        self._from_numpy = from_numpy
        self._to_numpy = to_numpy

    def save(self, tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> bytes:
        """The bytes of a file that holds these arrays."""
        return numpy.save(self._to_numpy(tensors), metadata)

    def save_with_checksum(
        self,
        tensor_dict: dict[str, Array],
        metadata: dict[str, str] | None = None,
        hasher: Hasher = hashlib.sha1,
    ) -> tuple[bytes, bytes]:
        """The digest of a file that holds these arrays, and its bytes, in this order."""
        return with_checksum(self.save(tensor_dict, metadata), hasher)

    def save_file(
        self,
        tensors: dict[str, Array],
        filename: str | os.PathLike[str],
        metadata: dict[str, str] | None = None,
        *,
        sync: Sync = "replace",
    ) -> None:
        """Writes a file that holds these arrays; see `coffer.numpy.save_file`."""
        numpy.save_file(self._to_numpy(tensors), filename, metadata, sync=sync)

    def load(self, data: bytes) -> dict[str, Array]:
        """The arrays of a file that is in memory."""
        return self._from_numpy(numpy.load(data))

    def load_file(self, filename: str | os.PathLike[str]) -> dict[str, Array]:
        """The arrays of a file."""
        return self._from_numpy(numpy.load_file(filename))
