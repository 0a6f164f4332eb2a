# SPDX-License-Identifier: Apache-2.0
"""What building the package says where something is missing: a line, with all of it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
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


@pytest.mark.parametrize("version", [(3, 7), (3, 9), (3, 10)], ids=str)
def test_an_older_python(version):
    """It does not get as far as to what it lacks, and can parse the file."""
    code = f"import sys; sys.version_info = (*{version}, 0, 'final', 0); sys.modules['tomllib'] = None; import backend"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "build_backend")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    wanted = "it needs Python 3.11, the first whose stable ABI has the buffer protocol"
    assert (done.returncode, done.stderr) == (1, f"coffer cannot be built: {wanted}, and this is Python {version[0]}.{version[1]}\n")
    tree = ast.parse((PACKAGE / "build_backend/backend.py").read_text(), feature_version=version)
    before = next(i for i, statement in enumerate(tree.body) if isinstance(statement, ast.If))
    assert [ast.unparse(statement) for statement in tree.body[1:before]] == ["from __future__ import annotations", "import sys"]


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11" and project["tool"]["scikit-build"]["wheel"]["py-api"] == "cp311"


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


@pytest.mark.parametrize("page", [None, b"<!--coffer-report-->"], ids=["without", "with"])
def test_a_page_that_was_built_is_in_the_source_distribution(page, tmp_path):
    """Of a checkout, as far as the backend copies it."""
    for name in ("cli", "include", "src", "bindings/python"):
        shutil.copytree(PACKAGE.parent.parent / name, tmp_path / name, ignore=shutil.ignore_patterns("build", "__pycache__"))
    for name in ("CMakeLists.txt", "LICENSE", "THIRD_PARTY.txt"):
        shutil.copy2(PACKAGE.parent.parent / name, tmp_path / name)
    if page is not None:
        (tmp_path / "build/web").mkdir(parents=True)
        (tmp_path / "build/web/index.html").write_bytes(page)
    code = f"import backend; print(backend.build_sdist({str(tmp_path)!r}))"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "bindings/python", capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "bindings/python/build_backend")},
    )  # fmt: skip
    with tarfile.open(tmp_path / made.stdout.split()[-1]) as sdist:
        pages = [name for name in sdist.getnames() if name.endswith("library/page.html")]
        assert len(pages) == (page is not None)
        assert page is None or sdist.extractfile(pages[0]).read() == page
        assert any(name.endswith("library/cli/page.cmake") for name in sdist.getnames())
