# SPDX-License-Identifier: Apache-2.0
"""Puts Coffer where `safetensors` is imported from, whether or not the real one is installed.

    import coffer.drop_in                              # before anything imports safetensors

    python -m coffer.drop_in script.py arguments       # without touching a line
    python -m coffer.drop_in -m module arguments

From then on `import safetensors`, its modules, `importlib.util.find_spec` and `importlib.metadata` find Coffer, under the
version whose behaviour it has. So they do in Python processes that this one starts, unless these ignore the environment
(`python -E`, `-I`): a folder in PYTHONPATH has a `sitecustomize` that does the same there.

If the real safetensors was imported before, importing this module is an ImportError: code that has its functions would go on
with them, and half of a program would use one, half the other.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_NAME = "safetensors"
_FACADE = "coffer._safetensors"
# Modules of the one, and which of ours stand for them.
_MODULES = {
    _NAME: _FACADE,
    f"{_NAME}._safetensors_rust": _FACADE,
    **{f"{_NAME}.{name}": f"coffer.{name}" for name in ("flax", "mlx", "numpy", "paddle", "tensorflow", "torch")},
}
_STARTUP = str(Path(__file__).parent / "_startup")


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata says of safetensors."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = importlib.import_module(_FACADE).__version__
        summary = "Coffer, in the place of safetensors"
        return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\nSummary: {summary}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent.parent / path


class _Loader(Loader):
    """Loads a module of ours under a name of theirs; both names are then the same module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        ours = importlib.import_module(_MODULES[module.__spec__.name])
        if module.__spec__.name == _NAME:
            # Only the package itself is a module of its own: it has submodules, and ours has not.
            module.__dict__.update({name: value for name, value in vars(ours).items() if not _is_own(name)})
            module.__doc__ = ours.__doc__
        else:
            sys.modules[module.__spec__.name] = ours


def _is_own(name: str) -> bool:
    """Whether an attribute says what module it is in, rather than what is in the module."""
    return name in {"__name__", "__package__", "__spec__", "__loader__", "__path__", "__cached__", "__builtins__"}


class _Finder(importlib.metadata.DistributionFinder):
    """Finds safetensors here, before any other finder looks for it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = _MODULES.get(fullname)
        if ours is None:
            return None
        origin = str(Path(__file__).with_name(ours.removeprefix("coffer.") + ".py"))
        spec = ModuleSpec(fullname, _Loader(), origin=origin, is_package=fullname == _NAME)
        spec.has_location = True
        return spec

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context = importlib.metadata.DistributionFinder.Context()
    ) -> Iterable[importlib.metadata.Distribution]:
        return [_Distribution()] if context.name in (None, _NAME) else []


def _activate() -> None:
    """Puts the finder in the first place, here and in processes that this one starts. Once is enough."""
    if any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        return
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        where = getattr(loaded, "__file__", None) or "an unknown place"
        raise ImportError(
            f"safetensors was imported before coffer.drop_in, from {where}, and code may hold its functions already: import "
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
