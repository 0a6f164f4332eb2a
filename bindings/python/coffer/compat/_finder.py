# SPDX-License-Identifier: Apache-2.0
"""Finds Coffer where a program looks for safetensors and bintensors; coffer.drop_in says how that is used.

Every process that a program with the drop-in starts reads this module, most of them for nothing. So it imports only what Python has
loaded by then, and the package `coffer` not before somebody wants one of the two.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from importlib.metadata import Distribution, DistributionFinder
    from types import ModuleType

# The packages, which of our modules stand for them, and what their extensions are called.
PACKAGES = {"safetensors": "coffer.compat.safetensors", "bintensors": "coffer.compat.bintensors"}
_EXTENSIONS = {"safetensors": "safetensors._safetensors_rust", "bintensors": "bintensors._bintensors_rs"}
# The same for all their modules.
_MODULES = {
    **PACKAGES,
    **{extension: PACKAGES[package] for package, extension in _EXTENSIONS.items()},
    **{f"safetensors.{name}": f"coffer.compat.safetensors.{name}" for name in ("flax", "mlx", "numpy", "paddle", "tensorflow", "torch")},
    **{f"bintensors.{name}": f"coffer.compat.bintensors.{name}" for name in ("flax", "mlx", "numpy", "torch")},
}


class Loader:
    """Loads a module of ours under a name of theirs; both names are then the same module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        import importlib

        name = module.__name__
        ours = importlib.import_module(_MODULES[name])
        if name not in PACKAGES:
            sys.modules[name] = ours
            return
        # A package itself is a module of its own: its submodules have other names than ours.
        module.__dict__.update({name: value for name, value in vars(ours).items() if not _is_own(name)})
        module.__doc__ = ours.__doc__
        importlib.import_module(_EXTENSIONS[name])  # which makes it an attribute
        # Where the real one has its exception, too: what is pickled here can be read by whoever has either.
        for value in vars(ours).values():
            if isinstance(value, type) and issubclass(value, Exception):
                value.__module__ = _EXTENSIONS[name]


def _file_of(module: str) -> str:
    """Where a module of ours is: what importlib.util.find_spec says."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    place = os.path.join(root, *module.split("."))
    return os.path.join(place, "__init__.py") if os.path.isdir(place) else f"{place}.py"


def _is_own(name: str) -> bool:
    """Whether an attribute says what module it is in, rather than what is in the module."""
    return name in {"__name__", "__package__", "__spec__", "__loader__", "__path__", "__cached__", "__builtins__"}


class Finder:
    """Finds the packages here, before any other finder looks for them."""

    def __init__(self) -> None:
        self._usable: bool | None = None  # not known yet

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = _MODULES.get(fullname)
        if ours is None or not self._is_usable():
            return None
        from importlib.machinery import ModuleSpec

        spec = ModuleSpec(fullname, Loader(), origin=_file_of(ours), is_package=fullname in PACKAGES)  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Answers those who ask for the version of one by name. Who lists what is installed, as pip does, asks for no name, or looks
        into folders: in those there is neither package, and pip has to be able to install the real one."""
        wanted = getattr(context, "name", None)
        package = wanted.lower() if isinstance(wanted, str) else ""
        if package not in PACKAGES or "path" in vars(context) or not self._is_usable():
            return []
        from coffer.compat._distribution import LazyTensor

        return [LazyTensor(package)]

    def _is_usable(self) -> bool:
        """Whether this interpreter has Coffer, and one that was built for it."""
        if self._usable is None:
            self._usable = _can_be_imported()
        return self._usable


def _can_be_imported() -> bool:
    try:
        import coffer  # noqa: F401
    except ImportError as error:
        if error.name != "coffer":
            print(f"coffer.drop_in is not active in this process: {error}", file=sys.stderr)
        return False
    return True


def activate() -> None:
    """Puts the finder in the first place. Once is enough."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    for package in PACKAGES:
        if package in sys.modules:
            where = getattr(sys.modules[package], "__file__", None) or "an unknown place"
            raise ImportError(
                f"{package} was imported before coffer.drop_in, from {where}, and code may hold its functions already: import "
                "coffer.drop_in first, or run the program by 'python -m coffer.drop_in'"
            )
    sys.meta_path.insert(0, Finder())
