# SPDX-License-Identifier: Apache-2.0
"""Writing: serialize, serialize_file and the streaming Writer. The bytes are those of the reference implementation."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from conftest import FORMAT

import coffer
import coffer.numpy
from coffer._native import serialize, serialize_file, serialize_model


def entries(arrays):
    return [(name, FORMAT[array.dtype.name], array.shape, array) for name, array in arrays.items()]


@pytest.mark.parametrize("metadata", [None, {"k": "v"}, {"ä": "\U0001f600", "": ""}])
def test_the_bytes_are_the_references(arrays, tmp_path, metadata):
    expected = safetensors.numpy.save(arrays, metadata)
    # Of several keys the reference writes the order of a hash table.
    if metadata is None or len(metadata) == 1:
        assert serialize(entries(arrays), metadata) == expected
    file = tmp_path / "x.safetensors"
    serialize_file(entries(arrays), file, metadata)
    assert file.read_bytes() == serialize(entries(arrays), metadata)
    found = safetensors.numpy.load_file(file)
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    assert safetensors.safe_open(file, "np").metadata() == metadata


def test_addresses(arrays):
    by_address = [(n, FORMAT[a.dtype.name], a.shape, (a.ctypes.data, a.nbytes)) for n, a in arrays.items()]
    assert serialize(by_address) == serialize(entries(arrays))


def test_nothing():
    assert serialize([]) == b"\x08\0\0\0\0\0\0\0{}      "


def test_to_a_descriptor(arrays, tmp_path):
    file = tmp_path / "x.safetensors"
    with file.open("wb") as out:
        serialize_file(entries(arrays), out.fileno())
    assert file.read_bytes() == serialize(entries(arrays))


@pytest.mark.parametrize("sync", ["replace", "always", "never"])
@pytest.mark.parametrize("in_place", [False, True])
def test_replacing(arrays, tmp_path, sync, in_place):
    file = tmp_path / "x.safetensors"
    file.write_bytes(b"old")
    file.chmod(0o640)
    serialize_file(entries(arrays), str(file), sync=sync, in_place=in_place)
    assert file.read_bytes() == serialize(entries(arrays)) and file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_alignment_and_slack(arrays, tmp_path):
    file = tmp_path / "x.safetensors"
    serialize_file(entries(arrays), file, alignment=4096, slack=1000)
    content = file.read_bytes()
    assert (8 + int.from_bytes(content[:8], "little")) % 4096 == 0
    assert coffer.open(file)["bytes"].tobytes() == arrays["bytes"].tobytes()


def test_what_cannot_be_written():
    good = ("a", "U8", (3,), b"abc")
    for wrong, code in [
        ([good, good], "DUPLICATE_NAME"),
        ([("__metadata__", "U8", (3,), b"abc")], "NAME"),
        ([("a", "U9", (3,), b"abc")], "DTYPE"),
        ([("a", "U8", (4,), b"abc")], "SIZE"),
        ([("a", "F32", (2**62, 2**62), b"")], "OVERFLOW"),
        ([("a", "F4", (1,), b"a")], "PARTIAL_BYTE"),
    ]:
        with pytest.raises(coffer.Error) as caught:
            serialize(wrong)
        assert caught.value.code == code
    with pytest.raises(coffer.Error) as caught:
        serialize([("a", "U8", (4,), b"abc")])
    assert (caught.value.tensor, caught.value.expected, caught.value.actual) == ("a", 4, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        None, 3, [3], [()], [("a", "U8", (3,))], [(b"a", "U8", (3,), b"abc")], [("a", None, (3,), b"abc")], [("a", "U8", 3, b"abc")],
        [("a", "U8", (-1,), b"abc")], [("a", "U8", (1.5,), b"abc")], [("a", "U8", (3,), "abc")], [("a", "U8", (3,), (1,))],
        [("a", "U8", (2**64,), b"abc")], [("\ud800", "U8", (3,), b"abc")],
    ],
)  # fmt: skip
def test_wrong_entries(wrong):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        serialize(wrong)


@pytest.mark.parametrize("wrong", [3, "k", {"k": 3}, {3: "v"}, {"k": None}])
def test_wrong_metadata(wrong):
    with pytest.raises((TypeError, AttributeError)):
        serialize([], wrong)


NO_CALLS = {
    "a name": (lambda path: coffer.numpy.save_file({1: np.zeros(2)}, path), TypeError, "a tensor's name is a str, not 1 of the type int"),
    "another name": (lambda path: coffer.save_file({1: np.zeros(2)}, path), TypeError, "a tensor's name is a str, not 1 of the type int"),
    "half a pair": (lambda path: coffer.save_file({"\ud800": np.zeros(2)}, path), ValueError, "a tensor's name has half of a surrogate pair"),
    "a list": (lambda path: coffer.save_file([np.zeros(2)], path), TypeError, "only a mapping of names to tensors can be saved, not list"),
    "None": (lambda path: coffer.numpy.save_file(None, path), TypeError, "only a mapping of names to tensors can be saved, not NoneType"),
    "no tensor": (lambda path: coffer.save_file({"a": [1.0]}, path), TypeError, "'a' is of the type list"),
    "no array": (lambda path: coffer.numpy.save_file({"a": [1.0]}, path), TypeError, "'a' is not a tensor of numpy, but of the type list"),
    "no bytes": (lambda path: coffer.numpy.save({"a": b"1"}), TypeError, "'a' is not a tensor of numpy, but of the type bytes"),
    "nothing": (lambda path: coffer.save_file({"a": np.zeros(2), "b": None}, path), TypeError, "'b' is None"),
    "objects": (lambda path: coffer.numpy.save({"a": np.array([{}])}), coffer.Error, "'a' is of object, for which files have no dtype"),
    "text": (lambda path: coffer.save_file({"a": np.array(["x"])}, path), coffer.Error, "'a' is of str32, for which files have no dtype"),
    "dates": (lambda path: coffer.numpy.save({"a": np.zeros(1, "M8[s]")}), coffer.Error, "'a' is of datetime64"),
    "records": (lambda path: coffer.numpy.save({"a": np.zeros(1, "f4,i4")}), coffer.Error, "'a' is of void"),
    "metadata by ints": (lambda path: coffer.numpy.save({}, {1: "a"}), TypeError, "a key of the metadata is a str, not 1"),
    "metadata of ints": (lambda path: coffer.numpy.save({}, {"k": 1}), TypeError, 'the metadata\'s value of "k" is a str, not 1'),
    "metadata of halves": (lambda path: coffer.numpy.save({}, {"k": "\ud800"}), ValueError, 'the metadata\'s value of "k" has half'),
    "no metadata": (lambda path: coffer.numpy.save({}, [("a", "b")]), TypeError, "the metadata are a mapping of str to str, not"),
    "no metadata at all": (lambda path: coffer.numpy.save({}, 3), TypeError, "the metadata are a mapping of str to str, not 3"),
    "a path": (lambda path: coffer.numpy.save_file({}, 1.5), TypeError, "a path is a str, bytes or os.PathLike, not 1.5"),
    "a path of a writer": (lambda path: coffer.Writer(None, {}), TypeError, "a path is a str, bytes or os.PathLike, not None"),
    "declared by ints": (lambda path: coffer.Writer(path, {1: ("F32", (1,))}), TypeError, "a tensor's name is a str, not 1"),
    "declared without a shape": (lambda path: coffer.Writer(path, {"a": "F32"}), TypeError, "a declaration is .name, dtype, shape."),
    "a shape": (lambda path: coffer.Writer(path, {"a": ("F32", 3)}), TypeError, 'the shape of the tensor "a" is a sequence of whole numbers'),
    "a length": (lambda path: coffer.Writer(path, {"a": ("F32", (-1,))}), ValueError, 'the shape of the tensor "a" is a sequence of whole'),
    "a dtype": (lambda path: coffer.Writer(path, {"a": (np.float32, (1,))}), TypeError, 'the dtype of the tensor "a" is a str, not'),
    "not of this file": (lambda path: coffer.save_file({"a": coffer.open(numpy_bytes())["x"], "b": np.zeros(1)}, path), TypeError,
                         "'b' is not a tensor of coffer, as the first is, but of the type ndarray"),
    "a key": (lambda path: coffer.open(numpy_bytes())[1], TypeError, "a tensor's name is a str, not 1"),
    "edits": (lambda path: coffer.edit_metadata(path, "abc"), TypeError, "what is set is a mapping of keys to values, not 'abc'"),
    "edits by ints": (lambda path: coffer.edit_metadata(path, {1: "a"}), TypeError, "a key or a value of the metadata is a str, not 1"),
    "removed by ints": (lambda path: coffer.edit_metadata(path, None, [1]), TypeError, "a key or a value of the metadata is a str, not 1"),
}  # fmt: skip


def numpy_bytes():
    return coffer.numpy.save({"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize(("call", "kind", "said"), NO_CALLS.values(), ids=NO_CALLS)
def test_wrong_kinds(tmp_path, call, kind, said):
    """Each is an error of coffer's, says which tensor or key it is about, and leaves nothing behind."""
    with pytest.raises(kind, match=said) as caught:
        call(tmp_path / "x")
    assert isinstance(caught.value, coffer.Error) and os.listdir(tmp_path) == []


