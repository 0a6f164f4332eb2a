# SPDX-License-Identifier: Apache-2.0
"""Pickles of arrays, converted: those of NumPy with the dtypes of ml_dtypes, and Paddle's files."""

import pickle
import random

import ml_dtypes
import numpy as np
import paddle

import coffer

PLAIN = {
    "f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8",
    "u8": "U64", "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL", "c8": "C64",
}  # fmt: skip
NARROW = {
    "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
}  # fmt: skip


def any_array(draw, random_state):
    if draw.random() < 0.3:
        name = draw.choice(list(NARROW))
        dtype, expected = np.dtype(getattr(ml_dtypes, name)), NARROW[name]
    else:
        code = draw.choice(list(PLAIN))
        dtype, expected = np.dtype(draw.choice("<>") + code), PLAIN[code]
    shape = [draw.randint(draw.random() > 0.1, 5) for _ in range(draw.randint(0, 4))]
    count = int(np.prod(shape))
    data = random_state.randint(0, 2 if expected == "BOOL" else 256, count * dtype.itemsize).astype(np.uint8)
    array = data.view(dtype).reshape(shape)
    for _ in range(draw.randint(0, 2)):
        array = draw.choice([np.transpose, np.asfortranarray, lambda a: a[::-1] if a.ndim else a, lambda a: np.moveaxis(a, 0, -1) if a.ndim else a])(array)
    return array, expected


def little(array):
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def compare(source, expected, **options):
    output = source.with_suffix(".safetensors")
    output.unlink(missing_ok=True)
    told = coffer.convert(source, output, **options)
    assert told.total == told.written + told.aliased + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        assert set(model.keys()) == set(expected)
        for name, (dtype, array) in expected.items():
            assert (model[name].dtype, model[name].shape) == (dtype, array.shape)
            assert model[name].tobytes() == np.ascontiguousarray(little(array)).tobytes()
    return told


def test_pickled_arrays(tmp_path):
    for seed in range(150):
        draw = random.Random(seed)
        arrays, expected = {}, {}
        for i in range(draw.randint(1, 5)):
            arrays[f"k{i}"], dtype = any_array(draw, np.random.RandomState(10 * seed + i))
            expected[f"k{i}"] = dtype, arrays[f"k{i}"]
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(arrays, protocol=draw.choice([1, 2, 3, 4, 5])))
        compare(tmp_path / "a.pkl", expected)


def test_paddle(tmp_path):
    layer = paddle.nn.Linear(3, 4)
    arrays = {name: value.numpy() for name, value in layer.state_dict().items()}
    for protocol in (2, 3, 4):
        paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"), protocol=protocol)
        compare(tmp_path / "a.pdparams", {name: ("F32", array) for name, array in arrays.items()})
        half = {name: value.astype("bfloat16") for name, value in layer.state_dict().items()}
        paddle.save(half, str(tmp_path / "b.pdparams"), protocol=protocol)
        told = compare(tmp_path / "b.pdparams", {name: ("BF16", value.numpy()) for name, value in half.items()})
        assert any("bfloat16" in finding.text for finding in told.findings)
    nested = {"a": paddle.ones([2]), "b": {"c": [paddle.zeros([3, 1])]}}
    paddle.save(nested, str(tmp_path / "c.pdparams"))
    compare(tmp_path / "c.pdparams", {"a": ("F32", np.ones(2, "f4")), "b.c.0": ("F32", np.zeros((3, 1), "f4"))}, root="all")


def test_parts_of_large_arrays_of_paddle(tmp_path):
    """Paddle cuts arrays above 1 GB with protocols 2 and 3; here small ones are cut in the same way."""
    whole = np.arange(30, dtype="f4").reshape(5, 6)
    parts = {f"w@@.{i}": whole.ravel()[12 * i : 12 * (i + 1)].copy() for i in range(3)}
    slices = {"w": {"OriginShape": whole.shape, "slices": list(parts)}}
    for protocol in (2, 3):
        data = {"b": np.ones(2, "f4"), **parts, "UnpackBigParamInfor@@": slices}
        (tmp_path / "a.pdparams").write_bytes(pickle.dumps(data, protocol=protocol))
        compare(tmp_path / "a.pdparams", {"b": ("F32", np.ones(2, "f4")), "w": ("F32", whole)})
