# SPDX-License-Identifier: Apache-2.0
"""Repositories for the tests of coffer.hub, and the Hub that serves them, which the other Python tests have too."""

from __future__ import annotations

import json
import os
import struct
import sys

from conftest import file_bytes

sys.path.insert(0, os.path.join(os.environ["COFFER_SOURCE_DIR"], "tests", "python"))

from hub_server import COMMIT, Hub, Repository  # noqa: E402

__all__ = ["ARRAYS", "COMMIT", "INDEX", "ONE", "Hub", "Repository", "header_file", "sharded", "whole"]

INDEX = "model.safetensors.index.json"
BITS = {"F32": 32, "BF16": 16, "I64": 64, "F8_E4M3": 8}
ARRAYS = [
    ("wte", "F32", (5, 7)), ("h.0.weight", "BF16", (3, 4, 2)), ("ids", "I64", ()), ("none", "F32", (0, 9)),
    ("scale", "F8_E4M3", (6,)), ("h.1.weight", "BF16", (8,)),
]  # fmt: skip


def whole(tensors: list[tuple[str, str, tuple[int, ...]]], metadata: dict[str, str] | None = None, spaces: int = -1) -> bytes:
    """A file of zeros."""
    sized = []
    for name, dtype, shape in tensors:
        count = 1
        for length in shape:
            count *= length
        sized.append((name, dtype, shape, bytes(count * BITS[dtype] // 8)))
    return file_bytes(sized, metadata, spaces)


ONE = whole(ARRAYS, {"format": "pt"})


def sharded(count: int, metadata: object = None, spaces: int = -1) -> dict[str, bytes]:
    """The files of a model; the headers are that many spaces longer."""
    files, weights = {}, {}
    for number in range(1, count + 1):
        file = f"model-{number:05}-of-{count:05}.safetensors"
        tensors = [(f"layer.{number}.{name}", dtype, shape) for name, dtype, shape in ARRAYS]
        files[file] = whole(tensors, {"format": "pt"} if number % 2 else None, spaces)
        weights |= {name: file for name, _, _ in tensors}
    index = {"weight_map": weights} if metadata is None else {"metadata": metadata, "weight_map": weights}
    return files | {INDEX: json.dumps(index).encode()}


def header_file(header: bytes, length: int | None = None) -> bytes:
    """What begins as a file does: with any header, and any length said of it."""
    return struct.pack("<Q", len(header) if length is None else length) + header
