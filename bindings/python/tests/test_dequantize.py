# SPDX-License-Identifier: Apache-2.0
"""coffer.dequantize: a quantised layer becomes a plain tensor, and what is refused."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import coffer


def quantised(path, scale=0.5):
    tensors = {
        "a.weight": ("F8_E4M3", [1, 4], bytes([0x38, 0x40, 0xB8, 0x7E])),
        "a.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", scale)),
        "a.input_scale": ("F32", [], bytes(4)),
        "norm": ("F32", [1], struct.pack("<f", 3)),
    }
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_layers_become_plain(tmp_path):
    done = coffer.dequantize(quantised(tmp_path / "q.safetensors"), tmp_path / "p.safetensors", dtype="float32")
    assert {tensor.before.name: tensor.after is not None for tensor in done.tensors} == {
        "a.weight": True,
        "a.weight_scale_inv": False,
        "a.input_scale": False,
        "norm": True,
    }
    with coffer.open(tmp_path / "p.safetensors") as file:
        assert file["a.weight"].numpy().tolist() == [[0.5, 1, -0.5, 224]]
        assert file["norm"].numpy().tolist() == [3]


def test_what_is_refused(tmp_path):
    path = quantised(tmp_path / "q.safetensors", np.inf)
    for wrong in ({"dtype": "I8"}, {"dtype": "nonsense"}, {"like": "torch"}):
        with pytest.raises(coffer.Error):
            coffer.dequantize(path, tmp_path / "p.safetensors", **wrong)
    with pytest.raises(coffer.Error, match="infinite"):
        coffer.dequantize(path, tmp_path / "p.safetensors")
    assert not (tmp_path / "p.safetensors").exists()
    coffer.dequantize(path, tmp_path / "p.safetensors", allow_not_finite=True)
