# SPDX-License-Identifier: Apache-2.0
"""coffer.drop_in in processes of their own: imports, versions, children, and what is said when it comes too late."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
import venv

import numpy as np
import pytest
from conftest import array_file

import coffer

WHERE_IS_IT = "import safetensors; print('ours' if 'coffer' in safetensors.__file__ else 'real')"

def python(*arguments, code=0, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_without_it_the_real_one_is_imported():
    assert python("-c", WHERE_IS_IT) == "real\n"
    assert python("-c", f"import coffer; {WHERE_IS_IT}") == "real\n"


def test_imports():
    assert python("-c", """
import coffer.drop_in
import coffer, coffer.compat.safetensors.numpy as numpy, coffer.compat.safetensors.torch as torch
import safetensors, safetensors.torch
from safetensors import SafetensorError, TensorSpec, deserialize, safe_open, serialize, serialize_file
from safetensors.numpy import load_file
import safetensors.numpy as module
import safetensors._safetensors_rust as rust
assert safetensors.torch is torch and module is numpy and load_file is numpy.load_file
assert SafetensorError is coffer.SafetensorError and rust.safe_open is safe_open
assert safetensors.__name__ == safetensors.__spec__.name == "safetensors" and torch.__spec__.name == "coffer.compat.safetensors.torch"
try:
    import safetensors.nothing
except ModuleNotFoundError as error:
    print(error)
""") == "No module named 'safetensors.nothing'\n"  # fmt: skip


def test_versions_and_specs():
    assert python("-c", """
import importlib.metadata, importlib.util
real = importlib.metadata.version("safetensors")
import coffer.drop_in
spec = importlib.util.find_spec("safetensors")
import safetensors
assert importlib.metadata.version("safetensors") == safetensors.__version__ == real
assert "coffer" in spec.origin and importlib.util.find_spec("safetensors.torch") is not None
assert importlib.metadata.version("numpy")
print(importlib.metadata.metadata("safetensors")["Summary"])
""") == "Coffer, in the place of safetensors\n"  # fmt: skip


def test_metadata_is_for_those_who_ask_by_name(tmp_path):
    """Not for those who list what is installed, or look into a folder."""
    (tmp_path / "coffer").symlink_to(pathlib.Path(coffer.__file__).parent)
    assert python("-S", "-c", """
import sys
import coffer.drop_in
import importlib.metadata as m
assert m.version("safetensors") == m.version("SafeTensors") == "0.8.0" and m.version("bintensors") == "0.2.0"
listed = [distribution.name for distribution in m.distributions()]
assert not {"safetensors", "bintensors"} & {*listed}, listed
for arguments in ({"path": sys.path}, {"path": sys.path, "name": "safetensors"}):
    assert not list(m.distributions(**arguments))
try:
    m.version("safetensor")
except m.PackageNotFoundError:
    print("told apart")
""", PYTHONPATH=str(tmp_path)) == "told apart\n"  # fmt: skip


FAILURES = """
import pickle, sys
import safetensors.numpy, bintensors.numpy
def raised(call):
    try:
        call()
    except Exception as error:
        return error
errors = [raised(call) for call in (
    lambda: safetensors.deserialize(b"abc"), lambda: safetensors.numpy.load(b"abc"),
    lambda: safetensors.safe_open(sys.argv[1], "np").get_tensor("b"), lambda: safetensors.safe_open(sys.argv[1], "np").get_slice("a")[99],
    lambda: safetensors.serialize({"__metadata__": safetensors.TensorSpec(dtype="bool", shape=[], data_ptr=1, data_len=1)}),
    lambda: bintensors.deserialize(b"abc"),
)]
assert None not in errors
pickle.dump(errors, sys.stdout.buffer, 0)
"""


def test_failures_are_pickled_for_those_who_have_the_real_package(tmp_path):
    """And those of the real one can be read with the drop-in."""
    (tmp_path / "x").write_bytes(array_file({"a": np.zeros(4, np.float32)}))
    read = "import pickle, sys; print([type(error).__name__.replace('BinT', 'Bint') for error in pickle.load(open(sys.argv[1], 'rb'))])"
    kinds = [*["SafetensorError"] * 5, "BintensorError"]
    (tmp_path / "pickled").write_text(python("-c", f"import coffer.drop_in\n{FAILURES}", str(tmp_path / "x")))
    assert "coffer" not in (tmp_path / "pickled").read_text()
    for reader in (f"sys = __import__('sys'); sys.modules['coffer'] = None; {read}", f"import coffer.drop_in; {read}"):
        assert python("-c", reader, str(tmp_path / "pickled")) == f"{kinds}\n"


def test_what_the_packages_need_is_told(tmp_path):
    """As the real ones tell it: nothing, but for extras."""
    code = """
