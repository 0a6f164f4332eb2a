# SPDX-License-Identifier: Apache-2.0
"""Files for the tests of the command line, made byte by byte and always the same."""

import json
import math
import pathlib
import struct

import pickles_by_hand as p
import zips_by_hand as z
from attacks_gguf import GGUF_TEXT, GgufTensor, gguf_file
from attacks_numpy import npy
from attacks_onnx import onnx_file, onnx_tensor
from wire_by_hand import wire

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64, "BF16": 16}


def bits_of(dtype):
    return BITS.get(dtype) or int("".join(c for c in dtype.split("_")[0] if c.isdigit()))


def header_bytes(header, slack=0):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + slack)
    return struct.pack("<Q", len(text)) + text


def make(path, tensors, metadata=None, slack=0):
    """Writes a file; `tensors` maps each name to (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, body) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    path.write_bytes(header_bytes(header, slack) + data)
    return str(path)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


NAUGHTY = {
    "esc\x1b]0;title\x07": r"esc\x1b]0;title\x07",
    "new\nline": r"new\x0aline",
    "nul\x00end": r"nul\x00end",
    "right\u202eto left": r"right\u{202e}to left",
    "back\\slash": r"back\\slash",
    'quo"te': 'quo"te',
    "größe": "größe",
    "c1\x9b": r"c1\u{9b}",
}


def bad_files(path):
    """Files that break a rule, each with the name of its error."""
    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    cases = {
        "EMPTY": b"",
        "TOO_SHORT": b"abc",
        "HEADER_LENGTH": bytes(8) + b"{}",
        "HEADER_TOO_LARGE": struct.pack("<Q", 1 << 40) + b"{}",
        "HEADER_TRUNCATED": struct.pack("<Q", 100) + b"{}",
        "DATA_TRUNCATED": header_bytes({"a": tensor}) + bytes(5),
        "TRAILING_BYTES": header_bytes({"a": tensor}) + bytes(9),
        "JSON": header_bytes(b'{"a":,}'),
        "UTF8": header_bytes(b'{"\xff":{}}'),
        "TYPE": header_bytes(b'{"a":1}'),
        "NUMBER": header_bytes(b'{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}'),
        "MISSING_FIELD": header_bytes(b'{"a":{"dtype":"U8"}}'),
        "DUPLICATE_NAME": header_bytes(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
                                       b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "DTYPE": header_bytes({"a": dict(tensor, dtype="F99")}) + bytes(8),
        "OVERFLOW": header_bytes({"a": dict(tensor, shape=[1 << 63, 4])}) + bytes(8),
        "PARTIAL_BYTE": header_bytes({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}) + bytes(1),
        "RANGE": header_bytes({"a": dict(tensor, data_offsets=[8, 0])}) + bytes(8),
        "SIZE": header_bytes({"a": dict(tensor, shape=[3])}) + bytes(8),
        "HOLE": header_bytes({"a": dict(tensor, data_offsets=[4, 12])}) + bytes(12),
        "OVERLAP": header_bytes({"a": tensor, "b": dict(tensor, data_offsets=[4, 12])}) + bytes(12),
        "IS_ZIP": b"PK\x03\x04" + bytes(60),
        "IS_PICKLE": b"\x80\x02}q\x00." + bytes(60),
        "IS_GGUF": b"GGUF\x03" + bytes(60),
        "IS_HDF5": b"\x89HDF\r\n\x1a\n" + bytes(60),
        "IS_NUMPY": b"\x93NUMPY\x01\x00" + bytes(60),
        "IS_COMPRESSED": b"\x1f\x8b\x08" + bytes(60),
        "IS_ZEROS": bytes(100),
        "IS_TEXT": b"Entry not found",
        "IS_TAR": b"model/config.json".ljust(257, b"\0") + b"ustar\x0000" + bytes(248),
        "IS_ELF": b"\x7fELF\2\1\1" + bytes(57),
        "IS_OTHER": b"\x89PNG\r\n\x1a\n" + bytes(60),
        "IS_CONVERTIBLE": b"ARROW1\0\0" + bytes(56),
        "IS_HTML": b"<!DOCTYPE html><html><body>Not found</body></html>",
        "IS_JSON": b'{"error": "Repository not found", "status": 404}',
        "IS_LFS_POINTER": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123\n",
    }
    for name, body in cases.items():
        (path / name).write_bytes(body)
        yield name, str(path / name)


# ---- What the golden cases find in their folder -----------------------------------------------------------------------


def layers(count, shapes):
    """The tensors of a model of `count` layers; `shapes` maps a name with {} for the layer's number to dtype and shape."""
    tensors = {"tok_embeddings.weight": ("BF16", [16, 4], bytes(128))}
    for layer in range(count):
        for name, (dtype, shape) in shapes.items():
            size = bits_of(dtype) // 8
            for dimension in shape:
                size *= dimension
            tensors[name.format(layer)] = (dtype, shape, bytes(size))
    tensors["output.weight"] = ("BF16", [16, 4], bytes(128))
    return tensors


