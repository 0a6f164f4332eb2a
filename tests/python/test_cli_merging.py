# SPDX-License-Identifier: Apache-2.0
"""Adapters merged by the command, compared bit by bit with numpy, which sums in the order that docs/editing.md states. The
comparison with peft itself is among the tests of the Python package."""

import json
import os
import subprocess

import numpy as np
import pytest
from model_files import NAUGHTY, make
from test_cli_rewrite import CLI, NUMPY, run, tensors_of, to_bfloat16
from web_server import Server

RANDOM = np.random.default_rng(20)


def numbers(*shape):
    return (RANDOM.standard_normal(shape) / 4).astype(np.float32)


def bytes_of(values, dtype):
    if dtype == "BF16":
        return to_bfloat16(np.ascontiguousarray(values, np.float32)).tobytes()
    return np.ascontiguousarray(values).astype(NUMPY[dtype]).tobytes()


def values_of(body, dtype, shape):
    if dtype == "BF16":
        return (np.frombuffer(body, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(body, NUMPY[dtype]).reshape(shape)


def entry(values, dtype="F32"):
    return dtype, list(values.shape), bytes_of(values, dtype)


def product(up, down):
    """B A as it is documented: along the rank, from left to right, rounded at each step."""
    sums = np.zeros((up.shape[0], down.shape[1]), np.float32)
    for k in range(up.shape[1]):
        sums += up[:, k:k + 1] * down[k:k + 1, :]
    return sums


def added(base, delta, scale, dtype="F32"):
    """The bytes of the base with a scaled product added to it."""
    if dtype == "F64":
        return (base.astype(np.float64) + scale * delta.astype(np.float64)).tobytes()
    return bytes_of(base + np.float32(scale) * delta, dtype)


def peft(folder, tensors, dtype="F32", **config):
    """An adapter as PEFT saves it. `tensors` maps the ends of names to arrays."""
    folder.mkdir(exist_ok=True)
    make(folder / "adapter_model.safetensors",
         {f"base_model.model.{name}": entry(values, dtype) for name, values in tensors.items()})
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, **config}))
    return folder


def pair(name, rows, columns, rank=4):
    return {f"{name}.lora_A.weight": numbers(rank, columns), f"{name}.lora_B.weight": numbers(rows, rank)}


def with_core(core, right):
    """A core of rank x rank x kernel times the matrix on its right, as it is documented."""
    rank = core.shape[0]
    kernels = core.reshape(rank, rank, 1, -1)
    sums = np.zeros((rank, right.shape[1], kernels.shape[3]), np.float32)
    for j in range(rank):
        sums += kernels[:, j] * right[j][None, :, None]
    return sums.reshape(rank, -1)


def kronecker(first, second):
    return (first[:, None, :, None] * second[None, :, None, :]).reshape(first.shape[0] * second.shape[0], -1)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("rank", [1, 4, 7, 64])
def test_a_merge_is_that_of_numpy(tmp_path, dtype, rank):
    # More than one piece; rows that are no multiple of anything; a tensor that stays.
    base = values_of(bytes_of(numbers(613, 771), dtype), dtype, (613, 771))
    make(tmp_path / "base.safetensors", {"l.q.weight": entry(base, dtype), "stays": ("I64", [2], bytes(16))}, {"a": "b"})
    tensors = pair("l.q", 613, 771, rank)
    folder = peft(tmp_path / "adapter", tensors, r=rank, lora_alpha=3)
    run("merge-lora", tmp_path / "base.safetensors", folder, "-o", tmp_path / "new.safetensors")
    metadata, found = tensors_of(tmp_path / "new.safetensors")
    delta = product(tensors["l.q.lora_B.weight"], tensors["l.q.lora_A.weight"])
    assert metadata == {"a": "b"}
    assert found["l.q.weight"][:2] == (dtype, [613, 771])
    assert found["l.q.weight"][2] == added(base, delta, 3 / rank, dtype)
    assert found["stays"][2] == bytes(16)


@pytest.fixture(name="small")
def small_base(tmp_path):
    """A base of every kind of layer."""
    arrays = {
        "model.h.0.q.weight": numbers(6, 10), "model.h.0.q.bias": numbers(6), "model.h.1.q.weight": numbers(6, 10),
        "model.conv1d.weight": numbers(10, 6), "model.square.weight": numbers(5, 5), "model.embed.weight": numbers(20, 6),
        "model.conv.weight": numbers(6, 3, 3, 3), "model.point.weight": numbers(6, 10, 1, 1), "head.weight": numbers(7, 6),
    }
    make(tmp_path / "base.safetensors", {name: entry(values) for name, values in arrays.items()})
    return tmp_path, arrays


def merged(folder, *arguments):
    run("merge-lora", folder / "base.safetensors", *arguments, "-o", folder / "new.safetensors", "-f")
    return {name: values_of(body, dtype, shape)
            for name, (dtype, shape, body, _) in tensors_of(folder / "new.safetensors")[1].items()}


def assert_changed(found, arrays, changed):
    """Only these differ, and in this way."""
    for name, values in arrays.items():
        assert found[name].tobytes() == changed.get(name, values).tobytes(), name


def test_every_kind_of_layer(small):
    folder, arrays = small
    tensors = pair("model.h.0.q", 6, 10) | pair("model.conv1d", 6, 10) | pair("model.square", 5, 5)
    tensors |= {"model.embed.lora_embedding_A": numbers(4, 20), "model.embed.lora_embedding_B": numbers(6, 4)}
    tensors |= {"model.conv.lora_A.weight": numbers(4, 3, 3, 3), "model.conv.lora_B.weight": numbers(6, 4, 1, 1)}
    tensors |= {"model.point.lora_A.weight": numbers(4, 10, 1, 1), "model.point.lora_B.weight": numbers(6, 4, 1, 1)}
    tensors |= {"head.weight": numbers(7, 6), "model.h.0.q.base_layer.bias": numbers(6)}

    def delta(name, a="lora_A.weight", b="lora_B.weight"):
        up, down = tensors[f"{name}.{b}"], tensors[f"{name}.{a}"]
        return np.float32(2) * product(up.reshape(up.shape[:2]), down.reshape(4, -1))

    found = merged(folder, peft(folder / "adapter", tensors, fan_in_fan_out=True))
    changed = {name: (arrays[name] + delta(name.removesuffix(".weight")).reshape(arrays[name].shape))
               for name in ("model.h.0.q.weight", "model.conv.weight", "model.point.weight")}
    for name in ("model.conv1d", "model.square"):
        changed[f"{name}.weight"] = arrays[f"{name}.weight"] + delta(name).T
    changed["model.embed.weight"] = arrays["model.embed.weight"] + delta("model.embed", "lora_embedding_A", "lora_embedding_B").T
    changed["head.weight"] = tensors["head.weight"]
    changed["model.h.0.q.bias"] = tensors["model.h.0.q.base_layer.bias"]
    assert_changed(found, arrays, changed)


