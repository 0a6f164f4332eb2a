# SPDX-License-Identifier: Apache-2.0
"""The command comes with the package, and `python -m coffer` is the command: its output, exit codes, signals and arguments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import file_bytes

import coffer
from coffer import __main__ as module

COMMAND = next(place for place in module._places() if place.is_file())
MODULE = [sys.executable, "-m", "coffer"]


def test_it_is_compiled():
    """So that it does not pay for a start of Python."""
    assert COMMAND.read_bytes()[:4] == b"\x7fELF" and os.access(COMMAND, os.X_OK)


@pytest.mark.parametrize("start", [[COMMAND], MODULE], ids=["command", "module"])
def test_one_version(start):
    assert subprocess.run([*start, "--version"], capture_output=True, text=True, check=True).stdout == f"coffer {coffer.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ls", "x"], 0), (["check", "x"], 0), (["check", "cut"], 1), (["ls", "none"], 3), (["nothing"], 2), ([], None),
        (["ls", os.fsdecode(b"\xff\xfe")], 3), (["ls", "", "--"], None), (["help"], 0),
    ],
    ids=str,
)  # fmt: skip
def test_both_say_the_same(arguments, code, tmp_path):
    content = file_bytes([("a", "U8", (100,), bytes(100))])
    (tmp_path / "x").write_bytes(content)
    (tmp_path / "cut").write_bytes(content[:-1])
    results = [subprocess.run([*start, *arguments], cwd=tmp_path, capture_output=True) for start in ([COMMAND], MODULE)]
    command, module = ((done.returncode, done.stdout, done.stderr) for done in results)
    assert module == command and (code is None or command[0] == code)


def test_standard_input_is_the_command_s():
    content = file_bytes([("a", "U8", (3,), b"abc")])
    results = [subprocess.run([*start, "ls", "-"], input=content, capture_output=True) for start in ([COMMAND], MODULE)]
    assert results[0].returncode == results[1].returncode and results[0].stdout == results[1].stdout


@pytest.mark.parametrize("start", [[COMMAND], MODULE], ids=["command", "module"])
def test_a_pipe_that_nobody_reads_ends_it(start):
    """As other commands: Python ignores SIGPIPE, and the command must not inherit that."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*start, "help"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_a_package_without_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_places", lambda: iter([Path(tmp_path / "none")]))
    with pytest.raises(SystemExit, match="the command coffer was not installed with this package"):
        module.main()