def test_arrays_of_others():
    """numpy's takes what says which array it is."""

    class Array:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert coffer.open(coffer.numpy.save({"a": Array(), "b": np.float32(2), "c": coffer.open(numpy_bytes())["x"]}))["a"].tolist() == [0, 1, 2]

    class Worse:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("not now")

    with pytest.raises(TypeError, match="'a', of the type Worse, cannot be made an array: not now"):
        coffer.numpy.save({"a": Worse()})


def test_data_must_be_contiguous():
    with pytest.raises((BufferError, ValueError)):
        serialize([("a", "U8", (3,), memoryview(b"abcdef")[::2])])


def test_a_failure_leaves_nothing_behind(tmp_path):
    missing = tmp_path / "none" / "x.safetensors"
    with pytest.raises(OSError) as caught:
        serialize_file([], missing)
    assert caught.value.path == str(missing) and caught.value.errno == caught.value.os_error == 2
    with pytest.raises(coffer.Error, match="sync is"):
        serialize_file([], tmp_path / "x", sync="sometimes")
    with pytest.raises(coffer.Error):
        serialize_file([], tmp_path / "x", alignment=3)
    assert os.listdir(tmp_path) == []


# ---- The writer -------------------------------------------------------------------------------------------------------


def declarations(arrays):
    return {name: (FORMAT[array.dtype.name], array.shape) for name, array in arrays.items()}