@pytest.mark.parametrize(("config", "first", "second"), [
    ({"lora_alpha": 16}, 4, 4),
    ({"lora_alpha": 1.5e1, "use_rslora": True}, 7.5, 7.5),
    ({"alpha_pattern": {"h.1.q": 2}}, 2, 0.5),
    ({"alpha_pattern": {"^model.h.0.q": -4, "1.q": 1e-2}}, -1, 0.0025),
    ({"alpha_pattern": {".q": 2}}, 2, 2),
    ({"r": 9, "rank_pattern": {"model.h.0.q": 4, "q": 4}, "alpha_pattern": None}, 2, 2),
])
def test_factors_are_those_of_the_configuration(small, config, first, second):
    folder, arrays = small
    tensors = pair("model.h.0.q", 6, 10) | pair("model.h.1.q", 6, 10)
    found = merged(folder, peft(folder / "adapter", tensors, **config))
    changed = {}
    for layer, factor in ((0, first), (1, second)):
        name = f"model.h.{layer}.q"
        delta = product(tensors[f"{name}.lora_B.weight"], tensors[f"{name}.lora_A.weight"])
        changed[f"{name}.weight"] = arrays[f"{name}.weight"] + np.float32(factor) * delta
    assert_changed(found, arrays, changed)


def test_adapters_are_added_in_order_each_by_its_scale(small):
    folder, arrays = small
    adapters = [pair("model.h.0.q", 6, 10), pair("model.h.0.q", 6, 10)]
    paths = [peft(folder / str(i), tensors, "F16") for i, tensors in enumerate(adapters)]
    found = merged(folder, *paths, "--scale", "0.7", "--scale=-1e0")
    expected = arrays["model.h.0.q.weight"]
    for tensors, scale in zip(adapters, (0.7, -1)):
        up, down = (tensors[f"model.h.0.q.lora_{part}.weight"].astype(np.float16).astype(np.float32) for part in "BA")
        expected = expected + np.float32(2 * scale) * product(up, down)
    assert_changed(found, arrays, {"model.h.0.q.weight": expected})


@pytest.mark.parametrize(("names", "alpha", "target"), [
    (("lora_unet_h_0_q.lora_down.weight", "lora_unet_h_0_q.lora_up.weight"), "lora_unet_h_0_q.alpha", "model.h.0.q.weight"),
    (("lora_te_model_h_1_q.lora_down.weight", "lora_te_model_h_1_q.lora_up.weight"), None, "model.h.1.q.weight"),
    (("unet.model.h.0.q.lora.down.weight", "unet.model.h.0.q.lora.up.weight"), "unet.model.h.0.q.alpha", "model.h.0.q.weight"),
    (("transformer.h.0.q.lora_A.weight", "transformer.h.0.q.lora_B.weight"), None, None),
    (("h.0.q.lora_A.default.weight", "h.0.q.lora_B.default.weight"), None, "model.h.0.q.weight"),
    (("model.h.0.processor.q_lora.down.weight", "model.h.0.processor.q_lora.up.weight"), None, "model.h.0.q.weight"),
    (("text_encoder.model.h.1.q.lora_linear_layer.down.weight", "text_encoder.model.h.1.q.lora_linear_layer.up.weight"), None,
     "model.h.1.q.weight"),
])
def test_names_of_other_programs(small, names, alpha, target):
    folder, arrays = small
    down, up = numbers(4, 10), numbers(6, 4)
    tensors = dict(zip(names, (entry(down, "F16"), entry(up, "F16"))))
    if alpha:
        tensors[alpha] = ("F32", [], np.float32(2).tobytes())
    adapter = make(folder / "lora.safetensors", tensors)
    if target is None:
        assert "the base has no such tensor" in refused(folder, adapter)
        return
    down, up = (values.astype(np.float16).astype(np.float32) for values in (down, up))
    changed = arrays[target] + np.float32(0.5 if alpha else 1) * product(up, down)
    assert_changed(merged(folder, adapter), arrays, {target: changed})


# What LyCORIS calls the tensors of a module, and what of them is added to one of 6 x 10, or to a convolution of 6 x 3 x 3 x 3.
LYCORIS = {
    "LoHa": ("model_h_0_q", {"hada_w1_a": (6, 4), "hada_w1_b": (4, 10), "hada_w2_a": (6, 4), "hada_w2_b": (4, 10)}, 0.5,
             lambda t: product(t["hada_w1_a"], t["hada_w1_b"]) * product(t["hada_w2_a"], t["hada_w2_b"])),
    "LoHa, flat": ("model_conv", {"hada_w1_a": (6, 4), "hada_w1_b": (4, 27), "hada_w2_a": (6, 4), "hada_w2_b": (4, 27)}, 0.5,
                   lambda t: product(t["hada_w1_a"], t["hada_w1_b"]) * product(t["hada_w2_a"], t["hada_w2_b"])),
    "LoHa, cores": ("model_conv", {"hada_w1_a": (4, 6), "hada_w1_b": (4, 3), "hada_t1": (4, 4, 3, 3),
                                   "hada_w2_a": (4, 6), "hada_w2_b": (4, 3), "hada_t2": (4, 4, 3, 3)}, 0.5,
                    lambda t: product(t["hada_w1_a"].T, with_core(t["hada_t1"], t["hada_w1_b"])) *
                    product(t["hada_w2_a"].T, with_core(t["hada_t2"], t["hada_w2_b"]))),
    "LoKr": ("model_h_0_q", {"lokr_w1": (2, 5), "lokr_w2": (3, 2)}, 1, lambda t: kronecker(t["lokr_w1"], t["lokr_w2"])),
    "LoKr, thin": ("model_h_0_q", {"lokr_w1_a": (2, 4), "lokr_w1_b": (4, 2), "lokr_w2_a": (3, 4), "lokr_w2_b": (4, 5)}, 0.5,
                   lambda t: kronecker(product(t["lokr_w1_a"], t["lokr_w1_b"]), product(t["lokr_w2_a"], t["lokr_w2_b"]))),
    "LoKr, half": ("model_point", {"lokr_w1": (2, 2), "lokr_w2_a": (3, 4), "lokr_w2_b": (4, 5)}, 0.5,
                   lambda t: kronecker(t["lokr_w1"], product(t["lokr_w2_a"], t["lokr_w2_b"]))),
    "LoKr, kernel": ("model_conv", {"lokr_w1": (3, 1), "lokr_w2": (2, 3, 3, 3)}, 1,
                     lambda t: kronecker(t["lokr_w1"], t["lokr_w2"].reshape(2, -1))),
    "LoKr, core": ("model_conv", {"lokr_w1": (3, 3), "lokr_w2_a": (4, 2), "lokr_w2_b": (4, 1), "lokr_t2": (4, 4, 3, 3)}, 0.5,
                   lambda t: kronecker(t["lokr_w1"], product(t["lokr_w2_a"].T, with_core(t["lokr_t2"], t["lokr_w2_b"])))),
    "LoRA, core": ("model_conv", {"lora_up.weight": (6, 4, 1, 1), "lora_down.weight": (4, 3, 1, 1),
                                  "lora_mid.weight": (4, 4, 3, 3)}, 0.5,
                   lambda t: product(t["lora_up.weight"][:, :, 0, 0],
                                     with_core(t["lora_mid.weight"], t["lora_down.weight"][:, :, 0, 0]))),
}


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("kind", LYCORIS)
def test_every_kind_of_lycoris(small, kind, alpha):
    folder, arrays = small
    module, shapes, factor, delta = LYCORIS[kind]
    tensors = {name: numbers(*shape) for name, shape in shapes.items()}
    stored = {f"lycoris_{module}.{name}": entry(values) for name, values in tensors.items()}
    if alpha:
        stored[f"lycoris_{module}.alpha"] = ("BF16", [], to_bfloat16(np.float32([2])).tobytes())
    target = next(name for name in arrays if name.replace(".", "_") == f"{module}_weight")
    change = np.float32(1.5 * (factor if alpha else 1)) * delta(tensors).reshape(arrays[target].shape)
    found = merged(folder, make(folder / "lycoris.safetensors", stored), "--scale", "1.5")
    assert_changed(found, arrays, {target: arrays[target] + change})


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
def test_large_tensors_of_loha_and_lokr(tmp_path, dtype):
    """More than one piece, and rows of the second matrix that end anywhere in it."""
    base = values_of(bytes_of(numbers(620, 777), dtype), dtype, (620, 777))
    make(tmp_path / "base.safetensors", {"h.weight": entry(base, dtype), "k.weight": entry(base, dtype)})
    tensors = {"hada_w1_a": numbers(620, 5), "hada_w1_b": numbers(5, 777), "hada_w2_a": numbers(620, 5), "hada_w2_b":
               numbers(5, 777), "lokr_w1": numbers(20, 21), "lokr_w2_a": numbers(31, 5), "lokr_w2_b": numbers(5, 37)}
    adapter = make(tmp_path / "a.safetensors", {f"lora_unet_{name[0]}.{name}".replace("unet_l.", "unet_k."): entry(values)
                                                for name, values in tensors.items()})
    found = {name: body for name, (_, body) in merged_bytes(tmp_path, adapter).items()}
    hada = product(tensors["hada_w1_a"], tensors["hada_w1_b"]) * product(tensors["hada_w2_a"], tensors["hada_w2_b"])
    lokr = kronecker(tensors["lokr_w1"], product(tensors["lokr_w2_a"], tensors["lokr_w2_b"]))
    assert found["h.weight"] == added(base, hada, 1, dtype)
    assert found["k.weight"] == added(base, lokr, 1, dtype)