LAYERS = {
    "layers.{}.attn.q_proj.weight": ("BF16", [4, 4]),
    "layers.{}.attn.k_proj.weight": ("BF16", [2, 4]),
    "layers.{}.mlp.weight": ("F32", [4, 4]),
    "layers.{}.norm.weight": ("F32", [4]),
}

NESTED = {
    "format": "pt",
    "config": '{"hidden": 64, "rope": {"theta": 10000.0, "scaling": null}, "heads": [8, 8], "evil": "\\u001b[31m"}',
    "note": "a long line of plain text that tells a story of which nobody will read the end, since it goes on and on and on",
    "esc": "\x1b[31mred",
}


ODD_JSON = {
    "array": json.dumps([[], {}, [1, -2.5e-3, 1e9], [[1], "two"], True, None]),
    "brackets in text": '{"a": "]}{[", "b": "\\\\\\""}',
    "deep": "[" * 64 + "]" * 64,
    "long": json.dumps({f"key {i}": i for i in range(40)}),
    "marks": '{"turned \u202e name": "\x7f"}',
    "none 1": "{'a': 1}",
    "none 2": '{"a": 01}',
    "none 3": '{"a": 1,}',
    "none 4": "[1, 2",
    "none 5": "[1] 2",
    "none 6": '["\\x"]',
    "none 7": "{1: 2}",
    "none 8": "[tru]",
    "none 9": '["\\u12g4"]',
    "plain": "12",
    "spaced": ' { "a" :\t[ 1 , 2 ]\n, "b" : { } } ',
    "too deep": "[" * 65 + "]" * 65,
}
PATTERNS = ("a.1", "ax1", "a*1", "a]1", "a[]1", "a10", "a9", "a09", "a009", "a9b", "a10b2", "a10b10", "b", "ä", "",
            "a" * 60, "99999999999999999999999", "100000000000000000000000")