@pytest.mark.parametrize("form", [lambda d: d, lambda d: [(n, *rest) for n, rest in d.items()], lambda d: iter([(n, *rest) for n, rest in d.items()])])
def test_writer_writes_the_same_bytes(arrays, tmp_path, form):
    file = tmp_path / "x.safetensors"
    with coffer.Writer(file, form(declarations(arrays)), {"k": "v"}) as writer:
        for name in reversed(arrays):
            writer.write(name, arrays[name])
        assert not file.exists()
    assert file.read_bytes() == serialize(entries(arrays), {"k": "v"})
    assert writer.nbytes == file.stat().st_size


class Keeps:
    """Has a writer that tells it how far it is."""

    def __init__(self, path):
        self.writer = coffer.Writer(path, {"x": ("U8", (1,))}, progress=self.tell)

    def tell(self, done, total):
        pass


def test_a_writer_whose_progress_refers_to_it_is_collected(tmp_path):
    kept = weakref.ref(Keeps(tmp_path / "x"))
    gc.collect()
    assert kept() is None and os.listdir(tmp_path) == []


def test_writer_takes_pieces_from_threads(tmp_path):
    data = np.random.default_rng(1).integers(0, 255, 1 << 20, dtype=np.uint8)
    file = tmp_path / "x.safetensors"
    with coffer.Writer(file, {"x": ("U8", (1 << 20,))}) as writer:
        size = 1 << 14

        def write(first: int) -> None:
            for at in range(first * size, 1 << 20, 8 * size):
                writer.write("x", data[at : at + size], at)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert coffer.open(file)["x"].tobytes() == data.tobytes()


