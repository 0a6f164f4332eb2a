# SPDX-License-Identifier: Apache-2.0
"""coffer.load_file and coffer.save_file: the modules' functions of these names, for whichever framework it is."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import Error
from ._frameworks import framework_of
from ._native import Tensor
from ._progress import Shown, shown
from ._safe_open import Backend
from ._serialization import Sync
from ._wording import writing_failed, wrong_type

if TYPE_CHECKING:
    from ._native import Algorithm

# The module of the package that takes the tensors of a module.
_MODULES = {
    "jax": "flax",
    "jaxlib": "flax",
    "mlx": "mlx",
    "ml_dtypes": "numpy",
    "numpy": "numpy",
    "paddle": "paddle",
    "tensorflow": "tensorflow",
    "torch": "torch",
}


def load_file(
    filename: str | os.PathLike[str],
    framework: str = "numpy",
    device: str | int = "cpu",
    *,
    backend: Backend = "mmap",
    verify: bool = False,
    progress: Shown = False,
) -> dict[str, Any]:
    """The tensors of a file, of a model of several files by its index, or behind a URL.

    framework  "numpy" (the default), "torch", "flax", "tensorflow", "mlx" or "paddle", or another of their names ("np", "pt" …)
    device     where they go, of those frameworks that have devices
    backend, verify, progress  as in `coffer.torch.load_file`
    """
    name = framework_of(framework)
    module = importlib.import_module(f"coffer.{name}")
    options: dict[str, Any] = {"backend": backend, "verify": verify, "progress": progress}
    if name in ("torch", "paddle"):
        options["device"] = device
    elif device != "cpu":
        raise ValueError(f"{name} has no device {device!r}")
    loaded: dict[str, Any] = module.load_file(filename, **options)
    return loaded


def save_file(
    tensors: Mapping[str, Any],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors, of one framework, which is known by the first of them; or `coffer.Tensor` of files
    that are open, whose bytes go from file to file. The options are those of `coffer.numpy.save_file`.
    """
    first = next(iter(tensors.values()), None)
    if isinstance(first, Tensor):
        with shown(progress, filename) as advance:
            try:
                _native.copy_tensors(
                    tensors.items(), filename, metadata, sync=sync, digests=digests, progress=advance
                )
            except Error as error:
                writing_failed(error)
        return
    origin = "numpy" if first is None else type(first).__module__.partition(".")[0]
    if origin not in _MODULES:
        raise wrong_type("tensors", first, "tensor of numpy, torch, jax, tensorflow, mlx, paddle or coffer")
    module = importlib.import_module(f"coffer.{_MODULES[origin]}")
    module.save_file(dict(tensors), filename, metadata, sync=sync, digests=digests, progress=progress)