def merged_bytes(folder, *arguments):
    run("merge-lora", folder / "base.safetensors", *arguments, "-o", folder / "new.safetensors", "-f")
    return {name: (dtype, body) for name, (dtype, _, body, _) in tensors_of(folder / "new.safetensors")[1].items()}


def dora(base, delta, magnitudes, axis):
    """As it is documented, with lengths that numpy sums in F64 in an order of its own."""
    base, delta = base.astype(np.float64), delta.astype(np.float64)
    lengths = np.sqrt(np.square(base + delta).sum(axis=axis, keepdims=True))
    return (base + delta) * magnitudes.reshape(lengths.shape) / lengths


# Half a unit in the last place of each dtype, three of them in F32: the sum, the quotient and the product.
DORA_NEAR = {"F16": 2.0**-10, "BF16": 2.0**-7, "F32": 2.0**-22, "F64": 2.0**-22}


@pytest.mark.parametrize("dtype", DORA_NEAR)
@pytest.mark.parametrize("turned", [False, True])
def test_dora_is_that_of_numpy(tmp_path, dtype, turned):
    # More than one piece, and several tensors, so that several threads look at them.
    arrays = {f"h.{i}.q.weight": values_of(bytes_of(numbers(613, 771), dtype), dtype, (613, 771)) for i in range(3)}
    make(tmp_path / "base.safetensors", {name: entry(values, dtype) for name, values in arrays.items()})
    rows, columns = (771, 613) if turned else (613, 771)
    tensors = {}
    for i in range(3):
        tensors |= pair(f"h.{i}.q", rows, columns) | {f"h.{i}.q.lora_magnitude_vector": np.abs(numbers(rows)) + 1}
    adapter = peft(tmp_path / "adapter", tensors, use_dora=True, fan_in_fan_out=turned)
    found = merged(tmp_path, adapter, "--scale", "0.5")
    for name, base in arrays.items():
        part = name.removesuffix(".weight")
        delta = product(tensors[f"{part}.lora_B.weight"], tensors[f"{part}.lora_A.weight"])
        wanted = dora(base, delta.T if turned else delta, tensors[f"{part}.lora_magnitude_vector"], 0 if turned else 1)
        off = np.abs(found[name].astype(np.float64) - wanted)
        assert (off <= DORA_NEAR[dtype] * (np.abs(wanted) + np.abs(base))).all()


def test_a_scale_of_0_leaves_where_rows_point(small):
    folder, arrays = small
    tensors = pair("model.h.1.q", 6, 10) | {"model.h.1.q.lora_magnitude_vector": numbers(6)}
    found = merged(folder, peft(folder / "adapter", tensors, use_dora=True), "--scale", "0")
    name = "model.h.1.q.weight"
    wanted = dora(arrays[name], np.zeros((6, 10)), tensors["model.h.1.q.lora_magnitude_vector"], 1)
    assert np.abs(found[name] - wanted).max() < 1e-6


def test_kinds_are_merged_together(small):
    """Each length is that of the base with the adapter's own product, whatever was added before."""
    folder, arrays = small
    base = arrays["model.h.0.q.weight"]
    plain = pair("model.h.0.q", 6, 10)
    trained = pair("model.h.0.q", 6, 10) | {"model.h.0.q.lora_magnitude_vector": numbers(6)}
    hada = {f"lora_unet_model_h_0_q.hada_{name}": numbers(*shape) for name, shape in
            (("w1_a", (6, 4)), ("w1_b", (4, 10)), ("w2_a", (6, 4)), ("w2_b", (4, 10)))}
    paths = [peft(folder / "plain", plain), peft(folder / "dora", trained, use_dora=True),
             make(folder / "hada.safetensors", {name: entry(values) for name, values in hada.items()})]
    first, second = (2 * product(t["model.h.0.q.lora_B.weight"], t["model.h.0.q.lora_A.weight"]).astype(np.float64)
                     for t in (plain, trained))
    w1_a, w1_b, w2_a, w2_b = hada.values()
    lengths = np.linalg.norm(base + second, axis=1, keepdims=True)
    wanted = (base + first + second) * trained["model.h.0.q.lora_magnitude_vector"][:, None] / lengths
    wanted += product(w1_a, w1_b) * product(w2_a, w2_b)
    found = merged(folder, *paths)["model.h.0.q.weight"]
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    said = run("merge-lora", folder / "base.safetensors", *paths, "-o", folder / "n.safetensors", "-n", "--json").stdout
    assert [(update["kind"], update["rank"]) for update in json.loads(said)["changes"][0]["adapters"]] == [
        ("lora", 4), ("dora", 4), ("loha", 4)]


