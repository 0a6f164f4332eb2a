# SPDX-License-Identifier: Apache-2.0
"""What the command and sft (sft-cli) make of the same files. Where sft is right, names, dtypes, shapes, metadata and every bit are the
same. Where it is not, the test says what sft does, sees that it still does so, and wants the right result of ours.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model_files import bits_of, make
from test_cli_rewrite import awkward_floats, run, tensors_of

SFT = Path(sys.executable).with_name("sft")
RANDOM = np.random.default_rng(3)
NOT_A_NUMBER = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}  # and a larger number, without the sign


def sft(*arguments, code=0):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "NO_COLOR": "1", "COLUMNS": "200", "LANG": "C.UTF-8"}
    done = subprocess.run([SFT, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", env=environment, timeout=120,
                          check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def content_of(path):
    """The metadata, and the tensors without their places; no metadata are as none in it."""
    metadata, tensors = tensors_of(path)
    return metadata or {}, {name: tensor[:3] for name, tensor in tensors.items()}


def entry(dtype, *shape):
    """A tensor of random bits, NaN and all; a BOOL is 0 or 1."""
    body = RANDOM.bytes(int(np.prod(shape)) * bits_of(dtype) // 8)
    return dtype, list(shape), bytes(byte & 1 for byte in body) if dtype == "BOOL" else body


def checkpoint(path, metadata=True):
    """Every dtype that sft reads, in names as models have them, in the order in which a writer would put them."""
    tensors = {}
    for layer in (0, 1, 10):
        for part, dtype in (("self_attn.q_proj", "F32"), ("self_attn.k_proj", "BF16"), ("mlp.up_proj", "F16")):
            tensors[f"model.layers.{layer}.{part}.weight"] = entry(dtype, 6, 5)
            tensors[f"model.layers.{layer}.{part}.bias"] = entry(dtype, 6)
    tensors["größe/日本"] = entry("F64", 3, 1, 2)
    tensors["step"] = entry("I64")
    tensors["empty"] = entry("F32", 0, 7)
    for dtype in ("I8", "I16", "I32", "U8", "U16", "U32", "U64", "BOOL", "C64"):
        tensors[f"of.{dtype}"] = entry(dtype, 5)
    make(path, tensors, {"format": "pt", "größe": "two\nlines"} if metadata else None)
    return path


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    return checkpoint(tmp_path / "model.safetensors")


# ---- Names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "new"), [
    (r"model\.layers\.", "h."), (r"\.weight$", ".w"), (r"([a-z]+)_proj", r"\1"), (r"layers\.([0-9]+)\.(self_attn|mlp)", r"\2.\1"),
    ("e", "E"), (r"^", "module."), (r"[0-9]+", "<number \\g<0>>"),
], ids=["literal", "end", "group", "two-groups", "every-match", "prefix", "all-of-a-match"])
def test_renaming_by_a_regular_expression(model, tmp_path, pattern, new):
    sft("rename", model, "--sub", pattern, "--sub", new, "-o", tmp_path / "theirs.safetensors")
    run("rename", model, "--regex", f"s/{pattern}/{new.replace(chr(92) + 'g<0>', '&')}/g", "-o", tmp_path / "ours.safetensors")
    assert content_of(tmp_path / "ours.safetensors") == content_of(tmp_path / "theirs.safetensors")


def test_names_that_meet(model, tmp_path):
    # Of tensors that get one name sft keeps the last, and says nothing.
    sft("rename", model, "--sub", r"layers\.[0-9]+", "--sub", "layer", "-o", tmp_path / "theirs.safetensors")
    assert len(content_of(tmp_path / "theirs.safetensors")[1]) == len(content_of(model)[1]) - 12
    result = run("rename", model, "--regex", r"s/layers\.[0-9]+/layer/", "-o", tmp_path / "ours.safetensors", code=1)
    assert "model.layer.self_attn.q_proj.weight" in result.stderr
    assert not (tmp_path / "ours.safetensors").exists()


def test_an_expression_that_matches_nothing(model, tmp_path):
    # sft copies the file, with a warning.
    sft("rename", model, "--sub", "nothing", "--sub", "x", "-o", tmp_path / "theirs.safetensors")
    assert content_of(tmp_path / "theirs.safetensors") == content_of(model)
    run("rename", model, "--regex", "s/nothing/x/", "-o", tmp_path / "ours.safetensors", code=1)
    assert not (tmp_path / "ours.safetensors").exists()


# ---- Some of the tensors --------------------------------------------------------------------------------------------

# A star of sft is part of a name between dots when the pattern has a dot; ours is any text.
PATTERNS = [("*proj*", "*proj*"), ("**.bias", "*.bias"), ("model.layers.1.**", "model.layers.1.*"), ("of.?8", "of.?8"), ("step", "step")]


@pytest.mark.parametrize(("theirs", "ours"), PATTERNS)
def test_dropping_tensors(model, tmp_path, theirs, ours):
    sft("strip", model, "--exclude", theirs, "-o", tmp_path / "theirs.safetensors")
    run("drop", model, ours, "-o", tmp_path / "ours.safetensors")
    assert content_of(tmp_path / "ours.safetensors") == content_of(tmp_path / "theirs.safetensors")


@pytest.mark.parametrize(("theirs", "ours"), PATTERNS)
def test_keeping_tensors(model, tmp_path, theirs, ours):
    sft("slice", model, "--include", theirs, "-o", tmp_path / "theirs.safetensors")
    run("drop", model, "--except", ours, "-o", tmp_path / "dropped.safetensors")
    run("get", model, ours, "-o", tmp_path / "got.safetensors")
    assert content_of(tmp_path / "dropped.safetensors") == content_of(tmp_path / "theirs.safetensors")
    assert content_of(tmp_path / "got.safetensors")[1] == content_of(tmp_path / "theirs.safetensors")[1]


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F4"])
def test_dtypes_that_numpy_lacks(tmp_path, dtype):
    # sft ends with an exception of Python's, whatever it is to do with the file.
    tensors = {"x": entry(dtype, 4, 2), "y": entry("U8", 3)}
    make(tmp_path / "model.safetensors", tensors, {})
    done = sft("strip", tmp_path / "model.safetensors", "--exclude", "y", "-o", tmp_path / "theirs.safetensors", code=1)
    assert "AttributeError" in done.stderr
    run("drop", tmp_path / "model.safetensors", "y", "-o", tmp_path / "ours.safetensors")
    assert content_of(tmp_path / "ours.safetensors")[1] == {"x": tensors["x"]}


# ---- Casts ----------------------------------------------------------------------------------------------------------


def without_nan(tensor):
    """The bits of a tensor's numbers, all NaN the same."""
    dtype, shape, body = tensor
    bits = np.frombuffer(body, f"<u{bits_of(dtype) // 8}")
    sign = bits.dtype.type(1) << bits.dtype.type(bits_of(dtype) - 1)
    return dtype, shape, np.where(bits & ~sign > NOT_A_NUMBER[dtype], ~bits.dtype.type(0), bits).tolist()


