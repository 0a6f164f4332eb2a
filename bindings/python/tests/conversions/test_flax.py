# SPDX-License-Identifier: Apache-2.0
"""flax's MessagePack, converted, against flax: what its serialization writes, with dtypes, shapes and chunks by chance, has the same
bytes afterwards."""

import ml_dtypes
import numpy as np
import pytest
from flax import serialization
from flax.training.train_state import TrainState

import coffer

DTYPES = {
    "float32": "F32", "float16": "F16", "float64": "F64", "bfloat16": "BF16", "int8": "I8", "int16": "I16", "int32": "I32",
    "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL", "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0", "int4": "I8", "uint4": "U8",
}  # fmt: skip


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def random_array(random, name):
    shape = tuple(int(n) for n in random.integers(0, 5, random.integers(0, 5)))
    count = int(np.prod(shape)) if shape else 1
    size = dtype_of(name).itemsize
    data = random.integers(0, 2 if name == "bool" else 256, count * size, np.uint8)
    return np.ndarray(shape, dtype_of(name), data.tobytes())


def flat(value, path=""):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {path: value} if isinstance(value, np.ndarray) else {}
    for key, item in items:
        found |= flat(item, f"{path}.{key}" if path else str(key))
    return found


def compare(path, output, expected, **options):
    told = coffer.convert(path, output, **options)
    assert told.total == told.written + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        assert set(model.keys()) == set(expected)
        for name, array in expected.items():
            tensor = model[name]
            assert (tensor.dtype, tensor.shape, tensor.tobytes()) == (DTYPES[array.dtype.name], array.shape, array.tobytes()), name
        assert dict(model.metadata)["format"] == "flax"
    return told


@pytest.mark.parametrize("seed", range(12))
def test_trees_of_arrays(seed, tmp_path, monkeypatch):
    random = np.random.default_rng(seed)
    tree = {f"layer {i}": {name: random_array(random, name) for name in DTYPES if random.integers(0, 2)} for i in range(4)}
    tree["list"] = [random_array(random, "float32") for _ in range(12)]
    tree |= {"step": 7, "rate": 0.5, "done": False, "note": "text", "nothing": None, "c": 1j, "none": {}}
    # With small chunks most arrays are in several; flax splits what is larger only.
    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", int(random.choice([1, 8, 24, 100, 2**30])))
    path = tmp_path / "m.msgpack"
    path.write_bytes(serialization.to_bytes(tree))
    compare(path, tmp_path / "o.safetensors", flat(tree))


def test_numbers_of_numpy_have_no_dimensions(tmp_path):
    path = tmp_path / "m.msgpack"
    path.write_bytes(serialization.to_bytes({"a": np.float32(1.5), "b": np.int64(-3), "c": np.bool_(True)}))
    compare(path, tmp_path / "o.safetensors", {"a": np.array(1.5, "f4"), "b": np.array(-3), "c": np.array(True)})


def test_a_training_state(tmp_path):
    import jax.numpy as jnp
    import optax

    params = {"dense": {"kernel": jnp.ones((3, 4), jnp.bfloat16), "bias": jnp.zeros(4)}}
    state = TrainState.create(apply_fn=None, params=params, tx=optax.adam(1e-3))
    path = tmp_path / "m.msgpack"
    path.write_bytes(serialization.to_bytes(state))
    expected = {name: np.asarray(array) for name, array in (("dense.kernel", params["dense"]["kernel"]), ("dense.bias", params["dense"]["bias"]))}
    told = compare(path, tmp_path / "o.safetensors", expected, root="params")
    assert any(tensor.fate == "skipped" and tensor.name.startswith("opt_state.") for tensor in told.tensors)


def test_what_safetensors_lacks(tmp_path):
    path, output = tmp_path / "m.msgpack", tmp_path / "o.safetensors"
    array = np.array([1 + 2j, 3])
    path.write_bytes(serialization.to_bytes({"a": array, "w": np.ones(2, "f4")}))
    with pytest.raises(coffer.Error, match="complex128"):
        coffer.convert(path, output)
    compare(path, output, {"w": np.ones(2, "f4")}, skip_unsupported=True)
    coffer.convert(path, output, complex128=True)
    with coffer.open(output) as model:
        assert (model["a"].dtype, model["a"].shape, model["a"].tobytes()) == ("F64", (2, 2), array.tobytes())


def test_texts_are_left_out(tmp_path):
    path, output = tmp_path / "m.msgpack", tmp_path / "o.safetensors"
    path.write_bytes(serialization.to_bytes({"s": np.array(["a", "bc"]), "w": np.ones(2, "f4")}))
    told = compare(path, output, {"w": np.ones(2, "f4")})
    assert [(tensor.name, tensor.fate) for tensor in told.tensors] == [("s", "skipped"), ("w", "written")]
