# SPDX-License-Identifier: Apache-2.0
"""coffer.bintensors and its numpy module do what the package bintensors does, but for documented deviations.

Each deviation has an id; docs/format.md describes it.
"""

from __future__ import annotations

import hashlib
import inspect
import pathlib
import re
import struct
import subprocess
import sys

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from both import BT_COFFER, BT_REFERENCE, Raised, outcome
from hypothesis import given, settings

import coffer

LIMITS = settings(max_examples=300, deadline=None, database=None, derandomize=True)
SIDES = (BT_REFERENCE, BT_COFFER)

SIZES = {"bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "int16": 2, "uint16": 2, "float16": 2,
         "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "float64": 8, "int64": 8, "uint64": 8}  # fmt: skip


def both(call, *arguments):
    return [outcome(call, side, *arguments) for side in SIDES]


def assert_same(call, *arguments):
    theirs, ours = both(call, *arguments)
    assert ours == theirs


def assert_same_but_for_the_words_of_a_type_error(call, *arguments):
    """P1."""
    theirs, ours = both(call, *arguments)
    if theirs.kind == "TypeError":
        assert ours.kind == "TypeError"
    else:
        assert ours == theirs


# ---- Names ------------------------------------------------------------------------------------------------------------


def test_every_name_is_there():
    theirs, ours = (set(dir(side.package)) for side in SIDES)
    assert {name for name in theirs if not name.startswith("_")} <= ours
    assert BT_COFFER.package.__version__ == BT_REFERENCE.package.__version__


@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_every_function_is_there_with_its_parameters(module):
    theirs, ours = (side.module(module) for side in SIDES)
    for name in theirs.__all__:
        wanted, there = (list(inspect.signature(getattr(side, name)).parameters.items()) for side in (theirs, ours))
        assert [key for key, _ in there[: len(wanted)]] == [key for key, _ in wanted], name
        assert [value.default for _, value in there[: len(wanted)]] == [value.default for _, value in wanted], name


def test_every_attribute_is_there():
    theirs, ours = (side.package.safe_open for side in SIDES)
    assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))


# ---- serialize, serialize_file, deserialize ---------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name != "__metadata__")
METADATA = st.none() | st.dictionaries(NAMES, NAMES, max_size=3)


@st.composite
def tensors(draw):
    found = {}
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        dtype, shape = draw(st.sampled_from(sorted(SIZES))), draw(st.lists(st.integers(0, 3), max_size=3))
        size = int(np.prod(shape)) * SIZES[dtype]
        found[name] = {"dtype": dtype, "shape": shape, "data": draw(st.binary(min_size=size, max_size=size))}
    return found


@LIMITS
@given(wanted=tensors(), metadata=METADATA)
def test_serialize_writes_the_same_bytes(wanted, metadata, tmp_path_factory):
    theirs, ours = both(lambda side: side.package.serialize(wanted, metadata))
    assert ours == theirs and isinstance(ours, bytes)
    path = tmp_path_factory.getbasetemp() / "written"
    BT_COFFER.package.serialize_file(path, wanted, metadata)
    assert path.read_bytes() == ours


@LIMITS
@given(wanted=tensors(), metadata=METADATA)
def test_both_read_the_same(wanted, metadata, tmp_path_factory):
    content = BT_REFERENCE.package.serialize(wanted, metadata)
    theirs, ours = both(lambda side: side.package.deserialize(content))
    assert sorted(ours) == sorted(theirs)
    path = tmp_path_factory.getbasetemp() / "read"
    path.write_bytes(content)

    def said(side):
        with side.package.safe_open(path, "np") as f:
            slices = [f.get_slice(name) for name in f.keys()]
            return f.keys(), f.offset_keys(), f.metadata(), [(part.get_shape(), part.get_dtype()) for part in slices]

    assert_same(said)
    assert [name for name, _ in ours] == said(BT_COFFER)[1]


ONE = {"dtype": "float32", "shape": [2], "data": bytes(8)}