def cast(tmp_path, tensors, dtype):
    """What sft makes of it, and what ours does, without the NaN's payloads, of which numpy keeps others."""
    make(tmp_path / "model.safetensors", tensors, {"format": "pt"})
    names = {"F16": "fp16", "BF16": "bf16", "F32": "fp32", "F64": "fp64"}
    sft("cast", tmp_path / "model.safetensors", "--dtype", names[dtype], "-o", tmp_path / "theirs.safetensors")
    run("cast", tmp_path / "model.safetensors", f"*={dtype}", "-o", tmp_path / "ours.safetensors")
    theirs, ours = content_of(tmp_path / "theirs.safetensors"), content_of(tmp_path / "ours.safetensors")
    assert ours[0] == theirs[0] == {"format": "pt"}
    return [{name: without_nan(tensor) for name, tensor in found[1].items()} for found in (theirs, ours)]


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
def test_casts(tmp_path, dtype):
    with np.errstate(all="ignore"):
        singles = awkward_floats(20_000).astype("<f4")
    every = np.arange(1 << 16, dtype="<u2").tobytes()
    tensors = {
        "f32": ("F32", [len(singles)], singles.tobytes()), "f16": ("F16", [256, 256], every), "bf16": ("BF16", [256, 256], every),
        "empty": ("F32", [0, 3], b""), "scalar": ("F16", [], b"\0\x3c"),
    }
    if dtype != "BF16":
        tensors["f64"] = ("F64", [20_000], awkward_floats(0)[:20_000].astype("<f8").tobytes())
    theirs, ours = cast(tmp_path, tensors, dtype)
    assert ours == theirs


