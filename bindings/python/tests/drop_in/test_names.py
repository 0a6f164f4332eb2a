# SPDX-License-Identifier: Apache-2.0
"""Under the drop-in, every module has the names that the reference's has: a program that imports one of them goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LISTING = """
import importlib, json, sys, types

def origin(value):
    return value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)

module = importlib.import_module(sys.argv[1])
package = sys.modules[sys.argv[1].partition(".")[0]]
assert module.safe_open is package.safe_open
print(json.dumps({name: str(origin(getattr(module, name))) for name in dir(module)}))
"""
MODULES = [
    "safetensors", "safetensors._safetensors_rust",
    *(f"safetensors.{name}" for name in ("numpy", "torch", "flax", "tensorflow", "mlx", "paddle")),
    "bintensors", "bintensors._bintensors_rs", *(f"bintensors.{name}" for name in ("numpy", "torch", "flax", "mlx")),
]  # fmt: skip


def names(module: str, *, ours: bool) -> dict[str, str]:
    """Its names, and where what they stand for is from. A process has only this one, and the drop-in before it."""
    code = ("import coffer.drop_in\n" if ours else "") + LISTING
    done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def is_python_s(origin: str) -> bool:
    """Whether a module merely imports it from the standard library."""
    return origin.partition(".")[0] in sys.stdlib_module_names - {"builtins"}


@pytest.mark.parametrize("module", MODULES)
def test_every_name(module):
    wanted = {name for name, origin in names(module, ours=False).items() if not name.startswith("__") and not is_python_s(origin)}
    assert len(wanted) > 3
    assert wanted <= names(module, ours=True).keys()
