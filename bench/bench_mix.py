# SPDX-License-Identifier: Apache-2.0
"""`coffer merge-lora` beside peft's merge_and_unload and save_pretrained, in turns: the rows of tools/bench.sh.

    bench_mix.py COMMAND FOLDER [quick]

The base is a Llama of 2 GB in BF16 with an adapter of rank 16 for every linear layer, both in the page cache. peft's figures are
without importing it: loading the base, the adapter, merging and saving. A row's figures are medians. Peak memory is that of a process
of its own for each, for peft above what importing takes.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import peft
import torch
import turns
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

COMMAND, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]) / "mix"
QUICK = sys.argv[3:4] == ["quick"]
ROUNDS = 1 if QUICK else 3
RANK = 16
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
    return float(subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    make()
    what = f"merge an adapter of rank {RANK} into a model of {(FOLDER / 'base' / 'model.safetensors').stat().st_size / 1e9:.1f} GB"
    ours, theirs = turns.in_turns(FOLDER / "merged.safetensors", ROUNDS, by_coffer, by_peft)
    turns.row(what, "s", ours, "peft, saved", theirs)
    peaks = peak(COMMAND_PEAK, *MERGE), peak(PEFT_PEAK, FOLDER / "base", FOLDER / "adapter", FOLDER / "merged")
    turns.row(f"{what}: peak memory", "MB", peaks[0], "peft, saved", peaks[1])
    shutil.rmtree(FOLDER)


main()
