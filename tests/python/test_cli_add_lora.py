# SPDX-License-Identifier: Apache-2.0
"""Adapters that `coffer add-lora` makes of several, compared with numpy: what they add is the sum of what those add, and with a
smaller rank the best that there is. That peft loads them is among the tests of the Python package."""

import json
import re
import subprocess

import numpy as np
import pytest
from model_files import make
from test_cli_merging import bytes_of, entry, numbers, pair, peft, values_of
from test_cli_rewrite import CLI, run, tensors_of
from web_server import Server

PREFIX = "base_model.model."


@pytest.fixture(autouse=True)
def one_thread_for_the_algebra(monkeypatch):
    """As in test_cli_extract.py."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


def arrays_of(path):
    return {name: values_of(body, dtype, shape) for name, (dtype, shape, body, _) in tensors_of(path)[1].items()}


def add(folder, *arguments):
    """The told modules by name, the adapter's tensors, and its configuration."""
    told = json.loads(run("add-lora", *arguments, "-o", folder, "-f", "--json", "-q").stdout)
    return ({one["module"]: one for one in told["modules"]}, arrays_of(folder / "adapter_model.safetensors"),
            json.loads((folder / "adapter_config.json").read_text()))


def product(tensors, module, prefix=PREFIX, ends=(".lora_A.weight", ".lora_B.weight")):
    down, up = (tensors[prefix + module + end].astype(np.float64) for end in ends)
    return up.reshape(up.shape[0], -1) @ down.reshape(down.shape[0], -1)


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder, *arguments, code=1, **options):
    before = files_of(folder)
    words = [CLI, "add-lora", *arguments, "-o", folder / "refused"]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, encoding="utf-8", timeout=60, check=False, **options)
    assert result.returncode == code, result.stderr
    assert files_of(folder) == before and not (folder / "refused").exists()
    return result.stderr


# ---- the sum ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "factor"), [({}, 2), ({"lora_alpha": 3}, 0.75), ({"use_rslora": True, "lora_alpha": 6}, 3)])
def test_the_sum_is_that_of_numpy(tmp_path, config, factor):
    first, second = pair("l.0.q", 12, 20) | pair("l.0.k", 8, 20), pair("l.0.q", 12, 20, 3) | pair("l.1.v", 5, 7, 3)
    one = peft(tmp_path / "a", first, **config)
    other = peft(tmp_path / "b", second, r=3, lora_alpha=3)
    told, tensors, made = add(tmp_path / "sum", one, other, "--scale", "0.5", "--scale", "-1.5")
    expected = {
        "l.0.k": 0.5 * factor * product(first, "l.0.k", ""),
        "l.0.q": 0.5 * factor * product(first, "l.0.q", "") - 1.5 * product(second, "l.0.q", ""),
        "l.1.v": -1.5 * product(second, "l.1.v", ""),
    }
    assert told == {name: {"module": name, "adapters": count, "rank": rank, "rank_sum": rank, "kept": 1}
                    for name, count, rank in (("l.0.k", 1, 4), ("l.0.q", 2, 7), ("l.1.v", 1, 3))}
    assert len(tensors) == 6
    for name, delta in expected.items():
        # B is rounded once when it is scaled, and numpy's sums are in F64.
        np.testing.assert_allclose(product(tensors, name), delta, rtol=1e-6, atol=1e-7)
    assert (made["r"], made["lora_alpha"], made["peft_type"], made["bias"]) == (7, 7, "LORA", "none")
    assert made["rank_pattern"] == made["alpha_pattern"] == {"^l.0.k$": 4, "^l.1.v$": 3}
    assert made["target_modules"] == ["l.0.k", "l.0.q", "l.1.v"]
    # lora_A is not touched, and lora_B only multiplied.
    assert np.array_equal(tensors[f"{PREFIX}l.0.q.lora_A.weight"],
                          np.vstack([first["l.0.q.lora_A.weight"], second["l.0.q.lora_A.weight"]]))
    assert np.array_equal(tensors[f"{PREFIX}l.0.q.lora_B.weight"], np.hstack(
        [np.float32(0.5 * factor) * first["l.0.q.lora_B.weight"], np.float32(-1.5) * second["l.0.q.lora_B.weight"]]))


