# SPDX-License-Identifier: Apache-2.0
"""What is imported with the package, and in which direction its modules know each other. Nothing here takes the time: who imports
little is quick."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import coffer

PACKAGE = Path(coffer.__file__).parent
# Each of them takes longer than the package itself, or brings what does.
SLOW = {
    "asyncio", "concurrent.futures", "ctypes", "dataclasses", "email", "enum", "html", "importlib.metadata", "inspect", "jax", "json",
    "logging", "ml_dtypes", "mlx", "multiprocessing", "numpy", "paddle", "pathlib", "pickle", "re", "subprocess", "tempfile",
    "tensorflow", "torch", "tqdm", "typing", "urllib", "urllib.parse", "urllib.request",
}  # fmt: skip


@pytest.mark.parametrize(
    "statement", ["import coffer", "import coffer.drop_in", "import coffer.drop_in, safetensors", "import coffer.compat.safetensors"]
)
def test_importing_brings_nothing_slow(statement):
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(PACKAGE.parent)!r}); {program}"]
    brought = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "coffer._native" in brought and not brought & SLOW


def test_every_name_is_there_when_it_is_wanted():
    """What type checkers see is what the interpreter finds, in the same modules."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    stated = {
        (node.module, alias.asname or alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    later = {(module, name) for module, names in coffer._NAMES.items() for name in names}
    assert later <= stated and {name for _, name in stated} - {"__version__"} == set(coffer.__all__)
    assert set(coffer.__all__) <= set(dir(coffer))
    for module, name in later:
        assert getattr(coffer, name) is getattr(sys.modules[f"coffer.{module}"], name)
    with pytest.raises(AttributeError, match="module 'coffer' has no attribute 'cobol'"):
        coffer.cobol  # noqa: B018


def imported(file):
    """The modules of the package that a module imports, at once or later; not those that only type checkers import."""
    own = (*file.relative_to(PACKAGE).with_suffix("").parts,)
    folder = own[:-1]
    tree = ast.parse(file.read_text())
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for part in node.body
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level == 0 or node in skipped:
            continue
        base = folder[: len(folder) - node.level + 1] + tuple((node.module or "").split(".") if node.module else ())
        for alias in node.names:
            for found in ((*base, alias.name), base):
                if (PACKAGE.joinpath(*found)).with_suffix(".py").exists() if found else False:
                    yield "/".join(found)
                    break


def test_modules_do_not_import_in_circles():
    graph = {}
    for file in PACKAGE.rglob("*.py"):
        if file.name != "__init__.py":
            graph["/".join(file.relative_to(PACKAGE).with_suffix("").parts)] = set(imported(file))
    assert {"_errors", "_frameworks", "_plan"} <= graph["_load"] and "_torch_staging" in graph["_frameworks"]
    TopologicalSorter(graph).prepare()  # which fails with the circle
