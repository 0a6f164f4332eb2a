# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation: what they say comes out does. The blocks of a document are one session, in a folder with
one file in it."""

from __future__ import annotations

import doctest
import json
import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import array_file
from document_parts import text_of
from hub_models import Hub, Repository

DOCUMENTS = [
    "docs/format.md",
    "docs/loading.md",
    "docs/python.md",
    "docs/python.md#Models on the Hugging Face Hub",
    "docs/editing.md",
    "bindings/python/README.md",
]


def model() -> bytes:
    arrays = {
        "wte.weight": np.arange(200 * 64, dtype=np.float32).reshape(200, 64) % 1000,
        "bias": np.full(64, 0.5, np.float32),
        "wpe.weight": np.zeros((4, 64), np.float16),
        "ln.weight": np.ones(64, ml_dtypes.bfloat16),
    }
    return array_file(arrays, {"format": "pt"})


def large() -> dict[str, bytes]:
    """A model of three files."""
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index = {"metadata": {"total_size": 768}, "weight_map": {f"layer.{i}": name for i, name in enumerate(names)}}
    files = {name: array_file({f"layer.{i}": np.zeros((8, 8), np.float32)}) for i, name in enumerate(names)}
    return files | {"model.safetensors.index.json": json.dumps(index).encode()}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The Hub that the documents speak of."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)
    with Hub({"owner/small": Repository({"model.safetensors": model()}), "owner/large": Repository(large())}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.origin)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        yield running


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.usefixtures("hub")
def test_examples(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(document)


def run_examples(document):
    """In the current folder."""
    Path("model.safetensors").write_bytes(model())
    blocks = re.findall(r"^```pycon\n(.*?)^```$", text_of(document), flags=re.M | re.S)
    assert blocks, "no example"
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, document, document, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(session, out=said.append)
    assert results.attempted > 0 and results.failed == 0, "".join(said)
