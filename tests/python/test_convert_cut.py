# SPDX-License-Identifier: Apache-2.0
"""Files of other programs that were cut, as by a download that stopped: whatever reader meets its end says to get the file again."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attacks"))

from make_attacks import good_files

CLI = os.environ["COFFER_CLI"]
GOOD = dict(good_files())
# Of what follows the last member of an archive (tar), zeros, nothing is lost with any of it. The name of this one's first member, and
# the zeros after it, could be the length of a header.
LENGTH_FIRST = "good-pax.tar"


def what_counts(name):
    body = GOOD[name]
    return body.rstrip(b"\0") if name.endswith((".tar", ".nemo")) else body


@pytest.mark.parametrize("part", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("name", sorted(GOOD.keys() - {LENGTH_FIRST}))
def test_a_cut_file_is_to_be_got_again(name, part, tmp_path):
    body = what_counts(name)
    path = tmp_path / name
    path.write_bytes(body[:int((len(body) - 1) * part)])
    done = subprocess.run([CLI, "convert", "-n", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "get the file again" in done.stderr, done


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_whole_one_is_read(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(GOOD[name])
    subprocess.run([CLI, "convert", "-n", path], capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.parametrize("name", ["pytorch_model.bin.index.json", "model.weights.json"])
@pytest.mark.parametrize("text", ['{"metadata": {}, "weight_map": {"a": "m-0', '{"metadata": {}, "weight_map": {"a": "m-0.bin"', '{"weight_map": {}\n'])
def test_an_index_that_was_cut(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    done = subprocess.run([CLI, "convert", "-n", tmp_path / name], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "get the file again" in done.stderr, done