def test_a_double_becomes_the_nearest_bfloat16(tmp_path):
    # sft goes over F32, and the number is halfway between two then.
    theirs, ours = cast(tmp_path, {"x": ("F64", [1], struct.pack("<d", 1 + 2**-8 + 2**-40))}, "BF16")
    assert theirs["x"] == ("BF16", [1], [0x3F80])
    assert ours["x"] == ("BF16", [1], [0x3F81])


def test_what_is_no_float_is_not_cast(tmp_path):
    # sft makes floats of integers that floats do not have, and of BOOL.
    make(tmp_path / "model.safetensors", {"x": ("F32", [1], bytes(4)), "id": ("I64", [1], struct.pack("<q", 32001))})
    sft("cast", tmp_path / "model.safetensors", "--dtype", "bf16", "-o", tmp_path / "theirs.safetensors")
    assert content_of(tmp_path / "theirs.safetensors")[1]["id"] == ("BF16", [1], struct.pack("<f", 32000)[2:])
    run("cast", tmp_path / "model.safetensors", "*=BF16", "-o", tmp_path / "ours.safetensors", code=1)
    run("cast", tmp_path / "model.safetensors", "x=BF16", "-o", tmp_path / "ours.safetensors")
    assert content_of(tmp_path / "ours.safetensors")[1]["id"] == ("I64", [1], struct.pack("<q", 32001))


# ---- Files ----------------------------------------------------------------------------------------------------------


def test_splitting_and_merging(model, tmp_path):
    sft("split", model, "--max-size", "300B")
    run("split", model, "--max-shard-size", "300", "-o", tmp_path / "ours")
    theirs = sorted(tmp_path.glob("model-*.safetensors"))
    ours = sorted((tmp_path / "ours").glob("*-of-*.safetensors"))
    assert len(theirs) > 1
    assert len(ours) > 1
    metadata, tensors = content_of(model)
    for files in (theirs, ours):
        merged = {}
        for path in files:
            part = content_of(path)[1]
            assert sum(len(body) for _, _, body in part.values()) <= 300
            merged |= part
        assert merged == tensors
    total = sum(len(body) for _, _, body in tensors.values())
    for index in (tmp_path / "model.safetensors.index.json", tmp_path / "ours" / "model.safetensors.index.json"):
        assert json.loads(index.read_text())["metadata"]["total_size"] == total
    # sft leaves the metadata out of the files.
    assert all(content_of(path)[0] == {} for path in theirs)
    assert all(content_of(path)[0] == metadata for path in ours)
    sft("cat", *ours, "-o", tmp_path / "theirs.safetensors")
    run("merge", *ours, "-o", tmp_path / "again.safetensors")
    assert content_of(tmp_path / "again.safetensors") == content_of(tmp_path / "theirs.safetensors") == (metadata, tensors)


def test_a_name_that_two_files_have(model, tmp_path):
    make(tmp_path / "other.safetensors", {"step": entry("I64"), "new": entry("U8", 2)})
    assert "step" in sft("cat", model, tmp_path / "other.safetensors", "-o", tmp_path / "theirs.safetensors", code=1).stderr
    assert "step" in run("merge", model, tmp_path / "other.safetensors", "-o", tmp_path / "ours.safetensors", code=1).stderr