def test_writer_discards_when_the_block_raises(tmp_path):
    with pytest.raises(RuntimeError), coffer.Writer(tmp_path / "x", {"x": ("U8", (1,))}) as writer:
        writer.write("x", b"a")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    for use in (writer.finish, lambda: writer.write("x", b"a")):
        with pytest.raises(coffer.Error, match="finished or discarded"):
            use()
    writer.discard()


def test_writer_that_is_dropped_leaves_nothing(tmp_path):
    writer = coffer.Writer(tmp_path / "x", {"x": ("U8", (1,))})
    writer.write("x", b"a")
    del writer
    assert os.listdir(tmp_path) == []


def test_writer_misses_data(tmp_path):
    with pytest.raises(coffer.Error) as caught, coffer.Writer(tmp_path / "x", {"x": ("U8", (4,))}) as writer:
        writer.write("x", b"ab")
    assert (caught.value.code, caught.value.tensor) == ("MISSING_DATA", "x")
    assert os.listdir(tmp_path) == []


def test_writer_refuses_what_is_written_twice_or_outside(tmp_path):
    for data, offset in ((b"ab", 3), (b"", 5), (b"abcde", 0)):
        writer = coffer.Writer(tmp_path / "x", {"x": ("U8", (4,))})
        with pytest.raises(coffer.Error) as caught:
            writer.write("x", data, offset)
        assert caught.value.code == "WRITE_RANGE"
    writer = coffer.Writer(tmp_path / "x", {"x": ("U8", (4,))})
    writer.write("x", b"ab", offset=1)
    with pytest.raises(coffer.Error) as caught:
        writer.write("x", b"a", 2)
    assert caught.value.code == "WRITE_RANGE"


def test_writer_wrong_arguments(tmp_path):
    writer = coffer.Writer(tmp_path / "x", {"x": ("U8", (4,))})
    with pytest.raises(KeyError, match="no tensor 'y' was declared"):
        writer.write("y", b"")
    for wrong in ((3, b""), ("x", "text"), ("x", b"", "0")):
        with pytest.raises((TypeError, KeyError)):
            writer.write(*wrong)
    with pytest.raises((TypeError, OverflowError, ValueError)):
        writer.write([], b"")
    for wrong in ({"x": "U8"}, {"x": ["U8", (1,)]}, {"x": ("U8",)}, [("x", "U8")], 7, None, {3: ("U8", (1,))}):
        with pytest.raises(TypeError):
            coffer.Writer(tmp_path / "x", wrong)
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_writer_to_a_pipe(tmp_path, arrays):
    read, write = os.pipe()
    with coffer.Writer(write, {"x": ("U8", (3,))}) as writer:
        writer.write("x", b"abc")
    os.close(write)
    with open(read, "rb") as file:
        assert coffer.open(file.read())["x"].tobytes() == b"abc"


