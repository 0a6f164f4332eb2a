# SPDX-License-Identifier: Apache-2.0
"""The build backend: scikit-build-core, which also puts the library's and the command's sources into an sdist, and says in a line what is missing.

In a checkout the extension and the command are built from the sources two folders up. An sdist has to stand alone, so they are
copied to `library` while it is made; CMakeLists.txt looks there first.
"""

from __future__ import annotations

import sys

# Said before anything that an older one does not know. Front ends compare the version with `requires-python` only after the backend was
# imported.
if sys.version_info < (3, 11):
    sys.exit(
        "coffer cannot be built: it needs Python 3.11, the first whose stable ABI has the buffer protocol, and this is Python {}.{}".format(
            *sys.version_info[:2]
        )
    )

import os
import re
import shlex
import shutil
import sysconfig
import tomllib
from pathlib import Path

Settings = dict[str, list[str] | str] | None

PACKAGE = Path(__file__).resolve().parent.parent
COPY = PACKAGE / "library"
CHECKOUT = PACKAGE.parent.parent
PAGE = CHECKOUT / "build/web/index.html"  # of `coffer report`, where somebody has built it; cli/page.cmake looks for the copy

try:
    from scikit_build_core import build as _build
    from scikit_build_core.build import *  # noqa: F403  the hooks of PEP 517 and 660
except ImportError:  # with --no-build-isolation
    sys.exit("coffer cannot be built: there is no scikit-build-core, which 'pip install scikit-build-core' brings")

# ---- What is missing --------------------------------------------------------------------------------------------------

# What CMake looks for, unless it is told what to take.
COMPILERS = ("cc", "gcc", "clang", "icx")
TOLD = ("CMAKE_C_COMPILER", "CMAKE_TOOLCHAIN_FILE")


def _has_compiler(settings: Settings) -> bool:
    if os.environ.get("CC", "").strip():
        return shutil.which(shlex.split(os.environ["CC"])[0]) is not None
    told = f"{settings} {os.environ.get('CMAKE_ARGS')} {list(os.environ)}"
    return any(re.search(rf"{name}(?!\w)", told) for name in TOLD) or any(map(shutil.which, COMPILERS))


def _has_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").exists()


def _has_cmake() -> bool:
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.cmake import CMake
    from scikit_build_core.errors import CMakeNotFoundError

    try:
        CMake.default_search(version=SpecifierSet(_wanted_cmake()), env=os.environ)
    except CMakeNotFoundError:
        return False
    return True


def _wanted_cmake() -> str:
    wanted: str = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["tool"]["scikit-build"]["cmake"]["version"]
    return wanted


def _has_ninja_or_make() -> bool:
    from scikit_build_core.program_search import get_make_programs, get_ninja_programs

    return any(True for found in (get_ninja_programs(), get_make_programs()) for _ in found)


def _compiling(settings: Settings) -> list[tuple[bool, str]]:
    return [
        (_has_compiler(settings), "C compiler (on Debian: apt-get install gcc libc6-dev)"),
        (_has_headers(), "Python.h (on Debian: apt-get install python3-dev)"),
    ]


def _building(settings: Settings) -> list[tuple[bool, str]]:
    """The same, and what a front end brings, unless it was told to bring nothing."""
    cmake = f"CMake {_wanted_cmake().removeprefix('>=')} or newer (pip install cmake)"
    return [*_compiling(settings), (_has_cmake(), cmake), (_has_ninja_or_make(), "ninja or make (pip install ninja)")]


def _demand(needs: list[tuple[bool, str]]) -> None:
    """Ends the build with all that is missing, in one line, where compilers and CMake would need pages."""
    missing = [what for met, what in needs if not met]
    if missing:
        sys.exit(f"coffer cannot be built: there is no {', and no '.join(missing)}")


# ---- The hooks --------------------------------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    _demand(_compiling(config_settings))
    return _build.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    _demand(_compiling(config_settings))
    return _build.get_requires_for_build_editable(config_settings)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    _demand(_building(config_settings))
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    _demand(_building(config_settings))
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    if COPY.exists():  # an sdist of an unpacked sdist
        return _build.build_sdist(sdist_directory, config_settings)
    try:
        COPY.mkdir()
        for folder in ("cli", "include", "src"):
            shutil.copytree(CHECKOUT / folder, COPY / folder)
        for file in ("CMakeLists.txt", "LICENSE", "THIRD_PARTY.txt"):
            shutil.copy2(CHECKOUT / file, COPY / file)
        if PAGE.exists():
            shutil.copy2(PAGE, COPY / "page.html")
        return _build.build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(COPY)