def test_metadata_that_contradict_each_other(tmp_path):
    # sft keeps the last file's.
    make(tmp_path / "a.safetensors", {"x": entry("U8", 1)}, {"licence": "mit"})
    make(tmp_path / "b.safetensors", {"y": entry("U8", 1)}, {"licence": "gpl"})
    both = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    sft("cat", *both, "-o", tmp_path / "theirs.safetensors")
    assert content_of(tmp_path / "theirs.safetensors")[0] == {"licence": "gpl"}
    assert "licence" in run("merge", *both, "-o", tmp_path / "ours.safetensors", code=1).stderr


@pytest.mark.parametrize("with_metadata", [True, False])
def test_metadata(tmp_path, with_metadata):
    model = checkpoint(tmp_path / "model.safetensors", with_metadata)
    changes = ["--set", "licence=mit=free", "--set", "format=np", "--set", "größe=日本\n\x1b"]
    sft("metadata", model, *changes, "-o", tmp_path / "theirs.safetensors")
    run("meta", model, *changes)
    assert content_of(model) == content_of(tmp_path / "theirs.safetensors")
    sft("metadata", model, "--unset", "format", "-o", tmp_path / "theirs.safetensors")
    run("meta", model, "--unset", "format")
    assert content_of(model) == content_of(tmp_path / "theirs.safetensors")


def test_folders(model):
    # sft takes single files alone.
    assert "Expected a .safetensors file" in sft("ls", model.parent, code=1).stderr
    assert len(json.loads(run("ls", "--json", model.parent).stdout)["tensors"]) == len(content_of(model)[1])


# ---- Numbers --------------------------------------------------------------------------------------------------------


def test_statistics(model):
    theirs = {row["name"]: row for row in json.loads(sft("stat", model, "--json").stdout)}
    for row in json.loads(run("stats", "--json", model).stdout)["tensors"]:
        other = theirs[row["name"]]
        assert (row["nan"], row["infinite"]) == (other["nan_count"], other["inf_count"])
        if row["min"] is not None and row["dtype"] != "C64":
            assert (row["min"], row["max"]) == (other["min"], other["max"])


def test_a_file_does_not_differ_from_itself(model, tmp_path):
    # To sft a tensor with a NaN or an infinite number differs from itself, as these do.
    copy = tmp_path / "copy.safetensors"
    make(model, {"x": ("F32", [2], struct.pack("<2f", 1, float("nan"))), "y": ("F32", [1], struct.pack("<f", 1))})
    copy.write_bytes(model.read_bytes())
    found = json.loads(sft("diff", model, copy, "--delta", "--json").stdout)
    assert "differ" in json.dumps(found)
    run("diff", model, copy)


# ---- Adapters -------------------------------------------------------------------------------------------------------

CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 4}


def small_numbers(dtype, *shape):
    """Integers so small that no sum of products is rounded, in whatever order it is taken."""
    numbers = RANDOM.integers(-2, 3, shape).astype("<f4")
    body = numbers.astype({"F16": "<f2", "F64": "<f8"}.get(dtype, "<f4")).tobytes()
    return dtype, list(shape), (numbers.view("<u4") >> 16).astype("<u2").tobytes() if dtype == "BF16" else body


def adapter(folder, tensors, **config):
    folder.mkdir()
    make(folder / "adapter_model.safetensors", {f"base_model.model.{name}": tensor for name, tensor in tensors.items()})
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, **config}))
    return folder


def merged(tmp_path, base, folder, *options):
    """What sft and ours make of an adapter of PEFT."""
    file = folder / "adapter_model.safetensors"
    sft("lora", "merge", base, file, *options, "-o", tmp_path / "theirs.safetensors")
    run("merge-lora", base, folder, *options, "-o", tmp_path / "ours.safetensors")
    return content_of(tmp_path / "theirs.safetensors"), content_of(tmp_path / "ours.safetensors")


