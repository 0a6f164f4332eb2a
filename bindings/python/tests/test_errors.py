# SPDX-License-Identifier: Apache-2.0
"""Failures: attributes, the built-in classes they are too, and what they survive."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import pytest
from conftest import file_bytes

import coffer
import coffer.hub


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


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NO_DEVICE", RuntimeError), ("DEVICE", RuntimeError), ("DEVICE_MEMORY", MemoryError), ("DESTINATION", ValueError),
        ("BUDGET", ValueError), ("ENGINE", RuntimeError), ("TAKEN", ValueError), ("PEER", RuntimeError),
    ],
)  # fmt: skip
def test_built_in_classes_of_loading(code, kind):
    error = coffer._errors._make(code, {"message": "what"})
    assert isinstance(error, coffer.Error) and isinstance(error, kind) and (error.code, str(error)) == (code, "what")


def test_can_be_pickled_and_copied(tmp_path):
    """As they are when they cross from a worker process."""
    for make in (lambda: coffer.open(tmp_path / "none"), lambda: coffer.open(b"abc"), lambda: coffer.open(file_bytes([]))["x"]):
        with pytest.raises(coffer.Error) as caught:
            make()
        error = caught.value
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(other) is type(error) and str(other) == str(error) and other.__dict__ == error.__dict__


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("of blocks: --dequantize makes numbers (f32: 1), --raw keeps bytes", "of blocks: the option dequantize makes numbers (f32: 1), the option raw keeps bytes"),
        ("of pairs: --complex128 f64x2 makes pairs", "of pairs: the option complex128 makes pairs"),
        ("which --bytes-as can name", "which the option bytes_as can name"),
        ("finish with: coffer meta --recover /a/b.safetensors", "finish with: coffer.recover('/a/b.safetensors')"),
        ("finish with: coffer meta --recover '/a b'", "finish with: coffer.recover('/a b')"),
        ("`coffer hash --write` adds them", "coffer.record_digests adds them"),
        ("it cannot be rewritten: name another place for the new model", "it cannot be rewritten: name another place for the new model (output)"),
        ("a container: docker run --gpus all, --device /dev/kfd", "a container: docker run --gpus all, --device /dev/kfd"),
        ('no tensor "a--raw-b", "--rawer"', 'no tensor "a--raw-b", "--rawer"'),
    ],
)
def test_messages_name_what_python_has(told, said):
    assert coffer._errors._make("FORMAT", {"message": told}).message == said


def test_what_records_digests_is_told_in_pythons_words(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_bytes([("a", "U8", (1,), b"a")]))
    with pytest.raises(coffer.Error, match="coffer.record_digests adds them"):
        coffer.open(path, verify=True)


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


def test_check_of_what_has_no_path(path):
    """Neither the content of a file nor a descriptor is its path."""
    content = path.read_bytes()
    with path.open("rb") as file:
        reports = [coffer.check(source) for source in (content, bytearray(content), memoryview(content), file.fileno())]
    assert reports == [coffer.check(content)] * 4 and reports[0].path is None and reports[0]
    report = coffer.check(content[:-1])
    assert not report and (report.path, report.error.code, report.error.path) == (None, "DATA_TRUNCATED", None)
    assert coffer.check(PathOfBytes(path)).path == str(path)


class PathOfBytes:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return bytes(self.path)


@pytest.mark.parametrize("given", [b"/path", b"x", b"model.safetensors", b"/a/longer/path/model.safetensors", bytearray(b"x" * 4096)])
def test_paths_as_bytes(given):
    with pytest.raises(coffer.Error, match="bytes are taken for the content of a file: a path is given as str"):
        coffer.open(given)


@pytest.mark.parametrize("given", [b"", b"\n", b"x" * 4097, b"8\0\0\0", b"version https://git-lfs.github.com/spec/v1\n", b'{"a": 1}'])
def test_bytes_that_are_no_path(given):
    with pytest.raises(coffer.Error) as caught:
        coffer.open(given)
    assert "given as str" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://127.0.0.1/x.safetensors", "http://127.0.0.1/x", "hf://owner/name", "s3://bucket/key"])
def test_urls_in_paths(url):
    for call in (coffer.open, lambda path: coffer.open(os.fspath(path)), coffer.hub.get_local_safetensors_metadata):
        with pytest.raises(FileNotFoundError, match="a URL is given as str: pathlib made one slash of its two"):
            call(Path(url))
    assert "a URL is given as str" in str(coffer.check(Path(url)).error)


def test_other_paths_that_are_not_there():
    for name in ("none", "https", "a/https:/b", "httpss:/x", "hf"):
        with pytest.raises(FileNotFoundError) as caught:
            coffer.open(name)
        assert "URL" not in str(caught.value)
