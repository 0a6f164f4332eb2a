# SPDX-License-Identifier: Apache-2.0
"""What importlib.metadata says of the packages that Coffer stands in for."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from pathlib import Path

from ._finder import PACKAGES


# What the modules for frameworks need, by the names that the packages have for that. Coffer needs nothing.
_EXTRAS = {
    "numpy": ["numpy"],
    "torch": ["torch"],
    "tensorflow": ["numpy", "tensorflow"],
    "jax": ["numpy", "jax", "flax"],
    "mlx": ["numpy", "mlx"],
    "paddlepaddle": ["paddlepaddle"],
}
_MODULES = {"jax": "flax", "paddlepaddle": "paddle"}


class LazyTensor(importlib.metadata.Distribution):
    """One of them."""

    def __init__(self, package: str) -> None:
        self._package = package

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {self._package}",
            f"Version: {importlib.import_module(PACKAGES[self._package]).__version__}",
            f"Summary: Coffer, in the place of {self._package}",
        ]
        for extra, requirements in _EXTRAS.items():
            if importlib.util.find_spec(f"{PACKAGES[self._package]}.{_MODULES.get(extra, extra)}") is not None:
                lines.append(f"Provides-Extra: {extra}")
                lines += [f"Requires-Dist: {requirement} ; extra == '{extra}'" for requirement in requirements]
        return "\n".join([*lines, ""])

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parents[2] / path
