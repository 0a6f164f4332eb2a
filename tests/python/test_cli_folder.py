# SPDX-License-Identifier: Apache-2.0
"""Whole models out: -o FOLDER/ writes the model's files with their index and its companions, with what a change makes untrue
set right in the copied config.json, and publishes all of it as one."""

import hashlib
import json
import os
import pathlib
import resource
import subprocess

import numpy as np
import pytest
from model_files import make

CLI = os.environ["COFFER_CLI"]
LAYERS = 4
COMPANIONS = {
    "generation_config.json": b'{"do_sample": true}',
    "tokenizer.json": b'{"model": {}}',
    "tokenizer_config.json": b"{}",
    "tokenizer.model": b"\x00\x01",
    "merges.txt": b"a b\n",
    "preprocessor_config.json": b"{}",
    "chat_template.jinja": b"{{ x }}",
    "modeling_odd.py": b"import torch\n",
    "LICENSE": b"",
    "README.md": b"# model\n",
}
OTHERS = {
    "pytorch_model.bin": b"old",
    "pytorch_model.bin.index.json": b"{}",
    "model.onnx": b"old",
    "optimizer.pt": b"state",
    "training_args.bin": b"state",
    "trainer_state.json": b"{}",
    "SHA256SUMS": b"0  model.safetensors\n",
    ".gitattributes": b"x",
    "other.safetensors.coffer-new": b"unfinished",
}


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=60,
                            check=False)
    assert result.returncode == code, result.stderr
    return result


def tensors():
    numbers = np.random.default_rng(7).standard_normal((LAYERS + 1, 8, 4)).astype("<f4")
    names = ["model.embed_tokens.weight"] + [f"model.layers.{i}.mlp.up.weight" for i in range(LAYERS)]
    return {name: ("F32", [8, 4], values.tobytes()) for name, values in zip(names, numbers)}


def config(**more):
    return {
        "architectures": ["OddForCausalLM"],
        "num_hidden_layers": LAYERS,
        "layer_types": ["full", "sliding", "full", "linear"],
        "torch_dtype": "float32",
        "text_config": {"dtype": "float32", "hidden_size": 4},
        "vision_config": {"dtype": "float64"},
        **more
    }


def write_model(folder, shards=1, name="model", **more):
    folder.mkdir()
    every = list(tensors().items())
    if shards == 1:
        make(folder / f"{name}.safetensors", dict(every), {"format": "pt"})
    else:
        weight_map = {}
        for i in range(shards):
            file = f"{name}-{i + 1:05}-of-{shards:05}.safetensors"
            part = dict(every[i::shards])
            make(folder / file, part, {"format": "pt"})
            weight_map |= dict.fromkeys(part, file)
        total = sum(len(data) for _, _, data in dict(every).values())
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
        (folder / f"{name}.safetensors.index.json").write_text(text)
    (folder / "config.json").write_text(json.dumps(config(**more), indent=2))
    for file, data in (COMPANIONS | OTHERS).items():
        (folder / file).write_bytes(data)
    return folder


def write_adapter(folder):
    folder.mkdir()
    name = "base_model.model.model.layers.0.mlp.up"
    make(folder / "adapter_model.safetensors", {
        f"{name}.lora_A.weight": ("F32", [1, 4], np.ones(4, "<f4").tobytes()),
        f"{name}.lora_B.weight": ("F32", [8, 1], np.ones(8, "<f4").tobytes()),
    })
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["up"]}')
    return folder