def test_an_embedding_of_dora_that_was_saved_with_its_base(small):
    folder, arrays = small
    saved = numbers(20, 6)
    tensors = {"model.embed.lora_embedding_A": numbers(4, 20), "model.embed.lora_embedding_B": numbers(6, 4),
               "model.embed.lora_magnitude_vector": numbers(6), "model.embed.base_layer.weight": saved}
    found = merged(folder, peft(folder / "adapter", tensors, use_dora=True))["model.embed.weight"]
    delta = 2 * product(tensors["model.embed.lora_embedding_B"], tensors["model.embed.lora_embedding_A"]).T
    wanted = dora(saved, delta, tensors["model.embed.lora_magnitude_vector"], 0)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_a_part_of_an_adapter_for_several_models(small):
    folder, arrays = small
    tensors = {f"{prefix}_h_0_q.lora_{part}.weight": entry(numbers(*shape))
               for prefix in ("lora_unet_model", "lora_te_text") for part, shape in (("down", (4, 10)), ("up", (6, 4)))}
    adapter = make(folder / "lora.safetensors", tensors)
    assert "2 of the adapter's tensors have no place" in refused(folder, adapter)
    found = merged(folder, adapter, "--select", "lora_unet_*")
    assert [name for name, values in arrays.items() if found[name].tobytes() != values.tobytes()] == ["model.h.0.q.weight"]


def test_a_model_of_several_files_keeps_them(small):
    folder, arrays = small
    run("split", folder / "base.safetensors", "-o", folder / "parts.safetensors", "--max-shard-size", "600")
    adapter = peft(folder / "adapter", pair("model.h.0.q", 6, 10))
    single = merged(folder, adapter)
    run("merge-lora", folder / "parts.safetensors.index.json", adapter, "-o", folder / "out.safetensors")
    names = sorted(path.name for path in folder.glob("parts*"))
    assert len(names) > 3
    assert sorted(path.name.replace("out", "parts") for path in folder.glob("out*")) == names
    found = {name: body for path in folder.glob("out-*") for name, (_, _, body, _) in tensors_of(path)[1].items()}
    assert found == {name: values.tobytes() for name, values in single.items()}
    assert set(found) == set(arrays)


def test_what_would_be_merged(small):
    folder, _ = small
    tensors = pair("model.h.0.q", 6, 10) | {"head.weight": numbers(7, 6)}
    adapter = peft(folder / "adapter", tensors)
    arguments = ["merge-lora", folder / "base.safetensors", adapter, "-o", folder / "new.safetensors", "-n"]
    assert run(*arguments).stdout == "head.weight: replaced\nmodel.h.0.q.weight: rank 4, scale 2\n"
    report = json.loads(run(*arguments, "--json").stdout)
    assert [(change["name"], change["change"], change["adapters"]) for change in report["changes"]] == [
        ("model.h.0.q.weight", "merge", [{"path": str(adapter), "kind": "lora", "rank": 4, "scale": 2}]),
        ("head.weight", "merge", [{"path": str(adapter), "kind": "whole", "rank": 0, "scale": 1}])]
    assert not (folder / "new.safetensors").exists()


def test_what_would_be_merged_is_folded_where_it_is_the_same(tmp_path):
    """Layers of another rank have a line of their own."""
    names = [f"h.{i}.q" for i in range(6)]
    make(tmp_path / "base.safetensors", {f"{name}.weight": entry(numbers(6, 10)) for name in names})
    tensors = {}
    for i, name in enumerate(names):
        tensors |= pair(name, 6, 10, 2 if i == 5 else 4)
    folder = peft(tmp_path / "adapter", tensors, rank_pattern={"h.5.q": 2})
    words = ["merge-lora", tmp_path / "base.safetensors", folder, "-o", tmp_path / "new.safetensors", "-n"]
    assert run(*words).stdout.splitlines() == ["h.#.q.weight × 5 (0-4): rank 4, scale 2", "h.5.q.weight: rank 2, scale 4"]
    assert len(run(*words, "--all").stdout.splitlines()) == 6


def test_numbers_that_become_infinite_are_counted(small):
    folder, _ = small
    base = numbers(6, 10)
    make(folder / "base.safetensors", {"q.weight": entry(base, "F16")})
    tensors = {"q.lora_A.weight": np.full((4, 10), 100, np.float32), "q.lora_B.weight": np.full((6, 4), 100, np.float32)}
    adapter = peft(folder / "adapter", tensors, lora_alpha=8e0)
    result = run("merge-lora", folder / "base.safetensors", adapter, "-o", folder / "new.safetensors", "--json")
    assert "60 numbers became infinite" in result.stderr
    assert json.loads(result.stdout)["changes"][0]["overflowed"] == 60


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(folder, *arguments, codes=(1, 3)):
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    words = [CLI, "merge-lora", folder / "base.safetensors", *arguments, "-o", folder / "refused.safetensors"]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert result.returncode in codes, result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return result.stderr


def bad_pair(a=(4, 10), b=(6, 4), value=0.5):
    return {"model.h.0.q.lora_A.weight": np.full(a, value, np.float32),
            "model.h.0.q.lora_B.weight": np.full(b, 0.5, np.float32)}


