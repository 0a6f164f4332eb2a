# SPDX-License-Identifier: Apache-2.0
"""The element types that frameworks have: their names there, and in files.

numpy (with ml_dtypes), torch, tensorflow, jax and mlx call them by the same names; `FORMAT` is the one list of these. What the
format knows beyond it (F6_E2M3, F6_E3M2), no framework has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ._errors import SafetensorError

if TYPE_CHECKING:
    import numpy as np

FORMAT = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",  # two elements in one
    "complex64": "C64",
}

FRAMEWORK = {name: ours for ours, name in FORMAT.items()}


def format_name(name: str) -> str:
    """The name in files of a framework's dtype."""
    try:
        return FORMAT[name]
    except KeyError:
        known = ", ".join(FORMAT)
        raise SafetensorError(f'Unknown dtype "{name}". Supported dtypes: {known}') from None


def framework_name(dtype: str) -> str:
    """The name in frameworks of a file's dtype."""
    try:
        return FRAMEWORK[dtype]
    except KeyError:
        raise SafetensorError(f"Dtype not understood: {dtype}") from None


@cache
def numpy_dtype(dtype_str: str) -> np.dtype[Any]:
    """numpy's dtype for one of a file, from ml_dtypes where numpy itself has none."""
    import numpy as np

    name = framework_name(dtype_str)
    if dtype_str == "F4":
        raise SafetensorError("F4 packs two elements into a byte, which numpy has no dtype for; torch has one")
    if hasattr(np, name):
        found: np.dtype[Any] = np.dtype(getattr(np, name))
        return found
    try:
        import ml_dtypes
    except ImportError:
        raise SafetensorError(f"numpy has no dtype for {dtype_str}; ml_dtypes has one: pip install ml_dtypes") from None
    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return extended