def read(path):
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], blob[8 + size:][slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def read_model(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= read(path)
    return found


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def assert_whole(folder, shards=1, name="model"):
    """The model's files and its companions, and nothing else."""
    files = {f"{name}.safetensors"} if shards == 1 else {
        f"{name}.safetensors.index.json", *(f"{name}-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards))
    }
    assert {path.name for path in folder.iterdir()} == files | {"config.json"} | set(COMPANIONS)
    for file, data in COMPANIONS.items():
        assert (folder / file).read_bytes() == data
    if shards > 1:
        index = json.loads((folder / f"{name}.safetensors.index.json").read_text())
        stated = {tensor: read(folder / file)[tensor] for tensor, file in index["weight_map"].items()}
        assert stated == read_model(folder)
    run("check", folder)


VERBS = {
    "cast": ["cast", "{model}", "bf16"],
    "rename": ["rename", "{model}", "model.*=*"],
    "drop": ["drop", "{model}", "*.layers.0.*"],
    "align": ["align", "{model}", "--to", "4096"],
    "convert": ["convert", "{model}"],
    "average": ["average", "{model}", "{model}"],
    "get": ["get", "{model}", "*.layers.*"],
}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_gets_a_whole_model(tmp_path, verb, shards):
    model = write_model(tmp_path / "model", shards)
    before = digests(model)
    out = tmp_path / "parents" / "of it" / "out"
    arguments = [argument.format(model=model) for argument in VERBS[verb]]
    run(*arguments, "-o", f"{out}/")
    assert_whole(out, shards)
    assert digests(model) == before
    if verb != "cast":
        assert (out / "config.json").read_bytes() == (model / "config.json").read_bytes()


def test_a_folder_that_is_there_needs_no_slash(tmp_path):
    model = write_model(tmp_path / "model")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes of mine").write_text("stay")
    run("cast", model, "f16", "-o", tmp_path / "out")
    assert (tmp_path / "out" / "notes of mine").read_text() == "stay"
    (tmp_path / "out" / "notes of mine").unlink()
    assert_whole(tmp_path / "out")


def test_split_and_merge(tmp_path):
    model = write_model(tmp_path / "model")
    run("split", model, "--max-shard-size", "300", "-o", tmp_path / "several")
    assert_whole(tmp_path / "several", 3)
    run("merge", tmp_path / "several", "-o", f"{tmp_path}/one/")
    assert_whole(tmp_path / "one")
    assert read_model(tmp_path / "one") == tensors()


def test_a_checkpoint_becomes_a_whole_model(tmp_path):
    """Of an .npz here, which numpy writes."""
    folder = tmp_path / "old"
    folder.mkdir()
    numbers = np.arange(6, dtype="<f4").reshape(2, 3)
    np.savez(folder / "weights.npz", **{"a.weight": numbers})
    for file, data in COMPANIONS.items():
        (folder / file).write_bytes(data)
    (folder / "config.json").write_text("{}")
    run("convert", folder / "weights.npz", "-o", f"{tmp_path}/new/")
    assert_whole(tmp_path / "new")
    assert read(tmp_path / "new" / "model.safetensors")["a.weight"] == ("F32", [2, 3], numbers.tobytes())
    # Where its companions are, only the model is new.
    run("convert", folder / "weights.npz", "-o", f"{folder}/")
    assert read(folder / "model.safetensors") == read(tmp_path / "new" / "model.safetensors")


def test_an_adapter_keeps_its_names(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    make(folder / "adapter_model.safetensors", {"base.a.lora_A.weight": ("F32", [2, 2], bytes(16))})
    (folder / "adapter_config.json").write_text('{"r": 2}')
    run("cast", folder, "bf16", "-o", f"{tmp_path}/out/")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"adapter_model.safetensors", "adapter_config.json"}


def test_an_adapter_is_merged_into_a_whole_model(tmp_path):
    model = write_model(tmp_path / "model", 2)
    adapter = write_adapter(tmp_path / "adapter")
    run("merge-lora", model, adapter, "-o", f"{tmp_path}/out/")
    assert_whole(tmp_path / "out", 2)


# ---- what a change makes untrue --------------------------------------------------------------------------------------


def test_a_cast_is_in_the_config(tmp_path):
    model = write_model(tmp_path / "model")
    told = run("cast", model, "bf16", "-o", f"{tmp_path}/out/").stderr
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    assert found == config(torch_dtype="bfloat16", text_config={"dtype": "bfloat16", "hidden_size": 4})
    assert "config.json: torch_dtype: from float32 to bfloat16" in told
    assert "config.json: dtype: from float32 to bfloat16" in told


def test_all_else_in_the_config_keeps_its_bytes(tmp_path):
    model = write_model(tmp_path / "model")
    text = '{ "a":1.0e5,\r\n\t"torch_dtype" :"float32", "caf\\u00e9": [1 ,2], "b": "float32"}\n'
    (model / "config.json").write_text(text, newline="")
    run("cast", model, "f16", "-o", f"{tmp_path}/out/")
    assert (tmp_path / "out" / "config.json").read_bytes().decode() == text.replace(':"float32"', ':"float16"')


@pytest.mark.parametrize("text", ["", "[]", "{", '{"torch_dtype": 5}', "\xff"])
def test_a_config_that_is_none_is_copied(tmp_path, text):
    model = write_model(tmp_path / "model")
    (model / "config.json").write_bytes(text.encode("latin-1"))
    run("cast", model, "f16", "-o", f"{tmp_path}/out/")
    assert (tmp_path / "out" / "config.json").read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize(("layers", "kept"), [("1-2", [1, 2]), ("3,0", [3, 0]), ("2", [2])])
def test_layers_are_in_the_config(tmp_path, layers, kept):
    model = write_model(tmp_path / "model", 2)
    told = run("rename", model, "--layers", layers, "-o", f"{tmp_path}/out/").stderr
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    assert found["num_hidden_layers"] == len(kept)
    assert found["layer_types"] == [config()["layer_types"][i] for i in kept]
    assert found["torch_dtype"] == "float32"
    assert f"config.json: num_hidden_layers: from 4 to {len(kept)}" in told
    for new, old in enumerate(kept):
        name = "model.layers.{}.mlp.up.weight"
        assert read_model(tmp_path / "out")[name.format(new)] == tensors()[name.format(old)]


def test_a_number_of_layers_that_is_nowhere_is_told(tmp_path):
    model = write_model(tmp_path / "model", num_hidden_layers=7)
    told = run("rename", model, "--layers", "0", "-o", f"{tmp_path}/out/").stderr
    assert json.loads((tmp_path / "out" / "config.json").read_text())["num_hidden_layers"] == 7
    assert "config.json: warning: it states no number of layers that is 4" in told


# ---- published as one ------------------------------------------------------------------------------------------------


def test_what_is_there_is_replaced_when_told_to(tmp_path):
    model = write_model(tmp_path / "model")
    out = write_model(tmp_path / "out", 3)
    for file in OTHERS:
        (out / file).unlink()
    before = digests(out)
    assert "-f overwrites it" in run("cast", model, "f16", "-o", out, code=3).stderr
    assert digests(out) == before
    run("cast", model, "f16", "-o", out, "-f")
    assert_whole(out)
    assert {dtype for dtype, _, _ in read_model(out).values()} == {"F16"}


@pytest.mark.parametrize("arguments", [["cast", "bf16"], ["split"], ["merge"], ["align"]])
def test_a_failure_leaves_the_old_folder(tmp_path, arguments):
    """A tensor that is cut off is found when it is copied, after the companions were written."""
    model = write_model(tmp_path / "model")
    out = write_model(tmp_path / "out", 2)
    with (model / "model.safetensors").open("r+b") as file:
        file.truncate((model / "model.safetensors").stat().st_size - 1)
    before = digests(out)
    verb, *rest = arguments
    assert run(verb, model, *rest, "-o", out, "-f", code=1).stderr
    assert digests(out) == before
    run(verb, model, *rest, "-o", f"{tmp_path}/new/parents/", code=1)
    assert not (tmp_path / "new").exists()


def test_a_companion_that_cannot_be_replaced(tmp_path):
    model = write_model(tmp_path / "model")
    out = tmp_path / "out"
    (out / "tokenizer.json").mkdir(parents=True)
    assert "tokenizer.json" in run("cast", model, "f16", "-o", out, "-f", code=3).stderr
    assert [path.name for path in out.iterdir()] == ["tokenizer.json"]


def test_the_folder_that_is_read_is_no_output(tmp_path):
    model = write_model(tmp_path / "model")
    other = write_model(tmp_path / "other")
    before = digests(model)
    assert "name another folder" in run("cast", model, "f16", "-o", model, "-f", code=3).stderr
    assert "name another folder" in run("average", other, model, "-o", f"{model}/", "-f", code=3).stderr
    assert digests(model) == before


def test_a_pipeline_is_more_than_a_part_of_it(tmp_path):
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / "model_index.json").write_text('{"_class_name": "P", "unet": ["diffusers", "UNet2DModel"]}')
    write_model(tmp_path / "pipe" / "unet", name="diffusion_pytorch_model")
    assert "name the folder of each part" in run("cast", tmp_path / "pipe", "f16", "-o", f"{tmp_path}/out/", code=2).stderr
    assert not (tmp_path / "out").exists()
    run("cast", tmp_path / "pipe" / "unet", "f16", "-o", f"{tmp_path}/out/unet/")
    assert_whole(tmp_path / "out" / "unet", name="diffusion_pytorch_model")


def test_what_a_crash_left_is_finished(tmp_path):
    """After the decision, before any file has its name: recovery gives the companions theirs, too."""
    model = write_model(tmp_path / "model")
    out = tmp_path / "out"
    run("cast", model, "f16", "-o", f"{out}/")
    wanted = digests(out)
    weight_map = {name: "model.safetensors" for name in tensors()}
    beside = [path.name for path in out.iterdir() if path.name != "model.safetensors"]
    for path in list(out.iterdir()):
        path.rename(f"{path}.coffer-new")
    index = out / "model.safetensors.index.json"
    pathlib.Path(f"{index}.coffer-ready").write_text(json.dumps({"weight_map": weight_map}))
    pathlib.Path(f"{index}.coffer-companions").write_text("".join(f"{name}\n" for name in [*beside, "../stranger"]))
    (tmp_path / "stranger.coffer-new").write_text("stays")
    run("meta", "--recover", out / "model.safetensors")
    assert digests(out) == wanted
    assert (tmp_path / "stranger.coffer-new").exists()


def test_what_a_crash_left_is_undone(tmp_path):
    """Before the decision: the new files go, with the list of those beside the model."""
    out = write_model(tmp_path / "out")
    before = digests(out)
    index = out / "model.safetensors.index.json"
    pathlib.Path(f"{index}.coffer-new").write_text(json.dumps({"weight_map": {"a": "model.safetensors"}}))
    pathlib.Path(f"{index}.coffer-companions").write_text("config.json\ntokenizer.json\n")
    for name in ["model.safetensors", "config.json", "tokenizer.json"]:
        (out / f"{name}.coffer-new").write_text("half")
    run("meta", "--recover", out / "model.safetensors")
    assert digests(out) == before


# ---- dry runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [*VERBS, "split", "merge"])
def test_dry_runs_write_nothing_and_need_no_output(tmp_path, verb):
    model = write_model(tmp_path / "model")
    before = digests(model)
    arguments = [argument.format(model=model) for argument in VERBS.get(verb, [verb, "{model}"])]
    assert "would be " in run(*arguments, "-n").stderr
    assert "would be written" in run(*arguments, "-n", "-o", f"{tmp_path}/new/out/").stderr
    assert json.loads(run(*arguments, "-n", "--json", "-o", f"{tmp_path}/new/out/").stdout)["done"] == "dry_run"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert digests(model) == before


def test_dry_runs_of_adapters_need_no_output(tmp_path):
    adapter = write_adapter(tmp_path / "adapter")
    base = write_model(tmp_path / "base")
    tuned = tmp_path / "tuned"
    run("merge-lora", base, adapter, "-o", f"{tuned}/")
    before = sorted(path.name for path in tmp_path.iterdir())
    for arguments in [["add-lora", adapter, adapter], ["merge-lora", base, adapter], ["extract-lora", base, tuned, "--rank", "2"]]:
        assert "would be written" in run(*arguments, "-n").stderr
        found = json.loads(run(*arguments, "-n", "--json").stdout)
        assert (found["done"], found["output"]) == ("dry_run", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("verb", [*VERBS, "split", "merge"])
def test_dry_runs_promise_nothing_that_fails(tmp_path, verb):
    """What is refused without -n is refused with it, in the same words."""
    model = write_model(tmp_path / "model")
    out = write_model(tmp_path / "out")
    file = tmp_path / "file"
    file.write_text("no folder")
    arguments = [argument.format(model=model) for argument in VERBS.get(verb, [verb, "{model}"])]
    for output in [f"{out}/", f"{file}/", f"{file}/below/", f"{model}/"]:
        told = run(*arguments, "-o", output, code=3).stderr
        assert run(*arguments, "-n", "-o", output, code=3).stderr == told


@pytest.mark.parametrize("verb", ["cast", "drop", "convert", "average", "split", "merge"])
def test_dry_runs_promise_no_space_that_is_not_there(tmp_path, verb):
    """Here it is the limit of a file's size, which every user can set."""
    model = write_model(tmp_path / "model")
    large = {f"model.layers.{i}.up": ("F32", [1 << 20], bytes(4 << 20)) for i in range(2)}
    make(model / "model.safetensors", large, {"format": "pt"})
    arguments = [argument.format(model=model) for argument in VERBS.get(verb, [verb, "{model}"])]
    arguments = ["cast", model, "f64"] if verb == "cast" else arguments
    told = []
    for more in [[], ["-n"]]:
        result = subprocess.run([CLI, *map(str, arguments), "-o", f"{tmp_path}/out/", *more], capture_output=True, text=True, timeout=60,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)), check=False)
        assert result.returncode == 3, result.stderr
        told.append(result.stderr.strip().removesuffix(' (tensor "model.layers.1.up")').removesuffix(' (tensor "model.layers.0.up")'))
    assert told[0] == told[1]
    assert "write where files may be larger" in told[0]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# ---- dtypes ----------------------------------------------------------------------------------------------------------


def test_a_bare_dtype_is_for_floats(tmp_path):
    make(tmp_path / "m.safetensors", {
        "a": ("F32", [2], np.array([1.5, -3], "<f4").tobytes()),
        "ids": ("I64", [1], bytes(8)),
        "mask": ("BOOL", [1], b"\x01"),
        "scales": ("F8_E8M0", [2], b"\x7f\x80"),
        "codes": ("F4", [2], b"\x21"),
        "small": ("F8_E5M2", [1], b"\x3c"),
    })
    run("cast", tmp_path / "m.safetensors", "BF16", "-o", tmp_path / "out.safetensors")
    found = {name: dtype for name, (dtype, _, _) in read(tmp_path / "out.safetensors").items()}
    assert found == {"a": "BF16", "small": "BF16", "ids": "I64", "mask": "BOOL", "scales": "F8_E8M0", "codes": "F4"}
    assert "no dtype to cast to" in run("cast", tmp_path / "m.safetensors", "int8", "-n", code=2).stderr


def test_convert_casts(tmp_path):
    model = write_model(tmp_path / "model")
    run("cast", model, "bf16", "-o", f"{tmp_path}/cast/")
    run("convert", model, "--dtype", "BF16", "-o", f"{tmp_path}/converted/")
    assert digests(tmp_path / "cast") == digests(tmp_path / "converted")
    assert "--dtype needs F16" in run("convert", model, "--dtype", "i8", "-n", code=2).stderr
    np.savez(tmp_path / "weights.npz", a=np.ones(2, "<f4"))
    assert "coffer cast" in run("convert", tmp_path / "weights.npz", "--dtype", "bf16", "-n", code=2).stderr


def nearest_e4m3(numbers):
    """The nearest of all codes by their values, ties to the even code; the largest number for what is beyond it."""
    codes = np.arange(127)
    exponent, mantissa = codes >> 3, codes & 7
    values = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    with np.errstate(invalid="ignore"):
        magnitudes = np.minimum(np.abs(numbers.astype(np.float64)), values[-1])
    above = np.clip(np.searchsorted(values, magnitudes), 1, 126)
    below = above - 1
    upper, lower = values[above] - magnitudes, magnitudes - values[below]
    code = np.where((upper < lower) | ((upper == lower) & (above % 2 == 0)), above, below)
    code = np.where(magnitudes == 0, 0, code)
    return np.where(np.isnan(numbers), 127, code) | np.where(np.signbit(numbers), 128, 0)


def test_f8_saturates_as_torch_casts(tmp_path):
    random = np.random.default_rng(3)
    numbers = np.concatenate([
        random.integers(0, 1 << 32, 20000, dtype=np.uint32).view("<f4"),
        np.ldexp(random.standard_normal(20000), random.integers(-12, 11, 20000)).astype("<f4"),
        np.array([0, -0.0, 448, 449, 464, 464.01, 480, 1e9, np.inf, -np.inf, 2**-10, 2**-9 * 1.5, 1.0625], "<f4"),
    ])
    make(tmp_path / "m.safetensors", {"a": ("F32", [len(numbers)], numbers.tobytes())})
    told = run("cast", tmp_path / "m.safetensors", "f8_e4m3", "-o", tmp_path / "out.safetensors").stderr
    dtype, _, data = read(tmp_path / "out.safetensors")["a"]
    assert dtype == "F8_E4M3"
    found = np.frombuffer(data, np.uint8)
    nan = np.isnan(numbers)
    assert (found[~nan] == nearest_e4m3(numbers)[~nan]).all()
    assert (found[nan] & 127 == 127).all()
    assert "448 in F8_E4M3" in told