@pytest.mark.parametrize("changes", [
    {"data": b"x"}, {"dtype": "float33"}, {"dtype": "F32"}, {"dtype": "complex64"}, {"dtype": "float8_e8m0fnu"}, {"dtype": 3},
    {"shape": "2"}, {"shape": 2}, {"shape": (2,)}, {"shape": [2.0]}, {"shape": [-2]}, {"shape": [2**64]}, {"shape": [2**63, 4]},
    {"shape": [2**40, 2**40, 0]}, {"data": bytearray(8)}, {"data": "x"}, {"data": None}, {"more": 1},
], ids=repr)  # fmt: skip
def test_serialize_fails_as_the_reference_does(changes, tmp_path):
    for call in (
        lambda side: side.package.serialize({"a": {**ONE, **changes}}),
        lambda side: side.package.serialize_file(tmp_path / "x", {"a": {**ONE, **changes}}),
    ):
        theirs, ours = both(call)
        if isinstance(theirs, Raised):
            assert_same_but_for_the_words_of_a_type_error(call)
        else:
            assert ours == theirs


@pytest.mark.parametrize("missing", ["dtype", "shape", "data"])
def test_what_is_missing_is_named(missing):
    assert_same(lambda side: side.package.serialize({"a": {key: value for key, value in ONE.items() if key != missing}}))


@pytest.mark.parametrize(("wanted", "metadata"), [
    ([], None), (None, None), ({"a": []}, None), ({1: ONE}, None), ({}, []), ({}, {"a": 1}), ({}, {1: "a"}), ({"\ud800": ONE}, None),
], ids=repr)  # fmt: skip
def test_wrong_calls(wanted, metadata, tmp_path):
    assert_same_but_for_the_words_of_a_type_error(lambda side: side.package.serialize(wanted, metadata))
    assert_same_but_for_the_words_of_a_type_error(lambda side: side.package.serialize_file(tmp_path / "x", wanted, metadata))


def test_a_file_that_cannot_be_written(tmp_path):
    """P2: what the system said is in our words."""
    for path in (tmp_path, tmp_path / "none" / "x"):
        theirs, ours = both(lambda side: side.package.serialize_file(path, {"a": ONE}))
        assert ours.begins_as(theirs, "Error while seralizing IoError(")


def test_a_save_takes_the_place_of_the_old_file_when_it_is_complete(tmp_path):
    """P3."""
    (tmp_path / "x").write_bytes(b"old")
    with (tmp_path / "x").open("rb") as old:
        BT_COFFER.package.serialize_file(tmp_path / "x", {"a": ONE})
        assert old.read() == b"old"
    assert_same(lambda side: [side.package.serialize_file(tmp_path / "x", {"a": ONE}), (tmp_path / "x").read_bytes()])


def test_a_tensor_named_metadata(tmp_path):
    """P4: it is read, but not written."""
    content = BT_REFERENCE.package.serialize({"__metadata__": ONE})
    assert_same(lambda side: side.package.deserialize(content))
    assert outcome(BT_COFFER.package.serialize, {"__metadata__": ONE}).kind == "BintensorError"


# ---- Files that are not right -----------------------------------------------------------------------------------------

GOOD = BT_REFERENCE.package.serialize({"a": ONE, "b": {"dtype": "uint8", "shape": [3], "data": b"abc"}}, {"k": "v"})