import importlib.metadata as m
for package in ("safetensors", "bintensors"):
    needed = m.requires(package)
    print(sorted(set(m.metadata(package).get_all("Provides-Extra")) & {"numpy", "torch", "tensorflow", "jax", "mlx", "paddlepaddle"}))
    assert all("; extra ==" in one for one in needed) and any(one.startswith("torch") for one in needed), needed
"""
    theirs = python("-c", code)
    assert python("-c", f"import coffer.drop_in{code}") == theirs


@pytest.fixture
def bare(tmp_path) -> pathlib.Path:
    """The Python of an environment that has pip and Coffer alone."""
    venv.create(tmp_path / "venv", symlinks=True)
    site = next(tmp_path.glob("venv/lib/python*/site-packages"))
    (site / "coffer").symlink_to(pathlib.Path(coffer.__file__).parent)
    pip = pathlib.Path(importlib.util.find_spec("pip").origin).parent
    (site / "pip").symlink_to(pip)
    return tmp_path / "venv/bin/python"


def test_pip_knows_that_neither_is_installed(bare):
    """A child of a program with the drop-in: it lists, finds and installs what there is on disk."""
    child = f"""
import subprocess, sys, coffer.drop_in, safetensors
for arguments in (["list", "--format=freeze"], ["show", "safetensors"], ["check"], ["install", "--no-index", "--dry-run", "safetensors"]):
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], capture_output=True, text=True)
    print(arguments[0], done.returncode, done.stdout, done.stderr)
"""  # noqa: F541
    done = subprocess.run([bare, "-c", child], capture_output=True, text=True, timeout=300, check=True)
    assert "list 0" in done.stdout and "==" not in done.stdout.partition("show")[0]
    assert "show 1" in done.stdout and "Package(s) not found: safetensors" in done.stdout
    assert "install 1" in done.stdout and "No matching distribution found for safetensors" in done.stdout
    assert "already satisfied" not in done.stdout


def test_where_the_real_one_is_not_installed(tmp_path):
    """With nothing to import from but Coffer."""
    (tmp_path / "coffer").symlink_to(pathlib.Path(coffer.__file__).parent)
    said = python("-S", "-c", f"import coffer.drop_in, importlib.metadata as m; {WHERE_IS_IT}; print(m.version('safetensors'))",
                  PYTHONPATH=str(tmp_path))  # fmt: skip
    assert said == "ours\n0.8.0\n"
    python("-S", "-c", WHERE_IS_IT, PYTHONPATH=str(tmp_path), code=1)


def test_too_late():
    for first in ("import safetensors", "import safetensors.numpy", "from safetensors import safe_open"):
        said = python("-c", f"{first}\nimport coffer.drop_in", code=1)
        assert "ImportError: safetensors was imported before coffer.drop_in, from " in said
        assert "import coffer.drop_in first, or run the program by 'python -m coffer.drop_in'" in said


def test_twice_is_once():
    assert python("-c", """