def test_writer_larger_than_memory_needs_no_memory(tmp_path):
    """8 GB are declared, and a few pieces written before the file is discarded: nothing of that size is ever allocated."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    piece = bytes(1 << 20)
    writer = coffer.Writer(Path(tmp_path, "x"), {"x": ("F32", (1 << 31,))})
    assert writer.nbytes > 8 << 30
    for i in range(8):
        writer.write("x", piece, i << 30)
    writer.discard()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_format(tmp_path):
    """The kind of file that is asked for, and that is found by its content."""
    for format, first in (("bintensors", b"\1"), ("safetensors", b"{"), (None, b"{")):
        with coffer.Writer(tmp_path / "x", {"a": ("F32", (2,))}, {}, format=format) as writer:
            writer.write("a", bytes(8))
        assert (tmp_path / "x").read_bytes()[8:9] == first
        with coffer.open(tmp_path / "x") as f:
            assert (f.format, list(f), f._model.metadata()) == (format or "safetensors", ["a"], {})
    with pytest.raises(coffer.Error, match="bintensors lacks") as raised:
        coffer.Writer(tmp_path / "x", {"a": ("C64", (2,))}, format="bintensors")
    assert (raised.value.code, raised.value.tensor) == ("DTYPE", "a")
    with pytest.raises(ValueError, match='format is "safetensors", "bintensors" or "bintensors-a"'):
        coffer.Writer(tmp_path / "x", {}, format="gguf")


def test_several_files(tmp_path):
    """No file has more than the limit, in the order of the declaration; one file is enough where the limit is."""
    entries = [(name, "U8", (6,), bytes([i]) * 6) for i, name in enumerate("cab")]
    serialize_model(entries, tmp_path / "m.safetensors", {"k": "v"}, max_shard_size=12)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json",
    ]  # fmt: skip
    with coffer.open(tmp_path / "m.safetensors.index.json") as f:
        assert {name: f[name].tobytes() for name in f} == {name: data for name, _, _, data in entries}
        assert f.metadata == {"k": "v"}
    assert sorted(safetensors.numpy.load_file(tmp_path / "m-00001-of-00002.safetensors")) == ["a", "c"]
    serialize_model(entries, tmp_path / "n.safetensors")
    assert list(coffer.open(tmp_path / "n.safetensors")) == ["a", "b", "c"]
    with pytest.raises(coffer.Error) as raised:
        serialize_model(entries, tmp_path / "n.safetensors", max_shard_size=1)
    assert raised.value.code == "SHADOWED"
    serialize_model(entries, tmp_path / "n.safetensors", max_shard_size=1, force=True)
    assert len(coffer.open(tmp_path / "n.safetensors.index.json").shards) == 3


def test_packed(tmp_path):
    values = {"w": np.random.default_rng(3).normal(0, 0.02, (300, 400)).astype(np.float32), "b": np.arange(5, dtype=np.int64)}
    path, other, model = tmp_path / "packed.safetensors", tmp_path / "other.safetensors", tmp_path / "model.safetensors"
    coffer.save_file(values, path, {"format": "np"}, packed=True)
    assert path.stat().st_size < values["w"].nbytes * 0.9
    with coffer.Writer(other, {name: ("F32" if name == "w" else "I64", value.shape) for name, value in values.items()}, packed=True) as writer:
        for name, value in values.items():
            writer.write(name, value)
    with coffer.open(path) as file:
        coffer.save_file({name: file[name] for name in file.keys()}, model, packed=True)  # noqa: SIM118
    for file in (path, other, model):
        assert file.stat().st_size < values["w"].nbytes * 0.9
        loaded = coffer.load_file(file)
        assert loaded.keys() == values.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(loaded[name], value)


def test_packed_models(tmp_path):
    data = np.random.default_rng(4).normal(0, 0.02, (2, 200, 200)).astype(np.float32)
    entries = [(str(i), "F32", (200, 200), data[i].tobytes()) for i in range(2)]
    serialize_model(entries, tmp_path / "model.safetensors", max_shard_size=200000, packed=True)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 2 and all(file.stat().st_size < 150000 for file in files)
    with coffer.open(tmp_path / "model.safetensors.index.json") as file:
        for i in range(2):
            np.testing.assert_array_equal(file[str(i)].numpy(), data[i])


def test_what_cannot_be_packed(arrays, tmp_path):
    with pytest.raises(coffer.Error, match="in_place"):
        coffer.Writer(tmp_path / "f.safetensors", {}, packed=True, in_place=True)
    with pytest.raises(coffer.Error, match="needs a path"):
        coffer.Writer(1, {}, packed=True)
