# SPDX-License-Identifier: Apache-2.0
"""coffer dequantize: layers of every layout become what the programs that wrote them decode, to the bit; what the new model
has besides; and what is refused. tests/quantised has the layers. Larger ones are read where the shared data are."""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1] / "quantised"
SHARED = Path(os.environ.get("COFFER_REALDATA", "/nowhere")).parent / "quantised-fixtures"
CLI = os.environ["COFFER_CLI"]
NAN_FROM = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}
# The shape is nowhere in the file, and no bias tells it.
WITHOUT_SHAPE = {"quanto_qint4", "quanto_qint2"}


def load(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    return {
        name: (entry["dtype"], entry["shape"], raw[8 + size :][slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }, metadata


def save(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def coffer(*arguments):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, check=False)


def numbers(dtype, raw):
    """The bits of each number; those of any NaN are the same, as programs choose them freely."""
    width = 4 if dtype == "F32" else 2
    codes = struct.unpack(f"<{len(raw) // width}{'I' if width == 4 else 'H'}", raw)
    top = (1 << (8 * width - 1)) - 1
    return [-1 if code & top > NAN_FROM[dtype] else code for code in codes]


def cases():
    folders = {path.parent.name: path.parent for path in SHARED.glob("*/expected.safetensors")}
    folders |= {path.parent.name: path.parent for path in HERE.glob("*/expected.safetensors")}
    return [folders[name] for name in sorted(folders) if name not in WITHOUT_SHAPE | {"gguf_write"}]


def copy_model(folder, to):
    to.mkdir()
    for path in folder.iterdir():
        if path.name not in ("expected.safetensors", "source.safetensors"):
            shutil.copy(path, to)


@pytest.mark.parametrize("folder", cases(), ids=lambda path: path.name)
def test_layers_are_those_of_their_programs(folder, tmp_path):
    copy_model(folder, tmp_path / "in")
    expected, _ = load(folder / "expected.safetensors")
    for ending in ("", "#f32"):
        wanted = {
            name.removesuffix("#f32"): tensor
            for name, tensor in expected.items()
            if name.endswith("#f32") == bool(ending) and not name.endswith("#ternary")
        }
        if not wanted:
            continue
        dtypes = [tensor[0] for tensor in wanted.values()]
        dtype = "F32" if ending else max(set(dtypes), key=dtypes.count)
        # Its own code rounds the scale first, and is what made the file.
        like = ["--like", "modelopt"] if folder.name == "modelopt_fp8" and not ending else []
        out = tmp_path / f"out{len(ending)}"
        done = coffer("dequantize", tmp_path / "in", "-o", f"{out}/", "--dtype", dtype.lower(), *like)
        assert done.returncode == 0, done.stderr
        found, metadata = load(out / "model.safetensors")
        for name, (tensor_dtype, shape, raw) in wanted.items():
            assert found[name][:2] == (tensor_dtype, shape)
            if tensor_dtype in NAN_FROM:
                assert numbers(tensor_dtype, found[name][2]) == numbers(tensor_dtype, raw), name
            else:
                assert found[name][2] == raw
        assert not any("scale" in name or "zero" in name or "packed" in name for name in found)
        assert not {"_quantization_metadata", "tensor_names"} & set(metadata)
        assert not (out / "hf_quant_config.json").exists()
        if (out / "config.json").exists():
            config = json.loads((out / "config.json").read_text())
            assert not {"quantization_config", "quantization"} & set(config)


def fp8_layer(rows=40, columns=64, scales=(1, 1)):
    codes = bytes((i * 37 + 11) % 0x7E for i in range(rows * columns))
    return {
        "m.weight": ("F8_E4M3", [rows, columns], codes),
        "m.weight_scale_inv": ("F32", list(scales), struct.pack(f"<{scales[0] * scales[1]}f", *[0.5] * (scales[0] * scales[1]))),
        "norm": ("BF16", [2], b"\x80\x3f\x00\x40"),
    }


def refused(tmp_path, tensors, config=None):
    folder = tmp_path / "model"
    folder.mkdir()
    save(folder / "model.safetensors", tensors)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    done = coffer("dequantize", folder, "-o", tmp_path / "out.safetensors")
    assert done.returncode == 1, done.stderr
    assert not (tmp_path / "out.safetensors").exists()
    return done.stderr


BLOCKS = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


def test_a_model_in_shards_whose_helpers_are_elsewhere(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    layer = fp8_layer()
    first = {"m.weight": layer["m.weight"]}
    second = {"m.weight_scale_inv": layer["m.weight_scale_inv"], "norm": layer["norm"]}
    save(folder / "model-00001-of-00002.safetensors", first)
    save(folder / "model-00002-of-00002.safetensors", second)
    names = {name: "model-00001-of-00002.safetensors" for name in first}
    names |= {name: "model-00002-of-00002.safetensors" for name in second}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
    (folder / "config.json").write_text(json.dumps({"model_type": "x", **BLOCKS}))
    (folder / "tokenizer.json").write_text("{}")
    done = coffer("dequantize", folder, "-o", f"{tmp_path}/out/")
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 40 * 64 * 2 + 4
    assert set(index["weight_map"]) == {"m.weight", "norm"}
    assert json.loads((tmp_path / "out/config.json").read_text()) == {"model_type": "x"}
    assert (tmp_path / "out/tokenizer.json").exists()
    tensors, _ = load(tmp_path / "out" / index["weight_map"]["m.weight"])
    assert tensors["m.weight"][:2] == ("BF16", [40, 64])


def test_helpers_that_are_missing(tmp_path):
    layer = fp8_layer()
    del layer["m.weight"]
    assert "m.weight_scale_inv" in refused(tmp_path, layer, BLOCKS)


def test_codes_without_scales(tmp_path):
    layer = fp8_layer()
    del layer["m.weight_scale_inv"]
    assert "without scales" in refused(tmp_path, layer, BLOCKS)


def test_grids_that_do_not_fit(tmp_path):
    assert "2 by 1, and it should be 1 by 1" in refused(tmp_path, fp8_layer(scales=(2, 1)), BLOCKS)


def test_grids_that_are_transposed(tmp_path):
    assert "1 by 2, and it should be 2 by 1" in refused(tmp_path, fp8_layer(rows=200, scales=(1, 2)), BLOCKS)


def test_scales_that_are_not_finite(tmp_path):
    layer = fp8_layer()
    layer["m.weight_scale_inv"] = ("F32", [1, 1], struct.pack("<f", float("nan")))
    assert "infinite or NaN" in refused(tmp_path, layer, BLOCKS)
    done = coffer("dequantize", tmp_path / "model", "-o", tmp_path / "out.safetensors", "--allow-not-finite")
    assert done.returncode == 0
    assert "2,560 numbers are NaN" in done.stderr


def gptq_layer(groups=(0,) * 32, zero=7):
    return {
        "m.qweight": ("I32", [4, 32], bytes(range(256)) * 2),
        "m.qzeros": ("I32", [1, 4], bytes([zero | zero << 4]) * 16),
        "m.scales": ("F16", [1, 32], b"\x00\x3c" * 32),
        "m.g_idx": ("I32", [32], struct.pack("<32i", *groups)),
    }


GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True}}


@pytest.mark.parametrize("group", [1, -1, 2**31 - 1])
def test_groups_that_are_not_there(tmp_path, group):
    assert "names a group" in refused(tmp_path, gptq_layer((0,) * 31 + (group,)), GPTQ)


def test_zero_points_of_an_unclear_version(tmp_path):
    for zero, text in ((7, None), (8, None), (5, "neither version of GPTQ")):
        folder = tmp_path / str(zero)
        folder.mkdir()
        save(folder / "model.safetensors", gptq_layer(zero=zero))
        (folder / "config.json").write_text(json.dumps(GPTQ))
        done = coffer("dequantize", folder, "-o", folder / "out.safetensors")
        assert done.returncode == 0
        assert (text is None) == ("neither" not in done.stderr)
        (_, _, raw) = load(folder / "out.safetensors")[0]["m.weight"]
        # The first code is 0; a zero point of 8 is 8 in version 2, and 7 is 8 in version 1.
        assert struct.unpack("<e", raw[:2])[0] == {7: -8, 8: -8, 5: -6}[zero]


def test_layers_that_contradict_the_configuration(tmp_path):
    assert "config.json says" in refused(tmp_path, gptq_layer(), {"quantization_config": {"quant_method": "awq", "bits": 4}})


def test_two_tensors_of_one_name(tmp_path):
    layer = gptq_layer()
    layer["m.weight"] = ("F16", [1], b"\0\0")
    assert "m.weight" in refused(tmp_path, layer, GPTQ)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("m.codes", "m.codebooks"), "AQLM"),
        (("m.Qidxs", "m.SU"), "QuIP#"),
        (("m.q_weight", "m.q_groups"), "EXL2"),
        (("m.trellis", "m.suh"), "EXL3"),
        (("m.centroids",), "VPTQ"),
    ],
)
def test_layouts_that_are_refused_by_name(tmp_path, names, text):
    assert text in refused(tmp_path, {name: ("I32", [1], bytes(4)) for name in names})


