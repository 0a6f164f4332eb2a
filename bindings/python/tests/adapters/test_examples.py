# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/adapters.md, which need frameworks. Those without a prompt are for several processes."""

import os
import re

import ranks
import torch
from test_documentation import SOURCE, run_examples

from coffer.torch import save_file

DOCUMENT = "docs/adapters.md"


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(DOCUMENT)


def run_block(rank, world, folder, code):
    os.chdir(folder)
    found = {}
    exec(code, found)  # the documentation's
    return found["tensors"], found["parts"]


def test_examples_for_several_processes(tmp_path):
    values = {"mlp.up.weight": torch.arange(24.0).view(6, 4), "mlp.down.weight": torch.arange(24.0).view(6, 4), "norm": torch.ones(3)}
    save_file(values, tmp_path / "model.safetensors")
    (code,) = re.findall(r"^```python\n(.*?)^```$", (SOURCE / DOCUMENT).read_text(), flags=re.M | re.S)
    for rank, (tensors, parts) in enumerate(ranks.run(run_block, 2, tmp_path, str(tmp_path), code)):
        assert all(torch.equal(tensors[name], values[name]) for name in values)
        assert torch.equal(parts["mlp.up.weight"], values["mlp.up.weight"].chunk(2, 0)[rank])
        assert torch.equal(parts["mlp.down.weight"], values["mlp.down.weight"].chunk(2, 1)[rank])
        assert torch.equal(parts["norm"], values["norm"])
