# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: the vectors, and a place for the figures that they print in the end.

Needs COFFER_LIB, the shared library to test; COFFER_VECTORS is the directory of the vectors, ../vectors by default.
"""

import os
import pathlib
import signal
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "attacks")]

VECTORS = pathlib.Path(os.environ.get("COFFER_VECTORS") or TESTS / "vectors")
FIGURES = []

# A run in the background ignores the signals that tests send to the command, and hands that down to it.
for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, default)


def vector_paths():
    return sorted(path for path in VECTORS.iterdir() if path.suffix in (".safetensors", ".bin"))


def pytest_addoption(parser):
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden cases to what the program says now")


@pytest.fixture(scope="session")
def vectors():
    paths = vector_paths()
    assert len(paths) > 400
    return paths


@pytest.fixture(scope="session")
def figures():
    """A list of lines that are printed when all tests are done."""
    return FIGURES


def pytest_terminal_summary(terminalreporter):
    for line in FIGURES:
        terminalreporter.write_line(line)