@pytest.mark.parametrize(("tensors", "message"), [
    (bad_pair((0, 10), (6, 0)), "no common rank above 0"),
    (bad_pair((4, 10), (6, 5)), "no common rank above 0"),
    (bad_pair((4, 11)), "the base's tensor has another shape"),
    (bad_pair((4, 10), (7, 4)), "the base's tensor has another shape"),
    (bad_pair((4, 10), (6, 4, 2)), "the base's tensor has another shape"),
    (bad_pair((4, 10, 1)), None),
    (bad_pair((4,), (4,)), "no common rank above 0"),
    (bad_pair(value=np.nan), "has an infinite number or a NaN"),
    (bad_pair(value=-np.inf), "has an infinite number or a NaN"),
    ({"model.h.0.q.lora_A.weight": np.ones((4, 10), np.float32)}, "is without the other of its two matrices"),
    ({"model.h.9.q.lora_A.weight": np.ones((4, 10), np.float32), "model.h.9.q.lora_B.weight": np.ones((6, 4), np.float32)},
     "the base has no such tensor"),
    (bad_pair() | {"head.weight": np.ones((6, 7), np.float32)}, "the base's tensor has another shape"),
    (bad_pair() | {"other.weight": np.ones((6, 7), np.float32)}, "the base has no such tensor"),
    (bad_pair() | {"model.h.0.q.lora_A.other.weight": np.ones((4, 10), np.float32)}, "the file holds two adapters"),
    (bad_pair() | {"h.0.q.lora_A.weight": np.ones((4, 10), np.float32), "h.0.q.lora_B.weight": np.ones((6, 4), np.float32)},
     "are for the same tensor of the base"),
    (bad_pair() | {"model.h.0.q.weight": np.ones((6, 10), np.float32)}, "which would be replaced and changed"),
    (bad_pair() | {"model.h.0.q.lora_magnitude_vector": np.ones(6, np.float32)}, "is of another kind than"),
    (bad_pair() | {"model.h.0.q.dora_scale": np.ones((6, 1), np.float32)}, "DoRA as LyCORIS has it"),
    (bad_pair() | {"model.h.0.q.hada_w1_a": np.ones((6, 4), np.float32)}, "of another kind of adapter"),
    ({"model.h.0.q.lokr_t1": np.ones((6, 4), np.float32)}, "is a part of a LoKr with a core of its first matrix"),
    ({"model.h.0.q.lora_magnitude_vector": np.ones(6, np.float32)}, "is without the matrices that it belongs to"),
    ({"model.h.0.q.alpha": np.ones(1, np.float32)}, "is without the matrices that it belongs to"),
    ({"model.h.0.q.oft_blocks": np.ones((6, 4), np.float32)}, "is a part of OFT"),
    ({"model.h.0.q.diff": np.ones((6, 10), np.float32)}, "differences of whole tensors"),
    ({"prompt_embeddings": np.ones((6, 10), np.float32)}, "prompt tuning"),
])
def test_adapters_that_cannot_be_merged(small, tensors, message):
    folder, _ = small
    adapter = peft(folder / "adapter", tensors)
    if message is None:
        merged(folder, adapter)
    else:
        assert message in refused(folder, adapter)


def ones(**shapes):
    return {f"lora_unet_model_h_0_q.{name}": np.ones(shape, np.float32) for name, shape in shapes.items()}


LOHA = {"hada_w1_a": (6, 4), "hada_w1_b": (4, 10), "hada_w2_a": (6, 4), "hada_w2_b": (4, 10)}
LOKR = {"lokr_w1": (2, 5), "lokr_w2_a": (3, 4), "lokr_w2_b": (4, 2)}
CORES = LOHA | {"hada_t1": (4, 4, 1, 1), "hada_t2": (4, 4, 1, 1), "hada_w1_a": (4, 6), "hada_w2_a": (4, 6)}


@pytest.mark.parametrize(("tensors", "message"), [
    (ones(**LOHA), None),
    (ones(**LOKR), None),
    (ones(**CORES), None),
    *((ones(**{other: shape for other, shape in LOHA.items() if other != name}), "is without the other of its two matrices")
      for name in LOHA),
    (ones(hada_w1_a=(6, 4), hada_w1_b=(4, 10)), "is without the matrices that it belongs to"),
    (ones(**LOHA | {"hada_w2_a": (6, 5), "hada_w2_b": (5, 10)}), "differ in rank or shape"),
    (ones(**LOHA | {"hada_w2_b": (4, 11)}), "differ in rank or shape"),
    (ones(**LOHA | {"hada_w2_a": (7, 4)}), "differ in rank or shape"),
    (ones(**LOHA | {"hada_w1_a": (6, 5)}), "no common rank above 0"),
    (ones(**LOHA | {"hada_w1_a": (6,)}), "no common rank above 0"),
    (ones(**LOHA | {"hada_w1_b": (4, 11), "hada_w2_b": (4, 11)}), "another shape"),
    (ones(**LOHA | {"hada_w1_a": (0, 4), "hada_w2_a": (0, 4)}), "another shape"),
    (ones(**LOHA | {"hada_w1_a": (6, 0), "hada_w1_b": (0, 10)}), "no common rank above 0"),
    (ones(**LOHA | {"hada_w1_a": (6, 4, 2)}), "another shape"),
    (ones(**LOHA | {"hada_t1": (4, 4, 1, 1)}), "no common rank above 0"),
    (ones(**CORES | {"hada_t1": (4, 5, 1, 1)}), "is no core of its matrices"),
    (ones(**CORES | {"hada_t1": (4, 4, 0)}), "is no core of its matrices"),
    (ones(**CORES | {"hada_t1": (4,)}), "is no core of its matrices"),
    (ones(**CORES | {"hada_t1": (4, 4, 2), "hada_t2": (4, 4, 2), "hada_w1_b": (4, 5), "hada_w2_b": (4, 5)}), "another shape"),
    (ones(lokr_w1=(2, 5)), "is without the matrices that it belongs to"),
    (ones(lokr_w1=(2, 5), lokr_w2=(3, 3)), "another shape"),
    (ones(lokr_w1=(2, 5, 1, 2), lokr_w2=(3, 1)), "another shape"),
    (ones(lokr_w1=(2, 5), lokr_w2=(6,)), "is no matrix"),
    (ones(lokr_w1=(2, 0), lokr_w2=(3, 2)), "is no matrix"),
    (ones(lokr_w1=(2**33, 0), lokr_w2=(2**33, 0)), "is no matrix"),
    (ones(**LOKR | {"lokr_w2": (3, 2)}), "a factor of a matrix that is there as a whole"),
    (ones(**LOKR | {"lokr_t2": (4, 4, 1, 1), "lokr_w2": (3, 2)}), "a factor of a matrix that is there as a whole"),
    (ones(lokr_w1_a=(2, 3), lokr_w1_b=(3, 5), lokr_w2_a=(3, 4), lokr_w2_b=(4, 2)), "differ in rank or shape"),
    (ones(**LOHA, **LOKR), "of another kind of adapter"),
    (ones(**LOHA) | {"lora_unet_model_h_0_q.hada_w1_a.second": np.ones((6, 4), np.float32)}, "the file holds two adapters"),
    (ones(**LOHA) | {"lora_unet_model_h_0_q.hada_w1_a": np.full((6, 4), np.nan, np.float32)}, "an infinite number or a NaN"),
    (ones(**CORES) | {"lora_unet_model_h_0_q.hada_t2": np.full((4, 4, 1), np.inf, np.float32)}, "an infinite number or a NaN"),
])
def test_lycoris_that_cannot_be_merged(small, tensors, message):
    folder, _ = small
    adapter = make(folder / "lora.safetensors", {name: entry(values) for name, values in tensors.items()})
    if message is None:
        merged(folder, adapter)
    else:
        assert message in refused(folder, adapter)


