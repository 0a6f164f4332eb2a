# SPDX-License-Identifier: Apache-2.0
"""The package bintensors, by its names, under the version whose behaviour it has. `coffer.bintensors` is the same."""

from ._safe_open import PySafeSlice as PySafeSlice
from ._safe_open import safe_open as safe_open
from ._serialization import deserialize as deserialize
from ._serialization import serialize as serialize
from ._serialization import serialize_file as serialize_file
from ._wording import BintensorError as BintensorError

__version__ = "0.2.0"  # the release whose behaviour this is
__all__ = ["BintensorError", "__version__", "deserialize", "safe_open", "serialize", "serialize_file"]
