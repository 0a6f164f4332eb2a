# SPDX-License-Identifier: Apache-2.0
"""A reference and Coffer side by side: the same call on both, and what each made of it."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import types
from dataclasses import dataclass
from typing import Any

import bintensors
import numpy as np
import safetensors

import coffer.bintensors
import coffer.compat.safetensors

for package in (safetensors, bintensors):
    assert "coffer" not in package.__file__, "these tests compare with the real packages: run them without the drop-in"


@dataclass(frozen=True)
class Side:
    """One of two packages, and what it is called here."""

    package: types.ModuleType
    name: str

    def module(self, name: str) -> types.ModuleType:
        return importlib.import_module(f"{self.package.__name__}.{name}")


REFERENCE = Side(safetensors, "safetensors")
COFFER = Side(coffer.compat.safetensors, "coffer")
BT_REFERENCE = Side(bintensors, "bintensors")
BT_COFFER = Side(coffer.bintensors, "coffer.bintensors")


@dataclass(frozen=True)
class Raised:
    """An exception: its type's name, and its text."""

    kind: str
    text: str

    def begins_as(self, other: Raised, words: str) -> bool:
        """Whether both are of one type, and their texts go on differently only behind `words`."""
        return self.kind == other.kind and words in self.text and (
            self.text.partition(words)[0] == other.text.partition(words)[0]
        )


def outcome(call: Any, *arguments: Any, **keywords: Any) -> Any:
    """What a call returned, made comparable, or the exception it raised."""
    try:
        return comparable(call(*arguments, **keywords))
    except Exception as error:
        # The class that is imported as BintensorError has another name within that package.
        return Raised(type(error).__name__.replace("BinTensorError", "BintensorError"), str(error))


def comparable(value: Any) -> Any:
    """Tensors as (framework, dtype, shape, bytes); containers of them in place."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(comparable(item) for item in value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tensor(value)
    return value


def tensor(value: Any) -> tuple[str, str, tuple[int, ...], bytes]:
    """A tensor of any framework, by its bytes: values that are not numbers compare too."""
    framework = type(value).__module__.partition(".")[0]
    if framework == "torch":
        import torch

        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif framework == "paddle":
        whole = value.contiguous()
        raw = ctypes.string_at(whole.data_ptr(), math.prod(whole.shape) * whole.element_size())
    elif framework == "mlx":
        import mlx.core as mx

        raw = np.array(value.view(mx.uint16) if value.dtype == mx.bfloat16 else value).tobytes()
    else:
        raw = np.asarray(value.numpy() if framework == "tensorflow" else value).tobytes()
    return framework, str(value.dtype), tuple(value.shape), raw


def file_of(header: object, data: bytes = b"") -> bytes:
    """A file of a header, given as JSON or as what is to become JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


# Every dtype of the format, and the bits of an element.
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


def one_tensor(dtype: str, shape: list[int], name: str = "a") -> bytes:
    """A file of one tensor, of bytes that are 0 and 1 in turn: valid in every dtype."""
    data = bytes(i % 2 for i in range(math.prod(shape) * BITS[dtype] // 8))
    return file_of({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}, data)


def fits(dtype: str, shape: list[int]) -> bool:
    """Whether a tensor of this dtype and shape is of whole bytes."""
    return math.prod(shape) * BITS[dtype] % 8 == 0


SHAPES = ([2, 4], [], [0, 4], [8])
EVERY_DTYPE = [(dtype, shape) for dtype in BITS for shape in SHAPES if fits(dtype, shape)]
