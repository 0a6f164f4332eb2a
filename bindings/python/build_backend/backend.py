# SPDX-License-Identifier: Apache-2.0
"""The build backend: scikit-build-core, which also puts the library's sources into an sdist.

In a checkout the extension is built from the sources of the library two folders up. An sdist has to stand alone, so they are
copied to `library` while it is made; CMakeLists.txt looks there first.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from scikit_build_core.build import *  # noqa: F403  the hooks of PEP 517 and 660
from scikit_build_core.build import build_sdist as _build_sdist

PACKAGE = Path(__file__).resolve().parent.parent
COPY = PACKAGE / "library"
CHECKOUT = PACKAGE.parent.parent


def build_sdist(sdist_directory: str, config_settings: dict[str, list[str] | str] | None = None) -> str:
    if COPY.exists():  # an sdist of an unpacked sdist
        return _build_sdist(sdist_directory, config_settings)
    try:
        COPY.mkdir()
        for folder in ("include", "src"):
            shutil.copytree(CHECKOUT / folder, COPY / folder)
        for file in ("CMakeLists.txt", "LICENSE"):
            shutil.copy2(CHECKOUT / file, COPY / file)
        return _build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(COPY)
