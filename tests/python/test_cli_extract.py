# SPDX-License-Identifier: Apache-2.0
"""Adapters that `coffer extract-lora` makes, compared with the singular value decomposition of numpy, and merged again. That peft
loads them is among the tests of the Python package."""

import json
import os
import subprocess

import numpy as np
import pytest
from model_files import NAUGHTY, make
from test_cli_merging import bytes_of, entry, numbers, values_of
from test_cli_rewrite import CLI, run, tensors_of
from web_server import Server

RANDOM = np.random.default_rng(30)
PREFIX = "base_model.model."


@pytest.fixture(autouse=True)
def one_thread_for_the_algebra(monkeypatch):
    """The matrices are small, and OpenBLAS's threads wait for each other by turning in circles, which takes long while other tests
    run beside these."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


def extract(folder, base, tuned, *arguments):
    """The told tensors by name, the adapter's tensors, and its configuration."""
    told = json.loads(run("extract-lora", base, tuned, "-o", folder, "-f", "--json", "-q", *arguments).stdout)
    tensors = {name: values_of(body, dtype, shape)
               for name, (dtype, shape, body, _) in tensors_of(folder / "adapter_model.safetensors")[1].items()}
    return {one["name"]: one for one in told["tensors"]}, tensors, json.loads((folder / "adapter_config.json").read_text())


def product(tensors, module):
    down = tensors[f"{PREFIX}{module}.lora_A.weight"].astype(np.float64)
    up = tensors[f"{PREFIX}{module}.lora_B.weight"].astype(np.float64)
    return up.reshape(up.shape[0], -1) @ down.reshape(down.shape[0], -1)


def least_loss(difference, rank):
    values = np.linalg.svd(difference.astype(np.float64), compute_uv=False)
    return np.sqrt((values[rank:] ** 2).sum())


def matrix_of(values):
    """A matrix with these singular values, whose first dimension is the smaller one."""
    left, _ = np.linalg.qr(RANDOM.standard_normal((len(values), len(values))))
    right, _ = np.linalg.qr(RANDOM.standard_normal((len(values) + 60, len(values))))
    return (left * values) @ right.T


