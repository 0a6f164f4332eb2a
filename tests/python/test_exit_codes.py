# SPDX-License-Identifier: Apache-2.0
"""The table of exit codes in docs/cli.md, for every verb: a file that is missing, one that is damaged, a command line that is wrong,
and what is refused because of what is in the files. A new verb has to say its own here."""

import os
import subprocess

import numpy as np
import pytest
from model_files import make
from test_cli_merging import entry
from test_cli_rewrite import CLI

# Each takes FILE and ends in its exit codes for a missing file and for a damaged one. `diff` and `scan` answer with 1, so what
# cannot be compared or judged is 3; `hash` takes any bytes.
READERS = {
    "info FILE": (3, 1), "ls FILE": (3, 1), "check FILE": (3, 1), "doctor FILE": (3, 1), "get FILE w": (3, 1), "meta FILE": (3, 1),
    "meta FILE --set a=b": (3, 1), "align FILE --to 64 -o o": (3, 1), "rename FILE w=v -o o": (3, 1), "drop FILE w -o o": (3, 1),
    "cast FILE w=BF16 -o o": (3, 1), "stats FILE": (3, 1), "diff FILE m.safetensors": (3, 3), "diff m.safetensors FILE": (3, 3),
    "convert FILE -o o.bt": (3, 1), "convert FILE -o o.safetensors": (3, 1), "convert FILE -o o.npz": (3, 1), "scan FILE": (3, 3),
    "split FILE --max-shard-size 1 -o o.safetensors": (3, 1), "merge FILE m.safetensors -o o": (3, 1),
    "merge-lora FILE lora.safetensors -o o": (3, 1), "merge-lora m.safetensors FILE -o o": (3, 1),
    "extract-lora FILE m.safetensors --rank 1 -o o": (3, 1), "add-lora FILE -o o.safetensors": (3, 1),
    "average FILE m.safetensors -o o": (3, 1), "average m.safetensors FILE -o o": (3, 1), "hash FILE": (3, 0), "verify FILE": (3, 1),
    "dequantize FILE -o o": (3, 1),
    "pack FILE -o o": (3, 1), "unpack FILE -o o": (3, 1),
    "fetch FILE -o o": (3, 1), "plan FILE": (3, 1), "load FILE": (3, 1), "keep FILE": (3, 1),
}  # fmt: skip
# What is not read as a file, needs a terminal, or depends on how the command was built.
OTHERS = {"browse", "completion", "devices", "help", "index", "report"}
# Refused because of what is in the files, which are well.
REFUSED = {
    "get m.safetensors x": "no tensor",
    "get m.safetensors w[9]": "",
    "rename m.safetensors x=y -o o": "",
    "drop m.safetensors x -o o": "",
    "cast m.safetensors x=F16 -o o": "",
    "meta m.safetensors --unset x": "",
    "convert m.safetensors -o o.gguf": "--arch llama",
    "convert two.safetensors -o o.npy": "say which one",
    "convert image.png -o o.safetensors": "",
    "convert dictionary.gguf -o o.safetensors": "GGUF's type 99",
    "convert twice.gguf -o o.safetensors --sidecar k.gguf": "",
    "convert a.npy -o o.safetensors --sidecar k.gguf": "the input has none",
    "merge m.safetensors m.safetensors -o o": "",
    "merge-lora two.safetensors lora.safetensors -o o": "",
    "merge-lora m.safetensors m.safetensors -o o": "",
    "extract-lora m.safetensors two.safetensors --rank 1 -o o": "",
    "add-lora m.safetensors -o o.safetensors": "belongs to no LoRA",
    "average m.safetensors two.safetensors -o o": "",
    "dequantize m.safetensors -o o": "no quantised layers",
    "average lora.safetensors lora.safetensors -o o": "coffer add-lora",
    "verify m.safetensors": "",
}


def command(line, folder, name="FILE"):
    words = [name if word == "FILE" else word for word in line.split()]
    return subprocess.run([CLI, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
                          timeout=60, check=False)


@pytest.fixture(name="folder")
def some_files(tmp_path):
    make(tmp_path / "m.safetensors", {"w": entry(np.ones((2, 3), np.float32))})
    make(tmp_path / "two.safetensors", {name: entry(np.ones((4, 3), np.float32)) for name in "vx"})
    make(tmp_path / "lora.safetensors", {"lora_unet_w.lora_down.weight": entry(np.ones((1, 3), np.float32)),
                                         "lora_unet_w.lora_up.weight": entry(np.ones((2, 1), np.float32))})
    (tmp_path / "damaged").write_bytes(b'\x18\0\0\0\0\0\0\0{"w":{"dtype":"F32","sha')
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    np.save(tmp_path / "a.npy", np.ones(3))
    gguf = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(8)
    tensor = (1).to_bytes(8, "little") + b"w" + (1).to_bytes(4, "little") + (1).to_bytes(8, "little") + (99).to_bytes(4, "little") + bytes(8)
    for name in ("dictionary", "twice"):
        (tmp_path / f"{name}.gguf").write_bytes((gguf + tensor).ljust(96, b"\0") + bytes(32))
    return tmp_path


def test_every_verb_is_here():
    said = subprocess.run([CLI, "help"], capture_output=True, text=True, encoding="utf-8", check=True).stdout
    commands = said[said.index("Look at models:"):said.index("\nOptions:")].splitlines()
    verbs = {line.split()[0] for line in commands if line.startswith("  ")}
    assert verbs == {line.split()[0] for line in READERS} | OTHERS


@pytest.mark.parametrize("line", READERS)
def test_files_that_are_missing_or_damaged(line, folder):
    before = set(os.listdir(folder))
    for name, code in zip(("missing", "damaged"), READERS[line], strict=True):
        done = command(line, folder, name)
        assert done.returncode == code, (name, done)
    assert set(os.listdir(folder)) == before


@pytest.mark.parametrize("verb", sorted({line.split()[0] for line in READERS} | OTHERS))
def test_a_command_line_that_is_wrong(verb, folder):
    for line in (f"{verb} --no-such-option", f"{verb} missing --no-such-option", f"{verb} damaged --no-such-option"):
        assert command(line, folder).returncode == 2, line


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused_because_of_the_files(line, folder):
    before = set(os.listdir(folder))
    done = command(line, folder)
    assert done.returncode == 1 and REFUSED[line] in done.stderr, done
    assert set(os.listdir(folder)) == before


def test_an_output_that_cannot_be_written(folder):
    for line in ("convert m.safetensors -o missing/o.bt", "convert m.safetensors -o m.safetensors", "cast m.safetensors w=F16 -o missing/o",
                 "average m.safetensors m.safetensors -o missing/o", "add-lora lora.safetensors -o missing/o",
                 "convert a.npy -o missing/o.safetensors"):
        assert command(line, folder).returncode == 3, line
