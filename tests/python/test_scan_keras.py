# SPDX-License-Identifier: Apache-2.0
"""`coffer scan` of Keras's models and of HDF5: what their configurations name, what their attributes hold, where they lead. The
attacks are those of CVE-2024-3660, 2025-1550, 2025-8747, 2025-9905, 2025-9906, 2025-12058 and 2025-49655."""

import json
import struct

import pytest
from attacks_hdf5 import HDF5_F32, Hdf5, hdf5_dataset, hdf5_header, hdf5_message, hdf5_one, hdf5_space, hdf5_texts, hdf5_tree
from test_scan import BARE, CALL, CLEAN, EVIL, FOUND, UNREAD, scan, texts, verdicts, write
from zips_by_hand import Archive, Member, deflated

WEIGHTS = bytes(hdf5_one().bytes)
DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 4, "activation": "relu"}, "registered_name": None}
GELU = {"module": "builtins", "class_name": "function", "config": "gelu", "registered_name": "function"}
ADD = {"module": "keras.src.ops.numpy", "class_name": "Add", "config": {"name": "add"}, "registered_name": "Add", "name": "add"}


def function(module, name):
    return {"module": module, "class_name": "function", "config": name, "registered_name": "function"}


def model(*layers, **more):
    return {"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": list(layers)}, "registered_name": None, **more}


def without_modules(value):
    """As HDF5 has it, but for functions."""
    if isinstance(value, dict):
        if value.get("class_name") == "function":
            return value
        return {key: without_modules(each) for key, each in value.items() if key not in ("module", "registered_name")}
    return [without_modules(each) for each in value] if isinstance(value, list) else value


def keras(config, weights=WEIGHTS, **more):
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    members = {"metadata.json": b'{"keras_version": "3.8.0"}', "config.json": text, "model.weights.h5": weights, **more}
    return Archive([Member(called.encode(), data) if isinstance(data, bytes) else Member(called.encode(), **data)
                    for called, data in members.items()]).bytes()  # fmt: skip


def hdf5(*attributes):
    return bytes(hdf5_one(root=[hdf5_texts(*each) for each in attributes]).bytes)


def found(path, code):
    return [each for each in texts(scan(path, code=code)) if not each.startswith("note:")]


# ---- configurations -----------------------------------------------------------------------------------------------------

DANGERS = {
    "lambda": {"module": "keras.layers", "class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wE="}}}},
    "lambda of Keras 2": {"class_name": "Lambda", "config": {"function": ["4wE=", None, None], "function_type": "lambda"}},
    "os": function("os", "system"),
    "a class of os": {"module": "subprocess", "class_name": "Popen", "config": {"args": "id"}, "registered_name": None},
    "eval": function("builtins", "eval"),
    "get_file": function("keras.utils", "get_file"),
    "get_file as a class": {"module": "keras.utils", "class_name": "get_file", "config": {"origin": "x"}},
    "get_file, registered": {"module": "keras.utils", "class_name": "Nothing", "config": {}, "registered_name": "get_file"},
    "load_model": function("keras.models", "load_model"),
    "safe mode": function("keras.config", "enable_unsafe_deserialization"),
    "a function within": function("keras.src.backend.common.global_state", "set_global_attribute"),
    "func_load": function("keras.src.utils.python_utils", "func_load"),
    "what makes objects": function("keras.layers", "deserialize"),
    "a path": function("keras.layers", "core.os.system"),
    "torch": {"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"module": "gAI="}},
    "a program of TensorFlow": {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "/x"}},
    "a vocabulary": {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
}
UNKNOWN = {
    "registered": {"module": None, "class_name": "My", "config": {}, "registered_name": "mine>My"},
    "not registered": {"module": None, "class_name": "My", "config": {}, "registered_name": "My"},
    "a package": {"module": "mine.layers", "class_name": "My", "config": {}, "registered_name": "My"},
    "in a name of Keras": {"module": "keras.layers", "class_name": "Dense", "config": {}, "registered_name": "mine>Dense"},
    "of Keras 2": {"class_name": "Custom>My", "config": {}},
    "a function": {"module": None, "class_name": "function", "config": "f", "registered_name": "mine>f"},
}  # fmt: skip


@pytest.mark.parametrize("nested", [lambda each: model(each), lambda each: model(DENSE, compile_config={"loss": [each]}),
                                    lambda each: model({**DENSE, "config": {"kernel_initializer": each}})])  # fmt: skip
