# SPDX-License-Identifier: Apache-2.0
"""What coffer meta says of a large file that it has to rewrite, and when."""

import json
import os
import re
import subprocess

import pytest

CLI = os.environ["COFFER_CLI"]
SIZE = 150_000_000


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result


def make(path, size):
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)  # a hole, which costs nothing
    return path


def test_a_rewrite_is_announced_with_its_size(tmp_path):
    path = make(tmp_path / "large.safetensors", SIZE)
    said = run("meta", "--set", "a=b", path).stderr
    if "clone" not in said:  # where blocks can be shared nothing is rewritten
        announced, done = said.splitlines()
        assert re.search(r"the header has no room for this: rewriting 150\.\d MB", announced)
        assert "--insert" in announced and "rewritten" in done
    assert "rewriting" not in run("meta", "--set", "a=c", path).stderr  # now there is room
    said = run("meta", "--rewrite", path).stderr
    assert "rewriting 150" in said and "--insert" not in said
    assert run("meta", "--rewrite", "-q", path).stderr == ""
    assert run("meta", path, "a").stdout == "c\n"


def test_a_small_one_is_not(tmp_path):
    path = make(tmp_path / "small.safetensors", 1000)
    assert "rewriting" not in run("meta", "--set", "a=b", path).stderr


def test_room_that_is_put_in(tmp_path):
    """Or a refusal that says why, where the file system cannot do that."""
    path = make(tmp_path / "large.safetensors", SIZE)
    before = path.read_bytes()[-1000:]
    result = subprocess.run([CLI, "meta", "--insert", "--set", "a=b", path], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        assert "room was inserted" in result.stderr
        assert run("meta", path, "a").stdout == "b\n"
    else:
        assert "cannot put blocks in" in result.stderr or "cannot be told" in result.stderr
        assert path.stat().st_size < SIZE + 200
    assert path.read_bytes()[-1000:] == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("arguments", [["--insert"], ["--insert", "--rewrite"], ["--insert", "--recover"]])
def test_insert_is_for_edits(tmp_path, arguments):
    path = make(tmp_path / "small.safetensors", 1000)
    assert "--insert needs" in run("meta", *arguments, path, code=2).stderr
