# SPDX-License-Identifier: Apache-2.0
"""Puts Coffer where `safetensors` and `bintensors` are imported from, whether or not the real ones are installed.

    import coffer.drop_in                              # before anything imports them

    python -m coffer.drop_in script.py arguments       # without touching a line
    python -m coffer.drop_in -m module arguments

From then on `import safetensors`, `import bintensors`, their modules, `importlib.util.find_spec` and `importlib.metadata` find
Coffer, under the versions whose behaviour it has. So they do in Python processes that this one starts, unless these ignore the environment
(`python -E`, `-I`): a folder in PYTHONPATH has a `sitecustomize` that does the same there.

If one of the real ones was imported before, importing this module is an ImportError: code that has its functions would go on
with them, and half of a program would use one, half the other.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

# The packages, and which of our modules stand for them.
_PACKAGES = {"safetensors": "coffer._safetensors", "bintensors": "coffer.bintensors"}
# The same for all their modules.
_MODULES = {
    **_PACKAGES,
    "safetensors._safetensors_rust": "coffer._safetensors",
    **{f"safetensors.{name}": f"coffer.{name}" for name in ("flax", "mlx", "numpy", "paddle", "tensorflow", "torch")},
    "bintensors._bintensors_rs": "coffer.bintensors",
    **{f"bintensors.{name}": f"coffer.bintensors.{name}" for name in ("flax", "mlx", "numpy", "torch")},
}
_STARTUP = str(Path(__file__).parent / "_startup")


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata says of one of the packages."""

    def __init__(self, package: str) -> None:
        self._package = package

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = importlib.import_module(_PACKAGES[self._package]).__version__
        summary = f"Coffer, in the place of {self._package}"
        return f"Metadata-Version: 2.1\nName: {self._package}\nVersion: {version}\nSummary: {summary}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent.parent / path


class _Loader(Loader):
    """Loads a module of ours under a name of theirs; both names are then the same module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        ours = importlib.import_module(_MODULES[module.__spec__.name])
        if module.__spec__.name in _PACKAGES:
            # A package itself is a module of its own: its submodules have other names than ours.
            module.__dict__.update({name: value for name, value in vars(ours).items() if not _is_own(name)})
            module.__doc__ = ours.__doc__
        else:
            sys.modules[module.__spec__.name] = ours


def _is_own(name: str) -> bool:
    """Whether an attribute says what module it is in, rather than what is in the module."""
    return name in {"__name__", "__package__", "__spec__", "__loader__", "__path__", "__cached__", "__builtins__"}


class _Finder(importlib.metadata.DistributionFinder):
    """Finds the packages here, before any other finder looks for them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = _MODULES.get(fullname)
        if ours is None:
            return None
        found = importlib.util.find_spec(ours)
        origin = None if found is None else found.origin
        spec = ModuleSpec(fullname, _Loader(), origin=origin, is_package=fullname in _PACKAGES)
        spec.has_location = True
        return spec

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context = importlib.metadata.DistributionFinder.Context()
    ) -> Iterable[importlib.metadata.Distribution]:
        return [_Distribution(package) for package in _PACKAGES if context.name in (None, package)]


def _activate() -> None:
    """Puts the finder in the first place, here and in processes that this one starts. Once is enough."""
    if any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        return
    for package in _PACKAGES.keys() & sys.modules.keys():
        where = getattr(sys.modules[package], "__file__", None) or "an unknown place"
        raise ImportError(
            f"{package} was imported before coffer.drop_in, from {where}, and code may hold its functions already: import "
            "coffer.drop_in first, or run the program by 'python -m coffer.drop_in'"
        )
    sys.meta_path.insert(0, _Finder())
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if _STARTUP not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP, *paths])


def _run(arguments: list[str]) -> None:
    """Runs a script or a module as `python` would."""
    import runpy

    match arguments:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path[0] = os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *_] if not script.startswith("-"):
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(script))
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit("usage: python -m coffer.drop_in script.py [arguments]\n"
                     "       python -m coffer.drop_in -m module [arguments]")


if __name__ == "__main__":
    importlib.import_module("coffer.drop_in")
    _run(sys.argv[1:])
else:
    _activate()
