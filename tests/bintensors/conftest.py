# SPDX-License-Identifier: Apache-2.0
"""What these tests share with those of tests/python: the library by ctypes, and the generator of the vectors."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "vectors")]
FIGURES = []


def pytest_terminal_summary(terminalreporter):
    for line in FIGURES:
        terminalreporter.write_line(line)
