# SPDX-License-Identifier: Apache-2.0
"""coffer doctor --against: two models that agree in all but one thing, and exactly that one is found, whatever the two are."""

import json
import shutil
import subprocess

import pytest
from doctor_models import FAMILIES, H, V, tensor_of, tensors_of, write_family, write_json, write_sharded
from hub_server import Hub, Repository
from model_files import floats, make
from test_doctor import CLI, SHELL, examine, found, fix, run
from web_server import Server

NORM = "model.norm.weight"
NAMES = FAMILIES["llama"][1]


@pytest.fixture(name="base")
def fixture_base(tmp_path):
    return write_family(tmp_path / "base", "llama")


def against(path, other, *options, code=None):
    """What is found when they are compared, and not when the model is looked at alone."""
    alone = found(path, *(o for o in options if o == "--data"))
    together = found(path, "--against", other, *options, code=code)
    assert all(finding in together for finding in alone)
    return [finding for finding in together if finding not in alone]


def rewrite(path, tensors=(), without=()):
    """Gives the model of a folder other tensors."""
    wanted = {**tensors_of(NAMES), **dict(tensors)}
    make(path / "model.safetensors", {k: v for k, v in wanted.items() if k not in without}, {"format": "pt"})


def test_a_model_agrees_with_itself_however_it_is_stored(tmp_path, base):
    several = tmp_path / "several"
    write_sharded(several)
    (tmp_path / "alone").mkdir()
    make(tmp_path / "alone" / "x.safetensors", tensors_of(NAMES))
    for path, other in ((base, base), (base, several), (several, base), (base / "model.safetensors", several),
                        (base, tmp_path / "alone" / "x.safetensors"), (several / "model.safetensors.index.json", base)):
        assert against(path, other, "--data", "--strict", code=0) == [], (path, other)


def test_tensors(tmp_path, base):
    path = write_family(tmp_path / "m", "llama")
    rewrite(path, {"extra[0]": tensor_of([2])})
    assert against(path, base) == [("warning", "against_extra", "", "extra[0]")]
    assert ("error", "against_missing", "", "extra[0]") in against(base, path)
    rewrite(path, {NORM: tensor_of([H], "F16")})
    assert against(path, base, "--data") == [("warning", "against_dtype", "", NORM)]
    rewrite(path, {NORM: tensor_of([H + 1])})
    assert ("error", "against_shape", "", NORM) in against(path, base, "--data", code=1)
    rewrite(path, {NORM: ("F32", [H], floats(*range(1, H + 1)))})
    assert against(path, base) == []
    assert against(path, base, "--data") == [("warning", "against_data", "", NORM)]


def test_what_shows_more_shows_it(tmp_path, base):
    """The commands are those of a shell, also for a name that is a pattern or that has a space in it."""
    path = write_family(tmp_path / "it's m", "llama", config={"hidden_act": "gelu"})
    rewrite(path, {"a [b]*": tensor_of([2]), NORM: ("F32", [H], floats(*range(1, H + 1)))})
    findings = [f for f in examine(path, "--against", base, "--data")["findings"] if f["kind"].startswith("against")]
    assert {f["kind"] for f in findings} == {"against_extra", "against_data", "against_config"}
    for finding in findings:
        assert not finding["fixes"]
        shown = subprocess.run(["bash", "-c", finding["command"]], env=SHELL, capture_output=True, text=True, timeout=60, check=False)
        assert shown.returncode == 1 and (finding["tensor"] or "gelu") in shown.stdout, finding


def test_output_embeddings_that_are_tied(tmp_path):
    """As a file that was saved again lacks them."""
    base = write_family(tmp_path / "base", "llama", config={"tie_word_embeddings": True})
    path = write_family(tmp_path / "m", "llama", config={"tie_word_embeddings": True}, without=["lm_head.weight"])
    assert against(path, base) == [("note", "against_missing", "", "lm_head.weight")]
    assert against(base, path) == [("note", "against_extra", "", "lm_head.weight")]
    write_json(path / "config.json", {**json.loads((path / "config.json").read_text()), "tie_word_embeddings": False})
    assert {("error", "against_missing", "", "lm_head.weight"), ("error", "against_config", "config.json", None)} <= set(
        against(path, base))


@pytest.mark.parametrize(("here", "there", "weight", "says"), [
    ({"rope_theta": 10000}, {"rope_theta": 1e6}, "error", "rope_theta is 10000, and 1000000.0 in "),
    ({"rope_theta": 10000}, {"rope_theta": 1e4}, None, None),
    ({"rope_theta": 10000}, {}, "warning", "rope_theta is 10000, and not stated in "),
    ({}, {"rope_theta": 10000}, "warning", "rope_theta is not stated, and is 10000 in "),
    ({"rope_theta": None}, {}, None, None),
    ({"rope_scaling": {"factor": 2.0, "type": "yarn"}}, {"rope_scaling": {"factor": 4.0, "type": "yarn"}}, "error",
     "rope_scaling is not that of "),
    ({"rope_scaling": {"long": [1, 2]}}, {"rope_scaling": {"long": [1, 2, 3]}}, "error", "rope_scaling is not that of "),
    ({"rope_scaling": {"long": [1, 2]}}, {"rope_scaling": {"long": [1.0, 2]}}, None, None),
    ({"architectures": ["LlamaForCausalLM"]}, {"architectures": ["LlamaModel"]}, "error",
     "architectures is LlamaForCausalLM, and LlamaModel in "),
    ({"architectures": []}, {"architectures": ["LlamaModel"]}, "error", "architectures is an empty list, and LlamaModel in "),
    ({"vocab_size": V}, {"vocab_size": "\u001b[31m"}, "error", f"vocab_size is {V}, and \\\\u001b[31m in "),
    ({"transformers_version": "4"}, {"transformers_version": "5"}, None, None),
])  # fmt: skip
def test_configurations(tmp_path, here, there, weight, says):
    path = write_family(tmp_path / "m", "llama", config=here)
    other = write_family(tmp_path / "other", "llama", config=there)
    findings = [f for f in examine(path, "--against", other)["findings"] if f["kind"].startswith("against")]
    assert [(f["weight"], f["kind"], f["file"]) for f in findings] == ([(weight, "against_config", "config.json")] if weight else [])
    assert not weight or findings[0]["reason"] == says + str(other)