STEPS = np.arange(1, 241)
SPECTRA = {"slow": 1 / np.sqrt(STEPS), "fast": 1 / STEPS**2, "flat": np.ones(240), "line": np.linspace(1, 0.01, 240)}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rank", [1, 8, 40])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_the_loss_is_nearly_the_least(tmp_path, spectrum, rank, turned):
    change = matrix_of(SPECTRA[spectrum])
    tuned = (change.T if turned else change).astype(np.float32)
    make(tmp_path / "base.safetensors", {"l.weight": entry(np.zeros_like(tuned))})
    make(tmp_path / "tuned.safetensors", {"l.weight": entry(tuned)})
    told, tensors, _ = extract(tmp_path / "a", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--rank", rank)
    loss = np.linalg.norm(tuned - product(tensors, "l"))
    assert loss <= 1.01 * least_loss(tuned, rank) + 1e-6 * np.linalg.norm(tuned)
    assert told["l.weight"]["kept"] == pytest.approx(1 - (loss / np.linalg.norm(tuned)) ** 2, abs=1e-5)


@pytest.mark.parametrize("size", [1e-30, 1, 1e25])
@pytest.mark.parametrize("dtypes", [("F32", "F32"), ("F64", "F32"), ("F64", "F64")])
def test_a_difference_of_that_rank_is_kept_whole(tmp_path, dtypes, size):
    base = np.zeros((500, 700))
    change = size * (RANDOM.standard_normal((500, 9)) * 10.0 ** -np.linspace(0, 3, 9)) @ RANDOM.standard_normal((9, 700))
    make(tmp_path / "base.safetensors", {"l.weight": entry(base, dtypes[0])})
    make(tmp_path / "tuned.safetensors", {"l.weight": entry(change, dtypes[1])})
    told, tensors, _ = extract(tmp_path / "a", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--rank", 9)
    assert np.linalg.norm((change - product(tensors, "l")) / size) <= 1e-5 * np.linalg.norm(change / size)
    assert told["l.weight"]["kept"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtypes", [("F16", "F16"), ("BF16", "BF16"), ("BF16", "F32"), ("F64", "F16")])
def test_every_dtype(tmp_path, dtypes):
    arrays = [values_of(bytes_of(numbers(90, 130), dtype), dtype, (90, 130)) for dtype in dtypes]
    paths = [make(tmp_path / f"{i}.safetensors", {"l.weight": entry(arrays[i], dtypes[i])}) for i in range(2)]
    difference = arrays[1].astype(np.float64) - arrays[0].astype(np.float64)
    _, tensors, _ = extract(tmp_path / "a", *paths, "--rank", 20)
    # Of a small matrix nothing but rounding stands between this and the best.
    assert np.linalg.norm(difference - product(tensors, "l")) <= 1.00001 * least_loss(difference, 20)


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_the_dtype_of_the_matrices(tmp_path, dtype):
    change = numbers(60, 3) @ numbers(3, 50)
    make(tmp_path / "base.safetensors", {"l.weight": entry(np.zeros_like(change))})
    make(tmp_path / "tuned.safetensors", {"l.weight": entry(change)})
    _, tensors, _ = extract(tmp_path / "a", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--rank", 3, "--dtype",
                            dtype)
    found = tensors_of(tmp_path / "a" / "adapter_model.safetensors")[1]
    assert {one[0] for one in found.values()} == {dtype}
    step = {"F32": 1e-6, "BF16": 2.0**-7, "F16": 2.0**-10}[dtype]
    assert np.linalg.norm(change - product(tensors, "l")) <= 2 * step * np.linalg.norm(change)


def test_a_matrix_that_is_larger_than_the_tile(tmp_path):
    up, down = numbers(4500, 3), numbers(3, 4000)
    make(tmp_path / "base.safetensors", {"l.weight": ("F16", [4500, 4000], bytes(2 * 4500 * 4000))})
    make(tmp_path / "tuned.safetensors", {"l.weight": entry((up @ down).astype(np.float16), "F16")})
    told, tensors, _ = extract(tmp_path / "a", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--rank", 3)
    loss = np.linalg.norm((up @ down).astype(np.float16).astype(np.float64) - product(tensors, "l"))
    assert loss <= 2.0**-10 * np.linalg.norm(up @ down)
    assert 1 - 1e-5 < told["l.weight"]["kept"] < 1


# ---- every kind of tensor -------------------------------------------------------------------------------------------


@pytest.fixture(name="both")
def both_models(tmp_path):
    """Two models with every kind of tensor."""
    shapes = {"h.q.weight": (40, 30), "h.q.bias": (40,), "h.same.weight": (40, 30), "h.norm.weight": (30,), "h.norm.bias": (30,),
              "wte.weight": (50, 30), "h.conv.weight": (24, 10, 3, 3), "h.line.weight": (24, 30, 1), "h.narrow.weight": (2, 90),
              "scale": (), "h.raw": (30, 30)}
    base = {name: numbers(*shape) for name, shape in shapes.items()}
    tuned = {name: values + numbers(*values.shape) for name, values in base.items()} | {"h.same.weight": base["h.same.weight"]}
    for name, models in (("base", base), ("tuned", tuned)):
        make(tmp_path / f"{name}.safetensors", {key: entry(values) for key, values in models.items()} | {
            "ids": ("I64", [2], bytes(16))}, {"made": "by hand"})
    return tmp_path, base, tuned


def test_what_becomes_of_tensors(both):
    folder, _, tuned = both
    told, tensors, config = extract(folder / "a", folder / "base.safetensors", folder / "tuned.safetensors", "--rank", 4)
    assert {name: one["rank"] for name, one in told.items()} == {
        "h.q.weight": 4, "h.q.bias": 0, "h.norm.weight": 0, "h.norm.bias": 0, "wte.weight": 4, "h.conv.weight": 4, "h.line.weight": 4,
        "h.narrow.weight": 0, "scale": 0, "h.raw": 0}
    assert {name.removeprefix(PREFIX): values.shape for name, values in tensors.items()} == {
        "h.q.lora_A.weight": (4, 30), "h.q.lora_B.weight": (40, 4), "h.q.base_layer.bias": (40,),
        "wte.lora_embedding_A": (4, 50), "wte.lora_embedding_B": (30, 4),
        "h.conv.lora_A.weight": (4, 10, 3, 3), "h.conv.lora_B.weight": (24, 4, 1, 1),
        "h.line.lora_A.weight": (4, 30, 1), "h.line.lora_B.weight": (24, 4, 1),
        "h.norm.weight": (30,), "h.norm.bias": (30,), "h.narrow.weight": (2, 90), "scale": (), "h.raw": (30, 30)}
    assert config["r"] == config["lora_alpha"] == 4 and config["peft_type"] == "LORA" and config["fan_in_fan_out"] is False
    assert sorted(config["target_modules"]) == ["h.conv", "h.line", "h.q", "wte"]
    assert tensors[f"{PREFIX}h.raw"].tobytes() == tuned["h.raw"].tobytes()
    assert tensors_of(folder / "a" / "adapter_model.safetensors")[0] == {"format": "pt"}


@pytest.mark.parametrize("options", [[], ["--fan-in-fan-out"]])
def test_extracted_and_merged_again(both, options):
    folder, base, tuned = both
    told, _, config = extract(folder / "a", folder / "base.safetensors", folder / "tuned.safetensors", "--rank", 7, *options)
    assert config["fan_in_fan_out"] == bool(options)
    run("merge-lora", folder / "base.safetensors", folder / "a", "-o", folder / "new.safetensors")
    metadata, found = tensors_of(folder / "new.safetensors")
    assert metadata == {"made": "by hand"}
    for name, values in tuned.items():
        new = values_of(found[name][2], "F32", values.shape)
        if name not in told or told[name]["rank"] == 0:
            assert new.tobytes() == values.tobytes(), name
            continue
        assert told[name]["transposed"] == (name == "wte.weight" or (bool(options) and name == "h.q.weight"))
        change = (values - base[name]).reshape(len(values), -1)
        loss = np.linalg.norm(values - new)
        assert loss <= 1.00001 * least_loss(change, 7), name
        assert told[name]["kept"] == pytest.approx(1 - (loss / np.linalg.norm(change)) ** 2, abs=1e-5)


def test_only_what_is_selected(both):
    folder, _, _ = both
    told, tensors, _ = extract(folder / "a", folder / "base.safetensors", folder / "tuned.safetensors", "--rank", 4, "--filter",
                               "*q.*", "--filter", "*norm.weight")
    assert set(told) == {"h.q.weight", "h.q.bias", "h.norm.weight"} and len(tensors) == 4


def test_models_of_several_files_and_by_url(both, monkeypatch):
    folder, _, _ = both
    base, tuned = folder / "base.safetensors", folder / "tuned.safetensors"
    _, expected, _ = extract(folder / "a", base, tuned, "--rank", 4)
    run("split", tuned, "-o", folder / "parts", "--max-shard-size", "5000")
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server({"/base.safetensors": base.read_bytes()}) as server:
        _, found, _ = extract(folder / "b", server.url("/base.safetensors"), folder / "parts", "--rank", 4)
    assert {name: values.tobytes() for name, values in found.items()} == {name: values.tobytes() for name, values in expected.items()}


def test_names_that_mislead(tmp_path):
    names = [f"{name}.weight" for name in NAUGHTY] + ["a\x1b.bias"]
    base, tuned = ({name: entry(numbers(20, 30)) for name in names} for _ in range(2))
    paths = [make(tmp_path / f"{i}.safetensors", model) for i, model in enumerate((base, tuned))]
    result = run("extract-lora", *paths, "-o", tmp_path / "a", "--rank", 2)
    assert "\x1b" not in result.stdout + result.stderr
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text(encoding="utf-8"))
    assert set(config["target_modules"]) == set(NAUGHTY)
    run("merge-lora", paths[0], tmp_path / "a", "-o", tmp_path / "new.safetensors", "-q")


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(folder, *arguments, codes=(1, 3), environment=None):
    before = sorted(os.listdir(folder))
    result = subprocess.run([str(word) for word in (CLI, "extract-lora", *arguments, "-o", folder / "refused")], capture_output=True,
                            text=True, encoding="utf-8", timeout=60, check=False, env=os.environ | (environment or {}))
    assert result.returncode in codes, result.stderr
    assert sorted(os.listdir(folder)) == before
    return result.stderr


def pair_of(folder, base, tuned):
    return make(folder / "base.safetensors", base), make(folder / "tuned.safetensors", tuned)


def test_models_that_do_not_belong_together(tmp_path):
    base = {"a": entry(numbers(2, 3)), "b": entry(numbers(2)), "c": entry(numbers(2)), "d": ("I64", [1], bytes(8))}
    tuned = {"a": entry(numbers(3, 2)), "b": entry(numbers(2), "F16"), "d": ("F64", [1], bytes(8)), "e\x1b": entry(numbers(2))}
    paths = pair_of(tmp_path, base, tuned)
    said = refused(tmp_path, *paths, "--rank", 4)
    for model, line in ((1, '"a" has another shape'), (1, '"c" is missing'), (1, '"d" has another dtype'), (0, r'"e\x1b" is missing')):
        assert f"{paths[model]}: {line}\n" in said
    assert "the models differ in 4 tensors" in said


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("model", [0, 1])
def test_numbers_that_are_not_finite(tmp_path, model, value):
    arrays = [numbers(30, 40), numbers(30, 40)]
    arrays[model][7, 9] = value
    paths = pair_of(tmp_path, {"l.weight": entry(arrays[0])}, {"l.weight": entry(arrays[1])})
    assert 'tensor "l.weight" has an infinite number or a NaN' in refused(tmp_path, *paths, "--rank", 4)


def test_numbers_that_are_not_finite_where_nothing_differs(tmp_path):
    nowhere = np.full((30, 40), np.nan, np.float32)
    base, tuned = ({"l.weight": entry(numbers(30, 40)), "mask.weight": entry(nowhere)} for _ in range(2))
    told, _, _ = extract(tmp_path / "a", *pair_of(tmp_path, base, tuned), "--rank", 4)
    assert set(told) == {"l.weight"}


def test_integers_that_differ(tmp_path):
    base = {"l.weight": entry(numbers(30, 40)), "ids": ("I64", [1], bytes(8))}
    paths = pair_of(tmp_path, base, {"l.weight": entry(numbers(30, 40)), "ids": ("I64", [1], bytes(7) + b"1")})
    assert 'tensor "ids" is I64' in refused(tmp_path, *paths, "--rank", 4)
    assert set(extract(tmp_path / "a", *paths, "--rank", 4, "--filter", "l.*")[0]) == {"l.weight"}


def test_nothing_to_extract(tmp_path):
    arrays = {"l.weight": entry(numbers(30, 40)), "l.bias": entry(numbers(30))}
    paths = pair_of(tmp_path, arrays, arrays | {"l.bias": entry(numbers(30))})
    assert "there is no adapter to extract" in refused(tmp_path, *paths, "--rank", 4)
    assert "no tensor matches what is selected" in refused(tmp_path, *paths, "--rank", 4, "--filter", "x")


def test_matrices_beyond_the_range_of_f16(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(np.zeros((30, 40), np.float32))}, {"l.weight": entry(1e12 * numbers(30, 40))})
    assert "beyond the range of F16" in refused(tmp_path, *paths, "--rank", 4, "--dtype", "F16")


def test_calls_that_make_no_sense(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(numbers(30, 40))}, {"l.weight": entry(numbers(30, 40))})
    for rank in ([], ["--rank", "0"], ["--rank", "-1"], ["--rank", "x"], ["--rank", "4", "--dtype", "F64"]):
        refused(tmp_path, *paths, *rank, codes=[2])
    run("extract-lora", *paths, "--rank", 4, code=2)
    assert "there is no adapter" in refused(tmp_path, *paths, "--rank", 4000000)


def test_what_is_there_is_replaced_only_when_told_to(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(numbers(30, 40))}, {"l.weight": entry(numbers(30, 40))})
    folder = tmp_path / "a"
    extract(folder, *paths, "--rank", 4)
    (folder / "README.md").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "-f overwrites it" in run("extract-lora", *paths, "-o", folder, "--rank", 3, code=3).stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    _, _, config = extract(folder, *paths, "--rank", 3)
    assert config["r"] == 3 and set(os.listdir(folder)) == set(before)
    # A model that is read is never written to.
    os.rename(paths[0], folder / "adapter_model.safetensors")
    assert "destroy the input" in run("extract-lora", folder / "adapter_model.safetensors", paths[1], "-o", folder, "-f", "--rank", 3,
                                      code=3).stderr