def test_what_is_added_merges_as_all_of_them_do(tmp_path):
    make(tmp_path / "base.safetensors", {"q.weight": entry(numbers(12, 20)), "embed.weight": entry(numbers(30, 8)),
                                         "conv.weight": entry(numbers(6, 4, 3, 3))})

    def tensors(rank):
        return pair("q", 12, 20, rank) | {
            "embed.lora_embedding_A": numbers(rank, 30), "embed.lora_embedding_B": numbers(8, rank),
            "conv.lora_A.weight": numbers(rank, 4, 3, 3), "conv.lora_B.weight": numbers(6, rank, 1, 1)}

    one, other = peft(tmp_path / "a", tensors(4)), peft(tmp_path / "b", tensors(2), r=2, lora_alpha=1)
    _, made, _ = add(tmp_path / "sum", one, other, "--scale", "0.25", "--scale", "3")
    assert {name: values.shape for name, values in made.items()} == {
        f"{PREFIX}conv.lora_A.weight": (6, 4, 3, 3), f"{PREFIX}conv.lora_B.weight": (6, 6, 1, 1),
        f"{PREFIX}embed.lora_embedding_A": (6, 30), f"{PREFIX}embed.lora_embedding_B": (8, 6),
        f"{PREFIX}q.lora_A.weight": (6, 20), f"{PREFIX}q.lora_B.weight": (12, 6)}
    run("merge-lora", tmp_path / "base.safetensors", one, other, "--scale", "0.25", "--scale", "3", "-o", tmp_path / "1.safetensors", "-q")
    run("merge-lora", tmp_path / "base.safetensors", tmp_path / "sum", "-o", tmp_path / "2.safetensors", "-q")
    both = [arrays_of(tmp_path / f"{i}.safetensors") for i in (1, 2)]
    for name, values in both[0].items():
        np.testing.assert_allclose(both[1][name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("first", "second", "wanted", "made"), [
    ("BF16", "BF16", None, "BF16"), ("F16", "F16", None, "F16"), ("F16", "BF16", None, "F32"), ("F64", "F64", None, "F32"),
    ("F32", "F32", "BF16", "BF16"), ("BF16", "BF16", "F32", "F32")])
def test_dtypes(tmp_path, first, second, wanted, made):
    arrays = [pair("q", 12, 20), pair("q", 12, 20)]
    paths = [peft(tmp_path / str(i), arrays[i], dtype) for i, dtype in enumerate((first, second))]
    add(tmp_path / "sum", *paths, *(["--dtype", wanted] if wanted else []))
    found = tensors_of(tmp_path / "sum" / "adapter_model.safetensors")[1]
    assert {one[0] for one in found.values()} == {made}
    stored = [values_of(bytes_of(arrays[i]["q.lora_A.weight"], dtype), dtype, (4, 20)) for i, dtype in enumerate((first, second))]
    assert found[f"{PREFIX}q.lora_A.weight"][2] == bytes_of(np.vstack(stored).astype(np.float32), made)


@pytest.mark.parametrize(("names", "alpha"), [
    ("lora_unet_down_0_q.lora_down.weight lora_unet_down_0_q.lora_up.weight", "lora_unet_down_0_q.alpha"),
    ("unet.down.0.q.lora.down.weight unet.down.0.q.lora.up.weight", None),
    ("transformer.q.lora_A.weight transformer.q.lora_B.weight", "transformer.q.alpha"),
    ("down.0.q.processor.to_q_lora.down.weight down.0.q.processor.to_q_lora.up.weight", None)])
def test_files_of_other_programs_keep_their_names(tmp_path, names, alpha):
    down, up = names.split()
    arrays = [{down: numbers(rank, 20), up: numbers(12, rank)} for rank in (4, 2)]
    factors = [1, 1]
    if alpha:
        arrays[0][alpha] = np.array(8, np.float32)
        factors[0] = 2
    paths = [make(tmp_path / f"{i}.safetensors", {name: entry(values) for name, values in one.items()}) for i, one in enumerate(arrays)]
    run("add-lora", *paths, "-o", tmp_path / "sum.safetensors", "-q")
    made = arrays_of(tmp_path / "sum.safetensors")
    # Without alpha the factor is 1, in all of these programs.
    assert set(made) == {down, up}
    expected = sum(factor * product(one, "", "", (down, up)) for factor, one in zip(factors, arrays, strict=True))
    np.testing.assert_allclose(product(made, "", "", (down, up)), expected, rtol=1e-6, atol=1e-7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.safetensors", "1.safetensors", "sum.safetensors"]


def test_both_text_encoders_of_one_file(tmp_path):
    """They have modules of the same names, but for the beginning."""
    arrays = {f"lora_te{i}_text_q.lora_{end}.weight": values for i in (1, 2)
              for end, values in (("down", numbers(4, 10 * i)), ("up", numbers(6 * i, 4)))}
    path = make(tmp_path / "a.safetensors", {name: entry(values) for name, values in arrays.items()})
    run("add-lora", path, path, "-o", tmp_path / "sum.safetensors", "-q")
    made = arrays_of(tmp_path / "sum.safetensors")
    for i in (1, 2):
        ends = [f"lora_te{i}_text_q.lora_{end}.weight" for end in ("down", "up")]
        np.testing.assert_allclose(product(made, "", "", ends), 2 * product(arrays, "", "", ends), rtol=1e-6)


# ---- a smaller rank --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 80), (80, 60), (5, 70), (70, 5), (6, 6)], ids=str)
@pytest.mark.parametrize("rank", [1, 4, 11])
def test_a_smaller_rank_is_the_best(tmp_path, shape, rank):
    """Also where the matrix has fewer rows or columns than the adapters have ranks together: 12."""
    arrays = [pair("q", *shape, 8), pair("q", *shape, 4)]
    paths = [peft(tmp_path / str(i), one, r=own, lora_alpha=own) for i, (one, own) in enumerate(zip(arrays, (8, 4), strict=True))]
    told, tensors, made = add(tmp_path / "sum", *paths, "--scale", "1", "--scale", "-2", "--rank", rank)
    whole = product(arrays[0], "q", "") - 2 * product(arrays[1], "q", "")
    left, values, right = np.linalg.svd(whole, full_matrices=False)
    best = (left[:, :rank] * values[:rank]) @ right[:rank]
    assert tensors[f"{PREFIX}q.lora_A.weight"].shape == (rank, shape[1]) and made["r"] == made["lora_alpha"] == rank
    np.testing.assert_allclose(product(tensors, "q"), best, atol=2e-5 * np.linalg.norm(whole))
    lost = (values[rank:] ** 2).sum() / (values**2).sum()
    assert 1 - told["q"]["kept"] == pytest.approx(lost, rel=1e-3, abs=1e-10)
    assert told["q"]["rank_sum"] == 12 and told["q"]["rank"] == rank


def test_one_adapter_gets_a_smaller_rank_and_small_modules_stay(tmp_path):
    arrays = pair("q", 30, 40, 8) | pair("k", 30, 40, 3)
    path = peft(tmp_path / "a", arrays, r=8, lora_alpha=8, rank_pattern={"k": 3}, alpha_pattern={"k": 3})
    told, tensors, made = add(tmp_path / "sum", path, "--rank", 5)
    assert told["k"]["rank"] == 3 and told["k"]["kept"] == 1 and 0 < told["q"]["kept"] < 1
    assert np.array_equal(tensors[f"{PREFIX}k.lora_B.weight"], arrays["k.lora_B.weight"])
    assert made["r"] == 5 and made["rank_pattern"] == {"^k$": 3}
    said = run("add-lora", path, "-o", tmp_path / "sum", "-f", "--rank", 5)
    assert said.stdout.splitlines()[0] == "k: rank 3 of 1 adapter"
    assert said.stdout.splitlines()[1].startswith("q: rank 5 of 8, of 1 adapter, keeps ") and "the least is kept of q" in said.stderr


def test_a_sum_that_is_0_has_all_kept(tmp_path):
    path = peft(tmp_path / "a", pair("q", 30, 40))
    told, tensors, _ = add(tmp_path / "sum", path, "--scale", "0", "--rank", 2)
    assert told["q"]["kept"] == 1 and not product(tensors, "q").any()


def test_a_smaller_rank_without_a_lapack(tmp_path):
    path = peft(tmp_path / "a", pair("q", 30, 40))
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libopenblas.so.0", "liblapack.so.3"):
        (libraries / name).write_bytes(b"no library")
    environment = {"LD_LIBRARY_PATH": str(libraries)}
    assert "apt install libopenblas0" in refused(tmp_path, path, "--rank", 2, env=environment)
    # Without one nothing is lost, and no library is needed.
    subprocess.run([CLI, "add-lora", path, path, "-o", tmp_path / "sum"], env=environment, check=True, capture_output=True)


# ---- what is refused -------------------------------------------------------------------------------------------------


def lora_of(folder, name="b", tensors=None, **config):
    return peft(folder / name, tensors or pair("q", 12, 20), **config)


@pytest.mark.parametrize(("tensors", "config", "said"), [
    (pair("q", 12, 21), {}, "is for another shape than the matrices of the adapters before it"),
    (pair("q", 13, 20), {}, "is for another shape than the matrices of the adapters before it"),
    ({"q.lora_embedding_A": numbers(4, 20), "q.lora_embedding_B": numbers(12, 4)}, {}, "is for another shape"),
    (pair("q", 12, 20), {"base_model_name_or_path": "other"}, "the adapters are for different bases"),
    (pair("q", 12, 20), {"fan_in_fan_out": True}, "the adapters differ in fan_in_fan_out"),
    (pair("q", 12, 20) | {"q.bias": numbers(12)}, {}, "is a whole tensor (a bias, modules_to_save)"),
    (pair("q", 12, 20) | {"q.lora_magnitude_vector": numbers(12)}, {"use_dora": True}, "is a part of DoRA"),
    ({f"q.hada_w{i}_{end}": numbers(*shape) for i in (1, 2) for end, shape in (("a", (12, 4)), ("b", (4, 20)))},
     {"peft_type": "LOHA", "alpha": 4}, "is a part of LoHa"),
    ({"q.lokr_w1": numbers(3, 4), "q.lokr_w2": numbers(4, 5)}, {"peft_type": "LOKR", "alpha": 4}, "is a part of LoKr"),
    (pair("q", 12, 20) | {"q.lora_B.bias": numbers(12)}, {}, "a bias of its own"),
    ({"q.lora_A.weight": np.full((4, 20), np.nan, np.float32), "q.lora_B.weight": numbers(12, 4)}, {}, "a NaN"),
    ({"q.lora_A.weight": numbers(4, 20), "q.lora_B.weight": np.full((12, 4), -np.inf, np.float32)}, {}, "an infinite number"),
    ({"q.lora_A.weight": numbers(4, 20), "q.lora_B.weight": np.full((12, 4), 3e38, np.float32)}, {}, "beyond the range of F32"),
    ({"q.lora_A.weight": numbers(4, 0), "q.lora_B.weight": numbers(12, 4)}, {}, "of no pair of matrices"),
    ({"q.lora_A.weight": numbers(4, 20), "q.lora_B.weight": numbers(12, 4, 3)}, {}, "of no pair of matrices"),
    (pair("q", 12, 20, 5), {}, "have the rank 5"),
])  # fmt: skip
def test_what_cannot_be_added(tmp_path, tensors, config, said):
    first = lora_of(tmp_path, "a", base_model_name_or_path="mine")
    assert said in refused(tmp_path, first, lora_of(tmp_path, "b", tensors, **config))


def test_a_scale_beyond_f32(tmp_path):
    assert "a scale beyond the range of F32" in refused(tmp_path, lora_of(tmp_path), "--scale", "1e300")


def test_what_is_refused_says_what_to_do(tmp_path):
    first, other = lora_of(tmp_path, "a"), lora_of(tmp_path, "b", pair("q", 12, 20) | {"q.bias": numbers(12)})
    assert "coffer merge-lora" in refused(tmp_path, first, other)


def test_names_of_two_kinds(tmp_path):
    folder = lora_of(tmp_path)
    kohya = make(tmp_path / "k.safetensors", {f"lora_unet_q.lora_{end}.weight": entry(values)
                                              for end, values in (("down", numbers(4, 20)), ("up", numbers(12, 4)))})
    dotted = make(tmp_path / "d.safetensors", {f"unet.q.lora.{end}.weight": entry(values)
                                               for end, values in (("down", numbers(4, 20)), ("up", numbers(12, 4)))})
    for paths in ((folder, kohya), (kohya, folder), (kohya, dotted), (dotted, kohya), (folder, dotted), (dotted, folder)):
        assert "one kind of names" in refused(tmp_path, *paths)


def test_names_that_may_be_the_same_module(tmp_path):
    short, long = lora_of(tmp_path, "a", pair("h.0.q", 12, 20)), lora_of(tmp_path, "b", pair("transformer.h.0.q", 12, 20))
    for paths in ((short, long), (long, short)):
        assert "may be the same module" in refused(tmp_path, *paths)
    both = lora_of(tmp_path, "c", pair("h.0.q", 12, 20) | pair("transformer.h.0.q", 12, 20))
    assert set(add(tmp_path / "sum", both, short)[0]) == {"h.0.q", "transformer.h.0.q"}


def test_a_name_that_is_a_regular_expression(tmp_path):
    """With a rank of its own it would be taken for a pattern."""
    first, other = lora_of(tmp_path, "a", pair("q+", 12, 20)), lora_of(tmp_path, "b", pair("k", 12, 20))
    add(tmp_path / "sum", first, other)
    assert "a regular expression" in refused(tmp_path, first, other, other)


def test_calls_that_make_no_sense(tmp_path):
    path = lora_of(tmp_path)
    for arguments in (["--rank", "0"], ["--rank", "x"], ["--scale", "x"], ["--scale", "nan"], ["--scale", "inf"],
                      ["--scale", "1", "--scale", "1", "--scale", "1"], ["--dtype", "F64"]):
        refused(tmp_path, path, path, *arguments, code=2)
    run("add-lora", path, path, code=2)
    for rank in (8, 9):
        assert f"the rank {rank} is not below 8" in refused(tmp_path, path, path, "--rank", rank, code=2)
    refused(tmp_path, path, tmp_path / "missing", code=3)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_base_and_task_stay(tmp_path):
    paths = [lora_of(tmp_path, "a"), lora_of(tmp_path, "b", base_model_name_or_path="org/\"name\"", task_type="CAUSAL_LM"),
             lora_of(tmp_path, "c", base_model_name_or_path="org/\"name\"", task_type="CAUSAL_LM")]
    assert add(tmp_path / "sum", *paths[1:])[2]["task_type"] == "CAUSAL_LM"
    made = add(tmp_path / "sum", *paths)[2]
    assert (made["base_model_name_or_path"], made["task_type"]) == ("org/\"name\"", None)


def test_a_dry_run_writes_nothing(tmp_path):
    path = lora_of(tmp_path)
    told = json.loads(run("add-lora", path, path, "-o", tmp_path / "sum", "--rank", 5, "-n", "--json").stdout)
    assert told["done"] == "dry_run" and told["adapters"] == [{"path": str(path), "scale": 1}] * 2
    assert told["modules"] == [{"module": "q", "adapters": 2, "rank_sum": 8, "rank": 5, "kept": None}]
    assert not (tmp_path / "sum").exists()
    lora_of(tmp_path, "c", pair("q", 13, 20))
    assert "another shape" in refused(tmp_path, path, tmp_path / "c", "-n")


def test_what_is_there_is_replaced_only_when_told_to(tmp_path):
    path = lora_of(tmp_path)
    add(tmp_path / "sum", path, path)
    before = files_of(tmp_path)
    assert "-f overwrites it" in run("add-lora", path, "-o", tmp_path / "sum", code=3).stderr
    # An adapter that is read is never written to.
    for words in ((path, tmp_path / "sum"), (tmp_path / "sum", path)):
        assert "destroy the input" in run("add-lora", *words, "-o", tmp_path / "sum", "-f", code=3).stderr
    assert files_of(tmp_path) == before


def test_adapters_by_url(tmp_path, monkeypatch):
    first, second = lora_of(tmp_path, "a"), lora_of(tmp_path, "b")
    _, local, _ = add(tmp_path / "sum", first, second)
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    files = {f"/{folder.name}/{path.name}": path.read_bytes() for folder in (first, second) for path in folder.iterdir()}
    with Server(files) as server:
        _, far, _ = add(tmp_path / "far", *(server.url(f"/{name}/adapter_model.safetensors") for name in "ab"))
    assert all(np.array_equal(values, local[name]) for name, values in far.items())


def test_average_says_what_to_do_instead(tmp_path):
    """The mean of two adapters: the words of the message, run."""
    make(tmp_path / "base.safetensors", {"q.weight": entry(np.zeros((12, 20), np.float32))})
    arrays = [pair("q", 12, 20), pair("q", 12, 20)]
    paths = [lora_of(tmp_path, name, one) for name, one in zip("ab", arrays, strict=True)]
    said = run("average", *(path / "adapter_model.safetensors" for path in paths), "-o", tmp_path / "c.safetensors", code=1).stderr
    words = re.search(r"coffer add-lora A B ([^)]*)", said).group(1).split()
    _, made, _ = add(tmp_path / "mean", *paths, *words)
    np.testing.assert_allclose(product(made, "q"), product(arrays[0], "q", "") + product(arrays[1], "q", ""), rtol=1e-6, atol=1e-7)
