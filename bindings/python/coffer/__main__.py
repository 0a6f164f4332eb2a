# SPDX-License-Identifier: Apache-2.0
"""`python -m coffer`: becomes the command `coffer` that was installed with this package, with its arguments, exit codes and signals."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


_NAME = "coffer.exe" if sys.platform == "win32" else "coffer"


def _places() -> Iterator[Path]:
    """Where an install may have put the command."""
    yield Path(__file__).parent.parent / "bin" / _NAME  # of pip install --target, whose list of files is of another folder
    try:
        for file in importlib.metadata.files("libcoffer") or ():
            if file.name == _NAME:
                yield Path(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass


def main() -> None:
    for place in _places():
        if place.is_file():
            if sys.platform == "win32":  # where no program becomes another
                sys.exit(subprocess.call([place, *sys.argv[1:]]))
            # Python ignores these two signals, and the program that takes its place would inherit that.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execv(place, ["coffer", *sys.argv[1:]])
    sys.exit("the command coffer was not installed with this package: install the package again")


if __name__ == "__main__":
    main()
