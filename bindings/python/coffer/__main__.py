# SPDX-License-Identifier: Apache-2.0
"""`python -m coffer`: becomes the command `coffer` that was installed with this package, with its arguments, exit codes and signals."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path


def _places() -> Iterator[Path]:
    """Where an install may have put the command."""
    yield Path(__file__).parent.parent / "bin" / "coffer"  # of pip install --target, whose list of files is of another folder
    try:
        for file in importlib.metadata.files("libcoffer") or ():
            if file.name == "coffer":
                yield Path(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass


def main() -> None:
    for place in _places():
        if place.is_file():
            # Python ignores these two, and who is ignored stays so for what takes its place.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execv(place, ["coffer", *sys.argv[1:]])
    sys.exit("the command coffer was not installed with this package: install the package again")


if __name__ == "__main__":
    main()
