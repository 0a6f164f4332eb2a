# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed: versions, files, types."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import re
import subprocess
from pathlib import Path

import coffer
from coffer import _native


def test_one_version():
    header = Path(os.environ["COFFER_SOURCE_DIR"], "include/coffer.h").read_text()
    stated = re.search(r'COFFER_VERSION_STRING "(.*)"', header)[1]
    assert coffer.__version__ == _native.VERSION == importlib.metadata.version("coffer") == stated


def test_no_dependencies():
    assert importlib.metadata.requires("coffer") in (None, [])


def test_it_is_typed():
    assert Path(coffer.__file__).with_name("py.typed").exists()


def test_the_library_inside_is_not_exported():
    symbols = subprocess.run(["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert "PyInit__native" in names and not any(name.startswith(("coffer", "py_")) for name in names)


def test_the_stub_names_what_there_is():
    stub = Path(coffer.__file__).with_name("_native.pyi").read_text()
    for kind in (_native.Model, _native.Tensor, _native.Buffer, _native.Writer):
        body = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^\S|\Z)", stub, re.S | re.M)[1]
        stated = set(re.findall(r"^    def (\w+)\(", body, re.M))
        there = {name for name in vars(kind) if not name.startswith("__")}
        assert {name for name in stated if not name.startswith("__")} == there
    functions = {name for name in vars(_native) if callable(getattr(_native, name)) and not inspect.isclass(getattr(_native, name))}
    assert {name for name in functions if not name.startswith("_")} == set(re.findall(r"^def (\w+)\(", stub, re.M))