def test_a_dry_run_writes_nothing(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(numbers(30, 40))}, {"l.weight": entry(numbers(30, 40))})
    told = json.loads(run("extract-lora", *paths, "-o", tmp_path / "a", "--rank", 4, "-n", "--json").stdout)
    assert told["done"] == "dry_run"
    assert told["tensors"] == [{"name": "l.weight", "rank": 4, "transposed": False, "kept": None}]
    assert not (tmp_path / "a").exists()


def test_a_dry_run_folds_layers(tmp_path):
    before, after = {}, {}
    for layer in range(3):
        for name, shape in (("up.weight", (30, 40)), ("up.bias", (30,))):
            before[f"layers.{layer}.{name}"] = entry(numbers(*shape))
            after[f"layers.{layer}.{name}"] = entry(numbers(*shape))
    paths = pair_of(tmp_path, before, after)
    call = ["extract-lora", *paths, "-o", tmp_path / "a", "--rank", 4, "-n"]
    assert run(*call).stdout.splitlines() == ["layers.#.up.bias × 3: whole", "layers.#.up.weight × 3: rank 4"]
    alone = [f"layers.{layer}.up.{told}" for layer in range(3) for told in ("bias: whole", "weight: rank 4")]
    assert sorted(run(*call, "--all").stdout.splitlines()) == alone


# ---- the library -----------------------------------------------------------------------------------------------------


def test_without_a_lapack(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(numbers(30, 40))}, {"l.weight": entry(numbers(30, 40))})
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libopenblas.so.0", "liblapack.so.3"):
        (libraries / name).write_bytes(b"no library")
    said = refused(tmp_path, *paths, "--rank", 4, environment={"LD_LIBRARY_PATH": str(libraries)})
    assert "no library that has it can be loaded" in said and "apt install libopenblas0" in said


LACKING = "void {0}(void); void {0}(void) {{}} void sgeqrf_(void); void sgeqrf_(void) {{}}"


def test_a_lapack_that_lacks_something(tmp_path):
    paths = pair_of(tmp_path, {"l.weight": entry(numbers(30, 40))}, {"l.weight": entry(numbers(30, 40))})
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (tmp_path / "lacking.c").write_text(LACKING.format("sgemm_"))
    for name in ("libopenblas.so.0", "liblapack.so.3"):
        subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "lacking.c", "-o", libraries / name], check=True)
    said = refused(tmp_path, *paths, "--rank", 4, environment={"LD_LIBRARY_PATH": str(libraries)})
    assert "the LAPACK of this system has no sorgqr_" in said
