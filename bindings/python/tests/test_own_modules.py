# SPDX-License-Identifier: Apache-2.0
"""coffer.numpy and its siblings fail with coffer.Error and say what coffer says; only coffer.compat speaks as other packages do."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from conftest import file_bytes

import coffer
import coffer.compat.safetensors.numpy
import coffer.numpy
from coffer import _native

CUT = file_bytes([("a", "U8", (100,), bytes(100))])[:-40]


@pytest.mark.parametrize("load", [coffer.load_file, coffer.numpy.load_file], ids=lambda load: load.__module__)
def test_loading(load, tmp_path):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(CUT)
    with pytest.raises(coffer.Error, match="the file stops early: it lacks 40 bytes") as raised:
        load(path)
    assert (raised.value.code, raised.value.path, raised.value.__cause__) == ("DATA_TRUNCATED", str(path), None)
    with pytest.raises(coffer.SafetensorError, match="^Error while deserializing header: incomplete metadata") as raised:
        coffer.compat.safetensors.numpy.load_file(path)
    assert raised.value.__cause__.code == "DATA_TRUNCATED"


def test_loading_bytes():
    with pytest.raises(coffer.Error, match="the file stops early"):
        coffer.numpy.load(CUT)


def test_what_is_not_there(tmp_path):
    with pytest.raises(coffer.Error) as raised:
        coffer.numpy.load_file(tmp_path / "none")
    assert raised.value.code == "NOT_FOUND" and isinstance(raised.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        (lambda path: coffer.numpy.load_file(path, backend="tape"), "ARGUMENT", "there is no backend 'tape': mmap, pread"),
        (lambda path: coffer.numpy.load(bytearray(8)), "ARGUMENT", "a file in memory must be of the type bytes, not bytearray"),
        (lambda path: coffer.numpy.save([1]), "ARGUMENT", "only a mapping of names to tensors can be saved, not list"),
        (lambda path: coffer.numpy.save({"a": [1]}), "ARGUMENT", "'a' is not a tensor of numpy, but of the type list"),
        (lambda path: coffer.numpy.save({"a": np.zeros(1, "c16")}), "DTYPE", "'a' is of complex128, for which files have no dtype"),
        (lambda path: coffer.numpy.save_file({"a": np.zeros(1)}, path / "b" / "c"), "NOT_FOUND", "in that directory"),
        (lambda path: coffer.load_file(path, "cobol"), "ARGUMENT", "there is no framework 'cobol'"),
        (lambda path: coffer.load_file(path, "np", "cuda"), "ARGUMENT", "numpy has no device 'cuda'"),
    ],
)
def test_wrong_calls(call, code, said, tmp_path):
    with pytest.raises(coffer.Error) as raised:
        call(tmp_path)
    assert raised.value.code == code and said in raised.value.message


def test_only_compat_imitates():
    """No module outside of compat imports from it, but the drop-in, the names by which it is found, and the one class."""
    package = Path(coffer.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        inside = file.relative_to(package)
        if inside.parts[0] in ("compat", "bintensors") or inside.name == "drop_in.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and "compat" in (node.module or "").split("."):
                found |= {(str(inside), node.module, alias.name) for alias in node.names}
    assert found == {("__init__.py", "compat", "SafetensorError"), ("_errors.py", "compat", "SafetensorError")}


# ---- Dtypes -----------------------------------------------------------------------------------------------------------


def test_names_of_dtypes():
    """All that frameworks have; the extension derives them from the library's table, and ml_dtypes and numpy know each."""
    assert _native.DTYPES == {
        "BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
        "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16",
        "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32",
        "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64",
    }  # fmt: skip


def test_no_other_list_of_dtypes():
    """No file of the package has the names of many dtypes, in files or in frameworks, but that which says what another package says."""
    for file in Path(coffer.__file__).parent.rglob("*.py"):
        text = file.read_text()
        named = [dtype for dtype, name in _native.DTYPES.items() if f'"{dtype}"' in text or f'"{name}"' in text]
        assert len(named) < 8, (file, named)
