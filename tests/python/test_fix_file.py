# SPDX-License-Identifier: Apache-2.0
"""Files that no program opens though all of their tensors are there: bytes that follow the tensors, and metadata whose values are no
strings. --partial opens the first, coffer meta --fix fixes both."""

import io
import json
import os
import stat
import struct
import subprocess
import zipfile

import pytest
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

CLI = os.environ["COFFER_CLI"]
TENSORS = {"a": ("F32", [3], bytes(range(12))), "b": ("U8", [5], b"abcde")}


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, (result.stdout, result.stderr)
    return result


def file_bytes(metadata=None, *, tensors=TENSORS, spaced=False, last=False, slack=0):
    """A file; `metadata` is a JSON text. Nothing is checked."""
    members, data = [], b""
    for name, (dtype, shape, body) in tensors.items():
        members.append((name, json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]},
                                         separators=(", ", ": ") if spaced else (",", ":"))))
        data += body
    if metadata is not None:
        members.insert(len(members) if last else 0, ("__metadata__", metadata))
    colon, comma = (": ", ", ") if spaced else (":", ",")
    header = ("{" + comma.join(json.dumps(name) + colon + text for name, text in members) + "}").encode()
    header += b" " * (-(len(header)) % 8 + slack)
    return struct.pack("<Q", len(header)) + header + data


def arrays(path):
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in load_file(path).items()}


def zip_bytes():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "b")
    return out.getvalue()


