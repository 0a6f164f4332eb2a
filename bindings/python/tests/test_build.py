# SPDX-License-Identifier: Apache-2.0
"""What building the package says where something is missing: a line, with all of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(os.environ["COFFER_SOURCE_DIR"], "bindings/python")
COMPILER = "C compiler (on Debian: apt-get install gcc libc6-dev)"
CMAKE = "CMake 3.26 or newer (pip install cmake)"
NINJA = "ninja or make (pip install ninja)"


@pytest.fixture
def folder(tmp_path):
    """For programs that are found, and for modules that are not: those of cmake and ninja bring programs of their own."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "modules").mkdir()
    for name in ("cmake", "ninja"):
        (tmp_path / "modules" / f"{name}.py").write_text("raise ImportError('not installed here')\n")
    return tmp_path


def call(folder: Path, hook: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A hook of the backend, as a front end calls it."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(("CC", "CMAKE_"))}
    paths = os.pathsep.join([str(PACKAGE / "build_backend"), str(folder / "modules")])
    code = f"import backend; print(backend.{hook}(*{[str(argument) for argument in arguments]!r}))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE, capture_output=True, text=True, timeout=120,
        env={**left, "PATH": str(folder / "programs"), "PYTHONPATH": paths, **environment},
    )  # fmt: skip


def add(folder: Path, name: str, said: str) -> None:
    program = folder / "programs" / name
    program.write_text(f"#!{shutil.which('sh')}\necho '{said}'\n")
    program.chmod(0o755)


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
def test_without_a_compiler_nothing_is_fetched(folder, hook):
    done = call(folder, hook)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"coffer cannot be built: there is no {COMPILER}\n"


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_without_anything(folder, hook):
    done = call(folder, hook, folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"coffer cannot be built: there is no {COMPILER}, and no {CMAKE}, and no {NINJA}\n"


def test_an_older_cmake_is_none(folder):
    add(folder, "cc", "")
    add(folder, "make", "")
    add(folder, "cmake", '{"version": {"string": "3.25.1"}}')
    done = call(folder, "build_wheel", folder)
    assert (done.returncode, done.stderr) == (1, f"coffer cannot be built: there is no {CMAKE}\n")


@pytest.mark.parametrize("environment", [{"CC": "mycc -m32"}, {"CMAKE_ARGS": "-DCMAKE_C_COMPILER=/opt/cc"}], ids=str)
def test_compilers_that_are_named(folder, environment):
    add(folder, "mycc", "")
    done = call(folder, "get_requires_for_build_wheel", **environment)
    assert done.returncode == 0 and "cmake" in done.stdout


def test_a_compiler_that_is_named_and_not_there(folder):
    add(folder, "cc", "")
    done = call(folder, "get_requires_for_build_wheel", CC="none")
    assert done.returncode == 1 and COMPILER in done.stderr


def test_pip_shows_the_line(folder):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, PACKAGE],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": str(folder / "programs")},
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert f"coffer cannot be built: there is no {COMPILER}" in done.stdout + done.stderr