def framed(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


BAD = {
    "empty": b"", "7 bytes": GOOD[:7], "8 bytes": GOOD[:8], "half a header": GOOD[:20], "a byte missing": GOOD[:-1],
    "a byte too many": GOOD + b"x", "a length of its own": b"\xff" * 20, "a hole": framed(b"\0\1\1a\1\1\1\1\2", b"xx"),
    "an overlap": framed(b"\0\2\1a\1\1\1\0\1\1b\1\1\1\0\1", b"x"), "a wrong size": framed(b"\0\1\1a\1\1\2\0\1", b"x"),
    "twice": framed(b"\0\2\1a\1\1\1\0\1\1a\1\1\1\1\2", b"xx"), "backwards": framed(b"\0\1\1a\1\1\0\1\0", b""),
    "too large": framed(b"\0\1\1a\1\2\xfd" + b"\xff" * 8 + b"\2\0\1", b"x"),
}  # fmt: skip
UNREADABLE = {
    "no header": framed(b""), "zeros": bytes(24), "no tensors": framed(b"\0"), "no option": framed(b"\2"), "no text": framed(b"\0\1\1\xff\1\0\0\1", b"x"),
    "no dtype": framed(b"\0\1\1a\x0f\0\0\1", b"x"), "no number": framed(b"\0\xff"), "safetensors": framed(b'{"a":1}'),
}  # fmt: skip


def ways(content, path):
    path.write_bytes(content)
    return (
        lambda side: side.package.deserialize(content),
        lambda side: side.package.safe_open(path, "np"),
        lambda side: side.module("numpy").load(content),
        lambda side: side.module("numpy").load_file(path),
    )


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_the_same_is_refused_with_the_same_words(content, tmp_path):
    for call in ways(content, tmp_path / "x"):
        theirs, ours = both(call)
        assert isinstance(ours, Raised) and ours == theirs


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_decoded(content, tmp_path):
    """P5: where and why is in our words. safetensors is refused too: what a file is does not depend on who reads it."""
    for call in ways(content, tmp_path / "x"):
        theirs, ours = both(call)
        if not (isinstance(theirs, Raised) and "HeaderTooSmall" in theirs.text):
            assert ours.begins_as(theirs, "DecoderError(")


def test_the_library_s_error_is_the_cause(tmp_path):
    with pytest.raises(coffer.bintensors.BintensorError) as raised:
        BT_COFFER.package.deserialize(GOOD[:-1])
    assert raised.value.__cause__.code == "DATA_TRUNCATED"
    assert raised.value.__cause__.expected == len(GOOD)


def test_drop_ins_refuse_each_other_s_files(tmp_path):
    (tmp_path / "x").write_bytes(GOOD)
    with pytest.raises(coffer.SafetensorError, match="invalid JSON in header"):
        coffer.compat.safetensors.safe_open(tmp_path / "x", "np")
    with coffer.open(tmp_path / "x") as f:
        assert f.format == "bintensors" and list(f) == ["a", "b"]
    with pytest.raises(coffer.Error, match="not valid JSON"):
        coffer.open(tmp_path / "x", format="safetensors")


# ---- safe_open --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    BT_REFERENCE.module("numpy").save_file({"a": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "s": np.array(3.0)}, tmp_path / "x")
    return tmp_path / "x"


@pytest.mark.parametrize("arguments", [("np",), ("numpy", "cpu"), ("x",), ("np", "foo"), ("np", "cuda:"), ("np", "cuda:x"), ("np", 1.0), ("np", -1)], ids=repr)
def test_arguments(arguments, path):
    assert_same(lambda side: side.package.safe_open(path, *arguments).keys())


@pytest.mark.parametrize("arguments", [(), ("np",), (b"x", "np"), (3, "np"), ("none", "np"), ("none", 3)], ids=repr)
def test_wrong_arguments(arguments):
    assert_same_but_for_the_words_of_a_type_error(lambda side: side.package.safe_open(*arguments))


def test_more_frameworks_and_devices(path):
    """P6."""
    theirs, ours = both(lambda side: side.package.safe_open(path, "np", "cuda:1"))
    assert ours.kind == theirs.kind == "BintensorError" and ours.begins_as(theirs, "Device ")
    assert outcome(BT_REFERENCE.package.safe_open, path, "pt", "musa").text == "device musa is invalid"
    assert BT_COFFER.package.safe_open(path, "pt", "musa").keys() == ["a", "s"]


def test_what_cannot_be_opened(tmp_path):
    """P7: theirs is a FileNotFoundError for many of them."""
    for name, kind in ((tmp_path, "SystemFailure"), ("/dev/null", "SystemFailure"), ("a\0b", "ValueError")):
        theirs, ours = both(lambda side, name=name: side.package.safe_open(name, "np"))
        assert theirs.kind in ("OSError", "FileNotFoundError") and ours.kind in ("OSError", kind)


def test_no_such_tensor_and_closed_files(path):
    def calls(side):
        f = side.package.safe_open(path, "np")
        found = [outcome(call) for call in (lambda: f.get_tensor("b"), lambda: f.get_slice("b"), lambda: f.get_tensor(name="a"))]
        part = f.get_slice("a")
        with f as entered:
            assert entered is f
        closed = (f.keys, f.offset_keys, f.metadata, lambda: f.get_tensor("a"), lambda: f.get_slice("a"))
        return found, [outcome(call) for call in closed], outcome(lambda: part[0])

    theirs, ours = (calls(side) for side in SIDES)
    assert ours == theirs
    assert all(raised == Raised("BintensorError", "File is closed") for raised in ours[1])


@pytest.mark.parametrize("index", [0, 1, -1, (0, 1, 2), slice(0, 1), slice(1, 1), slice(0, 0), (slice(None), slice(1, 3)),
                                   (slice(None), 1, slice(1, 2)), (), [], True, np.int64(1), (-2, -3, -4)], ids=repr)  # fmt: skip
def test_slices(index, path):
    assert_same(lambda side: side.package.safe_open(path, "np").get_slice("a")[index])


@pytest.mark.parametrize("index", [2, -3, (0, 1, 5), slice(0, 9), [0], slice(2, 1), slice(None, 2**70)], ids=repr)
def test_slices_beyond_the_end(index, path):
    """P8: behind the shape the words are ours."""
    theirs, ours = both(lambda side: side.package.safe_open(path, "np").get_slice("a")[index])
    assert ours.begins_as(theirs, "with shape [2, 3, 4]: ") if "shape" in theirs.text else ours == theirs


@pytest.mark.parametrize("index", [..., (..., 0), slice(None, None, 2), (slice(None), slice(None, None, 3)), slice(-1, None), slice(None, -1)], ids=repr)
def test_slices_that_the_reference_gets_wrong(index, path):
    """P9: it knows no ellipsis, takes no bound that counts from the end, and leaves out the step."""
    ours = BT_COFFER.package.safe_open(path, "np").get_slice("a")[index]
    assert np.array_equal(ours, np.arange(24, dtype=np.float32).reshape(2, 3, 4)[index])
    theirs = outcome(lambda: BT_REFERENCE.package.safe_open(path, "np").get_slice("a")[index])
    assert isinstance(theirs, Raised) or theirs[2] == (2, 3, 4)


@pytest.mark.parametrize("index", [(0, 1, 2, 3), (slice(None),) * 4], ids=repr)
def test_too_many_indices(index, path):
    """P9: it leaves out what is too many; of a scalar, every index."""
    part = BT_COFFER.package.safe_open(path, "np").get_slice("a")
    with pytest.raises(coffer.bintensors.BintensorError, match="more slicing indexes than dimensions"):
        part[index]
    assert not isinstance(outcome(lambda: BT_REFERENCE.package.safe_open(path, "np").get_slice("a")[index]), Raised)


# ---- numpy ------------------------------------------------------------------------------------------------------------


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(sorted(set(SIZES) - {"bfloat16", "float8_e5m2", "float8_e4m3fn"}))))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    array = np.frombuffer(draw(st.binary(min_size=dtype.itemsize * 27, max_size=dtype.itemsize * 27)), np.uint8)
    array = (array & 1 if dtype == np.bool_ else array).view(dtype)[: int(np.prod(shape))].reshape(shape)
    if dtype.kind in "iuf" and draw(st.booleans()):
        array = array.astype(dtype.newbyteorder(">"))
    return array.T if draw(st.booleans()) else array