def test_packed_shapes_that_lie(tmp_path):
    for number, shape in enumerate(((4, 0), (-1, 8), (4, 2**40), (5, 8))):
        folder = tmp_path / str(number)
        folder.mkdir()
        layer = {
            "m.weight_packed": ("I32", [4, 1], bytes(16)),
            "m.weight_scale": ("BF16", [4, 1], bytes(8)),
            "m.weight_shape": ("I64", [2], struct.pack("<2q", *shape)),
        }
        assert "weight_shape" in refused(folder, layer)


STATE = '{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [8, 8]}'


@pytest.mark.parametrize(
    "state",
    [
        STATE[:-5],
        STATE.replace("64", "0"),
        STATE.replace("[8, 8]", "[8, 9]"),
        STATE.replace("[8, 8]", "[" * 200 + "]" * 200),
        STATE.replace("bfloat16", "int8"),
        STATE.replace("}", ', "nested_blocksize": 0}'),
        STATE.replace("}", ', "nested_offset": NaN}'),
    ],
)
def test_states_that_lie(tmp_path, state):
    layer = {
        "m.weight": ("U8", [32, 1], bytes(32)),
        "m.weight.absmax": ("F32", [1], struct.pack("<f", 1)),
        "m.weight.quant_map": ("F32", [16], struct.pack("<16f", *range(16))),
        "m.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state.encode()),
    }
    refused(tmp_path, layer)


def test_a_quantised_configuration_of_plain_tensors(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    save(folder / "model.safetensors", {"norm": ("BF16", [2], bytes(4))})
    (folder / "config.json").write_text(json.dumps(BLOCKS))
    done = coffer("dequantize", folder, "-o", f"{tmp_path}/out/")
    assert done.returncode == 0
    assert "no tensor is" in done.stderr
    assert json.loads((tmp_path / "out/config.json").read_text()) == {}


def test_a_plain_model(tmp_path):
    assert "no quantised layers" in refused(tmp_path, {"a.scales": ("F16", [2], bytes(4))})


def test_json_names_the_layout(tmp_path):
    save(tmp_path / "m.safetensors", fp8_layer())
    done = coffer("dequantize", tmp_path / "m.safetensors", "-o", tmp_path / "o.safetensors", "--json")
    changes = {change["name"]: change for change in json.loads(done.stdout)["changes"]}
    assert changes["m.weight"]["layout"] == "DeepSeek FP8 blocks"
    assert changes["m.weight_scale_inv"]["change"] == "drop"