@pytest.mark.parametrize("called", [*DANGERS, *UNKNOWN])
def test_what_a_configuration_names_is_told(tmp_path, called, nested):
    """Of a .keras, an HDF5 file, its folder, and however the text is written."""
    config = nested((DANGERS | UNKNOWN)[called])
    text = json.dumps(config)
    weight = "danger" if called in DANGERS else "opaque"
    escaped = "".join(f"\\u{ord(c):04x}" if c.isalpha() and i % 3 == 0 and text[i - 1] not in "\\" and c not in "truefalsn" else c for i, c in enumerate(text))
    assert json.loads(escaped) == config
    files = {"m.keras": keras(config), "e.keras": keras(escaped.encode()), "d.keras": keras(config, **{"config.json": deflated(text.encode())}),
             "m.h5": hdf5(("model_config", text)), "t.hdf5": hdf5(("training_config", text))}  # fmt: skip
    for name, content in files.items():
        told = found(write(tmp_path / name, content), FOUND)
        assert any(each.startswith(weight) and "Keras" in each for each in told), (name, told)
    write(tmp_path / "folder/config.json", text.encode())
    assert verdicts(tmp_path / "folder", FOUND) == {"config.json": False}


@pytest.mark.parametrize("config", [
    model(DENSE, ADD, {**DENSE, "config": {"activation": GELU}}, build_config={"input_shape": [None, 3]}),
    model(compile_config={"optimizer": {"module": "keras.optimizers", "class_name": "Adam", "config": {"learning_rate": 0.1}, "registered_name": "Adam"},
                          "loss": function("builtins", "mean_squared_error"), "metrics": ["acc"]}),
    model({"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": None}}, {**DENSE, "config": {"activation": function("keras.activations", "relu")}}),
    model({"class_name": "__keras_tensor__", "config": {"shape": [None, 3], "dtype": "float32", "keras_history": ["a", 0, 0]}}, {"a": float("nan")}),
    {"class_name": "Model", "config": {}, "optimizer": {"class_name": "Custom>Adam", "config": {}}},
])  # fmt: skip
def test_what_is_part_of_keras_is_clean_and_it_is_said_what_was_looked_at(tmp_path, config):
    told = texts(scan(write(tmp_path / "m.keras", keras(config)), code=CLEAN))
    assert [each.split(" (")[0] for each in told] == ["note: a configuration of Keras was looked at: all that it names is part of Keras",
                                                      "note: all attributes were looked at: none has a configuration of Keras"]  # fmt: skip
    told = texts(scan(write(tmp_path / "m.h5", hdf5(("model_config", json.dumps(without_modules(config)))))))
    assert all("Add" in each for each in told if not each.startswith("note")), told  # HDF5 has no module for operations


@pytest.mark.parametrize("text", [
    b'{"class_name": "Dense", "class_name": "Lambda", "config": {}}', b'{"config": {}, "class_name": "Dense", "config": "x"}',
    json.dumps(model(DANGERS["os"])).encode("utf-16"), json.dumps(model(DANGERS["os"])).encode("utf-32-le"), b'{"a": "\xff"}',
    b'{"a": "\\ud800", "class_name": "Dense", "config": {}}', b'{"a":' + b"[" * 600 + b"]" * 600 + b"}",
])  # fmt: skip
def test_what_loaders_may_read_otherwise_is_told(tmp_path, text):
    assert found(write(tmp_path / "m.keras", keras(text)), FOUND)


def test_a_mark_before_the_text_hides_nothing(tmp_path):
    text = b"\xef\xbb\xbf" + json.dumps(model(DANGERS["os"])).encode()
    assert any("os.system" in each for each in found(write(tmp_path / "m.keras", keras(text)), FOUND))


def test_an_archive_without_weights_is_looked_at_as_well(tmp_path):
    content = Archive([Member(b"config.json", json.dumps(model(DANGERS["os"])).encode()), Member(b"model.weights.npz", b"")]).bytes()
    assert any("os.system" in each for each in found(write(tmp_path / "m.keras", content), FOUND))


# ---- HDF5 ---------------------------------------------------------------------------------------------------------------


def attribute(name, kind, data):
    """Values of any type; `kind` is the datatype."""
    parts = [name.encode() + b"\0", kind, struct.pack("<BBB5x", 1, 0, 0)]
    return hdf5_message(12, struct.pack("<BxHHH", 1, *map(len, parts)) + b"".join(part + bytes(-len(part) % 8) for part in parts) + data)


def dataset(kind, data, **fields):
    return bytes(Hdf5((b"w", lambda at: hdf5_dataset(sizes=(len(data),), kind=kind, address=at, size=len(data), **fields)), data=data).bytes)


U8 = struct.pack("<B3sIHH", 0x10, bytes(3), 1, 0, 8)
BYTES = struct.pack("<B3sI", 0x15, bytes([8, 0, 0]), 8) + b"opaque\0\0"
LISTS = struct.pack("<B3sI", 0x19, bytes(3), 16) + U8


def text_of(size):
    return struct.pack("<B3sI", 0x13, bytes(3), size)