def test_a_configuration_within_another(tmp_path):
    sizes = json.loads((write_family(tmp_path / "m", "llama") / "config.json").read_text())
    path = write_family(tmp_path / "m", "llama")
    other = write_family(tmp_path / "other", "llama")
    write_json(path / "config.json", {"model_type": "x", "text_config": sizes})
    write_json(other / "config.json", {"model_type": "x", "text_config": {**sizes, "rope_theta": 5}})
    assert against(path, other) == [("warning", "against_config", "config.json", None)]


def test_files(tmp_path, base):
    path = write_family(tmp_path / "m", "llama")
    write_json(path / "tokenizer.json", {"other": 1})
    assert against(path, base) == [("warning", "against_file", "tokenizer.json", None)]
    shutil.copy(base / "tokenizer.json", path)
    write_json(path / "tokenizer_config.json", {"other": 1})
    assert against(path, base) == [("note", "against_file", "tokenizer_config.json", None)]
    shutil.copy(base / "tokenizer_config.json", path)
    write_json(base / "chat_template.jinja", {})
    assert against(path, base) == [("note", "against_file", "chat_template.jinja", None)]
    assert against(base, path) == []
    fix(path, "against_file", "--against", base)
    assert against(path, base) == []
    (path / "config.json").unlink()
    assert against(path, base) == [("warning", "against_file", "config.json", None)]


def test_what_the_other_has_is_not_vouched_for(tmp_path, base):
    """Its configuration is no JSON, which is told by its name; it has none; it is no model; it is not there."""
    other = write_family(tmp_path / "other", "llama")
    (other / "config.json").write_text("{")
    assert against(base, other) == [("error", "json", f"{other}/config.json", None)]
    (other / "config.json").unlink()
    assert against(base, other) == []
    (other / "model.safetensors").write_bytes(b"no model")
    for wrong in (other, tmp_path / "missing"):
        result = run(base, "--against", wrong)
        assert (result.returncode, result.stdout) == (1 if wrong == other else 3, "") and str(wrong) in result.stderr
    assert run(base, "--against", "-").returncode == 2
    (tmp_path / "nothing").mkdir()
    assert ("error", "against_nothing", "", None) in found(tmp_path / "nothing", "--against", base, code=3)


def test_recorded_digests_without_reading(tmp_path, base):
    path = write_family(tmp_path / "m", "llama")
    rewrite(path, {NORM: ("F32", [H], floats(*range(1, H + 1)))})
    for folder in (path, base):
        subprocess.run([CLI, "hash", "--write", "-q", folder / "model.safetensors"], check=True, timeout=60)
    assert against(path, base) == [("warning", "against_data", "", None)]
    assert against(path, base, "--data") == [("warning", "against_data", "", NORM)]


def test_many_differences_are_counted(tmp_path, base):
    path = write_family(tmp_path / "m", "llama")
    rewrite(path, {f"x{i}": tensor_of([1]) for i in range(30)})
    report = examine(path, "--against", base)
    assert report["warnings"] == 30 and sum(f["more"] for f in report["findings"]) == 20
    assert report["against"] == str(base)


def test_a_model_on_a_server(tmp_path, base, monkeypatch):
    files = {file.name: file.read_bytes() for file in base.iterdir()}
    path = write_family(tmp_path / "m", "llama", config={"hidden_act": "gelu"})
    (path / "tokenizer.json").write_text("[]")
    expected = [("warning", "against_config", "config.json", None), ("warning", "against_file", "tokenizer.json", None)]
    with Hub({"owner/name": Repository(files)}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        assert sorted(against(path, "hf://owner/name", "--data")) == sorted(expected)
        assert against("hf://owner/name", base) == []
        report = examine("hf://owner/name", "--against", path)
        assert [f["command"] for f in report["findings"]] == [None, None]
    with Server({f"/m/{name}": body for name, body in files.items()}) as server:
        assert sorted(against(path, server.url("/m/model.safetensors"))) == sorted(expected)


def test_a_snapshot_of_the_hubs_cache(tmp_path, base):
    """Its files are links to blobs."""
    snapshot = tmp_path / "models--o--n" / "snapshots" / "0"
    blobs = tmp_path / "models--o--n" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for i, file in enumerate(sorted(base.iterdir())):
        shutil.copy(file, blobs / str(i))
        (snapshot / file.name).symlink_to(f"../../blobs/{i}")
    path = write_family(tmp_path / "m", "llama")
    (path / "tokenizer.json").write_text("[]")
    assert against(path, snapshot) == [("warning", "against_file", "tokenizer.json", None)]
    assert ("warning", "against_file", "tokenizer.json", None) in against(snapshot, path)


def test_the_page_names_both(tmp_path, base):
    path = write_family(tmp_path / "<m>", "llama")
    page = tmp_path / "page.html"
    rewrite(path, without=[NORM])
    result = run(path, "--against", base, "--html", page)
    assert result.returncode == 1 and result.stdout.startswith(f"{path} against {base}: ")
    assert f"<p>Against {base}</p>" in page.read_text() and "it is missing here" in page.read_text()
