# SPDX-License-Identifier: Apache-2.0
"""A folder for each kind of finding of coffer doctor, and for each way in which one comes about that differs in what fixes it. Each
function fills a folder and returns the options that doctor needs to see it."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess

from doctor_models import FAMILIES, LAYERS, H, V, tensor_of, tensors_of, write_family, write_json, write_sharded, write_weights
from model_files import floats, header_bytes, make
from test_cli import interrupt_an_edit

CLI = os.environ["COFFER_CLI"]
MODEL = "model.safetensors"
INDEX = f"{MODEL}.index.json"
LLAMA = FAMILIES["llama"][1]
HEAD, EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"
UNREADABLE = "unreadable.json"
DATA = ["--data"]
CASES = {}


def case(kind, name=""):
    def keep(function):
        CASES[f"{kind}: {name}" if name else kind] = (kind, function)
        return function
    return keep


def llama(folder, config=(), tensors=(), without=(), **more):
    """A llama with other tensors in it: {name: (dtype, shape, bytes)}."""
    write_family(folder, "llama", config=config, **more)
    wanted = {**tensors_of(LLAMA), **dict(tensors)}
    write_weights(folder / MODEL, {k: v for k, v in wanted.items() if k not in without})


def other(shape, start=1):
    """Numbers that no other tensor has."""
    count = 1
    for size in shape:
        count *= size
    return ("F32", shape, floats(*(start + i for i in range(count))))


def changed_index(folder, change, parts=2):
    write_sharded(folder, parts=parts)
    index = json.loads((folder / INDEX).read_text())
    change(index)
    write_json(folder / INDEX, index)


def coffer(*arguments):
    subprocess.run([CLI, *map(str, arguments)], check=True, capture_output=True)


# ---- Files of tensors ----


@case("broken_file", "cut short")
def _(folder):
    llama(folder)
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes()[:-100])


@case("broken_file", "longer")
def _(folder):
    llama(folder)
    with open(folder / MODEL, "ab") as file:
        file.write(b"\1\2\3")


@case("broken_file", "another file after it")
def _(folder):
    llama(folder)
    with open(folder / MODEL, "ab") as file:
        make(folder / "more", {"more": other([3], 700)})
        file.write((folder / "more").read_bytes())
    (folder / "more").unlink()


@case("broken_file", "metadata of numbers")
def _(folder):
    llama(folder)
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes().replace(b'"pt"', b"1e-2"))


@case("broken_file", "one of several, longer")
def _(folder):
    _, second = write_sharded(folder)
    with open(folder / second, "ab") as file:
        file.write(bytes(64))


@case("unreadable")
def _(folder):
    """Of a process's own memory the first byte cannot be read, whoever asks."""
    llama(folder)
    (folder / UNREADABLE).symlink_to("/proc/self/mem")


@case("holes")
def _(folder):
    folder.mkdir()
    header = header_bytes({"a": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}})
    with open(folder / "a.safetensors", "wb") as file:
        file.write(header)
        file.truncate(len(header) + (1 << 20))


def noted(folder, header, data=b"\1", name="a.safetensors"):
    folder.mkdir()
    (folder / name).write_bytes(len(header).to_bytes(8, "little") + header + data)