import sys, importlib, os
import coffer.drop_in
path = os.environ["PYTHONPATH"]
importlib.reload(coffer.drop_in)
import safetensors
importlib.reload(coffer.drop_in)
assert os.environ["PYTHONPATH"] == path
print(sum(type(finder).__module__ == "coffer.compat._finder" for finder in sys.meta_path))
""") == "1\n"  # fmt: skip


# ---- By the command line ----------------------------------------------------------------------------------------------


def test_a_script(tmp_path):
    (tmp_path / "beside.py").write_text("name = 'beside'")
    (tmp_path / "script.py").write_text(
        f"import sys, beside; {WHERE_IS_IT}; print(sys.argv, __name__, beside.name); sys.exit(3)"
    )
    script = str(tmp_path / "script.py")
    assert python("-m", "coffer.drop_in", script, "-m", "x", code=3) == f"ours\n{[script, '-m', 'x']} __main__ beside\n"


def test_a_module(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(f"import sys; {WHERE_IS_IT}; print(sys.argv[1:], __name__)")
    assert python("-m", "coffer.drop_in", "-m", "package", "a", PYTHONPATH=str(tmp_path)) == "ours\n['a'] __main__\n"


@pytest.mark.parametrize("arguments", [(), ("-m",), ("-c", "pass"), ("--help",)], ids=str)
def test_usage(arguments):
    assert "usage: python -m coffer.drop_in script.py" in python("-m", "coffer.drop_in", *arguments, code=1)


# ---- Children ---------------------------------------------------------------------------------------------------------

CHILDREN = """
import multiprocessing, subprocess, sys

def where(queue):
    import safetensors, safetensors.numpy
    queue.put("ours" if "coffer" in safetensors.__file__ else "real")

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=where, args=(queue,))
        process.start()
        print(method, queue.get(timeout=60))
        process.join()
    print(subprocess.run([sys.executable, "-c", %r], capture_output=True, text=True, check=True).stdout, end="")
""" % WHERE_IS_IT  # noqa: UP031


def test_children_pay_for_nothing(tmp_path):
    """What starts imports no package, and nothing that is not small."""
    listing = "import sys; print(*sorted(sys.modules))"
    child = f"import subprocess, sys, coffer.drop_in; subprocess.run([sys.executable, '-c', {listing!r}], check=True)"
    more = {*python("-c", child).split()} - {*python("-c", listing).split()}
    assert more <= {"__future__", "coffer.compat._finder", "importlib", "importlib._bootstrap", "importlib._bootstrap_external",
                    "importlib.machinery", "sitecustomize", "warnings"}  # fmt: skip
    assert {"coffer.compat._finder", "sitecustomize"} <= more


def test_a_child_that_imports_it_again():
    child = "import coffer.drop_in, sys; print(sum('Finder' in repr(finder) and 'coffer' in repr(finder) for finder in sys.meta_path))"
    assert python("-c", f"import subprocess, sys, coffer.drop_in; subprocess.run([sys.executable, '-c', {child!r}], check=True)") == "1\n"


def test_a_coffer_that_does_not_load_leaves_the_real_one(tmp_path):
    """Another interpreter may find a package that was built for this one."""
    (tmp_path / "coffer").mkdir()
    (tmp_path / "coffer" / "__init__.py").write_text("raise ImportError('built for another Python')")
    startup = str(pathlib.Path(coffer.__file__).parent / "compat/_startup")
    assert python("-c", WHERE_IS_IT, PYTHONPATH=os.pathsep.join([startup, str(tmp_path)])) == (
        "real\ncoffer.drop_in is not active in this process: built for another Python\n"
    )


@pytest.mark.parametrize("way", ["by the command line", "by an import"])
def test_children(tmp_path, way):
    by_import = way == "by an import"
    (tmp_path / "script.py").write_text(("import coffer.drop_in\n" if by_import else "") + CHILDREN)
    said = python(*([] if by_import else ["-m", "coffer.drop_in"]), tmp_path / "script.py")
    assert said == "spawn ours\nforkserver ours\nfork ours\nours\n"


def test_the_hidden_sitecustomize_runs_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    child = f"import subprocess, sys, coffer.drop_in; subprocess.run([sys.executable, '-c', {WHERE_IS_IT!r}], check=True)"
    assert python("-c", child, PYTHONPATH=str(tmp_path)).splitlines() == ["theirs", "theirs", "ours"]


def test_interpreters_without_coffer_start(tmp_path):
    """They get the environment too."""
    startup = str(pathlib.Path(coffer.__file__).parent / "compat/_startup")
    other = subprocess.run([sys._base_executable, "-c", "import sys; print('coffer' in sys.modules)"], capture_output=True,
                           text=True, timeout=120, env={**os.environ, "PYTHONPATH": startup})  # fmt: skip
    assert (other.returncode, other.stdout, other.stderr) == (0, "False\n", "")
    assert python("-I", "-c", WHERE_IS_IT, PYTHONPATH=startup) == "real\n"