@pytest.mark.parametrize(("rows", "magnitudes", "message"), [
    ({}, np.ones(6), None),
    ({2: 0}, np.ones(6), "row 2 of tensor"),
    ({5: 0}, np.zeros(6), "row 5 of tensor"),
    ({0: np.nan}, np.ones(6), "row 0 of tensor"),
    ({1: np.inf}, np.ones(6), "row 1 of tensor"),
    ({}, np.ones(10), "the base's tensor has another shape"),
    ({}, np.ones(1), "the base's tensor has another shape"),
    ({}, np.ones((1, 6, 1, 1)), None),
    ({}, np.full(6, np.inf), "an infinite number or a NaN"),
    ({3: 1e-30}, np.full(6, 1e30), "row 3 of tensor"),
])
def test_dora_of_rows_without_a_length(small, rows, magnitudes, message):
    folder, _ = small
    base = numbers(6, 10)
    tensors = pair("q", 6, 10) | {"q.lora_magnitude_vector": magnitudes.astype(np.float32)}
    for row, value in rows.items():
        base[row] = value
        tensors["q.lora_B.weight"][row] = 0
    make(folder / "base.safetensors", {"q.weight": entry(base)})
    adapter = peft(folder / "adapter", tensors, use_dora=True)
    if message is None:
        merged(folder, adapter)
    else:
        assert message in refused(folder, adapter)


def test_columns_without_a_length_are_called_so(small):
    folder, arrays = small
    arrays["model.embed.weight"][:, 4] = 0
    make(folder / "base.safetensors", {name: entry(values) for name, values in arrays.items()})
    tensors = {"model.embed.lora_embedding_A": numbers(4, 20), "model.embed.lora_embedding_B": numbers(6, 4),
               "model.embed.lora_magnitude_vector": numbers(6)}
    tensors["model.embed.lora_embedding_B"][4] = 0
    assert "column 4 of tensor" in refused(folder, peft(folder / "adapter", tensors, use_dora=True))


def test_pefts_lokr_has_the_factor_of_the_configuration(small):
    folder, arrays = small
    tensors = {"model.h.0.q.lokr_w1": numbers(2, 5), "model.h.0.q.lokr_w2": numbers(3, 2)}
    adapter = peft(folder / "adapter", tensors, peft_type="LOKR", alpha=3)
    change = np.float32(0.75) * kronecker(*tensors.values())
    assert_changed(merged(folder, adapter), arrays, {"model.h.0.q.weight": arrays["model.h.0.q.weight"] + change})
    said = run("merge-lora", folder / "base.safetensors", adapter, "-o", folder / "n.safetensors", "-n").stdout
    assert said == "model.h.0.q.weight: LoKr, scale 0.75\n"
    peft(folder / "adapter", tensors, peft_type="LOKR", alpha=3, rank_pattern={"q": 0})
    assert "states another one" in refused(folder, adapter)
    peft(folder / "adapter", tensors, peft_type="LOHA")
    assert "is of another kind than" in refused(folder, adapter)


def test_an_empty_tensor_has_nothing_to_add_to(small):
    folder, _ = small
    make(folder / "base.safetensors", {"q.weight": ("F32", [0, 1000], b"")})
    tensors = {"q.lora_A.weight": numbers(4, 1000), "q.lora_B.weight": np.zeros((0, 4), np.float32)}
    merged(folder, peft(folder / "adapter", tensors))


@pytest.mark.parametrize(("config", "message"), [
    ('{"r": 4, "lora_alpha": NaN}', "not valid JSON"),
    ('{"r": 4, "lora_alpha": 1e999}', "beyond what a double can hold"),
    ('{"r": 4, "lora_alpha": 1e-999}', "too large or too small for a double"),
    ('{"r": 4, "lora_alpha": 1e300}', "beyond the range of F32"),
    ('{"r": 4, "lora_alpha": "8"}', "must be a number"),
    ('{"r": 4, "lora_alpha": 8} x', "nothing should follow"),
    ('{"r": 0, "lora_alpha": 8}', "is missing, or not above 0"),
    ('{"r": -4, "lora_alpha": 8}', "is missing, or not above 0"),
    ('{"r": 8, "lora_alpha": 8}', "states another one"),
    ('{"lora_alpha": 8}', "is missing, or not above 0"),
    ('[]', "an object should be here"),
    ('', "an object should be here"),
    ('{"r": 4, "peft_type": "VERA"}', "only LoRA, LoHa and LoKr can be merged"),
    ('{"r": 4, "peft_type": "LOHA"}', "is of another kind than"),
    ('{"r": 4, "use_dora": true}', "is of another kind than"),
    ('{"r": 4, "use_dora": 1}', "must be true or false"),
    ('{"r": 4, "alpha": "x"}', "must be a number"),
    ('{"r": 4, "use_rslora": "yes"}', "must be true or false"),
    ('{"r": 4, "layer_replication": [[0, 4]]}', "layers that are replicated"),
    ('{"r": 4, "init_lora_weights": "pissa_niter_4"}', "changed the base"),
    ('{"r": 4, "alpha_pattern": {".*q": 4}}', "is a regular expression"),
    ('{"r": 4, "alpha_pattern": {"q": "x"}}', "must be a number"),
    ('{"r": 4, "rank_pattern": []}', None),
    ('{"r": 4, "rank_pattern": 5}', "must be an object"),
    ('{"r": 4, "x": ' + "[" * 200 + "]" * 200 + "}", "deep"),
    ('{"r": 4, "x\\ud800": 1}', "surrogate"),
])
def test_configurations_that_are_wrong(small, config, message):
    folder, _ = small
    adapter = peft(folder / "adapter", bad_pair())
    (adapter / "adapter_config.json").write_text(config)
    if message is None:
        merged(folder, adapter)
    else:
        assert message in refused(folder, adapter)


def test_pefts_names_need_a_configuration(small):
    folder, _ = small
    adapter = peft(folder / "adapter", bad_pair())
    (adapter / "adapter_config.json").unlink()
    assert "no adapter_config.json is next to it" in refused(folder, adapter)


def test_two_places_are_an_error(small):
    folder, _ = small
    make(folder / "base.safetensors", {name: entry(numbers(6, 10)) for name in ("one.q.weight", "two.q.weight", "two.b_c.weight",
                                                                                "two.b.c.weight")})
    for name in ("q", "lora_unet_q", "lora_unet_two_b_c"):
        end = ("lora_A", "lora_B") if name == "q" else ("lora_down", "lora_up")
        adapter = make(folder / "lora.safetensors", {f"{name}.{end[0]}.weight": entry(numbers(4, 10)),
                                                     f"{name}.{end[1]}.weight": entry(numbers(6, 4))})
        assert "the base has several such tensors" in refused(folder, adapter)


def test_quantised_models_are_refused(small):
    folder, _ = small
    adapter = peft(folder / "adapter", bad_pair())
    make(folder / "base.safetensors", {"model.h.0.q.weight": ("U8", [60], bytes(60))})
    assert "as it was before it was quantised" in refused(folder, adapter)


def test_quantised_adapters_are_refused(small):
    folder, _ = small
    adapter = make(folder / "lora.safetensors", {"q.lora_A.weight": ("I8", [4, 10], bytes(40))})
    assert "is not F16, BF16, F32 or F64" in refused(folder, adapter)


