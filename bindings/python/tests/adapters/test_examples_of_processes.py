# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/loading.md that several processes run together."""

import os
import re

import ranks
import torch
from document_parts import text_of

from coffer.torch import save_file


def run_block(rank, world, folder, code):
    os.chdir(folder)
    found = {}
    exec(code, found)  # the documentation's
    return [{name: tensor.tolist() for name, tensor in found[what].items()} for what in ("tensors", "parts")]


def test_examples_for_several_processes(tmp_path):
    values = {"mlp.up.weight": torch.arange(24.0).view(6, 4), "mlp.down.weight": torch.arange(24.0).view(6, 4), "norm": torch.ones(3)}
    save_file(values, tmp_path / "model.safetensors")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text_of("docs/loading.md#Engines and frameworks"), flags=re.M | re.S)
    for rank, (tensors, parts) in enumerate(ranks.run(run_block, 2, tmp_path, str(tmp_path), code)):
        assert tensors == {name: tensor.tolist() for name, tensor in values.items()}
        assert parts["mlp.up.weight"] == values["mlp.up.weight"].chunk(2, 0)[rank].tolist()
        assert parts["mlp.down.weight"] == values["mlp.down.weight"].chunk(2, 1)[rank].tolist()
        assert parts["norm"] == tensors["norm"]
