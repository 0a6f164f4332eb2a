# SPDX-License-Identifier: Apache-2.0
"""HDF5 and Keras' files, converted, against h5py and Keras: each tensor has the bytes that they read."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coffer

DTYPES = {"<f2": "F16", "<f4": "F32", "<f8": "F64", "<i1": "I8", "<i2": "I16", "<i4": "I32", "<i8": "I64", "<u1": "U8", "<u2": "U16",
          "<u4": "U32", "<u8": "U64", "?": "BOOL", "<c8": "C64", ">f2": "F16", ">f4": "F32", ">f8": "F64", ">i2": "I16", ">i4": "I32",
          ">u8": "U64", ">c8": "C64", "V2": "BF16"}  # fmt: skip


def read(path, output, **options):
    """The report, and what the new file has: name → dtype, shape and bytes."""
    told = coffer.convert(path, output, force=True, **options)
    with coffer.open(output) as opened:
        return told, {name: (opened[name].dtype, tuple(opened[name].shape), opened[name].tobytes()) for name in opened}, dict(opened.metadata)


def expected(array):
    plain = array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder("<"))
    kinds = {np.dtype(name): dtype for name, dtype in DTYPES.items()}
    return kinds[array.dtype], array.shape, plain.tobytes()


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(sorted(DTYPES))))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=4)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def groups_of(names):
    """The groups, and what is in each."""
    groups = {}
    for name in names:
        parts = name.split("/")
        for i in range(len(parts)):
            groups.setdefault("/".join(parts[:i]), set()).add(parts[i])
    return groups


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0."), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.lists(NAMES, min_size=1, max_size=4).map("/".join), arrays(), max_size=30),
       st.sampled_from(["earliest", "v108", "v110"]), st.booleans())
def test_what_h5py_writes(tmp_path_factory, tensors, version, compact):
    path = tmp_path_factory.mktemp("h5") / "m.h5"
    kept = {}
    with h5py.File(path, "w", libver=(version, "v110" if version == "v110" else "latest")) as file:
        for name, array in tensors.items():
            if any(other.startswith(name + "/") or name.startswith(other + "/") for other in kept):
                continue
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if compact and array.nbytes < 60000:
                plist.set_layout(h5py.h5d.COMPACT)
            group = file.require_group(name.rpartition("/")[0]) if "/" in name else file
            leaf = name.rpartition("/")[2].encode()
            type_ = h5py.h5t.py_create(array.dtype, logical=True)
            dataset = h5py.h5d.create(group.id, leaf, type_, h5py.h5s.create_simple(array.shape) if array.shape else h5py.h5s.create(h5py.h5s.SCALAR), plist)
            if array.size:
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))
            kept[name] = array
    try:
        _, found, _ = read(path, path.with_suffix(".safetensors"))
    except coffer.Error as error:
        # Groups of many links lie in a heap of another kind, from version 1.8 on, or where a name is not ASCII.
        assert "dense group" in str(error) and max(map(len, groups_of(kept).values())) > 8, str(error)
        return
    assert found == {name: expected(array) for name, array in kept.items()}


def model():
    layers = keras.layers
    made = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="alpha"), layers.BatchNormalization(),
                             keras.Sequential([layers.Dense(5, name="inner"), layers.Dropout(0.5)]), layers.Dense(2, dtype="bfloat16")])  # fmt: skip
    made.compile("adam", "mse")
    made.fit(np.ones((2, 4)), np.ones((2, 2)), verbose=0)
    return made


@pytest.fixture(name="trained", scope="module")
def fixture_trained():
    return model()


def by_h5py(path, skip=("optimizer",)):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.__setitem__(name, expected(item[()] if item.dtype.kind != "V" else np.asarray(item)))
                        if isinstance(item, h5py.Dataset) and not name.startswith(skip) else None)
    return found


def test_weights(trained, tmp_path):
    trained.save_weights(tmp_path / "m.weights.h5")
    told, found, metadata = read(tmp_path / "m.weights.h5", tmp_path / "o.safetensors")
    assert told.kind == "an HDF5 file"
    assert found == by_h5py(tmp_path / "m.weights.h5")
    assert len(found) == len(trained.weights)
    assert sorted(value[2] for value in found.values()) == sorted(weight.numpy().tobytes() for weight in trained.weights)
    assert metadata["format"] == "tf"
    assert '"layers/dense/vars": "alpha"' in metadata["keras.names"]
    _, everything, _ = read(tmp_path / "m.weights.h5", tmp_path / "o.safetensors", root="all")
    assert everything == by_h5py(tmp_path / "m.weights.h5", skip=("none",))


def test_archive_and_shards(trained, tmp_path):
    trained.save(tmp_path / "m.keras")
    trained.save_weights(tmp_path / "m.weights.h5")
    trained.save_weights(tmp_path / "s.weights.json", max_shard_size=100 / 1024**3)
    assert len(list(tmp_path.glob("s_*.weights.h5"))) > 2
    wanted = by_h5py(tmp_path / "m.weights.h5")
    told, found, _ = read(tmp_path / "m.keras", tmp_path / "o.safetensors")
    assert (told.kind, found) == ("a Keras model", wanted)
    told, found, _ = read(tmp_path / "s.weights.json", tmp_path / "o.safetensors")
    assert (told.kind, found) == ("Keras weights of several files", wanted)


def test_whole_model_in_hdf5(trained, tmp_path):
    trained.save(tmp_path / "m.h5")
    _, found, _ = read(tmp_path / "m.h5", tmp_path / "o.safetensors")
    assert {name: value[2] for name, value in found.items()} == {weight.path: weight.numpy().tobytes() for weight in trained.weights}
    _, found, _ = read(tmp_path / "m.h5", tmp_path / "o.safetensors", root="optimizer_weights")
    assert found == {name.removeprefix("optimizer_weights/"): value for name, value in by_h5py(tmp_path / "m.h5", skip=("model_weights",)).items()}


def test_lists_of_names_in_several_attributes(tmp_path):
    """As Keras and transformers write more names than an attribute has room for, as texts of one length."""
    names = [f"layer_{i}" for i in range(7)]
    with h5py.File(tmp_path / "tf_model.h5", "w") as file:
        for i in range(3):
            file.attrs[f"layer_names{i}"] = np.array([name.encode() for name in names[3 * i:3 * i + 3]])
        for i, name in enumerate(names):
            group = file.create_group(name)
            group.attrs["weight_names"] = np.array([f"model/{name}/kernel:0".encode(), b"bias:0" + str(i).encode()])
            group[f"model/{name}/kernel:0"] = np.full((2, 3), i, "<f4")
            group["bias:0" + str(i)] = np.full(3, -i, "<f2")
        file["unnamed"] = np.zeros(5)
    told, found, _ = read(tmp_path / "tf_model.h5", tmp_path / "o.safetensors")
    assert found == {**{f"model/{name}/kernel:0": ("F32", (2, 3), np.full((2, 3), i, "<f4").tobytes()) for i, name in enumerate(names)},
                     **{f"bias:0{i}": ("F16", (3,), np.full(3, -i, "<f2").tobytes()) for i in range(7)}}
    assert told.skipped == 40


def test_no_byte_of_the_second_kind_of_metadata_changes_unnoticed(tmp_path):
    """Superblock and object headers of version 2 have checksums, also where a header is continued; h5py compares them, too."""
    path = tmp_path / "m.h5"
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("layer", track_order=True)
        places = []
        for name in ("kernel", "bias", "gamma"):
            group[name] = np.arange(12, dtype="<f4").reshape(3, 4)
            places.append(group[name].id.get_offset())
        group.attrs["a"] = "b" * 300
        group["kernel"].attrs["c"] = np.arange(40)
    data = path.read_bytes()
    assert data[8] in (2, 3) and b"OHDR" in data and b"OCHK" in data
    whole = read(path, tmp_path / "o.safetensors")[1]
    assert len(whole) == 3
    refused = 0
    for at in range(len(data)):
        if any(place <= at < place + 48 for place in places):
            continue
        for mask in (1 << at % 8, 0xFF):
            path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
            try:
                found = read(path, tmp_path / "o.safetensors")[1]
            except coffer.Error:
                refused += 1
                continue
            assert found == whole, at
    assert refused > 2 * 500


@pytest.mark.parametrize("what", ["many", "attributes", "chunks"])
def test_what_only_the_latest_kinds_have_says_what_to_do(tmp_path, what):
    with h5py.File(tmp_path / "m.h5", "w", libver="latest") as file:
        for i in range(40 if what == "many" else 1):
            file[f"w{i}"] = np.arange(3)
        for i in range(40 if what == "attributes" else 0):
            file["w0"].attrs[f"a{i}"] = i
        if what == "chunks":
            file.create_dataset("x", data=np.ones((50, 60)), chunks=(7, 9))
    with pytest.raises(coffer.Error, match="opened without libver"):
        read(tmp_path / "m.h5", tmp_path / "o.safetensors")
    with h5py.File(tmp_path / "m.h5") as old, h5py.File(tmp_path / "n.h5", "w") as new:
        for name in old:
            new[name] = old[name][()]
    assert read(tmp_path / "n.h5", tmp_path / "o.safetensors")[1] == by_h5py(tmp_path / "m.h5", ())


@pytest.mark.parametrize("what", ["soft", "external", "storage", "virtual", "lzf", "scaleoffset", "named", "never", "strings", "complex128", "struct"])
def test_what_is_refused_by_name(tmp_path, what):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        data = np.arange(64, dtype="<f4")
        file["w"] = data
        if what == "soft":
            file["l"] = h5py.SoftLink("/w")
        elif what == "external":
            file["l"] = h5py.ExternalLink("/etc/passwd", "/w")
        elif what == "storage":
            file.create_dataset("x", (4,), "u1", external=[("/etc/passwd", 0, 4)])
        elif what == "virtual":
            layout = h5py.VirtualLayout((64,), "<f4")
            layout[:] = h5py.VirtualSource("other.h5", "w", (64,))
            file.create_virtual_dataset("x", layout)
        elif what == "lzf":
            file.create_dataset("x", data=data, compression="lzf")
        elif what == "scaleoffset":
            file.create_dataset("x", data=data.astype("i4"), scaleoffset=0)
        elif what == "named":
            file["t"] = np.dtype("<f4")
            file.create_dataset("x", data=data, dtype=file["t"])
        elif what == "never":
            file.create_dataset("x", (5,), "<f4")
        elif what == "strings":
            file["x"] = ["a", "bc"]
        elif what == "complex128":
            file["x"] = np.arange(3) * 1j
        elif what == "struct":
            file["x"] = np.zeros(3, [("a", "i4"), ("b", "f4")])
    words = {"soft": "a soft link", "external": "an external link", "storage": "its data are in another file", "virtual": "virtual", "lzf": "LZF",
             "scaleoffset": "scaleoffset", "named": "shared message", "never": "nothing was written", "complex128": "complex128",
             "struct": "structures"}
    if what == "strings":
        told, found, _ = read(tmp_path / "m.h5", tmp_path / "o.safetensors")
        assert list(found) == ["w"]
        return
    with pytest.raises(coffer.Error) as caught:
        read(tmp_path / "m.h5", tmp_path / "o.safetensors")
    assert words[what] in str(caught.value)


def test_complex128_as_pairs(tmp_path):
    array = np.arange(6).reshape(2, 3) * (1 + 2j)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["x"] = array
        file["y"] = array.astype(">c16")
    _, found, _ = read(tmp_path / "m.h5", tmp_path / "o.safetensors", complex128=True)
    assert found["x"] == found["y"] == ("F64", (2, 3, 2), array.tobytes())


@settings(max_examples=80, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([None, 0, 1, 9]), st.sampled_from(sorted(DTYPES)))
def test_chunks(tmp_path_factory, data, shuffle, fletcher32, level, dtype):
    path = tmp_path_factory.mktemp("h5") / "m.h5"
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4).filter(lambda s: np.prod(s) < 20000)))
    chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
    dtype = np.dtype(dtype)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count = int(np.prod(shape, dtype=np.int64))
    array = random.integers(0, 2, shape).astype(bool) if dtype.kind == "b" else np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)
    if data.draw(st.booleans()) and dtype.kind != "b":
        array = np.zeros(shape, dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("g/w", data=array, chunks=chunks, shuffle=shuffle, fletcher32=fletcher32,
                            compression=None if level is None else "gzip", compression_opts=level)  # fmt: skip
    _, found, _ = read(path, path.with_suffix(".safetensors"))
    assert found == {"g/w": expected(array)}


@pytest.mark.parametrize("chunks", [(100, 100), (1, 3000), (2000, 7)])
def test_large_chunked_array(tmp_path, chunks):
    """More than is kept in memory: 24 MB, in chunks of which the last ones are not full."""
    array = np.arange(2003 * 3001, dtype="<f4").reshape(2003, 3001)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("w", data=array, chunks=chunks, shuffle=True, compression="gzip", compression_opts=1)
    _, found, _ = read(tmp_path / "m.h5", tmp_path / "o.safetensors")
    assert found["w"][1:] == (array.shape, array.tobytes())


@pytest.mark.parametrize("filters", [{"fletcher32": True}, {"compression": "gzip"}, {"shuffle": True, "compression": "gzip", "fletcher32": True}])
def test_a_damaged_chunk(tmp_path, filters):
    array = np.random.default_rng(1).integers(0, 50, (40, 30)).astype("<f4")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("w", data=array, chunks=(10, 10), **filters)
        place = file["w"].id.get_chunk_info(5)
    blob = bytearray((tmp_path / "m.h5").read_bytes())
    blob[place.byte_offset + place.size // 2] ^= 16
    (tmp_path / "m.h5").write_bytes(blob)
    with pytest.raises(coffer.Error, match="filters cannot be undone"):
        read(tmp_path / "m.h5", tmp_path / "o.safetensors")


def test_chunks_that_were_never_written(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("w", (40, 40), "<f4", chunks=(10, 10))[:10] = 1
    with pytest.raises(coffer.Error, match="never written|missing or out of order"):
        read(tmp_path / "m.h5", tmp_path / "o.safetensors")


# ---- scanning -----------------------------------------------------------------------------------------------------------


@keras.saving.register_keras_serializable(package="mine")
class Registered(keras.layers.Layer):
    def call(self, x):
        return x


def scanned(model, path):
    model.save(path)
    return {finding.weight: finding.text for finding in coffer.scan(path)}


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_a_scan_of_what_keras_saves(tmp_path, name):
    """Its own layers, losses, metrics and optimizers are clean; a Lambda is danger, and a registered layer is not known."""
    plain = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(2, 3, activation=keras.activations.gelu, kernel_regularizer="l2"),
                              keras.layers.BatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(2, kernel_constraint=keras.constraints.MaxNorm(2))])  # fmt: skip
    plain.compile(keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.1, 10)), keras.losses.CategoricalCrossentropy(), metrics=[keras.metrics.AUC(), "acc"])
    plain.fit(np.zeros((2, 8, 8, 3)), np.eye(2), verbose=0)
    assert set(scanned(plain, tmp_path / name)) == {"note"}
    assert "run the code" in scanned(keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x + 1)]), tmp_path / name)["danger"]
    assert "mine>Registered" in scanned(keras.Sequential([keras.Input((3,)), Registered()]), tmp_path / name)["opaque"]


def test_a_scan_of_operations_applications_and_weights(tmp_path):
    inputs = keras.Input((4,))
    outputs = keras.ops.softmax(keras.ops.concatenate([keras.ops.add(inputs, 1.0), keras.layers.Rescaling(2.0)(inputs)]))
    assert set(scanned(keras.Model(inputs, outputs), tmp_path / "m.keras")) == {"note"}
    model = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), alpha=0.35, classes=2)
    assert set(scanned(model, tmp_path / "a.keras")) == {"note"}
    model.save_weights(tmp_path / "a.weights.h5")
    assert {finding.weight for finding in coffer.scan(tmp_path / "a.weights.h5")} == {"note"}


def test_a_scan_of_what_h5py_writes(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("w", data=np.zeros((4, 4), "f4"), chunks=(2, 2), compression="gzip")
        file.attrs.update({"a": "a text.", "n": 3, "l": ["a", "b"], "e": h5py.Empty("f4"), "z": np.bytes_(b"bytes.")})
        file["again"] = h5py.SoftLink("/w")
    assert {finding.weight for finding in coffer.scan(tmp_path / "m.h5")} == {"note"}
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file["other"] = h5py.ExternalLink("/etc/passwd", "/")
    assert [finding.weight for finding in coffer.scan(tmp_path / "m.h5")] == ["danger"]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("w", (4,), "u1", external=[("/etc/passwd", 0, 4)])
    assert [finding.weight for finding in coffer.scan(tmp_path / "x.h5")] == ["danger"]