@pytest.mark.parametrize("pickle", [EVIL, BARE])
def test_pickles_in_attributes_and_arrays_are_told(tmp_path, pickle):
    files = {
        "attribute": bytes(hdf5_one(root=[attribute("x", text_of(len(pickle) + 3), pickle + bytes(3))]).bytes),
        "bytes": dataset(U8, pickle),
        "opaque": dataset(BYTES, pickle + bytes(-len(pickle) % 8)),
        "text": dataset(text_of(len(pickle)), pickle),
    }
    for name, content in files.items():
        assert any(CALL in each for each in found(write(tmp_path / f"{name}.h5", content), FOUND)), name
        packed = keras({}, **{"model.weights.h5": deflated(content)})
        assert any(CALL in each for each in found(write(tmp_path / f"{name}.keras", packed), FOUND)), name


def test_lists_and_chunks_of_bytes_were_not_looked_at(tmp_path):
    chunks = hdf5_tree(((8, 0, (0, 0), 0),), filters=b"")
    assert found(write(tmp_path / "f.h5", chunks), CLEAN) == []
    files = [bytes(hdf5_one(root=[attribute("x", LISTS, bytes(16))]).bytes), dataset(LISTS, bytes(16)), chunks.replace(HDF5_F32, U8 + bytes(len(HDF5_F32) - len(U8)))]
    for i, content in enumerate(files):
        assert any("not looked at" in each for each in found(write(tmp_path / f"{i}.h5", content), FOUND)), i


def test_other_files_that_are_read_are_told(tmp_path):
    external = bytes(hdf5_one(more=(hdf5_message(7, bytes(16)),)).bytes)
    assert any("another file" in each for each in found(write(tmp_path / "e.h5", external), FOUND))
    virtual = bytes(hdf5_one(layout=struct.pack("<BBQI", 4, 3, 0, 0)).bytes)
    assert any("another file" in each for each in found(write(tmp_path / "v.h5", virtual), FOUND))
    link = hdf5_message(6, b"\1\x08\x40\1x" + bytes(12))
    assert any("leads to another file" in each for each in found(write(tmp_path / "l.h5", bytes(hdf5_one(root=[link]).bytes)), FOUND))
    soft = hdf5_message(6, b"\1\x08\1\1x\2\0/w")
    assert found(write(tmp_path / "s.h5", bytes(hdf5_one(root=[soft]).bytes)), CLEAN) == []
    assert found(write(tmp_path / "k.h5", bytes(hdf5_one(kinds=[2]).bytes)), CLEAN) == []


def test_what_is_not_read_of_hdf5_is_told(tmp_path):
    dense = hdf5_message(21, bytes(10))
    assert any("not looked at" in each for each in found(write(tmp_path / "d.h5", bytes(hdf5_one(root=[dense]).bytes)), FOUND))
    scan(write(tmp_path / "cut.h5", WEIGHTS[:200]), code=UNREAD)
    assert any("cannot be read" in each for each in found(write(tmp_path / "m.keras", keras({}, WEIGHTS[:200])), FOUND))


@pytest.mark.parametrize("kept", [(), (1,), (3,), (8,), (1, 8), (3, 8), (1, 3)])
def test_objects_that_lack_a_part_of_a_dataset(tmp_path, kept):
    """A datatype that was given a name has neither size nor bytes; what has bytes needs both."""
    messages = {1: hdf5_message(1, hdf5_space(3)), 3: hdf5_message(3, HDF5_F32), 8: hdf5_message(8, struct.pack("<BBQQ", 3, 1, 96, 12))}
    content = bytes(Hdf5((b"w", hdf5_header(*(messages[each] for each in kept)))).bytes)
    scan(write(tmp_path / "m.h5", content), code=UNREAD if 8 in kept else CLEAN)


@pytest.mark.parametrize("name", ["m.h5", "m.hdf5", "m.keras"])
@pytest.mark.parametrize("at", [512, 2048])
def test_hdf5_behind_other_bytes_is_told(tmp_path, name, at):
    safetensors = struct.pack("<Q", at - 16) + b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'.ljust(at - 16)
    content = safetensors.ljust(at, b" ") + hdf5(("model_config", json.dumps(DANGERS["lambda of Keras 2"])))
    assert any("behind other bytes" in each for each in found(write(tmp_path / name, content), FOUND))


def test_the_files_of_an_index_are_looked_at(tmp_path):
    write(tmp_path / "m.weights.json", json.dumps({"metadata": {}, "weight_map": {"/w": ["a.weights.h5"]}}).encode())
    write(tmp_path / "a.weights.h5", WEIGHTS)
    assert found(tmp_path / "m.weights.json", CLEAN) == []
    write(tmp_path / "a.weights.h5", hdf5(("model_config", json.dumps(model(DANGERS["os"])))))
    assert any("os.system" in each for each in found(tmp_path / "m.weights.json", FOUND))
