# SPDX-License-Identifier: Apache-2.0
"""Run by a Python that starts with this folder in PYTHONPATH, as coffer.drop_in arranges: activates it there too.

Then runs the sitecustomize that this one hides. Another interpreter, one without Coffer, starts as if nothing were.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _activate() -> None:
    if importlib.util.find_spec("coffer") is None:
        return
    try:
        import coffer.drop_in  # noqa: F401
    except ImportError as error:  # built for another interpreter
        print(f"coffer.drop_in is not active in this process: {error}", file=sys.stderr)


def _run_hidden() -> None:
    elsewhere = [path for path in sys.path if os.path.abspath(path) != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_activate()
_run_hidden()
