# SPDX-License-Identifier: Apache-2.0
"""What importlib.metadata says of the packages that Coffer stands in for."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from pathlib import Path

from ._finder import PACKAGES


class StandIn(importlib.metadata.Distribution):
    """One of them."""

    def __init__(self, package: str) -> None:
        self._package = package

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = importlib.import_module(PACKAGES[self._package]).__version__
        summary = f"Coffer, in the place of {self._package}"
        return f"Metadata-Version: 2.1\nName: {self._package}\nVersion: {version}\nSummary: {summary}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parents[2] / path
