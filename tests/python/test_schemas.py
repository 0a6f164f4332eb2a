# SPDX-License-Identifier: Apache-2.0
"""docs/schemas says what --json and --tsv write. Every answer in JSON that a golden case has is compared with its command's schema,
so are those of each command here. Each member of a schema has to be in one of them: what no output has is not described.

Needs COFFER_CLI.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from json_schema import Schemas
from model_files import make_golden_files

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ["COFFER_CLI"]
FOLDER = ROOT / "docs/schemas"
SCHEMAS = Schemas(FOLDER)
SHARED = {"common", "rewrite"}
ALIASES = {"show": "info", "cat": "get", "inspect": "info", "dump": "ls", "tree": "ls", "validate": "check"}


def commands_with(option):
    """The commands whose help has an option."""
    names = re.findall(r"^  ([\w-]+) ", subprocess.run([CLI, "help"], check=True, capture_output=True, text=True).stdout, re.M)
    helps = {name: subprocess.run([CLI, "help", name], capture_output=True, text=True, check=False).stdout for name in names}
    return {name for name, text in helps.items() if re.search(rf"^  .{{4}}--{option} ", text, re.M)}


def test_every_command_with_json_has_a_schema():
    assert {path.name.removesuffix(".schema.json") for path in FOLDER.glob("*.json")} - SHARED == commands_with("json")


# ---- What is compared -------------------------------------------------------------------------------------------------


def golden_answers():
    """(case, command, answer) of each golden step that is one command with --json and answers in JSON."""
    found = []
    for case in sorted(ROOT.glob("tests/golden/*/*.txt")):
        for line, answer in re.findall(r"^\$ (coffer [^\n]*--json[^\n]*)\n((?:1\| [^\n]*\n)+)", case.read_text(encoding="utf-8"), re.M):
            words = line.split()
            text = re.sub(r"\bTIME\b", "0.5", "".join(part + "\n" for part in re.findall(r"^1\| (.*)$", answer, re.M)))
            if not re.search(r"[;|&]", line) and words[1] != "help":
                found.append((f"{case.parent.name}/{case.stem}", line, ALIASES.get(words[1], words[1]), text))
    return found


GOLDEN = golden_answers()


@pytest.mark.parametrize(("line", "command", "text"), [step[1:] for step in GOLDEN], ids=[f"{step[0]}: {step[1]}" for step in GOLDEN])
def test_goldens(line, command, text):
    del line
    assert SCHEMAS.faults(command, json.loads(text)) == []


@pytest.fixture(scope="module", name="files")
def fixture_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_golden_files(folder)
    (folder / "page.html").write_text("<!--coffer-report-->")
    (folder / "page.txt").write_text("A page.")
    (folder / "language").mkdir()
    (folder / "language/model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "language/config.json").write_text(json.dumps({
        "architectures": ["MistralForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 128}))
    subprocess.run([CLI, "hash", "--write", "-q", "layers.safetensors", "model.safetensors"], cwd=folder, check=True)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "damaged.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (folder / "folder").mkdir()
    (folder / "folder/README.md").write_text("A model.")
    (folder / "folder/link.txt").symlink_to(folder / "page.txt")
    (folder / "folder/link.pt").symlink_to(folder / "foreign/model.pt")
    return folder


# One line for each command, and for each form of its answer.
LINES = [
    "info model.safetensors", "info several/two", "info --partial short.safetensors", "info language", "info fp8.safetensors", "check model.safetensors short.safetensors", "doctor .",
    "ls model.safetensors", "ls several/two", "ls --tree layers.safetensors", "ls --dtypes model.safetensors", "ls --map model.safetensors",
    "get model.safetensors wte.weight", "get model.safetensors step wte.weight -o part.safetensors", "meta model.safetensors",
    "meta model.safetensors license", "meta model.safetensors --set a=b -n", "align model.safetensors -n", "rename model.safetensors step=s -n",
    "drop model.safetensors step -n", "cast model.safetensors wte.weight=F16 -o cast.safetensors", "stats model.safetensors --histogram",
    "diff model.safetensors layers.safetensors", "diff --summary model.safetensors layers.safetensors",
    "diff --summary --threshold 1 model.safetensors model.safetensors", "convert foreign/training.pt -n", "convert model.safetensors -o m.bt -n",
    "convert model.safetensors -o m.pt", "scan foreign/model.pt foreign/training.pt folder", "split layers.safetensors -o parts --max-shard-size 1200",
    "merge layers.safetensors -o merged.safetensors", "index several/two -n", "average model.safetensors model.safetensors -o mean.safetensors -n",
    "dequantize fp8.safetensors -o plain.safetensors", "hash model.safetensors", "hash --write types.safetensors", "plan model.safetensors --tp 2", "plan model.safetensors --tp 2 --rank 1",
    "load model.safetensors", "devices", "verify types.safetensors damaged.safetensors", "merge-lora model.safetensors adapters/one -o adapted.safetensors",
    "extract-lora model.safetensors cast.safetensors -o extracted --rank 2 -n", "report model.safetensors -o r.html --page page.html",
    "pack model.safetensors -o packed.safetensors", "unpack packed.safetensors -o unpacked.safetensors", "info packed.safetensors",
    "pack several/two -o packed", "info packed", f"ls {ROOT}/tests/vectors/packed/ok__bf16_raw_huff.safetensors",
    "add-lora adapters/one adapters/one -o added -n", "ls model.safetensors types.safetensors", "info --fit 24GB language",
    "fetch model.safetensors -o fetched",
]


@pytest.fixture(scope="module", name="answers")
def fixture_answers(files):
    """What each line writes, one after the other in one folder."""
    found = {}
    for line in LINES:
        done = subprocess.run([CLI, *line.split(), "--json"], cwd=files, capture_output=True, text=True, check=False)
        assert done.stdout, f"{line}: {done.stderr}"
        found[line] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("line", LINES)
def test_each_command(line, answers):
    assert SCHEMAS.faults(line.split()[0], answers[line]) == []


def test_every_member_is_in_some_answer(answers):
    schemas = Schemas(FOLDER)
    for command, value in [*((step[2], json.loads(step[3])) for step in GOLDEN), *((line.split()[0], value) for line, value in answers.items())]:
        assert schemas.faults(command, value) == []
    # None of the files here has a storage that no tensor views; those of tests/unit/test_import.c have.
    known = {f"convert.schema.json: anyOf.properties.unreferenced.items.properties.{name}" for name in ("storage", "size")}
    assert schemas.unseen() - known == set()


def test_each_command_is_tried():
    assert {line.split()[0] for line in LINES} == commands_with("json")


# ---- Tables -----------------------------------------------------------------------------------------------------------


def columns():
    """(the words of a command, the columns that its schema states)."""
    return [([name, *key.split()[1:]], list(rule["properties"])) for name in sorted(commands_with("tsv"))
            for key, rule in SCHEMAS.all[f"{name}.schema.json"]["$defs"].items() if key.startswith("tsv")]


@pytest.mark.parametrize(("words", "names"), columns(), ids=lambda value: " ".join(value))
def test_columns(words, names, files):
    said = subprocess.run([CLI, *words, "--tsv", "model.safetensors"], cwd=files, capture_output=True, text=True, check=False).stdout
    assert said.split("\n")[0].split("\t") == names


# ---- The comparison itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda value: value[0].pop("ok"),
    lambda value: value[0].update(other=1),
    lambda value: value[0].update(ok="yes"),
    lambda value: value[0].update(notes=[{"kind": "case"}]),
    lambda value: value.append(None),
])
def test_what_does_not_fit_is_noticed(change):
    value = [{"path": "x", "ok": True, "notes": [{"kind": "case", "text": "", "count": 1, "offset": None}]}]
    assert SCHEMAS.faults("check", value) == []
    change(value)
    assert SCHEMAS.faults("check", value) != []