TRAILING = {
    "one byte": (b"\7", ""), "zeros": (bytes(20000), "zeros"), "zeros and one": (bytes(9000) + b"\1", ""),
    "zip": (zip_bytes(), "a zip archive"), "page": (b"<!DOCTYPE html><html></html>", "a web page"),
    "itself": (file_bytes(), "another file of tensors"), "text": (b"Entry not found", "text"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TRAILING)
@pytest.mark.parametrize("metadata", [None, '{"format":"pt"}'])
def test_bytes_after_the_tensors(kind, metadata, tmp_path):
    extra, looks = TRAILING[kind]
    whole = file_bytes(metadata)
    path = tmp_path / "a.safetensors"
    path.write_bytes(whole + extra)
    with pytest.raises(SafetensorError):
        safe_open(path, "np")
    message = run("info", path, code=1).stderr
    assert f"all tensors are there, up to byte {len(whole)}, and after it " in message and f"{len(extra)} byte" in message
    # As it is, all of it can be read.
    for command in ("info", "ls"):
        assert "coffer meta --fix" in run(command, "--partial", path, code=1).stderr
    assert "97,  98,  99, 100, 101" in run("get", "--partial", path, "b", code=1).stdout
    shown = run("meta", "--fix", "--dry-run", path).stderr
    assert "would be cut off" in shown and (f"({looks})" in shown if looks else "(" not in shown.replace("(0.", "").split(" cut")[0])
    assert path.read_bytes() == whole + extra
    before = path.stat()
    assert json.loads(run("meta", "--fix", "--json", path).stdout)["done"] == "fixed"
    assert path.read_bytes() == whole and path.stat().st_ino == before.st_ino
    assert "nothing to fix" in run("meta", "--fix", path).stderr and path.read_bytes() == whole
    run("check", path)
    assert set(arrays(path)) == set(TENSORS)


VALUES = ["1", "-1.50", "1e300", "NaN", "Infinity", "-Infinity", "true", "false", "null", "[]", '{"a": [1, {"b": "\\u00e9\\n"}]}', '[ "x" ]', '"already"']


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_metadata_that_are_no_strings(value, spaced, last, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_bytes('{"x":%s,"format":"pt"}' % value, spaced=spaced, last=last, slack=64))
    raw = path.read_bytes()
    fixed = value[0] == '"'
    if not fixed:
        with pytest.raises(SafetensorError):
            safe_open(path, "np")
        # NaN and Infinity are Python's, and no JSON.
        said = "a value should be here" if value[0] in "NI" else "a value of the metadata must be a string"
        assert said in run("info", path, code=1).stderr
        assert "coffer meta --fix" in run("doctor", path, code=1).stdout
    run("meta", "--fix", "--dry-run", path)
    assert path.read_bytes() == raw
    done = run("meta", "--fix", path).stderr
    assert ("nothing to fix" if fixed else "made strings") in done
    with safe_open(path, "np") as file:
        assert file.metadata() == {"x": json.loads(value) if fixed else value, "format": "pt"}
        assert sorted(file.keys()) == sorted(TENSORS)
    assert {name: body for name, (_, _, body) in arrays(path).items()} == {name: body for name, (_, _, body) in TENSORS.items()}


def test_both_at_once_without_room_and_with_a_long_header(tmp_path):
    """The header passes the reader in pieces, and the metadata are where one ends."""
    for count in (1, 150, 200, 2000):
        tensors = {f"layer.{i}.weight": ("U8", [1], bytes([i % 256])) for i in range(count)}
        metadata = json.dumps({f"key {i}": i for i in range(500)})
        path = tmp_path / f"{count}.safetensors"
        path.write_bytes(file_bytes(metadata, tensors=tensors, last=True) + b"more")
        run("meta", "--fix", path)
        with safe_open(path, "np") as file:
            assert file.metadata() == {f"key {i}": str(i) for i in range(500)}
        assert {name: body for name, (_, _, body) in arrays(path).items()} == {k: body for k, (_, _, body) in tensors.items()}


BROKEN = {
    "shape": b'{"a":{"dtype":"U8","shape":{},"data_offsets":[0,1]}}',
    "metadata": b'{"__metadata__":[1],"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "twice": b'{"__metadata__":{"x":1,"x":2},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "hole": b'{"__metadata__":{"x":1},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
    "value": b'{"__metadata__":{"x":tru},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "nested NaN": b'{"__metadata__":{"x":[NaN]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "no word": b'{"__metadata__":{"x":NaNs},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "nested twice": b'{"__metadata__":{"x":{"y":1,"y":2}},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("extra", [b"\0", b"\0more"])
def test_what_is_broken_otherwise_is_not_touched(kind, extra, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(BROKEN[kind])) + BROKEN[kind] + extra)
    raw = path.read_bytes()
    for options in ([], ["--dry-run"]):
        run("meta", "--fix", *options, path, code=1)
    assert path.read_bytes() == raw


def test_a_file_that_is_cut_short_is_not_touched(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_bytes('{"x":1}')[:-1])
    raw = path.read_bytes()
    run("meta", "--fix", path, code=1)
    assert path.read_bytes() == raw


def test_links_and_files_that_must_not_be_written(tmp_path):
    path = tmp_path / "a.safetensors"
    whole = file_bytes()
    path.write_bytes(whole + b"more")
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "other name").hardlink_to(path)
    for name in ("link", "other name"):
        assert "--force" in run("meta", "--fix", tmp_path / name, code=3).stderr
    assert path.read_bytes() == whole + b"more"
    run("meta", "--fix", "-f", tmp_path / "link")
    assert path.read_bytes() == (tmp_path / "other name").read_bytes() == whole
    (tmp_path / "other name").unlink()
    path.write_bytes(whole + b"more")
    path.chmod(0o444)
    assert "read-only" in run("meta", "--fix", path, code=3).stderr
    run("meta", "--fix", "-f", path)
    assert arrays(path).keys() == TENSORS.keys() and stat.S_IMODE(path.stat().st_mode) == 0o444


def test_what_excludes_it(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_bytes())
    for options in (["--set", "a=b"], ["--rewrite"], ["--recover"], ["--unset", "a"]):
        run("meta", "--fix", *options, path, code=2)
    run("meta", "--fix", path, "KEY", code=2)
    run("meta", "--fix", "-", code=2)
    run("meta", "--fix", "https://example.org/a.safetensors", code=2)