@pytest.mark.parametrize("name", NAUGHTY)
def test_names_cannot_harm_a_terminal(small, name):
    folder, _ = small
    adapter = make(folder / "lora.safetensors", {f"{name}.lora_A.weight": entry(numbers(4, 10)),
                                                 f"{name}.lora_B.weight": entry(numbers(6, 4))})
    said = refused(folder, adapter)
    assert NAUGHTY[name] in said
    assert said.replace("\n", "").isprintable()


def test_all_misfits_are_told(small):
    folder, _ = small
    tensors = {f"x{i}.lora_{part}.weight": numbers(*shape) for i in range(15) for part, shape in (("A", (4, 10)), ("B", (6, 4)))}
    said = refused(folder, peft(folder / "adapter", tensors))
    assert said.count("the base has no such tensor\n") == 20
    assert "... and 10 more" in said
    assert "30 of the adapter's tensors have no place" in said


def test_words_that_make_no_sense(small):
    folder, _ = small
    adapter = peft(folder / "adapter", bad_pair())
    base = folder / "base.safetensors"
    assert "name the new file" in run("merge-lora", base, adapter, code=2).stderr
    assert "needs a number" in refused(folder, adapter, "--scale", "nan", codes=[2])
    assert "needs a number" in refused(folder, adapter, "--scale", "1x", codes=[2])
    assert "2 --scale for 1 adapters" in refused(folder, adapter, "--scale", "1", "--scale", "1", codes=[2])
    assert "no tensor of the adapter matches" in refused(folder, adapter, "--select", "nothing*")
    run("merge-lora", base, adapter, "-o", base, "-f", code=3)
    run("merge-lora", base, adapter, "-o", adapter / "adapter_model.safetensors", "-f", code=3)
    assert "missing" in refused(folder, folder / "missing", codes=[3])


def test_a_full_disk_leaves_nothing(small):
    folder, _ = small
    make(folder / "base.safetensors", {"model.h.0.q.weight": entry(numbers(600, 1000))})
    adapter = peft(folder / "adapter", pair("model.h.0.q", 600, 1000))
    command = f'ulimit -f 1000; "{CLI}" merge-lora base.safetensors adapter -o new.safetensors'
    result = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
                            env=os.environ | {"LC_ALL": "C"})
    assert result.returncode != 0
    assert sorted(os.listdir(folder)) == ["adapter", "base.safetensors"]
    merged(folder, adapter)


# ---- averages --------------------------------------------------------------------------------------------------------


def average(folder, *arguments):
    run("average", *arguments, "-o", folder / "mean.safetensors", "-f")
    return {name: (dtype, body) for name, (dtype, _, body, _) in tensors_of(folder / "mean.safetensors")[1].items()}


def models_of(folder, count, dtype="F32", shape=(511, 701)):
    """Files of the same tensors, and their numbers."""
    arrays = []
    for i in range(count):
        values = {name: values_of(bytes_of(numbers(*size), dtype), dtype, size)
                  for name, size in (("a.weight", shape), ("b.weight", (7,)), ("c.bias", (3, 5)))}
        arrays.append(values)
        make(folder / f"{i}.safetensors", {name: entry(array, dtype) for name, array in values.items()} |
             {"ids": ("I64", [2], bytes(range(16))), "empty": (dtype, [0, 4], b"")}, {"model": "same"})
    return [folder / f"{i}.safetensors" for i in range(count)], arrays


def mean(arrays, name, weights, dtype):
    total = 0.0
    for weight in weights:
        total += weight
    found = arrays[0][name].astype(np.float64) * (weights[0] / total)
    for array, weight in zip(arrays[1:], weights[1:]):
        found = found + (weight / total) * array[name].astype(np.float64)
    if dtype == "BF16":  # by way of F32 rounded to odd, so that there is one rounding
        nearest = found.astype(np.float32)
        inner = np.where(np.abs(nearest) > np.abs(found), np.nextafter(nearest, np.float32(0)), nearest)
        return to_bfloat16((inner.view(np.uint32) | (inner != found)).view(np.float32)).tobytes()
    return found.astype(NUMPY[dtype]).tobytes()


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
def test_averages_are_those_of_numpy(tmp_path, dtype):
    paths, arrays = models_of(tmp_path, 3, dtype)
    for options, weights in (([], [1, 1, 1]), (["--weight", "1,2,-0.5"], [1, 2, -0.5])):
        found = average(tmp_path, *paths, *options)
        assert found["ids"] == ("I64", bytes(range(16)))
        for name in arrays[0]:
            assert found[name] == (dtype, mean(arrays, name, weights, dtype))


def test_some_tensors_have_other_weights(tmp_path):
    paths, arrays = models_of(tmp_path, 2)
    found = average(tmp_path, *paths, "--weight", "*.bias=0,1", "--weight", "3,1", "--weight", "*=1,1", "--weight", "a*=5,5")
    assert found["c.bias"][1] == mean(arrays, "c.bias", [0, 1], "F32") == arrays[1]["c.bias"].tobytes()
    assert found["a.weight"][1] == mean(arrays, "a.weight", [1, 1], "F32")