def pair(module, rows, columns, dtype="F32"):
    return {f"{module}.lora_A.weight": small_numbers(dtype, 4, columns), f"{module}.lora_B.weight": small_numbers(dtype, rows, 4)}


def two_modules(tmp_path, dtype):
    """A model, and an adapter for it."""
    modules = {"model.layers.0.q_proj": (33, 17), "model.layers.1.up_proj": (5, 64)}
    weights = {f"{module}.weight": small_numbers(dtype, *shape) for module, shape in modules.items()}
    make(tmp_path / "base.safetensors", {**weights, "stays": entry("I64", 2)}, {"a": "b"})
    factors = [pair(module, *shape) for module, shape in modules.items()]
    return tmp_path / "base.safetensors", adapter(tmp_path / "adapter", factors[0] | factors[1])


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64"])
@pytest.mark.parametrize("scale", [[], ["--scale", "0.5"], ["--scale", "-2"]], ids=["1", "0.5", "-2"])
def test_an_adapter(tmp_path, dtype, scale):
    base, folder = two_modules(tmp_path, dtype)
    theirs, ours = merged(tmp_path, base, folder, *scale)
    assert ours == theirs
    assert ours != content_of(base)


def test_an_adapter_of_bfloat16(tmp_path):
    # sft writes what it changes as F32; the numbers are right.
    theirs, ours = merged(tmp_path, *two_modules(tmp_path, "BF16"))
    dtype, shape, body = theirs[1]["model.layers.1.up_proj.weight"]
    assert dtype == "F32"
    assert ours[1]["model.layers.1.up_proj.weight"] == ("BF16", shape, np.frombuffer(body, "<u2")[1::2].tobytes())


def test_the_scale_of_an_adapter(tmp_path):
    # sft does not read adapter_config.json, and adds the adapter without its alpha.
    make(tmp_path / "base.safetensors", {"l.weight": ("F32", [1, 1], struct.pack("<f", 1))})
    one = ("F32", [1, 1], struct.pack("<f", 1))
    folder = adapter(tmp_path / "adapter", {"l.lora_A.weight": one, "l.lora_B.weight": one}, r=1, lora_alpha=8)
    theirs, ours = merged(tmp_path, tmp_path / "base.safetensors", folder)
    assert theirs[1]["l.weight"][2] == struct.pack("<f", 2)
    assert ours[1]["l.weight"][2] == struct.pack("<f", 9)


def test_a_sum_is_rounded_once(tmp_path):
    # sft rounds the product to the base's dtype before it adds it.
    make(tmp_path / "base.safetensors", {"l.weight": ("F16", [1, 1], b"\0\x3c")})
    factors = [("F32", [1, 1], struct.pack("<f", number)) for number in (2**-11 + 2**-22, 1)]
    folder = adapter(tmp_path / "adapter", dict(zip(("l.lora_A.weight", "l.lora_B.weight"), factors, strict=True)), r=1, lora_alpha=1)
    theirs, ours = merged(tmp_path, tmp_path / "base.safetensors", folder)
    assert theirs[1]["l.weight"][2] == b"\0\x3c"
    assert ours[1]["l.weight"][2] == b"\1\x3c"


def test_an_adapter_of_another_model(tmp_path):
    # sft leaves out what finds no place, and says that it merged.
    make(tmp_path / "base.safetensors", {"l.weight": small_numbers("F32", 5, 3)})
    folder = adapter(tmp_path / "adapter", pair("other", 5, 3))
    sft("lora", "merge", tmp_path / "base.safetensors", folder / "adapter_model.safetensors", "-o", tmp_path / "theirs.safetensors")
    assert content_of(tmp_path / "theirs.safetensors") == content_of(tmp_path / "base.safetensors")
    assert "other" in run("merge-lora", tmp_path / "base.safetensors", folder, "-o", tmp_path / "ours.safetensors", code=1).stderr
    assert not (tmp_path / "ours.safetensors").exists()