ONE = b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
case("leading_space")(lambda folder: noted(folder, b" {" + ONE + b"}"))
case("unknown_key")(lambda folder: noted(folder, b"{" + ONE[:-1] + b',"more":1}}'))
case("null_metadata")(lambda folder: noted(folder, b'{"__metadata__":null,' + ONE + b"}"))
case("control_name")(lambda folder: noted(folder, b"{" + ONE.replace(b'"a"', b'"a\\n"') + b"}"))
case("empty_name")(lambda folder: noted(folder, b"{" + ONE.replace(b'"a"', b'""') + b"}"))
case("case")(lambda folder: noted(folder, b"{" + ONE + b"," + ONE.replace(b'"a"', b'"A"').replace(b"[0,1]", b"[1,2]") + b"}", b"\1\2"))
case("unaligned")(lambda folder: noted(
    folder, b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}', b"\1" + floats(2)))


def vector(kind, pattern):
    """A file of the vectors, by the note in its name."""
    def fill(folder):
        folder.mkdir()
        shutil.copy(sorted(pathlib.Path(os.environ["COFFER_VECTORS"]).glob(pattern))[0], folder / f"a{pathlib.Path(pattern).suffix}")
    case(kind)(fill)


vector("long_number", "note_LONG_NUMBER_at15*.bt")


# ---- Indices ----


@case("index", "no JSON")
def _(folder):
    write_sharded(folder)
    (folder / INDEX).write_text("{")


@case("index", "a name that leads elsewhere")
def _(folder):
    changed_index(folder, lambda index: index["weight_map"].update({HEAD: "../elsewhere.safetensors"}))


@case("index_stale", "files of .bin")
def _(folder):
    changed_index(folder, lambda index: index.update(weight_map={
        k: v.replace("model", "pytorch_model").replace("safetensors", "bin") for k, v in index["weight_map"].items()}), 3)


@case("index_stale", "files of .bin that are there")
def _(folder):
    changed_index(folder, lambda index: index.update(weight_map={
        k: v.replace("model", "pytorch_model").replace("safetensors", "bin") for k, v in index["weight_map"].items()}), 3)
    for i in (1, 2, 3):
        (folder / f"pytorch_model-{i:05}-of-00003.bin").write_bytes(b"PK\3\4" + bytes([i]) * 96)


@case("index_stale", "another set")
def _(folder):
    write_sharded(folder, parts=3)
    index = (folder / INDEX).read_text()
    write_sharded(folder, parts=5)
    (folder / INDEX).write_text(index)
    for i in (1, 2, 3):
        (folder / f"model-{i:05}-of-00003.safetensors").unlink()


@case("index_stale", "another set, of which one file is there")
def _(folder):
    write_sharded(folder, parts=3)
    index = (folder / INDEX).read_text()
    write_sharded(folder, parts=5)
    (folder / INDEX).write_text(index)
    for i in (1, 2):
        (folder / f"model-{i:05}-of-00003.safetensors").unlink()


@case("not_in_shard")
def _(folder):
    changed_index(folder, lambda index: index["weight_map"].update({"lost": "model-00001-of-00002.safetensors"}))


@case("shard_missing", "of an index")
def _(folder):
    _, second = write_sharded(folder)
    (folder / second).unlink()


@case("shard_missing", "without an index")
def _(folder):
    _, second = write_sharded(folder)
    (folder / INDEX).unlink()
    (folder / second).unlink()


case("unindexed")(lambda folder: changed_index(folder, lambda index: index["weight_map"].pop(HEAD)))
case("total_size")(lambda folder: changed_index(folder, lambda index: index["metadata"].update(total_size=1)))
case("total_size", "that is no number")(lambda folder: changed_index(folder, lambda index: index["metadata"].update(total_size="big")))


@case("no_index")
def _(folder):
    write_sharded(folder)
    (folder / INDEX).unlink()


@case("shard_count")
def _(folder):
    changed_index(folder, lambda index: index.update(
        weight_map={k: v for k, v in index["weight_map"].items() if "-00003-" not in v}), 3)


@case("shard_count", "of files that are not there")
def _(folder):
    changed_index(folder, lambda index: index.update(
        weight_map={k: v for k, v in index["weight_map"].items() if "-00003-" not in v}), 3)
    (folder / "model-00003-of-00003.safetensors").unlink()


@case("superseded")
def _(folder):
    first, second = write_sharded(folder)
    index = json.loads((folder / INDEX).read_text())
    name = next(name for name, file in index["weight_map"].items() if file == first)
    own = {k: tensor_of(LLAMA[k]) for k, v in index["weight_map"].items() if v == second}
    write_weights(folder / second, {**own, name: other(LLAMA[name], 9000)})


@case("unindexed_file", "the same tensors")
def _(folder):
    first, _ = write_sharded(folder)
    shutil.copy(folder / first, folder / "model-00003-of-00003.safetensors")
    return DATA


@case("unindexed_file", "not compared")
def _(folder):
    first, _ = write_sharded(folder)
    shutil.copy(folder / first, folder / "model-00003-of-00003.safetensors")


@case("unindexed_file", "other tensors")
def _(folder):
    write_sharded(folder)
    write_weights(folder / "model-00003-of-00003.safetensors", {HEAD: other([V, H], 5000)})
    return DATA


@case("unindexed_file", "other metadata")
def _(folder):
    first, _ = write_sharded(folder)
    make(folder / "model-00003-of-00003.safetensors", {"model.norm.weight": tensor_of([H])}, {"format": "pt", "note": "only here"})
    return DATA


@case("unindexed_file", "a whole other set")
def _(folder):
    write_sharded(folder, parts=3)
    for i in (1, 2, 3):
        path = folder / f"model-{i:05}-of-00003.safetensors"
        make(path, {"only here": other([4], 100 * i)})
    write_sharded(folder, parts=2)
    return DATA


@case("beside_index")
def _(folder):
    write_sharded(folder)
    write_weights(folder / "model-mtp.safetensors", {"mtp.weight": other([4])})


@case("shadowed")
def _(folder):
    write_sharded(folder)
    write_weights(folder / MODEL, {k: other(shape, 3000) for k, shape in LLAMA.items()})


@case("many_indices")
def _(folder):
    folder.mkdir()
    for i in range(20):
        make(folder / f"m{i}-1.safetensors", {"t": ("U8", [1], b"\1")})
        write_json(folder / f"m{i}.safetensors.index.json", {"weight_map": {"t": f"m{i}-1.safetensors"}})


def variant(folder, shard, index):
    """A model beside its variant: the same names of tensors, other numbers."""
    write_sharded(folder)
    weight_map = json.loads((folder / INDEX).read_text())["weight_map"]
    for i in (1, 2):
        own = {k: other(LLAMA[k], 100) for k, v in weight_map.items() if f"-{i:05}-" in v}
        write_weights(folder / shard.format(i), own)
    write_json(folder / index, {"metadata": {"total_size": 1}, "weight_map": {
        k: shard.format(1 if "-00001-" in v else 2) for k, v in weight_map.items()}})


# ---- Files ----


LEFTOVERS = ["x.safetensors.coffer-part", "x.part", "x.tmp", "x.incomplete", ".x.safetensors.coffer-0123abcd", "x.partial", "x.aria2",
             "x.crdownload", "x.safetensors.coffer-undo.new", "x.safetensors.coffer-new", "x.safetensors.coffer-head",
             "x.safetensors.coffer-old", "x.coffer-fetched", ".cache/huggingface/download/x.incomplete"]


def leftover(name):
    """A leftover that is a whole file of tensors which nothing else has."""
    def fill(folder):
        llama(folder)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        make(folder / name, {"only here": other([5], 400)})
    return fill


for _name in LEFTOVERS:
    case("leftover", _name)(leftover(_name))


@case("leftover", "an interrupted edit")
def _(folder):
    llama(folder)
    make(folder / MODEL, tensors_of(LLAMA), {"format": "pt", "license": "mit"})
    interrupt_an_edit(str(folder / MODEL))


def interrupted(stage):
    """A save that was killed: files of the new model have no names yet, or the older model is moved aside."""
    def fill(folder):
        write_sharded(folder)
        index = (folder / INDEX).read_text()
        for i in (1, 2):
            name = f"model-{i:05}-of-00002.safetensors"
            make(folder / f"{name}.coffer-new", {f"new.{i}": other([4], 100 * i)})
        new = json.loads(index)
        new["weight_map"] = {f"new.{i}": f"model-{i:05}-of-00002.safetensors" for i in (1, 2)}
        write_json(folder / f"{INDEX}.coffer-{stage}", new)
    return fill


for _stage in ("new", "ready"):
    case("leftover", f"a save that was interrupted at {_stage}")(interrupted(_stage))


@case("leftover", "a save that was interrupted at old")
def _(folder):
    """What only the older index names is still there."""
    write_sharded(folder)
    shutil.copy(folder / INDEX, folder / f"{INDEX}.coffer-old")
    change = json.loads((folder / INDEX).read_text())
    make(folder / "old-1.safetensors", {"old": other([3], 40)})
    change["weight_map"]["old"] = "old-1.safetensors"
    write_json(folder / f"{INDEX}.coffer-old", change)


@case("leftover", "an interrupted save")
def _(folder):
    write_sharded(folder)
    shutil.copy(folder / INDEX, folder / f"{INDEX}.coffer-new")


@case("lfs_pointer")
def _(folder):
    llama(folder)
    (folder / MODEL).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


@case("web_page")
def _(folder):
    llama(folder)
    (folder / "tokenizer.json").write_text("<!DOCTYPE html><html></html>")


@case("lost_link")
def _(folder):
    llama(folder)
    (folder / "lost").symlink_to("nowhere")


@case("link_outside")
def _(folder):
    llama(folder)
    (folder.parent / "outside.safetensors").write_bytes((folder / MODEL).read_bytes())
    (folder / MODEL).unlink()
    (folder / MODEL).symlink_to("../outside.safetensors")
    make(folder / f"{MODEL}.copy", {"mine": other([4], 50)})
    make(folder / f"{MODEL}.copy0", {"mine too": other([4], 60)})


@case("not_a_file")
def _(folder):
    llama(folder)
    os.mkfifo(folder / "pipe")


@case("file_case")
def _(folder):
    llama(folder)
    (folder / "config.json").rename(folder / "Config.json")


@case("file_case", "of weights beside others")
def _(folder):
    write_sharded(folder)
    write_weights(folder / "Model.safetensors", {k: other(shape, 3000) for k, shape in LLAMA.items()})


@case("json")
def _(folder):
    llama(folder)
    (folder / "tokenizer.json").write_text("{")


@case("loose_json")
def _(folder):
    llama(folder)
    (folder / "more.json").write_text("NaN")


@case("too_large")
def _(folder):
    llama(folder)
    with open(folder / "config.json", "r+b") as file:
        file.truncate(1 << 24)


@case("too_deep")
def _(folder):
    llama(folder)
    (folder / "/".join("d" * 20)).mkdir(parents=True)


@case("no_model")
def _(folder):
    folder.mkdir()


def pickled(folder, name, tensors):
    make(folder / "x.safetensors", tensors)
    coffer("convert", "-q", folder / "x.safetensors", "-o", folder / "x.pt")
    (folder / "x.pt").rename(folder / name)
    (folder / "x.safetensors").unlink()


@case("pickle")
def _(folder):
    llama(folder)
    pickled(folder, "optimizer.pt", {"step": other([2])})


@case("weights_twice", "the same")
def _(folder):
    llama(folder)
    pickled(folder, "pytorch_model.bin", tensors_of(LLAMA))
    return DATA


@case("weights_twice", "not compared")
def _(folder):
    llama(folder)
    pickled(folder, "pytorch_model.bin", {k: other(shape, 800) for k, shape in LLAMA.items()})


@case("weights_twice", "of another program")
def _(folder):
    llama(folder)
    (folder / "flax_model.msgpack").write_bytes(b"\x80" + bytes(99))
    return DATA


@case("weights_differ", "other numbers")
def _(folder):
    llama(folder)
    pickled(folder, "pytorch_model.bin", {k: other(shape, 800) for k, shape in LLAMA.items()})
    return DATA


@case("weights_differ", "a tensor more")
def _(folder):
    llama(folder)
    pickled(folder, "pytorch_model.bin", {**tensors_of(LLAMA), "only here": other([3])})
    return DATA


# ---- Against config.json ----


def sizes(kind, name="", **config):
    case(kind, name)(lambda folder: llama(folder, config=config))


sizes("layers", num_hidden_layers=3)
sizes("layers_extra", num_hidden_layers=1)
sizes("dtype", dtype="bfloat16")
sizes("vocab_padding", vocab_size=V - 8)
sizes("vocab_size", vocab_size=V + 1)
sizes("shape", intermediate_size=13)
sizes("heads", num_attention_heads=3)
sizes("config_number", hidden_size="wide")
sizes("unknown_family", model_type="new")
sizes("family", model_type="t5")
sizes("quantisation_missing", quantization_config={"quant_method": "gptq"})
sizes("tied_twice", "not compared", tie_word_embeddings=True)
sizes("token_id", eos_token_id=V)


@case("tied_twice", "the same")
def _(folder):
    llama(folder, config={"tie_word_embeddings": True})
    return DATA


@case("tied_differ")
def _(folder):
    llama(folder, config={"tie_word_embeddings": True}, tensors={HEAD: other([V, H], 2000)})
    return DATA


case("tied_alone")(lambda folder: llama(folder, config={"tie_word_embeddings": True}, without=[EMBEDDINGS]))
case("head_missing")(lambda folder: llama(folder, without=[HEAD]))
case("embeddings_missing")(lambda folder: llama(folder, without=[EMBEDDINGS]))
case("layer_incomplete")(lambda folder: llama(folder, without=["model.layers.1.self_attn.k_proj.weight"]))
case("experts")(lambda folder: write_family(folder, "mixtral", config={"num_local_experts": 4}) and None)
case("quantisation_unsaid")(lambda folder: llama(folder, tensors={"model.layers.0.mlp.up_proj.qweight": tensor_of([1, 12], "I32")}))
case("odd_dtype")(lambda folder: llama(folder, tensors={"model.layers.1.mlp.up_proj.weight": tensor_of([12, H], "I32")}))
case("dtype_differs")(lambda folder: llama(folder, tensors={"model.layers.1.mlp.up_proj.weight": tensor_of([12, H], "BF16")}))


def renamed(kind, change, name="", config=()):
    def fill(folder):
        llama(folder, config=config)
        write_weights(folder / MODEL, {change(k): other(shape, 10 * i) for i, (k, shape) in enumerate(LLAMA.items())})
    case(kind, name)(fill)


renamed("wrapped_names", lambda name: f"module.{name}")
renamed("prefix_missing", lambda name: name.removeprefix("model."))
renamed("name_case", lambda name: name.replace("model.norm", "model.Norm"))


@case("name_case_differs")
def _(folder):
    llama(folder, config={"model_type": "new"})
    norms = {f"model.layers.{i}.{'Norm' if i == 1 else 'norm'}.weight": other([H], 10 * i) for i in range(5)}
    write_weights(folder / MODEL, norms)


@case("format")
def _(folder):
    llama(folder)
    make(folder / MODEL, tensors_of(LLAMA), {"license": "mit"})


@case("no_config")
def _(folder):
    llama(folder)
    (folder / "config.json").unlink()


@case("tokenizer_ids")
def _(folder):
    llama(folder)
    write_json(folder / "tokenizer.json", {"model": {"vocab": {f"t{i}": i for i in range(V + 5)}}})


# ---- Company ----


def without_file(kind, *names):
    def fill(folder):
        llama(folder)
        for name in names:
            (folder / name).unlink()
    case(kind)(fill)


without_file("tokenizer", "tokenizer.json")
without_file("tokenizer_config", "tokenizer_config.json")
without_file("generation_config", "generation_config.json")
without_file("no_weights", MODEL)


def adapter(folder, config=(), without=(), rank=2):
    folder.mkdir(exist_ok=True)
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": rank, "target_modules": ["q_proj"], **dict(config)})
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    shapes = {f"{stem}A.weight": [2, H], f"{stem}B.weight": [H, 2]}
    write_weights(folder / "adapter_model.safetensors", tensors_of({k: v for k, v in shapes.items() if k[-8] not in without}))


case("adapter_rank")(lambda folder: adapter(folder, rank=4))
case("adapter_half")(lambda folder: adapter(folder, without="B"))
case("target_modules")(lambda folder: adapter(folder, config={"target_modules": ["q_proj", "v_proj"]}))
case("base_missing")(lambda folder: adapter(folder, config={"base_model_name_or_path": "/no/such/base"}))


@case("no_adapter_config")
def _(folder):
    adapter(folder)
    (folder / "adapter_config.json").unlink()


@case("adapter_base")
def _(folder):
    write_family(folder.parent / "base", "llama", config={"num_hidden_layers": LAYERS})
    write_weights(folder.parent / "base" / MODEL, {EMBEDDINGS: tensor_of([V, H])})
    adapter(folder, config={"base_model_name_or_path": "../base"})


@case("part_missing")
def _(folder):
    folder.mkdir()
    write_json(folder / "model_index.json", {"_class_name": "P", "unet": ["diffusers", "U"]})


# ---- Data ----


@case("nan")
def _(folder):
    llama(folder, tensors={"model.norm.weight": ("F32", [H], floats(*[float("nan")] * H))})
    return DATA


@case("infinite")
def _(folder):
    llama(folder, tensors={"model.norm.weight": ("F32", [H], floats(*[float("inf")] * H))})
    return DATA


@case("zeros")
def _(folder):
    llama(folder, tensors={"model.norm.weight": ("F32", [H], bytes(4 * H))})
    return DATA


@case("digests_recorded")
def _(folder):
    llama(folder)
    coffer("hash", "--write", folder / MODEL)


@case("digest")
def _(folder):
    llama(folder)
    coffer("hash", "--write", folder / MODEL)
    data = bytearray((folder / MODEL).read_bytes())
    data[-1] ^= 1
    (folder / MODEL).write_bytes(data)
    return DATA


@case("digests_partial")
def _(folder):
    first, _ = write_sharded(folder)
    coffer("hash", "--write", folder / first)


def recorded_by_the_hub(folder, digest):
    llama(folder)
    downloads = folder / ".cache" / "huggingface" / "download"
    downloads.mkdir(parents=True)
    (downloads / f"{MODEL}.metadata").write_text(f"commit\n{digest or hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()}\n1.5\n")


case("hub_recorded")(lambda folder: recorded_by_the_hub(folder, ""))


@case("hub_digest")
def _(folder):
    recorded_by_the_hub(folder, "0" * 64)
    return DATA


# ---- Against another one ----


def against(kind, change, *options, name=""):
    def fill(folder):
        base = folder.parent / "base"
        write_family(base, "llama")
        llama(folder)
        change(folder, base)
        return ["--against", str(base), *options]
    case(kind, name)(fill)


against("against_missing", lambda folder, base: write_weights(base / MODEL, {**tensors_of(LLAMA), "more": other([2])}))
against("against_extra", lambda folder, base: write_weights(folder / MODEL, {**tensors_of(LLAMA), "more": other([2])}))
against("against_shape", lambda folder, base: write_weights(base / MODEL, {**tensors_of(LLAMA), HEAD: other([V, H + 1])}))
against("against_dtype", lambda folder, base: write_weights(base / MODEL, {**tensors_of(LLAMA), HEAD: tensor_of([V, H], "BF16")}))
against("against_data", lambda folder, base: write_weights(base / MODEL, {**tensors_of(LLAMA), HEAD: other([V, H])}), *DATA)
against("against_config", lambda folder, base: write_family(base, "llama", config={"rope_theta": 7.0}))
against("against_file", lambda folder, base: (folder / "tokenizer.json").unlink())


def of_another_layout(folder, base):
    (folder / "tokenizer.json").unlink()
    write_weights(base / MODEL, {**tensors_of(LLAMA), EMBEDDINGS: other([V + 3, H])})


against("against_file", of_another_layout, name="of a model with other shapes")


@case("against_nothing")
def _(folder):
    write_family(folder.parent / "base", "llama")
    folder.mkdir()
    (folder / "notes.json").write_text("{}")
    return ["--against", str(folder.parent / "base")]
