# SPDX-License-Identifier: Apache-2.0
"""serialize, serialize_file, deserialize, TensorSpec and safe_open do what the reference's do, but for documented deviations.

Each deviation has an id; docs/python.md describes it.
"""

from __future__ import annotations

import ctypes
import io
import os
import pathlib
import stat

import hypothesis.strategies as st
import numpy as np
import pytest
from both import BITS, COFFER, REFERENCE, Raised, Side, file_of, one_tensor, outcome
from hypothesis import given, settings

LIMITS = settings(max_examples=300, deadline=None, database=None, derandomize=True)

KEPT = ctypes.create_string_buffer(bytes(range(64)))
SPEC = {"dtype": "float32", "shape": [4], "data_ptr": ctypes.addressof(KEPT), "data_len": 16}


def spec_of(side: Side, **changes: object) -> object:
    return side.package.TensorSpec(**{**SPEC, **changes})


def both_outcomes(call, *arguments, **keywords):
    return outcome(call, REFERENCE, *arguments, **keywords), outcome(call, COFFER, *arguments, **keywords)


def assert_same(call, *arguments, **keywords):
    theirs, ours = both_outcomes(call, *arguments, **keywords)
    assert ours == theirs


# ---- Names ------------------------------------------------------------------------------------------------------------


def test_every_name_is_there():
    """_safetensors_rust is put there by the drop-in: test_names.py."""
    theirs = {name for name in dir(REFERENCE.package) if not name.startswith("__")} - {"_safetensors_rust"}
    assert theirs <= set(dir(COFFER.package))
    assert COFFER.package.__version__ == REFERENCE.package.__version__


@pytest.mark.parametrize("kind", ["safe_open", "_safe_open_handle", "TensorSpec"])
def test_every_attribute_is_there(kind):
    theirs, ours = (set(dir(getattr(side.package, kind))) for side in (REFERENCE, COFFER))
    assert {name for name in theirs if not name.startswith("__")} <= ours


# ---- TensorSpec -------------------------------------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), st.text("aF3_<.", max_size=4), st.binary(max_size=4)
)
DTYPE_NAMES = st.sampled_from([*BITS, *map(str.lower, BITS), "float32", "bool", "bfloat16", "complex64", "float4_e2m1fn_x2"])


def attributes(side: Side, **changes: object) -> tuple[object, ...]:
    spec = spec_of(side, **changes)
    return spec.dtype, spec.shape, spec.data_ptr, spec.data_len, repr(spec)


@LIMITS
@given(changes=st.fixed_dictionaries({}, optional={
    "dtype": DTYPE_NAMES | ANYTHING,
    "shape": st.lists(st.integers(0, 9) | ANYTHING, max_size=3) | ANYTHING.filter(lambda value: not isinstance(value, bytes)),
    "data_ptr": ANYTHING,
    "data_len": ANYTHING,
}))  # fmt: skip
def test_tensor_spec(changes):
    theirs, ours = both_outcomes(attributes, **changes)
    if isinstance(ours, Raised) and len(changes) > 1:
        assert isinstance(theirs, Raised)  # several are wrong: which of them is named may differ
    else:
        assert ours == theirs


def test_tensor_spec_is_by_keyword_and_cannot_be_pickled():
    import pickle

    for side in (REFERENCE, COFFER):
        with pytest.raises(TypeError):
            side.package.TensorSpec(*SPEC.values())
        with pytest.raises(TypeError, match="missing 1 required keyword"):
            side.package.TensorSpec(dtype="float32", shape=[4], data_ptr=1)
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(spec_of(side))
        with pytest.raises(AttributeError):
            spec_of(side).dtype = "F16"


