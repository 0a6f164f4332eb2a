# SPDX-License-Identifier: Apache-2.0
"""`coffer merge-lora` beside peft's merge_and_unload and save_pretrained, and `coffer extract-lora` beside torch.svd_lowrank, in
turns: the rows of tools/assurance/bench.sh.

    bench_merge.py COMMAND FOLDER [quick]

The base is a Llama of 2 GB in BF16 with an adapter of rank 16 for every linear layer, both in the page cache. peft's figures are
without importing it: loading the base, the adapter, merging and saving. A row's figures are medians. Peak memory is that of a process
of its own for each, for peft and torch above what importing takes.

An adapter is extracted from four such layers, all of whose tensors differ by a product of rank 32 and by noise. torch gets as many
directions, and as many iterations as it takes until its loss is not a thousandth above; it loads both models and saves the adapter.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import peft
import torch
import turns
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

COMMAND, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]) / "merge"
QUICK = sys.argv[3:4] == ["quick"]
ROUNDS = 1 if QUICK else 3
RANK = 16
DIRECTIONS, ITERATIONS = RANK + 16, 4
EXTRACT = [COMMAND, "extract-lora", "-q", "-f", "--rank", str(RANK), FOLDER / "plain.safetensors", FOLDER / "tuned.safetensors", "-o",
           FOLDER / "extracted"]
MERGE = [COMMAND, "merge-lora", "-q", "-f", FOLDER / "base", FOLDER / "adapter", "-o", FOLDER / "merged.safetensors"]


def make():
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256, "num_attention_heads": 4}
    if not QUICK:
        size = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 20, "vocab_size": 16000,
                "num_attention_heads": 16}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**size, tie_word_embeddings=False, dtype="bfloat16")).to(torch.bfloat16)
    model.save_pretrained(FOLDER / "base", max_shard_size="100GB")
    adapter = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", init_lora_weights=False))
    adapter.save_pretrained(FOLDER / "adapter")


def by_peft():
    base = AutoModelForCausalLM.from_pretrained(FOLDER / "base", dtype=torch.bfloat16)
    model = peft.PeftModel.from_pretrained(base, FOLDER / "adapter").merge_and_unload()
    model.save_pretrained(FOLDER / "merged", max_shard_size="100GB")


def by_coffer():
    subprocess.run(MERGE, check=True)


def make_pair():
    size = 64 if QUICK else 2048
    shapes = {"q": (size, size), "k": (size, size), "v": (size, size), "o": (size, size), "gate": (11 * size // 4, size),
              "up": (11 * size // 4, size), "down": (size, 11 * size // 4)}
    torch.manual_seed(1)
    plain, tuned = {}, {}
    for name in (f"layers.{i}.{part}" for i in range(4) for part in shapes):
        rows, columns = shapes[name.rsplit(".")[-1]]
        weight = torch.randn(rows, columns) / 50
        change = torch.randn(rows, 32) @ torch.randn(32, columns) / 5000 + torch.randn(rows, columns) / 10000
        plain[f"{name}.weight"], tuned[f"{name}.weight"] = weight.bfloat16(), (weight + change).bfloat16()
    save_file(plain, FOLDER / "plain.safetensors")
    save_file(tuned, FOLDER / "tuned.safetensors")


def by_lowrank():
    plain, tuned, made = load_file(FOLDER / "plain.safetensors"), load_file(FOLDER / "tuned.safetensors"), {}
    for name, weight in plain.items():
        left, values, right = torch.svd_lowrank(tuned[name].float() - weight.float(), q=DIRECTIONS, niter=ITERATIONS)
        root = values[:RANK].sqrt()
        module = f"base_model.model.{name.removesuffix('.weight')}"
        made[f"{module}.lora_A.weight"] = (right[:, :RANK] * root).T.contiguous()
        made[f"{module}.lora_B.weight"] = (left[:, :RANK] * root).contiguous()
    save_file(made, FOLDER / "lowrank.safetensors")


def by_extract():
    subprocess.run(EXTRACT, check=True, stdout=subprocess.DEVNULL)


def loss(path):
    """Of all tensors together, in F64."""
    plain, tuned, made = load_file(FOLDER / "plain.safetensors"), load_file(FOLDER / "tuned.safetensors"), load_file(path)
    total = 0.0
    for name, weight in plain.items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        product = made[f"{module}.lora_B.weight"].double() @ made[f"{module}.lora_A.weight"].double()
        total += (tuned[name].double() - weight.double() - product).square().sum().item()
    return total**0.5


# A process keeps the peak of the one that started it, so a small one starts it.
COMMAND_PEAK = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
assert status == 0
print(used.ru_maxrss / 1000)
"""


PEFT_PEAK = """
import sys, peft, torch
from transformers import AutoModelForCausalLM
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
base = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
peft.PeftModel.from_pretrained(base, sys.argv[2]).merge_and_unload().save_pretrained(sys.argv[3], max_shard_size="100GB")
print((peak() - before) / 1000)
"""


def peak(code, *words):
    said = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
    return float(said.splitlines()[-1])


LOWRANK_PEAK = """
import sys, torch
from safetensors.torch import load_file
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
plain, tuned = load_file(sys.argv[1]), load_file(sys.argv[2])
made = {name: torch.svd_lowrank(tuned[name].float() - plain[name].float(), q=int(sys.argv[3]), niter=int(sys.argv[4])) for name in plain}
print((peak() - before) / 1000)
"""


def extracting():
    make_pair()
    what = f"extract an adapter of rank {RANK} from a model of {(FOLDER / 'plain.safetensors').stat().st_size / 1e9:.1f} GB"
    ours, theirs = turns.in_turns(FOLDER / "lowrank.safetensors", ROUNDS, by_extract, by_lowrank)
    losses = [loss(path) for path in (FOLDER / "extracted" / "adapter_model.safetensors", FOLDER / "lowrank.safetensors")]
    assert losses[0] <= 1.001 * losses[1], losses
    turns.row(what, "s", ours, "torch.svd_lowrank, saved", theirs)
    peaks = peak(COMMAND_PEAK, *EXTRACT), peak(LOWRANK_PEAK, FOLDER / "plain.safetensors", FOLDER / "tuned.safetensors",
                                               str(DIRECTIONS), str(ITERATIONS))
    turns.row(f"{what}: peak memory", "MB", peaks[0], "torch.svd_lowrank, saved", peaks[1])


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    extracting()
    make()
    what = f"merge an adapter of rank {RANK} into a model of {(FOLDER / 'base' / 'model.safetensors').stat().st_size / 1e9:.1f} GB"
    ours, theirs = turns.in_turns(FOLDER / "merged.safetensors", ROUNDS, by_coffer, by_peft)
    turns.row(what, "s", ours, "peft, saved", theirs)
    peaks = peak(COMMAND_PEAK, *MERGE), peak(PEFT_PEAK, FOLDER / "base", FOLDER / "adapter", FOLDER / "merged")
    turns.row(f"{what}: peak memory", "MB", peaks[0], "peft, saved", peaks[1])
    shutil.rmtree(FOLDER)


main()
