# SPDX-License-Identifier: Apache-2.0
"""The element types that frameworks have: their names there, and in files.

numpy (with ml_dtypes), torch, tensorflow, jax and mlx call them by the same names. The extension derives these from the library's
one table of dtypes, so nothing is listed here. What a framework could only hold in another layout (F6_E2M3, F6_E3M2) has no name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ._errors import PackedError, build, no_dtype
from ._native import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

FRAMEWORK = DTYPES
FORMAT = {name: dtype for dtype, name in FRAMEWORK.items()}


def format_name(name: str, tensor: str) -> str:
    """The name in files of a framework's dtype, which that tensor has."""
    try:
        return FORMAT[name]
    except KeyError:
        raise no_dtype(name, f"'{tensor}' is of {name}, for which files have no dtype: convert it to another one") from None


def framework_name(dtype: str) -> str:
    """The name in frameworks of a file's dtype."""
    try:
        return FRAMEWORK[dtype]
    except KeyError:
        raise no_dtype(dtype, f"no framework has a dtype for {dtype}") from None


def is_complex(dtype: str) -> bool:
    return FRAMEWORK.get(dtype, "").startswith("complex")


# ---- Packed elements --------------------------------------------------------------------------------------------------


_PACKED = frozenset(dtype for dtype, name in FRAMEWORK.items() if name.endswith("_x2"))


def is_packed(dtype: str) -> bool:
    """Whether one element of a framework's holds two of the file's."""
    return dtype in _PACKED


def framework_shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that frameworks give a tensor: that in the file, but of packed elements in pairs."""
    if not is_packed(dtype):
        return shape
    if not shape or shape[-1] % 2:
        message = f"{dtype} has two elements in a byte, so the last dimension must be even, unlike that of {list(shape)}"
        raise build(PackedError, "PARTIAL_BYTE", {"message": message, "shape": shape})
    return (*shape[:-1], shape[-1] // 2)


def file_shape(dtype: str, shape: Sequence[int]) -> Sequence[int]:
    """The shape in files of a framework's tensor: the opposite of `framework_shape`."""
    return [*shape[:-1], 2 * shape[-1]] if shape and is_packed(dtype) else shape


def typed(tensor: Any, dtype: Any, format_dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor of bytes, seen as what they are."""
    return tensor.view(dtype).view(framework_shape(format_dtype, shape))


# ---- numpy ------------------------------------------------------------------------------------------------------------


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """numpy's dtype for one of a file, from ml_dtypes where numpy itself has none."""
    import numpy as np

    name = framework_name(dtype)
    if is_packed(dtype):
        raise no_dtype(dtype, f"{dtype} packs two elements into a byte, which numpy has no dtype for; torch has one")
    if hasattr(np, name):
        found: np.dtype[Any] = np.dtype(getattr(np, name))
        return found
    try:
        import ml_dtypes
    except ImportError:
        raise no_dtype(dtype, f"numpy has no dtype for {dtype}; ml_dtypes has one: pip install ml_dtypes") from None
    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return extended


# ---- Frameworks whose tensors view memory -----------------------------------------------------------------------------


def torch_dtype(dtype_str: str) -> Any:
    """torch's dtype for one of a file."""
    import torch

    try:
        return getattr(torch, framework_name(dtype_str))
    except AttributeError:
        message = f"torch {torch.__version__} has no dtype for {dtype_str}; a newer one may have it"
        raise no_dtype(dtype_str, message) from None


def paddle_dtype(dtype_str: str) -> Any:
    """paddle's dtype for one of a file."""
    import paddle

    name = framework_name(dtype_str)
    # What paddle calls uint16 is bfloat16.
    if dtype_str == "U16" or not hasattr(paddle, name):
        raise no_dtype(dtype_str, f"paddle has no dtype for {dtype_str}")
    return getattr(paddle, name)
