# SPDX-License-Identifier: Apache-2.0
"""The package safetensors, by its names, under the version whose behaviour it has."""

from .. import SafetensorError as SafetensorError
from ._prefetch import PrefetchLoader as PrefetchLoader
from ._prefetch import TensorMeta as TensorMeta
from ._safe_open import PySafeSlice as PySafeSlice
from ._safe_open import _safe_open_handle as _safe_open_handle
from ._safe_open import safe_open as safe_open
from ._serialization import TensorSpec as TensorSpec
from ._serialization import deserialize as deserialize
from ._serialization import serialize as serialize
from ._serialization import serialize_file as serialize_file

__version__ = "0.8.0"  # the release whose behaviour this is
__all__ = [
    "PrefetchLoader",
    "SafetensorError",
    "TensorMeta",
    "TensorSpec",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "safe_open",
    "serialize",
    "serialize_file",
]
