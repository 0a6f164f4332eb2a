# SPDX-License-Identifier: Apache-2.0
"""coffer.open: the mapping, what it says of a file, and how it shows it."""

from __future__ import annotations

import html.parser
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import array_file, file_bytes

import coffer


def test_is_a_mapping_in_the_order_of_names(path, arrays):
    with coffer.open(path) as f:
        assert list(f) == sorted(arrays) == list(f.keys())
        assert len(f) == 5 and "cube" in f and "tube" not in f and 3 not in f and "\ud800" not in f
        assert {name: tensor.shape for name, tensor in f.items()} == {n: a.shape for n, a in arrays.items()}
        assert [tensor.name for tensor in f.values()] == sorted(arrays)
        assert f.get("tube") is None
        with pytest.raises(KeyError) as caught:
            f["tube"]
        assert isinstance(caught.value, coffer.Error) and caught.value.code == "NO_TENSOR"


def test_says_what_the_header_says(path):
    with coffer.open(path) as f:
        assert f.metadata == {"made by": "conftest"}
        assert f.path == str(path)
        assert f.nbytes == 3 * 4 * 5 * 8 + 6 * 8 * 4 + 2 + 31


def test_without_metadata(tmp_path):
    assert coffer.open(file_bytes([])).metadata == {}
    assert coffer.open(file_bytes([], {})).metadata == {}


@pytest.mark.parametrize("kind", ["str", "path", "fd", "bytes", "bytearray", "memoryview", "mmap"])
def test_opens_whatever_holds_a_file(path, arrays, kind):
    import mmap

    with path.open("rb") as file:
        content = path.read_bytes()
        source = {
            "str": lambda: str(path),
            "path": lambda: path,
            "fd": file.fileno,
            "bytes": lambda: content,
            "bytearray": lambda: bytearray(content),
            "memoryview": lambda: memoryview(content),
            "mmap": lambda: mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
        }[kind]()
        f = coffer.open(source)
    del source, content
    assert f.path == (str(path) if kind in ("str", "path") else None)
    for name, array in arrays.items():
        assert np.array_equal(f[name].numpy(), array)


@pytest.mark.parametrize("access", ["auto", "map", "private", "read"])
def test_every_access_gives_the_same(path, arrays, access):
    with coffer.open(path, access=access, populate=True) as f:
        for name, array in arrays.items():
            assert f[name].tobytes() == array.tobytes()
            assert np.array_equal(f[name].numpy(), array)


def test_a_closed_file_says_so(path):
    f = coffer.open(path)
    f.close()
    f.close()
    assert f.closed
    for use in (lambda: f["cube"], lambda: len(f), lambda: list(f), lambda: "cube" in f, lambda: f.metadata, lambda: f.nbytes):
        with pytest.raises(coffer.Error, match="the file is closed") as caught:
            use()
        assert caught.value.code == "ARGUMENT" and isinstance(caught.value, ValueError)
    assert repr(f) == "<coffer.File model.safetensors: closed>" == str(f)
    assert f._repr_html_() == "&lt;coffer.File model.safetensors: closed&gt;"


def test_shows_itself(path):
    f = coffer.open(path)
    assert repr(f) == "<coffer.File model.safetensors: 5 tensors, 705 bytes>"
    assert str(f).splitlines() == [
        "model.safetensors: 5 tensors, 705 bytes",
        "bytes   U8   31          31 bytes",
        "cube    I64  3 × 4 × 5  480 bytes",
        "empty   F32  0 × 3        0 bytes",
        "matrix  F32  6 × 8      192 bytes",
        "scalar  F16  scalar       2 bytes",
    ]
    assert repr(f["cube"]) == "<coffer.Tensor 'cube': I64 (3, 4, 5)>"
    assert repr(f["cube"][0]) == "<coffer.Tensor part of 'cube': I64 (4, 5)>"


