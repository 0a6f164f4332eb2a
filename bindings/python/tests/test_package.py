# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed: versions, files, types."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
import pydoc
import re
import subprocess
import textwrap
from pathlib import Path

import coffer
from coffer import _native


def test_one_version():
    header = Path(os.environ["COFFER_SOURCE_DIR"], "include/coffer/base.h").read_text()
    stated = re.search(r'COFFER_VERSION_STRING "(.*)"', header)[1]
    assert coffer.__version__ == _native.VERSION == importlib.metadata.version("libcoffer") == stated


def test_no_dependencies():
    assert importlib.metadata.requires("libcoffer") in (None, [])


def test_it_is_typed():
    assert Path(coffer.__file__).with_name("py.typed").exists()


def test_the_library_inside_is_not_exported():
    symbols = subprocess.run(["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert "PyInit__native" in names and not any(name.startswith(("coffer", "py_")) for name in names)


def test_the_stub_names_what_there_is():
    stub = Path(coffer.__file__).with_name("_native.pyi").read_text()
    loading = (_native.Device, _native.Staging, _native.Plan, _native.Load, _native.Loaded)
    for kind in (_native.Model, _native.Tensor, _native.Buffer, _native.Writer, *loading):
        body = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^\S|\Z)", stub, re.S | re.M)[1]
        stated = set(re.findall(r"^    def (\w+)\(", body, re.M))
        there = {name for name in vars(kind) if not name.startswith("__")}
        assert {name for name in stated if not name.startswith("__")} == there
    functions = {name for name in vars(_native) if callable(getattr(_native, name)) and not inspect.isclass(getattr(_native, name))}
    assert {name for name in functions if not name.startswith("_")} == set(re.findall(r"^def (\w+)\(", stub, re.M))


TENSOR_METHODS = ["__array__", "__dlpack__", "astype", "item", "memory", "numpy", "read", "read_into", "tobytes", "tolist", "torch"]
PUBLIC = [getattr(coffer, name) for name in coffer.__all__]


def test_everything_public_says_how_it_is_called():
    """For help(), and for editors that look at the program rather than at the stub."""
    assert {coffer.Writer, coffer.Tensor, coffer.open, coffer.record_digests} <= {*PUBLIC}
    for entry in PUBLIC:
        assert inspect.getdoc(entry)
        for name in vars(entry) if inspect.isclass(entry) else ():
            method = getattr(entry, name)  # of the class, so that class methods are called as users call them
            if inspect.isroutine(method) and not name.startswith("_"):
                assert inspect.getdoc(method) and inspect.signature(method), (entry, name)
    for entry in PUBLIC:
        if not inspect.isclass(entry) or entry is coffer.Writer:
            assert inspect.signature(entry).parameters


def parameters(stub: str) -> list[tuple[str, bool]]:
    """Names, and whether they have a value already, of a function as the stub has it."""
    (function,) = ast.parse(textwrap.dedent(stub)).body
    assert isinstance(function, ast.FunctionDef)
    given = [*function.args.posonlyargs, *function.args.args]
    defaults = [False] * (len(given) - len(function.args.defaults)) + [True] * len(function.args.defaults)
    return [*zip((arg.arg for arg in given), defaults, strict=True)] + [
        (arg.arg, default is not None) for arg, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    ]


def test_signatures_are_those_of_the_stub():
    stub = Path(coffer.__file__).with_name("_native.pyi").read_text()
    for kind, names in ((coffer.Writer, ["write", "finish", "discard"]), (coffer.Tensor, TENSOR_METHODS)):
        body = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^\S|\Z)", stub, re.S | re.M)[1]
        for name in names:
            stated = re.search(rf"^    def {name}\(.*?\).*?:(?: \.\.\.)?$", body, re.S | re.M)[0].removesuffix("...")
            there = inspect.signature(getattr(kind, name)).parameters.values()
            assert parameters(stated + " ...") == [(each.name, each.default is not each.empty) for each in there], name
    for kind in (coffer.Writer, coffer.Staging):
        body = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^\S|\Z)", stub, re.S | re.M)[1]
        constructor = re.search(r"^    def __new__\(\n        cls,.*?\) -> Self:", body, re.S | re.M)[0]
        there = inspect.signature(kind).parameters.values()
        assert parameters(constructor + " ...")[1:] == [(each.name, each.default is not each.empty) for each in there]


def test_help_of_the_writer_has_its_options():
    said = pydoc.render_doc(coffer.Writer, renderer=pydoc.plaintext)
    assert "class Writer" in said and "Writer(path, tensors, metadata=None, *, sync='replace'" in said
    assert all(f"{option} " in said for option in inspect.signature(coffer.Writer).parameters)