@LIMITS
@given(wanted=st.dictionaries(NAMES, arrays(), max_size=3), metadata=METADATA)
def test_numpy(wanted, metadata, tmp_path_factory):
    assert_same(lambda side: side.module("numpy").save(wanted, metadata))
    for hasher in (hashlib.sha1, hashlib.sha256):
        assert_same(lambda side, hasher=hasher: side.module("numpy").save_with_checksum(wanted, metadata, hasher))
    path = tmp_path_factory.getbasetemp() / "numpy"
    BT_COFFER.module("numpy").save_file(wanted, path, metadata)
    assert_same(lambda side: side.module("numpy").load(path.read_bytes()))
    assert_same(lambda side: side.module("numpy").load_file(path))
    assert all(array.flags.writeable for array in BT_COFFER.module("numpy").load_file(path).values())


def test_the_checksum_is_that_of_the_file():
    digest, content = BT_COFFER.module("numpy").save_with_checksum({"a": np.zeros(3)})
    assert digest == hashlib.sha1(content).digest()
    assert_same_but_for_the_words_of_a_type_error(
        lambda side: side.module("numpy").save_with_checksum({"a": np.zeros(3)}, hasher=hashlib.shake_128)
    )


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_the_reference_reads_as_others(name, tmp_path):
    """P10: it takes them for float64, or fails."""
    array = np.arange(8).astype(getattr(ml_dtypes, name))
    ours = BT_COFFER.module("numpy")
    content = ours.save({"a": array})
    assert content == BT_REFERENCE.module("numpy").save({"a": array})
    assert isinstance(outcome(BT_REFERENCE.module("numpy").load, content), Raised)
    ours.save_file({"a": array}, tmp_path / "x")
    for loaded in (ours.load(content), ours.load_file(tmp_path / "x")):
        assert loaded["a"].dtype == array.dtype and loaded["a"].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "S16", "O", "M8[s]"])