# ---- serialize, serialize_file ----------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name != "__metadata__")
METADATA = st.none() | st.dictionaries(NAMES, NAMES, min_size=1, max_size=1)
SIZES = {"bool": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float8_e5m2": 1, "complex64": 8, "int64": 8}
SHAPES = st.lists(st.integers(0, 2), max_size=3)


@st.composite
def tensors(draw):
    """Arguments of TensorSpec by name."""
    found = {}
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        dtype, shape = draw(st.sampled_from(sorted(SIZES))), draw(SHAPES)
        found[name] = {"dtype": dtype, "shape": shape, "data_len": int(np.prod(shape)) * SIZES[dtype]}
    return found


def serialized(side, wanted, metadata):
    return side.package.serialize({name: spec_of(side, **spec) for name, spec in wanted.items()}, metadata)


@LIMITS
@given(wanted=tensors(), metadata=METADATA)
def test_serialize_writes_the_same_bytes(wanted, metadata):
    assert_same(serialized, wanted, metadata)


@LIMITS
@given(wanted=tensors(), metadata=METADATA)
def test_serialize_file_writes_the_same_bytes(wanted, metadata, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files", numbered=True)
    for side in (REFERENCE, COFFER):
        specs = {name: spec_of(side, **spec) for name, spec in wanted.items()}
        assert side.package.serialize_file(specs, folder / side.name, metadata) is None
    assert (folder / "coffer").read_bytes() == (folder / "safetensors").read_bytes()
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("metadata", [None, {}, {"k": "v"}], ids=repr)
def test_none_and_empty_metadata_are_not_the_same(metadata, tmp_path):
    def call(side):
        side.package.serialize_file({"a": spec_of(side)}, tmp_path / "x", metadata)
        return side.package.safe_open(tmp_path / "x", "np").metadata(), (tmp_path / "x").read_bytes()

    assert_same(call)


def test_empty_metadata_without_a_tensor():
    """W4: what the reference writes then is not JSON, and it cannot read it."""
    assert isinstance(outcome(read, REFERENCE, serialized(REFERENCE, {}, {})), Raised)
    assert COFFER.package.deserialize(serialized(COFFER, {}, {})) == []


def test_metadata_of_several_keys_are_the_same_and_sorted():
    """W1: the reference writes them in an order of chance."""
    metadata = {"b": "1", "a": "2", "c": "3"}
    ours = serialized(COFFER, {}, metadata)
    assert ours[8:].rstrip() == b'{"__metadata__":{"a":"2","b":"1","c":"3"}}'
    assert len(serialized(REFERENCE, {}, metadata)) == len(ours)


BAD_CALLS = {
    "a list": ([1],),
    "None": (None,),
    "bytes": ({"a": b""},),
    "metadata a list": ({}, [1]),
    "metadata of ints": ({}, {"a": 1}),
    "metadata by ints": ({}, {1: "a"}),
    "metadata of None": ({}, {"a": None}),
    "a surrogate": ({}, {"\ud800": "a"}),
}


@pytest.mark.parametrize("arguments", BAD_CALLS.values(), ids=BAD_CALLS)
def test_serialize_of_what_it_is_not_for(arguments):
    assert_same(lambda side: side.package.serialize(*arguments))
    assert_same(lambda side: side.package.serialize_file(arguments[0], "unused", *arguments[1:]))


DESCRIBED = {"dtype": "float32", "shape": [4], "data": bytes(range(16))}


@pytest.mark.parametrize("changes", [{}, {"dtype": "bool", "shape": (4, 4)}, {"dtype": "float4_e2m1fn_x2", "shape": [16]}], ids=str)
def test_tensors_as_dicts(changes, tmp_path):
    """As callers of releases up to 0.7 have them. The bytes are those of the same tensors as specs."""
    described = {"a": {**DESCRIBED, **changes}, "b": DESCRIBED}
    specs = {"a": spec_of(COFFER, **changes), "b": spec_of(COFFER)}
    made = COFFER.package.serialize(described, {"k": "v"})
    assert made == COFFER.package.serialize(specs, {"k": "v"})
    COFFER.package.serialize_file(described, tmp_path / "x", {"k": "v"})
    assert (tmp_path / "x").read_bytes() == made


NO_TENSORS = {
    "the format's name": ({**DESCRIBED, "dtype": "F32"}, "SafetensorError", "dtype F32 is not covered"),
    "a dtype that is no text": ({**DESCRIBED, "dtype": 1}, "TypeError", ""),
    "data that are no bytes": ({**DESCRIBED, "data": bytearray(16)}, "TypeError", ""),
    "a length below 0": ({**DESCRIBED, "shape": [-4]}, "OverflowError", ""),
    "too few bytes": (
        {**DESCRIBED, "data": b"1"}, "SafetensorError", "Error while serializing: invalid shape, data type, or offset for tensor",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tensor", "kind", "text"), NO_TENSORS.values(), ids=NO_TENSORS)
def test_dicts_that_are_no_tensors(tensor, kind, text):
    """With the exceptions and texts of 0.7."""
    ours = outcome(lambda: COFFER.package.serialize({"a": tensor}))
    assert ours.kind == kind and (not text or ours.text == text)


@pytest.mark.parametrize("left_out", DESCRIBED)
def test_dicts_that_describe_nothing(left_out):
    """Those of the reference's own test_simple.py, ReadmeTestCase.test_exception, too."""
    tensor = {key: value for key, value in DESCRIBED.items() if key != left_out}
    assert_same(lambda side: side.package.serialize({"test": tensor}))
    assert_same(lambda side: side.package.serialize_file({"test": {"dtype": "float32"}}, "unused"))
    assert outcome(lambda: COFFER.package.serialize({"test": tensor})).kind == "TypeError"


BAD_SPECS = {
    "too short": {"data_len": 12},
    "too long": {"data_len": 20},
    "empty": {"data_len": 0},
    "product overflows": {"shape": [2**33, 2**33]},
    "bits overflow": {"shape": [2**62]},
}


@pytest.mark.parametrize("changes", BAD_SPECS.values(), ids=BAD_SPECS)
def test_serialize_of_a_spec_that_does_not_fit(changes):
    assert_same(lambda side: side.package.serialize({"a": spec_of(side, **changes)}))


def test_names_that_are_no_text():
    assert_same(lambda side: spec_of(side, dtype="\ud800"))
    assert_same(lambda side: side.package.serialize({1: spec_of(side)}))
    assert_same(lambda side: side.package.serialize({"\ud800": spec_of(side)}))


def test_a_null_address_and_the_name_of_the_metadata_are_refused():
    """W2: the reference reads from address 0, and writes a file that cannot be read."""
    for changes, name in (({"data_ptr": 0}, "a"), ({}, "__metadata__")):
        ours = outcome(lambda: COFFER.package.serialize({name: spec_of(COFFER, **changes)}))
        assert ours.kind == "SafetensorError"


BAD_PATHS = [b"bytes", 3, None, "\ud800"]


@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_paths_that_are_no_paths(path):
    assert_same(lambda side: side.package.serialize_file({}, path))
    assert_same(lambda side: side.package.safe_open(path, "np"))


def test_a_folder_that_is_not_there(tmp_path):
    """W3: the reference names a temporary file, Coffer the one that was asked for."""
    theirs, ours = both_outcomes(lambda side: side.package.serialize_file({}, tmp_path / "none" / "x"))
    assert ours.begins_as(theirs, " at path ")
    assert str(tmp_path / "none" / "x") in ours.text


def test_a_failed_write_leaves_nothing_and_keeps_what_was_there(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(COFFER.package.SafetensorError):
        COFFER.package.serialize_file({"a": spec_of(COFFER, data_len=12)}, path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("x", b"old")]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_modes(umask, tmp_path):
    """W5: those of the reference are its temporary file's, which only its owner may read; Coffer's are those of other new files, and
    of the file that is replaced."""
    modes = {}
    before = os.umask(umask)
    try:
        for side in (REFERENCE, COFFER):
            path = tmp_path / side.name
            side.package.serialize_file({}, path)
            modes[side.name] = [stat.S_IMODE(path.stat().st_mode)]
            path.chmod(0o640)
            side.package.serialize_file({}, path)
            modes[side.name].append(stat.S_IMODE(path.stat().st_mode))
    finally:
        os.umask(before)
    assert modes == {"safetensors": [0o600, 0o600], "coffer": [0o666 & ~umask, 0o640]}


# ---- deserialize and opening ------------------------------------------------------------------------------------------


def opened(side, path, backend):
    f = side.package.safe_open(path, "np", backend=backend)
    return f.keys(), f.offset_keys(), f.metadata()


def read(side, content):
    return dict(side.package.deserialize(content))


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("shape", [[2, 4], [], [0, 3], [8]], ids=str)
def test_deserialize_every_dtype(dtype, shape):
    content = one_tensor(dtype, shape)
    assert_same(read, content)
    assert isinstance(COFFER.package.deserialize(one_tensor("U8", [1]))[0][1]["data"], bytearray)


@pytest.mark.parametrize("content", [bytearray(8), memoryview(b"12345678"), "text", None, [1, 2]], ids=lambda c: type(c).__name__)
def test_deserialize_takes_bytes_only(content):
    assert_same(read, content)


def entry(**changes):
    return {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}


BROKEN = {
    "empty": b"",
    "too short": b"1234567",
    "length 0": bytes(8),
    "zeros": bytes(100),
    "beyond the limit": (100_000_001).to_bytes(8, "little"),
    "far beyond": (2**64 - 1).to_bytes(8, "little") + b"{}",
    "header cut": file_of(b"{}")[:9],
    "header ends the file": file_of({"a": entry()}),
    "no object": file_of(b"[]"),
    "no JSON": file_of(b"{abc}"),
    "not UTF-8": file_of(b'{"\xff":1}'),
    "data cut": file_of({"a": entry()}, bytes(3)),
    "bytes behind": file_of({"a": entry()}, bytes(5)),
    "hole": file_of({"a": entry(data_offsets=[4, 8])}, bytes(8)),
    "wrong size": file_of({"a": entry(shape=[2])}, bytes(4)),
    "backwards": file_of({"a": entry(data_offsets=[4, 0])}, bytes(4)),
    "overflow": file_of({"a": entry(shape=[2**40, 2**40])}, bytes(4)),
    "half a byte": file_of({"a": entry(dtype="F4", shape=[3], data_offsets=[0, 2])}, bytes(2)),
    "unknown dtype": file_of({"a": entry(dtype="F99")}, bytes(4)),
    "no shape": file_of({"a": {"dtype": "F32"}}, bytes(4)),
    "negative": file_of({"a": entry(shape=[-1])}, bytes(4)),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "half of a surrogate pair, in a name": file_of(b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "the other half, in the metadata": file_of(b'{"__metadata__":{"a":"\\udc00"}}'),
    "both, the other way round": file_of(b'{"a":{"dtype":"\\udc00\\ud800","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "half of a pair in UTF-8": file_of(b'{"\xed\xa0\x80":1}'),
    **{f"a length of {n}": file_of({"a": entry(shape=[n])}, bytes(4)) for n in (2**31, 2**32, 2**63, 2**64)},
    **{f"an end of {n}": file_of({"a": entry(data_offsets=[0, n])}, bytes(4)) for n in (2**31, 2**32, 2**63, 2**64)},
    "git lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:abc",
    "web page": b"<!doctype html><html></html>",
    "pickle": b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s.",
    "zip": b"PK\x03\x04" + bytes(range(40)),
}
# E1: behind these words each says in its own way what is wrong with the text.
OWN_WORDS = ("invalid JSON in header: ", "invalid UTF-8 in header: ")


def assert_same_refusal(theirs, ours):
    words = next((words for words in OWN_WORDS if isinstance(theirs, Raised) and words in theirs.text), None)
    if words is None:
        assert ours == theirs
    else:
        assert isinstance(ours, Raised) and ours.begins_as(theirs, words), (theirs, ours)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_a_file(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    assert_same_refusal(*both_outcomes(read, content))
    for backend in ("mmap", "pread"):
        assert_same_refusal(*both_outcomes(opened, tmp_path / "x", backend))


def test_the_cause_says_more(tmp_path):
    """E1: the library's error is the cause of what is raised, with its code and numbers."""
    (tmp_path / "x").write_bytes(BROKEN["data cut"])
    with pytest.raises(COFFER.package.SafetensorError) as caught:
        COFFER.package.safe_open(tmp_path / "x", "np")
    cause = caught.value.__cause__
    size = len(BROKEN["data cut"])
    assert (cause.code, cause.expected, cause.actual) == ("DATA_TRUNCATED", size + 1, size)
    assert str(tmp_path / "x") == cause.path


VALID = file_of({"__metadata__": {"k": "v"}, "a": entry(), "b": entry(dtype="U8", shape=[2, 2], data_offsets=[4, 8])}, bytes(8))


@LIMITS
@given(position=st.integers(0, len(VALID) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(VALID)))
def test_damaged_files(position, byte, cut):
    """D1, D2: names that come twice, and serde's other spellings, are refused: docs/format.md."""
    damaged = bytearray(VALID)
    damaged[position] = byte
    for content in (bytes(damaged), VALID[:cut], bytes(damaged[:cut])):
        theirs, ours = both_outcomes(read, content)
        if isinstance(theirs, Raised) and isinstance(ours, Raised):
            assert ours.kind == theirs.kind
            if all(word not in theirs.text + ours.text for word in ("JSON", "UTF-8", "offset")):
                assert ours.text == theirs.text
        else:
            assert ours == theirs or (isinstance(ours, Raised) and "second" in ours.text)


# ---- safe_open --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    (tmp_path / "x").write_bytes(VALID)
    return tmp_path / "x"


FRAMEWORKS = ["np", "numpy", "NP", "", "foo", "keras", "\ud800", None, 5]
DEVICES = ["cpu", "cuda", "cuda:1", "cuda:x", "cuda:", "cuda:-1", "cpu:0", "CPU", "mps", "mps:0", "npu:3", "xpu", "xla", "mlu:1",
           "hpu", "musa", "meta", "vulkan", "", 0, 7, -1, True, 1.5, None, "cuda:01", "0", "\ud800", "a\udc00", 2**31, 2**63, 2**64 - 1,
           2**64, -(2**64), f"cuda:{2**64 - 1}", f"cuda:{2**64}"]  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=repr)
def test_frameworks(path, framework):
    assert_same(lambda side: side.package.safe_open(path, framework).keys())


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_devices_without_a_framework_that_has_any(path, device):
    assert_same(lambda side: side.package.safe_open(path, "np", device).keys())


@pytest.mark.parametrize("backend", ["mmap", "pread", "MMAP", "", "io_uring", "\ud800", None, 1], ids=repr)
def test_backends(path, backend):
    assert_same(lambda side: side.package.safe_open(path, "np", backend=backend).keys())


def test_what_is_checked_first(path, tmp_path):
    none = tmp_path / "none"
    assert_same(lambda side: side.package.safe_open(none, "np"))
    assert_same(lambda side: side.package.safe_open(none, "foo"))
    assert_same(lambda side: side.package.safe_open(none, "np", backend="foo"))
    assert_same(lambda side: side.package.safe_open(none, "np", "foo"))


def test_calls_that_are_wrong(path):
    for side in (REFERENCE, COFFER):
        for arguments, keywords in (((), {}), ((path,), {}), ((path, "np", "cpu", "mmap"), {}), ((path, "np"), {"foo": 1})):
            with pytest.raises(TypeError):
                side.package.safe_open(*arguments, **keywords)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_reading(path, backend):
    def everything(side):
        with side.package.safe_open(filename=str(path), framework="np", device="cpu", backend=backend) as f:
            part = f.get_slice("b")
            return (f.keys(), f.offset_keys(), f.metadata(), f.get_tensor("a"), f.get_tensors(), part.get_shape(),
                    part.get_dtype(), part[:], f.__enter__() is f)  # fmt: skip

    assert_same(everything)


def test_names_that_are_not_there(path):
    for name in ("none", "", 3, None, b"a"):
        assert_same(lambda side, name=name: side.package.safe_open(path, "np").get_tensor(name))
        assert_same(lambda side, name=name: side.package.safe_open(path, "np").get_slice(name))


@pytest.mark.parametrize("method", ["keys", "offset_keys", "metadata", "get_tensors", "__enter__"])
def test_after_closing(path, method):
    def call(side):
        f = side.package.safe_open(path, "np")
        assert f.__exit__(None, None, None) is None
        assert f.__exit__(None, None, None) is None
        return getattr(f, method)() is f

    assert_same(call)


def test_names_after_closing(path):
    def call(side, method):
        f = side.package.safe_open(path, "np")
        f.__exit__(None, None, None)
        return getattr(f, method)("a")

    assert_same(call, "get_tensor")
    assert_same(call, "get_slice")


def test_a_slice_outlives_the_file(path):
    def call(side):
        with side.package.safe_open(path, "np") as f:
            part = f.get_slice("b")
        return part[0], part.get_shape()

    assert_same(call)


def test_what_it_cannot_do(path):
    import pickle

    for side in (REFERENCE, COFFER):
        f = side.package.safe_open(path, "np")
        for call in (lambda f=f: pickle.dumps(f), lambda f=f: len(f), lambda f=f: iter(f), lambda f=f: "a" in f):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(AttributeError):
            f.anything = 1


# ---- _safe_open_handle ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_handles(path, backend):
    def call(side):
        with open(path, "rb") as file:
            file.seek(10)
            f = side.package._safe_open_handle(file, "np", backend=backend)
            assert file.tell() == 10
        return f.keys(), f.metadata(), f.get_tensors(), f.get_slice("b")[1]

    assert_same(call)


def test_what_is_no_handle(path):
    for value in (io.BytesIO(VALID), str(path), 3, None):
        theirs, ours = both_outcomes(lambda side, value=value: side.package._safe_open_handle(value, "np").keys())
        assert ours == theirs


# ---- Files that are no files ------------------------------------------------------------------------------------------


def test_folders_and_devices_are_named(tmp_path):
    """E2: the reference says 'No such device (os error 19)'."""
    for place, what in ((tmp_path, "this folder has no model"), (pathlib.Path("/dev/null"), "this is a ")):
        for backend in ("mmap", "pread"):
            theirs, ours = both_outcomes(opened, place, backend)
            assert theirs.kind == ours.kind == "OSError"
            assert ours.text.startswith(f"{place}: {what}")


def test_a_file_that_cannot_be_opened_exists(tmp_path):
    """E3: the reference says of every file that it cannot open that there is none."""
    os.symlink("loop", tmp_path / "loop")
    theirs, ours = both_outcomes(opened, tmp_path / "loop", "mmap")
    assert theirs.kind == "FileNotFoundError"
    assert (ours.kind, "too many symbolic links" in ours.text) == ("OSError", True)