def slerp(t, first, second):
    """As mergekit has it."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    ones = [array / np.linalg.norm(array) if np.linalg.norm(array) > 1e-8 else array for array in (first, second)]
    dot = np.sum(ones[0] * ones[1])
    if np.abs(dot) > 0.9995:
        return (1 - t) * first + t * second
    angle = np.arccos(dot)
    return np.sin((1 - t) * angle) / np.sin(angle) * first + np.sin(t * angle) / np.sin(angle) * second


@pytest.mark.parametrize("t", [0, 0.25, 1])
def test_slerp_is_that_of_mergekit(tmp_path, t):
    paths, arrays = models_of(tmp_path, 2, "F64")
    nearly = {"near": numbers(40, 50).astype(np.float64), "zero": np.zeros((4, 4)), "against": numbers(9, 9).astype(np.float64)}
    others = {"near": nearly["near"] * 1.5 + 1e-9, "zero": numbers(4, 4).astype(np.float64), "against": -2 * nearly["against"]}
    for path, own, more in zip(paths, arrays, (nearly, others)):
        own.update(more)
        make(path, {name: entry(values, "F64") for name, values in own.items()})
    found = average(tmp_path, *paths, "--slerp", str(t), "--slerp", "near=0.5")
    for name in arrays[0]:
        expected = slerp(0.5 if name == "near" else t, arrays[0][name], arrays[1][name])
        values = np.frombuffer(found[name][1], "<f8").reshape(expected.shape)
        assert np.abs(values - expected).max() <= 1e-13 * np.abs(expected).max() + 1e-300, name


def test_averages_of_models_of_several_files(tmp_path):
    paths, _ = models_of(tmp_path, 2)
    run("split", paths[0], "-o", tmp_path / "parts.safetensors", "--max-shard-size", "1KB")
    single = average(tmp_path, *paths)
    run("average", tmp_path / "parts.safetensors.index.json", paths[1], "-o", tmp_path / "out.safetensors")
    found = {name: (dtype, body) for path in tmp_path.glob("out-*") for name, (dtype, _, body, _) in tensors_of(path)[1].items()}
    assert len(list(tmp_path.glob("out-*"))) > 1
    assert found == single


def average_refused(folder, *arguments, codes=(1, 3)):
    before = sorted(os.listdir(folder))
    words = [CLI, "average", *arguments, "-o", folder / "refused.safetensors"]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert result.returncode in codes, result.stderr
    assert sorted(os.listdir(folder)) == before
    return result.stderr


def test_models_that_differ_are_not_averaged(tmp_path):
    one = make(tmp_path / "one.safetensors", {"a": entry(numbers(2, 3)), "b": entry(numbers(2)), "c": entry(numbers(2)), "d": entry(
        numbers(2))})
    two = make(tmp_path / "two.safetensors", {"a": entry(numbers(3, 2)), "b": entry(numbers(2), "F16"), "d": entry(numbers(2)),
                                              "e\x1b": entry(numbers(2))})
    said = average_refused(tmp_path, one, two)
    for line in ('"a" has another shape', '"b" has another dtype', '"c" is missing', r'"e\x1b" is in no other model'):
        assert f"{two}: {line}\n" in said
    assert "the models differ in 4 tensors" in said


def test_integers_that_differ_are_not_averaged(tmp_path):
    paths, _ = models_of(tmp_path, 2)
    make(paths[1], {name: (dtype, shape, body) for name, (dtype, shape, body, _) in tensors_of(paths[1])[1].items()} |
         {"ids": ("I64", [2], bytes(16))})
    assert "is not averaged, and differs between the models" in average_refused(tmp_path, *paths)


def test_averages_that_make_no_sense(tmp_path):
    paths, _ = models_of(tmp_path, 3)
    for options in (["--weight", "1,2"], ["--weight", "1,2,3,4"], ["--weight", "1,nan,2"], ["--weight", "1,,2"],
                    ["--weight", "x=1"], ["--slerp", "0.5"]):
        average_refused(tmp_path, *paths, *options, codes=[2])
    for options in (["--slerp", "x"], ["--slerp", "0.5", "--weight", "1,1"]):
        average_refused(tmp_path, *paths[:2], *options, codes=[2])
    assert "t of slerp is not from 0 to 1" in average_refused(tmp_path, *paths[:2], "--slerp", "1.5", codes=[2, 3])
    assert "their sum is 0" in average_refused(tmp_path, *paths[:2], "--weight", "1,-1", codes=[2, 3])
    assert "no tensor has a name that matches" in average_refused(tmp_path, *paths[:2], "--weight", "nothing=1,1")
    run("average", *paths, "-o", paths[2], "-f", code=3)
    run("average", *paths, code=2)


# ---- by URL ----------------------------------------------------------------------------------------------------------


def test_base_and_adapter_by_url(small, monkeypatch):
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder, _ = small
    adapter = peft(folder / "adapter", pair("model.h.0.q", 6, 10))
    expected = merged(folder, adapter)
    files = {f"/a/{path.name}": path.read_bytes() for path in [folder / "base.safetensors", *adapter.iterdir()]}
    with Server(files) as server:
        base, lora = server.url("/a/base.safetensors"), server.url("/a/adapter_model.safetensors")
        run("merge-lora", base, lora, "-o", folder / "far.safetensors")
        del server.files["/a/adapter_config.json"]
        assert "no adapter_config.json is next to it" in refused(folder, lora)
    found = {name: body for name, (_, _, body, _) in tensors_of(folder / "far.safetensors")[1].items()}
    assert found == {name: values.tobytes() for name, values in expected.items()}


# ---- What a dry run promises ----


@pytest.mark.parametrize("command", [["average", "a.safetensors", "b.safetensors"], ["cast", "a.safetensors", "x=BF16"],
                                     ["drop", "a.safetensors", "n"], ["align", "a.safetensors", "--to", "4096"]])
@pytest.mark.parametrize("output", ["missing/o.safetensors", "folder", "a.safetensors/o.safetensors", "/dev/null", "o.safetensors"])
def test_a_dry_run_fails_as_the_run_does(command, output, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a", "b"):
        make(tmp_path / f"{name}.safetensors", {"n": ("I64", [1], bytes(8)), "x": ("F32", [2], bytes(8))})
    before = sorted(path.name for path in tmp_path.iterdir())
    dry, wet = (subprocess.run([CLI, *command, "-o", output, *options], cwd=tmp_path, capture_output=True, text=True,
                               timeout=60, check=False) for options in (["--dry-run"], []))
    writes = output in {"o.safetensors", "folder"}
    assert dry.returncode == wet.returncode == (0 if writes else 3)
    if not writes:
        assert dry.stderr == wet.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_dry_run_of_an_average_compares_what_is_not_averaged(tmp_path):
    for name, number in (("a", 1), ("b", 2)):
        make(tmp_path / f"{name}.safetensors", {"n": ("I64", [1], bytes([number] * 8)), "x": ("F32", [2], bytes(8))})
    for other, code in (("b", 1), ("a", 0)):
        result = subprocess.run([CLI, "average", "a.safetensors", f"{other}.safetensors", "-o", "o.safetensors", "-n"],
                                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code and not (tmp_path / "o.safetensors").exists()
        assert ("differs between the models" in result.stderr) == (code == 1)


# ---- Averages of adapters ----


FACTORS = {"peft": ["base_model.model.a.lora_A.weight", "base_model.model.a.lora_B.weight"],
           "kohya": ["lora_unet_a.lora_down.weight", "lora_unet_a.lora_up.weight"],
           "loha": ["a.hada_w1_a", "a.hada_w1_b", "a.hada_w2_a", "a.hada_w2_b"], "lokr": ["a.lokr_w1", "a.lokr_w2"]}


@pytest.mark.parametrize("kind", FACTORS)
def test_factors_of_adapters_are_not_averaged(kind, tmp_path):
    for name in "ab":
        make(tmp_path / f"{name}.safetensors", {factor: ("F32", [2, 2], bytes(16)) for factor in FACTORS[kind]})
    result = subprocess.run([CLI, "average", "a.safetensors", "b.safetensors", "-o", "o.safetensors"], cwd=tmp_path,
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and not (tmp_path / "o.safetensors").exists()
    instead = "coffer add-lora A B" if kind in ("peft", "kohya") else "coffer merge-lora BASE A B"
    assert instead in result.stderr


def test_models_with_names_like_those_of_adapters_are_averaged(tmp_path):
    for name in "ab":
        make(tmp_path / f"{name}.safetensors", {n: ("F32", [1], bytes(4)) for n in ("a.alpha", "lora.weight", "a.q_a_proj.weight")})
    subprocess.run([CLI, "average", "a.safetensors", "b.safetensors", "-o", "o.safetensors"], cwd=tmp_path, capture_output=True,
                   timeout=60, check=True)