def make_sharded(folder, name, total_size):
    """A model of two files; the index forgets the last tensor when `total_size` is not that of all."""
    folder.mkdir(parents=True)
    shards = [
        {"wte.weight": ("F32", [4, 3], floats(*range(12)))},
        {"h.0.bias": ("F16", [3], struct.pack("<3e", 0.1, -2, 65504)), "h.0.weight": ("F16", [13], bytes(26))},
    ]
    weight_map = {}
    for i, tensors in enumerate(shards, 1):
        make(folder / name.format(i), tensors, {"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name.format(i)))
    if total_size != 80:
        del weight_map["h.0.weight"]
    index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def make_foreign_files(folder):
    """model: a state dict with tied, transposed and sliced tensors, and a storage that nothing views
    training: a dict of the same, an object of another program and a number
    two: two dicts, each of which may be the model
    sparse: a tensor that safetensors lacks beside one that it has
    evil: a checkpoint that would run a command
    weights, matrix: arrays of NumPy
    quantised: a model of llama.cpp, with blocks"""

    def archive(value, *storages):
        records = [z.Member(b"m/data.pkl", p.stream(value))]
        records += [z.Member(b"m/data/%d" % i, data) for i, data in enumerate(storages)]
        return z.Archive([*records, z.Member(b"m/version", b"3\n")]).bytes()

    def view(sizes, strides, offset=0, key="0", count=12):
        return p.tensor(sizes, strides, offset, p.storage(key, count))

    folder.mkdir()
    weights = floats(*range(12))
    state = p.dict_of((p.text("wte.weight"), view((4, 3), (3, 1))), (p.text("lm_head.weight"), view((4, 3), (3, 1))),
                      (p.text("h.0.turned"), view((3, 4), (1, 3))), (p.text("h.0.bias"), view((3,), (1,), 0, "1", 4)))
    storages = weights, floats(1, 2, 3, 4)
    namespace = p.call(p.name("argparse", "Namespace"))
    (folder / "model.pt").write_bytes(archive(state, *storages))
    (folder / "training.pt").write_bytes(archive(p.dict_of(
        (p.text("model"), state), (p.text("args"), namespace), (p.text("epoch"), p.number(3))), *storages))
    (folder / "two.pt").write_bytes(archive(p.dict_of(
        (p.text("model"), state), (p.text("ema"), p.dict_of((p.text("x"), view((3,), (1,), 0, "1", 4))))), *storages))
    sparse = p.call(p.name("torch._utils", "_rebuild_sparse_tensor"), p.name("torch.serialization", "_get_layout"),
                    p.tuple_of(view((2, 2), (2, 1)), view((2,), (1,)), p.tuple_of(p.number(4), p.number(4))))
    (folder / "sparse.pt").write_bytes(archive(p.dict_of(
        (p.text("a"), sparse), (p.text("b"), view((3,), (1,), 0, "1", 4))), *storages))
    evil = p.call(p.name("os", "system"), p.text("echo this was not run"))
    (folder / "evil.pt").write_bytes(archive(p.dict_of((p.text("w"), view((4, 3), (3, 1))), (p.text("x"), evil)), weights))
    column_major = npy("{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }\n", struct.pack(">12f", *range(12)))
    plain = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", struct.pack("<2q", 1, 2))
    (folder / "weights.npz").write_bytes(z.Archive([z.Member(b"w.npy", column_major), z.Member(b"n.npy", plain)]).bytes())
    (folder / "matrix.npy").write_bytes(column_major)
    block = struct.pack("<e32b", 0.5, *range(-16, 16))
    quantised = gguf_file(
        [("general.architecture", GGUF_TEXT, "llama"), ("llama.block_count", 4, 1)],
        [GgufTensor("blk.0.ffn_up.weight", (64, 2), 8, block * 4), GgufTensor("output_norm.weight", (4,), 0, floats(1, 2, 3, 4))])
    # The end is padded, as ggml's programs do it.
    (folder / "quantised.gguf").write_bytes(quantised + bytes(-len(quantised) % 32))
    header = b'{"fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    header += b" " * (-len(header) % 64 - 8)
    (folder / "weights.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + floats(*range(6)))
    entries = (("location", "weights.safetensors"), ("offset", str(8 + len(header))), ("length", "24"))
    outside = onnx_tensor("fc.weight", (2, 3), 1, None, b"".join(wire(13, wire(1, key) + wire(2, value)) for key, value in entries) + wire(14, 1))
    constant = wire(2, "scale") + wire(4, "Constant") + wire(5, wire(1, "value") + wire(5, onnx_tensor("", (), 1, floats(0.5))))
    (folder / "graph.onnx").write_bytes(onnx_file(outside, onnx_tensor("shape", (2,), 7, None, wire(7, b"\1\6")), graph=wire(1, constant)))


def make_adapter(folder, module, rows, columns, **config):
    """An adapter of rank 2 as PEFT saves it, for one module: small numbers, whose products are exact."""
    folder.mkdir(parents=True)
    name = f"base_model.model.{module}"
    magnitudes = {f"{name}.lora_magnitude_vector": ("F32", [rows], floats(*(i + 1 for i in range(rows))))}
    make(folder / "adapter_model.safetensors", {
        f"{name}.lora_A.weight": ("F32", [2, columns], floats(*(i % 3 / 4 for i in range(2 * columns)))),
        f"{name}.lora_B.weight": ("F32", [rows, 2], floats(*(i % 5 / 8 for i in range(2 * rows)))),
    } | (magnitudes if config.get("use_dora") else {}), {"format": "pt"})
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": [module.split(".")[-1]], **config}
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2))


def make_golden_files(folder):
    """model    the file that most cases look into: three tensors of three dtypes, metadata, slack
    layers      twelve layers, one of them unlike the others
    nested      JSON within the metadata, and text that must be escaped
    naughty     names that would steer a terminal
    long        names longer than a terminal is wide
    notes       all that is legal but odd: an empty name, names that differ in case, an unaligned tensor
    empty       no tensor, no metadata
    types       every dtype
    odd_json    metadata that are nearly JSON, and JSON of every kind
    patterns    names for patterns and natural order
    wide        a tensor of 50 rows of 40 elements
    empty_tensor  a tensor without an element
    adapters/   one: an adapter for model; other: one for another model; dora: one for model, of another kind
    kohya       an adapter whose names have the layers' numbers between underscores
    broken      layers.safetensors in small, with NaN and infinite numbers; sound: the same without
    fp8         a layer of FP8 with a scale, and a tensor that is plain
    short, html what downloads leave behind
    several/    two: a model of two files with its index;
                odd: one whose index says too little, with a file too many, and an index of another model
    bad/        a file for each rule of the format that breaks it
    foreign/    files of other programs: checkpoints of PyTorch, one of which would run a command, and arrays of NumPy"""
    make_foreign_files(folder / "foreign")
    make_adapter(folder / "adapters" / "one", "wte", 4, 3)
    make_adapter(folder / "adapters" / "other", "model.layers.0.q_proj", 4, 3)
    make_adapter(folder / "adapters" / "dora", "wte", 4, 3, use_dora=True)
    (folder / "bad").mkdir()
    assert list(bad_files(folder / "bad"))
    make(folder / "model.safetensors", {
        "wte.weight": ("F32", [4, 3], floats(*range(12))),
        "h.0.bias": ("F16", [3], struct.pack("<3e", 0.1, -2, 65504)),
        "step": ("I64", [], struct.pack("<q", 1234)),
    }, {"format": "pt", "license": "mit"}, slack=256)
    odd_one = {"layers.7.norm.weight": ("F32", [8], bytes(32))}
    make(folder / "layers.safetensors", {**layers(12, LAYERS), **odd_one}, {"format": "pt"})
    make(folder / "nested.safetensors", {"a": ("U8", [1], b"a")}, NESTED)
    make(folder / "naughty.safetensors", {name: ("U8", [1], b"\x05") for name in NAUGHTY})
    long = "model.language_model.layers.0.block_sparse_moe.experts.{}.feed_forward.w1.weight_scale_inverse"
    make(folder / "long.safetensors", {long.format(i): ("F32", [2, 2], bytes(16)) for i in (9, 10, 11)})
    make(folder / "notes.safetensors", {"A": ("U8", [1], b"1"), "a": ("U8", [1], b"2"), "": ("F32", [1], bytes(4))})
    make(folder / "empty.safetensors", {})
    types = ("BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 "
             "C64 F64 I64 U64").split()
    make(folder / "types.safetensors", {
        dtype.lower(): (dtype, [4], bytes(i % 2 if dtype == "BOOL" else 16 + i for i in range(bits_of(dtype) // 2)))
        for dtype in types})
    make(folder / "odd_json.safetensors", {}, ODD_JSON)
    make(folder / "patterns.safetensors", {name: ("U8", [1], b"x") for name in PATTERNS})
    make(folder / "wide.safetensors", {"x": ("I32", [50, 40], struct.pack("<2000i", *range(2000)))})
    make(folder / "empty_tensor.safetensors", {"e": ("F32", [0, 3], b"")})
    make(folder / "kohya.safetensors", {
        f"lora_unet_down_blocks_{i}_attentions_{j}_proj_in.lora_{way}.weight": ("F16", [2, 2], bytes(8))
        for i in range(3) for j in range(2) for way in ("down", "up")})
    rows = {"layers.0.w": (1, 2, 3), "layers.1.w": (0, -4, 5), "norm": (1, 1, 1)}
    make(folder / "sound.safetensors", {name: ("F32", [3], floats(*row)) for name, row in rows.items()})
    rows |= {"layers.1.w": (math.nan, -math.inf, 5.5), "norm": (1, math.nan, 1)}
    make(folder / "broken.safetensors", {name: ("F32", [3], floats(*row)) for name, row in rows.items()})
    make(folder / "fp8.safetensors", {
        "h.0.up.weight": ("F8_E4M3", [2, 4], bytes(range(0x38, 0x40))), "h.0.up.weight_scale_inv": ("F32", [1, 1], floats(0.5)),
        "norm.weight": ("BF16", [2], bytes(4))})
    make_sharded(folder / "several/two", "model-{:05}-of-00002.safetensors", 80)
    make_sharded(folder / "several/odd", "model-{:05}-of-00003.safetensors", 70)
    make(folder / "several/odd/model-00003-of-00003.safetensors", {"more": ("U8", [1], b"x")})
    (folder / "several/odd/bad.safetensors.index.json").write_text(
        '{"weight_map": {"wte.weight": "model-00001-of-00003.safetensors", "gone": "model-00002-of-00003.safetensors"}}')
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "short.safetensors").write_bytes(whole[:-20])
    (folder / "html.safetensors").write_text("<!doctype html><title>Sign in</title>\n")
