# SPDX-License-Identifier: Apache-2.0
"""Failures: attributes, the built-in classes they are too, and what they survive."""

from __future__ import annotations

import copy
import pickle

import pytest
from conftest import file_bytes

import coffer


def failure(content: bytes) -> coffer.Error:
    with pytest.raises(coffer.Error) as caught:
        coffer.open(content)
    return caught.value


def test_every_attribute(tmp_path):
    file = tmp_path / "cut.safetensors"
    content = file_bytes([("a", "U8", (100,), bytes(100))])
    file.write_bytes(content[:-40])
    with pytest.raises(coffer.SafetensorError) as caught:
        coffer.open(file)
    error = caught.value
    assert isinstance(error, coffer.Error)
    assert error.code == "DATA_TRUNCATED"
    assert error.path == str(file)
    assert (error.expected, error.actual) == (len(content), len(content) - 40)
    assert error.offset == len(content) - 40
    assert error.os_error is None
    assert str(error) == f"{file}: {error.message}" and "40" in error.message


def test_a_tensor_and_a_place():
    content = file_bytes([("a\x1bb", "U8", (3,), b"abc")]).replace(b'"U8"', b'"U9"')
    error = failure(content)
    assert (error.code, error.tensor) == ("DTYPE", "a\\x1bb")
    assert content[error.offset :].startswith(b'"U9"')
    assert error.path is None and str(error) == error.message


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "EMPTY"), (b"abc", "TOO_SHORT"), (bytes(8), "HEADER_LENGTH"), (b"\x08\0\0\0\0\0\0\0{}", "HEADER_TRUNCATED"),
        (b"\x02\0\0\0\0\0\0\0[]", "TYPE"), (b"\x02\0\0\0\0\0\0\0{}x", "TRAILING_BYTES"), (b"\x05\0\0\0\0\0\0\0{\"\xff\":", "UTF8"),
        (b"\x80\x04\x95\0\0\0\0\0\0\0\0", "IS_PICKLE"), (b"PK\x03\x04" + bytes(30), "IS_ZIP"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "IS_LFS_POINTER"),
    ],
)  # fmt: skip
def test_codes(content, code):
    assert failure(content).code == code


def test_built_in_classes(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        coffer.open(tmp_path / "none")
    assert (caught.value.errno, caught.value.filename) == (2, str(tmp_path / "none"))
    with pytest.raises(OSError):
        coffer.open(tmp_path)
    assert not isinstance(failure(b""), (OSError, ValueError, KeyError))


def test_can_be_pickled_and_copied(tmp_path):
    """As they are when they cross from a worker process."""
    for make in (lambda: coffer.open(tmp_path / "none"), lambda: coffer.open(b"abc"), lambda: coffer.open(file_bytes([]))["x"]):
        with pytest.raises(coffer.Error) as caught:
            make()
        error = caught.value
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(other) is type(error) and str(other) == str(error) and other.__dict__ == error.__dict__


def test_check(tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(file_bytes([("a", "U8", (1,), b"a"), ("A", "F32", (1,), bytes(4))], padding=0))
    report = coffer.check(file)
    assert report and report.error is None and report.path == str(file)
    assert {note.text: (note.count, note.offset > 8) for note in report.notes} == {
        "names differ only in upper and lower case": (1, True),
        "a tensor is not aligned for its dtype": (1, True),
    }
    file.write_bytes(b"<!DOCTYPE html><html>")
    report = coffer.check(str(file))
    assert not report and report.notes == () and report.error is not None and report.error.code == "IS_HTML"
