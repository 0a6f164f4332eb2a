# SPDX-License-Identifier: Apache-2.0
"""The definitions of docs/integrity.md, written once more in Python, against what the program computes and records.

Needs COFFER_CLI, COFFER_SOURCE_DIR, and xxhsum.
"""

import base64
import hashlib
import json
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
from model_files import make

CLI = os.environ["COFFER_CLI"]
DOCUMENT = Path(os.environ["COFFER_SOURCE_DIR"], "docs/integrity.md")
TENSORS = {
    "a": ("F32", [2, 3], bytes(range(24))),
    "scalar": ("U8", [], b"\x07"),
    "empty": ("BF16", [0, 4], b""),
    "é": ("I16", [2], b"\x01\x00\xff\xff"),
}


def sha256(data):
    return hashlib.sha256(data).digest()


def xxh3(data):
    line = subprocess.run(["xxhsum", "-H2"], input=data, capture_output=True, check=True).stdout
    return bytes.fromhex(line.split()[0].decode())


ALGORITHMS = {"sha256": sha256, "xxh3-128": xxh3}


def u64(number):
    return struct.pack("<Q", number)


def s(text):
    return u64(len(text.encode())) + text.encode()


def tensor_digest(h, name, dtype, shape, data):
    return h(b"coffer.tensor.1\0" + s(name) + s(dtype) + u64(len(shape)) + b"".join(map(u64, shape)) + h(data))


def by_name(tensors):
    return sorted(tensors.items(), key=lambda item: item[0].encode())


def records(h, tensors):
    return [tensor_digest(h, name, *tensor) for name, tensor in by_name(tensors)]


def content_digest(h, tensors):
    return h(b"coffer.content.1\0" + u64(len(tensors)) + b"".join(records(h, tensors)))


def metadata_digest(h, metadata):
    pairs = sorted((key.encode(), value) for key, value in metadata.items() if key != "coffer.metadata_digest")
    return h(b"coffer.metadata.1\0" + u64(len(pairs)) + b"".join(s(key.decode()) + s(value) for key, value in pairs))


def text(algorithm, digests):
    return f"1:{algorithm}:" + base64.b64encode(b"".join(digests)).decode()


def header_of(path):
    data = Path(path).read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def test_the_vectors_of_the_document():
    rows = re.findall(r"^\| (sha256|xxh3-128) \| (.*?) \| `(\w+)` \|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    assert len(rows) == 9
    for algorithm, what, digest in rows:
        h = ALGORITHMS[algorithm]
        if what == "the content":
            assert content_digest(h, TENSORS).hex() == digest
            continue
        kind, name = re.fullmatch(r"(d|r) of `(.+)`", what).groups()
        expected = h(TENSORS[name][2]) if kind == "d" else tensor_digest(h, name, *TENSORS[name])
        assert expected.hex() == digest


@pytest.mark.parametrize(("option", "algorithm"), [("sha256", "sha256"), ("xxh3", "xxh3-128")])
@pytest.mark.parametrize("way", ["convert", "write"])
def test_what_a_file_records(tmp_path, option, algorithm, way):
    h = ALGORITHMS[algorithm]
    source = make(tmp_path / "model.safetensors", TENSORS, {"format": "pt", "née": "\u0001 \"quoted\" \\ é"})
    recorded = tmp_path / "recorded.safetensors"
    if way == "convert":
        subprocess.run([CLI, "convert", "-q", source, "-o", recorded, "--digest", option], check=True)
    else:
        recorded.write_bytes(Path(source).read_bytes())
        subprocess.run([CLI, "hash", "-q", "--write", "-a", option, recorded], check=True)
    metadata = header_of(recorded)["__metadata__"]
    assert metadata["coffer.digests"] == text(algorithm, records(h, TENSORS))
    assert metadata["coffer.metadata_digest"] == text(algorithm, [metadata_digest(h, metadata)])
    subprocess.run([CLI, "meta", "-q", recorded, "--set", "licence=none", "--unset", "format"], check=True)
    metadata = header_of(recorded)["__metadata__"]
    assert metadata["licence"] == "none"
    assert metadata["coffer.metadata_digest"] == text(algorithm, [metadata_digest(h, metadata)])
    assert subprocess.run([CLI, "verify", "-q", recorded], check=False).returncode == 0


def test_other_tensors_of_the_same_bytes_have_another_content(tmp_path):
    """Name, dtype and shape are content; order, metadata and format are not."""
    def content(name, tensors, metadata=None):
        path = make(tmp_path / name, tensors, metadata)
        line = subprocess.run([CLI, "hash", "--content", path], capture_output=True, check=True, text=True).stdout
        return line.split()[0]

    plain = content("plain", TENSORS)
    assert plain == content_digest(sha256, TENSORS).hex()
    assert content("turned", dict(reversed(TENSORS.items())), {"format": "pt"}) == plain
    others = [
        {**{k: v for k, v in TENSORS.items() if k != "a"}, "A": TENSORS["a"]},
        {**TENSORS, "a": ("I32", [2, 3], bytes(range(24)))},
        {**TENSORS, "a": ("F32", [3, 2], bytes(range(24)))},
        {**TENSORS, "a": ("F32", [6], bytes(range(24)))},
        {**TENSORS, "empty": ("BF16", [4, 0], b"")},
        {**TENSORS, "more": ("BF16", [0], b"")},
        {**TENSORS, "a": ("F32", [2, 3], bytes(range(23)) + b"\x16")},
    ]
    digests = [content(f"other{i}", tensors) for i, tensors in enumerate(others)]
    assert len({plain, *digests}) == len(others) + 1