def test_dtypes_that_it_lacks(dtype):
    assert_same(lambda side: side.module("numpy").save({"a": np.zeros(2, dtype)}))


@pytest.mark.parametrize("wanted", [None, [np.zeros(2)], {"a": 3}, {"a": None}, {1: np.zeros(2)}], ids=repr)
def test_what_cannot_be_saved(wanted, tmp_path):
    assert_same_but_for_the_words_of_a_type_error(lambda side: side.module("numpy").save(wanted))
    assert_same_but_for_the_words_of_a_type_error(lambda side: side.module("numpy").save_file(wanted, tmp_path / "x"))


# ---- In its place -----------------------------------------------------------------------------------------------------


def test_the_drop_in(tmp_path):
    (tmp_path / "script.py").write_text("""
import importlib.metadata, importlib.util, subprocess, sys
import bintensors, bintensors.numpy
from bintensors import BintensorError, safe_open
from bintensors._bintensors_rs import serialize
import coffer.bintensors.numpy
assert bintensors.numpy is coffer.bintensors.numpy and safe_open is coffer.bintensors.safe_open and serialize is bintensors.serialize
assert bintensors.__spec__.name == "bintensors" and "coffer" in importlib.util.find_spec("bintensors").origin
assert importlib.metadata.version("bintensors") == bintensors.__version__
child = "import bintensors; print('ours' if 'coffer' in bintensors.__file__ else 'real')"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout, end="")
""")
    said = subprocess.run([sys.executable, "-m", "coffer.drop_in", tmp_path / "script.py"], capture_output=True, text=True, timeout=120)
    assert (said.stdout, said.stderr) == ("ours\n", "")


def test_too_late():
    said = subprocess.run([sys.executable, "-c", "import bintensors, coffer.drop_in"], capture_output=True, text=True, timeout=120)
    assert "ImportError: bintensors was imported before coffer.drop_in, from " in said.stderr


def test_every_deviation_is_documented_and_tested():
    text = (pathlib.Path(__file__).resolve().parents[4] / "docs" / "format.md").read_text()
    here = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_bintensors*.py"))
    assert set(re.findall(r"\b(P\d+)\b", here)) == set(re.findall(r"^\| (P\d+) \|", text, re.M))
