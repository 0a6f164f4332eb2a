# SPDX-License-Identifier: Apache-2.0
"""What coffer doctor offers as a fix loses nothing: for each kind of finding, in a folder that has it, the offered commands are run on
a copy. Afterwards every tensor that could be read is there bit for bit, and a model that loaders could load is what it was."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import zipfile

import pytest
from doctor_cases import CASES, UNREADABLE
from test_doctor import SHELL, run

SOURCE = pathlib.Path(os.environ.get("COFFER_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
MODEL = "model.safetensors"
INDEX = f"{MODEL}.index.json"

# No folder has them: a note that is told as unindexed_file or beside_index, and what the command never asks the library to accept.
NEVER = {"extra_shard", "padding", "unknown_dtype"}
# Of a file of another program that is named by itself (tests/golden/models/foreign.txt); in a folder it is a pickle, or nothing.
OF_FOREIGN_FILES = {"runs_code", "left_out"}
# Not every file system tells them.
OF_FILE_SYSTEMS = {"holes"}
# The command is another program's, and only its words are looked at.
OTHERS = {"lfs_pointer": r"git -C \S+ lfs pull --include=\S+"}


# ---- Which kinds there are ----


def kinds_in_source():
    kinds = set()
    for file in (SOURCE / "src/doctor").glob("*.c"):
        text = file.read_text(encoding="utf-8")
        for call in re.findall(r"\bcoffer__doctor_add(?:_in|_failure)?\s*\(([^;]*?);", text, re.S):
            kinds |= set(re.findall(r'"([a-z_]+)"', call.split("%")[0]))
        kinds |= set(re.findall(r'\[COFFER_NOTE_[A-Z_]+\] = \{ "([a-z_]+)"', text))
    return kinds


def kinds_in_documents():
    text = (SOURCE / "docs/cli.md").read_text(encoding="utf-8")
    table = text[text.index("| what | kinds |"):]
    return set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", table[:table.index("\n\n")])) - {"check", "eos_token_id"}


def test_every_kind_has_a_folder():
    assert {kind for kind, _ in CASES.values()} | NEVER | OF_FOREIGN_FILES == kinds_in_source()
    told = kinds_in_source() - NEVER
    notes = {"leading_space", "unknown_key", "null_metadata", "control_name", "empty_name", "unaligned", "case", "long_number"}
    assert told - notes <= kinds_in_documents() <= told | notes


# ---- What can be read ----


def tensors_in(path):
    """What is whole in a file: {name: (dtype, shape, digest)}; whatever follows it, and whatever its metadata are."""
    data = path.read_bytes()
    if len(data) < 8:
        return {}
    size = struct.unpack("<Q", data[:8])[0]
    try:
        header = json.loads(data[8 : 8 + size])
        tensors = {}
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + at for at in tensor["data_offsets"])
            if end <= len(data):
                tensors[name] = (tensor["dtype"], tuple(tensor["shape"]), hashlib.sha256(data[begin:end]).hexdigest())
        return tensors
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def files_below(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != UNREADABLE]


def readable(folder):
    """The content of every tensor in every file, whatever it is called; of pickles that of their storages."""
    content = set()
    for path in files_below(folder):
        content |= set(tensors_in(path).values())
        content |= {digest for _, _, digest in tensors_in(path).values()}
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                content |= {hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist() if "/data/" in name}
        elif path.suffix in (".bin", ".bt"):
            content.add(hashlib.sha256(path.read_bytes()).hexdigest())
    return content


def by_index(folder):
    """What the index says is the model."""
    files = json.loads((folder / INDEX).read_text())["weight_map"]
    return {name: tensors_in(folder / file)[name] for name, file in files.items()}


def strictly(path):
    """As the reference reads a file: None where it refuses it."""
    data = path.read_bytes()
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        metadata = header.pop("__metadata__", None) or {}
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        sound = all(isinstance(value, str) for value in metadata.values()) and len(data) == 8 + size + end
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None
    return tensors_in(path) if sound and not path.with_name(f"{path.name}.coffer-undo").exists() else None


def tied(folder):
    try:
        return json.loads((folder / "config.json").read_text()).get("tie_word_embeddings") is True
    except (OSError, ValueError):
        return False


def loaded(folder, variant=""):
    """What transformers loads: {name: content}, or None. One file before an index, an index before pickles; every file that an index
    names has to be there; the names of output embeddings that are tied are those of the input embeddings."""
    stem = MODEL.replace(".safetensors", f"{variant}.safetensors")
    index = folder / (INDEX.replace("index.", f"index{variant}."))
    if (folder / stem).exists():
        tensors = strictly(folder / stem)
    elif index.exists():
        try:
            files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
            parts = [strictly(folder / file) if file.endswith(".safetensors") else {file: hashlib.sha256((folder / file).read_bytes()).hexdigest()}
                     for file in files]
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        tensors = None if None in parts else {name: value for part in parts for name, value in part.items()}
    elif not variant and (folder / "pytorch_model.bin").exists():
        return {"": hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()}
    else:
        return None
    if tensors and tied(folder):
        for name, twin in (("lm_head.weight", "model.embed_tokens.weight"), ("model.embed_tokens.weight", "lm_head.weight")):
            if name not in tensors and twin in tensors:
                tensors[name] = tensors[twin]
    return tensors


# ---- Mending ----


def report(folder, options):
    return json.loads(run(folder, *options, "--json").stdout).get("findings", [])


def identity(finding):
    return finding["kind"], finding["file"], finding["tensor"]


@pytest.fixture(params=CASES, name="named")
def fixture_named(request, tmp_path):
    """The kind, the folder, a function that copies it to where it was, and the options."""
    kind, fill = CASES[request.param]
    folder = tmp_path / "m"
    options = fill(folder) or []
    kept = tmp_path / "kept"
    os.rename(folder, kept)
    copies = []

    def copy():
        shutil.rmtree(folder, ignore_errors=True)
        if list(kept.rglob("pipe")):
            os.rename(kept, folder)
        else:
            shutil.copytree(kept, folder, symlinks=True)
        copies.append(folder)
        return folder

    return kind, copy, options


def shell(command):
    subprocess.run(["bash", "-ec", command], check=True, env=SHELL, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


def judge(folder, before, command):
    """Nothing is lost: `before` is what could be read, and what was loaded."""
    content, models = before
    assert content <= readable(folder), command
    for variant, model in models.items():
        now = loaded(folder, variant)
        if model is None:
            continue
        assert now is not None, command
        if " rename " in command:
            assert sorted(model.values()) == sorted(now.values()), command
        else:
            assert {name: now.get(name) for name in model} == model, command


def state(folder):
    return readable(folder), {variant: loaded(folder, variant) for variant in ("", ".fp16")}


def test_a_fix_loses_nothing(named):
    kind, copy, options = named
    folder = copy()
    findings = report(folder, options)
    found = kind in [finding["kind"] for finding in findings]
    assert found or (kind in OF_FILE_SYSTEMS and findings == []), findings
    before = state(folder)
    for finding in findings:
        command = finding["command"]
        assert bool(command) or not finding["fixes"]
        if not finding["fixes"] or finding["file"] == UNREADABLE:
            continue
        if finding["kind"] in OTHERS:
            assert re.fullmatch(OTHERS[finding["kind"]], command)
            continue
        folder = copy()
        superseded = by_index(folder) if finding["kind"] == "superseded" else None
        shell(command)
        if superseded:
            assert by_index(folder) == superseded == loaded(folder)
        else:
            judge(folder, before, command)
        assert identity(finding) not in [identity(left) for left in report(folder, options)], command


def test_all_fixes_one_after_the_other_lose_nothing(named):
    """As somebody would run them who trusts what is offered. One may have been done by another before it."""
    _, copy, options = named
    folder = copy()
    before = state(folder)
    for finding in report(folder, options):
        if finding["fixes"] and finding["kind"] not in {*OTHERS, "superseded"}:
            subprocess.run(["bash", "-ec", finding["command"]], check=False, env=SHELL, capture_output=True, timeout=60)
            judge(folder, before, finding["command"])


def test_what_looks_closer_changes_nothing(named):
    _, copy, options = named
    folder = copy()
    before = {path: path.read_bytes() for path in files_below(folder)}
    for finding in report(folder, options):
        if finding["command"] and not finding["fixes"]:
            subprocess.run(["bash", "-c", finding["command"]], check=False, env=SHELL, capture_output=True, timeout=60)
    assert {path: path.read_bytes() for path in files_below(folder)} == before


# ---- What must be, and must not be, a fix ----


MENDED = {
    "broken_file: longer", "broken_file: metadata of numbers", "broken_file: one of several, longer", "index: no JSON",
    "index_stale: files of .bin", "index_stale: another set", "unindexed", "total_size", "total_size: that is no number", "no_index",
    "shard_count", "unindexed_file: the same tensors", "leftover: an interrupted edit", "leftover: an interrupted save", "lfs_pointer",
    "link_outside", "file_case", "weights_twice: the same", "tied_twice: the same", "wrapped_names", "prefix_missing", "name_case",
    "format", "against_file", "unaligned", "superseded",
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_offered(name, tmp_path):
    """The finding itself is fixed, or nothing is offered for it. Where a wrong index cannot be read, the fix is told beside it."""
    kind, fill = CASES[name]
    options = fill(tmp_path / "m") or []
    kinds = {kind, "index_stale"} if kind == "index" else {kind}
    fixes = [finding for finding in report(tmp_path / "m", options) if finding["kind"] in kinds and finding["fixes"]]
    assert bool(fixes) == (name in MENDED), fixes


def test_the_variant_of_a_model_is_left_alone(tmp_path):
    """Of the names that transformers and diffusers give the files of a variant, each is one that an index names."""
    from doctor_cases import variant

    for i, shard in enumerate(("model-{:05}-of-00002.fp16.safetensors", "model.fp16-{:05}-of-00002.safetensors")):
        folder = tmp_path / str(i)
        variant(folder, shard, f"{MODEL}.index.fp16.json")
        for options in ([], ["--data"]):
            assert not [f for f in report(folder, options) if f["fixes"] or f["kind"] == "unindexed_file"]