class Cells(html.parser.HTMLParser):
    """The tables of a text of HTML, as rows of cells, the text outside, and the elements that are there."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.outside, self.tags, self.where = [], "", set(), "p"
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.where = tag
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, text):
        if self.where in ("td", "th"):
            self.tables[-1][-1][-1] += text
        else:
            self.outside += text


TAGS = {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}


def test_shows_itself_in_a_notebook(path):
    shown = Cells(coffer.open(path)._repr_html_())
    assert shown.outside == "model.safetensors: safetensors, 5 tensors, 140 parameters, 705 bytes"
    assert shown.tables == [
        [
            ["dtype", "tensors", "parameters", "size"],
            ["I64", "1", "60", "480 bytes"],
            ["F32", "2", "48", "192 bytes"],
            ["U8", "1", "31", "31 bytes"],
            ["F16", "1", "1", "2 bytes"],
        ],
        [
            ["tensor", "dtype", "shape", "size"],
            ["bytes", "U8", "31", "31 bytes"],
            ["cube", "I64", "3 × 4 × 5", "480 bytes"],
            ["empty", "F32", "0 × 3", "0 bytes"],
            ["matrix", "F32", "6 × 8", "192 bytes"],
            ["scalar", "F16", "scalar", "2 bytes"],
        ],
    ]
    assert Cells(coffer.open(array_file({}))._repr_html_()).outside == "in memory: safetensors, 0 tensors, 0 parameters, 0 bytes"


def test_several_files_are_counted_in_a_notebook(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(array_file({name: np.zeros(1, np.uint8)}))
    index = {"weight_map": {name: f"{name}.safetensors" for name in "ab"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    shown = Cells(coffer.open(tmp_path)._repr_html_())
    assert shown.outside == f"{tmp_path.name}: safetensors, 2 files, 2 tensors, 2 parameters, 2 bytes"


HOSTILE = ["</td></table><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "'\"&lt;", "a\x1b[31m\u202eb\x00\u2028", "<" * 10**6]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_text_in_a_notebook(name, tmp_path):
    dtype = name.replace("\x00", "")[:200]
    tensor = {"dtype": dtype, "shape": [2, *[1] * 99] if name == HOSTILE[0] else [2], "data_offsets": [0, 2]}
    header = json.dumps({name: tensor}).encode()
    path = tmp_path / f"<b>{name[:50].replace('/', '')}".replace("\x00", "")
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"xy")
    f = coffer.open(path, unknown_dtypes=True)
    text = f._repr_html_()
    shown = Cells(text)
    assert shown.tags == TAGS and len(text) < 3000
    assert "b&gt;" in text and shown.outside.startswith("<b>")
    assert shown.tables[0][1][0].isprintable() and all(cell.isprintable() for cell in shown.tables[1][1])
    assert str(f).isprintable() or str(f).replace("\n", "").isprintable()
    if name.isprintable() and len(name) < 100:
        assert shown.tables[1][1][:2] == [name, name]
    else:
        assert len(shown.tables[1][1][0]) < 200


def test_the_signature_of_a_url_is_not_shown():
    class Far:  # what File asks of its model; the network has tests of its own
        path, format, closed, shards = "https://host/a/m.safetensors?X-Signature=secret#x", "safetensors", False, [""]

        def __len__(self):
            return 0

        def infos(self):
            return []

    f = coffer.File(Far())
    assert repr(f) == "<coffer.File m.safetensors: 0 tensors, 0 bytes>"
    assert "secret" not in f._repr_html_() + str(f)


def test_html_is_escaped(tmp_path):
    f = coffer.open(array_file({"<script>": np.zeros(3, np.float32), "a\x1b[2J": np.zeros(1, np.uint8)}))
    shown = f._repr_html_()
    assert "&lt;script&gt;" in shown and "<script>" not in shown
    assert "\x1b" not in shown and "\x1b" not in str(f) and "a\\x1b[2J" in str(f)


def test_many_tensors_are_not_all_shown():
    f = coffer.open(array_file({f"t{i:04}": np.zeros(1, np.uint8) for i in range(1500)}))
    assert len(str(f).splitlines()) == 202 and str(f).endswith("… and 1,300 more")
    shown = Cells(f._repr_html_())
    assert [row[0] for row in shown.tables[1]] == ["tensor", *(f"t{i:04}" for i in range(20))]
    assert shown.outside.endswith("… and 1,480 more tensors")
    assert "1,500 tensors" in repr(f)


def test_a_notebook_needs_no_data_of_a_model_of_any_size(tmp_path):
    """They are gone when it is asked to show itself."""
    each = 10**8
    spans = {f"t{i:05}": {"dtype": "F32", "shape": [each // 4], "data_offsets": [i * each, (i + 1) * each]} for i in range(30000)}
    header = json.dumps(spans).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + 30000 * each)
    f = coffer.open(path)
    os.truncate(path, 8 + len(header))
    shown = Cells(f._repr_html_())
    assert shown.outside.startswith("m.safetensors: safetensors, 30,000 tensors, 750,000,000,000 parameters, 3.0 TB")
    assert len(shown.tables[1]) == 21 and shown.outside.endswith("… and 29,980 more tensors")


@pytest.mark.parametrize("wrong", [None, 3.5, ["a"], object()])
def test_what_is_no_file_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        coffer.open(wrong)


@pytest.mark.parametrize("wrong", [-1, 1 << 40])
def test_what_is_no_descriptor_is_a_value_error(wrong):
    with pytest.raises((ValueError, OverflowError)):
        coffer.open(wrong)


def test_wrong_options(path):
    with pytest.raises(coffer.Error, match='access is "auto"') as caught:
        coffer.open(path, access="mmap")
    assert caught.value.code == "ARGUMENT"
    with pytest.raises(TypeError):
        coffer.open(path, "map")
    with pytest.raises(coffer.Error) as caught:
        coffer.open(path, max_header_size=100)
    assert caught.value.code == "HEADER_TOO_LARGE"


def test_a_path_with_a_nul(tmp_path):
    with pytest.raises(ValueError, match="null byte"):
        coffer.open("a\0b")


def test_unknown_dtypes_are_listed_when_asked_for():
    content = file_bytes([("x", "F3_NEW", (2,), b"abc")])
    with pytest.raises(coffer.Error) as caught:
        coffer.open(content)
    assert caught.value.code == "DTYPE"
    tensor = coffer.open(content, unknown_dtypes=True)["x"]
    assert (tensor.dtype, tensor.shape, tensor.nbytes, tensor.tobytes()) == ("F3_NEW", (2,), 3, b"abc")


def test_a_name_of_bytes_that_are_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.safetensors"
    Path(os.fsdecode(name)).write_bytes(file_bytes([]))
    assert len(coffer.open(os.fsdecode(name))) == 0
    with pytest.raises(FileNotFoundError) as caught:
        coffer.open(os.fsdecode(name) + "x")
    assert caught.value.path == os.fsdecode(name) + "x"


def test_reads_what_is_not_mapped_from_a_pipe_not_at_all():
    read, write = os.pipe()
    with io.open(read, "rb"), io.open(write, "wb"), pytest.raises(OSError, match="pipe") as caught:
        coffer.open(read)
    assert caught.value.code == "NOT_REGULAR"


def test_files_are_not_compared(path):
    """Their tensors would have to be read for that: == said that no two were equal, not even one and itself opened again."""
    one, other = coffer.open(path), coffer.open(path)
    assert one == one and one != 3 and one != None and len({one, one, other}) == 2  # noqa: E711
    for wrong in (other, dict(other), {}):
        with pytest.raises(TypeError, match=r"coffer.diff\(a, b\) tells how they differ"):
            one == wrong  # noqa: B015
