# SPDX-License-Identifier: Apache-2.0
"""Puts Coffer where `safetensors` and `bintensors` are imported from, whether or not the real ones are installed.

    import coffer.drop_in                              # before anything imports them

    python -m coffer.drop_in script.py arguments       # without touching a line
    python -m coffer.drop_in -m module arguments

From then on `import safetensors`, `import bintensors`, their modules, `importlib.util.find_spec` and the functions of `importlib.metadata`
that take a name find Coffer, under the versions whose behaviour it has. Lists of what is installed do not have it: for pip, the packages
are installed when they are. The same holds in Python processes that this one starts, unless these ignore the environment
(`python -E`, `-I`): a folder in PYTHONPATH has a `sitecustomize` that does it there.

If one of the real ones was imported before, importing this module is an ImportError: code that has its functions would keep
using them, and half of a program would use one, half the other.
"""

from __future__ import annotations

import os
import sys

from .compat import _finder

_STARTUP = os.path.join(os.path.dirname(__file__), "compat", "_startup")


def _activate() -> None:
    """Here, and in the processes that this one starts."""
    _finder.activate()
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
    import importlib

    importlib.import_module("coffer.drop_in")
    _run(sys.argv[1:])
else:
    _activate()
