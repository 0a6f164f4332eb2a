# SPDX-License-Identifier: Apache-2.0
"""Folders that stand for one of their files: which one, and what is said of those that have no reader."""

import os
import subprocess

import pytest
from attacks_tf import crc32c, tf_index, tf_tensor

COMMAND = os.environ["COFFER_CLI"]
DATA = bytes(range(24))
INDEX = tf_index((b"w", tf_tensor(crc=crc32c(DATA))))


def checkpoint(prefix):
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(prefix.name + ".index").write_bytes(INDEX)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(DATA)


def convert(path):
    return subprocess.run([COMMAND, "convert", path, "-n"], capture_output=True, text=True, timeout=60, check=False)


def expect_written(folder):
    done = convert(folder)
    assert done.returncode == 0 and done.stdout.startswith("w  F32  [3, 2]  24 B"), done


def test_saved_models(tmp_path):
    checkpoint(tmp_path / "variables" / "variables")
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12\x20" + bytes(100))
    for folder in (tmp_path, f"{tmp_path}/", tmp_path / "variables"):
        expect_written(folder)


@pytest.mark.parametrize("named", ["m-2", "/else/where/m-2", "C/m-2"])
@pytest.mark.parametrize("rest", ["", "\n", "\r\n", '\nall_model_checkpoint_paths: "m-1"\n'])
def test_the_latest_checkpoint(tmp_path, named, rest):
    checkpoint(tmp_path / "m-2")
    (tmp_path / "m-1.index").write_bytes(b"")
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{named}"{rest}')
    expect_written(tmp_path)


def test_a_checkpoint_that_is_gone_is_named(tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "m-3"\n')
    done = convert(tmp_path)
    assert done.returncode == 3 and "cannot open the file" in done.stderr and "(file m-3.index)" in done.stderr, done


@pytest.mark.parametrize("text", ["", "m-2", 'model_checkpoint_path: "', 'model_checkpoint_path: ""', 'model_checkpoint_path: ".."',
                                  'model_checkpoint_path: "m/"', 'model_checkpoint_path: "m-2" x', 'model_checkpoint_path: "' + "m" * 5000 + '"',
                                  'model_checkpoint_path: "a\\\\m-2"'])
def test_lists_that_name_none(tmp_path, text):
    checkpoint(tmp_path / "m-2")
    (tmp_path / "checkpoint").write_text(text)
    done = convert(tmp_path)
    assert done.returncode != 0 and "this folder has no model" in done.stderr, done


@pytest.mark.parametrize(("called", "data", "said"), [("manifest.ocdbt", b"\x0c\xdb\x3a\x2a", "an OCDBT database"),
                                                      ("Data/com.apple.CoreML/model.mlmodel", b"\x08\x06\x12\x20", "a Core ML model")])
def test_folders_that_are_only_named(tmp_path, called, data, said):
    (tmp_path / called).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / called).write_bytes(data + bytes(100))
    done = convert(tmp_path)
    assert done.returncode == 1 and said in done.stderr, done
