# SPDX-License-Identifier: Apache-2.0
"""How the work grows with files that somebody has made to be much work: four times as much of everything must not take sixteen
times the work.

Work is counted, not timed: valgrind counts the instructions of the command, which are the same on every run, whatever else the
machine does.
"""

import hashlib
import json
import os
import random
import re
import subprocess

import pytest
from model_files import header_bytes, make

CLI = os.environ["COFFER_CLI"]
FACTOR = 4
MAX = 1.5  # times the factor: room for a logarithm
EMPTY = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'


def shuffled(count):
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    return numbers


def write(path, text):
    path.write_bytes(header_bytes(text.encode()))


def run(folder, *arguments):
    return subprocess.run([CLI, *arguments], cwd=folder, capture_output=True, check=False)


# ---- What somebody may send us: each fills a folder with `count` of something ------------------------------------------


def empty_tensors(folder, count):
    write(folder / "m", "{" + ",".join(f'"layers.{i}.w":{EMPTY}' for i in shuffled(count)) + "}")


def empty_tensors_with_digests(folder, count):
    empty_tensors(folder, count)
    assert run(folder, "hash", "--write", "m").returncode == 0


def deep_names(folder, count):
    write(folder / "m", "{" + ",".join(f'"{"a." * (i % 50)}{i}":{EMPTY}' for i in range(count)) + "}")


def ignored_keys(folder, count):
    keys = ",".join(f'"{i:08x}":0' for i in shuffled(count))
    write(folder / "m", '{"a":' + EMPTY[:-1] + "," + keys + "}}")


def ignored_objects(folder, count):
    write(folder / "m", '{"a":' + EMPTY[:-1] + ',"x":' + "[" * 100 + ",".join(['{"a":0}'] * count) + "]" * 100 + "}}")


def metadata(folder, count):
    pairs = ",".join(f'"{i:08x}":""' for i in shuffled(count))
    write(folder / "m", '{"__metadata__":{' + pairs + '},"a":' + EMPTY + "}")


def dimensions(folder, count):
    write(folder / "m", '{"a":{"dtype":"U8","shape":[' + ",".join(["0"] * count) + '],"data_offsets":[0,0]}}')


def index_of(count, name):
    return json.dumps({"weight_map": {f"t{i}": f"{name}-{i}.safetensors" for i in shuffled(count)}})


def shards(folder, count):
    (folder / "m.index.json").write_text(index_of(count, "m"))
    for i in range(count):
        write(folder / f"m-{i}.safetensors", f'{{"t{i}":{EMPTY}}}')


def shards_that_are_missing(folder, count):
    (folder / "m.index.json").write_text(index_of(count, "m"))


def save_that_was_not_tidied_up(folder, count):
    (folder / "m.index.json").write_text(index_of(count, "new"))
    (folder / "m.index.json.coffer-old").write_text(index_of(count, "old"))


def save_that_was_not_finished(folder, count):
    (folder / "m.index.json.coffer-new").write_text(index_of(count, "new"))


def manifest_that_ignores(folder, count):
    (folder / "files").mkdir()
    names = sorted(str(i) for i in range(count // 4))
    for name in names:
        (folder / "files" / name).touch()
    digest = hashlib.sha256()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "m", "digest": {"sha256": hashlib.sha256(digest.digest() * len(names)).hexdigest()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False,
                              "ignore_paths": [f"tmp/{i}" for i in shuffled(count)]},
            "resources": [{"name": name, "algorithm": "sha256", "digest": digest.hexdigest()} for name in names],
        },
    }
    (folder / "m").write_text(json.dumps(statement))


def adapter_with_a_pattern_for_each_module(folder, count):
    names = [f"layers.{i}.w" for i in shuffled(count)]
    one = bytes(4)
    make(folder / "m.safetensors", {f"{name}.weight": ("F32", [1, 1], one) for name in names})
    (folder / "a").mkdir()
    make(folder / "a" / "adapter_model.safetensors",
         {f"base_model.model.{name}.lora_{part}.weight": ("F32", [1, 1], one) for name in names for part in "AB"})
    (folder / "a" / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": 2, "rank_pattern": dict.fromkeys(names, 1), "alpha_pattern": dict.fromkeys(reversed(names), 3)}))


CASES = [
    (adapter_with_a_pattern_for_each_module, 500, ["merge-lora", "m.safetensors", "a", "-o", "o.safetensors", "-n", "-q"], 0),
    (empty_tensors_with_digests, 1000, ["drop", "m", "layers.7.w", "-o", "o.safetensors"], 0),
    (empty_tensors_with_digests, 1000, ["verify", "m"], 0),
    (empty_tensors, 2000, ["check", "m"], 0),
    (empty_tensors, 2000, ["ls", "m"], 0),
    (empty_tensors, 2000, ["ls", "--tree", "m"], 0),
    (empty_tensors, 2000, ["diff", "m", "m"], 0),
    (empty_tensors, 2000, ["rename", "m", "layers.*=blocks.*", "-o", "o.safetensors"], 0),
    (deep_names, 1000, ["ls", "--tree", "m"], 0),
    (ignored_keys, 4000, ["check", "m"], 0),
    (ignored_objects, 8000, ["check", "m"], 0),
    (metadata, 4000, ["meta", "m"], 0),
    (dimensions, 4000, ["ls", "m"], 0),
    (shards, 250, ["check", "m.index.json"], 0),
    (shards_that_are_missing, 1000, ["check", "m.index.json"], 1),
    (save_that_was_not_tidied_up, 2000, ["meta", "--recover", "m"], 0),
    (save_that_was_not_finished, 2000, ["meta", "--recover", "m"], 0),
    (manifest_that_ignores, 2000, ["verify", "files", "--manifest", "m"], 0),
]


def count_work(folder, arguments, code, *options):
    """What valgrind counts: {"I refs": 1234, …}."""
    log = folder / "work.log"
    command = ["valgrind", "--tool=cachegrind", "--cachegrind-out-file=/dev/null", f"--log-file={log}", *options, CLI, *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == code, result.stderr
    return {" ".join(name.split()): int(number.replace(",", ""))
            for name, number in re.findall(r"== ([A-Z]\w*\s+\w+):\s+([\d,]+)", log.read_text())}


@pytest.mark.parametrize(("make", "count", "arguments", "code"), CASES, ids=[f"{c[0].__name__}-{c[2][0]}" for c in CASES])
def test_work_grows_with_the_input(tmp_path, make, count, arguments, code):
    work = []
    for size in (count, count * FACTOR):
        folder = tmp_path / str(size)
        folder.mkdir()
        make(folder, size)
        work.append(count_work(folder, arguments, code, "--cache-sim=no")["I refs"])
    assert work[1] < MAX * FACTOR * work[0], work


@pytest.mark.parametrize("make", [ignored_keys, metadata])
def test_sorting_keys_looks_far_away_seldom(tmp_path, make):
    """Where keys fill more memory than a cache holds, waiting for memory is what they cost."""
    count = 60_000
    make(tmp_path, count)
    caches = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=262144,16,64")
    work = count_work(tmp_path, ["check", "m"], 0, *caches)
    assert work["LLd misses"] < 12 * count, work
