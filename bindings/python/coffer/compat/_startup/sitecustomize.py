# SPDX-License-Identifier: Apache-2.0
"""Run by a Python that starts with this folder in PYTHONPATH, as coffer.drop_in arranges: activates it there too.

Then runs the sitecustomize that this one hides. Another interpreter, one without Coffer, starts as if nothing were. What is imported
here, every process pays for.
"""

import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

_here = os.path.dirname(os.path.abspath(__file__))


def _activate() -> None:
    """By the module alone, without its package, which would bring the extension."""
    if sys.version_info < (3, 11):
        return
    name = "coffer.compat._finder"
    loader = SourceFileLoader(name, os.path.join(os.path.dirname(_here), "_finder.py"))
    module = type(sys)(name)
    module.__file__ = loader.path
    loader.exec_module(module)
    sys.modules[name] = module
    try:
        module.activate()
    except ImportError as error:
        print(f"coffer.drop_in is not active in this process: {error}", file=sys.stderr)


def _run_hidden() -> None:
    elsewhere = [path for path in sys.path if os.path.abspath(path) != _here]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_activate()
_run_hidden()
